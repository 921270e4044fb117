"""Rows of our golden file -> `Golden`.

In: rows with the fields below, all but `id` and `query` optional. Out: queries, targets, tags,
checks, support_groups and conditions. The tables of fields serve golden_write.py, too.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, check_type, from_records
from ragscore.frames.errors import plural
from ragscore.frames.kinds import IMPORTANCE, LABELS
from ragscore.io.columns import ANSWERABLE
from ragscore.io.files import read_text
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import (
    ID_ALLOWED,
    SPAN_ALLOWED,
    FieldReader,
    as_json,
    is_int,
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
IDS_ALLOWED = (
    "ids, lists of alternative ids, mappings {any: [ids], grade: n, judged_by: model}, or one"
    " mapping id: grade"
)
GRADE_ALLOWED = f"a whole number from 0 to {2**31 - 1}, or fractions as gains"
GROUPS_ALLOWED = f"a list of lists of ids ({ID_ALLOWED}) or indices"


TEXT_FIELDS = (*LABELS, "reference_answer")
TAG_FIELDS = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECK_FIELDS = {
    "must_contain": "must_contain", "forbidden": "forbidden", "expected_key_facts": "key_fact",
    "expected_substrings": "expected_substring",
    "must_not_contain_source_keys": "forbidden_source_key", "accepted_answers": "accepted_answer",
}  # fmt: skip
ANSWER_CHECKS = ("must_contain", "key_fact", "expected_substring", "accepted_answer")
"""Kinds of checks that only an answer can meet."""
FIELD_ORDER = (
    "id", "query", "answerable", *(name for name, _ in ID_FIELDS.values()), "chunker_version",
    "gold_supports", "required_support_groups", "expected_metadata", "expected_substrings",
    "must_not_contain_source_keys", "expected_empty", "must_contain", "forbidden",
    "expected_key_facts", "recency_conflict_rule", *TEXT_FIELDS, "accepted_answers",
    *TAG_FIELDS,
)  # fmt: skip
"""Every field of ours, in the order in which they are written."""
KNOWN_FIELDS = frozenset((*FIELD_ORDER, *ANSWERABLE))
FRAMES = ("queries", "targets", "conditions", "checks", "tags", "support_groups")
Records = dict[str, list[dict[str, Any]]]


def read_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one golden file; `ragscore.load_golden` documents the arguments."""
    problems = Problems(path, strict)
    return golden_of(file_rows(path, problems), problems, absent_docs, catalogue)


def file_rows(path: Path, problems: Problems, content: str | None = None) -> list[Row]:
    """Return the rows of a golden file, in YAML or JSON lines.

    Pass `content` if the file's text is at hand.
    """
    if path.name.removesuffix(".gz").endswith((".yaml", ".yml")):
        from ragscore.io.yaml_text import yaml_rows

        return list(yaml_rows(read_text(path) if content is None else content, path, problems))
    return list(json_rows(path, problems, None if content is None else content.split("\n")))


def golden_of(
    rows: list[Row], problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Return a golden set from rows with our fields, after the checks that span rows."""
    records: Records = {name: [] for name in FRAMES}
    first: dict[str, int] = {}  # the line of each id
    twice = dict[str, int]()
    for row in rows:
        name = "query_id" if "query_id" in row.values and "id" not in row.values else "id"
        allowed = "text, quoted where YAML reads a date or a yes/no"
        query_id, line = _required(row, name, as_id, allowed, problems), row.line_of(name)
        if query_id in first:
            twice[f"{query_id} (first on line {first[query_id]})"] = line
        elif query_id is not None and (parts := read_row(row, query_id, problems, absent_docs)):
            first[query_id] = line
            parts["queries"][0]["position"] = len(records["queries"])
            for kind, found in parts.items():
                records[kind] += found
    if twice:  # one error names all
        problems.add(
            f"there more than once: {', '.join(sorted(twice))}",
            line=max(twice.values()),
            field="id",
            allowed="ids must be unique",
        )
    records["targets"] = with_levels(records["targets"])
    frames = {name: from_records(records[name], name) for name in FRAMES}
    check_groups(frames["queries"], frames["targets"], first, problems)
    if catalogue is not None:
        check_catalogue(frames["targets"], catalogue, problems)
    return Golden(**frames, _problems=problems.frame())


def _required(
    row: Row, name: str, take: Callable[[Any], str | None], allowed: str, problems: Problems
) -> str | None:
    """Return the value of a field that each row must have."""
    found = take(row.values.get(name))
    if found is None:
        problems.reject(row.values.get(name), row.line_of(name), name, allowed)
    return found


def read_row(
    row: Row, query_id: str, problems: Problems, absent_docs: str = "unlabelled"
) -> Records | None:
    """Return the rows of each frame that one query has; None, and a problem, without a text."""
    query = _required(row, "query", as_text, "text", problems)
    if query is None:
        return None
    problems.check_names(row.values, KNOWN_FIELDS, row.line)
    fields = FieldReader(row.values, "", row.line, problems, lines=row.lines)
    targets = targets_of(fields)
    record: dict[str, Any] = {"query": query}
    metadata = fields.shaped("a mapping", ("expected_metadata",), dict)
    checks = _checks(fields)
    parts: dict[str, Iterable[dict[str, Any]]] = {
        "queries": [record],
        "targets": targets,
        "checks": checks,
        "support_groups": support_groups(fields, targets),
        "tags": [
            {"kind": kind, "value": value}
            for name, kind in TAG_FIELDS.items()
            for value in fields.text_list(name)
        ],
        "conditions": [
            {"target_id": "metadata", "key": key}
            | {"value": json.dumps(value, ensure_ascii=False, sort_keys=True)}
            for key, value in metadata.items()
        ],
    }
    record["answerable"] = _answerable(row, fields, targets, checks, absent_docs)
    record |= {name: fields.take("text", name) for name in TEXT_FIELDS}
    known = KNOWN_FIELDS if "id" in row.values else KNOWN_FIELDS | {"query_id"}
    own = {name: one for name, one in fields.values.items() if name not in known}
    record |= {f"x_{name}": _plain(one) for name, one in own.items()}
    once = {name: {tuple(row.items()): row for row in rows} for name, rows in parts.items()}
    return {
        name: [{"query_id": query_id} | row for row in rows.values()] for name, rows in once.items()
    }


def _checks(fields: FieldReader) -> list[dict[str, Any]]:
    """Take the fields by which an answer is checked; return one row per text or flag."""
    checks: list[dict[str, Any]] = []
    for name, kind in CHECK_FIELDS.items():
        facts = fields.shaped(FACTS_ALLOWED, (name,), list) if kind == "key_fact" else ()
        for one in facts:
            fact = fields.inner(one if isinstance(one, dict) else {"text": one}, name)
            text, importance = fact.take("text", "text"), fact.take("text", "importance")
            check = {
                "text": text,
                "importance": importance,
                "weight": fact.take("number", "weight"),
            }
            if text is None or importance not in (None, *IMPORTANCE) or fact.values:
                fields.reject(one, name, FACTS_ALLOWED)
            else:
                checks.append({"kind": kind} | check)
        checks += [{"kind": kind, "text": one} for one in fields.text_list(name)]
    flags = {
        "expected_empty": "true" if fields.take("flag", "expected_empty") else None,
        "recency_rule": fields.take("text", "recency_conflict_rule"),
        # `filter_hits` drops hits whose text lacks the product
        "product": fields.inner(fields.values.get("filters"), "filters").take("text", "product"),
    }
    return checks + [{"kind": kind, "text": text} for kind, text in flags.items() if text]


FACTS_ALLOWED = "a list of texts, or of mappings {text, importance: vital or okay, weight: number}"


def _answerable(
    row: Row,
    fields: FieldReader,
    targets: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    absent_docs: str,
) -> bool | None:
    """Return what a row states about being answerable, else what its expectations imply."""
    stated = {
        name: says == is_same
        for name, is_same in ANSWERABLE.items()
        if (says := fields.take("flag", name)) is not None
    }
    if len({*stated.values()}) > 1:
        fields.problems.add(
            f"{' and '.join(stated)} contradict each other",
            line=row.line_of(list(stated)[1]),
            field="answerable",
            allowed="one of them",
        )
    if stated:
        return next(iter(stated.values()))
    if absent_docs == "refuse":  # the older reading: no expected document means "should refuse"
        return any(target["level"] == "doc" for target in targets)
    if any(target["grade"] > 0 for target in targets):
        return True
    if not targets and isinstance(row.values.get("expected_doc_ids"), (list, dict)):
        return False
    is_checked = any(check["kind"] in ANSWER_CHECKS for check in checks)
    return True if is_checked or row.values.get("reference_answer") else None


def check_groups(
    queries: pd.DataFrame, targets: pd.DataFrame, lines: dict[str, int], problems: Problems
) -> None:
    """Report paraphrases of one group that expect different documents."""
    if "group" not in queries:
        return
    docs = targets[targets["level"] == "doc"].reindex(columns=["query_id", "doc_id"])
    expected = docs.groupby("query_id")["doc_id"].agg(frozenset).to_dict()
    for group, ids in queries.groupby("group")["query_id"]:
        first = ids.iloc[0]
        if others := [one for one in ids if expected.get(one) != expected.get(first)]:
            problems.add(
                f"{', '.join(sorted(others))} of group {group!r} expect other documents than"
                f" {first}",
                line=lines[others[0]],
                field="group",
                allowed="one set of expected_doc_ids per group",
            )


def check_catalogue(targets: pd.DataFrame, catalogue: pd.DataFrame, problems: Problems) -> None:
    """Report expected ids that the catalogue lacks, of each kind that it has, in one problem."""
    check_type(catalogue, pd.DataFrame, "catalogue")
    found = {}
    for level, what in (("doc", "document"), ("chunk", "chunk")):
        name, column = ID_FIELDS[level]
        if column in catalogue and column in targets:
            expected = targets.loc[targets["level"] == level, column]
            is_known = is_among(expected, catalogue[column].dropna().astype("str"))
            if unknown := sorted({*expected[~is_known]}):
                found[name] = f"{plural(len(unknown), what)} ({', '.join(unknown)})"
    if found:
        problems.add(
            f"not in the catalogue: {', '.join(found.values())}",
            field=", ".join(found),
            allowed="ids of the catalogue",
        )


def _plain(value: Any) -> Any:
    """Return a user's own field: a scalar as a plain Python value, anything nested as JSON text."""
    if isinstance(value, (dict, list)):
        return as_json(value)
    # YAML values are subclasses that remember their spelling
    return next((kind(value) for kind in (bool, int, float, str) if isinstance(value, kind)), value)


# Targets


def targets_of(fields: FieldReader) -> list[dict[str, Any]]:
    """Take the fields that name targets; return one row per alternative."""
    predicates = [one for name, one in PREDICATE_FIELDS.items() if fields.values.get(name)]
    version = fields.take("text", "chunker_version")
    targets = list[dict[str, Any]]()
    for level, (name, column) in ID_FIELDS.items():
        about = {"level": level} | ({"chunker_version": version} if level == "chunk" else {})
        targets += [about | target for target in _expected(fields, name, column)]
    names = Counter[str]()
    for support in fields.shaped("a list of mappings with path", ("gold_supports",), list):
        reader = fields.inner(support, "gold_supports")
        if anchor := _anchor(reader, support):
            anchor["target_id"] = _numbered(anchor["target_id"], names)
            snippets: list[str | None] = [*reader.text_list("snippets")] or [None]
            anchor |= {f"x_{name}": _plain(one) for name, one in reader.values.items()}
            targets += [anchor | {"alternative": n, "snippet": one}
                        for n, one in enumerate(snippets)]  # fmt: skip
    if predicates:  # one target: where both are expected, one hit must have both
        target = {"level": "predicate", "target_id": predicates[0]}
        targets.append(target | {"alternative": 0, "grade": 1})
    return targets


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
        # [id, grade] would be two ids
        is_text = [isinstance(one, str) for one in listed] if isinstance(listed, list) else []
        if (
            {*given} - {"any", "grade", "judged_by"}
            or not ids
            or None in every
            or is_text == [True, False]
        ):
            fields.reject(item, name, IDS_ALLOWED)
        elif not _is_grade(grade):
            fields.reject({"grade": grade}, name, GRADE_ALLOWED)
        elif ids not in grades:
            grades[ids] = grade
            target = {"target_id": _numbered(ids[0], names), "grade": grade}
            target["judged_by"] = fields.inner(given, name).take("text", "judged_by")
            for alternative, one in enumerate(ids):
                yield target | {"alternative": alternative, column: one}
        elif grades[ids] != grade:
            fields.reject(item, name, f"one grade per target: it had {grades[ids]}")


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


def _anchor(reader: FieldReader, support: Any) -> dict[str, Any] | None:
    """Take the known fields of a support; any one of its snippets, which stay, is enough."""
    reader.problems.check_names(reader.values, SUPPORT_FIELDS, reader.line or 1)
    path, grade = as_id(reader.pop("path", "rel_path")), reader.pop("grade")
    start, end, unit = reader.pop("start"), reader.pop("end"), reader.take("text", "span_unit")
    has_span = start is not None or end is not None
    are_whole = is_int(start) and is_int(end) and 0 <= start < end < 2**63
    for is_right, found, allowed in (
        (path is not None, support, "a mapping with path"),
        (grade is None or _is_grade(grade), {"grade": grade}, GRADE_ALLOWED),
        (not has_span or are_whole, {"start": start, "end": end}, SPAN_ALLOWED),
    ):
        if not is_right:
            reader.problems.reject(found, reader.line, "gold_supports", allowed)
            return None
    date, heading = reader.values.get("date"), reader.take("heading", "heading", "heading_path")
    anchor: dict[str, Any] = {
        "level": "anchor", "target_id": f"{path}#{heading or ''}", "path": path,
        "heading": heading, "grade": 1 if grade is None else grade,
        "doc_id": reader.take("id", "doc_id"),
        "date": None if reader.take("time", "date") is None else str(date),
    }  # fmt: skip
    if has_span:
        anchor["target_id"] += f":{start}-{end}"
        anchor |= {"start": start, "end": end, "span_unit": unit or "line"}
    return anchor


def support_groups(fields: FieldReader, targets: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield one row per member of each group of targets.

    A member is a target's name, an id of one of its alternatives, or the position of an anchor. An
    unknown one stays, under a name that no hit can meet, so that its group fails.
    """
    field = "required_support_groups"
    anchors = dict.fromkeys(one["target_id"] for one in targets if one["level"] == "anchor")
    places, columns = dict(enumerate(anchors)), ("doc_id", "chunk_id")
    by_name = {one[name]: one["target_id"] for one in targets for name in columns if one.get(name)}
    by_name |= {one["target_id"]: one["target_id"] for one in targets}
    for number, group in enumerate(fields.shaped(GROUPS_ALLOWED, (field,), list)):
        for member in group if isinstance(group, list) else [{}]:
            if (called := as_id(member)) is None:
                fields.reject(group, field, GROUPS_ALLOWED)
                continue
            is_place = is_int(member) and bool(places)
            found = places.get(member) if is_place else by_name.get(called)
            target_id = found or f"unknown:{called}"
            yield {"group": number, "target_id": target_id}
