"""Order-statistic intervals of medians and percentiles, and of differences of medians.

Intervals of one run hold for any distribution, and don't exist where there are too few values.
"""

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Values
from ragscore.stats.moments import check_share, own_groups, sample, t_quantile


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
    known = np.sort(found[~np.isnan(found)])
    below, above = _positions(len(known), q, confidence)
    low = float(known[below]) if below >= 0 else math.nan
    return low, float(known[above]) if above < len(known) else math.nan


@lru_cache(maxsize=1_000)
def _positions(n: int, q: float, confidence: float) -> tuple[int, int]:
    """Return the interval's bounds as places among n sorted values; -1 and n where none is."""
    from scipy.special import bdtr

    tail = (1 - confidence) / 2
    # P(Bin ≤ i), the probability that the quantile lies below the value at position i.
    below = bdtr(np.arange(n), n, q) if n else np.zeros(0)
    return int((below <= tail).sum()) - 1, int((1 - below > tail).sum())


def median_difference_interval(
    baseline: npt.ArrayLike, candidate: npt.ArrayLike, confidence: float = 0.95,
    groups: npt.ArrayLike | None = None,
) -> tuple[float, float]:  # fmt: skip
    """Return the interval of the difference of two runs' medians (candidate − baseline).

    It is the interval of the mean of what each query adds to the difference (`moves_of_median`), by
    t and with groups (-1: none) as in `paired_interval`. Queries without a value in both are left
    out. NaN where all may lie on one side of a median by chance, 2^−n > (1 − confidence)/2: below
    six.
    """
    sides = np.stack([np.asarray(one, dtype=np.float64).ravel() for one in (baseline, candidate)])
    is_known = ~np.isnan(sides).any(axis=0)
    sides, n = sides[:, is_known], int(is_known.sum())
    codes = np.arange(n) if groups is None else own_groups(np.asarray(groups)[is_known], n)
    if 0.5 ** (codes.max(initial=-1) + 1) > (1 - confidence) / 2:
        return math.nan, math.nan
    of = sample(moves_of_median(sides[1]) - moves_of_median(sides[0]), codes)
    first, second = np.median(sides, axis=1).tolist()
    half = float((t_quantile(of.alike - 1, confidence) * of.jackknifed)[0])
    return second - first - half, second - first + half


def moves_of_median(values: Values) -> Values:
    """Return what each value adds to the median: ± 1 / (2 · density) for one above or below it.

    The density at the median is 2/√n, two standard errors of its rank on either side, over the
    width of the range that holds this share of the values (McKean and Schrader 1984).
    """
    share = min(len(values) ** -0.5, 0.5)
    low, median, high = np.quantile(values, [0.5 - share, 0.5, 0.5 + share])
    return np.asarray(np.sign(values - median) * (high - low) / (4 * share), dtype=np.float64)
