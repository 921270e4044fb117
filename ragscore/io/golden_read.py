"""Our golden file (YAML list or JSON lines) -> `Golden`.

A superset of the list of questions that kebab reads.

`satisfied_by` of a golden row.

For each expectation, whether any or all hits, and any or all of its values, are needed.

`{"expected_metadata": {"hits": "all", "values": "any"}}` <-> rows of `checks`, one for each choice
that is stated.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, from_records
from ragscore.frames.kinds import AXES, CHOICE_KINDS, CHOICES, EXPECTATIONS
from ragscore.io.rows import yaml_rows
from ragscore.io.source import Problems, Row, as_id, as_text, describe, json_rows
from ragscore.io.targets import pop_support_extras, support_groups, targets_of
from ragscore.io.values import flag, is_int, text

SATISFIED_BY = "satisfied_by"


def choices_of(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    """The choices that a row states, as checks; what is none is a problem."""
    written, line = row.values.get(SATISFIED_BY), row.line_of(SATISFIED_BY)
    if written is None:
        return []
    if not isinstance(written, dict):
        problems.add(
            f"found {describe(written)}",
            line=line,
            field=SATISFIED_BY,
            allowed=f"a mapping of {', '.join(EXPECTATIONS)}",
        )
        return []
    found: list[dict[str, Any]] = []
    for name, choices in written.items():
        if name not in EXPECTATIONS:
            problems.add(
                f"found {describe(name)}",
                line=line,
                field=SATISFIED_BY,
                allowed=f"one of {', '.join(EXPECTATIONS)}",
            )
        elif not isinstance(choices, dict):
            problems.add(
                f"found {describe(choices)}",
                line=line,
                field=f"{SATISFIED_BY}.{name}",
                allowed=f"a mapping of {', '.join(AXES)}",
            )
        else:
            found += _stated(name, choices, query_id, line, problems)
    return found


def _stated(
    name: str, choices: dict[str, Any], query_id: str, line: int, problems: Problems
) -> Iterable[dict[str, Any]]:
    for axis, choice in choices.items():
        if axis not in AXES:
            problems.add(
                f"found {describe(axis)}",
                line=line,
                field=f"{SATISFIED_BY}.{name}",
                allowed=f"one of {', '.join(AXES)}",
            )
        elif choice not in CHOICES:
            problems.add(
                f"found {describe(choice)}",
                line=line,
                field=f"{SATISFIED_BY}.{name}.{axis}",
                allowed=f"one of {', '.join(CHOICES)}",
            )
        else:
            yield {"query_id": query_id, "kind": f"{name}.{axis}", "text": choice}


def written_choices(kinds: Iterable[str], texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """The field as it stood, from kinds and texts of a question's checks.

    Empty where nothing was stated.
    """
    found: dict[str, dict[str, str]] = {}
    for kind, choice in zip(kinds, texts, strict=True):
        if kind in CHOICE_KINDS:
            name, axis = CHOICE_KINDS[kind]
            found.setdefault(name, {})[axis] = choice
    return found


TEXT_FIELDS = ("lang", "difficulty", "category", "group", "variant", "reference_answer")
TAG_FIELDS = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECK_FIELDS = {
    "must_contain": "must_contain", "forbidden": "forbidden", "expected_key_facts": "key_fact",
    "expected_substrings": "expected_substring",
    "must_not_contain_source_keys": "forbidden_source_key",
}  # fmt: skip
OTHER_FIELDS = (
    "id", "query", "answerable", "expected_doc_ids", "expected_chunk_ids", "chunker_version",
    "gold_supports", "required_support_groups", "expected_source_keys",
    "expected_metadata", "expected_empty", "recency_conflict_rule", SATISFIED_BY,
)  # fmt: skip
KNOWN_FIELDS = frozenset((*TEXT_FIELDS, *TAG_FIELDS, *CHECK_FIELDS, *OTHER_FIELDS))


@dataclass
class Tables:
    """Records of each frame while a file is read, and the line of each question."""

    queries: list[dict[str, Any]] = field(default_factory=list)
    targets: list[dict[str, Any]] = field(default_factory=list)
    tags: list[dict[str, Any]] = field(default_factory=list)
    checks: list[dict[str, Any]] = field(default_factory=list)
    support_groups: list[dict[str, Any]] = field(default_factory=list)
    conditions: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def read_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one golden file; `ragscore.load_golden` documents the arguments."""
    problems = Problems(path, strict)
    is_yaml = path.name.removesuffix(".gz").endswith((".yaml", ".yml"))
    rows = list(yaml_rows(path, problems) if is_yaml else json_rows(path, problems))
    golden = golden_of(rows, problems, absent_docs, catalogue)
    problems.typos.warn()
    return golden


def golden_of(
    rows: list[Row], problems: Problems, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """A golden set from rows that have our fields, with the checks that span rows."""
    tables, ids = Tables(), _ids(rows, problems)
    for row, query_id in zip(rows, ids, strict=True):
        if query_id is not None:
            read_row(row, query_id, tables, problems, absent_docs)
    _check_groups(tables, problems)
    if catalogue is not None:
        check_catalogue(tables.targets, catalogue, problems)
    names = ("queries", "targets", "tags", "checks", "support_groups", "conditions")
    return Golden(
        **{name: from_records(getattr(tables, name), name) for name in names},
        problems=problems.frame(),
    )


def _ids(rows: list[Row], problems: Problems) -> list[str | None]:
    """The id of each row; None for rows that can't be taken (no id, or one that came before)."""
    ids = [as_id(row.values.get("id")) for row in rows]
    for row, query_id in zip(rows, ids, strict=True):
        if query_id is None:
            found = (
                f"found {describe(row.values['id'])}"
                if "id" in row.values
                else "the field is missing"
            )
            problems.add(
                found,
                line=row.line_of("id"),
                field="id",
                allowed="text, quoted where YAML reads a date or a yes/no",
            )
    lines: dict[str, list[int]] = {}
    for row, query_id in zip(rows, ids, strict=True):
        if query_id is not None:
            lines.setdefault(query_id, []).append(row.line_of("id"))
    twice = {query_id: where for query_id, where in sorted(lines.items()) if len(where) > 1}
    if not twice:
        return ids
    found = ", ".join(f"{query_id} (first on line {where[0]})" for query_id, where in twice.items())
    problems.add(
        f"appear more than once: {found}",
        line=max(where[-1] for where in twice.values()),
        field="id",
        allowed="ids must be unique",
    )
    seen: set[str | None] = set()
    return [None if query_id in seen or seen.add(query_id) else query_id for query_id in ids]  # type: ignore[func-returns-value]


def read_row(row: Row, query_id: str, tables: Tables, problems: Problems, absent_docs: str) -> None:
    """Add one question to the tables; one without text is a problem."""
    values = row.values
    query = as_text(values.get("query"))
    if query is None:
        found = (
            f"found {describe(values['query'])}" if "query" in values else "the field is missing"
        )
        problems.add(found, line=row.line_of("query"), field="query", allowed="text")
        return
    problems.typos.check(values, KNOWN_FIELDS, row.line)
    targets = list(targets_of(row, query_id, problems))
    left = pop_support_extras(targets)
    tables.targets += targets
    checks = [
        {"query_id": query_id, "kind": kind, "text": text}
        for name, kind in CHECK_FIELDS.items()
        for text in _texts(row, name, problems)
    ]
    if _boolean(row, "expected_empty", problems):
        checks.append({"query_id": query_id, "kind": "expected_empty", "text": "true"})
    if rule := _text(row, "recency_conflict_rule", problems):
        checks.append({"query_id": query_id, "kind": "recency_rule", "text": rule})
    checks += product_check(row, query_id, problems) + choices_of(row, query_id, problems)
    tables.checks += _unique(checks)
    tables.tags += _unique(
        [
            {"query_id": query_id, "kind": kind, "value": text}
            for name, kind in TAG_FIELDS.items()
            for text in _texts(row, name, problems)
        ]
    )
    tables.support_groups += _unique(list(support_groups(row, query_id, targets, problems)))
    tables.conditions += _conditions(row, query_id, problems)
    tables.lines[query_id] = row.line
    record: dict[str, Any] = left | {
        "query_id": query_id,
        "query": query,
        "answerable": _answerable(row, targets, checks, problems, absent_docs),
    }
    record["position"] = len(tables.queries)
    record |= {
        name: text for name in TEXT_FIELDS if (text := _text(row, name, problems)) is not None
    }
    record |= {
        f"x_{name}": _plain(value)
        for name, value in values.items()
        if name not in KNOWN_FIELDS and value is not None
    }
    tables.queries.append(record)


def product_check(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    """The product that `filters` names.

    Hits whose text doesn't hold it are what `filter_hits` drops.
    """
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
    stated = _boolean(row, "answerable", problems)
    if stated is not None:
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


def _conditions(row: Row, query_id: str, problems: Problems) -> list[dict[str, Any]]:
    wanted = row.values.get("expected_metadata")
    if wanted is None:
        return []
    if not isinstance(wanted, dict):
        problems.add(
            f"found {describe(wanted)}",
            line=row.line_of("expected_metadata"),
            field="expected_metadata",
            allowed="a mapping",
        )
        return []
    return [
        {
            "query_id": query_id,
            "target_id": "metadata",
            "key": key,
            "value": json.dumps(value, ensure_ascii=False, sort_keys=True),
        }
        for key, value in wanted.items()
    ]


def _check_groups(tables: Tables, problems: Problems) -> None:
    """All paraphrases of one group must expect the same documents."""
    docs: dict[str, set[str]] = {query["query_id"]: set() for query in tables.queries}
    for target in tables.targets:
        if target["level"] == "doc":
            docs[target["query_id"]].add(target["doc_id"])
    canonical: dict[str, str] = {}
    divergent: dict[str, list[str]] = {}
    for query in tables.queries:
        group = query.get("group")
        if (
            group is not None
            and docs[canonical.setdefault(group, query["query_id"])] != docs[query["query_id"]]
        ):
            divergent.setdefault(group, []).append(query["query_id"])
    for group, members in sorted(divergent.items()):
        found = (
            f"{', '.join(sorted(members))} of group {group!r} expect other documents than"
            f" {canonical[group]}"
        )
        problems.add(
            found,
            line=tables.lines[members[0]],
            field="group",
            allowed="one set of expected_doc_ids per group",
        )


def check_catalogue(
    targets: list[dict[str, Any]], catalogue: pd.DataFrame, problems: Problems
) -> None:
    """Every expected id must be in the catalogue, as far as it has that kind of id."""
    for level, column, name in (
        ("doc", "doc_id", "expected_doc_ids"),
        ("chunk", "chunk_id", "expected_chunk_ids"),
    ):
        if column in catalogue.columns:
            expected = {target[column] for target in targets if target["level"] == level}
            unknown = sorted(expected - set(catalogue[column].dropna()))
            if unknown:
                problems.add(
                    f"{len(unknown)} ids are not in the catalogue: {', '.join(unknown)}", field=name
                )


def _plain(value: Any) -> Any:
    """A user's own field: scalars as they are, anything nested as JSON text."""
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return (
        int(value)
        if is_int(value)
        else (
            float(value)
            if isinstance(value, float)
            else str(value)
            if isinstance(value, str)
            else value
        )
    )


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
        problems.add(
            f"found {describe(value)}",
            line=row.line_of(name),
            field=name,
            allowed="a list of texts (quote a yes/no)",
        )
    return [one for one in texts if one is not None]


def _boolean(row: Row, name: str, problems: Problems) -> bool | None:
    return flag(row.values.get(name), name, row.line_of(name), problems, "true or false")
