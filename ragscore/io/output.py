"""What the writers share.

Whole files that are there or not, JSON lines, one run at a time, and what a format has no place
for.
"""

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
    """Refuse anything but one run, for formats in which a file is a run."""
    if len(results.runs) != 1:
        raise DataError(
            f"found {len(results.runs)} runs",
            field="results",
            allowed="exactly one; choose it with results.select([name])",
        )


def write_text(path: str | Path, text: str) -> Path:
    """Write a file, gzip if it ends in .gz, beside and renamed, so that a crash leaves the old file or the new one; its folder is created."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    staging = file.with_name(f".{file.name}.staging")
    data = text.encode()
    staging.write_bytes(gzip.compress(data, mtime=0) if file.suffix == ".gz" else data)
    staging.replace(file)
    return file


def write_lines(path: str | Path, records: Iterable[dict[str, Any]]) -> Path:
    """Write JSON objects, one a line."""
    return write_text(path, "".join(f"{json_line(record)}\n" for record in records))


def write_json(path: str | Path, content: dict[str, Any], indent: int = 1) -> Path:
    """Write one indented JSON object; NaN is refused, it has no place in JSON."""
    return write_text(
        path, json.dumps(content, ensure_ascii=False, indent=indent, allow_nan=False) + "\n"
    )


def json_line(record: dict[str, Any]) -> str:
    """A record as one line of JSON."""
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
    """One warning that counts what a format has no place for, as seen by whoever called the writer."""
    if left := [f"{n} {what}" for what, n in counts.items() if n]:
        warn(f"{path} has no place for {', '.join(left)}")


def by_query(frame: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The rows of each query as plain dicts, without what is unknown."""
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
