"""Prediction-powered inference: correct a judge's mean with human labels of some items."""

from dataclasses import dataclass, replace
from math import nan

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.frames.typing import Values
from ragscore.stats.intervals import interval_from_moments, wilson_interval
from ragscore.stats.moments import NO_SPREAD, own_groups, t_quantile
from ragscore.stats.paired import two_sides

# Below this number neither the correction nor its error is known well enough.
LEAST_LABELS = 30


@dataclass(frozen=True)
class Corrected:
    """A corrected mean: its `value`, the bounds of its interval and its standard `error`.

    `weight` is the weight of the predictions (0: labels alone), `n` the number of labels,
    `n_unlabelled` the number of predictions without one, and `effective_n` how many labels alone
    would give the same standard error (NaN where labels don't vary).
    """

    value: float
    low: float
    high: float
    error: float
    weight: float
    n: int
    n_unlabelled: int
    effective_n: float


def ppi_mean(
    predictions: npt.ArrayLike, labels: npt.ArrayLike,
    *, bounds: tuple[float, float] | None = None, weight: float | None = None,
    groups: npt.ArrayLike | None = None, confidence: float = 0.95,
) -> Corrected:  # fmt: skip
    """Return the mean label of all items, from predictions for all and labels of n of them.

    θ̂ = λ·mean_N(f) + mean_n(y − λf), Var = λ²σ²_f/N + σ²_{y−λf}/n, with N items that have no label
    and λ = Cov(y, f) / ((1 + n/N)·Var f) within 0..1, which makes Var least: PPI++ (Angelopoulos,
    Duchi and Zrnic 2023, arXiv 2311.01453, section 6); λ = 1 is plain prediction-powered inference
    (Angelopoulos et al. 2023, doi:10.1126/science.adi6000), λ = 0 the mean of the labels. However
    wrong the predictions are, the mean is right if the labelled items are a random choice. Of two
    runs take `ppi_difference`. Below 30 labels don't rely on it. Few labels may meet none of the
    items that a judge rarely gets wrong: with the best λ, σ²_{y−λf}/n has one disagreement more, of
    the largest size seen.

    The interval is θ̂ ± t·√Var with Welch and Satterthwaite's degrees of freedom; with `bounds`
    it is a bounded mean's (`mean_interval`), which doesn't claim certainty where all labels are
    equal; without bounds equal labels have none (NaN). With groups, Var is the variance of the
    sums over groups, and groups count instead of items.

    Parameters
    ----------
    predictions
        One per item; items with NaN are left out.
    labels
        Of the same items, NaN where there is none.
    bounds
        Least and largest possible label.
    weight
        λ, 0 to 1, instead of the best one. Below two items without a label it is 0.
    groups
        Whole number of every item's group (paraphrases, a source), -1: none.

    Raises
    ------
    DataError
        Unequal numbers of labels and predictions, a weight outside 0..1, labels outside the bounds.
    """
    least, most = bounds or (-np.inf, np.inf)
    width = most - least if bounds else 0.0
    found, units = _estimate(predictions, labels, weight, groups, (least, most), width, confidence)
    if bounds is None:
        return found
    # A corrected mean may lie outside the scale: its interval is then the nearest bound's.
    inside = np.clip(np.array([(found.value - least) / width]), 0, 1)
    std = found.error / width * np.sqrt(units)
    low, high = (
        least + width * float(end[0])
        for end in interval_from_moments(inside, std, units, "bounded", confidence)
    )
    return replace(found, low=low, high=high)


def ppi_difference(
    predictions: npt.ArrayLike, labels: npt.ArrayLike,
    *, width: float | None = None, weight: float | None = None,
    groups: npt.ArrayLike | None = None, confidence: float = 0.95,
) -> Corrected:  # fmt: skip
    """Return the mean difference that people would find between two runs on the same queries.

    This is `ppi_mean` of paired differences: of the judge's scores for all queries, of people's
    labels for some. The variance is the differences' own, so what a query adds to both sides
    cancels. The labelled queries must be a random choice, labelled on both sides.

    The interval is θ̂ ± t·√Var, with Welch and Satterthwaite's degrees of freedom, within ±`width`.
    Labels that all differ by the same are no certainty: the interval then leaves room for differing
    queries that weren't labelled, z² / (n + z²) of the width for n labels (or groups of them);
    without a width it is NaN.

    Parameters
    ----------
    predictions
        One difference (candidate − baseline) per query; queries with NaN are left out.
    labels
        People's difference of the same queries, NaN where there is none.
    width
        Largest label − least one; differences lie within ±width.
    weight, groups
        As for `ppi_mean`; one group per query.

    Raises
    ------
    DataError
        As for `ppi_mean`.
    """
    most = np.inf if width is None else width
    found, units = _estimate(
        predictions, labels, weight, groups, (-most, most), width or 0.0, confidence
    )
    if width is None:
        return found
    low, high = found.low, found.high
    if np.isnan(low):
        half = width * float(wilson_interval(np.zeros(1), units, confidence)[1][0])
        low, high = found.value - half, found.value + half
    return replace(found, low=max(low, -width), high=min(high, width))


def _estimate(
    predictions: npt.ArrayLike, labels: npt.ArrayLike, weight: float | None,
    groups: npt.ArrayLike | None, bounds: tuple[float, float], scale: float, confidence: float,
) -> tuple[Corrected, Values]:  # fmt: skip
    """Return the estimate with Student's interval, and the number of labels or groups of them.

    The interval is NaN where nothing varies. `scale` is the size of a disagreement where labels
    show none.
    """
    f, y = (np.asarray(one, dtype=np.float64).ravel() for one in (predictions, labels))
    if f.shape != y.shape:
        raise DataError(
            f"found {len(f)} predictions and {len(y)} labels",
            field="labels",
            allowed="one per prediction, NaN where there is none",
        )
    if weight is not None and not 0 <= weight <= 1:
        raise DataError(f"found {weight!r}", field="weight", allowed="0 to 1")
    is_known = ~np.isnan(f)
    codes = None if groups is None else own_groups(groups, len(f))[is_known]
    f, y = f[is_known], y[is_known]
    has_label = ~np.isnan(y)
    own, judged, n, n_others = y[has_label], f[has_label], has_label.sum(), (~has_label).sum()
    if ((own < bounds[0] - 1e-9) | (own > bounds[1] + 1e-9)).any():
        raise DataError(
            f"found labels from {own.min():g} to {own.max():g}",
            field="labels",
            allowed=f"{bounds[0]:g} to {bounds[1]:g}",
        )
    if not n:
        return Corrected(nan, nan, nan, nan, nan, 0, int(n_others), nan), np.zeros(1)
    tuned, half = 0.0, nan
    if n > 1 and n_others > 1:
        variance, covariance = float(f.var(ddof=1)), float(np.cov(own, judged)[0, 1])
        best = covariance / ((1 + n / n_others) * variance) if variance > 0 else 0.0
        tuned = float(np.clip(best, 0, 1)) if weight is None else float(weight)
    # θ̂ is the difference of two means: y − λf of those with a label, −λf of the others
    left = np.where(has_label, y, 0.0) - tuned * f
    of, rest, total = two_sides(left[:, None], has_label, codes)
    value, parts, units = of.mean[0], of.error**2, of.units
    if tuned:
        value, parts = value - rest.mean[0], np.append(parts, rest.error**2)
        units = np.append(units, rest.units)
    # Few labels may meet none of the rare items that the judge gets wrong: one more is assumed.
    more = (tuned * (float(np.abs(own - judged).max()) or scale) / n) ** 2
    more = more if weight is None else 0.0
    parts[0] += more
    error = float(np.sqrt(np.maximum(total[0] + more, parts.sum())))
    spread = float(own.var(ddof=1)) if n > 1 else nan
    effective = spread / error**2 if error > 0 and spread > 0 else nan
    if error > NO_SPREAD * (1 + abs(value)):
        share = parts / parts.sum()
        df = 1 / (share**2 / (units - 1))[share > 0].sum()
        half = float(t_quantile(df, confidence)) * error
    ends = float(value - half), float(value + half)
    return Corrected(float(value), *ends, error, tuned, int(n), int(n_others), effective), of.units
