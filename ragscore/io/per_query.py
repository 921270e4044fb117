"""Our run file, `per_query.jsonl` with `run.json` beside it -> `Results`.

This per-line reader defines the format, a superset of kebab's record. arrow_lines.py reads
large regular files faster and gives the same frames. Older records without later fields load.
Fields that no column takes are kept in `x_*` columns.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, empty, from_records
from ragscore.io.arrow_lines import read_frames
from ragscore.io.object_columns import HitColumns, gathered
from ragscore.io.record import hit_columns, read_record, with_refusals_implied
from ragscore.io.records import Tables
from ragscore.io.sidecars import (
    JUDGMENTS_FILE,
    LEDGER_FILE,
    read_judgments,
    read_run_json,
    run_record,
)
from ragscore.io.source import Problems, as_id
from ragscore.io.stream import Progress, RunOnDisk, stream_records
from ragscore.io.values import ID_ALLOWED, unify_types

_FRAMES = ("responses", "hits", "citations", "calls", "hit_meta")
_OPTIONAL = ("calls", "hit_meta")


def read_per_query(path: Path, strict: bool) -> Results:
    """Read one run: its records, and `run.json` and `judgments.jsonl` if they are there."""
    _check_name(path)
    problems = Problems(path, strict)
    run = _run(path, problems)
    frames = read_frames(path, run["run_id"])
    if frames is None:
        tables, hits = gathered(path, problems, _tables, hit_columns(), read_record)
        problems.typos.warn()
        frames = _frames(tables, run["run_id"], hits)
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


def _tables(columns: HitColumns | None) -> Tables:
    return Tables(columns=columns)


def results_of(run: dict[str, Any], tables: Tables, problems: Problems) -> Results:
    """Return the records of one run as `Results`."""
    return _results(run, _frames(tables, run["run_id"]), problems)


def _frames(tables: Tables, run_id: str, hits: HitColumns | None = None) -> dict[str, pd.DataFrame]:
    frames = {}
    is_stated = tables.states_refusals and not tables.leaves_refusals
    for name in _FRAMES:
        records = getattr(tables, name)
        for record in records:
            record["run_id"] = run_id
        if records or name not in _OPTIONAL:
            frames[name] = from_records(unify_types(records), name)
    frames["responses"] = with_refusals_implied(frames["responses"], is_stated)
    if hits is not None:
        query_ids = [one["query_id"] for one in tables.responses]
        frames |= hits.frames({"run_id": [run_id] * len(query_ids), "query_id": query_ids})
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
