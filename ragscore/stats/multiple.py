"""Many tests at once: corrections of p values, all metrics or all pairs of runs, tied runs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Values
from ragscore.stats.bootstrap import AT_ONCE, BLOCK
from ragscore.stats.moments import NORMAL_FROM, as_columns, group_sums
from ragscore.stats.paired import EXACT_UP_TO, ROUNDING, is_by_limit, sign_flip_p

ALPHA = 0.05
# Of the 5 %, what the primary metrics have for themselves; all others share the rest. So nearly
# nothing is taken from what decides, and a clear change elsewhere can still be named.
PRIMARY_SHARE = 0.8
SLACK = 1e-9  # standardised sums that differ by less are equal


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


@dataclass(frozen=True)
class Together:
    """Tests of several metrics at once, one value per metric.

    Attributes
    ----------
    p
        Adjusted p: below 5 % for any of the metrics in at most 5 % of cases if none differs. NaN:
        not tested.
    level
        The level at which a metric is tested, as if it stood alone.
    is_normal
        Whether the normal limit was used instead of random signs.
    """

    p: Values
    level: Values
    is_normal: bool = False


def joint_test(
    differences: npt.ArrayLike,
    is_primary: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Together:
    """Test the paired differences of several metrics at once, primary ones first.

    Step-down max-T over sign flips (Westfall and Young 1993; Romano and Wolf 2005,
    doi:10.1198/016214504000000539). If two runs don't differ, all differences of a query could as
    well have had the other sign. The statistic of a metric is the size of the sum of differences /
    root of the sum of their squares; its p is the share of sign patterns in which any metric of its
    family reaches it. So metrics that move together cost little.

    There are two families. The primary metrics are tested at four fifths of the 5 %, all others at
    one fifth, or at all of it once every primary metric is decided. False claims of any kind thus
    stay below 5 %. A family without the other has all of it.

    Parameters
    ----------
    differences
        One row per query, one column per metric; NaN where one of the runs has no value. Signs of
        differences test medians.
    is_primary
        One flag per metric.
    groups
        Whole number of every query's group, -1: none. Members of a group change sign together.

    Returns
    -------
    All sign patterns are counted where at most 16 queries (or groups) moved, else random ones;
    from 1,000 the normal limit with the same correlations. Neither the order of queries nor which
    run comes first matters.
    """
    columns = as_columns(differences)
    first = np.asarray(is_primary, dtype=bool)
    sums = group_sums(columns, groups)
    sizes = np.abs(sums)
    sums = np.where(sizes <= ROUNDING * sizes.max(axis=0, initial=0.0), 0.0, sums)
    sums = sums[(sums != 0).any(axis=1)]
    root = np.sqrt((sums**2).sum(axis=0))
    units = sums / np.where(root > 0, root, 1.0)
    found = np.abs(units.sum(axis=0))
    is_normal = len(units) >= NORMAL_FROM
    draws = (
        _normal_limit(units, iterations, seed) if is_normal else _signed(units, iterations, seed)
    )
    is_exact = len(units) <= EXACT_UP_TO
    is_tested = ~np.isnan(columns).all(axis=0)
    p, level = np.full(len(first), np.nan), np.full(len(first), np.nan)
    families = [np.flatnonzero(is_tested & flags) for flags in (first, ~first)]
    shares = (PRIMARY_SHARE, 1 - PRIMARY_SHARE) if all(map(len, families)) else (1.0, 1.0)
    # A metric that few queries moved in is far from normal, however many moved in others: it has
    # its own exact p, corrected by Bonferroni.
    few = ~is_by_limit(sums) if is_normal else np.zeros(len(first), dtype=bool)
    own = np.zeros(len(first))
    own[few] = sign_flip_p(sums[:, few], iterations=iterations, seed=seed)
    for members, share in zip(families, shares, strict=True):
        if len(members):
            alone = _step_down(found[members], draws[:, members], is_exact)
            alone = np.maximum(alone, np.minimum(own[members] * len(members), 1.0))
            p[members] = np.minimum(alone / share, 1.0)
            level[members] = _level_alone(draws[:, members], ALPHA * share)
            if members is families[1] and len(families[0]):
                # Once every primary metric is decided, the others are tested at the whole level.
                decided = np.maximum(alone, p[families[0]].max())
                p[members] = np.minimum(p[members], decided)
    return Together(p, level, is_normal)


def _signed(units: Values, iterations: int, seed: int) -> Values:
    """Return |sums| under random signs: one row per sign pattern, all of them if they are few."""
    # A query and its mirror image are the same under random signs. So neither the order of
    # queries nor that of the runs matters.
    lead = np.take_along_axis(units, (units != 0).argmax(axis=1)[:, None], axis=1)
    units = units * np.where(lead < 0, -1.0, 1.0)
    units = units[np.lexsort(units.T)]
    n = len(units)
    if n <= EXACT_UP_TO:  # by symmetry the first sign stays +
        bits = (np.arange(2 ** max(n - 1, 0))[:, None] >> np.arange(n)) & 1
        return np.abs((1.0 - 2.0 * bits) @ units)
    rng, sums = np.random.default_rng(seed), np.zeros((iterations, units.shape[1]))
    step = max(BLOCK // iterations, 1)
    for start in range(0, n, step):
        part = units[start : start + step]
        drawn = rng.integers(0, 256, (len(part), -(-iterations // 8)), dtype=np.uint8)
        kept = np.unpackbits(drawn, axis=1, count=iterations).T.astype(np.float64)
        sums += 2 * (kept @ part) - part.sum(axis=0)
    return np.abs(sums)


def _normal_limit(units: Values, iterations: int, seed: int) -> Values:
    """Return |draws| of the normal distribution that sums under random signs come close to."""
    # Rounded, so that the order of queries changes no draw; a little is added to the diagonal,
    # because metrics may be copies of each other.
    correlations = np.round(units.T @ units, 9) + 1e-6 * np.eye(units.shape[1])
    draws = np.random.default_rng(seed).standard_normal((iterations, units.shape[1]))
    return np.abs(draws @ np.linalg.cholesky(correlations).T)


def _step_down(found: Values, draws: Values, is_exact: bool) -> Values:
    """Return adjusted p: each metric against the largest of those that are not ahead of it."""
    order = np.argsort(found, kind="stable")
    largest = np.maximum.accumulate(draws[:, order], axis=1)
    reached = (largest >= found[order] - SLACK).sum(axis=0)
    p = reached / len(draws) if is_exact else (1 + reached) / (1 + len(draws))
    adjusted = np.empty(len(found))
    adjusted[order] = np.maximum.accumulate(p[::-1])[::-1]
    return adjusted


def _level_alone(draws: Values, alpha: float) -> float:
    """Return the level of one metric's own test that the largest of a family keeps to alpha."""
    from scipy.special import ndtr

    if not len(draws):
        return alpha
    return float(np.clip(2 * ndtr(-np.quantile(draws.max(axis=1), 1 - alpha)), 1e-6, alpha))


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
    """Return the adjusted p of every pair of runs, in one metric or in several at once.

    Randomised Tukey HSD (Carterette 2012, doi:10.1145/2094072.2094076). If the runs don't differ,
    their labels can be exchanged within each query, for all metrics alike. p of a pair is the share
    of relabellings whose largest difference of any two means, of any metric, is at least that of
    the pair; differences are measured by the spread of their metric. So the chance of any false
    claim among all pairs and metrics stays below the level. All relabellings where there are at
    most `iterations`, else (1 + number of random ones) / (iterations + 1); beyond 1,000 queries
    that vary, draws of the normal distribution that relabelled means come close to.

    Parameters
    ----------
    scores
        One row per query, one column per run; of several metrics, along a third axis. A query
        without a value in every run is left out of the metric.
    groups
        Whole number of every query's group, -1: none. Members of a group are relabelled together.

    Returns
    -------
    Symmetric matrix, runs × runs, 1 on its diagonal, of several metrics one along a third axis; NaN
    for a metric without a query that all runs have. The order of queries and of runs doesn't
    matter.
    """
    is_single = np.ndim(scores) != 3
    values = as_columns(scores)[:, :, None] if is_single else np.asarray(scores, np.float64)
    n, runs, metrics = values.shape
    complete = np.logical_not(np.asarray(np.isnan(values).any(axis=1)))  # queries × metrics
    filled = np.where(complete[:, None, :], values, 0.0)
    sums = group_sums(filled.reshape(n, -1), groups).reshape(-1, runs, metrics)
    totals = sums.sum(axis=0)
    size = np.abs(sums).max(axis=(0, 1), initial=0.0)
    spread = sums - sums.min(axis=1, keepdims=True, initial=np.inf)
    varies = np.greater(spread.max(axis=1, initial=0.0), ROUNDING * size)  # queries × metrics
    spread = spread[np.any(varies, axis=1)]
    variance = ((spread - spread.mean(axis=1, keepdims=True)) ** 2).sum(axis=(0, 1))
    scale = np.where(variance > 0, np.sqrt(variance), 1.0)
    units = _canonical(spread / scale)
    n_all = (
        math.factorial(runs) ** max(len(units) - 1, 0)
        if len(units) * math.log(runs + 1) < 60
        else math.inf
    )
    if n_all <= iterations:
        ranges = _all_ranges(units)
    elif len(units) > NORMAL_FROM:
        ranges = _normal_ranges(units, iterations, seed)
    else:
        ranges = _random_ranges(units, iterations, seed)
    ranges.sort()
    least = np.abs(totals[:, None] - totals[None, :]) / scale
    slack = ROUNDING * np.abs(sums).sum(axis=(0, 1)) / scale
    beyond = len(ranges) - np.searchsorted(ranges, least - slack, "left")
    p = beyond / len(ranges) if n_all <= iterations else (1 + beyond) / (iterations + 1)
    p = np.where(np.eye(runs, dtype=bool)[:, :, None], 1.0, p)
    p = np.where(complete.any(axis=0), p, np.nan)
    return p[:, :, 0] if is_single else p


def _canonical(units: Values) -> Values:
    """Sort runs within each query, and queries: labels are exchanged within a query anyhow.

    So p doesn't depend on their order. Values that only rounding tells apart count as equal, or
    the order of a sum would decide which query gets which draw.
    """
    n, runs, metrics = units.shape
    if runs < 2 or not n:
        return units
    units = np.round(units, 12)
    columns = [units[:, :, metric].ravel() for metric in range(metrics)]
    order = np.lexsort([*columns[::-1], np.repeat(np.arange(n), runs)])
    units = units.reshape(-1, metrics)[order].reshape(n, runs, metrics)
    return units[np.lexsort(units.reshape(n, -1).T)]


def _all_ranges(units: Values) -> Values:
    """Return the largest difference of two runs' sums in any metric, in every relabelling.

    The first query keeps its labels: renaming all runs changes no range.
    """
    if not len(units):
        return np.zeros(1)
    sums = units[:1]
    for rows in units[1:]:  # few: (number of runs)! to their power is at most `iterations`
        sums = (sums[:, None] + _orders(rows)[None]).reshape(-1, *units.shape[1:])
    return _largest(sums)


def _orders(rows: Values) -> Values:
    from itertools import permutations

    return rows[np.array(list(permutations(range(len(rows)))))]


def _random_ranges(units: Values, iterations: int, seed: int) -> Values:
    rng = np.random.default_rng(seed)
    n, runs, metrics = units.shape
    ranges, query = np.empty(iterations), np.arange(n)[None, :, None]
    step = max(AT_ONCE // units.size, 1)
    for first in range(0, iterations, step):
        rows = min(step, iterations - first)
        order = rng.permuted(np.broadcast_to(np.arange(runs), (rows, n, runs)), axis=2)
        by_metric = [units[:, :, one][query, order].sum(axis=1) for one in range(metrics)]
        ranges[first : first + rows] = _largest(np.stack(by_metric, axis=2))
    return ranges


def _normal_ranges(units: Values, iterations: int, seed: int) -> Values:
    """Return ranges of the normal limit: runs exchangeable, metrics correlated as they are."""
    _, runs, metrics = units.shape
    centred = units - units.mean(axis=1, keepdims=True)
    covariance = np.einsum("urm,urk->mk", centred, centred) / (runs - 1)
    # rounded, so that the order of queries changes no draw; metrics may be copies of each other
    covariance = np.round(covariance, 12) + 1e-9 * np.eye(metrics)
    draws = np.random.default_rng(seed).standard_normal((iterations, runs, metrics))
    return _largest(draws @ np.linalg.cholesky(covariance).T)


def _largest(sums: Values) -> Values:
    """Return the largest range over the runs (second axis) of any metric (third)."""
    largest: Values = np.ptp(sums, axis=1).max(axis=1)
    return largest


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
