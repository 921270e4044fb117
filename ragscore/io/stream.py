"""A run file of any size, block by block, through the disk.

Both readers of the format are used as in `read_per_query`: the fast one, and the per-line one for a
file that the fast one declines. Their tables go to disk and come back as frames of a few rows. Only
when the whole file is read is it known which columns there are and of what type. In memory are a
few blocks, and the id of each record.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import from_records
from ragscore.frames.kinds import LARGEST_EXACT_FLOAT
from ragscore.io import arrow_lines
from ragscore.io.arrow_lines import (
    FALLBACK_ERRORS,
    FRAMES,
    Block,
    FileColumns,
    frame_of,
    parse_blocks,
)
from ragscore.io.file_content import text_lines
from ragscore.io.record import read_record, with_refusals_implied
from ragscore.io.records import Tables
from ragscore.io.source import Problems, json_rows
from ragscore.io.values import unify_types

BLOCK_ROWS = 1 << 14
"""About the rows of a frame that comes back: fewer cost time per frame, more cost memory."""
BLOCK_BYTES = 1 << 25
LINE_TABLES = ("responses", "hits", "citations", "calls", "hit_meta")
Progress = Callable[[int], object]


@dataclass
class TableOnDisk:
    """One table of a run. `frames` reads it anew; `rows_per_response` counts the rows of each."""

    frames: Callable[[], Iterator[pd.DataFrame]]
    rows_per_response: npt.NDArray[np.int64]


@dataclass
class RunOnDisk:
    """A run that was read: its tables by kind, the ids of its responses, and how many failed."""

    tables: dict[str, TableOnDisk]
    query_ids: pd.Series
    n_failed: int


def stream_records(
    path: Path, run_id: str, problems: Problems, folder: Path, on_progress: Progress
) -> RunOnDisk:
    """Read a file of records into `folder`, from where its tables that have rows come back.

    Raises
    ------
    DataError
        As `read_per_query`, which warns of typos; here they are left in `problems.typos`.
    """
    if path.stat().st_size >= arrow_lines.FROM_BYTES:
        with closing(parse_blocks(path, on_progress)) as blocks:
            run = _fast(blocks, run_id, folder)
        if run is not None:
            return run
    return _by_line(path, run_id, problems, folder, on_progress)


def _fast(blocks: Iterator[Block], run_id: str, folder: Path) -> RunOnDisk | None:
    """Read a file by the fast reader's blocks; None where that one declines."""
    file_columns = FileColumns()
    spools = {kind: _ColumnSpool(folder / f"{kind}.arrows") for kind in FRAMES}
    ids: list[pa.Array] = []
    n_failed = 0
    while True:
        try:
            block = next(blocks, None)
            if block is None:
                types = file_columns.types()
                break
            file_columns.add(block)
        except FALLBACK_ERRORS:
            for spool in spools.values():
                spool.file.unlink()  # the per-line reader needs the room
            return None
        responses = block.columns["responses"]
        ids.append(responses["query_id"])
        if "error" in responses:
            n_failed += len(responses["error"]) - responses["error"].null_count
        for kind, spool in spools.items():
            spool.add(block, kind)
    tables = {
        kind: TableOnDisk(
            _settled(
                kind,
                partial(spools[kind].frames, kind, types[kind], run_id),
                file_columns.states_refusals,
            ),
            np.concatenate(spools[kind].rows_per_response),
        )
        for kind in FRAMES
        if types[kind]
    }
    return RunOnDisk(tables, pd.Series(pa.chunked_array(ids).to_pandas(), dtype="str"), n_failed)


def _settled(
    kind: str, frames: Callable[[], Iterator[pd.DataFrame]], is_stated: bool
) -> Callable[[], Iterator[pd.DataFrame]]:
    """Return the frames of a table with what the whole file tells of refusals."""
    if kind != "responses" or not is_stated:
        return frames
    return lambda: (with_refusals_implied(frame, True) for frame in frames())


@dataclass
class _ColumnSpool:
    """The columns of one table on disk, block by block: one Arrow stream after the other."""

    file: Path
    starts: list[int] = field(default_factory=list)
    rows_per_response: list[npt.NDArray[np.int64]] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file.write_bytes(b"")

    def add(self, block: Block, kind: str) -> None:
        columns = block.columns[kind]
        n_responses = len(block.rows["responses"])
        self.rows_per_response.append(np.bincount(block.rows[kind], minlength=n_responses))
        if not columns:
            return
        batch = pa.record_batch(columns)
        with self.file.open("ab") as out:
            self.starts.append(out.tell())
            with pa.ipc.new_stream(out, batch.schema) as writer:
                writer.write_batch(batch)
        self.sizes.append((batch.num_rows, batch.nbytes))

    def frames(
        self, kind: str, types: dict[str, pa.DataType], run_id: str
    ) -> Iterator[pd.DataFrame]:
        with self.file.open("rb") as opened:
            for numbers in self._batches():
                parts = [_columns_at(opened, self.starts[number]) for number in numbers]
                yield frame_of(kind, parts, types, run_id)

    def _batches(self) -> Iterator[list[int]]:
        """Yield the numbers of consecutive blocks that make one frame."""
        numbers: list[int] = []
        n_rows = n_bytes = 0
        for number, (rows, nbytes) in enumerate(self.sizes):
            if numbers and (n_rows + rows > BLOCK_ROWS or n_bytes + nbytes > BLOCK_BYTES):
                yield numbers
                numbers, n_rows, n_bytes = [], 0, 0
            numbers.append(number)
            n_rows, n_bytes = n_rows + rows, n_bytes + nbytes
        if numbers:
            yield numbers


def _columns_at(opened: IO[bytes], start: int) -> dict[str, pa.Array]:
    opened.seek(start)
    with pa.ipc.open_stream(opened) as reader:
        batch = reader.read_next_batch()
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _by_line(
    path: Path, run_id: str, problems: Problems, folder: Path, on_progress: Progress
) -> RunOnDisk:
    """Read the file by the per-line reader."""
    spools = {kind: _RecordSpool(folder / f"{kind}.pickle") for kind in LINE_TABLES}
    tables, ids = Tables(), []
    n_failed = n_chars = 0

    def lines() -> Iterator[str]:
        nonlocal n_chars
        for line in text_lines(path, on_progress):
            n_chars += len(line)
            yield line

    def flush() -> None:
        for kind, spool in spools.items():
            records = getattr(tables, kind)
            for record in records:
                record["run_id"] = run_id
            spool.add(records)
            records.clear()

    for row in json_rows(path, problems, lines()):
        n_responses = len(tables.responses)
        n_before = {kind: len(getattr(tables, kind)) for kind in LINE_TABLES}
        read_record(row, tables, problems)
        if len(tables.responses) > n_responses:
            ids.append(tables.responses[-1]["query_id"])
            n_failed += tables.responses[-1].get("error") is not None
            for kind, spool in spools.items():
                spool.rows_per_response.append(len(getattr(tables, kind)) - n_before[kind])
        if n_chars > arrow_lines.BLOCK_BYTES:
            n_chars = 0
            flush()
    flush()
    is_stated = tables.states_refusals and not tables.leaves_refusals
    on_disk = {
        kind: TableOnDisk(
            _settled(kind, partial(spool.frames, kind), is_stated),
            np.array(spool.rows_per_response, dtype=np.int64),
        )
        for kind, spool in spools.items()
        if spool.witnesses
    }
    return RunOnDisk(on_disk, pd.Series(ids, dtype="str"), n_failed)


@dataclass
class _RecordSpool:
    """The records of one table on disk, and the witnesses among them of its columns.

    Witnesses are the first record with each column, and with each type of value in it: together
    they have the columns and types of the whole table.
    """

    file: Path
    rows_per_response: list[int] = field(default_factory=list)
    witnesses: list[dict[str, Any]] = field(default_factory=list)
    seen: set[tuple[str, type, bool]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.file.write_bytes(b"")

    def add(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            types = {
                (name, type(value), type(value) is int and abs(value) > LARGEST_EXACT_FLOAT)
                for name, value in record.items()
            }
            if not types <= self.seen:
                self.seen |= types
                self.witnesses.append(record)
        with self.file.open("ab") as out:
            for first in range(0, len(records), BLOCK_ROWS):
                pickle.dump(records[first : first + BLOCK_ROWS], out)

    def frames(self, kind: str) -> Iterator[pd.DataFrame]:
        n = len(self.witnesses)
        with self.file.open("rb") as opened:
            while opened.peek(1):  # our own records, written above
                # Behind the witnesses, a few rows get the columns and types of the whole table.
                records = unify_types([*self.witnesses, *pickle.load(opened)])
                yield from_records(records, kind).iloc[n:]
