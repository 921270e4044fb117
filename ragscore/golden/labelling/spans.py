"""Where each row of a golden file, and each field of it, stands in the file's text.

What splicing replaces, and nothing beside it.

In: the text of a YAML list or of JSON lines. Out: `Span`s, as positions in that text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Span:
    """One value as written: `text[start:end]`, without the comments and blank lines behind it.

    Attributes
    ----------
    kind
        map, list, scalar or alias.
    is_flow
        A map or list in braces or brackets.
    is_loose
        A text of several lines (`|`, `>`) to which the blank lines behind it may belong.
    items
        Values of a list, in order.
    fields
        Key -> (start and end of the key, its value).
    """

    start: int
    end: int
    kind: str
    is_flow: bool = False
    is_loose: bool = False
    items: tuple["Span", ...] = ()
    fields: dict[str, tuple[tuple[int, int], "Span"]] = field(default_factory=dict)

    @property
    def last(self) -> "Span":
        """The innermost value with which a block ends."""
        inside = [value for _, value in self.fields.values()] or list(self.items)
        return self if self.is_flow or not inside else inside[-1].last


def yaml_list(text: str) -> Span | None:
    """The list that a YAML text holds; None where it holds nothing."""
    events = yaml.parse(text, Loader=_LOADER)
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            return _value(event, events, text)
    return None


def _value(event: Any, events: Iterator[Any], text: str) -> Span:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, yaml.AliasEvent):
        return Span(start, end, "alias")
    if isinstance(event, yaml.ScalarEvent):
        return Span(
            start,
            start + len(text[start:end].rstrip()),
            "scalar",
            is_loose=event.style in ("|", ">"),
        )
    is_flow = bool(event.flow_style)
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Span] = []
        for inner in events:
            if isinstance(inner, yaml.SequenceEndEvent):
                return Span(
                    start, _end(start, inner, items, is_flow), "list", is_flow, items=tuple(items)
                )
            items.append(_value(inner, events, text))
    fields: dict[str, tuple[tuple[int, int], Span]] = {}
    for inner in events:
        if isinstance(inner, yaml.MappingEndEvent):
            values = [value for _, value in fields.values()]
            return Span(start, _end(start, inner, values, is_flow), "map", is_flow, fields=fields)
        key = _value(inner, events, text)
        name = inner.value if isinstance(inner, yaml.ScalarEvent) else text[key.start : key.end]
        fields[name] = ((key.start, key.end), _value(next(events), events, text))
    raise AssertionError("a YAML parser closes what it opens")


def _end(start: int, closing: Any, inside: list[Span], is_flow: bool) -> int:
    """The end of a collection.

    Its bracket, or the end of its last value, for a parser ends a block at what comes next.
    """
    return int(closing.end_mark.index) if is_flow or not inside else max(start, inside[-1].end)


def json_lines(text: str) -> Span:
    """The objects of JSON lines, as the items of a list."""
    items, start = [], 0
    for line in text.split("\n"):
        if line.strip():
            items.append(_object(text, start + len(line) - len(line.lstrip())))
        start += len(line) + 1
    return Span(0, len(text), "list", items=tuple(items))


def _object(text: str, start: int) -> Span:
    """A JSON object and its members; what stands inside those is of no interest."""
    fields: dict[str, tuple[tuple[int, int], Span]] = {}
    place = _skip(text, start + 1)
    while text[place] != "}":
        name, key_end = _DECODER.raw_decode(text, place)
        value_start = _skip(text, _skip(text, key_end) + 1)
        _, value_end = _DECODER.raw_decode(text, value_start)
        kind = {"{": "map", "[": "list"}.get(text[value_start], "scalar")
        fields[name] = (
            (place, key_end),
            Span(value_start, value_end, kind, is_flow=kind != "scalar"),
        )
        place = _skip(text, value_end)
        place = _skip(text, place + 1) if text[place] == "," else place
    return Span(start, place + 1, "map", is_flow=True, fields=fields)


def _skip(text: str, place: int) -> int:
    found = _BLANK.match(text, place)
    return found.end() if found else place
