"""Values of a record: one field as text, id, flag or number, and the fields that no column takes.

In: JSON or YAML values of a record. Out: values for a column; a value that the column can't hold
becomes a problem with its line.

Fields without a column are kept as `x_<name>` columns and written back. Nested mappings become
dotted names (`x_retrieval.method`; a dot inside a key is written %2E). A value that no single
column can hold (a list, a mix of types) is kept as JSON text under `x_<name>.json`. Null and absent
are the same.
"""

import ast
import json
import math
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError
from ragscore.io.files import LONGEST_ID
from ragscore.io.source import (
    DEEPEST,
    InfiniteNumber,
    Problems,
    YamlDate,
    as_id,
    as_text,
    parse_json,
    refuse_depth,
)

ID_ALLOWED = f"text that isn't empty, of at most {LONGEST_ID:,} characters, or a whole number"
SPAN_ALLOWED = "whole numbers, 0 ≤ start < end (half-open)"
JSON_SUFFIX = ".json"
HEADING_SEPARATOR = " > "
CELL = ("run_id", "query_id")
T = TypeVar("T")


class FieldReader:
    """The fields of one object of a record, taken out one after the other.

    `values` is a copy that shrinks with every field taken. `place` begins the names of fields in
    messages, such as "answer.".
    """

    __slots__ = ("line", "lines", "place", "problems", "values")

    def __init__(
        self, values: dict[str, Any], place: str, line: int | None, problems: Problems,
        lines: dict[str, int] | None = None,
    ) -> None:  # fmt: skip
        self.values, self.place, self.line, self.problems = dict(values), place, line, problems
        self.lines = {} if lines is None else lines

    def pop(self, *names: str) -> Any:
        """Take the first of these fields that isn't missing, and remove them all."""
        found = [self.values.pop(name, None) for name in names]
        return next((one for one in found if one is not None), None)

    def take(self, type: str, *names: str) -> Any:
        """Return the first of these fields that isn't missing as a value of its type."""
        return READ[type](
            self.pop(*names),
            self.place + names[0],
            self.lines.get(names[0], self.line),
            self.problems,
        )

    def text_list(self, *names: str) -> list[str]:
        """Return the texts of a list, without those that are none."""
        listed = self.shaped("a list of texts (quote a yes/no)", names, list)
        found = [as_text(one) for one in listed]
        if None in found:
            self.reject(listed, names[0], "a list of texts (quote a yes/no)")
        return [one for one in found if one is not None]

    def shaped(self, allowed: str, names: tuple[str, ...], *kinds: type) -> Any:
        """Return a value of one of these kinds, an empty one of the first in place of others."""
        value = self.pop(*names)
        if value is not None and not isinstance(value, kinds):
            self.reject(value, names[0], allowed)
        return value if isinstance(value, kinds) else kinds[0]()

    def inner(self, values: Any, name: str) -> "FieldReader":
        """Return a reader of the fields of an object within a field; what is none has none."""
        return FieldReader(
            values if isinstance(values, dict) else {},
            f"{name}.",
            self.lines.get(name, self.line),
            self.problems,
        )

    def reject(self, value: Any, name: str, allowed: str) -> None:
        """Record that a field holds a value it can't have."""
        line = self.lines.get(name, self.line)
        self.problems.reject(value, line, self.place + name, allowed)


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: Any) -> float | None:
    if isinstance(value, float) and math.isnan(value):  # which some tools write
        return value
    return None if isinstance(value, str) else as_number(value)


def _whole(value: Any, lowest: int = 0) -> int | None:
    return int(value) if is_int(value) and lowest <= value < 2**63 else None


def _texts(value: Any) -> str | None:
    is_list = isinstance(value, list) and all(as_text(one) is not None for one in value)
    return as_json(value) if is_list else None


def _heading(value: Any) -> str | None:
    """Return a heading path as one text."""
    if not isinstance(value, list):
        return as_text(value)
    is_texts = all(isinstance(one, str) for one in value)
    return HEADING_SEPARATOR.join(value) if is_texts else None


def _read(
    parse: Callable[[Any], Any], allowed: str, value: Any, name: str, line: int | None,
    problems: Problems,
) -> Any:  # fmt: skip
    """Return a value as one of its type, None where it is null; another value is a problem."""
    found = None if value is None else parse(value)
    if found is None and value is not None:
        problems.reject(value, line, name, f"{allowed}, or null")
    return None if found != found else found


def _failure(value: Any, name: str, line: int | None, problems: Problems) -> str | None:
    """Return why a query failed. Blank text, false, 0 and empty values say that it didn't."""
    if not value or (isinstance(value, str) and not value.strip()):
        return None
    if not isinstance(value, str):
        problems.reject(value, line, name, "text, or null")
    return value if isinstance(value, str) else as_json(value)


_TYPES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "text": (as_text, "text"), "id": (as_id, ID_ALLOWED), "flag": (_flag, "true, false"),
    "refusal": (_flag, 'true, false, "unknown" for what answer and grounded imply'),
    **dict.fromkeys(("number", "score"), (_number, "a finite number")),
    "texts": (_texts, "a list of texts"), "heading": (_heading, "a list of texts, text"),
    "any": (lambda value: as_json(value), ""),
    "time": (lambda value: as_time(value), "an ISO 8601 time, such as 2026-01-31T09:30:00Z"),
    "json": (lambda value: value if isinstance(value, str) else as_json(value), ""),
    **{
        type: (partial(_whole, lowest=lowest), f"a whole number from {lowest} to {2**63 - 1}")
        for type, lowest in {"whole": 0, "positive": 1, "integer": -(2**63)}.items()
    },
}  # fmt: skip
"""Type of a field -> what makes a value of it, or gives None, and what is allowed."""
READ: dict[str, Callable[..., Any]] = {
    "failure": _failure, **{type: partial(_read, *how) for type, how in _TYPES.items()},
}  # fmt: skip
"""Type of a field -> what reads one value of it, or names its fault."""
ARROW = {
    **dict.fromkeys(("flag", "refusal"), pa.bool_()),
    **dict.fromkeys(("number", "score"), pa.float64()),
    **dict.fromkeys(("whole", "integer", "positive", "rank"), pa.int64()),
    **dict.fromkeys(("text", "id", "failure", "json", "texts", "any", "heading"), pa.string()),
}  # fmt: skip
VERDICTS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "pass": 1.0, "fail": 0.0}


def as_number(value: Any) -> float | None:
    """Return a finite number, also one written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_time(value: Any) -> pd.Timestamp | None:
    """Return an ISO 8601 text as a time, of UTC where it has no zone; None for anything else."""
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d", value):
        return None
    time: Any = pd.to_datetime(value, utc=True, errors="coerce", format="ISO8601")
    return time if 1 <= time.year <= 9999 else None  # pandas has other years, ISO 8601 hasn't


def is_int(value: Any) -> TypeGuard[int]:
    """Return True for a whole number, which a boolean isn't."""
    return isinstance(value, int) and not isinstance(value, bool)


NOT_PLAIN = (UnicodeEncodeError, InfiniteNumber, RecursionError)


def _of_file(value: Any) -> Any:
    if isinstance(value, float) and math.isinf(value):
        raise InfiniteNumber(str(value))
    if isinstance(value, str) and not value.isascii():
        value.encode()  # half a surrogate pair is no text: UnicodeEncodeError, a ValueError
    return YamlDate(value) if isinstance(value, (datetime, date)) else value


def plain(value: Any, scalar: Callable[[Any], Any] = _of_file, depth: int = DEEPEST) -> Any:
    """Return a value of Python, numpy or pandas as lists and dicts of what `scalar` gives.

    NaN, NaT and NA are None. Half a surrogate pair and an infinite number are errors unless
    `scalar` takes them, endless nesting always; all three are in `NOT_PLAIN`.
    """
    if isinstance(value, str):
        return scalar(value)
    if not depth:
        raise RecursionError(f"it is nested deeper than {DEEPEST} levels")
    if isinstance(value, pd.DataFrame):
        value = value.to_dict("records")
    elif isinstance(value, (np.ndarray, np.generic, pd.Series)):
        value = value.tolist()
    elif isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)
    if isinstance(value, (list, tuple)):
        return [plain(one, scalar, depth - 1) for one in value]
    if type(value) is dict or isinstance(value, Mapping):
        return {scalar(str(name)): plain(one, scalar, depth - 1) for name, one in value.items()}
    if value is None or value is pd.NaT or value is pd.NA:
        return None
    return None if isinstance(value, float) and math.isnan(value) else scalar(value)


_ADJACENT = re.compile(r"""^\[\s*(?P<quote>['"])[^'",]*(?P=quote)\s+['"]""")


def nested(cell: Any) -> Any:
    """Return the list or mapping that a CSV cell holds as JSON or Python's repr, else the cell."""
    if not isinstance(cell, str) or not cell.strip().startswith(("[", "{")):
        return cell
    for parse in (parse_json, ast.literal_eval):
        if parse is ast.literal_eval and _ADJACENT.search(cell):
            return cell  # numpy's print of texts has no commas: Python would join them to one
        try:
            refuse_depth(cell)
            found = parse(cell.strip())
            if isinstance(found, (list, dict)):
                return plain(found)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return cell


def plain_cell(
    cell: Any, field: str = "source", line: int | None = None, file: Path | str | None = None
) -> Any:
    """Return a cell as plain Python values, or refuse what no file could hold."""
    try:
        return plain(cell)
    except NOT_PLAIN as error:
        raise DataError(
            f"a value can't be taken ({error})",
            file=file,
            line=line,
            field=field,
            allowed="text, finite numbers, lists and mappings of them",
        ) from error


def value_at(values: Any, path: str, missing: Any = None) -> Any:
    """Return a value by its name, or by a dotted path; names on the path may have dots too.

    Texts on the way may hold JSON. In a list a number is a position; any other name gives the
    value of each of its mappings.
    """
    if isinstance(values, dict):
        if path in values:
            return values[path]
        parts = path.split(".")
        for cut in range(len(parts) - 1, 0, -1):  # the longest name first
            if (name := ".".join(parts[:cut])) in values:
                return value_at(nested(values[name]), ".".join(parts[cut:]), missing)
    elif isinstance(values, list):
        name, _, rest = path.partition(".")
        if name.isdecimal():
            inner = values[int(name)] if int(name) < len(values) else missing
            return value_at(inner, rest, missing) if rest else inner
        each = [value_at(one, path, missing) for one in values if isinstance(one, dict)]
        return each if len(each) == len(values) else missing
    return missing


LIST_ALLOWED = 'a list as JSON, such as ["a", "b"]'


def is_list_text(value: Any) -> bool:
    """Return True for text that looks like a list, but none that `nested` can read."""
    text = value.strip() if isinstance(value, str) else ""
    return text.startswith("[") and text.endswith("]") and isinstance(nested(text), str)


def as_json(value: Any) -> str:
    """Return a value as JSON text."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False)


def leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of nested objects by its dotted name."""
    for name, value in values.items():
        dotted = prefix + escape_key(name)
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{dotted}.")
        else:
            yield dotted, value


def escape_key(name: str) -> str:
    """Return a key as part of a dotted name; a key called `json` must not look like our suffix."""
    return "%6Ason" if name == "json" else name.replace("%", "%25").replace(".", "%2E")


def objects_of(
    columns: Mapping[str, list[Any]], nulls: Container[str] = ()
) -> list[dict[str, Any]]:
    """Return columns as the objects that they came from: their names say where values belong.

    None is left out, but for the columns `nulls`.

    Raises
    ------
    DataError
        Text that isn't JSON in a column `*.json`; a column whose name says that it is both a value
        and a mapping.
    """
    rows = [dict[str, Any]() for _ in next(iter(columns.values()), ())]
    for column, values in columns.items():
        is_json = column.endswith(JSON_SUFFIX)
        names = column.removeprefix("x_").removesuffix(JSON_SUFFIX if is_json else "")
        *parents, leaf = map(unquote, names.split("."))
        for row, value in zip(rows, values, strict=True):
            if value is None and column not in nulls:
                continue
            place = row
            for parent in parents:
                place = place.setdefault(parent, {}) if isinstance(place, dict) else place
            if not isinstance(place, dict) or (leaf in place and value is not None):
                raise DataError(
                    "the column and one nested in it both have a value",
                    field=column,
                    allowed="one of them",
                )
            place.setdefault(leaf, of_json(value, column) if is_json else value)
    return rows


def of_json(text: Any, column: str) -> Any:
    """Return the value of JSON text in a column."""
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise DataError(f"found {text!r}", field=column, allowed="JSON text") from error


def unflatten(flat: dict[str, Any]) -> dict[str, Any]:
    """Return flat columns of one row as the nested record they came from."""
    found = objects_of({name: [value] for name, value in flat.items()}, flat)
    return found[0] if found else {}


def refuse_taken(names: Iterable[Any], known: Container[str], kind: str) -> None:
    """Refuse columns of one's own that reading the file would take for a known field."""
    for name in [name for name in map(str, names) if name.startswith("x_")]:
        if (place := name.removeprefix("x_").removesuffix(JSON_SUFFIX)) in known:
            found = f"{name} would be read as the field {place}"
            raise DataError(found, field=kind, allowed="another name")


def plain_values_of(column: pd.Series) -> list[Any]:
    """Return values as Python has them, None for missing ones."""
    return list(column.astype(object).where(column.notna(), None))


def row_dicts(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield each row as a dict of plain Python values, without the missing ones."""
    columns = {name: plain_values_of(frame[name]) for name in frame.columns}
    for values in zip(*columns.values(), strict=True):
        yield {
            name: value for name, value in zip(columns, values, strict=True) if value is not None
        }


def cells(frame: pd.DataFrame, names: Iterable[str] = CELL) -> Iterator[tuple[Any, ...]]:
    """Yield the values of these columns row by row."""
    return zip(*(frame[name] for name in names), strict=True)


def grouped(keys: Iterable[Any], rows: Iterable[T]) -> dict[Any, list[T]]:
    """Return the rows of each key."""
    found: dict[Any, list[T]] = {}
    for key, row in zip(keys, rows, strict=True):
        found.setdefault(key, []).append(row)
    return found


def nested_of(stored: str) -> Any:
    """Return an object or list as such, if reading it gives the same text again."""
    try:
        value = json.loads(stored)
    except (ValueError, RecursionError):
        return stored
    return value if isinstance(value, (dict, list)) and as_json(value) == stored else stored
