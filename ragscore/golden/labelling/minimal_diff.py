"""Minimal-diff editing of YAML and JSON Lines text.

Changing a field replaces only the characters of that field, so comments, order and spelling of
everything else survive. `yaml_list` and `json_lines` find the positions of rows and fields;
`with_field` and `with_row` return the new text. `golden_text` parses the result again before it is
written.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import yaml

from ragscore.io.golden_write import flow_text, yaml_text
from ragscore.io.yaml_text import yaml_events

_WHITE = " \t\r\n\x85\u2028\u2029"  # what YAML takes for white; a no-break space is text
_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class Span:
    """One value as written, `text[start:end]`, without comments and blank lines after it.

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
        """Innermost value at the end of a block."""
        inside = [value for _, value in self.fields.values()] or list(self.items)
        return self if self.is_flow or not inside else inside[-1].last


def yaml_list(text: str, path: Path) -> Span | None:
    """Return the span of the list in a YAML text; None if the text is empty."""
    events, found = yaml_events(text, path), None
    for event in events:
        if isinstance(event, yaml.NodeEvent):
            found = _value(event, events, text)
    return found


def _value(event: Any, events: Iterator[Any], text: str) -> Span:
    start, end = event.start_mark.index, event.end_mark.index
    if isinstance(event, yaml.AliasEvent):
        return Span(start, end, "alias")
    if isinstance(event, yaml.ScalarEvent):
        return Span(
            start,
            start + len(text[start:end].rstrip(_WHITE)),
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
    """Return the end of a collection: its bracket, or the end of its last value.

    The parser would put a block's end at the start of whatever follows.
    """
    return int(closing.end_mark.index) if is_flow or not inside else max(start, inside[-1].end)


def json_lines(text: str) -> Span:
    """Return the objects of JSON Lines as the items of a list."""
    items, start = [], 0
    for line in text.split("\n"):
        if line.strip():
            items.append(_object(text, start + len(line) - len(line.lstrip())))
        start += len(line) + 1
    return Span(0, len(text), "list", items=tuple(items))


def _object(text: str, start: int) -> Span:
    """Return a JSON object with its members, whose own content isn't parsed further."""
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
"""Start and end of a part, and the text that replaces it."""
ORDER = (
    "id", "query", "question", "answerable", "expected_doc_ids", "expected_chunk_ids",
    "chunker_version", "expected_source_keys", "gold_supports",
    "required_support_groups",
)  # fmt: skip
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def spliced(text: str, edit: Edit) -> str:
    """Return the text with one part replaced; new lines end as the others do."""
    start, end, new = edit
    return text[:start] + (new.replace("\n", "\r\n") if "\r\n" in text else new) + text[end:]


def with_field(text: str, row: Span, name: str, old: Any, new: Any, *, whole: bool) -> str:
    """Return the text with one field of a row set to a value, or removed (None).

    Parameters
    ----------
    old
        Current value of the field.
    whole
        Rewrite a changed list as a whole; else only its changed items, which keeps comments
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
    """Return the text with one more row at its end."""
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
    """Return the edit that adds a field after the last one that precedes it in ORDER.

    It never goes after a loose text, to which blank lines behind it may belong.
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
    """Return lines for a position: a line's start, or the end of an unterminated text."""
    return lines + "\n" if text[place - 1 : place] == "\n" else "\n" + lines


def _removed(text: str, row: Span, name: str) -> Edit:
    """Return the edit that removes a field's lines; a row's first field leaves its dash."""
    (start, _), value = row.fields[name]
    later = [key[0] for key, _ in row.fields.values() if key[0] > start]
    if start == row.start and later:
        return start, min(later), ""
    return _line_start(text, start), _line_end(text, value.end), ""


def _item_edits(text: str, span: Span, old: list[Any], new: list[Any]) -> list[Edit]:
    """Return the edits of a block list's changed items, in the order of the text."""
    edits: list[Edit] = []
    dashes = [text.rindex("-", 0, item.start) for item in span.items]
    indent = " " * _column(text, dashes[0])
    before, after = (
        [json.dumps(item, sort_keys=True, default=str) for item in items] for items in (old, new)
    )
    for tag, i, j, k, m in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        written = [_item_text(item, span).replace("\n", "\n" + indent) for item in new[k:m]]
        if tag == "insert":
            place = (
                _line_start(text, dashes[i])
                if i < len(old)
                else _line_end(text, span.items[-1].end)
            )
            edits.append(
                (place, place, _as_lines(text, place, "\n".join(indent + item for item in written)))
            )
        elif tag == "delete":
            edits += [
                (_line_start(text, dashes[n]), _line_end(text, span.items[n].end), "")
                for n in range(i, j)
            ]
        elif tag == "replace":
            edits.append((dashes[i], span.items[j - 1].end, ("\n" + indent).join(written)))
    return edits


def _item_text(item: Any, span: Span) -> str:
    """Return `- item` in the style of the list: flow, or block like its other mappings."""
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
    """Return the edit that changes, removes or appends a member of a row in braces.

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
    """Return the edit that removes a member with the comma that separates it."""
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
    # JSON may be part of a YAML file, where some characters are forbidden and others end lines.
    return _UNPRINTABLE.sub(
        lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False)
    )


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _indented(written: str, column: int) -> str:
    """Return the fields of a one-row YAML text, indented to a column.

    The first line has no indent.
    """
    lines = written.rstrip("\n").split("\n")
    return "\n".join(
        [lines[0][2:], *(" " * column + line[2:] if line.strip() else line for line in lines[1:])]
    )


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    """Return the start of the next line, which is after a comment."""
    found = text.find("\n", place)
    return found + 1 if found >= 0 else len(text)


def _column(text: str, place: int) -> int:
    return place - _line_start(text, place)
