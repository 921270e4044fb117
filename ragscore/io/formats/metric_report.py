"""Metric reports (`metrics` with per-query values and their summary) <-> the frame `reported`.

What another tool says it measured.
"""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records
from ragscore.io.detect import Sample
from ragscore.io.output import check_one_run, write_text
from ragscore.io.source import Problems, as_id, describe, parse_json, read_text
from ragscore.io.values import flatten, number, row_dicts, text, unflatten

STATISTICS = {
    "n": "n",
    "mean": "mean",
    "stddev": "std",
    "min": "min",
    "max": "max",
    "p50": "p50",
    "p95": "p95",
}
INTERVAL = {"lower": "low", "upper": "high", "level": "level", "iterations": "iterations"}
"""Keys of a report, and of its `ci` -> the column `statistic`, named as in `rs.summarize` where that has it."""
RUN_TEXT = {"dataset_id": "suite", "store_kind": "system"}
_WHOLE = ("n", "iterations")
ENTRY_KEYS = frozenset(("metric", "per_query", "ci", *STATISTICS))
# a report's `metrics` are its entries, so that no field of its own has that name
LEFT = "x_metrics.json"
_BEGIN = re.compile(r'"metrics"\s*:\s*\[\s*(?:\]|\{[^{}\[\]]*"metric"\s*:)')


def is_report(seen: Sample) -> bool:
    """An object whose `metrics` are a list of objects with a `metric`."""
    return (
        seen.kind in ("json", "jsonl")
        and seen.line.lstrip().startswith("{")
        and _BEGIN.search(seen.begin) is not None
    )


def read_report(path: Path, strict: bool) -> Results:
    """One run, named after its file, without hits.

    A row of `reported` per query and metric, and per summary statistic (query_id "").
    """
    problems = Problems(path, strict)
    content = _object(path)
    run_id = path.name.removesuffix(".gz").removesuffix(".json")
    run: dict[str, Any] = {"run_id": run_id}
    run |= {
        column: text(content.pop(key), key, 1, problems)
        for key, column in RUN_TEXT.items()
        if content.get(key) is not None
    }
    metrics = content.pop("metrics", None)
    if not isinstance(metrics, list):
        problems.add(f"found {describe(metrics)}", field="metrics", allowed="a list of objects")
        metrics = []
    rows, seen = [], set()
    left: dict[str, Any] = {}
    for entry in metrics:
        metric = as_id(entry.get("metric")) if isinstance(entry, dict) else None
        if metric is None or metric in seen:
            problems.add(
                f"found {describe(entry)}",
                field="metrics",
                allowed="objects with a `metric`, each once",
            )
            continue
        seen.add(metric)
        rows += [
            {"run_id": run_id, "metric": metric, **row} for row in _values(entry, metric, problems)
        ]
        left |= {metric: own} if (own := _left(entry)) else {}
    asked = dict.fromkeys(row["query_id"] for row in rows if row["query_id"])
    responses = [
        {"run_id": run_id, "query_id": query_id, "query": None, "error": None} for query_id in asked
    ]
    runs = from_records([run | {"n_queries": len(asked)} | _own_columns(content, left)], "runs")
    return Results(
        runs=runs,
        responses=from_records(responses, "responses"),
        reported=from_records(rows, "reported"),
        problems=problems.frame(run_id),
    )


def _values(entry: dict[str, Any], metric: str, problems: Problems) -> list[dict[str, Any]]:
    """Summary statistics, then the value of each query."""
    interval = entry.get("ci") or {}
    if not isinstance(interval, dict):
        problems.add(
            f"found {describe(interval)}", field=f"{metric}.ci", allowed="an object or null"
        )
        interval = {}
    told = [(entry.get(key), key, name) for key, name in STATISTICS.items()] + [
        (interval.get(key), f"ci.{key}", name) for key, name in INTERVAL.items()
    ]
    values = [(number(value, f"{metric}.{key}", 1, problems), name) for value, key, name in told]
    rows: list[dict[str, Any]] = [
        {"query_id": "", "value": value, "statistic": name}
        for value, name in values
        if value is not None
    ]
    listed = entry.get("per_query") or []
    if not isinstance(listed, list):
        problems.add(
            f"found {describe(listed)}",
            field=f"{metric}.per_query",
            allowed="a list of [query, value]",
        )
        listed = []
    seen: set[str] = set()
    for pair in listed:
        query_id = as_id(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
        if query_id is None or query_id in seen:
            problems.add(
                f"found {describe(pair)}",
                field=f"{metric}.per_query",
                allowed="[query, value], each query once",
            )
            continue
        seen.add(query_id)
        rows.append(
            {"query_id": query_id, "value": number(pair[1], f"{metric}.per_query", 1, problems)}
        )
    return rows


def _left(entry: dict[str, Any]) -> dict[str, Any]:
    """What a metric's entry says beyond its rows: unknown keys, and known ones that are null."""
    own = {
        key: value
        for key, value in entry.items()
        if key not in ENTRY_KEYS or (value is None and key != "per_query")
    }
    interval = entry.get("ci")
    of_interval = (
        {key: value for key, value in interval.items() if key not in INTERVAL or value is None}
        if isinstance(interval, dict)
        else {}
    )
    return own | ({"ci": of_interval} if of_interval or interval == {} else {})


def _own_columns(content: dict[str, Any], left: dict[str, Any]) -> dict[str, Any]:
    """A report's own fields as columns of its run, those that are null too, and what its entries leave over."""
    nulls = {
        column: "null"
        for name, value in content.items()
        if value is None
        for column in flatten({name: []})
    }
    return flatten(content) | nulls | ({LEFT: json.dumps(left, ensure_ascii=False)} if left else {})


def _object(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"not valid JSON ({error})", file=path) from error
    if not isinstance(content, dict):
        raise DataError(f"found {describe(content)}", file=path, allowed="an object with `metrics`")
    return content


def write_report(results: Results, path: str | Path) -> Path:
    """Write the reported values of one run as a metric report (JSON).

    Loading it gives the same frame again, unknown keys included.

    A metric without summary statistics gets n, mean, sample standard deviation (0 for one value),
    min, max, p50 and p95 of its queries.

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
    content: dict[str, Any] = {
        key: run[column] for key, column in RUN_TEXT.items() if column in run
    }
    content |= unflatten(
        {str(name): value for name, value in run.items() if str(name).startswith("x_")}
    )
    left = content.pop("metrics", {})
    reported = (
        results.reported
        if "statistic" in results.reported
        else results.reported.assign(statistic=None)
    )
    content["metrics"] = [
        _entry(str(metric), rows, left.get(metric, {}))
        for metric, rows in reported.groupby("metric", sort=False)
    ]
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _entry(metric: str, rows: pd.DataFrame, left: dict[str, Any]) -> dict[str, Any]:
    of_queries = rows[rows["statistic"].isna()]
    told: dict[str, Any] = {
        str(name): int(value) if name in _WHOLE else value
        for name, value in rows.dropna(subset="statistic").set_index("statistic")["value"].items()
    }
    if not told:
        told = _summary(of_queries["value"])
    entry: dict[str, Any] = {"metric": metric} | {
        key: told[name] for key, name in STATISTICS.items() if name in told
    }
    entry["per_query"] = [
        [query_id, None if pd.isna(value) else value]
        for query_id, value in zip(of_queries["query_id"], of_queries["value"], strict=True)
    ]
    interval = {key: told[name] for key, name in INTERVAL.items() if name in told}
    of_interval = left.get("ci") or {}
    return (
        entry
        | {name: value for name, value in left.items() if name not in entry}
        | ({"ci": interval | of_interval} if interval or of_interval else {})
    )


def _summary(values: pd.Series) -> dict[str, Any]:
    row_dicts = values.dropna()
    if not len(row_dicts):
        return {"n": 0}
    std = float(row_dicts.std()) if len(row_dicts) > 1 else 0.0
    quantiles = {"p50": float(row_dicts.quantile(0.5)), "p95": float(row_dicts.quantile(0.95))}
    return {
        "n": len(row_dicts),
        "mean": float(row_dicts.mean()),
        "std": std,
        "min": float(row_dicts.min()),
        "max": float(row_dicts.max()),
        **quantiles,
    }
