"""Results of several retrievers on one set of questions (JSON lines) <-> `Results`, one run per retriever.

A record names its question by text: {query, retriever, k, elapsed_ms, error?, hits: [{rank, id,
metadata, document}]}. A summary record says instead what came of it ({n_hits, rank_first_match,
passed, kind}); that is kept as `reported`.

`Results` -> the JSON lines of `io/formats/retrievers.py`.

The way back, so that load and write round-trip.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, from_records, records_of
from ragscore.io.detect import Sample
from ragscore.io.formats.predicates import numbered, query_key, warn_of_repeats
from ragscore.io.output import write_lines
from ragscore.io.source import Problems, Row, as_id, as_text, describe, json_rows
from ragscore.io.values import (
    flag,
    flatten,
    identifier,
    is_int,
    metadata,
    metadata_rows,
    number,
    text,
    unflatten,
    unify_types,
    whole,
)

KINDS = ("positive", "must_not_contain", "expected_empty")
SUMMARY = ("n_hits", "rank_first_match", "passed")
FIELDS = frozenset(
    ("query", "query_id", "retriever", "k", "elapsed_ms", "error", "hits", "kind", *SUMMARY)
)
HIT_FIELDS = frozenset(("rank", "id", "metadata", "document"))


@dataclass
class _Tables:
    """Records of each frame while a file is read.

    Per retriever its k, and how often and where its questions stood.
    """

    responses: list[dict[str, Any]] = field(default_factory=list)
    hits: list[dict[str, Any]] = field(default_factory=list)
    hit_meta: list[dict[str, Any]] = field(default_factory=list)
    reported: list[dict[str, Any]] = field(default_factory=list)
    ks: dict[str, int | None] = field(default_factory=dict)
    seen: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[tuple[str, str], int] = field(default_factory=dict)


def fits_results(seen: Sample) -> bool:
    """JSON lines that name a query and a retriever, and hold hits or what came of them."""
    return (
        seen.kind in ("jsonl", "json")
        and seen.has("query", "retriever")
        and bool(seen.keys & {"hits", "error", *SUMMARY})
        and not seen.has("hits_top_k")
    )


def read_retrievers(path: Path, strict: bool) -> Results:
    """Every run of a file, in the order in which its retrievers appear."""
    problems, tables = Problems(path, strict), _Tables()
    for row in json_rows(path, problems):
        _read(row, tables, problems)
    problems.typos.warn(stacklevel=3)
    counts: dict[str, int] = {}
    for seen in tables.seen.values():
        counts |= {key: max(n, counts.get(key, 0)) for key, n in seen.items()}
    warn_of_repeats(path, counts)
    of_run = {
        name: [one for one in tables.responses if one["run_id"] == name] for name in tables.ks
    }
    runs = [
        {
            "run_id": name,
            "system": name,
            "k": k,
            "n_queries": len(of_run[name]),
            "n_failed": sum(one["error"] is not None for one in of_run[name]),
        }
        for name, k in tables.ks.items()
    ]
    frames = {
        name: from_records(unify_types(getattr(tables, name)), name)
        for name in ("responses", "hits")
    }
    optional = {
        name: from_records(records, name)
        for name in ("hit_meta", "reported")
        if (records := getattr(tables, name))
    }
    return Results(runs=from_records(runs, "runs"), **frames, **optional, problems=problems.frame())


def _read(row: Row, tables: _Tables, problems: Problems) -> None:
    values, line = row.values, row.line
    problems.typos.check(values, FIELDS, line)
    query, retriever, hits = (
        as_text(values.get("query")),
        as_id(values.get("retriever")),
        values.get("hits"),
    )
    if query is None or not query_key(query):
        problems.add(
            f"found {describe(values.get('query'))}",
            line=line,
            field="query",
            allowed="text that isn't empty",
        )
    elif retriever is None:
        problems.add(
            f"found {describe(values.get('retriever'))}",
            line=line,
            field="retriever",
            allowed="text that isn't empty",
        )
    elif not isinstance(hits, (list, type(None))):
        problems.add(f"found {describe(hits)}", line=line, field="hits", allowed="a list")
    elif hits is None and values.get("error") is None and not values.keys() & set(SUMMARY):
        problems.add(
            "the record has neither hits nor an outcome nor an error",
            line=line,
            field="hits",
            allowed="a list, empty if nothing was found",
        )
    elif (query_id := _query_id(values, query, retriever, line, tables, problems)) is not None:
        cell = {"run_id": retriever, "query_id": query_id}
        _take_k(values, retriever, line, tables, problems)
        tables.responses.append(cell | _response(values, query, line, problems))
        tables.reported += [cell | one for one in _reported(values, line, problems)]
        for hit, meta in _hits(hits or [], line, problems):
            tables.hits.append(cell | hit)
            tables.hit_meta += [cell | {"rank": hit["rank"]} | one for one in meta]


def _query_id(
    values: dict[str, Any],
    query: str,
    retriever: str,
    line: int,
    tables: _Tables,
    problems: Problems,
) -> str | None:
    """The id that the record states, else the question's text.

    A repeated text is numbered, a repeated id is a problem.
    """
    stated = identifier(values.get("query_id"), "query_id", line, problems)
    if stated is None:
        stated = numbered(query_key(query), tables.seen.setdefault(retriever, {}))
    if (retriever, stated) in tables.lines:
        found = f"{stated!r} of {retriever} stood on line {tables.lines[retriever, stated]} already"
        problems.add(
            found, line=line, field="query_id", allowed="one record per retriever and query"
        )
        return None
    tables.lines[retriever, stated] = line
    return stated


def _take_k(
    values: dict[str, Any], retriever: str, line: int, tables: _Tables, problems: Problems
) -> None:
    k = whole(values.get("k"), "k", line, problems, lowest=1)
    before = tables.ks.setdefault(retriever, k)
    if before is None:
        tables.ks[retriever] = k
    elif k is not None and k != before:
        problems.add(
            f"found {k}, earlier records of {retriever} have {before}",
            line=line,
            field="k",
            allowed="one k per retriever",
        )


def _response(values: dict[str, Any], query: str, line: int, problems: Problems) -> dict[str, Any]:
    error = values.get("error")
    if error is not None and not isinstance(error, str):
        problems.add(f"found {describe(error)}", line=line, field="error", allowed="text or null")
        error = None if error is False else json.dumps(error, ensure_ascii=False)
    kind = text(values.get("kind"), "kind", line, problems)
    if kind is not None and kind not in KINDS:
        problems.add(
            f"found {describe(kind)}", line=line, field="kind", allowed=f"one of {', '.join(KINDS)}"
        )
        kind = None
    found: dict[str, Any] = {
        "query": query,
        "error": error,
        "elapsed_ms": number(values.get("elapsed_ms"), "elapsed_ms", line, problems),
    }
    found |= {"x_kind": kind} if kind is not None else {}
    return found | flatten({name: value for name, value in values.items() if name not in FIELDS})


def _reported(values: dict[str, Any], line: int, problems: Problems) -> Iterator[dict[str, Any]]:
    for name, lowest in (("n_hits", 0), ("rank_first_match", 1)):
        if (value := whole(values.get(name), name, line, problems, lowest)) is not None:
            yield {"metric": name, "value": float(value)}
    if (passed := flag(values.get("passed"), "passed", line, problems)) is not None:
        yield {"metric": "passed", "value": float(passed)}


def _hits(
    hits: list[Any], line: int, problems: Problems
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Each hit and its metadata."""
    for hit, rank in zip(hits, _ranks(hits, line, problems), strict=True):
        if not isinstance(hit, dict):
            problems.add(
                f"found {describe(hit)}", line=line, field="hits", allowed="a list of objects"
            )
            continue
        known = metadata(hit.get("metadata"), "hits.metadata", line, problems)
        found: dict[str, Any] = {
            "rank": rank,
            "chunk_id": identifier(hit.get("id"), "hits.id", line, problems),
        }
        found["text"] = text(hit.get("document"), "hits.document", line, problems)
        # A source key that is no text stays metadata only: no expected key can equal it.
        found["source_key"] = as_id(known.get("source_key"))
        yield (
            found | flatten({name: value for name, value in hit.items() if name not in HIT_FIELDS}),
            metadata_rows(known),
        )


def _ranks(hits: list[Any], line: int, problems: Problems) -> list[int]:
    """Stored ranks if every hit has one, else list order.

    Ranks that can't be are a problem and list order is taken.
    """
    in_order = list(range(1, len(hits) + 1))
    stored = [hit.get("rank") if isinstance(hit, dict) else None for hit in hits]
    if all(rank is None for rank in stored):
        return in_order
    ranks = [rank for rank in stored if is_int(rank) and 1 <= rank < 2**31]
    if len(set(ranks)) == len(stored):
        return ranks
    problems.add(
        f"ranks are {describe(stored)}",
        line=line,
        field="hits.rank",
        allowed="whole numbers from 1, each once, or no rank at all",
    )
    return in_order


OUTCOME = ("n_hits", "rank_first_match", "passed", "kind")


def write_retrievers(results: Results, path: str | Path) -> Path:
    """Write runs as records with hits, one line per retriever and question, in the order of the responses.

    Loading the file gives the same frames again, fields of your own and values that the file had
    reported included. A line names its `query_id` only where that isn't the question's text.

    Returns
    -------
    The file's path; its folder is created.
    """
    hits = _grouped(results.hits)
    meta = _grouped(results.hit_meta) if results.hit_meta is not None else {}
    return write_lines(
        path,
        (
            line | {"hits": _hits_of(cell, hits, meta)} | outcome
            for cell, line, outcome in _lines(results, _outcomes_of(results))
        ),
    )


def write_retriever_summary(
    results: Results, path: str | Path, rows: pd.DataFrame | None = None
) -> Path:
    """Write what came of each question (n_hits, rank_first_match, passed, kind), without hits.

    Parameters
    ----------
    rows
        The outcomes, from `rs.predicate_rows`; by default those that the runs' file reported
        itself.

    Returns
    -------
    The file's path; its folder is created.

    Raises
    ------
    DataError
        No rows are given and nothing is reported: the runs come from another kind of file.
    """
    if rows is None and results.reported is None:
        raise DataError(
            "nothing is reported",
            field="results.reported",
            allowed="runs loaded from summary records, or rows=rs.predicate_rows(...)",
        )
    outcomes = (
        _outcomes_of(results)
        if rows is None
        else {
            (one["run_id"], one["query_id"]): one
            for one in records_of(rows.astype({"run_id": "str"}))
        }
    )
    return write_lines(
        path,
        (
            line | {"rank_first_match": None} | outcome
            for _, line, outcome in _lines(results, outcomes)
        ),
    )


def _outcomes_of(results: Results) -> dict[tuple[str, str], dict[str, Any]]:
    """What the file said of each response."""
    found = {
        cell: {one["metric"]: one["value"] for one in rows}
        for cell, rows in (
            _grouped(results.reported) if results.reported is not None else {}
        ).items()
    }
    if "x_kind" in results.responses:
        for run_id, query_id, kind in (
            results.responses[["run_id", "query_id", "x_kind"]].dropna().itertuples(index=False)
        ):
            found.setdefault((str(run_id), query_id), {})["kind"] = kind
    return found


def _lines(
    results: Results, outcomes: dict[tuple[str, str], dict[str, Any]]
) -> Iterator[tuple[tuple[str, str], dict[str, Any], dict[str, Any]]]:
    """Run and query of each response, its line without hits, and what came of it."""
    ks = (
        dict(zip(results.runs["run_id"].astype("str"), results.runs["k"], strict=True))
        if "k" in results.runs
        else {}
    )
    seen: dict[str, dict[str, int]] = {}
    for response in records_of(results.responses.astype({"run_id": "str"})):
        run_id, query_id, query = response["run_id"], response["query_id"], response["query"]
        if query is None:
            raise DataError(
                f"response {query_id!r} of {run_id} has no query text",
                field="responses.query",
                allowed="text",
            )
        line: dict[str, Any] = {"query": query}
        if numbered(query_key(query), seen.setdefault(run_id, {})) != query_id:
            line["query_id"] = query_id
        line["retriever"] = run_id
        if not pd.isna(k := ks.get(run_id)):
            line["k"] = int(k)
        line |= {
            name: response[name]
            for name in ("elapsed_ms", "error")
            if response.get(name) is not None
        }
        line |= unflatten(
            {
                name: value
                for name, value in response.items()
                if name.startswith("x_") and name != "x_kind" and value is not None
            }
        )
        yield (run_id, query_id), line, _outcome(outcomes.get((run_id, query_id), {}))


def _outcome(values: dict[str, Any]) -> dict[str, Any]:
    """The known values as JSON has them: whole numbers, true or false, text.

    An outcome says so where nothing matched: rank_first_match null.
    """
    types = {"n_hits": int, "rank_first_match": int, "passed": bool, "kind": str}
    known = {name: types[name](values[name]) for name in OUTCOME if not pd.isna(values.get(name))}
    return {
        name: known.get(name)
        for name in OUTCOME
        if name in known or (name == "rank_first_match" and known.keys() & {"n_hits", "passed"})
    }


def _hits_of(
    cell: tuple[str, str],
    hits: dict[tuple[str, str], list[dict[str, Any]]],
    meta: dict[tuple[str, str], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    by_rank: dict[int, dict[str, Any]] = {}
    for one in meta.get(cell, []):
        by_rank.setdefault(one["rank"], {})[one["key"]] = json.loads(one["value"])
    return [_hit(hit, by_rank.get(hit["rank"], {})) for hit in hits.get(cell, [])]


def _hit(hit: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"rank": int(hit["rank"])}
    found |= {
        name: hit[column]
        for name, column in (("id", "chunk_id"), ("document", "text"))
        if hit.get(column) is not None
    }
    return (
        found
        | {"metadata": metadata}
        | unflatten(
            {
                name: value
                for name, value in hit.items()
                if name.startswith("x_") and value is not None
            }
        )
    )


def _grouped(frame: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records_of(frame.astype({"run_id": "str"})):
        rows.setdefault((row["run_id"], row["query_id"]), []).append(row)
    return rows
