"""Files of kebab's harness -> `Results`: its SQLite file, and one run as JSON.

Records of queries are as in `per_query.jsonl`. The aggregate that a file stores for a run
becomes `reported`.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import NoneType
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.cells import run_name_of
from ragscore.io.formats.fields import aggregate, json_object
from ragscore.io.frames_in import json_records
from ragscore.io.run_file import results_of, run_record
from ragscore.io.source import (
    Problems,
    Row,
    describe,
    parsed,
)
from ragscore.io.values import READ, grouped, leaves

# Number of an aggregate -> our metric, and which statistic of it the number is. There, means are
# rounded to four decimals, and every query without expected documents should be refused.
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


def read_run(path: Path, strict: bool) -> Results:
    """Read an object that describes a run, with its records and, maybe, its aggregate."""
    problems, content = Problems(path, strict), json_object(path, "an object with `per_query`")
    rows = json_records(content.pop("per_query", None), problems)
    field = "aggregate" if content.get("aggregate") else "aggregate_json"
    if content.get("run_id") is None:
        content["run_id"] = run_name_of(path)
    return _run(content, None, rows, field, problems)


def _run(
    described: dict[str, Any], line: int | None, rows: Iterable[Row], field: str,
    problems: Problems,
) -> Results:  # fmt: skip
    """Return a run: its description, its records, and its aggregate, an object or JSON as text.

    Null in an aggregate is NaN. Without one, and while it is `{}`, nothing is reported.
    """
    stored = parsed(described.get(field.rpartition(".")[2]))
    if not isinstance(stored, (dict, NoneType)):
        problems.reject(stored, line, field, "a JSON object")
        stored = None
    about = {name: one for name, one in described.items() if not name.startswith("aggregate")}
    run = run_record(about, problems.file, line=line, problems=problems)
    reported = []
    for metric, value in leaves(stored or {}):
        if value != {}:
            name, _, k = metric.partition(".")
            is_cut = "{k}" in AGGREGATES.get(name, ("", ""))[0]
            known = AGGREGATES if is_cut == k.isdecimal() else {}
            value = READ["number"](value, f"{field}.{metric}", line, problems)
            reported.append({"run_id": run["run_id"]} | aggregate(metric, value, known, name, k))
    results = results_of(run, rows, problems)
    results.reported = from_records(reported, "reported") if reported else None
    return results


def read_sqlite(path: Path, strict: bool) -> Results:
    """Read every run of an SQLite file, in order of creation.

    Runs are in the table `eval_runs`, their records in `eval_query_results`. A run's aggregate
    becomes `reported`, where it has one.
    """
    problems, parts = Problems(path, strict), list[Results]()
    import sqlite3  # the database of one format

    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            base.row_factory = sqlite3.Row
            base.text_factory = lambda data: data.decode("utf-8", "replace")
            runs, records = (
                [dict(one) for one in base.execute(f"SELECT * FROM {rows}")]
                for rows in (
                    "eval_runs ORDER BY created_at, run_id",
                    "eval_query_results ORDER BY query_id",
                )
            )
    except sqlite3.Error as error:
        raise DataError(
            f"not a readable SQLite file with eval_runs and eval_query_results ({error})", file=path
        ) from error
    field = "eval_runs.aggregate_json"
    of_run = grouped([one["run_id"] for one in records], records)
    for row, run in enumerate(runs, 1):
        own, stored = Problems(path, strict), of_run.pop(run["run_id"], [])
        parts.append(_run(run, row, _stored_rows(stored, own), field, own))
    for run_id, lost in of_run.items():  # they would be lost in silence
        problems.add(
            f"found {describe(run_id)} in {len(lost)} rows",
            field="eval_query_results.run_id",
            allowed="a run_id of eval_runs",
        )
    if not parts:
        raise DataError("the table eval_runs holds no run", file=path)
    results = Results.concat(parts)
    results.problems = pd.concat([results.problems, problems.frame()], ignore_index=True)
    return results


def _stored_rows(records: list[dict[str, Any]], problems: Problems) -> Iterator[Row]:
    """Yield the records of a run; one that is no object is a problem."""
    for line, record in enumerate(records, 1):
        values = parsed(record["result_json"])
        if isinstance(values, dict):
            yield Row({"query_id": record["query_id"]} | values, line)
        else:
            of = f"row {line} of run {record['run_id']!r}, query {record['query_id']!r}"
            problems.add(
                f"found {describe(values)} in {of}",
                line=line,
                field="eval_query_results.result_json",
                allowed="a JSON object as text",
            )
