"""Intervals for means and for paired differences, and the bootstrap. numpy and scipy only; scipy is imported where it is used."""

import numpy as np
import numpy.typing as npt

from ragscore.errors import DataError

Values = npt.NDArray[np.float64]


def wilson_interval(rate: Values, n: Values, level: float = 0.95) -> tuple[Values, Values]:
    """Wilson score interval of a proportion (Wilson 1927, doi:10.1080/01621459.1927.10502953).

    Holds its level near 0 and 1, where the normal and t intervals fail. NaN where n is 0.
    """
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
        half = z * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # At 0 and 1 the bound is the rate itself, give or take the last bit.
    return np.where(rate == 0, 0.0 * centre, centre - half), np.where(rate == 1, 1.0 + 0.0 * centre, centre + half)


def t_interval(mean: Values, std: Values, n: Values, level: float = 0.95) -> tuple[Values, Values]:
    """Student's t interval of a mean; NaN below two values."""
    from scipy.special import stdtrit

    with np.errstate(invalid="ignore", divide="ignore"):
        half = stdtrit(np.where(n > 1, n - 1, np.nan), (1 + level) / 2) * std / np.sqrt(n)
    return mean - half, mean + half


def mean_interval(mean: Values, std: Values, n: Values, kind: str, level: float = 0.95) -> tuple[Values, Values]:
    """Interval that fits a metric's kind: Wilson for 0/1 values, t otherwise, clipped to 0..1 for bounded metrics.

    Constant bounded values get the Wilson interval of their mean: no spread seen in n values is not certainty.
    """
    wilson = wilson_interval(np.clip(mean, 0, 1), n, level)
    if kind == "binary":
        return wilson
    low, high = t_interval(mean, std, n, level)
    if kind != "bounded":
        return low, high
    constant = (std == 0) | (n == 1)
    return np.where(constant, wilson[0], np.clip(low, 0, 1)), np.where(constant, wilson[1], np.clip(high, 0, 1))


def paired_interval(mean: Values, std: Values, n: Values, kind: str, level: float = 0.95) -> tuple[Values, Values]:
    """Interval of a mean paired difference: t, within -1..1 for 0/1 and bounded metrics.

    Where all n differences are equal, t would claim certainty. There the width is what Wilson leaves open for queries
    that differ but weren't seen: z² / (n + z²).
    """
    low, high = t_interval(mean, std, n, level)
    if kind not in ("binary", "bounded"):
        return low, high
    unseen = wilson_interval(np.zeros_like(n), n, level)[1]
    constant = (std == 0) | (n == 1)
    low, high = np.where(constant, mean - unseen, low), np.where(constant, mean + unseen, high)
    return np.clip(low, -1, 1), np.clip(high, -1, 1)


def median_interval(values: Values, level: float = 0.95) -> tuple[float, float]:
    """Interval of a median from order statistics (the sign test's): holds whatever the shape; NaN below six values."""
    from scipy.special import bdtr

    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    # So many values may be cut off at each end that the median is still inside with this level.
    cut = int((bdtr(np.arange(n // 2 + 1), n, 0.5) <= (1 - level) / 2).sum())
    return (float(ordered[cut - 1]), float(ordered[n - cut])) if cut else (np.nan, np.nan)


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
    _check_bootstrap(iterations, level, seed, method)
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


def _check_bootstrap(iterations: int, level: float, seed: int, method: str) -> None:
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
