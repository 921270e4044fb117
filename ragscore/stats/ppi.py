"""Prediction-powered inference: correct a judge's mean with human labels of some items."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.frames.typing import Codes, Values
from ragscore.stats.intervals import mean_interval, t_quantile, wilson_interval
from ragscore.stats.moments import NO_SPREAD, own_groups

# Below this number neither the correction nor its error is known well enough.
LEAST_LABELS = 30


@dataclass(frozen=True)
class Corrected:
    """A corrected mean: its `value`, the bounds of its interval and its standard `error`.

    `weight` is that of the predictions (0: labels alone), `n` the number of labels, `n_unlabelled`
    that of predictions without one, and `effective_n` the number of labels that alone would give
    the same standard error (NaN where labels don't vary).
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
    predictions_labelled: npt.ArrayLike, labels: npt.ArrayLike,
    predictions_unlabelled: npt.ArrayLike,
    *, weight: float | None = None, bounds: tuple[float, float] | None = None,
    groups: npt.ArrayLike | None = None, confidence: float = 0.95,
) -> Corrected:  # fmt: skip
    """Return the mean label of all items, from n labels and the predictions of all n + N items.

    θ̂ = λ·mean_N(f) + mean_n(y − λf), Var = λ²σ²_f/N + σ²_{y−λf}/n, with λ = Cov(y, f) / ((1 +
    n/N)·Var f) within 0..1, which makes Var least: PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv
    2311.01453, section 6); λ = 1 is plain prediction-powered inference (Angelopoulos et al. 2023,
    doi:10.1126/science.adi6000), λ = 0 the mean of the labels. However wrong the predictions are,
    the mean is right if the labelled items are a random choice. Of two runs take `ppi_difference`.
    Below 30 labels (`LEAST_LABELS`) don't rely on it. Few labels may meet none of the items that a
    judge rarely gets wrong: with the best λ, σ²_{y−λf}/n has one disagreement more, of the largest
    size seen.

    The interval is θ̂ ± t·√Var with Welch and Satterthwaite's degrees of freedom; with `bounds`
    that of a bounded mean (`interval_of_means`), which doesn't claim certainty where all labels are
    equal; without bounds those have none (NaN). With groups Var is that of the sums over groups,
    and groups count instead of items.

    Parameters
    ----------
    predictions_labelled, labels
        Prediction and label of every labelled item; items where either is NaN are left out.
    predictions_unlabelled
        Predictions of the other items; NaN is left out. Below two of them λ is 0.
    weight
        λ, 0 to 1, instead of the best one.
    bounds
        Least and largest possible label.
    groups
        Whole number of every item's group (paraphrases, a source), -1: none. The labelled items
        come first, then the others.

    Raises
    ------
    DataError
        Unequal numbers of labels and predictions, a weight outside 0..1, labels outside the bounds.
    """
    estimate, parts, dfs = _estimate(
        predictions_labelled, labels, predictions_unlabelled, weight, bounds, groups,
        0.0 if bounds is None else bounds[1] - bounds[0],
    )  # fmt: skip
    low, high = _bounds(estimate.value, estimate.error, parts, dfs, bounds, confidence)
    return replace(estimate, low=low, high=high)


def ppi_difference(
    predictions: npt.ArrayLike, labels: npt.ArrayLike,
    *, width: float | None = None, weight: float | None = None,
    groups: npt.ArrayLike | None = None, confidence: float = 0.95,
) -> Corrected:  # fmt: skip
    """Return the mean difference that people would find between two runs on the same queries.

    This is `ppi_mean` of paired differences: those of the judge's scores for all queries, those of
    people's labels for some. The variance is that of the differences, so what a query adds to both
    sides cancels. The labelled queries must be a random choice, labelled on both sides.

    The interval is θ̂ ± t·√Var, with Welch and Satterthwaite's degrees of freedom, within ±`width`.
    Labels that all differ by the same are no certainty: as in `interval_of_differences` the
    interval then leaves room for differing queries that weren't labelled, z² / (n + z²) of the
    width for n labels (or groups of them); without a width it is NaN.

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
    f, y = (np.asarray(one, dtype=np.float64).ravel() for one in (predictions, labels))
    if f.shape != y.shape:
        raise _unequal(f, y)
    has_label = ~np.isnan(y)
    order = np.argsort(~has_label, kind="stable")
    codes = None if groups is None else own_groups(groups, len(y))[order]
    limits = None if width is None else (-width, width)
    estimate, parts, dfs = _estimate(
        f[has_label], y[has_label], f[~has_label], weight, limits, codes, width or 0.0
    )
    value, error = estimate.value, estimate.error
    if width is not None and estimate.n and not error > NO_SPREAD * (1 + abs(value)):
        half = width * float(wilson_interval(np.zeros(1), dfs[1:] + 1, confidence)[1][0])
        low, high = value - half, value + half
    else:
        low, high = _bounds(value, error, parts, dfs, None, confidence)
    if width is not None:
        low, high = float(np.clip(low, -width, width)), float(np.clip(high, -width, width))
    return replace(estimate, low=low, high=high)


def _estimate(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    unlabelled: npt.ArrayLike,
    weight: float | None,
    bounds: tuple[float, float] | None,
    groups: npt.ArrayLike | None,
    scale: float = 0.0,
) -> tuple[Corrected, Values, Values]:
    """Return the estimate without an interval, the parts of its variance and their dfs.

    The parts are what the predictions and what the labels add; the dfs are those of each. `scale`
    is the size of a disagreement where labels show none.
    """
    f, y, others, codes = _known(predictions, labels, unlabelled, weight, bounds, groups)
    n, n_others = len(y), len(others)
    if not n:
        nothing = Corrected(np.nan, np.nan, np.nan, np.nan, np.nan, 0, n_others, np.nan)
        return nothing, np.full(2, np.nan), np.full(2, np.nan)
    tuned = (
        0.0
        if min(n, n_others) < 2
        else _best_weight(f, y, others)
        if weight is None
        else float(weight)
    )
    value = float(y.mean() + (tuned * (others.mean() - f.mean()) if tuned else 0.0))
    parts, total, units = _variance(y - tuned * f, tuned * others, codes)
    if tuned and weight is None:
        # Few labels may meet none of the rare items that the judge gets wrong: one more is assumed.
        apart = float(np.abs(y - f).max(initial=0.0)) or scale
        more = (tuned * apart / n) ** 2
        parts, total = parts + np.array([0.0, more]), total + more
    error, spread = float(np.sqrt(total)), float(y.var(ddof=1)) if n > 1 else np.nan
    effective = spread / error**2 if error > 0 and spread > 0 else np.nan
    return (
        Corrected(value, np.nan, np.nan, error, tuned, n, n_others, effective), parts, units - 1
    )  # fmt: skip


def _variance(left: Values, right: Values, codes: Codes | None) -> tuple[Values, float, Values]:
    """Return the variances of mean(right) and of mean(left), of their sum, and numbers of units.

    With groups each is that of the groups' sums, as in `standard_error`, and the sum has the
    covariance of groups that are in both. Groups never make it smaller: members that seem to
    balance out do so by chance. NaN for a single group.
    """
    n, n_others = len(left), len(right)
    weighs = bool(right.any())
    parts = np.array(
        [
            right.var(ddof=1) / n_others if weighs else 0.0,
            left.var(ddof=1) / n if n > 1 else np.nan,
        ]
    )
    if codes is None:
        return parts, float(parts.sum()), np.array([n_others, n], dtype=np.float64)
    size = int(codes.max()) + 1
    sums, units = np.zeros((2, size)), np.zeros(2)
    for place, (values, own) in enumerate(((right, codes[n:]), (left, codes[:n]))):
        units[place] = k = len(np.unique(own))
        if weighs or place:
            scale = np.sqrt(k / (k - 1)) if k > 1 else np.nan
            sums[place] = scale * np.bincount(own, (values - values.mean()) / len(values), size)
    grouped = np.maximum((sums**2).sum(axis=1), parts)
    return grouped, float(np.maximum((sums.sum(axis=0) ** 2).sum(), grouped.sum())), units


def _unequal(predictions: Values, labels: Values) -> DataError:
    return DataError(
        f"found {len(predictions)} predictions and {len(labels)} labels",
        field="labels",
        allowed="one label per labelled item's prediction",
    )


def _known(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    unlabelled: npt.ArrayLike,
    weight: float | None,
    bounds: tuple[float, float] | None,
    groups: npt.ArrayLike | None,
) -> tuple[Values, Values, Values, Codes | None]:
    """Return predictions and labels of items that have both, other predictions, and groups."""
    f, y, others = (
        np.asarray(one, dtype=np.float64).ravel() for one in (predictions, labels, unlabelled)
    )
    if f.shape != y.shape:
        raise _unequal(f, y)
    if weight is not None and not 0 <= weight <= 1:
        raise DataError(f"found {weight!r}", field="weight", allowed="0 to 1")
    codes = None if groups is None else own_groups(groups, len(f) + len(others))
    known, has_prediction = ~(np.isnan(f) | np.isnan(y)), ~np.isnan(others)
    codes = None if codes is None else codes[np.concatenate([known, has_prediction])]
    f, y = f[known], y[known]
    if bounds is not None and len(y) and (y.min() < bounds[0] - 1e-9 or y.max() > bounds[1] + 1e-9):
        raise DataError(
            f"found labels from {y.min():g} to {y.max():g}",
            field="labels",
            allowed=f"{bounds[0]:g} to {bounds[1]:g}",
        )
    return f, y, others[has_prediction], codes


def _best_weight(f: Values, y: Values, others: Values) -> float:
    variance = float(np.concatenate([f, others]).var(ddof=1))
    if not variance > 0:
        return 0.0
    return float(np.clip(np.cov(y, f)[0, 1] / ((1 + len(y) / len(others)) * variance), 0, 1))


def _bounds(
    value: float,
    error: float,
    parts: Values,
    dfs: Values,
    bounds: tuple[float, float] | None,
    confidence: float,
) -> tuple[float, float]:
    if bounds is not None:
        least, width, root = bounds[0], bounds[1] - bounds[0], np.sqrt(dfs[1:] + 1)
        # A corrected mean may lie outside the scale: its interval is that of the nearest bound.
        inside = np.clip((value - least) / width, 0, 1)
        low, high = mean_interval(
            np.array([inside]), error / width * root, dfs[1:] + 1, "bounded", confidence
        )
        return float(least + width * low[0]), float(least + width * high[0])
    if not error > NO_SPREAD * (1 + abs(value)):
        return np.nan, np.nan
    share = parts / parts.sum()
    df = 1 / (share[share > 0] ** 2 / dfs[share > 0]).sum()
    half = float(t_quantile(np.array([df]), confidence)[0]) * error
    return value - half, value + half
