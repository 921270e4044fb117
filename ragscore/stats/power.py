"""Power: minimum detectable differences, needed numbers of queries, moves by noise, cautions."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Values
from ragscore.stats.moments import COCHRAN, as_columns, moments, skewness
from ragscore.stats.paired import count_moves, mcnemar_p

POWER = 0.8
EXACT_RATES_UP_TO = 500  # queries: beyond, the approximation is within .01 of the power
# Beyond this skewness of differences a test of their mean is too eager below 100 queries.
SKEWED = 2.0
RULE_OF_THREE = 3.0  # an event never seen in n queries may happen in 3/n of them (95 %)


def minimum_detectable(
    std: npt.ArrayLike, n: npt.ArrayLike, power: float = POWER, confidence: float = 0.95
) -> Values:
    """Return the minimum detectable mean difference of n paired queries.

    (t_{1−α/2} + t_power)·s_d/√n, with s_d the standard deviation of differences and n − 1 degrees
    of freedom. Normal quantiles would promise a power of .80 and give .74 with 20 queries. NaN
    below two queries, and where nothing differed, since no spread says what would be detectable.
    """
    spread, size = (np.asarray(one, dtype=np.float64) for one in (std, n))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(
            (size > 1) & (spread > 0),
            _effect(power, confidence, size - 1) * spread / np.sqrt(size),
            np.nan,
        )


def minimum_detectable_rate(
    discordance: npt.ArrayLike, n: npt.ArrayLike, power: float = POWER, confidence: float = 0.95
) -> Values:
    """Return the minimum detectable difference of two paired rates.

    `discordance` is the share of queries that only one run passes. Up to 500 queries it is exact:
    the difference at which McNemar's mid-p is below 1 − confidence and Tango's interval leaves out
    0 with just this probability, over all numbers of moved queries and wins. Beyond, the solution
    of δ = z·√((ψ − δ²)/n), z = z_{1−α/2} + z_power, ψ the discordance: δ = z·√(ψ/(n + z²)).
    Infinite where even the whole discordance, every moved query moving one way, would be found less
    often ("not detectable at this n"). NaN without a query. A part of a query, as design effects
    leave it, is none.
    """
    share, size = np.broadcast_arrays(
        *(np.asarray(one, dtype=np.float64) for one in (discordance, n))
    )
    found = [
        _least_rate(float(one), float(many), power, confidence)
        for one, many in zip(share.ravel(), size.ravel(), strict=True)
    ]
    return np.array(found, dtype=np.float64).reshape(share.shape)


def _least_rate(share: float, n: float, power: float, confidence: float) -> float:
    if not n > 0 or np.isnan(share):
        return np.nan
    if n > EXACT_RATES_UP_TO:
        z = float(_effect(power, confidence))
        found = z * np.sqrt(share / (n + z * z))
        return float(found) if found < share else np.inf
    low, high = 0.0, share
    if rate_power(high, share, n, confidence) < power:
        return np.inf
    for _ in range(40):  # halvings; power rises with the difference
        middle = (low + high) / 2
        low, high = (
            (low, middle) if rate_power(middle, share, n, confidence) >= power else (middle, high)
        )
    return high


def rate_power(difference: float, discordance: float, n: float, confidence: float = 0.95) -> float:
    """Return the probability that n queries show a difference of two paired rates.

    It is exact, by enumeration: the verdict says better (or worse), and it is right.

    Parameters
    ----------
    difference, discordance
        True difference, at most the discordance; share of queries that only one run passes.
    """
    from scipy.special import bdtr, xlog1py, xlogy
    from scipy.special import gammaln as lgamma

    size = int(n)
    moved = np.arange(size + 1)
    most = _most_losses(max(size, EXACT_RATES_UP_TO), confidence)[: size + 1]
    if not 0 < discordance <= 1 or not size:
        return 0.0
    chance = np.exp(
        lgamma(size + 1)
        - lgamma(moved + 1)
        - lgamma(size - moved + 1)
        + xlogy(moved, discordance)
        + xlog1py(size - moved, -discordance)
    )
    shown = bdtr(np.maximum(most, 0), moved, (discordance - difference) / (2 * discordance))
    return float((chance * np.where(most >= 0, shown, 0.0)).sum())


@lru_cache(maxsize=8)
def _most_losses(size: int, confidence: float) -> Values:
    """Return the most losses among m = 0, 1, ..., `size` moved queries that still show a gain.

    -1 where no number of losses does.
    """
    from scipy.special import ndtri

    moved, losses = np.arange(size + 1.0), np.full(size + 1, -1.0)
    # The rules of `mcnemar_p`, and of `tango_interval` for 0: (wins − losses)² > z²·moved.
    for lost in range(size // 2 + 1):
        won = moved - lost
        shows = (won > lost) & ((won - lost) ** 2 > ndtri((1 + confidence) / 2) ** 2 * moved)
        shows[shows] = mcnemar_p(won[shows], np.full(shows.sum(), float(lost))) < 1 - confidence
        losses[shows] = lost
    return losses


def mde_of_differences(
    differences: npt.ArrayLike,
    kind: str,
    *,
    design_effect: npt.ArrayLike = 1.0,
    power: float = POWER,
    confidence: float = 0.95,
) -> Values:
    """Minimum detectable difference of every column as it is printed beside "no difference".

    By discordance for 0/1 metrics with whole differences (infinite: not detectable at this n, or
    nothing moved), else by the standard deviation of differences (NaN where nothing moved). n is
    divided by the design effect.
    """
    columns = as_columns(differences)
    _, std, n = moments(columns)
    effective = n / np.asarray(design_effect, dtype=np.float64)
    if kind == "binary" and bool((np.isnan(columns) | np.isin(columns, (-1, 0, 1))).all()):
        wins, losses, _ = count_moves(columns)
        with np.errstate(invalid="ignore"):
            return minimum_detectable_rate((wins + losses) / n, effective, power, confidence)
    return minimum_detectable(std, effective, power, confidence)


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


def moves_by_noise(n: float, rate: float, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the wins (and as many losses) expected of noise alone, and their central range.

    n · rate / 2, with the quantiles of Bin(n, rate/2). The rate is an A/A rate (`flip_rate`).
    Without repeats give the share of queries that moved, (wins + losses)/n. Then the number only
    says whether wins and losses are balanced; whether so many moves are noise, only repeats can
    tell.
    """
    from scipy.stats import binom

    if not n > 0 or np.isnan(rate):
        return float("nan"), float("nan"), float("nan")
    tail = (1 - confidence) / 2
    low, high = (float(binom.ppf(share, int(n), rate / 2)) for share in (tail, 1 - tail))
    return n * rate / 2, low, high


def is_heavy_tailed(differences: npt.ArrayLike, width: float = 1.0) -> npt.NDArray[np.bool_]:
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
    """
    columns = as_columns(differences)
    n = (~np.isnan(columns)).sum(axis=0)
    sizes = np.where(np.isnan(columns), 0.0, np.abs(columns))
    largest = sizes.max(axis=0, initial=0.0)
    possible = np.maximum(largest, width) if np.isfinite(width) else largest
    skew = np.nan_to_num(np.abs(skewness(columns)))
    is_skewed = (skew > SKEWED) & (n <= COCHRAN * skew**2)
    wins, losses, _ = count_moves(columns)
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
