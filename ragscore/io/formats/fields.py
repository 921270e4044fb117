"""Steps that the readers and writers of foreign formats share; metric reports -> `reported`.

A format states the fields of its objects once, as a table `Fields`: its reader turns them into
columns, its writer turns columns into fields again. A metric report holds the values that another
tool measured: `metrics` with values per query and their summary.
"""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, empty, from_records
from ragscore.io.cells import run_name_of
from ragscore.io.detect import Sample
from ragscore.io.frames_in import json_value
from ragscore.io.run_records import Fields
from ragscore.io.source import Problems, as_id, describe
from ragscore.io.values import (
    HEADING_SEPARATOR,
    READ,
    FieldReader,
    flatten,
    nested_of,
    objects_of,
    plain_values_of,
)

WRITE: dict[str, Callable[[Any], Any]] = {
    "json": nested_of,
    "any": json.loads,
    "texts": json.loads,
    "heading": lambda heading: heading.split(HEADING_SEPARATOR) if heading else [],
}
"""Type of a field -> its value in the file, where that isn't the column's."""


def placed(frame: pd.DataFrame, fields: Fields) -> dict[str, list[Any]]:
    """Return the columns of fields, and those of one's own, each by its place behind `x_`.

    `values.objects_of` makes objects of them.
    """
    columns = {}
    for name, (column, type) in fields.items():
        if column in frame:
            values, write = plain_values_of(frame[column]), WRITE.get(type)
            if write is not None:
                values = [None if one is None else write(one) for one in values]
            columns[f"x_{name}"] = values
    own = [name for name in map(str, frame) if name.startswith("x_")]
    return columns | {name: plain_values_of(frame[name]) for name in own}


def rows_of(results: Results, kind: str) -> pd.DataFrame:
    """Return a frame of results, empty where there is none."""
    frame: pd.DataFrame | None = getattr(results, kind)
    return empty(kind) if frame is None else frame


def objects_in(frame: pd.DataFrame, fields: Fields) -> list[dict[str, Any]]:
    """Return rows as the objects that they were in the file."""
    return objects_of(placed(frame, fields) or {"x_": [None] * len(frame)})


RUN_LEVEL = ""  # the query_id of a value that was reported for the whole run


def aggregate(
    metric: str, value: float | None, known: dict[str, tuple[str, str]], name: str, k: Any
) -> dict[str, Any]:
    """Return a row of the reported frame for a whole run.

    `known` has name -> our metric and the statistic of it; one with a cut-off needs k.
    """
    label, statistic = known.get(name, (None, None))
    if label is not None and "{k}" in label and not k:
        label = None
    return {
        "query_id": RUN_LEVEL,
        "metric": metric,
        "value": math.nan if value is None else float(value),
        "statistic": statistic,
        "label": label.format(k=k) if label else None,
    }


def json_object(path: Path, allowed: str = "a JSON object") -> dict[str, Any]:
    """Return the one JSON object that a file holds.

    Raises
    ------
    DataError
        The file is not JSON, or holds another value.
    """
    content = json_value(path, allowed)
    if not isinstance(content, dict):
        raise DataError(f"found {describe(content)}", file=path, line=1, allowed=allowed)
    return content


# Metric reports

STATISTICS = {
    "n": "n", "mean": "mean", "stddev": "std", "min": "min", "max": "max", "p50": "p50",
    "p95": "p95",
}  # fmt: skip
"""Name in a report -> a value of `statistic`, named as in `ev.summary` where that has it."""
INTERVAL = {"lower": "low", "upper": "high", "level": "level", "iterations": "iterations"}
_BEGIN = re.compile(r'"metrics"\s*:\s*\[\s*(?:\]|\{[^{}\[\]]*"metric"\s*:)')


def is_report(seen: Sample) -> bool:
    """Return True for an object whose `metrics` are a list of objects with a `metric`."""
    is_object = seen.kind in ("json", "jsonl") and seen.line.lstrip().startswith("{")
    return is_object and _BEGIN.search(seen.begin) is not None


def read_report(path: Path, strict: bool) -> Results:
    """Read one run without hits, named after its file.

    `reported` has a row per query and metric, and one per summary statistic (query_id "").
    """
    problems, run_id = Problems(path, strict), run_name_of(path)
    top = FieldReader(json_object(path, "an object with `metrics`"), "", 1, problems)
    run = {"run_id": run_id, "suite": top.take("text", "dataset_id")}
    run |= {"system": top.take("text", "store_kind")}
    metrics, left, reported = top.pop("metrics"), dict[str, Any](), list[dict[str, Any]]()
    for entry in metrics if isinstance(metrics, list) else [None]:
        fields = FieldReader(entry if isinstance(entry, dict) else {}, "", 1, problems)
        if (metric := as_id(fields.pop("metric"))) is None or metric in left:
            problems.reject(entry, None, "metrics", "a list of objects with a `metric`, each once")
            continue
        fields.place = f"{metric}."
        reported += [{"run_id": run_id, "metric": metric} | row for row in _values(fields)]
        left[metric] = fields.values
    query_ids = dict.fromkeys(row["query_id"] for row in reported if row["query_id"])
    responses = [{"run_id": run_id, "query_id": query_id} for query_id in query_ids]
    unknown = {name: one for name, one in left.items() if one}
    own = top.values | ({"metrics": unknown} if unknown else {})
    run |= {"n_queries": len(query_ids)} | flatten(own)
    return Results(
        runs=from_records([run], "runs"),
        responses=from_records(responses, "responses"),
        reported=from_records(reported, "reported"),
        problems=problems.frame(run_id),
    )


def _values(fields: FieldReader) -> list[dict[str, Any]]:
    """Take the values of a metric, summary statistics first; unknown fields stay."""
    allowed = "a list of [query, value], each query once"
    interval = fields.inner(fields.shaped("an object", ("ci",), dict), "ci")
    stated = {column: fields.take("number", name) for name, column in STATISTICS.items()}
    stated |= {column: interval.take("number", name) for name, column in INTERVAL.items()}
    values = dict[str, float | None]()
    for pair in fields.shaped(allowed, ("per_query",), list):
        query_id = as_id(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
        if query_id is None or query_id in values:
            fields.reject(pair, "per_query", allowed)
        else:
            values[query_id] = READ["number"](
                pair[1], f"{fields.place}per_query", 1, fields.problems
            )
    if interval.values:
        fields.values["ci"] = interval.values
    return [
        {"query_id": RUN_LEVEL, "value": value, "statistic": name}
        for name, value in stated.items()
        if value is not None
    ] + [{"query_id": query_id, "value": value} for query_id, value in values.items()]
