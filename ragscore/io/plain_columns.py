"""Columns and lists of plain values as arrow arrays, without a Python object for each value.

In: a column of a table, or lists. Out: arrow arrays, or `NotPlain` where only a reader that looks
at each value can take it or tell its fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.typing import Codes
from ragscore.io.columns import ID_ROLES
from ragscore.io.file_content import LONGEST_ID
from ragscore.io.source import YamlDate


class NotPlain(Exception):
    """Values that have to be read one by one."""


def values_of(column: pd.Series | list[Any]) -> pa.Array:
    """Return values of one type, missing ones as null."""
    is_objects = isinstance(column, list) or column.dtype == object
    if is_objects and YamlDate in {*map(type, column)}:  # a date, which is no text
        raise NotPlain
    try:
        found = pa.array(column, from_pandas=True)
        found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
        found = found.dictionary_decode() if pa.types.is_dictionary(found.type) else found
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise NotPlain from error
    if pa.types.is_floating(found.type) and pc.any(pc.is_inf(found)).as_py():
        raise NotPlain
    return found


def texts_of(values: pa.Array, are_cells: bool = False) -> pa.Array:
    """Return texts and whole numbers as texts. A cell of a table may be a list as text: no text."""
    of = values.type
    is_text = pa.types.is_string(of) or pa.types.is_large_string(of) or pa.types.is_string_view(of)
    if not (is_text or pa.types.is_integer(of) or pa.types.is_null(of)):
        raise NotPlain
    texts = values.cast(pa.large_string())
    if is_text and are_cells:
        begin = pc.utf8_slice_codeunits(pc.utf8_ltrim_whitespace(texts), 0, 1)
        if pc.any(pc.is_in(begin, pa.array(["[", "{"], begin.type))).as_py():
            raise NotPlain
    return texts


def ids_of(values: pa.Array, are_cells: bool = False) -> pa.Array:
    """Return ids as texts, none of them missing, empty or too long."""
    texts = texts_of(values, are_cells)
    lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    if texts.null_count or not ((lengths > 0) & (lengths <= LONGEST_ID)).all():
        raise NotPlain
    return texts


def series_of(texts: pa.Array) -> pd.Series:
    """Return texts as a column, which shares their memory."""
    return pd.Series(pd.array(texts, dtype="str"))


@dataclass(frozen=True)
class Lists:
    """Lists, or mappings, one behind the other.

    Attributes
    ----------
    is_known, lengths
        Of each list: False and 0 for a missing one.
    items, values
        The items of all lists, or the keys of all mappings with their values.
    """

    is_known: npt.NDArray[np.bool_]
    lengths: Codes
    items: pa.Array
    values: pa.Array | None = None

    @classmethod
    def of(cls, cells: list[Any]) -> "Lists":
        """Return the lists of a column or dict, all of one kind; None is a missing one."""
        known = [one for one in cells if one is not None]
        kinds = {*map(type, known)}
        if kinds != {dict} and not kinds <= {list, tuple, np.ndarray}:
            raise NotPlain
        try:
            lengths = np.fromiter((0 if one is None else len(one) for one in cells), np.int64)
        except TypeError as error:  # an array without a dimension
            raise NotPlain from error
        values = [value for one in known for value in one.values()] if kinds == {dict} else None
        return cls(
            np.array([one is not None for one in cells], bool), lengths,
            values_of([*chain.from_iterable(known)]), None if values is None else values_of(values),
        )  # fmt: skip


def lists_in(column: pd.Series) -> Lists | None:
    """Return the lists that a column holds; None for a column of single values."""
    if column.dtype != object:
        return None
    cells = column.astype(object).where(column.notna(), None).tolist()
    kinds = {*map(type, cells)}
    return Lists.of(cells) if kinds & {dict, list, tuple, np.ndarray} else None


def hit_lists(columns: Mapping[str, pd.Series]) -> tuple[Lists, pd.DataFrame]:
    """Return lists of ids, and all their hits one behind the other, with the columns of roles.

    Lists are in the order of the ranks, perhaps with lists of scores beside them. A mapping
    id -> score is by score, the highest first; equal ones keep their order.
    """
    found = {role: lists for role, one in columns.items() if (lists := lists_in(one)) is not None}
    first, scores = next(iter(found.values()), None), found.pop("score", None)
    n_lists = len(found) + (scores is not None)
    if first is None or not found or {*found} - {*ID_ROLES} or n_lists < len(columns):
        raise NotPlain
    every = [*found.values(), *([] if scores is None else [scores])]
    mapped = [one.values for one in every if one.values is not None]
    if any((one.lengths != first.lengths).any() for one in every) or (mapped and len(every) > 1):
        raise NotPlain
    hits = pd.DataFrame({role: series_of(ids_of(one.items)) for role, one in found.items()})
    for values in mapped or ([] if scores is None else [scores.items]):
        is_number = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        if values.null_count or not is_number:
            raise NotPlain
        hits["score"] = values.cast(pa.float64()).to_numpy()
    row = np.repeat(np.arange(len(first.lengths)), first.lengths)
    if mapped and ((np.diff(hits["score"]) > 0) & (np.diff(row) == 0)).any():
        hits = hits.take(np.lexsort((-hits["score"].to_numpy(), row))).reset_index(drop=True)
    is_known = np.logical_or.reduce([one.is_known for one in found.values()])
    return replace(first, is_known=is_known), hits
