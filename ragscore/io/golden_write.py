"""`Golden` -> our golden file, the inverse of golden_read.py.

Its rows say `answerable` where their expectations don't imply it.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import name_list, plural, warn
from ragscore.io.files import write_lines, write_text
from ragscore.io.golden_read import (
    CHECK_FIELDS,
    FIELD_ORDER,
    FRAMES,
    ID_FIELDS,
    KNOWN_FIELDS,
    SUPPORT_COLUMNS,
    TAG_FIELDS,
    TEXT_FIELDS,
    golden_of,
)
from ragscore.io.source import Problems, Row
from ragscore.io.values import grouped, nested_of, refuse_taken, row_dicts

HEADER = """\
# Golden questions: a list of mappings; `id` and `query` are required.
# Should refuse: `answerable: false`, or `expected_doc_ids: []` without any other target.
# A question without any expectation is unlabelled, which is not "should refuse".
"""
Rows = list[dict[str, Any]]


def write_golden(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as our golden file: YAML or JSON lines, by the name of the file.

    Loading the file gives the same frames again, in the order of `golden.queries`; fields of your
    own (`x_<name>`) go back under their names. A row has only the keys that say something:
    `answerable` only where the expectations don't imply it. YAML begins with a comment that states
    the should-refuse convention; JSON lines have no comments.

    Parameters
    ----------
    path
        JSON lines where it ends in .jsonl or .jsonl.gz, else YAML; folders are created.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        An unlabelled question with relevant documents or other expectations.

    Warns
    -----
    UserWarning
        Counts what the file has no place for, such as spans of expected chunks, which came from
        `Golden.resolve_spans`: resolve them again.
    """
    rows, _ = golden_rows(golden, path)
    if Path(path).name.removesuffix(".gz").endswith(".jsonl"):
        return write_lines(path, rows)
    from ragscore.io.yaml_text import yaml_text  # YAML is imported where it is used

    return write_text(path, HEADER + yaml_text(rows))


def row_of(query: dict[str, Any], parts: dict[str, Rows]) -> dict[str, Any]:
    """Return a query as a row of our golden file, without `answerable`."""
    targets, checks, tags = parts["targets"], parts["checks"], parts["tags"]
    chunks = [one for one in targets if one["level"] == "chunk" and "chunker_version" in one]
    versions = {one["chunker_version"] for one in chunks}
    if len(versions) > 1:
        raise DataError(
            f"chunks of {query['query_id']} are of {name_list(sorted(versions))}",
            field="chunker_version",
            allowed="one chunker a query; or anchors, which survive another one",
        )
    flags = {check["kind"]: check["text"] for check in checks}
    row: dict[str, Any] = {
        "id": query["query_id"],
        "query": query["query"],
        "chunker_version": next(iter(versions), None),
        "gold_supports": _supports(targets),
        "required_support_groups": _groups(parts["support_groups"], targets),
        "expected_metadata": {one["key"]: json.loads(one["value"]) for one in parts["conditions"]},
        "expected_empty": "expected_empty" in flags or None,
        "recency_conflict_rule": flags.get("recency_rule"),
    }
    row |= {name: query.get(name) for name in TEXT_FIELDS}
    for level, (name, column) in ID_FIELDS.items():
        row[name] = _ids([one for one in targets if one["level"] == level], column)
    for name, kind in CHECK_FIELDS.items():
        row[name] = [_check(one) for one in checks if one["kind"] == kind]
    for name, kind in TAG_FIELDS.items():
        row[name] = [one["value"] for one in tags if one["kind"] == kind]
    said = {name: row[name] for name in FIELD_ORDER if row.get(name) not in (None, [], {})}
    return said | _own(query)


def written_rows(golden: Golden) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each query, and its row of our golden file without `answerable`."""
    refuse_taken(golden.queries, KNOWN_FIELDS, "queries")
    frames = {name: getattr(golden, name) for name in FRAMES if name != "queries"}
    parts = {
        name: grouped(one["query_id"], row_dicts(one.drop(columns="query_id")))
        for name, one in frames.items()
    }
    for query in row_dicts(golden.queries):
        query_id = query["query_id"]
        yield query, row_of(query, {name: of.get(query_id, []) for name, of in parts.items()})


def _check(check: dict[str, Any]) -> Any:
    """Return a check's text, with what else a key fact says."""
    fact = {name: check[name] for name in ("text", "importance", "weight") if name in check}
    return fact if len(fact) > 1 else check["text"]


def _by_target(targets: Rows) -> list[Rows]:
    """Return the alternatives of each target."""
    found: dict[str, Rows] = {target["target_id"]: [] for target in targets}
    for target in sorted(targets, key=lambda target: target["alternative"]):
        found[target["target_id"]].append(target)
    return list(found.values())


def _ids(targets: Rows, column: str) -> Any:
    """Return a mapping id -> grade if that says it all, else a list.

    A mapping needs one id per target and some grade other than 1. A list holds ids, lists of
    alternatives, and {any, grade}.
    """
    found, items = _by_target(targets), list[Any]()
    grades = {one[0].get(column): _grade(one[0]) for one in found}
    is_plain = all(len(one) == 1 and not one[0].get("judged_by") for one in found)
    if is_plain and any(grade != 1 for grade in grades.values()):
        return grades
    for alternatives in found:
        first, ids = alternatives[0], [one.get(column) for one in alternatives]
        said = {"grade": _grade(first), "judged_by": first.get("judged_by")}
        about = {name: one for name, one in said.items() if one not in (None, 1)}
        items.append({"any": ids} | about if about else ids if len(ids) > 1 else ids[0])
    return items


def _grade(target: dict[str, Any]) -> float:
    """Return a target's grade as it is written: its gain, if it has one."""
    return target["grade"] if target.get("gain") is None else float(target["gain"])


def _supports(targets: Rows) -> Rows:
    supports = []
    for alternatives in _by_target([one for one in targets if one["level"] == "anchor"]):
        first = alternatives[0]
        support = {name: first[name] for name in SUPPORT_COLUMNS if name in first}
        support["snippets"] = [one["snippet"] for one in alternatives if "snippet" in one]
        support["grade"] = None if _grade(first) == 1 else _grade(first)
        said = {name: one for name, one in support.items() if one not in (None, [])}
        supports.append(said | _own(first))
    return supports


def _own(row: dict[str, Any]) -> dict[str, Any]:
    """Return a user's own fields under their names; objects and lists are stored as JSON."""
    return {
        name.removeprefix("x_"): nested_of(value) if isinstance(value, str) else value
        for name, value in row.items()
        if name.startswith("x_")
    }


def _groups(members: Rows, targets: Rows) -> list[list[Any]]:
    """Return the members of each group: anchors by position, other targets by name.

    A member that names no target is written as it was: a name, or a position too high.
    """
    anchors = _by_target([one for one in targets if one["level"] == "anchor"])
    places = {one[0]["target_id"]: place for place, one in enumerate(anchors)}
    last = max((member["group"] for member in members), default=-1)
    groups: list[list[Any]] = [[] for _ in range(last + 1)]
    for member in members:
        target_id = member["target_id"]
        name = target_id.removeprefix("unknown:")
        is_place = places and name != target_id and re.fullmatch(r"0|[1-9][0-9]*", name)
        groups[member["group"]].append(int(name) if is_place else places.get(target_id, name))
    return groups


def golden_rows(golden: Golden, path: str | Path) -> tuple[Rows, Golden]:
    """Return a golden set as rows of our file, and as they are read.

    Rows have `answerable` where the other fields don't imply it.

    Raises
    ------
    DataError
        Rows that the file would not give back, such as tags of a kind that no field holds; an
        unlabelled query whose expectations imply a label.

    Warns
    -----
    UserWarning
        Counts chunks with spans, for which a file has no place.
    """
    targets = golden.targets
    starts = targets.loc[targets["level"] == "chunk"].get("start", pd.Series(dtype="Int64"))
    if n := int(starts.notna().sum()):
        warn(f"{path} has no place for the spans of {plural(n, 'chunk')}: resolve them again")
    rows = [row for _, row in written_rows(golden)]
    read = golden_of(
        [Row(row, number) for number, row in enumerate(rows, 1)],
        Problems(path, strict=True),
        "unlabelled",
        None,
    )
    for name in FRAMES:
        n, n_read = len(getattr(golden, name)), len(getattr(read, name))
        if n_read != n:
            raise DataError(
                f"{n - n_read} of {n} rows would not come back",
                field=f"golden.{name}",
                allowed="each row once, and of the kinds that a golden file has",
            )
    labels = golden.queries["answerable"].array
    implied = read.queries["answerable"].array
    if (is_lost := labels.isna() & ~implied.isna()).any():
        raise DataError(
            f"query {golden.queries['query_id'][is_lost].iloc[0]!r} is unlabelled, and its"
            " expectations say more",
            field="golden.queries.answerable",
            allowed="true or false, or no expectations",
        )
    is_said = ((labels != implied) | implied.isna()).fillna(False) & ~labels.isna()
    stated = [
        {"id": row["id"], "query": row["query"], "answerable": bool(label)} | row if said else row
        for row, label, said in zip(rows, labels, is_said, strict=True)
    ]
    return stated, replace(read, queries=read.queries.assign(answerable=labels))
