"""`Results` -> `per_query.jsonl` and `run.json`, so that loading gives the same frames again.

The inverse of run_file.py, whose tables of fields it shares. A row that reading would not give back
is an error, never a silent change.
"""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import is_among
from ragscore.frames.data import KINDS, DataError, Results, check_type
from ragscore.frames.errors import name_list, warn
from ragscore.frames.schema import LAYOUT
from ragscore.io.files import (
    check_one_run,
    json_line,
    replacing,
    write_bytes,
    write_lines,
    write_text,
)
from ragscore.io.formats.fields import flat_fields, object_of
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
    SPAN_FIELDS,
    SPAN_UNITS,
    UNKNOWN,
    implied_refusals,
    snapshot_of,
)
from ragscore.io.source import describe
from ragscore.io.values import (
    JSON_SUFFIX,
    SPAN_ALLOWED,
    by_query,
    escape_key,
    extra_fields,
    row_dicts,
    unflatten,
)

# Frame -> places of fields that are no fields of one's own
KNOWN: dict[str, set[str]] = {
    "responses": {*RECORD, "hits_top_k", "answer", "answer.citations", "answer.hops"},
    "hits": {*HIT, *ALSO, "citation", "metadata", "span_unit"},
    "citations": {*CITATION, "citation", "span_unit"},
    "calls": {*CALL, "iter"},
}
# Object -> its fields in the order of the file, by their places behind `x_`
ORDER = {kind: [f"x_{name}" for name in names] for kind, names in LAYOUT.items()}
# The fields of a hit whose `retrieval` is no object
BARE_HIT = {name: one for name, one in HIT.items() if one[0] not in ALSO.values()} | {
    name: (column, "score") for name, column in ALSO.items()
}


def write_per_query(results: Results, path: str | Path) -> Path:
    """Write one run as `per_query.jsonl` with its `run.json` beside it.

    Loading the file gives the same runs, responses, hits, their metadata, citations and calls
    again, row for row in the order of the responses; fields that we have no column for go back to
    where they were. Other frames (chunks, ...) have no place in this format; `RunStore` keeps them,
    and `results.save(format="judgments")` writes judgments beside it. `n_queries` and `n_failed`
    are counted anew on loading.

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
        with replacing(beside) as out:
            out.write(description)
            if old != description:
                beside.unlink()
            write_text(file, records)
    except BaseException:
        if old != description and not beside.exists():
            with suppress(DataError):
                write_bytes(beside, old)
        raise
    return file


def _records(results: Results) -> Iterator[dict[str, Any]]:
    rows = {kind: _by_query(results, kind) for kind in ("hits", "citations", "calls", "hit_meta")}
    _check_names(results.responses, "responses")
    states = any(
        one in results.responses and results.responses[one].notna().any()
        for one in ("refused", "grounded")
    )
    wanted = results.responses.reindex(columns=["answer", "grounded"])
    answers = pa.array(wanted["answer"], pa.string())
    implied = implied_refusals(answers, pa.array(wanted["grounded"], pa.bool_())).to_pylist()
    responses = row_dicts(results.responses.drop(columns="run_id"))
    for response, is_implied in zip(responses, implied, strict=True):
        hits, citations, calls, meta = (of.get(response["query_id"], []) for of in rows.values())
        record = dict.fromkeys(f"x_{name}" for name in NULLS) | flat_fields(response, RECORD)
        record |= {f"x_{name}": one for name, one in response.items() if name[:8] == "latency_"}
        if citations or "n_citations" in response:
            record["x_answer.citations"] = _cited(citations)
        if calls:
            record["x_answer.hops"] = [
                {"iter": int(one["call"]) - 1} | object_of(one, CALL) for one in calls
            ]
        if any(name.startswith("x_answer.") for name in record):
            record.setdefault("x_answer.answer", None)
            refused = response.get("refused")
            if refused is None and (is_implied is not None or (states and "answer" in response)):
                record["x_answer.refused"] = UNKNOWN
            elif refused == is_implied:
                record.pop("x_answer.refused", None)
        else:
            record["x_answer"] = None
        record["x_hits_top_k"] = _hits(hits, meta, response["query_id"])
        yield _object(record, "responses")


def _by_query(results: Results, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each query, after a check of them."""
    frame: pd.DataFrame | None = getattr(results, kind)
    if frame is None:
        return {}
    _check_rows(frame, kind, results.responses["query_id"])
    if kind in KNOWN:
        _check_names(frame, kind)
    return by_query(frame)


def _check_names(frame: pd.DataFrame, kind: str) -> None:
    """Refuse columns of one's own that reading would take for a declared field."""
    for name in [name for name in map(str, frame) if name.startswith("x_")]:
        place = name.removeprefix("x_").removesuffix(JSON_SUFFIX)
        is_taken = place in KNOWN[kind] or (kind == "responses" and place[:8] == "latency_")
        if place in ALSO and ALSO[place] in frame:  # beside the declared one it is of one's own
            is_taken = bool(frame.loc[frame[ALSO[place]].isna(), name].notna().any())
        if is_taken:
            raise DataError(
                f"{name} would be read as the field {place}", field=kind, allowed="another name"
            )


def _check_rows(frame: pd.DataFrame, kind: str, asked: pd.Series) -> None:
    """Refuse rows that reading would not give back: of queries without a record, or half spans."""
    names = ["start", "end", "span_unit", "path", "x_citation.kind", "x_citation.path"]
    start, end, unit, path, of, other = (one for _, one in frame.reindex(columns=names).items())
    is_span = (start.ge(0) & start.lt(end)).to_numpy(bool, na_value=False)
    is_cited = frame.filter(like="x_citation.").notna().any(axis=1)
    for is_bad, allowed in (
        (~is_among(frame["query_id"], asked), "rows of queries that have a response"),
        ((start.notna() | end.notna()) & ~is_span, f"{SPAN_ALLOWED}, or neither"),
        (start.notna() & unit.isna(), "a span_unit: line, page, char, ms or the like"),
        (is_cited & ~of.isin(CITATION_KINDS), f"x_citation.kind: {KIND_ALLOWED}"),
        (other.notna() & path.isna(), "x_citation.path beside a path only"),
    ):
        if is_bad.any():
            row = next(row_dicts(frame[np.asarray(is_bad)]))
            shown = {n: one for n, one in row.items() if n in ("query_id", *names) or "cit" in n}
            raise DataError(f"found {describe(shown)}", field=kind, allowed=allowed)


def _object(fields: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return fields by their places as the object that holds them, in the order of the file."""
    return unflatten({name: fields[name] for name in ORDER[kind] if name in fields} | fields)


def _cited(citations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the citations of an answer by their positions."""
    rows = sorted(citations, key=lambda row: row["position"])
    positions = [int(row["position"]) for row in rows]
    if positions != list(range(1, len(positions) + 1)):
        raise DataError(
            f"found the positions {positions}", field="citations.position", allowed="1, 2, 3, ..."
        )
    cited = []
    for row in rows:
        one = _place(row) | row
        if one.get("x_citation.path") == one.get("path"):
            one.pop("path", None)
        cited.append(_object(flat_fields(one, CITATION), "citations"))
    return cited


def _hits(
    rows: list[dict[str, Any]], meta: list[dict[str, Any]], query_id: str
) -> list[dict[str, Any]]:
    metadata = hit_metadata(meta)
    if strays := sorted(metadata.keys() - {row["rank"] for row in rows}):
        raise DataError(
            f"metadata of query {query_id!r} at rank {strays[0]}, where no hit is",
            field="hit_meta.rank",
            allowed="the rank of a hit",
        )
    hits = []
    for row in rows:
        hit = _place(row) | row
        if row["rank"] in metadata:
            hit["x_metadata"] = metadata[row["rank"]]
        is_bare = "x_retrieval" in row or "x_retrieval.json" in row
        hits.append(_object(flat_fields(hit, BARE_HIT if is_bare else HIT), "hits"))
    return hits


def hit_metadata(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the metadata of a query's hits by rank."""
    found: dict[int, dict[str, Any]] = {}
    for row in rows:
        found.setdefault(row["rank"], {})[f"x_{escape_key(row['key'])}.json"] = row["value"]
    return {rank: unflatten(one) for rank, one in found.items()}


def _place(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a row's span: in its citation where that can hold it, else beside."""
    kind, beside = row.get("x_citation.kind", ""), ("start", "end", "span_unit")
    cited = {"x_citation.kind": kind, "x_citation.path": row.get("path")} if kind else {}
    first, last, step = SPAN_FIELDS.get(kind, ("", "", 0))
    is_held = "start" in row and SPAN_UNITS.get(kind) == row["span_unit"]
    if is_held and (first != last or row["end"] - row["start"] == 1):
        return cited | {
            f"x_citation.{first}": row["start"],
            f"x_citation.{last}": row["end"] - step,
        }
    if "span_unit" in row and row.keys() & {"x_start", "x_end"}:
        raise DataError(
            "x_start and x_end would be read as the span", field="x_start", allowed="other names"
        )
    return cited | {f"x_{name}": row[name] for name in beside if name in row}


def run_description(runs: pd.DataFrame) -> dict[str, Any]:
    """Return the first row of a runs frame as the content of `run.json`, without missing values."""
    run = next(row_dicts(runs))
    run["run_id"] = str(run["run_id"])
    if "config" in run:
        run["config"] = snapshot_of(run["config"])
    if "created_at" in run:
        run["created_at"] = run["created_at"].isoformat().replace("+00:00", "Z")
    return _with_extra_nested(run, "runs")


def _with_extra_nested(row: dict[str, Any], kind: str) -> dict[str, Any]:
    """Return a row with its `x_` columns as the fields they came from."""
    extra = extra_fields(row, frozenset(KINDS[kind].dtypes), kind)
    return {name: value for name, value in row.items() if not name.startswith("x_")} | extra


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
    check_type(results, Results, "results")
    check_one_run(results)
    if results.judgments is None:
        raise DataError(
            "the run has no judgments", field="results.judgments", allowed="those of rs.judge"
        )
    file = Path(path) if str(path).endswith(".jsonl") else Path(path) / JUDGMENTS_FILE
    rows = row_dicts(results.judgments.drop(columns="run_id"))
    return write_lines(file, (_with_extra_nested(row, "judgments") for row in rows))
