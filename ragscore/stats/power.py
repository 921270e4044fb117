"""Power: minimum detectable differences, needed numbers of queries, cautions."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Codes, Values
from ragscore.stats.moments import (
    COCHRAN,
    as_columns,
    group_sums,
    moments,
    skewness,
    standard_error,
)
from ragscore.stats.paired import count_moves

POWER = 0.8
# Changed queries: below, a verdict on rates needs the exact p of McNemar's test beside mid-p.
EXACT_BELOW = 25
MOST_NUMBERS = 500  # of changed queries that are enumerated; of many more, a part
# Beyond this skewness of differences a test of their mean is too eager below 100 queries.
SKEWED = 2.0
RULE_OF_THREE = 3.0  # an event never seen in n queries may happen in 3/n of them (95 %)


def minimum_detectable(
    std: npt.ArrayLike, n: npt.ArrayLike, power: float = POWER, confidence: float = 0.95
) -> Values:
    """Return the minimum detectable mean difference of n paired queries.

    (t_{1−α/2} + t_power)·s_d/√n, with s_d the standard deviation of differences and n − 1 degrees
    of freedom. Normal quantiles would promise a power of .80 and give .74 with 20 queries. NaN
    where no test can reject, the least p of n signs, 2·2⁻ⁿ, being above α; and where nothing
    differed, since no spread says what would be detectable.
    """
    spread, size = (np.asarray(one, dtype=np.float64) for one in (std, n))
    with np.errstate(invalid="ignore", divide="ignore"):
        return _detectable(spread / np.sqrt(size), size, size, power, confidence)


def _detectable(
    error: Values, units: Values, moved: Values, power: float, confidence: float
) -> Values:
    """Return the minimum detectable difference of a mean with this standard error."""
    with np.errstate(invalid="ignore", over="ignore"):  # the least p of signs that are all alike
        is_enough = 2 * 2.0**-moved <= (1 - confidence) * (1 + 1e-9)
    can_reject = is_enough & (units > 1) & (error > 0)
    return np.where(can_reject, _effect(power, confidence, units - 1) * error, np.nan)


def minimum_detectable_rate(
    discordance: npt.ArrayLike,
    n: npt.ArrayLike,
    power: float = POWER,
    confidence: float = 0.95,
    *,
    exact_below: float = EXACT_BELOW,
) -> Values:
    """Return the minimum detectable difference of two paired rates.

    `discordance` is the share of queries that only one run passes. It is the difference at which
    McNemar's test finds it with just this probability, over all numbers of changed queries and wins
    (`rate_power`). Infinite where even the whole discordance, every changed query changing
    one way, would be found less often: no difference is detectable at this n. NaN without a query.
    """
    share, size = np.broadcast_arrays(
        *(np.asarray(one, dtype=np.float64) for one in (discordance, n))
    )
    found = [
        _least_rate(float(one), float(many), power, confidence, exact_below)
        for one, many in zip(share.ravel(), size.ravel(), strict=True)
    ]
    return np.array(found, dtype=np.float64).reshape(share.shape)


def _least_rate(
    share: float, n: float, power: float, confidence: float, exact_below: float
) -> float:
    if not n > 0 or np.isnan(share):
        return np.nan
    if not (0 < share <= 1 and int(n)):
        return np.inf
    changed = _changed(share, n, confidence, exact_below)
    low, high = 0.0, share
    lacking, beyond = (_shown(one, share, *changed) - power for one in (low, high))
    if beyond < 0:
        return np.inf
    # By the Illinois method, since power rises with the difference; scipy.optimize takes longer
    # to import than all metrics of a comparison take here.
    was_beyond = None
    while lacking < 0 and high - low > 1e-13:
        middle = high - beyond * (high - low) / (beyond - lacking)
        found = _shown(middle, share, *changed) - power
        if abs(found) < 1e-12:
            return middle
        is_beyond = found > 0
        if is_beyond:
            high, beyond = middle, found
        else:
            low, lacking = middle, found
        if is_beyond == was_beyond:  # the other end moves, too
            lacking, beyond = (lacking / 2, beyond) if is_beyond else (lacking, beyond / 2)
        was_beyond = is_beyond
    return high


def rate_power(
    difference: float,
    discordance: float,
    n: float,
    confidence: float = 0.95,
    *,
    exact_below: float = EXACT_BELOW,
) -> float:
    """Return the probability that n queries show a difference of two paired rates.

    By enumeration: the verdict says better (or worse), and it is right. Mid-p of McNemar's test is
    then below 1 − confidence and Tango's interval leaves out 0. Of more than a thousand numbers of
    changed queries every few are enumerated, which moves a detectable difference by .03 % at most.

    Parameters
    ----------
    difference, discordance
        True difference, at most the discordance; share of queries that only one run passes.
    exact_below
        Changed queries below which the exact p is asked for as well; infinite: always.
    """
    if not 0 < discordance <= 1 or not int(n):
        return 0.0
    return _shown(difference, discordance, *_changed(discordance, n, confidence, exact_below))


def _changed(
    discordance: float, n: float, confidence: float, exact_below: float
) -> tuple[Codes, Values, Values]:
    """Return numbers of changed queries, their chances, and the most losses that show a gain."""
    from scipy.special import gammaln as lgamma
    from scipy.special import xlog1py, xlogy

    size = int(n)
    # so many standard deviations around the expected number that the rest has no weight; in steps,
    # so that similar discordances share a table
    reach = 9 * np.sqrt(size * discordance * (1 - discordance)) + 50
    first, last = (int((size * discordance + way * reach) // 100 * 100) for way in (-1, 1))
    # Of many numbers every few count for those between them. The step is odd: which losses are
    # enough depends on whether a number is even.
    step = (last + 100 - max(first, 0)) // MOST_NUMBERS | 1
    most = _most_losses(max(first, 0), last + 100, step, confidence, exact_below)
    moved = np.arange(max(first, 0), min(last + 100, size) + 1, step)
    most = most[: len(moved)]
    chance = np.exp(
        lgamma(size + 1)
        - lgamma(moved + 1)
        - lgamma(size - moved + 1)
        + xlogy(moved, discordance)
        + xlog1py(size - moved, -discordance)
    )
    chance = step * chance
    # what weighs less than the sum is rounded by is left out
    kept = (most >= 0) & (chance > 1e-18)
    return moved[kept], chance[kept], most[kept]


def _shown(
    difference: float, discordance: float, moved: Codes, chance: Values, most: Values
) -> float:
    """Return the probability that this difference is shown."""
    from scipy.special import bdtr

    losses = (discordance - difference) / (2 * discordance)
    return float((chance * bdtr(most, moved, losses)).sum())


@lru_cache(maxsize=1024)
def _most_losses(first: int, last: int, step: int, confidence: float, exact_below: float) -> Values:
    """Return the most losses among m = first, ..., last changed queries that still show a gain.

    -1 where no number of losses does.
    """
    # not scipy.stats, which takes half a second to import
    from scipy.special import bdtr, bdtrik, ndtri

    moved, level = np.arange(first, last + 1, step), 1 - confidence
    # the most of which the exact p is below the level; one more may be enough for mid-p
    exact = np.nan_to_num(np.ceil(bdtrik(level / 2, moved, 0.5)))
    for _ in range(2):  # the root itself is one too many, and may have been rounded up
        p = 2 * bdtr(np.maximum(exact, 0), moved, 0.5)
        exact = np.where((exact >= 0) & (p >= level), exact - 1, exact)
    more = np.minimum(exact + 1, moved)
    below = np.where(more > 0, bdtr(np.maximum(more - 1, 0), moved, 0.5), 0.0)
    by_mid_p = np.where(below + bdtr(more, moved, 0.5) < level, more, exact)
    # Tango's interval leaves out 0 where (wins − losses)² > z²·moved
    by_tango = np.ceil((moved - ndtri(1 - level / 2) * np.sqrt(moved)) / 2) - 1
    return np.where(moved < exact_below, exact, np.minimum(by_mid_p, by_tango))


def mde_of_differences(
    differences: npt.ArrayLike,
    kind: str,
    *,
    groups: Codes | None = None,
    power: float = POWER,
    confidence: float = 0.95,
    exact_below: float = EXACT_BELOW,
) -> Values:
    """Minimum detectable difference of every column as it is printed beside "no difference".

    By discordance for 0/1 metrics with whole differences (infinite: none at this n), else by the
    standard error of the mean difference (NaN where nothing changed, or too few to reject).

    Parameters
    ----------
    groups
        Whole number of every query's group, -1: none. They are the units: the standard error and
        its degrees of freedom follow from them, and so does whether any test can reject.
    """
    columns = as_columns(differences)
    _, std, n = moments(columns)
    is_whole = bool((np.isnan(columns) | np.isin(columns, (-1, 0, 1))).all())
    if kind == "binary" and is_whole and groups is None:
        wins, losses = count_moves(columns)
        with np.errstate(invalid="ignore"):
            share = (wins + losses) / n
        return minimum_detectable_rate(share, n, power, confidence, exact_below=exact_below)
    error, units = standard_error(columns, groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.fmax(error, std / np.sqrt(n))  # groups never make a mean more certain here
    moved = np.count_nonzero(group_sums(columns, groups), axis=0).astype(np.float64)
    return _detectable(error, units, moved, power, confidence)


def queries_needed(
    difference: npt.ArrayLike, std: npt.ArrayLike, power: float = POWER, confidence: float = 0.95
) -> Values:
    """Return the number of paired queries needed to find a mean difference with this power.

    It is the smallest n whose `minimum_detectable` the difference reaches. Infinite for a
    difference of 0, NaN where nothing differed. For two rates s_d² = discordance − δ².
    """
    delta, spread = np.broadcast_arrays(
        *(np.abs(np.asarray(one, dtype=np.float64)) for one in (difference, std))
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        # t needs a few more than z: 2 if they are many, 10 if they are hardly any.
        most = np.ceil((_effect(power, confidence) * spread / delta) ** 2) + 10
    low, high = np.ones(delta.shape), np.where(np.isfinite(most), most, 2.0)
    while (high - low > 1).any():  # bisection: `high` queries are enough, `low` are not
        middle = np.floor((low + high) / 2)
        with np.errstate(invalid="ignore"):
            is_enough = minimum_detectable(spread, middle, power, confidence) <= delta * (1 + 1e-9)
        low, high = (
            np.where(is_enough, low, np.maximum(middle, low)),
            np.where(is_enough & (middle > 1), middle, high),
        )
    return np.where(np.isnan(delta) | ~(spread > 0), np.nan, np.where(delta == 0, np.inf, high))


def queries_needed_rate(
    difference: npt.ArrayLike,
    discordance: npt.ArrayLike,
    power: float = POWER,
    confidence: float = 0.95,
) -> Values:
    """Return the number of queries needed to find a difference of two paired rates.

    By the exact power (`rate_power`) at this discordance, or at the difference where that is
    larger: fewer queries can't change. Infinite for a difference of 0, NaN where nothing differed.
    """
    delta, share = np.broadcast_arrays(
        *(np.abs(np.asarray(one, dtype=np.float64)) for one in (difference, discordance))
    )
    found = [
        _rates_needed(float(one), float(other), power, confidence)
        for one, other in zip(delta.ravel(), share.ravel(), strict=True)
    ]
    return np.array(found, dtype=np.float64).reshape(delta.shape)


def _rates_needed(delta: float, share: float, power: float, confidence: float) -> float:
    if not share > 0 or not delta > 0:
        return np.inf if share > 0 and delta == 0 else np.nan
    share = max(share, delta)
    # Mostly it is within a tenth of what a normal limit needs.
    near = (_effect(power, confidence) / delta) ** 2 * (share - delta**2)
    low, high = max(int(0.9 * near), 1), max(int(1.1 * near), 2)
    if rate_power(delta, share, low, confidence) >= power:
        low, high = 1, low
    while rate_power(delta, share, high, confidence) < power:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        is_enough = rate_power(delta, share, middle, confidence) >= power
        low, high = (low, middle) if is_enough else (middle, high)
    return float(high)


def flip_rate(repeats: npt.ArrayLike, margin: float = 0.0) -> float:
    """Return how often two repeats of one system differ on a query by more than ± margin (A/A).

    Parameters
    ----------
    repeats
        One row per query, one column per repeat of the same system; NaN where a repeat has no
        value.

    Returns
    -------
    Share of all pairs of repeats of all queries; NaN without a query that has two.
    """
    columns = as_columns(repeats)
    first, second = np.triu_indices(columns.shape[1], 1)
    change = np.abs(columns[:, first] - columns[:, second])
    known = ~np.isnan(change)
    return float((change[known] > margin).mean()) if known.any() else float("nan")


def is_heavy_tailed(
    differences: npt.ArrayLike, width: float = 1.0, *, skew: Values | None = None
) -> npt.NDArray[np.bool_]:
    """Flag columns whose mean difference needs a caution, because tests of it are too eager.

    - The differences are skewed: `abs(skewness) > 2` and n ≤ 25·skewness² (Cochran's rule, beyond
      which a 95 % interval errs in at most 6 %; below 100
      queries a skewness of 2 is enough). "Many small gains, a few disasters" is such a case.
    - Or the disasters may not have been seen: all that moved moved one way, and losses as rare as
      3/n of the queries, each of the metric's
      `width`, would undo the sum of the gains.

    Not where every difference that isn't 0 is as large as the metric allows (0/1 metrics): no
    change of the mean then means symmetry, and the test is right at any n.

    Parameters
    ----------
    width
        Largest value minus least of the metric; NaN or infinite where it has no bounds, the largest
        difference seen is then taken.
    skew
        The skewness of every column, where it is known.
    """
    columns = as_columns(differences)
    n = (~np.isnan(columns)).sum(axis=0)
    sizes = np.where(np.isnan(columns), 0.0, np.abs(columns))
    largest = sizes.max(axis=0, initial=0.0)
    possible = np.maximum(largest, width) if np.isfinite(width) else largest
    skew = np.nan_to_num(np.abs(skewness(columns) if skew is None else skew))
    is_skewed = (skew > SKEWED) & (n <= COCHRAN * skew**2)
    wins, losses = count_moves(columns)
    is_one_way = (wins == 0) != (losses == 0)
    could_turn = sizes.sum(axis=0) < RULE_OF_THREE * possible
    all_or_nothing = ((sizes == 0) | (np.abs(sizes - possible) <= 1e-12 * possible)).all(
        axis=0
    ) & np.isfinite(width)
    return (is_skewed | (is_one_way & could_turn)) & ~all_or_nothing


def _effect(power: float, confidence: float, df: npt.ArrayLike = np.inf) -> Values:
    """Return the distance from 0, in standard errors, of a difference found with this power."""
    from scipy.special import ndtri, stdtrit

    freedom = np.asarray(df, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        by_t = stdtrit(np.maximum(freedom, 1), (1 + confidence) / 2) + stdtrit(
            np.maximum(freedom, 1), power
        )
    return np.where(np.isinf(freedom), ndtri((1 + confidence) / 2) + ndtri(power), by_t)
