"""Statistics of per-query values by group, as pandas' groupby has them.

In: columns of float64, NaN where a metric doesn't apply, and a `Grouping` of their rows. Out:
`Statistics`, one cell per group and column. Each column is read and sorted once for all statistics;
groupby sorts it once for each. Sums run over the sorted values: the order of rows doesn't matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from ragscore.frames.typing import Codes, Flags, Values


@dataclass(frozen=True)
class Grouping:
    """Rows that are counted together.

    `order` sorts the rows by group; None if they are sorted already. `starts` are the positions in
    that order where groups begin.
    """

    order: Codes | None
    starts: Codes
    sizes: Codes

    @classmethod
    def by_codes(cls, codes: Codes, rows: Codes | None = None) -> Self:
        """Group by codes 0, 1, ... without gaps; code -1 belongs to no group.

        `rows` are the rows that the codes belong to, unless it is each row once.
        """
        sizes = np.bincount(codes[codes >= 0])
        starts = np.cumsum(sizes) - sizes
        if rows is None and not (codes < 0).any() and not (np.diff(codes) < 0).any():
            return cls(None, starts, sizes)
        order = np.argsort(codes, kind="stable")[np.count_nonzero(codes < 0) :]
        return cls(order if rows is None else rows[order], starts, sizes)

    def ordered(self, place: Codes) -> Self:
        """Return the same groups with their rows in the order of `place`, one number per row."""
        rows = np.arange(self.sizes.sum()) if self.order is None else self.order
        group = np.repeat(np.arange(len(self.sizes)), self.sizes)
        return replace(self, order=rows[np.lexsort((place[rows], group))])

    def members(self, group: int) -> Codes | slice:
        """Return the rows of one group."""
        here = slice(int(self.starts[group]), int(self.starts[group] + self.sizes[group]))
        return here if self.order is None else self.order[here]

    def firsts(self) -> Codes:
        """Return the first row of every group."""
        return self.starts if self.order is None else self.order[self.starts]

    def count(self, flags: Flags) -> Codes:
        """Return the number of flagged rows of every group."""
        ordered = flags if self.order is None else flags[self.order]
        return (
            np.add.reduceat(ordered, self.starts, dtype=np.int64)
            if len(self.starts) > 1
            else np.full(len(self.starts), np.count_nonzero(ordered))
        )


@dataclass(frozen=True)
class Statistics:
    """One row per group, one column per column of values.

    NaN where there is no value (`std`: below two); `n` is 0 there.
    """

    n: Codes
    sum: Values
    mean: Values
    std: Values
    min: Values
    p50: Values
    p95: Values
    max: Values

    def of(self, columns: Sequence[int]) -> Self:
        """Return the statistics of some of the columns."""
        return type(self)(*(getattr(self, field.name)[:, columns] for field in fields(self)))


def statistics(columns: Sequence[Values], grouping: Grouping) -> Statistics:
    """Return the statistics of every column by group."""
    shape = (len(grouping.starts), len(columns))
    n, found = np.zeros(shape, dtype=np.int64), np.full((7, *shape), np.nan)
    for place, column in enumerate(columns):
        kept, n[:, place] = _values_there(column, grouping)
        held = np.flatnonzero(n[:, place])
        if len(held):
            found[:, held, place] = _of_values(kept, n[held, place])
    return Statistics(n, *found)


def _values_there(column: Values, grouping: Grouping) -> tuple[Values, Codes]:
    """Return the values of a column without NaN, sorted by group, and their number per group."""
    is_there = ~np.isnan(column)
    if not is_there.any():
        return column[:0], np.zeros(len(grouping.starts), dtype=np.int64)
    ordered = column.copy() if grouping.order is None else column[grouping.order]
    if is_there.all():
        return ordered, grouping.sizes
    return ordered[
        is_there if grouping.order is None else is_there[grouping.order]
    ], grouping.count(is_there)


def _of_values(values: Values, n: Codes) -> Values:
    """Return sum, mean, std, min, p50, p95 and max of groups of `n` values each, none empty.

    The values are sorted in place.
    """
    starts = np.cumsum(n) - n
    # Sorted before they are added up: it costs nothing, quantiles need it anyhow, and makes sums
    # the same to the last bit in any order of rows.
    for first, size in zip(starts.tolist(), n.tolist(), strict=True):
        values[first : first + size].sort()
    with np.errstate(invalid="ignore", over="ignore"):  # infinite values have no spread
        total = np.add.reduceat(values, starts)
        mean = total / n
        squares = (values - (mean if len(n) == 1 else mean.repeat(n))) ** 2
        std = np.sqrt(np.add.reduceat(squares, starts) / np.where(n > 1, n - 1, np.nan))
    least, largest = values[starts], values[starts + n - 1]
    # Fifty times .7 add up to a little less than 35: equal values are their own mean, and have no
    # spread.
    is_equal = (least == largest) & np.isfinite(least)
    mean, std = np.where(is_equal, least, mean), np.where(is_equal & (n > 1), 0.0, std)
    return np.stack(
        [
            total,
            mean,
            std,
            least,
            _quantile(values, starts, n, 0.5),
            _quantile(values, starts, n, 0.95),
            largest,
        ]
    )


def _quantile(ordered: Values, starts: Codes, n: Codes, share: float) -> Values:
    """Return quantiles of sorted groups by linear interpolation."""
    place = share * (n - 1)
    below = place.astype(np.int64)
    part, low, high = (
        place - below,
        ordered[starts + below],
        ordered[starts + np.minimum(below + 1, n - 1)],
    )
    with np.errstate(invalid="ignore", over="ignore"):
        # on a value: that one, whatever comes after it
        return np.where(part > 0, low + (high - low) * part, low)
