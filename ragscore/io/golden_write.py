"""`Golden` -> our golden file, the inverse of golden_file.py and golden_read.py.

Its rows say `answerable` where their expectations don't imply it.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import plural, warn
from ragscore.frames.kinds import LABELS
from ragscore.io.golden_read import (
    CHECK_FIELDS,
    FIELD_ORDER,
    FRAMES,
    KNOWN_FIELDS,
    TAG_FIELDS,
    TEXT_FIELDS,
    golden_of,
)
from ragscore.io.output import by_query, write_lines, write_text
from ragscore.io.source import Problems, Row, YamlDate, YamlFloat, YamlInt
from ragscore.io.targets import (
    ID_FIELDS,
    SUPPORT_COLUMNS,
    SUPPORT_EXTRAS,
    anchor_ids,
    target_names,
)
from ragscore.io.values import as_json, row_dicts

HEADER = """\
# Golden questions: a list of mappings; `id` and `query` are required.
# Should refuse: `answerable: false`, or `expected_doc_ids: []` without any other target.
# A question without any expectation is unlabelled, which is not "should refuse".
"""
_PLACES = {name: place for place, name in enumerate(FIELD_ORDER)}
_ON_ONE_LINE = (*(name for name, _ in ID_FIELDS.values()), "required_support_groups")
_TAG = "tag:yaml.org,2002:"
_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
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
        Ends in .yaml, .yml or .jsonl, or in one of these and .gz; folders are created.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        Another suffix; an unlabelled question with relevant documents or other expectations.

    Warns
    -----
    UserWarning
        Counts what the file has no place for, such as spans of expected chunks, which came from
        `Golden.resolve_spans`: resolve them again.
    """
    name = Path(path).name.removesuffix(".gz")
    if not name.endswith((".yaml", ".yml", ".jsonl")):
        raise DataError(
            f"found {name!r}",
            field="path",
            allowed="a file that ends in .yaml, .yml or .jsonl (and perhaps .gz)",
        )
    rows = _with_answerable(golden, _rows(golden), path)
    targets = golden.targets
    starts = targets.loc[targets["level"] == "chunk"].get("start", pd.Series(dtype="Int64"))
    if n := int(starts.notna().sum()):
        warn(f"{path} has no place for the spans of {plural(n, 'chunk')}: resolve them again")
    if name.endswith(".jsonl"):
        return write_lines(path, rows)
    return write_text(path, HEADER + yaml_text(rows))


class _Entry(dict[str, Any]):
    """A query's mapping, which gets lines of its own however short it is."""


class _Line(list[Any]):
    """A list of ids or of groups, which stays on one line."""


class _Dumper(_DUMPER):  # type: ignore[misc, valid-type]
    """Writes one query per block, without folded lines or anchors, so that a diff stays small.

    Numbers and dates that were read from YAML keep their spelling.
    """

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Entry, lambda dumper, row: dumper.represent_mapping(f"{_TAG}map", row.items(), False)
)
_Dumper.add_representer(
    _Line, lambda dumper, items: dumper.represent_sequence(f"{_TAG}seq", items, True)
)
_Dumper.add_representer(
    YamlInt, lambda dumper, number: dumper.represent_scalar(f"{_TAG}int", number.text)
)
_Dumper.add_representer(
    YamlFloat, lambda dumper, number: dumper.represent_scalar(f"{_TAG}float", number.text)
)
_Dumper.add_representer(
    YamlDate, lambda dumper, date: dumper.represent_scalar(f"{_TAG}timestamp", str(date))
)


def yaml_text(rows: Rows) -> str:
    """Return rows as a YAML list with short values on one line."""
    entries = [
        _Entry(
            {
                name: _Line(value) if name in _ON_ONE_LINE and isinstance(value, list) else value
                for name, value in row.items()
            }
        )
        for row in rows
    ]
    return _dump(entries, flow=None)


def flow_text(value: Any) -> str:
    """Return a value as YAML on one line, in braces and brackets."""
    return _dump([value], flow=True).strip()[1:-1]


def _dump(value: Any, flow: bool | None) -> str:
    try:
        return str(
            yaml.dump(
                value,
                Dumper=_Dumper,
                sort_keys=False,
                allow_unicode=True,
                width=2**31 - 1,
                default_flow_style=flow,
            )
        )
    except yaml.representer.RepresenterError as error:
        raise DataError(
            f"YAML has no place for {error.args[-1]!r}",
            field="queries.x_",
            allowed="text, numbers, true or false",
        ) from error


def _rows(golden: Golden) -> Rows:
    """Return one row per query, without `answerable`."""
    parts = {name: by_query(getattr(golden, name)) for name in FRAMES if name != "queries"}
    rows = [
        row_of(query, {name: groups.get(query["query_id"], []) for name, groups in parts.items()})
        for query in row_dicts(golden.queries)
    ]
    empty = golden.queries.columns[golden.queries.isna().all()]
    for name in empty if rows else []:  # a column without any value is one, too
        if name in LABELS or (name.startswith("x_") and name != SUPPORT_EXTRAS):
            rows[0].setdefault(name.removeprefix("x_"), None)
    return [
        dict(sorted(row.items(), key=lambda field: _PLACES.get(field[0], len(_PLACES))))
        for row in rows
    ]


def row_of(query: dict[str, Any], parts: dict[str, Rows]) -> dict[str, Any]:
    """Return a query as a row of our golden file, without `answerable`."""
    extra = {
        name.removeprefix("x_"): _value(value)
        for name, value in query.items()
        if name.startswith("x_") and name != SUPPORT_EXTRAS
    }
    if taken := sorted(extra.keys() & KNOWN_FIELDS):
        raise DataError(
            f"x_{taken[0]} would be read as {taken[0]}",
            field="queries",
            allowed="a name that no field has",
        )
    row = {"id": query["query_id"], "query": query["query"]}
    row |= {name: query[name] for name in TEXT_FIELDS if name in query}
    targets = {
        level: [target for target in parts["targets"] if target["level"] == level]
        for level in (*ID_FIELDS, "anchor")
    }
    for level, (name, column) in ID_FIELDS.items():
        if targets[level]:
            row[name] = _ids(targets[level], column)
    versions = [target.get("chunker_version") for target in targets["chunk"]]
    if known := [version for version in versions if version is not None]:
        row["chunker_version"] = known[0]
    if targets["anchor"]:
        support_extras = json.loads(query.get(SUPPORT_EXTRAS, "[]"))
        row["gold_supports"] = _supports(targets["anchor"], support_extras)
    if parts["support_groups"]:
        row["required_support_groups"] = _groups(parts["support_groups"], parts["targets"])
    if parts["conditions"]:
        row["expected_metadata"] = {
            condition["key"]: json.loads(condition["value"]) for condition in parts["conditions"]
        }
    row |= _checks(parts["checks"])
    for name, kind in TAG_FIELDS.items():
        if values := [tag["value"] for tag in parts["tags"] if tag["kind"] == kind]:
            row[name] = values
    return row | extra


def _value(value: Any) -> Any:
    """Return a list or mapping where reading it gives the same text again, else the value."""
    if not (isinstance(value, str) and value[:1] in ("[", "{")):
        return value
    try:
        nested = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return nested if as_json(nested) == value else value


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
    items = [
        ([one.get(column) for one in alternatives], _grade(alternatives[0]))
        for alternatives in _by_target(targets)
    ]
    judges = [alternatives[0].get("judged_by") for alternatives in _by_target(targets)]
    is_plain = all(len(ids) == 1 for ids, _ in items) and not any(judges)
    if any(grade != 1 for _, grade in items) and is_plain:
        return {ids[0]: grade for ids, grade in items}
    return [
        {"any": ids, "grade": grade} | ({"judged_by": judge} if judge else {})
        if grade != 1 or judge
        else ids
        if len(ids) > 1
        else ids[0]
        for (ids, grade), judge in zip(items, judges, strict=True)
    ]


def _grade(target: dict[str, Any]) -> float:
    """Return a target's grade as it is written: its gain, if it has one."""
    return target["grade"] if target.get("gain") is None else float(target["gain"])


def _supports(targets: Rows, extras: list[dict[str, Any]]) -> Rows:
    supports = []
    for alternatives in _by_target(targets):
        first = alternatives[0]
        support = {name: first[name] for name in SUPPORT_COLUMNS if name in first}
        if snippets := [one["snippet"] for one in alternatives if "snippet" in one]:
            support["snippets"] = snippets
        if _grade(first) != 1:
            support["grade"] = _grade(first)
        supports.append(support)
    if len(extras) != len(supports):
        return supports
    return [support | extra for support, extra in zip(supports, extras, strict=True)]


def _groups(members: Rows, targets: Rows) -> list[list[Any]]:
    """Return the members of each group: anchors by position, other targets by name."""
    anchors = anchor_ids(targets)
    names = target_names(targets)
    name_of = {target_id: name for name, target_id in names.items()}
    name_of |= {name: name for name, target_id in names.items() if name == target_id}
    groups: list[list[Any]] = [[] for _ in range(1 + max(member["group"] for member in members))]
    for member in members:
        target_id = member["target_id"]
        if target_id in anchors:
            written: Any = anchors.index(target_id)
        else:
            written = name_of.get(target_id, _unknown_member(target_id, len(anchors)))
        groups[member["group"]].append(written)
    return groups


def _unknown_member(target_id: str, n_anchors: int) -> Any:
    """Return a member that names no target as it was written: a name, or a position too high."""
    name = target_id.removeprefix("unknown:")
    is_position = (
        n_anchors
        and name.isascii()
        and name.isdigit()
        and str(int(name)) == name
        and int(name) >= n_anchors
    )
    return int(name) if is_position else name


def _checks(checks: Rows) -> dict[str, Any]:
    texts: dict[str, list[Any]] = {}
    for check in checks:
        about = {name: check[name] for name in ("importance", "weight") if name in check}
        texts.setdefault(check["kind"], []).append(
            {"text": check["text"], **about} if about else check["text"]
        )
    fields: dict[str, Any] = {
        name: texts[kind] for name, kind in CHECK_FIELDS.items() if kind in texts
    }
    if "expected_empty" in texts:
        fields["expected_empty"] = True
    if "recency_rule" in texts:
        fields["recency_conflict_rule"] = texts["recency_rule"][0]
    return fields


def _with_answerable(golden: Golden, rows: Rows, path: str | Path) -> Rows:
    """Add `answerable` where reading a row doesn't imply it.

    Raises
    ------
    DataError
        An unlabelled query whose expectations imply a label.
    """
    read = golden_of(
        [Row(row, number) for number, row in enumerate(rows, 1)],
        Problems(path, strict=True),
        "unlabelled",
        None,
    )
    implied, stated = _answerable(read), _answerable(golden)
    if lost := [query_id for query_id, label in stated.items() if implied[query_id] and not label]:
        raise DataError(
            f"query {lost[0]!r} is unlabelled, and its expectations say more",
            field="golden.queries.answerable",
            allowed="true or false, or no expectations",
        )
    completed = []
    for row in rows:
        label = stated[row["id"]]
        if label != implied[row["id"]]:
            label = {name: bool(value) for name, value in label.items()}
            row = {"id": row["id"], "query": row["query"]} | label | row
        completed.append(row)
    return completed


def _answerable(golden: Golden) -> dict[str, dict[str, Any]]:
    """Return `{"answerable": ...}` per query; an empty mapping where it is unknown."""
    labels = row_dicts(golden.queries[["answerable"]])
    return dict(zip(golden.queries["query_id"], labels, strict=True))
