"""Write a run file of any size into a store.

The file is read block by block and written row group by row group. In: a `per_query.jsonl`. Out:
its tables as `tables.write_run` writes them, and the content of its run.json.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import Results, conform, empty
from ragscore.io.per_query import stream_per_query
from ragscore.io.progress import progress_bar
from ragscore.io.sidecars import run_description
from ragscore.io.source import Problems
from ragscore.io.stream import TableOnDisk
from ragscore.store import tables as run_tables
from ragscore.store.disk import STAGING
from ragscore.store.draft import Draft
from ragscore.store.parquet import as_table, of_run, write_frame, write_groups
from ragscore.store.runs import StoredRun
from ragscore.store.scoring import ScoringRequest, score_written_run
from ragscore.store.tables import by_response, groups_at, with_text, write_scores

# Memory that a row group may take before it is written: with long texts it ends earlier.
GROUP_BYTES = 1 << 27


def write_file(
    draft: Draft,
    file: Path,
    run: dict[str, Any],
    problems: Problems,
    request: ScoringRequest | None,
    text: str,
    progress: bool | None,
) -> dict[str, Any]:
    """Write the tables of a run file, and its scores if some are requested.

    Return the content of its run.json. `run` and `problems` are from `begin_run`.
    """
    # Scores are made from whole texts. Without any text nothing would tell that there were some.
    needs_text = request is not None and (request.reads_text or text == "none")
    text_first = "full" if needs_text else text
    with TemporaryDirectory(
        prefix=STAGING, dir=draft.folder if isinstance(draft.folder, Path) else None
    ) as spool:
        with _bar(file.stat().st_size, f"reading {run['run_id']}", "B", progress) as report:
            streamed, beside = stream_per_query(file, run, problems, Path(spool), report)
        problems.typos.warn()
        _write_tables(draft, streamed.tables, run["run_id"], text_first, progress)
        _write_beside(draft, beside, streamed.query_ids, run["run_id"])
        if "responses" not in streamed.tables:
            write_frame(draft, "responses", empty("responses"), run["run_id"])
        described = run_description(beside.runs) | {"text": text}
        if request is None:
            return described
        written = StoredRun(draft.root, draft.folder.name, draft.described(described), "")
        scored = score_written_run(written, beside, request)
        if text_first != text and "hits" in streamed.tables:
            _write_tables(
                draft,
                {kind: streamed.tables[kind] for kind in ("hits", "responses")},
                run["run_id"],
                text,
                progress,
            )
    return write_scores(draft, described, scored)


def _write_tables(
    draft: Draft, tables: dict[str, TableOnDisk], run_id: str, text: str, progress: bool | None
) -> None:
    """Write the tables of the records.

    Hits come first. Responses get the same row groups, so that a part reads one of each.
    """
    n_rows, begins = 0, [0]
    with _bar(
        sum(int(table.rows_per_response.sum()) for table in tables.values()),
        f"writing {run_id}",
        "row",
        progress,
    ) as report:
        for kind in sorted(tables, key=lambda kind: kind != "hits"):
            read = _reported(_read(kind, tables[kind], run_id, text), n_rows, report)
            groups = _in_groups(
                read, tables[kind].rows_per_response, begins if kind == "responses" else [0]
            )
            lengths = tables[kind].rows_per_response.astype(np.int32) if kind == "hits" else None
            written = write_groups(draft, kind, groups, lengths)
            begins = written if kind == "hits" else begins
            n_rows += int(tables[kind].rows_per_response.sum())


def _write_beside(draft: Draft, beside: Results, query_ids: pd.Series, run_id: str) -> None:
    """Write the tables from files of their own beside the records, and what could not be read."""
    for kind in ("judgments", "problems"):
        frame = getattr(beside, kind)
        if frame is not None and len(frame):
            kept, groups = by_response(
                frame,
                pd.DataFrame({"run_id": run_id, "query_id": query_ids}).astype(
                    {"run_id": frame["run_id"].dtype}
                ),
            )
            write_frame(draft, kind, kept, run_id, groups)


def _read(kind: str, spooled: TableOnDisk, run_id: str, text: str) -> Iterator[pa.Table]:
    """Yield a table of the run, some rows at a time, as `write_run` writes it."""
    for frame in spooled.frames():
        rows = conform(frame, kind)
        yield as_table(of_run(with_text(rows, text) if kind == "hits" else rows, run_id))


def _reported(
    tables: Iterable[pa.Table], n_rows: int, report: Callable[[int], object]
) -> Iterator[pa.Table]:
    """Yield the same tables, and report the number of rows after each."""
    for table in tables:
        n_rows += len(table)
        yield table
        report(n_rows)


def _in_groups(
    tables: Iterable[pa.Table], rows_per_response: npt.NDArray[np.int64], begins: list[int]
) -> Iterator[tuple[pa.Table, int]]:
    """Yield row groups, each with the response that it begins at.

    They begin at the responses `begins`, if there are several, else where `by_response` would begin
    them. The first one begins at the first response, whether that has rows or not.
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
    """Regroup tables, which end between responses.

    Groups begin at these rows, and wherever one more table would make a group too large.
    """
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
    """Yield a function that takes the work done so far, and shows it as a progress bar."""
    with progress_bar(total, what, unit, progress, unit_scale=True) as bar:
        yield lambda done: bar.update(done - bar.n)
