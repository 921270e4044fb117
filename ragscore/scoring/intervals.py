"""Confidence intervals of a run's means and quantiles, by what each metric's kind asks for.

In: values per query, the labels of their metrics, and which queries depend on each other. Out:
arrays, one bound per metric.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.metrics import ROUNDING, Bounds, Metric
from ragscore.stats import mean_interval, quantile_interval
from ragscore.stats.grouped import Grouping, Statistics
from ragscore.stats.intervals import interval_from_moments
from ragscore.stats.moments import NORMAL_FROM

Groups = npt.NDArray[np.int64]
BY_QUANTILES = ("time", "cost")  # a mean follows its few largest values


def query_clusters(
    golden: Golden | None, query_ids: pd.Index, cluster: str | None
) -> Groups | None:
    """Return the cluster number of each query by a column of `golden.queries`, -1 for none.

    "group" stands for the conversation, too, where queries name one.

    Returns
    -------
    None if no two of these queries share a cluster. Without a golden set there are no clusters.

    Raises
    ------
    DataError
        The golden set has no such column ("group" may be absent), or a column other than "group" is
        asked for without a golden set.
    """
    if golden is None and cluster not in (None, "group"):
        raise DataError(
            f"cluster={cluster!r} needs the golden set",
            field="cluster",
            allowed="a golden set, or cluster=None",
        )
    if golden is None or cluster is None:
        return None
    check_type(cluster, str, "cluster", "a column of golden.queries, or None")
    queries = golden.queries
    column = queries.get(cluster)
    if cluster == "group" and "conversation" in queries:
        # turns of one conversation depend on each other, and so do paraphrases
        talk = queries["conversation"]
        column = talk if column is None else talk.fillna(column)
    if column is None:
        if cluster == "group":
            return None
        known = [
            name for name in golden.queries.columns if name not in ("query_id", "query", "position")
        ]
        raise DataError(
            f"found {excerpt(cluster)}",
            field="cluster",
            allowed=nearest(cluster, known, "a column of golden.queries:"),
        )
    codes, names = pd.factorize(column)
    # numbered by name: sums over clusters don't depend on the order of queries
    number = np.append(np.argsort(np.argsort(names.astype("str"), kind="stable")), -1)
    of_golden = np.append(number[codes], -1)
    return shared_only(of_golden[lookup(query_ids, pd.Index(golden.queries["query_id"]))])


def clusters_text(
    golden: Golden | None, query_ids: pd.Index, cluster: str | None, *, talks: bool = False
) -> str:
    """Say how many clusters of queries intervals allow for; "" without any.

    With `talks`, clusters count that are conversations, and no others.
    """
    name = cluster_name(golden, cluster)
    is_other = talks and name != "conversation"
    if is_other or (shared := query_clusters(golden, query_ids, cluster)) is None:
        return ""
    n, of = len(set(shared[shared >= 0])), int((shared >= 0).sum())
    what = "conversations" if name == "conversation" else f"groups of queries ({name})"
    return f"Intervals account for {n} {what}: {of} queries depend on each other."


def cluster_name(golden: Golden | None, cluster: str | None) -> str | None:
    """Return the column that `query_clusters` takes: "group" may stand for the conversation."""
    if cluster != "group" or golden is None or "conversation" not in golden.queries:
        return cluster
    return "conversation" if golden.queries["conversation"].notna().any() else cluster


def shared_only(codes: Groups | None) -> Groups | None:
    """Return the clusters that hold several of these queries, others as -1; None without any."""
    if codes is None:
        return None
    is_alone = np.bincount(codes[codes >= 0], minlength=1) < 2
    if is_alone.all():
        return None
    return np.where((codes < 0) | np.append(is_alone, True)[codes], -1, codes)


def kind_of(metric: Metric) -> str:
    """Return the kind that intervals and tests go by; a scale with two ends is bounded."""
    return "bounded" if metric.kind == "other" and np.isfinite(metric.width) else metric.kind


def intervals(
    values: Values,
    metrics: Sequence[Metric],
    groups: Groups | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values]:
    """Return the interval of every column's mean, by its metric (`stats.mean_interval`).

    Values beyond a metric's range, which other tools' scores may have, are treated as a metric
    without one.

    Parameters
    ----------
    values
        One row per query, one column per metric; NaN where it doesn't apply.
    groups
        From `query_clusters`.
    """
    if groups is None:  # each column by itself: neither sums nor draws see the order of queries
        values = np.sort(values, axis=0)
    low, high = np.full(len(metrics), np.nan), np.full(len(metrics), np.nan)
    families: dict[tuple[str, Bounds], list[int]] = {}
    for place, metric in enumerate(metrics):
        kind, (least, most) = kind_of(metric), metric.bounds
        column, off = values[:, place], ROUNDING * metric.width
        if kind in ("binary", "bounded") and (
            ((column < least - off) | (column > most + off)).any()
        ):
            kind = "other"
        bounds = (least, most) if kind == "bounded" else (0.0, 1.0)
        families.setdefault((kind, bounds), []).append(place)
    for (kind, bounds), places in families.items():
        low[places], high[places] = mean_interval(
            values[:, places], kind, bounds=bounds, groups=groups, confidence=confidence
        )
    return low, high


def are_timed(metrics: Iterable[Metric]) -> Flags:
    """Flag times and costs, which are told by quantiles."""
    return np.array([metric.kind in BY_QUANTILES for metric in metrics], dtype=bool)


def scales_of(metrics: Iterable[Metric]) -> Values:
    """Return the scale of each metric, by which its values are divided before they are tested."""
    return np.array([metric.scale for metric in metrics], dtype=np.float64)


def quantile_intervals(
    values: Values, metrics: Sequence[Metric], q: float, confidence: float = 0.95
) -> tuple[Values, Values]:
    """Return the order-statistic interval of the q-quantile of every column of times or costs.

    NaN for the others, and where n is too small.
    """
    low, high = np.full(len(metrics), np.nan), np.full(len(metrics), np.nan)
    for place, metric in enumerate(metrics):
        if metric.kind in BY_QUANTILES:
            low[place], high[place] = quantile_interval(values[:, place], q, confidence)
    return low, high


def intervals_by_group(
    found: Statistics,
    columns: Sequence[Values],
    grouping: Grouping,
    metrics: Sequence[Metric],
    groups: Groups | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values]:
    """Return `intervals` of every group: one row per group, one column per metric.

    All groups are computed at once from their statistics, as far as these are enough; only means
    that may need a bootstrap, and groups whose queries depend on each other, read the values. With
    `groups`, the members of `grouping` come in the order of their ids.
    """
    low, high, needs_values = _from_moments(found, metrics, confidence)
    alike: dict[int, list[tuple[int, int, Values]]] = {}
    for group in range(len(grouping.sizes)):
        members = grouping.members(group)
        shared = None if groups is None else shared_only(groups[members])
        read = needs_values[group] if shared is None else found["n"][group] > 0
        places = np.flatnonzero(read).tolist()
        if shared is not None and places:
            values = np.column_stack([columns[place][members] for place in places])
            low[group, places], high[group, places] = intervals(
                values, [metrics[place] for place in places], shared, confidence
            )
        elif shared is None:
            for place in places:
                held = columns[place][members]
                held = held[~np.isnan(held)]
                alike.setdefault(len(held), []).append((group, place, held))
    # As many values have the same resamples: these are drawn once for all groups.
    for parts in alike.values():
        at, of = [group for group, _, _ in parts], [place for _, place, _ in parts]
        low[at, of], high[at, of] = intervals(
            np.column_stack([held for _, _, held in parts]), [metrics[place] for place in of],
            None, confidence,
        )  # fmt: skip
    return low, high


def _from_moments(
    found: Statistics, metrics: Sequence[Metric], confidence: float
) -> tuple[Values, Values, Flags]:
    """Return intervals for independent queries, and flags where the values themselves are needed.

    Values are needed where a bootstrap may be used: below `NORMAL_FROM` values.
    """
    low, high = np.full(found["n"].shape, np.nan), np.full(found["n"].shape, np.nan)
    is_free = np.ones(found["n"].shape, dtype=bool)  # not between the two ends of a range
    families: dict[tuple[str, Bounds], list[int]] = {}
    for place, metric in enumerate(metrics):
        if (kind := kind_of(metric)) in ("binary", "bounded"):
            families.setdefault((kind, metric.bounds), []).append(place)
    for (kind, bounds), places in families.items():
        least, most = bounds if kind == "bounded" else (0.0, 1.0)
        width, off = most - least, ROUNDING * (bounds[1] - bounds[0])
        unit_low, unit_high = interval_from_moments(
            (found["mean"][:, places] - least) / width,
            found["std"][:, places] / width,
            found["n"][:, places].astype(np.float64),
            kind,
            confidence,
        )
        low[:, places], high[:, places] = least + width * unit_low, least + width * unit_high
        is_free[:, places] = (found["min"][:, places] < bounds[0] - off) | (
            found["max"][:, places] > bounds[1] + off
        )
    is_free &= found["n"] > 0
    by_t = is_free & (found["n"] >= NORMAL_FROM)
    low[by_t], high[by_t] = interval_from_moments(
        found["mean"][by_t],
        found["std"][by_t],
        found["n"][by_t].astype(np.float64),
        "other",
        confidence,
    )
    return low, high, is_free & ~by_t


def quantile_intervals_by_group(
    found: Statistics,
    columns: Sequence[Values],
    grouping: Grouping,
    metrics: Sequence[Metric],
    q: float,
    confidence: float = 0.95,
) -> tuple[Values, Values]:
    """Return `quantile_intervals` of every group: one row per group, one column per metric."""
    low, high = np.full(found["n"].shape, np.nan), np.full(found["n"].shape, np.nan)
    is_timed = are_timed(metrics)
    for group, place in np.argwhere((found["n"] > 0) & is_timed).tolist():
        low[group, place], high[group, place] = quantile_interval(
            columns[place][grouping.members(group)], q, confidence
        )
    return low, high
