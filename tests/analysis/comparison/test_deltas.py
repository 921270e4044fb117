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
from ragscore.stats import tango_interval
from ragscore.stats.quantiles import median_difference_interval
from tests.compared import compare_runs
from tests.messages import refused


def deltas_of(label, first, second, primary=(), **more):
    frames = [pd.DataFrame({label: values}, dtype="float64") for values in (first, second)]
    return paired_deltas(*frames, primary, **more).iloc[0]


QUICK, SLOW = [10.0 + n for n in range(12)], [20.0 + n for n in range(11)] + [900.0]
NAN = np.nan
((TANGO_LOW,), (TANGO_HIGH,)) = tango_interval(8, 2, 40)
(TIMES_LOW, TIMES_HIGH) = median_difference_interval(QUICK, SLOW)


@pytest.mark.parametrize(
    ("metric", "first", "second", "figures"),
    [
        # a binary metric has Tango's interval and McNemar's p: z = (8 − 2) / √(8 + 2)
        ("hit@5", [0] * 8 + [1] * 2 + [1] * 30, [1] * 8 + [0] * 2 + [1] * 30,
         {"delta": 0.15, "low": TANGO_LOW, "high": TANGO_HIGH,
          "p": 2 * stats.norm.sf(6 / 10**0.5), "n_better": 8, "n_worse": 2, "n_same": 30, "n": 40,
          "statistic": "mean"}),
        # times have the difference of their medians, and a word if they are asked for
        ("latency_ms", QUICK, SLOW,
         {"baseline": 15.5, "candidate": 25.5, "delta": 10, "low": TIMES_LOW, "high": TIMES_HIGH,
          "statistic": "median"}),
        ("latency_ms", [3.0, NAN], [NAN, 4.0], {"n": 0, "delta": NAN, "low": NAN, "p": NAN}),
        # a few queries that carry the mean call for caution
        ("recall@5", [0.5] * 50, [0.5] * 48 + [1.0] * 2,
         {"caution": True, "skewness": stats.skew([0] * 48 + [0.5] * 2)}),
        ("recall@5", [0.5] * 50, [0.3] * 25 + [0.7] * 25, {"caution": False}),
        ("hit@5", [0.0] * 20, [0.0] * 20, {"detectable": NAN}),  # nothing moved
    ],
    ids=["binary", "times", "no times", "caution", "no caution", "nothing"],
)  # fmt: skip
def test_figures_of_a_difference(metric, first, second, figures):
    row = deltas_of(metric, first, second)
    assert row[list(figures)].to_dict() == pytest.approx(figures, nan_ok=True)
    assert pd.isna(row["verdict"])


def test_values_lie_within_the_range_of_their_metric_or_have_one_of_their_own():
    # ten equal differences of points from 0 to 5 are no certainty
    row = deltas_of("judge_correctness", [0.0] * 10, [5.0] * 10, ["judge_correctness"])
    assert row["low"] < 5 == row["high"] and row["verdict"] == "better"
    row = deltas_of("recall@5", [10.0, 20, 30, 40], [30.0, 50, 70, 60])
    assert row["low"] < row["delta"] == 27.5 < row["high"]


LOW, HIGH = [0.2] * 5 + [0.3] * 25, [0.6] * 5 + [0.8] * 25


@pytest.mark.parametrize(
    ("metric", "sides", "word"),
    [
        ("recall@5", (LOW, HIGH), "better"), ("citation_fabricated", (LOW, HIGH), "worse"),
        ("recall@5", (LOW, LOW), "can't tell"), ("recall@5", (LOW, [np.nan] * 30), None),
        ("length", (LOW, HIGH), None),  # no direction, no word
        ("latency_ms", (QUICK, SLOW), "worse"),
        ("latency_ms", ([10.0] * 5, [12.0] * 5), "can't tell"),  # five have no interval
    ],
    ids=range(7),
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
    errors = stats.t.ppf(0.995, 49) + stats.t.ppf(0.8, 49)
    assert own == pytest.approx(stats.sem(second - first) * errors)
