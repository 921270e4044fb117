"""Read files as records that know their lines; scalars keep their spelling.

In: a path. Out: `Row`s of plain Python values, or one `DataError`. `Problems` collects what can't
be taken, and decides whether it stops the load. `Typos` collects unknown field names that resemble
known ones.
"""

import gzip
import json
import zlib
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, from_records
from ragscore.frames.errors import warn

SIMILARITY = 0.82
"""How alike a field must be to a known one to count as a typo.

`docid`, `answerabel` and `tag` are; `group_id` and `cost` are names of their own.
"""
_SHORT_FORMS = {"hits": "hits_top_k"}  # not similar, but surely meant
_NEVER_TYPOS = {"model", "index_id", "content", "chunk_index"}  # common fields of other tools


class Typos:
    """Field names that look misspelt: where each stands first, and in how many rows of the file."""

    def __init__(self, file: str | Path) -> None:
        self.file = str(file)
        # (name, known name) -> its first line, its last line, its number of rows
        self.found: dict[tuple[str, str], tuple[int, int, int]] = {}

    def check(self, names: Iterable[str], known: frozenset[str], line: int) -> None:
        """Record the names that resemble a known one."""
        for name in names:
            if (suggestion := suggest_field(str(name), known)) is not None:
                first, last, n_rows = self.found.get((name, suggestion), (line, 0, 0))
                self.found[name, suggestion] = (first, line, n_rows + (line != last))

    def warn(self) -> None:
        """Issue one `UserWarning` per name."""
        for (name, suggestion), (first, _, n_rows) in self.found.items():
            rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
            warn(
                f"{self.file}:{first}: unknown field {name!r} in {rows}; did you mean"
                f" {suggestion!r}?"
            )


@lru_cache(maxsize=4096)
def suggest_field(name: str, known: frozenset[str]) -> str | None:
    """Return the known field that an unknown name resembles, if any."""
    if name in known or name in _NEVER_TYPOS:
        return None
    if _SHORT_FORMS.get(name) in known:
        return _SHORT_FORMS[name]
    close = get_close_matches(name.lower(), sorted(known), n=1, cutoff=SIMILARITY)
    return close[0] if close else None


class YamlInt(int):
    """A whole number with its spelling, so that `id: 001` stays 001."""

    text: str


class YamlFloat(float):
    """A decimal number with its spelling, so that version `1.10` stays 1.10."""

    text: str


class YamlDate(str):
    """An unquoted date: taken as text, refused as an id."""


@dataclass(frozen=True)
class Row:
    """One record of a file, its first line, and the line of each field where that is known."""

    values: dict[str, Any]
    line: int
    lines: dict[str, int] = field(default_factory=dict)

    def line_of(self, name: str) -> int:
        """Return the line of a field, or that of the record if it isn't known."""
        return self.lines.get(name, self.line)


class Problems:
    """Collects what can't be taken from a file.

    A strict load stops at the first fault. Otherwise each fault becomes a row of `problems`.
    """

    def __init__(self, file: Path | str, strict: bool) -> None:
        self.file, self.strict = str(file), strict
        self.records: list[dict[str, Any]] = []
        self.typos = Typos(file)

    def add(
        self,
        found: str,
        *,
        line: int | None = None,
        field: str | None = None,
        allowed: str | None = None,
    ) -> None:
        """Record a fault, or raise it if the load is strict."""
        if self.strict:
            raise DataError(found, file=self.file, line=line, field=field, allowed=allowed)
        self.records.append(
            {"file": self.file, "line": line, "field": field, "found": found, "allowed": allowed}
        )

    def reject(self, value: Any, line: int | None, field: str | None, allowed: str) -> None:
        """Record that a field holds a value it can't have."""
        self.add(f"found {describe(value)}", line=line, field=field, allowed=allowed)

    def note(self, found: str, *, field: str | None = None) -> None:
        """Record what the format's own rules leave out; this never stops a load."""
        self.records.append(
            {"file": self.file, "line": None, "field": field, "found": found, "allowed": None}
        )

    def for_file(self, file: Path | str) -> "Problems":
        """Return a collector for another file that shares this list of faults."""
        other = Problems(file, self.strict)
        other.records = self.records
        return other

    def frame(self, run_id: str | None = None) -> pd.DataFrame:
        """Return the problems frame, one row per fault, with the run's id if the file is a run."""
        return from_records([record | {"run_id": run_id} for record in self.records], "problems")


def read_text(path: Path) -> str:
    """Return the text of a file: UTF-8, gzip if it ends in .gz, without a byte-order mark.

    Raises
    ------
    DataError
        The file can't be read, or a byte of it isn't UTF-8 (the error names its line).
    """
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(path, error, error.object.count(b"\n", 0, error.start) + 1) from error
    except (FileNotFoundError, IsADirectoryError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> DataError:
    """Return the error of a file that can't be read."""
    return DataError(f"can't be read: {error.args[-1] if error.args else error}", file=path)


def text_lines(path: Path, on_progress: Callable[[int], object] = int) -> Iterator[str]:
    """Yield the lines of a file of any size, after a check that all of it is text.

    `on_progress` is called with the number of bytes read so far.

    Raises
    ------
    DataError
        As `read_text`.
    """
    _check_text(path)
    with path.open("rb") as raw, gzip.open(raw) if path.suffix == ".gz" else raw as opened:
        for number, line in enumerate(opened):
            on_progress(raw.tell())
            yield line.removesuffix(b"\n").decode("utf-8-sig" if number == 0 else "utf-8")


def _check_text(path: Path) -> None:
    decoder, line = getincrementaldecoder("utf-8")(), 1
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as opened:
            while data := opened.read(1 << 20):
                decoder.decode(data)
                line += data.count(b"\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        if path.suffix == ".gz":
            read_text(path)  # raises if the compression is damaged, which comes first
        # The decoder carries over part of a character at most, which holds no line end.
        raise _not_text(path, error, line + error.object.count(b"\n", 0, error.start)) from error
    except (OSError, EOFError, zlib.error):
        read_text(path)  # raises with a plain message
        raise


def _not_text(path: Path, error: UnicodeDecodeError, line: int) -> DataError:
    return DataError(
        f"byte {error.object[error.start]:#x} is not UTF-8",
        file=path,
        line=line,
        allowed="files must be UTF-8",
    )


def json_rows(path: Path, problems: Problems, lines: Iterable[str] | None = None) -> Iterator[Row]:
    """Yield one row per non-blank line; a line that isn't a JSON object is a problem.

    Pass `lines` if the file's lines are at hand.
    """
    first = True
    for number, line in enumerate(read_text(path).split("\n") if lines is None else lines, 1):
        if not line.strip():
            continue
        if first and (other := _other_format(line.strip())):
            problems.add(other[0], line=number, allowed=other[1])
            return
        first = False
        try:
            values = parse_json(line)
        except (ValueError, RecursionError) as error:
            is_deep = isinstance(error, RecursionError)
            found = "nested too deeply" if is_deep else f"not valid JSON ({error})"
            problems.add(found, line=number, allowed="one JSON object per line")
            continue
        if isinstance(values, dict):
            yield Row(values, number)
        else:
            problems.reject(values, number, None, "one JSON object per line")


def _other_format(first: str) -> tuple[str, str] | None:
    """Return what a file is that can't be JSON lines, and how to convert it.

    None if the first line looks like JSON lines.
    """
    if first.startswith("["):
        return "the file is a JSON array", "one JSON object per line (jq -c '.[]' makes them)"
    if not first.startswith("{") and any(separator in first for separator in ",;\t"):
        return (
            f"the file looks like CSV with the header {describe(first)}",
            "one JSON object per line (pandas: to_json(orient='records', lines=True))",
        )
    return None


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    ValueError
        Invalid JSON, a key that appears twice, or half a surrogate pair: `json` accepts those, but
        no UTF-8 file can hold them.
    """
    values = json.loads(text, object_pairs_hook=unique_keys)
    if "\\ud" in text.lower():
        json.dumps(values, ensure_ascii=False).encode()
    return values


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; a key that appears twice is a ValueError."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = min(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return values


def field_lines(source: str) -> dict[str, int]:
    """Return the line of each field of a valid JSON object."""
    return {name: source.count("\n", 0, key) + 1 for name, (key, _) in _fields(source).items()}


def item_lines(source: str, name: str) -> list[int]:
    """Return the line of each item of a list that is a field of a valid JSON object."""
    decode, place = json.JSONDecoder().raw_decode, _fields(source)[name][1]
    lines, line, counted = [], 1, 0
    place = _after_blanks(source, place + 1)
    while source[place] != "]":
        line, counted = line + source.count("\n", counted, place), place
        lines.append(line)
        place = _after_blanks(source, decode(source, place)[1])
        if source[place] == ",":
            place = _after_blanks(source, place + 1)
    return lines


def _fields(source: str) -> dict[str, tuple[int, int]]:
    """Return where the name and the value of each field of a valid JSON object begin."""
    places: dict[str, tuple[int, int]] = {}
    decode, place = json.JSONDecoder().raw_decode, _after_blanks(source, source.index("{") + 1)
    while place < len(source) and source[place] == '"':
        key = place
        name, place = scanstring(source, place + 1)
        value = _after_blanks(source, _after_blanks(source, place) + 1)
        places[name] = key, value
        place = _after_blanks(source, _after_blanks(source, decode(source, value)[1]) + 1)
    return places


def _after_blanks(source: str, place: int) -> int:
    return int(WHITESPACE.match(source, place).end())


def as_text(value: Any) -> str | None:
    """Return text or a number as written; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (YamlInt, YamlFloat)):
        return value.text
    if isinstance(value, (str, int)):
        return str(value)
    return repr(value) if isinstance(value, float) else None


def as_id(value: Any) -> str | None:
    """Return an id as written; None for empty text, booleans, dates and JSON floats."""
    if isinstance(value, YamlDate) or (
        isinstance(value, float) and not isinstance(value, YamlFloat)
    ):
        return None
    return as_text(value) or None


def describe(value: Any) -> str:
    """Return a value for an error message: its kind and its JSON, cut to a readable length."""
    if value is None:
        return "nothing (null)"
    kinds: dict[type, str] = {
        bool: "a boolean",
        dict: "a mapping",
        list: "a list",
        bytes: "bytes",
        YamlDate: "a date",
    }
    kind = kinds.get(type(value), "text" if isinstance(value, str) else "a number")
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{kind}: {text if len(text) <= 60 else text[:57] + '...'}"
