"""Prediction-powered inference: correct a judge's mean with human labels of some items."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.frames.typing import Values
from ragscore.stats.intervals import mean_interval, t_quantile
from ragscore.stats.moments import NO_SPREAD

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
    confidence: float = 0.95,
) -> Corrected:  # fmt: skip
    """Return the mean label of all items, from n labels and the predictions of all n + N items.

    θ̂ = λ·mean_N(f) + mean_n(y − λf), Var = λ²σ²_f/N + σ²_{y−λf}/n, with λ = Cov(y, f) / ((1 +
    n/N)·Var f) within 0..1, which makes Var least: PPI++ (Angelopoulos, Duchi and Zrnic 2023, arXiv
    2311.01453, section 6); λ = 1 is plain prediction-powered inference (Angelopoulos et al. 2023,
    doi:10.1126/science.adi6000), λ = 0 the mean of the labels. However wrong the predictions are,
    the mean is right if the labelled items are a random choice. For two runs give the paired
    differences. Below 30 labels (`LEAST_LABELS`) don't rely on it.

    The interval is θ̂ ± t·√Var with Welch and Satterthwaite's degrees of freedom; with `bounds`
    that of a bounded mean (`interval_of_means`), which doesn't claim certainty where all labels are
    equal; without bounds those have none (NaN).

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

    Raises
    ------
    DataError
        Unequal numbers of labels and predictions, a weight outside 0..1, labels outside the bounds.
    """
    f, y, others = _labelled(predictions_labelled, labels, predictions_unlabelled, weight, bounds)
    n, n_others = len(y), len(others)
    if not n:
        return Corrected(np.nan, np.nan, np.nan, np.nan, np.nan, 0, n_others, np.nan)
    tuned = (
        0.0
        if min(n, n_others) < 2
        else _best_weight(f, y, others)
        if weight is None
        else float(weight)
    )
    value = float(y.mean() + (tuned * (others.mean() - f.mean()) if tuned else 0.0))
    # What the predictions and what the labels add to the variance.
    parts = np.array(
        [
            tuned**2 * others.var(ddof=1) / n_others if tuned else 0.0,
            (y - tuned * f).var(ddof=1) / n if n > 1 else np.nan,
        ]
    )
    error = float(np.sqrt(parts.sum()))
    low, high = _bounds(
        value, error, parts, np.array([n_others - 1.0, n - 1.0]), bounds, confidence
    )
    spread = float(y.var(ddof=1)) if n > 1 else np.nan
    return Corrected(
        value,
        low,
        high,
        error,
        tuned,
        n,
        n_others,
        spread / error**2 if error > 0 and spread > 0 else np.nan,
    )


def _labelled(
    predictions: npt.ArrayLike,
    labels: npt.ArrayLike,
    unlabelled: npt.ArrayLike,
    weight: float | None,
    bounds: tuple[float, float] | None,
) -> tuple[Values, Values, Values]:
    """Return predictions and labels of the items that have both, and the other predictions."""
    f, y, others = (
        np.asarray(one, dtype=np.float64).ravel() for one in (predictions, labels, unlabelled)
    )
    if f.shape != y.shape:
        raise DataError(
            f"found {len(f)} predictions and {len(y)} labels",
            field="labels",
            allowed="one label per labelled item's prediction",
        )
    if weight is not None and not 0 <= weight <= 1:
        raise DataError(f"found {weight!r}", field="weight", allowed="0 to 1")
    known = ~(np.isnan(f) | np.isnan(y))
    f, y = f[known], y[known]
    if bounds is not None and len(y) and (y.min() < bounds[0] - 1e-9 or y.max() > bounds[1] + 1e-9):
        raise DataError(
            f"found labels from {y.min():g} to {y.max():g}",
            field="labels",
            allowed=f"{bounds[0]:g} to {bounds[1]:g}",
        )
    return f, y, others[~np.isnan(others)]


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
