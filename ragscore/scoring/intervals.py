"""Confidence intervals of a run's means and quantiles, by what each metric's kind asks for."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import Golden
from ragscore.frames.errors import check_known
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.metrics.declaration import ROUNDING, Bounds, Metric
from ragscore.stats import mean_interval, quantile_interval


def query_clusters(golden: Golden | None, query_ids: pd.Index, cluster: str | None) -> Codes | None:
    """Return the cluster number of each query by a column of `golden.queries`, -1 for none.

    "group" means the conversation, too, where queries name one. None if no two of these
    queries share a cluster; without a golden set there are no clusters.

    Raises
    ------
    DataError
        The golden set has no such column ("group" may be absent), or there is no golden set.
    """
    if cluster is None or (golden is None and cluster == "group"):
        return None
    queries = pd.DataFrame(columns=["query_id"]) if golden is None else golden.queries
    if cluster != "group":
        known = [name for name in queries if name not in ("query_id", "query", "position")]
        check_known(cluster, known, "cluster", "column of golden.queries")
    column = queries.get(cluster, pd.Series(index=queries.index, dtype="str"))
    if cluster == "group" and "conversation" in queries:
        # turns of one conversation depend on each other, and so do paraphrases
        column = queries["conversation"].fillna(column)
    # numbered by name: sums over clusters don't depend on the order of queries
    number = np.append(pd.factorize(column.astype("str"), sort=True)[0], -1)
    return shared_only(number[lookup(query_ids, pd.Index(queries["query_id"]))])


def shared_only(codes: Codes | None) -> Codes | None:
    """Return the clusters that hold several of these queries, others as -1; None without any."""
    if codes is None:
        return None
    shared = np.where(np.bincount(codes + 1)[codes + 1] > 1, codes, -1)
    return None if (shared == -1).all() else shared


def intervals(
    values: Values, metrics: Sequence[Metric], groups: Codes | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values]:  # fmt: skip
    """Return the interval of every column's mean, by its metric.

    Values beyond a metric's range, which other tools' scores may have, are treated as a metric
    without one. `values` has a row per query and a column per metric; `groups` is from
    `query_clusters`.
    """
    if groups is None:  # each column by itself: neither sums nor draws see the order of queries
        values = np.sort(values, axis=0)
    low, high = np.full((2, len(metrics)), np.nan)
    families = [_family(one, values[:, place]) for place, one in enumerate(metrics)]
    for kind, bounds in dict.fromkeys(families):
        places = [place for place, one in enumerate(families) if one == (kind, bounds)]
        low[places], high[places] = mean_interval(
            values[:, places], kind, bounds=bounds, groups=groups, confidence=confidence
        )
    return low, high


def _family(metric: Metric, values: Values) -> tuple[str, Bounds]:
    """Return the kind and bounds that an interval uses."""
    kind, (least, most), off = metric.tested_as, metric.bounds, ROUNDING * metric.width
    if kind in ("binary", "bounded") and ((values < least - off) | (values > most + off)).any():
        kind = "other"
    return kind, (least, most) if kind == "bounded" else (0.0, 1.0)


def quantile_intervals(
    values: Values, metrics: Sequence[Metric], q: float, confidence: float = 0.95
) -> tuple[Values, Values]:
    """Return the order-statistic interval of the q-quantile of every column of times or costs."""
    low, high = np.full(len(metrics), np.nan), np.full(len(metrics), np.nan)
    for place in [place for place, one in enumerate(metrics) if one.is_timed]:
        low[place], high[place] = quantile_interval(values[:, place], q, confidence)
    return low, high
