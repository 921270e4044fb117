"""What a golden set can tell, and what it can't."""

import numpy as np
import pytest
from conftest import hit, record
from scipy import stats

import ragscore as rs
from tests.messages import refused, says

pytestmark = pytest.mark.filterwarnings("ignore:golden queries without a row")
DISCRIMINATES = {
    "q1": "all pass",
    "q2": "all fail",
    "q3": "tells apart",
    "q4": "one run",
    "q5": "not measured",
}
VALUES = {"A": [1.0, 0, 1, 1, None], "B": [1.0, 0, 0, None, None]}
CHANGED = {
    "A": [0.0] * 4 + [1.0] * 2 + [0.0] * 14,
    "B": [1.0] * 4 + [0.0] * 2 + [0.0] * 14,
}


def evaluated(values):
    """Runs whose hit@5 and mrr are these values: the document, another one, or no row (None)."""
    n = len(next(iter(values.values())))
    golden = {f"q{i}": ["d"] for i in range(1, n + 1)}
    runs = {
        run: {
            f"q{i}": ["d" if value else "x"]
            for i, value in enumerate(column, 1)
            if value is not None
        }
        for run, column in values.items()
    }
    parts = [rs.load_results(found, run_id=run) for run, found in runs.items()]
    return rs.evaluate(rs.Results.concat(parts), golden)


def health_of(values, metric="hit@5", **how):
    ev = evaluated(values)
    return ev.golden.health(ev, metric, **how)


def test_each_question_passes_fails_or_tells_runs_apart():
    health = health_of(VALUES)
    assert health.queries.set_index("query_id")["discriminates"].to_dict() == DISCRIMINATES
    says(repr(health), "tells apart", 1)
    assert "<table" in health._repr_html_()


def test_the_number_of_queries_needed_is_the_formulas():
    # Differences b − a: 4 × 1, 2 × −1, 14 × 0: mean .1, sd² = (6 − 20 · .01) / 19. The least n with
    # n ≥ (t.975 + t.8)² sd²/δ², t of n − 1.
    needed = health_of(CHANGED, "mrr", differences=(0.1, 0.5)).needed
    variance = (6 - 20 * 0.01) / 19
    row = needed.iloc[0]
    assert row[["run_baseline", "run_candidate", "n"]].tolist() == ["A", "B", 20]
    # every question is alone in its group
    figures = row[["delta", "sd", "design_effect"]].tolist()
    assert figures == pytest.approx([0.1, variance**0.5, 1])
    n = np.arange(2, 500)
    least = (stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) ** 2 * variance
    by_hand = [int(n[n * difference**2 >= least][0]) for difference in (0.1, 0.5)]
    assert needed["n_needed"].tolist() == by_hand == [242, 12]
    assert needed["n_more"].tolist() == [222, 0]


def test_a_rate_needs_six_queries_that_change():
    # 6 of 20 differ; of fewer than 6 that changed, all one way, the exact p is .0625: 6 / .3 = 20.
    # To find .1, with s² = .3 − .1² = .29: (1.96 + .84)² · .29 / .1² + 1.96² / 2 is 229.5.
    needed = health_of(CHANGED, differences=(0.1, 0.5)).needed
    assert needed["n_needed"].tolist() == [230, 20]


def test_two_equal_runs_need_nobody_knows_how_many_queries():
    needed = health_of({"A": [1.0, 0, 1], "B": [1.0, 0, 1]}).needed
    assert needed["n_needed"].isna().all() and needed["n_more"].isna().all()


@pytest.mark.filterwarnings("ignore:ids of")
def test_targets_that_no_run_returned_are_named(write_golden, write_run):
    rows = [
        {"id": "q1", "query": "one thing", "expected_doc_ids": ["d1", "d2"]},
        {"id": "q2", "query": "another", "expected_doc_ids": [["d3", "d4"]]},
    ]
    runs = [
        write_run("A", [record("q1", [hit("c", "d1", 1)]), record("q2", [hit("c", "d2", 1)])]),
        write_run("B", [record("q1", [hit("c", "x", 1)]), record("q2", [hit("c", "x", 1)])]),
    ]
    ev = rs.evaluate(rs.load_results(runs), write_golden(rows))
    health = ev.golden.health(ev)
    # d2 came back for another question only; d3 has an alternative, and counts once
    columns = ["query_id", "target_id", "n_runs"]
    assert health.targets[columns].to_numpy().tolist() == [["q1", "d2", 2], ["q2", "d3", 2]]
    says(repr(health), 2, "targets")
    assert health.metric == "passed"


def test_a_metric_that_can_not_be_passed_is_refused():
    with refused("mr", field="metrics"):
        health_of(VALUES, "mr")
    with refused(0, 1, field="metric"):
        health_of(VALUES, "failed")
    with refused(0, field="differences"):
        health_of(VALUES, differences=(0,))
