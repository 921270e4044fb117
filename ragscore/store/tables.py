"""Write the tables of a run, and read those of one or many runs back as they were.

In: `Results` and what a scoring made of them, or stored runs and their rows of the runs frame. Out:
Parquet files and the content of run.json, or `Results`. Small runs are read together: arrow joins
their tables, and each becomes a frame once, in a fraction of the time.
"""

from dataclasses import fields, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import codes_of
from ragscore.frames.data import DataError, Results, categorical, conform, rows_where
from ragscore.io.sidecars import run_description
from ragscore.io.source import UNFORESEEN
from ragscore.scoring.rows import response_of
from ragscore.store.checked import json_object
from ragscore.store.described import METRICS_JSON, check_content
from ragscore.store.draft import Draft
from ragscore.store.parquet import (
    Groups,
    Lengths,
    columns_without,
    known_columns,
    open_parquet,
    read_each,
    read_frame,
    write_frame,
    write_parquet,
)
from ragscore.store.runs import StoredRun

FRAMES = (
    "responses",
    "hits",
    "citations",
    "hit_meta",
    "judgments",
    "chunks",
    "reported",
    "calls",
    "documents",
    "problems",
)
# Rows of a row group in a large table. A part of a run reads whole groups, and each has its own
# dictionaries: few large groups read faster, and two million hits still fit in memory.
GROUP_ROWS = 2**21
CUT_AT = 200  # characters of hit text that a store keeps by default


def only_run(results: Results, run_id: str) -> Results:
    """Return one of the runs, as `results.select` does.

    What was put into its frames since they were loaded is checked again.
    """
    frames = {item.name: getattr(results, item.name) for item in fields(results)}
    own = {}
    for name, frame in frames.items():
        if frame is not None and "run_id" in frame:
            is_shared = name in ("chunks", "documents", "problems")
            own[name] = rows_of_run(frame, run_id, with_shared=is_shared)
    return replace(results, **own)


def rows_of_run(frame: pd.DataFrame, run_id: str, *, with_shared: bool = False) -> pd.DataFrame:
    """Return the rows of a run; with those of no run in particular, if they are `with_shared`."""
    codes, known = codes_of(frame["run_id"]), frame["run_id"].cat.categories.astype("str")
    holds = codes == known.get_loc(run_id) if run_id in known else np.zeros(len(frame), bool)
    rows = rows_where(frame, holds | (codes < 0) if with_shared else holds)
    code = np.where(codes_of(rows["run_id"]) < 0, -1, 0)
    return rows.assign(run_id=categorical(code, [run_id]))


def write_run(
    draft: Draft, run: Results, text: str, scored: dict[str, Any] | None
) -> dict[str, Any]:
    """Write every table of a run, and its scores if there are some.

    Return the content of its run.json, which is not written here.
    """
    run_id = str(run.runs["run_id"].iloc[0])
    hits, of_hits = by_response(run.hits, run.responses)
    for kind in FRAMES:
        frame = getattr(run, kind)
        if frame is not None and (len(frame) or kind == "responses"):
            kept, groups = (hits, of_hits) if kind == "hits" else by_response(frame, run.responses)
            if kind == "responses" and of_hits is not None:
                # Grouped as the hits are, so that a part reads one group of each.
                groups = of_hits[1], of_hits[1]
            lengths = lengths_in_order(kept, run.responses) if kind == "hits" else None
            write_frame(
                draft,
                kind,
                with_text(kept, text) if kind == "hits" else kept,
                run_id,
                groups,
                lengths,
            )
    described = run_description(run.runs) | {"text": text}
    return described if scored is None else write_scores(draft, described, scored)


def by_response(frame: pd.DataFrame, responses: pd.DataFrame) -> tuple[pd.DataFrame, Groups | None]:
    """Sort a large table by response, and return where its row groups begin.

    They begin between two responses, so that a range of queries can be read alone. Small tables
    stay as they are, in one group. Rows of a query without a response come last.
    """
    if len(frame) <= GROUP_ROWS or "query_id" not in frame:
        return frame, None
    place = response_of(frame, responses)
    place = np.where(place < 0, max(len(responses) - 1, 0), place)
    if (np.diff(place) < 0).any():
        order = np.argsort(place, kind="stable")
        frame, place = frame.iloc[order], place[order]
    # A group ends with the response at which it is full.
    return frame, groups_at(np.searchsorted(place, np.arange(len(responses) + 1)))


def lengths_in_order(frame: pd.DataFrame, responses: pd.DataFrame) -> Lengths | None:
    """Return the number of rows of each response, from which the query of each row follows.

    None if rows don't lie in the order of the responses, or have no response.
    """
    place = response_of(frame, responses)
    if place.min(initial=0) < 0 or (np.diff(place) < 0).any():
        return None
    return np.bincount(place, minlength=len(responses)).astype(np.int32)


def groups_at(first_row: npt.NDArray[np.int64]) -> Groups:
    """Return the row groups of a large table.

    `first_row` holds the first row of each response, and the number of rows.
    """
    number = first_row[:-1] // GROUP_ROWS
    starts = np.flatnonzero(np.diff(number, prepend=-1) > 0)
    rows, kept = np.unique(first_row[starts], return_index=True)
    return rows.tolist(), [0, *starts[kept][1:].tolist()]


def write_scores(draft: Draft, described: dict[str, Any], scored: dict[str, Any]) -> dict[str, Any]:
    """Write scores and metrics of a run.

    Return the content of its run.json with the scoring, which is not written here.
    """
    run_id = str(described["run_id"])
    write_parquet(draft, "scores", scored["scores"].reset_index())
    write_parquet(draft, "golden", scored["golden"])
    summary = scored["summary"].drop(columns="run_id").set_index("metric")
    values = summary.astype(object).where(summary.notna(), None).to_dict("index")
    draft.write_json(
        "metrics",
        {
            "run_id": run_id,
            **{k: v for k, v in scored["scoring"].items() if k != "provenance"},
            "metrics": values,
        },
    )
    return described | {
        "golden_hash": scored["scoring"]["golden_hash"],
        "scoring": scored["scoring"],
    }


def with_text(hits: pd.DataFrame, text: str) -> pd.DataFrame:
    """Return hits with their text cut or dropped; `text_cut` marks those that lack some."""
    if text == "full" or "text" not in hits:
        return hits
    if text == "none":
        return conform(
            hits.drop(columns="text").assign(text_cut=hits["text"].notna().astype("boolean")),
            "hits",
        )
    before = hits["text_cut"].fillna(False) if "text_cut" in hits else False
    is_cut = (hits["text"].str.len() > CUT_AT).fillna(False) | before
    return conform(
        hits.assign(text=hits["text"].str.slice(0, CUT_AT), text_cut=is_cut.astype("boolean")),
        "hits",
    )


def read_run(run: StoredRun, runs: pd.DataFrame) -> Results:
    """Read a run as it was saved; `runs` is its row of the runs frame."""
    frames: dict[str, Any] = {
        kind: read_frame(run.table(kind), kind)
        for kind in FRAMES
        if kind == "responses" or kind in run.entries
    }
    return Results(
        runs=runs.assign(run_id=runs["run_id"].astype("str")).reset_index(drop=True), **frames
    )


def read_metrics(run: StoredRun) -> pd.DataFrame:
    """Read the metrics of a run: one row per metric."""
    file = run.table("metrics")
    content = json_object(file.read_bytes(), str(file))
    check_content(content, METRICS_JSON, str(file))
    if content["run_id"] != run.run_id:
        raise DataError(
            f"found {content['run_id']!r}", file=str(file), field="run_id", allowed=run.run_id
        )
    return pd.DataFrame(
        [
            {"run_id": content["run_id"], "metric": name, **values}
            for name, values in content["metrics"].items()
        ]
    )


MANY_ROWS = 2**16  # from which reading columns in threads is faster


class _OddTable(Exception):
    """A table is not as the store writes it."""


def read_runs(
    runs: list[StoredRun],
    about: pd.DataFrame,
    kinds: tuple[str, ...] = FRAMES,
    without: tuple[str, ...] = (),
) -> Results:
    """Read runs as they were saved.

    Parameters
    ----------
    about
        Their rows of the runs frame, in the same order.
    kinds
        The tables to read; responses always are.
    without
        Columns of hits and chunks that aren't needed; "x_*" are all columns of your own.
    """
    about = about.assign(run_id=about["run_id"].astype("str")).reset_index(drop=True)
    try:
        frames: dict[str, Any] = {}
        for kind in kinds if "responses" in kinds else ("responses", *kinds):
            found = [n for n, run in enumerate(runs) if kind == "responses" or kind in run.entries]
            left_out = without if kind in ("hits", "chunks") else ()
            read = partial(_table, kind=kind, without=left_out)
            tables = dict(zip(found, read_each(read, [runs[n] for n in found]), strict=True))
            frames[kind] = _frame(
                {n: table for n, table in tables.items() if len(table) or kind == "responses"},
                kind,
                about["run_id"],
            )
        return Results(
            runs=about, **{kind: frame for kind, frame in frames.items() if frame is not None}
        )
    # Read one by one, tables may differ between runs, and an error names the file.
    except (pa.ArrowException, _OddTable, *UNFORESEEN):
        return Results.concat([read_run(run, about.iloc[n : n + 1]) for n, run in enumerate(runs)])


def _table(run: StoredRun, kind: str, without: tuple[str, ...]) -> pa.Table:
    """Read a table of one run without its run_id, which must be the same in every row."""
    with open_parquet(run.table(kind)) as source:
        names = known_columns(columns_without(source, without), kind)
        if "run_id" not in names or (kind == "calls" and "call" not in names):
            raise _OddTable
        table = source.read(names, use_threads=source.metadata.num_rows > MANY_ROWS)
    if not _is_all(table["run_id"], run.run_id):
        raise _OddTable
    return table.drop_columns(["run_id"])


def _is_all(column: pa.ChunkedArray, run_id: str) -> bool:
    if column.null_count or not pa.types.is_dictionary(column.type):
        return False
    return all(
        not len(chunk) or chunk.dictionary.to_pylist() == [run_id] for chunk in column.chunks
    )


def _frame(tables: dict[int, pa.Table], kind: str, run_ids: pd.Series) -> pd.DataFrame | None:
    """Join tables of runs, by their number, to one frame; None without any."""
    dtype = pd.CategoricalDtype(run_ids.tolist())
    frames = []
    for numbers in _stretches(tables):
        rows = [tables[n] for n in numbers]
        run = np.repeat(numbers, [len(table) for table in rows])
        frames.append(
            conform(pa.concat_tables(rows).to_pandas().assign(run_id=categorical(run, dtype)), kind)
        )
    return (
        frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True) if frames else None
    )


def _stretches(tables: dict[int, pa.Table]) -> list[list[int]]:
    """Return the numbers of successive runs whose tables have the same schema.

    Tables with categories of your own stay alone: their codes differ from run to run.
    """
    groups: list[list[int]] = []
    for number, table in tables.items():
        before = tables[groups[-1][-1]].schema if groups else None
        if (
            before is not None
            and before.equals(table.schema, check_metadata=True)
            and not any(pa.types.is_dictionary(one) for one in before.types)
        ):
            groups[-1].append(number)
        else:
            groups.append([number])
    return groups
