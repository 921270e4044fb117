"""A run file of any size into a store.

Read block by block, written row group by row group, a part at a time in memory.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import Results, conform, empty
from ragscore.io.per_query import begin_run, stream_per_query
from ragscore.io.sidecars import run_description
from ragscore.io.source import Problems
from ragscore.io.stream import TableOnDisk
from ragscore.store import tables as run_tables
from ragscore.store.files import Place, as_table, of_run, write_frame, write_groups
from ragscore.store.runs import Stored, put_run
from ragscore.store.scoring_in_parts import Wanted, scored_in_parts
from ragscore.store.tables import by_response, groups_at, with_text, write_scores

# of a row group, in memory before it is written: long texts make it end before it has all its rows
GROUP_BYTES = 1 << 27
Begun = tuple[dict[str, Any], Problems]


def begin(file: Path, strict: bool) -> Begun:
    """What is known of a run before its records are read, its `run_id` first."""
    return begin_run(file, strict)


def ingest_run(
    root: Place,
    file: Path,
    begun: Begun,
    wanted: Wanted | None,
    *,
    overwrite: bool,
    text: str,
    progress: bool | None,
) -> None:
    """Bring a run into the store, as `begin` began it, and its scores, if some are wanted.

    Whole or not at all.
    """
    write = partial(_write, file=file, begun=begun, wanted=wanted, text=text, progress=progress)
    put_run(root, begun[0]["run_id"], write, overwrite)


def _write(
    folder: Place, file: Path, begun: Begun, wanted: Wanted | None, text: str, progress: bool | None
) -> dict[str, Any]:
    """The tables of a run; returned is the content of its run.json."""
    run, problems = begun
    # Scores are made of whole texts; without any, nothing would tell that there were some.
    text_first = "full" if wanted is not None and (wanted.reads_text or text == "none") else text
    with TemporaryDirectory(
        prefix=".read-", dir=folder if isinstance(folder, Path) else None
    ) as spool:
        with _bar(file.stat().st_size, f"reading {run['run_id']}", "B", progress) as told:
            streamed, beside = stream_per_query(file, run, problems, Path(spool), told)
        problems.typos.warn()
        _write_tables(folder, streamed.tables, run["run_id"], text_first, progress)
        _write_beside(folder, beside, streamed.query_ids, run["run_id"])
        if "responses" not in streamed.tables:
            write_frame(folder / "responses.parquet", empty("responses"), run["run_id"])
        described = run_description(beside.runs) | {"text": text}
        if wanted is None:
            return described
        made = scored_in_parts(Stored(folder.parent, folder.name, described, ""), beside, wanted)
        if text_first != text and "hits" in streamed.tables:
            _write_tables(
                folder,
                {kind: streamed.tables[kind] for kind in ("hits", "responses")},
                run["run_id"],
                text,
                progress,
            )
    return write_scores(folder, described, made)


def _write_tables(
    folder: Place, tables: dict[str, TableOnDisk], run_id: str, text: str, progress: bool | None
) -> None:
    """The tables of the records.

    Hits first, and responses in the same parts, so that one part of hits needs one of responses.
    """
    n_rows, begins = 0, [0]
    with _bar(
        sum(int(table.rows_per_response.sum()) for table in tables.values()),
        f"writing {run_id}",
        "row",
        progress,
    ) as told:
        for kind in sorted(tables, key=lambda kind: kind != "hits"):
            read = _told(_read(kind, tables[kind], run_id, text), n_rows, told)
            groups = _in_groups(
                read, tables[kind].rows_per_response, begins if kind == "responses" else [0]
            )
            written = write_groups(
                folder / f"{kind}.parquet",
                groups,
                tables[kind].rows_per_response.astype(np.int32) if kind == "hits" else None,
            )
            begins = written if kind == "hits" else begins
            n_rows += int(tables[kind].rows_per_response.sum())


def _write_beside(folder: Place, beside: Results, query_ids: pd.Series, run_id: str) -> None:
    """The tables that stand in files of their own beside the records, and what could not be taken."""
    for kind in ("judgments", "problems"):
        frame = getattr(beside, kind)
        if frame is not None and len(frame):
            kept, groups = by_response(
                frame,
                pd.DataFrame({"run_id": run_id, "query_id": query_ids}).astype(
                    {"run_id": frame["run_id"].dtype}
                ),
            )
            write_frame(folder / f"{kind}.parquet", kept, run_id, groups)


def _read(kind: str, spooled: TableOnDisk, run_id: str, text: str) -> Iterator[pa.Table]:
    """A table of the run, some rows at a time, as `write_run` writes it."""
    for frame in spooled.frames():
        rows = conform(frame, kind)
        yield as_table(of_run(with_text(rows, text) if kind == "hits" else rows, run_id))


def _told(
    tables: Iterable[pa.Table], n_rows: int, told: Callable[[int], object]
) -> Iterator[pa.Table]:
    for table in tables:
        n_rows += len(table)
        yield table
        told(n_rows)


def _in_groups(
    tables: Iterable[pa.Table], rows_per_response: npt.NDArray[np.int64], begins: list[int]
) -> Iterator[tuple[pa.Table, int]]:
    """Row groups that begin at these responses, if there are several, else as `by_response` makes them; each with its first response.

    The first one begins at the first response, whether that has rows or not.
    """
    first_row = np.concatenate([[0], np.cumsum(rows_per_response)])
    is_large = first_row[-1] > run_tables.GROUP_ROWS
    rows = (
        first_row[begins].tolist()
        if len(begins) > 1
        else groups_at(first_row)[0]
        if is_large
        else [0]
    )
    at = 0
    for group in _grouped(tables, rows):
        yield group, int(np.searchsorted(first_row, at)) if at else 0
        at += len(group)


def _grouped(tables: Iterable[pa.Table], rows: list[int]) -> Iterator[pa.Table]:
    """The same rows as row groups that begin at these rows, and wherever one more table would make them too large; tables end between responses."""
    kept: list[pa.Table] = []
    starts, at, n_bytes = np.array(rows), 0, 0
    for table in tables:
        inner = starts[(starts > at) & (starts < at + len(table))] - at
        for first, last in pairwise([0, *inner.tolist(), len(table)]):
            piece = table.slice(first, last - first)
            if kept and (at + first in rows or n_bytes + piece.nbytes > GROUP_BYTES):
                yield pa.concat_tables(kept)
                kept, n_bytes = [], 0
            kept.append(piece)
            n_bytes += piece.nbytes
        at += len(table)
    if kept:
        yield pa.concat_tables(kept)


@contextmanager
def _bar(
    total: int, what: str, unit: str, progress: bool | None
) -> Iterator[Callable[[int], object]]:
    """A function that hears how far the work is.

    It shows a bar where tqdm is installed, by default on a terminal only.
    """
    try:
        from tqdm import tqdm
    except ImportError:
        progress = False
    if progress is False:
        yield int
        return
    with tqdm(
        total=total,
        desc=what,
        unit=unit,
        unit_scale=True,
        disable=None if progress is None else False,
    ) as bar:
        yield lambda done: bar.update(done - bar.n)
