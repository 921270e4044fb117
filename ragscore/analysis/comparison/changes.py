"""Queries whose values changed between two runs: answers that flipped, and the largest changes.

In: a frame of scores, and what is declared of its metrics. Out: one row per metric and query.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.summary import metric_columns

LARGEST = 3  # queries that are listed in each direction
BAD_BELOW, GOOD_FROM = 0.6, 0.8  # of a scale: 3 and 4 of 0 to 5 points


def value_changes(
    scores: pd.DataFrame,
    a: str,
    b: str,
    metrics: list[str],
    declared: MetricTable,
    *,
    keeps_equal: bool = False,
) -> pd.DataFrame:
    """One row per metric and query whose value changed, the largest change of a metric first.

    `metric`, `query_id`, `baseline`, `candidate`, `delta`, and `kind` (regression, improvement).
    """
    first, second = (values_of(scores, run, metrics) for run in (a, b))
    second = second.reindex(first.index)
    apart, described = (second - first).to_numpy(), [declared.describe(name) for name in metrics]
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
            "baseline": first.to_numpy()[query, place],
            "candidate": second.to_numpy()[query, place],
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
    scores: pd.DataFrame, a: str, b: str, declared: MetricTable = TABLE,
    metrics: list[str] | None = None,
) -> pd.DataFrame:  # fmt: skip
    """One row per answer metric and query that went from good to bad, or from bad to good.

    Good and bad are the ends of 0/1 metrics; of what judges measure, from .8 and below .6 of its
    scale. The limits stand beside, as `bad` and `good`.
    """
    if metrics is None:
        names = metric_columns(scores)
        metrics = [name for name in names if not declared.label_of(name).is_ranking]
    limits = {name: found for name in metrics if (found := limits_of(declared.describe(name)))}
    rows = value_changes(scores, a, b, list(limits), declared)
    ends = pd.DataFrame(limits, index=["bad", "good"]).T.astype("float64").reindex(rows["metric"])
    rows = rows.assign(bad=ends["bad"].to_numpy(), good=ends["good"].to_numpy())
    lower = [name for name in limits if declared.describe(name).better == "lower"]
    sign = 1.0 - 2.0 * rows["metric"].isin(lower)
    sides = rows[["baseline", "candidate"]].mul(sign, axis=0)
    has_flipped = (sides.min(axis=1) < sign * rows["bad"]) & (
        sides.max(axis=1) >= sign * rows["good"]
    )
    return rows[has_flipped.to_numpy()].drop(columns="delta").reset_index(drop=True)


def largest_changes(
    scores: pd.DataFrame, a: str, b: str, declared: MetricTable, metrics: Sequence[str]
) -> pd.DataFrame:
    """The three queries that lost most and the three that gained most in each metric but 0/1."""
    names = [one for one in metrics if declared.describe(one).kind != "binary"]
    rows = value_changes(scores, a, b, names, declared)
    is_large = rows.groupby(["metric", "kind"]).cumcount().lt(LARGEST)
    return rows[is_large.to_numpy()].reset_index(drop=True)
