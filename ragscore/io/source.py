"""Read files as records that know their lines; scalars keep their spelling.

In: a path. Out: `Row`s of plain Python values, or one `DataError`. `Problems` collects what can't
be taken, and decides whether it stops the load, and names of fields that look misspelt.
"""

import gc
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, from_records
from ragscore.frames.errors import warn
from ragscore.frames.escaping import visible
from ragscore.io.files import LONGEST_ID, has_limits, text_lines

SIMILARITY = 0.82
"""How alike a field must be to a known one to count as a typo.

`docid`, `answerabel` and `tag` are; `group_id` and `cost` are names of their own.
"""
_SHORT_FORMS = {"hits": "hits_top_k"}  # not similar, but surely meant
_NEVER_TYPOS = {"model", "index_id", "content", "chunk_index"}  # common fields of other tools


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
        """Return the line of a field, or of the record if it isn't known."""
        return self.lines.get(name, self.line)


@contextmanager
def without_collector() -> Iterator[None]:
    """Keep Python's collector of cycles from looking through what is read again and again.

    Records hold no cycles, and a large file is a million objects: the collector takes up to half of
    the time.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


MOST_FAULTS = 100_000
"""How many faults are kept: a file of other lines, packed, may have any number of them."""


class Problems:
    """Collects what can't be taken from a file.

    A strict load stops at the first fault. Otherwise each fault becomes a row of `problems`.
    """

    def __init__(self, file: Path | str, strict: bool) -> None:
        self.file, self.strict = str(file), strict
        self.records: list[dict[str, Any]] = []
        # pairs of a name and the known name that it resembles; and what a format notes
        self.typos, self.notes = set[tuple[str, str]](), set[str]()

    def add(
        self,
        found: str,
        *,
        line: int | None = None,
        field: str | None = None,
        allowed: str | None = None,
        stops: bool = True,
    ) -> None:
        """Record a fault, or raise it if the load is strict."""
        if len(self.records) >= MOST_FAULTS and has_limits():
            found = f"more than {MOST_FAULTS:,} faults, the last one: {found}"
        elif not (self.strict and stops):
            # half a surrogate pair, which names in broken files may have, is no text for a frame
            texts = {"field": field, "found": found, "allowed": allowed}
            shown = {name: text and visible(text) for name, text in texts.items()}
            self.records.append({"file": self.file, "line": line} | shown)
            return
        raise DataError(found, file=self.file, line=line, field=field, allowed=allowed)

    def reject(self, value: Any, line: int | None, field: str | None, allowed: str) -> None:
        """Record that a field holds a value it can't have."""
        self.add(f"found {describe(value)}", line=line, field=field, allowed=allowed)

    note = partialmethod(add, stops=False)
    """Record what the format's own rules leave out; this never stops a load."""

    def check_names(self, names: Iterable[str], known: frozenset[str], line: int) -> None:
        """Warn once of each name that resembles a known one."""
        for name in names:
            meant = suggest_field(str(name), known)
            if meant is not None and (name, meant) not in self.typos:
                self.typos.add((name, meant))
                warn(f"{self.file}:{line}: unknown field {name!r}; did you mean {meant!r}?")

    def for_file(self, file: Path | str) -> "Problems":
        """Return a collector for another file that shares this list of faults."""
        other = Problems(file, self.strict)
        other.records = self.records
        return other

    def frame(self, run_id: str | None = None) -> pd.DataFrame:
        """Return the problems frame, one row per fault, with the run's id if the file is a run."""
        return from_records([record | {"run_id": run_id} for record in self.records], "problems")


def json_rows(
    path: Path, problems: Problems, lines: Iterable[str] | None = None, begin: int = 1
) -> Iterator[Row]:
    """Yield one row per non-blank line; a line that isn't a JSON object is a problem.

    Pass `lines` if some of the file's lines are at hand, of which the first is number `begin`.
    """
    allowed = "one JSON object per line"
    for number, line in enumerate(text_lines(path) if lines is None else lines, begin):
        if not line or line.isspace():
            continue
        try:
            values = parse_json(line)
        except (ValueError, RecursionError) as error:
            problems.add(**json_fault(error) | {"line": number}, allowed=allowed)
            continue
        if isinstance(values, dict):
            yield Row(values, number)
        else:
            problems.reject(values, number, None, allowed)


DEEPEST = 100
"""The deepest nesting that is read. Records nest to 6, and Python gives up at several hundred."""


class InfiniteNumber(ValueError):
    """A number that is infinite, or too large for a float, and so can't be written as JSON."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text; NaN, which some tools write, is None.

    Raises
    ------
    ValueError
        Invalid JSON, a key that appears twice, a number beyond what a float can hold, or half a
        surrogate pair: `json` accepts those, but no UTF-8 file can hold them.
    RecursionError
        Nested more than 100 deep.
    """
    refuse_depth(text)
    try:
        values = _DECODER.decode(text)
    except InfiniteNumber as error:
        written = str(error)
        found = f"{written[:60]} is no finite number"
        raise json.JSONDecodeError(found, text, text.index(written)) from None
    if "\\ud" in text or "\\uD" in text:
        json.dumps(values, ensure_ascii=False).encode()
    return values


def parsed(stored: Any) -> Any:
    """Return the value of JSON text, None for empty text; what is no JSON stays as it is."""
    if isinstance(stored, str):
        with suppress(ValueError, RecursionError):
            return parse_json(stored or "null")
    return stored


def json_fault(error: ValueError | RecursionError) -> dict[str, Any]:
    """Return what `parse_json` found, for a message, and its line where that is known."""
    is_deep = isinstance(error, RecursionError)
    found = "nested too deeply" if is_deep else f"not valid JSON ({error})"
    return {"found": found, "line": getattr(error, "lineno", None)}


def finite(written: str) -> float | None:
    """Return a number of JSON, None for NaN; one that no float can hold is an `InfiniteNumber`."""
    found = float(written)
    if math.isinf(found):
        raise InfiniteNumber(written)
    return None if math.isnan(found) else found


_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STEPS = bytes({"[": 1, "{": 1, "]": 255, "}": 255}.get(chr(n), 0) for n in range(256))  # 255: -1


def refuse_depth(text: str) -> None:
    """Raise a RecursionError for JSON nested more than 100 deep, before it is parsed."""
    if text.count("[") + text.count("{") > DEEPEST:
        steps = _TEXT.sub("", text).encode("utf-8", "surrogatepass").translate(_STEPS)
        if np.frombuffer(steps, np.int8).cumsum(dtype=np.int32).max(initial=0) > DEEPEST:
            raise RecursionError


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object; a key that appears twice is a ValueError."""
    values = dict(pairs)
    if len(values) < len(pairs):
        twice = min(key for key, n in Counter(key for key, _ in pairs).items() if n > 1)
        raise ValueError(f"key {twice!r} appears twice")
    return values


_DECODER = json.JSONDecoder(
    object_pairs_hook=unique_keys, parse_float=finite, parse_constant=finite
)


_NAME = re.compile(r'[\s,]*("(?:[^"\\]|\\.)*")\s*:\s*')


def json_fields(source: str) -> Iterator[tuple[str, int]]:
    """Yield each field of the first JSON object, and where its value begins."""
    place = source.index("{") + 1
    while name := _NAME.match(source, place):
        yield json.loads(name[1]), name.end()
        place = _DECODER.raw_decode(source, name.end())[1]


def as_text(value: Any) -> str | None:
    """Return text or a number as written; None for anything else."""
    if isinstance(value, str):
        return str(value)
    if isinstance(value, (YamlInt, YamlFloat)):
        return value.text
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return repr(value) if is_number else None


def as_id(value: Any) -> str | None:
    """Return an id as written; None for text that is empty or too long, and for other values.

    Booleans, dates and the floats of JSON are no ids.
    """
    is_float = isinstance(value, float) and not isinstance(value, YamlFloat)
    if is_float or isinstance(value, YamlDate):
        return None
    found = as_text(value)
    return found if found and (len(found) <= LONGEST_ID or not has_limits()) else None


def describe(value: Any) -> str:
    """Return a value for an error message: its kind and its JSON, cut to a readable length."""
    if value is None:
        return "nothing (null)"
    known = (name for kind, name in _KINDS.items() if isinstance(value, kind))
    kind = next(known, f"a {type(value).__name__}")
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{kind}: {text if len(text) <= 60 else text[:57] + '...'}"


_KINDS: dict[type, str] = {
    bool: "a boolean", int: "a number", float: "a number", dict: "a mapping", list: "a list",
    YamlDate: "a date", str: "text", bytes: "bytes",
}  # fmt: skip
"""Of several kinds, the first one counts."""
