"""Rows of our golden file -> `Golden`.

In: rows with the fields below, all but `id` and `query` optional. Out: queries, targets, tags,
checks, support_groups and conditions. The tables of fields serve golden_write.py, too.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, check_type, from_records
from ragscore.frames.kinds import IMPORTANCE, LABELS
from ragscore.io.columns import ANSWERABLE
from ragscore.io.files import read_text
from ragscore.io.golden_read import (
    ID_FIELDS,
    pop_support_extras,
    support_groups,
    targets_of,
    with_levels,
)
from ragscore.io.source import Problems, Row, as_id, as_text, describe, json_rows
from ragscore.io.values import FieldReader, as_json

TEXT_FIELDS = (*LABELS, "reference_answer")
TAG_FIELDS = {"tags": "tag", "vaults": "vault", "folders": "folder"}
CHECK_FIELDS = {
    "must_contain": "must_contain", "forbidden": "forbidden", "expected_key_facts": "key_fact",
    "expected_substrings": "expected_substring",
    "must_not_contain_source_keys": "forbidden_source_key", "accepted_answers": "accepted_answer",
}  # fmt: skip
CHECK_FLAGS = ("expected_empty", "recency_rule", "product")
"""Kinds of checks of which a query has one."""
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
    golden = golden_of(file_rows(path, problems), problems, absent_docs, catalogue)
    problems.typos.warn()
    return golden


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
    repeated = []
    refuse = partial(problems.add, field="id", allowed="ids must be unique")
    for row in map(_with_id, rows):
        query_id, line = as_id(row.values.get("id")), row.line_of("id")
        if query_id is None:
            allowed = "text, quoted where YAML reads a date or a yes/no"
            problems.add(_found(row, "id"), line=line, field="id", allowed=allowed)
        elif query_id in first:
            told = f"{query_id} (first on line {first[query_id]})"
            if not problems.strict:
                refuse(f"appears more than once: {told}", line=line)
            repeated.append((told, line))
        elif parts := read_row(row, query_id, problems, absent_docs):
            first[query_id] = line
            for name in FRAMES:
                records[name] += parts[name]
    if problems.strict and repeated:  # one error names all
        names = ", ".join(dict.fromkeys(name for name, _ in sorted(repeated)))
        refuse(f"appear more than once: {names}", line=max(line for _, line in repeated))
    for number, query in enumerate(records["queries"]):
        query["position"] = number
    records["targets"] = with_levels(records["targets"])
    frames = {name: from_records(records[name], name) for name in FRAMES}
    queries = frames["queries"]
    _check_groups(queries, frames["targets"], first, problems)
    if catalogue is not None:
        check_catalogue(frames["targets"], catalogue, problems)
    # A column without any value is one, too: what is asked `by` it is all in one slice.
    for name in [name for row in rows for name, value in row.values.items() if value is None]:
        own = name if name in LABELS else f"x_{name}"
        if own not in queries and (own in LABELS or name not in KNOWN_FIELDS):
            queries[own] = pd.Series(pd.NA, queries.index, dtype="str")
    return Golden(**frames, _problems=problems.frame())


def _with_id(row: Row) -> Row:
    """Return a row whose `query_id`, as run files call it, is its id."""
    if "id" in row.values or "query_id" not in row.values:
        return row
    renamed = {"id" if name == "query_id" else name: one for name, one in row.values.items()}
    return Row(renamed, row.line, row.lines | {"id": row.line_of("query_id")})


def _found(row: Row, name: str) -> str:
    """Return what stands in a required field, for a message."""
    return f"found {describe(row.values[name])}" if name in row.values else "the field is missing"


def read_row(
    row: Row, query_id: str, problems: Problems, absent_docs: str = "unlabelled"
) -> Records | None:
    """Return the rows of each frame that one query has; None, and a problem, without a text."""
    values = row.values
    fields = FieldReader(values, "", row.line, problems, lines=row.lines)
    query = as_text(fields.pop("query"))
    if query is None:
        problems.add(_found(row, "query"), line=row.line_of("query"), field="query", allowed="text")
        return None
    problems.typos.check(values, KNOWN_FIELDS, row.line)
    targets = targets_of(fields, query_id)
    record: dict[str, Any] = pop_support_extras(targets) | {"query_id": query_id, "query": query}
    metadata = fields.shaped("a mapping", ("expected_metadata",), dict)
    checks = _checks(fields)
    parts = {
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
    record |= {name: one for name in TEXT_FIELDS if (one := fields.text(name)) is not None}
    own = {name: one for name, one in fields.values.items() if name not in KNOWN_FIELDS}
    record |= {f"x_{name}": _plain(one) for name, one in own.items() if one is not None}
    unique = {
        name: {tuple(one.items()): {"query_id": query_id} | one for one in rows}
        for name, rows in parts.items()
    }
    return {"queries": [record]} | {name: [*rows.values()] for name, rows in unique.items()}


def _checks(fields: FieldReader) -> list[dict[str, Any]]:
    """Take the fields that tell how an answer is checked; return one row per text or flag."""
    checks: list[dict[str, Any]] = []
    for name, kind in CHECK_FIELDS.items():
        listed = fields.values.get(name) if kind == "key_fact" else None
        if isinstance(listed, list) and any(isinstance(one, dict) for one in listed):
            checks += [{"kind": kind} | one for one in _facts(fields, name)]
        else:
            checks += [{"kind": kind, "text": one} for one in fields.text_list(name)]
    flags = {
        "expected_empty": "true" if fields.flag("expected_empty") else None,
        "recency_rule": fields.text("recency_conflict_rule"),
        # `filter_hits` drops hits whose text lacks the product
        "product": fields.inner(fields.values.get("filters"), "filters").text("product"),
    }
    return checks + [{"kind": kind, "text": text} for kind, text in flags.items() if text]


FACTS_ALLOWED = "a list of texts, or of mappings {text, importance: vital or okay, weight: number}"


def _facts(fields: FieldReader, name: str) -> list[dict[str, Any]]:
    """Return key facts as texts with what is known of each."""
    found = []
    for one in fields.pop(name):
        reader = fields.inner(one if isinstance(one, dict) else {"text": one}, name)
        fact = {"text": reader.text("text"), "importance": reader.text("importance")}
        fact["weight"] = reader.number("weight")
        is_known = fact["importance"] in (None, *IMPORTANCE) and not reader.values
        if fact["text"] is None or not is_known:
            fields.reject(one, name, FACTS_ALLOWED)
        else:
            found.append({key: value for key, value in fact.items() if value is not None})
    return found


def _answerable(
    row: Row,
    fields: FieldReader,
    targets: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    absent_docs: str,
) -> bool | None:
    """Return what a row states about being answerable, else what its expectations imply."""
    values, kinds = row.values, {check["kind"] for check in checks}
    stated = {
        name: says == is_same
        for name, is_same in ANSWERABLE.items()
        if (says := fields.flag(name)) is not None
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
    if not targets and isinstance(values.get("expected_doc_ids"), (list, dict)):
        return False
    is_checked = kinds & {"must_contain", "key_fact", "expected_substring", "accepted_answer"}
    return True if is_checked or values.get("reference_answer") else None


def _check_groups(
    queries: pd.DataFrame, targets: pd.DataFrame, lines: dict[str, int], problems: Problems
) -> None:
    """Report paraphrases of one group that expect different documents."""
    if "group" not in queries:
        return
    docs = targets[targets["level"] == "doc"]
    ids: Any = docs["doc_id"].groupby(docs["query_id"]).agg(frozenset) if len(docs) else {}
    grouped = queries.dropna(subset="group")
    first = grouped.groupby("group")["query_id"].transform("first")
    differs = [
        ids.get(one, frozenset()) != ids.get(other, frozenset())
        for one, other in zip(grouped["query_id"], first, strict=True)
    ]
    for group, members in grouped[differs].groupby("group")["query_id"]:
        problems.add(
            f"{', '.join(sorted(members))} of group {group!r} expect other documents than"
            f" {first[members.index[0]]}",
            line=lines[members.iloc[0]],
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
        return as_json(value)
    # YAML values are subclasses that remember their spelling
    kind = next((one for one in (bool, int, float, str) if isinstance(value, one)), None)
    return value if kind is None else kind(value)
