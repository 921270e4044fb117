"""Results of several retrievers on one set of questions (JSON lines) <-> `Results`, one run per retriever.

A record names its question by text: {query, retriever, k, elapsed_ms, error?, hits: [{rank, id,
metadata, document}]}. A summary record says instead what came of it ({n_hits, rank_first_match,
passed, kind}); that is kept as `reported`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ragscore.frames.data import Results, from_records
from ragscore.io.detect import Sample
from ragscore.io.fields import (
    flag,
    identifier,
    is_int,
    metadata,
    metadata_rows,
    number,
    text,
    whole,
)
from ragscore.io.formats.predicates import numbered, query_key, warn_of_repeats
from ragscore.io.source import Problems, Row, as_id, as_text, json_rows, shown
from ragscore.io.values import flatten, settle

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
    problems.slips.warn(stacklevel=3)
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
        name: from_records(settle(getattr(tables, name)), name) for name in ("responses", "hits")
    }
    optional = {
        name: from_records(records, name)
        for name in ("hit_meta", "reported")
        if (records := getattr(tables, name))
    }
    return Results(runs=from_records(runs, "runs"), **frames, **optional, problems=problems.frame())


def _read(row: Row, tables: _Tables, problems: Problems) -> None:
    values, line = row.values, row.line
    problems.slips.look(values, FIELDS, line)
    query, retriever, hits = (
        as_text(values.get("query")),
        as_id(values.get("retriever")),
        values.get("hits"),
    )
    if query is None or not query_key(query):
        problems.add(
            f"found {shown(values.get('query'))}",
            line=line,
            field="query",
            allowed="text that isn't empty",
        )
    elif retriever is None:
        problems.add(
            f"found {shown(values.get('retriever'))}",
            line=line,
            field="retriever",
            allowed="text that isn't empty",
        )
    elif not isinstance(hits, (list, type(None))):
        problems.add(f"found {shown(hits)}", line=line, field="hits", allowed="a list")
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
        problems.add(f"found {shown(error)}", line=line, field="error", allowed="text or null")
        error = None if error is False else json.dumps(error, ensure_ascii=False)
    kind = text(values.get("kind"), "kind", line, problems)
    if kind is not None and kind not in KINDS:
        problems.add(
            f"found {shown(kind)}", line=line, field="kind", allowed=f"one of {', '.join(KINDS)}"
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
                f"found {shown(hit)}", line=line, field="hits", allowed="a list of objects"
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
        f"ranks are {shown(stored)}",
        line=line,
        field="hits.rank",
        allowed="whole numbers from 1, each once, or no rank at all",
    )
    return in_order
