"""The fast reader of our run file: blocks of lines parsed by pyarrow.json, several at once.

The per-line reader (per_query.py) defines the format. This one gives the same frames or declines:
at the first sign of anything that it can't prove to be equal, the caller reads the whole file line
by line and reports faults and warnings. So nothing here reports an error.

A block must be UTF-8 with one object on each line; pyarrow would take several, and objects over
several lines. pyarrow refuses fields and types that the schema lacks, keys that appear twice, and
half surrogate pairs.
"""

import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import KINDS, categorical, empty
from ragscore.frames.kinds import LARGEST_EXACT_FLOAT
from ragscore.io.arrow_block import Columns, NeedsLineReader, columns_of, learn_schema
from ragscore.io.file_content import is_line_too_long, open_bytes
from ragscore.io.record import RUN_FIELDS, read_record, with_refusals_implied
from ragscore.io.records import Tables
from ragscore.io.source import Problems, Row, parse_json
from ragscore.io.values import JSON_SUFFIX

FROM_BYTES = 1 << 18
"""Smaller files are read line by line, which is as fast."""
BLOCK_BYTES = 8 << 20
_MAX_BYTES = 2**31 - 1  # pyarrow's limit for a block; ours get longer where one line does
_MAX_THREADS = 8  # a block takes about three times its size while it is parsed
_N_SAMPLED = 32  # lines of the first block from which the schema is learned
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
    """Columns of the frames, the record of each of their rows, and the bytes of the records."""

    columns: dict[str, Columns]
    rows: dict[str, npt.NDArray[np.int64]]
    data: bytes
    starts: npt.NDArray[np.int64]
    states_refusals: bool

    def line(self, record: int) -> bytes:
        """Return one record as written."""
        return self.data[self.starts[record] : self.starts[record + 1]]


def read_frames(path: Path, run_id: str) -> dict[str, pd.DataFrame] | None:
    """Return the frames of a run file, equal to those of the per-line reader.

    None if the per-line reader must read the file.
    """
    try:
        if path.stat().st_size < FROM_BYTES:
            return None
        file_columns, parts = FileColumns(), []
        with closing(parse_blocks(path)) as blocks:
            for block in blocks:
                file_columns.add(block)
                parts.append(block.columns)
        frames = {
            kind: frame_of(kind, [part[kind] for part in parts], types, run_id)
            for kind, types in file_columns.types().items()
        }
        is_stated = file_columns.states_refusals
        return frames | {"responses": with_refusals_implied(frames["responses"], is_stated)}
    except FALLBACK_ERRORS:
        return None


def parse_blocks(path: Path, on_progress: Callable[[int], object] = int) -> Generator[Block]:
    """Yield the blocks of a file in order.

    `on_progress` is called with the number of bytes read so far. Close it: an error elsewhere, for
    as long as somebody holds it, would keep its threads.

    Raises
    ------
    NeedsLineReader
        Or another of `FALLBACK_ERRORS`: the per-line reader must read the file.
    """
    with (
        open_bytes(path) as (opened, raw),
        closing(_parse_ahead(_whole_lines(opened))) as blocks,
    ):
        for block in blocks:
            on_progress(raw.tell())
            yield block


def _parse_ahead(pieces: Iterable[bytes]) -> Generator[Block]:
    """Yield the blocks in order, with a few parsed at once: pyarrow works outside Python's lock."""
    parse, n_threads = _Parser(), min(os.cpu_count() or 1, _MAX_THREADS)
    with ThreadPoolExecutor(n_threads) as pool:
        waiting: deque[Future[Block]] = deque()
        for number, data in enumerate(pieces):
            if number == 0:
                parse.learn(_sample_lines(data))
            waiting.append(pool.submit(parse, data))
            if len(waiting) > n_threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _whole_lines(opened: IO[bytes]) -> Iterator[bytes]:
    """Yield the file in pieces of whole lines."""
    rest = b""
    while data := opened.read(BLOCK_BYTES):
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join((rest, memoryview(data)[:cut]))
            rest = data[cut:]
        else:
            rest += data
            if is_line_too_long(len(rest)):
                raise NeedsLineReader
    if rest:
        yield rest


def _sample_lines(data: bytes) -> list[bytes]:
    """Return some lines, the first among them."""
    places = (len(data) * part // _N_SAMPLED for part in range(1, _N_SAMPLED))
    starts = {0, *(data.find(b"\n", place) + 1 for place in places)} - {len(data)}
    ends = {start: data.find(b"\n", start) for start in sorted(starts)}
    return [data[start : end if end >= 0 else len(data)] for start, end in ends.items()]


class _Parser:
    """Parses blocks by a schema that grows with the fields that occur."""

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
            # A field that the schema lacks, or a fault: learning from every line of the block adds
            # the one and finds the other.
            self.learn(data.rstrip(b"\n").split(b"\n"))
            records = self._records(data)
        if len(records) != len(starts) - 1:
            raise NeedsLineReader
        columns, rows, states_refusals = columns_of(records)
        return Block(columns, rows, data, starts, states_refusals)

    def _records(self, data: bytes) -> pa.StructArray:
        from pyarrow import json as pa_json

        options = pa_json.ParseOptions(
            explicit_schema=pa.schema(list(self.schema)), unexpected_field_behavior="error"
        )
        read = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
        table = pa_json.read_json(pa.BufferReader(data), read_options=read, parse_options=options)
        return table.combine_chunks().to_struct_array().chunk(0)


def _line_starts(data: bytes) -> npt.NDArray[np.int64]:
    """Return where each line begins, and the end of the block.

    Raises
    ------
    NeedsLineReader
        A line that doesn't look like one object, or a NUL byte. Bytes that aren't UTF-8 are one of
        the other `FALLBACK_ERRORS`.
    """
    if len(data) >= _MAX_BYTES or b"\0" in data:
        raise NeedsLineReader
    found = np.frombuffer(data, dtype=np.uint8)
    ends = np.flatnonzero(found == ord("\n"))
    if not len(ends) or ends[-1] != len(data) - 1:
        ends = np.append(ends, len(data))
    starts = np.append(0, ends + 1)
    starts[-1] = len(data)
    # Nowhere within a JSON value do a closing brace, a line end and an opening brace follow each
    # other. So as many records as lines means one on each line.
    if (found[ends - 1] != ord("}")).any() or (found[starts[:-1]] != ord("{")).any():
        raise NeedsLineReader
    offsets = pa.py_buffer(np.array([0, len(data)], dtype=np.int32))
    pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(data)]).validate(full=True)
    return starts


class FileColumns:
    """The columns of each frame and their types, gathered from the blocks of a file.

    Extra columns (`x_*`, `latency_*`) keep the order in which the per-line reader meets them.
    """

    def __init__(self) -> None:
        self._order: dict[str, dict[str, None]] = {kind: {} for kind in FRAMES}
        self._types: dict[str, dict[str, set[pa.DataType]]] = {kind: {} for kind in FRAMES}
        self._inexact: set[tuple[str, str]] = set()  # whole numbers that float64 can't hold
        self._ids: list[pa.Array] = []
        self._runs: dict[str, set[Any]] = {}
        self.states_refusals = False

    def add(self, block: Block) -> None:
        """Gather from one more block."""
        self.states_refusals |= block.states_refusals
        self._add_order(block)
        responses = block.columns["responses"]
        self._ids.append(responses["query_id"])
        for name, column in responses.items():
            if name.removeprefix("x_").partition(".")[0] in RUN_FIELDS:
                runs = self._runs.setdefault(name, set())
                runs.update(column.drop_null().unique().to_pylist())
                if len(runs) > 1:
                    raise NeedsLineReader
        for kind in FRAMES:
            for name, column in block.columns[kind].items():
                self._types[kind].setdefault(name, set()).add(column.type)
                is_extra = name not in KINDS[kind].dtypes
                if is_extra and column.type == pa.int64() and _is_inexact(column):
                    self._inexact.add((kind, name))

    def _add_order(self, block: Block) -> None:
        """Add the extra columns in order, by reading a few records as the per-line reader does.

        These are the first record of the file, and each with the first value of a column. A null
        before that doesn't count for the order.
        """
        if not self._ids:
            self._add_names(block, 0)
        records = set()
        for kind, columns in block.columns.items():
            for name, column in columns.items():
                if name in self._order[kind] or name in KINDS[kind].dtypes:
                    continue
                if name.startswith(_DURATION):  # these count from their first null on
                    raise NeedsLineReader
                first_row = int(np.asarray(column.is_valid()).argmax())
                records.add(int(block.rows[kind][first_row]))
        for record in sorted(records):
            self._add_names(block, record)

    def _add_names(self, block: Block, record: int) -> None:
        tables = Tables()
        row = Row(parse_json(block.line(record).decode("utf-8")), 1)
        read_record(row, tables, Problems("", strict=False))
        for kind in FRAMES:
            for values in getattr(tables, kind):
                names = (name for name in values if name.startswith(("x_", _DURATION)))
                self._order[kind] |= dict.fromkeys(names)

    def types(self) -> dict[str, dict[str, pa.DataType]]:
        """Return the columns of each frame in order, with their types.

        Raises
        ------
        NeedsLineReader
            No query ids or one that appears twice, or columns whose type only the per-line reader
            can settle.
        """
        ids = pa.chunked_array(self._ids, pa.string())
        if not len(ids) or len(ids.unique()) < len(ids):
            raise NeedsLineReader
        return {
            kind: {name: self._type(kind, name) for name in self._names(kind)} for kind in FRAMES
        }

    def _names(self, kind: str) -> list[str]:
        found, order = self._types[kind], self._order[kind]
        known = [name for name in KINDS[kind].dtypes if name in found]
        extra = [name for name in order if name in found]
        is_both = any(name + JSON_SUFFIX in found for name in extra)  # a list here, a value there
        if is_both or len(known) + len(extra) != len(found):
            raise NeedsLineReader
        return known + extra

    def _type(self, kind: str, name: str) -> pa.DataType:
        """Return a column's type; whole and decimal numbers in different blocks are decimal."""
        types = self._types[kind][name]
        if len(types) == 1:
            return next(iter(types))
        if types != {pa.int64(), pa.float64()} or (kind, name) in self._inexact:
            raise NeedsLineReader
        return pa.float64()


def _is_inexact(column: pa.Array) -> bool:
    found = pc.min_max(column).as_py()
    return found["min"] is not None and max(-found["min"], found["max"]) > LARGEST_EXACT_FLOAT


def frame_of(
    kind: str, parts: list[Columns], types: dict[str, pa.DataType], run_id: str
) -> pd.DataFrame:
    """Return the columns of some blocks as a frame of one run; null where a block has none."""
    if not types:
        return empty(kind)
    n_rows = [len(next(iter(part.values()), ())) for part in parts]
    n = sum(n_rows)
    found: dict[str, Any] = {
        "run_id": categorical(np.zeros(n, dtype=np.int8), pd.Index([run_id], dtype="str"))
    }
    for name, type_ in types.items():
        chunks = [
            part[name].cast(type_) if name in part else pa.nulls(rows, type_)
            for part, rows in zip(parts, n_rows, strict=True)
        ]
        column, dtype = pa.chunked_array(chunks, type_), _DTYPES.get(type_)
        found[name] = column.to_numpy() if dtype is None else dtype.__from_arrow__(column)
    for name in KINDS[kind].required:
        if name not in found:
            found[name] = pd.Series(np.nan, index=range(n), dtype="str")
    return pd.DataFrame(found, copy=False)
