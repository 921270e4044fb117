"""What changed between two runs metric by metric.

Tests and intervals by the metric's kind, clusters, what failed, and words that n allows.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import hit, record
from scipy import stats
from scipy.stats import permutation_test

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.deltas import jointly_tested, paired_deltas, read_by_medians
from ragscore.analysis.comparison.text import _moved
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.metrics import NOTHING_DECLARED, parse_label
from ragscore.stats import minimum_detectable_rate
from tests.messages import refused


def deltas_of(label, first, second, **more):
    frames = [pd.DataFrame({label: values}, dtype="float64") for values in (first, second)]
    nothing = frames[0] * np.nan
    return paired_deltas(*frames, more.pop("lost", nothing), **more).iloc[0]


def test_a_binary_metric_is_tested_by_mcnemars_mid_p():
    row = deltas_of("hit@5", [0] * 8 + [1] * 2 + [1] * 30, [1] * 8 + [0] * 2 + [1] * 30)
    # 2 P(X < 2) + P(X = 2) of Bin(10, 1/2)
    assert row["p"] == pytest.approx((2 * (1 + 10) + 45) / 2**10, abs=1e-12)
    assert row[["n_better", "n_worse", "n_same", "n_expected_by_chance"]].tolist() == [8, 2, 30, 5]
    assert row["verdict"] == "can't tell"


def test_a_change_is_listed_only_where_exact_and_mid_p_are_small():
    for n_moved, exact, mid, listed in ((5, 1 / 16, 1 / 32, []), (6, 1 / 32, 1 / 64, ["hit@5"])):
        row = deltas_of("hit@5", [0] * n_moved + [1] * 40, [1] * (n_moved + 40))
        assert (row["p_exact"], row["p"]) == pytest.approx((exact, mid))
        table = pd.DataFrame([row]).assign(verdict="can't tell", p_adjusted=row["p"])
        assert _moved(table) == listed


def test_a_bounded_metric_is_tested_by_permutation_of_the_mean():
    rng = np.random.default_rng(1)
    first, second = rng.random(12), rng.random(12)
    exact = permutation_test(
        (second - first,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert deltas_of("recall@5", first, second)["p"] == pytest.approx(exact, abs=1e-12)


def test_a_clear_change_is_better_or_worse_by_the_metrics_direction():
    low, high = [0.2] * 5 + [0.3] * 25, [0.6] * 5 + [0.8] * 25
    assert deltas_of("recall@5", low, high)["verdict"] == "better"
    assert deltas_of("citation_fabricated", low, high)["verdict"] == "worse"
    quick, slow = [10.0 + n for n in range(12)], [20.0 + n for n in range(12)]
    assert deltas_of("latency_ms", quick, slow)["verdict"] == "worse"


def test_times_are_told_by_the_interval_of_their_median():
    few = deltas_of("latency_ms", [10.0] * 5, [12.0] * 5)
    assert few["verdict"] == "can't tell"
    # of seven differences −3 ... 3 the interval of the median reaches from the least to the largest
    row = deltas_of("latency_ms", [10.0] * 7, [7.0, 8, 9, 10, 11, 12, 13])
    assert row[["p50_low", "p50_high", "verdict"]].tolist() == [-3, 3, "can't tell"]
    row = deltas_of("latency_ms", [10.0] * 12, [8.0] * 6 + [7.0] * 6)
    assert row[["p50_delta", "p50_low", "p50_high"]].tolist() == [-2.5, -3, -2]
    assert row["verdict"] == "better"


def test_times_that_no_query_has_in_both_runs_have_no_p():
    first, second = (pd.DataFrame({"latency_ms": one}) for one in ([3.0, np.nan], [np.nan, 4.0]))
    deltas = paired_deltas(first, second, first * np.nan)
    read = read_by_medians(deltas, NOTHING_DECLARED)
    assert read["n"].tolist() == [0] and read["p"].isna().all()


def test_points_of_a_judge_are_bounded_by_their_own_range():
    assert parse_label("judge_correctness").metric.bounds == (0, 5)
    row = deltas_of("judge_correctness", [0.0] * 10, [5.0] * 10)
    assert (row["high"], row["verdict"]) == (5, "better")
    assert row["low"] < 5, "ten equal differences are no certainty"


def test_a_few_queries_that_carry_the_mean_call_for_caution():
    row = deltas_of("recall@5", [0.5] * 50, [0.5] * 48 + [1.0] * 2)
    assert row["caution"] and row["skewness"] == pytest.approx(stats.skew([0] * 48 + [0.5] * 2))
    assert not deltas_of("recall@5", [0.5] * 50, [0.3] * 25 + [0.7] * 25)["caution"]


def test_a_declared_margin_allows_the_same_and_no_worse():
    rng = np.random.default_rng(0)
    first = rng.random(400)
    second = np.clip(first + rng.normal(0, 0.02, 400), 0, 1)
    assert deltas_of("mrr", first, second)["verdict"] == "can't tell"
    same = deltas_of("mrr", first, second, margins={"mrr": 0.05})
    assert same["verdict"] == "same within margin"
    # 40 differences of ±.1 and one of +.5: the interval leaves out −.05, but not +.05
    d = np.tile([0.1, -0.1], 20)
    wide = deltas_of("mrr", [0.5] * 41, 0.5 + np.append(d, 0.5), margins={"mrr": 0.05})
    assert (wide["low"] > -0.05, wide["high"] > 0.05) == (True, True)
    assert wide["verdict"] == "no worse than margin"


def test_each_of_several_margins_is_held_against_a_wider_interval():
    d = np.tile([0.1, -0.1], 20)
    low = -(stats.sem(d) * stats.t.ppf(0.975, 39))
    margin = -low + 1e-6  # just outside the 95 % interval, inside that of 97.5 %
    frames = [pd.DataFrame({"mrr": side, "ndcg@5": side}) for side in (np.full(40, 0.5), 0.5 + d)]
    words = [
        paired_deltas(*frames, frames[0] * np.nan, margins=margins)["verdict"][0]
        for margins in ({"mrr": margin}, {"mrr": margin, "ndcg@5": margin})
    ]
    assert words == ["same within margin", "can't tell"]


def test_queries_of_one_group_count_as_one():
    first, second = [0.0] * 12, [1.0] * 12
    alone, together = (
        deltas_of("recall@5", first, second),
        deltas_of("recall@5", first, second, groups=np.zeros(12, dtype=np.int64)),
    )
    assert alone["p"] == pytest.approx(2 / 2**12)
    assert together["p"] == 1, "one group has one sign to flip: as far from 0 either way"


def test_groups_are_those_that_two_queries_share(write_golden):
    groups = {"a1": "a", "b": "b", "a2": "a", "c": None}
    rows = [
        {"id": name, "query": "?", "expected_doc_ids": ["d"]} | ({"group": group} if group else {})
        for name, group in groups.items()
    ]
    golden = rs.load_golden(write_golden(rows))
    assert query_clusters(golden, pd.Index(["c", "a2", "b", "a1", "x"]), "group").tolist() == [
        -1,
        0,
        -1,
        0,
        -1,
    ]
    assert query_clusters(golden, pd.Index(["c"]), None) is None
    with refused("x_source", field="cluster"):
        query_clusters(golden, pd.Index(["c"]), "x_source")


def test_what_the_candidate_failed_on_never_improves_a_mean(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in range(4)])
    )
    found, nothing = [hit("c", "d", 1)], []
    a = write_run(
        "a",
        [record("q0", nothing), record("q1", nothing), record("q2", found), record("q3", found)],
    )
    # b fails on the two that a found empty, and was never asked the fourth
    b = write_run(
        "b",
        [record("q0", nothing, error="x"), record("q1", nothing, error="x"), record("q2", found)],
    )
    cmp = compare_runs(
        rs.load_results([a, b]), golden, "a", "b", metrics=["empty", "mrr", "latency_ms"]
    )
    row, worst = (frame.set_index("metric") for frame in (cmp.deltas, cmp.at_worst))
    counts = ["n", "n_lost", "delta"]
    # empty: q2 is 0 in both; q0, q1 failed and q3 missing: a has 1, 1, 0 there, at worst b has 1
    # each: (0 + 0 + 0 + 1) / 4
    assert row.loc["empty", counts].tolist() == [1, 3, 0]
    assert worst.loc["empty", counts].tolist() == [4, 3, 0.25]
    # mrr: a failed query is a miss already (0, 0), q2 1 in both; q3 is lost: (0 + 0 + 0 - 1) / 4
    assert row.loc["mrr", counts].tolist() == [3, 1, 0]
    assert worst.loc["mrr", counts].tolist() == [4, 3, -0.25]
    assert row.loc["latency_ms", "n_lost"] == 3
    assert worst.loc["latency_ms", ["n", "n_lost", "n_uncounted"]].tolist() == [1, 0, 3], (
        "time has no worst value"
    )


def test_a_ratio_is_the_geometric_mean_of_positive_pairs():
    row = deltas_of("cost_usd", [1.0, 1.0, 0.0], [2.0, 8.0, 1.0])
    assert row["ratio"] == pytest.approx(4)


def test_the_detectable_difference_of_one_test_of_many_is_that_of_a_wider_interval():
    frames = [
        pd.DataFrame({"hit@5": values, "passed": values})
        for values in ([0.0] * 50 + [1.0] * 100, [1.0] * 10 + [0.0] * 50 + [1.0] * 90)
    ]
    together = jointly_tested(*frames, ["hit@5", "passed"])
    row = paired_deltas(*frames, frames[0] * np.nan, together=together).iloc[0]
    assert row["verdict"] == "can't tell"
    # 20 of 150 moved; two metrics that move alike are hardly more than one test
    alone, bonferroni = (
        float(minimum_detectable_rate(20 / 150, 150, confidence=level)) for level in (0.95, 0.975)
    )
    assert alone <= row["mde"] <= bonferroni
    assert np.isnan(deltas_of("hit@5", [0.0] * 20, [0.0] * 19 + [1.0])["mde"]), "too few moved"


@pytest.mark.parametrize("n", [1, 2, 7, 400])
def test_medians_are_those_of_pandas_to_the_bit(n):
    rng, timed = np.random.default_rng(n), ["latency_ms", "cost_usd", "latency_ms_all"]
    first, second = (pd.DataFrame(rng.lognormal(5, 1, (n, 3)), columns=timed) for _ in range(2))
    first = first.mask(rng.random(first.shape) < 0.2)
    second = second.assign(cost_usd=np.nan)
    found = paired_deltas(first, second, first * np.nan)
    is_paired = first.notna() & second.notna()
    for name, side in {
        "p50_baseline": first, "p50_candidate": second, "p50_delta": second - first
    }.items():  # fmt: skip
        np.testing.assert_array_equal(found[name], side.where(is_paired).median())
