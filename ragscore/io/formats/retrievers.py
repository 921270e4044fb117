"""A harness that judges retrievers by predicates: its results <-> `Results`, queries <-> `Golden`.

Results are JSON lines, one run per retriever. A record names its query by text: {query, retriever,
k, elapsed_ms, error?, hits: [{rank, id, metadata, document}]}. A summary record has no hits but
their outcome ({n_hits, rank_first_match, passed, kind}), which is kept as `reported`.

Queries (`queries.jsonl`) have no id. A query's own text is its id, so that results that name only
the text find it.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, conform, empty, records_of
from ragscore.frames.errors import plural, warn
from ragscore.io.files import write_lines
from ragscore.io.formats.fields import objects_in, placed, rows_of
from ragscore.io.golden_read import (
    CHECK_FIELDS,
    KNOWN_FIELDS,
    TAG_FIELDS,
    TEXT_FIELDS,
    golden_of,
)
from ragscore.io.golden_write import written_rows
from ragscore.io.run_records import Fields, Frames, Level, Reader, is_stated
from ragscore.io.run_write import metadata_column
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import CELL, READ, cells, grouped, objects_of, row_dicts

# Values of an outcome
OUTCOMES = {"n_hits": "whole", "rank_first_match": "positive", "passed": "flag"}
# Fields of an outcome in the order of the file, and their types in JSON
WRITTEN = {"n_hits": int, "rank_first_match": int, "passed": bool, "kind": str}
# Outcomes by run and query
Outcomes = dict[tuple[str, str], dict[str, Any]]
RESPONSE: Fields = {
    "query": ("query", "text"),
    "error": ("error", "failure"),
    "elapsed_ms": ("elapsed_ms", "number"),
}
HIT: Fields = {
    "rank": ("rank", "rank"),
    "id": ("chunk_id", "id"),
    "document": ("text", "text"),
}
KEYS = {"query_id": "query_id", "retriever": "run_id"}
ONCE = "one record per retriever and query"
# What a record needs
ALLOWED = dict.fromkeys(("query", "retriever"), "text that isn't empty") | {
    "hits": "a list, empty if nothing was found; or an outcome, or an error"
}
FIELDS = frozenset(("query_id", "retriever", "k", "hits", *RESPONSE, *WRITTEN))


# Results


def read_retrievers(path: Path, strict: bool) -> Results:
    """Read every run of a file, in the order in which its retrievers appear."""
    problems = Problems(path, strict)
    reader, ks = Reader(_columns, problems, KEYS, ONCE), dict[str, int]()
    reader.read(_rows(path, reader.faults, ks))
    frames = reader.frames()
    reported = frames.get("reported", empty("reported"))
    counted = reported[reported["metric"].eq("n_hits") & reported["value"].gt(0)]
    listed = pd.MultiIndex.from_frame(frames["hits"][[*CELL]])
    if n_bare := int((~pd.MultiIndex.from_frame(counted[[*CELL]]).isin(listed)).sum()):
        warn(
            f"{path}: {plural(n_bare, 'record')} count hits (n_hits) without listing them;"
            " hit, mrr, found and passed are scored by the outcomes that they state (passed,"
            " rank_first_match), other metrics of hits are NaN"
        )
    asked = frames["responses"].astype({"run_id": "str"}).groupby("run_id", sort=False)["error"]
    runs = pd.DataFrame({"n_queries": asked.size(), "n_failed": asked.count()})
    runs = runs.assign(k=pd.Series(ks, dtype="Int64"), system=runs.index).reset_index()
    return Results(runs=conform(runs, "runs"), **frames, problems=problems.frame())


def _rows(path: Path, faults: Problems, ks: dict[str, int]) -> Iterator[Row]:
    """Yield the records, each with an id (a text that is repeated is numbered); learn the ks."""
    n_by_retriever: dict[str, dict[str, int]] = {}
    for row in json_rows(path, faults):
        values, line = row.values, row.line
        faults.check_names(values, FIELDS, line)
        key, retriever = query_key(values.get("query")), as_id(values.get("retriever"))
        is_stated = any(values.get(name) not in (None, {}) for name in ("hits", "error", *OUTCOMES))
        needed = {"query": key, "retriever": retriever, "hits": is_stated}
        if missing := [name for name, one in needed.items() if not one]:
            faults.reject(values.get(missing[0]), line, missing[0], ALLOWED[missing[0]])
            continue
        n_by_text = n_by_retriever.setdefault(str(retriever), {})
        if values.get("query_id") is None:
            values["query_id"] = numbered(key, n_by_text)
        k = READ["positive"](values.pop("k", None), "k", line, faults)
        if k is not None and k != (before := ks.setdefault(str(retriever), k)):
            found = f"found {k}, earlier records of {retriever} have {before}"
            faults.add(found, line=line, field="k", allowed="one k per retriever")
        yield row


def _columns(record: Level) -> Frames:
    """Return the columns of a batch of records."""
    responses = record.columns(RESPONSE)
    hits, row, at = record.items("hits")
    rank = hits.order("rank", row, at)
    # A source key that is no text stays metadata only: no expected key can equal it.
    meta, source_key = hits.metadata(row, rank)
    found = {"rank": rank, "source_key": source_key} | hits.columns(HIT)
    hits.extras(found)
    frames = [("hits", row, found), *meta]
    for name, type in OUTCOMES.items():
        values = record.take(name, type)
        of = np.flatnonzero(is_stated(values))
        metric = pa.array([name] * len(of), pa.string())
        stated = values.cast(pa.float64()).take(pa.array(of))
        frames.append(("reported", of, {"metric": metric, "value": stated}))
    record.extras(responses)
    return [("responses", np.arange(len(record)), responses), *frames]


def write_retrievers(results: Results, path: str | Path, rows: pd.DataFrame | None = None) -> Path:
    """Write runs as records with hits and outcomes, one line per response.

    Loading the file gives the same frames again, with fields of your own and the outcomes that the
    file had reported. A line has a `query_id` only if that differs from the query's text, and no
    `hits` if it has an outcome and none were found.

    Parameters
    ----------
    rows
        The outcomes (n_hits, rank_first_match, passed, kind), such as
        `rs.extras.retrievers(ev).per_query`; by default those that the runs' file reported itself.

    Returns
    -------
    The file's path; its folder is created.
    """
    if rows is None:
        reported = rows_of(results, "reported")
        stated = grouped(cells(reported), zip(reported["metric"], reported["value"], strict=True))
        outcomes = {cell: dict(values) for cell, values in stated.items()}
    else:
        outcomes = dict(zip(cells(rows), records_of(rows), strict=True))
    columns = placed(results.hits, HIT)
    metadata = metadata_column(results.hits, rows_of(results, "hit_meta"))
    columns["x_metadata"] = [one or {} for one in metadata]
    hits = grouped(cells(results.hits), objects_of(columns))
    return write_lines(path, _lines(results, hits, outcomes))


def _lines(
    results: Results, hits: dict[Any, list[dict[str, Any]]], outcomes: Outcomes
) -> Iterator[dict[str, Any]]:
    """Yield each response's line.

    rank_first_match is null if an outcome is known and nothing matched.
    """
    ks = {str(run["run_id"]): run["k"] for run in row_dicts(results.runs) if "k" in run}
    n_by_text: dict[str, dict[str, int]] = {}
    objects = objects_in(results.responses, RESPONSE)
    for (run_id, query_id), response in zip(cells(results.responses), objects, strict=True):
        if (text := response.get("query")) is None:
            raise DataError(
                f"response {query_id!r} of {run_id} has no query text",
                field="responses.query",
                allowed="text",
            )
        is_numbered = numbered(query_key(text), n_by_text.setdefault(run_id, {})) == query_id
        line = {"query": text} | ({} if is_numbered else {"query_id": query_id})
        line |= {"retriever": run_id} | ({"k": int(ks[run_id])} if run_id in ks else {})
        stated = outcomes.get((run_id, query_id), {})
        outcome = {
            name: of(stated[name]) for name, of in WRITTEN.items() if pd.notna(stated.get(name))
        }
        if outcome.keys() & {"n_hits", "passed"}:
            outcome.setdefault("rank_first_match", None)
        found = hits.get((run_id, query_id), [])
        yield line | response | ({} if outcome and not found else {"hits": found}) | outcome


# Queries

EXPECTATIONS = (
    "expected_source_keys",
    "expected_metadata",
    "expected_substrings",
    "must_not_contain_source_keys",
    "expected_empty",
)
PREDICATES = {*EXPECTATIONS, "tool", "filters", "expect_lessons_call"}
"""Fields that only this format has; a query alone is of it, too."""
IMPLY_ANSWERABLE = {
    "expected_source_keys", "expected_metadata", "expected_substrings", "must_contain",
    "expected_key_facts", "reference_answer",
}  # fmt: skip
# Fields of our golden file in the order in which they are written
_ORDER = (
    *TEXT_FIELDS, "expected_source_keys", "expected_metadata", *CHECK_FIELDS, *TAG_FIELDS,
    "expected_empty", "recency_conflict_rule",
)  # fmt: skip


def query_key(text: Any) -> str:
    """Return the id of a query that has none: its text, normalized; "" where there is no text.

    Unicode's composed form (NFC), and one space for each run of white space.
    """
    return " ".join(unicodedata.normalize("NFC", as_text(text) or "").split())


def numbered(key: str, n_by_text: dict[str, int]) -> str:
    """Return the id with `(2)`, `(3)`, ... behind it if its text was there before."""
    n_by_text[key] = n_by_text.get(key, 0) + 1
    return key if n_by_text[key] == 1 else f"{key} ({n_by_text[key]})"


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
        if not (key := query_key(stated)):
            problems.reject(stated, row.line, "query", "text that isn't empty")
            continue
        if not isinstance(filters, (dict, NoneType)):
            problems.reject(filters, row.line, "filters", "a mapping or null")
        values = {name: value for name, value in row.values.items() if value is not None}
        rows.append(Row(values | {"id": numbered(key, n_by_text)}, row.line))
    golden = golden_of(rows, problems, "unlabelled", None)
    if repeated := [key for key, n in n_by_text.items() if n > 1]:
        warn(
            f"{path}: {len(repeated)} queries appear more than once, first {repeated[0]!r}; the"
            " n-th golden row goes with a retriever's n-th record of it"
        )
    is_judge = golden.checks["kind"].isin(["expected_empty", "forbidden_source_key"])
    judged = pd.concat([golden.targets["query_id"], golden.checks.loc[is_judge, "query_id"]])
    ids = golden.queries["query_id"]
    nothing = pd.DataFrame({"query_id": ids[~is_among(ids, judged)]})
    nothing = conform(nothing.assign(level="predicate", target_id="nothing"), "targets")
    targets = [one for one in (golden.targets, nothing) if len(one)] or [nothing]
    return replace(golden, targets=pd.concat(targets, ignore_index=True))


def write_predicates(golden: Golden, path: str | Path) -> Path:
    """Write a golden set as `queries.jsonl` with predicates, one query a line.

    Loading the file gives the same frames again, fields of your own included (one whose values are
    of several types as text). If ids aren't the
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
    rows, n_by_text = list(written_rows(golden)), dict[str, int]()
    keys = [numbered(query_key(query["query"]), n_by_text) for query, _ in rows]
    has_own_ids = keys != [query["query_id"] for query, _ in rows]
    lines = [
        ({"id": query["query_id"]} if has_own_ids else {}) | _line(query, said)
        for query, said in rows
    ]
    return write_lines(path, lines)


def _line(query: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the file, without an id."""
    line = {"query": query["query"]}
    line |= {name: one for name, one in said.items() if name not in KNOWN_FIELDS}
    line |= {name: said[name] for name in _ORDER if name in said}
    # Loading takes a query for answerable if it has one of these; else `answerable` is unknown.
    is_implied = bool(line.keys() & IMPLY_ANSWERABLE)
    stated = query.get("answerable")
    is_said = stated is None or (bool(stated) and is_implied)
    return line if is_said else line | {"answerable": bool(stated)}
