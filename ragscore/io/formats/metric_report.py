"""Metric reports (`metrics` with per-query values and their summary) <-> the frame `reported`.

A report holds the values that another tool measured.
"""

import json
import re
from collections.abc import Collection
from pathlib import Path
from types import NoneType
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.detect import Sample
from ragscore.io.files import check_one_run, write_text
from ragscore.io.formats.fields import Fields, json_object, named_fields, run_name, take_columns
from ragscore.io.source import Problems, as_id
from ragscore.io.values import extra_fields, flatten, number, row_dicts

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
COUNTS = ("n", "iterations")  # whole numbers
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
    metrics = content.pop("metrics", None)
    if not isinstance(metrics, list):
        problems.reject(metrics, None, "metrics", "a list of objects")
        metrics = []
    reported: list[dict[str, Any]] = []
    left: dict[str, Any] = {}
    seen = set()
    for entry in metrics:
        metric = as_id(entry.get("metric")) if isinstance(entry, dict) else None
        if metric is None or metric in seen:
            problems.reject(entry, None, "metrics", "objects with a `metric`, each once")
            continue
        seen.add(metric)
        rows, own = _read_entry(entry, metric, problems)
        reported += [{"run_id": run_id, "metric": metric} | row for row in rows]
        left |= {metric: own} if own else {}
    query_ids = dict.fromkeys(row["query_id"] for row in reported if row["query_id"])
    responses = [{"run_id": run_id, "query_id": query_id} for query_id in query_ids]
    # A null of the report's own fields is kept as JSON text, which `flatten` leaves out.
    nulls = [name for name, value in content.items() if value is None]
    run |= {"n_queries": len(query_ids)} | flatten(content)
    run |= {column: "null" for name in nulls for column in flatten({name: []})}
    run |= {LEFT: json.dumps(left, ensure_ascii=False)} if left else {}
    return Results(
        runs=from_records([run], "runs"),
        responses=from_records(responses, "responses"),
        reported=from_records(reported, "reported"),
        problems=problems.frame(run_id),
    )


def _read_entry(
    entry: dict[str, Any], metric: str, problems: Problems
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the values of a metric, summary statistics first, and the fields that no row holds."""
    interval, pairs, field = entry.get("ci"), entry.get("per_query") or [], f"{metric}.per_query"
    if not isinstance(interval, (dict, NoneType)):
        problems.reject(interval, None, f"{metric}.ci", "an object or null")
        interval = None
    if not isinstance(pairs, list):
        problems.reject(pairs, None, field, "a list of [query, value]")
        pairs = []
    stated = take_columns(dict(entry), STATISTICS, 1, problems, f"{metric}.")
    stated |= take_columns(dict(interval or {}), INTERVAL, 1, problems, f"{metric}.ci.")
    rows: list[dict[str, Any]] = [
        {"query_id": "", "value": value, "statistic": name}
        for name, value in stated.items()
        if value is not None
    ]
    seen = set()
    for pair in pairs:
        query_id = as_id(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
        if query_id is None or query_id in seen:
            problems.reject(pair, None, field, "[query, value], each query once")
            continue
        seen.add(query_id)
        rows.append({"query_id": query_id, "value": number(pair[1], field, 1, problems)})
    left = _left(entry, ("metric", "per_query", *STATISTICS))
    own = _left(interval or {}, INTERVAL)
    if interval and not own:
        left.pop("ci")
    elif "ci" in left:
        left["ci"] = own if interval is not None else None
    return rows, left


def _left(values: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return unknown fields, and known ones of null."""
    return {n: v for n, v in values.items() if n not in known or (v is None and n != "per_query")}


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
    if results.reported is None:
        raise DataError(
            "no reported values",
            field="results.reported",
            allowed="results of a metric report, or a frame `reported`",
        )
    run = next(row_dicts(results.runs))
    content = named_fields(run, RUN) | extra_fields(run)
    left = content.pop("metrics", {})
    reported = results.reported
    if "statistic" not in reported:
        reported = reported.assign(statistic=None)
    content["metrics"] = [
        _entry(str(metric), rows, left.get(metric, {}))
        for metric, rows in reported.groupby("metric", sort=False)
    ]
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _entry(metric: str, rows: pd.DataFrame, left: dict[str, Any]) -> dict[str, Any]:
    """Return a metric's entry: its statistics, its values, and its unknown fields."""
    of_queries = rows[rows["statistic"].isna()]
    stated = rows.dropna(subset="statistic").set_index("statistic")["value"]
    statistics: dict[str, Any] = {
        str(name): int(value) if name in COUNTS else value for name, value in stated.items()
    }
    if not statistics:
        statistics = _summary(of_queries["value"])
    pairs = zip(of_queries["query_id"], of_queries["value"], strict=True)
    entry = {"metric": metric} | named_fields(statistics, STATISTICS)
    entry["per_query"] = [
        [query_id, None if pd.isna(value) else value] for query_id, value in pairs
    ]
    interval = named_fields(statistics, INTERVAL) | (left.get("ci") or {})
    own = {name: value for name, value in left.items() if name not in entry}
    return entry | own | ({"ci": interval} if interval else {})


def _summary(values: pd.Series) -> dict[str, Any]:
    known = values.dropna()
    if not len(known):
        return {"n": 0}
    return {
        "n": len(known),
        "mean": float(known.mean()),
        "std": float(known.std()) if len(known) > 1 else 0.0,
        "min": float(known.min()),
        "max": float(known.max()),
        "p50": float(known.quantile(0.5)),
        "p95": float(known.quantile(0.95)),
    }
