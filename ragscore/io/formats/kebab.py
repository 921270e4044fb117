"""Files of kebab's harness -> `Results`: its SQLite file, and one run as JSON.

Records of queries are those of `per_query.jsonl`. The aggregate that a file stores for a run
becomes `reported`.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.files import read_text
from ragscore.io.formats.fields import aggregate, json_object, leaves, run_name
from ragscore.io.run_file import results_of
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


def read_run(path: Path, strict: bool) -> Results:
    """Read an object that describes a run, with its records and, maybe, its aggregate."""
    problems = Problems(path, strict)
    content, source = json_object(path, "an object with `per_query`"), read_text(path)
    lines, records = field_lines(source), content.pop("per_query", None)
    if not isinstance(records, list):
        problems.reject(records, lines.get("per_query"), "per_query", "a list of objects")
    of_records = item_lines(source, "per_query") if isinstance(records, list) else []
    rows = []
    for line, values in zip(of_records, records or (), strict=False):
        if isinstance(values, dict):
            rows.append(Row(values, line))
        else:
            problems.reject(values, line, "per_query", "a list of objects")
    stored = {name: content.pop(name, None) for name in ("aggregate", "aggregate_json")}
    field = next((name for name, value in stored.items() if value), "aggregate")
    for other, name in (("commit_hash", "commit"), ("config_snapshot", "config_snapshot_json")):
        if other in content:
            content.setdefault(name, content.pop(other))
    described = {name: content[name] for name in content if name not in ("n_queries", "n_failed")}
    if described.get("run_id") is None:
        described["run_id"] = run_name(path)
    return _run(described, lines, rows, stored[field], field, problems)


def _run(
    described: dict[str, Any], lines: dict[str, int], rows: list[Row], stored: Any, field: str,
    problems: Problems,
) -> Results:  # fmt: skip
    """Return a run: its description, its records, and its aggregate, an object or JSON as text.

    Null in an aggregate is NaN. Without one, and while it is `{}`, nothing is reported.
    """
    run, line = (
        run_record(described, problems.file, lines=lines, problems=problems),
        lines.get(field),
    )
    if isinstance(stored, str):
        try:
            stored = parse_json(stored or "null")
        except (ValueError, RecursionError) as error:
            found, stored = f"not valid JSON ({error})", None
            problems.add(found, line=line, field=field, allowed="a JSON object")
    if not isinstance(stored, (dict, NoneType)):
        problems.reject(stored, line, field, "a JSON object")
        stored = None
    reported = []
    for metric, value in leaves(stored or {}):
        if value != {}:
            name, _, k = metric.partition(".")
            is_cut = "{k}" in AGGREGATES.get(name, ("", ""))[0]
            known = AGGREGATES if is_cut == k.isdecimal() else {}
            value = number(value, f"{field}.{metric}", line, problems)
            reported.append({"run_id": run["run_id"]} | aggregate(metric, value, known, name, k))
    results = results_of(run, rows, problems)
    problems.typos.warn()
    return replace(results, reported=from_records(reported, "reported")) if reported else results


def read_sqlite(path: Path, strict: bool) -> Results:
    """Read every run of an SQLite file, in order of creation.

    Runs are in the table `eval_runs`, their records in `eval_query_results`. A run's aggregate
    becomes `reported`, where it has one.
    """
    import sqlite3

    problems, parts = Problems(path, strict), list[Results]()
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.text_factory = lambda data: data.decode("utf-8", "replace")
    try:
        columns = {row[1] for row in connection.execute("PRAGMA table_info(eval_runs)")}
        aggregate = AGGREGATE if AGGREGATE in columns else "NULL"
        texts = {"suite": "suite", "created_at": "created_at", "commit": "commit_hash"}
        texts |= {"config_snapshot_json": "config_snapshot_json", AGGREGATE: aggregate}
        runs = connection.execute(
            f"SELECT run_id, {', '.join(f'CAST({one} AS TEXT)' for one in texts.values())}"
            " FROM eval_runs ORDER BY created_at, run_id"
        )
        for number, values in enumerate(runs.fetchall(), 1):
            described = dict(zip(["run_id", *texts], values, strict=True))
            if as_id(described["run_id"]) is None:
                found = f"found {describe(described['run_id'])} in row {number}"
                problems.add(found, line=number, field="eval_runs.run_id", allowed=ID_ALLOWED)
                continue
            own, field = Problems(path, strict), f"eval_runs.{AGGREGATE}"
            stored, rows = described.pop(AGGREGATE), [*_sqlite_rows(connection, values[0], own)]
            lines = dict.fromkeys([*described, field], number)
            parts.append(_run(described, lines, rows, stored, field, own))
        # records of unknown runs would be lost in silence
        for run_id, n in connection.execute(
            "SELECT run_id, count(*) FROM eval_query_results WHERE run_id IS NULL OR run_id NOT IN"
            " (SELECT run_id FROM eval_runs WHERE run_id IS NOT NULL) GROUP BY 1"
        ):
            found, allowed = f"found {describe(run_id)} in {n} rows", "a run_id of eval_runs"
            problems.add(found, field="eval_query_results.run_id", allowed=allowed)
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


def _sqlite_rows(
    connection: "sqlite3.Connection", run_id: Any, problems: Problems
) -> Iterator[Row]:
    """Yield the records of a run; one without an id, or that is no object, is a problem."""
    records = connection.execute(
        "SELECT query_id, result_json FROM eval_query_results WHERE run_id = ? ORDER BY query_id",
        (run_id,),
    )
    for line, (query_id, text) in enumerate(records, 1):
        field, allowed, found = "result_json", "a JSON object as text", f"found {describe(text)}"
        values: Any = None
        if as_id(query_id) is None:
            field, allowed, found = "query_id", ID_ALLOWED, f"found {describe(query_id)}"
        elif isinstance(text, str):
            try:
                values = parse_json(text)
                found = f"found {describe(values)}"
            except (ValueError, RecursionError) as error:
                found = json_fault(error)["found"]
        if isinstance(values, dict):
            yield Row({"query_id": query_id, **values}, line)
        else:
            found += f" in row {line} of run {run_id!r}, query {query_id!r}"
            problems.add(found, line=line, field=f"eval_query_results.{field}", allowed=allowed)
