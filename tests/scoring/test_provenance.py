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
from stored import described

import ragscore as rs
from ragscore.analysis.trend import stored_trend
from ragscore.scoring.metrics import TABLE
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import COMPONENTS
from tests.compared import compare_runs, provenance
from tests.messages import refused, says, warned

METRICS = ["hit@1", "citation_coverage", "faithfulness"]


def components(results, golden, metrics=METRICS, **more):
    return provenance(rs.evaluate(results, golden, metrics, **more))["a"]


def changed(before, after):
    return {component for component in COMPONENTS if before[component] != after[component]}


def judgments_of(*runs, judge="m", prompt="p1", temperature=0.0, criterion="faithfulness"):
    rows = [
        {"run_id": run, "query_id": "q1", "criterion": criterion, "item": "", "value": 1.0}
        for run in runs
    ]
    return pd.DataFrame(rows).assign(judge=judge, prompt_hash=prompt, temperature=temperature)


CITED = [
    record(f"q{n}", [hit(f"c{n}", f"d{n}", 1)], answer=answer("yes", paths=[f"docs/d{n}.md"]))
    for n in (1, 2, 3)
]


@pytest.fixture
def one(write_golden, write_run):
    results = rs.load_results(write_run("a", CITED))
    return replace(results, judgments=judgments_of("a")), rs.load_golden(
        write_golden(THREE_QUERIES)
    )


def relabelled(write_golden, name="new.yaml", **of_q1):
    return rs.load_golden(write_golden([THREE_QUERIES[0] | of_q1, *THREE_QUERIES[1:]], name))


def test_the_golden_component_is_what_is_asked_and_expected(one, write_golden):
    results, golden = one
    before = components(results, golden)
    assert changed(
        before, components(results, relabelled(write_golden, expected_chunk_ids=["other"]))
    ) == {"golden"}
    assert changed(
        before, components(results, relabelled(write_golden, query="asked otherwise"))
    ) == {"golden"}
    assert (
        changed(
            before, components(results, relabelled(write_golden, tags=["new"], difficulty="hard"))
        )
        == set()
    )
    assert (
        changed(
            before,
            components(results, rs.load_golden(write_golden(THREE_QUERIES[::-1], "turned.yaml"))),
        )
        == set()
    )


def test_the_rule_component_is_rule_and_level(one):
    assert changed(components(*one), components(*one, match="doc")) == {"rule"}
    assert changed(components(*one), components(*one, rule=rs.match.by_span)) == {"rule"}


@pytest.mark.parametrize(
    "policy",
    [{name: allowed[1]} for name, allowed in Policies.ALLOWED.items() if name != "match"],
    ids=str,
)
def test_the_policies_component_is_every_policy(one, policy):
    assert changed(components(*one), components(*one, **policy)) == {"policies"}


@pytest.mark.parametrize("other", [{"judge": "n"}, {"prompt": "p2"}, {"temperature": 0.7}], ids=str)
def test_the_judge_component_is_judge_prompt_and_temperature_of_the_metrics_asked_for(one, other):
    results, golden = one
    rejudged = replace(results, judgments=judgments_of("a", **other))
    assert changed(components(results, golden), components(rejudged, golden)) == {
        "judge_fingerprint"
    }
    assert (
        changed(components(results, golden, ["hit@1"]), components(rejudged, golden, ["hit@1"]))
        == set()
    )


def test_the_fields_component_is_what_metrics_are_measured_by(one):
    results, golden = one
    catalogue = replace(results, chunks=pd.DataFrame({"chunk_id": ["c1"], "run_id": ["a"]}))
    assert changed(components(results, golden), components(catalogue, golden)) == {"fields"}
    silent = replace(results, responses=results.responses.drop(columns="grounded"))
    assert changed(components(results, golden), components(silent, golden)) == {"fields"}
    assert (
        changed(components(results, golden, ["hit@1"]), components(silent, golden, ["hit@1"]))
        == set()
    )


def scored(store, results, golden, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.save(results, golden=golden, **how)


@pytest.fixture
def runs(write_golden, write_run, tmp_path):
    """A store, runs a and b, and the golden set."""
    results = rs.load_results([write_run("a", CITED), write_run("b", CITED)])
    return (
        rs.RunStore(tmp_path / "store"),
        results.select("a"),
        results.select("b"),
        rs.load_golden(write_golden(THREE_QUERIES)),
    )


def is_refused(store, component, *named, columns=None):
    with refused("a", "b", *named, field=component):
        store.scores(metrics=columns)
    with warned(component, "a", "b", *named):
        assert len(store.scores(metrics=columns, allow_different=[component])) == 6
    line = stored_trend(store, (columns or ["hit@1"])[0], order=["a", "b"]).table
    assert line["segment"].tolist() == [1, 2]
    assert line["break_reason"].notna().tolist() == [False, True]


def test_stored_scores_by_different_labels_are_refused_with_what_changed(runs, write_golden):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, b, relabelled(write_golden, expected_chunk_ids=["other"]))
    is_refused(store, "golden", 1, 3, "relabelled")
    store.refresh(golden)
    assert len(store.scores()) == 6


@pytest.mark.parametrize(
    ("how", "component", "named"),
    [
        ({"match": "doc"}, "rule", ("chunk", "by_chunk", "doc", "by_doc")),
        ({"missing": "zero"}, "policies", ("missing", "exclude", "zero")),
    ],
)
def test_stored_scores_by_different_rules_or_policies_are_refused(runs, how, component, named):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, b, golden, **how)
    is_refused(store, component, *named)


def test_stored_scores_of_different_formulas_are_refused_where_they_are_asked_for(
    runs, monkeypatch
):
    store, a, b, golden = runs
    scored(store, a, golden)
    monkeypatch.setitem(TABLE, "hit@k", replace(TABLE["hit@k"], version=2))
    scored(store, b, golden)
    is_refused(store, "metric_versions", "hit@k", 1, 2, columns=["hit@1"])
    assert len(store.scores(metrics=["mrr"])) == 6


def test_every_policy_is_stored_with_the_run_and_holds_when_it_is_scored_anew(runs, write_run):
    store, _, _, golden = runs
    policies = {name: allowed[1] for name, allowed in Policies.ALLOWED.items() if name != "match"}
    golden = replace(golden, targets=golden.targets.assign(grade=np.int32(2)))
    store.save(rs.load_results(write_run("a", CITED[:2])), golden=golden, match="doc", **policies)
    stored = described(store, "a")["scoring"]
    assert stored["policies"] == policies | {"match": "doc"}
    of_scoring = {field.name for field in fields(Policies)}
    assert set(stored["policies"]) == of_scoring
    for _ in range(2):
        # the third was never asked: missing="zero"
        assert store.scores(metrics=["hit@1"])["hit@1"].tolist() == [1, 1, 0]
        store.refresh(golden)
    assert described(store, "a")["scoring"] == stored


def test_ignoring_what_is_no_component_is_an_error(runs):
    store, a, _, golden = runs
    scored(store, a, golden)
    with refused("allow_different", "golden_hash", ", ".join(COMPONENTS), field="allow_different"):
        store.scores(allow_different=["golden_hash"])


def both(pair, **of_b):
    results, golden = pair
    judgments = pd.concat([judgments_of("a"), judgments_of("b", **of_b)], ignore_index=True)
    return replace(results, judgments=judgments), golden


@pytest.mark.parametrize("other", [{"judge": "n"}, {"prompt": "p2"}, {"temperature": 0.7}], ids=str)
def test_judgments_of_different_judges_are_not_compared_unless_asked(pair, other):
    results, golden = both(pair, **other)
    with refused("m:p1:0", field="judge_fingerprint"):
        compare_runs(results, golden, "a", "b", metrics=["hit@1", "faithfulness"])
    with warned("judge_fingerprint"):
        cmp = compare_runs(
            results, golden, "a", "b", metrics=["faithfulness"], allow_different="judge_fingerprint"
        )
    row = cmp.invariants.set_index("name").loc["judge_fingerprint"]
    assert (row["state"], row["baseline"]) == ("differs", "faithfulness:m:p1:0")
    compare_runs(results, golden, "a", "b", metrics=["hit@1"])  # nothing judged is compared


def test_another_judge_breaks_the_line_of_what_it_judged(pair):
    ev = rs.evaluate(*both(pair, judge="m2"), ["faithfulness", "hit@1"])
    judged, found = (
        ev.trend(metric, order=["a", "b"]).table for metric in ("faithfulness", "hit@1")
    )
    assert judged["segment"].tolist() == [1, 2] and found["segment"].tolist() == [1, 1]
    says(judged["break_reason"][1], "faithfulness", "m:p1:0", "m2:p1:0")


def test_judges_that_differ_at_another_criterion_don_t_matter(pair):
    results, golden = both(pair)
    more = judgments_of("b", judge="n", criterion="answer_relevance")
    more = pd.concat([results.judgments, more], ignore_index=True)
    compare_runs(replace(results, judgments=more), golden, "a", "b", metrics=["faithfulness"])


def test_temperatures_to_within_a_thousandth_are_the_same_judge(pair):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_runs(*both(pair, temperature=0.0005), "a", "b", metrics=["faithfulness"])


def test_a_run_that_nobody_judged_contradicts_no_judge(pair):
    results, golden = pair
    cmp = compare_runs(
        replace(results, judgments=judgments_of("a")), golden, "a", "b", metrics=["faithfulness"]
    )
    assert cmp.invariants.set_index("name").loc["judge_fingerprint", "state"] == "unknown"


CONFIGS = {
    "a": {"k": 5, "rerank": {"depth": 10, "model": "m"}, "same": 1},
    "b": {"k": 10, "rerank": {"depth": 50, "model": "m"}, "same": 1},
}


@pytest.fixture
def configured(write_golden, write_run):
    results = rs.load_results(
        [write_run(name, RUN_A, config=config) for name, config in CONFIGS.items()]
    )
    return results, rs.load_golden(write_golden(THREE_QUERIES))


def test_config_keys_that_nobody_declared_are_flagged(configured):
    with warned("a", "b", "rerank.depth", "vary"):
        cmp = compare_runs(*configured, "a", "b", vary=["k"])
    assert cmp.config_diff.to_dict("records") == [
        {"key": "k", "baseline": "5", "candidate": "10", "declared": True},
        {"key": "rerank.depth", "baseline": "10", "candidate": "50", "declared": False},
    ]  # fmt: skip
    # a key stands for those it holds
    cmp = compare_runs(*configured, "a", "b", vary=["k", "rerank"])
    assert cmp.config_diff["declared"].tolist() == [True, True]


def test_a_key_to_vary_that_no_run_has_is_an_error(configured):
    with refused("depth", "rerank.depth", field="vary"):
        compare_runs(*configured, "a", "b", vary="depth")


def test_differences_of_scores_by_different_judges_are_refused_as_comparisons_are(pair):
    results, golden = both(pair, judge="n")
    ev = rs.evaluate(results, golden, ["hit@1", "faithfulness"])
    with refused("m:p1:0", "n:p1:0", field="judge_fingerprint"):
        rs.extras.score_diff(ev, "a", "b")
    with warned("judge_fingerprint", "m:p1:0", "n:p1:0"):
        diff = rs.extras.score_diff(ev, "a", "b", allow_different="judge_fingerprint")
    assert [row["metric"] for row in diff["rows"]] == ["hit@1", "faithfulness"]
    # nothing judged is subtracted
    rs.extras.score_diff(rs.evaluate(results, golden, ["hit@1"]), "a", "b")


def test_a_judge_that_one_run_does_not_state_is_warned_of(pair):
    results, golden = both(pair)
    judgments = results.judgments
    silent = judgments["judge"].mask(judgments["run_id"].astype("str") == "b")
    ev = rs.evaluate(
        replace(results, judgments=judgments.assign(judge=silent)), golden, ["faithfulness"]
    )
    with warned("faithfulness"):
        rs.extras.score_diff(ev, "a", "b")
