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

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError, Results, empty, from_records
from ragscore.io.cells import run_name_of
from ragscore.io.frames_in import json_records, json_value
from ragscore.io.run_records import Fields, Frames, Level, Reader, is_stated, listed, own_fields
from ragscore.io.source import Problems, describe
from ragscore.io.values import (
    HEADING_SEPARATOR,
    FieldReader,
    nested_of,
    objects_of,
    plain_values_of,
    refuse_taken,
)

WRITE: dict[str, Callable[[Any], Any]] = {
    "json": nested_of,
    "any": json.loads,
    "texts": json.loads,
    "heading": lambda heading: heading.split(HEADING_SEPARATOR) if heading else [],
}
"""Type of a field -> its value in the file, where that isn't the column's."""


def placed(frame: pd.DataFrame, fields: Fields) -> dict[str, list[Any]]:
    """Return the columns of fields, and the user's own, each by its place behind `x_`.

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
    refuse_taken(own, fields, "x_")
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

STATISTICS: Fields = {
    place: (statistic, "number")
    for place, statistic in {
        "n": "n", "mean": "mean", "stddev": "std", "min": "min", "max": "max", "p50": "p50",
        "p95": "p95", "ci.lower": "low", "ci.upper": "high", "ci.level": "level",
        "ci.iterations": "iterations",
    }.items()
}  # fmt: skip
"""Place in a report -> a value of `statistic`, named as in `ev.summary` where that has it."""
REPORT = re.compile(r'"metrics"\s*:\s*\[\s*(?:\]|\{[^{}\[\]]*"metric"\s*:)')
PAIRS_ALLOWED = "a list of [query, value], each query once"


def read_report(path: Path, strict: bool) -> Results:
    """Read one run without hits, named after its file.

    `reported` has a row per query and metric, and one per summary statistic (query_id "") with the
    other fields of the metric.
    """
    problems, run_id = Problems(path, strict), run_name_of(path)
    top = FieldReader(json_object(path, "an object with `metrics`"), "", 1, problems)
    run = {"run_id": run_id, "suite": top.take("text", "dataset_id")}
    run |= {"system": top.take("text", "store_kind")}
    reader = Reader(_metrics, problems, {"metric": "metric"}, "each metric once")
    reader.read(json_records(top.pop("metrics"), reader.faults))
    frames = reader.frames(run_id)
    reported = frames.get("reported", empty("reported"))["query_id"]
    asked = reported[reported != RUN_LEVEL].unique()
    frames["responses"] = pd.DataFrame({"run_id": run_id, "query_id": asked})
    runs = from_records([run | {"n_queries": len(asked)} | own_fields(top.values)], "runs")
    return Results(runs=runs, **frames, problems=problems.frame(run_id))


def _metrics(metric: Level) -> Frames:
    """Return the columns of a batch of metrics: their values per query, and the statistics."""
    metric.fields["per_query"] = [
        [
            {"query": one[0], "value": one[1]} if isinstance(one, list) and len(one) == 2 else one
            for one in pairs
        ]
        if isinstance(pairs, list)
        else pairs
        for pairs in listed(metric.values("per_query"))
    ]
    pairs, row, _ = metric.items("per_query", PAIRS_ALLOWED)
    values = pairs.columns({"query": ("query_id", "id"), "value": ("value", "number")})
    ids = values.get("query_id", pa.nulls(len(pairs), pa.string()))
    is_good = ~pd.DataFrame({"row": row, "query": ids}).duplicated() & is_stated(ids)
    for at in np.flatnonzero(~is_good):
        pairs.fault(at, "query", f"found {ids[at]}", PAIRS_ALLOWED)
    good = {name: one.filter(pa.array(is_good)) for name, one in values.items()}
    frames: Frames = [("reported", row[is_good], good)]
    stated, own = metric.columns(STATISTICS), dict[str, pa.Array]()
    metric.refuse("ci", "an object or null")
    metric.extras(own)
    for statistic, numbers in stated.items():
        of = np.flatnonzero(is_stated(numbers))
        columns = {name: one.take(pa.array(of)) for name, one in (own | {"value": numbers}).items()}
        about = {"query_id": RUN_LEVEL, "statistic": statistic}
        columns |= {name: pa.repeat(one, len(of)) for name, one in about.items()}
        frames.append(("reported", of, columns))
    return frames
