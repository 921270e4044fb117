"""Parts of all writers: whole files, JSON lines, and warnings of what a format can't hold.

Every file outside of a store is written through `replacing`, `write_bytes` or `write_text`.
"""

import gzip
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from ragscore.frames.data import DataError, Results
from ragscore.io.values import row_dicts


def check_one_run(results: Results) -> None:
    """Raise a DataError for anything but one run, where a file holds one."""
    if len(results.runs) != 1:
        raise DataError(
            f"found {len(results.runs)} runs",
            field="results",
            allowed="exactly one; choose it with results.select([name])",
        )


STAGED = ".staging"  # how the names of files end that are still being written


def write_text(path: str | Path, text: str) -> Path:
    """Write a file in UTF-8, gzip if it ends in .gz; see `replacing`."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{text[error.start]!r} is half a character", file=path, allowed="text as UTF-8 has it"
        ) from error
    return write_bytes(path, gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Write a file; see `replacing`."""
    with replacing(path) as out:
        out.write(data)
    return Path(path)


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file that takes the place of an old one when it is complete.

    It is written beside under a name of its own, and put in place by one rename once it is on
    disk. Readers, and crashes at any moment, leave the old file or the new one; a killed writer
    also leaves a hidden file that ends in `.staging`. The folder is created. A link stays one: the
    file that it leads to is replaced.

    Raises
    ------
    DataError
        The disk is full, the folder can't be written to or is gone, and the like. It says what is
        there now; nothing else is left beside.
    """
    name = Path(path)
    try:
        file = Path(os.path.realpath(name))
        if name.exists() and not name.is_file():
            with name.open("wb") as opened:  # a pipe has no old content; a folder can't be opened
                yield opened
            return
        file.parent.mkdir(parents=True, exist_ok=True)
        staging = file.with_name(f".{secrets.token_hex(8)}{STAGED}")
        try:
            with staging.open("xb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            if file.exists():
                shutil.copymode(file, staging)
            staging.replace(file)
        finally:
            with suppress(OSError):
                staging.unlink(missing_ok=True)
        sync_folder(file.parent)
    except OSError as error:
        kept = "the file there is as it was" if name.exists() else "nothing was written"
        found = f"can't be written ({error.strerror or error})"
        raise DataError(found, file=name, allowed=kept) from error


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on disk, where a system has such a step."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


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
