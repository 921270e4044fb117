"""A run file of any size, block by block.

What is read goes to disk, and comes back as frames of a few rows once all of the file is known.

Only then is it known which columns there are and of what type, so each table is held twice for a
moment, on disk. In memory are a few blocks, and of each record its id. Both readers of the format
are used as `read_per_query` uses them: the fast one, and for a file that it declines the per-line
one.
"""

import pickle
from collections.abc import Callable, Iterator
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
    column_of,
    frame_of,
    parse_blocks,
)
from ragscore.io.record import Tables, read_record
from ragscore.io.source import Problems, json_rows, text_lines
from ragscore.io.values import unify_types

BLOCK_ROWS = 1 << 14
"""Rows of a frame that comes back, about: fewer cost time for each frame, more memory."""
BLOCK_BYTES = 1 << 25
LINE_TABLES = ("responses", "hits", "citations", "hops", "hit_meta")
Progress = Callable[[int], object]


@dataclass
class TableOnDisk:
    """One table of a run on disk.

    `frames` reads it anew, `n_of` says how many rows each response has in it.
    """

    frames: Callable[[], Iterator[pd.DataFrame]]
    rows_per_response: npt.NDArray[np.int64]


@dataclass
class RunOnDisk:
    """A run that was read.

    Its tables by kind, the ids of its responses, and how many of them failed.
    """

    tables: dict[str, TableOnDisk]
    query_ids: pd.Series
    n_failed: int


def stream_records(
    path: Path, run_id: str, problems: Problems, folder: Path, on_progress: Progress
) -> RunOnDisk:
    """Read a file of records into `folder`, from where its tables come.

    Those that have rows, and `responses`.

    Raises
    ------
    DataError
        As `read_per_query`. What that one warns of is left in `problems.slips`.
    """
    large = path.stat().st_size >= arrow_lines.FROM_BYTES
    return (_fast(path, run_id, folder, on_progress) if large else None) or _by_line(
        path, run_id, problems, folder, on_progress
    )


def _fast(path: Path, run_id: str, folder: Path, on_progress: Progress) -> RunOnDisk | None:
    """The file by the fast reader; None where that one declines."""
    seen, spools = FileColumns(), {kind: _ColumnSpool(folder / f"{kind}.arrows") for kind in FRAMES}
    ids: list[pa.Array] = []
    n_failed, blocks = 0, parse_blocks(path, on_progress)
    while True:
        try:
            block = next(blocks, None)
            if block is None:
                types = seen.types()
                break
            seen.take(block)
        except FALLBACK_ERRORS:
            for spool in spools.values():
                spool.file.unlink()  # the room is needed
            return None
        responses = block.columns["responses"]
        ids.append(responses["query_id"])
        n_failed += (
            len(responses["error"]) - responses["error"].null_count if "error" in responses else 0
        )
        for kind, spool in spools.items():
            spool.add(block, kind)
    tables = {
        kind: TableOnDisk(
            partial(spools[kind].frames, kind, types[kind], run_id),
            np.concatenate(spools[kind].rows_per_response),
        )
        for kind in FRAMES
        if types[kind]
    }
    return RunOnDisk(tables, pd.Series(pa.chunked_array(ids).to_pandas(), dtype="str"), n_failed)


@dataclass
class _ColumnSpool:
    """Columns of one table on disk, those that each block has.

    An Arrow stream after the other in one file.
    """

    file: Path
    starts: list[int] = field(default_factory=list)
    rows_per_response: list[npt.NDArray[np.int64]] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.file.write_bytes(b"")

    def add(self, block: Block, kind: str) -> None:
        columns = block.columns[kind]
        self.rows_per_response.append(
            np.bincount(block.rows[kind], minlength=len(block.rows["responses"]))
        )
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
            for group in _batches(self.sizes):
                read = [_columns_at(opened, self.starts[number]) for number in group]
                yield frame_of(
                    kind,
                    {
                        name: pa.chunked_array([column_of(one, name, type_) for one in read], type_)
                        for name, type_ in types.items()
                    },
                    run_id,
                )


def _columns_at(opened: IO[bytes], start: int) -> dict[str, pa.Array]:
    opened.seek(start)
    with pa.ipc.open_stream(opened) as reader:
        batch = reader.read_next_batch()
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _batches(sizes: list[tuple[int, int]]) -> Iterator[list[int]]:
    """Numbers of blocks that follow each other, as many as make a frame."""
    group: list[int] = []
    n_rows = n_bytes = 0
    for number, (rows, nbytes) in enumerate(sizes):
        if group and (n_rows + rows > BLOCK_ROWS or n_bytes + nbytes > BLOCK_BYTES):
            yield group
            group, n_rows, n_bytes = [], 0, 0
        group.append(number)
        n_rows, n_bytes = n_rows + rows, n_bytes + nbytes
    if group:
        yield group


def _by_line(
    path: Path, run_id: str, problems: Problems, folder: Path, on_progress: Progress
) -> RunOnDisk:
    """The file by the per-line reader."""
    spools = {kind: _RecordSpool(folder / f"{kind}.pickle") for kind in LINE_TABLES}
    tables, ids = Tables(), []
    n_failed = n_bytes = 0
    for row in json_rows(path, problems, _counted(text_lines(path, on_progress), counts := [0])):
        before = len(tables.responses)
        sizes = {kind: len(getattr(tables, kind)) for kind in LINE_TABLES}
        read_record(row, tables, problems)
        if len(tables.responses) > before:
            ids.append(tables.responses[-1]["query_id"])
            n_failed += tables.responses[-1]["error"] is not None
            for kind, spool in spools.items():
                spool.rows_per_response.append(len(getattr(tables, kind)) - sizes[kind])
        if counts[0] - n_bytes > arrow_lines.BLOCK_BYTES:
            n_bytes = counts[0]
            _flush(tables, spools, run_id)
    _flush(tables, spools, run_id)
    kept = {
        kind: TableOnDisk(
            partial(spool.frames, kind), np.array(spool.rows_per_response, dtype=np.int64)
        )
        for kind, spool in spools.items()
        if spool.telling
    }
    return RunOnDisk(kept, pd.Series(ids, dtype="str"), n_failed)


def _counted(lines: Iterator[str], counts: list[int]) -> Iterator[str]:
    for line in lines:
        counts[0] += len(line)
        yield line


def _flush(tables: Tables, spools: dict[str, "_RecordSpool"], run_id: str) -> None:
    for kind, spool in spools.items():
        records = getattr(tables, kind)
        for record in records:
            record["run_id"] = run_id
        spool.add(records)
        records.clear()


@dataclass
class _RecordSpool:
    """Records of one table on disk, and those among them that tell its columns.

    The first of each column, and of each type of value in it.
    """

    file: Path
    rows_per_response: list[int] = field(default_factory=list)
    telling: list[dict[str, Any]] = field(default_factory=list)
    seen: set[tuple[str, type, bool]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.file.write_bytes(b"")

    def add(self, records: list[dict[str, Any]]) -> None:
        for record in records:
            shown = {
                (name, type(value), type(value) is int and abs(value) > LARGEST_EXACT_FLOAT)
                for name, value in record.items()
            }
            if not shown <= self.seen:
                self.seen |= shown
                self.telling.append(record)
        with self.file.open("ab") as out:
            for first in range(0, len(records), BLOCK_ROWS):
                pickle.dump(records[first : first + BLOCK_ROWS], out)

    def frames(self, kind: str) -> Iterator[pd.DataFrame]:
        n = len(self.telling)
        with self.file.open("rb") as opened:
            while opened.peek(1):  # our own records, written above
                # With the telling records in front, a few rows get the columns that all of them
                # together have.
                yield from_records(unify_types([*self.telling, *pickle.load(opened)]), kind).iloc[
                    n:
                ]
