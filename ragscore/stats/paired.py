"""Differences: of two runs on the same queries, and of a slice from the rest.

The interval is the test: p is below 1 − confidence just where the interval leaves out 0.
"""

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Flags, Values
from ragscore.stats.bootstrap import BLOCK
from ragscore.stats.intervals import t_quantile, wilson_interval
from ragscore.stats.moments import (
    COCHRAN,
    as_columns,
    group_sums,
    is_constant,
    moments,
    own_groups,
    skewness,
    standard_error,
)

EXACT_UP_TO = 16  # differences: 2^16 sign patterns are enumerated, more are drawn
ROUNDING = 1e-12  # sums that differ by less than this share of their parts are equal
RULE_OF_THREE = 3.0  # an event never seen in n queries may happen in 3/n of them (95 %)
SKEWED = 2.0  # beyond this skewness of differences a test of their mean may be too eager


def count_moves(differences: npt.ArrayLike) -> tuple[Values, Values]:
    """Count queries that rose and that fell, per column, without NaN."""
    columns = as_columns(differences)
    up, down = (columns > 0).sum(axis=0), (columns < 0).sum(axis=0)
    return up.astype(np.float64), down.astype(np.float64)


def mcnemar_p(wins: npt.ArrayLike, losses: npt.ArrayLike, *, is_exact: bool = False) -> Values:
    """Return the two-sided p of McNemar's test for paired 0/1 values; 1 where nothing moved.

    Mid-p (Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91), or the exact p: that
    of a sign test.
    """
    from scipy.special import bdtr

    k, m = np.minimum(wins, losses), np.add(wins, losses).astype(np.int64)
    up_to = bdtr(k, m, 0.5)
    below = np.where(k > 0, bdtr(np.maximum(k - 1, 0), m, 0.5), 0.0)
    return np.where(m > 0, np.minimum(2 * up_to if is_exact else up_to + below, 1.0), 1.0)


def sign_flip_p(
    differences: npt.ArrayLike, *, groups: npt.ArrayLike | None = None,
    iterations: int = 10_000, seed: int = 0,
) -> Values:  # fmt: skip
    """Return the two-sided p of every column's mean difference by sign-flip permutation.

    Fisher 1935; Smucker et al. 2007, doi:10.1145/1321440.1321528. p is the share of sign patterns
    whose mean is at least as far from 0: of all where at most 16 differences are not 0, else of
    random ones. Members of a group (-1: none) change sign together. NaN without a difference.
    """
    columns = as_columns(differences)
    p = np.full(columns.shape[1], np.nan)
    for place, sums in enumerate(group_sums(columns, groups).T):
        sizes = np.sort(np.abs(sums))  # p depends on no order of queries
        sizes = sizes[sizes > ROUNDING * sizes.max(initial=0.0)]
        least = abs(sums.sum()) - ROUNDING * sizes.sum()
        if len(sizes) <= EXACT_UP_TO:
            bits = (np.arange(2 ** len(sizes))[:, None] >> np.arange(len(sizes))) & 1
            p[place] = (np.abs((1 - 2 * bits) @ sizes) >= least).mean()
            continue
        beyond, step, rng = 1, max(BLOCK // len(sizes), 1), np.random.default_rng(seed)
        for start in range(0, iterations, step):
            signs = rng.integers(0, 2, (min(step, iterations - start), len(sizes)))
            beyond += int((np.abs((1.0 - 2.0 * signs) @ sizes) >= least).sum())
        p[place] = beyond / (iterations + 1)
    return np.where(np.isnan(columns).all(axis=0), np.nan, p)


def tango_interval(
    wins: npt.ArrayLike, losses: npt.ArrayLike, n: npt.ArrayLike, confidence: float = 0.95,
    freedom: npt.ArrayLike = np.inf,
) -> tuple[Values, Values]:  # fmt: skip
    """Return the score interval of the difference of two paired rates, (wins − losses) / n.

    Tango 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<891. It holds the values that McNemar's
    score test would not reject, and has a width where nothing moved: ± z²/(n + z²). With t's
    quantile for z where the variance has so many degrees of `freedom`.
    """
    won, lost, size = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in (wins, losses, n))
    )
    z, ends = t_quantile(np.asarray(freedom, dtype=np.float64), confidence), []
    with np.errstate(invalid="ignore", divide="ignore"):
        for end in (-1.0, 1.0):
            inside, outside = (won - lost) / size, np.full(size.shape, end)
            for _ in range(60):  # halvings: to the last bit
                middle = (inside + outside) / 2
                away = (won - lost - size * middle) ** 2
                accepted = away <= z * z * _tango_variance(won, lost, size, middle)
                inside = np.where(accepted, middle, inside)
                outside = np.where(accepted, outside, middle)
            ends.append(np.where(size > 0, inside, np.nan))
    return ends[0], ends[1]


def _tango_variance(won: Values, lost: Values, n: Values, delta: Values) -> Values:
    """Return the variance of wins − losses for a true difference delta."""
    b = (2 * n - won + lost) * delta - won - lost
    root = np.sqrt(b * b + 8 * n * lost * delta * (1 - delta))
    # The most likely rate of losses, (root − b) / 4n, without a difference of close numbers.
    rate = np.where(b > 0, 2 * lost * delta * (1 - delta) / (root + b), (root - b) / (4 * n))
    return n * (2 * rate + delta * (1 - delta))


def is_whole(columns: Values, kind: str) -> bool:
    """Return whether these are differences of single 0/1 values."""
    return kind == "binary" and bool((np.isnan(columns) | np.isin(columns, (-1, 0, 1))).all())


def counted(columns: Values, groups: npt.ArrayLike | None) -> tuple[Values, Values, Values, Values]:
    """Return wins, losses and n of 0/1 metrics as if no two queries were alike, and t's freedom.

    Groups are worth n / design effect queries (as Korn and Graubard 1998 have it for rates); where
    all differences are equal, nothing shows that members differ, and each group is worth one.
    """
    (mean, std, n), (up, down) = moments(columns), count_moves(columns)
    if groups is None:
        return up, down, n, np.full(n.shape, np.inf)
    units = standard_error(columns, groups)[1]
    is_flat = is_constant(mean, std, n) | (units < 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        effect = (paired_error(columns, groups) / standard_error(columns)[0]) ** 2
        effect = np.where(is_flat, n / units, effect)
    freedom = np.where(is_flat, np.inf, alike_units(columns, groups) - 1)
    return up / effect, down / effect, n / effect, freedom


def alike_units(columns: Values, groups: npt.ArrayLike | None) -> Values:
    """Return the effective number of groups, (Σ n_g)² / Σ n_g²; without groups, of queries.

    So many groups of one size know the variance as well: Satterthwaite's degrees of freedom + 1 for
    groups whose sums vary as their sizes do. At least 2, where there are 2.
    """
    sizes = group_sums((~np.isnan(columns)).astype(np.float64), groups)
    units = (sizes > 0).sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = sizes.sum(axis=0) ** 2 / (sizes**2).sum(axis=0)
    return np.where(units > 1, np.clip(alike, 2, units), units)


def paired_error(columns: Values, groups: npt.ArrayLike | None) -> Values:
    """Return the standard error of mean differences.

    Of groups, the jackknife over them (CR3 of Bell and McCaffrey 2002), in which a large group
    counts for what the mean owes to it; never smaller than without groups.
    """
    error, units = standard_error(columns, groups)
    if groups is None:
        return error
    mean, _, n = moments(columns)
    sizes = group_sums((~np.isnan(columns)).astype(np.float64), groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = group_sums(columns - mean, groups) / (1 - sizes / n)
        jackknifed = np.sqrt((units - 1) / units * (parts**2).sum(axis=0)) / n
    alone = standard_error(columns)[0]
    return np.fmax(np.fmax(error, alone), np.where(units > 1, jackknifed, np.nan))


def paired_interval(
    differences: npt.ArrayLike,
    kind: str,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values]:
    """Return the interval of the mean paired difference of every column.

    Tango's for 0/1 metrics, else t, with groups clustered; of groups of unlike sizes, t has fewer
    degrees of freedom. Metrics with bounds stay within their width. Equal differences are never
    certainty: the interval then leaves room for differing queries that weren't seen, z² / (n + z²)
    of the width for n queries (or groups), and z / √n of the difference, as n equal signs do;
    without bounds there is none (NaN). Arguments as in `mean_interval`.
    """
    columns = as_columns(differences)
    mean, std, n = moments(columns)
    if is_whole(columns, kind):
        up, down, n, freedom = counted(columns, groups)
        return tango_interval(up, down, n, confidence, freedom)
    half = t_quantile(alike_units(columns, groups) - 1, confidence) * paired_error(columns, groups)
    units = standard_error(columns, groups)[1]
    flat = is_constant(mean, std, n) | (units == 1)
    if kind not in ("binary", "bounded"):
        half = np.where(flat, np.nan, half)
        return mean - half, mean + half
    width = bounds[1] - bounds[0] if kind == "bounded" else 1.0
    unseen = width * wilson_interval(np.zeros_like(n), units, confidence)[1]
    with np.errstate(invalid="ignore", divide="ignore"):
        by_sign = np.abs(mean) * t_quantile(np.full(n.shape, np.inf), confidence) / np.sqrt(units)
    half = np.where(flat, np.fmax(unseen, by_sign), half)
    return np.clip(mean - half, -width, width), np.clip(mean + half, -width, width)


def paired_p(
    differences: npt.ArrayLike,
    kind: str,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: npt.ArrayLike | None = None,
) -> Values:
    """Return p of every mean difference, by the test that its `paired_interval` is.

    McNemar's score test, else t. NaN without an interval.
    """
    from scipy.special import ndtr, stdtr

    columns = as_columns(differences)
    mean, std, n = moments(columns)
    with np.errstate(invalid="ignore", divide="ignore"):
        if is_whole(columns, kind):
            up, down, n, freedom = counted(columns, groups)
            z = np.where(up + down > 0, np.abs(up - down) / np.sqrt(up + down), 0.0)
            return np.where(n > 0, 2 * stdtr(freedom, -z), np.nan)
        units = standard_error(columns, groups)[1]
        t = np.abs(mean) / paired_error(columns, groups)
        p = 2 * stdtr(alike_units(columns, groups) - 1, -t)
        width = bounds[1] - bounds[0] if kind == "bounded" else 1.0
        z = np.sqrt(units * np.fmin(np.abs(mean) / np.fmax(width - np.abs(mean), 0.0), 1.0))
    flat = is_constant(mean, std, n) | (units == 1)
    return np.where(flat, 2 * ndtr(-z) if kind in ("binary", "bounded") else np.nan, p)


def welch(
    values: npt.ArrayLike, inside: npt.ArrayLike, *, groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values, Values, Values]:  # fmt: skip
    """Return the difference of a slice's mean from the rest's, its interval, and p (Welch 1947).

    What a query adds to the difference is (x − its side's mean) / (its side's n), negative in the
    rest; members of a group are added up first, on whichever side they are. NaN where a side has
    one value or none, or nothing varies.
    """
    from scipy.special import stdtr

    columns, side = as_columns(values), np.asarray(inside, dtype=bool)
    codes = np.arange(len(columns)) if groups is None else own_groups(groups, len(columns))
    delta, freedom = np.zeros((2, columns.shape[1]))
    terms, flat = np.zeros_like(columns), np.ones(columns.shape[1], dtype=bool)
    for sign, rows in ((1.0, side), (-1.0, ~side)):
        mean, std, n = moments(columns[rows])
        flat &= is_constant(mean, std, n)
        delta = delta + sign * mean
        sizes = group_sums((~np.isnan(columns[rows])).astype(np.float64), codes[rows])
        units = (sizes > 0).sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            own = sign * (columns[rows] - mean) / n * np.sqrt(units / (units - 1))
            terms[rows] = own
            freedom += (group_sums(own, codes[rows]) ** 2).sum(axis=0) ** 2 / (units - 1)
    total = (group_sums(terms, codes) ** 2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        df = np.where(flat | np.isnan(freedom), np.nan, total**2 / freedom)
        half = t_quantile(df, confidence) * np.sqrt(total)
        p = 2 * stdtr(df, -np.abs(delta) / np.sqrt(total))
    return delta, delta - half, delta + half, p


def is_heavy_tailed(differences: npt.ArrayLike, width: npt.ArrayLike = 1.0) -> Flags:
    """Flag columns whose mean difference needs a caution: its interval is too narrow.

    - Few queries carry it: |skewness| > 2 and n ≤ 25·skewness² (Cochran 1977, Sampling Techniques,
      2.15: a 95 % interval then errs in more than 6 % of samples).
    - Or too rare ones to be seen would undo it: all that moved moved one way, and losses as rare as
      3/n of the queries, each of the metric's `width`, would undo the sum of the gains.

    Not where every difference that isn't 0 is as large as the metric allows (0/1 metrics).
    """
    columns = as_columns(differences)
    n = (~np.isnan(columns)).sum(axis=0)
    sizes = np.where(np.isnan(columns), 0.0, np.abs(columns))
    largest, has_width = sizes.max(axis=0, initial=0.0), np.isfinite(width)
    possible = np.where(has_width, np.fmax(largest, width), largest)
    skew = np.nan_to_num(np.abs(skewness(columns)))
    wins, losses = count_moves(columns)
    is_unseen = ((wins == 0) != (losses == 0)) & (sizes.sum(axis=0) < RULE_OF_THREE * possible)
    is_whole = (sizes == 0) | (np.abs(sizes - possible) <= ROUNDING * possible)
    is_skewed = (skew > SKEWED) & (n <= COCHRAN * skew**2)
    return np.asarray((is_skewed | is_unseen) & ~(is_whole.all(axis=0) & has_width), dtype=bool)
