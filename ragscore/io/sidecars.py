"""`run.json`, the description of a run: as one row of the runs frame, and back."""

import json
import re
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import KINDS, DataError
from ragscore.io.fields import ID_ALLOWED, text, whole
from ragscore.io.source import Problems, as_id, as_text, open_text, parsed, shown
from ragscore.io.values import flatten, own_fields, present

_TEXTS = ("system", "suite", "commit", "config_hash", "golden_hash", "chunker_version", "note")
_LOWEST = {"repeat": 0, "n_queries": 0, "n_failed": 0, "k": 1}
_KNOWN = frozenset((*_TEXTS, *_LOWEST, "run_id", "config", "config_snapshot_json", "created_at"))
_TIME_ALLOWED = "an ISO 8601 time as text, such as 2026-01-31T09:30:00Z"


def read_run_json(beside: Path, problems: Problems) -> tuple[dict[str, Any], dict[str, int]]:
    """What a `run.json` says, and the line of each of its fields.

    Nothing for one that can't be read.
    """
    written = open_text(beside)
    try:
        values = parsed(written)
    except (ValueError, RecursionError) as error:
        problems.add(
            f"not valid JSON ({error})",
            line=getattr(error, "lineno", None),
            allowed="one JSON object",
        )
        return {}, {}
    if not isinstance(values, dict):
        problems.add(f"found {shown(values)}", line=1, allowed="one JSON object")
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
        faults.slips.look([name], _KNOWN, line_of.get(name, 1))
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
    return f"found {shown(described[name])}" if name in described else "the field is missing"


def _config(described: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The configuration, and the fields that no column takes."""
    rest = {name: value for name, value in described.items() if name not in _KNOWN}
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
            f"found {shown(written)}", line=line, field="created_at", allowed=_TIME_ALLOWED
        )
        return None
    return time.tz_localize("UTC") if time.tzinfo is None else time.tz_convert("UTC")


def run_description(runs: pd.DataFrame) -> dict[str, Any]:
    """The first row of a runs frame as the content of `run.json`: config as JSON, unknown left out."""
    run = next(present(runs))
    run["run_id"] = str(run["run_id"])
    if "config" in run:
        run["config"] = snapshot_of(run["config"])
    if "created_at" in run:
        run["created_at"] = run["created_at"].isoformat().replace("+00:00", "Z")
    extra = own_fields(run, frozenset(KINDS["runs"].dtypes), "runs")
    return {**{name: value for name, value in run.items() if not name.startswith("x_")}, **extra}
