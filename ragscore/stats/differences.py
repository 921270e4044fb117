"""Intervals of differences of means, medians and percentiles."""

import math

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Values
from ragscore.stats.bootstrap import BLOCK
from ragscore.stats.intervals import t_quantile, wilson_interval
from ragscore.stats.moments import (
    NORMAL_FROM,
    as_columns,
    group_sums,
    is_constant,
    moments,
    standard_error,
)
from ragscore.stats.paired import count_moves, tango_interval
from ragscore.stats.quantiles import quantile_interval

NO_LEAN = 1e-6  # skewness / √n: below, Hall's transformation changes nothing but rounding


def interval_of_differences(
    differences: npt.ArrayLike,
    kind: str,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values]:
    """Return the interval of the mean paired difference of every column.

    Tango's for 0/1 metrics, else t, with groups clustered; of groups of unlike sizes, t has fewer
    degrees of freedom. Metrics with bounds stay within their
    width. Equal differences are never certainty: the interval then leaves room for differing
    queries that weren't seen, z² / (n + z²) of the metric's width for n queries (or groups). Equal
    differences of a metric without bounds have no interval (NaN). Arguments as in
    `mean_interval`.
    """
    columns = as_columns(differences)
    if _is_whole(columns, kind, groups):
        wins, losses = count_moves(columns)
        return tango_interval(
            wins, losses, (~np.isnan(columns)).sum(axis=0).astype(np.float64), confidence
        )
    mean, std, n = moments(columns)
    error, units = _error_of_unlike(columns, groups)
    half = t_quantile(_alike_units(columns, units, groups) - 1, confidence) * error
    if kind not in ("binary", "bounded"):
        half = np.where(is_constant(mean, std, n), np.nan, half)
        return mean - half, mean + half
    width = bounds[1] - bounds[0] if kind == "bounded" else 1.0
    unseen = width * wilson_interval(np.zeros_like(n), units, confidence)[1]
    half = np.where(is_constant(mean, std, n) | (units == 1), unseen, half)
    return np.clip(mean - half, -width, width), np.clip(mean + half, -width, width)


def interval_for_margin(
    differences: npt.ArrayLike,
    kind: str,
    *,
    bounds: tuple[float, float] = (0.0, 1.0),
    groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> tuple[Values, Values]:
    """Return the interval of the mean paired difference that a margin is held against.

    That of `interval_of_differences`, made wider on the side where skewed differences need it. Two
    one-sided tests need either bound to err in 2.5 % of cases, where Student's t errs in 3 to 4 %
    on the side of the longer tail, and in less on the other. The bounds are those of Hall 1992
    (Journal of the Royal Statistical Society B 54: 221), where they lie outside. Arguments as in
    `interval_of_differences`.
    """
    columns = as_columns(differences)
    low, high = interval_of_differences(
        columns, kind, bounds=bounds, groups=groups, confidence=confidence
    )
    if _is_whole(columns, kind, groups):
        return low, high
    mean = moments(columns)[0]
    error, units = _error_of_unlike(columns, groups)
    sums = group_sums(columns - mean, groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        # skewness / √n
        lean = (sums**3).sum(axis=0) / (sums**2).sum(axis=0) ** 1.5
    t = t_quantile(_alike_units(columns, units, groups) - 1, confidence)
    width = np.inf
    if kind in ("binary", "bounded"):
        width = bounds[1] - bounds[0] if kind == "bounded" else 1.0
    return (
        np.fmin(low, np.fmax(mean - error * _unskewed(t, lean), -width)),
        np.fmax(high, np.fmin(mean - error * _unskewed(-t, lean), width)),
    )


def _unskewed(t: Values, lean: Values) -> Values:
    """Return the statistic of a skewed sample that Hall's transformation takes to t.

    The inverse of x + lean/3 · x² + lean²/27 · x³ + lean/6.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        found = 3 / lean * (np.cbrt(1 + lean * (t - lean / 6)) - 1)
    return np.where(np.abs(lean) > NO_LEAN, found, t)


def _is_whole(columns: Values, kind: str, groups: npt.ArrayLike | None) -> bool:
    """Tell whether these are differences of single 0/1 values, each query standing alone."""
    return (
        kind == "binary"
        and groups is None
        and bool((np.isnan(columns) | np.isin(columns, (-1, 0, 1))).all())
    )


def _error_of_unlike(columns: Values, groups: npt.ArrayLike | None) -> tuple[Values, Values]:
    """Return the standard error, in which a large group counts for what the mean owes to it.

    The jackknife over groups (CR3 of Bell and McCaffrey 2002): of groups of one size, the same.
    """
    error, units = standard_error(columns, groups)
    if groups is None:
        return error, units
    mean, _, n = moments(columns)
    sizes = group_sums((~np.isnan(columns)).astype(np.float64), groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = group_sums(columns - mean, groups) / (1 - sizes / n)
        jackknifed = np.sqrt((units - 1) / units * (parts**2).sum(axis=0)) / n
    return np.fmax(error, np.where(units > 1, jackknifed, np.nan)), units


def _alike_units(columns: Values, units: Values, groups: npt.ArrayLike | None) -> Values:
    """Return how many groups of one size know the variance as well: (Σ n_g)² / Σ n_g².

    Satterthwaite's degrees of freedom + 1 for groups whose sums vary as their sizes do; at least 2.
    """
    if groups is None:
        return units
    sizes = group_sums((~np.isnan(columns)).astype(np.float64), groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        alike = sizes.sum(axis=0) ** 2 / (sizes**2).sum(axis=0)
    return np.where(units > 1, np.clip(alike, 2, units), units)


def median_interval(values: npt.ArrayLike, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of a median from order statistics (the sign test's).

    It holds for any distribution; NaN below six values.
    """
    return quantile_interval(values, 0.5, confidence)


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
    in both are left out. NaN where q has no interval of its own: resamples can't reach beyond the
    values seen. From 1,000 queries (`NORMAL_FROM`) the intervals of both quantiles are put together
    instead (Zou and Donner 2008, doi:10.1002/sim.3095), with the correlation of lying above them.
    """
    both = np.column_stack(
        [np.asarray(first, dtype=np.float64).ravel(), np.asarray(second, dtype=np.float64).ravel()]
    )
    both = both[~np.isnan(both).any(axis=1)]
    n = len(both)
    if max(q, 1 - q) ** n > (1 - confidence) / 2:
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
