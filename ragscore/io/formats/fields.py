"""Steps that the readers and writers of foreign formats share.

A format states the fields of its objects once, as a table `Fields`: its reader turns them into
columns, its writer turns columns into fields again.
"""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError, Golden
from ragscore.io.frames_in import json_value
from ragscore.io.golden_read import FRAMES, SUPPORT_EXTRAS
from ragscore.io.source import Problems, Row, describe
from ragscore.io.values import (
    HEADING_SEPARATOR,
    READ,
    by_query,
    escape_key,
    flatten,
    nested_of,
    row_dicts,
    unflatten,
    unify_types,
)

Fields = dict[str, tuple[str, str]]
"""Name in the file -> its column and type, one of `values.READ`."""
WRITE: dict[str, Callable[[Any], Any]] = {
    "json": nested_of,
    "any": json.loads,
    "texts": json.loads,
    "heading": lambda heading: heading.split(HEADING_SEPARATOR) if heading else [],
}
"""Type of a field -> its value in the file, where that isn't the column's."""


def take_columns(
    values: dict[str, Any], fields: Fields, line: int, problems: Problems, place: str = ""
) -> dict[str, Any]:
    """Remove the known fields from an object and return them as columns, None for absent ones.

    Messages name a field with `place` before it, such as "latency." for a field of that object.
    """
    return {
        column: None
        if (value := values.pop(name, None)) is None
        else READ[type](value, f"{place}{name}", line, problems)
        for name, (column, type) in fields.items()
    }


def named_fields(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the columns that a row has, under their names in the file."""
    return {name: row[column] for name, (column, _) in fields.items() if column in row}


def flat_fields(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return the fields of a row and those of one's own, each by its place behind `x_`.

    `values.unflatten` makes an object of them.
    """
    known = {
        f"x_{name}": WRITE[type](row[column]) if type in WRITE else row[column]
        for name, (column, type) in fields.items()
        if column in row
    }
    return known | {name: value for name, value in row.items() if name.startswith("x_")}


def object_of(row: dict[str, Any], fields: Fields) -> dict[str, Any]:
    """Return a row as the object that it was in the file."""
    return unflatten(flat_fields(row, fields))


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested objects by its dotted name; cut-offs go up."""
    if all(name.isdecimal() for name in values):
        values = dict(sorted(values.items(), key=lambda item: int(item[0])))
    for name, value in values.items():
        dotted = prefix + escape_key(name)
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{dotted}.")
        else:
            yield dotted, value


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


def golden_rows(rows: list[Row], known: frozenset[str], is_nested: bool = True) -> list[Row]:
    """Return rows of our golden file, whose other fields are columns (`flatten`) of one type."""
    others = [{n: one for n, one in row.values.items() if n not in known} for row in rows]
    columns = unify_types([flatten(one, is_nested=is_nested) for one in others])
    return [
        Row(
            {name: row.values[name] for name in row.values if name in known}
            | {name.removeprefix("x_"): one for name, one in own.items()},
            row.line, row.lines,
        )
        for row, own in zip(rows, columns, strict=True)
    ]  # fmt: skip


def written_rows(golden: Golden) -> Iterator[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]]:
    """Yield each query, its fields of one's own, and its row of our golden file without these."""
    from ragscore.io.golden_write import row_of  # yaml is not needed to read

    parts = {name: by_query(getattr(golden, name)) for name in FRAMES if name != "queries"}
    for query in row_dicts(golden.queries):
        own = {n: one for n, one in query.items() if n.startswith("x_") and n != SUPPORT_EXTRAS}
        plain = {name: one for name, one in query.items() if name not in own}
        rows = {name: of.get(query["query_id"], []) for name, of in parts.items()}
        yield query, unflatten(own), row_of(plain, rows)


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
        raise DataError(f"found {describe(content)}", file=path, line=1, allowed=allowed)
    return content
