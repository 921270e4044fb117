"""Our run file, `per_query.jsonl` with `run.json` beside it (the kebab record, a superset) -> `Results`.

The same record stands in kebab's SQLite tables, which `read_sqlite` reads. This per-line reader is
the definition of the format (arrow_lines.py reads large files that hold nothing odd, and gives the
same): older records that lack later fields load, what we have no column for is kept in `x_*`
columns.
"""

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, concat_results, empty, from_records
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
    """One run: its file of records, its `run.json` and `judgments.jsonl` if there are any."""
    _check_name(path)
    problems = Problems(path, strict)
    run = _run(path, problems)
    frames, tables = read_frames(path, run["run_id"]), Tables()
    if frames is None:
        for row in json_rows(path, problems):
            read_record(row, tables, problems)
        problems.typos.warn(stacklevel=4)
    judgments = _judgments(path, run, problems)
    results = (
        results_of(run, tables, problems) if frames is None else _results(run, frames, problems)
    )
    return replace(results, judgments=judgments) if judgments is not None else results


def begin_run(path: Path, strict: bool) -> tuple[dict[str, Any], Problems]:
    """What is known of a run before its records are read.

    Its row of the runs frame, and what its faults go to.
    """
    _check_name(path)
    problems = Problems(path, strict)
    return _run(path, problems), problems


def stream_per_query(
    path: Path, run: dict[str, Any], problems: Problems, folder: Path, on_progress: Progress
) -> tuple[RunOnDisk, Results]:
    """The records of a run that was begun, read into `folder`.

    Beside them, the results that `read_per_query` gives without them.
    """
    streamed = stream_records(path, run["run_id"], problems, folder, on_progress)
    judgments = _judgments(path, run, problems)
    counts = {"n_queries": len(streamed.query_ids), "n_failed": streamed.n_failed}
    runs = from_records([run | counts], "runs")
    return streamed, Results(
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
    return (
        read_judgments(path.parent / JUDGMENTS_FILE, run["run_id"], problems)
        if path.name.startswith("per_query.")
        else None
    )


def _run(path: Path, problems: Problems) -> dict[str, Any]:
    """The run as `run.json` describes it.

    Without one, it is named after its folder or, if that says more, the file.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
    named = {"run_id": path.absolute().parent.name if stem == "per_query" else stem}
    beside = path.parent / "run.json"
    if stem != "per_query" or not beside.exists():
        return run_record(named, path)
    faults = problems.for_file(beside)
    described, lines = read_run_json(beside, faults)
    if "run_id" in described and as_id(described["run_id"]) is None:
        faults.add(
            f"found {describe(described.pop('run_id'))}",
            line=lines.get("run_id"),
            field="run_id",
            allowed=ID_ALLOWED,
        )
    counted = {
        name: value for name, value in described.items() if name not in ("n_queries", "n_failed")
    }
    run = run_record({**named, **counted}, beside, lines=lines, problems=faults)
    faults.typos.warn(stacklevel=5)
    return run


def results_of(run: dict[str, Any], tables: Tables, problems: Problems) -> Results:
    """One run's records as frames."""
    for name in _FRAMES:
        for record in getattr(tables, name):
            record["run_id"] = run["run_id"]
    frames = {
        name: from_records(unify_types(getattr(tables, name)), name)
        for name in _FRAMES
        if name not in _OPTIONAL or getattr(tables, name)
    }
    return _results(run, frames, problems)


def _results(run: dict[str, Any], frames: dict[str, pd.DataFrame], problems: Problems) -> Results:
    """The frames as `Results`, with a run that says how many queries there are."""
    counts = {
        "n_queries": len(frames["responses"]),
        "n_failed": int(frames["responses"]["error"].notna().sum()),
    }
    return Results(
        runs=from_records([run | counts], "runs"), **frames, problems=problems.frame(run["run_id"])
    )


def read_sqlite(path: Path, strict: bool) -> Results:
    """Every run of a kebab database (tables `eval_runs` and `eval_query_results`), in order of creation."""
    problems = Problems(path, strict)
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        found = connection.execute(
            "SELECT run_id, suite, created_at, commit_hash, config_snapshot_json FROM eval_runs"
            " ORDER BY created_at, run_id"
        ).fetchall()
        parts = []
        for number, values in enumerate(found, 1):
            parts += _sqlite_run(connection, number, values, problems)
        _count_strays(connection, problems)
    except sqlite3.Error as error:
        raise DataError(
            f"not a readable SQLite file with eval_runs and eval_query_results ({error})", file=path
        ) from error
    finally:
        connection.close()
    if not parts:
        raise DataError("the table eval_runs holds no run", file=path)
    results = concat_results(parts)
    return (
        replace(
            results, problems=pd.concat([results.problems, problems.frame()], ignore_index=True)
        )
        if problems.records
        else results
    )


def _sqlite_run(
    connection: sqlite3.Connection, number: int, values: tuple[Any, ...], problems: Problems
) -> list[Results]:
    """One row of `eval_runs` with its records; nothing, and a problem, for a row without an id."""
    run_id, suite, created_at, commit, snapshot = values
    if as_id(run_id) is None:
        problems.add(
            f"found {describe(run_id)} in row {number}",
            line=number,
            field="eval_runs.run_id",
            allowed=ID_ALLOWED,
        )
        return []
    described = {
        "run_id": run_id,
        "suite": suite,
        "created_at": created_at,
        "commit": commit,
        "config_snapshot_json": snapshot,
    }
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
        record = _result_json(
            query_id, text, f"row {line} of run {run['run_id']!r}, query {query_id!r}", line, own
        )
        if record is not None:
            read_record(Row({"query_id": query_id, **record}, line), tables, own)
    own.typos.warn(stacklevel=5)
    return [results_of(run, tables, own)]


def _result_json(
    query_id: Any, text: Any, place: str, line: int, problems: Problems
) -> dict[str, Any] | None:
    """The record of one row of `eval_query_results`; None, and a problem, for one that holds none."""
    table = "eval_query_results"
    if as_id(query_id) is None:
        problems.add(
            f"found {describe(query_id)} in {place}",
            line=line,
            field=f"{table}.query_id",
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
        field=f"{table}.result_json",
        allowed="a JSON object as text",
    )
    return None


def _count_strays(connection: sqlite3.Connection, problems: Problems) -> None:
    """Results whose run the table of runs doesn't know would be lost without a word."""
    strays = connection.execute(
        "SELECT run_id, count(*) FROM eval_query_results WHERE run_id IS NULL OR run_id NOT IN"
        " (SELECT run_id FROM eval_runs WHERE run_id IS NOT NULL) GROUP BY 1"
    )
    for run_id, n in strays.fetchall():
        problems.add(
            f"found {describe(run_id)} in {n} rows",
            field="eval_query_results.run_id",
            allowed="a run_id of eval_runs",
        )
