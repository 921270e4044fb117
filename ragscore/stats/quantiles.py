"""Order-statistic intervals of medians and percentiles.

They hold for any distribution, and don't exist where there are too few values.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.frames.typing import Values
from ragscore.stats.bootstrap import BLOCK
from ragscore.stats.moments import NORMAL_FROM


def quantile_interval(
    values: npt.ArrayLike, q: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a quantile from order statistics.

    It is x₍l₎ and x₍u₎ with P(Bin(n, q) < l) and P(Bin(n, q) ≥ u) at most (1 − confidence)/2.

    A bound that no order statistic gives is NaN: n is too small for it (`least_n` says how many are
    needed). NaN values are left out.
    """
    _check_share(q, "q")
    _check_share(confidence, "confidence")
    found = np.asarray(values, dtype=np.float64).ravel()
    known = found[~np.isnan(found)]
    below, above = _positions(len(known), q, confidence)
    held = [place for place in (below, above) if 0 <= place < len(known)]
    if held:  # two values at their places; sorting all takes several times as long
        known.partition(held)
    return float(known[below]) if below >= 0 else math.nan, (
        float(known[above]) if above < len(known) else math.nan
    )


@lru_cache(maxsize=1_000)
def _positions(n: int, q: float, confidence: float) -> tuple[int, int]:
    """Return where the interval's bounds stand among n sorted values; -1 and n where none does."""
    from scipy.special import bdtr

    tail = (1 - confidence) / 2
    # Positions so far from the quantile's have a probability of 0 in double precision.
    far = 20 * math.sqrt(n * q * (1 - q)) + 100
    first, last = max(math.floor(n * q - far), 0), min(math.ceil(n * q + far), n)
    # P(Bin ≤ i), the probability that the quantile lies below the value at position i.
    below = bdtr(np.arange(first, last), n, q) if n else np.zeros(0)
    lower = first + int((below <= tail).sum())
    upper = first + int((1 - below > tail).sum())
    return lower - 1, upper


def median_interval(values: npt.ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of a median from order statistics (the sign test's).

    It holds for any distribution; NaN below six values.
    """
    return quantile_interval(values, 0.5, confidence)


def least_n(q: float, confidence: float = 0.95) -> int:
    """Return the number of values that a quantile's interval needs to have both bounds.

    72 for p95, 6 for a median. The largest of n values is an upper bound of the quantile unless all
    of them lie below it: qⁿ ≤ (1 − confidence)/2.
    """
    _check_share(q, "q")
    _check_share(confidence, "confidence")
    return max(math.ceil(math.log((1 - confidence) / 2) / math.log(max(q, 1 - q)) - 1e-9), 1)


def quantile_difference_interval(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    q: float,
    iterations: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the interval of the difference of two runs' quantiles (second − first).

    Percentile interval of the difference over resamples of whole queries; queries without a value
    in both are left out. NaN below `least_n(q, confidence)` queries: resamples can't reach beyond
    the values seen. From 1,000 queries (`NORMAL_FROM`) the intervals of both quantiles are put
    together instead (Zou and Donner 2008, doi:10.1002/sim.3095), with the correlation of lying
    above them.
    """
    both = np.column_stack(
        [np.asarray(first, dtype=np.float64).ravel(), np.asarray(second, dtype=np.float64).ravel()]
    )
    both = both[~np.isnan(both).any(axis=1)]
    n = len(both)
    if n < least_n(q, confidence):
        return math.nan, math.nan
    if n >= NORMAL_FROM:
        return _difference_of_many(both, q, confidence)
    rng = np.random.default_rng(seed)
    found = np.empty(iterations)
    step = max(BLOCK // (2 * n), 1)
    for start in range(0, iterations, step):
        rows = min(step, iterations - start)
        at = np.quantile(both[rng.integers(0, n, (rows, n))], q, axis=1)
        found[start : start + rows] = at[:, 1] - at[:, 0]
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _difference_of_many(both: Values, q: float, confidence: float) -> tuple[float, float]:
    at = np.quantile(both, q, axis=0)
    low, high = np.array([quantile_interval(side, q, confidence) for side in both.T]).T
    above = both > at
    share, together = above.mean(axis=0), above.all(axis=1).mean()
    spread = math.sqrt(float((share * (1 - share)).prod()))
    correlation = float(together - share.prod()) / spread if spread else 0.0

    def reach(of_first: float, of_second: float) -> float:
        square = of_first**2 + of_second**2 - 2 * correlation * of_first * of_second
        return math.sqrt(max(square, 0.0))

    delta, down, up = float(at[1] - at[0]), at - low, high - at
    return delta - reach(up[0], down[1]), delta + reach(down[0], up[1])


def _check_share(value: float, field: str) -> None:
    if not 0 < value < 1:
        raise DataError(f"found {value!r}", field=field, allowed="a share above 0 and below 1")
