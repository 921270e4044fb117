"""Scores that another tool stored are metrics: without a golden set, paired by id and input."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.cli import main
from tests.messages import refused, warned


def deepeval(cases, **about):
    """Return a test run of (input, score, success) by the metric Tone; `about` changes it."""
    return {
        "testCases": [
            {"input": text, "actualOutput": f"answer to {text}", "success": success,
             "metricsData": [{"name": "Tone", "score": score, "threshold": 0.5, "success": success,
                              "evaluationModel": "a judge"} | about]}
            for text, score, success in cases
        ]
    }  # fmt: skip


@pytest.fixture
def write(tmp_path):
    return lambda name, content: put(tmp_path, [content], name)


@pytest.fixture
def pair(write):
    """Two runs of 40 queries in different orders, the second .2 better in every query."""
    values = np.random.default_rng(0).uniform(0.0, 0.7, 40).tolist()
    first = [(f"q {n}?", value, value >= 0.5) for n, value in enumerate(values)]
    second = [(text, value + 0.2, value >= 0.3) for text, value, _ in reversed(first)]
    return write("a.json", deepeval(first)), write("b.json", deepeval(second))


def test_two_files_are_compared_item_by_item_and_answer_whatever_evaluations_answer(pair, store):
    cmp = rs.compare(*pair)
    tone = cmp.deltas.set_index("metric").loc["Tone"]
    assert (tone["n"], tone["delta"], cmp.overall) == (40, pytest.approx(0.2), "better")
    assert "40 queries in both" in cmp.notes()
    ev = rs.evaluate(list(pair))
    described = ev._declared.describe("Tone")
    # as DeepEval documents its metrics
    assert (described.better, described.bounds) == ("higher", (0.0, 1.0))
    assert ev.primary == ("Tone", "success")
    assert ev.summary("Tone").set_index("run_id")["n"].tolist() == [40, 40]
    assert ev.leaderboard("Tone").table.set_index("run_id")["rank"].to_dict() == {"a": 2, "b": 1}
    assert ev.compare("a", "b").gate({"Tone": 0.02}).passed
    assert not ev.compare("b", "a").gate().passed
    store.save(ev)
    pd.testing.assert_frame_equal(store.evaluate().summary(), ev.summary(), check_dtype=False)
    assert store.trend("Tone", order=["a", "b"]).table["mean"].notna().all()


def test_the_first_five_metrics_with_a_direction_decide(write):
    content = deepeval([("a", 0.9, True), ("b", 0.2, False)])
    for one in content["testCases"]:
        one["metricsData"] = [one["metricsData"][0] | {"name": f"m{n}"} for n in range(6)]
    assert rs.evaluate(write("a.json", content)).primary == ("m0", "m1", "m2", "m3", "m4")


def test_fields_of_items_slice_and_make_clusters():
    frame = pd.DataFrame({
        "query_id": [f"s{n}" for n in range(32)],
        "score.same": 1.0, "score.bench": [float(n % 8 > 3) for n in range(32)],
        "score.other": [n / 32 for n in range(32)],
        "subject": [f"subject {n // 2}" for n in range(32)],
    })  # fmt: skip
    ev = rs.evaluate(frame)
    assert ev.primary == ("bench",)  # none has a direction: the first that varies
    assert ev.summary("bench", by="subject")["mean"].tolist() == [0, 0, 1, 1] * 4
    alone, held = (ev.summary("bench", cluster=by).iloc[0] for by in (None, "x_subject"))
    assert held["mean"] == alone["mean"] and held["high"] != alone["high"]


def test_flags_of_another_tool_have_an_interval_within_their_range():
    flags = pd.DataFrame({"query_id": [*"abcd"], "score.polite": [True] * 3 + [False]})
    ev = rs.evaluate(flags)
    assert ev._declared.describe("polite").bounds == (0, 1)
    low, high = ev.summary("polite")[["low", "high"]].iloc[0]
    assert 0 <= low < 0.75 < high <= 1


def test_a_judges_own_criterion_is_a_metric_where_it_judged_whole_answers():
    rows = [
        ("a", "tone", "", 0.5, None), ("b", "tone", "1", 1.0, None),
        ("c", "tone", "", 1.0, "judge_failed"), ("c", "faithfulness", "", 1.0, None),
    ]  # fmt: skip
    judgments = pd.DataFrame(rows, columns=["query_id", "criterion", "item", "value", "state"])
    results = rs.load_results([{"query_id": one, "response": "x"} for one in "abc"], run_id="r")
    ev = rs.evaluate(replace(results, judgments=judgments.assign(run_id="r")))
    assert ev.scores["tone"].fillna(-1).tolist() == [0.5, -1, -1]


def test_a_metric_asked_for_by_name_stands_beside_ours(pair):
    results = rs.load_results(pair[0])
    golden = [{"id": one, "reference_answer": "x"} for one in results.responses["query_id"]]
    assert {"exact_match", "Tone"} < {*rs.evaluate(results, golden, ["exact_match", "Tone"]).scores}
    # what a judge gave is there by default
    default = rs.evaluate(results, golden).scores
    assert "Tone" in default and "success" not in default


@pytest.mark.parametrize(
    ("cases", "better", "is_bounded"),
    [
        # told by a success and its threshold
        ([("a", 0.9, False), ("b", 0.1, True)], "lower", True),
        ([("a", 0.5, True)], "not declared", True),
        ([("a", 7.0, True), ("b", 0.1, False)], "higher", False),  # it leaves the tool's range
    ],
)
def test_direction_and_range_follow_from_the_file(write, cases, better, is_bounded):
    ev = rs.evaluate(write("a.json", deepeval(cases, reason="It shouts.")))
    described = ev._declared.describe("Tone")
    assert (described.better, bool(np.isfinite(described.width))) == (better, is_bounded)
    told = ev.results.judgments.query("criterion == 'Tone'")
    assert told["value"].tolist() == [score for _, score, _ in cases]
    assert set(told["reason"]) == {"It shouts."}


@pytest.mark.parametrize(
    ("command", "status", "shown"),
    [
        ("compare a.json b.json --golden none --metric Tone", 0, "| Tone | "),
        ("gate b.json a.json --golden none", 1, "Gate failed by Tone"),
        ("score none a.json b.json", 0, "a    Tone"),
        ("compare a.json b.json", 2, "--golden none"),
    ],
)
def test_the_command_line_needs_no_golden_file(pair, capsys, monkeypatch, command, status, shown):
    monkeypatch.chdir(pair[0].parent)
    assert main(command.split()) == status
    printed = capsys.readouterr()
    assert shown in printed.out + printed.err


def test_files_that_disagree_about_a_metric_or_its_judge_are_refused(write):
    up = write("up.json", deepeval([("a", 0.9, True)]))
    down = write("down.json", deepeval([("a", 0.9, False)]))
    other = write("other.json", deepeval([("a", 0.9, True)], evaluationModel="another"))
    with refused("up", "down", "higher", "lower", field="results.reported"):
        rs.evaluate([up, down])
    with refused("a judge", "another"):
        rs.compare(up, other)
    with pytest.warns(UserWarning, match="judge"):
        assert rs.compare(up, other, allow_different="all").deltas["n"].max() == 1


def test_one_id_of_different_inputs_is_said(tmp_path):
    row = {"target": "x", "filter": "none", "resps": [["x"]], "filtered_resps": ["x"],
           "metrics": ["acc"]}  # fmt: skip
    asked = {"a": [("one?", 1), ("two?", 0), ("three?", 1)],
             "b": [("two?", 0), ("one?", 1), ("three?", 0)]}  # fmt: skip
    files = [
        put(tmp_path, [row | {"doc_id": n, "doc": {"question": text}, "acc": value}
                       for n, (text, value) in enumerate(rows)], f"{name}.jsonl")
        for name, rows in asked.items()
    ]  # fmt: skip
    with warned("2 ids", "'0'", "one?", "two?", "columns"):
        ev = rs.evaluate(files)
    assert ev.pivot("acc,none").to_numpy().tolist() == [[1, 0], [0, 1], [1, 0]]


# Repeats


def epochs(values):
    """Return an Inspect log of (sample, epoch, letter)."""
    samples = [
        {"id": n, "epoch": epoch, "input": f"q {n}?", "target": "x",
         "scores": {"match": {"value": letter}}}
        for n, epoch, letter in values
    ]  # fmt: skip
    return {"eval": {"task": "t", "model": "m"}, "status": "success", "samples": samples}


def test_repeats_are_averaged_before_they_are_compared_and_intervals_count_queries(write):
    up = [(n, epoch, "C" if n + epoch < 12 else "I") for n in range(12) for epoch in (1, 2)]
    down = [(n, epoch, "I") for n, epoch, _ in up]
    files = write("down.json", epochs(down)), write("up.json", epochs(up))
    ev = rs.evaluate(files[1])
    assert len(ev.run_ids) == 2 and "m: 2 runs, averaged" in str(ev)
    averaged = ev._of_systems.summary("match")[["mean", "n"]].to_numpy().tolist()
    cmp = rs.compare(*files)
    compared = cmp.deltas.set_index("metric").loc[["match"], ["delta", "n"]].to_numpy().tolist()
    assert averaged == compared == [[pytest.approx(21 / 24), 12]]
    assert (cmp.baseline, cmp.candidate) == ("down", "up")


def test_sides_of_two_systems_or_of_one_name_are_refused_until_one_is_named(write, tmp_path):
    two = pd.DataFrame({"run": ["x", "y"], "query": ["a", "a"], "score.tone": [1.0, 0.0]})
    with refused("2 runs", "x", "y", field="candidate"):
        rs.compare(two[two["run"].eq("x")], two)
    old = write("run.json", deepeval([("a", 0.1, False)]))
    new = write("new/run.json", deepeval([("a", 0.9, True)]))
    with refused("run", "run_id=", field="candidate"):
        rs.compare(old, new)
    cmp = rs.compare(old, rs.load_results(new, run_id="new"))
    assert (cmp.baseline, cmp.candidate) == ("run", "new")


# Values that are not there


def test_a_query_that_nobody_scored_is_missing_and_a_failed_judge_counts(write):
    content = deepeval([("a", 0.9, True), ("b", 0.2, False), ("c", 0.1, False)])
    content["testCases"][1]["metricsData"] = []
    content["testCases"][2]["metricsData"][0] |= {"error": "no JSON", "score": None}
    ev = rs.evaluate(write("a.json", content))
    states = ev.explain("Tone").set_index("query_id")["state"].astype("str")
    by_query = ev.golden.queries.set_index("query")["query_id"].map(states).to_dict()
    assert by_query == {"a": "scored", "b": "missing", "c": "judge_failed"}
    assert ev.summary("Tone")[["n", "n_expected"]].to_numpy().tolist() == [[1, 3]]
    # a metric that only some queries have doesn't apply to the others
    content = deepeval([("a", 0.9, True), ("b", 0.2, False)])
    content["testCases"][1]["metricsData"][0]["name"] = "Other"
    assert rs.evaluate(write("b.json", content)).summary("Tone")["n_expected"].tolist() == [1]


def test_results_without_any_score_are_evaluated_by_what_they_have():
    ev = rs.evaluate([{"query": "a", "answer": "x", "latency_ms": 5.0},
                      {"query": "b", "answer": "y", "latency_ms": 7.0}])  # fmt: skip
    assert ev.scores["latency_ms"].tolist() == [5.0, 7.0]
    assert "Nothing is matched" in str(ev)
