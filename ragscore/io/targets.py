"""Targets of a query in our golden file: expected ids, anchors, and groups of them.

In: a `Row` of the golden file. Out: rows of targets and support_groups. golden_write.py writes them
back by the same tables of fields.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ragscore.io.citations import HEADING_SEPARATOR
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.values import (
    ID_ALLOWED,
    SPAN_ALLOWED,
    FieldReader,
    as_time,
    is_int,
    is_span,
    text,
)

ID_FIELDS = {
    "doc": ("expected_doc_ids", "doc_id"),
    "chunk": ("expected_chunk_ids", "chunk_id"),
    "source_key": ("expected_source_keys", "source_key"),
    "text": ("expected_texts", "snippet"),
}
"""Match level -> the field with its ids or texts, and their column."""
PREDICATE_FIELDS = {"expected_metadata": "metadata", "expected_substrings": "substrings"}
SUPPORT_COLUMNS = ("path", "heading", "start", "end", "span_unit", "doc_id", "date")
SUPPORT_FIELDS = frozenset(
    (*SUPPORT_COLUMNS, "rel_path", "heading_path", "grade", "snippets")  # two of them are synonyms
)
SUPPORT_EXTRAS = "x_gold_supports"
"""Column of `queries` with the unknown fields of supports: a JSON list, one object per support.

No field of a user can get this name, since `gold_supports` is a known field.
"""
IDS_ALLOWED = (
    "ids, lists of alternative ids, mappings {any: [ids], grade: n, judged_by: model}, or one"
    " mapping id: grade"
)
GRADE_ALLOWED = f"a whole number from 0 to {2**31 - 1}, or fractions as gains"
GROUPS_ALLOWED = f"a list of lists of ids ({ID_ALLOWED}) or indices"


class Fields:
    """The fields of one query's row; a value that a field can't hold is a problem on its line."""

    def __init__(self, row: Row, query_id: str, problems: Problems) -> None:
        self.row, self.query_id, self.problems = row, query_id, problems

    def get(self, name: str, allowed: str, kind: type, *kinds: type) -> Any:
        """Return a value of one of the kinds; an empty one of the first if there is none."""
        value = self.row.values.get(name)
        if value is not None and not isinstance(value, (kind, *kinds)):
            self.reject(value, name, allowed)
            return kind()
        return kind() if value is None else value

    def reject(self, value: Any, name: str, allowed: str) -> None:
        """Record that a field holds a value that it can't have."""
        self.problems.reject(value, self.row.line_of(name.partition(".")[0]), name, allowed)

    def read(self, read: Any, name: str, allowed: str) -> Any:
        """Return the value of a field, as one of the readers of values.py returns it."""
        line = self.row.line_of(name)
        return read(self.row.values.get(name), name, line, self.problems, allowed)

    def text(self, name: str) -> str | None:
        """Return text as written."""
        found: str | None = self.read(text, name, "text (quote a yes/no)")
        return found

    def texts(self, name: str, value: Any) -> list[str]:
        """Return the texts of a list that is, or is within, a field."""
        listed = value if isinstance(value, list) else []
        found = [one for item in listed if (one := as_text(item)) is not None]
        if value is not None and (value is not listed or len(found) < len(listed)):
            self.reject(value, name, "a list of texts (quote a yes/no)")
        return found

    def reader(self, values: Any, name: str) -> FieldReader:
        """Return a reader of the fields of one object within a field; what isn't one has none."""
        own = values if isinstance(values, dict) else {}
        return FieldReader(own, f"{name}.", self.row.line_of(name), self.problems)


def targets_of(row: Row, query_id: str, problems: Problems) -> Iterator[dict[str, Any]]:
    """Yield one row per alternative of each target of a query."""
    fields = Fields(row, query_id, problems)
    chunker = fields.text("chunker_version")
    for level, (name, column) in ID_FIELDS.items():
        about = {"query_id": query_id, "level": level}
        about |= {"chunker_version": chunker} if level == "chunk" and chunker is not None else {}
        yield from _expected(fields, name, column, about)
    yield from _anchors(fields)
    predicates = [target_id for name, target_id in PREDICATE_FIELDS.items() if row.values.get(name)]
    if predicates:  # one target: where both are expected, one hit must have both
        about = {"query_id": query_id, "level": "predicate", "target_id": predicates[0]}
        yield about | {"alternative": 0, "grade": 1}


def _expected(
    fields: Fields, name: str, column: str, about: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield one row per alternative of each expected thing; a float as grade is a gain."""
    value = fields.get(name, IDS_ALLOWED, list, dict)
    if isinstance(value, dict):
        value = [{"any": [key], "grade": grade} for key, grade in value.items()]
    names = Counter[str]()
    grades: dict[tuple[str, ...], float] = {}
    for item in value:
        given = item if isinstance(item, dict) else {"any": item}
        listed, grade = given.get("any"), given.get("grade", 1)
        listed = listed if isinstance(listed, list) else [listed]
        ids = tuple(dict.fromkeys(one for one in map(as_id, listed) if one is not None))
        if {*given} - {"any", "grade", "judged_by"} or not ids or None in map(as_id, listed):
            fields.reject(item, name, IDS_ALLOWED)
        elif not _is_grade(grade):
            fields.reject({"grade": grade}, name, GRADE_ALLOWED)
        elif ids in grades:  # the same target again
            if grades[ids] != grade:
                found = f"{', '.join(ids)} has the grades {grades[ids]} and {grade}"
                line = fields.row.line_of(name)
                fields.problems.add(found, line=line, field=name, allowed="one grade per target")
        else:
            grades[ids] = grade
            judge = fields.reader(given, name).text("judged_by")
            target = about | {"target_id": _numbered(ids[0], names), "grade": grade}
            target |= {} if judge is None else {"judged_by": judge}
            for alternative, one in enumerate(ids):
                yield target | {"alternative": alternative, column: one}


def _numbered(name: str, counts: Counter[str]) -> str:
    """Return a target's name, numbered from its second use: `a`, `a(2)`, ..."""
    counts[name] += 1
    return name if counts[name] == 1 else f"{name}({counts[name]})"


def _is_grade(value: Any) -> bool:
    return (is_int(value) or isinstance(value, float)) and 0 <= value < 2**31


def with_levels(targets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return targets whose grades are whole numbers: levels from 0, where some grade is a float.

    Then all grades are gains, and levels count the different ones. Each target keeps its `gain`.
    """
    if not any(isinstance(one["grade"], float) for one in targets):
        return targets
    gains = sorted({0.0, *(float(one["grade"]) for one in targets)})
    level = {gain: number for number, gain in enumerate(gains)}
    return [
        one | {"grade": level[float(one["grade"])], "gain": float(one["grade"])} for one in targets
    ]


def _anchors(fields: Fields) -> Iterator[dict[str, Any]]:
    """Yield one row per snippet of each support; any one snippet is enough."""
    names = Counter[str]()
    for support in fields.get("gold_supports", "a list of mappings with path", list):
        reader = fields.reader(support, "gold_supports")
        if (anchor := _anchor(fields, support, reader)) is None:
            continue
        name = f"{anchor['path']}#{anchor.get('heading', '')}"
        name += f":{anchor['start']}-{anchor['end']}" if "start" in anchor else ""
        about = {"query_id": fields.query_id, "level": "anchor"}
        about |= {"target_id": _numbered(name, names)} | anchor
        snippets = fields.texts("gold_supports.snippets", reader.pop("snippets"))
        about[SUPPORT_EXTRAS] = reader.values
        for alternative, snippet in enumerate(snippets or [None]):
            own = {} if snippet is None else {"snippet": snippet}
            yield about | {"alternative": alternative} | own
            about.pop(SUPPORT_EXTRAS, None)


def _anchor(fields: Fields, support: Any, reader: FieldReader) -> dict[str, Any] | None:
    """Return what a support says, or None and a problem if it is none."""
    fields.problems.typos.check(reader.values, SUPPORT_FIELDS, reader.line)
    path, grade = as_id(reader.pop("path", "rel_path")), reader.pop("grade")
    start, end, unit = reader.pop("start"), reader.pop("end"), reader.text("span_unit")
    has_span = start is not None or end is not None
    for is_right, found, allowed in (
        (path is not None, support, "a mapping with path"),
        (grade is None or _is_grade(grade), {"grade": grade}, GRADE_ALLOWED),
        (not has_span or is_span(start, end), {"start": start, "end": end}, SPAN_ALLOWED),
    ):
        if not is_right:
            fields.reject(found, "gold_supports", allowed)
            return None
    heading, date = reader.pop("heading", "heading_path"), reader.text("date")
    if date is not None and as_time(date) is None:
        reader.reject(date, "date", "an ISO 8601 date or time, such as 2026-01-31")
        date = None
    parts = heading if isinstance(heading, list) else [heading] if heading is not None else None
    anchor = {"path": path, "grade": 1 if grade is None else grade, "date": date}
    anchor["doc_id"] = reader.identifier("doc_id")
    if parts is not None:
        anchor["heading"] = HEADING_SEPARATOR.join(fields.texts("gold_supports.heading", parts))
    if has_span:
        anchor |= {"start": start, "end": end, "span_unit": unit or "line"}
    return {name: value for name, value in anchor.items() if value is not None}


def target_names(targets: list[dict[str, Any]]) -> dict[str, str]:
    """Map each name by which a group may call a target to the target's id.

    A target is called by the id of one of its alternatives, or by its own.
    """
    return {
        target[column]: target["target_id"]
        for target in targets
        for column in ("doc_id", "chunk_id", "target_id")
        if target.get(column)
    }


def pop_support_extras(targets: list[dict[str, Any]]) -> dict[str, str]:
    """Take the unknown fields of supports out of targets, as one column of `queries` if any."""
    extras = [target.pop(SUPPORT_EXTRAS) for target in targets if SUPPORT_EXTRAS in target]
    return {SUPPORT_EXTRAS: json.dumps(extras, ensure_ascii=False)} if any(extras) else {}


def support_groups(fields: Fields, targets: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one row per member of each group of targets.

    A member is a target's name, or the position of an anchor. An unknown one stays, under a name
    that no hit can meet, so that its group fails.
    """
    name = "required_support_groups"
    anchors, by_name = anchor_ids(targets), target_names(targets)
    for number, group in enumerate(fields.get(name, GROUPS_ALLOWED, list)):
        for member in group if isinstance(group, list) else [{}]:
            if (called := as_id(member)) is None:
                fields.reject(group, name, GROUPS_ALLOWED)
                continue
            target_id = by_name.get(called, f"unknown:{called}")
            if is_int(member) and anchors:
                is_position = 0 <= member < len(anchors)
                target_id = anchors[member] if is_position else f"unknown:{member}"
            yield {"query_id": fields.query_id, "group": number, "target_id": target_id}


def anchor_ids(targets: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the anchors among targets, in order."""
    return list(
        dict.fromkeys(target["target_id"] for target in targets if target["level"] == "anchor")
    )
