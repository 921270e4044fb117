"""Bootstrap intervals of means: percentiles, and studentised."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError, check_choice, check_whole
from ragscore.frames.typing import Codes, Values
from ragscore.stats.moments import as_columns, check_share, moments, t_quantile

AT_ONCE = 16_384  # draws made at a time: few enough to stay in the processor's cache
METHODS = ("numpy", "splitmix64")


def bootstrap_mean(
    values: npt.ArrayLike,
    iterations: int = 10_000,
    confidence: float = 0.95,
    seed: int = 0,
    method: str = "numpy",
) -> tuple[float, float] | None:
    """Percentile bootstrap interval of a mean, the same for the same seed.

    Parameters
    ----------
    values
        One value per query; NaN ("does not apply") is left out.
    iterations, confidence
        Number of resamples; share of their means inside the interval.
    seed, method
        "numpy": `np.random.default_rng(seed)`. "splitmix64": the generator of Steele et al. 2014
        (doi:10.1145/2660193.2660195), its output modulo n as index, for results that other tools
        print.

    Returns
    -------
    Lower and upper bound, linear quantiles of the resamples' means; None without any value.

    Raises
    ------
    DataError
        `iterations` below 1, a `confidence` that is not between 0 and 1, a negative seed or one of
        more than 64 bits, an unknown method.
    """
    check_whole(iterations, "iterations")
    check_share(confidence, "confidence")
    if not 0 <= seed < 2**64:
        raise DataError(
            f"found {seed!r}", field="seed", allowed="a whole number from 0, below 2^64"
        )
    check_choice(method, METHODS, "method")
    found = np.asarray(values, dtype=np.float64).ravel()
    known = found[~np.isnan(found)]
    if not len(known):
        return None
    draws = _draws(len(known), iterations, seed, method)
    sums = np.concatenate([known.take(drawn).sum(axis=1) for drawn in draws])
    low, high = np.quantile(sums / len(known), _tails(confidence))
    return float(low), float(high)


def bootstrap_t_interval(
    values: npt.ArrayLike, confidence: float = 0.95, *, iterations: int = 10_000, seed: int = 0
) -> tuple[Values, Values]:
    """Return the studentised bootstrap interval of every column's mean.

    Efron 1979; Hall 1988, doi:10.1214/aos/1176350933. x̄ − q·se with the quantiles q of (x̄* −
    x̄)/se* over resamples: it leans to the side of the long tail, as it should. NaN below two
    values. It is Student's t where so many resamples lack spread that a quantile isn't finite.

    Parameters
    ----------
    values
        One row per query, one column per metric, NaN where it doesn't apply. Columns with as many
        values share their resamples.
    """
    columns = as_columns(values)
    low, high = np.full((2, columns.shape[1]), np.nan)
    counts, tails = (~np.isnan(columns)).sum(axis=0), _tails(confidence)
    for n in np.unique(counts[counts > 1]):
        known = columns.T[counts == n]
        known = known[~np.isnan(known)].reshape(-1, n).T
        mean, std, _ = moments(known)
        both = np.column_stack([known - mean, (known - mean) ** 2])
        sums = []
        for drawn in _draws(n, iterations, seed):
            cells = (drawn + n * np.arange(len(drawn))[:, None]).ravel()
            times = np.bincount(cells, minlength=drawn.size).reshape(drawn.shape)
            sums.append(times.astype(np.float64) @ both)
        means, squares = np.split(np.concatenate(sums).T / n, 2)
        variance = squares - means**2
        variance[variance <= 1e-12 * squares] = 0.0  # rounding
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios = means / np.sqrt(variance / (n - 1))
            ratios[np.isnan(ratios)] = 0.0
            ends = np.quantile(ratios, tails, axis=1)
        students = np.array([[-1.0], [1.0]]) * t_quantile(n - 1, confidence)
        lower, upper = np.where(np.isfinite(ends).all(axis=0), ends, students) * std / np.sqrt(n)
        low[counts == n], high[counts == n] = mean - upper, mean - lower
    return low, high


def _tails(confidence: float) -> list[float]:
    return [(1 - confidence) / 2, 1 - (1 - confidence) / 2]


def _draws(n: int, iterations: int, seed: int, method: str = "numpy") -> Iterator[Codes]:
    """Yield the rows that resamples of n rows draw: a matrix of some resamples at a time."""
    rng, step = np.random.default_rng(seed), max(AT_ONCE // n, 1)
    for first in range(0, iterations, step):
        size = (min(step, iterations - first), n)
        if method == "numpy":
            yield rng.integers(0, n, size)
        else:
            drawn = _splitmix64(seed, first * n, size[0] * n) % np.uint64(n)
            yield drawn.astype(np.int64).reshape(size)


def _splitmix64(seed: int, skip: int, n: int) -> npt.NDArray[np.uint64]:
    """Return n outputs of SplitMix64 after the first `skip`.

    Output i depends on the seed and i only, so that all are made by one column operation.
    """
    count = np.arange(skip + 1, skip + n + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        state = np.uint64(seed) + count * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))
