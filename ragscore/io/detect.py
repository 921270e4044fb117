"""Detect the format of a file from its content.

In: a path. Out: a `Sample` of the file, and the one `Format` of a table that it fits. A file that
fits several formats or none is an error that names the candidates and the `format=` to pass.
"""

import csv
import json
import re
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest
from ragscore.io.file_content import open_bytes
from ragscore.io.rows import delimiter_of
from ragscore.io.source import refuse_depth

SAMPLE_BYTES = 1 << 20
TABLES = ("frame", "parquet", "text", "jsonl", "json")
"""Kinds of samples that may be tables."""


@dataclass(frozen=True)
class Sample:
    """The beginning of a file, from which its format is told.

    Attributes
    ----------
    kind
        folder, sqlite, parquet, zip, frame (a DataFrame), jsonl (its first line is a JSON object),
        json (the whole file is one JSON value), yaml, text, empty.
    keys
        The keys of its first JSON object or YAML mapping; for a folder or zip, the names in it; for
        a table, its columns.
    first
        That object, `{}` for other kinds.
    line
        The first line of a text file that is neither blank nor a comment (`#`).
    begin
        The beginning of the text, for JSON larger than the sample.
    """

    path: Path
    kind: str
    keys: frozenset[str] = frozenset()
    first: dict[str, Any] | None = None
    line: str = ""
    begin: str = ""

    def has(self, *names: str) -> bool:
        """Return True if all these keys (or, for a folder, names) are there."""
        return self.keys.issuperset(names)


@dataclass(frozen=True)
class Format:
    """One file format: a test of a sample, and a reader `(path, strict, **options)`.

    Attributes
    ----------
    options
        Load options that only some formats have.
    rename_runs
        Gives the runs of a file other names, if another file has the same ones.
    fields
        The fields of a record, for a reader that also takes files without those that `fits` needs.
    """

    name: str
    fits: Callable[[Sample], bool]
    read: Callable[..., Any]
    options: tuple[str, ...] = ()
    rename_runs: Callable[[Path, Any], Any] | None = None
    fields: frozenset[str] = frozenset()

    def options_of(self, given: dict[str, Any], file: Path) -> dict[str, Any]:
        """Return the options that are not None.

        Raises
        ------
        DataError
            An option that this format doesn't have.
        """
        stated = {name: value for name, value in given.items() if value is not None}
        if unknown := sorted(stated.keys() - set(self.options)):
            own = ", ".join(self.options) or "no such options"
            raise DataError(
                f"{unknown[0]}={stated[unknown[0]]!r} means nothing in format {self.name}",
                file=file,
                field=unknown[0],
                allowed=f"no {', '.join(unknown)}; format {self.name} has {own}",
            )
        return stated


def sample(path: Path) -> Sample:
    """Return a sample of a file's beginning, or of the names in a folder."""
    if path.is_dir():
        return Sample(path, "folder", frozenset(one.name for one in path.iterdir()))
    begin = _begin(path)
    if begin.startswith(b"SQLite format 3\0"):
        return Sample(path, "sqlite")
    if begin.startswith(b"PAR1"):
        return Sample(path, "parquet", _parquet_columns(path))
    if begin.startswith(b"PK\x03\x04"):
        return Sample(path, "zip", _zip_names(path))
    text = begin.decode("utf-8-sig", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    line = next((line for line in lines if not line.lstrip().startswith("#")), "".join(lines[:1]))
    if not line:
        return Sample(path, "empty")
    name = path.name.removesuffix(".gz")
    if name.endswith((".yaml", ".yml")):
        return Sample(path, "yaml", line=line)
    first = _json(line)
    if isinstance(first, dict) and not (first and name.endswith(".json")):
        return Sample(path, "jsonl", frozenset(first), first, line, text)
    if line.lstrip()[0] in "[{":
        whole = first if first is not None else _json(text)
        if whole is None:
            return Sample(path, "json", _first_keys(text), None, line, text)
        top = whole[0] if isinstance(whole, list) and whole else whole
        if not isinstance(top, dict):
            return Sample(path, "json", frozenset(), None, line, text)
        return Sample(path, "json", _table_columns(top), top, line, text)
    return Sample(path, "text", _csv_columns(line), line=line)


def choose_format(
    path: Path, formats: list[Format], name: str | None, what: str, table: Format | None = None
) -> Format:
    """Return the format called `name`, else the only one that the file's content fits.

    The first of `formats` is our own. Its reader also gets files that fit none but are named .yaml,
    or .jsonl with two fields of ours, since it can name line and field. Any other table is read as
    `table`, which reads tables of any shape.

    Raises
    ------
    DataError
        An unknown format, or a file that fits several formats or none; the candidates are named.
    """
    seen = sample(path)
    own, otherwise = formats[0], None
    suffixes = (".jsonl", ".yaml", ".yml")
    if seen.kind != "folder" and path.name.removesuffix(".gz").endswith(suffixes):
        ours = seen.keys & own.fields
        is_sure = not seen.keys or seen.kind in ("yaml", "text")
        is_sure |= len(ours) > 1 and bool(ours - {"query", "query_id", "id"})
        may_be = bool(ours - {"query"}) and not (table and table.fits(seen))
        otherwise = own if is_sure or may_be else None
    return matching_format(seen, formats, name, what, otherwise, table)


def matching_format(
    seen: Sample,
    formats: list[Format],
    name: str | None,
    what: str,
    otherwise: Format | None = None,
    table: Format | None = None,
) -> Format:
    """Return the format called `name`, else the only one that a sample fits, else `otherwise`.

    Raises as `choose_format` does. What has columns and fits nothing is a `table`, if there is one.
    """
    by_name = {candidate.name: candidate for candidate in (*formats, *([table] if table else []))}
    if name is not None:
        if not isinstance(name, str) or name not in by_name:
            raise DataError(
                f"unknown format {excerpt(name)}", field="format", allowed=nearest(name, by_name)
            )
        return by_name[name]
    fitting = [candidate for candidate in formats if candidate.fits(seen)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise DataError(
            f"fits {len(fitting)} formats: {', '.join(candidate.name for candidate in fitting)}",
            file=seen.path,
            field="format",
            allowed="pass format= to choose",
        )
    if seen.kind == "empty":
        raise DataError("the file is empty", file=seen.path, allowed="at least one record")
    if otherwise is not None:
        return otherwise
    if table is not None and seen.keys and seen.kind in TABLES:
        return table
    keys = ", ".join(sorted(seen.keys)[:12])
    described = f" with {keys}" if keys else f" that begins {seen.line[:60]!r}" if seen.line else ""
    raise DataError(
        f"fits no format of {what} ({seen.kind}{described})",
        file=seen.path,
        field="format",
        allowed=f"pass format=, one of {', '.join(by_name)}",
    )


def _begin(path: Path) -> bytes:
    with open_bytes(path) as (opened, _):
        return opened.read(SAMPLE_BYTES)


def _json(text: str) -> Any:
    try:
        refuse_depth(text)
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _first_keys(text: str) -> frozenset[str]:
    """Return the keys of a JSON object (or of the first of an array) that a cut text shows."""
    decoder, keys = json.JSONDecoder(), []
    begin = re.match(r"[\s\[]*\{", text)
    place = begin.end() if begin else len(text)
    try:
        while key := re.compile(r'\s*,?\s*("(?:[^"\\]|\\.)*")\s*:\s*').match(text, place):
            keys.append(json.loads(key[1]))
            _, place = decoder.raw_decode(text, key.end())
    except (ValueError, RecursionError):
        pass  # here the sample ends
    return frozenset(keys)


def _table_columns(top: dict[str, Any]) -> frozenset[str]:
    """Return the keys of an object; of a table written as columns and rows, its columns."""
    columns = top.get("columns")
    if set(top) == {"columns", "data"} and isinstance(columns, list):
        return frozenset(map(str, columns))
    return frozenset(top)


def _csv_columns(line: str) -> frozenset[str]:
    """Return the names of a header line with commas, tabs or the like; none for other text."""
    delimiter = delimiter_of(line)
    try:
        return (
            frozenset(next(csv.reader([line], delimiter=delimiter)))
            if delimiter in line
            else frozenset()
        )
    except csv.Error:
        return frozenset()


def _parquet_columns(path: Path) -> frozenset[str]:
    from ragscore.io.parquet_file import open_parquet_file

    with suppress(DataError), open_parquet_file(path) as file:
        return frozenset(file.schema_arrow.names)
    return frozenset()


def _zip_names(path: Path) -> frozenset[str]:
    try:
        with zipfile.ZipFile(path) as opened:
            return frozenset(opened.namelist())
    except (zipfile.BadZipFile, OSError):
        return frozenset()
