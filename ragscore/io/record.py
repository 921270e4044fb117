"""One record of a run file -> rows of responses, hits, their metadata, citations and hops.

In: a `Row` of per_query.jsonl. Out: rows in `Tables`. Fields without a column go to `x_*` columns;
a value that a column can't hold is a problem with its line. The tables of fields below serve the
reader and the writer (per_query_write.py).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragscore.io.citations import read_heading, read_span
from ragscore.io.source import Problems, Row, as_id, as_text, describe
from ragscore.io.values import (
    ID_ALLOWED,
    FieldReader,
    as_json,
    extra_fields,
    flag,
    flatten,
    is_int,
    metadata,
    metadata_rows,
    number,
)

UNKNOWN = "unknown"
"""`refused` of an answer that tells neither that it is a refusal nor that it is none."""
SCORES = {"fusion_score": "score", "lexical_score": "score_lexical", "vector_score": "score_vector"}
TOKENS = ("prompt_tokens", "completion_tokens")
ANSWER_COLUMNS = ("answer", "grounded", "refused", "refusal_reason", "cost_usd")
HIT_COLUMNS = {
    "rank": "rank",
    "chunk_id": "chunk_id",
    "doc_id": "doc_id",
    "source_key": "source_key",
    "chunker_version": "chunker_version",
    "stale": "stale",
    "text_cut": "text_cut",
    "score_kind": "score_kind",
    "doc_path": "path",
    "snippet": "text",
}
"""Field of a hit -> its column, in the order in which they are written."""
HIT_TEXT = {
    name: HIT_COLUMNS[name] for name in ("snippet", "score_kind", "source_key", "chunker_version")
}
HOP_COLUMNS = {
    "iter": "hop",
    "kind": "kind",
    "sub_queries": "sub_queries",
    "context_chunks_added": "chunks_added",
    "forced_stop": "forced_stop",
    "llm_call_ms": "llm_call_ms",
}
"""Field of a step -> its column; `sub_queries` is a list in the file and JSON text in the frame."""

# Fields that become columns. KNOWN_* adds those that this format's tool writes beside them, so that
# nobody is asked whether they are typos.
RECORD_FIELDS = frozenset(
    ("query_id", "query", "mode", "hits_top_k", "elapsed_ms", "error", "scope")
)
ANSWER_FIELDS = frozenset((*ANSWER_COLUMNS, "citations"))
CITATION_FIELDS = frozenset(("marker", "chunk_id", "doc_id", "path", "span_unit"))
HIT_FIELDS = frozenset((*HIT_COLUMNS, "span_unit", "metadata", "score_lexical", "score_vector"))
KNOWN_RECORD = RECORD_FIELDS | {"answer"}
KNOWN_ANSWER = ANSWER_FIELDS | {
    "usage", "model", "embedding", "prompt_template_version", "retrieval", "created_at", "hops",
    "verification",
}  # fmt: skip
KNOWN_CITATION = CITATION_FIELDS | {
    "citation", "heading_path", "start", "end", "indexed_at", "stale",
}  # fmt: skip
KNOWN_HIT = HIT_FIELDS | {
    "citation", "heading_path", "retrieval", "score", "start", "end",
    "section_label", "index_version", "embedding_model", "indexed_at", "repo", "code_lang",
    "source_id", "trust_level",
}  # fmt: skip


RUN_FIELDS = ("run_id", "run_name", "run", "system")
"""Fields that may name the run of a record. A file holds one run, so they have one value."""


@dataclass
class Tables:
    """Rows of each frame while a file is read, the line of each query, and the run's names."""

    responses: list[dict[str, Any]] = field(default_factory=list)
    hits: list[dict[str, Any]] = field(default_factory=list)
    hit_meta: list[dict[str, Any]] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    hops: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)


def read_record(row: Row, tables: Tables, problems: Problems) -> None:
    """Add one record to the tables; one without an id, or with that of another, is a problem."""
    record, line = FieldReader(row.values, "", row.line, problems), row.line
    problems.typos.check(record.values, KNOWN_RECORD, line)
    query_id = _query_id(record, tables)
    if query_id is None:
        return
    for name in RUN_FIELDS:
        if (run := record.values.get(name)) is not None and tables.run.setdefault(name, run) != run:
            problems.add(
                f"found {describe(run)} after {describe(tables.run[name])}",
                line=line,
                field=name,
                allowed="one run in a file; format='table' reads several",
            )
            return
    hits, answer = record.pop("hits_top_k"), record.pop("answer")
    if not isinstance(hits, (list, type(None))):
        record.reject(hits, "hits_top_k", "a list")
        return
    if not isinstance(answer, (dict, str, type(None))):
        record.reject(answer, "answer", "an object, text or null")
        return
    tables.lines[query_id] = line
    response: dict[str, Any] = {"query_id": query_id, "query": record.text("query")}
    response["error"] = _error(record)
    response["mode"] = record.text("mode")
    scope = record.pop("scope")
    response["scope"] = scope if scope is None or isinstance(scope, str) else as_json(scope)
    for name in list(record.values):
        if name == "elapsed_ms" or name.startswith("latency_"):
            response[name] = record.number(name)
    response |= _answer(answer, query_id, line, tables, problems)
    tables.responses.append(response | flatten(record.values))
    for hit, meta in _hits(hits or [], query_id, line, problems):
        tables.hits.append(hit)
        tables.hit_meta += [{"query_id": query_id, "rank": hit["rank"], **pair} for pair in meta]


def _query_id(record: FieldReader, tables: Tables) -> str | None:
    line, problems = record.line, record.problems
    if "query_id" not in record.values:
        problems.add("the field is missing", line=line, field="query_id", allowed=ID_ALLOWED)
        return None
    value = record.pop("query_id")
    query_id = as_id(value)
    if query_id is None:
        record.reject(value, "query_id", ID_ALLOWED)
    elif query_id in tables.lines:
        problems.add(
            f"'{query_id}' stood on line {tables.lines[query_id]} already",
            line=line,
            field="query_id",
            allowed="one record per query",
        )
        return None
    return query_id


def _error(record: FieldReader) -> str | None:
    """Return why a query failed; a value that isn't text counts as a failure, too."""
    error = record.pop("error")
    if error is None or isinstance(error, str):
        return error
    record.reject(error, "error", "text or null")
    return None if error is False else as_json(error)


def _answer(
    value: dict[str, Any] | str | None,
    query_id: str,
    line: int,
    tables: Tables,
    problems: Problems,
) -> dict[str, Any]:
    """Return the columns of an answer; its citations and hops go to their tables."""
    if value is None:
        return {}
    values = value if isinstance(value, dict) else {"answer": value}
    answer = FieldReader(values, "answer.", line, problems)
    problems.typos.check(answer.values, KNOWN_ANSWER, line)
    found: dict[str, Any] = {name: answer.text(name) for name in ("answer", "refusal_reason")}
    found["grounded"] = answer.flag("grounded")
    found["refused"] = _refused(answer, found)
    found["cost_usd"] = answer.number("cost_usd")
    found |= _tokens(answer)
    citations = _citations(answer, query_id)
    tables.citations += citations
    hops = []
    if answer.values.get("hops") != []:  # an empty list stays among the extra fields
        hops = read_hops(answer.pop("hops"), query_id, line, problems)
        tables.hops += hops
    # Extra fields tell that there was an answer object. So does any value of a column; an object
    # without either is recorded as an empty one.
    has_trace = bool(citations or hops) or any(value is not None for value in found.values())
    if has_trace and not answer.values:
        return found
    return found | flatten({"answer": answer.values})


def _refused(answer: FieldReader, found: dict[str, Any]) -> bool | None:
    """Return what an answer states about being a refusal, else what it implies."""
    stated = answer.pop("refused")
    if stated == UNKNOWN:
        return None
    allowed = f'true, false, "{UNKNOWN}", or null for what answer and grounded imply'
    refused = flag(stated, "answer.refused", answer.line, answer.problems, allowed)
    return implied_refusal(found["answer"], found["grounded"]) if refused is None else refused


def implied_refusal(answer: str | None, grounded: bool | None) -> bool | None:
    """Return True for an answer that isn't grounded, or that is blank if `grounded` is unknown."""
    if isinstance(grounded, bool):
        return not grounded
    return None if answer is None else not answer.strip()


def _tokens(answer: FieldReader) -> dict[str, int | None]:
    """Take the tokens out of `usage`; its other fields stay in it."""
    if not isinstance(answer.values.get("usage"), dict):
        return {}
    usage = FieldReader(answer.pop("usage"), "answer.usage.", answer.line, answer.problems)
    found = {name: usage.whole(name) for name in TOKENS}
    if usage.values:
        answer.values["usage"] = usage.values
    return found


def _citations(answer: FieldReader, query_id: str) -> list[dict[str, Any]]:
    items, allowed = answer.pop("citations"), "a list of objects"
    if not isinstance(items, (list, type(None))):
        answer.reject(items, "citations", allowed)
        return []
    found: list[dict[str, Any]] = []
    for item in items or []:
        if not isinstance(item, dict):
            answer.reject(item, "citations", allowed)
            continue
        citation = FieldReader(item, "answer.citations.", answer.line, answer.problems)
        answer.problems.typos.check(item, KNOWN_CITATION, answer.line)
        found.append(
            {
                "query_id": query_id,
                "position": len(found) + 1,
                "marker": citation.text("marker"),
                "chunk_id": citation.identifier("chunk_id"),
                "doc_id": citation.identifier("doc_id"),
                **read_span(citation, "path"),
                **read_heading(citation),
                **flatten(citation.values),
            }
        )
    return found


def read_hops(hops: Any, query_id: str, line: int, problems: Problems) -> list[dict[str, Any]]:
    """Return one row per step of a multi-hop answer, numbered as the file numbers them.

    Durations are as written, where 0 ms means that none was taken.
    """
    if hops is None:
        return []
    if not isinstance(hops, list) or not all(isinstance(hop, dict) for hop in hops):
        problems.reject(hops, line, "answer.hops", "a list of objects, or null")
        return []
    numbers = _hop_numbers(hops, line, problems)
    return [
        {"query_id": query_id, "hop": number, **_hop(hop, line, problems)}
        for number, hop in zip(numbers, hops, strict=True)
    ]


def _hop_numbers(hops: list[dict[str, Any]], line: int, problems: Problems) -> list[int]:
    """Return each step's own number if all have one, once each; else their order, from 0."""
    in_order = list(range(len(hops)))
    numbers = [hop.get("iter") for hop in hops]
    if all(number is None for number in numbers):
        return in_order
    valid = [number for number in numbers if is_int(number) and 0 <= number < 2**31]
    if len(set(valid)) < len(numbers):
        allowed = "whole numbers from 0, each once, or no number at all"
        problems.reject(numbers, line, "answer.hops.iter", allowed)
        return in_order
    return valid


def _hop(values: dict[str, Any], line: int, problems: Problems) -> dict[str, Any]:
    hop = FieldReader(values, "answer.hops.", line, problems)
    hop.pop("iter")
    found: dict[str, Any] = {"kind": hop.text("kind")}
    queries = hop.pop("sub_queries")
    if isinstance(queries, list) and all(as_text(query) is not None for query in queries):
        found["sub_queries"] = as_json(queries)
    elif queries is not None:
        hop.reject(queries, "sub_queries", "a list of texts, or null")
    found["chunks_added"] = hop.whole("context_chunks_added")
    found["forced_stop"] = hop.flag("forced_stop")
    found["llm_call_ms"] = hop.number("llm_call_ms")
    return found | flatten(hop.values)


def hop_record(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the hops frame (without its run and query) as the object of the file."""
    hop = {name: row[column] for name, column in HOP_COLUMNS.items() if column in row}
    if "sub_queries" in hop:
        hop["sub_queries"] = json.loads(hop["sub_queries"])
    return hop | extra_fields(row)


def _hits(
    hits: list[Any], query_id: str, line: int, problems: Problems
) -> Iterator[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Yield each hit and its metadata."""
    ranks = _ranks(hits, query_id, line, problems)
    for hit, rank in zip(hits, ranks, strict=True):
        if not isinstance(hit, dict):
            problems.reject(hit, line, "hits_top_k", "a list of objects")
            continue
        meta = metadata(hit.get("metadata"), "hits_top_k.metadata", line, problems)
        found = {"query_id": query_id, "rank": rank, **_hit(hit, line, problems)}
        if "source_key" in meta and "source_key" not in hit:
            found["source_key"] = as_id(meta["source_key"])
        yield found, metadata_rows(meta)


def _hit(values: dict[str, Any], line: int, problems: Problems) -> dict[str, Any]:
    problems.typos.check(values, KNOWN_HIT, line)
    hit = FieldReader(values, "hits_top_k.", line, problems)
    hit.pop("rank")
    hit.pop("metadata")
    found: dict[str, Any] = {name: hit.identifier(name) for name in ("chunk_id", "doc_id")}
    found |= read_span(hit, "doc_path")
    for name, column in HIT_TEXT.items():
        if (value := hit.text(name)) is not None:
            found[column] = value
    for name in ("stale", "text_cut"):
        if name in hit.values:
            found[name] = hit.flag(name)
    found |= _scores(hit) | read_heading(hit)
    return found | flatten(hit.values)


def _scores(hit: FieldReader) -> dict[str, float | None]:
    """Take the scores of a hit out of `retrieval`, else out of the hit itself.

    Other fields of `retrieval` stay in it.
    """
    detail = hit.values.get("retrieval")
    line, problems = hit.line, hit.problems
    inside = dict(detail) if isinstance(detail, dict) else {}
    found = {
        column: number(inside.pop(name, None), f"hits_top_k.retrieval.{name}", line, problems)
        for name, column in SCORES.items()
    }
    for column, score in found.items():
        if score is None:
            found[column] = hit.number(column)
    if isinstance(detail, dict):
        hit.pop("retrieval")
        if inside:
            hit.values["retrieval"] = inside
    return found


def _ranks(hits: list[Any], query_id: str, line: int, problems: Problems) -> list[int]:
    """Return the stored ranks if every hit has one, else list order.

    Invalid ranks are a problem; list order replaces them.
    """
    in_order = list(range(1, len(hits) + 1))
    stored = [hit.get("rank") if isinstance(hit, dict) else None for hit in hits]
    if all(rank is None for rank in stored):
        return in_order
    bad = next((rank for rank in stored if type(rank) is not int or not 1 <= rank < 2**31), None)
    if bad is not None or None in stored:
        problems.add(
            f"rank is {describe(bad)} for query {query_id!r}",
            line=line,
            field="hits_top_k.rank",
            allowed="whole numbers from 1, each once, or no rank at all",
        )
        return in_order
    ranks = [int(rank) for rank in stored if rank is not None]
    if len(set(ranks)) < len(ranks):
        twice = next(rank for rank in ranks if ranks.count(rank) > 1)
        problems.add(
            f"rank {twice} appears twice for query {query_id!r}",
            line=line,
            field="hits_top_k.rank",
            allowed="ranks must be 1, 2, 3, ...",
        )
        return in_order
    return ranks
