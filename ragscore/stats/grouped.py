"""Statistics of per-query values by group, as pandas' groupby has them.

In: columns of float64, NaN where a metric doesn't apply, and a `Grouping` of their rows. Out:
a matrix by statistic. Each column is read and sorted once for all statistics;
groupby sorts it once for each. Sums run over the sorted values: the order of rows doesn't matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Codes, Flags, Values

NAMES = ("sum", "mean", "std", "min", "p50", "p95", "max")
Statistics = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Grouping:
    """Rows that are counted together.

    `order` sorts the rows by group; `starts` are the positions in that order where groups begin.
    """

    order: Codes
    starts: Codes
    sizes: Codes

    @classmethod
    def by_codes(cls, codes: Codes, rows: Codes | None = None) -> Self:
        """Group by codes 0, 1, ... without gaps; code -1 belongs to no group.

        `rows` are the rows that the codes belong to, unless it is each row once.
        """
        sizes = np.bincount(codes[codes >= 0])
        order = np.argsort(codes, kind="stable")[np.count_nonzero(codes < 0) :]
        return cls(order if rows is None else rows[order], np.cumsum(sizes) - sizes, sizes)

    def ordered(self, place: Codes) -> Self:
        """Return the same groups with their rows in the order of `place`, one number per row."""
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return replace(self, order=self.order[np.lexsort((place[self.order], group))])

    def members(self, group: int) -> Codes:
        """Return the rows of one group."""
        return self.order[self.starts[group] :][: self.sizes[group]]

    def count(self, flags: Flags) -> Codes:
        """Return the number of flagged rows of every group."""
        return np.add.reduceat(flags[self.order], self.starts, dtype=np.int64)


def statistics(columns: Sequence[Values], grouping: Grouping) -> Statistics:
    """Return the statistics of every column by group: a row per group, a column per column.

    `sum`, `mean`, `std`, `min`, `p50`, `p95` and `max` are NaN where there is no value (`std`:
    below two); `n` is 0 there.
    """
    n = np.zeros((len(grouping.starts), len(columns)), dtype=np.int64)
    found = np.full((len(NAMES), *n.shape), np.nan)
    for place, column in enumerate(columns):
        n[:, place] = grouping.count(~np.isnan(column))
        held = np.flatnonzero(n[:, place])
        if len(held):
            values = column[grouping.order]
            found[:, held, place] = _of_values(values[~np.isnan(values)], n[held, place])
    return {"n": n, **dict(zip(NAMES, found, strict=True))}


def _of_values(values: Values, n: Codes) -> Values:
    """Return sum, mean, std, min, p50, p95 and max of groups of `n` values each, none empty.

    The values are sorted in place.
    """
    starts = np.cumsum(n) - n
    # Sorted before they are added up: it costs nothing, quantiles need it anyhow, and makes sums
    # the same to the last bit in any order of rows.
    for first, size in zip(starts.tolist(), n.tolist(), strict=True):
        values[first : first + size].sort()
    least, largest = values[starts], values[starts + n - 1]
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values have no spread
        total = np.add.reduceat(values, starts)
        # Fifty times .7 add up to a little less than 35: equal values are their own mean, and have
        # no spread.
        mean = np.where((least == largest) & np.isfinite(least), least, total / n)
        squares = (values - mean.repeat(n)) ** 2
        std = np.sqrt(np.add.reduceat(squares, starts) / np.where(n > 1, n - 1, np.nan))
    p50, p95 = (_quantile(values, starts, n, share) for share in (0.5, 0.95))
    return np.stack([total, mean, std, least, p50, p95, largest])


def _quantile(ordered: Values, starts: Codes, n: Codes, share: float) -> Values:
    """Return quantiles of sorted groups by linear interpolation."""
    part, below = np.modf(share * (n - 1))
    place = starts + below.astype(np.int64)
    low, high = ordered[place], ordered[np.minimum(place + 1, starts + n - 1)]
    with np.errstate(invalid="ignore", over="ignore"):
        # on a value: that one, whatever comes after it
        return np.where(part > 0, low + (high - low) * part, low)
