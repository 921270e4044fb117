"""`Results` -> `per_query.jsonl` and `run.json`: the way back, so that load and write round-trip."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Results
from ragscore.io.citations import written_heading, written_span
from ragscore.io.output import by_query, check_one_run, write_lines, write_text
from ragscore.io.record import (
    ANSWER_FIELDS,
    CITATION_FIELDS,
    HIT_FIELDS,
    RECORD_FIELDS,
    SCORES,
    TOKENS,
    UNKNOWN,
    hop_record,
    implied_refusal,
)
from ragscore.io.sidecars import run_description
from ragscore.io.values import extra_fields, row_dicts

_ANSWER = ("answer", "grounded", "refused", "refusal_reason", "cost_usd")
_HIT = (
    "rank",
    "chunk_id",
    "doc_id",
    "source_key",
    "chunker_version",
    "stale",
    "text_cut",
    "score_kind",
)


def write_per_query(results: Results, path: str | Path) -> Path:
    """Write one run as `per_query.jsonl` with its `run.json` beside it.

    Loading the file gives the same runs, responses, hits, their metadata, citations and hops again,
    row for row in the order of the responses; fields that we have no column for go back to where
    they were. Other frames (chunks, ...) have no place in this format; `RunStore` keeps them, and
    `rs.write_judgments` writes judgments beside it. `n_queries` and `n_failed` are counted anew on
    loading.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    path
        A folder, or a file that ends in .jsonl; folders are created. `run.json` is only written
        beside a file called `per_query.jsonl`.

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
    file = write_lines(
        path if str(path).endswith(".jsonl") else Path(path) / "per_query.jsonl", _records(results)
    )
    if file.name == "per_query.jsonl":
        write_text(file.parent / "run.json", description + "\n")
    return file


def _grouped(results: Results, kind: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of each query; a row whose query has no response would get lost."""
    frame: pd.DataFrame | None = getattr(results, kind)
    if frame is None:
        return {}
    is_stray = ~is_among(frame["query_id"], results.responses["query_id"])
    if is_stray.any():
        found = (
            f"{int(is_stray.sum())} rows of queries without a response, first"
            f" {frame.loc[is_stray, 'query_id'].iloc[0]!r}"
        )
        raise DataError(
            found, field=f"{kind}.query_id", allowed="a row of responses for every query"
        )
    return by_query(frame)


def _records(results: Results) -> Iterator[dict[str, Any]]:
    hits, citations, hops = (
        _grouped(results, "hits"),
        _grouped(results, "citations"),
        _grouped(results, "hops"),
    )
    meta = _grouped(results, "hit_meta")
    for response in row_dicts(results.responses.drop(columns="run_id")):
        query_id = response["query_id"]
        extra = extra_fields(response, RECORD_FIELDS, "responses", "latency_")
        if query_id in hops:
            extra["answer"] = {
                **extra.get("answer", {}),
                "hops": [hop_record(hop) for hop in hops[query_id]],
            }
        answer = _answer(response, extra, _in_order(citations.get(query_id, []), query_id))
        record: dict[str, Any] = {"query_id": query_id} | {
            name: response.get(name) for name in ("query", "mode")
        }
        record |= {
            "hits_top_k": _hits(hits.get(query_id, []), meta.get(query_id, []), query_id),
            "answer": answer,
        }
        record |= {name: response.get(name) for name in ("elapsed_ms", "error")}
        record |= {name: value for name, value in response.items() if name.startswith("latency_")}
        record |= {"scope": _scope(response["scope"])} if "scope" in response else {}
        yield record | extra


def _scope(text: str) -> Any:
    """An object or list as such, if reading it gives the same text again."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return (
        value
        if isinstance(value, (dict, list)) and json.dumps(value, ensure_ascii=False) == text
        else text
    )


def _in_order(citations: list[dict[str, Any]], query_id: str) -> list[dict[str, Any]]:
    ordered = sorted(citations, key=lambda row: row["position"])
    positions = [int(row["position"]) for row in ordered]
    if positions != list(range(1, len(positions) + 1)):
        raise DataError(
            f"query {query_id!r} has the positions {positions}",
            field="citations.position",
            allowed="1, 2, 3, ...",
        )
    return ordered


def _answer(
    response: dict[str, Any], extra: dict[str, Any], citations: list[dict[str, Any]]
) -> dict[str, Any] | None:
    """The answer object; None where the record had none. Takes its own fields out of `extra`."""
    fields = {name: response[name] for name in _ANSWER if name in response}
    tokens = {name: response[name] for name in TOKENS if name in response}
    own = extra.pop("answer", None)
    if own is None and not (fields or tokens or citations):
        return None
    own = {} if own is None else own
    usage = own.get("usage", {}) if isinstance(own, dict) else {}
    if (
        not isinstance(own, dict)
        or set(own) & ANSWER_FIELDS
        or (tokens and not isinstance(usage, dict))
        or (isinstance(usage, dict) and set(usage) & set(TOKENS))
    ):
        raise DataError(
            f"found {own!r}", field="responses.x_answer", allowed="fields that no column holds"
        )
    implied = implied_refusal(fields.get("answer"), fields.get("grounded"))
    if fields.get("refused") == implied:
        fields.pop("refused", None)
    elif "refused" not in fields:
        fields["refused"] = UNKNOWN
    counted = {"usage": {**tokens, **usage}} if tokens else {}
    return {
        "answer": None,
        **fields,
        "citations": [_citation(row) for row in citations],
        **own,
        **counted,
    }


def _citation(row: dict[str, Any]) -> dict[str, Any]:
    extra = extra_fields(row, CITATION_FIELDS, "citations")
    written = {
        name: row[name] for name in ("marker", "chunk_id", "doc_id") if name in row
    } | _heading(row, extra, "citations")
    span = written_span(row, extra)
    if "path" in row and span.get("citation", {}).get("path") != row["path"]:
        written["path"] = row["path"]
    return _joined(written | span, extra, "citations")


def _hits(
    rows: list[dict[str, Any]], meta: list[dict[str, Any]], query_id: str
) -> list[dict[str, Any]]:
    by_rank: dict[int, dict[str, Any]] = {}
    for one in meta:
        by_rank.setdefault(one["rank"], {})[one["key"]] = _metadata_value(one)
    if stray := sorted(by_rank.keys() - {row["rank"] for row in rows}):
        raise DataError(
            f"metadata of query {query_id!r} at rank {stray[0]}, where no hit is",
            field="hit_meta.rank",
            allowed="the rank of a hit",
        )
    return [_hit(row) | _metadata(row, by_rank.get(row["rank"], {})) for row in rows]


def _metadata_value(row: dict[str, Any]) -> Any:
    try:
        return json.loads(row["value"])
    except ValueError as error:
        raise DataError(
            f"found {row['value']!r}", field="hit_meta.value", allowed="JSON text"
        ) from error


def _metadata(row: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a hit.

    Where they name a source key that the hit doesn't have, the hit says that it has none.
    """
    has_none = {"source_key": None} if "source_key" in known and "source_key" not in row else {}
    return ({"metadata": known} if known else {}) | has_none


def _hit(row: dict[str, Any]) -> dict[str, Any]:
    # A score of the hit itself beside one within `retrieval` is a field of its own; alone it would
    # be read as the column.
    extra = extra_fields(
        row,
        (HIT_FIELDS | {"score"}) - {column for column in SCORES.values() if column in row},
        "hits",
    )
    written = {name: row[name] for name in _HIT if name in row}
    written |= {
        name: row[column]
        for column, name in {"path": "doc_path", "text": "snippet"}.items()
        if column in row
    }
    written |= _heading(row, extra, "hits") | written_span(row, extra) | _scores(row, extra)
    return _joined(written, extra, "hits")


def _scores(row: dict[str, Any], extra: dict[str, Any]) -> dict[str, Any]:
    """The scores within `retrieval`; on the hit itself where that isn't an object."""
    own = extra.pop("retrieval", {})
    if not isinstance(own, dict):
        return {"retrieval": own} | {
            column: row[column] for column in SCORES.values() if column in row
        }
    retrieval = {name: row[column] for name, column in SCORES.items() if column in row}
    if set(own) & set(SCORES):
        raise DataError(
            f"found {own!r}", field="hits.x_retrieval", allowed="fields that no column holds"
        )
    return {"retrieval": retrieval | own} if retrieval | own else {}


def _heading(row: dict[str, Any], extra: dict[str, Any], kind: str) -> dict[str, Any]:
    if "heading_path" in extra:  # parts that one text couldn't give back
        if "heading" not in row:
            raise DataError(
                "found x_heading_path without a heading", field=kind, allowed="both or neither"
            )
        return {"heading_path": extra.pop("heading_path")}
    return {"heading_path": written_heading(row["heading"])} if "heading" in row else {}


def _joined(written: dict[str, Any], extra: dict[str, Any], kind: str) -> dict[str, Any]:
    """A row's fields with its leftover ones, which must not hide them nor be taken for a span."""
    spanned = {"start", "end"} if "span_unit" in written else set()
    if clash := sorted(set(extra) & (set(written) | spanned)):
        raise DataError(
            f"x_{clash[0]} would be read as a field that a column holds",
            field=kind,
            allowed="another name",
        )
    return written | extra
