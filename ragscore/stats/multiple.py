"""Many tests at once.

Corrections of p values, all pairs of several runs, and which runs can't be told from the best.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragscore.stats.bootstrap import AT_ONCE
from ragscore.stats.moments import Values, as_columns, group_sums
from ragscore.stats.paired import ROUNDING


def holm(p: npt.ArrayLike) -> Values:
    """Holm's adjusted p values (Holm 1979).

    Max over the smaller ones of (m − rank + 1)·p, at most 1. For several candidates against one
    baseline.

    The chance of any false claim stays below the level. NaN (not tested) stays NaN and isn't
    counted in m.
    """
    return _adjusted(
        p, lambda ordered: np.maximum.accumulate(ordered * np.arange(len(ordered), 0, -1))
    )


def benjamini_hochberg(p: npt.ArrayLike) -> Values:
    """Benjamini and Hochberg's q values (1995): min over the larger ones of m·p / rank.

    For slices and drill-downs, which are exploratory.

    Among what is called different at q ≤ .05 about 5 % is expected to be false. NaN (not tested)
    stays NaN and isn't counted in m.
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
    # never below p by rounding
    adjusted[order] = np.minimum(np.maximum(step(found[order]), found[order]), 1.0)
    return adjusted


def max_t_p(
    scores: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Values:
    """Adjusted p of every pair of runs by randomised Tukey HSD (Carterette 2012, doi:10.1145/2094072.2094076).

    If the runs don't differ, their labels can be exchanged within each query. p of a pair is the
    share of relabellings whose largest difference of any two means is at least that of the pair:
    the chance of any false claim among all pairs stays below the level. All relabellings where
    there are at most `iterations`, else (1 + number of random ones) / (iterations + 1).

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
    # The labels of a query are exchanged anyhow: sorted queries and values give the same p whatever
    # their order was.
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
    """Largest difference of two runs' sums in every relabelling.

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
    """The largest sets of runs of which no two differ.

    Positions in `means`, best first, the set of the best run first.

    A run may stand in several sets. Runs without a mean stand in none.

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
    # p falls with the difference of means, so a set is a stretch of the ordered runs: from each run
    # to the first that differs from it.
    ends = [
        first + int(np.argmin([*tied[first, first:].tolist(), False]))
        for first in range(len(order))
    ]
    return [
        order[first:end].tolist()
        for first, end in enumerate(ends)
        if first == 0 or end > ends[first - 1]
    ]


def tied_with_best(means: npt.ArrayLike, p: Values, alpha: float = 0.05) -> npt.NDArray[np.bool_]:
    """Which runs can't be told from the best one, itself included; arguments as in `tied_sets`."""
    found = np.zeros(len(np.asarray(means)), dtype=bool)
    sets = tied_sets(means, p, alpha)
    found[sets[0] if sets else []] = True
    return found
