"""Files beside a run or a corpus: `run.json`, `judgments.jsonl` and the documents of a corpus.

`run.json` describes a run and becomes one row of the runs frame. `judgments.jsonl` holds one
verdict per line, with fields named as the columns of the judgments frame. A documents file (JSON
lines) tells what there is to find, and which document replaces which.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import KINDS, DataError, Results, check_type, from_records
from ragscore.frames.errors import warn
from ragscore.io.file_content import read_text
from ragscore.io.output import check_one_run, write_lines
from ragscore.io.source import (
    Problems,
    Row,
    as_id,
    as_text,
    describe,
    field_lines,
    json_fault,
    json_rows,
    parse_json,
)
from ragscore.io.values import (
    ID_ALLOWED,
    FieldReader,
    as_time,
    extra_fields,
    flatten,
    is_int,
    number,
    row_dicts,
    text,
    unify_types,
    whole,
)

_TEXTS = ("system", "suite", "commit", "config_hash", "golden_hash", "chunker_version", "note")
_LOWEST = {"repeat": 0, "n_queries": 0, "n_failed": 0, "k": 1}
_RUN_FIELDS = frozenset(
    (*_TEXTS, *_LOWEST, "run_id", "config", "config_snapshot_json", "created_at")
)


def read_run_json(file: Path, problems: Problems) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the fields of a `run.json` and the line of each; none if it can't be read."""
    content = read_text(file)
    try:
        values = parse_json(content)
    except (ValueError, RecursionError) as error:
        problems.add(**json_fault(error), allowed="one JSON object")
        return {}, {}
    if not isinstance(values, dict):
        problems.reject(values, 1, None, "one JSON object")
        return {}, {}
    return values, field_lines(content)


def run_record(
    described: dict[str, Any],
    file: Path | str,
    *,
    lines: dict[str, int] | None = None,
    problems: Problems | None = None,
) -> dict[str, Any]:
    """Return one row of the runs frame from the content of a `run.json`.

    Fields without a column go to `x_*`.
    """
    faults, line_of = problems or Problems(file, strict=True), lines or {}
    run_id = as_id(described.get("run_id"))
    if run_id is None:
        has_id = "run_id" in described
        raise DataError(
            f"found {describe(described['run_id'])}" if has_id else "the field is missing",
            file=file,
            line=line_of.get("run_id"),
            field="run_id",
            allowed=ID_ALLOWED,
        )
    for name in described:
        faults.typos.check([name], _RUN_FIELDS, line_of.get(name, 1))
    rest = {name: value for name, value in described.items() if name not in _RUN_FIELDS}
    snapshot = described.get("config_snapshot_json")
    config = described["config"] if "config" in described else snapshot_of(snapshot)
    if "config" in described and "config_snapshot_json" in described:
        rest["config_snapshot_json"] = snapshot
    run: dict[str, Any] = {"run_id": run_id}
    for name in _TEXTS:
        run[name] = text(described.get(name), name, line_of.get(name), faults)
    for name, lowest in _LOWEST.items():
        run[name] = whole(described.get(name), name, line_of.get(name), faults, lowest)
    settings = config if isinstance(config, dict) else {}
    if run["chunker_version"] is None:
        run["chunker_version"] = as_text(settings.get("chunker_version"))
    if described.get("k") is None:
        ks = (settings.get(name) for name in ("eval_k", "k"))
        run["k"] = next((k for k in ks if type(k) is int and 1 <= k < 2**63), None)
    created_at = described.get("created_at")
    run["created_at"] = as_time(created_at)
    if run["created_at"] is None and created_at is not None:
        allowed = "an ISO 8601 time as text, such as 2026-01-31T09:30:00Z"
        faults.reject(created_at, line_of.get("created_at"), "created_at", allowed)
    run["config"] = json.dumps(config, ensure_ascii=False, sort_keys=True)
    return {name: value for name, value in run.items() if value is not None} | flatten(rest)


def snapshot_of(stored: Any) -> Any:
    """Return a stored config snapshot; text that isn't JSON, or of no finite number, stays text."""
    if not isinstance(stored, str):
        return {} if stored is None else stored
    try:
        return parse_json(stored or "{}")
    except (ValueError, RecursionError):
        return stored


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


def load_documents(path: str | os.PathLike[str], *, strict: bool = True) -> pd.DataFrame:
    """Load the documents of a corpus: one JSON object a line.

    `doc_id` is required. Versions of one document share a `version_key`. `effective_timestamp` (a
    whole number, in any unit that orders them) tells from when on a version holds, `superseded_by`
    names the document that replaces it. `doc_type` or `path` give the type by which
    `results.indexing()` counts, including types of which the index has nothing.

    Parameters
    ----------
    strict
        False loads what can be loaded: records without an id of their own are left out, other
        faulty values are unknown. One warning counts the faults.

    Returns
    -------
    The documents frame, one row per document: doc_id and whichever of version_key,
    effective_timestamp, superseded_by, doc_type and path the file has; other fields as `x_<name>`.
    It belongs in `Results.documents`, or goes straight to `rs.extras.freshness`.

    Raises
    ------
    DataError
        File, line and field of a record that can't be read, or of a document that stands there
        twice.
    """
    problems = Problems(Path(path), strict)
    lines: dict[str, int] = {}
    read = (_document(row, lines, problems) for row in json_rows(Path(path), problems))
    records = [record for record in read if record is not None]
    if faults := problems.records:
        first = DataError(
            faults[0]["found"],
            file=Path(path),
            line=faults[0]["line"],
            field=faults[0]["field"],
            allowed=faults[0]["allowed"],
        )
        warn(f"{len(faults)} faults left out, first {first}")
    return from_records(unify_types(records), "documents")


def _document(row: Row, lines: dict[str, int], problems: Problems) -> dict[str, Any] | None:
    """Return one document; None, and a problem, without an id or with that of another."""
    document = FieldReader(row.values, "", row.line, problems)
    written = document.pop("doc_id")
    doc_id = as_id(written)
    if doc_id is None:
        problems.add(
            "found nothing" if written is None else f"found {describe(written)}",
            line=row.line,
            field="doc_id",
            allowed=ID_ALLOWED,
        )
        return None
    if doc_id in lines:
        problems.repeat(repr(doc_id), lines[doc_id], row.line, "doc_id", "one record per document")
        return None
    lines[doc_id] = row.line
    stamp = document.pop("effective_timestamp")
    if stamp is not None and not (is_int(stamp) and -(2**63) <= stamp < 2**63):
        document.reject(stamp, "effective_timestamp", "a whole number, or null")
        stamp = None
    found = {"doc_id": doc_id, "effective_timestamp": stamp}
    found |= {name: document.identifier(name) for name in ("version_key", "superseded_by")}
    found |= {name: document.text(name) for name in ("doc_type", "path")}
    return found | flatten(document.values)


JUDGMENTS_FILE = "judgments.jsonl"
LEDGER_FILE = "judge_ledger.jsonl"
_READERS: dict[str, Callable[..., Any]] = {"str": text, "float64": number, "Int64": whole}


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


def read_judgments(file: Path, run_id: str, problems: Problems) -> pd.DataFrame | None:
    """Return the judgments beside a run's file; None if there are none."""
    if not file.exists():
        return None
    faults = problems.for_file(file)
    records = [
        {"run_id": run_id} | judgment
        for row in json_rows(file, faults)
        if (judgment := _judgment(row, faults)) is not None
    ]
    return from_records(unify_types(records), "judgments")


def _judgment(row: Row, problems: Problems) -> dict[str, Any] | None:
    """Return one verdict; None, and a problem, if it names no query or no criterion."""
    judgment = FieldReader(row.values, "", row.line, problems)
    found: dict[str, Any] = {name: judgment.identifier(name) for name in ("query_id", "criterion")}
    if missing := [name for name, value in found.items() if value is None]:
        if all(row.values.get(name) is None for name in missing):
            problems.add(
                "the field is missing",
                line=row.line,
                field=missing[0],
                allowed="text that isn't empty",
            )
        return None
    judgment.pop("run_id")
    for name, dtype in KINDS["judgments"].dtypes.items():
        if name not in ("run_id", *found):
            found[name] = _READERS[dtype](judgment.pop(name), name, row.line, problems)
    found["item"] = found["item"] or ""
    return found | flatten(judgment.values)
