"""Rulers.

Each component is told by itself, and what different ones measured is not set side by side unless
asked.
"""

import warnings
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, THREE_QUERIES, answer, hit, record
from plausible_runs import put
from stored import described

import ragscore as rs
from ragscore.analysis.trend import stored_trend
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import COMPONENTS
from tests.compared import compare_runs, provenance
from tests.messages import refused, says, warned

JUDGED = ["hit@1", "faithfulness"]
METRICS = [*JUDGED, "citation_coverage"]
POLICIES = {name: allowed[1] for name, allowed in Policies.ALLOWED.items() if name != "match"}
JUDGES = [{"judge": "n"}, {"prompt_hash": "p2"}, {"temperature": 0.7}]
FOUND = [record(f"q{n}", [hit(f"c{n}", f"d{n}", 1)]) for n in (1, 2, 3)]
CITED = [one | {"answer": answer("yes", paths=["docs/d1.md"])} for one in FOUND]


def judgments_of(*runs, criterion="faithfulness", **other):
    return pd.DataFrame(
        {"run_id": runs, "query_id": "q1", "criterion": criterion, "item": "", "value": 1.0}
    ).assign(**{"judge": "m", "prompt_hash": "p1", "temperature": 0.0} | other)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    file = put(tmp_path_factory.mktemp("runs") / "a", CITED)
    results = replace(rs.load_results(file), judgments=judgments_of("a"))
    return results, rs.load_golden(THREE_QUERIES)


@pytest.fixture(scope="module")
def before(one):
    return rs.evaluate(*one, METRICS)


def changed(before, after, metrics=METRICS):
    """The components by which the scores of two evaluations differ."""
    a, b = (provenance(ev, metrics)["a"] for ev in (before, after))
    return {component for component in COMPONENTS if a[component] != b[component]}


def relabelled(**of_q1):
    return rs.load_golden([THREE_QUERIES[0] | of_q1, *THREE_QUERIES[1:]])


@pytest.mark.parametrize(
    ("how", "components"),
    [
        # labels and questions are one component; annotations and order are none
        ({"golden": relabelled(expected_chunk_ids=["other"])}, {"golden"}),
        ({"golden": relabelled(query="asked otherwise")}, {"golden"}),
        ({"golden": relabelled(tags=["new"], difficulty="hard")}, set()),
        ({"golden": rs.load_golden(THREE_QUERIES[::-1])}, set()),
        # rule and level are one, and every policy is another
        ({"match": "doc"}, {"rule"}), ({"rule": rs.match.by_span}, {"rule"}),
        *(({name: value}, {"policies"}) for name, value in POLICIES.items()),
    ],
    ids=["relabelled", "reworded", "annotated", "turned", "match", "rule", *POLICIES],
)  # fmt: skip
def test_golden_set_rule_and_policies_are_components(one, before, how, components):
    results, golden = one
    after = rs.evaluate(results, metrics=JUDGED, **{"golden": golden} | how)
    assert changed(before, after, JUDGED) == components


@pytest.mark.parametrize(
    ("change", "component"),
    [({"judgments": judgments_of("a", **other)}, "judge_fingerprint") for other in JUDGES]
    + [({"chunks": pd.DataFrame({"chunk_id": ["c1"], "run_id": [None]})}, "fields"),
       ({}, "fields")],
    ids=[*map(str, JUDGES), "catalogue", "silent of grounded"],
)  # fmt: skip
def test_judges_and_fields_count_for_the_metrics_that_need_them(one, before, change, component):
    results, golden = one
    change = change or {"responses": results.responses.drop(columns="grounded")}
    other = rs.evaluate(replace(results, **change), golden, METRICS)
    assert changed(before, other) == {component}
    assert changed(before, other, ["hit@1"]) == set()


# In a store


def save(store, results, golden, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.save(results, golden=golden, **how)


@pytest.fixture
def runs(one, store):
    """A store, runs a and b without answers, and the golden set."""
    results, golden = one
    found = {kind: getattr(results, kind) for kind in ("runs", "hits")}
    found["responses"] = results.responses[["run_id", "query_id", "query"]]
    a, b = (
        rs.Results(**{kind: frame.assign(run_id=run) for kind, frame in found.items()})
        for run in "ab"
    )
    return store, a, b, golden


def is_refused(store, component, *named, columns=None):
    with refused("a", "b", *named, field=component):
        store.scores(metrics=columns)
    with warned(component, "a", "b", *named):
        assert len(store.scores(metrics=columns, allow_different=[component])) == 6
    line = stored_trend(store, (columns or ["hit@1"])[0], order=["a", "b"]).table
    assert line["segment"].tolist() == [1, 2]
    assert line["break_reason"].notna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("how", "component", "named"),
    [
        ({}, "golden", (1, 3, "relabelled")),
        ({"match": "doc"}, "rule", ("chunk", "by_chunk", "doc", "by_doc")),
    ],
)
def test_stored_scores_by_different_rulers_are_refused(runs, how, component, named):
    store, a, b, golden = runs
    save(store, a, golden)
    save(store, b, golden if how else relabelled(expected_chunk_ids=["other"]), **how)
    is_refused(store, component, *named)
    if component == "golden":
        store.refresh(golden)
        assert len(store.scores()) == 6
    with refused("allow_different", "golden_hash", ", ".join(COMPONENTS), field="allow_different"):
        store.scores(allow_different=["golden_hash"])


def test_stored_scores_of_different_formulas_are_refused_where_they_are_asked_for(
    runs, monkeypatch
):
    store, a, b, golden = runs
    save(store, a, golden)
    monkeypatch.setitem(TABLE, "hit@k", replace(TABLE["hit@k"], version=2))
    save(store, b, golden)
    is_refused(store, "metric_versions", "hit@k", 1, 2, columns=["hit@1"])
    assert len(store.scores(metrics=["mrr"])) == 6


def test_every_policy_is_stored_with_the_run_and_holds_when_it_is_scored_anew(runs, write_run):
    store, _, _, golden = runs
    golden = replace(golden, targets=golden.targets.assign(grade=np.int32(2)))
    store.save(rs.load_results(write_run("a", FOUND[:2])), golden=golden, match="doc", **POLICIES)
    stored = described(store, "a")["scoring"]
    assert stored["policies"] == POLICIES | {"match": "doc"}
    assert set(stored["policies"]) == {field.name for field in fields(Policies)}
    # the third was never asked: missing="zero"
    assert store.scores(metrics=["hit@1"])["hit@1"].tolist() == [1, 1, 0]
    store.refresh(golden)
    assert described(store, "a")["scoring"] == stored
    assert store.scores(metrics=["hit@1"])["hit@1"].tolist() == [1, 1, 0]


# Compared


def both(pair, **of_b):
    results, golden = pair
    judgments = pd.concat([judgments_of("a"), judgments_of("b", **of_b)], ignore_index=True)
    return replace(results, judgments=judgments), golden


def test_judgments_of_different_judges_are_not_compared_unless_asked(pair):
    of = both(pair, prompt_hash="p2")
    with refused("m:p1:0", field="judge_fingerprint"):
        compare_runs(*of, "a", "b", metrics=["hit@1", "faithfulness"])
    how = {"metrics": ["faithfulness"], "allow_different": "judge_fingerprint"}
    with warned("judge_fingerprint"):
        cmp = compare_runs(*of, "a", "b", **how)
    row = cmp.invariants.set_index("name").loc["judge_fingerprint"]
    assert row[["state", "baseline"]].tolist() == ["differs", "faithfulness:m:p1:0"]
    compare_runs(*of, "a", "b", metrics=["hit@1"])  # nothing judged is compared
    ev = rs.evaluate(*of, ["faithfulness", "hit@1"])
    judged, found = (ev.trend(one, order=["a", "b"]).table for one in ("faithfulness", "hit@1"))
    assert judged["segment"].tolist() == [1, 2] and found["segment"].tolist() == [1, 1]
    says(judged["break_reason"][1], "faithfulness", "m:p1:0")


OTHER_CRITERION = judgments_of("b", judge="n", criterion="answer_relevance")


@pytest.mark.parametrize(
    ("judgments", "state"),
    [
        # of a criterion that nobody asked for; a thousandth of the temperature; of one run alone
        ([judgments_of("a", "b"), OTHER_CRITERION], "differs"),
        ([judgments_of("a"), judgments_of("b", temperature=0.0005)], "equal"),
        ([judgments_of("a")], "unknown"),
    ],
    ids=["criterion", "temperature", "unjudged"],
)
def test_judges_that_do_not_contradict_each_other_are_compared(pair, judgments, state):
    results = replace(pair[0], judgments=pd.concat(judgments, ignore_index=True))
    cmp = compare_runs(results, pair[1], "a", "b", metrics=["faithfulness"])
    assert cmp.invariants.set_index("name")["state"].get("judge_fingerprint", "equal") == state


def test_differences_of_scores_by_different_judges_are_refused_as_comparisons_are(pair):
    ev = rs.evaluate(*both(pair, judge="n"), ["hit@1", "faithfulness"])
    with refused("m:p1:0", "n:p1:0", field="judge_fingerprint"):
        rs.extras.score_diff(ev, "a", "b")
    with warned("judge_fingerprint", "m:p1:0", "n:p1:0"):
        diff = rs.extras.score_diff(ev, "a", "b", allow_different="judge_fingerprint")
    assert [row["metric"] for row in diff["rows"]] == ["hit@1", "faithfulness"]


CONFIGS = {
    "a": {"k": 5, "rerank": {"depth": 10, "model": "m"}, "same": 1},
    "b": {"k": 10, "rerank": {"depth": 50, "model": "m"}, "same": 1},
}


def test_config_keys_that_nobody_declared_are_flagged(write_golden, write_run):
    files = [write_run(name, RUN_A, config=config) for name, config in CONFIGS.items()]
    of = rs.load_results(files), rs.load_golden(write_golden(THREE_QUERIES))
    with warned("a", "b", "rerank.depth", "vary"):
        cmp = compare_runs(*of, "a", "b", vary=["k"])
    assert cmp.config_diff.to_dict("records") == [
        {"key": "k", "baseline": "5", "candidate": "10", "declared": True},
        {"key": "rerank.depth", "baseline": "10", "candidate": "50", "declared": False},
    ]
    # a key stands for those it holds
    cmp = compare_runs(*of, "a", "b", vary=["k", "rerank"])
    assert cmp.config_diff["declared"].tolist() == [True, True]
    with refused("depth", "rerank.depth", field="vary"):
        compare_runs(*of, "a", "b", vary="depth")
