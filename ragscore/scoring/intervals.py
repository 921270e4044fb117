"""Intervals of means by metric.

What its kind and range ask for, with queries that depend on each other counted together.

In: values per query, the labels of their metrics, and which queries share a group. Out: arrays, one
bound per metric.
"""

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import DataError, Golden
from ragscore.scoring.metrics import Metric, describe
from ragscore.stats import interval_of_means, mean_interval, moments, quantile_interval
from ragscore.stats.grouped import Grouping, Statistics

Values = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
NO_RANGE = (-np.inf, np.inf)
BY_QUANTILES = ("time", "cost")  # a mean follows its few largest values
# values: resamples of more take seconds for each run, and move the bounds of a mean by little
BOOTSTRAP_UP_TO = 5_000


def query_groups(golden: Golden, query_ids: pd.Index, column: str | None) -> Groups | None:
    """Number of each query's group by a column of `golden.queries`, -1 where it has none.

    None if no two queries share one.

    Raises
    ------
    DataError
        The golden set has no such column ("group" may be absent).
    """
    if column is None or (column == "group" and column not in golden.queries):
        return None
    if column not in golden.queries:
        known = [
            name for name in golden.queries.columns if name not in ("query_id", "query", "position")
        ]
        raise DataError(
            f"found {column!r}",
            field="cluster",
            allowed=f"a column of golden.queries: {', '.join(known)}",
        )
    return shared_only(
        np.append(pd.factorize(golden.queries[column])[0], -1)[
            lookup(query_ids, pd.Index(golden.queries["query_id"]))
        ]
    )


def cluster_of(golden: Golden | None, query_ids: pd.Index, cluster: str | None) -> Groups | None:
    """As `query_groups`, where the golden set may not be at hand.

    No groups then, unless a column was asked for by name.
    """
    if golden is None and cluster not in (None, "group"):
        raise DataError(
            f"cluster={cluster!r} needs the golden set",
            field="cluster",
            allowed="a golden set, or cluster=None",
        )
    return None if golden is None else query_groups(golden, query_ids, cluster)


def shared_only(codes: Groups | None) -> Groups | None:
    """The groups that several of these queries are in, the others -1; None if there are none."""
    if codes is None:
        return None
    alone = np.bincount(codes[codes >= 0], minlength=1) < 2
    return None if alone.all() else np.where((codes < 0) | np.append(alone, True)[codes], -1, codes)


def bounds_of(metric: Metric) -> tuple[float, float]:
    """Least and largest value of a metric, as its range says; infinite where it has none."""
    found = re.fullmatch(r"(-?\d+(?:\.\d+)?) to (-?\d+(?:\.\d+)?)", metric.range)
    return (float(found[1]), float(found[2])) if found else NO_RANGE


def kind_of(metric: Metric) -> str:
    """The kind that intervals and tests go by: points on a scale with two ends are bounded."""
    return (
        "bounded"
        if metric.kind == "other" and np.isfinite(bounds_of(metric)).all()
        else metric.kind
    )


def intervals(
    values: Values, names: list[str], groups: Groups | None = None, level: float = 0.95
) -> tuple[Values, Values]:
    """Interval of the mean of every column, by its metric (`stats.interval_of_means`).

    Values beyond a metric's range, which other tools' scores may have, are treated as a metric
    without one.

    Parameters
    ----------
    values
        One row per query, one column per name; NaN where a metric doesn't apply.
    groups
        From `query_groups`.
    """
    low, high = np.full(len(names), np.nan), np.full(len(names), np.nan)
    families: dict[tuple[str, tuple[float, float]], list[int]] = {}
    for place, name in enumerate(names):
        metric = describe(name)
        kind, bounds = kind_of(metric), bounds_of(metric)
        column = values[:, place]
        is_within = not ((column < bounds[0] - 1e-9) | (column > bounds[1] + 1e-9)).any()
        kind = kind if is_within or kind not in ("binary", "bounded") else "other"
        families.setdefault((kind, bounds if kind == "bounded" else (0.0, 1.0)), []).append(place)
    for (kind, bounds), places in families.items():
        part = values[:, places]
        if kind not in ("binary", "bounded") and len(part) > BOOTSTRAP_UP_TO and groups is None:
            low[places], high[places] = mean_interval(*moments(part), kind, level)
        else:
            low[places], high[places] = interval_of_means(
                part, kind, bounds=bounds, groups=groups, level=level
            )
    return low, high


def quantile_intervals(
    values: Values, names: list[str], q: float, level: float = 0.95
) -> tuple[Values, Values]:
    """Order-statistic interval of the q-quantile of every column that holds times or costs.

    NaN for the others, and where n is too small.
    """
    found = [
        (
            quantile_interval(column, q, level)
            if describe(name).kind in BY_QUANTILES
            else (np.nan, np.nan)
        )
        for column, name in zip(values.T, names, strict=True)
    ]
    low, high = np.array(found, dtype=np.float64).reshape(-1, 2).T
    return low, high


def intervals_by_group(
    found: Statistics,
    columns: Sequence[Values],
    grouping: Grouping,
    names: list[str],
    groups: Groups | None = None,
    level: float = 0.95,
) -> tuple[Values, Values]:
    """As `intervals`, of every group's mean of every column.

    From the statistics found, all groups at once, as far as these say enough.
    """
    low, high, by_values = _from_moments(found, names, grouping.sizes > BOOTSTRAP_UP_TO, level)
    for group in range(len(grouping.sizes)):
        shared = None if groups is None else shared_only(groups[grouping.members(group)])
        here = np.flatnonzero(by_values[group] if shared is None else found.n[group] > 0).tolist()
        if here:
            values = np.column_stack([columns[place][grouping.members(group)] for place in here])
            low[group, here], high[group, here] = intervals(
                values, [names[place] for place in here], shared, level
            )
    return low, high


def _from_moments(
    found: Statistics, names: list[str], is_large: Flags, level: float
) -> tuple[Values, Values, Flags]:
    """Intervals of queries that stand alone, and which of them have to be told by the values.

    Those that a bootstrap may be for, not in large groups.
    """
    low, high = np.full(found.n.shape, np.nan), np.full(found.n.shape, np.nan)
    is_free = np.ones(found.n.shape, dtype=bool)
    for (kind, bounds), places in _families(names).items():
        low[:, places], high[:, places], is_free[:, places] = _bounded(
            found.of(places), kind, bounds, level
        )
    is_free &= found.n > 0
    by_t = is_free & is_large[:, None]
    low[by_t], high[by_t] = mean_interval(
        found.mean[by_t], found.std[by_t], found.n[by_t].astype(np.float64), "other", level
    )
    return low, high, is_free & ~by_t


def _families(names: list[str]) -> dict[tuple[str, tuple[float, float]], list[int]]:
    """Places of the metrics whose values lie between two ends, by kind and ends."""
    families: dict[tuple[str, tuple[float, float]], list[int]] = {}
    for place, name in enumerate(names):
        metric = describe(name)
        if (kind := kind_of(metric)) in ("binary", "bounded"):
            families.setdefault((kind, bounds_of(metric)), []).append(place)
    return families


def _bounded(
    found: Statistics, kind: str, bounds: tuple[float, float], level: float
) -> tuple[Values, Values, Flags]:
    """Intervals of metrics between two ends, and where values lie beyond these, as other tools' scores may."""
    least, width = (
        bounds[0] if kind == "bounded" else 0.0,
        bounds[1] - bounds[0] if kind == "bounded" else 1.0,
    )
    low, high = mean_interval(
        (found.mean - least) / width, found.std / width, found.n.astype(np.float64), kind, level
    )
    return (
        least + width * low,
        least + width * high,
        (found.min < bounds[0] - 1e-9) | (found.max > bounds[1] + 1e-9),
    )


def quantile_intervals_by_group(
    found: Statistics,
    columns: Sequence[Values],
    grouping: Grouping,
    names: list[str],
    q: float,
    level: float = 0.95,
) -> tuple[Values, Values]:
    """As `quantile_intervals`, of every group's quantile of every column."""
    low, high = np.full(found.n.shape, np.nan), np.full(found.n.shape, np.nan)
    timed = np.array([describe(name).kind in BY_QUANTILES for name in names], dtype=bool)
    for group, place in np.argwhere((found.n > 0) & timed).tolist():
        low[group, place], high[group, place] = quantile_interval(
            columns[place][grouping.members(group)], q, level
        )
    return low, high
