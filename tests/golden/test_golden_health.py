"""What a golden set can tell, and what it can't."""

import numpy as np
import pandas as pd
import pytest
from conftest import hit, record
from scipy import stats

import ragscore as rs
from ragscore.golden.health import golden_health
from tests.messages import refused, says

DISCRIMINATES = {
    "q1": "all pass",
    "q2": "all fail",
    "q3": "tells apart",
    "q4": "one run",
    "q5": "not measured",
}
VALUES = {"A": [1.0, 0, 1, 1, None], "B": [1.0, 0, 0, None, None]}


def golden_of(n, targets=None, **columns):
    query_ids = [f"q{i}" for i in range(1, n + 1)]
    queries = pd.DataFrame(
        {
            "query_id": query_ids,
            "query": [f"word{i} about thing{i}" for i in range(n)],
            "position": range(n),
        }
    )
    queries = queries.assign(answerable=pd.array([True] * n, dtype="boolean"), **columns)
    return rs.Golden(queries=queries, **({"targets": targets} if targets is not None else {}))


def scores_of(values, metric="hit@5"):
    parts = [
        pd.DataFrame(
            {
                "query_id": [f"q{i}" for i in range(1, len(column) + 1)],
                "run_id": run_id,
                "state": "scored",
                "level": "doc",
                metric: column,
            }
        )
        for run_id, column in values.items()
    ]
    return pd.concat(parts).astype({metric: "float64"}).set_index("query_id")


def targets_of(**docs):
    rows = [(query_id, doc) for query_id, listed in docs.items() for doc in listed]
    return pd.DataFrame(rows, columns=["query_id", "target_id"]).assign(
        level="doc", alternative=0, grade=1, doc_id=lambda t: t["target_id"]
    )


def counts(health):
    """[n, n_total] of each finding, by the frame that it is about."""
    found = health.summary
    for sentence in found["finding"]:
        says(sentence)
    return {
        frame: part[["n", "n_total"]].to_numpy().tolist()
        for frame, part in found.groupby("frame", sort=False)
    }


def test_each_question_passes_fails_or_tells_runs_apart():
    health = golden_health(scores_of(VALUES), golden_of(5), metric="hit@5")
    assert health.queries.set_index("query_id")["discriminates"].to_dict() == DISCRIMINATES
    # all pass, all fail, both or alike, fewer than two runs have a value
    assert counts(health)["queries"] == [[1, 3], [1, 3], [2, 3], [2, 5]]
    assert health.summary["finding"][2] in repr(health) and "<table" in health._repr_html_()


def test_the_number_of_queries_needed_is_the_formulas():
    # Differences b − a: 4 × 1, 2 × −1, 14 × 0: mean .1, sd² = (6 − 20 · .01) / 19. The least n with
    # n ≥ (t.975 + t.8)² sd²/δ², t of n − 1.
    a, b = [0.0] * 4 + [1.0] * 2 + [0.0] * 14, [1.0] * 4 + [0.0] * 2 + [0.0] * 14
    needed = golden_health(
        scores_of({"A": a, "B": b}, "mrr"), golden_of(20), metric="mrr", differences=(0.1, 0.5)
    ).needed
    variance = (6 - 20 * 0.01) / 19
    assert needed[["run_baseline", "run_candidate", "n"]].iloc[0].tolist() == ["A", "B", 20]
    assert needed["delta"].iloc[0] == pytest.approx(0.1) and needed["sd"].iloc[0] == pytest.approx(
        variance**0.5
    )
    inflation = needed["design_effect"].iloc[0]
    assert inflation == pytest.approx(1)  # every question is alone in its group
    n = np.arange(2, 500)
    least = (stats.t.ppf(0.975, n - 1) + stats.t.ppf(0.8, n - 1)) ** 2 * variance
    assert (
        needed["n_needed"].tolist()
        == [int(n[n * difference**2 >= least][0]) for difference in (0.1, 0.5)]
        == [242, 12]
    )
    assert needed["n_more"].tolist() == [needed["n_needed"].iloc[0] - 20, 0]


def test_a_rate_needs_six_queries_that_change():
    # 6 of 20 differ; of fewer than 6 that changed, all one way, the exact p is .0625: 6 / .3 = 20.
    # To find .1, with s² = .3 − .1² = .29: (1.96 + .84)² · .29 / .1² + 1.96² / 2 is 229.5.
    a, b = [0.0] * 4 + [1.0] * 2 + [0.0] * 14, [1.0] * 4 + [0.0] * 2 + [0.0] * 14
    needed = golden_health(
        scores_of({"A": a, "B": b}), golden_of(20), metric="hit@5", differences=(0.1, 0.5)
    ).needed
    assert needed["n_needed"].tolist() == [230, 20]


def test_two_equal_runs_need_nobody_knows_how_many_queries():
    needed = golden_health(
        scores_of({"A": [1.0, 0, 1], "B": [1.0, 0, 1]}), golden_of(3), metric="hit@5"
    ).needed
    assert needed["n_needed"].isna().all() and needed["n_more"].isna().all()


@pytest.fixture
def loaded(write_golden, write_run):
    golden = rs.load_golden(
        write_golden(
            [
                {"id": "q1", "query": "one thing", "expected_doc_ids": ["d1", "d2"]},
                {"id": "q2", "query": "another", "expected_doc_ids": ["d3"]},
            ]
        )
    )
    runs = [
        write_run("A", [record("q1", [hit("c", "d1", 1)]), record("q2", [hit("c", "d2", 1)])]),
        write_run("B", [record("q1", [hit("c", "x", 1)]), record("q2", [hit("c", "x", 1)])]),
    ]
    return golden, rs.load_results(runs)


@pytest.mark.filterwarnings("ignore:ids of")
def test_targets_that_no_run_returned_are_named_and_whether_anybody_saw_them(loaded):
    golden, results = loaded
    health = golden_health(rs.score(results, golden, ["passed"]), golden, results)
    # d2 came back for another question, d3 nowhere; d1 was returned by A.
    assert health.targets[
        ["query_id", "target_id", "n_runs", "seen_elsewhere"]
    ].to_numpy().tolist() == [["q1", "d2", 2, True], ["q2", "d3", 2, False]]
    # returned by no run, in no hit and no catalogue
    assert counts(health)["targets"] == [[2, 3], [1, 3]]
    assert health.metric == "passed"


def test_a_metric_that_can_not_be_passed_is_refused():
    with refused("passed", field="metric"):
        golden_health(scores_of(VALUES), golden_of(5))
    with refused(0, 1, field="metric"):
        golden_health(scores_of(VALUES, "failed"), golden_of(5), metric="failed")
    with refused(0, field="differences"):
        golden_health(scores_of(VALUES), golden_of(5), metric="hit@5", differences=(0,))
