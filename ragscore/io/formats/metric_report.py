"""Metric reports (`metrics` with per-query values and their summary) <-> the frame `reported`.

A report holds the values that another tool measured.
"""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from types import NoneType
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.detect import Sample
from ragscore.io.files import check_one_run, write_json
from ragscore.io.formats.fields import Fields, json_object, named_fields, run_name, take_columns
from ragscore.io.source import Problems, as_id
from ragscore.io.values import READ, extra_fields, flatten, row_dicts

# The column of each is a value of `statistic`, named as in `ev.summary` where that has it.
STATISTICS: Fields = {
    "n": ("n", "number"),
    "mean": ("mean", "number"),
    "stddev": ("std", "number"),
    "min": ("min", "number"),
    "max": ("max", "number"),
    "p50": ("p50", "number"),
    "p95": ("p95", "number"),
}
INTERVAL: Fields = {
    "lower": ("low", "number"),
    "upper": ("high", "number"),
    "level": ("level", "number"),
    "iterations": ("iterations", "number"),
}
RUN: Fields = {"dataset_id": ("suite", "text"), "store_kind": ("system", "text")}
# The column for unknown fields of the metrics. No field of the report itself is called `metrics`.
LEFT = "x_metrics.json"
_BEGIN = re.compile(r'"metrics"\s*:\s*\[\s*(?:\]|\{[^{}\[\]]*"metric"\s*:)')


def is_report(seen: Sample) -> bool:
    """Return True for an object whose `metrics` are a list of objects with a `metric`."""
    return (
        seen.kind in ("json", "jsonl")
        and seen.line.lstrip().startswith("{")
        and _BEGIN.search(seen.begin) is not None
    )


def read_report(path: Path, strict: bool) -> Results:
    """Read one run without hits, named after its file.

    `reported` has a row per query and metric, and one per summary statistic (query_id "").
    """
    problems, run_id = Problems(path, strict), run_name(path)
    content = json_object(path, "an object with `metrics`")
    stated = {name: field for name, field in RUN.items() if content.get(name) is not None}
    run = {"run_id": run_id} | take_columns(content, stated, 1, problems)
    metrics, entries = content.pop("metrics", None), dict[str, dict[str, Any]]()
    listed: list[Any] = metrics if isinstance(metrics, list) else [None]
    for entry in listed:
        metric = as_id(entry.get("metric")) if isinstance(entry, dict) else None
        if metric is None or metric in entries:
            problems.reject(entry, None, "metrics", "a list of objects with a `metric`, each once")
        else:
            entries[metric] = entry
    reported = [
        {"run_id": run_id, "metric": metric} | row
        for metric, entry in entries.items()
        for row in _values(entry, metric, problems)
    ]
    query_ids = dict.fromkeys(row["query_id"] for row in reported if row["query_id"])
    responses = [{"run_id": run_id, "query_id": query_id} for query_id in query_ids]
    # A null of the report's own fields is kept as JSON text, which `flatten` leaves out.
    nulls: dict[str, Any] = {name: [] for name, value in content.items() if value is None}
    run |= {"n_queries": len(query_ids)} | flatten(content) | dict.fromkeys(flatten(nulls), "null")
    if left := {metric: own for metric, entry in entries.items() if (own := _left(entry))}:
        run[LEFT] = json.dumps(left, ensure_ascii=False)
    return Results(
        runs=from_records([run], "runs"),
        responses=from_records(responses, "responses"),
        reported=from_records(reported, "reported"),
        problems=problems.frame(run_id),
    )


def _values(entry: dict[str, Any], metric: str, problems: Problems) -> list[dict[str, Any]]:
    """Return the values of a metric, summary statistics first."""
    for name, kind, allowed in (
        ("ci", dict, "an object or null"),
        ("per_query", list, "a list of [query, value]"),
    ):
        if not isinstance(entry.get(name), (kind, NoneType)):
            problems.reject(entry.pop(name), None, f"{metric}.{name}", allowed)
    interval, values = dict(entry.get("ci") or {}), dict[str, float | None]()
    stated = take_columns(dict(entry), STATISTICS, 1, problems, f"{metric}.")
    stated |= take_columns(interval, INTERVAL, 1, problems, f"{metric}.ci.")
    for pair in entry.get("per_query") or ():
        query_id = as_id(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
        if query_id is None or query_id in values:
            problems.reject(pair, None, f"{metric}.per_query", "[query, value], each query once")
        else:
            values[query_id] = READ["number"](pair[1], f"{metric}.per_query", 1, problems)
    return [
        {"query_id": "", "value": value, "statistic": name}
        for name, value in stated.items()
        if value is not None
    ] + [{"query_id": query_id, "value": value} for query_id, value in values.items()]


def _left(entry: dict[str, Any]) -> dict[str, Any]:
    """Return what no row holds: unknown fields, known ones of null, an interval with such."""

    def unread(values: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
        return {n: one for n, one in values.items() if n not in known or one is None}

    left = unread(entry, ("metric", "per_query", *STATISTICS))
    left.pop("per_query", None)
    is_told = left.get("ci") and not unread(left["ci"], INTERVAL)
    return {name: value for name, value in left.items() if name != "ci" or not is_told}


def write_report(results: Results, path: str | Path) -> Path:
    """Write the reported values of one run as a metric report (JSON).

    Loading it gives the same frame again, unknown keys included. A metric without summary
    statistics gets n, mean, sample standard deviation (0 for one value), min, max, p50 and p95 of
    its queries.

    Raises
    ------
    DataError
        `results` holds no run or more than one, or no reported values.
    """
    check_one_run(results)
    reported = results.reported
    if reported is None:
        raise DataError(
            "no reported values",
            field="results.reported",
            allowed="results of a metric report, or a frame `reported`",
        )
    if "statistic" not in reported:
        reported = reported.assign(statistic=None)
    run = next(row_dicts(results.runs))
    content = named_fields(run, RUN) | extra_fields(run)
    left = content.pop("metrics", {})
    content["metrics"] = [
        _entry(str(metric), rows, left.get(metric, {}))
        for metric, rows in reported.groupby("metric", sort=False)
    ]
    return write_json(path, content)


def _entry(metric: str, rows: pd.DataFrame, left: dict[str, Any]) -> dict[str, Any]:
    """Return a metric's entry: its statistics, its values, and its unknown fields."""
    is_of_query = rows["statistic"].isna()
    of_queries = rows.loc[is_of_query, ["query_id", "value"]]
    told = rows[~is_of_query].set_index("statistic")["value"]
    if not len(told):
        told = of_queries["value"].astype("float64").describe(percentiles=[0.5, 0.95])
        told = told.rename({"count": "n", "50%": "p50", "95%": "p95"})
        told = told.fillna({"std": 0.0}) if told["n"] else told[["n"]]
    statistics: dict[str, Any] = {
        str(name): int(one) if name in ("n", "iterations") else one for name, one in told.items()
    }
    pairs = of_queries.astype(object).where(of_queries.notna(), None).to_numpy().tolist()
    interval = (left.get("ci") or {}) | named_fields(statistics, INTERVAL)
    entry = {"metric": metric} | left | named_fields(statistics, STATISTICS) | {"per_query": pairs}
    return entry | ({"ci": interval} if interval else {})
