"""Our golden file (YAML list or JSON lines) -> `Golden`. A superset of the list of questions that kebab reads."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames import Golden, from_records
from ragscore.load.source import Problems, Row, as_id, as_text, json_rows, shown, yaml_rows

TEXT_FIELDS = ("lang", "difficulty", "category", "group", "variant", "reference_answer")
TAG_FIELDS = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECK_FIELDS = {
    "must_contain": "must_contain", "forbidden": "forbidden", "expected_key_facts": "key_fact", "expected_substrings": "expected_substring",
    "must_not_contain_source_keys": "forbidden_source_key",
}  # fmt: skip
OTHER_FIELDS = (
    "id", "query", "answerable", "expected_doc_ids", "expected_chunk_ids", "chunker_version", "gold_supports", "required_support_groups", "expected_source_keys",
    "expected_metadata", "expected_empty", "recency_conflict_rule",
)  # fmt: skip
KNOWN_FIELDS = {*TEXT_FIELDS, *TAG_FIELDS, *CHECK_FIELDS, *OTHER_FIELDS}
IDS_ALLOWED = "ids, lists of alternative ids, mappings {any: [ids], grade: n}, or one mapping id: grade"


@dataclass
class _Tables:
    """Records of each frame while a file is read, and the line of each question."""

    queries: list[dict[str, Any]] = field(default_factory=list)
    targets: list[dict[str, Any]] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    support_groups: list[dict[str, Any]] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def read_golden(path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None) -> Golden:
    """Read and check one golden file; `ragscore.load_golden` documents the arguments."""
    problems = Problems(path, strict)
    is_yaml = path.name.removesuffix(".gz").endswith((".yaml", ".yml"))
    rows = list(yaml_rows(path, problems) if is_yaml else json_rows(path, problems))
    tables, ids = _Tables(), _ids(rows, problems)
    for row, query_id in zip(rows, ids, strict=True):
        if query_id is not None:
            _read_row(row, query_id, tables, problems, absent_docs)
    _check_groups(tables, problems)
    if catalogue is not None:
        _check_catalogue(tables, catalogue, problems)
    names = ("queries", "targets", "tags", "checks", "support_groups", "conditions")
    return Golden(**{name: from_records(getattr(tables, name), name) for name in names}, problems=problems.frame())


def _ids(rows: list[Row], problems: Problems) -> list[str | None]:
    """The id of each row; None for rows that can't be taken (no id, or one that came before)."""
    ids = [as_id(row.values.get("id")) for row in rows]
    for row, query_id in zip(rows, ids, strict=True):
        if query_id is None:
            found = f"found {shown(row.values['id'])}" if "id" in row.values else "the field is missing"
            problems.add(found, line=row.line_of("id"), field="id", allowed="text, quoted where YAML reads a date or a yes/no")
    seen: set[str] = set()
    twice = sorted({query_id for query_id in ids if query_id is not None and (query_id in seen or seen.add(query_id))})  # type: ignore[func-returns-value]
    if twice:
        last = max(row.line_of("id") for row, query_id in zip(rows, ids, strict=True) if query_id in twice)
        problems.add(f"appear more than once: {', '.join(twice)}", line=last, field="id", allowed="ids must be unique")
        seen.clear()
        ids = [None if query_id in seen else (seen.add(query_id) or query_id) if query_id else None for query_id in ids]  # type: ignore[func-returns-value]
    return ids


def _read_row(row: Row, query_id: str, tables: _Tables, problems: Problems, absent_docs: str) -> None:
    values = row.values
    query = as_text(values.get("query"))
    if query is None:
        found = f"found {shown(values['query'])}" if "query" in values else "the field is missing"
        problems.add(found, line=row.line_of("query"), field="query", allowed="text")
        return
    targets = list(_targets(row, query_id, problems))
    tables.targets += targets
    checks = [{"query_id": query_id, "kind": kind, "text": text} for name, kind in CHECK_FIELDS.items() for text in _texts(row, name, problems)]
    if _boolean(row, "expected_empty", problems):
        checks.append({"query_id": query_id, "kind": "expected_empty", "text": "true"})
    if rule := _text(row, "recency_conflict_rule", problems):
        checks.append({"query_id": query_id, "kind": "recency_rule", "text": rule})
    tables.checks += _unique(checks)
    tables.tags += _unique([{"query_id": query_id, "kind": kind, "value": text} for name, kind in TAG_FIELDS.items() for text in _texts(row, name, problems)])
    tables.support_groups += _support_groups(row, query_id, targets, problems)
    tables.conditions += _conditions(row, query_id, problems)
    tables.lines[query_id] = row.line
    record: dict[str, Any] = {"query_id": query_id, "query": query, "answerable": _answerable(row, targets, checks, problems, absent_docs)}
    record["position"] = len(tables.queries)
    record |= {name: text for name in TEXT_FIELDS if (text := _text(row, name, problems)) is not None}
    record |= {f"x_{name}": _plain(value) for name, value in values.items() if name not in KNOWN_FIELDS and value is not None}
    tables.queries.append(record)


def _answerable(row: Row, targets: list[dict[str, Any]], checks: list[dict[str, Any]], problems: Problems, absent_docs: str) -> bool | None:
    stated = _boolean(row, "answerable", problems)
    if stated is not None:
        return stated
    if absent_docs == "refuse":  # the older reading: no expected document means "should refuse"
        return any(target["level"] == "doc" for target in targets)
    if targets:
        return True
    if isinstance(row.values.get("expected_doc_ids"), (list, dict)):
        return False
    is_expected = any(check["kind"] in ("must_contain", "key_fact", "expected_substring") for check in checks) or bool(row.values.get("reference_answer"))
    return True if is_expected else None


def _targets(row: Row, query_id: str, problems: Problems) -> Iterator[dict[str, Any]]:
    chunker = as_text(row.values.get("chunker_version"))
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
                        f"{', '.join(ids)} has the grades {grades[tuple(ids)]} and {grade}", line=row.line_of(name), field=name, allowed="one grade per target"
                    )
                continue
            grades[tuple(ids)] = grade
            named[ids[0]] = named.get(ids[0], 0) + 1
            name_of = ids[0] if named[ids[0]] == 1 else f"{ids[0]}({named[ids[0]]})"
            for alternative, target_id in enumerate(ids):
                target = {"query_id": query_id, "level": level, "target_id": name_of, "alternative": alternative, "grade": grade, column: target_id}
                yield target | ({"chunker_version": chunker} if level == "chunk" and chunker is not None else {})
    yield from _anchors(row, query_id, problems)
    if row.values.get("expected_metadata"):
        yield {"query_id": query_id, "level": "predicate", "target_id": "metadata", "alternative": 0, "grade": 1}


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
        problems.add(f"found {shown(value)}", line=line, field=name, allowed=IDS_ALLOWED)
        return
    for item in items:
        grade: Any = 1
        alternatives = item
        if isinstance(item, dict):
            if set(item) - {"any", "grade"} or "any" not in item:
                problems.add(f"found {shown(item)}", line=line, field=name, allowed=IDS_ALLOWED)
                continue
            alternatives, grade = item["any"], item.get("grade", 1)
        if isinstance(grade, bool) or not isinstance(grade, int) or not 0 <= grade < 2**31:
            problems.add(f"grade is {shown(grade)}", line=line, field=name, allowed="a whole number from 0")
            continue
        ids = [as_id(one) for one in (alternatives if isinstance(alternatives, list) else [alternatives])]
        if not ids or None in ids:
            problems.add(f"found {shown(alternatives)}", line=line, field=name, allowed=IDS_ALLOWED)
            continue
        yield list(dict.fromkeys(one for one in ids if one is not None)), int(grade)


def _anchors(row: Row, query_id: str, problems: Problems) -> Iterator[dict[str, Any]]:
    supports = row.values.get("gold_supports")
    if supports is None:
        return
    if not isinstance(supports, list):
        problems.add(f"found {shown(supports)}", line=row.line_of("gold_supports"), field="gold_supports", allowed="a list of mappings with path")
        return
    seen: dict[str, int] = {}
    for support in supports:
        path = as_id(support.get("path", support.get("rel_path"))) if isinstance(support, dict) else None
        if path is None:
            problems.add(f"found {shown(support)}", line=row.line_of("gold_supports"), field="gold_supports", allowed="a mapping with path")
            continue
        heading = support.get("heading", support.get("heading_path"))
        heading = " > ".join(map(str, heading)) if isinstance(heading, list) else as_text(heading)
        start, end = support.get("start"), support.get("end")
        spanned = start is not None or end is not None
        if spanned and not (_is_int(start) and _is_int(end) and start < end):
            problems.add(
                f"start {shown(start)}, end {shown(end)}",
                line=row.line_of("gold_supports"),
                field="gold_supports",
                allowed="whole numbers, start < end (half-open)",
            )
            continue
        name = f"{path}#{heading or ''}" + (f":{start}-{end}" if spanned else "")
        seen[name] = seen.get(name, 0) + 1
        target: dict[str, Any] = {
            "query_id": query_id,
            "level": "anchor",
            "target_id": name if seen[name] == 1 else f"{name}({seen[name]})",
            "path": path,
            "heading": heading,
        }
        target["grade"] = support["grade"] if _is_int(support.get("grade")) and support["grade"] >= 0 else 1
        if spanned:
            target |= {"start": int(start), "end": int(end), "span_unit": as_text(support.get("span_unit")) or "line"}
        if doc_id := as_id(support.get("doc_id")):
            target["doc_id"] = doc_id
        snippets = support.get("snippets")
        if snippets is not None and not (isinstance(snippets, list) and all(as_text(one) is not None for one in snippets)):
            problems.add(f"found {shown(snippets)}", line=row.line_of("gold_supports"), field="snippets", allowed="a list of texts")
            snippets = None
        for alternative, snippet in enumerate(snippets or [None]):  # any one snippet is enough
            yield target | {"alternative": alternative} | ({"snippet": as_text(snippet)} if snippet is not None else {})


def _support_groups(row: Row, query_id: str, targets: list[dict[str, Any]], problems: Problems) -> list[dict[str, Any]]:
    groups = row.values.get("required_support_groups")
    if groups is None:
        return []
    anchors = list(dict.fromkeys(target["target_id"] for target in targets if target["level"] == "anchor"))
    by_name = {target.get(column): target["target_id"] for target in targets for column in ("doc_id", "chunk_id", "target_id") if target.get(column)}
    if not (isinstance(groups, list) and all(isinstance(group, list) for group in groups)):
        problems.add(
            f"found {shown(groups)}", line=row.line_of("required_support_groups"), field="required_support_groups", allowed="a list of lists of ids or indices"
        )
        return []
    rows = []
    for number, group in enumerate(groups):
        for member in group:
            if _is_int(member) and anchors:
                # A group that names an unknown target fails: it stays, under a name that no hit can meet.
                target_id = anchors[member] if 0 <= member < len(anchors) else f"unknown:{member}"
            else:
                target_id = by_name.get(as_id(member), f"unknown:{as_text(member)}")
            rows.append({"query_id": query_id, "group": number, "target_id": target_id})
    return _unique(rows)


def _conditions(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    wanted = row.values.get("expected_metadata")
    if wanted is None:
        return []
    if not isinstance(wanted, dict):
        problems.add(f"found {shown(wanted)}", line=row.line_of("expected_metadata"), field="expected_metadata", allowed="a mapping")
        return []
    return [
        {"query_id": query_id, "target_id": "metadata", "key": key, "value": json.dumps(value, ensure_ascii=False, sort_keys=True)}
        for key, value in wanted.items()
    ]


def _check_groups(tables: _Tables, problems: Problems) -> None:
    """All paraphrases of one group must expect the same documents."""
    docs: dict[str, set[str]] = {query["query_id"]: set() for query in tables.queries}
    for target in tables.targets:
        if target["level"] == "doc":
            docs[target["query_id"]].add(target["doc_id"])
    canonical: dict[str, str] = {}
    divergent: dict[str, list[str]] = {}
    for query in tables.queries:
        group = query.get("group")
        if group is not None and docs[canonical.setdefault(group, query["query_id"])] != docs[query["query_id"]]:
            divergent.setdefault(group, []).append(query["query_id"])
    for group, members in sorted(divergent.items()):
        found = f"{', '.join(sorted(members))} of group {group!r} expect other documents than {canonical[group]}"
        problems.add(found, line=tables.lines[members[0]], field="group", allowed="one set of expected_doc_ids per group")


def _check_catalogue(tables: _Tables, catalogue: pd.DataFrame, problems: Problems) -> None:
    """Every expected id must be in the catalogue, as far as it has that kind of id."""
    for level, column, name in (("doc", "doc_id", "expected_doc_ids"), ("chunk", "chunk_id", "expected_chunk_ids")):
        if column in catalogue.columns:
            expected = {target[column] for target in tables.targets if target["level"] == level}
            unknown = sorted(expected - set(catalogue[column].dropna()))
            if unknown:
                problems.add(f"{len(unknown)} ids are not in the catalogue: {', '.join(unknown)}", field=name)


def _unique(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(record.values()): record for record in records}.values())


def _text(row: Row, name: str, problems: Problems) -> str | None:
    value = row.values.get(name)
    text = as_text(value)
    if value is not None and text is None:
        problems.add(f"found {shown(value)}", line=row.line_of(name), field=name, allowed="text (quote a yes/no)")
    return text


def _texts(row: Row, name: str, problems: Problems) -> list[str]:
    value = row.values.get(name)
    if value is None:
        return []
    texts = [as_text(item) for item in value] if isinstance(value, list) else [None]
    if None in texts:
        problems.add(f"found {shown(value)}", line=row.line_of(name), field=name, allowed="a list of texts (quote a yes/no)")
    return [text for text in texts if text is not None]


def _boolean(row: Row, name: str, problems: Problems) -> bool | None:
    value = row.values.get(name)
    if value is not None and not isinstance(value, bool):
        problems.add(f"found {shown(value)}", line=row.line_of(name), field=name, allowed="true or false")
        return None
    return value


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(value: Any) -> Any:
    """A user's own field: scalars as they are, anything nested as JSON text."""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return int(value) if _is_int(value) else float(value) if isinstance(value, float) else str(value) if isinstance(value, str) else value
