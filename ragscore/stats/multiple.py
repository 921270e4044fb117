"""Many tests at once: corrections of p values, all pairs of runs, sets of tied runs."""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Values
from ragscore.stats.bootstrap import AT_ONCE
from ragscore.stats.moments import as_columns, group_sums
from ragscore.stats.paired import ROUNDING


def holm(p: npt.ArrayLike) -> Values:
    """Return Holm's adjusted p values (Holm 1979), for several candidates against one baseline.

    Each is the maximum over smaller p of (m − rank + 1)·p, at most 1. The chance of any false claim
    stays below the significance level. NaN (not tested) stays NaN and isn't counted in m.
    """
    return _adjusted(
        p, lambda ordered: np.maximum.accumulate(ordered * np.arange(len(ordered), 0, -1))
    )


def benjamini_hochberg(p: npt.ArrayLike) -> Values:
    """Return Benjamini and Hochberg's q values (1995), for exploring slices.

    Each is the minimum over larger p of m·p / rank. About 5 % of the claims at q ≤ .05 are expected
    to be false. NaN (not tested) stays NaN and isn't counted in m.
    """

    def step_up(ordered: Values) -> Values:
        m = len(ordered)
        return np.minimum.accumulate((ordered * m / np.arange(1, m + 1))[::-1])[::-1]

    return _adjusted(p, step_up)


def _adjusted(p: npt.ArrayLike, step: Callable[[Values], Values]) -> Values:
    found = np.asarray(p, dtype=np.float64)
    adjusted = np.full(found.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(found))
    order = tested[np.argsort(found[tested], kind="stable")]
    # Rounding must not make it smaller than p.
    adjusted[order] = np.minimum(np.maximum(step(found[order]), found[order]), 1.0)
    return adjusted


def max_t_p(
    scores: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Values:
    """Return the adjusted p of every pair of runs by randomised Tukey HSD.

    Carterette 2012, doi:10.1145/2094072.2094076. If the runs don't differ, their labels can be
    exchanged within each query. p of a pair is the share of relabellings whose largest difference
    of any two means is at least that of the pair: the chance of any false claim among all pairs
    stays below the level. All relabellings where there are at most `iterations`, else (1 + number
    of random ones) / (iterations + 1).

    Parameters
    ----------
    scores
        One row per query, one column per run, of one metric. A query without a value in every run
        is left out.
    groups
        Whole number of every query's group, -1: none. Members of a group are relabelled together.

    Returns
    -------
    Symmetric matrix, runs × runs, 1 on its diagonal; NaN without a query that all runs have. The
    order of queries and of runs doesn't matter.
    """
    columns = as_columns(scores)
    complete = ~np.isnan(columns).any(axis=1)
    runs = columns.shape[1]
    if not complete.any():
        return np.full((runs, runs), np.nan)
    sums = group_sums(columns[complete], None if groups is None else np.asarray(groups)[complete])
    totals = sums.sum(axis=0)
    # Labels are exchanged within a query anyhow, so queries and values may be sorted. Then p
    # doesn't depend on their order.
    spread = np.sort(sums, axis=1)
    spread = spread - spread[:, :1]
    spread = spread[spread[:, -1] > ROUNDING * np.abs(sums).max(initial=0.0)]
    spread = spread[np.lexsort(spread.T)] if runs > 1 else spread
    n_all = (
        math.factorial(runs) ** max(len(spread) - 1, 0)
        if len(spread) * math.log(runs + 1) < 60
        else math.inf
    )
    ranges = np.sort(
        _all_ranges(spread) if n_all <= iterations else _random_ranges(spread, iterations, seed)
    )
    least = np.abs(totals[:, None] - totals[None, :])
    beyond = len(ranges) - np.searchsorted(ranges, least - ROUNDING * np.abs(sums).sum(), "left")
    p = beyond / len(ranges) if n_all <= iterations else (1 + beyond) / (iterations + 1)
    return np.where(np.eye(runs, dtype=bool), 1.0, p)


def _all_ranges(values: Values) -> Values:
    """Return the largest difference of two runs' sums in every relabelling.

    The first query keeps its labels: renaming all runs changes no range.
    """
    if not len(values):
        return np.zeros(1)
    sums = values[:1]
    for row in values[1:]:  # few: (number of runs)! to their power is at most `iterations`
        sums = (sums[:, None, :] + _orders(row)[None, :, :]).reshape(-1, values.shape[1])
    return np.ptp(sums, axis=1)


def _orders(row: Values) -> Values:
    from itertools import permutations

    return np.array(list(permutations(row)))


def _random_ranges(values: Values, iterations: int, seed: int) -> Values:
    rng = np.random.default_rng(seed)
    ranges = np.empty(iterations)
    step = max(AT_ONCE // values.size, 1)
    for first in range(0, iterations, step):
        rows = min(step, iterations - first)
        relabelled = rng.permuted(np.broadcast_to(values, (rows, *values.shape)), axis=2)
        ranges[first : first + rows] = np.ptp(relabelled.sum(axis=1), axis=1)
    return ranges


def tied_sets(means: npt.ArrayLike, p: Values, alpha: float = 0.05) -> list[list[int]]:
    """Return the largest sets of runs of which no two differ, as positions in `means`.

    Runs are ordered best first, and so are the sets. A run may be in several sets. Runs without a
    mean are in none.

    Parameters
    ----------
    means
        Mean of every run, higher is better (negate where lower is).
    p
        Adjusted p of every pair, from `max_t_p`.
    """
    found = np.asarray(means, dtype=np.float64)
    order = np.argsort(-found, kind="stable")
    order = order[~np.isnan(found[order])]
    tied = np.asarray(p)[np.ix_(order, order)] > alpha
    # p falls with the difference of means. So a set consists of neighbours in the ordered runs:
    # from a run to the first one that differs from it.
    ends = [
        first + int(np.argmin([*tied[first, first:].tolist(), False]))
        for first in range(len(order))
    ]
    return [
        order[first:end].tolist()
        for first, end in enumerate(ends)
        if first == 0 or end > ends[first - 1]
    ]
