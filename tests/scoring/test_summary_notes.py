"""What a summary says of its means: one value that carries a time, clusters of its intervals."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.scoring.summary import summarize


def golden_of(n, groups=None):
    ids = pd.Series([f"q{i:03}" for i in range(n)], dtype="str")
    queries = pd.DataFrame(
        {"query_id": ids, "query": ids, "answerable": True, "position": range(n)}
    )
    if groups is not None:
        queries["group"] = pd.Series(groups, dtype="str")
    targets = pd.DataFrame({
        "query_id": ids, "level": "doc", "target_id": "d", "alternative": np.int32(0),
        "grade": np.int32(1), "doc_id": "d",
    })  # fmt: skip
    return rs.Golden(queries=queries, targets=targets)


def scores_of(golden, **columns):
    ids = pd.Index(golden.queries["query_id"], name="query_id")
    return pd.DataFrame({"run_id": "a", "state": "scored", "level": "doc", **columns}, index=ids)


def times(outlier):
    """182 times of 9 to 15 ms, the last replaced by the outlier."""
    values = np.random.default_rng(3).uniform(9, 15, 182)
    values[-1] = outlier
    return values


def test_one_outlier_among_182_times_carries_their_mean():
    golden = golden_of(182)
    rare = np.zeros(182)
    rare[0] = 1.0  # one failure in 182: a rate, whose interval knows of rare events
    table = summarize(scores_of(golden, latency_ms=times(512.0), failed=rare), golden)
    assert table.set_index("metric")["caution"].to_dict() == {"latency_ms": True, "failed": False}
    plain = summarize(scores_of(golden, latency_ms=times(15.0)), golden)
    assert plain["caution"].tolist() == [False]


@pytest.mark.large
def test_such_a_means_interval_rarely_holds_the_mean_and_the_medians_does():
    # the mean that one outlier in 182 gives: samples of 182 hold it by chance only
    everything = times(512.0)
    rng, held = np.random.default_rng(5), {"mean": 0, "median": 0}
    golden = golden_of(182)
    values = rng.choice(np.delete(everything, -1), (182, 40))  # the next samples lack the outlier
    for sample in values.T:
        row = summarize(scores_of(golden, latency_ms=sample), golden).iloc[0]
        held["mean"] += row["low"] <= everything.mean() <= row["high"]
        held["median"] += row["p50_low"] <= np.median(everything) <= row["p50_high"]
    assert held["mean"] == 0 and held["median"] >= 35


def test_half_of_the_squares_is_the_limit():
    # squared distances from the mean 10: 1 of 1 + 1, and 1 of 1 + 1 + ¼ + ¼
    golden = golden_of(9)
    half = scores_of(golden, latency_ms=[10.0] * 7 + [9.0, 11.0])
    less = scores_of(golden, latency_ms=[10.0] * 5 + [9.0, 11.0, 9.5, 10.5])
    assert summarize(half, golden)["caution"].tolist() == [True]
    assert summarize(less, golden)["caution"].tolist() == [False]


def test_a_summary_counts_the_clusters_of_its_intervals():
    # x: two queries, y: two of which one has no value, z: alone
    golden = golden_of(5, ["x", "x", "y", "y", "z"])
    scores = scores_of(golden, mrr=[1.0, 0.5, np.nan, 1.0, 0.0], recall=np.ones(5))
    table = summarize(scores, golden).set_index("metric")
    assert table.loc["mrr", ["cluster", "n_clusters", "n_clustered"]].tolist() == ["group", 1, 2]
    assert table.loc["recall", ["n_clusters", "n_clustered"]].tolist() == [2, 4]
    alone = summarize(scores, golden, cluster=None)
    assert alone[["cluster", "n_clusters", "n_clustered"]].isna().all(axis=None)


def test_where_no_two_queries_share_a_cluster_there_is_none():
    golden = golden_of(3, ["x", "y", "z"])
    table = summarize(scores_of(golden, mrr=[1.0, 0.5, 0.0]), golden)
    assert table[["cluster", "n_clusters", "n_clustered"]].isna().all(axis=None)
