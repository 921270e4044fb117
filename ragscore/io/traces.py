"""Spans of traces -> records: one per trace, with every search on the way as a call.

A container says where the parts of a span stand in a record of the file; a dialect says which
attribute is what. Their roots give query, answer, error and duration; model spans give tokens and
cost; retrieval spans are the calls. A retrieval inside another one is the same call, and a reranker
puts its list in the place of the calls that it ranks. Traces of one session are its turns.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from operator import itemgetter
from typing import Any

import pandas as pd

from ragscore.frames.errors import plural
from ragscore.io.detect import Sample
from ragscore.io.records import Call, Record, Rows, Stored
from ragscore.io.rows import Source, nested, table_rows, value_at
from ragscore.io.source import Problems, Row, as_id, as_text, parse_json
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import (
    QUERY_KEYS,
    first_at,
    json_text,
    text_in,
    with_roles,
    without_missing,
)
from ragscore.io.values import as_number

ANSWER_KEYS = ("answer", "output", "response", "content", "text")


@dataclass(slots=True)
class Span:
    """One span, its attributes as nested mappings and lists; `at` looks into them."""

    line: int
    trace: str
    parent: str | None
    start: Any
    end: Any
    attributes: dict[str, Any]
    kind: str = ""
    error: str | None = None
    id: str | None = None
    name: str = ""
    of_trace: dict[str, Any] = field(default_factory=dict)
    dialect: "Dialect | None" = None

    def at(self, paths: str) -> Any:
        """Return the first of these attributes that is there."""
        return nested(first_at(self.attributes, paths))


@dataclass(frozen=True)
class Dialect:
    """Which attribute of a span is what: role -> paths, the surest first, apart by blanks."""

    kind: str
    kinds: dict[str, str]  # what its tools write -> CHAIN, RETRIEVER, RERANKER, LLM, TOOL
    query: str
    answer: str
    documents: dict[str, str]  # kind -> the path of its ranked documents
    hit: dict[str, str]  # column -> paths in a document
    tokens: dict[str, str]
    session: str = ""
    reference: str = ""

    def kind_of(self, span: Span) -> str:
        """Return the kind of a span in our words."""
        written = str(span.at(self.kind) or span.kind)
        return self.kinds.get(written, written.upper())


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
           "reranking": "RERANKER", "tool": "TOOL", "agent": "AGENT"},
    query=f"{_TRULENS}retrieval.query_text {_TRULENS}record_root.input",
    answer=_TRULENS + "record_root.output",
    documents={"RETRIEVER": _TRULENS + "retrieval.retrieved_contexts"},
    hit={},  # its contexts are texts
    tokens={"prompt_tokens": _TRULENS + "cost.num_prompt_tokens",
            "completion_tokens": _TRULENS + "cost.num_completion_tokens"},
    reference=_TRULENS + "record_root.ground_truth_output",
)  # fmt: skip
_MLFLOW_DOC = "metadata.doc_uri doc_uri metadata.doc_id doc_id metadata.source source"
MLFLOW = Dialect(
    kind="mlflow.spanType",
    kinds={"CHAT_MODEL": "LLM"},
    query="mlflow.spanInputs",
    answer="mlflow.spanOutputs",
    documents={"RETRIEVER": "mlflow.spanOutputs", "RERANKER": "mlflow.spanOutputs"},
    hit={"text": "page_content", "metadata": "metadata",
         "chunk_id": "metadata.chunk_id chunk_id metadata.id id", "doc_id": _MLFLOW_DOC},
    tokens={"prompt_tokens": "mlflow.chat.tokenUsage.input_tokens",
            "completion_tokens": "mlflow.chat.tokenUsage.output_tokens"},
)  # fmt: skip
DIALECTS = (OPENINFERENCE, GENAI, TRULENS, MLFLOW)
"""Those of which attributes tell; what Langfuse and LangSmith export tells by its fields."""
LANGFUSE = Dialect(
    kind="type",
    kinds={"GENERATION": "LLM", "RETRIEVER": "RETRIEVER", "AGENT": "AGENT", "TOOL": "TOOL"},
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
    kinds={"llm": "LLM", "retriever": "RETRIEVER", "chain": "CHAIN", "tool": "TOOL"},
    query="inputs",
    answer="outputs",
    documents={"RETRIEVER": "outputs.documents"},
    hit=_HIT,
    tokens={"prompt_tokens": "outputs.usage_metadata.input_tokens prompt_tokens",
            "completion_tokens": "outputs.usage_metadata.output_tokens completion_tokens"},
    session="extra.metadata.session_id extra.metadata.thread_id extra.metadata.conversation_id",
)  # fmt: skip


@dataclass(frozen=True)
class Container:
    """Where the parts of a span stand in a record: paths, the surest first, apart by blanks."""

    mark: Set[str]
    trace: str
    id: str
    parent: str
    name: str = "name"
    kind: str = ""
    start: str = "start_time"
    end: str = "end_time"
    status: str = "status_code"
    message: str = "status_message"
    attributes: str = ""  # "": the record itself; with a dot at its end, what all their names have
    dialect: Dialect | None = None


_LANGSMITH = Container(
    {"trace_id", "run_type"}, "trace_id", "id", "parent_run_id", kind="run_type",
    status="status error", message="error", dialect=LANGSMITH,
)  # fmt: skip
CONTAINERS = (
    # OTLP's JSON
    Container({"traceId", "spanId"}, "traceId", "spanId", "parentSpanId",
              start="startTimeUnixNano", end="endTimeUnixNano", status="status.code",
              message="status.message", attributes="attributes"),
    # Phoenix's frame, and what its REST API gives; MLflow's older spans are like the latter
    Container({"context.trace_id", "parent_id"}, "context.trace_id", "context.span_id",
              "parent_id", kind="span_kind", attributes="attributes."),
    Container({"context", "parent_id", "attributes"}, "context.trace_id", "context.span_id",
              "parent_id", kind="span_kind", attributes="attributes"),
    # a dump of OpenTelemetry's SDK, and MLflow's spans
    Container({"trace_id", "span_id", "attributes"}, "trace_id", "span_id",
              "parent_id parent_span_id", start="start_time start_time_unix_nano",
              end="end_time end_time_unix_nano", status="status.status_code status.code status",
              message="status.description status.message", attributes="attributes"),
    Container({"record_attributes", "trace"}, "trace.trace_id", "trace.span_id",
              "trace.parent_id record.parent_span_id", "record.name record_attributes.name",
              start="start_timestamp", end="timestamp", status="record.status",
              attributes="record_attributes"),
    Container({"traceId", "parentObservationId"}, "traceId", "id", "parentObservationId",
              kind="type", start="startTime", end="endTime", status="level",
              message="statusMessage", dialect=LANGFUSE),
    _LANGSMITH,
    replace(_LANGSMITH, mark={"trace_id", "dotted_order"}),  # a patch
    # attributes alone: each record is a trace
    *(Container({one.kind}, "", "", "") for one in DIALECTS),
)  # fmt: skip
_FAILED = {"ERROR", "STATUS_CODE_ERROR", "2", "error"}


def fits(seen: Sample) -> bool:
    """Return True for spans in any container."""
    is_long = seen.first is None and seen.has("info", "data") and '"spans"' in seen.begin
    if is_long or seen.has("resourceSpans") or seen.has("trace", "observations"):
        return True
    return any(_container(one) is not None for one in _spans_in(seen.first or {}, seen.keys))


def _spans_in(record: dict[str, Any], keys: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the records of spans that a record holds, or the record itself."""
    inner = [
        one for part in ("post", "patch", "observations") for one in dicts_in(record.get(part))
    ]
    scopes = [one for part in dicts_in(record.get("resourceSpans"))
              for one in dicts_in(part.get("scopeSpans"))]  # fmt: skip
    inner += [one for scope in scopes for one in dicts_in(scope.get("spans"))]
    inner = inner or ("data" in record and dicts_in(value_at(record, "data.spans"))) or []
    if not inner and record and all(map(dicts_in, record.values())):
        inner = [one for part in record.values() for one in dicts_in(part)]
        inner = inner if all(_container(one) for one in inner) else []
    return inner or [record or dict.fromkeys(keys)]


def dicts_in(value: Any) -> list[dict[str, Any]]:
    """Return the mappings in a list; none of anything else."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _container(record: dict[str, Any]) -> Container | None:
    return next((one for one in CONTAINERS if record.keys() >= one.mark), None)


def nest(flat: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return flat attributes (`retrieval.documents.0.document.id`) as nested ones."""
    top: dict[str, Any] = {}
    for name, value in flat:
        place, parts = top, _parts(name)
        for part in parts[:-1]:
            inner = place.setdefault(part, {})
            if not isinstance(inner, dict):
                inner = place[part] = {"": inner}
            place = inner
        is_json = parts[0] == "mlflow" and isinstance(value, str) and value[:1] == '"'
        place[parts[-1]] = _json_or_text(value) if is_json else value
    return _listed(top)


@lru_cache(maxsize=4096)
def _parts(name: str) -> list[str]:
    return name.split(".")


def _json_or_text(text: str) -> Any:
    """Return the value of a JSON text, else the text."""
    try:
        return parse_json(text)
    except (ValueError, RecursionError):
        return text


def _listed(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    inner = {name: _listed(one) if type(one) is dict else one for name, one in value.items()}
    if inner and all(map(str.isdecimal, inner)):
        return [inner[name] for name in sorted(inner, key=int)]
    return inner


# From spans to records


@dataclass(slots=True)
class Trace:
    """The spans of a trace, and what is known of them."""

    id: str
    dialect: Dialect | None = None  # of spans that no dialect knows: that of the first known one
    spans: list[Span] = field(default_factory=list)
    parents: dict[str, str | None] = field(default_factory=dict)
    searches: list[Span] = field(default_factory=list)
    tools: list[tuple[str | None, str]] = field(default_factory=list)
    counts: dict[str, float] = field(default_factory=dict)

    def add(self, span: Span, tools: str | None) -> None:
        """Add a span; `tools` is the pattern of the names of tools that search."""
        known = (one for one in DIALECTS if span.at(one.kind))
        dialect = span.dialect or next(known, OPENINFERENCE if span.kind else None)
        if dialect is not None:
            span.dialect, span.kind = dialect, dialect.kind_of(span)
            self.dialect = self.dialect or dialect
        self.spans.append(span)
        self.parents[span.id or f"{len(self.spans)} "] = span.parent
        if dialect is not None and span.kind == "LLM":
            for name, paths in dialect.tokens.items():
                count = as_number(span.at(paths))
                if count is not None and count >= 0:
                    self.counts[name] = self.counts.get(name, 0) + count
        if _is_search(span, tools):
            self.searches.append(span)
        elif (used := _tool_used(span)) is not None:
            self.tools.append((span.id, used))

    def record(self) -> tuple[str, Record]:
        """Return when it starts, and its record."""
        roots = [span for span in self.spans if not span.parent]
        orphans = [span for span in self.spans if span.parent and span.parent not in self.parents]
        root = min(roots or orphans or self.spans, key=_start)
        dialect = root.dialect or self.dialect or OPENINFERENCE
        session = root.of_trace.get("session") or (
            root.at(dialect.session) if dialect.session else None
        )
        record = Record(root.line)
        record.response = {
            "conversation": as_id(session),
            "query": text_of(root.at(dialect.query), QUERY_KEYS),
            "error": root.error,
            "answer": None if root.error else text_of(root.at(dialect.answer), ANSWER_KEYS),
            "elapsed_ms": elapsed(root),
        }
        if record.response["query"] is None:
            record.query_id = self.id
        if dialect.reference:
            record.reference_answer = as_text(root.at(dialect.reference))
        for name, total in self.counts.items():
            record.response[name] = total if name == "cost_usd" else int(total)
        record.calls = self.calls()
        record.hits = None if record.calls else []  # a trace is one of a run, whatever it lacks
        record.stored = [_score(one) for one in dicts_in(root.of_trace.get("scores"))]
        record.extra = {"trace_id": self.id, "n_spans": len(self.spans)}
        if len(roots) > 1 or orphans:
            record.extra |= {"n_roots": len(roots), "n_orphans": len(orphans)}
        return _start(root), record

    def calls(self) -> list[Call]:
        """Return the searches in the order of time.

        A retrieval inside another one is the same call: the documents are those of the outer span,
        or of the first inner one that has some. A reranker outside of any takes the place of the
        calls since the last one.
        """
        searches = sorted(self.searches, key=_start)
        of_id = {span.id: span for span in searches if span.id is not None}
        parts: dict[int, list[Span]] = {}
        for span in searches:
            span.dialect = span.dialect or self.dialect
            outer = span
            for above in _above(span.parent, self.parents):
                outer = of_id.get(above, outer)
            members = parts.setdefault(id(outer), [])
            members.insert(0 if span is outer else len(members), span)
        calls: list[Call] = []
        for members in parts.values():
            call = _call(members)
            rerankers = (n for n, one in enumerate(calls[::-1]) if one.kind == "reranker")
            since = next(rerankers, len(calls))
            if call.kind == "reranker" and since:
                first = calls[len(calls) - since]
                call.query, call.start = first.query or call.query, first.start
                del calls[len(calls) - since :]
            calls.append(call)
        return calls

    def tools_left_out(self) -> list[str]:
        """Return the names of tools in use, but for those around or within a search."""
        ids = {span.id for span in self.searches}
        around = {above for span in self.searches for above in _above(span.parent, self.parents)}
        return [
            name
            for id, name in self.tools
            if id not in around and ids.isdisjoint(_above(id, self.parents))
        ]


def records(
    spans: Iterable[Span], tools: str | None = None, left: Problems | None = None
) -> list[Record]:
    """Return one record per trace, in the order of the traces; what is left out is noted in `left`.

    `tools` is the pattern of the names of tools whose use is a search.
    """
    traces: dict[str, Trace] = {}
    for span in spans:
        if (trace := traces.get(span.trace)) is None:
            trace = traces[span.trace] = Trace(span.trace)
        trace.add(span, tools)
    if left is not None:
        _note(traces.values(), left)
    made = [traces.pop(id).record() for id in list(traces)]
    found = [record for _, record in made]
    turns: Counter[str] = Counter()
    # an export may begin with the newest
    for _, record in sorted(made, key=itemgetter(0)):
        if (session := record.response["conversation"]) is not None:
            turns[session] += 1
            record.response["turn"] = str(turns[session])
    return found


def _note(traces: Iterable[Trace], left: Problems) -> None:
    used = Counter(name for trace in traces for name in trace.tools_left_out())
    if not used:
        return
    names = sorted(used, key=lambda name: (_SEARCHES.search(name) is None, -used[name], name))
    shown = ", ".join(f"{name} ({used[name]:,})" for name in names[:5])
    left.note(
        f"{plural(used.total(), 'use')} of tools that no rule names as searches: {shown}"
        f"{', …' if len(names) > 5 else ''}",
        field="calls_from",
        allowed=f'calls_from={{"tool": {json.dumps(names[0])}}} if it searches, or a pattern',
    )


_SEARCHES = re.compile("search|retriev|lookup|query", re.IGNORECASE)


def _tool_used(span: Span) -> str | None:
    """Return the name of a tool, or of a span that is called as a search is; else None."""
    name = _tool(span) or span.name
    if span.kind in ("LLM", "CHAIN", "AGENT", "EMBEDDING") or not name:
        return None
    return name if span.kind == "TOOL" or (span.parent and _SEARCHES.search(name)) else None


def _score(values: dict[str, Any]) -> Stored:
    value = as_number(first_at(values, ("value", "feedback.value")))
    source = as_text(first_at(values, ("source.source_type", "source")))
    return Stored(
        text_in(values, ("name", "assessment_name")) or "score", value,
        as_text(values.get("stringValue")), text_in(values, ("comment", "rationale")),
        is_judged=source in ("EVAL", "LLM_JUDGE"),
    )  # fmt: skip


def _start(span: Span) -> str:
    return str(span.start or "")


def _above(id: str | None, parents: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the ids of the spans above one, from it on; each once, should they form a ring."""
    seen: set[str] = set()
    while id is not None and id in parents and id not in seen:
        yield id
        seen.add(id)
        id = parents[id]


def _is_search(span: Span, tools: str | None) -> bool:
    if span.dialect is not None and span.kind in span.dialect.documents:
        return True
    return tools is not None and span.kind not in ("LLM", "CHAIN", "AGENT") and any(
        fnmatchcase(name, tools) for name in (span.name, _tool(span)) if name
    )  # fmt: skip


_TOOL = "tool.name gen_ai.tool.name tool_call.function.name"


def _tool(span: Span) -> str | None:
    return as_text(first_at(span.attributes, _TOOL))


def _call(members: list[Span]) -> Call:
    outer = members[0]
    known = [(one, one.dialect or OPENINFERENCE) for one in members]
    asked = (text_of(one.at(dialect.query), QUERY_KEYS) for one, dialect in known)
    hits = (_hits(one, dialect) for one, dialect in known)
    return Call(
        next((one for one in hits if one), []),
        next((one for one in asked if one is not None), None),
        outer.kind.lower(),
        elapsed(outer),
        outer.error,
        _tool(outer) or outer.name or None,
        None if outer.start is None else _iso(outer.start),
    )


def _hits(span: Span, dialect: Dialect) -> Rows:
    """Return the documents of a retrieval or of a tool, none where the span has none."""
    paths = dialect.documents.get(span.kind)
    found = span.at(paths or dialect.answer)
    if isinstance(found, dict) and paths is None:
        found = nested(found.get("content", found))
    if isinstance(found, dict):
        found = next((one for one in found.values() if isinstance(one, list)), [])
    listed = found if isinstance(found, list) else []
    fields = dialect.hit if paths else _HIT
    return [
        hit
        for one in listed
        if (hit := _hit(one, fields) if isinstance(one, dict) else _text_hit(one))
    ]


def _text_hit(text: Any) -> dict[str, Any]:
    return without_missing({"text": as_text(text)})


def _hit(document: dict[str, Any], fields: dict[str, str]) -> dict[str, Any]:
    raw = {name: nested(first_at(document, paths)) for name, paths in fields.items()}
    hit: dict[str, Any] = {name: as_id(raw.get(name)) for name in ("chunk_id", "doc_id")}
    hit |= {"text": as_text(raw.get("text")), "score": as_number(raw.get("score"))}
    meta = raw.get("metadata")
    return without_missing(hit | {"metadata": meta if isinstance(meta, dict) else None})


def elapsed(span: Span) -> float | None:
    """Return how long a span took, in milliseconds."""
    if span.start is None or span.end is None:
        return None
    if type(span.start) is int and type(span.end) is int:
        return (span.end - span.start) / 1e6 if span.end >= span.start else None
    with suppress(ValueError, TypeError, OverflowError):
        found = (pd.Timestamp(span.end) - pd.Timestamp(span.start)) / pd.Timedelta("1ms")
        return None if pd.isna(found) or found < 0 else float(found)
    return None


def _iso(time: Any) -> str | None:
    """Return a time as ISO 8601 in UTC."""
    with suppress(ValueError, TypeError, OverflowError):
        found = pd.to_datetime(time, utc=True)
        return None if pd.isna(found) else str(found.isoformat())
    return None


def text_of(value: Any, names: tuple[str, ...]) -> str | None:
    """Return a text, the one that a mapping has under one of these names, or that of a message."""
    parsed = nested(value)
    if isinstance(parsed, dict):
        said = _said(nested(first_at(parsed, ("messages", "choices"))), names is QUERY_KEYS)
        only = text_in(parsed, parsed) if len(parsed) == 1 else None
        return text_in(parsed, names) or said or only or json_text(parsed)
    return _said(parsed, names is QUERY_KEYS) or as_text(value)


def _said(messages: Any, is_query: bool) -> str | None:
    """Return the text of the user's last message, or of the last one of all."""
    inner = [one.get("message", one.get("kwargs", one)) for one in dicts_in(messages)]
    roles = {"user", "human"} if is_query else {"assistant", "ai", "model"}
    of_role = [one for one in dicts_in(inner) if {one.get("role"), one.get("type")} & roles]
    if not of_role:
        return None
    held = nested(first_at(of_role[-1], ("content", "contents", "parts")))
    if not isinstance(held, list):
        return as_text(held)
    paths = ("text", "content", "message_content.text")
    texts = (as_text(first_at(part, paths)) for part in dicts_in(held))
    return " ".join(filter(None, texts)) or None


# From records of a file to spans


def spans_of(rows: Iterable[Row], problems: Problems) -> Iterator[Span]:
    """Yield the spans of a file, whatever their container; parts of one span are joined."""
    parts: dict[str, tuple[int, dict[str, Any], dict[str, Any]]] = {}  # of LangSmith's runs
    for row in rows:
        about = _about_trace(row.values)
        for values in _spans_in(row.values):
            place = _container(values)
            if place is not None and place.dialect is LANGSMITH:
                line, before, _ = parts.get(key := str(values.get("id")), (row.line, {}, about))
                told = {name: one for name, one in values.items() if one not in _EMPTY}
                parts[key] = line, values | before | told, about
            elif (span := span_in(values, row.line, problems, about)) is not None:
                yield span
    for line, values, about in parts.values():
        if (span := span_in(values, line, problems, about)) is not None:
            yield span


_EMPTY: tuple[Any, ...] = (None, {}, [])


def _about_trace(record: dict[str, Any]) -> dict[str, Any]:
    """Return the session and the scores that stand beside the spans of a trace."""
    stats = record.get("feedback_stats")
    if isinstance(stats, dict):  # LangSmith's runs: feedback by key, averaged
        averages = {name: one.get("avg") for name, one in stats.items() if isinstance(one, dict)}
        return {"scores": [{"name": name, "value": one} for name, one in averages.items()]}
    if record.keys().isdisjoint(("trace", "info")):
        return {}
    paths = [
        "trace.sessionId", "info.trace_metadata.mlflow.trace.session",
        "info.request_metadata.mlflow.trace.session",
    ]  # fmt: skip
    scores = dicts_in(first_at(record, ("trace.scores", "info.assessments")))
    feedback = [one for one in scores if "expectation" not in one]
    return without_missing({"session": first_at(record, paths), "scores": feedback or None})


def span_in(
    values: dict[str, Any], line: int, problems: Problems, of_trace: dict[str, Any]
) -> Span | None:
    """Return the span that a record is; None, and a problem, if it is none."""
    place = _container(values)
    if place is None:
        problems.add("a record that is no span", line=line, allowed="spans in one container")
        return None

    def at(paths: str) -> Any:
        return first_at(values, paths)

    trace = as_id(at(place.trace)) if place.trace else f"line {line}"
    if trace is None:
        problems.add("a span without a trace", line=line, field=place.trace, allowed="an id")
        return None
    prefix = place.attributes
    if prefix.endswith("."):
        own = {name.removeprefix(prefix): nested(one) for name, one in values.items()
               if name.startswith(prefix) and one is not None}  # fmt: skip
    else:
        held = nested(values.get(prefix)) if prefix else values
        pairs = ((str(one.get("key")), _value(one.get("value"))) for one in dicts_in(held))
        own = nest(held.items() if isinstance(held, dict) else pairs)
    failed = (as_text(at(place.status)) or "").rpartition(".")[2] in _FAILED
    failed |= place.dialect is LANGSMITH and bool(at("error"))
    return Span(
        line,
        trace,
        as_text(at(place.parent)) or None,
        _time(at(place.start)),
        _time(at(place.end)),
        own,
        as_text(at(place.kind)) or "" if place.kind else "",
        (as_text(at(place.message)) or "status ERROR") if failed else None,
        as_text(at(place.id)),
        as_text(at(place.name)) or "",
        of_trace,
        place.dialect,
    )


def _time(value: Any) -> Any:
    """Return a time; one in nanoseconds may be text, for it is too long for a JSON number."""
    return int(value) if str(value).isdecimal() and 0 < int(value) < 2**63 else value


def _value(value: Any) -> Any:
    """Return an OTLP value as Python's."""
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", None)
    if kind in ("arrayValue", "kvlistValue"):
        listed = dicts_in(inner.get("values")) if isinstance(inner, dict) else []
        if kind == "arrayValue":
            return [_value(one) for one in listed]
        return {str(one.get("key")): _value(one.get("value")) for one in listed}
    return int(str(inner)) if kind == "intValue" and str(inner).isdecimal() else inner


def read_traces(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one record per trace; the user's columns are those of the root's record.

    Records of the file pass one by one: none is kept.
    """
    asked = {path for paths in columns.values() for path in paths.split("|")}
    of_line: dict[int, Row] = {}

    def rows() -> Iterator[Row]:
        for row in table_rows(source, problems):
            if asked:
                values = {path: value_at(row.values, path) for path in asked}
                of_line[row.line] = Row(values, row.line)
            yield row

    tools = (described.get("calls_from") or {}).get("tool")
    left = None if described.get("is_golden") else problems
    found = records(spans_of(rows(), problems), tools, left)
    if columns:
        found = [with_roles(one, of_line[one.line], columns, problems) for one in found]
    return imported(found, described, problems)
