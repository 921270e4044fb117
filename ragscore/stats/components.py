"""Variance of repeated measurements split into where it comes from.

Queries, repeats of the system, repeats of the judge.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.stats.moments import Values, average_repeats


@dataclass(frozen=True)
class Component:
    """One source of variance.

    `df` degrees of freedom, its mean square, the unbiased `variance`, and its part `of_mean` in the
    variance of a run's mean.
    """

    source: str
    df: int
    mean_square: float
    variance: float
    of_mean: float


def variance_components(values: npt.ArrayLike) -> list[Component]:
    """Unbiased variance components of y = μ + query + repeat + query × repeat + judge, all effects random.

    From the mean squares of a balanced analysis of variance (Searle, Casella & McCulloch 1992,
    Variance Components, 4.3): with n queries, k repeats of the system and j repeats of the judge
    within each cell,

    - judge σ²_J = MS_J
    - query × repeat σ²_QR = (MS_QR − MS_J) / j; without judge repeats MS_QR, which then holds the
      judge's noise too
    - system repeats σ²_R = (MS_R − MS_QR) / (n·j): what moves all queries of a repeat together
    - queries σ²_Q = (MS_Q − MS_QR) / (k·j); with one repeat of the system (MS_Q − MS_J) / j, which
      then holds the system's noise too

    Being unbiased they can come out below 0: the source is then too small to be seen. `of_mean` is
    σ²_Q/n, σ²_R, σ²_QR/n and σ²_J/(n·j); all but the first add up to the variance of the repeats'
    means.

    Parameters
    ----------
    values
        Queries × repeats, or queries × repeats × judge repeats; every cell filled.

    Raises
    ------
    DataError
        A cell is empty; below two queries; neither the system nor the judge is repeated.
    """
    y = np.asarray(values, dtype=np.float64)
    y = y[:, :, None] if y.ndim == 2 else y
    n, k, j = y.shape
    if not np.isfinite(y).all():
        raise DataError(
            "a cell has no value", field="values", allowed="a finite value in every cell"
        )
    if n < 2 or k * j < 2:
        raise DataError(
            f"found {n} queries, {k} repeats, {j} judge repeats",
            field="values",
            allowed="at least two queries, and two repeats of either kind",
        )
    cells, of_query, of_repeat, mean = (
        y.mean(axis=2),
        y.mean(axis=(1, 2)),
        y.mean(axis=(0, 2)),
        y.mean(),
    )
    ms_judge = float(((y - cells[:, :, None]) ** 2).sum() / (n * k * (j - 1))) if j > 1 else 0.0
    ms_query = float(k * j * ((of_query - mean) ** 2).sum() / (n - 1))
    if k == 1:
        variance = (ms_query - ms_judge) / j
        return [
            Component("queries", n - 1, ms_query, variance, variance / n),
            _judge(n, k, j, ms_judge),
        ]
    ms_repeat = float(n * j * ((of_repeat - mean) ** 2).sum() / (k - 1))
    ms_cross = float(
        j * ((cells - of_query[:, None] - of_repeat + mean) ** 2).sum() / ((n - 1) * (k - 1))
    )
    query, repeat, cross = (
        (ms_query - ms_cross) / (k * j),
        (ms_repeat - ms_cross) / (n * j),
        (ms_cross - ms_judge) / j,
    )
    found = [
        Component("queries", n - 1, ms_query, query, query / n),
        Component("system repeats", k - 1, ms_repeat, repeat, repeat),
        Component("query × repeat", (n - 1) * (k - 1), ms_cross, cross, cross / n),
    ]
    return [*found, _judge(n, k, j, ms_judge)] if j > 1 else found


def _judge(n: int, k: int, j: int, mean_square: float) -> Component:
    return Component(
        "judge repeats", n * k * (j - 1), mean_square, mean_square, mean_square / (n * j)
    )


def pooled_sd(sds: npt.ArrayLike, dfs: npt.ArrayLike) -> tuple[float, int]:
    """Standard deviation within groups, from those of the groups, and its degrees of freedom.

    NaN and 0 without any.
    """
    spread, weight = np.asarray(sds, dtype=np.float64), np.asarray(dfs, dtype=np.int64)
    df = int(weight.sum())
    return (float(np.sqrt((weight * spread**2).sum() / df)) if df else float("nan")), df


def repeat_means(values: npt.ArrayLike) -> Values:
    """The mean of each repeat over the queries, judge repeats averaged first.

    Queries × repeats (× judge repeats) -> one value per repeat.
    """
    y = np.asarray(values, dtype=np.float64)
    y = y[:, :, None] if y.ndim == 2 else y
    n, k, j = y.shape
    cells = average_repeats(y.reshape(n * k * j), np.repeat(np.arange(n * k), j)).reshape(n, k)
    return np.asarray(cells.mean(axis=0), dtype=np.float64)
