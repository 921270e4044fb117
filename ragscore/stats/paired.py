"""Tests of a mean difference: two runs on the same queries, or a slice against the rest.

McNemar's test and Tango's interval are for paired 0/1 values, sign flips for other paired
differences, and a permutation test for means of different queries. From `NORMAL_FROM` units on,
sign flips go by their normal limit, and means of different queries by Welch's test.
"""

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.stats.bootstrap import AT_ONCE, BLOCK, same_rows
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
# Squared skewness, and kurtosis, of the sum of a random slice up to which Edgeworth's terms give p
# to a few per cent.
SLIGHT = 0.1
WHOLE = 1e-6  # multiples of a step, but for rounding


def count_moves(differences: npt.ArrayLike, margin: float = 0.0) -> tuple[Values, Values, Values]:
    """Count queries that rose, fell or stayed within ± margin, per column, without NaN."""
    columns = as_columns(differences)
    up, down = (columns > margin).sum(axis=0), (columns < -margin).sum(axis=0)
    same = (np.abs(columns) <= margin).sum(axis=0)
    return up.astype(np.float64), down.astype(np.float64), same.astype(np.float64)


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
    columns = as_columns(differences)
    sums = group_sums(columns, groups)
    # Every sign pattern of |d| is one of d. So sizes can be sorted, and p depends neither on the
    # order of queries nor on which run comes first.
    sizes = -np.sort(-np.abs(sums), axis=0)
    sizes[sizes <= ROUNDING * sizes.max(axis=0, initial=0.0)] = 0.0
    least = np.abs(sums.sum(axis=0)) - ROUNDING * sizes.sum(axis=0)
    moved = (sizes > 0).sum(axis=0)
    is_exact, by_limit = moved <= EXACT_UP_TO, _is_by_limit(sizes, moved)
    is_drawn = ~is_exact & ~by_limit
    p = np.full(columns.shape[1], np.nan)
    p[is_exact] = _enumerated(sizes[:, is_exact], least[is_exact])
    p[is_drawn] = _drawn(sizes[:, is_drawn], least[is_drawn], iterations, seed)
    p[by_limit] = _two_sided(
        np.abs(sums[:, by_limit].sum(axis=0)), np.sqrt((sizes[:, by_limit] ** 2).sum(axis=0))
    )
    return np.where(np.isnan(columns).all(axis=0), np.nan, p)


def is_by_limit(differences: npt.ArrayLike, groups: npt.ArrayLike | None = None) -> Flags:
    """Flag the columns whose sign flips go by their normal limit.

    These have `NORMAL_FROM` differences that are not 0 (sums of groups where grouped), which weigh
    as much as `EQUAL_SIZES` of one size.
    """
    sizes = np.abs(group_sums(as_columns(differences), groups))
    return _is_by_limit(sizes, (sizes > ROUNDING * sizes.max(axis=0, initial=0.0)).sum(axis=0))


def _is_by_limit(sizes: Values, moved: npt.NDArray[np.int64]) -> Flags:
    squares = sizes**2
    total = squares.sum(axis=0)
    np.square(squares, out=squares)  # fresh memory takes longer than the arithmetic
    return (moved >= NORMAL_FROM) & (total**2 >= EQUAL_SIZES * squares.sum(axis=0))


def _two_sided(distance: Values, error: Values) -> Values:
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-distance / error), dtype=np.float64)


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
    wins, losses, _ = count_moves(columns)
    return np.where(is_there.any(axis=0), mcnemar_p(wins, losses), np.nan)


def two_sample_p(
    values: npt.ArrayLike,
    is_in: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Values:
    """Return the two-sided p of the difference between a slice's mean and the rest's.

    It is the p of `two_sample_test`, which has the same arguments.
    """
    return two_sample_test(values, is_in, groups=groups, iterations=iterations, seed=seed)[0]


def two_sample_test(
    values: npt.ArrayLike,
    is_in: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> tuple[Values, Flags]:
    """Test the difference between a slice's mean and the rest's.

    By permutation (Fisher 1935; Pitman 1937). If it doesn't matter whether a query is in the slice,
    it could as well have been another one: p is (1 + number of random slices of the same size whose
    mean is at least as far from the rest's) / (iterations + 1).

    Of 2,000 queries or more in all, which stand alone, p is that of all such slices: counted for
    0/1 values, else by the limit of their means with Edgeworth's terms, where these are small.

    From 1,000 queries (groups) a side (`NORMAL_FROM`) Welch's test instead, with sums by group; it
    allows for a different spread of both sides, too. Skewed values need 25·skewness² a side
    (Cochran), so that rare failures are still tested by permutation.

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
    Welch's. The order of queries doesn't matter.
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
        by_limit[here] = is_large = _is_welch(part, side, own)
        if is_large.any():
            p[here[is_large]] = _welch_p(part[:, is_large], side, own)
        if not is_large.all():
            p[here[~is_large]] = _shuffled(part[:, ~is_large], side, own, iterations, seed)
    return p, by_limit


def _n_units(codes: Codes | None, side: Flags) -> int:
    return int(side.sum()) if codes is None else len(np.unique(codes[side]))


def _is_welch(values: Values, inside: Flags, codes: Codes | None) -> Flags:
    """Flag the columns with enough units on both sides for a normal limit."""
    fewest = min(_n_units(codes, inside), _n_units(codes, ~inside))
    if fewest < NORMAL_FROM:
        return np.zeros(values.shape[1], dtype=bool)
    skew = skewness(group_sums(values - values.mean(axis=0), codes))
    return np.asarray(fewest >= COCHRAN * skew**2, dtype=bool)


def _welch_p(values: Values, inside: Flags, codes: Codes | None) -> Values:
    """Return p of Welch's test (1947), with the variance of sums by group.

    What a query adds to the difference of means is (x − its side's mean) / (its side's n), negative
    in the rest. Members of a group are added up first, on whichever side they are.
    """
    from scipy.special import stdtr

    terms, freedom, delta = np.empty_like(values), np.zeros(values.shape[1]), 0.0
    for sign, side in ((1.0, inside), (-1.0, ~inside)):
        part, units = values[side], _n_units(codes, side)
        mean = part.mean(axis=0)
        delta = delta + sign * mean
        own = sign * (part - mean) / len(part) * np.sqrt(units / (units - 1))
        # With groups on both sides the variance is not the sum of two: the sides' own would be
        # far too large for Welch's degrees of freedom, and so many units need none.
        freedom += (own**2).sum(axis=0) ** 2 / (units - 1) if codes is None else 0.0
        terms[side] = own
    variance = (group_sums(terms, codes) ** 2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        degrees = np.where(freedom > 0, variance**2 / freedom, 2 * NORMAL_FROM - 2)
        p = 2 * stdtr(degrees, -np.abs(delta) / np.sqrt(variance))
    return np.where(variance > 0, p, np.where(delta == 0, 1.0, 0.0))


def _shuffled(
    values: Values, inside: Flags, codes: Codes | None, iterations: int, seed: int
) -> Values:
    is_large = len(values) >= 2 * NORMAL_FROM
    if codes is None and is_large:
        return _exchanged(values, inside, iterations, seed)
    codes = np.arange(len(values)) if codes is None else codes
    sums, sizes, label, block = _units(values, inside, codes)
    if is_large and not block.any():
        return _shuffled_sides(sums, sizes, label, iterations, seed)
    total, n = sums.sum(axis=0), sizes.sum()
    least = np.abs(_difference(label[None, :].astype(np.float64), sums, sizes, total, n))[0]
    least -= ROUNDING * np.abs(sums).sum(axis=0)
    rng, beyond = np.random.default_rng(seed), np.zeros(values.shape[1])
    step = max(AT_ONCE // max(len(label), values.shape[1]), 1)
    for first in range(0, iterations, step):
        drawn = _relabelled(label, block, min(step, iterations - first), rng)
        beyond += (
            np.abs(_difference(drawn.astype(np.float64), sums, sizes, total, n)) >= least
        ).sum(axis=0)
    return (1 + beyond) / (iterations + 1)


def _exchanged(values: Values, inside: Flags, iterations: int, seed: int) -> Values:
    """Return what `_shuffled` does, of many queries that stand alone, drawing only where it must.

    Of 0/1 metrics all slices of this size are counted. Others go by their limit, where this is
    close enough.
    """
    small = inside if 2 * inside.sum() <= len(inside) else ~inside
    # sorted, so that the order of queries changes no bit of a sum
    every, chosen = np.sort(values, axis=0), np.sort(values[small], axis=0)
    step, n_levels = _levels(every)
    p, is_close = _exchange_limit(every, chosen, step)
    for place in np.flatnonzero(n_levels <= 2):
        p[place], is_close[place] = _of_two_values(every[:, place], chosen[:, place]), True
    drawn = np.flatnonzero(~is_close)
    if len(drawn):
        alone = np.ones(len(values))
        p[drawn] = _shuffled_sides(values[:, drawn], alone, small, iterations, seed)
    return p


def _of_two_values(every: Values, chosen: Values) -> float:
    """Return the share of all slices of this size that are as far from the rest: hypergeometric."""
    from scipy.special import gammaln

    n, m, high = len(every), len(chosen), int((every == every[-1]).sum())
    count = np.arange(max(0, m - (n - high)), min(m, high) + 1)

    def ways(of: int, chosen: Codes | int) -> Values:
        found = gammaln(of + 1) - gammaln(np.add(chosen, 1)) - gammaln(np.subtract(of + 1, chosen))
        return np.asarray(found, dtype=np.float64)

    chance = np.exp(ways(high, count) + ways(n - high, m - count) - ways(n, m))
    distance = np.abs(n * count - m * high)
    observed = abs(n * int((chosen == every[-1]).sum()) - m * high)
    return float(min(chance[distance >= observed].sum(), 1.0))


def _exchange_limit(every: Values, chosen: Values, step: Values) -> tuple[Values, Flags]:
    """Return p by the limit of all slices of this size, and where that is close.

    The sum of a random slice is nearly normal. Edgeworth's terms correct for its skewness and
    kurtosis, which follow from those of all values. Sums that are steps apart stand for half a
    step to either side.
    """
    n, m, mean = len(every), len(chosen), every.mean(axis=0)
    spread = every - mean
    squares = spread * spread
    second, third, fourth = (
        part.mean(axis=0) for part in (squares, squares * spread, squares * squares)
    )
    both = m * (n - m)
    variance = both / (n - 1) * second
    skewed = both * (n - 2 * m) / ((n - 1) * (n - 2)) * third
    heavy = (n * (n + 1) - 6 * both) * fourth + 3 * n * (m - 1) * (n - m - 1) * second**2
    heavy = heavy * both / ((n - 1) * (n - 2) * (n - 3)) - 3 * variance**2
    found = (chosen - mean).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt(variance)
        skew, kurtosis = np.where(found < 0, -1, 1) * skewed / error**3, heavy / variance**2
        # the nearest sum on the other side that is as far away
        other = step * np.ceil(2 * np.abs(found) / step - WHOLE) - np.abs(found)
        other = np.where(step > 0, other, np.abs(found))
        p = _tail((np.abs(found) - step / 2) / error, skew, kurtosis)
        p += _tail((other - step / 2) / error, -skew, kurtosis)
    return np.clip(p, 0.0, 1.0), (skew**2 <= SLIGHT) & (np.abs(kurtosis) <= SLIGHT)


def _tail(z: Values, skew: Values, kurtosis: Values) -> Values:
    """Return the chance of more than z standard errors, by Edgeworth's expansion."""
    from scipy.special import ndtr

    terms = skew / 6 * (z**2 - 1) + kurtosis / 24 * (z**3 - 3 * z)
    terms += skew**2 / 72 * (z**5 - 10 * z**3 + 15 * z)
    return np.asarray(ndtr(-z) + np.exp(-z * z / 2) / np.sqrt(2 * np.pi) * terms)


def _levels(every: Values) -> tuple[Values, Codes]:
    """Return the step that values of a sorted column are multiples of apart, and their number.

    The step is 0 where there is none; equal values count once.
    """
    above = every - every[0]
    apart = np.diff(above, axis=0)
    is_new = apart > ROUNDING * above[-1]
    step = np.where(is_new, apart, np.inf).min(axis=0)
    whole = above / np.where(np.isfinite(step), step, 1.0)
    is_whole = np.isfinite(step) & (np.abs(whole - np.round(whole)) <= WHOLE).all(axis=0)
    return np.where(is_whole, step, 0.0), 1 + is_new.sum(axis=0)


def _shuffled_sides(
    sums: Values, sizes: Values, label: Flags, iterations: int, seed: int
) -> Values:
    """Return what `_shuffled` does, of many units, drawing no more of them than it must.

    Only the smaller side is drawn: a random order of the units holds many random slices, one after
    the other. Of units of one size, those with the commonest value need no drawing either: how many
    of the others a slice has is hypergeometric.
    """
    small = label if 2 * label.sum() <= len(label) else ~label
    n, m = len(label), int(small.sum())
    p = np.empty(sums.shape[1])
    for place, column in enumerate(sums.T):
        rng = np.random.default_rng(seed)
        if (sizes == sizes[0]).all():
            levels, times = np.unique(column, return_counts=True)
            column = column - levels[times.argmax()]
            drawn = np.sort(column[column != 0])  # p doesn't depend on the order of queries
            weights, lengths = None, rng.hypergeometric(len(drawn), n - len(drawn), m, iterations)
        else:
            drawn, weights, lengths = column, sizes, np.full(iterations, m)
        total, weight = column.sum(), sizes.sum()
        inside, weight_in = _sums_of_drawn(drawn, weights, lengths, rng)
        if weights is None:
            weight_in = np.full(iterations, m * sizes[0])
        # the observed slice first: one formula for both, so that equal slices are equal
        inside, weight_in = (
            np.append(observed, found)
            for observed, found in (
                (column[small].sum(), inside), (sizes[small].sum(), weight_in)
            )
        )  # fmt: skip
        distance = np.abs(inside / weight_in - (total - inside) / (weight - weight_in))
        tolerance = ROUNDING * np.abs(column).sum() / min(weight_in[0], weight - weight_in[0])
        p[place] = (1 + (distance[1:] >= distance[0] - tolerance).sum()) / (iterations + 1)
    return p


def _sums_of_drawn(
    values: Values, weights: Values | None, lengths: Codes, rng: np.random.Generator
) -> tuple[Values, Values]:
    """Return sums of so many values (and weights) drawn without replacement, for each length."""
    longest = max(int(lengths.max(initial=0)), 1)
    of_order = max(len(values) // longest, 1)  # draws that one random order holds
    found = np.zeros((2, len(lengths)))
    pairs = values if weights is None else values + 1j * weights  # one order for both
    n_orders = -(-len(lengths) // of_order)
    step = max(BLOCK // max(len(values), 1), 1)
    for first in range(0, n_orders, step):
        rows = min(step, n_orders - first)
        ordered = rng.permuted(np.broadcast_to(pairs, (rows, len(pairs))), axis=1)
        running = np.zeros((rows, len(pairs) + 1), dtype=pairs.dtype)
        np.cumsum(ordered, axis=1, out=running[:, 1:])
        here = slice(first * of_order, min((first + rows) * of_order, len(lengths)))
        draw = np.arange(here.stop - here.start)
        row, begin = draw // of_order, draw % of_order * longest
        sums = running[row, begin + lengths[here]] - running[row, begin]
        found[:, here] = sums.real, sums.imag
    return found[0], found[1]


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
    label: Flags, block: npt.NDArray[np.int64], rows: int, rng: np.random.Generator
) -> Flags:
    """Return labels exchanged at random, each within its block."""
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


def _difference(drawn: Values, sums: Values, sizes: Values, total: Values, n: float) -> Values:
    """Return the mean of the drawn units minus that of the others: relabellings × columns."""
    n_in, inside = (drawn @ sizes)[:, None], drawn @ sums
    return np.asarray(inside / n_in - (total - inside) / (n - n_in))
