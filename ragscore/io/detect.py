"""Which format a file is in, told from its content.

A sample of it, and the table of formats that recognise one.

A file that fits several formats, or none, is an error that names the candidates and the `format=`
to pass.
"""

import csv
import gzip
import json
import re
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ragscore.frames.data import DataError

SAMPLED_BYTES = 1 << 20


@dataclass(frozen=True)
class Sample:
    """What can be seen of a file without reading it whole.

    Attributes
    ----------
    kind
        folder, sqlite, parquet, zip, frame (a DataFrame), jsonl (its first line is a JSON object),
        json (one JSON value over the whole file), yaml, text, empty.
    keys
        The keys of its first JSON object or YAML mapping; for a folder or zip, the names in it; for
        a table, its columns.
    first
        That object, `{}` for other kinds.
    line
        The first non-blank line of a text file.
    begin
        The beginning of the text, for JSON too large to be sampled whole.
    """

    path: Path
    kind: str
    keys: frozenset[str] = frozenset()
    first: dict[str, Any] | None = None
    line: str = ""
    begin: str = ""

    def has(self, *names: str) -> bool:
        """Whether all these keys (or, for a folder, names) are there."""
        return self.keys.issuperset(names)


@dataclass(frozen=True)
class Format:
    """One file format.

    How a sample of it is recognised, and its reader `(path, strict, **options)`.

    `options` are the load options that only some formats have; `apart` gives runs other names if
    another file's have the same. `fields` are those of a record, for a format whose reader takes a
    file that lacks what it is recognised by.
    """

    name: str
    fits: Callable[[Sample], bool]
    read: Callable[..., Any]
    options: tuple[str, ...] = ()
    apart: Callable[[Path, Any], Any] | None = None
    fields: frozenset[str] = frozenset()

    def understood(self, given: dict[str, Any], file: Path) -> dict[str, Any]:
        """The options that were given, if this format has them all.

        Raises
        ------
        DataError
            An option that this format doesn't have.
        """
        present = {name: value for name, value in given.items() if value is not None}
        if unknown := sorted(present.keys() - set(self.options)):
            allowed = (
                f"no {', '.join(unknown)}; format {self.name} has"
                f" {', '.join(self.options) or 'no such options'}"
            )
            raise DataError(
                f"{unknown[0]}={present[unknown[0]]!r} means nothing in format {self.name}",
                file=file,
                field=unknown[0],
                allowed=allowed,
            )
        return present


def sample(path: Path) -> Sample:
    """Look at the beginning of a file, or at the names in a folder."""
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
    line = next((one for one in text.splitlines() if one.strip()), "")
    if not line:
        return Sample(path, "empty")
    if path.name.removesuffix(".gz").endswith((".yaml", ".yml")):
        return Sample(path, "yaml", line=line)
    first = _json(line)
    if isinstance(first, dict) and not (
        len(first) and path.name.removesuffix(".gz").endswith(".json")
    ):
        return Sample(path, "jsonl", frozenset(first), first, line, text)
    if line.lstrip()[0] in "[{":
        whole = first if first is not None else _json(text)
        top = whole[0] if isinstance(whole, list) and whole else whole
        if whole is None:
            return Sample(path, "json", _keys_of_begin(text), None, line, text)
        keys = _table_columns(top) if isinstance(top, dict) else frozenset()
        return Sample(path, "json", keys, top if isinstance(top, dict) else None, line, text)
    return Sample(path, "text", _csv_columns(line), line=line)


def choose_format(path: Path, formats: list[Format], wanted: str | None, what: str) -> Format:
    """The format of a file: the one asked for, else the only one that its content fits.

    The first of `formats` is our own: a file that fits none, but is named .jsonl or .yaml, goes to
    its reader, which can say line and field; one whose first record has a question only if another
    field of ours stands beside it, for it may be of any tool else.

    Raises
    ------
    DataError
        An unknown `format`, or a file that fits several formats or none; the candidates are named.
    """
    seen = sample(path)
    is_named = seen.kind != "folder" and path.name.removesuffix(".gz").endswith(
        (".jsonl", ".yaml", ".yml")
    )
    own = formats[0]
    is_plain = seen.kind == "text" or not seen.keys & {"query", "question"}
    lacks_id = "query" in seen.keys and bool(seen.keys & (own.fields - {"query"}))
    return matching_format(
        seen, formats, wanted, what, own if is_named and (is_plain or lacks_id) else None
    )


def matching_format(
    seen: Sample,
    formats: list[Format],
    wanted: str | None,
    what: str,
    otherwise: Format | None = None,
) -> Format:
    """The format asked for, else the only one that a sample fits, else `otherwise`.

    Raises as `choose` does.
    """
    by_name = {one.name: one for one in formats}
    if wanted is not None:
        if wanted not in by_name:
            raise DataError(
                f"unknown format {wanted!r}", field="format", allowed=f"one of {', '.join(by_name)}"
            )
        return by_name[wanted]
    fitting = [one for one in formats if one.fits(seen)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        raise DataError(
            f"fits {len(fitting)} formats: {', '.join(one.name for one in fitting)}",
            file=seen.path,
            field="format",
            allowed="pass format= to choose",
        )
    if otherwise is not None:
        return otherwise
    raise DataError(
        f"fits no format of {what} ({_described(seen)})",
        file=seen.path,
        field="format",
        allowed=f"pass format=, one of {', '.join(by_name)}",
    )


def _described(seen: Sample) -> str:
    keys = ", ".join(sorted(seen.keys)[:12])
    return (
        f"{seen.kind} with {keys}"
        if keys
        else f"{seen.kind} that begins {seen.line[:60]!r}"
        if seen.line
        else seen.kind
    )


def _begin(path: Path) -> bytes:
    try:
        if path.suffix == ".gz":
            with gzip.open(path, "rb") as opened:
                return opened.read(SAMPLED_BYTES)
        with path.open("rb") as plain:
            return plain.read(SAMPLED_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(
            f"can't be read: {error.args[-1] if error.args else error}", file=path
        ) from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _keys_of_begin(text: str) -> frozenset[str]:
    """The keys of a JSON object (or of the first one of an array) as far as a sample that is cut short shows them."""
    decoder, keys = json.JSONDecoder(), []
    place = re.match(r"[\s\[]*\{", text)
    at = place.end() if place else len(text)
    try:
        while key := re.compile(r'\s*,?\s*("(?:[^"\\]|\\.)*")\s*:\s*').match(text, at):
            keys.append(json.loads(key[1]))
            _, at = decoder.raw_decode(text, key.end())
    except (ValueError, RecursionError):
        pass  # here the sample ends
    return frozenset(keys)


def _table_columns(top: dict[str, Any]) -> frozenset[str]:
    """The keys of an object; those of a table written as columns and rows are its columns."""
    columns = top.get("columns")
    return (
        frozenset(map(str, columns))
        if set(top) == {"columns", "data"} and isinstance(columns, list)
        else frozenset(top)
    )


def _csv_columns(line: str) -> frozenset[str]:
    """The names of a header line with commas; nothing for other text."""
    try:
        return frozenset(next(csv.reader([line]))) if "," in line else frozenset()
    except csv.Error:
        return frozenset()


def _parquet_columns(path: Path) -> frozenset[str]:
    try:
        return frozenset(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return frozenset()


def _zip_names(path: Path) -> frozenset[str]:
    try:
        with zipfile.ZipFile(path) as opened:
            return frozenset(opened.namelist())
    except (zipfile.BadZipFile, OSError):
        return frozenset()
