"""Differences: of two runs on the same queries, of a slice from the rest, and what n can show.

The interval is the test: p is below 1 − confidence just where the interval leaves out 0.
"""

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Flags, Values
from ragscore.stats.intervals import wilson_interval
from ragscore.stats.moments import (
    COCHRAN,
    Sample,
    as_columns,
    group_sums,
    own_groups,
    sample,
    skewness,
    t_quantile,
)

EXACT_UP_TO = 16  # differences: 2^16 sign patterns are enumerated, more are drawn
ROUNDING = 1e-12  # sums that differ by less than this share of their parts are equal
RULE_OF_THREE = 3.0  # an event never seen in n queries may happen in 3/n of them (95 %)
POWER = 0.8
SKEWED = 2.0  # beyond this skewness of differences a test of their mean may be too eager


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
        is_few, rng = len(sizes) <= EXACT_UP_TO, np.random.default_rng(seed)
        totals = np.zeros(1 if is_few else iterations)
        for size in sizes:
            if is_few:
                totals = np.append(totals + size, totals - size)
            else:
                totals += size * (1 - 2 * rng.integers(0, 2, iterations))
        beyond = np.abs(totals) >= abs(sums.sum()) - ROUNDING * sizes.sum()
        p[place] = beyond.mean() if is_few else (beyond.sum() + 1) / (iterations + 1)
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
    z = t_quantile(np.asarray(freedom, dtype=np.float64), confidence)
    with np.errstate(invalid="ignore", divide="ignore"):
        inside, outside = np.broadcast_arrays((won - lost) / size, [[-1.0], [1.0]])
        for _ in range(60):  # halvings: to the last bit
            middle = (inside + outside) / 2
            away = (won - lost - size * middle) ** 2
            accepted = away <= z * z * _tango_variance(won, lost, size, middle)
            inside = np.where(accepted, middle, inside)
            outside = np.where(accepted, outside, middle)
    low, high = np.where(size > 0, inside, np.nan)
    return low, high


def _tango_variance(won: Values, lost: Values, n: Values, delta: Values) -> Values:
    """Return the variance of wins − losses for a true difference delta."""
    b = (2 * n - won + lost) * delta - won - lost
    root = np.sqrt(b * b + 8 * n * lost * delta * (1 - delta))
    # The most likely rate of losses, (root − b) / 4n, without a difference of close numbers.
    rate = np.where(b > 0, 2 * lost * delta * (1 - delta) / (root + b), (root - b) / (4 * n))
    return n * (2 * rate + delta * (1 - delta))


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
    low, high, _ = paired_test(
        as_columns(differences), sample(differences, groups), kind, bounds, confidence
    )
    return low, high


def paired_test(
    columns: Values, of: Sample, kind: str, bounds: tuple[float, float], confidence: float
) -> tuple[Values, Values, Values]:
    """Return `paired_interval`, and p of the same test: McNemar's score test, else t.

    `of` is the sample of these columns. p is NaN without an interval.
    """
    from scipy.special import stdtr

    if kind == "binary" and bool((np.isnan(columns) | np.isin(columns, (-1, 0, 1))).all()):
        return _counted_test(columns, of, confidence)
    size, df = np.abs(of.mean), of.alike - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        half = t_quantile(df, confidence) * of.jackknifed
        p = 2 * stdtr(df, -size / of.jackknifed)
        if kind not in ("binary", "bounded"):
            half, p = np.where(of.is_flat, np.nan, (half, p))
            return of.mean - half, of.mean + half, p
        width = bounds[1] - bounds[0] if kind == "bounded" else 1.0
        unseen = width * wilson_interval(np.zeros_like(size), of.units, confidence)[1]
        by_sign = size * t_quantile(np.inf, confidence) / np.sqrt(of.units)
        z = np.sqrt(of.units * np.fmin(size / np.fmax(width - size, 0.0), 1.0))
    half = np.where(of.is_flat, np.fmax(unseen, by_sign), half)
    p = np.where(of.is_flat, 2 * stdtr(np.inf, -z), p)
    return np.clip(of.mean - half, -width, width), np.clip(of.mean + half, -width, width), p


def _counted_test(columns: Values, of: Sample, confidence: float) -> tuple[Values, Values, Values]:
    """Return Tango's interval and p of McNemar's score test, of differences of single 0/1 values.

    Groups are worth n / design effect queries (as Korn and Graubard 1998 have it for rates), and t
    takes the place of the normal distribution; where all differences are equal, nothing shows that
    members differ, and each group is worth one query.
    """
    from scipy.special import stdtr

    with np.errstate(invalid="ignore", divide="ignore"):
        effect = np.where(of.is_flat, of.n / of.units, (of.jackknifed / of.alone) ** 2)
        is_normal = of.is_flat | (of.units == of.n)
        won, lost = ((sign * columns > 0).sum(axis=0) / effect for sign in (1, -1))
        freedom = np.where(is_normal, np.inf, of.alike - 1)
        z = np.nan_to_num(np.abs(won - lost) / np.sqrt(won + lost))  # 0 where nothing moved
        p = np.where(of.n > 0, 2 * stdtr(freedom, -z), np.nan)
    return *tango_interval(won, lost, of.n / effect, confidence, freedom), p


def welch(
    values: npt.ArrayLike, inside: npt.ArrayLike, *, groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values, Values, Values]:  # fmt: skip
    """Return the difference of a slice's mean from the rest's, its interval, and p (Welch 1947).

    Members of a group are added up first, on whichever side they are. NaN where a side has one
    value or none, or nothing varies.
    """
    from scipy.special import stdtr

    of, rest, total = two_sides(as_columns(values), np.asarray(inside, dtype=bool), groups)
    delta, is_flat = of.mean - rest.mean, of.is_flat & rest.is_flat
    with np.errstate(invalid="ignore", divide="ignore"):
        freedom = sum(side.clustered**4 / (side.units - 1) for side in (of, rest))
        df, error = np.where(is_flat, np.nan, total**2 / freedom), np.sqrt(total)
        half = t_quantile(df, confidence) * error
        return delta, delta - half, delta + half, 2 * stdtr(df, -np.abs(delta) / error)


def two_sides(
    columns: Values, inside: Flags, groups: npt.ArrayLike | None
) -> tuple[Sample, Sample, Values]:
    """Return the samples of a slice and of the rest, and the variance of their means' difference.

    What a query adds to that is (x − its side's mean) / (its side's n), negative in the rest;
    members of a group are added up first, on whichever side they are.
    """
    codes = None if groups is None else own_groups(groups, len(columns))
    terms, sides = np.zeros_like(columns), []
    for sign, rows in ((1.0, inside), (-1.0, ~inside)):
        of = sample(columns[rows], None if codes is None else codes[rows])
        with np.errstate(invalid="ignore", divide="ignore"):
            few = np.sqrt(of.units / (of.units - 1))
            terms[rows] = sign * (columns[rows] - of.mean) / of.n * few
        sides.append(of)
    return sides[0], sides[1], (group_sums(terms, codes) ** 2).sum(axis=0)


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
    is_one_way = (columns > 0).any(axis=0) != (columns < 0).any(axis=0)
    is_unseen = is_one_way & (sizes.sum(axis=0) < RULE_OF_THREE * possible)
    is_whole = (sizes == 0) | (np.abs(sizes - possible) <= ROUNDING * possible)
    is_skewed = (skew > SKEWED) & (n <= COCHRAN * skew**2)
    return np.asarray((is_skewed | is_unseen) & ~(is_whole.all(axis=0) & has_width), dtype=bool)


def minimum_detectable(
    error: npt.ArrayLike, units: npt.ArrayLike, level: npt.ArrayLike = 0.05, power: float = POWER
) -> Values:
    """Return about the difference that is found with this power: (t_{1−level/2} + t_power)·error.

    `error` is the standard error of the mean difference, `units` the number of queries or clusters.
    NaN where no test can reject (2·2⁻ⁿ > level), and where nothing differed.
    """
    from scipy.special import stdtrit

    spread, n = (np.asarray(one, dtype=np.float64) for one in (error, units))
    with np.errstate(invalid="ignore", over="ignore"):
        can_reject = (2 * 2.0**-n <= np.asarray(level)) & (spread > 0)
        df = np.maximum(n - 1, 1)
        reach = stdtrit(df, 1 - np.asarray(level) / 2) + stdtrit(df, power)
    return np.where(can_reject, reach * spread, np.nan)


def queries_needed(
    difference: npt.ArrayLike, std: npt.ArrayLike, level: float = 0.05, power: float = POWER
) -> Values:
    """Return about how many paired queries find a mean difference with this power.

    Of two rates std² = discordance − difference². Infinite for a difference of 0, NaN where nothing
    differed.
    """
    from scipy.special import ndtri

    delta, spread = np.abs(np.asarray(difference, float)), np.asarray(std, dtype=np.float64)
    reach = ndtri(1 - level / 2) + ndtri(power)
    with np.errstate(divide="ignore", invalid="ignore"):
        # t needs a few more than z
        found = np.ceil((reach * spread / delta) ** 2 + ndtri(1 - level / 2) ** 2 / 2)
    return np.where(spread > 0, found, np.nan)
