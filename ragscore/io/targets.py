"""Targets of a query in our golden file: expected ids, anchors, and groups of them.

In: a `Row` of the golden file. Out: rows of targets and support_groups. golden_write.py writes them
back by the same tables of fields.
"""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from ragscore.io.citations import HEADING_SEPARATOR
from ragscore.io.source import Problems, Row, as_id, as_text, describe
from ragscore.io.values import ID_ALLOWED, FieldReader, is_int, is_span, text

ID_FIELDS = {
    "doc": ("expected_doc_ids", "doc_id"),
    "chunk": ("expected_chunk_ids", "chunk_id"),
    "source_key": ("expected_source_keys", "source_key"),
}
"""Match level -> the field with its ids, and their column."""
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
HEADING_ALLOWED = "text or a list of texts"


def targets_of(row: Row, query_id: str, problems: Problems) -> Iterator[dict[str, Any]]:
    """Yield one row per alternative of each target of a query."""
    line = row.line_of("chunker_version")
    chunker = text(row.values.get("chunker_version"), "chunker_version", line, problems)
    for level, (name, column) in ID_FIELDS.items():
        own = {} if level != "chunk" or chunker is None else {"chunker_version": chunker}
        n_named: dict[str, int] = {}
        grades: dict[tuple[str, ...], float] = {}
        for ids, grade, judged_by in _graded_ids(row, name, problems):
            if tuple(ids) in grades:  # the same target again
                if grades[tuple(ids)] != grade:
                    problems.add(
                        f"{', '.join(ids)} has the grades {grades[tuple(ids)]} and {grade}",
                        line=row.line_of(name),
                        field=name,
                        allowed="one grade per target",
                    )
                continue
            grades[tuple(ids)] = grade
            name_of = _numbered(ids[0], n_named)
            for alternative, target_id in enumerate(ids):
                yield {
                    "query_id": query_id,
                    "level": level,
                    "target_id": name_of,
                    "alternative": alternative,
                    "grade": grade,
                    column: target_id,
                    **own,
                    **({} if judged_by is None else {"judged_by": judged_by}),
                }
    yield from _anchors(row, query_id, problems)
    predicates = [target_id for name, target_id in PREDICATE_FIELDS.items() if row.values.get(name)]
    if predicates:  # one target: where both are expected, one hit must have both
        yield {
            "query_id": query_id,
            "level": "predicate",
            "target_id": predicates[0],
            "alternative": 0,
            "grade": 1,
        }


def _numbered(name: str, counts: dict[str, int]) -> str:
    """Return a target's name, numbered from its second use: `a`, `a(2)`, ..."""
    counts[name] = counts.get(name, 0) + 1
    return name if counts[name] == 1 else f"{name}({counts[name]})"


def _graded_ids(
    row: Row, name: str, problems: Problems
) -> Iterator[tuple[list[str], float, str | None]]:
    """Yield each expected thing: alternative ids, grade (a float if it is a gain), and judge."""
    value = row.values.get(name)
    if value is None:
        return
    line = row.line_of(name)
    if isinstance(value, dict):
        items: list[Any] = [{"any": [key], "grade": grade} for key, grade in value.items()]
    elif isinstance(value, list):
        items = value
    else:
        problems.reject(value, line, name, IDS_ALLOWED)
        return
    for item in items:
        grade: Any = 1
        alternatives, judged_by = item, None
        if isinstance(item, dict):
            if set(item) - {"any", "grade", "judged_by"} or "any" not in item:
                problems.reject(item, line, name, IDS_ALLOWED)
                continue
            alternatives, grade = item["any"], item.get("grade", 1)
            judged_by = text(item.get("judged_by"), f"{name}.judged_by", line, problems)
        if not _is_grade(grade):
            problems.add(
                f"grade is {describe(grade)}", line=line, field=name, allowed=GRADE_ALLOWED
            )
            continue
        listed = alternatives if isinstance(alternatives, list) else [alternatives]
        ids = [as_id(alternative) for alternative in listed]
        if not ids or None in ids:
            problems.reject(alternatives, line, name, IDS_ALLOWED)
            continue
        yield (
            list(dict.fromkeys(target_id for target_id in ids if target_id is not None)),
            grade,
            judged_by,
        )


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


def _anchors(row: Row, query_id: str, problems: Problems) -> Iterator[dict[str, Any]]:
    """Yield one row per snippet of each support; any one snippet is enough."""
    supports = row.values.get("gold_supports")
    if supports is None:
        return
    line = row.line_of("gold_supports")
    if not isinstance(supports, list):
        problems.reject(supports, line, "gold_supports", "a list of mappings with path")
        return
    n_named: dict[str, int] = {}
    for support in supports:
        anchor = _anchor(support, line, problems)
        if anchor is None:
            continue
        name = f"{anchor['path']}#{anchor['heading'] or ''}"
        if "start" in anchor:
            name += f":{anchor['start']}-{anchor['end']}"
        target = {
            "query_id": query_id,
            "level": "anchor",
            "target_id": _numbered(name, n_named),
            **anchor,
        }
        extra = {name: value for name, value in support.items() if name not in SUPPORT_FIELDS}
        for alternative, snippet in enumerate(_snippets(support, line, problems) or [None]):
            alternative_row = target | {"alternative": alternative}
            if snippet is not None:
                alternative_row["snippet"] = snippet
            if alternative == 0:
                alternative_row[SUPPORT_EXTRAS] = extra
            yield alternative_row


def _anchor(support: Any, line: int, problems: Problems) -> dict[str, Any] | None:
    """Return path, heading, span and grade of a support; None, and a problem, if it is none."""
    is_mapping = isinstance(support, dict)
    path = as_id(support.get("path", support.get("rel_path"))) if is_mapping else None
    if path is None:
        problems.reject(support, line, "gold_supports", "a mapping with path")
        return None
    problems.typos.check(support, SUPPORT_FIELDS, line)
    heading = support.get("heading", support.get("heading_path"))
    anchor: dict[str, Any] = {"path": path, "heading": _heading(heading, line, problems)}
    anchor["grade"] = grade = 1 if support.get("grade") is None else support["grade"]
    if not _is_grade(grade):
        problems.add(
            f"grade is {describe(grade)}", line=line, field="gold_supports", allowed=GRADE_ALLOWED
        )
        return None
    fields = FieldReader(support, "gold_supports.", line, problems)
    if (date := _date(fields)) is not None:
        anchor["date"] = date
    start, end = fields.pop("start"), fields.pop("end")
    if start is not None or end is not None:
        if not is_span(start, end):
            problems.add(
                f"start {describe(start)}, end {describe(end)}",
                line=line,
                field="gold_supports",
                allowed="whole numbers, 0 ≤ start < end < 2^63 (half-open)",
            )
            return None
        unit = text(fields.pop("span_unit"), "span_unit", line, problems) or "line"
        anchor |= {"start": int(start), "end": int(end), "span_unit": unit}
    if (doc_id := fields.identifier("doc_id")) is not None:
        anchor["doc_id"] = doc_id
    return anchor


def _date(fields: FieldReader) -> str | None:
    """Take a date or time as written; text that isn't one is a problem."""
    written = fields.pop("date")
    found = text(written, "gold_supports.date", fields.line, fields.problems)
    if found is None:
        return None
    try:
        time = pd.to_datetime(found, utc=True, format="ISO8601")
    except ValueError:
        fields.reject(written, "date", "an ISO 8601 date or time, such as 2026-01-31")
        return None
    return None if pd.isna(time) else found


def _heading(written: Any, line: int, problems: Problems) -> str | None:
    name = "gold_supports.heading"
    if not isinstance(written, list):
        return text(written, name, line, problems, HEADING_ALLOWED)
    parts = [text(part, name, line, problems, HEADING_ALLOWED) for part in written]
    return HEADING_SEPARATOR.join(part for part in parts if part is not None)


def _snippets(support: dict[str, Any], line: int, problems: Problems) -> list[str | None]:
    snippets = support.get("snippets")
    if snippets is None:
        return []
    texts: list[str | None] = [None]
    if isinstance(snippets, list):
        texts = [as_text(snippet) for snippet in snippets]
    if None not in texts:
        return texts
    problems.reject(snippets, line, "snippets", "a list of texts")
    return []


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


def support_groups(
    row: Row, query_id: str, targets: list[dict[str, Any]], problems: Problems
) -> Iterator[dict[str, Any]]:
    """Yield one row per member of each group of targets.

    A member is a target's name, or the position of an anchor. An unknown one stays, under a name
    that no hit can meet, so that its group fails.
    """
    name, groups = "required_support_groups", row.values.get("required_support_groups")
    if groups is None:
        return
    line = row.line_of(name)
    if not (isinstance(groups, list) and all(isinstance(group, list) for group in groups)):
        problems.reject(groups, line, name, "a list of lists of ids or indices")
        return
    anchors = anchor_ids(targets)
    by_name = target_names(targets)
    for number, group in enumerate(groups):
        for member in group:
            member_name = as_id(member)
            if member_name is None:
                allowed = f"a list of lists of ids ({ID_ALLOWED}) or indices"
                problems.reject(member, line, name, allowed)
                continue
            target_id = by_name.get(member_name, f"unknown:{member_name}")
            if is_int(member) and anchors:
                is_position = 0 <= member < len(anchors)
                target_id = anchors[member] if is_position else f"unknown:{member}"
            yield {"query_id": query_id, "group": number, "target_id": target_id}


def anchor_ids(targets: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the anchors among targets, in order."""
    return list(
        dict.fromkeys(target["target_id"] for target in targets if target["level"] == "anchor")
    )
