"""Golden queries judged by predicates, `queries.jsonl` <-> `Golden`.

The rows have no id. A query's own text is its id, so that results that name only the text find it.
"""

import json
import unicodedata
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, conform
from ragscore.frames.errors import warn
from ragscore.io.detect import Sample
from ragscore.io.files import write_lines
from ragscore.io.formats.fields import golden_rows
from ragscore.io.golden_read import (
    CHECK_FIELDS,
    KNOWN_FIELDS,
    TAG_FIELDS,
    TEXT_FIELDS,
    golden_of,
)
from ragscore.io.source import Problems, Row, as_text, describe, json_rows
from ragscore.io.values import by_query, extra_fields, row_dicts

EXPECTATIONS = (
    "expected_source_keys",
    "expected_metadata",
    "expected_substrings",
    "must_not_contain_source_keys",
    "expected_empty",
)
OWN_FIELDS = frozenset(("tool", "filters", "expect_lessons_call"))
ROW_FIELDS = KNOWN_FIELDS | {"filters"}
IMPLY_ANSWERABLE = {
    *EXPECTATIONS[:3], "must_contain", "expected_key_facts", "reference_answer",
}  # fmt: skip
PARTS = ("targets", "checks", "conditions", "tags")
_ORDER = (
    *TEXT_FIELDS, "expected_source_keys", "expected_metadata", *CHECK_FIELDS, *TAG_FIELDS,
    "expected_empty", "recency_conflict_rule",
)  # fmt: skip
"""Fields of our golden file in the order in which they are written."""


def fits_golden(seen: Sample) -> bool:
    """Return True for JSON lines with a query, no id, and fields that only this format has.

    A query alone fits too.
    """
    if (
        seen.kind not in ("jsonl", "json")
        or not seen.has("query")
        or seen.keys & {"id", "query_id", "retriever"}
    ):
        return False
    return seen.keys == {"query"} or bool(seen.keys & {*EXPECTATIONS, *OWN_FIELDS})


def query_key(text: str) -> str:
    """Return the id of a query that has none: its text, normalized.

    Unicode's composed form (NFC), and one space for each run of white space.
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def numbered(key: str, n_by_text: dict[str, int]) -> str:
    """Return the id with `(2)`, `(3)`, ... behind it if its text was there before."""
    n_by_text[key] = n_by_text.get(key, 0) + 1
    return key if n_by_text[key] == 1 else f"{key} ({n_by_text[key]})"


def warn_of_repeats(path: Path, n_by_text: dict[str, int]) -> None:
    """Warn once if queries appear more than once."""
    repeated = [key for key, n in n_by_text.items() if n > 1]
    if repeated:
        text = (
            f"{path}: {len(repeated)} queries appear more than once, first {repeated[0]!r}; the"
            " n-th golden row goes with a retriever's n-th record of it"
        )
        warn(text)


def read_predicates(
    path: Path, strict: bool, absent_docs: str = "unlabelled", catalogue: pd.DataFrame | None = None
) -> Golden:
    """Read one file of queries; `ragscore.load_golden` documents the arguments.

    No row expects documents or chunks, so `absent_docs` and `catalogue` change nothing. A row
    without expectations gets a target that no hit can meet: it fails, as in its harness.
    """
    problems, n_by_text = Problems(path, strict), dict[str, int]()
    rows = list[Row]()
    for row in json_rows(path, problems):
        stated, filters = row.values.get("query"), row.values.get("filters")
        if not (key := query_key(as_text(stated) or "")):
            found = f"found {describe(stated)}" if "query" in row.values else "the field is missing"
            problems.add(found, line=row.line, field="query", allowed="text that isn't empty")
            continue
        if not isinstance(filters, (dict, NoneType)):
            problems.reject(filters, row.line, "filters", "a mapping or null")
        values = {name: value for name, value in row.values.items() if value is not None}
        rows.append(Row(values | {"id": numbered(key, n_by_text)}, row.line))
    golden = golden_of(golden_rows(rows, ROW_FIELDS, is_nested=False), problems, "unlabelled", None)
    problems.typos.warn()
    warn_of_repeats(path, n_by_text)
    is_judge = golden.checks["kind"].isin(["expected_empty", "forbidden_source_key"])
    judged = pd.concat([golden.targets["query_id"], golden.checks.loc[is_judge, "query_id"]])
    ids = golden.queries["query_id"]
    nothing = pd.DataFrame({"query_id": ids[~is_among(ids, judged)]})
    nothing = conform(nothing.assign(level="predicate", target_id="nothing"), "targets")
    targets = [one for one in (golden.targets, nothing) if len(one)] or [nothing]
    return replace(golden, targets=pd.concat(targets, ignore_index=True))


def write_predicates(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as `queries.jsonl` with predicates, one query a line.

    Loading the file gives the same frames again, fields of your own included. If ids aren't the
    queries' texts, every line has its `id`, which makes it a file of ragscore's own golden format.

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
    rows = {kind: by_query(getattr(golden, kind)) for kind in PARTS}
    queries, n_by_text = list(row_dicts(golden.queries)), dict[str, int]()
    keys = [numbered(query_key(query["query"]), n_by_text) for query in queries]
    has_own_ids = keys != [query["query_id"] for query in queries]
    lines = []
    for query in queries:
        parts = {kind: of_query.get(query["query_id"], []) for kind, of_query in rows.items()}
        lines.append(({"id": query["query_id"]} if has_own_ids else {}) | _line(query, parts))
    return write_lines(path, lines)


def _line(query: dict[str, Any], parts: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return a row of the file, without an id."""
    from ragscore.io.golden_write import row_of  # yaml is not needed to read

    plain = {name: one for name, one in query.items() if not name.startswith("x_")}
    said = row_of(plain, parts | {"support_groups": []})
    line = {"query": query["query"]} | extra_fields(query)
    if isinstance(line.get("filters"), str):  # as the reader of our own golden format keeps it
        line["filters"] = json.loads(line["filters"])
    keys = said.get("expected_source_keys")
    if isinstance(keys, dict):  # a list, as these files have it
        said["expected_source_keys"] = [
            key if grade == 1 else {"any": [key], "grade": grade} for key, grade in keys.items()
        ]
    line |= {name: said[name] for name in _ORDER if name in said}
    # Loading takes a query for answerable if it has one of these; else `answerable` is unknown.
    is_implied = bool(line.keys() & IMPLY_ANSWERABLE)
    stated = query.get("answerable")
    is_said = stated is None or (bool(stated) and is_implied)
    return line if is_said else line | {"answerable": bool(stated)}
