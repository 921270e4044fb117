"""Texts as integer codes: positions among the few values that matter. Joins compare these, never the texts."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Codes = npt.NDArray[np.int64]


def lookup(column: pd.Series | pd.Index, values: pd.Series | pd.Index) -> Codes:
    """Position of each text of `column` in the unique `values`, -1 where it is not among them.

    Hits' ids are never encoded as a whole: looking them up in the few values that matter is several times faster.
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column if isinstance(column, pd.Series) else column.to_series()
        return np.append(lookup(known.cat.categories.astype("str"), values), -1)[known.cat.codes.to_numpy()]
    found = pc.index_in(_arrow(column), value_set=_arrow(values))
    return np.asarray(found.fill_null(-1).to_numpy(zero_copy_only=False)).astype(np.int64, copy=False)


def is_among(column: pd.Series | pd.Index, values: pd.Series | pd.Index | Sequence[str]) -> npt.NDArray[np.bool_]:
    """Whether each text of `column` is one of `values`; False where it is NA.

    `Series.isin` walks texts one by one in Python; this takes a fraction of its time.
    """
    wanted = _arrow(values) if isinstance(values, (pd.Series, pd.Index)) else pa.array(values, type=pa.large_string())
    if isinstance(column.dtype, pd.CategoricalDtype):
        known = column if isinstance(column, pd.Series) else column.to_series()
        return np.append(is_among(known.cat.categories, values), False)[known.cat.codes.to_numpy()]
    found = pc.is_in(_arrow(column), value_set=wanted, skip_nulls=True)
    return np.asarray(found.to_numpy(zero_copy_only=False)).astype(bool, copy=False)


def pair_codes(frame: pd.DataFrame, columns: tuple[str, str], first: pd.Index, second: pd.Index) -> Codes:
    """One code for each row's pair of texts, -1 where either is not among the unique `first` or `second`."""
    a, b = lookup(frame[columns[0]], first), lookup(frame[columns[1]], second)
    # int64 before multiplying: 32-bit codes overflow without a word.
    return np.where((a < 0) | (b < 0), -1, a * len(second) + b)


def has_pair(frame: pd.DataFrame, pairs: pd.DataFrame, columns: tuple[str, str]) -> npt.NDArray[np.bool_]:
    """Whether each row's pair of texts is one of those of `pairs`."""
    first, second = (pd.Index(pairs[name].astype("str").unique()) for name in columns)
    here, wanted = (pair_codes(rows, columns, first, second) for rows in (frame, pairs))
    return np.isin(here, wanted) & (here >= 0)


def equal_pairs(left: Codes, right: Codes, only_first: bool = False) -> tuple[Codes, Codes]:
    """Positions of every pair of equal codes, ordered by `left`, then by `right`; negative codes equal nothing.

    `only_first` pairs each of `left` with the first of `right` only.
    """
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    first, last = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    n_pairs = np.where(left < 0, 0, np.minimum(last - first, 1) if only_first else last - first)
    offsets = np.arange(n_pairs.sum()) - np.repeat(np.cumsum(n_pairs) - n_pairs, n_pairs)
    return np.repeat(np.arange(len(left)), n_pairs), order[np.repeat(first, n_pairs) + offsets]


def _arrow(column: pd.Series | pd.Index) -> pa.Array | pa.ChunkedArray:
    # One string type on both sides; for `str` columns this is a view, not a copy.
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype("str")
    if column.dtype == object:
        return pa.array(column, type=pa.large_string())
    texts = pa.array(column.array)
    return texts if texts.type == pa.large_string() else texts.cast(pa.large_string())
