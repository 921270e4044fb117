"""Figures of comparisons, cut-offs, slices and refusals, checked as data.

What is drawn where, with which n.
"""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from conftest import RUN_A, RUN_B, THREE_QUERIES, answer, record
from test_plot import drawn, overlaps

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.refusals import refusals
from ragscore.plot.style import MUTED, PALETTE, own_styles
from ragscore.scoring.summary import summarize

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    with own_styles([]):  # runs have the first styles, whatever other tests drew
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
    assert "n = 50, else in brackets" in ax.get_xlabel()
    assert ax.get_title(loc="center").endswith(": hit@5 better; else can't tell")
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
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {
        "better (1)",
        "can't tell (2)",
        "detectable from",
    }


def test_pictures_of_two_runs_name_them():
    label = rs.plot.forest(DELTAS, None, "old", "new").get_xlabel()
    assert label.startswith("new − old,")
    counts = {"win": 1}
    assert rs.plot.outcomes(counts, "old", "new").get_title() == (
        "new against old: better in 1 queries, worse in 0"
    )
    table = pd.DataFrame({"right": [1]}, index=pd.Index(["right"], name="baseline"))
    ax = rs.plot.failure_transitions(table, "old", "new")
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("candidate: new", "baseline: old")


def test_a_forest_has_one_scale():
    with pytest.raises(
        rs.DataError, match=r"no metric of 0 to 1 has values; the comparison has latency_ms"
    ):
        rs.plot.forest(DELTAS[DELTAS["metric"] == "latency_ms"])
    with pytest.raises(rs.DataError, match=r"hit@5 \(0 to 1\), latency_ms"):
        rs.plot.forest(DELTAS, ["hit@5", "latency_ms"])
    with pytest.raises(rs.DataError, match=r"no metric ndcg@3; the comparison has hit@5"):
        rs.plot.forest(DELTAS, ["ndcg@3"])
    with pytest.raises(rs.DataError, match=r"found a frame with the columns metric; cmp\.deltas"):
        rs.plot.forest(DELTAS[["metric"]])


def test_outcome_bars_are_the_counts(pair):
    ax = rs.plot.outcomes(compare_runs(*pair, "a", "b").counts)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["win ▲", "loss ▼"] and [
        bar.get_width() for bar in ax.patches
    ] == [2, 1]
    assert [text.get_text() for text in ax.texts] == [
        "2",
        "1",
    ] and ax.get_xlabel() == "queries (n = 3)"
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
    assert (
        ax.get_title() == "b against a: mrr@10 better in 2 queries, worse in 1"
        and ax.get_xlabel() == "a: mrr@10 (n = 3; larger marks: more queries)"
    )
    lower = rs.plot.scatter(scores.assign(latency_ms=[1.0, 2, 3, 2, 2, 2]), "latency_ms", "a", "b")
    assert {part.get_label() for part in lower.collections} == {
        "better (1)",
        "same (1)",
        "worse (1)",
    }, "lower is better"
    with pytest.raises(rs.DataError, match="no run or system 'c'"):
        rs.plot.scatter(scores, "mrr@10", "a", "c")
    with pytest.raises(rs.DataError, match="no query has a value of refusal_correct in both runs"):
        rs.plot.scatter(scores, "refusal_correct", "a", "b")


def test_a_k_curve_has_a_point_per_cut_off(pair):
    summary = summarize(rs.score(*pair))
    ax = rs.plot.metric_at_k(summary, "hit")
    assert [line.get_xdata().tolist() for line in ax.get_lines()] == [[1, 3, 5, 10]] * 2
    assert ax.get_lines()[0].get_ydata().tolist() == pytest.approx([1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert [text.get_text() for text in ax.texts] == ["a", "b"]
    assert ax.get_xlabel() == "k (n = 3 queries)"
    assert ax.get_title() == "b has the best hit@1 and @10"
    with pytest.raises(rs.DataError, match="no value of recall_all at any k"):
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
        "easy (n = 10)",
        "hard* (n = 2)",
    ]
    assert [text.get_text() for text in ax.texts] == [
        "1.00",
        "0.25",
        "0.25",
        "0.25",
    ] and ax.get_title() == "mine, mean\n*: fewer than 10 queries"
    assert ax.images[0].get_array().tolist() == [[1.0, 0.25], [0.25, 0.25]]
    few = rs.plot.heatmap(summary, "mine", limit=1)
    assert [label.get_text() for label in few.get_yticklabels()] == [
        "easy (n = 10)"
    ] and "the 1 largest of 2 slices" in few.get_title()
    with pytest.raises(rs.DataError, match="found a summary without slices"):
        rs.plot.heatmap(summarize(scores), "mine")
    with pytest.raises(rs.DataError, match=r"no metric hit@9 in the summary; it has mine"):
        rs.plot.heatmap(summary, "hit@9")


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


def test_the_two_by_two_hatches_what_is_wrong(answered):
    ax = rs.plot.refusal_matrix(refusals(*answered).table)
    texts = [text.get_text() for text in ax.texts]
    assert {text.split("\n")[0]: text.split("\n")[1] for text in texts[:4]} == {
        "answered": "1 of 2", "over-refusal": "1 of 2", "right refusal": "1 of 1",
        "unsupported answer": "0 of 1"
    }  # fmt: skip
    assert texts[-2:] == ["a", "b"]
    hatched = {
        text.split("\n")[0]
        for text, cell in zip(texts[:8], ax.patches[:8], strict=True)
        if cell.get_hatch()
    }
    assert hatched == {"over-refusal", "unsupported answer"}
    assert not overlaps(drawn(list(ax.texts)))


def test_transitions_are_the_numbers_of_the_table():
    table = pd.DataFrame(
        {"right": [5, 1], "memory": [0, 2]}, index=pd.Index(["right", "memory"], name="baseline")
    )
    ax = rs.plot.failure_transitions(table)
    assert [text.get_text() for text in ax.texts] == [
        "5",
        "",
        "1",
        "2",
    ] and ax.get_title() == "8 queries"
    with pytest.raises(rs.DataError, match="no query in it"):
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
    assert unstable.get_color() == MUTED
    assert ax.get_legend().get_texts()[0].get_text() == "a" and "bm25" in ax.get_xlabel()
    assert (
        ax.get_title() == "Refusing half of the queries takes a's risk from 40\u00a0% to 20\u00a0%"
    )
    with pytest.raises(rs.DataError, match="nothing is answered at any threshold"):
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


def test_a_run_has_its_colour_in_curves_too(pair):
    scores = rs.score(*pair)
    ax = rs.plot.metric_at_k(summarize(scores[scores["run_id"] == "b"]), "hit")
    assert ax.get_lines()[0].get_color() == PALETTE[1]


def test_long_names_of_slices_have_room_and_endless_ones_are_cut(pair):
    names = [f"{letter} " + "a long name " * 9 for letter in "abc"] + ["x" * 10_000]
    summary = pd.DataFrame({"run_id": "a", "slice": names, "metric": "hit@5", "mean": 0.5, "n": 12})
    ax = rs.plot.heatmap(summary, "hit@5")
    assert not overlaps(drawn(ax.get_yticklabels())) and ax.get_yticklabels()[3].get_text().replace(
        "\n", " "
    ).endswith("… (n = 12)")


def test_names_with_dollars_are_no_formulas(write_golden, write_run):
    golden = rs.load_golden(write_golden(THREE_QUERIES))
    names = [r"$\nothing$", "b $"]
    results = rs.load_results(
        [write_run(f"r{n}", records, system="s") for n, records in enumerate((RUN_A, RUN_B))]
    )
    scores = rs.score(results, golden)
    scores["run_id"] = scores["run_id"].cat.rename_categories(
        dict(zip(("r0", "r1"), names, strict=True))
    )
    for ax in (
        rs.plot.scatter(scores, "mrr", *names),
        rs.plot.metric_at_k(summarize(scores)),
        rs.plot.summary(summarize(scores)),
    ):
        ax.figure.draw_without_rendering()  # a formula that can't be read would raise
