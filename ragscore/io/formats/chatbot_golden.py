"""A chatbot's golden cases, `eval_set.jsonl` -> `Golden`, and back.

The cases have the fields of our own golden file under other names, with anchors (`gold_supports`)
as their only targets.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import Golden, records_of
from ragscore.io.golden_read import golden_of
from ragscore.io.output import by_query, write_lines
from ragscore.io.source import Problems, Row, describe, json_rows
from ragscore.io.targets import SUPPORT_EXTRAS
from ragscore.io.values import flatten, unflatten, unify_types

FIELDS = (
    "id", "answerable", "expected_key_facts", "gold_supports", "required_support_groups",
    "recency_conflict_rule", "tags", "vaults", "folders", "category",
    "difficulty",
)  # fmt: skip
SUPPORT_FIELDS = ("rel_path", "heading_path", "snippets", "date")
RULES = ("cite_newer", "acknowledge_both", "cite_both")
UNKNOWN = "unknown:"  # how the reader of groups names a support that is not there
# own fields under this name hold what the frames can't tell: an empty list from none, unknown
# fields of supports
LEFT = "left"


def read_chatbot_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read and check one file of cases.

    A case that doesn't say so is answerable, and ids must be unique.
    """
    problems = Problems(path, strict)
    rows = list(json_rows(path, problems))
    own = unify_types([flatten(_leftover(row.values)) for row in rows])
    cases = [_case(row, left, problems) for row, left in zip(rows, own, strict=True)]
    golden = golden_of(cases, problems, absent_docs, catalogue)
    problems.typos.warn(stacklevel=3)
    # own fields hold them here
    return replace(golden, queries=golden.queries.drop(columns=SUPPORT_EXTRAS, errors="ignore"))


def _case(row: Row, own: dict[str, Any], problems: Problems) -> Row:
    """The row in the words of our own golden file."""
    values = {name: row.values[name] for name in FIELDS if name in row.values}
    rule = values.get("recency_conflict_rule")
    if rule is not None and rule not in RULES:
        problems.add(
            f"found {describe(rule)}",
            line=row.line,
            field="recency_conflict_rule",
            allowed=f"one of {', '.join(RULES)}, or null",
        )
        values["recency_conflict_rule"] = None
    if values.get("answerable") is None:
        values["answerable"] = True
    if "question" in row.values:
        values["query"] = row.values["question"]
    return Row(
        values | {name.removeprefix("x_"): value for name, value in own.items()},
        row.line,
        row.lines,
    )


def _leftover(values: dict[str, Any]) -> dict[str, Any]:
    """What has no place in the frames, to be given back on writing."""
    own = {name: value for name, value in values.items() if name not in (*FIELDS, "question", LEFT)}
    supports, groups = values.get("gold_supports"), values.get("required_support_groups")
    listed = supports if isinstance(supports, list) else []
    left: dict[str, Any] = {
        "supports": [_unknown(support) for support in listed if isinstance(support, dict)]
    }
    left = left if any(left["supports"]) else {}
    if isinstance(groups, list) and not all(groups):
        left["groups"] = groups
    elif groups == []:
        left["groups"] = []
    return own | ({LEFT: left} if left else {})


def _unknown(support: dict[str, Any]) -> dict[str, Any]:
    own = {name: value for name, value in support.items() if name not in SUPPORT_FIELDS}
    return own | ({"snippets": []} if support.get("snippets") == [] else {})


def write_chatbot_golden(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as a chatbot's `eval_set.jsonl`.

    A set that was loaded from such a file gives the same objects again, unknown fields included;
    each case has every field that the format requires, null or an empty list where it has none.
    Only targets with a path (anchors) have a place there.

    Returns
    -------
    The file's path.
    """
    supports, groups = (
        by_query(golden.targets[golden.targets["level"] == "anchor"]),
        by_query(golden.support_groups),
    )
    checks, tags = by_query(golden.checks), by_query(golden.tags)
    lines = []
    for query in records_of(golden.queries):
        query_id = query["query_id"]
        parts = [rows.get(query_id, []) for rows in (supports, groups, checks, tags)]
        lines.append(_written(query, *parts))
    return write_lines(path, lines)


def _written(
    query: dict[str, Any],
    targets: list[dict[str, Any]],
    groups: list[dict[str, Any]],
    checks: list[dict[str, Any]],
    tags: list[dict[str, Any]],
) -> dict[str, Any]:
    own = unflatten(
        {
            name: value
            for name, value in query.items()
            if name.startswith("x_") and value is not None
        }
    )
    left = own.pop(LEFT, {})
    names = list(dict.fromkeys(target["target_id"] for target in targets))
    supports = [
        _support([target for target in targets if target["target_id"] == name]) for name in names
    ]
    for support, more in zip(supports, left.get("supports", []), strict=False):
        support.update(more)
    return {
        "id": query["query_id"], "question": query["query"], "answerable": query["answerable"],
        "expected_key_facts": [check["text"] for check in checks if check["kind"] == "key_fact"],
        "gold_supports": supports,
        "required_support_groups": left.get("groups", _groups(groups, names)),
        "recency_conflict_rule": next((check["text"] for check in checks if check["kind"] == "recency_rule"), None),
        **{name: [tag["value"] for tag in tags if tag["kind"] == kind] for name,
        kind in (("tags", "tag"), ("vaults", "vault"), ("folders", "folder"))},
        "category": query.get("category"), "difficulty": query.get("difficulty"), **own,
    }  # fmt: skip


def _support(alternatives: list[dict[str, Any]]) -> dict[str, Any]:
    first = alternatives[0]
    named = {
        "rel_path": first.get("path"),
        "heading_path": first.get("heading"),
        "date": first.get("date"),
    }
    snippets = [one["snippet"] for one in alternatives if one.get("snippet") is not None]
    return {name: value for name, value in named.items() if value is not None} | (
        {"snippets": snippets} if snippets else {}
    )


def _groups(members: list[dict[str, Any]], names: list[str]) -> list[list[int]] | None:
    """Groups as positions among the supports.

    A position that isn't there comes back as it was written.
    """
    groups: dict[int, list[int]] = {}
    for member in members:
        target_id = member["target_id"]
        position = (
            names.index(target_id) if target_id in names else int(target_id.removeprefix(UNKNOWN))
        )
        groups.setdefault(member["group"], []).append(position)
    return [groups[number] for number in sorted(groups)] or None
