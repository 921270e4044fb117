"""The fast reader of our run file.

Blocks of lines parsed by pyarrow.json, made into columns beside each other.

The per-line reader (per_query.py) is the definition of the format. This one gives the same frames
or declines: at the first sign of anything that it can't prove to be equal, the caller reads the
whole file line by line, and faults, warnings and odd values are on_progress there. So nothing here reports
an error. What must hold of a block: UTF-8, one object on each line (pyarrow takes several, and
objects over several lines), no field or type that the schema doesn't have (pyarrow refuses those,
keys that are there twice, and half surrogate pairs).
"""

import gzip
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pa_json

from ragscore.frames.data import KINDS, categorical, empty
from ragscore.frames.kinds import LARGEST_EXACT_FLOAT
from ragscore.io.arrow_block import Columns, NeedsLineReader, columns_of, learn_schema
from ragscore.io.record import Tables, read_record
from ragscore.io.source import Problems, Row, parse_json
from ragscore.io.values import JSON_SUFFIX

FROM_BYTES = 1 << 18
"""Smaller files are read line by line, which is as fast; 0 tries every file, and infinity none."""
BLOCK_BYTES = 8 << 20
_LONGEST = 2**31 - 1  # what pyarrow takes as one block, should a line be longer than ours
_N_AT_ONCE = 8  # blocks, at most: each takes about three times its size while it is parsed
_SAMPLED = 32  # lines of the first block from which the schema is learned
_DURATION = "latency_"
FRAMES = ("responses", "hits", "citations")
FALLBACK_ERRORS = (NeedsLineReader, OSError, EOFError, zlib.error, pa.ArrowException)
_DTYPES: dict[Any, Any] = {
    pa.string(): pd.StringDtype(na_value=np.nan),
    pa.bool_(): pd.BooleanDtype(),
    pa.int64(): pd.Int64Dtype(),
}


@dataclass
class Block:
    """Columns of the frames, the record of each row, and where each record stands."""

    columns: dict[str, Columns]
    rows: dict[str, npt.NDArray[np.int64]]
    data: bytes
    starts: npt.NDArray[np.int64]

    def line(self, record: int) -> bytes:
        """One record as written."""
        return self.data[self.starts[record] : self.starts[record + 1]]


def read_frames(path: Path, run_id: str) -> dict[str, pd.DataFrame] | None:
    """The frames of a file of records, equal to those that the per-line reader gives.

    None where that one must read it.
    """
    try:
        if path.stat().st_size < FROM_BYTES:
            return None
        seen, parts = FileColumns(), []
        for block in parse_blocks(path):
            seen.take(block)
            parts.append(block.columns)
        return {
            kind: frame_of(
                kind,
                {name: _joined(parts, kind, name, type_) for name, type_ in types.items()},
                run_id,
            )
            for kind, types in seen.types().items()
        }
    except FALLBACK_ERRORS:
        return None


def parse_blocks(path: Path, on_progress: Callable[[int], object] = int) -> Iterator[Block]:
    """The blocks of a file in order; `on_progress` hears how many bytes of it have been read.

    Raises
    ------
    Declined
        Or another of `FAILED`: the per-line reader must read the file.
    """
    with path.open("rb") as raw, gzip.open(raw) if path.suffix == ".gz" else raw as opened:
        for block in _parsed(opened):
            on_progress(raw.tell())
            yield block


def _blocks(opened: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """The file in pieces of whole lines."""
    rest = b""
    while data := opened.read(BLOCK_BYTES):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join((rest, memoryview(data)[:cut]))
            rest = data[cut:]
        else:
            rest += data
    if rest:
        yield rest


class _Parser:
    """Parses blocks by a schema that grows with the fields that they show."""

    def __init__(self) -> None:
        self.schema, self.lock = pa.struct([]), threading.Lock()

    def learn(self, lines: list[bytes]) -> None:
        with self.lock:
            self.schema = learn_schema(self.schema, lines)

    def __call__(self, data: bytes) -> Block:
        starts = _line_starts(data)
        try:
            records = self._records(data)
        except pa.ArrowInvalid:
            # A field that the schema doesn't have, or one that is wrong: our own parser tells
            # which, and knows all of the block afterwards.
            self.learn(data.rstrip(b"\n").split(b"\n"))
            records = self._records(data)
        if len(records) != len(starts) - 1:
            raise NeedsLineReader
        columns, rows = columns_of(records)
        return Block(columns, rows, data, starts)

    def _records(self, data: bytes) -> pa.StructArray:
        options = pa_json.ParseOptions(
            explicit_schema=pa.schema(list(self.schema)), unexpected_field_behavior="error"
        )
        read = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        table = pa_json.read_json(pa.BufferReader(data), read_options=read, parse_options=options)
        return table.combine_chunks().to_struct_array().chunk(0)


def _line_starts(data: bytes) -> npt.NDArray[np.int64]:
    """Where each line begins, and the end of the block.

    Declines unless each looks like one object and all of it is UTF-8 without NUL.
    """
    if len(data) >= _LONGEST:
        raise NeedsLineReader
    found = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(found == ord("\n"))
    if not len(ends) or ends[-1] != len(data) - 1:
        ends = np.append(ends, len(data))
    starts = np.append(0, ends + 1)
    starts[-1] = len(data)
    # A brace, a line end and a brace stand nowhere within a JSON value: as many records as lines
    # means one on each.
    if (
        b"\0" in data
        or (found[ends - 1] != ord("}")).any()
        or (found[starts[:-1]] != ord("{")).any()
    ):
        raise NeedsLineReader
    offsets = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
    pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    return starts


def _parsed(opened: IO[bytes] | gzip.GzipFile) -> Iterator[Block]:
    """The blocks of the file in order, a few of them parsed at once.

    Pyarrow works outside Python's lock.
    """
    parse, n_at_once = _Parser(), min(os.cpu_count() or 1, _N_AT_ONCE)
    with ThreadPoolExecutor(n_at_once) as pool:
        waiting: deque[Future[Block]] = deque()
        for number, data in enumerate(_blocks(opened)):
            if number == 0:
                parse.learn(_sample(data))
            waiting.append(pool.submit(parse, data))
            if len(waiting) > n_at_once:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _sample(data: bytes) -> list[bytes]:
    """Some lines, the first among them."""
    starts = {
        0,
        *(data.find(b"\n", len(data) * place // _SAMPLED) + 1 for place in range(1, _SAMPLED)),
    } - {len(data)}
    return [
        data[start : end if (end := data.find(b"\n", start)) >= 0 else len(data)]
        for start in sorted(starts)
    ]


class FileColumns:
    """What the blocks of a file show together.

    The columns of each frame, in the order in which the per-line reader meets them, and their
    types.
    """

    def __init__(self) -> None:
        self._order: dict[str, dict[str, None]] = {kind: {} for kind in FRAMES}
        self._types: dict[str, dict[str, set[pa.DataType]]] = {kind: {} for kind in FRAMES}
        self._long: set[tuple[str, str]] = set()  # columns of whole numbers that no float64 holds
        self._ids: list[pa.Array] = []

    def take(self, block: Block) -> None:
        """Take note of a block."""
        _take_order(block, self._order, is_first=not self._ids)
        self._ids.append(block.columns["responses"]["query_id"])
        for kind in FRAMES:
            for name, column in block.columns[kind].items():
                self._types[kind].setdefault(name, set()).add(column.type)
                if (
                    column.type == pa.int64()
                    and name not in KINDS[kind].dtypes
                    and _is_long(column)
                ):
                    self._long.add((kind, name))

    def types(self) -> dict[str, dict[str, pa.DataType]]:
        """Each frame's columns in order, whole numbers of one block and decimal ones of another as decimal ones.

        Raises
        ------
        Declined
            Query ids that are there twice, none at all, or columns that only the per-line reader
            can settle.
        """
        ids = pa.chunked_array(self._ids, pa.string())
        if not len(ids) or len(ids.unique()) < len(ids):
            raise NeedsLineReader
        return {
            kind: {
                name: self._type(kind, name)
                for name in _names(kind, self._types[kind], self._order[kind])
            }
            for kind in FRAMES
        }

    def _type(self, kind: str, name: str) -> pa.DataType:
        found = self._types[kind][name]
        if len(found) == 1:
            return next(iter(found))
        if found != {pa.int64(), pa.float64()} or (kind, name) in self._long:
            raise NeedsLineReader
        return pa.float64()


def _is_long(column: pa.Array) -> bool:
    found = pc.min_max(column).as_py()
    return found["min"] is not None and (
        found["min"] < -LARGEST_EXACT_FLOAT or found["max"] > LARGEST_EXACT_FLOAT
    )


def _names(kind: str, found: dict[str, set[pa.DataType]], order: dict[str, None]) -> list[str]:
    own = [name for name in order if name in found]
    known = [name for name in KINDS[kind].dtypes if name in found]
    if len(own) + len(known) != len(found) or any(name + JSON_SUFFIX in found for name in own):
        raise NeedsLineReader
    return known + own


def _take_order(block: Block, order: dict[str, dict[str, None]], is_first: bool) -> None:
    """Take note of own columns, read anew from those records that have the first value of one.

    Nulls before it don't count.
    """
    if is_first:
        _take_names(block, 0, order)
    new = {
        kind: [
            name for name in columns if name not in order[kind] and name not in KINDS[kind].dtypes
        ]
        for kind, columns in block.columns.items()
    }
    if any(name.startswith(_DURATION) for name in new["responses"]):
        # a duration's place counts from where its name stands first, with a value or without
        raise NeedsLineReader
    for record in sorted(
        {
            int(block.rows[kind][_first(block.columns[kind][name])])
            for kind, names in new.items()
            for name in names
        }
    ):
        _take_names(block, record, order)


def _take_names(block: Block, record: int, order: dict[str, dict[str, None]]) -> None:
    tables = Tables()
    read_record(
        Row(parse_json(block.line(record).decode("utf-8")), 1), tables, Problems("", strict=False)
    )
    for kind in FRAMES:
        for name in (
            name
            for row in getattr(tables, kind)
            for name in row
            if name.startswith(("x_", _DURATION))
        ):
            order[kind].setdefault(name)


def _first(column: pa.Array) -> int:
    return int(np.asarray(column.is_valid()).argmax())


def _joined(
    parts: list[dict[str, Columns]], kind: str, name: str, type_: pa.DataType
) -> pa.ChunkedArray:
    return pa.chunked_array([column_of(part[kind], name, type_) for part in parts], type_)


def column_of(columns: Columns, name: str, type_: pa.DataType) -> pa.Array:
    """One column of a block; null where the block doesn't have it."""
    return (
        columns[name].cast(type_)
        if name in columns
        else pa.nulls(len(next(iter(columns.values()), ())), type_)
    )


def frame_of(kind: str, columns: Columns, run_id: str) -> pd.DataFrame:
    """Columns as a frame of one run."""
    if not columns:
        return empty(kind)
    n = len(columns["query_id"])
    found: dict[str, Any] = {
        "run_id": categorical(np.zeros(n, dtype=np.int8), pd.Index([run_id], dtype="str"))
    }
    found |= {name: _series(column) for name, column in columns.items()}
    missing = [name for name in KINDS[kind].required if name not in found]
    return pd.DataFrame(
        found | {name: pd.Series(np.nan, index=range(n), dtype="str") for name in missing},
        copy=False,
    )


def _series(column: pa.ChunkedArray) -> Any:
    dtype = _DTYPES.get(column.type)
    return column.to_numpy() if dtype is None else dtype.__from_arrow__(column)
