"""Results of several retrievers on one set of queries (JSON lines) <-> `Results`.

One run per retriever. A record names its query by text: {query, retriever, k, elapsed_ms, error?,
hits: [{rank, id, metadata, document}]}. A summary record has no hits but their outcome ({n_hits,
rank_first_match, passed, kind}), which is kept as `reported`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.data import DataError, Results, from_records, records_of
from ragscore.frames.errors import plural, warn
from ragscore.io.files import write_lines
from ragscore.io.formats.fields import Fields, named_fields
from ragscore.io.formats.predicates import numbered, query_key, warn_of_repeats
from ragscore.io.run_records import Frames, Level, Reader
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows
from ragscore.io.values import READ, by_response, extra_fields, row_dicts, whole

OUTCOMES = {"n_hits": int, "rank_first_match": int, "passed": bool, "kind": str}
"""Fields of a summary record, and their types in JSON."""
KINDS = ("positive", "must_not_contain", "expected_empty")
RESPONSE: Fields = {
    "query": ("query", "text"),
    "error": ("error", "failure"),
    "elapsed_ms": ("elapsed_ms", "number"),
    "kind": ("x_kind", "text"),
}
HIT: Fields = {
    "rank": ("rank", "whole"),
    "id": ("chunk_id", "id"),
    "document": ("text", "text"),
}
FIELDS = frozenset(("query_id", "retriever", "k", "hits", *RESPONSE, *OUTCOMES))

Cell = tuple[str, str]
"""Run and query of a response."""


def read_retrievers(path: Path, strict: bool) -> Results:
    """Read every run of a file, in the order in which its retrievers appear."""
    problems = Problems(path, strict)
    reader, read = Reader(_columns, problems), _Read(problems)
    reader.read(read.rows(path))
    problems.typos.warn()
    most: dict[str, int] = {}
    for n_by_text in read.n_by_text.values():
        most |= {key: max(n, most.get(key, 0)) for key, n in n_by_text.items()}
    warn_of_repeats(path, most)
    if n := read.n_told:
        warn(
            f"{path}: {plural(n, 'record')} of outcomes say that there were hits (n_hits), and hold"
            " none: metrics of hits are 0 there; results.reported has the outcomes, and"
            " to_profile('seed-mcp') counts them"
        )
    frames = reader.frames()
    asked = frames["responses"].groupby("run_id", observed=True)["error"]
    n_queries, n_failed = asked.size(), asked.count()
    runs = [
        {"run_id": name, "system": name, "k": k, "n_queries": n_queries[name]}
        | {"n_failed": n_failed[name]}
        for name, k in read.ks.items()
    ]
    if read.reported:
        frames["reported"] = from_records(read.reported, "reported")
    return Results(runs=from_records(runs, "runs"), **frames, problems=problems.frame())


@dataclass
class _Read:
    """What is known so far: per retriever its k, and how often each query text stood there."""

    problems: Problems
    ks: dict[str, int | None] = field(default_factory=dict)
    n_by_text: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[Cell, int] = field(default_factory=dict)  # of each response
    reported: list[dict[str, Any]] = field(default_factory=list)
    n_told: int = 0  # records of outcomes that name no hit, though there were some

    def rows(self, path: Path) -> Iterator[Row]:
        """Yield the records, each with an id, without their outcomes."""
        problems = self.problems
        for row in json_rows(path, problems):
            values, line = dict(row.values), row.line
            problems.typos.check(values, FIELDS, line)
            query, retriever = as_text(values.get("query")), as_id(values.get("retriever"))
            hits, error = values.get("hits"), values.get("error")
            if query is None or not query_key(query):
                problems.reject(values.get("query"), line, "query", "text that isn't empty")
            elif retriever is None:
                problems.reject(values.get("retriever"), line, "retriever", "text that isn't empty")
            elif not isinstance(hits, (list, NoneType)):
                problems.reject(hits, line, "hits", "a list")
            elif hits is None and error is None and not values.keys() & OUTCOMES.keys() - {"kind"}:
                found = "the record has neither hits nor an outcome nor an error"
                allowed = "a list, empty if nothing was found"
                problems.add(found, line=line, field="hits", allowed=allowed)
            elif query_id := self._query_id(values.get("query_id"), query, retriever, line):
                self._take_k(values, retriever, line)
                self._take_outcome(values, {"run_id": retriever, "query_id": query_id}, line)
                yield Row(values | {"query_id": query_id}, line)

    def _query_id(self, stated: Any, query: str, retriever: str, line: int) -> str | None:
        """Return the id that a record states, else its query's text.

        A repeated text is numbered; a repeated id is a problem.
        """
        query_id: str | None = READ["id"](stated, "query_id", line, self.problems)
        if query_id is None:
            query_id = numbered(query_key(query), self.n_by_text.setdefault(retriever, {}))
        before = self.lines.setdefault((retriever, query_id), line)
        if before == line:
            return query_id
        what, allowed = f"{query_id!r} of {retriever}", "one record per retriever and query"
        self.problems.repeat(what, before, line, "query_id", allowed)
        return None

    def _take_k(self, values: dict[str, Any], retriever: str, line: int) -> None:
        k, known = whole(values.pop("k", None), "k", line, self.problems, 1), self.ks.get(retriever)
        self.ks[retriever] = k if known is None else known
        if None not in (k, known) and k != known:
            found = f"found {k}, earlier records of {retriever} have {known}"
            self.problems.add(found, line=line, field="k", allowed="one k per retriever")

    def _take_outcome(self, values: dict[str, Any], cell: dict[str, str], line: int) -> None:
        found = {}
        if values.get("kind") not in (None, *KINDS):
            self.problems.reject(values.pop("kind"), line, "kind", f"one of {', '.join(KINDS)}")
        for name in ("n_hits", "rank_first_match", "passed"):
            type, lowest = (
                ("flag", {}) if name == "passed" else ("whole", {"lowest": int(name != "n_hits")})
            )
            found[name] = READ[type](values.pop(name, None), name, line, self.problems, **lowest)
        self.n_told += not values.get("hits") and bool(found["n_hits"])
        self.reported += [
            cell | {"metric": name, "value": float(value)}
            for name, value in found.items()
            if value is not None
        ]


def _columns(record: Level) -> Frames:
    """Return the columns of a batch of records."""
    responses = {
        "query_id": record.take("query_id", "id"),
        "run_id": record.take("retriever", "id"),
    }
    responses |= record.columns(RESPONSE)
    hits, row, at = record.items("hits")
    rank = hits.order("rank", row, at)
    # A source key that is no text stays metadata only: no expected key can equal it.
    meta, source_key = hits.metadata(row, rank)
    found = {"rank": pa.array(rank.astype(np.int32)), "source_key": source_key}
    found |= hits.columns(HIT)
    hits.extras(found)
    record.extras(responses)
    return {"responses": (np.arange(len(record)), responses), "hits": (row, found)} | meta


def write_retrievers(results: Results, path: str | Path) -> Path:
    """Write runs as records with hits, one line per response.

    Loading the file gives the same frames again, with fields of your own and the values that the
    file had reported. A line has a `query_id` only if that differs from the query's text.

    Returns
    -------
    The file's path; its folder is created.
    """
    hits = by_response(results.hits)
    hit_meta = {} if results.hit_meta is None else by_response(results.hit_meta)
    return write_lines(
        path,
        (
            line | {"hits": _written_hits(hits.get(cell, []), hit_meta.get(cell, []))} | outcome
            for cell, line, outcome in _lines(results, _reported_outcomes(results))
        ),
    )


def write_retriever_summary(
    results: Results, path: str | Path, rows: pd.DataFrame | None = None
) -> Path:
    """Write the outcome of each response (n_hits, rank_first_match, passed, kind), without hits.

    Times have one decimal, as that harness writes them.

    Parameters
    ----------
    rows
        The outcomes, `rs.extras.retrievers(ev).per_query`; by default those that the runs'
        file reported itself.

    Returns
    -------
    The file's path; its folder is created.

    Raises
    ------
    DataError
        No rows are given and nothing is reported: the runs come from another kind of file.
    """
    if rows is not None:
        records = records_of(rows.astype({"run_id": "str"}))
        outcomes = {(one["run_id"], one["query_id"]): one for one in records}
    elif results.reported is not None:
        outcomes = _reported_outcomes(results)
    else:
        raise DataError(
            "nothing is reported",
            field="results.reported",
            allowed="runs loaded from summary records, or rows=rs.extras.retrievers(ev).per_query",
        )
    return write_lines(
        path,
        (
            line
            | {name: round(line[name], 1) for name in ("elapsed_ms",) if name in line}
            | {"rank_first_match": None}
            | outcome
            for _, line, outcome in _lines(results, outcomes)
        ),
    )


def _reported_outcomes(results: Results) -> dict[Cell, dict[str, Any]]:
    """Return the outcome of each response as its file stated it."""
    cells = {} if results.reported is None else by_response(results.reported)
    return {cell: {row["metric"]: row.get("value") for row in rows} for cell, rows in cells.items()}


def _lines(
    results: Results, outcomes: dict[Cell, dict[str, Any]]
) -> Iterator[tuple[Cell, dict[str, Any], dict[str, Any]]]:
    """Yield each response's run and query, its line without hits, and its outcome.

    rank_first_match is null if an outcome is known and nothing matched.
    """
    ks = {str(run["run_id"]): run["k"] for run in row_dicts(results.runs) if "k" in run}
    n_by_text: dict[str, dict[str, int]] = {}
    for response in row_dicts(results.responses.astype({"run_id": "str"})):
        run_id, query_id = response["run_id"], response["query_id"]
        if (text := response.get("query")) is None:
            found = f"response {query_id!r} of {run_id} has no query text"
            raise DataError(found, field="responses.query", allowed="text")
        line = {"query": text}
        if numbered(query_key(text), n_by_text.setdefault(run_id, {})) != query_id:
            line["query_id"] = query_id
        line |= {"retriever": run_id} | ({"k": int(ks[run_id])} if run_id in ks else {})
        line |= {name: response[name] for name in ("elapsed_ms", "error") if name in response}
        stated = {"kind": response.pop("x_kind", None)} | outcomes.get((run_id, query_id), {})
        known = {
            name: of(stated[name]) for name, of in OUTCOMES.items() if pd.notna(stated.get(name))
        }
        if known.keys() & {"n_hits", "passed"}:
            known.setdefault("rank_first_match", None)
        outcome = {name: known[name] for name in OUTCOMES if name in known}
        yield (run_id, query_id), line | extra_fields(response), outcome


def _written_hits(
    hits: list[dict[str, Any]], hit_meta: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    by_rank: dict[int, dict[str, Any]] = {}
    for one in hit_meta:
        by_rank.setdefault(one["rank"], {})[one["key"]] = json.loads(one["value"])
    return [
        named_fields(hit, HIT) | {"metadata": by_rank.get(hit["rank"], {})} | extra_fields(hit)
        for hit in hits
    ]
