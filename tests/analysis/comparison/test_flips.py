"""Queries that went from good to bad, or from bad to good."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.comparison.score_diff import diff_scores


def scores_of(metric, before, after):
    """Scores of two runs, one query per value."""
    ids = pd.Index([f"q{n}" for n in range(len(before))], name="query_id")
    return pd.concat(
        [
            pd.DataFrame(
                {"run_id": run, "state": "scored", "level": "doc", metric: values}, index=ids
            )
            for run, values in (("a", before), ("b", after))
        ]
    )


def kinds(metric, before, after, **more):
    found = diff_scores(scores_of(metric, before, after), "a", "b").flips(**more)
    return dict(zip(found["query_id"], found["kind"], strict=True))


def test_a_binary_metric_flips_between_0_and_1():
    assert kinds("hit@5", [1.0, 0, 1, 0, np.nan], [0.0, 1, 1, 0, 1]) == {
        "q0": "regression",
        "q1": "improvement",
    }


def test_a_metric_that_should_be_low_flips_the_other_way():
    assert kinds("answered_unanswerable", [1.0, 0], [0.0, 1]) == {
        "q0": "improvement",
        "q1": "regression",
    }


def test_a_metric_without_limits_flips_by_thresholds_only():
    assert kinds("mrr", [1.0, 0.1], [0.1, 1.0]) == {}
    assert kinds("mrr", [1.0, 0.1, 0.4], [0.1, 1.0, 1.0], thresholds={"mrr": (0.2, 0.5)}) == {
        "q0": "regression",
        "q1": "improvement",
    }
    # lower is better: at most 50 is good, above 100 is bad
    assert kinds(
        "latency_ms", [50.0, 101, 100], [101.0, 50, 50], thresholds={"latency_ms": (100, 50)}
    ) == {"q0": "regression", "q1": "improvement"}
    with pytest.raises(rs.DataError, match=r"thresholds: no column mrr@7; scores has mrr"):
        kinds("mrr", [1.0], [0.1], thresholds={"mrr@7": (0.2, 0.5)})


def test_both_values_stand_beside_the_kind_metric_by_metric():
    scores = scores_of("hit@1", [1.0, 0], [0.0, 1]).assign(judge_correctness=[5.0, 2, 2, 4.5])
    rows = diff_scores(scores, "a", "b").flips()
    assert rows.columns.tolist() == ["metric", "query_id", "baseline", "candidate", "kind"]
    assert rows.to_numpy().tolist() == [
        ["hit@1", "q0", 1, 0, "regression"], ["hit@1", "q1", 0, 1, "improvement"],
        ["judge_correctness", "q0", 5, 2, "regression"],
        ["judge_correctness", "q1", 2, 4.5, "improvement"],
    ]  # fmt: skip
