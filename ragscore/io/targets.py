"""Targets of a query in our golden file: expected ids, anchors, and groups of them.

In: a `Row` of the golden file. Out: rows of targets and support_groups. golden_write.py writes them
back by the same tables of fields.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ragscore.io.citations import HEADING_SEPARATOR
from ragscore.io.source import as_id
from ragscore.io.values import (
    ID_ALLOWED,
    SPAN_ALLOWED,
    FieldReader,
    as_time,
    is_int,
    is_span,
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


def targets_of(fields: FieldReader, query_id: str) -> list[dict[str, Any]]:
    """Take the fields that name targets; return one row per alternative of each."""
    predicates = [one for name, one in PREDICATE_FIELDS.items() if fields.values.get(name)]
    version = fields.text("chunker_version")
    found = []
    for level, (name, column) in ID_FIELDS.items():
        about = {"level": level} | ({"chunker_version": version} if level == "chunk" else {})
        found += [about | target for target in _expected(fields, name, column)]
    found += _anchors(fields)
    if predicates:  # one target: where both are expected, one hit must have both
        target = {"level": "predicate", "target_id": predicates[0]}
        found.append(target | {"alternative": 0, "grade": 1})
    return [
        {"query_id": query_id} | {name: value for name, value in one.items() if value is not None}
        for one in found
    ]


def _expected(fields: FieldReader, name: str, column: str) -> Iterator[dict[str, Any]]:
    """Yield one row per alternative of each expected thing; a float as grade is a gain."""
    value = fields.shaped(IDS_ALLOWED, (name,), list, dict)
    if isinstance(value, dict):
        value = [{"any": [key], "grade": grade} for key, grade in value.items()]
    names = Counter[str]()
    grades: dict[tuple[str, ...], float] = {}
    for item in value:
        given = item if isinstance(item, dict) else {"any": item}
        listed, grade = given.get("any"), given.get("grade", 1)
        every = [*map(as_id, listed if isinstance(listed, list) else [listed])]
        ids = tuple(dict.fromkeys(one for one in every if one is not None))
        if {*given} - {"any", "grade", "judged_by"} or not ids or None in every:
            fields.reject(item, name, IDS_ALLOWED)
        elif not _is_grade(grade):
            fields.reject({"grade": grade}, name, GRADE_ALLOWED)
        elif ids in grades:  # the same target again
            if grades[ids] != grade:
                found = f"{', '.join(ids)} has the grades {grades[ids]} and {grade}"
                line = fields.lines.get(name, fields.line)
                fields.problems.add(found, line=line, field=name, allowed="one grade per target")
        else:
            grades[ids] = grade
            target = {"target_id": _numbered(ids[0], names), "grade": grade}
            target["judged_by"] = fields.inner(given, name).text("judged_by")
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


def _anchors(fields: FieldReader) -> Iterator[dict[str, Any]]:
    """Yield one row per snippet of each support; any one snippet is enough."""
    names, name = Counter[str](), "gold_supports"
    for support in fields.shaped("a list of mappings with path", (name,), list):
        reader = fields.inner(support, name)
        reader.problems.typos.check(reader.values, SUPPORT_FIELDS, reader.line or 1)
        path, grade = as_id(reader.pop("path", "rel_path")), reader.pop("grade")
        start, end, unit = reader.pop("start"), reader.pop("end"), reader.text("span_unit")
        has_span = start is not None or end is not None
        faults = [
            (found, allowed)
            for is_right, found, allowed in (
                (path is not None, support, "a mapping with path"),
                (grade is None or _is_grade(grade), {"grade": grade}, GRADE_ALLOWED),
                (not has_span or is_span(start, end), {"start": start, "end": end}, SPAN_ALLOWED),
            )
            if not is_right
        ]
        if faults:
            fields.reject(faults[0][0], name, faults[0][1])
            continue
        anchor = {"level": "anchor", "path": path, "grade": 1 if grade is None else grade}
        anchor |= {"doc_id": reader.identifier("doc_id"), "date": reader.text("date")}
        if anchor["date"] is not None and as_time(anchor["date"]) is None:
            reader.reject(anchor["date"], "date", "an ISO 8601 date or time, such as 2026-01-31")
            anchor["date"] = None
        written = [one for one in ("heading", "heading_path") if reader.values.get(one) is not None]
        if written and not isinstance(reader.values[written[0]], list):
            anchor["heading"] = reader.text("heading", "heading_path")
        elif written:
            anchor["heading"] = HEADING_SEPARATOR.join(reader.text_list("heading", "heading_path"))
        called = f"{path}#{anchor.get('heading') or ''}"
        if has_span:
            called += f":{start}-{end}"
            anchor |= {"start": start, "end": end, "span_unit": unit or "line"}
        anchor["target_id"] = _numbered(called, names)
        snippets: list[str | None] = [*reader.text_list("snippets")]
        for alternative, snippet in enumerate(snippets or [None]):
            extra = None if alternative else reader.values
            own = {"alternative": alternative, "snippet": snippet, SUPPORT_EXTRAS: extra}
            yield anchor | own


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


def support_groups(fields: FieldReader, targets: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one row per member of each group of targets.

    A member is a target's name, or the position of an anchor. An unknown one stays, under a name
    that no hit can meet, so that its group fails.
    """
    name = "required_support_groups"
    anchors, by_name = anchor_ids(targets), target_names(targets)
    for number, group in enumerate(fields.shaped(GROUPS_ALLOWED, (name,), list)):
        for member in group if isinstance(group, list) else [{}]:
            if (called := as_id(member)) is None:
                fields.reject(group, name, GROUPS_ALLOWED)
                continue
            target_id = by_name.get(called, f"unknown:{called}")
            if is_int(member) and anchors:
                is_position = 0 <= member < len(anchors)
                target_id = anchors[member] if is_position else f"unknown:{member}"
            yield {"group": number, "target_id": target_id}


def anchor_ids(targets: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the anchors among targets, in order."""
    return list(
        dict.fromkeys(target["target_id"] for target in targets if target["level"] == "anchor")
    )
