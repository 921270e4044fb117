"""Blocks of JSON lines parsed by pyarrow, where that surely gives what `json` gives.

In: a block of whole lines. Out: its records for the engine (run_records.py), or None: then `json`
parses them, and this module learns the types of their fields. pyarrow gets the types, since its own
inference turns texts into times, and deep nesting crashes it. By these types it refuses fields that
are new or of another type, keys that appear twice, half surrogate pairs and numbers that don't fit.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ragscore.io.files import UNFORESEEN
from ragscore.io.run_records import Batch, Level, members
from ragscore.io.source import Row, parse_json

FEWEST, N_SAMPLED = 64, 64
"""Blocks of fewer lines aren't worth it; from so many lines of the first one types are learned."""


class LineParser:
    """Parses blocks by types that grow with the fields that occur, from the `known` ones on."""

    def __init__(self, known: pa.DataType) -> None:
        self.known, self.types = known, pa.struct([])
        self.is_off = False

    def parse(self, begin: int, data: bytes) -> Level | None:
        """Return the records of a block that begins at line `begin`."""
        n_lines = _n_objects(data)
        if self.is_off or n_lines < FEWEST:
            return None
        if not len(self.types):
            lines = data.splitlines()
            self._learn(lines[:: -(-len(lines) // N_SAMPLED)])
        records = self._records(data)
        if records is None or len(records) != n_lines:
            return None
        batch = Batch(np.arange(begin, begin + n_lines), is_parsed=True)
        return Level(members(records), np.arange(n_lines), "", batch)

    def learning(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield the rows, and learn the types of their fields."""
        values = []
        for row in rows:
            values += [] if self.is_off else [row.values]
            yield row
        self._add(values)

    def _learn(self, lines: list[bytes]) -> None:
        try:
            self._add([parse_json(line.decode()) for line in lines])
        except UNFORESEEN:
            self.is_off = True

    def _add(self, values: list[dict[str, Any]]) -> None:
        """Add the types of these fields; where one has several, `json` parses all that follows."""
        try:
            seen = [pa.schema({"record": one}) for one in (self.types, pa.array(values).type)]
            types = pa.unify_schemas(seen, promote_options="permissive").field("record").type
            self.types = _filled(types, self.known)
        except (pa.ArrowException, *UNFORESEEN):
            self.is_off = True

    def _records(self, data: bytes) -> pa.StructArray | None:
        from pyarrow import json

        types = json.ParseOptions(
            explicit_schema=pa.schema(list(self.types)), unexpected_field_behavior="error"
        )
        read = json.ReadOptions(block_size=max(1 << 20, longest_line(data) + 1))
        try:
            table = json.read_json(pa.BufferReader(data), read_options=read, parse_options=types)
        except pa.ArrowException:
            return None
        return table.combine_chunks().to_struct_array().combine_chunks()


def _n_objects(data: bytes) -> int:
    """Return the number of lines if each is one object, else 0.

    Nowhere within a JSON value do a closing brace, a line end and an opening brace follow each
    other. So as many records as lines means one on each line.
    """
    try:
        data.decode()
    except UnicodeDecodeError:
        return 0
    n = data.count(b"\n") + (not data.endswith(b"\n"))
    between = data.count(b"}\n{") + data.startswith(b"{") + data.rstrip(b"\n").endswith(b"}")
    return n if between == n + 1 and b"\0" not in data else 0


def longest_line(data: bytes) -> int:
    """Return the number of bytes of the longest line."""
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n"))
    return int(np.diff(ends, prepend=-1, append=len(data)).max())


def _filled(seen: pa.DataType, known: pa.DataType) -> pa.DataType:
    """Return a type with what is known of fields that were null, or whole numbers, so far."""
    if pa.types.is_struct(seen) and pa.types.is_struct(known):
        types = {one.name: one.type for one in known}
        return pa.struct(
            [(one.name, _filled(one.type, types.get(one.name, pa.null()))) for one in seen]
        )
    if pa.types.is_list(seen) and pa.types.is_list(known):
        return pa.list_(_filled(seen.value_type, known.value_type))
    is_whole = pa.types.is_integer(seen) and pa.types.is_floating(known)
    return known if pa.types.is_null(seen) or is_whole else seen
