"""What decides a comparison: primary metrics by aspect, the pair of refusals, one word."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.scoring.primary import aspects_of, primary_of
from tests.messages import refused

PAIR = ("answered_unanswerable", "false_refusal")


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")


def frame(**columns):
    return pd.DataFrame({"run_id": "a", "state": "scored", "level": "doc", **columns})


def default_of(*names):
    return primary_of(frame(**{name: [1.0] for name in names}))


def test_one_metric_of_each_aspect_decides_by_default():
    assert default_of("hit@10", "mrr", "passed", "false_refusal", "token_f1") == (
        "mrr", "token_f1", "false_refusal", "passed",
    )  # fmt: skip
    scores = frame(**{"ndcg@10": [np.nan], "mrr@10": [0.5], "length": [3.0]})
    assert primary_of(scores) == ("mrr@10",), "ndcg@10 has no value"
    assert primary_of(frame(length=[3.0])) == ("length",)


def test_one_metric_of_refusals_brings_the_other():
    scores = frame(**{name: [1.0] for name in PAIR}, **{"mrr": [1.0]})
    assert primary_of(scores, ["false_refusal"]) == ("false_refusal", "answered_unanswerable")
    assert primary_of(scores[["run_id", "state", "level", "false_refusal"]], "false_refusal") == (
        "false_refusal",
    )
    with refused(field="primary"):
        primary_of(scores, [])


def test_primary_metrics_make_aspects():
    assert aspects_of(["ndcg@10", *PAIR, "passed", "length"]) == {
        "retrieval": ("ndcg@10",), "refusals": PAIR, "passed": ("passed",), "length": ("length",),
    }  # fmt: skip
    assert aspects_of(["ndcg@10", "mrr@10"]) == {"ndcg@10": ("ndcg@10",), "mrr@10": ("mrr@10",)}


def test_a_candidate_that_refuses_less_is_not_better_for_it(ev):
    # hybrid refuses fewer answerable queries (11 / 0), and answers 2 more that it should refuse
    cmp = ev.compare("dense", "hybrid")
    own = cmp.deltas.set_index("metric")
    assert own.loc["false_refusal", "verdict"] == "better"
    assert own.loc["answered_unanswerable", ["n_better", "n_worse"]].tolist() == [0, 2]
    refusals = cmp.aspects.set_index("aspect").loc["refusals"]
    assert refusals["verdict"] == "can't tell"
    assert cmp.overall == "can't tell"


def test_only_primary_metrics_make_the_overall_word(ev):
    cmp = ev.compare("dense", "hybrid_rerank")
    assert cmp._primary == ev.primary
    rows = cmp.deltas.set_index("metric")
    assert pd.isna(rows.loc["latency_ms", "verdict"]) and rows.loc["latency_ms", "low"] > 0
    assert cmp.overall == "can't tell"
    assert ev.compare("dense", "hybrid_rerank", ["mrr@10", "latency_ms"]).overall == "worse"


def test_metrics_that_are_named_are_what_is_asked(ev):
    cmp = ev.compare("dense", "hybrid_rerank", ["hit@3", "ndcg@10"])
    assert cmp._primary == ("hit@3", "ndcg@10") == tuple(cmp.deltas["metric"])
    lone = ev.compare("dense", "hybrid", "false_refusal")
    assert (lone._primary, lone.overall) == (("false_refusal",), "better")
    assert lone.confidence == 0.95


def test_passed_decides_only_beside_more_than_retrieval():
    assert default_of("hit@10", "mrr", "passed") == ("mrr",)
    assert default_of("passed") == ("passed",)
    assert default_of("mrr", "passed", "false_refusal")[-1] == "passed"


@pytest.mark.filterwarnings("ignore:scores of different provenance:UserWarning")
def test_a_metric_of_one_run_alone_has_no_word_and_one_line():
    rows = [{"qid": f"q{n}", "retrieved": ["a", "b"], "answer": "yes"} for n in range(12)]
    golden = [{"id": f"q{n}", "query": "?", "expected_doc_ids": ["b"], "must_contain": ["yes"]}
              for n in range(12)]  # fmt: skip
    bare = [{name: row[name] for name in ("qid", "retrieved")} for row in rows]
    sides = [rs.load_results(one, run_id=name) for name, one in (("full", rows), ("bare", bare))]
    cmp = rs.compare(*sides, golden)
    own = cmp.deltas.set_index("metric")
    assert own.loc["answer_checks", "is_primary"] and own.loc["answer_checks", "n"] == 0
    assert pd.isna(own.loc["answer_checks", "verdict"])
    assert cmp.aspects["aspect"].tolist() == ["retrieval", "passed"]
    assert "Only one run has values of answer_checks" in repr(cmp)
