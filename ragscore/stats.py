"""Intervals for means and for paired differences. numpy and scipy only; scipy is imported where it is used."""

import numpy as np
import numpy.typing as npt

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
