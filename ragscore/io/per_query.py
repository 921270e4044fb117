"""Our run file, `per_query.jsonl` with `run.json` beside it, or kebab's SQLite file -> `Results`.

This per-line reader defines the format, a superset of kebab's record. arrow_lines.py reads
large regular files faster and gives the same frames. Older records without later fields load.
Fields that no column takes are kept in `x_*` columns.
"""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, empty, from_records
from ragscore.io.arrow_lines import read_frames
from ragscore.io.record import Tables, read_record
from ragscore.io.sidecars import (
    JUDGMENTS_FILE,
    LEDGER_FILE,
    read_judgments,
    read_run_json,
    run_record,
)
from ragscore.io.source import Problems, Row, as_id, describe, json_rows, parse_json
from ragscore.io.stream import Progress, RunOnDisk, stream_records
from ragscore.io.values import ID_ALLOWED, unify_types

_FRAMES = ("responses", "hits", "citations", "hops", "hit_meta")
_OPTIONAL = ("hops", "hit_meta")


def read_per_query(path: Path, strict: bool) -> Results:
    """Read one run: its records, and `run.json` and `judgments.jsonl` if they are there."""
    _check_name(path)
    problems = Problems(path, strict)
    run = _run(path, problems)
    frames = read_frames(path, run["run_id"])
    if frames is None:
        tables = Tables()
        for row in json_rows(path, problems):
            read_record(row, tables, problems)
        problems.typos.warn()
        frames = _frames(tables, run["run_id"])
    judgments = _judgments(path, run, problems)
    results = _results(run, frames, problems)
    return replace(results, judgments=judgments) if judgments is not None else results


def begin_run(path: Path, strict: bool) -> tuple[dict[str, Any], Problems]:
    """Return a run's row of the runs frame before its records are read, and its `Problems`."""
    _check_name(path)
    problems = Problems(path, strict)
    return _run(path, problems), problems


def stream_per_query(
    path: Path, run: dict[str, Any], problems: Problems, folder: Path, on_progress: Progress
) -> tuple[RunOnDisk, Results]:
    """Read the records of a run into `folder`, after `begin_run`.

    Also returns what `read_per_query` would give, without the records' frames.
    """
    on_disk = stream_records(path, run["run_id"], problems, folder, on_progress)
    judgments = _judgments(path, run, problems)
    counts = {"n_queries": len(on_disk.query_ids), "n_failed": on_disk.n_failed}
    runs = from_records([run | counts], "runs")
    return on_disk, Results(
        runs=runs,
        responses=empty("responses"),
        judgments=judgments,
        problems=problems.frame(run["run_id"]),
    )


def _check_name(path: Path) -> None:
    if path.name in (JUDGMENTS_FILE, LEDGER_FILE):
        raise DataError(
            "these are a run's judgments, not a run",
            file=path,
            allowed="the per_query.jsonl beside it, with which they are read",
        )


def _judgments(path: Path, run: dict[str, Any], problems: Problems) -> pd.DataFrame | None:
    if not path.name.startswith("per_query."):
        return None
    return read_judgments(path.parent / JUDGMENTS_FILE, run["run_id"], problems)


def _run(path: Path, problems: Problems) -> dict[str, Any]:
    """Return the run as `run.json` describes it.

    Without one, a run is named after its file, or after its folder if the file is `per_query`.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    named = {"run_id": path.absolute().parent.name if stem == "per_query" else stem}
    run_json = path.parent / "run.json"
    if stem != "per_query" or not run_json.exists():
        return run_record(named, path)
    faults = problems.for_file(run_json)
    described, lines = read_run_json(run_json, faults)
    if "run_id" in described and as_id(described["run_id"]) is None:
        faults.reject(described.pop("run_id"), lines.get("run_id"), "run_id", ID_ALLOWED)
    for name in ("n_queries", "n_failed"):  # counted anew
        described.pop(name, None)
    run = run_record({**named, **described}, run_json, lines=lines, problems=faults)
    faults.typos.warn()
    return run


def results_of(run: dict[str, Any], tables: Tables, problems: Problems) -> Results:
    """Return the records of one run as `Results`."""
    return _results(run, _frames(tables, run["run_id"]), problems)


def _frames(tables: Tables, run_id: str) -> dict[str, pd.DataFrame]:
    frames = {}
    for name in _FRAMES:
        records = getattr(tables, name)
        for record in records:
            record["run_id"] = run_id
        if records or name not in _OPTIONAL:
            frames[name] = from_records(unify_types(records), name)
    return frames


def _results(run: dict[str, Any], frames: dict[str, pd.DataFrame], problems: Problems) -> Results:
    """Return the frames as `Results`, with the number of queries in the runs frame."""
    counts = {
        "n_queries": len(frames["responses"]),
        "n_failed": int(frames["responses"]["error"].notna().sum()),
    }
    return Results(
        runs=from_records([run | counts], "runs"), **frames, problems=problems.frame(run["run_id"])
    )


def read_sqlite(path: Path, strict: bool) -> Results:
    """Read every run of an SQLite file, in order of creation.

    Runs are in the table `eval_runs`, their records in `eval_query_results`.
    """
    problems = Problems(path, strict)
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        rows = connection.execute(
            "SELECT run_id, suite, created_at, commit_hash, config_snapshot_json FROM eval_runs"
            " ORDER BY created_at, run_id"
        ).fetchall()
        parts = []
        for number, values in enumerate(rows, 1):
            parts += _sqlite_run(connection, number, values, problems)
        _report_orphans(connection, problems)
    except sqlite3.Error as error:
        raise DataError(
            f"not a readable SQLite file with eval_runs and eval_query_results ({error})", file=path
        ) from error
    finally:
        connection.close()
    if not parts:
        raise DataError("the table eval_runs holds no run", file=path)
    results = Results.concat(parts)
    if not problems.records:
        return results
    both = pd.concat([results.problems, problems.frame()], ignore_index=True)
    return replace(results, problems=both)


def _sqlite_run(
    connection: sqlite3.Connection, number: int, values: tuple[Any, ...], problems: Problems
) -> list[Results]:
    """Return one row of `eval_runs` with its records; a row without an id is a problem."""
    columns = ("run_id", "suite", "created_at", "commit", "config_snapshot_json")
    described = dict(zip(columns, values, strict=True))
    run_id = described["run_id"]
    if as_id(run_id) is None:
        problems.add(
            f"found {describe(run_id)} in row {number}",
            line=number,
            field="eval_runs.run_id",
            allowed=ID_ALLOWED,
        )
        return []
    own, tables = Problems(problems.file, problems.strict), Tables()
    for name, value in described.items():
        if isinstance(value, bytes):
            own.add(
                f"found {describe(value)} in row {number}",
                line=number,
                field=f"eval_runs.{name}",
                allowed="text or null",
            )
            described[name] = None
    run = run_record(described, problems.file, lines=dict.fromkeys(described, number), problems=own)
    records = connection.execute(
        "SELECT query_id, result_json FROM eval_query_results WHERE run_id = ? ORDER BY query_id",
        (run_id,),
    )
    for line, (query_id, text) in enumerate(records, 1):
        place = f"row {line} of run {run['run_id']!r}, query {query_id!r}"
        record = _sqlite_record(query_id, text, place, line, own)
        if record is not None:
            read_record(Row({"query_id": query_id, **record}, line), tables, own)
    own.typos.warn()
    return [results_of(run, tables, own)]


def _sqlite_record(
    query_id: Any, text: Any, place: str, line: int, problems: Problems
) -> dict[str, Any] | None:
    """Return the record of one row of `eval_query_results`; None, and a problem, without one."""
    if as_id(query_id) is None:
        problems.add(
            f"found {describe(query_id)} in {place}",
            line=line,
            field="eval_query_results.query_id",
            allowed=ID_ALLOWED,
        )
        return None
    found = f"found {describe(text)}"
    if isinstance(text, str):
        try:
            values = parse_json(text)
            if isinstance(values, dict):
                return values
            found = f"found {describe(values)}"
        except (ValueError, RecursionError) as error:
            found = f"not valid JSON ({error})"
    problems.add(
        f"{found} in {place}",
        line=line,
        field="eval_query_results.result_json",
        allowed="a JSON object as text",
    )
    return None


def _report_orphans(connection: sqlite3.Connection, problems: Problems) -> None:
    """Report records of unknown runs, which would be lost in silence."""
    orphans = connection.execute(
        "SELECT run_id, count(*) FROM eval_query_results WHERE run_id IS NULL OR run_id NOT IN"
        " (SELECT run_id FROM eval_runs WHERE run_id IS NOT NULL) GROUP BY 1"
    )
    for run_id, n in orphans.fetchall():
        problems.add(
            f"found {describe(run_id)} in {n} rows",
            field="eval_query_results.run_id",
            allowed="a run_id of eval_runs",
        )
