"""The tables of runs as Parquet, one file per table and part.

A part is a range of a run's responses with about `PART_HITS` hits, and has files of its own: small
runs have one part. In: `Results`, and what a scoring made of them. Out: files, or `Results`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import chain, groupby
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.frames.codes import codes_of, is_among, response_of
from ragscore.frames.data import (
    KINDS,
    DataError,
    Results,
    categorical,
    check_type,
    conform,
    empty,
)
from ragscore.frames.errors import name_list
from ragscore.io.files import naming
from ragscore.store.runs import Draft, StoredRun

FRAMES = (
    "responses", "hits", "citations", "hit_meta", "judgments", "chunks", "reported", "calls",
    "documents", "problems",
)  # fmt: skip
ADDED = ("judgments", "chunks", "citations", "hit_meta", "reported", "calls", "documents")
IN_PARTS = ("responses", "hits", "citations", "hit_meta", "judgments", "calls")
SHARED = ("chunks", "documents", "problems")  # their rows may belong to no run
PART_HITS = 2**20  # scoring so many takes some 150 MB, without their texts
IN_THREADS = 2**16  # rows from which arrow's threads pay for one file
Part = tuple[StoredRun, int]


def only_run(results: Results, run_id: str) -> Results:
    """Return one of the runs; what was put into its frames since they were loaded is checked."""
    frames = {item.name: getattr(results, item.name) for item in fields(results)}
    return replace(results, **{
        name: rows_of_run(frame, run_id, with_shared=name in SHARED)
        for name, frame in frames.items()
        if frame is not None and "run_id" in frame
    })  # fmt: skip


def rows_of_run(frame: pd.DataFrame, run_id: str, *, with_shared: bool = False) -> pd.DataFrame:
    """Return the rows of a run; `with_shared`, also the rows that belong to no run."""
    codes, known = codes_of(frame["run_id"]), frame["run_id"].cat.categories.astype("str")
    holds = codes == known.get_loc(run_id) if run_id in known else np.zeros(len(frame), bool)
    rows = frame[holds | (codes < 0) if with_shared else holds]
    return rows.assign(run_id=categorical(np.where(codes_of(rows["run_id"]) < 0, -1, 0), [run_id]))


def write_run(draft: Draft, run: Results, text: int | None) -> None:
    """Write every table of a run, in as many parts as its hits ask for."""
    n_hits = np.bincount(response_of(run.hits, run.responses) + 1, minlength=len(run.responses) + 1)
    part = np.cumsum(n_hits)[:-1] // PART_HITS
    begins = np.flatnonzero(np.diff(part, prepend=-1)) if len(part) else np.zeros(1, np.int64)
    for kind in FRAMES:
        frame = getattr(run, kind)
        if frame is not None and (len(frame) or kind == "responses"):
            parts = [frame]
            if len(begins) > 1 and "query_id" in frame:
                # rows without a response belong to the first part
                place = response_of(frame, run.responses).clip(min=0)
                of_part = np.searchsorted(begins, place, "right") - 1
                parts = [frame[of_part == number] for number in range(len(begins))]
            for rows in parts:
                write_table(draft, kind, cut(rows, text) if kind == "hits" else rows)


def write_pieces(draft: Draft, pieces: Iterable[Any]) -> None:
    """Write the tables of a run that comes piece by piece, of whole queries each.

    Raises
    ------
    DataError
        A piece of another run; a query in two pieces.
    """
    held: list[Results] = []
    shared: dict[str, list[pd.DataFrame]] = {}
    seen, strangers = set[str](), set[str]()
    for piece in pieces:
        check_type(piece, Results, "results", "pieces as Results")
        if (names := piece.runs["run_id"].astype("str").tolist()) != [draft.run_id]:
            raise DataError(f"a piece of {name_list(names)}", field="results", allowed=draft.run_id)
        own = set(piece.responses["query_id"])
        frames = [one for kind in IN_PARTS if (one := getattr(piece, kind)) is not None]
        strangers |= {*chain.from_iterable(one["query_id"].unique() for one in frames)} - own
        if twice := sorted(own & seen):
            raise DataError(
                f"{twice[0]!r} is in two pieces", field="results", allowed="each query in one piece"
            )
        seen |= own
        held.append(piece)
        for kind in ("reported", *SHARED):
            if (frame := getattr(piece, kind)) is not None and len(frame):
                shared.setdefault(kind, []).append(frame)
        if sum(len(one.hits) for one in held) >= PART_HITS:
            _write_part(draft, held)
            held = []
    if held:
        _write_part(draft, held)
    if split := sorted(strangers & seen):
        raise DataError(
            f"rows of {split[0]!r} are in another piece than its response",
            field="results",
            allowed="whole queries in each piece",
        )
    for kind, frames in shared.items():
        write_table(draft, kind, pd.concat(frames, ignore_index=True).drop_duplicates())
    for kind in [kind for kind, files in draft.files.items() if not any(files)]:
        del draft.files[kind]


def _write_part(draft: Draft, pieces: list[Results]) -> None:
    n_before = len(draft.files.get("responses", ()))
    for kind in IN_PARTS:
        found = [one for piece in pieces if (one := getattr(piece, kind)) is not None]
        rows = pd.concat(found, ignore_index=True) if found else empty(kind)
        files = draft.files.setdefault(kind, [None] * n_before)
        if len(rows) or kind == "responses":
            write_table(draft, kind, rows)
        else:
            files.append(None)


def write_table(draft: Draft, kind: str, rows: pd.DataFrame) -> None:
    """Write the file of a table, or of its next part."""
    rows = rows.assign(run_id=categorical(np.zeros(len(rows), np.int8), [draft.run_id]))
    out = pa.BufferOutputStream()
    table = pa.Table.from_pandas(rows, preserve_index=False)
    # Of scores, whose columns are text and numbers, the schema would take as much room again.
    pq.write_table(
        table, out, compression="zstd", row_group_size=max(len(rows), 1), write_statistics=False,
        store_schema=kind in FRAMES,
    )  # fmt: skip
    filled = [name for name in table.column_names if table[name].null_count < len(table)]
    draft.add(kind, out.getvalue(), len(rows), filled)


def cut(hits: pd.DataFrame, text: int | None) -> pd.DataFrame:
    """Return hits with their texts cut to so many characters; `text_cut` marks those that were."""
    if text is None or "text" not in hits:
        return hits
    before = hits["text_cut"].fillna(False) if "text_cut" in hits else False
    is_cut = (hits["text"].str.len() > text).fillna(False) | before
    kept = hits.drop(columns="text")
    if text:
        kept = hits.assign(text=hits["text"].str.slice(0, text))
    return conform(kept.assign(text_cut=is_cut.astype("boolean")), "hits")


def check_columns(frame: pd.DataFrame, kind: str) -> None:
    """Refuse columns that Parquet can't hold: values of several types."""
    for name in [name for name, column in frame.items() if column.dtype == object]:
        try:
            pa.array(frame[name], from_pandas=True)
        except (pa.ArrowException, ValueError) as error:
            raise DataError(
                f"values of several types ({error})",
                field=f"{kind}.{name}",
                allowed="values of one type, such as text",
            ) from error


def read_table(
    run: StoredRun, kind: str, part: int = 0, is_read: Callable[[str], bool] = bool
) -> pa.Table | None:
    """Read a table of a part, or columns of it; None if it has none.

    One file for all parts is read whole.
    """
    files = run.files.get(kind) or [None]
    entry = files[part] if len(files) > 1 else files[0]
    if entry is None:
        return None
    data = run.read(entry)
    where = run.place.where(f"{run.folder}/{entry.name}")
    with naming(where):
        source = pq.ParquetFile(pa.BufferReader(data))
        names = [name for name in source.schema_arrow.names if is_read(name)]
        return source.read(names, use_threads=entry.n_rows > IN_THREADS)


def map_threads(work: Any, items: Sequence[Any]) -> list[Any]:
    """Return `work` of each item, several at once: arrow decodes without Python's lock."""
    size = max(len(items) // (8 * pa.cpu_count()), 1)
    some = [items[first : first + size] for first in range(0, len(items), size)]
    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        return [one for found in pool.map(lambda own: list(map(work, own)), some) for one in found]


def read_frame(
    run: StoredRun, kind: str, is_read: Callable[[str], bool] = bool
) -> pd.DataFrame | None:
    """Read a table of all parts of a run as it is; None if it has none."""
    n_files = len(run.files.get(kind, ()))
    tables = [read_table(run, kind, part, is_read) for part in range(n_files)]
    found = [one for one in tables if one is not None]
    return pa.concat_tables(found, promote_options="permissive").to_pandas() if found else None


def read_parts(
    parts: Sequence[Part],
    about: pd.DataFrame,
    kinds: Iterable[str] = FRAMES,
    without: Sequence[str] = (),
) -> Results:
    """Read parts of runs; `about` are the runs' rows of the runs frame, each once, in order.

    Columns of hits and chunks that are named `without` aren't needed; "x_*": columns of your own.
    """
    run_ids = about["run_id"].astype("str").tolist()
    numbers = {run_id: number for number, run_id in enumerate(run_ids)}
    found, n_asked = {}, Counter(run.run_id for run, _ in parts)
    for kind in [one for one in kinds if any(run.files.get(one) for run, _ in parts)]:

        def read(part: Part, kind: str = kind) -> pa.Table | None:
            is_whole = n_asked[part[0].run_id] == part[0].n_parts
            return _part_table(*part, kind, without, is_whole)

        tables = map_threads(read, parts)
        rows = [
            (numbers[run.run_id], table)
            for (run, _), table in zip(parts, tables, strict=True)
            if table is not None
        ]
        if rows:
            with naming(parts[0][0].place.where(parts[0][0].folder)):
                found[kind] = _frame(rows, kind, pd.CategoricalDtype(run_ids))
    return Results(runs=about.assign(run_id=run_ids).reset_index(drop=True), **found)


def _part_table(
    run: StoredRun, part: int, kind: str, without: Sequence[str], is_whole: bool
) -> pa.Table | None:
    """Read what a part has of a table; of one file for all parts, the rows of its queries."""
    has_one_file = run.n_parts > len(run.files.get(kind, ())) == 1
    if has_one_file and is_whole and part:
        return None
    known, prefixes = KINDS[kind].dtypes, KINDS[kind].open_prefixes or ("\0",)
    left_out = {"run_id", *(without if kind in ("hits", "chunks") else ())}

    def is_read(name: str) -> bool:
        is_open = name.startswith("x_") and "x_*" in left_out
        is_known = name in known or name.startswith(prefixes)
        return is_known and name not in left_out and not is_open

    table = read_table(run, kind, part, is_read)
    if table is not None and has_one_file and not is_whole and "query_id" in table.column_names:
        own = read_table(run, "responses", part, "query_id".__eq__)
        assert own is not None
        holds = is_among(table["query_id"].to_pandas(), own["query_id"].to_pandas())
        table = table.filter(pa.array(holds))
    return table


def _frame(rows: list[tuple[int, pa.Table]], kind: str, run_ids: pd.CategoricalDtype) -> Any:
    frames = []
    for _, some in groupby(rows, lambda one: (str(one[1].schema), one[1].schema.metadata)):
        own = list(some)  # tables that are alike become a frame at once
        run = np.repeat([number for number, _ in own], [len(table) for _, table in own])
        frame = pa.concat_tables([table for _, table in own]).to_pandas()
        frames.append(conform(frame.assign(run_id=categorical(run, run_ids)), kind))
    return frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
