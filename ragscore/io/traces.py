"""Spans of traces -> one row per trace, with every search on the way as a call.

A container says where the parts of a span are in a record of the file; a dialect says which
attribute is what. Their roots give query, answer, error and duration; model spans give tokens and
cost; retrieval spans are the calls. A retrieval inside another one is the same call, and a reranker
puts its list in the place of the calls that it ranks. Traces of one session are its turns.
"""

import json
import re
from collections import Counter, namedtuple
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

import pandas as pd

from ragscore.frames.errors import plural
from ragscore.io.detect import Sample
from ragscore.io.importers import (
    ANSWER_KEYS,
    QUERY_KEYS,
    Fields,
    File,
    dicts_in,
    first_at,
    mapping,
    text_in,
    text_of,
    without_missing,
)
from ragscore.io.source import Problems, Row, as_id, as_text, parsed
from ragscore.io.values import as_number, nested, value_at


@dataclass(frozen=True)
class Dialect:
    """Which attribute of a span is what: role -> paths, the surest first, apart by blanks."""

    kind: str  # with this attribute a span is of this dialect
    # what its tools write -> CHAIN, AGENT, RETRIEVER, RERANKER, LLM or TOOL; else in capitals
    kinds: dict[str, str]
    query: str
    answer: str
    documents: dict[str, str]  # kind -> the path of its ranked documents
    hit: dict[str, str] = field(default_factory=dict)  # column -> paths in a document; else `_HIT`
    tokens: dict[str, str] = field(default_factory=dict)
    session: str = ""
    reference: str = ""


# Ids and texts of documents as search tools and frameworks write them.
_HIT = {
    "chunk_id": "document.id id node_id chunk_id id_ metadata.id",
    "doc_id": "doc_id docid metadata.source url href link",
    "text": "document.content content text page_content body snippet",
    "score": "document.score score",
    "metadata": "document.metadata metadata",
}
OPENINFERENCE = Dialect(
    kind="openinference.span.kind",
    kinds={},
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
    query="gen_ai.retrieval.query.text gen_ai.tool.call.arguments gen_ai.input.messages"
          " gen_ai.prompt input",
    answer="gen_ai.tool.call.result gen_ai.output.messages gen_ai.completion output",
    documents={"RETRIEVER": "gen_ai.retrieval.documents"},
    hit={"chunk_id": "id", "text": "content text", "score": "score"},
    tokens={"prompt_tokens": "gen_ai.usage.input_tokens",
            "completion_tokens": "gen_ai.usage.output_tokens"},
    session="gen_ai.conversation.id",
)  # fmt: skip
_TRULENS = "ai.observability."
TRULENS = Dialect(
    kind=_TRULENS + "span_type",
    kinds={"record_root": "CHAIN", "retrieval": "RETRIEVER", "generation": "LLM",
           "reranking": "RERANKER"},
    query=f"{_TRULENS}retrieval.query_text {_TRULENS}record_root.input",
    answer=_TRULENS + "record_root.output",
    documents={"RETRIEVER": _TRULENS + "retrieval.retrieved_contexts"},  # texts
    tokens={"prompt_tokens": _TRULENS + "cost.num_prompt_tokens",
            "completion_tokens": _TRULENS + "cost.num_completion_tokens"},
    reference=_TRULENS + "record_root.ground_truth_output",
)  # fmt: skip
MLFLOW = Dialect(
    kind="mlflow.spanType",
    kinds={"CHAT_MODEL": "LLM"},
    query="mlflow.spanInputs",
    answer="mlflow.spanOutputs",
    documents={"RETRIEVER": "mlflow.spanOutputs", "RERANKER": "mlflow.spanOutputs"},
    hit={"text": "page_content", "metadata": "metadata",
         "chunk_id": "metadata.chunk_id chunk_id metadata.id id",
         "doc_id": "metadata.doc_uri doc_uri metadata.doc_id doc_id metadata.source source"},
    tokens={"prompt_tokens": "mlflow.chat.tokenUsage.input_tokens",
            "completion_tokens": "mlflow.chat.tokenUsage.output_tokens"},
)  # fmt: skip
DIALECTS = (OPENINFERENCE, GENAI, TRULENS, MLFLOW)
"""Recognized by attributes; what Langfuse and LangSmith export, by its fields."""
LANGFUSE = Dialect(
    kind="type",
    kinds={"GENERATION": "LLM"},
    query="input",
    answer="output",
    documents={"RETRIEVER": "output"},
    hit=_HIT,
    tokens={"prompt_tokens": "usageDetails.input inputUsage",
            "completion_tokens": "usageDetails.output outputUsage",
            "cost_usd": "costDetails.total totalCost"},
    session="sessionId",
)  # fmt: skip
LANGSMITH = Dialect(
    kind="run_type",
    kinds={},
    query="inputs",
    answer="outputs",
    documents={"RETRIEVER": "outputs.documents"},
    hit=_HIT,
    tokens={"prompt_tokens": "outputs.usage_metadata.input_tokens prompt_tokens",
            "completion_tokens": "outputs.usage_metadata.output_tokens completion_tokens"},
    session="extra.metadata.session_id extra.metadata.thread_id extra.metadata.conversation_id",
)  # fmt: skip

# Where the parts of a span are in a record: paths, the surest first, apart by blanks.
_PARTS = {
    "name": "name", "start": "start_time", "end": "end_time", "status": "status_code",
    "message": "status_message",
}  # fmt: skip
_LANGSMITH = _PARTS | {
    "trace": "trace_id", "id": "id", "parent": "parent_run_id", "kind": "run_type",
    "status": "status error", "message": "error", "dialect": LANGSMITH,
}  # fmt: skip
_PHOENIX = _PARTS | {
    "trace": "context.trace_id", "id": "context.span_id", "parent": "parent_id",
    "kind": "span_kind",
}  # fmt: skip
CONTAINERS: dict[str, dict[str, Any]] = {
    # OTLP's JSON
    "traceId spanId": _PARTS | {
        "trace": "traceId", "id": "spanId", "parent": "parentSpanId",
        "start": "startTimeUnixNano", "end": "endTimeUnixNano", "status": "status.code",
        "message": "status.message", "attributes": "attributes"},
    # Phoenix's frame, and what its REST API gives; MLflow's older spans are like the latter
    "context.trace_id parent_id": _PHOENIX | {"attributes": "attributes."},
    "context parent_id attributes": _PHOENIX | {"attributes": "attributes"},
    # a dump of OpenTelemetry's SDK, and MLflow's spans
    "trace_id span_id attributes": _PARTS | {
        "trace": "trace_id", "id": "span_id", "parent": "parent_id parent_span_id",
        "start": "start_time start_time_unix_nano", "end": "end_time end_time_unix_nano",
        "status": "status.status_code status.code status",
        "message": "status.description status.message", "attributes": "attributes"},
    "record_attributes trace": _PARTS | {
        "trace": "trace.trace_id", "id": "trace.span_id",
        "parent": "trace.parent_id record.parent_span_id",
        "name": "record.name record_attributes.name", "start": "start_timestamp",
        "end": "timestamp", "status": "record.status", "attributes": "record_attributes"},
    "traceId parentObservationId": _PARTS | {
        "trace": "traceId", "id": "id", "parent": "parentObservationId", "kind": "type",
        "start": "startTime", "end": "endTime", "status": "level", "message": "statusMessage",
        "dialect": LANGFUSE},
    "trace_id run_type": _LANGSMITH,
    "trace_id dotted_order": _LANGSMITH,  # a patch
}  # fmt: skip
"""Names that a record has -> its parts. `attributes`: where they are, by default the record itself;
with a dot at its end, what all their names begin with."""
_NAMED = [({*names.split()}, parts) for names, parts in CONTAINERS.items()]
_LISTS = "resourceSpans.scopeSpans.spans post patch observations data.spans"
_SESSIONS = (
    "trace.sessionId info.trace_metadata.mlflow.trace.session"
    " info.request_metadata.mlflow.trace.session"
)
_TOOL = "tool.name gen_ai.tool.name tool_call.function.name"
_FAILED = {"ERROR", "STATUS_CODE_ERROR", "2", "error"}
Span = namedtuple(
    "Span", "row trace id parent name kind start took error attributes dialect session scores tool"
)


def _container(record: Fields) -> Fields | None:
    found = (one for names, one in _NAMED if record.keys() >= names)
    alone = any(one.kind in record for one in DIALECTS)  # attributes alone: each record is a trace
    return next(found, _PARTS if alone else None)


def fits(seen: Sample) -> bool:
    """Return True for spans in any container."""
    is_long = seen.first is None and seen.has("info", "data") and '"spans"' in seen.begin
    if is_long or seen.has("resourceSpans") or seen.has("trace", "observations"):
        return True
    return any(map(_container, _spans_in(seen.first or dict.fromkeys(seen.keys))))


# From records of a file to spans


def spans_of(rows: Iterable[Row], problems: Problems) -> list[Span]:
    """Return the spans of a file in the order of time, whatever their container.

    LangSmith's patches complete runs. Spans that show no dialect are read by the others' dialect.
    """
    parts: dict[Any, tuple[Row, Fields, Fields, Fields]] = {}
    for row in rows:
        about = _about_trace(row.values)
        for values in _spans_in(row.values):
            if (place := _container(values)) is None:
                problems.add(
                    "a record that is no span", line=row.line, allowed="spans in one container"
                )
                continue
            key = str(values.get("id")) if place is _LANGSMITH else len(parts)
            stated = {name: one for name, one in values.items() if one not in (None, {}, [])}
            parts.setdefault(key, (row, place, {}, about))[2].update(stated)
    found = [one for part in parts.values() if (one := _span(*part, problems)) is not None]
    other = next((one.dialect for one in found if one.dialect), OPENINFERENCE)
    start, end = (_times([getattr(one, name) for one in found]) for name in ("start", "took"))
    took = (end - start) / pd.Timedelta("1ms")
    every = [
        span._replace(start=at, took=ms if ms >= 0 else None, dialect=span.dialect or other)
        for span, at, ms in zip(found, start, took, strict=True)
    ]
    return sorted(every, key=lambda one: str(one.start))


def _spans_in(record: Fields) -> list[Fields]:
    """Return the records of spans that a record holds, or the record itself."""
    if _container(record):
        return [record]
    if inner := [one for path in _LISTS.split() for one in _mappings(value_at(record, path))]:
        return inner
    if all(map(dicts_in, record.values())):  # a list for each trace
        inner = _mappings([*record.values()])
    return inner if inner and all(map(_container, inner)) else [record]


def _mappings(value: Any) -> list[Fields]:
    """Return the mappings in a list, and in the lists in it."""
    return [
        one
        for part in (value if isinstance(value, list) else [])
        for one in ([part] if isinstance(part, dict) else _mappings(part))
    ]


def _about_trace(record: Fields) -> Fields:
    """Return the session and the scores beside the spans of a trace."""
    if not record.keys() & {"trace", "info", "feedback_stats"}:
        return {"session": None, "scores": []}
    feedback = mapping(record, "feedback_stats").items()  # LangSmith's, averaged by key
    scores = [{"name": name, "value": first_at(one, "avg")} for name, one in feedback]
    scores += dicts_in(first_at(record, "trace.scores info.assessments"))
    return {
        "session": first_at(record, _SESSIONS),
        "scores": [one for one in scores if "expectation" not in one],
    }


def _span(
    row: Row, place: Fields, values: Fields, about: Fields, problems: Problems
) -> Span | None:
    """Return the span that a record is; None, and a problem, if it has no trace."""

    def at(part: str) -> Any:
        return first_at(values, place.get(part, ""))

    trace = as_id(at("trace")) if "trace" in place else f"line {row.line}"
    if trace is None:
        problems.add("a span without a trace", line=row.line, field=place["trace"],
                     allowed="an id")  # fmt: skip
        return None
    own = _attributes(values, place.get("attributes", ""))
    state = (as_text(at("status")) or "").rpartition(".")[2]
    failed = state in _FAILED or (place is _LANGSMITH and bool(at("message")))
    known = (one for one in DIALECTS if _at(own, one.kind))
    dialect = place.get("dialect") or next(known, OPENINFERENCE if at("kind") else None)
    kind = str(_at(own, dialect.kind) or at("kind")) if dialect else ""
    session = about["session"] or _at(own, dialect.session if dialect else "")
    return Span(
        row, trace, as_text(at("id")), as_text(at("parent")) or None, as_text(at("name")) or "",
        dialect.kinds.get(kind, kind.upper()) if dialect else "", at("start"),
        at("end"), (as_text(at("message")) or "status ERROR") if failed else None, own,
        dialect, session, about["scores"], as_text(_at(own, _TOOL)),
    )  # fmt: skip


def _attributes(values: Fields, place: str) -> Fields:
    """Return the attributes of a span by name: flat or nested ones, or OTLP's keys and values.

    Flat names of a list (`retrieval.documents.0.document.id`) become a list of mappings.
    """
    held = nested(values.get(place)) if place else values
    if place.endswith("."):
        held = {name.removeprefix(place): one for name, one in values.items() if place in name}
    if not isinstance(held, dict):
        held = {str(one.get("key")): _value(one.get("value")) for one in dicts_in(held)}
    lists: dict[str, dict[int, Fields]] = {}
    for item in filter(None, map(_ITEM.fullmatch, held)):
        lists.setdefault(item[1], {}).setdefault(int(item[2]), {})[item[3]] = held[item[0]]
    found = {name: [items[n] for n in sorted(items)] for name, items in lists.items()} | held
    return {  # MLflow writes texts as JSON, too
        name: parsed(one)
        if name.startswith("mlflow.") and isinstance(one, str) and one.startswith('"')
        else one
        for name, one in found.items()
    }


_ITEM = re.compile(r"(.+?)\.(\d+)\.(.+)")


def _value(value: Any) -> Any:
    """Return an OTLP value as Python's."""
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", None)
    if kind == "arrayValue":
        return [_value(one) for one in dicts_in(first_at(inner, "values"))]
    if kind == "kvlistValue":
        return _attributes(mapping(value, kind), "values")
    return inner


def _times(values: list[Any]) -> Any:
    """Return times in UTC, NaT for anything else; nanoseconds may be text."""
    texts = pd.Series(values, dtype="str")
    is_number = texts.str.fullmatch(r"[0-8]?\d{1,18}", na=False)
    numbers = pd.to_datetime(texts.where(is_number, "0").astype("int64"), utc=True)
    found = pd.to_datetime(texts, utc=True, errors="coerce", format="ISO8601").dt.as_unit("ns")
    return found.where(~is_number, numbers)


def _at(attributes: Fields, paths: str) -> Any:
    """Return the value at the first of these paths that has one; JSON is read."""
    return nested(first_at(attributes, paths))


# From spans to rows


def rows_of_traces(rows: list[Row], file: File) -> Iterator[tuple[Row, Fields]]:
    """Yield one row per trace, the earliest first; what may be a search and isn't taken is noted.

    A trace's own record belongs to its root.
    """
    tools = file.options.get("calls_from", {}).get("tool")  # a pattern of names
    traces: dict[str, list[Span]] = {}
    for span in spans_of(rows, file.problems):
        traces.setdefault(span.trace, []).append(span)
    every = [one for one in chain(*traces.values()) if one.kind == "TOOL"]
    used = Counter(one.tool or one.name for one in every if not _is_search(one, tools))
    if used and file.side == "results":
        names = sorted(used, key=lambda name: (_SEARCHES.search(name) is None, -used[name], name))
        shown = ", ".join(f"{name} ({used[name]:,})" for name in names[:5])
        file.problems.note(
            f"{plural(used.total(), 'use')} of tools that no rule names as searches: {shown}"
            f"{', …' if len(names) > 5 else ''}",
            field="calls_from",
            allowed=f'calls_from={{"tool": {json.dumps(names[0])}}} if it searches, or a pattern',
        )
    turns = Counter[str]()
    for spans in traces.values():
        root, row = _row(spans, tools)
        if (session := row["conversation"]) is not None:
            turns[session] += 1
            row["turn"] = str(turns[session])
        yield root.row, row


_SEARCHES = re.compile("search|retriev|lookup|query", re.IGNORECASE)


def _row(spans: list[Span], tools: str | None) -> tuple[Span, Fields]:
    """Return the root of a trace, and the trace as one row."""
    ids = {one.id for one in spans}
    roots = [one for one in spans if not one.parent]
    orphans = [one for one in spans if one.parent and one.parent not in ids]
    root = (roots or orphans or spans)[0]
    query = text_of(_at(root.attributes, root.dialect.query), QUERY_KEYS)
    counts = dict[str, Any]()
    for span in (one for one in spans if one.kind == "LLM"):
        for name, paths in span.dialect.tokens.items():
            if (count := as_number(_at(span.attributes, paths))) is not None and count >= 0:
                counts[name] = counts.get(name, 0) + count
    extra = {"trace_id": root.trace, "n_spans": len(spans), "n_roots": len(roots),
             "n_orphans": len(orphans)}  # fmt: skip
    return root, counts | calls_of(spans, tools) | {
        "conversation": as_id(root.session),
        "query": query, "query_id": None if query else root.trace, "error": root.error,
        "answer": text_of(_at(root.attributes, root.dialect.answer), ANSWER_KEYS),
        "latency_ms": root.took, "extra": extra,
        "reference_answer": as_text(_at(root.attributes, root.dialect.reference)),
        "scores": [_score(one) for one in root.scores],
    }  # fmt: skip


def _score(values: Fields) -> Fields:
    source = as_text(first_at(values, "source.source_type source"))
    return {
        "metric": text_in(values, ("name", "assessment_name")) or "score", "same": {},
        "value": as_number(first_at(values, "value feedback.value")),
        "verdict": values.get("stringValue"), "reason": first_at(values, "comment rationale"),
        "is_judged": source in ("EVAL", "LLM_JUDGE"),
    }  # fmt: skip


def calls_of(spans: list[Span], tools: str | None = None) -> Fields:
    """Return the searches in the order of time, and the hits of each.

    A retrieval inside another one is the same call: the documents come from the outer span,
    or from the first inner one that has some. A reranker outside of any takes the place of the
    calls since the last one.
    """
    searches = [one for one in spans if _is_search(one, tools)]
    of_id = {one.id: one for one in searches if one.id is not None}
    parents = {one.id: one.parent for one in spans}
    parts: dict[int, list[Span]] = {}
    for span in searches:
        around = [of_id[one] for one in _above(span.parent, parents) if one in of_id]
        outer = around[-1] if around else span
        parts.setdefault(id(outer), [outer]).extend([span] * (span is not outer))
    calls, begin = list[Fields](), 0  # of those that a reranker would rank
    for members in parts.values():
        call = _call(members)
        if call["kind"] == "reranker":
            if before := calls[begin:]:
                call |= {"query": before[0]["query"] or call["query"], "start": before[0]["start"]}
            calls, begin = calls[:begin], begin + 1
        calls.append(call)
    hits = [call.pop("hits") for call in calls]
    for number, call in enumerate(calls):
        call |= {"call": number + 1, "n_hits": len(hits[number])}
    return {"calls": calls, "doc_id": hits}


def _above(id: str | None, parents: dict[str, str | None]) -> Iterator[str]:
    """Yield the ids of the spans above one, from it on; each once, should they form a ring."""
    seen: set[str] = set()
    while id is not None and id in parents and id not in seen:
        yield id
        seen.add(id)
        id = parents[id]


def _is_search(span: Span, tools: str | None) -> bool:
    names = () if span.kind in ("LLM", "CHAIN", "AGENT") else (span.name, span.tool)
    return span.kind in span.dialect.documents or (
        tools is not None and any(fnmatchcase(name, tools) for name in names if name)
    )


def _call(members: list[Span]) -> Fields:
    outer = members[0]
    asked = (text_of(_at(one.attributes, one.dialect.query), QUERY_KEYS) for one in members)
    return {
        "hits": next(filter(None, map(_hits, members)), []),
        "query": next((one for one in asked if one is not None), None),
        "kind": outer.kind.lower(), "elapsed_ms": outer.took, "error": outer.error,
        "tool": outer.tool or outer.name or None,
        "start": None if pd.isna(outer.start) else outer.start.isoformat(),
    }  # fmt: skip


def _hits(span: Span) -> list[Fields]:
    """Return the documents of a retrieval or of a tool, none where the span has none."""
    paths = span.dialect.documents.get(span.kind)
    found = _at(span.attributes, paths or span.dialect.answer)
    if isinstance(found, dict):
        found = nested(found.get("content", found))
    if isinstance(found, dict):
        found = next((one for one in found.values() if isinstance(one, list)), [])
    fields = (span.dialect.hit if paths else {}) or _HIT
    return [hit for one in (found if isinstance(found, list) else []) if (hit := _hit(one, fields))]


def _hit(document: Any, fields: dict[str, str]) -> Fields:
    """Return a document with our names; nothing of what has neither an id nor a text."""
    if not isinstance(document, dict):
        document, fields = {"text": document}, {"text": "text"}
    found = {name: first_at(document, paths) for name, paths in fields.items()}
    read = {"chunk_id": as_id, "doc_id": as_id, "text": as_text, "score": as_number}
    hit = without_missing({name: one(found.get(name)) for name, one in read.items()})
    is_known = hit.keys() & {"chunk_id", "doc_id", "text"}
    return hit | {"metadata": mapping(found, "metadata")} if is_known else {}
