"""Records of files -> columns of frames, many records at once.

In: rows of plain values (from lines, one JSON document, a database, a system's replies), or a block
of lines that pyarrow parsed. Out: the frames of a run. A format states its fields in a function
from a `Level`, the records, to columns; each of its steps asks about a whole column, and the number
of an object's record gives the line of a fault.

Null, absent and an empty object are the same. Fields without a column are kept as `x_*`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain, islice
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import KINDS, categorical, empty
from ragscore.frames.kinds import LARGEST_EXACT_FLOAT
from ragscore.frames.typing import Codes, Flags
from ragscore.io.files import LONGEST_ID, UNFORESEEN
from ragscore.io.source import Problems, Row, as_id, describe, parse_json
from ragscore.io.values import (
    ARROW,
    HEADING_SEPARATOR,
    ID_ALLOWED,
    JSON_SUFFIX,
    READ,
    as_json,
    escape_key,
    is_int,
    leaves,
)

REQUIRED = ("responses", "hits", "citations")
# So many records become columns at once: few enough that their objects never fill the memory
BATCH = 1 << 12
Columns = dict[str, pa.Array]
# Values of a field: an array of scalars, or of what pyarrow parsed; else Python's values
Values: TypeAlias = "pa.Array | list[Any]"
# Name in the file -> column and type (one of `values.READ`)
Fields = dict[str, tuple[str, str]]
# Rows of frames: the kind, the record of each row, and the columns
Frames = list[tuple[str, Codes, Columns]]
_SCALARS = {
    frozenset(): pa.null(), frozenset({str}): pa.string(), frozenset({bool}): pa.bool_(),
    frozenset({int}): pa.int64(), frozenset({float}): pa.float64(),
}  # fmt: skip
_DTYPES: dict[Any, Any] = {
    pa.string(): pd.StringDtype(na_value=np.nan),
    pa.bool_(): pd.BooleanDtype(),
    pa.int64(): pd.Int64Dtype(),
}


class NotPlain(Exception):
    """A block that pyarrow may have parsed otherwise than the file says."""


def fields_of(objects: list[dict[str, Any]]) -> dict[str, Values]:
    """Return the values of each field of some objects, None where one lacks it."""
    names = dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, objects))))
    return {name: values_of([one.get(name) for one in objects]) for name in names}


def kinds_of(values: Iterable[Any]) -> set[type]:
    """Return the types of known values."""
    return {*map(type, values)} - {NoneType}


def values_of(values: list[Any]) -> Values:
    """Return values as an array if all are text, booleans, numbers of one kind, or null."""
    with suppress(KeyError, OverflowError, pa.ArrowInvalid):
        return pa.array(values, _SCALARS[frozenset(kinds_of(values))])
    return values


def members(column: pa.Array) -> dict[str, Values]:
    """Return the fields of objects that pyarrow holds, null where the object is."""
    return {one.name: part for one, part in zip(column.type, column.flatten(), strict=True)}


def listed(values: Values) -> list[Any]:
    """Return values as Python has them."""
    return values.to_pylist() if isinstance(values, pa.Array) else values


def is_stated(values: Values) -> Flags:
    """Return where a value is known."""
    if isinstance(values, pa.Array):
        return np.asarray(values.is_valid())
    return np.array([one is not None for one in values], np.bool_)


def places(row: Codes) -> Codes:
    """Return the place of each item in its list, from 1, from the lists of all items in order."""
    return np.arange(1, len(row) + 1) - np.searchsorted(row, row)


def kept(values: Values, where: Flags) -> Values:
    """Return values, null elsewhere."""
    if isinstance(values, pa.Array):
        return pc.if_else(pa.array(where), values, None)
    return values_of([one if stays else None for one, stays in zip(values, where, strict=True)])


@dataclass
class Level:
    """Objects of one kind: records, or the objects inside others, of a batch.

    Attributes
    ----------
    fields
        The values of each field. Steps take out what they read; the rest are fields without a
        column.
    lines
        The line of each object's record.
    place
        How the names of fields begin in messages, such as "answer.".
    faults
        The faults of the file, and what its format notes.
    is_parsed
        Whether pyarrow parsed the values.
    inside
        The objects that were in fields.
    """

    fields: dict[str, Values]
    lines: Codes
    place: str
    faults: Problems
    is_parsed: bool = False
    inside: dict[str, "Level"] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.lines)

    def refuse_parsed(self) -> None:
        """Raise NotPlain if the values may differ from the file's."""
        if self.is_parsed:
            raise NotPlain

    def fault(self, at: Any, name: str, found: str, allowed: str) -> None:
        """Add a fault of one object; a parsed block is read again instead, line by line."""
        self.refuse_parsed()
        field = (self.place + name).rstrip(".")
        self.faults.add(found, line=int(self.lines[at]), field=field, allowed=allowed)

    def below(self, name: str, fields: dict[str, Values], row: Codes | None = None) -> "Level":
        """Return objects that are in a field; `row`: of lists, where each object's list is."""
        return Level(
            fields,
            self.lines if row is None else self.lines[row],
            f"{self.place}{name}.",
            self.faults,
            self.is_parsed,
        )

    def check_names(self, known: frozenset[str]) -> None:
        """Warn of the names of fields that resemble a known one."""
        for name, values in self.fields.items():
            if (stated := is_stated(values)).any():
                self.faults.check_names([name], known, int(self.lines[stated].min()))

    def values(self, name: str) -> Values:
        """Return the values of a field, which may be absent."""
        return self.fields.get(name, pa.nulls(len(self)))

    def take(self, name: str, type: str, where: Flags | None = None) -> pa.Array:
        """Take a field out, as a column of a type; a value that isn't of it is a fault.

        `where`: only of some of the objects; the others keep theirs.
        """
        values = self.fields.pop(name, pa.nulls(len(self)))
        if where is not None:
            self.fields[name], values = kept(values, ~where), kept(values, where)
        if isinstance(values, pa.Array):
            if (plain := _plain(values, type)) is not None:
                return plain
            self.refuse_parsed()
            values = listed(values)
        read, field, lines = READ[type], self.place + name, self.lines.tolist()
        found = [
            None if one is None else read(one, field, line, self.faults)
            for one, line in zip(values, lines, strict=True)
        ]
        return pa.array(found, ARROW[type])

    def columns(self, fields: Fields) -> Columns:
        """Take out those fields that are columns; names with dots lie in objects."""
        found: Columns = {}
        for name, (column, type) in fields.items():
            outer, dot, rest = name.partition(".")
            if dot:
                found |= self.inner(outer).columns({rest: (column, type)})
            elif name in self.fields:
                found[column] = self.take(name, type)
        return found

    def inner(self, name: str, fits: Callable[[dict[str, Any]], bool] = bool) -> "Level":
        """Return the objects of a field. Values of other kinds stay in it."""
        if name in self.inside:
            return self.inside[name]
        values, fields = self.fields.get(name), {}
        if isinstance(values, pa.Array):
            if pa.types.is_struct(values.type):
                fields = members(self.fields.pop(name))
        elif values is not None:
            is_object = np.array([isinstance(o, dict) and (not o or fits(o)) for o in values], bool)
            self.fields[name] = kept(values, ~is_object)
            fields = fields_of(
                [o if is_one else {} for o, is_one in zip(values, is_object, strict=True)]
            )
        return self.inside.setdefault(name, self.below(name, fields))

    def refuse(self, name: str, allowed: str) -> None:
        """Take out a field that may have no value, or none that is left in it."""
        values = self.fields.pop(name, pa.nulls(len(self)))
        for at in np.flatnonzero(is_stated(values)):
            self.fault(at, name, f"found {describe(listed(values)[at])}", allowed)

    def items(self, name: str, allowed: str = "a list of objects") -> tuple["Level", Codes, Codes]:
        """Take out lists of objects: the objects of all, the row of each here, its place from 1."""
        values = self.fields.pop(name, pa.nulls(len(self)))
        if isinstance(values, pa.Array) and pa.types.is_list(values.type):
            row, flat = np.asarray(pc.list_parent_indices(values), np.int64), values.flatten()
            is_plain = pa.types.is_struct(flat.type) and not flat.null_count
            if not is_plain and len(flat):
                raise NotPlain
            return self.below(name, members(flat) if is_plain else {}, row), row, places(row)
        values = listed(values)
        lists = [one if isinstance(one, list) else [] for one in values]
        row, flat = np.repeat(np.arange(len(lists)), [*map(len, lists)]), [*chain(*lists)]
        is_object = np.array([isinstance(one, dict) for one in flat], bool)
        wrong = [(n, one) for n, one in enumerate(values) if one not in (None, {}, lists[n])]
        for n, one in wrong + [(row[at], flat[at]) for at in np.flatnonzero(~is_object)]:
            self.fault(n, name, f"found {describe(one)}", allowed)
        objects = [one for one in flat if isinstance(one, dict)]
        of = row[is_object]
        return self.below(name, fields_of(objects), of), of, places(row)[is_object]

    def order(self, name: str, row: Codes, at: Codes, first: int = 1) -> pa.Array:
        """Take out the numbers of objects in lists, such as ranks, each once in its list.

        A list without any, or with impossible ones, which are a fault, counts from `first`.
        """
        values, last = self.fields.pop(name, pa.nulls(len(self))), 2**31 - 2 + first
        if isinstance(values, pa.Array) and pa.types.is_integer(values.type):
            numbers = np.asarray(pc.fill_null(values, -1), np.int64)
        else:
            stated = (one if is_int(one) and first <= one <= last else -1 for one in listed(values))
            numbers = np.fromiter(stated, np.int64, len(row))
        is_ordered = np.isin(row, row[is_stated(values)])
        is_bad = (numbers < first) | (numbers > last)
        is_bad |= pd.DataFrame({"row": row, "number": numbers}).duplicated().to_numpy()
        bad = np.flatnonzero(is_ordered & is_bad)
        for one in bad[np.unique(row[bad], return_index=True)[1]].tolist():
            found = f"found {describe(listed(values)[one])}"
            allowed = f"whole numbers from {first}, each once, or no {name} at all"
            self.fault(one, name, found, allowed)
        is_good = is_ordered & ~np.isin(row, row[bad])
        return pa.array(np.where(is_good, numbers, at + first - 1).astype(np.int32))

    def metadata(self, row: Codes, rank: pa.Array) -> tuple[Frames, pa.Array]:
        """Take out the metadata of hits: the frame hit_meta, and the source keys in it."""
        values = self.values("metadata")
        if not is_stated(values).any():
            return [], pa.nulls(len(self), pa.string())
        self.refuse_parsed()
        about = [one if isinstance(one, dict) else {} for one in listed(values)]
        self.fields["metadata"] = [None if isinstance(o, dict) else o for o in listed(values)]
        self.refuse("metadata", "a mapping or null")
        at = np.repeat(np.arange(len(about)), [*map(len, about)])
        written = [as_json(one) for one in chain.from_iterable(map(dict.values, about))]
        columns = {
            "rank": rank.take(pa.array(at)),
            "key": pa.array([*chain.from_iterable(about)], pa.string()),
            "value": pa.array(written, pa.string()),
        }
        keys = [as_id(one.get("source_key")) for one in about]
        return [("hit_meta", row[at], columns)], pa.array(keys, pa.string())

    def extras(self, found: Columns, prefix: str = "x_") -> None:
        """Take out all that is left, as flat columns."""
        for name in dict.fromkeys([*self.fields, *self.inside]):
            full = prefix + escape_key(name)
            self.inner(name).extras(found, f"{full}.")
            values = self.fields.pop(name, pa.nulls(0))
            if not is_stated(values).any():
                continue
            if isinstance(values, pa.Array):
                if pa.types.is_floating(values.type):
                    values = pc.if_else(pc.is_nan(values), None, values)
                    if not pc.all(pc.less(pc.abs(values), LARGEST_EXACT_FLOAT)).as_py():
                        self.refuse_parsed()  # it may have been a large whole number
                elif pa.types.is_list(values.type):
                    raise NotPlain  # which has all numbers of a list, and all objects, alike
                found[full] = values
                continue
            whole = [one for one in values if is_int(one)]
            is_exact = max(map(abs, whole), default=0) <= LARGEST_EXACT_FLOAT
            if kinds_of(values) == {int, float} and is_exact:
                found[full] = pa.array([None if one is None else float(one) for one in values])
            else:
                found[full + JSON_SUFFIX] = _as_texts(values)


def own_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of one record as flat `x_` columns, empty objects, too."""
    found: Columns = {}
    Level(fields_of([values]), np.zeros(1, np.int64), "", Problems("", False)).extras(found)
    none = {f"x_{name}{JSON_SUFFIX}": "{}" for name, one in leaves(values) if one == {}}
    return {name: one[0].as_py() for name, one in found.items()} | none


def _plain(values: pa.Array, type: str) -> pa.Array | None:
    """Return values as a column of a type; None where each value has to be looked at."""
    of = values.type
    if pa.types.is_null(of):
        return values.cast(ARROW[type])
    if pa.types.is_integer(of) and type in ("number", "score", "text", "id"):
        values = values.cast(ARROW[type], safe=False)
    if type == "heading" and pa.types.is_list(of) and pa.types.is_string(of.value_type):
        return None if values.flatten().null_count else pc.binary_join(values, HEADING_SEPARATOR)
    if values.type != ARROW[type] or type in ("texts", "any"):
        return None
    is_good: Any = True
    if type == "id":
        length = pc.binary_length(values)
        is_good = pc.and_(pc.greater(length, 0), pc.less_equal(length, LONGEST_ID))
    elif type in ("number", "score"):
        is_good = pc.is_finite(values)
    elif type in ("whole", "positive"):
        is_good = pc.greater_equal(values, int(type == "positive"))
    elif type == "failure":
        is_good = pc.greater(pc.utf8_length(pc.utf8_trim_whitespace(values)), 0)
    return values if is_good is True or pc.all(is_good).as_py() is not False else None


@dataclass
class Reader:
    """Reads the records of a file, batch by batch.

    Attributes
    ----------
    columns
        The format: from a batch of records to the columns of frames, without the ids of records.
    keys
        Field with an id of a record -> its column in all frames. A record without is a fault.
    once
        What is allowed, in the message for a record whose ids occurred before; "": it is no
        fault.
    lines
        The line of the ids of each record so far.
    """

    columns: Callable[[Level], Frames]
    problems: Problems
    keys: Mapping[str, str] = field(default_factory=lambda: {"query_id": "query_id"})
    once: str = "one record per query"
    parts: list[tuple[str, Columns]] = field(default_factory=list)
    lines: dict[tuple[str, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.faults = Problems(self.problems.file, strict=False)
        self.faults.typos = self.problems.typos

    def read(self, rows: Iterable[Row]) -> None:
        """Read records. Faults of `rows` among `faults` are reported by line, with others."""
        source = iter(rows)
        while batch := [*islice(source, BATCH)]:
            fields = fields_of([row.values for row in batch])
            self.add(Level(fields, np.array([row.line for row in batch]), "", self.faults))
        self.report()

    def report(self) -> None:
        """Move the faults to the problems, by their lines."""
        for one in sorted(self.faults.records, key=lambda one: one["line"] or 0):
            about = {name: one[name] for name in ("line", "field", "allowed")}
            self.problems.add(one["found"], **about)
        self.faults.records.clear()

    def add(self, records: Level) -> None:
        """Add a batch of records.

        Raises
        ------
        NotPlain
            A parsed block has to be read again; nothing of it was added.
        """
        lines = dict[tuple[str, ...], int]()
        ids, is_good = self._identified(records, lines)
        for kind, row, columns in self.columns(records):
            if not is_good.all():
                columns = {n: one.filter(pa.array(is_good[row])) for n, one in columns.items()}
                row = row[is_good[row]]
            columns |= {name: one.take(pa.array(row)) for name, one in ids.items()}
            self.parts.append((kind, columns))
        self.lines |= lines
        self.report()

    def _identified(
        self, records: Level, lines: dict[tuple[str, ...], int]
    ) -> tuple[Columns, Flags]:
        """Return the ids of records, and which have ids of their own; add their lines."""
        for name in self.keys:
            for at in np.flatnonzero(~is_stated(records.values(name))):
                records.fault(at, name, "the field is missing", ID_ALLOWED)
        ids = {column: records.take(name, "id") for name, column in self.keys.items()}
        is_good, cells = np.ones(len(records), bool), zip(*map(listed, ids.values()), strict=True)
        for n, (cell, line) in enumerate(zip(cells, records.lines.tolist(), strict=True)):
            before = self.lines.get(cell, lines.get(cell))
            is_good[n] = None not in cell and (before is None or not self.once)
            if is_good[n]:
                lines.setdefault(cell, line)
            elif None not in cell:
                found = f"{' of '.join(map(repr, cell))} is on line {before} already"
                records.fault(n, next(iter(self.keys)), found, self.once)
        return ids, is_good

    def frames(self, run_id: str | None = None) -> dict[str, pd.DataFrame]:
        """Return the frames of what was read, those with rows and responses, hits, citations.

        Their columns have the types of their values; making `Results` of them conforms them.
        """
        found = {
            kind: _frame(kind, [columns for of, columns in self.parts if of == kind], run_id)
            for kind in dict.fromkeys([*REQUIRED, *(kind for kind, _ in self.parts)])
        }
        return {kind: one for kind, one in found.items() if len(one) or kind in REQUIRED}


def _frame(kind: str, parts: list[Columns], run_id: str | None) -> pd.DataFrame:
    """Return the columns of batches as one frame, each column of one type or JSON text."""
    types: dict[str, set[Any]] = {}
    for name, one in chain.from_iterable(map(dict.items, parts)):
        if one.null_count < len(one):
            plain = name.removesuffix(JSON_SUFFIX)
            types.setdefault(plain, set()).add(one.type if plain == name else JSON_SUFFIX)
    if not types:
        return empty(kind)
    mixed = {
        name
        for name, several in types.items()
        if len(several) > 1 and several != {pa.int64(), pa.float64()}
    }
    tables = [
        pa.table(
            {
                name + JSON_SUFFIX * (name in mixed): _as_texts(one) if name in mixed else one
                for name, one in part.items()
                if name.removesuffix(JSON_SUFFIX) in types
            }
        )
        for part in parts
    ]
    table = pa.concat_tables(tables, promote_options="permissive")
    frame: pd.DataFrame = table.to_pandas(types_mapper=_DTYPES.get, split_blocks=True)
    if run_id is not None:
        frame["run_id"] = categorical(np.zeros(len(table), np.int8), [run_id])
    for name in KINDS[kind].required.keys() - {*frame}:
        frame[name] = pd.Series(pd.NA, frame.index, dtype="str")
    return frame


def series(column: pa.Array | pa.ChunkedArray) -> pd.Series:
    """Return a column of a frame."""
    found: pd.Series = column.to_pandas(types_mapper=_DTYPES.get)
    return found


def _as_texts(values: Values) -> pa.Array:
    return pa.array([None if one is None else as_json(one) for one in listed(values)], pa.string())


# Blocks of lines, parsed by pyarrow where that surely gives what `json` gives
#
# pyarrow gets the types of fields, since its own inference turns texts into times, and deep nesting
# crashes it. By these types it refuses fields that are new or of another type, keys that appear
# twice, half surrogate pairs and numbers that don't fit. Then `json` parses the block, and the
# types of its fields are learned.

# Blocks of fewer lines aren't worth it; from so many lines of the first one types are learned
FEWEST, N_SAMPLED = 64, 64
# A line that doesn't fit here is left to `json`
PARSED_BYTES = 1 << 20


class LineParser:
    """Parses blocks by types that grow with the fields that occur."""

    def __init__(self) -> None:
        self.types, self.is_off = pa.struct([]), False

    def parse(self, data: bytes) -> dict[str, Values] | None:
        """Return the fields of the records of a block of lines, if each line is one."""
        from pyarrow import json

        n_lines = data.count(b"\n") + (not data.endswith(b"\n"))
        # Nowhere within a JSON value do a closing brace, a line end and an opening brace follow
        # each other: so many places mean one object on each line.
        n_ends = data.count(b"}\n{") + data.startswith(b"{") + data.rstrip(b"\n").endswith(b"}")
        if self.is_off or n_lines < FEWEST or n_ends != n_lines + 1 or b"\0" in data:
            return None
        try:
            data.decode()
            if not len(self.types):
                lines = data.splitlines()
                sampled = lines[:: -(-n_lines // N_SAMPLED)]
                self.learn([parse_json(one.decode()) for one in sampled])
            types = json.ParseOptions(
                pa.schema(list(self.types)), unexpected_field_behavior="error"
            )
            read = json.ReadOptions(block_size=PARSED_BYTES)
            table = json.read_json(pa.BufferReader(data), read, types)
        except (pa.ArrowException, *UNFORESEEN):
            return None
        if len(table) != n_lines:
            return None
        return members(table.combine_chunks().to_struct_array().combine_chunks())

    def learn(self, values: list[dict[str, Any]]) -> None:
        """Add the types of these fields; where one has several, `json` parses all that follows."""
        try:
            schemas = [pa.schema({"record": one}) for one in (self.types, pa.array(values).type)]
            types = pa.unify_schemas(schemas, promote_options="permissive")
            self.types = types.field("record").type
        except (pa.ArrowException, *UNFORESEEN):
            self.is_off = True
