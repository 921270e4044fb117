"""`Results` -> `per_query.jsonl` and `run.json`, so that loading gives the same frames again.

The inverse of run_file.py, whose tables of fields it shares. A row that reading would not give back
is an error, never a silent change.
"""

import gzip
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import name_list, warn
from ragscore.io.citations import citation_and_span, heading_parts
from ragscore.io.files import check_one_run, json_line, replacing, write_bytes, write_lines
from ragscore.io.run_file import (
    ANSWER,
    ANSWER_FIELDS,
    CALL,
    CITATION,
    CITATION_FIELDS,
    HIT,
    HIT_FIELDS,
    RECORD,
    RECORD_FIELDS,
    RETRIEVAL,
    UNKNOWN,
    USAGE,
    implied_refusal,
)
from ragscore.io.sidecars import run_description
from ragscore.io.values import by_query, extra_fields, row_dicts


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
    description = json.dumps(run_description(results.runs), ensure_ascii=False, indent=1)
    is_file = str(path).endswith((".jsonl", ".jsonl.gz"))
    file = path if is_file else Path(path) / "per_query.jsonl"
    if Path(file).name.removesuffix(".gz") != "per_query.jsonl":
        described = {name for name, value in json.loads(description).items() if value}
        described -= {"n_queries", "n_failed"}
        if Path(file).name.startswith(f"{results.runs['run_id'].iloc[0]}."):
            described -= {"run_id"}
        if described:
            warn(
                f"{file}: there is no run.json beside it for {name_list(sorted(described))}; name"
                " the file per_query.jsonl, or a folder"
            )
        return write_lines(file, _records(results))
    records = "".join(f"{json_line(record)}\n" for record in _records(results)).encode()
    content = gzip.compress(records, mtime=0) if str(file).endswith(".gz") else records
    return _write_both(Path(file), content, f"{description}\n".encode())


def _write_both(file: Path, records: bytes, description: bytes) -> Path:
    """Write `per_query.jsonl` and `run.json`, never one run's records with another's description.

    No file system puts two files in place in one step. So both are on disk before either is put in
    place, and an older description goes before the records change: a kill in between leaves
    records without a description.
    """
    beside = Path(os.path.realpath(file.parent / "run.json"))
    old = beside.read_bytes() if file.exists() and beside.is_file() else description
    try:
        with replacing(beside) as described, replacing(file) as out:
            described.write(description)
            out.write(records)
            if old != description:
                beside.unlink()
    except BaseException:
        if old != description and not beside.exists():
            with suppress(DataError):
                write_bytes(beside, old)
        raise
    return file


def _records(results: Results) -> Iterator[dict[str, Any]]:
    hits, citations, calls, meta = (
        _by_query(results, kind) for kind in ("hits", "citations", "calls", "hit_meta")
    )
    states = any(
        one in results.responses and results.responses[one].notna().any()
        for one in ("refused", "grounded")
    )
    for response in row_dicts(results.responses.drop(columns="run_id")):
        query_id = response["query_id"]
        extra = extra_fields(response, RECORD_FIELDS, "responses", "latency_")
        if query_id in calls:
            steps = [
                {"iter": int(call["call"]) - 1} | CALL.write(call) | extra_fields(call)
                for call in calls[query_id]
            ]
            extra["answer"] = {**extra.get("answer", {}), "hops": steps}
        cited = sorted(citations.get(query_id, []), key=lambda row: row["position"])
        positions = [int(row["position"]) for row in cited]
        if positions != list(range(1, len(positions) + 1)):
            raise DataError(
                f"query {query_id!r} has the positions {positions}",
                field="citations.position",
                allowed="1, 2, 3, ...",
            )
        answer = _answer(response, extra, cited, states)
        listed = _hits(hits.get(query_id, []), meta.get(query_id, []), query_id)
        yield RECORD.write_in_order(response, {"hits_top_k": listed, "answer": answer}) | extra


def _by_query(results: Results, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each query; a query without a response has no record to be written to."""
    frame: pd.DataFrame | None = getattr(results, kind)
    if frame is None:
        return {}
    is_orphan = ~is_among(frame["query_id"], results.responses["query_id"])
    if is_orphan.any():
        raise DataError(
            f"{int(is_orphan.sum())} rows of queries without a response, first"
            f" {frame.loc[is_orphan, 'query_id'].iloc[0]!r}",
            field=f"{kind}.query_id",
            allowed="a row of responses for every query",
        )
    return by_query(frame)


def _answer(
    response: dict[str, Any],
    extra: dict[str, Any],
    citations: list[dict[str, Any]],
    states_refusals: bool,
) -> dict[str, Any] | None:
    """Return the answer object; None where the record had none.

    Takes the answer's extra fields out of `extra`. Where others state whether they are refusals, an
    answer that doesn't says so.
    """
    fields, tokens = ANSWER.write(response), USAGE.write(response)
    own, place = extra.pop("answer", {}), "responses.x_answer"
    if not (own or fields or tokens or citations or "n_citations" in response):
        return None
    implied = implied_refusal(fields.get("answer"), fields.get("grounded"))
    is_open = states_refusals and "answer" in fields and "refused" not in fields
    if is_open or (implied is not None and "refused" not in fields):
        fields["refused"] = UNKNOWN
    elif fields.get("refused") == implied:
        fields.pop("refused", None)
    if citations or "n_citations" in response:
        fields["citations"] = [_citation(row) for row in citations]
    answer = _with({"answer": None} | fields, own, place, ANSWER_FIELDS)
    usage = answer.get("usage", {})
    if tokens or isinstance(usage, dict):
        usage = _with(tokens, usage, f"{place}.usage", USAGE.own)
    return answer | ({"usage": usage} if usage else {})


def _citation(row: dict[str, Any]) -> dict[str, Any]:
    place, extra = _place(row, CITATION_FIELDS, "citations")
    path = {"path": row["path"]} if "path" in row else {}
    is_told = place.get("citation", {}).get("path") == row.get("path")
    fields = CITATION.write(row) | place | ({} if is_told else path)
    return _with(fields, extra, "citations")


def hit_metadata(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Return the metadata of a query's hits by rank."""
    metadata: dict[int, dict[str, Any]] = {}
    for row in rows:
        try:
            metadata.setdefault(row["rank"], {})[row["key"]] = json.loads(row["value"])
        except ValueError as error:
            raise DataError(
                f"found {row['value']!r}", field="hit_meta.value", allowed="JSON text"
            ) from error
    return metadata


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
    return [
        _hit(row) | ({"metadata": metadata[row["rank"]]} if row["rank"] in metadata else {})
        for row in rows
    ]


def _hit(row: dict[str, Any]) -> dict[str, Any]:
    # `score` beside one within `retrieval` is an extra field; alone it would be read as the column.
    scores = {field.column for field in RETRIEVAL.fields.values() if field.column in row}
    place, extra = _place(row, (HIT_FIELDS | {"score"}) - scores, "hits")
    inside = ({"doc_path": row["path"]} if "path" in row else {}) | place
    own = extra.pop("retrieval", {})
    if not isinstance(own, dict):  # then scores stand on the hit itself
        inside |= {"retrieval": own} | {column: row[column] for column in sorted(scores)}
    elif retrieval := _with(RETRIEVAL.write(row), own, "hits.x_retrieval", RETRIEVAL.own):
        inside["retrieval"] = retrieval
    return _with(HIT.write_in_order(row, inside), extra, "hits")


def _place(
    row: dict[str, Any], known: frozenset[str], kind: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the heading, citation and span of a row, and its other fields without a column."""
    extra, place = extra_fields(row, known, kind), dict[str, Any]()
    if "heading" in row:
        place["heading_path"] = extra.pop("heading_path", heading_parts(row["heading"]))
    elif "heading_path" in extra:  # parts that one text couldn't give back
        raise DataError(
            "found x_heading_path without a heading", field=kind, allowed="both or neither"
        )
    return place | citation_and_span(row, extra), extra


def _with(
    fields: dict[str, Any], own: Any, kind: str, known: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Add fields without a column, which must not hide others nor be taken for a span."""
    spanned = {"start", "end"} if "span_unit" in fields else set()
    clash = {*fields, *known, *spanned} & own.keys() if isinstance(own, dict) else {"itself"}
    if clash:
        raise DataError(
            f"x_{min(clash)} would be read as a field that a column holds",
            field=kind,
            allowed="another name",
        )
    return fields | own
