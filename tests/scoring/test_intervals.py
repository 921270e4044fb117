"""Intervals of means by metric: kind and range from the metric table, groups from the golden
set.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, t

import ragscore as rs
from ragscore.scoring.intervals import (
    intervals,
    intervals_by_group,
    quantile_intervals,
    quantile_intervals_by_group,
    shared_only,
)
from ragscore.scoring.metrics import NOTHING_DECLARED
from ragscore.scoring.summary import summarize
from ragscore.stats import mean_interval, wilson_interval
from ragscore.stats.bootstrap import bootstrap_t_interval
from ragscore.stats.grouped import Grouping, statistics
from ragscore.stats.moments import NORMAL_FROM, sample
from tests.messages import refused


def metrics_of(*names):
    return [NOTHING_DECLARED.describe(name) for name in names]


def scores_of(golden, **metrics):
    index = pd.Index(golden.queries["query_id"], name="query_id")
    columns = {"run_id": "a", "state": "scored", "level": "doc", **metrics}
    return pd.DataFrame(columns, index=index)


def golden_of(n, groups=None):
    rows = [{"id": f"q{at:03}", "query": "?", "expected_doc_ids": ["d"]} for at in range(n)]
    for row, group in zip(rows, groups or [], strict=False):
        row["group"] = group
    return rs.load_golden(rows)


@pytest.fixture
def paraphrased(write_golden):
    """Three intents asked twice each; sources x, x, y, y, y, z."""
    rows = [
        {
            "id": f"q{n}",
            "query": "?",
            "expected_doc_ids": ["d"],
            "group": f"g{n // 2}",
            "category": "xxyyyz"[n],
        }
        for n in range(6)
    ]
    return rs.load_golden(write_golden(rows))


def bounds(table):
    return table[["low", "high"]].iloc[0].tolist()


def test_a_rate_of_paraphrases_has_the_interval_of_its_groups(paraphrased):
    scores = scores_of(paraphrased, **{"hit@1": [1.0, 1.0, 1.0, 1.0, 0.0, 0.0]})
    clustered = bounds(summarize(scores, paraphrased, metrics=["hit@1"]))
    # variance of the mean: s²/n = (4/15)/6 for single queries; for groups 3/2 · Σ(sum of
    # deviations)² / 6² = 3/2 · (8/3)/36
    effect = (1.5 * (8 / 3) / 36) / (4 / 15 / 6) * (t.ppf(0.975, 2) / t.ppf(0.975, 5)) ** 2
    low, high = wilson_interval(np.array([4 / 6]), np.array([6 / effect]))
    assert clustered == pytest.approx([low[0], high[0]], abs=1e-12)
    alone = bounds(summarize(scores, paraphrased, metrics=["hit@1"], cluster=None))
    assert (
        alone == bounds(summarize(scores, metrics=["hit@1"]))
        and alone[0] > clustered[0]
        and alone[1] < clustered[1]
    )


def test_queries_cluster_by_any_column_of_the_golden_set(paraphrased):
    scores = scores_of(paraphrased, mrr=[1, 0.5, 0.2, 0.25, 0.5, 0])
    found = bounds(summarize(scores, paraphrased, cluster="category"))
    expected = mean_interval(
        scores[["mrr"]].to_numpy(), "bounded", groups=np.array([0, 0, 1, 1, 1, 2])
    )
    assert found == pytest.approx([expected[0][0], expected[1][0]], abs=1e-12)
    with refused("x_source", field="cluster"):
        summarize(scores, paraphrased, cluster="x_source")
    with refused("category", "golden", field="cluster"):
        summarize(scores, cluster="category")


def test_skewed_times_get_the_bootstrap_t_up_to_a_size_and_t_from_there_on():
    times = np.random.default_rng(1).lognormal(0, 1.5, (80, 1))
    assert (
        intervals(times, metrics_of("latency_ms"))[1][0]
        == bootstrap_t_interval(np.sort(times, axis=0))[1][0]
    )
    many = np.random.default_rng(1).lognormal(0, 3, (NORMAL_FROM, 1))
    half = t.ppf(0.975, len(many) - 1) * sample(many).error[0]
    assert intervals(many, metrics_of("latency_ms"))[1][0] == pytest.approx(
        many.mean() + half, rel=1e-12
    )


@pytest.mark.parametrize(("n", "has_upper"), [(71, False), (72, True)])
def test_a_p95_has_an_interval_from_72_values_on(n, has_upper):
    golden = golden_of(n)
    times = np.arange(n, dtype="float64")
    rows = summarize(scores_of(golden, latency_ms=times, mrr=0.5), golden).set_index("metric")
    # the largest is above the 95th percentile unless all n lie below it: .95^72 = .0249, .95^71 =
    # .0262
    high = rows.loc["latency_ms", "p95_high"]
    assert high == n - 1 if has_upper else np.isnan(high)
    assert rows.loc["mrr", ["p50_low", "p50_high", "p95_low", "p95_high"]].isna().all()
    low = int(binom.ppf(0.025, n, 0.5))  # the largest l with P(Bin < l) <= .025, counted from 1
    assert rows.loc["latency_ms", "p50_low"] == low - 1


def test_costs_have_quantile_intervals_too_and_quality_has_none():
    low, high = quantile_intervals(
        np.tile(np.arange(10.0)[:, None], 2), metrics_of("cost_usd", "recall@5"), 0.5
    )
    assert (low[0], high[0]) == (1, 8) and np.isnan([low[1], high[1]]).all()


@pytest.mark.parametrize("is_clustered", [False, True])
def test_intervals_of_many_groups_are_those_of_each_alone(is_clustered):
    sizes = [2 * NORMAL_FROM, 300, 25, 2, 1]
    codes, n, rng = np.repeat(np.arange(len(sizes)), sizes), sum(sizes), np.random.default_rng(5)
    metrics = metrics_of("hit@1", "mrr@10", "faithfulness", "latency_ms", "mine", "ndcg@10")
    columns = [
        rng.random(n) < 0.6, rng.random(n), rng.choice([0.0, 0.5, 1.0], n), rng.lognormal(5, 1, n),
        rng.normal(size=n), rng.random(n) * np.where(codes == 1, 3, 1),  # beyond the range in one
    ]  # fmt: skip
    columns = [np.where(rng.random(n) < 0.1, np.nan, column) for column in columns]
    groups = rng.integers(-1, n // 3, n) if is_clustered else None
    grouping = Grouping.by_codes(codes)
    found = statistics(columns, grouping)
    low, high = intervals_by_group(found, columns, grouping, metrics, groups)
    below, above = quantile_intervals_by_group(found, columns, grouping, metrics, 0.95)
    for group in range(len(sizes)):
        here = codes == group
        values = np.column_stack(columns)[here]
        own = shared_only(None if groups is None else groups[here])
        wanted = intervals(values, metrics, own)
        np.testing.assert_allclose((low[group], high[group]), wanted, rtol=1e-11)
        ends = quantile_intervals(values, metrics, 0.95)
        np.testing.assert_array_equal((below[group], above[group]), ends)
