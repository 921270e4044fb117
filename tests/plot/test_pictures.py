"""Figures of comparisons, cut-offs, slices and refusals, checked as data.

What is drawn where, with which n.
"""

import dataclasses

import matplotlib
import numpy as np
import pandas as pd
import pytest
from conftest import answer, record

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.refusals import refusals
from ragscore.plot.theme import inks
from ragscore.scoring.summary import summarize
from tests.messages import refused, says

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


DELTAS = pd.DataFrame({
    "metric": ["hit@5", "false_refusal", "mrr@10", "latency_ms"], "delta": [0.2, -0.1, 0.0, 900.0],
    "low": [0.1, -0.3, 0.0, 1.0], "high": [0.3, 0.1, 0.0, 2000.0],
    "mde": [0.15, np.nan, np.nan, np.nan],
    "verdict": ["better", "can't tell", "can't tell", "worse"], "n": [50, 40, 50, 50],
})  # fmt: skip


def test_a_forest_draws_each_difference_with_its_interval_n_and_verdict():
    ax = rs.plot.forest(DELTAS)
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "hit@5",
        "mrr@10",
        "false_refusal ↓ (40)",
    ], "not the times"
    says(ax.get_xlabel(), "n = 50")
    points = {
        line.get_marker(): line.get_xdata().tolist()
        for line in ax.get_lines()
        if line.get_marker() in "^ov"
    }
    assert points == {"^": [0.2], "o": [0.0, -0.1]}
    (ticks,) = [line for line in ax.get_lines() if line.get_label() == "detectable from"]
    assert ticks.get_xdata().tolist() == [-0.15, 0.15] and set(ticks.get_ydata()) == {0}
    ends = [segment[:, 0].tolist() for bars in ax.collections for segment in bars.get_segments()]
    assert sorted(ends) == [
        pytest.approx([-0.3, 0.1]),
        pytest.approx([0, 0]),
        pytest.approx([0.1, 0.3]),
    ]


def test_a_forest_has_one_scale():
    alone = rs.plot.forest(DELTAS[DELTAS["metric"] == "latency_ms"])
    assert [tick.get_text().split()[0] for tick in alone.get_yticklabels()] == ["latency_ms"]
    with refused("latency_ms (0 and above, ms)", "0 to 1", field="metrics"):
        rs.plot.forest(DELTAS, ["hit@5", "latency_ms"])
    with refused("metric", "cmp.deltas", field="deltas"):
        rs.plot.forest(DELTAS[["metric"]])


def test_outcome_bars_are_the_counts(pair):
    ax = rs.plot.outcomes(compare_runs(*pair, "a", "b").counts)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["win ▲", "loss ▼"] and [
        bar.get_width() for bar in ax.patches
    ] == [2, 1]
    assert [text.get_text() for text in ax.texts] == [
        "2",
        "1",
    ]
    says(ax.get_xlabel(), "n = 3")
    other = rs.plot.outcomes({"tie": 4, "win": 1})  # another harness's word
    assert [label.get_text() for label in other.get_yticklabels()] == ["win ▲", "tie"]


def test_a_scatter_has_every_query_once(pair):
    scores = rs.score(*pair)
    ax = rs.plot.scatter(scores, "mrr@10", "a", "b")
    # a finds q1 first, q2 fourth, q3 never; b finds them second, first, first.
    points = {part.get_label(): np.asarray(part.get_offsets()).tolist() for part in ax.collections}
    assert points == {
        "better (2)": [[0, 1], [0.25, 1]],
        "same (0)": [],
        "worse (1)": [[1, 0.5]],
    }
    lower = rs.plot.scatter(scores.assign(latency_ms=[1.0, 2, 3, 2, 2, 2]), "latency_ms", "a", "b")
    assert {part.get_label() for part in lower.collections} == {
        "better (1)",
        "same (1)",
        "worse (1)",
    }, "lower is better"
    with refused("refusal_correct", field="metric"):
        rs.plot.scatter(scores, "refusal_correct", "a", "b")


def test_a_k_curve_has_a_point_per_cut_off(pair):
    summary = summarize(rs.score(*pair))
    ax = rs.plot.metric_at_k(summary, "hit")
    assert [line.get_xdata().tolist() for line in ax.get_lines()] == [[1, 3, 5, 10]] * 2
    assert ax.get_lines()[0].get_ydata().tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert [text.get_text() for text in ax.texts] == ["a", "b"]
    says(ax.get_xlabel(), "k", "n = 3")
    with refused("recall_all", field="metric"):
        rs.plot.metric_at_k(summary, "recall_all")


def test_a_heat_map_shows_means_and_n_and_marks_small_slices(write_golden, write_run):
    rows = [
        {
            "id": f"q{n}",
            "query": "?",
            "expected_doc_ids": ["d1"],
            "difficulty": "easy" if n < 10 else "hard",
        }
        for n in range(12)
    ]
    golden = rs.load_golden(write_golden(rows))
    results = rs.load_results(
        [write_run(name, [record(f"q{n}", []) for n in range(12)]) for name in "ab"]
    )
    scores = rs.score(results, golden).assign(mine=[*([1.0] * 10), 0.0, 0.5, *([0.25] * 12)])
    summary = summarize(scores, golden, by="difficulty", metrics=["mine"])
    ax = rs.plot.heatmap(summary, "mine")
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "easy (10)",
        "hard* (2)",
    ]
    assert [text.get_text() for text in ax.texts] == [
        "1.00",
        "0.25",
        "0.25",
        "0.25",
    ]
    assert ax.images[0].get_alpha() is None, "a colour means a value"
    assert {patch.get_xy()[1] for patch in ax.patches} == {0.53}, "few queries are framed"
    wide = rs.plot.heatmap(summary[summary["difficulty"].eq("easy")], "mine")
    assert [label.get_text() for label in wide.get_yticklabels()] == ["a", "b"], "a row per run"
    assert ax.images[0].get_array().tolist() == [[1.0, 0.25], [0.25, 0.25]]
    with refused("slices", field="table"):
        rs.plot.heatmap(summarize(scores), "mine")


@pytest.fixture
def answered(write_golden, write_run):
    """Two answerable questions (one refused by a) and one that should be refused (answered by
    b).
    """
    rows = [
        {"id": f"q{n}", "query": "?", "expected_doc_ids": ["d1"], "must_contain": ["yes"]}
        for n in (1, 2)
    ]
    golden = rs.load_golden(write_golden([*rows, {"id": "q3", "query": "?", "answerable": False}]))
    a = [
        record("q1", [], answer=answer("yes")),
        record("q2", [], answer=answer("no", grounded=False)),
        record("q3", [], answer=answer("no", grounded=False)),
    ]
    b = [
        record("q1", [], answer=answer("no")),
        record("q2", [], answer=answer("yes")),
        record("q3", [], answer=answer("made up")),
    ]
    results = rs.load_results([write_run("a", a), write_run("b", b)])
    return rs.score(results, golden), golden


def test_refusals_have_a_row_per_run_with_numbers_and_hatched_errors(answered):
    ax = rs.plot.refusal_matrix(refusals(*answered).table)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    cells = {(text.get_position()[1], text.get_position()[0] // 1): text.get_text()
             for text in ax.texts}  # fmt: skip
    said = {place: text.split(" (")[0] for place, text in cells.items()}
    assert said == {
        (0, 0): "1: 50 %", (0, 1): "1: 50 %", (0, 2): "1: 100 %", (0, 3): "0: 0 %",
        (1, 0): "2: 100 %", (1, 1): "0: 0 %", (1, 2): "0: 0 %", (1, 3): "1: 100 %",
    }  # fmt: skip
    hatched = {bar.get_gid() for bar in ax.patches if bar.get_hatch()}
    assert hatched == {"over-refusal", "unsupported answer"}


def test_transitions_are_the_numbers_of_the_table_with_signs_of_what_got_right_or_wrong():
    names = ["right", "retrieval fault", "unmeasured"]
    table = pd.DataFrame(
        [[5, 1, 2], [3, 0, 0], [0, 0, 4]], index=pd.Index(names, name="baseline"), columns=names
    )
    ax = rs.plot.failure_transitions(table, "old", "new")
    assert [text.get_text() for text in ax.texts] == ["5", "1 ▼", "2", "3 ▲", "4"]
    title = " ".join(ax.get_title().split())
    says(title, "new", "old", 3, "right ▲", 1, "wrong ▼", "n = 15")
    with refused("query", field="table"):
        rs.plot.failure_transitions(table * 0)


def test_risk_is_drawn_over_coverage_from_the_loosest_threshold():
    curve = pd.DataFrame({
        "run_id": ["a"] * 4, "score_kind": ["bm25"] * 4, "coverage": [1.0, 0.5, 0.25, 0.0],
        "risk": [0.4, 0.2, 0.0, np.nan], "risk_low": [0.3, 0.1, 0, np.nan],
        "risk_high": [0.5, 0.4, 0.5, np.nan], "n": [20] * 4,
    })  # fmt: skip
    ax = rs.plot.risk_coverage(curve)
    unstable, line = ax.get_lines()
    assert line.get_xydata().tolist() == [[0.5, 0.2], [1, 0.4]], "no risk without an answer"
    assert unstable.get_xydata().tolist() == [[0.25, 0], [0.5, 0.2]], "five answers, in grey"
    assert unstable.get_color() == inks().muted
    with refused("threshold", field="curve"):
        rs.plot.risk_coverage(curve[curve["risk"].isna()])


@pytest.mark.parametrize(("times", "front"), [([10.0, 20.0], ["a", "b"]), ([20.0, 10.0], ["b"])])
def test_the_pareto_front_is_what_no_other_run_beats(pair, times, front):
    # b is better at hit@1 (2 of 3 against 1 of 3); a is on the front only where it is faster.
    scores = rs.score(*pair)
    scores["latency_ms"] = np.repeat(times, 3)
    ax = rs.plot.tradeoff(scores, "hit@1")
    (line,) = [line for line in ax.get_lines() if line.get_linestyle() == ":"]
    assert line.get_xdata().tolist() == sorted(
        dict(zip("ab", times, strict=True))[run] for run in front
    )


def test_deltas_by_slice_stand_below_the_whole_with_what_they_are_told_by(pair):
    results, golden = pair
    levels = {"q1": "hard", "q2": "easy", "q3": "easy"}
    golden = dataclasses.replace(
        golden, queries=golden.queries.assign(difficulty=golden.queries["query_id"].map(levels))
    )
    found = rs.evaluate(results, golden).compare("a", "b").slices("difficulty", ["hit@1"], min_n=2)
    ax = found.plot()
    # hit@1 of q1, q2, q3: a has 1, 0, 0 and b has 0, 1, 1
    places = [place for one in ax.containers for place in one.lines[0].get_xdata()]
    assert places == [pytest.approx(1 / 3), 1, -1]
    assert [label.get_text() for label in ax.get_yticklabels()] == [
        "all (3)",
        "easy (2)",
        "hard* (1)",
    ]
