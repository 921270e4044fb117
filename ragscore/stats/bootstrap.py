"""Bootstrap intervals of a mean: percentile, as other tools print it, and studentised, for skewed values."""

import numpy as np
import numpy.typing as npt

from ragscore.errors import DataError
from ragscore.stats.moments import Values, as_columns, moments

BLOCK = 2_000_000  # draws held at a time


def bootstrap_mean(values: npt.ArrayLike, iterations: int = 10_000, level: float = 0.95, seed: int = 0, method: str = "numpy") -> tuple[float, float] | None:
    """Percentile bootstrap interval of a mean, the same for the same seed.

    Parameters
    ----------
    values
        One value per query; NaN ("does not apply") is left out.
    iterations, level
        Number of resamples; share of their means inside the interval.
    seed, method
        "numpy": `np.random.default_rng(seed)`. "splitmix64": the generator of Steele et al. 2014 (doi:10.1145/2660193.2660195), its output modulo n
        as index, for results that other tools print.

    Returns
    -------
    Lower and upper bound, linear quantiles of the resamples' means; None without any value.

    Raises
    ------
    DataError
        `iterations` below 1, a `level` that is not between 0 and 1, a negative seed or one of more than 64 bits, an unknown method.
    """
    check_bootstrap(iterations, level, seed, method)
    kept = np.asarray(values, dtype=np.float64).ravel()
    kept = kept[~np.isnan(kept)]
    n = len(kept)
    if not n:
        return None
    rng = np.random.default_rng(seed)
    means = np.empty(iterations)
    step = max(BLOCK // n, 1)
    for first in range(0, iterations, step):
        rows = min(step, iterations - first)
        picked = _splitmix64(seed, first * n, rows * n) % np.uint64(n) if method == "splitmix64" else rng.integers(0, n, rows * n)
        means[first : first + rows] = kept[picked.astype(np.int64)].reshape(rows, n).mean(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, 1 - (1 - level) / 2])
    return float(low), float(high)


def bootstrap_t_interval(values: npt.ArrayLike, iterations: int = 10_000, level: float = 0.95, seed: int = 0) -> tuple[Values, Values]:
    """Studentised bootstrap interval of every column's mean (Efron 1979; Hall 1988, doi:10.1214/aos/1176350933).

    x̄ − q·se with the quantiles q of (x̄* − x̄)/se* over resamples: it leans to the side of the long tail, as it should.
    NaN below two values; where so many resamples have no spread that a quantile isn't finite, Student's t.

    Parameters
    ----------
    values
        One row per query, one column per metric, NaN where it doesn't apply. A column's interval doesn't depend on the others.
    """
    check_bootstrap(iterations, level, seed)
    columns = as_columns(values)
    low, high = np.full(columns.shape[1], np.nan), np.full(columns.shape[1], np.nan)
    is_there = ~np.isnan(columns)
    # Columns with the same queries share their resamples: a matrix product gives all their means. There are few such sets.
    patterns, which = np.unique(is_there, axis=1, return_inverse=True)
    for number in range(patterns.shape[1]):
        here = np.flatnonzero(which.ravel() == number)
        if patterns[:, number].sum() > 1:
            for some in np.array_split(here, -(-len(here) * iterations // BLOCK)):
                low[some], high[some] = _bootstrap_t(columns[np.ix_(patterns[:, number], some)], iterations, level, seed)
    return low, high


def _bootstrap_t(values: Values, iterations: int, level: float, seed: int) -> tuple[Values, Values]:
    from scipy.special import stdtrit

    mean, std, n = moments(values)
    ratios = _studentised(values - mean, iterations, seed)
    tail = (1 - level) / 2
    with np.errstate(invalid="ignore"):
        lower, upper = np.quantile(ratios, [tail, 1 - tail], axis=0)
    plain = float(stdtrit(len(values) - 1, 1 - tail))
    is_known = np.isfinite(lower) & np.isfinite(upper)
    error = std / np.sqrt(n)
    return mean - np.where(is_known, upper, plain) * error, mean - np.where(is_known, lower, -plain) * error


def _studentised(centred: Values, iterations: int, seed: int) -> Values:
    """(x̄* − x̄)/se* of every resample (row) and column; infinite where a resample has no spread."""
    n = len(centred)
    rng = np.random.default_rng(seed)
    ratios = np.empty((iterations, centred.shape[1]))
    step = max(BLOCK // n, 1)
    for first in range(0, iterations, step):
        rows = min(step, iterations - first)
        drawn = rng.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)
        means, squares = times @ centred / n, times @ centred**2 / n
        variance = squares - means**2
        flat = variance <= 1e-12 * squares
        with np.errstate(invalid="ignore", divide="ignore"):
            found = means / np.sqrt(np.where(flat, 0.0, variance) / (n - 1))
        ratios[first : first + rows] = np.where(np.isnan(found), 0.0, found)
    return ratios


def check_bootstrap(iterations: int, level: float, seed: int, method: str = "numpy") -> None:
    """Refuse arguments that no bootstrap can work with."""
    if iterations < 1:
        raise DataError(f"found {iterations!r}", field="iterations", allowed="at least 1")
    if not 0 < level < 1:
        raise DataError(f"found {level!r}", field="level", allowed="a share above 0 and below 1")
    if not 0 <= seed < 2**64:
        raise DataError(f"found {seed!r}", field="seed", allowed="a whole number from 0, below 2^64")
    if method not in ("numpy", "splitmix64"):
        raise DataError(f"found {method!r}", field="method", allowed="'numpy' or 'splitmix64'")


def _splitmix64(seed: int, skip: int, n: int) -> npt.NDArray[np.uint64]:
    """Outputs skip + 1 ... skip + n of SplitMix64: output i depends on seed and i only, so all of them are one column operation."""
    count = np.arange(skip + 1, skip + n + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):  # arithmetic modulo 2^64 is meant
        state = np.uint64(seed) + count * np.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return state ^ (state >> np.uint64(31))
