"""One record of a run file -> rows of responses, hits, their metadata, and citations.

What we have no column for is kept in `x_*` columns; what a column can't hold is a problem with its
line.

The steps of a multi-hop answer: `answer.hops` of a record -> rows of the hops frame, and back.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragscore.io import values as fields
from ragscore.io.citations import read_heading, read_span, with_path
from ragscore.io.source import Problems, Row, as_id, as_text, describe
from ragscore.io.values import (
    ID_ALLOWED,
    flag,
    flatten,
    identifier,
    metadata,
    metadata_rows,
    number,
    text,
    unflatten,
    whole,
)

_FIELD = "answer.hops"


def read_hops(hops: Any, query_id: str, line: int, problems: Problems) -> list[dict[str, Any]]:
    """One record per step, numbered as the file numbers them.

    Durations as written, where 0 ms means that none was taken.
    """
    if hops is None:
        return []
    if not isinstance(hops, list) or not all(isinstance(hop, dict) for hop in hops):
        problems.add(
            f"found {describe(hops)}", line=line, field=_FIELD, allowed="a list of objects, or null"
        )
        return []
    numbers = _numbers(hops, line, problems)
    return [
        {"query_id": query_id, "hop": number, **_hop(dict(hop), line, problems)}
        for number, hop in zip(numbers, hops, strict=True)
    ]


def hop_record(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the hops frame (without its run and query) as the object of the file."""
    extra = unflatten({name: value for name, value in row.items() if name.startswith("x_")})
    record: dict[str, Any] = {"iter": int(row["hop"])}
    if "kind" in row:
        record["kind"] = row["kind"]
    record |= {"sub_queries": json.loads(row["sub_queries"])} if "sub_queries" in row else {}
    record |= {"context_chunks_added": int(row["chunks_added"])} if "chunks_added" in row else {}
    record |= {"forced_stop": bool(row["forced_stop"])} if "forced_stop" in row else {}
    return record | ({"llm_call_ms": row["llm_call_ms"]} if "llm_call_ms" in row else {}) | extra


def _numbers(hops: list[dict[str, Any]], line: int, problems: Problems) -> list[int]:
    """Each step's own number if all have one, once each; else their order, from 0."""
    in_order = list(range(len(hops)))
    own = [hop.get("iter") for hop in hops]
    if all(number is None for number in own):
        return in_order
    whole = [
        number
        for number in own
        if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 2**31
    ]
    if len(set(whole)) < len(own):
        problems.add(
            f"found {describe(own)}",
            line=line,
            field=f"{_FIELD}.iter",
            allowed="whole numbers from 0, each once, or no number at all",
        )
        return in_order
    return whole


def _hop(values: dict[str, Any], line: int, problems: Problems) -> dict[str, Any]:
    values.pop("iter", None)
    found: dict[str, Any] = {
        "kind": fields.text(values.pop("kind", None), f"{_FIELD}.kind", line, problems)
    }
    asked = values.pop("sub_queries", None)
    if isinstance(asked, list) and all(as_text(query) is not None for query in asked):
        found["sub_queries"] = json.dumps(asked, ensure_ascii=False)
    elif asked is not None:
        problems.add(
            f"found {describe(asked)}",
            line=line,
            field=f"{_FIELD}.sub_queries",
            allowed="a list of texts, or null",
        )
    found["chunks_added"] = fields.whole(
        values.pop("context_chunks_added", None), f"{_FIELD}.context_chunks_added", line, problems
    )
    found["forced_stop"] = fields.flag(
        values.pop("forced_stop", None), f"{_FIELD}.forced_stop", line, problems
    )
    found["llm_call_ms"] = fields.number(
        values.pop("llm_call_ms", None), f"{_FIELD}.llm_call_ms", line, problems
    )
    return found | flatten(values)


UNKNOWN = "unknown"
"""`refused` of an answer that implies nothing: neither a refusal, nor none."""
SCORES = {"fusion_score": "score", "lexical_score": "score_lexical", "vector_score": "score_vector"}
TOKENS = ("prompt_tokens", "completion_tokens")
HIT_TEXT = {
    "snippet": "text",
    "score_kind": "score_kind",
    "source_key": "source_key",
    "chunker_version": "chunker_version",
}

# Fields that become columns; after them those that kebab has beside, so that no one is asked
# whether they are slips.
RECORD_FIELDS = frozenset(
    ("query_id", "query", "mode", "hits_top_k", "elapsed_ms", "error", "scope")
)
ANSWER_FIELDS = frozenset(
    ("answer", "citations", "grounded", "refused", "refusal_reason", "cost_usd")
)
CITATION_FIELDS = frozenset(("marker", "chunk_id", "doc_id", "path", "span_unit"))
HIT_FIELDS = frozenset(
    (
        "rank",
        "chunk_id",
        "doc_id",
        "stale",
        "text_cut",
        "span_unit",
        "doc_path",
        "metadata",
        "score_lexical",
        "score_vector",
        *HIT_TEXT,
    )
)
KNOWN_RECORD = RECORD_FIELDS | {"answer"}
KNOWN_ANSWER = ANSWER_FIELDS | {
    "usage",
    "model",
    "embedding",
    "prompt_template_version",
    "retrieval",
    "created_at",
    "hops",
    "verification",
}
KNOWN_CITATION = CITATION_FIELDS | {
    "citation",
    "heading_path",
    "start",
    "end",
    "indexed_at",
    "stale",
}
KNOWN_HIT = HIT_FIELDS | {
    "citation", "heading_path", "retrieval", "score", "start", "end",
    "section_label", "index_version", "embedding_model", "indexed_at", "repo", "code_lang",
    "source_id", "trust_level",
}  # fmt: skip


@dataclass
class Tables:
    """Records of each frame while a file is read, and the line of each question."""

    responses: list[dict[str, Any]] = field(default_factory=list)
    hits: list[dict[str, Any]] = field(default_factory=list)
    hit_meta: list[dict[str, Any]] = field(default_factory=list)
    citations: list[dict[str, Any]] = field(default_factory=list)
    hops: list[dict[str, Any]] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)


def read_record(row: Row, tables: Tables, problems: Problems) -> None:
    """Add one record to the tables; one without an id, or with another one's, is a problem."""
    values, line = dict(row.values), row.line
    problems.typos.check(values, KNOWN_RECORD, line)
    query_id = _query_id(values, line, tables, problems)
    if query_id is None:
        return
    hits, answer = values.pop("hits_top_k", None), values.pop("answer", None)
    if not isinstance(hits, (list, type(None))):
        problems.add(f"found {describe(hits)}", line=line, field="hits_top_k", allowed="a list")
        return
    if not isinstance(answer, (dict, str, type(None))):
        problems.add(
            f"found {describe(answer)}",
            line=line,
            field="answer",
            allowed="an object, text or null",
        )
        return
    tables.lines[query_id] = line
    response: dict[str, Any] = {
        "query_id": query_id,
        "query": text(values.pop("query", None), "query", line, problems),
    }
    response["error"] = _error(values.pop("error", None), line, problems)
    response["mode"] = text(values.pop("mode", None), "mode", line, problems)
    response["scope"] = _json_text(values.pop("scope", None))
    response |= {
        name: number(values.pop(name), name, line, problems)
        for name in list(values)
        if name == "elapsed_ms" or name.startswith("latency_")
    }
    response |= _answer(answer, query_id, line, tables, problems)
    tables.responses.append(response | flatten(values))
    for found, meta in _hits(hits or [], query_id, line, problems):
        tables.hits.append(found)
        tables.hit_meta += [{"query_id": query_id, "rank": found["rank"], **one} for one in meta]


def _query_id(values: dict[str, Any], line: int, tables: Tables, problems: Problems) -> str | None:
    if "query_id" not in values:
        problems.add("the field is missing", line=line, field="query_id", allowed=ID_ALLOWED)
        return None
    written = values.pop("query_id")
    query_id = as_id(written)
    if query_id is None:
        problems.add(f"found {describe(written)}", line=line, field="query_id", allowed=ID_ALLOWED)
    elif query_id in tables.lines:
        problems.add(
            f"'{query_id}' stood on line {tables.lines[query_id]} already",
            line=line,
            field="query_id",
            allowed="one record per query",
        )
        return None
    return query_id


def _error(written: Any, line: int, problems: Problems) -> str | None:
    """Why a query failed. Whatever stands there counts as a failure, even where it isn't text."""
    if written is None or isinstance(written, str):
        return written
    problems.add(f"found {describe(written)}", line=line, field="error", allowed="text or null")
    return None if written is False else json.dumps(written, ensure_ascii=False)


def _json_text(value: Any) -> str | None:
    """A value of any shape as text: JSON, unless it is text already."""
    return (
        value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )


def _answer(
    answer: dict[str, Any] | str | None,
    query_id: str,
    line: int,
    tables: Tables,
    problems: Problems,
) -> dict[str, Any]:
    if answer is None:
        return {}
    values: dict[str, Any] = dict(answer) if isinstance(answer, dict) else {"answer": answer}
    problems.typos.check(values, KNOWN_ANSWER, line)
    found: dict[str, Any] = {
        name: text(values.pop(name, None), f"answer.{name}", line, problems)
        for name in ("answer", "refusal_reason")
    }
    found["grounded"] = flag(values.pop("grounded", None), "answer.grounded", line, problems)
    found["refused"] = _refused(values.pop("refused", None), found, line, problems)
    found["cost_usd"] = number(values.pop("cost_usd", None), "answer.cost_usd", line, problems)
    found |= _tokens(values, line, problems)
    citations = _citations(values.pop("citations", None), query_id, line, problems)
    tables.citations += citations
    # an empty list is kept as it is
    hops = (
        []
        if values.get("hops") == []
        else read_hops(values.pop("hops", None), query_id, line, problems)
    )
    tables.hops += hops
    # An object that holds nothing else is still an answer object; one that leaves other traces
    # needs no note.
    is_seen = bool(citations or hops) or any(value is not None for value in found.values())
    return found if is_seen and not values else found | flatten({"answer": values})


def _refused(written: Any, found: dict[str, Any], line: int, problems: Problems) -> bool | None:
    if written == UNKNOWN:
        return None
    refused = flag(
        written,
        "answer.refused",
        line,
        problems,
        f'true, false, "{UNKNOWN}", or null for what answer and grounded imply',
    )
    return implied_refusal(found["answer"], found["grounded"]) if refused is None else refused


def implied_refusal(answer: str | None, grounded: Any) -> bool | None:
    """Whether an answer that doesn't say so is a refusal.

    One that isn't grounded, as kebab says it, or a blank one.
    """
    if isinstance(grounded, bool):
        return not grounded
    return None if answer is None else not answer.strip()


def _tokens(values: dict[str, Any], line: int, problems: Problems) -> dict[str, int | None]:
    """The tokens that `usage` counts; what else it holds stays in `values`."""
    usage = values.get("usage")
    if not isinstance(usage, dict):
        return {}
    rest = {name: value for name, value in usage.items() if name not in TOKENS}
    values.pop("usage")
    values |= {"usage": rest} if rest else {}
    return {name: whole(usage.get(name), f"answer.usage.{name}", line, problems) for name in TOKENS}


def _citations(items: Any, query_id: str, line: int, problems: Problems) -> list[dict[str, Any]]:
    if not isinstance(items, (list, type(None))):
        problems.add(
            f"found {describe(items)}",
            line=line,
            field="answer.citations",
            allowed="a list of objects",
        )
        return []
    found: list[dict[str, Any]] = []
    for item in items or []:
        if isinstance(item, dict):
            found.append(
                {
                    "query_id": query_id,
                    "position": len(found) + 1,
                    **_citation(item, line, problems),
                }
            )
        else:
            problems.add(
                f"found {describe(item)}",
                line=line,
                field="answer.citations",
                allowed="a list of objects",
            )
    return found


def _citation(item: dict[str, Any], line: int, problems: Problems) -> dict[str, Any]:
    values, name = dict(item), "answer.citations"
    problems.typos.check(values, KNOWN_CITATION, line)
    found: dict[str, Any] = {
        "marker": text(values.pop("marker", None), f"{name}.marker", line, problems)
    }
    found |= {
        column: identifier(values.pop(column, None), f"{name}.{column}", line, problems)
        for column in ("chunk_id", "doc_id")
    }
    found |= with_path(
        read_span(values, name, line, problems),
        text(values.pop("path", None), f"{name}.path", line, problems),
    )
    return found | read_heading(values, name, line, problems) | flatten(values)


def _hits(
    hits: list[Any], query_id: str, line: int, problems: Problems
) -> Iterator[tuple[dict[str, Any], list[dict[str, str]]]]:
    """Each hit and its metadata."""
    ranks = _ranks(hits, query_id, line, problems)
    for hit, rank in zip(hits, ranks, strict=True):
        if isinstance(hit, dict):
            known = metadata(hit.get("metadata"), "hits_top_k.metadata", line, problems)
            # A hit that doesn't say its source key itself has the one among its metadata.
            by_meta = (
                {"source_key": as_id(known.get("source_key"))}
                if "source_key" in known and "source_key" not in hit
                else {}
            )
            yield (
                {"query_id": query_id, "rank": rank, **_hit(hit, line, problems), **by_meta},
                metadata_rows(known),
            )
        else:
            problems.add(
                f"found {describe(hit)}", line=line, field="hits_top_k", allowed="a list of objects"
            )


def _hit(hit: dict[str, Any], line: int, problems: Problems) -> dict[str, Any]:
    name = "hits_top_k"
    problems.typos.check(hit, KNOWN_HIT, line)
    values = {key: value for key, value in hit.items() if key not in ("rank", "metadata")}
    found: dict[str, Any] = {
        column: identifier(values.pop(column, None), f"{name}.{column}", line, problems)
        for column in ("chunk_id", "doc_id")
    }
    found |= with_path(
        read_span(values, name, line, problems),
        text(values.pop("doc_path", None), f"{name}.doc_path", line, problems),
    )
    texts = {
        column: text(values.pop(key, None), f"{name}.{key}", line, problems)
        for key, column in HIT_TEXT.items()
    }
    found |= {column: value for column, value in texts.items() if value is not None}
    found |= {
        column: flag(values.pop(column), f"{name}.{column}", line, problems)
        for column in ("stale", "text_cut")
        if column in values
    }
    found |= _scores(values, line, problems) | read_heading(values, name, line, problems)
    return found | flatten(values)


def _scores(values: dict[str, Any], line: int, problems: Problems) -> dict[str, float | None]:
    """The scores of one hit, from `retrieval` or else from the hit itself.

    What else `retrieval` holds stays in `values`.
    """
    detail = values.get("retrieval")
    inside = dict(detail) if isinstance(detail, dict) else {}
    found = {
        column: number(inside.pop(name, None), f"hits_top_k.retrieval.{name}", line, problems)
        for name, column in SCORES.items()
    }
    found |= {
        column: number(values.pop(column, None), f"hits_top_k.{column}", line, problems)
        for column, score in found.items()
        if score is None
    }
    if isinstance(detail, dict):
        values.pop("retrieval")
        values |= {"retrieval": inside} if inside else {}
    return found


def _ranks(hits: list[Any], query_id: str, line: int, problems: Problems) -> list[int]:
    """Stored ranks if every hit has one, else list order.

    Ranks that can't be are a problem and list order is taken.
    """
    in_order = list(range(1, len(hits) + 1))
    stored = [hit.get("rank") if isinstance(hit, dict) else None for hit in hits]
    if all(rank is None for rank in stored):
        return in_order
    bad = next((rank for rank in stored if type(rank) is not int or not 1 <= rank < 2**31), None)
    if bad is not None or None in stored:
        found = f"rank is {describe(bad)} for query {query_id!r}"
        problems.add(
            found,
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
