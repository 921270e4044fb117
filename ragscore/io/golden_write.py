"""`Golden` -> our golden file.

The way back from `golden_file`, which is what says whether a row would come back as it is.
"""

import json
from pathlib import Path
from typing import Any

import yaml

from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import warn
from ragscore.io.golden_read import (
    CHECK_FIELDS,
    KNOWN_FIELDS,
    SATISFIED_BY,
    TAG_FIELDS,
    TEXT_FIELDS,
    golden_of,
    written_choices,
)
from ragscore.io.output import by_query, write_lines, write_text
from ragscore.io.source import Problems, Row, YamlDate, YamlFloat, YamlInt
from ragscore.io.targets import SUPPORT_EXTRAS, target_names
from ragscore.io.values import row_dicts

HEADER = """\
# Golden questions: a list of mappings; `id` and `query` are required.
# Should refuse: `answerable: false`, or `expected_doc_ids: []` without any other target.
# A question without any expectation is unlabelled, which is not "should refuse".
"""
FRAMES = ("queries", "targets", "conditions", "checks", "tags", "support_groups")
_IDS = {
    "doc": ("expected_doc_ids", "doc_id"),
    "chunk": ("expected_chunk_ids", "chunk_id"),
    "source_key": ("expected_source_keys", "source_key"),
}
_FIRST = (
    "id",
    "query",
    "answerable",
    *(name for name, _ in _IDS.values()),
    "chunker_version",
    "gold_supports",
    "required_support_groups",
)
_CHECKED = (
    "expected_metadata",
    "expected_substrings",
    "must_not_contain_source_keys",
    "expected_empty",
    SATISFIED_BY,
    "must_contain",
    "forbidden",
    "expected_key_facts",
)
_ORDER = {
    name: place
    for place, name in enumerate(
        (*_FIRST, *_CHECKED, "recency_conflict_rule", "reference_answer", *TEXT_FIELDS, *TAG_FIELDS)
    )
}
_ALLOWED = (
    "what the fields of a golden file can say (rs.write_predicates and rs.write_chatbot_golden"
    " write the sets of their formats)"
)
_ON_A_LINE = (*(name for name, _ in _IDS.values()), "required_support_groups")
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
        Another suffix; a question that would not come back as it is, such as an unlabelled one with
        relevant documents, targets under names of their own, or tags of other kinds than tag, vault
        and folder.

    Warns
    -----
    UserWarning
        Expected chunks whose spans came from `rs.resolve_spans`: the file holds their ids only.
    """
    name = Path(path).name.removesuffix(".gz")
    if not name.endswith((".yaml", ".yml", ".jsonl")):
        raise DataError(
            f"found {name!r}",
            field="path",
            allowed="a file that ends in .yaml, .yml or .jsonl (and perhaps .gz)",
        )
    rows = _checked(golden, _rows(golden), path)
    if n_spans := (
        int((golden.targets["level"].eq("chunk") & golden.targets["start"].notna()).sum())
        if "start" in golden.targets
        else 0
    ):
        warn(f"{path} has no place for the spans of {n_spans} expected chunks: resolve them again")
    return (
        write_lines(path, rows)
        if name.endswith(".jsonl")
        else write_text(path, HEADER + yaml_text(rows))
    )


class _Question(dict[str, Any]):
    """A row of the list, which stands in lines of its own however short it is."""


class _Line(list[Any]):
    """Ids and groups of them, which stand on one line."""


def yaml_text(rows: Rows) -> str:
    """Rows as a YAML list.

    Short values on one line, and numbers and dates that came from a file spelled as they were
    there.
    """
    questions = [
        _Question(
            {
                name: _Line(value) if name in _ON_A_LINE and isinstance(value, list) else value
                for name, value in row.items()
            }
        )
        for row in rows
    ]
    return _dumped(questions, flow=None)


def flow_text(value: Any) -> str:
    """A value as YAML on one line, in braces and brackets."""
    return _dumped([value], flow=True).strip()[1:-1]


def _dumped(value: Any, flow: bool | None) -> str:
    class Dumper(_DUMPER):  # type: ignore[misc, valid-type]
        """Lists and mappings of plain values on one line, no line folded, no anchors.

        A change of a question changes its lines only.
        """

        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(
        _Question,
        lambda dumper, row: dumper.represent_mapping(
            "tag:yaml.org,2002:map", row.items(), flow_style=False
        ),
    )
    Dumper.add_representer(
        _Line,
        lambda dumper, items: dumper.represent_sequence(
            "tag:yaml.org,2002:seq", items, flow_style=True
        ),
    )
    for kind, tag in ((YamlInt, "int"), (YamlFloat, "float")):
        Dumper.add_representer(
            kind,
            lambda dumper, number, tag=tag: dumper.represent_scalar(
                f"tag:yaml.org,2002:{tag}", number.text
            ),
        )
    Dumper.add_representer(
        YamlDate,
        lambda dumper, date: dumper.represent_scalar("tag:yaml.org,2002:timestamp", str(date)),
    )
    try:
        return str(
            yaml.dump(
                value,
                Dumper=Dumper,
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
    """A row for each question, without `answerable`."""
    parts = {name: by_query(getattr(golden, name)) for name in FRAMES if name != "queries"}
    rows = [
        _row(query, {name: groups.get(query["query_id"], []) for name, groups in parts.items()})
        for query in row_dicts(golden.queries)
    ]
    return [
        dict(sorted(row.items(), key=lambda field: _ORDER.get(field[0], len(_ORDER))))
        for row in rows
    ]


def _row(query: dict[str, Any], parts: dict[str, Rows]) -> dict[str, Any]:
    own = {
        name.removeprefix("x_"): _value(value)
        for name, value in query.items()
        if name.startswith("x_") and name != SUPPORT_EXTRAS
    }
    if taken := sorted(own.keys() & KNOWN_FIELDS):
        raise DataError(
            f"x_{taken[0]} would be read as {taken[0]}",
            field="queries",
            allowed="a name that no field has",
        )
    row = {"id": query["query_id"], "query": query["query"]} | {
        name: query[name] for name in TEXT_FIELDS if name in query
    }
    targets = {
        level: [target for target in parts["targets"] if target["level"] == level]
        for level in (*_IDS, "anchor")
    }
    row |= {
        name: _ids(targets[level], column)
        for level, (name, column) in _IDS.items()
        if targets[level]
    }
    if versions := [
        version
        for target in targets["chunk"]
        if (version := target.get("chunker_version")) is not None
    ]:
        row["chunker_version"] = versions[0]
    if targets["anchor"]:
        row["gold_supports"] = _supports(
            targets["anchor"], json.loads(query.get(SUPPORT_EXTRAS, "[]"))
        )
    if parts["support_groups"]:
        row["required_support_groups"] = _groups(parts["support_groups"], parts["targets"])
    if parts["conditions"]:
        row["expected_metadata"] = {
            condition["key"]: json.loads(condition["value"]) for condition in parts["conditions"]
        }
    row |= _checks(parts["checks"])
    row |= {
        name: values
        for name, kind in TAG_FIELDS.items()
        if (values := [tag["value"] for tag in parts["tags"] if tag["kind"] == kind])
    }
    return row | own


def _value(value: Any) -> Any:
    """A list or mapping where reading it gives the same text again, else the value itself."""
    if not (isinstance(value, str) and value[:1] in ("[", "{")):
        return value
    try:
        nested = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return nested if json.dumps(nested, ensure_ascii=False) == value else value


def _by_target(targets: Rows) -> list[Rows]:
    """The alternatives of each target."""
    found: dict[str, Rows] = {}
    for target in sorted(targets, key=lambda target: target["alternative"]):
        found.setdefault(target["target_id"], []).append(target)
    return [found[name] for name in dict.fromkeys(target["target_id"] for target in targets)]


def _ids(targets: Rows, column: str) -> Any:
    """A mapping id.

    Grade where every target is one id and a grade isn't 1; else a list of ids, alternatives and
    {any, grade}.
    """
    items = [
        ([one.get(column) for one in alternatives], alternatives[0]["grade"])
        for alternatives in _by_target(targets)
    ]
    if any(grade != 1 for _, grade in items) and all(len(ids) == 1 for ids, _ in items):
        return {ids[0]: grade for ids, grade in items}
    return [
        {"any": ids, "grade": grade} if grade != 1 else ids if len(ids) > 1 else ids[0]
        for ids, grade in items
    ]


def _supports(targets: Rows, left: list[dict[str, Any]]) -> Rows:
    supports = [_support(alternatives) for alternatives in _by_target(targets)]
    return (
        [support | more for support, more in zip(supports, left, strict=True)]
        if len(left) == len(supports)
        else supports
    )


def _support(alternatives: Rows) -> dict[str, Any]:
    first = alternatives[0]
    support = {
        name: first[name]
        for name in ("path", "heading", "start", "end", "span_unit", "doc_id", "date")
        if name in first
    }
    snippets = [one["snippet"] for one in alternatives if "snippet" in one]
    return (
        support
        | ({"snippets": snippets} if snippets else {})
        | ({"grade": first["grade"]} if first["grade"] != 1 else {})
    )


def _groups(members: Rows, targets: Rows) -> list[list[Any]]:
    """Each group's members.

    Anchors by their place among the supports, other targets by a name that means them.
    """
    anchors = list(
        dict.fromkeys(target["target_id"] for target in targets if target["level"] == "anchor")
    )
    meant = {target_id: name for name, target_id in target_names(targets).items()} | {
        name: name for name, one in target_names(targets).items() if name == one
    }
    groups: list[list[Any]] = [[] for _ in range(1 + max(member["group"] for member in members))]
    for member in members:
        target_id = member["target_id"]
        groups[member["group"]].append(
            anchors.index(target_id)
            if target_id in anchors
            else meant.get(target_id, _unknown(target_id, len(anchors)))
        )
    return groups


def _unknown(target_id: str, n_anchors: int) -> Any:
    """The name of a target that isn't there, as it was written.

    A place behind the anchors, or a text.
    """
    name = target_id.removeprefix("unknown:")
    is_place = (
        n_anchors
        and name.isascii()
        and name.isdigit()
        and str(int(name)) == name
        and int(name) >= n_anchors
    )
    return int(name) if is_place else name


def _checks(checks: Rows) -> dict[str, Any]:
    texts = {
        kind: [check["text"] for check in checks if check["kind"] == kind]
        for kind in (*CHECK_FIELDS.values(), "expected_empty", "recency_rule")
    }
    fields: dict[str, Any] = {
        name: texts[kind] for name, kind in CHECK_FIELDS.items() if texts[kind]
    }
    fields |= {"expected_empty": True} if texts["expected_empty"] else {}
    fields |= {"recency_conflict_rule": texts["recency_rule"][0]} if texts["recency_rule"] else {}
    choices = written_choices(
        [check["kind"] for check in checks], [check["text"] for check in checks]
    )
    return fields | ({SATISFIED_BY: choices} if choices else {})


def _checked(golden: Golden, rows: Rows, path: str | Path) -> Rows:
    """The rows with `answerable` where they don't imply it, once reading them has given the same set again."""
    read = golden_of(
        [Row(row, number) for number, row in enumerate(rows, 1)],
        Problems(path, strict=True),
        "unlabelled",
        None,
    )
    implied = dict(
        zip(read.queries["query_id"], row_dicts(read.queries[["answerable"]]), strict=True)
    )
    stated = dict(
        zip(golden.queries["query_id"], row_dicts(golden.queries[["answerable"]]), strict=True)
    )
    found, given = _content(read), _content(golden)
    for query_id, frames in given.items():
        lost = [name for name in FRAMES if frames[name] != found[query_id][name]]
        lost += ["queries.answerable"] if implied[query_id] and not stated[query_id] else []
        if lost:
            raise DataError(
                f"query {query_id!r} would not come back as it is",
                field=f"golden.{lost[0]}",
                allowed=_ALLOWED,
            )
    return [
        _with(row, stated[row["id"]] if stated[row["id"]] != implied[row["id"]] else {})
        for row in rows
    ]


def _with(row: dict[str, Any], stated: dict[str, Any]) -> dict[str, Any]:
    """The row with what is stated about it behind its question."""
    return (
        {"id": row["id"], "query": row["query"]}
        | {name: bool(value) for name, value in stated.items()}
        | row
    )


def _content(golden: Golden) -> dict[str, dict[str, list[str]]]:
    """What each frame says of each question, but for labels, places in the file and the spans of expected chunks."""
    content: dict[str, dict[str, list[str]]] = {
        query_id: {name: [] for name in FRAMES} for query_id in golden.queries["query_id"]
    }
    for name in FRAMES:
        frame = getattr(golden, name).drop(columns=["answerable", "position"], errors="ignore")
        for row in row_dicts(frame):
            content[row["query_id"]][name].append(
                json.dumps(_told(row), sort_keys=True, default=str)
            )
    return {
        query_id: {name: sorted(rows) for name, rows in frames.items()}
        for query_id, frames in content.items()
    }


def _told(row: dict[str, Any]) -> dict[str, Any]:
    kept = ("query_id", "level", "target_id", "alternative", "grade", "chunk_id", "chunker_version")
    return {name: row[name] for name in kept if name in row} if row.get("level") == "chunk" else row
