"""A row's fields changed in the text of a golden file.

The few characters that change are replaced, every other one stays.

In: a text, a row's span, and what shall change. Out: the new text. Nobody trusts it: `golden_text`
reads it again before it is written.

Where each row of a golden file, and each field of it, stands in the file's text.

What splicing replaces, and nothing beside it.

In: the text of a YAML list or of JSON lines. Out: `Span`s, as positions in that text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import yaml

from ragscore.io.golden_write import flow_text, yaml_text

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


Edit = tuple[int, int, str]
"""Where a part begins and ends, and what stands there instead."""
ORDER = (
    "id", "query", "question", "answerable", "expected_doc_ids", "expected_chunk_ids",
    "chunker_version", "expected_source_keys", "gold_supports",
    "required_support_groups",
)  # fmt: skip
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def spliced(text: str, edit: Edit) -> str:
    """The text with one part replaced, its new lines ending as the others do."""
    start, end, new = edit
    return text[:start] + (new.replace("\n", "\r\n") if "\r\n" in text else new) + text[end:]


def with_field(text: str, row: Span, name: str, old: Any, new: Any, *, whole: bool) -> str:
    """The text with one field of a row set to a value, or taken out (None).

    Parameters
    ----------
    old
        The value that the field has.
    whole
        Write a changed list anew; else only its items that changed, which keeps the comments
        between the others.
    """
    if row.is_flow:
        return spliced(text, _member_edit(text, row, name, new))
    if name not in row.fields:
        return text if new is None else spliced(text, _added(text, row, name, new))
    if new is None:
        return spliced(text, _removed(text, row, name))
    (start, _), value = row.fields[name]
    if not whole and value.kind == "list" and not value.is_flow and isinstance(new, list) and new:
        for edit in reversed(_item_edits(text, value, old, new)):
            text = spliced(text, edit)
        return text
    return spliced(
        text, (start, value.end, _indented(yaml_text([{name: new}]), _column(text, start)))
    )


def with_row(text: str, rows: Span | None, values: dict[str, Any], *, is_yaml: bool) -> str:
    """The text with one more row at its end."""
    if not is_yaml:
        return spliced(
            text, (len(text), len(text), _on_own_line(text, json.dumps(values, ensure_ascii=False)))
        )
    if rows is None or not rows.is_flow:
        column = _column(text, rows.start) if rows else 0
        lines = [
            " " * column + line if line else line
            for line in yaml_text([values]).rstrip("\n").split("\n")
        ]
        apart = (
            "\n"
            if rows
            and len(rows.items) > 1
            and text[rows.items[-2].end : rows.items[-1].start].count("\n") > 1
            else ""
        )
        return spliced(text, (len(text), len(text), _on_own_line(text, "\n".join(lines), apart)))
    write = _json_text if _is_json(text[rows.start : rows.end]) else flow_text
    place = rows.items[-1].end if rows.items else rows.start + 1
    apart = ",\n" if "\n" in text[rows.start : rows.end] else ", "
    return spliced(text, (place, place, (apart if rows.items else "") + write(values)))


def _on_own_line(text: str, lines: str, apart: str = "") -> str:
    return ("" if not text or text.endswith("\n") else "\n") + apart + lines + "\n"


def _added(text: str, row: Span, name: str, new: Any) -> Edit:
    """A new field behind the last one that comes before it, at the end of its line.

    A loose text is no good neighbour: the blank lines behind it may belong to it.
    """
    column = _column(text, row.start)
    lines = _indented(yaml_text([{name: new}]), column)
    before = [
        value.end
        for key, (_, value) in row.fields.items()
        if _rank(key) < _rank(name) and not value.last.is_loose
    ]
    if not before:
        return row.start, row.start, lines + "\n" + " " * column
    place = _line_end(text, max(before))
    return place, place, _as_lines(text, place, " " * column + lines)


def _as_lines(text: str, place: int, lines: str) -> str:
    """Lines that begin at a place: a line's start, or the end of a text without a last line end."""
    return lines + "\n" if text[place - 1 : place] == "\n" else "\n" + lines


def _removed(text: str, row: Span, name: str) -> Edit:
    """Take a field's lines out; the first field of a row leaves its dash behind."""
    (start, _), value = row.fields[name]
    later = [key[0] for key, _ in row.fields.values() if key[0] > start]
    if start == row.start and later:
        return start, min(later), ""
    return _line_start(text, start), _line_end(text, value.end), ""


def _item_edits(text: str, span: Span, old: list[Any], new: list[Any]) -> list[Edit]:
    """The items of a block list that changed, each with its lines, in the order of the text."""
    edits: list[Edit] = []
    dashes = [text.rindex("-", 0, item.start) for item in span.items]
    indent = " " * _column(text, dashes[0])
    before, after = (
        [json.dumps(item, sort_keys=True, default=str) for item in items] for items in (old, new)
    )
    for what, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        written = [_item_text(item, span).replace("\n", "\n" + indent) for item in new[k:m]]
        if what == "insert":
            place = (
                _line_start(text, dashes[i])
                if i < len(old)
                else _line_end(text, span.items[-1].end)
            )
            edits.append(
                (place, place, _as_lines(text, place, "\n".join(indent + item for item in written)))
            )
        elif what == "delete":
            edits += [
                (_line_start(text, dashes[n]), _line_end(text, span.items[n].end), "")
                for n in range(i, j)
            ]
        elif what == "replace":
            edits.append((dashes[i], span.items[j - 1].end, ("\n" + indent).join(written)))
    return edits


def _item_text(item: Any, span: Span) -> str:
    """`- item`, in braces or brackets unless it is a mapping in a list whose other mappings aren't."""
    maps = [one for one in span.items if one.kind == "map"]
    if not isinstance(item, dict) or (maps and all(one.is_flow for one in maps)):
        return f"- {flow_text(item)}"
    return (
        yaml_text([{"items": [item]}])
        .rstrip("\n")
        .removeprefix("- items:\n")
        .replace("\n  ", "\n")
        .removeprefix("  ")
    )


def _member_edit(text: str, row: Span, name: str, new: Any) -> Edit:
    """A member of a row in braces changed or taken out; a new one goes behind the last.

    JSON stays JSON.
    """
    write = _json_text if _is_json(text[row.start : row.end]) else flow_text
    values = [value for _, value in row.fields.values()]
    if name in row.fields:
        value = row.fields[name][1]
        return (
            (value.start, value.end, write(new)) if new is not None else _without_member(row, name)
        )
    place = values[-1].end if values else row.start + 1
    return (
        place,
        place,
        "" if new is None else f"{', ' if values else ''}{write(name)}: {write(new)}",
    )


def _without_member(row: Span, name: str) -> Edit:
    """A member with the comma that parts it from the next, or from the one before."""
    members = list(row.fields.items())
    place = [key for key, _ in members].index(name)
    (start, _), value = row.fields[name]
    if place + 1 < len(members):
        return start, members[place + 1][1][0][0], ""
    return (members[place - 1][1][1].end if place else start), value.end, ""


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json_text(value: Any) -> str:
    # JSON may stand in a YAML file, which has no place for some characters and takes others for
    # line ends.
    return _UNPRINTABLE.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False)
    )


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _indented(written: str, column: int) -> str:
    """The fields of a one-row YAML text, as lines that stand at a column (the first one without its indent)."""
    lines = written.rstrip("\n").split("\n")
    return "\n".join(
        [lines[0][2:], *(" " * column + line[2:] if line.strip() else line for line in lines[1:])]
    )


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    """Where the next line begins, behind a comment if there is one."""
    found = text.find("\n", place)
    return found + 1 if found >= 0 else len(text)


def _column(text: str, place: int) -> int:
    return place - _line_start(text, place)
