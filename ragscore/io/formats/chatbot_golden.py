"""A chatbot's golden cases, `eval_set.jsonl` <-> `Golden`.

The cases have fields of our own golden file, some under other names. Anchors (`gold_supports`) are
their only targets.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, records_of
from ragscore.frames.errors import warn
from ragscore.io.golden_read import TAG_FIELDS, golden_of
from ragscore.io.output import by_query, write_lines
from ragscore.io.source import Problems, Row, json_rows
from ragscore.io.targets import SUPPORT_EXTRAS
from ragscore.io.values import extra_fields, flatten, unify_types

SAME_FIELDS = (
    "id", "answerable", "expected_key_facts", "gold_supports", "required_support_groups",
    "recency_conflict_rule", *TAG_FIELDS, "category", "difficulty",
)  # fmt: skip
"""Fields that our own golden file has under the same name; only `question` is `query` there."""
SUPPORT_FIELDS = {"rel_path": "path", "heading_path": "heading", "date": "date"}
RULES = ("cite_newer", "acknowledge_both", "cite_both")
# The golden reader gives this name to a group member that no support has.
UNKNOWN_SUPPORT = re.compile(r"unknown:(-?\d+)")
# The own field for what the frames can't hold: empty lists, and unknown fields of supports.
LEFT = "left"


def read_chatbot_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one file of cases.

    Ids must be unique. A case without `answerable` is answerable.
    """
    problems = Problems(path, strict)
    rows = list(json_rows(path, problems))
    own = unify_types([flatten(_leftover(row.values)) for row in rows])
    cases = [_golden_row(row, left, problems) for row, left in zip(rows, own, strict=True)]
    golden = golden_of(cases, problems, absent_docs, catalogue)
    problems.typos.warn()
    # LEFT already holds the unknown fields of supports.
    return replace(golden, queries=golden.queries.drop(columns=SUPPORT_EXTRAS, errors="ignore"))


def _golden_row(row: Row, own: dict[str, Any], problems: Problems) -> Row:
    """Return a case as a row of our own golden file."""
    values = {name: row.values[name] for name in SAME_FIELDS if name in row.values}
    rule = values.get("recency_conflict_rule")
    if rule is not None and rule not in RULES:
        problems.reject(
            rule, row.line, "recency_conflict_rule", f"one of {', '.join(RULES)}, or null"
        )
        values["recency_conflict_rule"] = None
    if values.get("answerable") is None:
        values["answerable"] = True
    if "question" in row.values:
        values["query"] = row.values["question"]
    values |= {name.removeprefix("x_"): value for name, value in own.items()}
    return Row(values, row.line, row.lines)


def _leftover(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a case that no frame has a place for, to write them back."""
    known = {*SAME_FIELDS, "question", LEFT}
    own = {name: value for name, value in values.items() if name not in known}
    supports, groups = values.get("gold_supports"), values.get("required_support_groups")
    of_supports = [
        {
            name: value
            for name, value in support.items()
            if name not in (*SUPPORT_FIELDS, "snippets") or (name == "snippets" and value == [])
        }
        for support in (supports if isinstance(supports, list) else [])
        if isinstance(support, dict)
    ]
    left: dict[str, Any] = {"supports": of_supports} if any(of_supports) else {}
    if isinstance(groups, list) and (not groups or not all(groups)):
        left["groups"] = groups
    return own | ({LEFT: left} if left else {})


def write_chatbot_golden(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as a chatbot's `eval_set.jsonl`.

    A set that was loaded from such a file is written with the same objects again, unknown fields
    included. Each case has every field that the format requires: null or an empty list where the
    set has nothing. Only targets with a path (anchors) have a place there.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        A support group names a target that is no anchor.
    """
    anchors = golden.targets[golden.targets["level"] == "anchor"]
    frames = (anchors, golden.support_groups, golden.checks, golden.tags)
    rows = [by_query(frame) for frame in frames]
    written = write_lines(
        path,
        [
            _case(query, *(of_query.get(query["query_id"], []) for of_query in rows))
            for query in records_of(golden.queries)
        ],
    )
    if n := len(golden.targets) - len(anchors):
        warn(f"{path} has no place for targets: {n:,}")
    return written


def _case(
    query: dict[str, Any],
    anchors: list[dict[str, Any]],
    groups: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    tags: list[dict[str, Any]],
) -> dict[str, Any]:
    own = extra_fields({name: value for name, value in query.items() if value is not None})
    left = own.pop(LEFT, {})
    alternatives: dict[str, list[dict[str, Any]]] = {}
    for anchor in anchors:
        alternatives.setdefault(anchor["target_id"], []).append(anchor)
    supports = [_support(of_target) for of_target in alternatives.values()]
    for support, more in zip(supports, left.get("supports", []), strict=False):
        support.update(more)
    if "groups" not in left:
        left["groups"] = _groups(groups, list(alternatives), query["query_id"])
    texts: dict[str, list[str]] = {"key_fact": [], "recency_rule": []}
    for check in checks:
        texts.setdefault(check["kind"], []).append(check["text"])
    return {
        "id": query["query_id"],
        "question": query["query"],
        "answerable": query["answerable"],
        "expected_key_facts": texts["key_fact"],
        "gold_supports": supports,
        "required_support_groups": left["groups"],
        "recency_conflict_rule": next(iter(texts["recency_rule"]), None),
        **{
            name: [tag["value"] for tag in tags if tag["kind"] == kind]
            for name, kind in TAG_FIELDS.items()
        },
        "category": query.get("category"),
        "difficulty": query.get("difficulty"),
        **own,
    }


def _support(alternatives: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one support: alternatives of an anchor differ in their snippet only."""
    support = {
        name: alternatives[0][column]
        for name, column in SUPPORT_FIELDS.items()
        if column in alternatives[0]
    }
    snippets = [anchor["snippet"] for anchor in alternatives if "snippet" in anchor]
    return support | ({"snippets": snippets} if snippets else {})


def _groups(
    members: list[dict[str, Any]], names: list[str], query_id: str
) -> list[list[int]] | None:
    """Return the groups as positions among the supports; unknown positions as they were read."""
    groups: dict[int, list[int]] = {}
    for member in members:
        target_id = member["target_id"]
        unknown = UNKNOWN_SUPPORT.fullmatch(target_id)
        if target_id in names:
            position = names.index(target_id)
        elif unknown:
            position = int(unknown[1])
        else:
            raise DataError(
                f"{target_id!r} in group {member['group']} of query {query_id!r} is no anchor",
                field="support_groups.target_id",
                allowed="anchors (targets with a path): groups are positions in gold_supports",
            )
        groups.setdefault(member["group"], []).append(position)
    return [groups[number] for number in sorted(groups)] or None
