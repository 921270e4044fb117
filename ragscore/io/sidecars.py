"""`run.json`, the description of a run: as one row of the runs frame, and back.

The documents of a corpus, JSON lines -> the documents frame.

What there is, and which document replaces which.

`judgments.jsonl` beside a run's file.

One verdict per line, fields named as the columns of the judgments frame.
"""

import json
import os
import re
import warnings
from collections.abc import Callable
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import KINDS, DataError, Results, check_type, from_records
from ragscore.io import values as fields
from ragscore.io.output import check_one_run, write_lines
from ragscore.io.source import (
    Problems,
    Row,
    as_id,
    as_text,
    describe,
    json_rows,
    parse_json,
    read_text,
)
from ragscore.io.values import (
    ID_ALLOWED,
    extra_fields,
    flatten,
    identifier,
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
_TIME_ALLOWED = "an ISO 8601 time as text, such as 2026-01-31T09:30:00Z"


def read_run_json(beside: Path, problems: Problems) -> tuple[dict[str, Any], dict[str, int]]:
    """What a `run.json` says, and the line of each of its fields.

    Nothing for one that can't be read.
    """
    written = read_text(beside)
    try:
        values = parse_json(written)
    except (ValueError, RecursionError) as error:
        problems.add(
            f"not valid JSON ({error})",
            line=getattr(error, "lineno", None),
            allowed="one JSON object",
        )
        return {}, {}
    if not isinstance(values, dict):
        problems.add(f"found {describe(values)}", line=1, allowed="one JSON object")
        return {}, {}
    return values, _lines(written)


def _lines(written: str) -> dict[str, int]:
    """The line of each field of a valid JSON object."""
    lines: dict[str, int] = {}
    decode, place = json.JSONDecoder().raw_decode, written.index("{") + 1
    while (place := WHITESPACE.match(written, place).end()) < len(written) and written[
        place
    ] == '"':
        line = written.count("\n", 0, place) + 1
        name, place = scanstring(written, place + 1)
        lines[name] = line
        # the colon and the blanks around it
        place = WHITESPACE.match(written, WHITESPACE.match(written, place).end() + 1).end()
        # the value and the comma
        place = WHITESPACE.match(written, decode(written, place)[1]).end() + 1
    return lines


def run_record(
    described: dict[str, Any],
    file: Path | str,
    *,
    lines: dict[str, int] | None = None,
    problems: Problems | None = None,
) -> dict[str, Any]:
    """One row of the runs frame from the content of a `run.json`.

    What it holds beyond our columns goes to `x_*`.
    """
    faults, line_of = problems or Problems(file, strict=True), lines or {}
    run_id = as_id(described.get("run_id"))
    if run_id is None:
        raise DataError(
            _found(described, "run_id"),
            file=file,
            line=line_of.get("run_id"),
            field="run_id",
            allowed=ID_ALLOWED,
        )
    for name in described:
        faults.typos.check([name], _RUN_FIELDS, line_of.get(name, 1))
    config, rest = _config(described)
    snapshot = config if isinstance(config, dict) else {}
    run: dict[str, Any] = {"run_id": run_id}
    run |= {name: text(described.get(name), name, line_of.get(name), faults) for name in _TEXTS}
    run |= {
        name: whole(described.get(name), name, line_of.get(name), faults, lowest)
        for name, lowest in _LOWEST.items()
    }
    if run["chunker_version"] is None:
        run["chunker_version"] = as_text(snapshot.get("chunker_version"))
    if described.get("k") is None:
        run["k"] = next(
            (
                k
                for name in ("eval_k", "k")
                if type(k := snapshot.get(name)) is int and 1 <= k < 2**63
            ),
            None,
        )
    run["created_at"] = _time(described.get("created_at"), line_of.get("created_at"), faults)
    run["config"] = json.dumps(config, ensure_ascii=False, sort_keys=True)
    return {name: value for name, value in run.items() if value is not None} | flatten(rest)


def _found(described: dict[str, Any], name: str) -> str:
    return f"found {describe(described[name])}" if name in described else "the field is missing"


def _config(described: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The configuration, and the fields that no column takes."""
    rest = {name: value for name, value in described.items() if name not in _RUN_FIELDS}
    if "config" not in described:
        return snapshot_of(described.get("config_snapshot_json")), rest
    kept = {name: described[name] for name in ("config_snapshot_json",) if name in described}
    return described["config"], rest | kept


def snapshot_of(written: Any) -> Any:
    """A stored config snapshot; text that isn't JSON is kept as the text it is."""
    if not isinstance(written, str):
        return {} if written is None else written
    try:
        return json.loads(written or "{}")
    except ValueError:
        return written


def _time(written: Any, line: int | None, problems: Problems) -> pd.Timestamp | None:
    if written is None:
        return None
    try:
        if not isinstance(written, str) or not re.match(r"\d{4}-\d\d", written):
            raise ValueError
        time = pd.Timestamp(written)
    except ValueError:
        problems.add(
            f"found {describe(written)}", line=line, field="created_at", allowed=_TIME_ALLOWED
        )
        return None
    return time.tz_localize("UTC") if time.tzinfo is None else time.tz_convert("UTC")


def run_description(runs: pd.DataFrame) -> dict[str, Any]:
    """The first row of a runs frame as the content of `run.json`: config as JSON, unknown left out."""
    run = next(row_dicts(runs))
    run["run_id"] = str(run["run_id"])
    if "config" in run:
        run["config"] = snapshot_of(run["config"])
    if "created_at" in run:
        run["created_at"] = run["created_at"].isoformat().replace("+00:00", "Z")
    extra = extra_fields(run, frozenset(KINDS["runs"].dtypes), "runs")
    return {**{name: value for name, value in run.items() if not name.startswith("x_")}, **extra}


def load_documents(path: str | os.PathLike[str], *, strict: bool = True) -> pd.DataFrame:
    """Load the documents of a corpus: one JSON object a line.

    `doc_id` is required. `version_key` names what the document is a version of,
    `effective_timestamp` (a whole number, in any unit that orders them) from when on it holds,
    `superseded_by` the document that replaces it. `doc_type` and `path` say of what type it is:
    `rs.indexing_report` counts by type, also those of which the index has nothing.

    Parameters
    ----------
    strict
        False loads what can be loaded: records without an id of their own are left out, other
        faulty values are unknown. One warning counts the faults.

    Returns
    -------
    The documents frame, one row per document: doc_id and whichever of version_key,
    effective_timestamp, superseded_by, doc_type and path the file has; other fields as `x_<name>`.
    It belongs in `Results.documents`, or goes straight to `rs.freshness`.

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
        warnings.warn(f"{len(faults)} faults left out, first {first}", UserWarning, stacklevel=2)
    return from_records(unify_types(records), "documents")


def _document(row: Row, lines: dict[str, int], problems: Problems) -> dict[str, Any] | None:
    """One document; None for a record that has no id, or that of another."""
    values = dict(row.values)
    written = values.pop("doc_id", None)
    doc_id = as_id(written)
    if doc_id is None:
        problems.add(
            "found nothing" if written is None else f"found {describe(written)}",
            line=row.line,
            field="doc_id",
            allowed=fields.ID_ALLOWED,
        )
        return None
    if doc_id in lines:
        problems.add(
            f"{doc_id!r} stood on line {lines[doc_id]} already",
            line=row.line,
            field="doc_id",
            allowed="one record per document",
        )
        return None
    lines[doc_id] = row.line
    stamp = values.pop("effective_timestamp", None)
    if stamp is not None and not (fields.is_int(stamp) and -(2**63) <= stamp < 2**63):
        problems.add(
            f"found {describe(stamp)}",
            line=row.line,
            field="effective_timestamp",
            allowed="a whole number, or null",
        )
        stamp = None
    found = {"doc_id": doc_id, "effective_timestamp": stamp}
    found |= {
        name: fields.identifier(values.pop(name, None), name, row.line, problems)
        for name in ("version_key", "superseded_by")
    }
    found |= {
        name: fields.text(values.pop(name, None), name, row.line, problems)
        for name in ("doc_type", "path")
    }
    return found | flatten(values)


JUDGMENTS_FILE = "judgments.jsonl"
LEDGER_FILE = "judge_ledger.jsonl"
_READERS: dict[str, Callable[..., Any]] = {"str": text, "float64": number, "Int64": whole}
_JUDGMENT_COLUMNS = frozenset(KINDS["judgments"].dtypes)


def write_judgments(results: Results, path: str | Path) -> Path:
    """Write the judgments of one run as `judgments.jsonl`, which `rs.load_results` reads with the run's `per_query.jsonl` beside it.

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
    return write_lines(
        file,
        (
            {
                **{name: value for name, value in row.items() if not name.startswith("x_")},
                **extra_fields(row, _JUDGMENT_COLUMNS, "judgments"),
            }
            for row in rows
        ),
    )


def read_judgments(file: Path, run_id: str, problems: Problems) -> pd.DataFrame | None:
    """The judgments beside a run's file; None where there is no such file."""
    if not file.exists():
        return None
    faults = problems.for_file(file)
    records = [
        record for row in json_rows(file, faults) if (record := _record(row, faults)) is not None
    ]
    return from_records(
        unify_types([{"run_id": run_id} | record for record in records]), "judgments"
    )


def _record(row: Row, problems: Problems) -> dict[str, Any] | None:
    """One verdict; None, and a problem, for one of no query or no criterion."""
    values = dict(row.values)
    found: dict[str, Any] = {
        name: identifier(values.pop(name, None), name, row.line, problems)
        for name in ("query_id", "criterion")
    }
    if missing := [name for name, value in found.items() if value is None]:
        if all(name not in row.values or row.values[name] is None for name in missing):
            problems.add(
                "the field is missing",
                line=row.line,
                field=missing[0],
                allowed="text that isn't empty",
            )
        return None
    values.pop("run_id", None)
    for name, dtype in KINDS["judgments"].dtypes.items():
        if name not in ("run_id", *found):
            found[name] = _READERS[dtype](values.pop(name, None), name, row.line, problems)
    found["item"] = found["item"] or ""
    return found | flatten(values)
