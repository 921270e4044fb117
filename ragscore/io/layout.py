"""The objects of our run file, as the schema says: which field is which column, both ways.

A `Part` is one object (a record, its answer, a hit, ...). It reads fields into columns, writes
columns as fields, and takes columns of a whole block (arrow_block.py). What needs several fields at
once (spans, ranks, refusals) stays with its callers.
"""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.schema import BESIDE, FIELDS, LAYOUT, Field
from ragscore.io.object_columns import Columns, NotPlain, Values, numbers, taken
from ragscore.io.source import Problems, as_text
from ragscore.io.values import FieldReader, as_json, flag, identifier, number, text, whole

UNKNOWN = "unknown"
"""`refused` of an answer that tells neither that it is a refusal nor that it is none."""


def _failure(value: Any, name: str, line: int | None, problems: Problems) -> str | None:
    """Return why a query failed; a value that isn't text counts as a failure, too."""
    if value is None or isinstance(value, str):
        return value
    problems.reject(value, line, name, "text or null")
    return None if value is False else as_json(value)


def _refusal(value: Any, name: str, line: int | None, problems: Problems) -> Any:
    allowed = f'true, false, "{UNKNOWN}", or null for what answer and grounded imply'
    return value if value == UNKNOWN else flag(value, name, line, problems, allowed)


def _json(value: Any, name: str, line: int | None, problems: Problems) -> str:
    return value if isinstance(value, str) else as_json(value)


def _texts(value: Any, name: str, line: int | None, problems: Problems) -> str | None:
    if isinstance(value, list) and all(as_text(one) is not None for one in value):
        return as_json(value)
    problems.reject(value, line, name, "a list of texts, or null")
    return None


def _nested(stored: str) -> Any:
    """Return an object or list as such, if reading it gives the same text again."""
    try:
        value = json.loads(stored)
    except ValueError:
        return stored
    return value if isinstance(value, (dict, list)) and as_json(value) == stored else stored


READ: dict[str, Callable[..., Any]] = {
    "text": text, "id": identifier, "flag": flag, "number": number, "score": number,
    "whole": whole, "failure": _failure, "refusal": _refusal, "json": _json, "texts": _texts,
}  # fmt: skip
WRITE: dict[str, Callable[[Any], Any]] = {"json": _nested, "texts": json.loads}
ARROW = {
    "text": pa.string(), "id": pa.string(), "failure": pa.string(), "json": pa.string(),
    "flag": pa.bool_(), "refusal": pa.bool_(), "number": pa.float64(), "score": pa.float64(),
    "whole": pa.int64(), "rank": pa.int64(),
}  # fmt: skip
_AS_IS = {"text": str, "failure": str, "flag": bool}  # values of these Python types need no look


class Part:
    """One object of our file."""

    def __init__(self, kind: str, inner: str = "", place: str = "") -> None:
        self.kind, self.place = kind, place
        prefix = f"{inner}." if inner else ""
        at = {field.at.removeprefix(prefix): field for field in FIELDS[kind]
              if field.at and field.at.startswith(prefix)}  # fmt: skip
        order = LAYOUT.get(f"{kind}.{inner}" if inner else kind, ())
        here = [name for name in at if "." not in name]
        names = [*(name for name in order if name in here), *(n for n in here if n not in order)]
        self.fields: dict[str, Field] = {name: at[name] for name in names}
        self.order = order
        self.also = {} if inner else {n: field for field in FIELDS[kind] for n in field.also}
        self.own = frozenset(self.fields)
        beside = BESIDE.get(f"{kind}.{inner}" if inner else kind, "").split()
        self.known = frozenset((*self.own, *self.also, *beside))
        self._plan = [
            (name, field.column, _AS_IS.get(field.type), READ[field.type], place + name)
            for name, field in self.fields.items()
            if field.type in READ and name != "query_id"
        ]

    def read(self, fields: FieldReader, found: dict[str, Any]) -> dict[str, Any]:
        """Take the columns out of an object's fields into `found`, without null and absent ones."""
        values = fields.values
        for name, column, as_is, read, place in self._plan:
            if name in values and (value := values.pop(name)) is not None:
                if type(value) is not as_is:
                    value = read(value, place, fields.line, fields.problems)
                    if value is None:
                        continue
                found[column] = value
        return found

    def read_also(self, fields: FieldReader, found: dict[str, Any]) -> None:
        """Take the columns that weren't in their first place from their second one."""
        for name, field in self.also.items():
            is_open = name in fields.values and field.column not in found
            if is_open and (value := fields.number(name)) is not None:
                found[field.column] = value

    def take(self, values: dict[str, Values]) -> Columns:
        """Take the columns out of the fields of many objects, as `read` does of one."""
        plan = {name: (column, read) for name, column, _, read, _ in self._plan}
        return taken(values, plan)

    def take_also(self, values: dict[str, Values], found: Columns) -> None:
        """Take the columns that weren't in their first place from their second one."""
        for name in [name for name in self.also if name in values]:
            column, on_hit = self.also[name].column, numbers(values.pop(name))
            inside = found.get(column, pa.nulls(len(on_hit), on_hit.type))
            if pc.any(pc.and_(inside.is_valid(), on_hit.is_valid())).as_py():
                raise NotPlain
            found[column] = pc.coalesce(inside, on_hit)

    def write(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a row as fields, in the order of the file."""
        return {
            name: WRITE[field.type](row[field.column])
            if field.type in WRITE and field.column in row
            else row.get(field.column)
            for name, field in self.fields.items()
            if field.null or field.column in row
        }

    def write_in_order(self, row: dict[str, Any], inside: dict[str, Any]) -> dict[str, Any]:
        """Return the columns of a row with the objects inside, in the order of the file."""
        found, written = self.write(row) | inside, dict[str, Any]()
        for name in self.order:
            if name.endswith("*"):
                begin = name[:-1]
                written |= {one: value for one, value in row.items() if one.startswith(begin)}
            elif name in found:
                written[name] = found.pop(name)
        return written | found

    def arrow(self, **others: pa.DataType) -> pa.DataType:
        """Return the type of the object, with fields of other rules."""
        types = {name: ARROW[field.type] for name, field in (self.fields | self.also).items()}
        return pa.struct(list({**types, **others}.items()))

    def columns(self, values: dict[str, Any], take: dict[str, Callable[..., Any]]) -> Any:
        """Take the columns out of those of a block; `take` checks what a type needs checked."""
        found = {}
        for name, field in self.fields.items():
            if field.type != "rank" and name != "query_id":
                column = values.pop(name)
                check = take.get(field.type)
                found[field.column] = column if check is None else check(column)
        return found


RECORD = Part("responses")
ANSWER = Part("responses", "answer", "answer.")
USAGE = Part("responses", "answer.usage", "answer.usage.")
HIT = Part("hits", "", "hits_top_k.")
RETRIEVAL = Part("hits", "retrieval", "hits_top_k.retrieval.")
CITATION = Part("citations", "", "answer.citations.")
CALL = Part("calls", "", "answer.hops.")
