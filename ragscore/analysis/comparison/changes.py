"""Queries that changed between two runs: values, answers that flipped, and whole rankings.

In: a frame of scores and what is declared of its metrics, or results. Out: one row per metric and
query; the rank-biased overlap of two runs, one row per query.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Results
from ragscore.scoring.level import chunker_versions
from ragscore.scoring.metrics import TABLE, Metric, MetricTable

LARGEST = 3  # queries that are listed in each direction
BAD_BELOW, GOOD_FROM = 0.6, 0.8  # of a scale: 3 and 4 of 0 to 5 points


def value_changes(
    first: pd.DataFrame, second: pd.DataFrame, declared: MetricTable, *, keeps_equal: bool = False
) -> pd.DataFrame:
    """One row per metric and query whose value changed, the largest change of a metric first.

    `metric`, `query_id`, `baseline`, `candidate`, `delta`, and `kind` (regression, improvement).

    Parameters
    ----------
    first, second
        Values of baseline and candidate: one row per query, by id, and one column per metric.
    """
    before, after = (side.to_numpy("float64") for side in (first, second))
    metrics = list(first.columns)
    apart, described = after - before, [declared.describe(name) for name in metrics]
    least = np.array([-1.0 if keeps_equal else one.rounding for one in described])
    query, place = np.nonzero(np.abs(apart) > least)
    delta = apart[query, place]
    scale = np.array([one.scale for one in described])
    is_lower = np.array([one.better == "lower" for one in described], dtype=bool)
    # sizes that differ in their last bits only are ties: they keep the order of ids
    order = np.lexsort((query, -np.round(np.abs(delta) / scale[place], 12), place))
    query, place, delta = query[order], place[order], delta[order]
    is_worse = (delta > 0) == is_lower[place]
    return pd.DataFrame(
        {
            "metric": pd.Series(np.array(metrics, dtype=object)[place], dtype="str"),
            "query_id": first.index.astype("str")[query],
            "baseline": before[query, place],
            "candidate": after[query, place],
            "delta": delta,
            "kind": pd.Series(np.where(is_worse, "regression", "improvement"), dtype="str"),
        }
    )


def values_of(scores: pd.DataFrame, run: str, metrics: list[str]) -> pd.DataFrame:
    """Return a run's values by id: neither means nor ties depend on the order of rows."""
    is_own = scores["run_id"].eq(run).to_numpy(dtype=bool)
    return scores.loc[is_own, metrics].astype("float64").sort_index()


def limits_of(metric: Metric) -> tuple[float, float] | None:
    """Return (bad, good) of a metric; None where nothing says what is good.

    A value worse than the first is bad, one at least as good as the second is good. Known are 0/1
    metrics, what judges measure, and columns of your own with a direction and a range: bad below .6
    and good from .8 of the scale, from the other end where lower is better.
    """
    is_lower, (least, most) = metric.better == "lower", metric.bounds
    if metric.kind == "binary":
        return (0.0, 0.0) if is_lower else (1.0, 1.0)
    is_own = metric.family == "own" and metric.better in ("higher", "lower")
    if not (is_own or metric.family == "judged") or not np.isfinite(metric.width):
        return None
    bad, good = (1 - BAD_BELOW, 1 - GOOD_FROM) if is_lower else (BAD_BELOW, GOOD_FROM)
    return round(least + bad * (most - least), 9), round(least + good * (most - least), 9)


def flips(
    first: pd.DataFrame, second: pd.DataFrame, declared: MetricTable = TABLE,
    metrics: list[str] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """One row per answer metric and query that went from good to bad, or from bad to good.

    Good and bad are the ends of 0/1 metrics; of what judges measure, from .8 and below .6 of its
    scale. The columns `bad` and `good` hold the limits.
    """
    if metrics is None:
        metrics = [name for name in map(str, first) if not declared.label_of(name).is_ranking]
    limits = {name: found for name in metrics if (found := limits_of(declared.describe(name)))}
    rows = value_changes(first[[*limits]], second[[*limits]], declared)
    names = rows["metric"].tolist()
    bad, good = np.array([limits[name] for name in names], np.float64).reshape(-1, 2).T
    sign = np.array([-1.0 if declared.describe(name).better == "lower" else 1.0 for name in names])
    before, after = (sign * rows[side].to_numpy() for side in ("baseline", "candidate"))
    has_flipped = np.minimum(before, after) < sign * bad
    has_flipped &= np.maximum(before, after) >= sign * good
    rows = rows.drop(columns="delta").assign(bad=bad, good=good)[has_flipped]
    return rows.reset_index(drop=True)


def largest_changes(
    first: pd.DataFrame, second: pd.DataFrame, declared: MetricTable, metrics: Sequence[str]
) -> pd.DataFrame:
    """The three queries that lost most and the three that gained most in each metric but 0/1."""
    names = [one for one in metrics if declared.describe(one).kind != "binary"]
    rows = value_changes(first[names], second[names], declared)
    is_large = rows.groupby(["metric", "kind"]).cumcount().lt(LARGEST)
    return rows[is_large.to_numpy()].reset_index(drop=True)


def rank_overlap(
    results: Results, baseline: str, candidate: str, *, p: float = 0.9
) -> pd.DataFrame:
    """Return the rank-biased overlap of two runs, for every query that both were asked.

    RBO weighs agreement at the top most: with p = .9 the first ten ranks carry 86 % of the weight.
    It is extrapolated from the lists' ends, as if the agreement seen there went on (Webber, Moffat
    & Zobel 2010, equation 32). Chunk ids are compared if both runs have them from the same chunker,
    else document ids. An id counts once, where it is first.

    Returns
    -------
    One row per query: `query_id`, `rbo` (0 to 1; NaN where either list is empty), `n_common` ids,
    and the length of both lists, `n_baseline` and `n_candidate`.
    """
    pair = [baseline, candidate]
    hits = results.hits[results.hits["run_id"].isin(pair).to_numpy()]
    has_chunks = "chunk_id" in hits and bool(hits["chunk_id"].notna().all())
    one_chunker = chunker_versions(results)[pair].nunique(dropna=False) == 1
    column = "chunk_id" if has_chunks and one_chunker else "doc_id"
    asked_a, asked_b = (
        results.responses.loc[results.responses["run_id"].eq(name).to_numpy(), "query_id"]
        for name in pair
    )
    queries = pd.Index(asked_a[is_among(asked_a, asked_b)], dtype="str")
    query, n = lookup(hits["query_id"], queries), len(queries)
    ids, texts = pd.factorize(hits.reindex(columns=[column])[column])
    # lists of a, then of b, each by rank; an id counts once, where it is first
    cell, width = lookup(hits["run_id"], pd.Index(pair)) * n + query, len(texts)
    order = np.lexsort((hits["rank"], cell))
    order = order[(query[order] >= 0) & (ids[order] >= 0)]
    first = order[~pd.Index(cell[order] * width + ids[order]).duplicated()]
    cell, ids = cell[first], ids[first]
    lengths = np.bincount(cell, minlength=2 * n)
    place, (n_a, n_b) = np.arange(len(cell)) + 1, lengths.reshape(2, n)
    place -= (np.cumsum(lengths) - lengths)[cell]
    key, end = cell % max(n, 1) * width + ids, n_a.sum()  # of a's ids
    both, at_a, at_b = np.intersect1d(key[:end], key[end:], True, return_indices=True)
    query, depth = both // max(width, 1), np.maximum(place[:end][at_a], place[end:][at_b])
    # sums are taken by depth, so that the order of neither rows nor runs changes a bit
    order = np.lexsort((depth, query))
    query, depth = query[order], depth[order]
    short, long = np.minimum(n_a, n_b), np.maximum(n_a, n_b)
    n_common = np.bincount(query, minlength=n)
    in_short = np.bincount(query[depth <= short[query]], minlength=n)
    depths = np.arange(1, int(long.max(initial=0)) + 1)
    powers = np.concatenate([[0.0], np.cumsum(p**depths)])  # sums of p^d up to each depth
    weights = np.concatenate([[0.0], np.cumsum(p**depths / depths)])  # sums of p^d / d
    seen = np.bincount(query, weights[long[query]] - weights[depth - 1], n)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = in_short / short  # of the shorter list that is common
        beyond = share * (powers[long] - powers[short] - short * (weights[long] - weights[short]))
        rest = ((n_common - in_short) / long + share) * p**long
        rbo = np.where(short > 0, (1 - p) / p * (seen + beyond) + rest, np.nan)
    return pd.DataFrame(
        {"query_id": queries, "rbo": rbo, "n_common": n_common, "n_baseline": n_a,
         "n_candidate": n_b}
    )  # fmt: skip
