"""Tests of a mean difference: two runs on the same queries, or a slice against the rest.

McNemar's test and Tango's interval are for paired 0/1 values, sign flips for other paired
differences, and a permutation of Welch's statistic for means of different queries. From
`NORMAL_FROM` units on sign flips go by their normal limit; from `WELCH_FROM` a side, means of
different queries by Welch's test.
"""

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.stats.bootstrap import BLOCK, same_rows
from ragscore.stats.moments import (
    COCHRAN,
    NORMAL_FROM,
    as_columns,
    group_sums,
    own_groups,
    skewness,
)

# Sign flips of so many equal sizes have a kurtosis of 3 − 2/100: the normal limit errs by .0002 at
# p = .05. Different sizes count as (Σs²)² / Σs⁴ equal ones, so that a few large don't decide.
EQUAL_SIZES = 100
EXACT_UP_TO = 16  # differences: 2^16 sign patterns are enumerated, more are drawn
# Differences below this share of the largest are rounding; sums that differ by less are equal.
ROUNDING = 1e-12
# Units a side from which a slice is tested by Welch's test alone, unless values are too skewed.
WELCH_FROM = 100
EQUAL = 1e-9  # statistics that differ by less, relatively, are equal but for rounding
CELLS = 2**16  # relabelled at a time: enough rows for a product of matrices to be fast
PLAIN = 1_000  # equal values from which only the others are relabelled one by one


Labels = npt.NDArray[np.bool_ | np.int64]
"""Whether each unit is in the slice, or how many of those that count as one are."""


def count_moves(differences: npt.ArrayLike) -> tuple[Values, Values]:
    """Count queries that rose and that fell, per column, without NaN."""
    columns = as_columns(differences)
    up, down = (columns > 0).sum(axis=0), (columns < 0).sum(axis=0)
    return up.astype(np.float64), down.astype(np.float64)


def mcnemar_p(wins: npt.ArrayLike, losses: npt.ArrayLike, *, is_exact: bool = False) -> Values:
    """Return the two-sided p of McNemar's test for paired 0/1 values.

    `wins` and `losses` count the queries that only one of the two runs passes. Mid-p: 2·P(X < k) +
    P(X = k), X ~ Bin(m, ½), k = min(wins, losses), m = wins + losses (Fagerland, Lydersen and Laake
    2013, doi:10.1186/1471-2288-13-91): it keeps to its level, where the exact test (2·P(X ≤ k), at
    most 1) has half of it. 1 where nothing moved.

    Parameters
    ----------
    is_exact
        Give the exact conditional p instead, worth showing beside below ten moved queries.
    """
    from scipy.special import bdtr

    won, lost = np.asarray(wins, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    k, m = np.minimum(won, lost), won + lost
    up_to = bdtr(k, m.astype(np.int64), 0.5)
    below = np.where(k > 0, bdtr(np.maximum(k - 1, 0), m.astype(np.int64), 0.5), 0.0)
    return np.minimum(1.0, 2 * up_to if is_exact else np.where(m > 0, up_to + below, 1.0))


def tango_interval(
    wins: npt.ArrayLike, losses: npt.ArrayLike, n: npt.ArrayLike, confidence: float = 0.95
) -> tuple[Values, Values]:
    """Return the score interval of the difference of two paired rates, (wins − losses) / n.

    Tango 1998, doi:10.1002/(SICI)1097-0258(19980430)17:8<891. It holds the values that McNemar's
    score test would not reject. It stays within -1..1 and has a width where nothing moved:
    ± z²/(n + z²). NaN where n is 0.
    """
    from scipy.special import ndtri

    won, lost, size = np.broadcast_arrays(
        *(np.atleast_1d(np.asarray(one, dtype=np.float64)) for one in (wins, losses, n))
    )
    z = float(ndtri((1 + confidence) / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        estimate = (won - lost) / size
        return _tango_bound(won, lost, size, estimate, -1.0, z), _tango_bound(
            won, lost, size, estimate, 1.0, z
        )


def _tango_bound(
    won: Values, lost: Values, n: Values, inside: Values, end: float, z: float
) -> Values:
    """Bisect between the estimate, which the test accepts, and a rejected end of the range."""
    outside = np.full_like(inside, end)
    for _ in range(60):  # halvings: to the last bit
        middle = (inside + outside) / 2
        accepted = (won - lost - n * middle) ** 2 <= z * z * _tango_variance(won, lost, n, middle)
        inside, outside = np.where(accepted, middle, inside), np.where(accepted, outside, middle)
    return np.where(n > 0, inside, np.nan)


def _tango_variance(won: Values, lost: Values, n: Values, delta: Values) -> Values:
    """Return the variance of wins − losses for a true difference delta."""
    b = (2 * n - won + lost) * delta - won - lost
    root = np.sqrt(b * b + 8 * n * lost * delta * (1 - delta))
    # The most likely rate of losses, (root − b) / 4n, without a difference of close numbers.
    rate = np.where(b > 0, 2 * lost * delta * (1 - delta) / (root + b), (root - b) / (4 * n))
    return n * (2 * rate + delta * (1 - delta))


def sign_flip_p(
    differences: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Values:
    """Return the two-sided p of every column's mean difference by sign-flip permutation.

    Fisher 1935; Smucker et al. 2007, doi:10.1145/1321440.1321528. If two runs don't differ, each
    query's difference could as well have had the other sign: p is the share of sign patterns whose
    mean is at least as far from 0. All 2^m patterns where at most 16 differences are not 0, else (1
    + number of random patterns) / (iterations + 1). From 1,000 differences that are not 0
    (`NORMAL_FROM`; groups where grouped) the normal limit, 2Φ(−|Σd| / √Σd²), unless a few large
    ones decide (`is_by_limit`).

    Parameters
    ----------
    differences
        One row per query, one column per metric; NaN where one of the runs has no value.
    groups
        Whole number of every query's group, -1: none. Members of a group change sign together.

    Returns
    -------
    One p per column; NaN without a difference, 1 where all are 0. Neither the order of rows nor
    other columns nor rows of NaN or 0 matter.
    """
    from scipy.special import ndtr

    columns = as_columns(differences)
    sums = group_sums(columns, groups)
    # Every sign pattern of |d| is one of d. So sizes can be sorted, and p depends neither on the
    # order of queries nor on which run comes first.
    sizes = np.abs(sums)
    sizes.sort(axis=0)
    sizes = sizes[::-1]
    sizes[sizes <= ROUNDING * sizes.max(axis=0, initial=0.0)] = 0.0
    least = np.abs(sums.sum(axis=0)) - ROUNDING * sizes.sum(axis=0)
    moved = (sizes > 0).sum(axis=0)
    is_exact, by_limit = moved <= EXACT_UP_TO, is_by_limit(sums)
    is_drawn = ~is_exact & ~by_limit
    p = np.full(columns.shape[1], np.nan)
    p[is_exact] = _enumerated(sizes[:, is_exact], least[is_exact])
    p[is_drawn] = _drawn(sizes[:, is_drawn], least[is_drawn], iterations, seed)
    errors = np.sqrt((sizes[:, by_limit] ** 2).sum(axis=0))
    p[by_limit] = 2 * ndtr(-np.abs(sums[:, by_limit].sum(axis=0)) / errors)
    return np.where(np.isnan(columns).all(axis=0), np.nan, p)


def is_by_limit(sums: Values) -> Flags:
    """Flag the columns of differences, or of sums by group, whose flips go by their normal limit.

    These have `NORMAL_FROM` that are not 0, which weigh as much as `EQUAL_SIZES` of one size.
    """
    sizes = np.abs(sums)
    moved = np.count_nonzero(sizes > ROUNDING * sizes.max(axis=0, initial=0.0), axis=0)
    squares = np.multiply(sizes, sizes, out=sizes)
    enough = squares.sum(axis=0) ** 2 >= EQUAL_SIZES * np.einsum("ij,ij->j", squares, squares)
    return np.asarray((moved >= NORMAL_FROM) & enough, dtype=bool)


def _enumerated(sizes: Values, least: Values) -> Values:
    """Return the share among all sign patterns; by symmetry the first sign stays +."""
    moved = max(int((sizes > 0).sum(axis=0).max(initial=0)), 1)
    bits = (np.arange(2 ** (moved - 1))[:, None] >> np.arange(moved)) & 1
    signs, share = 1.0 - 2.0 * bits, np.ones(sizes.shape[1])
    step = max(BLOCK // len(signs), 1)
    for first in range(0, sizes.shape[1] if len(sizes) else 0, step):
        here = slice(first, first + step)
        share[here] = (np.abs(signs[:, : len(sizes)] @ sizes[:moved, here]) >= least[here]).mean(
            axis=0
        )
    return share


def _drawn(sizes: Values, least: Values, iterations: int, seed: int) -> Values:
    total, beyond = sizes.sum(axis=0), np.zeros(sizes.shape[1])
    step = max(BLOCK // iterations, 1)
    for first in range(0, sizes.shape[1], step):
        here = slice(first, first + step)
        beyond[here] = (
            np.abs(2 * _flipped(sizes[:, here], iterations, seed) - total[here]) >= least[here]
        ).sum(axis=0)
    return (1 + beyond) / (iterations + 1)


def _flipped(sizes: Values, iterations: int, seed: int) -> Values:
    """Return the sum of the differences that keep their sign, by pattern (row) and column.

    Signs are drawn difference by difference, the largest first, for all patterns. So zeros at the
    end change nothing.
    """
    rng, sums = np.random.default_rng(seed), np.zeros((iterations, sizes.shape[1]))
    moved = int((sizes > 0).sum(axis=0).max(initial=0))
    # The generator draws bytes by fours: a multiple of 4 rows loses none between two blocks.
    step = max(BLOCK // iterations // 4, 1) * 4
    for first in range(0, moved, step):
        part = sizes[first : min(first + step, moved)]
        drawn = rng.integers(0, 256, (len(part), -(-iterations // 8)), dtype=np.uint8)
        sums += np.unpackbits(drawn, axis=1, count=iterations).T.astype(np.float64) @ part
    return sums


def paired_p(
    differences: npt.ArrayLike,
    kind: str,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Values:
    """Return p of the default test.

    McNemar's mid-p for 0/1 metrics without groups, else sign flips.

    Averaged repeats of a 0/1 metric have differences between -1, 0 and 1; those are tested by
    permutation. NaN without a difference.
    """
    columns = as_columns(differences)
    is_there = ~np.isnan(columns)
    if (
        kind != "binary"
        or groups is not None
        or not bool((~is_there | np.isin(columns, (-1, 0, 1))).all())
    ):
        return sign_flip_p(columns, groups=groups, iterations=iterations, seed=seed)
    wins, losses = count_moves(columns)
    return np.where(is_there.any(axis=0), mcnemar_p(wins, losses), np.nan)


def two_sample_test(
    values: npt.ArrayLike,
    is_in: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> tuple[Values, Flags]:
    """Test the difference between a slice's mean and the rest's.

    By permutation of Welch's statistic (Janssen 1997, doi:10.1016/S0167-7152(97)00043-6): the
    difference over its standard error, in which each side has its own spread. p is twice the share
    of random slices of the same size whose statistic is as low or lower, or as high or higher. The
    larger of it and of Welch's own p counts. So a slice that merely varies more, or less, than the
    rest is rarely called different.

    0/1 values of queries that stand alone have no spread of their own beside their mean. Of these
    all slices of the same size are counted (Fisher's exact test, by distance).

    From 100 units a side (`WELCH_FROM`) p is Welch's alone, with sums by group. Skewed values need
    25·skewness² a side (Cochran), so that rare failures are still tested by permutation.

    Parameters
    ----------
    values
        One row per query, one column per metric; NaN where a metric doesn't apply.
    is_in
        Flags of the queries in the slice.
    groups
        Whole number of every query's group, -1: none. A group that lies wholly in or out of the
        slice moves as one; where only some of its members are in it (one kind of paraphrase, say),
        members change places within their group.

    Returns
    -------
    One two-sided p per column, NaN where the slice or the rest has no value; and whether it is
    Welch's. The order of queries doesn't matter, but for the 36th bit of Welch's p.
    """
    columns, inside = as_columns(values), np.asarray(is_in, dtype=bool)
    if inside.shape != (len(columns),):
        raise DataError(
            f"found shape {inside.shape}",
            field="is_in",
            allowed=f"{len(columns)} flags, one per query",
        )
    codes = None if groups is None else own_groups(groups, len(columns))
    p, by_limit = np.full(columns.shape[1], np.nan), np.zeros(columns.shape[1], dtype=bool)
    for rows, here in same_rows(columns):
        side = inside[rows]
        if not side.any() or side.all():
            continue
        part, own = columns[np.ix_(rows, here)], None if codes is None else codes[rows]
        part -= part.min(axis=0)  # the mean of equal values differs from them by rounding, but of 0
        by_limit[here] = is_large = _is_welch(part, side, own)
        p[here] = _welch_p(part, side, own)
        if is_large.all():
            continue
        small = np.flatnonzero(~is_large)
        rest, found = part[:, small], np.empty(len(small))
        if own is None:  # sorted, so that the order of queries changes no bit of a sum
            rest = np.concatenate([np.sort(rest[side], axis=0), np.sort(rest[~side], axis=0)])
            side = np.sort(side)[::-1]
        is_exact = (rest == rest.min(axis=0)) | (rest == rest.max(axis=0))
        is_exact = is_exact.all(axis=0) & (own is None)
        found[is_exact] = [_of_two_values(column, side) for column in rest.T[is_exact]]
        if not is_exact.all():
            drawn = _shuffled(rest[:, ~is_exact], side, own, iterations, seed)
            found[~is_exact] = np.fmax(p[here[small[~is_exact]]], drawn)
        p[here[small]] = found
    return p, by_limit


def _n_units(codes: Codes | None, side: Flags) -> int:
    return int(side.sum()) if codes is None else len(np.unique(codes[side]))


def _is_welch(values: Values, inside: Flags, codes: Codes | None) -> Flags:
    """Flag the columns with enough units on both sides for a normal limit."""
    fewest = min(_n_units(codes, inside), _n_units(codes, ~inside))
    if fewest < WELCH_FROM:
        return np.zeros(values.shape[1], dtype=bool)
    skew = skewness(values if codes is None else group_sums(values - values.mean(axis=0), codes))
    return np.asarray(fewest >= COCHRAN * skew**2, dtype=bool)


def _welch_p(values: Values, inside: Flags, codes: Codes | None) -> Values:
    """Return p of Welch's test (1947), with the variance of sums by group.

    What a query adds to the difference of means is (x − its side's mean) / (its side's n), negative
    in the rest. Members of a group are added up first, on whichever side they are.
    """
    from scipy.special import stdtr

    (total, freedom), delta = np.zeros((2, values.shape[1])), 0.0
    terms = np.empty_like(values)
    n_units = [_n_units(codes, side) for side in (inside, ~inside)]
    for sign, side, units in ((1.0, inside, n_units[0]), (-1.0, ~inside, n_units[1])):
        part, one_less = values[side], max(units - 1, 1)
        mean = part.mean(axis=0)
        delta = delta + sign * mean
        part -= mean
        part *= sign * np.sqrt(units / one_less) / len(part)
        if codes is not None:
            terms[side], part = part, group_sums(part, codes[side])
        variance = np.einsum("ij,ij->j", part, part)
        total += variance
        freedom += variance**2 / one_less
    if codes is not None:
        total = (group_sums(terms, codes) ** 2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        degrees = total**2 / freedom
        if codes is not None and sum(n_units) > (n_groups := len(np.unique(codes))):
            # With groups on both sides the variance is not the sum of two.
            degrees = np.full(len(degrees), max(n_groups - 1.0, 1.0))
        p = 2 * stdtr(degrees, -np.abs(delta) / np.sqrt(total))
    # rounded to 36 bits: the order of queries and groups changes later ones, and rarely the last
    part, power = np.frexp(np.where(total > 0, p, np.where(delta == 0, 1.0, 0.0)))
    return np.asarray(np.ldexp(np.round(np.ldexp(part, 36)), power - 36))


def _of_two_values(values: Values, inside: Flags) -> float:
    """Return the share of all slices of this size that are as far from the rest: hypergeometric."""
    from scipy.special import gammaln

    is_high = values == values.max()
    n, m, high = len(values), int(inside.sum()), int(is_high.sum())
    count = np.arange(max(0, m - (n - high)), min(m, high) + 1)

    def ways(of: int, chosen: Codes | int) -> Values:
        found = gammaln(of + 1) - gammaln(np.add(chosen, 1)) - gammaln(np.subtract(of + 1, chosen))
        return np.asarray(found, dtype=np.float64)

    chance = np.exp(ways(high, count) + ways(n - high, m - count) - ways(n, m))
    distance = np.abs(n * count - m * high)
    observed = abs(n * int(is_high[inside].sum()) - m * high)
    return float(min(chance[distance >= observed].sum(), 1.0))


def _shuffled(
    values: Values, inside: Flags, codes: Codes | None, iterations: int, seed: int
) -> Values:
    """Return p by permutation of Welch's statistic, of every column."""
    own = np.arange(len(values)) if codes is None else codes
    sums, sizes, label, block = _units(values - values.mean(axis=0), inside, own)
    rng, tails = np.random.default_rng(seed), np.zeros((2, values.shape[1]))
    n_alike = np.ones(len(label))
    is_plain = (sums == np.median(sums, axis=0)).all(axis=1) & (codes is None)
    if is_plain.sum() >= PLAIN:  # they count as one unit, the last
        kept = np.append(np.flatnonzero(~is_plain), np.flatnonzero(is_plain)[0])
        n_in, label = int(label[is_plain].sum()), label[kept].astype(np.int64)
        sums, sizes, block, n_alike = sums[kept], sizes[kept], block[kept], n_alike[kept]
        label[-1], n_alike[-1] = n_in, is_plain.sum()
    observed = _statistics(label[None, :], sums, sizes, block, n_alike)[0]
    step = max(CELLS // max(len(label), values.shape[1]), 1)
    for start in range(0, iterations, step):
        drawn = _relabelled(label, block, n_alike[-1], min(step, iterations - start), rng)
        tails += _beyond(_statistics(drawn, sums, sizes, block, n_alike), observed)
    return np.asarray(np.minimum(2 * (1 + tails.min(axis=0)) / (iterations + 1), 1.0))


def _statistics(
    label: Labels, sums: Values, sizes: Values, block: Codes, n_alike: Values
) -> Values:
    """Return Welch's statistic of relabellings (rows) by column."""
    whole, inside = block == 0, label.astype(np.float64)
    own, n_own = sums[whole], sizes[whole]
    means, weights = list[Values](), list[Values]()
    variance = np.zeros((len(label), sums.shape[1]))
    for side in (inside, n_alike - inside):
        n = (side @ sizes)[:, None]
        mean, side = side @ sums / n, side[:, whole]
        spread = side @ own**2 - 2 * mean * (side @ (own * n_own[:, None]))
        spread += mean**2 * (side @ n_own**2)[:, None]
        units = side.sum(axis=1)[:, None]
        variance += np.maximum(spread, 0) / n**2 * units / np.maximum(units - 1, 1)
        means.append(mean)
        weights.append(n)
    if not whole.all():
        first = np.flatnonzero(np.diff(block[~whole], prepend=0))  # of every group's members
        n_in = np.add.reduceat(inside[:, ~whole], first, axis=1)[:, :, None]
        found = np.add.reduceat(inside[:, ~whole, None] * sums[~whole], first, axis=1)
        n_out = np.diff(first, append=int((~whole).sum()))[:, None] - n_in
        rest = np.add.reduceat(sums[~whole], first, axis=0) - found
        # a group adds to both means at once
        apart = (found - n_in * means[0][:, None]) / weights[0][:, None]
        apart -= (rest - n_out * means[1][:, None]) / weights[1][:, None]
        variance += (apart**2).sum(axis=1)
    return _over_error(means[0] - means[1], variance, n_alike @ sums**2 / (n_alike @ sizes) ** 2)


def _over_error(delta: Values, variance: Values, least: Values) -> Values:
    """Return differences over their standard errors; without a spread, beyond all others.

    `least` is a variance of the size that there would be if the mean were of one value.
    """
    is_spread = variance > ROUNDING * least
    with np.errstate(invalid="ignore", divide="ignore"):
        endless = np.where(delta**2 > ROUNDING * least, np.sign(delta) * np.inf, 0.0)
        return np.where(is_spread, delta / np.sqrt(np.where(is_spread, variance, 1.0)), endless)


def _beyond(drawn: Values, observed: Values) -> Values:
    """Count the statistics that are as low or lower, and as high or higher."""
    slack = np.where(np.isfinite(observed), EQUAL * (1 + np.abs(observed)), 0.0)
    return np.array(
        [(drawn <= observed + slack).sum(axis=0), (drawn >= observed - slack).sum(axis=0)]
    )


def _units(
    values: Values, inside: Flags, codes: npt.NDArray[np.int64]
) -> tuple[Values, Values, Flags, npt.NDArray[np.int64]]:
    """Return the units that are exchanged: sums, sizes, slice flags and blocks.

    A unit is a whole group (block 0), or a member of a group that is partly in the slice (a block
    per group). Units are exchanged within their block.
    """
    n_in, size = np.bincount(codes, weights=inside), np.bincount(codes)
    is_mixed = ((n_in > 0) & (n_in < size))[codes]
    unit = np.unique(
        np.where(is_mixed, codes.max() + 1 + np.arange(len(codes)), codes), return_inverse=True
    )[1].ravel()
    first = np.unique(unit, return_index=True)[1]
    sums = np.zeros((len(first), values.shape[1]))
    np.add.at(sums, unit, values)
    sizes, label, block = (
        np.bincount(unit).astype(np.float64),
        inside[first],
        np.where(is_mixed, codes + 1, 0)[first],
    )
    # Blocks are named by their content, so that the order of queries doesn't matter.
    content = np.lexsort([label, *sums.T, sizes])
    rank = np.empty(len(content), dtype=np.int64)
    rank[content] = np.arange(len(content))
    least = np.full(int(block.max()) + 1, len(content))
    np.minimum.at(least, block, rank)
    block = np.where(block == 0, 0, least[block] + 1)
    order = np.lexsort([label, *sums.T, sizes, block])
    return sums[order], sizes[order], label[order], block[order]


def _relabelled(
    label: Labels, block: Codes, n_last: float, rows: int, rng: np.random.Generator
) -> Labels:
    """Return labels exchanged at random, each within its block.

    The last label stands for `n_last` units: more than one only where there is a single block.
    """
    if n_last > 1:
        n_others, n_in = len(label) - 1, int(label.sum())
        n_others_in = rng.hypergeometric(n_others, int(n_last), n_in, rows)[:, None]
        others = rng.permuted(np.arange(n_others) < n_others_in, axis=1)
        return np.append(others, n_in - n_others_in, axis=1)
    if not block.any():
        return rng.permuted(np.broadcast_to(label, (rows, len(label))), axis=1)
    drawn = np.empty((rows, len(label)), dtype=bool)
    # Units are sorted by block: sorting block + [0, 1) shuffles within blocks.
    np.put_along_axis(
        drawn,
        np.argsort(block + rng.random((rows, len(label))), axis=1),
        np.broadcast_to(label, drawn.shape),
        axis=1,
    )
    return drawn
