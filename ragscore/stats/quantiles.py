"""Order-statistic intervals of medians and percentiles.

They hold for any distribution, and don't exist where there are too few values.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragscore.stats.moments import check_share


def quantile_interval(
    values: npt.ArrayLike, q: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a quantile from order statistics.

    It is x₍l₎ and x₍u₎ with P(Bin(n, q) < l) and P(Bin(n, q) ≥ u) at most (1 − confidence)/2.

    A bound that no order statistic gives is NaN: n is too small for it (both of a median need 6
    values, both of p95 72). NaN values are left out.
    """
    check_share(q, "q")
    check_share(confidence, "confidence")
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
