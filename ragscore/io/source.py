"""Files as records that still know their lines, with scalars as they were written.

In: a path. Out: `Row`s of plain Python values, or one `DataError`; `Problems` decides whether a
fault stops the load.

Unknown field names that look like slips of known ones: one warning for each name of a file.
"""

import gzip
import json
import warnings
import zlib
from codecs import getincrementaldecoder
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, from_records

# `docid`, `answerabel` and `tag` are that close; `group_id` and `cost` are names of their own
ALIKE = 0.82
_MEANT = {"hits": "hits_top_k"}  # short for it, though not similar
# names that people give to fields of their own, similar or not
_OWN = {"model", "index_id", "content", "chunk_index"}


class Slips:
    """Where each suspicious name stands first, and in how many rows of the file."""

    def __init__(self, file: str | Path) -> None:
        self.file = str(file)
        self.found: dict[tuple[str, str], tuple[int, int, int]] = {}

    def look(self, names: Iterable[str], known: frozenset[str], line: int) -> None:
        """Take note of those names that resemble a known one."""
        for name in names:
            if (known_name := meant(str(name), known)) is not None:
                first, last, n_rows = self.found.get((name, known_name), (line, 0, 0))
                self.found[name, known_name] = (first, line, n_rows + (line != last))

    def warn(self, stacklevel: int) -> None:
        """One `UserWarning` per name."""
        for (name, meant), (first, _, n_rows) in self.found.items():
            rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
            warnings.warn(
                f"{self.file}:{first}: unknown field {name!r} in {rows}; did you mean {meant!r}?",
                UserWarning,
                stacklevel=stacklevel + 1,
            )


@lru_cache(maxsize=4096)
def meant(name: str, known: frozenset[str]) -> str | None:
    """The known name that this one resembles.

    None for a known name and for one that resembles none.
    """
    if name in known or name in _OWN:
        return None
    if _MEANT.get(name) in known:
        return _MEANT[name]
    close = get_close_matches(name.lower(), sorted(known), n=1, cutoff=ALIKE)
    return close[0] if close else None


class WrittenInt(int):
    """A whole number that remembers its spelling, so that `id: 001` can stay 001."""

    text: str


class WrittenFloat(float):
    """A number that remembers its spelling, so that a version `1.10` can stay 1.10."""

    text: str


class WrittenDate(str):
    """An unquoted date: text for a note, refused as an id."""


@dataclass(frozen=True)
class Row:
    """One record of a file and where it stands.

    Its first line, and the line of each field where that is known.
    """

    values: dict[str, Any]
    line: int
    lines: dict[str, int] = field(default_factory=dict)

    def line_of(self, name: str) -> int:
        """The line of a field, or of the record if that isn't known."""
        return self.lines.get(name, self.line)


class Problems:
    """Collects what can't be taken.

    The first fault stops a strict load, else each becomes a row of `problems`.
    """

    def __init__(self, file: Path | str, strict: bool) -> None:
        self.file, self.strict = str(file), strict
        self.records: list[dict[str, Any]] = []
        self.slips = Slips(file)

    def add(
        self,
        found: str,
        *,
        line: int | None = None,
        field: str | None = None,
        allowed: str | None = None,
    ) -> None:
        """Take note of a fault, or stop here if the load is strict."""
        if self.strict:
            raise DataError(found, file=self.file, line=line, field=field, allowed=allowed)
        self.records.append(
            {"file": self.file, "line": line, "field": field, "found": found, "allowed": allowed}
        )

    def note(self, found: str, *, field: str | None = None) -> None:
        """Take note of what is left out by the format's own rules; that stops no load."""
        self.records.append(
            {"file": self.file, "line": None, "field": field, "found": found, "allowed": None}
        )

    def of(self, file: Path | str) -> "Problems":
        """The same list of faults, for those of another file."""
        other = Problems(file, self.strict)
        other.records = self.records
        return other

    def frame(self, run_id: str | None = None) -> pd.DataFrame:
        """What was noted, one row per fault; in a run's file, with the run's id."""
        return from_records([record | {"run_id": run_id} for record in self.records], "problems")


def open_text(path: Path) -> str:
    """The file's text (gzip if it ends in .gz, a byte-order mark dropped), or a DataError that names the byte."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _not_text(path, error, error.object.count(b"\n", 0, error.start) + 1) from error
    except (FileNotFoundError, IsADirectoryError, gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"can't be read: {error.args[-1] if error.args else error}", file=path
        ) from error


def text_lines(path: Path, told: Callable[[int], object] = int) -> Iterator[str]:
    """The lines of a file of any size, one at a time, none before all of the file is known to be text; `told` hears how many bytes have been read.

    Raises
    ------
    DataError
        As `open_text`.
    """
    _check_text(path)
    with path.open("rb") as raw, gzip.open(raw) if path.suffix == ".gz" else raw as opened:
        for number, line in enumerate(opened):
            told(raw.tell())
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
            open_text(path)  # a fault of the packing, should there be one, is told first
        # What is left of the piece before holds no line end.
        raise _not_text(path, error, line + error.object.count(b"\n", 0, error.start)) from error
    except (OSError, EOFError, zlib.error):
        open_text(path)  # tells what is wrong
        raise


def _not_text(path: Path, error: UnicodeDecodeError, line: int) -> DataError:
    return DataError(
        f"byte {error.object[error.start]:#x} is not UTF-8",
        file=path,
        line=line,
        allowed="files must be UTF-8",
    )


def json_rows(path: Path, problems: Problems, lines: Iterable[str] | None = None) -> Iterator[Row]:
    """One row per non-blank line; a line that isn't a JSON object is a problem of its own.

    `lines`, if given, are what the file holds.
    """
    first = True
    for number, line in enumerate(open_text(path).split("\n") if lines is None else lines, 1):
        if not line.strip():
            continue
        if first and (other := _other_format(line.strip())):
            problems.add(other[0], line=number, allowed=other[1])
            return
        first = False
        try:
            values = parsed(line)
        except (ValueError, RecursionError) as error:
            found = (
                f"not valid JSON ({error})"
                if not isinstance(error, RecursionError)
                else "nested too deeply"
            )
            problems.add(found, line=number, allowed="one JSON object per line")
            continue
        if isinstance(values, dict):
            yield Row(values, number)
        else:
            problems.add(f"found {shown(values)}", line=number, allowed="one JSON object per line")


def _other_format(first: str) -> tuple[str, str] | None:
    """What a file is whose first line can't be that of JSON lines, and how to make it one.

    None for a plausible line.
    """
    if first.startswith("["):
        return "the file is a JSON array", "one JSON object per line (jq -c '.[]' makes them)"
    if not first.startswith("{") and any(separator in first for separator in ",;\t"):
        return (
            f"the file looks like CSV with the header {shown(first)}",
            "one JSON object per line (pandas: to_json(orient='records', lines=True))",
        )
    return None


def parsed(text: str) -> Any:
    """The value of a JSON text.

    A ValueError for a key that is there twice, and for half a surrogate pair, which is no text
    though json takes it.
    """
    values = json.loads(text, object_pairs_hook=unique_keys)
    if "\\ud" in text.lower():
        json.dumps(values, ensure_ascii=False).encode()
    return values


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of a JSON object; a key that appears twice is an error."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = sorted({key for key, _ in pairs if sum(key == other for other, _ in pairs) > 1})
        raise ValueError(f"key {twice[0]!r} appears twice")
    return values


def as_text(value: Any) -> str | None:
    """Text as written: numbers keep their spelling; None for anything that isn't text or a number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, (WrittenInt, WrittenFloat)):
        return value.text
    if isinstance(value, (str, int)):
        return str(value)
    return repr(value) if isinstance(value, float) else None


def as_id(value: Any) -> str | None:
    """An id as written, never empty.

    None for booleans, dates, floats of JSON and whatever isn't an id.
    """
    if isinstance(value, WrittenDate) or (
        isinstance(value, float) and not isinstance(value, WrittenFloat)
    ):
        return None
    return as_text(value) or None


def shown(value: Any) -> str:
    """A found value in an error message: its JSON, cut to a readable length, with its kind."""
    kind = {
        bool: "a boolean",
        dict: "a mapping",
        list: "a list",
        bytes: "bytes",
        type(None): "nothing (null)",
    }.get(type(value))
    if kind is None:
        kind = (
            "a date"
            if isinstance(value, WrittenDate)
            else "text"
            if isinstance(value, str)
            else "a number"
        )
    if value is None:
        return kind
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{kind}: {text if len(text) <= 60 else text[:57] + '...'}"
