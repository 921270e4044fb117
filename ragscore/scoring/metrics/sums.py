"""Sums within rows. `row` ascends, and `rank` within each."""

from typing import Any

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Codes, Values


def sum_so_far(values: Values, row: Codes) -> Values:
    """Return the sum of values up to each element of its row.

    Rows are added up apart: a sum that runs on through all rows would depend on their order.
    """
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    n = np.diff(begins, append=len(row))
    total, place = values.astype("float64"), 0
    while len(begins):  # the first of each row, then the second of each longer one, ...
        at = begins + place
        if place:
            total[at] += total[at - 1]
        place += 1
        begins, n = begins[n > place], n[n > place]
    return total


def from_end(values: Values, row: Codes) -> Values:
    """Return the sum of values from each element to the end of its row."""
    return sum_so_far(values[::-1], row.max(initial=0) - row[::-1])[::-1]


def later(row: Codes, values: Values, n_rows: int) -> Values:
    """Return the sum of values after each element of its row."""
    return from_end(values, row) - values


def count_up_to(
    row: Codes, rank: Codes, of_row: Codes, up_to: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Count the elements of a row up to a rank, for each pair of row and rank."""
    depth = int(max(rank.max(initial=0), up_to.max(initial=0))) + 2
    keys = row * depth + rank
    ends = np.searchsorted(keys, of_row * depth + np.asarray(up_to).astype(np.int64), "right")
    return ends - np.searchsorted(keys, of_row * depth, "left")
