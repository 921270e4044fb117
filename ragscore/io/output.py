"""Parts of all writers: whole files, JSON lines, and warnings of what a format can't hold."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results
from ragscore.frames.errors import warn
from ragscore.io.values import row_dicts


def check_one_run(results: Results) -> None:
    """Raise a DataError for anything but one run, where a file holds one."""
    if len(results.runs) != 1:
        raise DataError(
            f"found {len(results.runs)} runs",
            field="results",
            allowed="exactly one; choose it with results.select([name])",
        )


def write_text(path: str | Path, text: str) -> Path:
    """Write a file, gzip if it ends in .gz; its folder is created.

    It is written beside and renamed, so that a crash leaves the old file or the new one.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    staging = file.with_name(f".{file.name}.staging")
    data = text.encode()
    staging.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    staging.replace(file)
    return file


def write_lines(path: str | Path, records: Iterable[dict[str, Any]]) -> Path:
    """Write JSON objects, one per line."""
    return write_text(path, "".join(f"{json_line(record)}\n" for record in records))


def write_json(path: str | Path, content: dict[str, Any], indent: int = 1) -> Path:
    """Write one indented JSON object; NaN is a ValueError, since JSON has none."""
    return write_text(
        path, json.dumps(content, ensure_ascii=False, indent=indent, allow_nan=False) + "\n"
    )


def json_line(record: dict[str, Any]) -> str:
    """Return a record as one line of JSON."""
    try:
        return json.dumps(record, ensure_ascii=False)
    except TypeError as error:
        name, value = next(iter(record.items()))
        raise DataError(
            f"{name} {value!r}: {error}",
            field="x_",
            allowed="text, numbers, true or false, and JSON text in x_*.json columns",
        ) from error


def warn_of_left_out(path: str | Path, counts: dict[str, int]) -> None:
    """Warn once of what a format has no place for: counts by name."""
    if left := [f"{n} {what}" for what, n in counts.items() if n]:
        warn(f"{path} has no place for {', '.join(left)}")


def by_query(frame: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each query as plain dicts, without missing values."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in row_dicts(frame.drop(columns="run_id", errors="ignore")):
        rows.setdefault(row.pop("query_id"), []).append(row)
    return rows


def by_response(frame: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return the rows of each (run, query) as plain dicts, without missing values."""
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in row_dicts(frame.astype({"run_id": "str"})):
        rows.setdefault((row["run_id"], row["query_id"]), []).append(row)
    return rows
