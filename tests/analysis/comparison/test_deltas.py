"""What changed between two runs metric by metric.

Intervals by the metric's kind, clusters, what failed, and the words of the metrics that decide.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import hit, record
from scipy import stats

import ragscore as rs
from ragscore.analysis.comparison.deltas import paired_deltas
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.metrics import TABLE
from ragscore.stats import tango_interval
from ragscore.stats.quantiles import median_difference_interval
from tests.compared import compare_runs
from tests.messages import refused


def deltas_of(label, first, second, primary=(), **more):
    frames = [pd.DataFrame({label: values}, dtype="float64") for values in (first, second)]
    return paired_deltas(*frames, primary, **more).iloc[0]


def test_a_binary_metric_has_tangos_interval_and_the_p_of_mcnemar():
    row = deltas_of("hit@5", [0] * 8 + [1] * 2 + [1] * 30, [1] * 8 + [0] * 2 + [1] * 30)
    low, high = tango_interval(8, 2, 40)
    assert row[["delta", "low", "high"]].tolist() == [0.15, low[0], high[0]]
    # z = (8 − 2) / √(8 + 2)
    assert row["p"] == pytest.approx(2 * stats.norm.sf(6 / 10**0.5))
    assert row[["n_better", "n_worse", "n_same", "n"]].tolist() == [8, 2, 30, 40]
    assert pd.isna(row["verdict"]) and row["statistic"] == "mean"


LOW, HIGH = [0.2] * 5 + [0.3] * 25, [0.6] * 5 + [0.8] * 25


@pytest.mark.parametrize(
    ("metric", "sides", "word"),
    [
        ("recall@5", (LOW, HIGH), "better"), ("citation_fabricated", (LOW, HIGH), "worse"),
        ("recall@5", (LOW, LOW), "can't tell"), ("recall@5", (LOW, [np.nan] * 30), None),
        ("length", (LOW, HIGH), None),  # no direction, no word
    ],
    ids=range(5),
)  # fmt: skip
def test_a_metric_that_decides_has_a_word_by_its_direction_and_no_p(metric, sides, word):
    row = deltas_of(metric, *sides, [metric])
    assert (row["verdict"] == word) if word else pd.isna(row["verdict"])
    assert np.isnan(row["p"])


def test_the_level_widens_the_intervals_of_metrics_that_decide_alone():
    rng = np.random.default_rng(2)
    sides = [pd.DataFrame(rng.random((40, 2)), columns=["mrr", "ndcg@5"]) for _ in range(2)]
    wide = paired_deltas(*sides, ["mrr"], level=0.01).set_index("metric")
    alone = paired_deltas(*sides).set_index("metric")
    pd.testing.assert_series_equal(wide.loc["ndcg@5"], alone.loc["ndcg@5"], check_names=False)
    theirs = stats.ttest_rel(sides[1]["mrr"], sides[0]["mrr"])
    assert alone.loc["mrr", "p"] == pytest.approx(theirs.pvalue)
    for row, level in ((alone.loc["mrr"], 0.95), (wide.loc["mrr"], 0.99)):
        assert row[["low", "high"]].tolist() == pytest.approx([*theirs.confidence_interval(level)])


def test_times_have_the_difference_of_their_medians():
    quick, slow = [10.0 + n for n in range(12)], [20.0 + n for n in range(11)] + [900.0]
    row = deltas_of("latency_ms", quick, slow, ["latency_ms"])
    assert row[["baseline", "candidate", "delta"]].tolist() == [15.5, 25.5, 10.0]
    assert row[["low", "high"]].tolist() == [*median_difference_interval(quick, slow)]
    assert (row["verdict"], row["statistic"]) == ("worse", "median")
    few = deltas_of("latency_ms", [10.0] * 5, [12.0] * 5, ["latency_ms"])
    assert np.isnan(few["low"]) and few["verdict"] == "can't tell"
    none = deltas_of("latency_ms", [3.0, np.nan], [np.nan, 4.0])
    assert none["n"] == 0 and none[["delta", "low", "high", "p"]].isna().all()


def test_points_of_a_judge_are_bounded_by_their_own_range():
    assert TABLE.parse("judge_correctness").metric.bounds == (0, 5)
    row = deltas_of("judge_correctness", [0.0] * 10, [5.0] * 10, ["judge_correctness"])
    assert (row["high"], row["verdict"]) == (5, "better")
    assert row["low"] < 5, "ten equal differences are no certainty"


def test_values_of_another_scale_have_an_interval_of_their_own():
    row = deltas_of("recall@5", [10.0, 20, 30, 40], [30.0, 50, 70, 60])
    assert row["low"] < row["delta"] == 27.5 < row["high"]


def test_a_few_queries_that_carry_the_mean_call_for_caution():
    row = deltas_of("recall@5", [0.5] * 50, [0.5] * 48 + [1.0] * 2)
    assert row["caution"] and row["skewness"] == pytest.approx(stats.skew([0] * 48 + [0.5] * 2))
    assert not deltas_of("recall@5", [0.5] * 50, [0.3] * 25 + [0.7] * 25)["caution"]


def test_groups_are_those_that_two_queries_share():
    groups = {"a1": "a", "b": "b", "a2": "a", "c": None}
    golden = rs.load_golden(
        [{"id": one, "expected_doc_ids": ["d"], "group": group} for one, group in groups.items()]
    )
    found = query_clusters(golden, pd.Index(["c", "a2", "b", "a1", "x"]), "group")
    assert found.tolist() == [-1, 0, -1, 0, -1]
    assert query_clusters(golden, pd.Index(["c"]), None) is None
    with refused("x_source", field="cluster"):
        query_clusters(golden, pd.Index(["c"]), "x_source")


def test_what_the_candidate_failed_on_is_counted(loaded):
    rows = [{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in range(4)]
    found = [hit("c", "d", 1)]
    a = [record(f"q{n}", hits) for n, hits in enumerate(([], [], found, found))]
    # b fails on the two that a found empty, and was never asked the fourth
    b = [*(one | {"error": "x"} for one in a[:2]), a[2]]
    of = loaded(rows, {"a": a, "b": b})
    cmp = compare_runs(*of, "a", "b", metrics=["empty", "mrr", "latency_ms"])
    row, counts = cmp.deltas.set_index("metric"), ["n", "n_lost", "delta"]
    assert row.loc["empty", counts].tolist() == [1, 3, 0]
    # a failed query is a miss already (0, 0), q2 1 in both; q3 is lost
    assert row.loc["mrr", counts].tolist() == [3, 1, 0]
    assert row.loc["latency_ms", "n_lost"] == 3
    assert cmp.per_query[["state_baseline", "state_candidate"]].to_numpy().tolist() == [
        ["scored", "failed"], ["scored", "failed"], ["scored", "scored"], ["scored", "missing"],
    ]  # fmt: skip


def test_the_detectable_difference_is_that_of_the_interval():
    first, second = np.random.default_rng(3).random((2, 50))
    own = deltas_of("mrr", first, second, ["mrr"], level=0.01)["detectable"]
    error = stats.sem(second - first)
    assert own == pytest.approx(error * (stats.t.ppf(0.995, 49) + stats.t.ppf(0.8, 49)))
    assert np.isnan(deltas_of("hit@5", [0.0] * 20, [0.0] * 20)["detectable"]), "nothing moved"
