"""Golden questions judged by predicates (`queries.jsonl`.

Source keys, metadata, substrings) <-> `Golden`.

The rows have no id: the question's own text is its id, so that results that name only the question
find it.
"""

import json
import unicodedata
import warnings
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, from_records
from ragscore.io.detect import Sample
from ragscore.io.golden_read import (
    CHECK_FIELDS,
    KNOWN_FIELDS,
    SATISFIED_BY,
    TAG_FIELDS,
    TEXT_FIELDS,
    Tables,
    read_row,
    written_choices,
)
from ragscore.io.output import write_lines
from ragscore.io.source import Problems, Row, as_text, describe, json_rows
from ragscore.io.values import flatten, row_dicts, unflatten, unify_types

EXPECTATIONS = (
    "expected_source_keys",
    "expected_metadata",
    "expected_substrings",
    "must_not_contain_source_keys",
    "expected_empty",
)
OWN_FIELDS = frozenset(("tool", "filters", "expect_lessons_call"))
_FRAMES = ("queries", "targets", "tags", "checks", "support_groups", "conditions")


def fits_golden(seen: Sample) -> bool:
    """JSON lines with a query and no id, and nothing else or something that only this format has."""
    if (
        seen.kind not in ("jsonl", "json")
        or not seen.has("query")
        or seen.keys & {"id", "query_id", "retriever"}
    ):
        return False
    return seen.keys == {"query"} or bool(seen.keys & {*EXPECTATIONS, *OWN_FIELDS})


def query_key(text: str) -> str:
    """The id of a question that has none.

    Its text, in Unicode's composed form (NFC), runs of white space as one space.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def numbered(key: str, seen: dict[str, int]) -> str:
    """The same id with `(2)`, `(3)`, ... if the text was there before."""
    seen[key] = seen.get(key, 0) + 1
    return key if seen[key] == 1 else f"{key} ({seen[key]})"


def warn_of_repeats(path: Path, seen: dict[str, int]) -> None:
    """One warning for questions that are there more than once."""
    repeated = [key for key, n in seen.items() if n > 1]
    if repeated:
        text = (
            f"{path}: {len(repeated)} queries appear more than once, first {repeated[0]!r}; the"
            " n-th golden row goes with a retriever's n-th record of it"
        )
        warnings.warn(text, UserWarning, stacklevel=4)


def read_predicates(
    path: Path, strict: bool, absent_docs: str = "unlabelled", catalogue: pd.DataFrame | None = None
) -> Golden:
    """Read one file of questions; `ragscore.load_golden` documents the arguments.

    No row expects documents or chunks, so `absent_docs` and `catalogue` have nothing to say here. A
    row that expects nothing gets a target that no hit can meet: it fails, as its harness says.
    """
    problems, tables, seen = Problems(path, strict), Tables(), dict[str, int]()
    for row in json_rows(path, problems):
        _read(row, tables, seen, problems)
    problems.typos.warn(stacklevel=3)
    warn_of_repeats(path, seen)
    tables.queries = unify_types(tables.queries)
    return Golden(
        **{name: from_records(getattr(tables, name), name) for name in _FRAMES},
        problems=problems.frame(),
    )


def _read(row: Row, tables: Tables, seen: dict[str, int], problems: Problems) -> None:
    query = as_text(row.values.get("query"))
    if query is None or not query_key(query):
        found = (
            f"found {describe(row.values['query'])}"
            if "query" in row.values
            else "the field is missing"
        )
        problems.add(found, line=row.line, field="query", allowed="text that isn't empty")
        return
    if not isinstance(row.values.get("filters"), (dict, type(None))):
        problems.add(
            f"found {describe(row.values['filters'])}",
            line=row.line,
            field="filters",
            allowed="a mapping or null",
        )
    query_id = numbered(query_key(query), seen)
    known = {name: value for name, value in row.values.items() if name in KNOWN_FIELDS}
    problems.typos.check(row.values, KNOWN_FIELDS | OWN_FIELDS, row.line)
    n_targets, n_checks = len(tables.targets), len(tables.checks)
    read_row(
        Row(known | {"filters": row.values.get("filters")}, row.line),
        query_id,
        tables,
        problems,
        "unlabelled",
    )
    tables.queries[-1].pop("x_filters", None)
    tables.queries[-1] |= _own_columns(
        {name: value for name, value in row.values.items() if name not in KNOWN_FIELDS}
    )
    is_judged = len(tables.targets) > n_targets or any(
        check["kind"] in ("expected_empty", "forbidden_source_key")
        for check in tables.checks[n_checks:]
    )
    if not is_judged:
        tables.targets.append(
            {
                "query_id": query_id,
                "level": "predicate",
                "target_id": "nothing",
                "alternative": 0,
                "grade": 1,
            }
        )


def _own_columns(values: dict[str, Any]) -> dict[str, Any]:
    """Fields without a column of ours.

    Scalars as they are, lists and mappings as JSON text, one column a field.
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, (dict, list)):
            (column,) = flatten({name: []})
            flat[column] = json.dumps(value, ensure_ascii=False)
        else:
            flat |= flatten({name: value})
    return flat


def write_predicates(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as `queries.jsonl` with predicates, one question a line, fields of your own included.

    Loading the file gives the same frames again. If ids aren't the questions' texts, every line has
    its `id`, which makes it a file of ragscore's own golden format.

    Raises
    ------
    DataError
        The set expects documents, chunks or passages, for which the format has no field.
    """
    other = sorted(set(golden.targets["level"]) - {"source_key", "predicate"})
    if other or len(golden.support_groups):
        raise DataError(
            f"targets of level {', '.join(other) or 'support group'}",
            field="golden",
            allowed="only source keys, metadata and substrings",
        )
    seen = dict[str, int]()
    frames = {
        name: dict(list(getattr(golden, name).groupby("query_id", sort=False)))
        for name in ("targets", "checks", "conditions", "tags")
    }
    queries = list(row_dicts(golden.queries))
    own_ids = any(
        numbered(query_key(query["query"]), seen) != query["query_id"] for query in queries
    )
    return write_lines(
        path,
        (
            _line(
                query,
                {name: groups.get(query["query_id"]) for name, groups in frames.items()},
                own_ids,
            )
            for query in queries
        ),
    )


def _line(
    query: dict[str, Any], parts: dict[str, pd.DataFrame | None], own_ids: bool
) -> dict[str, Any]:
    line: dict[str, Any] = {"id": query["query_id"]} if own_ids else {}
    line |= {
        "query": query["query"],
        **unflatten({name: value for name, value in query.items() if name.startswith("x_")}),
    }
    if isinstance(line.get("filters"), str):  # as the reader of our own golden format keeps it
        line["filters"] = json.loads(line["filters"])
    line |= {name: query[name] for name in TEXT_FIELDS if name in query}
    line |= _expectations(parts)
    stated = query.get("answerable")
    return line | (
        {"answerable": bool(stated)} if stated is not None and stated != _implied(line) else {}
    )


def _implied(line: dict[str, Any]) -> bool | None:
    """What loading makes of a line that doesn't state whether its question can be answered."""
    return (
        True
        if line.keys()
        & {*EXPECTATIONS[:3], "must_contain", "expected_key_facts", "reference_answer"}
        else None
    )


def _expectations(parts: dict[str, pd.DataFrame | None]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    targets, checks, conditions, tags = (
        parts["targets"],
        parts["checks"],
        parts["conditions"],
        parts["tags"],
    )
    if targets is not None and (keys := _source_keys(targets[targets["level"] == "source_key"])):
        found["expected_source_keys"] = keys
    if conditions is not None:
        found["expected_metadata"] = {
            key: json.loads(value)
            for key, value in zip(conditions["key"], conditions["value"], strict=True)
        }
    for name, kind in CHECK_FIELDS.items():
        if checks is not None and (texts := checks.loc[checks["kind"] == kind, "text"].tolist()):
            found[name] = texts
    for name, kind in TAG_FIELDS.items():
        if tags is not None and (values := tags.loc[tags["kind"] == kind, "value"].tolist()):
            found[name] = values
    if checks is not None and checks["kind"].eq("expected_empty").any():
        found["expected_empty"] = True
    if checks is not None and (choices := written_choices(checks["kind"], checks["text"])):
        found[SATISFIED_BY] = choices
    if checks is not None and (
        rule := checks.loc[checks["kind"] == "recency_rule", "text"].tolist()
    ):
        found["recency_conflict_rule"] = rule[0]
    return found


def _source_keys(targets: pd.DataFrame) -> list[Any]:
    """The keys as the golden file has them.

    A text, a list of alternatives, or a mapping where the grade isn't 1.
    """
    keys: list[Any] = []
    for _, target in targets.groupby("target_id", sort=False):
        names, grade = target["source_key"].tolist(), int(target["grade"].iloc[0])
        plain = names[0] if len(names) == 1 else names
        keys.append(plain if grade == 1 else {"any": names, "grade": grade})
    return keys
