"""`Results` -> `per_query.jsonl` and `run.json`, so that loading gives the same frames again.

The inverse of run_file.py, whose tables of fields it shares. A row that reading would not give back
is an error, never a silent change.
"""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import name_list, warn
from ragscore.io.files import (
    check_one_run,
    json_line,
    write_bytes,
    write_lines,
    write_text,
)
from ragscore.io.formats.fields import objects_in, placed, rows_of
from ragscore.io.run_file import (
    ALSO,
    CALL,
    CITATION,
    CITATION_KINDS,
    HIT,
    JUDGMENTS_FILE,
    KIND_ALLOWED,
    NULLS,
    RECORD,
    SPAN,
    UNKNOWN,
    implied_refusals,
)
from ragscore.io.run_records import Fields
from ragscore.io.source import describe, parsed
from ragscore.io.values import (
    SPAN_ALLOWED,
    cells,
    grouped,
    objects_of,
    of_json,
    plain_values_of,
    refuse_taken,
    row_dicts,
    unflatten,
)

HIT_CELL = ["run_id", "query_id", "rank"]
# Frame -> places of fields that are no fields of one's own
KNOWN: dict[str, set[str]] = {
    "responses": {*RECORD, "hits_top_k", "answer", "answer.citations", "answer.hops"},
    "hits": {*HIT, *ALSO, "citation", "metadata", "span_unit"},
    "citations": {*CITATION, "citation", "span_unit"},
    "calls": {*CALL, "iter"},
}
# Fields that are written as null where they are unknown
NULL_COLUMNS = [f"x_{name}" for name in (*NULLS, "answer")]


def write_per_query(results: Results, path: str | Path) -> Path:
    """Write one run as `per_query.jsonl` with its `run.json` beside it.

    Loading the file gives the same runs, responses, hits, their metadata, citations and calls
    again, row for row in the order of the responses; fields that we have no column for go back to
    where they were. Other frames (chunks, ...) have no place in this format; `RunStore` keeps them,
    and `results.save(format="judgments")` writes judgments beside it. `n_queries` and `n_failed`
    are counted again on loading.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    path
        A folder, or a file that ends in .jsonl or .jsonl.gz; folders are created. `run.json` is
        only written beside a file called `per_query.jsonl`.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        `results` holds no run or more than one, or a row that the file could not give back: hits or
        citations of a query without a response, metadata of no hit, citation positions other than
        1, 2, 3, ..., half a span, an `x_` column that bears a known field's name.
    """
    check_one_run(results)
    described = run_description(results.runs)
    is_file = str(path).endswith((".jsonl", ".jsonl.gz"))
    file = Path(path) if is_file else Path(path) / "per_query.jsonl"
    text = "".join(f"{json_line(record)}\n" for record in _records(results))
    stem = file.name.removesuffix(".gz").removesuffix(".jsonl")
    if stem == "per_query":
        description = json.dumps(described, ensure_ascii=False, indent=1)
        return _write_both(file, text, f"{description}\n".encode())
    known = {name for name, value in described.items() if value} - {"n_queries", "n_failed"}
    if lost := known - ({"run_id"} if stem == described["run_id"] else set()):
        warn(
            f"{file}: there is no run.json beside it for {name_list(sorted(lost))}; name the file"
            " per_query.jsonl, or a folder"
        )
    return write_text(file, text)


def _write_both(file: Path, records: str, description: bytes) -> Path:
    """Write `per_query.jsonl` and `run.json`, never one run's records with another's description.

    No file system puts two files in place in one step. So an older description goes before the
    records change, and the new one comes after: a kill in between leaves records without one.
    """
    beside = Path(os.path.realpath(file.parent / "run.json"))
    old = beside.read_bytes() if beside.is_file() else description
    try:
        if old != description:
            beside.unlink()
        write_text(file, records)
    except BaseException:
        write_bytes(beside, old)
        raise
    write_bytes(beside, description)
    return file


def _records(results: Results) -> list[dict[str, Any]]:
    responses, ids = results.responses, results.responses["query_id"]
    _check_names(responses, "responses")
    phases = {name: (name, "number") for name in map(str, responses) if name.startswith("latency_")}
    columns = dict.fromkeys(NULL_COLUMNS, [None] * len(ids)) | placed(responses, RECORD | phases)
    hits = _rows(results, "hits", HIT | SPAN)
    citations = _rows(results, "citations", CITATION | SPAN)
    columns["x_hits_top_k"] = [hits.get(one, []) for one in ids]
    n_cited = responses.get("n_citations", pd.Series(pd.NA, responses.index))
    columns["x_answer.citations"] = [
        citations.get(one, [] if is_known else None)
        for one, is_known in zip(ids, n_cited.notna(), strict=True)
    ]
    calls = _rows(results, "calls", CALL)
    columns["x_answer.hops"] = [calls.get(one) for one in ids]
    columns["x_answer.refused"] = _refusals(responses)
    of_answers = [name for name in columns if name.startswith("x_answer.")]
    answers = objects_of(
        {f"x_{name.removeprefix('x_answer.')}": columns.pop(name) for name in of_answers}
    )
    columns["x_answer"] = [{"answer": None} | one if one else None for one in answers]
    return objects_of(columns, NULL_COLUMNS)


def _refusals(responses: pd.DataFrame) -> list[Any]:
    """Return what each answer says of being a refusal: nothing where reading implies as much."""
    names = ["answer", "grounded", "refused"]
    answer, grounded, refused = (one for _, one in responses.reindex(columns=names).items())
    states = bool(grounded.notna().any() or refused.notna().any())
    implied = implied_refusals(responses)
    is_open = refused.isna() & (implied.notna() | (answer.notna() & states))
    said = refused.astype(object).where(refused.ne(implied).fillna(True), None)
    return plain_values_of(said.mask(is_open, UNKNOWN))


def _rows(results: Results, kind: str, fields: Fields) -> dict[str, list[dict[str, Any]]]:
    """Return the objects of each query."""
    frame = rows_of(results, kind)
    _check_rows(frame, kind, results)
    _check_names(frame, kind)
    for name in [one for one in SPAN if f"x_{one}" in frame]:  # without a unit: in other rows
        own = frame[f"x_{name}"].astype(object)
        spans = {name: own.where(own.notna(), frame.get(name))}
        frame = frame.drop(columns=f"x_{name}").assign(**spans)
    if kind == "hits":
        meta = rows_of(results, "hit_meta")
        _check_rows(meta, "hit_meta", results)
        metadata = metadata_column(frame, meta)
        frame = frame.assign(x_metadata=pd.Series(metadata, frame.index, dtype=object))
    elif kind == "citations":
        frame = frame.sort_values("position")
    else:
        frame = frame.assign(x_iter=frame["call"] - 1)
    return grouped(frame["query_id"], objects_in(frame, fields))


def _check_names(frame: pd.DataFrame, kind: str) -> None:
    """Refuse columns of one's own that reading would take for a declared field."""
    phases = {n.removeprefix("x_") for n in map(str, frame) if n.startswith("x_latency_")}
    known = KNOWN[kind] | (phases if kind == "responses" else set())
    beside = [  # beside the declared column it is of one's own
        f"x_{place}"
        for place, column in ALSO.items()
        if {f"x_{place}", column} <= {*frame}
        and frame.loc[frame[column].isna(), f"x_{place}"].isna().all()
    ]
    refuse_taken(frame.columns.difference(beside), known, kind)


def _check_rows(frame: pd.DataFrame, kind: str, results: Results) -> None:
    """Refuse rows that reading would not give back, such as rows of queries without a record."""
    names = ["start", "end", "span_unit", "x_citation.kind"]
    is_asked = is_among(frame["query_id"], results.responses["query_id"])
    bad: dict[str, Any] = {"rows of queries that have a response": ~is_asked}
    if kind == "hit_meta":
        rows, ranks = (pd.MultiIndex.from_frame(one[HIT_CELL]) for one in (frame, results.hits))
        bad["the rank of a hit"] = ~rows.isin(ranks)
    if kind == "citations":
        places = frame.groupby("query_id")["position"].rank("first")
        bad["the positions 1, 2, 3, ... of each query"] = places != frame["position"]
    if kind in ("hits", "citations"):
        start, end, unit, of = (one for _, one in frame.reindex(columns=names).items())
        is_own = frame.filter(regex="^x_(start|end)$").notna().any(axis=1)
        is_span = (start.ge(0) & start.lt(end)).to_numpy(bool, na_value=False)
        is_cited = frame.filter(like="x_citation.").notna().any(axis=1)
        bad |= {
            f"{SPAN_ALLOWED}, or neither": (start.notna() | end.notna()) & ~is_span,
            "a span_unit: line, page, char, ms or the like": start.notna() & unit.isna(),
            f"x_citation.kind: {KIND_ALLOWED}": is_cited & ~of.isin(CITATION_KINDS),
            "x_start and x_end without a span": is_own & unit.notna(),
        }
    for allowed, is_bad in bad.items():
        if is_bad.any():
            row = next(row_dicts(frame[np.asarray(is_bad)]))
            shown = ("query_id", "rank", "position", *names)
            row = {n: one for n, one in row.items() if n in shown or n.startswith("x_citation")}
            raise DataError(f"found {describe(row)}", field=kind, allowed=allowed)


def metadata_column(hits: pd.DataFrame, meta: pd.DataFrame) -> list[dict[str, Any] | None]:
    """Return the metadata of each hit."""
    if not len(meta):
        return [None] * len(hits)
    of_hits, of_meta = (cells(one, HIT_CELL) for one in (hits, meta))
    values = (of_json(one, "hit_meta.value") for one in meta["value"])
    found = grouped(of_meta, zip(meta["key"], values, strict=True))
    return [dict(found[one]) if one in found else None for one in of_hits]


def run_description(runs: pd.DataFrame) -> dict[str, Any]:
    """Return the first row of a runs frame as the content of `run.json`, without missing values."""
    run = next(row_dicts(runs))
    run["run_id"] = str(run["run_id"])
    if "config" in run:
        run["config"] = parsed(run["config"])
    if "created_at" in run:
        run["created_at"] = run["created_at"].isoformat().replace("+00:00", "Z")
    return unflatten(run)


def write_judgments(results: Results, path: str | Path) -> Path:
    """Write the judgments of one run as `judgments.jsonl`.

    `rs.load_results` reads the file with the run's `per_query.jsonl` beside it.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    path
        The run's folder, or a file that ends in .jsonl.

    Raises
    ------
    DataError
        No run or more than one, or no judgments.
    """
    check_one_run(results)
    if results.judgments is None:
        raise DataError(
            "the run has no judgments", field="results.judgments", allowed="judgments of rs.judge"
        )
    file = Path(path) if str(path).endswith(".jsonl") else Path(path) / JUDGMENTS_FILE
    rows = row_dicts(results.judgments.drop(columns="run_id"))
    return write_lines(file, map(unflatten, rows))
