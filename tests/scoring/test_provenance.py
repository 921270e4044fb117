"""Rulers.

Each component is told by itself, and what different ones measured is not set side by side unless
asked.
"""

import warnings
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, hit, record
from stored import describe, described

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.trend.trend import trend
from ragscore.scoring.metrics import BY_NAME, labels
from ragscore.scoring.policies import POLICIES
from ragscore.scoring.provenance import COMPONENTS, provenance
from tests.messages import refused, says, warned

METRICS = ["hit@1", "citation_coverage", "faithfulness"]


def components(results, golden, metrics=METRICS, **more):
    return (
        provenance(results, golden, metrics, **more)
        .set_index(["run_id", "component"])["hash"]
        .loc["a"]
        .fillna("")
        .to_dict()
    )


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


def test_a_provenance_says_in_words_what_measures(one):
    table = provenance(*one, METRICS)
    assert table["component"].tolist() == list(COMPONENTS) and set(table["run_id"]) == {"a"}
    content = table.set_index("component")["content"]
    says(content["golden"], 3)
    says(content["rule"], "chunk", "by_chunk")
    says(content["judge_fingerprint"], "faithfulness", "m:p1:0")
    says(content["metric_versions"], "hit@k 1", "citation_coverage 1", "faithfulness 1")
    told = set(POLICIES) - {"match", "calls"}  # the level is told, and one call needs no word
    held = [f"{name} '{POLICIES[name][0]}'" for name in sorted(told)]
    says(content["policies"], *held)
    says(content["fields"], "responses.grounded recorded", "chunks not recorded")


@pytest.mark.large
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


@pytest.mark.large
def test_a_query_without_a_text_has_a_provenance():
    queries = pd.DataFrame({"query_id": ["a", "b"], "query": ["x", None]})
    targets = pd.DataFrame({"query_id": ["a", "b"], "level": "doc", "target_id": ["d", "e"]})
    ev = rs.evaluate({"run": {"a": ["d"], "b": ["f"]}}, rs.Golden(queries=queries, targets=targets))
    assert (ev.provenance("hit@1")["component"] == "golden").any()


@pytest.mark.large
def test_the_rule_component_is_rule_and_level(one):
    assert changed(components(*one), components(*one, match="doc")) == {"rule"}
    assert changed(components(*one), components(*one, rule=rs.match.by_span())) == {"rule"}


@pytest.mark.large
@pytest.mark.parametrize(
    "policy", [{name: allowed[1]} for name, allowed in POLICIES.items() if name != "match"], ids=str
)
def test_the_policies_component_is_every_policy(one, policy):
    assert changed(components(*one), components(*one, **policy)) == {"policies"}


@pytest.mark.large
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


@pytest.mark.large
def test_the_version_component_is_that_of_the_metrics_asked_for(one, monkeypatch):
    before, of_others = components(*one), components(*one, ["mrr"])
    monkeypatch.setattr(labels, "_read", labels._read.__wrapped__)
    monkeypatch.setitem(BY_NAME, "hit@k", replace(BY_NAME["hit@k"], version=2))
    assert (
        changed(before, components(*one)) == {"metric_versions"}
        and changed(of_others, components(*one, ["mrr"])) == set()
    )


@pytest.mark.large
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


def test_scores_of_one_provenance_come_without_a_word(runs):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, b, golden)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(store.scores()) == 6 and len(store.metrics())
    assert store.provenance().groupby("component")["hash"].nunique(dropna=False).eq(1).all()


def is_refused(store, component, *named, columns=None):
    with refused("a", "b", *named, field=component):
        store.scores(columns)
    with warned(component, "a", "b", *named) as told:
        assert len(store.scores(columns, allow_different=[component])) == 6
    assert told[0].filename == __file__
    with warned(component, *named):
        some = store.scores(columns, allow_different=True)
        pd.testing.assert_frame_equal(store.scores(columns, allow_different="all"), some)
    line = trend(store, (columns or ["hit@1"])[0], order=["a", "b"]).table
    assert line["segment"].tolist() == [1, 2] and line["break_reason"].notna().tolist() == [
        False,
        True,
    ]


@pytest.mark.slow
def test_stored_scores_by_different_labels_are_refused_with_what_changed(runs, write_golden):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, b, relabelled(write_golden, expected_chunk_ids=["other"]))
    measured_by = store.provenance().query("component == 'golden'")["content"]
    assert measured_by.nunique() == 2
    is_refused(store, "golden", *measured_by, 1, 3, "relabelled")
    with refused("refresh(golden)", field="golden"):
        store.metrics()
    assert store.golden_changes("a", "b").to_dict("records") == [
        {"query_id": "q1", "change": "relabelled"}
    ]
    store.refresh(golden)
    assert len(store.scores()) == 6 and not len(store.golden_changes("a", "b"))


@pytest.mark.slow
def test_other_tags_are_no_other_provenance(runs, write_golden):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, b, relabelled(write_golden, tags=["new"]))
    assert len(store.scores()) == 6 and store.golden_changes("a", "b")["change"].tolist() == [
        "annotated"
    ]


@pytest.mark.large
def test_stored_scores_by_different_rules_are_refused(runs):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, b, golden, match="doc")
    is_refused(store, "rule", "chunk", "by_chunk", "doc", "by_doc")


@pytest.mark.slow
def test_stored_scores_by_different_policies_are_refused(runs):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, b, golden, missing="zero")
    is_refused(store, "policies", "missing", "exclude", "zero")


def test_stored_scores_of_different_formulas_are_refused_where_they_are_asked_for(
    runs, monkeypatch
):
    store, a, b, golden = runs
    scored(store, a, golden)
    monkeypatch.setattr(labels, "_read", labels._read.__wrapped__)
    monkeypatch.setitem(BY_NAME, "hit@k", replace(BY_NAME["hit@k"], version=2))
    scored(store, b, golden)
    is_refused(store, "metric_versions", "hit@k", 1, 2, columns=["hit@1"])
    assert len(store.scores(["mrr"])) == 6


@pytest.mark.slow
def test_stored_scores_measured_with_and_without_a_field_are_refused_where_it_matters(runs):
    store, a, b, golden = runs
    scored(store, a, golden)
    scored(store, replace(b, responses=b.responses.drop(columns="grounded")), golden)
    held = "responses.grounded = recorded", "responses.grounded = not recorded"
    is_refused(store, "fields", *held, columns=["citation_coverage"])
    assert len(store.scores(["hit@1"])) == 6


@pytest.mark.large
def test_a_run_without_answers_differs_in_passed_alone_and_stands_beside_others(runs, write_run):
    store, a, _, golden = runs
    scored(store, a, golden)
    scored(store, rs.load_results(write_run("searching", RUN_B)), golden)
    with warned("a", "searching", "responses.answer", "passed"):
        assert len(store.scores()) == 6
    assert len(store.scores(["hit@1"])) == 6


@pytest.mark.large
@pytest.mark.parametrize("part", ["provenance", "policies", "match", "profile"])
def test_a_stored_scoring_that_does_not_say_how_it_was_made_is_refused(runs, part):
    store, a, _, golden = runs
    scored(store, a, golden)

    def forget(run):
        del run["scoring"][part]

    describe(store.root, "a", forget)
    with refused(file="run.json", field=f"scoring.{part}"):
        store.scores()


@pytest.mark.large
def test_every_policy_is_stored_with_the_run_and_holds_when_it_is_scored_anew(
    runs, write_run, tmp_path
):
    store, _, _, golden = runs
    policies = {name: allowed[1] for name, allowed in POLICIES.items() if name != "match"}
    policies |= {"min_grade": 2, "judged_only": True}
    golden = replace(golden, targets=golden.targets.assign(grade=np.int32(2)))
    results = rs.load_results(write_run("a", CITED[:2]))
    store.save(results, golden=golden, match="doc", **policies)
    stored = described(store, "a")["scoring"]
    assert stored["policies"] == policies | {"match": "doc"} and set(stored["policies"]) == {
        field.name for field in fields(rs.Policies) if field.name not in ("ids", "refusals")
    }
    before = store.scores(["hit@1"])["hit@1"].tolist()
    assert before == [1, 1, 0]  # the third was never asked: missing="zero"
    store.refresh(golden)
    assert store.scores(["hit@1"])["hit@1"].tolist() == before
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


@pytest.mark.large
@pytest.mark.parametrize("other", [{"judge": "n"}, {"prompt": "p2"}, {"temperature": 0.7}], ids=str)
def test_judgments_of_different_judges_are_not_compared_unless_asked(pair, other):
    results, golden = both(pair, **other)
    with refused("m:p1:0", field="judge_fingerprint"):
        compare_runs(results, golden, "a", "b", metrics=["hit@1", "faithfulness"])
    with warned("judge_fingerprint") as told:
        cmp = compare_runs(
            results,
            golden,
            "a",
            "b",
            metrics=["faithfulness"],
            allow_different=["judge_fingerprint"],
        )
    assert told[0].filename == __file__
    row = cmp.invariants.set_index("name").loc["judge_fingerprint"]
    assert (
        row["state"] == "differs"
        and row["baseline"] == "faithfulness:m:p1:0"
        and len(cmp.deltas) == 1
    )
    compare_runs(results, golden, "a", "b", metrics=["hit@1"])  # nothing judged is compared


@pytest.mark.large
@pytest.mark.parametrize("other", [{"judge": "m2"}, {"prompt": "p2"}, {"temperature": 0.7}])
def test_another_judge_breaks_the_line_of_what_it_judged(pair, other):
    results, golden = pair
    results = replace(
        results,
        judgments=pd.concat([judgments_of("a"), judgments_of("b", **other)], ignore_index=True),
    )
    scores = rs.score(results, golden, ["faithfulness", "hit@1"])
    judged, found = (
        trend(scores, metric, results=results, order=["a", "b"]).table
        for metric in ("faithfulness", "hit@1")
    )
    assert judged["segment"].tolist() == [1, 2]
    judge = {"judge": "m", "prompt": "p1", "temperature": 0} | other
    other_judge = ":".join(str(part) for part in judge.values())
    says(judged["break_reason"][1], "faithfulness", "m:p1:0", other_judge)
    assert found["segment"].tolist() == [1, 1]


def test_judges_that_differ_at_another_criterion_don_t_matter(pair):
    results, golden = both(pair)
    more = judgments_of("b", judge="n", criterion="answer_relevance")
    compare_runs(
        replace(results, judgments=pd.concat([results.judgments, more], ignore_index=True)),
        golden,
        "a",
        "b",
        metrics=["faithfulness"],
    )
    with warned("judge_fingerprint", "m:p1:0", "n:p1:0"):
        compare_runs(
            *both(pair, judge="n"),
            "a",
            "b",
            metrics=["judge_failed"],
            allow_different="judge_fingerprint",
        )


def test_temperatures_to_within_a_thousandth_are_the_same_judge(pair):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compare_runs(*both(pair, temperature=0.0005), "a", "b", metrics=["faithfulness"])


@pytest.mark.large
def test_a_run_that_nobody_judged_contradicts_no_judge(pair):
    results, golden = pair
    cmp = compare_runs(
        replace(results, judgments=judgments_of("a")), golden, "a", "b", metrics=["faithfulness"]
    )
    assert cmp.invariants.set_index("name").loc["judge_fingerprint", "state"] == "unknown"


@pytest.mark.large
def test_a_field_that_one_run_lacks_is_warned_of_and_stands_among_the_invariants(
    write_golden, write_run
):
    plain = [
        one
        | {"answer": {"answer": "yes", "refused": False, "citations": one["answer"]["citations"]}}
        for one in CITED
    ]
    results = rs.load_results([write_run("a", CITED), write_run("b", plain)])
    results = replace(
        results,
        responses=results.responses.assign(
            grounded=results.responses["grounded"].where(results.responses["run_id"] == "a")
        ),
    )
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    with warned("fields", "a", "b", "responses.grounded"):
        cmp = compare_runs(results, golden, "a", "b", metrics=["citation_coverage"])
    row = cmp.invariants.set_index("name").loc["fields"]
    assert row.tolist() == [
        "responses.grounded = recorded",
        "responses.grounded = not recorded",
        "differs",
    ]
    assert (
        "fields"
        not in compare_runs(results, golden, "a", "b", metrics=["hit@1"])
        .invariants["name"]
        .tolist()
    )


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
    with warned("a", "b", "rerank.depth", "vary") as told:
        cmp = compare_runs(*configured, "a", "b", vary=["k"])
    assert told[0].filename == __file__
    assert cmp.config_diff.to_dict("records") == [
        {"key": "k", "baseline": "5", "candidate": "10", "declared": True},
        {"key": "rerank.depth", "baseline": "10", "candidate": "50", "declared": False},
    ]  # fmt: skip
    assert "| rerank.depth | 10 | 50 | no |" in cmp.to_markdown()
    # a key stands for those it holds
    cmp = compare_runs(*configured, "a", "b", vary=["k", "rerank"])
    assert cmp.config_diff["declared"].tolist() == [True, True]
    assert "declared" not in compare_runs(*configured, "a", "b").config_diff


def test_a_key_to_vary_that_no_run_has_is_an_error(configured):
    with refused("depth", "rerank.depth", field="vary"):
        compare_runs(*configured, "a", "b", vary="depth")


def test_differences_of_scores_by_different_judges_are_refused_as_comparisons_are(pair):
    results, golden = both(pair, judge="n")
    ev = rs.evaluate(results, golden, ["hit@1", "faithfulness"])
    with refused("m:p1:0", "n:p1:0", field="judge_fingerprint"):
        ev.score_diff("a", "b")
    with warned("judge_fingerprint", "m:p1:0", "n:p1:0"):
        diff = ev.score_diff("a", "b", allow_different="judge_fingerprint")
    assert diff.metrics["metric"].tolist() == ["hit@1", "faithfulness"]
    rs.evaluate(results, golden, ["hit@1"]).score_diff("a", "b")  # nothing judged is subtracted
    alike = rs.evaluate(*both(pair), ["hit@1", "faithfulness"])
    assert len(alike.score_diff("a", "b").metrics) == 2


def test_a_judge_that_one_run_does_not_state_is_warned_of(pair):
    results, golden = both(pair)
    judgments = results.judgments
    silent = judgments["judge"].mask(judgments["run_id"].astype("str") == "b")
    ev = rs.evaluate(
        replace(results, judgments=judgments.assign(judge=silent)), golden, ["faithfulness"]
    )
    with warned("faithfulness"):
        ev.score_diff("a", "b")
