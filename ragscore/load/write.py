"""`Results` -> `per_query.jsonl` and `run.json`: the way back, so that load and write round-trip."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames import DataError, Results
from ragscore.load.extras import unflatten
from ragscore.load.per_query import SPAN_FIELDS, implied_refusal
from ragscore.load.trace import hop_record

_ANSWER = ("answer", "grounded", "refused", "refusal_reason", "cost_usd")
_SCORES = {"score": "fusion_score", "score_lexical": "lexical_score", "score_vector": "vector_score"}
_HIT_NAMES = {"path": "doc_path", "text": "snippet"}


def write_per_query(results: Results, path: str | Path) -> Path:
    """Write one run as `per_query.jsonl` with its `run.json` beside it.

    Loading the file gives the same frames again; fields that we have no column for go back to where they were.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    path
        A folder, or a file that ends in .jsonl; folders are created. `run.json` is only written beside a file called `per_query.jsonl`.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        `results` holds no run or more than one.
    """
    if len(results.runs) != 1:
        raise DataError(f"found {len(results.runs)} runs", field="results", allowed="exactly one; choose it with results.select([name])")
    file = Path(path) if str(path).endswith(".jsonl") else Path(path) / "per_query.jsonl"
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(record, ensure_ascii=False) for record in _records(results)]
    replace_text(file, "".join(f"{line}\n" for line in lines))
    if file.name == "per_query.jsonl":
        replace_text(file.parent / "run.json", json.dumps(run_description(results.runs), ensure_ascii=False, indent=1) + "\n")
    return file


def run_description(runs: pd.DataFrame) -> dict[str, Any]:
    """The first row of a runs frame as the content of `run.json`: config as JSON, unknown left out."""
    run = next(_present(runs))
    run["run_id"] = str(run["run_id"])
    if "config" in run:
        run["config"] = _as_json(run["config"])
    if "created_at" in run:
        run["created_at"] = run["created_at"].isoformat().replace("+00:00", "Z")
    extra = {name: run.pop(name) for name in list(run) if name.startswith("x_")}
    return {**run, **unflatten(extra)}


def _as_json(config: str) -> Any:
    """A config as the JSON it is; plain text is kept as text."""
    try:
        return json.loads(config)
    except ValueError:
        return config


def replace_text(file: Path, text: str) -> None:
    """Write beside and rename, so that a crash leaves the old file or the new one."""
    staging = file.with_name(f".{file.name}.staging")
    staging.write_text(text, encoding="utf-8")
    staging.replace(file)


def _present(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Each row as a dict of plain Python values, without the unknown ones."""
    columns = {name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame.columns}
    for values in zip(*columns.values(), strict=True):
        yield {name: value for name, value in zip(columns, values, strict=True) if value is not None}


def _grouped(frame: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in _present(frame.drop(columns="run_id")):
        rows.setdefault(row.pop("query_id"), []).append(row)
    return rows


def _records(results: Results) -> Iterator[dict[str, Any]]:
    hits, citations = _grouped(results.hits), _grouped(results.citations)
    hops = {} if results.hops is None else _grouped(results.hops)
    for response in _present(results.responses.drop(columns="run_id")):
        query_id = response.pop("query_id")
        record: dict[str, Any] = {"query_id": query_id}
        record |= {name: response.pop(name, None) for name in ("query", "mode")}
        record["hits_top_k"] = [_hit(hit) for hit in hits.get(query_id, [])]
        extra = unflatten({name: response.pop(name) for name in list(response) if name.startswith("x_")})
        about_answer = extra.pop("answer", {}) | ({"hops": [hop_record(hop) for hop in hops[query_id]]} if query_id in hops else {})
        record["answer"] = _answer(response, about_answer, citations.get(query_id, []))
        record |= {name: response.pop(name, None) for name in ("elapsed_ms", "error")}
        yield {**record, **response, **extra}


def _answer(response: dict[str, Any], extra: dict[str, Any], citations: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The answer object; None where the record had none. Takes its fields out of `response`."""
    fields = {name: response.pop(name) for name in _ANSWER if name in response}
    usage = {name: response.pop(name) for name in ("prompt_tokens", "completion_tokens") if name in response}
    if "refused" in fields and fields["refused"] == implied_refusal(fields.get("answer"), fields.get("grounded")):
        del fields["refused"]
    if not (fields or usage or extra or citations):
        return None
    if usage or "usage" in extra:
        extra["usage"] = {**usage, **extra.get("usage", {})}
    return {"answer": None, **fields, "citations": [_citation(row) for row in citations], **extra}


def _citation(row: dict[str, Any]) -> dict[str, Any]:
    extra = unflatten({name: value for name, value in row.items() if name.startswith("x_")})
    known: dict[str, Any] = {name: row[name] for name in ("marker", "chunk_id", "doc_id") if name in row}
    if "heading" in row:
        known["heading_path"] = row["heading"].split(" > ")
    return known | _span(row, extra, row.get("path")) | extra


def _span(row: dict[str, Any], extra: dict[str, Any], path: str | None) -> dict[str, Any]:
    """The citation object of a hit or of an answer's citation; takes its leftover fields out of `extra`."""
    rest = extra.pop("citation", {})
    if not rest:
        return {}
    path = rest.pop("path", path)
    citation = {"kind": rest.pop("kind"), **({"path": path} if path is not None else {})}
    if "start" in row:
        first, last, step = SPAN_FIELDS[citation["kind"]]
        citation |= {first: int(row["start"]), last: int(row["end"]) - step}
    return {"citation": {**citation, **rest}}


def _hit(row: dict[str, Any]) -> dict[str, Any]:
    extra = unflatten({name: value for name, value in row.items() if name.startswith("x_")})
    citation = _span(row, extra, row.get("path"))
    retrieval = {name: row[column] for column, name in _SCORES.items() if column in row} | extra.pop("retrieval", {})
    own = {
        name: value
        for name, value in row.items()
        if not name.startswith(("x_", "score")) and name not in ("path", "text", "heading", "start", "end", "text_cut")
    }
    named = {target: row[name] for name, target in _HIT_NAMES.items() if name in row}
    if "heading" in row:
        named["heading_path"] = row["heading"].split(" > ")
    if citation:
        own.pop("span_unit", None)
    kind = {"score_kind": row["score_kind"]} if "score_kind" in row else {}
    return own | named | citation | ({"retrieval": retrieval} if retrieval else {}) | kind | extra
