"""Hits of records as columns, many records at once, without a row for each hit.

In: the lists of objects of a file's records, and how the fields of its format become columns. Out:
the frame of hits, or `NotPlain` where one that looks at each value has to read the file: the
readers of the formats, row by row. They define what is read, and tell every fault.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.codes import all_differ
from ragscore.frames.data import DataError, empty
from ragscore.frames.kinds import LARGEST_EXACT_FLOAT, conform
from ragscore.frames.typing import Codes
from ragscore.io.file_content import LONGEST_ID
from ragscore.io.source import Problems, Row, json_rows, suggest_field
from ragscore.io.values import (
    JSON_SUFFIX,
    as_json,
    escape_key,
    flag,
    identifier,
    number,
    text,
    whole,
)

Objects = list[dict[str, Any]]
Values = Sequence[Any]
Columns = dict[str, pa.Array]
T = TypeVar("T")
BATCH = 1 << 12
"""So many hits become columns at once: few enough that their objects never fill the memory."""


class NotPlain(Exception):
    """Values that have to be read one by one."""


NOT_PLAIN = (NotPlain, DataError, pa.ArrowException, OverflowError, UnicodeError)
"""What a value that isn't plain brings up."""


class PlainOnly(Problems):
    """Takes no fault: whoever looks at each value tells it."""

    def __init__(self, file: Path | str) -> None:
        super().__init__(file, strict=True)

    def add(self, *_: Any, **__: Any) -> None:
        """Refuse to tell a fault."""
        raise NotPlain


def fields_of(objects: Sequence[dict[str, Any]]) -> dict[str, Values]:
    """Return the values of each field of some objects, None where one lacks it."""
    shapes = dict.fromkeys(map(tuple, objects))
    if len(shapes) == 1:
        return dict(zip(*shapes, zip(*map(dict.values, objects), strict=True), strict=True))
    names = dict.fromkeys(chain.from_iterable(shapes))
    return {name: [one.get(name) for one in objects] for name in names}


def kinds_of(values: Values) -> set[type]:
    """Return the types of known values."""
    return {*map(type, values)} - {NoneType}


def _of(types: set[type], of: pa.DataType) -> Callable[[Values], pa.Array]:
    def take(values: Values) -> pa.Array:
        if not kinds_of(values) <= types:
            raise NotPlain
        return pa.array(values, of)

    return take


texts, flags = _of({str}, pa.large_string()), _of({bool}, pa.bool_())
_numbers, _wholes = _of({int, float}, pa.float64()), _of({int}, pa.int64())


def ids(values: Values) -> pa.Array:
    """Return ids: texts, none of which is empty or too long, or whole numbers."""
    if kinds_of(values) == {int}:
        values = [None if one is None else str(one) for one in values]
    found = texts(values)
    lengths = pc.min_max(pc.binary_length(found)).as_py()
    if found.null_count < len(found) and not 0 < lengths["min"] <= lengths["max"] <= LONGEST_ID:
        raise NotPlain
    return found


def numbers(values: Values) -> pa.Array:
    """Return finite numbers."""
    found = _numbers(values)
    if found.null_count < len(found) and not np.isfinite(found.drop_null().to_numpy()).all():
        raise NotPlain
    return found


def wholes(values: Values) -> pa.Array:
    """Return whole numbers from 0."""
    found = _wholes(values)
    if (pc.min(found).as_py() or 0) < 0:
        raise NotPlain
    return found


TAKE: dict[Callable[..., Any], Callable[[Values], pa.Array]] = {
    text: texts, identifier: ids, flag: flags, number: numbers, whole: wholes,
}  # fmt: skip
"""What reads one value -> what takes a column of them."""


def taken(
    values: dict[str, Values], fields: Mapping[str, tuple[str, Callable[..., Any]]]
) -> Columns:
    """Take the fields of a format out of those of some objects."""
    return {
        column: TAKE[read](values.pop(name))
        for name, (column, read) in fields.items()
        if name in values
    }


def objects_in(values: Values | None) -> dict[str, Values]:
    """Return the fields of objects inside others."""
    if values is None or not kinds_of(values):
        return {}
    if kinds_of(values) != {dict}:
        raise NotPlain
    return fields_of([{} if one is None else one for one in values])


def extras(values: Mapping[str, Values], found: Columns, prefix: str = "x_") -> None:
    """Add the fields without a column of their own, as `flatten` does for one object."""
    for name, column in values.items():
        kinds, full = kinds_of(column), prefix + escape_key(name)
        if not kinds:
            continue
        if kinds == {dict}:
            if {} in column:
                raise NotPlain
            extras(objects_in(column), found, full + ".")
        elif kinds == {list}:
            written = [None if one is None else as_json(one) for one in column]
            found[full + JSON_SUFFIX] = pa.array(written, pa.large_string())
        elif kinds == {str}:
            found[full] = texts(column)
        elif kinds == {bool}:
            found[full] = flags(column)
        else:
            found[full] = numbers(column) if float in kinds else _wholes(column)


@dataclass
class HitColumns:
    """The hits of a file, gathered record by record.

    Attributes
    ----------
    take
        The columns of some objects, without their ranks, from the values of each field.
    read
        The row of one object, as whoever looks at each value makes it: it tells the order of
        columns without a place of their own.
    known
        Names of fields, of which another one may be a typo.
    has_meta
        Their field `metadata` becomes rows of hit_meta, beside what `take` makes of it.
    """

    take: Callable[[dict[str, Values]], Columns]
    read: Callable[[dict[str, Any]], Iterable[str]]
    known: frozenset[str] = frozenset()
    has_meta: bool = False
    waiting: Objects = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    n_taken: int = 0  # records whose hits are columns
    columns: dict[str, pa.ChunkedArray] = field(default_factory=dict)
    batches: list[Columns] = field(default_factory=list)
    types: dict[str, set[pa.DataType]] = field(default_factory=dict)
    meta: list[tuple[Codes, list[str], list[str]]] = field(default_factory=list)

    def add(self, hits: Objects) -> None:
        """Add the hits of the next record."""
        self.lengths.append(len(hits))
        self.waiting += hits
        if len(self.waiting) >= BATCH:
            self._flush()

    def _flush(self) -> None:
        objects, self.waiting = self.waiting, []
        lengths = np.array(self.lengths[self.n_taken :], np.int64)
        self.n_taken = len(self.lengths)
        if not objects:
            return
        if {*map(type, objects)} != {dict}:
            raise NotPlain
        values = fields_of(objects)
        if self.known and any(suggest_field(one, self.known) for one in values):
            raise NotPlain
        rank = _ranks(values.pop("rank", None), *places(lengths))
        if self.has_meta and "metadata" in values:
            self._add_meta(values["metadata"])
        found = self.take(values)
        self.batches.append({"rank": pa.array(rank.astype(np.int32)), **found})
        new = {name: column for name, column in found.items() if name not in self.types}
        self.types |= {name: set() for name in in_order(new, objects, self.read)}
        for name in self.types.keys() & found.keys():
            self.types[name].add(found[name].type)

    def _add_meta(self, about: Values) -> None:
        if not kinds_of(about) <= {dict}:
            raise NotPlain
        at = np.repeat(np.arange(len(about)), [len(one or ()) for one in about])
        filled = [one for one in about if one]
        keys = [*chain.from_iterable(filled)]
        written = [as_json(one) for one in chain.from_iterable(map(dict.values, filled))]
        self.meta.append((at + sum(len(one["rank"]) for one in self.batches), keys, written))

    def close(self) -> None:
        """Take the last hits, and settle the type of each column."""
        self._flush()
        sizes = [len(one["rank"]) for one in self.batches]
        self.columns = {
            name: pa.chunked_array(
                [
                    pa.nulls(n, of) if name not in one else one[name].cast(of)
                    for one, n in zip(self.batches, sizes, strict=True)
                ],
                of,
            )
            for name, types in self.types.items()
            if (of := self._type(name, types))
        }
        if "call" in self.columns and self.columns["call"].null_count:
            raise NotPlain

    def _type(self, name: str, types: set[pa.DataType]) -> pa.DataType:
        """Return a column's type; whole and decimal numbers in different batches are decimal."""
        if name + JSON_SUFFIX in self.types:  # a list here, another value there
            raise NotPlain
        if len(types) == 1:
            return next(iter(types))
        whole = [one[name] for one in self.batches if name in one and one[name].type == pa.int64()]
        most = pc.max(pc.abs_checked(pa.chunked_array(whole, pa.int64()))).as_py() or 0
        if types != {pa.int64(), pa.float64()} or most > LARGEST_EXACT_FLOAT:
            raise NotPlain
        return pa.float64()

    def frames(self, cells: Mapping[str, list[str]]) -> dict[str, pd.DataFrame]:
        """Return the frames of hits and their metadata; `cells` are the ids of each record."""
        if not self.batches:
            return {"hits": empty("hits")}
        row, _ = places(np.array(self.lengths, np.int64))
        of_hits: dict[str, Any] = {
            name: pd.Series(values, dtype="str").take(row).reset_index(drop=True)
            for name, values in cells.items()
        }
        of_hits["rank"] = np.concatenate([one["rank"].to_numpy() for one in self.batches])
        of_hits |= {name: series(column) for name, column in self.columns.items()}
        found = {"hits": conform(pd.DataFrame(of_hits, copy=False), "hits")}
        if any(keys for _, keys, _ in self.meta):
            at = np.concatenate([one for one, _, _ in self.meta])
            place = found["hits"][[*cells, "rank"]].take(at).reset_index(drop=True)
            key, value = ([*chain.from_iterable(one[n] for one in self.meta)] for n in (1, 2))
            pairs = {"key": pd.Series(key, dtype="str"), "value": pd.Series(value, dtype="str")}
            found["hit_meta"] = conform(place.assign(**pairs), "hit_meta")
        return found


def in_order(found: Columns, objects: Objects, read: Callable[..., Iterable[str]]) -> list[str]:
    """Return the names of columns that have a value, in the order in which rows would have them.

    Only the rows that are the first with a value of a column are looked at.
    """
    some = {name: column for name, column in found.items() if column.null_count < len(column)}
    firsts = {int(np.asarray(column.is_valid()).argmax()) for column in some.values()}
    names = chain.from_iterable(read(objects[place]) for place in sorted(firsts))
    return [name for name in dict.fromkeys(names) if name in some]


def _ranks(values: Values | None, row: Codes, order: Codes) -> Codes:
    """Return the stored ranks, each once in its record; the order if none is stored."""
    kinds = set() if values is None else {*map(type, values)}
    if kinds <= {NoneType}:
        return order
    if kinds != {int}:
        raise NotPlain
    stored = np.array(values, np.int64)
    is_possible = stored.min() >= 1 and stored.max() < 2**31
    if not is_possible or not all_differ(row * 2**31 + stored):
        raise NotPlain
    return stored


def places(lengths: Codes) -> tuple[Codes, Codes]:
    """Return the record of each hit, and its place in the list, from 1."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    first = np.cumsum(lengths) - lengths
    return row, np.arange(len(row)) - first[row] + 1


def series(column: pa.Array) -> pd.Series:
    """Return a column of a frame."""
    of = column.type
    if pa.types.is_large_string(of):
        return pd.Series(pd.array(column, dtype="str"))
    if pa.types.is_floating(of):
        numbers: npt.NDArray[Any] = np.asarray(column)
        return pd.Series(numbers)
    dtype: Any = pd.BooleanDtype() if pa.types.is_boolean(of) else pd.Int64Dtype()
    return pd.Series(dtype.__from_arrow__(column))


def gathered(
    path: Path,
    problems: Problems,
    begin: Callable[[HitColumns | None], T],
    columns: HitColumns,
    add: Callable[[Row, T, Problems], None],
) -> tuple[T, HitColumns | None]:
    """Return the records of a file, and their hits if all of them are plain.

    `begin` makes what the records are added to, also without columns: for the rows.
    """
    quiet = PlainOnly(path)
    try:
        found = begin(columns)
        for row in json_rows(path, quiet):
            add(row, found, quiet)
        columns.close()
        problems.typos = quiet.typos
        return found, columns
    except NOT_PLAIN:
        found = begin(None)
        for row in json_rows(path, problems):
            add(row, found, problems)
        return found, None
