"""What decides a comparison: primary metrics by aspect, the pair of refusals, flips, one word."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.scoring.primary import aspects_of, default_primary, primary_of
from ragscore.stats import joint_verdict, mcnemar_p, overall_word
from tests.messages import refused

PAIR = ("answered_unanswerable", "false_refusal")


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")


def frame(**columns):
    return pd.DataFrame({"run_id": "a", "state": "scored", "level": "doc", **columns})


def test_one_metric_of_each_aspect_decides_by_default():
    assert default_primary(["hit@10", "mrr", "passed", "false_refusal", "token_f1"]) == (
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


@pytest.mark.parametrize(
    ("parts", "margins", "word"),
    [
        ([("better", 0.1), ("can't tell", 0.0)], {}, "better"),
        ([("better", 0.1), ("better", 0.1)], {}, "better"),
        ([("better", 0.1), ("can't tell", -0.02)], {}, "can't tell"),
        ([("better", 0.1), ("worse", -0.2)], {}, "mixed"),
        ([("worse", -0.1), ("can't tell", 0.1)], {}, "worse"),
        ([("can't tell", 0.1), ("can't tell", 0.1)], {}, "can't tell"),
        # with a margin, the other one must be shown to keep it, or may fall within it
        ([("better", 0.1), ("can't tell", 0.02)], {"b": 0.1}, "can't tell"),
        ([("better", 0.1), ("no worse than margin", -0.02)], {"b": 0.1}, "better"),
        (
            [("same within margin", 0.0), ("no worse than margin", 0.0)],
            {"a": 0.1, "b": 0.1},
            "no worse than margin",
        ),
    ],
)
def test_two_metrics_that_trade_are_judged_jointly(parts, margins, word):
    assert joint_verdict(dict(zip("ab", parts, strict=True)), margins).word == word


@pytest.mark.parametrize(
    ("words", "word"),
    [
        (["better", "can't tell"], "better"),
        (["better", "worse"], "mixed"),
        (["mixed", "better"], "mixed"),
        (["worse", "no worse than margin"], "worse"),
        (["same within margin", "no worse than margin"], "no worse"),
        (["no worse than margin", "can't tell"], "can't tell"),
        (["higher", "can't tell"], "higher"),
        ([], "can't tell"),
    ],
)
def test_the_overall_word_follows_the_aspects(words, word):
    assert overall_word(words) == word


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
    two = ev.select(["dense", "hybrid_rerank"])
    cmp = two.compare("dense", "hybrid_rerank")
    assert cmp.primary == two.primary
    rows = cmp.deltas.set_index("metric")
    assert rows.loc["latency_ms", ["verdict", "is_primary"]].tolist() == ["worse", False]
    assert cmp.overall == "better"  # by passed alone
    slower = rs.evaluate(two.results, two.golden, primary=["mrr@10", "latency_ms"])
    assert slower.compare("dense", "hybrid_rerank").overall == "worse"


def test_metrics_that_are_asked_for_decide_where_no_primary_one_is_among_them(ev):
    cmp = ev.compare("dense", "hybrid_rerank", ["hit@3", "ndcg@10"])
    assert cmp.primary == ("ndcg@10",)
    assert ev.compare("dense", "hybrid_rerank", "hit@3").primary == ("hit@3",)
    # one metric of refusals decides nothing without the other, unless it is all that is asked for
    lone = ev.compare("dense", "hybrid", ["hit@3", "mrr@10", "ndcg@10", "false_refusal"])
    assert lone.primary == ("ndcg@10",) and lone.overall == "can't tell"
    assert ev.compare("dense", "hybrid", "false_refusal").primary == ("false_refusal",)
    # a metric alone is tested at the whole level: by its exact p, where few queries moved
    pair = ev.select(["dense", "hybrid_rerank"])
    assert pair.compare("dense", "hybrid_rerank", "ndcg@10").overall == "better"


def test_few_moved_queries_have_an_exact_p_beside_and_no_correction_makes_a_p_smaller(ev):
    deltas = ev.compare("bm25", "hybrid_rerank").deltas.set_index("metric")
    row = deltas.loc["answered_unanswerable"]
    assert row["n_better"] + row["n_worse"] < 25
    exact = float(mcnemar_p(row["n_better"], row["n_worse"], is_exact=True))
    assert row["p_exact"] == pytest.approx(exact)
    assert deltas["p_exact"].isna()["ndcg@10"]
    tested = deltas.dropna(subset=["p"])
    assert (tested["p_adjusted"] >= tested[["p", "p_exact"]].max(axis=1)).all()


def test_flips_are_counted_and_tested_as_changes_of_their_metric(ev):
    cmp = ev.compare("dense", "hybrid")
    counts = cmp.flip_counts.set_index("metric")
    kinds = cmp.flips.groupby("metric", observed=True)["kind"].value_counts().unstack(fill_value=0)
    kinds = kinds.reindex(counts.index, fill_value=0)
    assert counts["n_regressions"].tolist() == kinds["regression"].tolist()
    assert counts["n_improvements"].tolist() == kinds["improvement"].tolist()
    # flips of a 0/1 metric are its changes: one test, one p
    adjusted = cmp.deltas.set_index("metric")["p_adjusted"]
    assert counts["p_adjusted"].tolist() == adjusted[counts.index].tolist()
