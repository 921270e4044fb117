"""Results of several retrievers on one set of queries (JSON lines) <-> `Results`.

One run per retriever. A record names its query by text: {query, retriever, k, elapsed_ms, error?,
hits: [{rank, id, metadata, document}]}. A summary record has no hits but their outcome ({n_hits,
rank_first_match, passed, kind}), which is kept as `reported`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records, records_of
from ragscore.frames.errors import plural, warn
from ragscore.io.formats.fields import Fields, frames_of, named_fields, ranks_of, take_columns
from ragscore.io.formats.predicates import numbered, query_key, warn_of_repeats
from ragscore.io.left_out import counting_left_out
from ragscore.io.object_columns import Columns, HitColumns, Values, extras, gathered, taken, texts
from ragscore.io.output import by_response, write_lines
from ragscore.io.records import Record, Stored, Tables
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.values import (
    extra_fields,
    flag,
    flatten,
    identifier,
    metadata,
    number,
    row_dicts,
    text,
    whole,
)

OUTCOMES = {"n_hits": int, "rank_first_match": int, "passed": bool, "kind": str}
"""Fields of a summary record, and their types in JSON."""
SUMMARY = ("n_hits", "rank_first_match", "passed")
KINDS = ("positive", "must_not_contain", "expected_empty")
HIT: Fields = {
    "rank": ("rank", whole),
    "id": ("chunk_id", identifier),
    "document": ("text", text),
}
FIELDS = frozenset(
    ("query", "query_id", "retriever", "k", "elapsed_ms", "error", "hits", *OUTCOMES)
)

Cell = tuple[str, str]
"""Run and query of a response."""


@dataclass
class _Records(Tables):
    """Rows while a file is read, and what spans records.

    Per retriever its k and how often each query text stood there; the line of each response.
    """

    ks: dict[str, int | None] = field(default_factory=dict)
    n_by_text: dict[str, dict[str, int]] = field(default_factory=dict)
    places: dict[Cell, int] = field(default_factory=dict)
    n_told: int = 0  # records of outcomes that name no hit, though there were some


def read_retrievers(path: Path, strict: bool) -> Results:
    """Read every run of a file, in the order in which its retrievers appear."""
    problems = Problems(path, strict)
    records, hits = gathered(path, problems, _begin, _hit_columns(), _read_row)
    problems.typos.warn()
    most: dict[str, int] = {}
    for n_by_text in records.n_by_text.values():
        most |= {key: max(n, most.get(key, 0)) for key, n in n_by_text.items()}
    warn_of_repeats(path, most)
    if n := records.n_told:
        warn(
            f"{path}: {plural(n, 'record')} of outcomes say that there were hits (n_hits), and hold"
            " none: metrics of hits are 0 there; results.reported has the outcomes, and"
            " to_profile('seed-mcp') counts them"
        )
    runs = []
    for name, k in records.ks.items():
        errors = [one["error"] for one in records.responses if one["run_id"] == name]
        n_failed = sum(error is not None for error in errors)
        counts = {"n_queries": len(errors), "n_failed": n_failed}
        runs.append({"run_id": name, "system": name, "k": k, **counts})
    kinds = ("responses", "hits", "hit_meta", "reported")
    rows = {kind: getattr(records, kind) for kind in kinds}
    frames = frames_of(rows, ("hit_meta", "reported"))
    if hits is not None:
        names = ("run_id", "query_id")
        frames |= hits.frames({name: [one[name] for one in records.responses] for name in names})
    return Results(
        runs=from_records(runs, "runs"),
        **frames,
        problems=problems.frame(),
    )


def _read_row(row: Row, records: _Records, problems: Problems) -> None:
    values, line = row.values, row.line
    problems.typos.check(values, FIELDS, line)
    query, retriever = as_text(values.get("query")), as_id(values.get("retriever"))
    hits = values.get("hits")
    if query is None or not query_key(query):
        problems.reject(values.get("query"), line, "query", "text that isn't empty")
    elif retriever is None:
        problems.reject(values.get("retriever"), line, "retriever", "text that isn't empty")
    elif not isinstance(hits, (list, type(None))):
        problems.reject(hits, line, "hits", "a list")
    elif hits is None and values.get("error") is None and not values.keys() & set(SUMMARY):
        problems.add(
            "the record has neither hits nor an outcome nor an error",
            line=line,
            field="hits",
            allowed="a list, empty if nothing was found",
        )
    elif (query_id := _query_id(row, query, retriever, records, problems)) is not None:
        cell = {"run_id": retriever, "query_id": query_id}
        k = whole(values.get("k"), "k", line, problems, lowest=1)
        known_k = records.ks.get(retriever)
        records.ks[retriever] = k if known_k is None else known_k
        if k is not None and known_k is not None and k != known_k:
            found = f"found {k}, earlier records of {retriever} have {known_k}"
            problems.add(found, line=line, field="k", allowed="one k per retriever")
        record = Record(line, response=_response(values, query, line, problems))
        record.stored = list(_reported(values, line, problems))
        record.hits = hits or []
        if records.columns is None:
            record.hits = list(_hits(record.hits, line, problems))
        records.n_told += not record.hits and any(
            one.metric == "n_hits" and one.value for one in record.stored
        )
        records.add(record, cell)


def _query_id(
    row: Row, query: str, retriever: str, records: _Records, problems: Problems
) -> str | None:
    """Return the id that a record states, else its query's text.

    A repeated text is numbered; a repeated id is a problem.
    """
    query_id = identifier(row.values.get("query_id"), "query_id", row.line, problems)
    if query_id is None:
        query_id = numbered(query_key(query), records.n_by_text.setdefault(retriever, {}))
    before = records.places.setdefault((retriever, query_id), row.line)
    if before == row.line:
        return query_id
    what, allowed = f"{query_id!r} of {retriever}", "one record per retriever and query"
    problems.repeat(what, before, row.line, "query_id", allowed)
    return None


def _response(values: dict[str, Any], query: str, line: int, problems: Problems) -> dict[str, Any]:
    error = values.get("error")
    if error is not None and not isinstance(error, str):
        problems.reject(error, line, "error", "text or null")
        error = None if error is False else json.dumps(error, ensure_ascii=False)
    kind = text(values.get("kind"), "kind", line, problems)
    if kind is not None and kind not in KINDS:
        problems.reject(kind, line, "kind", f"one of {', '.join(KINDS)}")
        kind = None
    elapsed_ms = number(values.get("elapsed_ms"), "elapsed_ms", line, problems)
    response = {"query": query, "error": error, "elapsed_ms": elapsed_ms}
    response |= {"x_kind": kind} if kind is not None else {}
    return response | flatten({name: one for name, one in values.items() if name not in FIELDS})


def _reported(values: dict[str, Any], line: int, problems: Problems) -> Iterator[Stored]:
    outcomes = {
        "n_hits": whole(values.get("n_hits"), "n_hits", line, problems),
        "rank_first_match": whole(
            values.get("rank_first_match"), "rank_first_match", line, problems, lowest=1
        ),
        "passed": flag(values.get("passed"), "passed", line, problems),
    }
    for name, value in outcomes.items():
        if value is not None:
            yield Stored(name, float(value), is_judged=False)


def _hits(hits: list[Any], line: int, problems: Problems) -> Iterator[dict[str, Any]]:
    """Yield the columns of each hit, with its metadata."""
    for hit, rank in zip(hits, ranks_of(hits, "hits.rank", line, problems), strict=True):
        if not isinstance(hit, dict):
            problems.reject(hit, line, "hits", "a list of objects")
            continue
        values = hit | {"rank": rank}
        known = metadata(values.pop("metadata", None), "hits.metadata", line, problems)
        columns = take_columns(values, HIT, line, problems, "hits.")
        # A source key that is no text stays metadata only: no expected key can equal it.
        columns["source_key"] = as_id(known.get("source_key"))
        yield columns | flatten(values) | {"metadata": known}


def _begin(columns: HitColumns | None) -> _Records:
    return _Records(columns=columns)


def _hit_columns() -> HitColumns:
    """Return what gathers hits as columns, as `_hits` reads them one by one."""
    quiet = Problems("", strict=True)
    return HitColumns(_columns, lambda hit: next(_hits([hit], 1, quiet)), has_meta=True)


def _columns(values: dict[str, Values]) -> Columns:
    about = values.pop("metadata", ())
    found = taken(values, HIT)
    if about:
        found["source_key"] = texts([as_id((one or {}).get("source_key")) for one in about])
    extras(values, found)
    return found


@counting_left_out("retrievers")
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
    outcomes: dict[Cell, dict[str, Any]] = {}
    if results.reported is not None:
        for cell, rows in by_response(results.reported).items():
            outcomes[cell] = {row["metric"]: row.get("value") for row in rows}
    if "x_kind" in results.responses:
        kinds = results.responses[["run_id", "query_id", "x_kind"]].dropna()
        for run_id, query_id, kind in kinds.itertuples(index=False):
            outcomes.setdefault((str(run_id), query_id), {})["kind"] = kind
    return outcomes


def _lines(
    results: Results, outcomes: dict[Cell, dict[str, Any]]
) -> Iterator[tuple[Cell, dict[str, Any], dict[str, Any]]]:
    """Yield each response's run and query, its line without hits, and its outcome."""
    ks = {str(run["run_id"]): run["k"] for run in row_dicts(results.runs) if "k" in run}
    n_by_text: dict[str, dict[str, int]] = {}
    for response in row_dicts(results.responses.astype({"run_id": "str"})):
        run_id, query_id = response["run_id"], response["query_id"]
        if "query" not in response:
            raise DataError(
                f"response {query_id!r} of {run_id} has no query text",
                field="responses.query",
                allowed="text",
            )
        line: dict[str, Any] = {"query": response["query"]}
        key = query_key(response["query"])
        if numbered(key, n_by_text.setdefault(run_id, {})) != query_id:
            line["query_id"] = query_id
        line["retriever"] = run_id
        line |= {"k": int(ks[run_id])} if run_id in ks else {}
        line |= {name: response[name] for name in ("elapsed_ms", "error") if name in response}
        response.pop("x_kind", None)  # part of the outcome
        line |= extra_fields(response)
        yield (run_id, query_id), line, _outcome(outcomes.get((run_id, query_id), {}))


def _outcome(values: dict[str, Any]) -> dict[str, Any]:
    """Return the known values in JSON's types.

    rank_first_match is null if an outcome is known and nothing matched.
    """
    known = {
        name: to_type(values[name])
        for name, to_type in OUTCOMES.items()
        if not pd.isna(values.get(name))
    }
    has_outcome = bool(known.keys() & {"n_hits", "passed"})
    return {
        name: known.get(name)
        for name in OUTCOMES
        if name in known or (name == "rank_first_match" and has_outcome)
    }


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
