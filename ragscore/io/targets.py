"""What answers a question in our golden file.

Expected ids, anchors, and the groups of them that are needed.
"""

import json
from collections.abc import Iterator
from typing import Any

import pandas as pd

from ragscore.io.source import Problems, Row, as_id, as_text, describe
from ragscore.io.values import ID_ALLOWED, identifier, is_int, text

IDS_ALLOWED = (
    "ids, lists of alternative ids, mappings {any: [ids], grade: n}, or one mapping id: grade"
)
GRADE_ALLOWED = f"a whole number from 0 to {2**31 - 1}"
SUPPORT_EXTRAS = "x_gold_supports"
"""The column of `queries` for the unknown fields of supports, JSON text: an object for each support. No field of one's own has that name."""
SUPPORT_FIELDS = frozenset(
    (
        "path",
        "rel_path",
        "heading",
        "heading_path",
        "start",
        "end",
        "span_unit",
        "grade",
        "doc_id",
        "snippets",
        "date",
    )
)


def targets_of(row: Row, query_id: str, problems: Problems) -> Iterator[dict[str, Any]]:
    """Each alternative of each target of one question."""
    chunker = text(
        row.values.get("chunker_version"),
        "chunker_version",
        row.line_of("chunker_version"),
        problems,
    )
    for name, level, column in (
        ("expected_doc_ids", "doc", "doc_id"),
        ("expected_chunk_ids", "chunk", "chunk_id"),
        ("expected_source_keys", "source_key", "source_key"),
    ):
        named: dict[str, int] = {}
        grades: dict[tuple[str, ...], int] = {}
        for ids, grade in _graded_ids(row, name, problems):
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
            named[ids[0]] = named.get(ids[0], 0) + 1
            name_of = ids[0] if named[ids[0]] == 1 else f"{ids[0]}({named[ids[0]]})"
            for alternative, target_id in enumerate(ids):
                target = {
                    "query_id": query_id,
                    "level": level,
                    "target_id": name_of,
                    "alternative": alternative,
                    "grade": grade,
                    column: target_id,
                }
                yield target | (
                    {"chunker_version": chunker} if level == "chunk" and chunker is not None else {}
                )
    yield from _anchors(row, query_id, problems)
    for name, target_id in (
        ("expected_metadata", "metadata"),
        ("expected_substrings", "substrings"),
    ):
        if row.values.get(name):  # one predicate: where both are expected, one hit must have both
            yield {
                "query_id": query_id,
                "level": "predicate",
                "target_id": target_id,
                "alternative": 0,
                "grade": 1,
            }
            return


def _graded_ids(row: Row, name: str, problems: Problems) -> Iterator[tuple[list[str], int]]:
    """Each expected thing as (its alternative ids, its grade)."""
    value = row.values.get(name)
    if value is None:
        return
    line = row.line_of(name)
    if isinstance(value, dict):
        items: list[Any] = [{"any": [key], "grade": grade} for key, grade in value.items()]
    elif isinstance(value, list):
        items = value
    else:
        problems.add(f"found {describe(value)}", line=line, field=name, allowed=IDS_ALLOWED)
        return
    for item in items:
        grade: Any = 1
        alternatives = item
        if isinstance(item, dict):
            if set(item) - {"any", "grade"} or "any" not in item:
                problems.add(f"found {describe(item)}", line=line, field=name, allowed=IDS_ALLOWED)
                continue
            alternatives, grade = item["any"], item.get("grade", 1)
        if not _is_grade(grade):
            problems.add(
                f"grade is {describe(grade)}", line=line, field=name, allowed=GRADE_ALLOWED
            )
            continue
        ids = [
            as_id(one)
            for one in (alternatives if isinstance(alternatives, list) else [alternatives])
        ]
        if not ids or None in ids:
            problems.add(
                f"found {describe(alternatives)}", line=line, field=name, allowed=IDS_ALLOWED
            )
            continue
        yield list(dict.fromkeys(one for one in ids if one is not None)), int(grade)


def _is_grade(value: Any) -> bool:
    return is_int(value) and 0 <= value < 2**31


def _anchors(row: Row, query_id: str, problems: Problems) -> Iterator[dict[str, Any]]:
    supports = row.values.get("gold_supports")
    if supports is None:
        return
    line = row.line_of("gold_supports")
    if not isinstance(supports, list):
        problems.add(
            f"found {describe(supports)}",
            line=line,
            field="gold_supports",
            allowed="a list of mappings with path",
        )
        return
    seen: dict[str, int] = {}
    for support in supports:
        anchor = _anchor(support, line, problems)
        if anchor is None:
            continue
        name = f"{anchor['path']}#{anchor['heading'] or ''}" + (
            f":{anchor['start']}-{anchor['end']}" if "start" in anchor else ""
        )
        seen[name] = seen.get(name, 0) + 1
        target = {
            "query_id": query_id,
            "level": "anchor",
            "target_id": name if seen[name] == 1 else f"{name}({seen[name]})",
            **anchor,
        }
        left = {name: value for name, value in support.items() if name not in SUPPORT_FIELDS}
        # any one snippet is enough
        for alternative, snippet in enumerate(_snippets(support, line, problems) or [None]):
            own = {SUPPORT_EXTRAS: left} if alternative == 0 else {}
            yield (
                target
                | {"alternative": alternative}
                | ({"snippet": snippet} if snippet is not None else {})
                | own
            )


def _anchor(support: Any, line: int, problems: Problems) -> dict[str, Any] | None:
    """Path, heading, span and grade of one support; None, and a problem, for what isn't one."""
    path = (
        as_id(support.get("path", support.get("rel_path"))) if isinstance(support, dict) else None
    )
    if path is None:
        problems.add(
            f"found {describe(support)}",
            line=line,
            field="gold_supports",
            allowed="a mapping with path",
        )
        return None
    problems.typos.check(support, SUPPORT_FIELDS, line)
    anchor: dict[str, Any] = {
        "path": path,
        "heading": _heading(support.get("heading", support.get("heading_path")), line, problems),
    }
    anchor["grade"] = grade = 1 if support.get("grade") is None else support["grade"]
    if not _is_grade(grade):
        problems.add(
            f"grade is {describe(grade)}", line=line, field="gold_supports", allowed=GRADE_ALLOWED
        )
        return None
    if (date := _date(support.get("date"), line, problems)) is not None:
        anchor["date"] = date
    start, end = support.get("start"), support.get("end")
    if start is not None or end is not None:
        if not (is_int(start) and is_int(end) and 0 <= start < end < 2**63):
            problems.add(
                f"start {describe(start)}, end {describe(end)}",
                line=line,
                field="gold_supports",
                allowed="whole numbers, 0 ≤ start < end < 2^63 (half-open)",
            )
            return None
        anchor |= {
            "start": int(start),
            "end": int(end),
            "span_unit": text(support.get("span_unit"), "span_unit", line, problems) or "line",
        }
    if (
        doc_id := identifier(support.get("doc_id"), "gold_supports.doc_id", line, problems)
    ) is not None:
        anchor["doc_id"] = doc_id
    return anchor


def _date(written: Any, line: int, problems: Problems) -> str | None:
    """A date or time as written; text that isn't one is a problem."""
    found = text(written, "gold_supports.date", line, problems)
    try:
        return (
            found
            if found is None or not pd.isna(pd.to_datetime(found, utc=True, format="ISO8601"))
            else None
        )
    except ValueError:
        problems.add(
            f"found {describe(written)}",
            line=line,
            field="gold_supports.date",
            allowed="an ISO 8601 date or time, such as 2026-01-31",
        )
        return None


def _heading(written: Any, line: int, problems: Problems) -> str | None:
    if not isinstance(written, list):
        return text(written, "gold_supports.heading", line, problems, "text or a list of texts")
    parts = [
        text(part, "gold_supports.heading", line, problems, "text or a list of texts")
        for part in written
    ]
    return " > ".join(part for part in parts if part is not None)


def _snippets(support: dict[str, Any], line: int, problems: Problems) -> list[str | None]:
    snippets = support.get("snippets")
    if snippets is None:
        return []
    if isinstance(snippets, list) and all(as_text(one) is not None for one in snippets):
        return [as_text(one) for one in snippets]
    problems.add(
        f"found {describe(snippets)}", line=line, field="snippets", allowed="a list of texts"
    )
    return []


def target_names(targets: list[dict[str, Any]]) -> dict[str, str]:
    """The names by which a group may call a target: an id of one of its alternatives, or its own."""
    return {
        target[column]: target["target_id"]
        for target in targets
        for column in ("doc_id", "chunk_id", "target_id")
        if target.get(column)
    }


def pop_support_extras(targets: list[dict[str, Any]]) -> dict[str, str]:
    """The unknown fields of a question's supports as one column, taken out of its targets.

    Nothing where every field is known.
    """
    left = [target.pop(SUPPORT_EXTRAS) for target in targets if SUPPORT_EXTRAS in target]
    return {SUPPORT_EXTRAS: json.dumps(left, ensure_ascii=False)} if any(left) else {}


def support_groups(
    row: Row, query_id: str, targets: list[dict[str, Any]], problems: Problems
) -> Iterator[dict[str, Any]]:
    """Each member of each group of targets, by name, or by position among the anchors."""
    groups = row.values.get("required_support_groups")
    if groups is None:
        return
    line = row.line_of("required_support_groups")
    anchors = list(
        dict.fromkeys(target["target_id"] for target in targets if target["level"] == "anchor")
    )
    by_name = target_names(targets)
    if not (isinstance(groups, list) and all(isinstance(group, list) for group in groups)):
        problems.add(
            f"found {describe(groups)}",
            line=line,
            field="required_support_groups",
            allowed="a list of lists of ids or indices",
        )
        return
    for number, member in [
        (number, member) for number, group in enumerate(groups) for member in group
    ]:
        name = as_id(member)
        if name is None:
            problems.add(
                f"found {describe(member)}",
                line=line,
                field="required_support_groups",
                allowed=f"a list of lists of ids ({ID_ALLOWED}) or indices",
            )
        elif is_int(member) and anchors:
            # A group that names an unknown target fails: it stays, under a name that no hit can
            # meet.
            yield {
                "query_id": query_id,
                "group": number,
                "target_id": anchors[member] if 0 <= member < len(anchors) else f"unknown:{member}",
            }
        else:
            yield {
                "query_id": query_id,
                "group": number,
                "target_id": by_name.get(name, f"unknown:{name}"),
            }
