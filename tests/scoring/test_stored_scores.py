"""Scores that another tool stored are metrics: without a golden set, paired by id and input."""

import json

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.cli import main
from tests.messages import refused, warned


def deepeval(cases, **about):
    """Return a test run of (input, score, success) by the metric Tone, with threshold .5."""
    return {
        "testCases": [
            {
                "input": text,
                "actualOutput": f"answer to {text}",
                "success": success,
                "metricsData": [
                    {"name": "Tone", "score": score, "threshold": 0.5, "success": success}
                    | {"evaluationModel": "a judge"}
                ],
            }
            for text, score, success in cases
        ],
        **about,
    }


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        file = tmp_path / name
        file.write_text(json.dumps(content))
        return file

    return write


@pytest.fixture
def pair(write):
    """Two runs of 40 queries in different orders, the second .2 better in every query."""
    rng = np.random.default_rng(0)
    values = rng.uniform(0.0, 0.7, 40)
    first = [(f"q {n}?", value, value >= 0.5) for n, value in enumerate(values.tolist())]
    second = [(text, value + 0.2, value >= 0.3) for text, value, _ in reversed(first)]
    return write("a.json", deepeval(first)), write("b.json", deepeval(second))


def test_two_files_are_compared_item_by_item_in_one_line(pair):
    cmp = rs.compare(*pair)
    tone = cmp.deltas.set_index("metric").loc["Tone"]
    assert (tone["n"], cmp.overall) == (40, "better")
    assert tone["delta"] == pytest.approx(0.2)
    assert "40 queries in both" in cmp.notes()


def test_stored_metrics_are_the_primary_ones_with_what_their_file_says(pair):
    ev = rs.evaluate(list(pair))
    assert ev.primary == ("Tone", "success")
    assert ev._declared.describe("Tone").better == "higher"
    assert ev._declared.describe("Tone").bounds == (0.0, 1.0)  # as DeepEval documents its metrics
    assert ev.summary("Tone").set_index("run_id")["n"].tolist() == [40, 40]


def test_whatever_evaluations_answer_is_answered_of_stored_scores(pair, tmp_path):
    ev = rs.evaluate(list(pair))
    assert ev.leaderboard("Tone").table.set_index("run_id")["rank"].to_dict() == {"a": 2, "b": 1}
    assert ev.compare("a", "b").gate({"Tone": 0.02}).passed
    assert not ev.compare("b", "a").gate().passed
    store = rs.RunStore(tmp_path / "store")
    store.save(ev)
    stored = store.evaluate().summary("Tone")
    pd.testing.assert_frame_equal(stored, ev.summary("Tone"), check_dtype=False)
    assert store.trend("Tone", order=["a", "b"]).table["mean"].notna().all()


def test_the_reason_of_a_scorer_stands_beside_its_score(write):
    content = deepeval([("a", 0.25, False)])
    content["testCases"][0]["metricsData"][0]["reason"] = "It shouts."
    ev = rs.evaluate(write("a.json", content))
    (one,) = ev.results.judgments.query("criterion == 'Tone'").to_dict("records")
    assert (one["value"], one["reason"]) == (0.25, "It shouts.")


def test_fields_of_items_slice_and_make_clusters():
    ev = rs.evaluate(
        pd.DataFrame(
            {
                "query_id": [f"s{n}" for n in range(32)],
                "score.bench": [float(n % 8 > 3) for n in range(32)],
                "subject": [f"subject {n // 8}" for n in range(32)],
            }
        )
    )
    assert ev.summary("bench", by="subject")["mean"].tolist() == [0.5] * 4
    alone, held = (ev.summary("bench", cluster=by).iloc[0] for by in (None, "x_subject"))
    assert held["mean"] == alone["mean"] and held["high"] != alone["high"]


def test_a_metric_asked_for_by_name_stands_beside_ours(pair):
    results = rs.load_results(pair[0])
    golden = rs.load_golden([{"id": one, "reference_answer": "x"} for one in
                             results.responses["query_id"]])  # fmt: skip
    ev = rs.evaluate(results, golden, ["exact_match", "Tone"])
    assert {"exact_match", "Tone"} < {*ev.scores}
    assert "Tone" in rs.evaluate(results, golden).scores  # what a judge gave is there by default
    assert "success" not in rs.evaluate(results, golden).scores


def test_the_direction_is_told_by_a_success_and_its_threshold(write):
    file = write("a.json", deepeval([("a", 0.9, False), ("b", 0.1, True)]))
    assert rs.evaluate(file)._declared.describe("Tone").better == "lower"
    at_it = write("b.json", deepeval([("a", 0.5, True)]))
    assert rs.evaluate(at_it)._declared.describe("Tone").better == "not declared"


def test_a_metric_of_ones_own_may_leave_the_tools_range(write):
    ev = rs.evaluate(write("a.json", deepeval([("a", 7.0, True), ("b", 0.1, False)])))
    assert not np.isfinite(ev._declared.describe("Tone").width)


@pytest.mark.parametrize(
    ("command", "status", "shown"),
    [
        ("compare a.json b.json --golden none --metric Tone", 0, "| Tone | "),
        ("gate a.json b.json --golden none", 0, "Gate passed"),
        ("gate b.json a.json --golden none", 1, "Gate failed by Tone"),
        ("gate b.json a.json --golden none --max-drop Tone=0.3", 0, "Gate passed"),
        ("score none a.json b.json", 0, "a    Tone"),
        ("compare a.json b.json", 2, "--golden none"),
    ],
)
def test_the_command_line_needs_no_golden_file(pair, capsys, monkeypatch, command, status, shown):
    monkeypatch.chdir(pair[0].parent)
    assert main(command.split()) == status
    printed = capsys.readouterr()
    assert shown in printed.out + printed.err


def test_files_that_disagree_about_a_metric_are_refused(write):
    up = write("up.json", deepeval([("a", 0.9, True)]))
    down = write("down.json", deepeval([("a", 0.9, False)]))
    with refused("up", "down", "higher", "lower", field="results.reported"):
        rs.evaluate([up, down])


def test_different_judges_of_a_stored_metric_are_refused_unless_ignored(write):
    other = deepeval([("a", 0.9, True)])
    other["testCases"][0]["metricsData"][0]["evaluationModel"] = "another"
    files = write("a.json", deepeval([("a", 0.1, False)])), write("b.json", other)
    with refused("a judge", "another"):
        rs.compare(*files)
    with pytest.warns(UserWarning, match="judge"):
        assert rs.compare(*files, allow_different="all").deltas["n"].max() == 1


def lm_eval(rows):
    return "".join(
        json.dumps(
            {"doc_id": n, "doc": {"question": text}, "target": "x", "filter": "none",
             "resps": [["x"]], "filtered_resps": ["x"], "metrics": ["acc"], "acc": value}
        ) + "\n"
        for n, text, value in rows
    )  # fmt: skip


def test_one_id_of_different_inputs_is_said(tmp_path):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    first.write_text(lm_eval([(0, "one?", 1), (1, "two?", 0), (2, "three?", 1)]))
    second.write_text(lm_eval([(0, "two?", 0), (1, "one?", 1), (2, "three?", 0)]))
    with warned("2 ids", "'0'", "one?", "two?", "columns"):
        ev = rs.evaluate([first, second])
    wide = ev.scores.reset_index().pivot(index="query_id", columns="run_id", values="acc,none")
    assert wide.to_numpy().tolist() == [[1, 0], [0, 1], [1, 0]]


def epochs(values):
    """Return an Inspect log of (sample, epoch, letter)."""
    samples = [
        {"id": n, "epoch": epoch, "input": f"q {n}?", "target": "x",
         "scores": {"match": {"value": letter}}}
        for n, epoch, letter in values
    ]  # fmt: skip
    return {"eval": {"task": "t", "model": "m"}, "status": "success", "samples": samples}


def test_repeats_are_averaged_and_intervals_count_queries(write):
    file = write("a.json", epochs([(1, 1, "I"), (1, 2, "C"), (2, 1, "C"), (2, 2, "C")]))
    ev = rs.evaluate(file)
    assert len(ev.run_ids) == 2 and "m: 2 runs, averaged" in str(ev)
    row = ev._of_systems.summary("match").iloc[0]
    assert (row["mean"], row["n"]) == (0.75, 2)


def test_repeats_of_a_side_are_averaged_before_they_are_compared(write):
    up = [(n, epoch, "C" if n + epoch < 12 else "I") for n in range(12) for epoch in (1, 2)]
    down = [(n, epoch, "I") for n in range(12) for epoch in (1, 2)]
    cmp = rs.compare(write("down.json", epochs(down)), write("up.json", epochs(up)))
    row = cmp.deltas.set_index("metric").loc["match"]
    assert (cmp.baseline, cmp.candidate, row["n"]) == ("down", "up", 12)
    assert row["delta"] == pytest.approx(21 / 24)


def test_a_side_with_two_systems_is_refused(write, tmp_path):
    two = pd.DataFrame({"run": ["x", "y"], "query": ["a", "a"], "score.tone": [1.0, 0.0]})
    with refused("2 runs", "x", "y", field="candidate"):
        rs.compare(two[two["run"].eq("x")], two)


def test_repeats_are_averaged_where_documents_are_expected():
    golden = rs.load_golden([{"query": "a", "relevant_doc_ids": ["d1"]}])
    runs = pd.DataFrame({"run": ["x-r1", "x-r2"], "query": ["a", "a"], "doc_id": ["d1", "d1"]})
    second = pd.DataFrame({"run": ["x-r2"], "query": ["a"], "doc_id": ["d2"]})
    worse = pd.concat([runs.iloc[:1], second, runs.iloc[1:]]).replace("x-", "y-", regex=True)
    row = rs.compare(runs, worse, golden, "hit@1").deltas.iloc[0]
    assert (row["baseline"], row["candidate"], row["n"]) == (1, 0.5, 1)


def test_sides_of_one_name_are_refused_until_one_is_named(write, tmp_path):
    (tmp_path / "new").mkdir()
    old = write("run.json", deepeval([("a", 0.1, False)]))
    new = write("new/run.json", deepeval([("a", 0.9, True)]))
    with refused("run", "run_id=", field="candidate"):
        rs.compare(old, new)
    cmp = rs.compare(old, rs.load_results(new, run_id="new"))
    assert (cmp.baseline, cmp.candidate) == ("run", "new")


def test_a_query_that_nobody_scored_is_missing_and_a_failed_judge_counts(write):
    content = deepeval([("a", 0.9, True), ("b", 0.2, False), ("c", 0.1, False)])
    content["testCases"][1] = {"input": "b", "actualOutput": "x", "metricsData": []}
    content["testCases"][2]["metricsData"][0] |= {"error": "no JSON", "score": None}
    ev = rs.evaluate(write("a.json", content))
    told = ev.explain("Tone").merge(ev.golden.queries[["query_id", "query"]], on="query_id")
    states = told.set_index("query")["state"].astype("str").to_dict()
    assert states == {"a": "scored", "b": "missing", "c": "judge_failed"}
    row = ev.summary("Tone").iloc[0]
    assert (row["n"], row["n_expected"]) == (1, 3)


def test_a_metric_of_some_queries_alone_does_not_apply_to_the_others(write):
    content = deepeval([("a", 0.9, True), ("b", 0.2, False)])
    content["testCases"][1]["metricsData"][0]["name"] = "Other"
    ev = rs.evaluate(write("a.json", content))
    assert ev.summary("Tone").iloc[0]["n_expected"] == 1


def test_results_without_any_score_are_evaluated_by_what_they_have(write):
    ev = rs.evaluate([{"query": "a", "answer": "x", "latency_ms": 5.0},
                      {"query": "b", "answer": "y", "latency_ms": 7.0}])  # fmt: skip
    assert ev.scores["latency_ms"].tolist() == [5.0, 7.0]
    assert "Nothing is matched" in str(ev)
