"""Rows of our golden file -> `Golden`; golden_file.py reads the file.

In: rows with the fields below, all but `id` and `query` optional. Out: queries, targets, tags,
checks, support_groups and conditions. The tables of fields serve golden_write.py, too.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, check_type, from_records
from ragscore.frames.kinds import (
    IMPORTANCE,
    LABELS,
)
from ragscore.io.columns import ANSWERABLE
from ragscore.io.source import Problems, Row, as_id, as_text, describe
from ragscore.io.targets import (
    ID_FIELDS,
    pop_support_extras,
    support_groups,
    targets_of,
    with_levels,
)
from ragscore.io.values import as_number, flag, is_int, text

TEXT_FIELDS = (*LABELS, "reference_answer")
TAG_FIELDS = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECK_FIELDS = {
    "must_contain": "must_contain", "forbidden": "forbidden", "expected_key_facts": "key_fact",
    "expected_substrings": "expected_substring",
    "must_not_contain_source_keys": "forbidden_source_key",
}  # fmt: skip
CHECK_FLAGS = ("expected_empty", "recency_rule", "product")
"""Kinds of checks of which a query has one."""
FIELD_ORDER = (
    "id", "query", "answerable", *(name for name, _ in ID_FIELDS.values()), "chunker_version",
    "gold_supports", "required_support_groups", "expected_metadata", "expected_substrings",
    "must_not_contain_source_keys", "expected_empty", "must_contain", "forbidden",
    "expected_key_facts", "recency_conflict_rule", *TEXT_FIELDS, *TAG_FIELDS,
)  # fmt: skip
"""Every field of ours, in the order in which they are written."""
KNOWN_FIELDS = frozenset((*FIELD_ORDER, *ANSWERABLE))
FRAMES = ("queries", "targets", "conditions", "checks", "tags", "support_groups")


@dataclass
class Tables:
    """Rows of each frame while a file is read, and the line of each query."""

    queries: list[dict[str, Any]] = field(default_factory=list)
    targets: list[dict[str, Any]] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    support_groups: list[dict[str, Any]] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def golden_of(
    rows: list[Row], problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Return a golden set from rows with our fields, after the checks that span rows."""
    rows = [_with_id(row) for row in rows]
    tables, ids = Tables(), _ids(rows, problems)
    for row, query_id in zip(rows, ids, strict=True):
        if query_id is not None:
            read_row(row, query_id, tables, problems, absent_docs)
    _check_groups(tables, problems)
    tables.targets = with_levels(tables.targets)
    frames = {name: from_records(getattr(tables, name), name) for name in FRAMES}
    if catalogue is not None:
        check_catalogue(frames["targets"], catalogue, problems)
    queries = frames["queries"]
    # A column without any value is one, too: what is asked `by` it is all in one slice.
    empty = dict.fromkeys(
        name if name in LABELS else f"x_{name}"
        for row in rows
        for name, value in row.values.items()
        if value is None and (name in LABELS or name not in KNOWN_FIELDS)
    )
    for name in [name for name in empty if name not in queries]:
        queries[name] = pd.Series(pd.NA, queries.index, dtype="str")
    return Golden(**frames | {"queries": queries}, problems=problems.frame())


def _with_id(row: Row) -> Row:
    """Return a row whose `query_id`, as run files call it, is its id."""
    if "id" in row.values or "query_id" not in row.values:
        return row
    renamed = {"id" if name == "query_id" else name: one for name, one in row.values.items()}
    return Row(renamed, row.line, row.lines | {"id": row.line_of("query_id")})


def _ids(rows: list[Row], problems: Problems) -> list[str | None]:
    """Return the id of each row; None for a row without one or with that of an earlier row."""
    ids = [as_id(row.values.get("id")) for row in rows]
    lines: dict[str, list[int]] = {}
    for row, query_id in zip(rows, ids, strict=True):
        line = row.line_of("id")
        if query_id is None:
            allowed = "text, quoted where YAML reads a date or a yes/no"
            problems.add(_found(row, "id"), line=line, field="id", allowed=allowed)
        else:
            lines.setdefault(query_id, []).append(line)
    twice = {query_id: where for query_id, where in sorted(lines.items()) if len(where) > 1}
    if not twice:
        return ids
    found = [
        (f"{query_id} (first on line {where[0]})", line)
        for query_id, where in twice.items()
        for line in where[1:]
    ]
    if problems.strict:  # one error names all
        names = ", ".join(dict.fromkeys(name for name, _ in found))
        found = [(names, max(line for _, line in found))]
    for name, line in found:
        problems.add(
            f"appear more than once: {name}", line=line, field="id", allowed="ids must be unique"
        )
    seen: set[str | None] = set()
    for number, query_id in enumerate(ids):
        ids[number] = None if query_id in seen else query_id
        seen.add(query_id)
    return ids


def _found(row: Row, name: str) -> str:
    """Return what stands in a required field, for a message."""
    return f"found {describe(row.values[name])}" if name in row.values else "the field is missing"


def read_row(row: Row, query_id: str, tables: Tables, problems: Problems, absent_docs: str) -> None:
    """Add one query to the tables; one without text is a problem."""
    values = row.values
    query = as_text(values.get("query"))
    if query is None:
        problems.add(_found(row, "query"), line=row.line_of("query"), field="query", allowed="text")
        return
    problems.typos.check(values, KNOWN_FIELDS, row.line)
    targets = list(targets_of(row, query_id, problems))
    support_extras = pop_support_extras(targets)
    tables.targets += targets
    checks = _checks(row, query_id, problems)
    tables.checks += _unique(checks)
    tables.tags += _unique(
        [
            {"query_id": query_id, "kind": kind, "value": value}
            for name, kind in TAG_FIELDS.items()
            for value in _texts(row, name, problems)
        ]
    )
    tables.support_groups += _unique(list(support_groups(row, query_id, targets, problems)))
    tables.conditions += _conditions(row, query_id, problems)
    tables.lines[query_id] = row.line
    record: dict[str, Any] = support_extras | {
        "query_id": query_id,
        "query": query,
        "answerable": _answerable(row, targets, checks, problems, absent_docs),
        "position": len(tables.queries),
    }
    for name in TEXT_FIELDS:
        if (value := _text(row, name, problems)) is not None:
            record[name] = value
    for name, extra in values.items():
        if name not in KNOWN_FIELDS and extra is not None:
            record[f"x_{name}"] = _plain(extra)
    tables.queries.append(record)


def _checks(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    """Return one row per text, flag and choice that tells how an answer is checked."""
    checks = [
        {"query_id": query_id, "kind": kind} | one
        for name, kind in CHECK_FIELDS.items()
        for one in (
            _facts(row, name, problems)
            if kind == "key_fact"
            else [{"text": value} for value in _texts(row, name, problems)]
        )
    ]
    if _boolean(row, "expected_empty", problems):
        checks.append({"query_id": query_id, "kind": "expected_empty", "text": "true"})
    if rule := _text(row, "recency_conflict_rule", problems):
        checks.append({"query_id": query_id, "kind": "recency_rule", "text": rule})
    return checks + product_check(row, query_id, problems)


FACTS_ALLOWED = "a list of texts, or of mappings {text, importance: vital or okay, weight: number}"


def _facts(row: Row, name: str, problems: Problems) -> list[dict[str, Any]]:
    """Return key facts as texts with what is known of each."""
    value = row.values.get(name)
    if not isinstance(value, list) or not any(isinstance(one, dict) for one in value):
        return [{"text": one} for one in _texts(row, name, problems)]
    found = []
    for one in value:
        about = one if isinstance(one, dict) else {"text": one}
        text_, importance, weight = (about.get(key) for key in ("text", "importance", "weight"))
        is_right = as_text(text_) is not None and not {*about} - {"text", "importance", "weight"}
        is_right &= importance is None or importance in IMPORTANCE
        is_right &= weight is None or (as_number(weight) is not None and weight is not True)
        if not is_right:
            problems.reject(one, row.line_of(name), name, FACTS_ALLOWED)
            continue
        known = {"importance": importance, "weight": as_number(weight)}
        found.append({"text": as_text(text_)} | {n: v for n, v in known.items() if v is not None})
    return found


def product_check(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    """Return the product that `filters` names; `filter_hits` drops hits whose text lacks it."""
    filters = row.values.get("filters")
    if not isinstance(filters, dict):
        return []
    product = text(filters.get("product"), "filters.product", row.line_of("filters"), problems)
    return [{"query_id": query_id, "kind": "product", "text": product}] if product else []


def _answerable(
    row: Row,
    targets: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    problems: Problems,
    absent_docs: str,
) -> bool | None:
    """Return what a row states about being answerable, else what its expectations imply."""
    if (stated := _stated(row, problems)) is not None:
        return stated
    if absent_docs == "refuse":  # the older reading: no expected document means "should refuse"
        return any(target["level"] == "doc" for target in targets)
    if any(target["grade"] > 0 for target in targets):
        return True
    if not targets and isinstance(row.values.get("expected_doc_ids"), (list, dict)):
        return False
    is_expected = any(
        check["kind"] in ("must_contain", "key_fact", "expected_substring") for check in checks
    ) or bool(row.values.get("reference_answer"))
    return True if is_expected else None


def _stated(row: Row, problems: Problems) -> bool | None:
    """Return what a row says of being answerable, also as `should_refuse` and the like."""
    stated = {
        name: says == is_same
        for name, is_same in ANSWERABLE.items()
        if name in row.values and (says := _boolean(row, name, problems)) is not None
    }
    if len(set(stated.values())) > 1:
        problems.add(
            f"{' and '.join(stated)} contradict each other",
            line=row.line_of(list(stated)[1]),
            field="answerable",
            allowed="one of them",
        )
    return next(iter(stated.values()), None)


def _conditions(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    expected = row.values.get("expected_metadata")
    if expected is None:
        return []
    if not isinstance(expected, dict):
        line = row.line_of("expected_metadata")
        problems.reject(expected, line, "expected_metadata", "a mapping")
        return []
    return [
        {
            "query_id": query_id,
            "target_id": "metadata",
            "key": key,
            "value": json.dumps(value, ensure_ascii=False, sort_keys=True),
        }
        for key, value in expected.items()
    ]


def _check_groups(tables: Tables, problems: Problems) -> None:
    """Report paraphrases of one group that expect different documents."""
    docs: dict[str, set[str]] = {query["query_id"]: set() for query in tables.queries}
    for target in tables.targets:
        if target["level"] == "doc":
            docs[target["query_id"]].add(target["doc_id"])
    canonical: dict[str, str] = {}
    divergent: dict[str, list[str]] = {}
    for query in tables.queries:
        query_id, group = query["query_id"], query.get("group")
        if group is not None and docs[canonical.setdefault(group, query_id)] != docs[query_id]:
            divergent.setdefault(group, []).append(query_id)
    for group, members in sorted(divergent.items()):
        problems.add(
            f"{', '.join(sorted(members))} of group {group!r} expect other documents than"
            f" {canonical[group]}",
            line=tables.lines[members[0]],
            field="group",
            allowed="one set of expected_doc_ids per group",
        )


def check_catalogue(targets: pd.DataFrame, catalogue: pd.DataFrame, problems: Problems) -> None:
    """Report expected ids that the catalogue lacks, of each kind that it has, in one problem."""
    check_type(catalogue, pd.DataFrame, "catalogue")
    fields, found = [], []
    for level, what in (("doc", "document"), ("chunk", "chunk")):
        name, column = ID_FIELDS[level]
        if column in catalogue and column in targets:
            expected = targets.loc[targets["level"] == level, column]
            is_known = is_among(expected, catalogue[column].dropna().astype("str"))
            if unknown := sorted(set(expected[~is_known])):
                fields.append(name)
                plural = "s" if len(unknown) > 1 else ""
                found.append(f"{len(unknown)} {what}{plural} ({', '.join(unknown)})")
    if found:
        problems.add(
            f"not in the catalogue: {', '.join(found)}",
            field=", ".join(fields),
            allowed="ids of the catalogue",
        )


def _plain(value: Any) -> Any:
    """Return a user's own field: a scalar as a plain Python value, anything nested as JSON text."""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    if is_int(value):
        return int(value)
    for plain in (float, str):  # YAML values are subclasses that remember their spelling
        if isinstance(value, plain):
            return plain(value)
    return value


def _unique(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return list({tuple(record.values()): record for record in records}.values())


def _text(row: Row, name: str, problems: Problems) -> str | None:
    return text(row.values.get(name), name, row.line_of(name), problems, "text (quote a yes/no)")


def _texts(row: Row, name: str, problems: Problems) -> list[str]:
    value = row.values.get(name)
    if value is None:
        return []
    texts = [as_text(item) for item in value] if isinstance(value, list) else [None]
    if None in texts:
        problems.reject(value, row.line_of(name), name, "a list of texts (quote a yes/no)")
    return [item for item in texts if item is not None]


def _boolean(row: Row, name: str, problems: Problems) -> bool | None:
    return flag(row.values.get(name), name, row.line_of(name), problems, "true or false")
