"""Steps that the readers and writers of foreign formats share.

A format states the fields of its objects once, as a table `Fields`: its reader turns them into
columns, its writer turns columns into fields again. Records of a whole file become frames here.
"""

import math
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError, from_records
from ragscore.io.rows import json_value
from ragscore.io.source import Problems, describe
from ragscore.io.values import is_int, unify_types

Fields = dict[str, tuple[str, Callable[..., Any]]]
"""Name in the file -> its column, and the function that reads its value, mostly of `io.values`."""


def take_columns(
    values: dict[str, Any], fields: Fields, line: int, problems: Problems, place: str = ""
) -> dict[str, Any]:
    """Remove the known fields from an object and return them as columns, None for absent ones.

    Messages name a field with `place` before it, such as "latency." for a field of that object.
    """
    return {
        column: read(values.pop(name, None), f"{place}{name}", line, problems)
        for name, (column, read) in fields.items()
    }


def named_fields(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the columns that a row has, under their names in the file."""
    return {name: row[column] for name, (column, _) in fields.items() if column in row}


def ranks_of(
    items: list[Any], field: str, line: int, problems: Problems, query_id: str | None = None
) -> list[int]:
    """Return the stored rank of each item, or its place in the list if no item states one.

    Impossible or repeated ranks are a problem; the order of the list then counts.
    """
    in_order = list(range(1, len(items) + 1))
    stored: list[Any] = [item.get("rank") if isinstance(item, dict) else None for item in items]
    if all(rank is None for rank in stored):
        return in_order
    others = [rank for rank in stored if not (is_int(rank) and 1 <= rank < 2**31)]
    if not others and len(set(stored)) == len(stored):
        return stored
    fault = (
        f"rank is {describe(others[0])}"
        if others
        else f"rank {next(rank for rank in stored if stored.count(rank) > 1)} appears twice"
    )
    problems.add(
        fault if query_id is None else f"{fault} for query {query_id!r}",
        line=line,
        field=field,
        allowed="whole numbers from 1, each once, or no rank at all",
    )
    return in_order


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


def frames_of(
    records: dict[str, list[dict[str, Any]]], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return the frame of each kind of records; optional kinds without records are left out."""
    return {
        kind: from_records(unify_types(rows), kind)
        for kind, rows in records.items()
        if rows or kind not in optional
    }


def run_name(path: Path) -> str:
    """Return the run id of a JSON file that holds one unnamed run: the file's name."""
    return path.name.removesuffix(".gz").removesuffix(".json")


def json_object(path: Path, allowed: str = "a JSON object") -> dict[str, Any]:
    """Return the one JSON object that a file holds.

    Raises
    ------
    DataError
        The file is not JSON, or holds another value.
    """
    content = json_value(path, allowed)
    if not isinstance(content, dict):
        raise DataError(f"found {describe(content)}", file=path, allowed=allowed)
    return content
