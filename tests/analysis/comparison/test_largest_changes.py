"""Queries behind a comparison's differences: flipped answers, largest changes, and tie margins."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.cli import main
from tests.messages import refused, says

GOLDEN = [
    {"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"], "must_contain": ["yes"]}
    for n in range(8)
] + [{"id": "no", "query": "?", "answerable": False}]


def run_of(write_run, name, ranks, answers):
    """A run that finds document d at these ranks (0: nowhere) and gives these answers.

    The last query should be refused.
    """
    hits = [
        [hit("x", "dx", one) for one in range(1, rank)] + ([hit("c", "d", rank)] if rank else [])
        for rank in ranks
    ]
    rows = [
        record(f"q{n}", found, answer=answer(text))
        for n, (found, text) in enumerate(zip(hits, answers, strict=True))
    ]
    return write_run(
        name, [*rows, record("no", [], answer=answer("no idea", grounded=name == "b"))]
    )


@pytest.fixture
def compared(write_golden, write_run):
    golden = rs.load_golden(write_golden(GOLDEN))
    a = run_of(write_run, "a", [1, 1, 1, 2, 0, 0, 2, 4], ["yes"] * 3 + ["no"] * 5)
    b = run_of(write_run, "b", [0, 2, 4, 1, 1, 2, 2, 0], ["no"] + ["yes"] * 3 + ["no"] * 4)
    return rs.load_results([a, b]), golden


@pytest.mark.large
def test_answers_flip_where_a_0_1_metric_changes_for_better_or_worse(compared):
    flips = compare_runs(
        *compared,
        "a",
        "b",
        metrics=["hit@1", "answer_checks", "answered_unanswerable", "refusal_correct", "mrr"],
    ).flips
    assert flips[["metric", "query_id", "baseline", "candidate", "kind"]].to_numpy().tolist() == [
        ["answer_checks", "q0", 1, 0, "regression"], ["answer_checks", "q3", 0, 1, "improvement"],
        ["answered_unanswerable", "no", 0, 1, "regression"],
        ["refusal_correct", "no", 1, 0, "regression"],
    ]  # fmt: skip


@pytest.mark.large
def test_judges_points_flip_across_bad_and_good(compared):
    results, golden = compared
    points = [
        ("a", "q0", 5.0),
        ("b", "q0", 2.0),
        ("a", "q1", 4.0),
        ("b", "q1", 3.0),
        ("a", "q2", 1.0),
        ("b", "q2", 4.0),
    ]
    judged = pd.DataFrame(points, columns=["run_id", "query_id", "value"]).assign(
        criterion="judge_correctness", item="", judge="m"
    )
    flips = compare_runs(
        replace(results, judgments=judged), golden, "a", "b", metrics=["judge_correctness"]
    ).flips
    # 4 to 3 is not bad yet
    assert flips[["query_id", "kind"]].to_numpy().tolist() == [
        ["q0", "regression"],
        ["q2", "improvement"],
    ]


@pytest.mark.large
def test_the_three_largest_losses_and_gains_are_kept(compared):
    largest_changes = compare_runs(*compared, "a", "b", metrics=["mrr", "hit@1"]).largest_changes
    # reciprocal ranks: q0 1 → 0, q1 1 → ½, q2 1 → ¼, q7 ¼ → 0; q3 ½ → 1, q4 0 → 1, q5 0 → ½; q6
    # stays. A 0/1 metric has no largest move.
    found = [
        (row["query_id"], row["delta"], row["kind"]) for row in largest_changes.to_dict("records")
    ]
    assert found == [
        ("q0", -1.0, "regression"), ("q4", 1.0, "improvement"), ("q2", -0.75, "regression"),
        ("q1", -0.5, "regression"), ("q3", 0.5, "improvement"), ("q5", 0.5, "improvement"),
    ]  # fmt: skip
    assert set(largest_changes["metric"]) == {"mrr"}


@pytest.mark.large
def test_a_slower_answer_is_a_regression(compared):
    results, golden = compared
    slow = results.responses.assign(elapsed_ms=[10.0] * 9 + [10.0, 90.0, 5.0] + [10.0] * 6)
    largest_changes = compare_runs(
        replace(results, responses=slow), golden, "a", "b", metrics=["latency_ms"]
    ).largest_changes
    assert largest_changes[["query_id", "kind"]].to_numpy().tolist() == [
        ["q1", "regression"],
        ["q2", "improvement"],
    ]


@pytest.mark.slow
def test_markdown_says_how_skew_differences_are_and_who_carries_them(compared):
    text = compare_runs(*compared, "a", "b", metrics=["mrr@10", "answer_checks"]).to_markdown()
    line = next(
        line
        for line in text.partition("## Largest changes")[2].splitlines()
        if line.startswith("| mrr@10 |")
    )
    # -1/2 in 8 queries; scipy.stats.skew of these says 0.146
    assert line.startswith("| mrr@10 | -0.062 | +0.1 |")
    assert line.endswith("| q0 -1.00, q2 -0.75, q1 -0.50 | q4 +1.00, q3 +0.50, q5 +0.50 |")
    assert "| answer_checks | 1 | 1 | 1.000 | ○ can't tell | 1, 0 | q0 | q3 |" in text
    cmp = compare_runs(*compared, "a", "b", metrics=["mrr@10"])
    carried = replace(cmp, deltas=cmp.deltas.assign(caution=True))
    moves = "q0 -1.00, q4 +1.00, q2 -0.75, q1 -0.50, q3 +0.50, q5 +0.50"
    says(carried.notes(), "mrr@10", moves)
    same = compare_runs(*compared, "a", "b", metrics=["failed"]).to_markdown()
    assert "## Largest changes" not in same and "## Answers that flipped" not in same


@pytest.mark.large
def test_flips_and_moves_come_back_from_json(compared):
    cmp = compare_runs(*compared, "a", "b", metrics=["mrr", "answer_checks"])
    again = rs.Comparison.from_json(cmp.to_json())
    pd.testing.assert_frame_equal(again.flips, cmp.flips)
    pd.testing.assert_frame_equal(again.largest_changes, cmp.largest_changes)


@pytest.mark.large
def test_a_tie_margin_makes_small_moves_draws_and_lowers_what_noise_would_give(compared):
    def counts(**ties):
        row = compare_runs(
            *compared, "a", "b", metrics=["mrr"], tie_margins=ties or None
        ).deltas.iloc[0]
        return row[["n_better", "n_worse", "n_same", "n_expected_by_chance"]].tolist()

    assert counts() == [3, 4, 1, 3.5]
    assert counts(mrr=0.5) == [1, 2, 5, 1.5]  # a move of just the margin is none


@pytest.mark.parametrize("field", ["margins", "tie_margins"])
def test_a_margin_of_nothing_compared_is_refused(compared, field):
    with refused("mrr@7", "mrr", "hit@1", field=field):
        compare_runs(*compared, "a", "b", metrics=["mrr", "hit@1"], **{field: {"mrr@7": 0.1}})
    with refused(field, "mrr", -0.1, 0):
        compare_runs(*compared, "a", "b", metrics=["mrr"], **{field: {"mrr": -0.1}})


@pytest.mark.slow
def test_the_page_shows_the_largest_moves_and_the_flips_that_markdown_shows(compared):
    cmp = compare_runs(*compared, "a", "b", metrics=["mrr@10", "answer_checks"])
    page = cmp.report().to_html()
    moves, _, flips = page.partition("Largest changes</h3>")[2].partition(
        "Answers that flipped</h3>"
    )
    assert (
        "q0 -1.00, q2 -0.75, q1 -0.50" in moves
        and "answer_checks" in flips
        and page.count("Answers that flipped</h3>") == 1
    )
    assert (
        "Answers that flipped</h3>"
        not in compare_runs(*compared, "a", "b", metrics=["hit@1"]).report().to_html()
    )


@pytest.mark.slow
def test_a_tie_margin_may_be_given_by_command(write_golden, write_run, capsys):
    golden = write_golden(GOLDEN)
    runs = [
        run_of(write_run, name, ranks, ["yes"] * 8)
        for name, ranks in (("a", [1, 1, 2, 2, 4, 4, 4, 4]), ("b", [2, 1, 1, 4, 5, 5, 4, 4]))
    ]

    def counts(*more):
        assert main(["compare", *map(str, runs), "--golden", str(golden), "--json", *more]) in (
            0,
            None,
        )
        row = next(
            row
            for row in json.loads(capsys.readouterr().out)["deltas"]
            if row["metric"] == "mrr@10"
        )
        return row["n_better"], row["n_worse"], row["n_same"]

    assert counts() == (1, 4, 3)
    assert counts("--tie-margin", "mrr@10=0.05")[:2] == (1, 2)  # two fell from 1/4 to 1/5
    assert (
        main(["compare", *map(str, runs), "--golden", str(golden), "--tie-margin", "mrr@10"]) == 2
    )
    says(capsys.readouterr().err, "--tie-margin", "mrr@10")
