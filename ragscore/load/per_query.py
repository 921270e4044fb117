"""Our run file, `per_query.jsonl` with `run.json` beside it (the kebab record, a superset) -> `Results`.

The same record stands in kebab's SQLite tables, which `read_sqlite` reads. This per-line reader is the definition of
the format: older records that lack later fields load, what we have no column for is kept in `x_*` columns.
"""

import json
import math
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames import DataError, Results, concat_results, from_records
from ragscore.load.extras import flatten, settle
from ragscore.load.source import Problems, Row, as_id, as_text, json_rows, open_text, shown
from ragscore.load.trace import read_hops

SPAN_FIELDS = {"line": ("start", "end", 1), "code": ("line_start", "line_end", 1), "page": ("page", "page", 1), "time": ("start_ms", "end_ms", 0)}
"""Citation kind -> its first and last field, and what makes the last one half-open (lines and pages are inclusive)."""
SPAN_UNITS = {"line": "line", "code": "line", "page": "page", "time": "ms"}
CITATION_KINDS = (*SPAN_FIELDS, "region", "caption")

_HIT_TEXT = {"doc_path": "path", "snippet": "text", "score_kind": "score_kind", "source_key": "source_key", "span_unit": "span_unit"}
_HIT_ID = ("chunk_id", "doc_id", "chunker_version")
_SCORES = {"fusion_score": "score", "lexical_score": "score_lexical", "vector_score": "score_vector"}
_RUN_TEXT = ("system", "suite", "commit", "config_hash", "golden_hash", "chunker_version", "note")


@dataclass
class _Tables:
    """Records of each frame while a file is read, and the line of each question."""

    responses: list[dict[str, Any]] = field(default_factory=list)
    hits: list[dict[str, Any]] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    hops: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def read_per_query(path: Path, strict: bool) -> Results:
    """One run: its file of records, its `run.json` if there is one."""
    problems = Problems(path, strict)
    described = _run_description(path)
    tables = _Tables()
    for row in json_rows(path, problems):
        _read_record(row, tables, problems)
    return _results(described, tables, problems)


def read_sqlite(path: Path, strict: bool) -> Results:
    """Every run of a kebab database (tables `eval_runs` and `eval_query_results`), in order of creation."""
    problems = Problems(path, strict)
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        runs = connection.execute("SELECT run_id, suite, created_at, commit_hash, config_snapshot_json FROM eval_runs ORDER BY created_at, run_id").fetchall()
        parts = []
        for run_id, suite, created_at, commit, snapshot in runs:
            tables = _Tables()
            records = connection.execute("SELECT query_id, result_json FROM eval_query_results WHERE run_id = ? ORDER BY query_id", (run_id,))
            for number, (query_id, text) in enumerate(records, 1):
                values = _json_object(text, path, f"result_json of {run_id} / {query_id}")
                _read_record(Row({"query_id": query_id, **values}, number), tables, problems)
            described = {"run_id": run_id, "suite": suite, "created_at": created_at, "commit": commit, "config": _snapshot(snapshot)}
            parts.append(_results(described, tables, problems))
    except sqlite3.Error as error:
        raise DataError(f"not a readable SQLite file with eval_runs and eval_query_results ({error})", file=path) from error
    finally:
        connection.close()
    if not parts:
        raise DataError("the table eval_runs holds no run", file=path)
    return concat_results(parts)


def _run_description(path: Path) -> dict[str, Any]:
    """`run.json` beside the file; without one, the run is named after its folder or, if that says more, the file."""
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    described: dict[str, Any] = {"run_id": path.absolute().parent.name if stem == "per_query" else stem}
    beside = path.parent / "run.json"
    if beside.exists() and stem == "per_query":
        described |= _json_object(open_text(beside), beside, "run.json")
    return described


def _json_object(text: str, file: Path, name: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except ValueError as error:
        raise DataError(f"not valid JSON ({error})", file=file, field=name) from error
    if not isinstance(values, dict):
        raise DataError(f"found {shown(values)}", file=file, field=name, allowed="a JSON object")
    return values


def _snapshot(text: str | None) -> Any:
    """A stored config snapshot; one that isn't JSON is kept as the text it is."""
    try:
        return json.loads(text or "{}")
    except ValueError:
        return text


def _results(described: dict[str, Any], tables: _Tables, problems: Problems) -> Results:
    counts = {"n_queries": len(tables.responses), "n_failed": sum(response["error"] is not None for response in tables.responses)}
    run = run_record({**described, **counts}, problems.file)
    for records in (tables.responses, tables.hits, tables.citations, tables.hops):
        for record in records:
            record["run_id"] = run["run_id"]
    names = ("responses", "hits", "citations", *(("hops",) if tables.hops else ()))
    frames = {name: from_records(settle(getattr(tables, name)), name) for name in names}
    return Results(runs=from_records([run], "runs"), **frames, problems=problems.frame(run["run_id"]))


def run_record(described: dict[str, Any], file: Path | str) -> dict[str, Any]:
    """One row of the runs frame from the content of a `run.json`; what it holds beyond our columns goes to `x_*`."""
    known = {*_RUN_TEXT, "run_id", "config", "config_snapshot_json", "created_at", "repeat", "k", "n_queries", "n_failed"}
    run_id = as_id(described.get("run_id"))
    if run_id is None:
        raise DataError(f"found {shown(described.get('run_id'))}", file=file, field="run_id", allowed="text")
    config = described.get("config", _snapshot(described.get("config_snapshot_json")))
    snapshot = config if isinstance(config, dict) else {}
    run: dict[str, Any] = {"run_id": run_id}
    run |= {name: text for name in _RUN_TEXT if (text := as_text(described.get(name))) is not None}
    if "chunker_version" not in run and (version := as_text(snapshot.get("chunker_version"))):
        run["chunker_version"] = version
    numbers = {name: described.get(name) for name in ("repeat", "n_queries", "n_failed")} | {"k": described.get("k", snapshot.get("eval_k", snapshot.get("k")))}
    run |= {name: number for name, number in numbers.items() if type(number) is int}
    run |= {"created_at": _time(described.get("created_at"), file), "config": json.dumps(config, ensure_ascii=False, sort_keys=True)}
    return run | flatten({name: value for name, value in described.items() if name not in known})


def _time(written: Any, file: Path | str) -> pd.Timestamp | None:
    if written is None:
        return None
    try:
        time = pd.Timestamp(written)
    except (ValueError, TypeError) as error:
        raise DataError(f"found {shown(written)}", file=file, field="created_at", allowed="an ISO 8601 time, such as 2026-01-31T09:30:00Z") from error
    return time.tz_localize("UTC") if time.tzinfo is None else time.tz_convert("UTC")


def _read_record(row: Row, tables: _Tables, problems: Problems) -> None:
    values = dict(row.values)
    query_id = as_id(values.pop("query_id", None))
    if query_id is None:
        problems.add(f"found {shown(row.values.get('query_id'))}", line=row.line, field="query_id", allowed="text")
        return
    if query_id in tables.lines:
        problems.add(f"'{query_id}' stood on line {tables.lines[query_id]} already", line=row.line, field="query_id", allowed="one record per query")
        return
    hits, answer = values.pop("hits_top_k", None), values.pop("answer", None)
    if not isinstance(hits, (list, type(None))):
        problems.add(f"found {shown(hits)}", line=row.line, field="hits_top_k", allowed="a list")
        return
    if not isinstance(answer, (dict, str, type(None))):
        problems.add(f"found {shown(answer)}", line=row.line, field="answer", allowed="an object, text or null")
        return
    tables.lines[query_id] = row.line
    response: dict[str, Any] = {"query_id": query_id, "query": as_text(values.pop("query", None)), "error": as_text(values.pop("error", None))}
    response["elapsed_ms"] = _number(values, "elapsed_ms", row, problems)
    if (mode := as_text(values.pop("mode", None))) is not None:
        response["mode"] = mode
    response |= {name: number for name in [n for n in values if n.startswith("latency_")] if (number := _number(values, name, row, problems)) is not None}
    response |= _answer(answer, query_id, row, tables, problems)
    tables.responses.append(response | flatten(values))
    tables.hits += _hits(hits or [], query_id, row, problems)


def _answer(answer: dict[str, Any] | str | None, query_id: str, row: Row, tables: _Tables, problems: Problems) -> dict[str, Any]:
    if answer is None:
        return {}
    values: dict[str, Any] = dict(answer) if isinstance(answer, dict) else {"answer": answer}
    found: dict[str, Any] = {"answer": as_text(values.pop("answer", None))}
    grounded, refused = values.pop("grounded", None), values.pop("refused", None)
    if isinstance(grounded, bool):
        found["grounded"] = grounded
    found["refused"] = refused if isinstance(refused, bool) else implied_refusal(found["answer"], grounded)
    found["refusal_reason"] = as_text(values.pop("refusal_reason", None))
    if isinstance(values.get("usage"), dict):
        usage = dict(values["usage"])
        values = {**values, "usage": usage}
        found |= {name: int(usage.pop(name)) for name in ("prompt_tokens", "completion_tokens") if type(usage.get(name)) is int}
    cost = values.pop("cost_usd", None)
    found["cost_usd"] = float(cost) if isinstance(cost, (int, float)) else None
    citations = values.pop("citations", None) or []
    for position, item in enumerate(citations if isinstance(citations, list) else [citations], 1):
        if not isinstance(item, dict):
            problems.add(f"found {shown(item)}", line=row.line, field="answer.citations", allowed="a list of objects")
            continue
        tables.citations.append({"query_id": query_id, "position": position, **_citation(item, row, problems)})
    if values.get("hops") != []:  # an empty list of hops is kept as it is
        tables.hops += read_hops(values.pop("hops", None), query_id, row, problems)
    return found | flatten({"answer": values})


def implied_refusal(answer: str | None, grounded: Any) -> bool | None:
    """Whether an answer that doesn't say so is a refusal: one that isn't grounded, as kebab says it, or a blank one."""
    if isinstance(grounded, bool):
        return not grounded
    return None if answer is None else not answer.strip()


def _citation(item: dict[str, Any], row: Row, problems: Problems) -> dict[str, Any]:
    values = dict(item)
    found: dict[str, Any] = {"marker": as_text(values.pop("marker", None))}
    found |= {name: as_id(values.pop(name, None)) for name in ("chunk_id", "doc_id")}
    found |= _span(values.pop("citation", None), "answer.citations", row, problems)
    if (heading := _heading(values.pop("heading_path", None))) is not None:
        found["heading"] = heading
    return found | flatten(values)


def _span(citation: Any, name: str, row: Row, problems: Problems) -> dict[str, Any]:
    """Path and half-open span of a citation of any of the six kinds; its other fields go to `x_citation.*`."""
    if citation is None:
        return {}
    kind = citation.get("kind") if isinstance(citation, dict) else None
    if kind not in CITATION_KINDS:
        problems.add(f"found {shown(citation)}", line=row.line, field=f"{name}.citation", allowed=f"an object whose kind is one of {', '.join(CITATION_KINDS)}")
        return {}
    values = dict(citation)
    found: dict[str, Any] = {"path": as_text(values.pop("path", None))}
    if kind in SPAN_FIELDS:
        first, last, step = SPAN_FIELDS[kind]
        start, end = values.get(first), values.get(last)
        if type(start) is int and type(end) is int and 0 <= start < end + step < 2**63:
            values = {key: value for key, value in values.items() if key not in (first, last)}
            found |= {"start": start, "end": end + step, "span_unit": SPAN_UNITS[kind]}
        elif start is not None or end is not None:
            problems.add(f"{first} {shown(start)}, {last} {shown(end)}", line=row.line, field=f"{name}.citation", allowed="whole numbers in order")
    return found | flatten({"citation": values})


def _hits(hits: list[Any], query_id: str, row: Row, problems: Problems) -> Iterator[dict[str, Any]]:
    ranks = _ranks(hits, query_id, row, problems)
    for hit, rank in zip(hits, ranks, strict=True):
        if not isinstance(hit, dict):
            problems.add(f"found {shown(hit)}", line=row.line, field="hits_top_k", allowed="a list of objects")
            continue
        values = {key: value for key, value in hit.items() if key != "rank"}
        found: dict[str, Any] = {"query_id": query_id, "rank": rank}
        found |= {name: as_id(values.pop(name, None)) for name in _HIT_ID}
        citation = _span(values.pop("citation", None), "hits_top_k", row, problems)
        found |= citation | {column: as_text(values.pop(name)) for name, column in _HIT_TEXT.items() if values.get(name) is not None}
        if citation.get("path") is not None and citation["path"] != found["path"]:
            found["x_citation.path"] = citation["path"]
        if (heading := _heading(values.pop("heading_path", None))) is not None:
            found["heading"] = heading
        found |= _retrieval(values, row, problems)
        if isinstance(values.get("stale"), bool):
            found["stale"] = values.pop("stale")
        yield found | flatten(values)


def _retrieval(values: dict[str, Any], row: Row, problems: Problems) -> dict[str, Any]:
    """The scores of one hit; what else `retrieval` holds stays in `values`."""
    detail = values.get("retrieval")
    found: dict[str, Any] = {}
    if isinstance(detail, dict):
        values["retrieval"] = detail = dict(detail)
        found = {column: _number(detail, name, row, problems) for name, column in _SCORES.items()}
    if found.get("score") is None:
        found["score"] = _number(values, "score", row, problems)
    return found


def _ranks(hits: list[Any], query_id: str, row: Row, problems: Problems) -> list[int]:
    """Stored ranks if every hit has one, else list order; ranks that can't be are a problem and list order is taken."""
    in_order = list(range(1, len(hits) + 1))
    stored = [hit.get("rank") if isinstance(hit, dict) else None for hit in hits]
    if all(rank is None for rank in stored):
        return in_order
    bad = next((rank for rank in stored if type(rank) is not int or not 1 <= rank < 2**31), None)
    if bad is not None or None in stored:
        problems.add(
            f"rank is {shown(bad)} for query {query_id!r}", line=row.line, field="hits_top_k.rank", allowed="whole numbers from 1, each once, or no rank at all"
        )
        return in_order
    ranks = [int(rank) for rank in stored if rank is not None]
    if len(set(ranks)) < len(ranks):
        twice = next(rank for rank in ranks if ranks.count(rank) > 1)
        problems.add(f"rank {twice} appears twice for query {query_id!r}", line=row.line, field="hits_top_k.rank", allowed="ranks must be 1, 2, 3, ...")
        return in_order
    return ranks


def _heading(path: Any) -> str | None:
    if isinstance(path, list):
        return " > ".join(text for part in path if (text := as_text(part)))
    return as_text(path)


def _number(values: dict[str, Any], name: str, row: Row, problems: Problems) -> float | None:
    value = values.pop(name, None)
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        try:
            return None if value is None or math.isnan(value) else float(value)
        except OverflowError:
            pass
    problems.add(f"found {shown(value)}", line=row.line, field=name, allowed="a number or null")
    return None
