"""Many intervals or tests at once: the level of each, at which all hold together."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Values
from ragscore.stats.moments import as_columns, group_sums, is_constant, sample

ALPHA = 0.05
DRAWS = 20_000
MOST = 1_000  # columns whose correlations are looked at; of more, Bonferroni loses little
FEW = 30  # queries or clusters: below, correlations are known too badly
SAME = 1e-6  # added to the diagonal of the correlations: columns may be copies of each other


def level_of_each(
    values: npt.ArrayLike, groups: npt.ArrayLike | None = None, *, alpha: float = ALPHA,
    seed: int = 0,
) -> float:  # fmt: skip
    """Return the level of each interval, at which all of them hold in 1 − alpha of cases.

    From the largest absolute z over the columns, drawn with the correlations that the columns have
    (Hothorn, Bretz and Westfall 2008, doi:10.1002/bimj.200810425): metrics that move together cost
    little. It lies between alpha / number of columns (Bonferroni) and alpha. Columns of fewer than
    30 queries or clusters know their correlations too badly and count as independent. Where all
    are, and from 1,000 columns, it is Bonferroni's.

    Parameters
    ----------
    values
        One row per query, one column per difference; NaN where it has no value.
    groups
        Whole number of every query's group, -1: none. Members count as one, and groups of unlike
        sizes as fewer.
    """
    from scipy.special import ndtr

    of = sample(values, groups)
    moved = np.flatnonzero(~is_constant(of.mean, of.std, of.n) & (of.n > 1))
    if len(moved) < 2:
        return alpha
    is_few = of.alike[moved] < FEW
    if len(moved) > MOST or is_few.all():
        return alpha / len(moved)
    sums = group_sums((as_columns(values) - of.mean)[:, moved], groups)
    size = np.sqrt(np.einsum("ij,ij->j", sums, sums))
    units, rng = sums / np.where(size > 0, size, 1.0), np.random.default_rng(seed)
    correlations = np.round(units.T @ units, 9) + SAME * np.eye(len(moved))
    root = np.linalg.cholesky(correlations).T.astype(np.float32)
    normal = rng.standard_normal((DRAWS, len(moved)), dtype=np.float32) @ root
    normal[:, is_few] = rng.standard_normal((DRAWS, is_few.sum()))
    # in place: so many draws are the largest array of a comparison
    largest = np.abs(normal, out=normal).max(axis=1)
    level = np.clip(2 * ndtr(-np.quantile(largest, 1 - alpha)), alpha / len(moved), alpha)
    return float(f"{level:.4g}")  # the last digits depend on the machine


def holm(p: npt.ArrayLike) -> Values:
    """Return Holm's adjusted p values (1979): the maximum over smaller p of (m − rank + 1)·p."""
    return _adjusted(
        p, lambda ordered: np.maximum.accumulate(ordered * np.arange(len(ordered), 0, -1))
    )


def benjamini_hochberg(p: npt.ArrayLike) -> Values:
    """Return Benjamini and Hochberg's q values (1995): the minimum over larger p of m·p / rank."""
    return _adjusted(
        p,
        lambda ordered: np.minimum.accumulate(
            (ordered * len(ordered) / np.arange(1, len(ordered) + 1))[::-1]
        )[::-1],
    )


def _adjusted(p: npt.ArrayLike, step: Callable[[Values], Values]) -> Values:
    """Adjust the p that are known: NaN, not tested, stays NaN and isn't counted."""
    found = np.asarray(p, dtype=np.float64)
    adjusted, tested = np.full(found.shape, np.nan), np.flatnonzero(~np.isnan(found))
    order = tested[np.argsort(found[tested], kind="stable")]
    # Rounding must not make it smaller than p.
    adjusted[order] = np.minimum(np.maximum(step(found[order]), found[order]), 1.0)
    return adjusted
