"""The objects of our run file, as the schema says: which field is which column, both ways.

A `Part` is one object (a record, its answer, a hit, ...): `run_records` reads its fields by
`Part.columns`, and the writer writes them in the order of the file. What needs several fields at
once (spans, ranks, refusals) stays with `record` and `citations`.
"""

import json
from collections.abc import Callable
from typing import Any

from ragscore.frames.schema import BESIDE, FIELDS, LAYOUT, Field
from ragscore.io.values import as_json

UNKNOWN = "unknown"
"""`refused` of an answer that tells neither that it is a refusal nor that it is none."""


def nested_of(stored: str) -> Any:
    """Return an object or list as such, if reading it gives the same text again."""
    try:
        value = json.loads(stored)
    except (ValueError, RecursionError):
        return stored
    return value if isinstance(value, (dict, list)) and as_json(value) == stored else stored


WRITE: dict[str, Callable[[Any], Any]] = {"json": nested_of, "texts": json.loads}


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
        self.columns = {
            name: (field.column, "number" if field.type == "score" else field.type)
            for name, field in self.fields.items()
            if field.type not in ("rank", "place") and name != "query_id"
        }

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


RECORD = Part("responses")
ANSWER = Part("responses", "answer", "answer.")
USAGE = Part("responses", "answer.usage", "answer.usage.")
HIT = Part("hits", "", "hits_top_k.")
RETRIEVAL = Part("hits", "retrieval", "hits_top_k.retrieval.")
CITATION = Part("citations", "", "answer.citations.")
CALL = Part("calls", "", "answer.hops.")
