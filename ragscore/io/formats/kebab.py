"""Files of kebab's harness -> `Results`: its SQLite file, and one run as JSON.

Records of queries are those of `per_query.jsonl`. The aggregate that a file stores for a run
becomes `reported`.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.file_content import read_text
from ragscore.io.formats.fields import aggregate, json_object, run_name
from ragscore.io.per_query import results_of
from ragscore.io.sidecars import run_record
from ragscore.io.source import (
    Problems,
    Row,
    as_id,
    describe,
    field_lines,
    item_lines,
    json_fault,
    parse_json,
)
from ragscore.io.values import ID_ALLOWED, number

if TYPE_CHECKING:
    import sqlite3

AGGREGATES = {
    "hit_at_k": ("hit@{k}:chunk", "mean"),
    "mrr": ("mrr@10:chunk", "mean"),
    "recall_at_k_doc": ("recall@{k}:doc", "mean"),
    "precision_at_k_chunk": ("precision@{k}:chunk", "mean"),
    "citation_coverage": ("citation_coverage_weak", "mean"),
    "groundedness": ("answer_checks_all", "mean"),
    "empty_result_rate": ("empty_all", "mean"),
    "refusal_correctness": ("refusal_correct", "mean"),
    "total_queries": ("failed", "n"),
    "failed_queries": ("failed", "sum"),
}
"""Number of an aggregate -> our metric, and which statistic of it the number is.

There, means are rounded to four decimals, and every query without expected documents should be
refused.
"""
AGGREGATE = "aggregate_json"  # column of the table eval_runs

Record = dict[str, Any]


# One run as JSON


def read_run(path: Path, strict: bool) -> Results:
    """Read an object that describes a run, with its records and, maybe, its aggregate."""
    problems = Problems(path, strict)
    content, source = json_object(path, "an object with `per_query`"), read_text(path)
    lines = field_lines(source)
    records = content.pop("per_query", None)
    if not isinstance(records, list):
        problems.reject(records, lines.get("per_query"), "per_query", "a list of objects")
    stored = {name: content.pop(name, None) for name in ("aggregate", "aggregate_json")}
    run = _run(content, path, lines, problems)
    rows = []
    if isinstance(records, list):
        for values, line in zip(records, item_lines(source, "per_query"), strict=True):
            if isinstance(values, dict):
                rows.append(Row(values, line))
            else:
                problems.reject(values, line, "per_query", "a list of objects")
    field = next((name for name, value in stored.items() if value), "aggregate")
    reported = _aggregate(stored[field], run["run_id"], field, lines.get(field), problems)
    results = results_of(run, rows, problems)
    problems.typos.warn()
    return _with_reported(results, reported)


def _run(content: Record, path: Path, lines: dict[str, int], problems: Problems) -> Record:
    """Return the row of the runs frame; a run without an id is named after its file."""
    described = {
        name: value for name, value in content.items() if name not in ("n_queries", "n_failed")
    }
    if described.get("run_id") is None:
        described["run_id"] = run_name(path)
    for other, name in (
        ("commit_hash", "commit"),
        ("config_snapshot", "config_snapshot_json"),
    ):
        if other in described:
            described.setdefault(name, described.pop(other))
    return run_record(described, path, lines=lines, problems=problems)


# What a file stores for a run


def _aggregate(
    stored: Any, run_id: str, field: str, line: int | None, problems: Problems
) -> list[Record]:
    """Return the rows of the reported frame for an aggregate, an object or its JSON as text.

    Null is NaN. Without an aggregate, and while it is `{}`, there are none.
    """
    if isinstance(stored, str):
        try:
            stored = parse_json(stored or "null")
        except (ValueError, RecursionError) as error:
            problems.add(
                f"not valid JSON ({error})", line=line, field=field, allowed="a JSON object"
            )
            return []
    if not isinstance(stored, (dict, type(None))):
        problems.reject(stored, line, field, "a JSON object")
        return []
    rows = []
    for metric, value in _numbers(stored or {}, field, line, problems):
        name, _, k = metric.partition(".")
        is_cut = "{k}" in AGGREGATES.get(name, ("", ""))[0]
        known = AGGREGATES if is_cut == k.isdecimal() else {}
        rows.append({"run_id": run_id} | aggregate(metric, value, known, name, k))
    return rows


def _numbers(
    values: Record, place: str, line: int | None, problems: Problems, prefix: str = ""
) -> Iterator[tuple[str, float | None]]:
    """Yield every number of nested objects by its dotted name; cut-offs go up."""
    if all(name.isdecimal() for name in values):
        values = dict(sorted(values.items(), key=lambda item: int(item[0])))
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{place}.{name}", line, problems, f"{prefix}{name}.")
        else:
            yield prefix + name, number(value, f"{place}.{name}", line, problems)


def _with_reported(results: Results, reported: list[Record]) -> Results:
    return replace(results, reported=from_records(reported, "reported")) if reported else results


# Every run of an SQLite file


def read_sqlite(path: Path, strict: bool) -> Results:
    """Read every run of an SQLite file, in order of creation.

    Runs are in the table `eval_runs`, their records in `eval_query_results`. A run's aggregate
    becomes `reported`, where it has one.
    """
    import sqlite3

    problems = Problems(path, strict)
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    try:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(eval_runs)")}
        aggregate = AGGREGATE if AGGREGATE in columns else "NULL"
        rows = connection.execute(
            f"SELECT run_id, suite, created_at, commit_hash, config_snapshot_json, {aggregate}"
            " FROM eval_runs ORDER BY created_at, run_id"
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
    both = pd.concat([results.problems, problems.frame()], ignore_index=True)
    return replace(results, problems=both)


def _sqlite_run(
    connection: "sqlite3.Connection", number: int, values: tuple[Any, ...], problems: Problems
) -> list[Results]:
    """Return one row of `eval_runs` with its records; a row without an id is a problem."""
    columns = ("run_id", "suite", "created_at", "commit", "config_snapshot_json", AGGREGATE)
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
    own, rows = Problems(problems.file, problems.strict), []
    for name, value in described.items():
        if isinstance(value, bytes):
            own.add(
                f"found {describe(value)} in row {number}",
                line=number,
                field=f"eval_runs.{name}",
                allowed="text or null",
            )
            described[name] = None
    stored = described.pop(AGGREGATE)
    run = run_record(described, problems.file, lines=dict.fromkeys(described, number), problems=own)
    reported = _aggregate(stored, run["run_id"], f"eval_runs.{AGGREGATE}", number, own)
    records = connection.execute(
        "SELECT query_id, result_json FROM eval_query_results WHERE run_id = ? ORDER BY query_id",
        (run_id,),
    )
    for line, (query_id, stored) in enumerate(records, 1):
        place = f"row {line} of run {run['run_id']!r}, query {query_id!r}"
        record = _sqlite_record(query_id, stored, place, line, own)
        if record is not None:
            rows.append(Row({"query_id": query_id, **record}, line))
    results = results_of(run, rows, own)
    own.typos.warn()
    return [_with_reported(results, reported)]


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
            found = json_fault(error)["found"]
    problems.add(
        f"{found} in {place}",
        line=line,
        field="eval_query_results.result_json",
        allowed="a JSON object as text",
    )
    return None


def _report_orphans(connection: "sqlite3.Connection", problems: Problems) -> None:
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
