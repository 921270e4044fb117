"""Spans of traces -> records: one per trace, with every retrieval on the way as a call.

A container (OTLP JSON, Phoenix's frame) gives `Span`s; a `Dialect` says which attribute is what.
The ranking is that of the last span that ranked, rerankers before retrievers. The root gives query,
answer, error and duration; model spans give tokens and cost. Traces of one session are its turns.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ragscore.io.records import Call, Record, Rows
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import (
    QUERY_KEYS,
    Cells,
    first_at,
    json_text,
    text_in,
    with_roles,
    without_missing,
)
from ragscore.io.values import as_number

ANSWER_KEYS = ("answer", "output", "response", "content")


@dataclass
class Span:
    """One span, its attributes as nested mappings and lists."""

    line: int
    trace: str
    parent: str | None
    start: Any
    end: Any
    attributes: dict[str, Any]
    kind: str = ""
    error: str | None = None


@dataclass(frozen=True)
class Dialect:
    """Which attribute of a span is what: role -> paths, the surest first, apart by blanks."""

    kind: str
    kinds: dict[str, str]  # what its tools write -> CHAIN, RETRIEVER, RERANKER, LLM
    query: str
    answer: str
    documents: dict[str, str]  # kind -> the path of its ranked documents
    hit: dict[str, str]  # column -> paths in a document
    tokens: dict[str, str]
    session: str = ""

    def at(self, span: Span, paths: str) -> Any:
        """Return the first of these attributes that is there."""
        return nested(first_at(span.attributes, paths.split()))


OPENINFERENCE = Dialect(
    kind="openinference.span.kind",
    kinds={name: name for name in ("RETRIEVER", "RERANKER", "LLM", "CHAIN", "AGENT", "TOOL")},
    query="input.value",
    answer="output.value",
    documents={"RERANKER": "reranker.output_documents", "RETRIEVER": "retrieval.documents"},
    hit={"chunk_id": "document.id id", "text": "document.content content",
         "score": "document.score score", "metadata": "document.metadata metadata"},
    tokens={"prompt_tokens": "llm.token_count.prompt",
            "completion_tokens": "llm.token_count.completion", "cost_usd": "llm.cost.total"},
    session="session.id",
)  # fmt: skip
GENAI = Dialect(
    kind="gen_ai.operation.name",
    kinds={"retrieval": "RETRIEVER", "chat": "LLM", "text_completion": "LLM",
           "generate_content": "LLM", "invoke_agent": "AGENT", "execute_tool": "TOOL"},
    query="gen_ai.retrieval.query.text gen_ai.input.messages",
    answer="gen_ai.output.messages",
    documents={"RETRIEVER": "gen_ai.retrieval.documents"},
    hit={"chunk_id": "id", "text": "content text", "score": "score"},
    tokens={"prompt_tokens": "gen_ai.usage.input_tokens",
            "completion_tokens": "gen_ai.usage.output_tokens"},
    session="gen_ai.conversation.id",
)  # fmt: skip
DIALECTS = (OPENINFERENCE, GENAI)


def nest(flat: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return flat attributes (`retrieval.documents.0.document.id`) as nested ones."""
    top: dict[str, Any] = {}
    for name, value in flat:
        place, parts = top, name.split(".")
        for part in parts[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = place[part] = {"": inner}
            place = inner
        place[parts[-1]] = value
    return _listed(top)


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(one) for name, one in value.items()}
    if inner and all(name.isdecimal() for name in inner):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


def records(spans: Iterable[Span], dialects: Iterable[Dialect] = DIALECTS) -> list[Record]:
    """Return one record per trace, in the order of the traces."""
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace, []).append(span)
    found = [
        _record(sorted(of, key=lambda one: str(one.start or "")), dialects)
        for of in traces.values()
    ]
    turns: dict[str | None, int] = {}
    for record in found:
        turns[record.session] = record.turn = turns.get(record.session, 0) + 1
        if record.session is not None:
            record.extra |= {"session_id": record.session, "turn": record.turn}
    return found


def _record(spans: list[Span], dialects: Iterable[Dialect]) -> Record:
    known = [(span, one) for span in spans for one in dialects if one.at(span, one.kind)]
    dialect = known[0][1] if known else OPENINFERENCE
    for span in spans:
        written = str(dialect.at(span, dialect.kind) or span.kind)
        span.kind = dialect.kinds.get(written, written.upper())
    root = next((span for span in spans if not span.parent), spans[0])
    record = Record(root.line, session=as_id(dialect.at(root, dialect.session)))
    record.response = {
        "query": text_of(dialect.at(root, dialect.query), QUERY_KEYS),
        "error": root.error,
        "answer": None if root.error else text_of(dialect.at(root, dialect.answer), ANSWER_KEYS),
        "elapsed_ms": elapsed(root),
    }
    for name, paths in dialect.tokens.items():
        counts = [as_number(dialect.at(span, paths)) for span in spans if span.kind == "LLM"]
        if known_counts := [one for one in counts if one is not None and one >= 0]:
            total = sum(known_counts)
            record.response[name] = total if name == "cost_usd" else int(total)
    record.hits, record.calls = ranking(spans, dialect)
    record.extra = {"trace_id": root.trace}
    return record


def ranking(spans: list[Span], dialect: Dialect) -> tuple[Rows | None, list[Call]]:
    """Return the passages of the span that ranked last (None if none did), and every call."""
    calls = []
    for span in (one for one in spans if one.kind in dialect.documents):
        documents = dialect.at(span, dialect.documents[span.kind])
        listed = documents if isinstance(documents, list) else []
        hits = [_hit(one, dialect) for one in listed if isinstance(one, dict)]
        asked = text_of(dialect.at(span, dialect.query), QUERY_KEYS)
        calls.append(Call(hits, asked, span.kind.lower(), elapsed(span), span.error))
    last = {call.kind: call for call in calls}
    ranked = next((last[kind.lower()] for kind in dialect.documents if kind.lower() in last), None)
    return None if ranked is None else [dict(hit) for hit in ranked.hits], calls


def attribute_span(attributes: dict[str, Any], dialect: Dialect) -> Span:
    """Return a span of which only the attributes are known."""
    kind = str(attributes.get(dialect.kind))
    return Span(0, "", None, None, None, attributes, dialect.kinds.get(kind, kind))


def _hit(document: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
    raw = {name: nested(first_at(document, paths.split())) for name, paths in dialect.hit.items()}
    hit: dict[str, Any] = {name: as_id(raw.get(name)) for name in ("chunk_id", "doc_id")}
    hit |= {"text": as_text(raw.get("text")), "score": as_number(raw.get("score"))}
    meta = raw.get("metadata")
    return without_missing(hit | {"metadata": meta if isinstance(meta, dict) else None})


def elapsed(span: Span) -> float | None:
    """Return how long a span took, in milliseconds."""
    if span.start is None or span.end is None:
        return None
    try:
        found = (pd.Timestamp(span.end) - pd.Timestamp(span.start)) / pd.Timedelta("1ms")
    except (ValueError, TypeError, OverflowError):
        return None
    return None if pd.isna(found) or found < 0 else float(found)


def text_of(value: Any, names: tuple[str, ...]) -> str | None:
    """Return a text, or the one that a mapping has under one of these names."""
    parsed = nested(value)
    if not isinstance(parsed, dict):
        return as_text(value)
    only = text_in(parsed, parsed) if len(parsed) == 1 else None
    return text_in(parsed, names) or only or json_text(parsed)


# Containers of spans


def frame_spans(rows: Iterable[Row], problems: Problems) -> Iterator[Span]:
    """Yield the rows of Phoenix's frame as spans."""
    for row in rows:
        values, trace = row.values, as_id(row.values.get("context.trace_id"))
        if trace is None:
            problems.add(
                "a span without a trace", line=row.line, field="context.trace_id", allowed="an id"
            )
            continue
        prefix = "attributes."
        own = {name.removeprefix(prefix): nested(one) for name, one in values.items()
               if name.startswith(prefix) and one is not None}  # fmt: skip
        failed = as_text(values.get("status_code")) == "ERROR"
        error = (as_text(values.get("status_message")) or "status ERROR") if failed else None
        yield Span(
            row.line,
            trace,
            as_text(values.get("parent_id")),
            values.get("start_time"),
            values.get("end_time"),
            own,
            as_text(values.get("span_kind")) or "",
            error,
        )


def otlp_spans(rows: Iterable[Row], problems: Problems) -> Iterator[Span]:
    """Yield the spans of OTLP's JSON, whole or one export per line."""
    for top in (Cells(row, problems) for row in rows):
        resources = map(top.of, top.records("resourceSpans"))
        scopes = (top.of(one) for resource in resources for one in resource.records("scopeSpans"))
        for span in (top.of(one) for scope in scopes for one in scope.records("spans")):
            trace = span.identifier("traceId")
            if trace is None:
                problems.add("a span without a trace", line=top.line, field="traceId")
                continue
            pairs = [
                (str(pair.get("key")), _value(pair.get("value")))
                for pair in span.records("attributes")
            ]
            status = span.mapping("status")
            failed = status.get("code") in (2, "STATUS_CODE_ERROR")
            yield Span(
                top.line,
                trace,
                span.text("parentSpanId") or None,
                _nanoseconds(span.pop("startTimeUnixNano")),
                _nanoseconds(span.pop("endTimeUnixNano")),
                nest(pairs),
                error=(as_text(status.get("message")) or "status ERROR") if failed else None,
            )


def _nanoseconds(value: Any) -> int | None:
    """Return a time, which is text for it is too long for a JSON number."""
    return int(value) if str(value).isdecimal() and 0 < int(value) < 2**63 else None


def _value(value: Any) -> Any:
    """Return an OTLP value as Python's."""
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", None)
    if kind in ("arrayValue", "kvlistValue"):
        items = inner.get("values") if isinstance(inner, dict) else None
        listed = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
        if kind == "arrayValue":
            return [_value(one) for one in listed]
        return {str(one.get("key")): _value(one.get("value")) for one in listed}
    return int(str(inner)) if kind == "intValue" and str(inner).isdecimal() else inner


def read_otlp(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one record per trace."""
    return imported(
        records(otlp_spans(table_rows(source, problems), problems)), described, problems
    )


def read_frame(
    rows: list[Row], problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one record per trace of Phoenix's frame; the user's columns are those of the root."""
    of_line = {row.line: row for row in rows}
    found = [
        with_roles(one, of_line[one.line], columns, problems)
        for one in records(frame_spans(rows, problems))
    ]
    return imported(found, described, problems)
