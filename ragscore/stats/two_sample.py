"""Is a part of the queries different from the rest? A permutation test of the difference of two means on different queries."""

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError
from ragscore.stats.bootstrap import AT_ONCE
from ragscore.stats.moments import Values, as_columns, own_groups
from ragscore.stats.paired import ROUNDING

Flags = npt.NDArray[np.bool_]


def two_sample_p(
    values: npt.ArrayLike,
    is_in: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Values:
    """Two-sided p of the difference between the mean of some queries and that of the others, by permutation (Fisher 1935; Pitman 1937).

    If it doesn't matter whether a query is in the slice, it could as well have been another one: p
    is (1 + number of random slices of the same size whose mean is at least as far from the rest's)
    / (iterations + 1).

    Parameters
    ----------
    values
        One row per query, one column per metric; NaN where a metric doesn't apply.
    is_in
        Whether a query is in the slice.
    groups
        Whole number of every query's group, -1: none. A group that lies wholly in or out of the
        slice moves as one; where only some of its members are in it (one kind of paraphrase, say),
        members change places within their group.

    Returns
    -------
    One p per column; NaN where the slice or the rest has no value. The order of queries doesn't
    matter.
    """
    columns, inside = as_columns(values), np.asarray(is_in, dtype=bool)
    if inside.shape != (len(columns),):
        raise DataError(
            f"found shape {inside.shape}",
            field="is_in",
            allowed=f"{len(columns)} flags, one per query",
        )
    codes = np.arange(len(columns)) if groups is None else own_groups(groups, len(columns))
    p = np.full(columns.shape[1], np.nan)
    patterns, which = np.unique(~np.isnan(columns), axis=1, return_inverse=True)
    for number in range(patterns.shape[1]):
        rows, here = patterns[:, number], np.flatnonzero(which.ravel() == number)
        if inside[rows].any() and not inside[rows].all():
            p[here] = _shuffled(
                columns[np.ix_(rows, here)], inside[rows], codes[rows], iterations, seed
            )
    return p


def _shuffled(
    values: Values, inside: Flags, codes: npt.NDArray[np.int64], iterations: int, seed: int
) -> Values:
    sums, sizes, label, block = _units(values, inside, codes)
    total, n = sums.sum(axis=0), sizes.sum()
    least = np.abs(_difference(label[None, :].astype(np.float64), sums, sizes, total, n))[0]
    least -= ROUNDING * np.abs(sums).sum(axis=0)
    rng, beyond = np.random.default_rng(seed), np.zeros(values.shape[1])
    step = max(AT_ONCE // max(len(label), values.shape[1]), 1)
    for first in range(0, iterations, step):
        drawn = _relabelled(label, block, min(step, iterations - first), rng)
        beyond += (
            np.abs(_difference(drawn.astype(np.float64), sums, sizes, total, n)) >= least
        ).sum(axis=0)
    return (1 + beyond) / (iterations + 1)


def _units(
    values: Values, inside: Flags, codes: npt.NDArray[np.int64]
) -> tuple[Values, Values, Flags, npt.NDArray[np.int64]]:
    """What changes places.

    Sums and sizes, whether in the slice, and the block within which it moves (0: whole groups; else
    a mixed group).
    """
    n_in, size = np.bincount(codes, weights=inside), np.bincount(codes)
    is_mixed = ((n_in > 0) & (n_in < size))[codes]
    unit = np.unique(
        np.where(is_mixed, codes.max() + 1 + np.arange(len(codes)), codes), return_inverse=True
    )[1].ravel()
    first = np.unique(unit, return_index=True)[1]
    sums = np.zeros((len(first), values.shape[1]))
    np.add.at(sums, unit, values)
    sizes, label, block = (
        np.bincount(unit).astype(np.float64),
        inside[first],
        np.where(is_mixed, codes + 1, 0)[first],
    )
    # Blocks are named by their content: units in the same order whatever the order of queries was.
    content = np.lexsort([label, *sums.T, sizes])
    rank = np.empty(len(content), dtype=np.int64)
    rank[content] = np.arange(len(content))
    least = np.full(int(block.max()) + 1, len(content))
    np.minimum.at(least, block, rank)
    block = np.where(block == 0, 0, least[block] + 1)
    order = np.lexsort([label, *sums.T, sizes, block])
    return sums[order], sizes[order], label[order], block[order]


def _relabelled(
    label: Flags, block: npt.NDArray[np.int64], rows: int, rng: np.random.Generator
) -> Flags:
    """Labels exchanged at random, each within its block."""
    if not block.any():
        return rng.permuted(np.broadcast_to(label, (rows, len(label))), axis=1)
    drawn = np.empty((rows, len(label)), dtype=bool)
    # Units are sorted by block: sorting block + [0, 1) shuffles within blocks.
    np.put_along_axis(
        drawn,
        np.argsort(block + rng.random((rows, len(label))), axis=1),
        np.broadcast_to(label, drawn.shape),
        axis=1,
    )
    return drawn


def _difference(drawn: Values, sums: Values, sizes: Values, total: Values, n: float) -> Values:
    """Mean of the units drawn minus mean of the others: relabellings × columns."""
    n_in, inside = (drawn @ sizes)[:, None], drawn @ sums
    return np.asarray(inside / n_in - (total - inside) / (n - n_in))
