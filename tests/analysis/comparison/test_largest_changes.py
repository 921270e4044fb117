"""Queries behind a comparison's differences: the largest changes."""

from dataclasses import replace

import pytest
from conftest import answer, hit, record

import ragscore as rs
from tests.compared import compare_runs

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


def test_the_three_largest_losses_and_gains_are_kept(compared):
    largest_changes = compare_runs(*compared, "a", "b", metrics=["mrr", "hit@1"])._largest_changes
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


def test_a_slower_answer_is_a_regression(compared):
    results, golden = compared
    slow = results.responses.assign(elapsed_ms=[10.0] * 9 + [10.0, 90.0, 5.0] + [10.0] * 6)
    largest_changes = compare_runs(
        replace(results, responses=slow), golden, "a", "b", metrics=["latency_ms"]
    )._largest_changes
    assert largest_changes[["query_id", "kind"]].to_numpy().tolist() == [
        ["q1", "regression"],
        ["q2", "improvement"],
    ]
