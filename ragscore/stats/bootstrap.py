"""Bootstrap intervals of a mean: percentile, as other tools print it, and studentised.

Metrics of the same queries share their resamples: the counts of drawn queries times the matrix of
values gives all their sums at once.
"""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.frames.typing import Codes, Values
from ragscore.stats.moments import as_columns, moments

BLOCK = 2_000_000  # values held at a time
AT_ONCE = 16_384  # draws made at a time: few enough to stay in the processor's cache
FEW = 3  # columns: up to here, adding up the drawn values takes less time than counting draws


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
    check_bootstrap(iterations, confidence, seed, method)
    found = np.asarray(values, dtype=np.float64).ravel()
    known = found[~np.isnan(found)]
    if not len(known):
        return None
    sums = _resampled(known[:, None], iterations, seed, method)
    low, high = _quantiles(sums / len(known), confidence)
    return float(low[0]), float(high[0])


def _sharing(columns: Values, at_most: int) -> Iterator[tuple[Codes, Codes]]:
    """Yield rows and columns that can share resamples, at most `at_most` columns at a time."""
    for rows, here in same_rows(columns):
        if len(rows):
            yield from (
                (rows, some) for some in np.array_split(here, -(-len(here) // max(at_most, 1)))
            )


def same_rows(columns: Values) -> Iterator[tuple[Codes, Codes]]:
    """Yield sets of columns that have values in the same rows: these rows, and the columns."""
    is_there = ~np.isnan(columns)
    keys: dict[bytes, list[int]] = {}
    for place, column in enumerate(is_there.T):
        keys.setdefault(np.packbits(column).tobytes(), []).append(place)
    for places in keys.values():
        yield np.flatnonzero(is_there[:, places[0]]), np.array(places)


def _resampled(values: Values, iterations: int, seed: int, method: str = "numpy") -> Values:
    """Return the sum of every resample (column) of every column of `values` (row)."""
    n, width = values.shape
    sums = np.empty((width, iterations))
    step = max(AT_ONCE // n, 1)
    rng, offsets = np.random.default_rng(seed), n * np.arange(min(step, iterations))[:, None]
    for first in range(0, iterations, step):
        here = slice(first, min(first + step, iterations))
        rows = here.stop - first
        drawn = (
            rng.integers(0, n, (rows, n))
            if method == "numpy"
            else (_splitmix64(seed, first * n, rows * n) % np.uint64(n))
            .astype(np.int64)
            .reshape(rows, n)
        )
        if width <= FEW:
            for place in range(width):
                sums[place, here] = values[:, place].take(drawn).sum(axis=1)
        else:
            drawn += offsets[:rows]
            times = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
            sums[:, here] = (times.astype(np.float64) @ values).T
    return sums


def _quantiles(found: Values, confidence: float) -> tuple[Values, Values]:
    """Return the two quantiles of every row that enclose a share `confidence` of it."""
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(found, [(1 - confidence) / 2, 1 - (1 - confidence) / 2], axis=1)
    return low, high


def bootstrap_t_interval(
    values: npt.ArrayLike, iterations: int = 10_000, confidence: float = 0.95, seed: int = 0
) -> tuple[Values, Values]:
    """Return the studentised bootstrap interval of every column's mean.

    Efron 1979; Hall 1988, doi:10.1214/aos/1176350933. x̄ − q·se with the quantiles q of (x̄* −
    x̄)/se* over resamples: it leans to the side of the long tail, as it should. NaN below two
    values. It is Student's t where so many resamples lack spread that a quantile isn't finite.

    Parameters
    ----------
    values
        One row per query, one column per metric, NaN where it doesn't apply. A column's interval
        doesn't depend on the others.
    """
    check_bootstrap(iterations, confidence, seed)
    columns = as_columns(values)
    low, high = np.full(columns.shape[1], np.nan), np.full(columns.shape[1], np.nan)
    for rows, here in _sharing(columns, BLOCK // iterations):
        if len(rows) > 1:
            low[here], high[here] = _bootstrap_t(
                columns[np.ix_(rows, here)], iterations, confidence, seed
            )
    return low, high


def _bootstrap_t(
    values: Values, iterations: int, confidence: float, seed: int
) -> tuple[Values, Values]:
    from scipy.special import stdtrit

    mean, std, n = moments(values)
    lower, upper = _quantiles(_studentised(values - mean, iterations, seed), confidence)
    plain = float(stdtrit(len(values) - 1, 1 - (1 - confidence) / 2))
    is_known = np.isfinite(lower) & np.isfinite(upper)
    error = std / np.sqrt(n)
    return (
        mean - np.where(is_known, upper, plain) * error,
        mean - np.where(is_known, lower, -plain) * error,
    )


def _studentised(centred: Values, iterations: int, seed: int) -> Values:
    """Return (x̄* − x̄)/se* per column (row) and resample; infinite without spread."""
    n, width = centred.shape
    found = _resampled(np.column_stack([centred, centred**2]), iterations, seed) / n
    means, squares = found[:width], found[width:]
    variance = squares - means**2
    flat = variance <= 1e-12 * squares
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = means / np.sqrt(np.where(flat, 0.0, variance) / (n - 1))
    return np.where(np.isnan(ratios), 0.0, ratios)


def check_bootstrap(iterations: int, confidence: float, seed: int, method: str = "numpy") -> None:
    """Raise a `DataError` for arguments that no bootstrap can work with."""
    if iterations < 1:
        raise DataError(f"found {iterations!r}", field="iterations", allowed="at least 1")
    if not 0 < confidence < 1:
        raise DataError(
            f"found {confidence!r}", field="confidence", allowed="a share above 0 and below 1"
        )
    if not 0 <= seed < 2**64:
        raise DataError(
            f"found {seed!r}", field="seed", allowed="a whole number from 0, below 2^64"
        )
    if method not in ("numpy", "splitmix64"):
        raise DataError(f"found {method!r}", field="method", allowed="'numpy' or 'splitmix64'")


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
