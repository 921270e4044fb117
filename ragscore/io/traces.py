"""Spans of traces -> records: one per trace, with every search on the way as a call.

A container says where the parts of a span stand in a record of the file; a dialect says which
attribute is what. Their roots give query, answer, error and duration; model spans give tokens and
cost; retrieval spans are the calls. A retrieval inside another one is the same call, and a reranker
puts its list in the place of the calls that it ranks. Traces of one session are its turns.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import pandas as pd

from ragscore.io.detect import Sample
from ragscore.io.records import Call, Record, Rows, Stored
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
    id: str | None = None
    name: str = ""
    of_trace: dict[str, Any] = field(default_factory=dict)


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

    def at(self, span: Span, paths: str) -> Any:
        """Return the first of these attributes that is there."""
        return nested(first_at(span.attributes, paths.split()))


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
    query="gen_ai.retrieval.query.text gen_ai.tool.call.arguments gen_ai.input.messages",
    answer="gen_ai.tool.call.result gen_ai.output.messages",
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
DIALECTS = (OPENINFERENCE, GENAI, TRULENS, LANGFUSE, LANGSMITH)


@dataclass(frozen=True)
class Container:
    """Where the parts of a span stand in a record: paths, the surest first, apart by blanks."""

    mark: tuple[str, ...]
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
    of_trace: str = ""


CONTAINERS = (
    # Phoenix's frame, and what its REST API gives
    Container(("context.trace_id", "parent_id"), "context.trace_id", "context.span_id",
              "parent_id", kind="span_kind", attributes="attributes."),
    Container(("context", "span_kind", "attributes"), "context.trace_id", "context.span_id",
              "parent_id", kind="span_kind", attributes="attributes"),
    # a dump of OpenTelemetry's SDK
    Container(("trace_id", "span_id", "attributes"), "trace_id", "span_id",
              "parent_id parent_span_id", status="status.status_code status",
              message="status.description", attributes="attributes"),
    Container(("record_attributes", "trace"), "trace.trace_id", "trace.span_id",
              "trace.parent_id record.parent_span_id", "record.name record_attributes.name",
              start="start_timestamp", end="timestamp", status="record.status",
              attributes="record_attributes"),
    Container(("traceId", "parentObservationId"), "traceId", "id", "parentObservationId",
              kind="type", start="startTime", end="endTime", status="level",
              message="statusMessage", of_trace="trace"),
    Container(("trace_id", "run_type"), "trace_id", "id", "parent_run_id", kind="run_type",
              status="status error", message="error"),
)  # fmt: skip
_FAILED = {"ERROR", "STATUS_CODE_ERROR", "2", "error"}


def fits(seen: Sample) -> bool:
    """Return True for spans in any container."""
    if seen.has("resourceSpans") or seen.has("trace", "observations"):
        return True
    return any(_container(one) is not None for one in _spans_in(seen.first or {}, seen.keys))


def _spans_in(record: dict[str, Any], keys: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Return the records of spans that a record holds, or the record itself."""
    parts = {"post": "", "patch": "", "observations": ""}.keys() & record.keys()
    inner = [one for part in parts for one in _dicts(record[part])]
    if not parts and record and all(_dicts(one) for one in record.values()):
        inner = [one for part in record.values() for one in _dicts(part)]
        inner = inner if all(_container(one) for one in inner) else []
    return inner or [record or dict.fromkeys(keys)]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _container(record: dict[str, Any]) -> Container | None:
    return next((one for one in CONTAINERS if record.keys() >= set(one.mark)), None)


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


# From spans to records


def records(
    spans: Iterable[Span], dialects: Iterable[Dialect] = DIALECTS, tools: str | None = None
) -> list[Record]:
    """Return one record per trace, in the order of the traces.

    `tools` is the pattern of the names of tools whose use is a search.
    """
    traces: dict[str, list[Span]] = {}
    for span in spans:
        traces.setdefault(span.trace, []).append(span)
    found = [
        _record(sorted(of, key=lambda one: str(one.start or "")), dialects, tools)
        for of in traces.values()
    ]
    turns: Counter[str] = Counter()
    for record in found:
        if (session := record.response["conversation"]) is not None:
            turns[session] += 1
            record.response["turn"] = str(turns[session])
    return found


def _record(spans: list[Span], dialects: Iterable[Dialect], tools: str | None) -> Record:
    known = [(span, one) for span in spans for one in dialects if one.at(span, one.kind)]
    dialect = known[0][1] if known else OPENINFERENCE
    for span in spans:
        written = str(dialect.at(span, dialect.kind) or span.kind)
        span.kind = dialect.kinds.get(written, written.upper())
    ids = {span.id for span in spans}
    roots = [span for span in spans if not span.parent]
    orphans = [span for span in spans if span.parent and span.parent not in ids]
    root = (roots or orphans or spans)[0]
    session = dialect.at(root, dialect.session) if dialect.session else None
    record = Record(root.line)
    record.response = {
        "conversation": as_id(root.of_trace.get("sessionId") or session),
        "query": text_of(dialect.at(root, dialect.query), QUERY_KEYS),
        "error": root.error,
        "answer": None if root.error else text_of(dialect.at(root, dialect.answer), ANSWER_KEYS),
        "elapsed_ms": elapsed(root),
    }
    if record.response["query"] is None:
        record.query_id = root.trace
    if dialect.reference:
        record.reference_answer = as_text(dialect.at(root, dialect.reference))
    for name, paths in dialect.tokens.items():
        counts = [as_number(dialect.at(span, paths)) for span in spans if span.kind == "LLM"]
        if known_counts := [one for one in counts if one is not None and one >= 0]:
            total = sum(known_counts)
            record.response[name] = total if name == "cost_usd" else int(total)
    record.calls = calls_of(spans, dialect, tools)
    record.stored = [_score(one) for one in _dicts(root.of_trace.get("scores"))]
    record.extra = {"trace_id": root.trace, "n_spans": len(spans)}
    if len(roots) > 1 or orphans:
        record.extra |= {"n_roots": len(roots), "n_orphans": len(orphans)}
    return record


def _score(values: dict[str, Any]) -> Stored:
    value, source = as_number(values.get("value")), as_text(values.get("source"))
    return Stored(
        as_text(values.get("name")) or "score", value, as_text(values.get("stringValue")),
        as_text(values.get("comment")), is_judged=source == "EVAL",
    )  # fmt: skip


def calls_of(spans: list[Span], dialect: Dialect, tools: str | None = None) -> list[Call]:
    """Return the searches of a trace, in the order of their spans.

    A retrieval inside another one is the same call: the documents are those of the outer span, or
    of the first inner one that has some. A reranker outside of any takes the place of the calls
    since the last one.
    """
    searches = {id(span) for span in spans if _is_search(span, dialect, tools)}
    of_id = {span.id: span for span in spans if span.id is not None}
    parts: dict[int, list[Span]] = {}
    for span in (one for one in spans if id(one) in searches):
        outer, above, seen = span, span, {id(span)}
        while above.parent in of_id and id(above := of_id[above.parent]) not in seen:
            seen.add(id(above))
            outer = above if id(above) in searches else outer
        members = parts.setdefault(id(outer), [])
        members.insert(0 if span is outer else len(members), span)
    calls: list[Call] = []
    for members in parts.values():
        call = _call(members, dialect)
        since = next((n for n, one in enumerate(calls[::-1]) if one.kind == "reranker"), len(calls))
        if call.kind == "reranker" and since:
            first = calls[len(calls) - since]
            call.query, call.start = first.query or call.query, first.start
            del calls[len(calls) - since :]
        calls.append(call)
    return calls


def _is_search(span: Span, dialect: Dialect, tools: str | None) -> bool:
    if span.kind in dialect.documents:
        return True
    return tools is not None and span.kind not in ("LLM", "CHAIN", "AGENT") and any(
        fnmatchcase(name, tools) for name in (span.name, _tool(span)) if name
    )  # fmt: skip


def _tool(span: Span) -> str | None:
    paths = ("tool.name", "gen_ai.tool.name", "tool_call.function.name")
    return as_text(first_at(span.attributes, paths))


def _call(members: list[Span], dialect: Dialect) -> Call:
    outer = members[0]
    asked = (text_of(dialect.at(one, dialect.query), QUERY_KEYS) for one in members)
    hits = (_hits(one, dialect) for one in members)
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
    found = dialect.at(span, paths or dialect.answer)
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


def attribute_span(attributes: dict[str, Any], dialect: Dialect) -> Span:
    """Return a span of which only the attributes are known."""
    kind = str(attributes.get(dialect.kind))
    return Span(0, "", None, None, None, attributes, dialect.kinds.get(kind, kind))


def _hit(document: dict[str, Any], fields: dict[str, str]) -> dict[str, Any]:
    raw = {name: nested(first_at(document, paths.split())) for name, paths in fields.items()}
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


def _iso(time: Any) -> str | None:
    """Return a time as ISO 8601 in UTC."""
    try:
        found = pd.Timestamp(time)
    except (ValueError, TypeError, OverflowError):
        return None
    found = found.tz_localize("UTC") if found.tzinfo is None else found.tz_convert("UTC")
    return None if pd.isna(found) else str(found.isoformat())


def text_of(value: Any, names: tuple[str, ...]) -> str | None:
    """Return a text, or the one that a mapping has under one of these names."""
    parsed = nested(value)
    if not isinstance(parsed, dict):
        return as_text(value)
    only = text_in(parsed, parsed) if len(parsed) == 1 else None
    return text_in(parsed, names) or only or json_text(parsed)


# From records of a file to spans


def spans_of(rows: Iterable[Row], problems: Problems) -> Iterator[Span]:
    """Yield the spans of a file, whatever their container; parts of one span are joined."""
    for row in rows:
        if "resourceSpans" in row.values:
            yield from _otlp_spans(Cells(row, problems))
            continue
        joined: dict[str, dict[str, Any]] = {}
        for number, part in enumerate(_spans_in(row.values)):
            key = str(part.get("id", number))
            joined[key] = joined.get(key, {}) | {
                name: one for name, one in part.items() if one not in (None, {}, [])
            } | {name: None for name in part.keys() - joined.get(key, {}).keys()
                 if part[name] in (None, {}, [])}  # fmt: skip
        of_trace = row.values.get("trace")
        for values in joined.values():
            span = _span(values, row.line, problems)
            if span is not None:
                span.of_trace = of_trace if isinstance(of_trace, dict) else {}
                yield span


def _span(values: dict[str, Any], line: int, problems: Problems) -> Span | None:
    place = _container(values)
    if place is None:
        problems.add("a record that is no span", line=line, allowed="spans in one container")
        return None

    def at(paths: str) -> Any:
        return first_at(values, paths.split())

    trace = as_id(at(place.trace))
    if trace is None:
        field = place.trace
        problems.add("a span without a trace", line=line, field=field, allowed="an id")
        return None
    prefix = place.attributes
    if prefix.endswith("."):
        own = {name.removeprefix(prefix): nested(one) for name, one in values.items()
               if name.startswith(prefix) and one is not None}  # fmt: skip
    else:
        held = nested(values.get(prefix)) if prefix else values
        own = nest(held.items()) if isinstance(held, dict) else {}
    failed = (as_text(at(place.status)) or "").rpartition(".")[2] in _FAILED
    failed |= place.kind == "run_type" and bool(at("error"))
    return Span(
        line,
        trace,
        as_text(at(place.parent)) or None,
        at(place.start),
        at(place.end),
        own,
        as_text(at(place.kind)) or "" if place.kind else "",
        (as_text(at(place.message)) or "status ERROR") if failed else None,
        as_text(at(place.id)),
        as_text(at(place.name)) or "",
    )


def _otlp_spans(top: Cells) -> Iterator[Span]:
    """Yield the spans of OTLP's JSON."""
    resources = map(top.of, top.records("resourceSpans"))
    scopes = (top.of(one) for resource in resources for one in resource.records("scopeSpans"))
    for span in (top.of(one) for scope in scopes for one in scope.records("spans")):
        trace = span.identifier("traceId")
        if trace is None:
            top.problems.add("a span without a trace", line=top.line, field="traceId")
            continue
        pairs = [
            (str(pair.get("key")), _value(pair.get("value"))) for pair in span.records("attributes")
        ]
        status = span.mapping("status")
        failed = str(status.get("code")) in _FAILED
        yield Span(
            top.line,
            trace,
            span.text("parentSpanId") or None,
            _nanoseconds(span.pop("startTimeUnixNano")),
            _nanoseconds(span.pop("endTimeUnixNano")),
            nest(pairs),
            "",
            (as_text(status.get("message")) or "status ERROR") if failed else None,
            span.text("spanId"),
            span.text("name") or "",
        )


def _nanoseconds(value: Any) -> int | None:
    """Return a time, which is text for it is too long for a JSON number."""
    return int(value) if str(value).isdecimal() and 0 < int(value) < 2**63 else None


def _value(value: Any) -> Any:
    """Return an OTLP value as Python's."""
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", None)
    if kind in ("arrayValue", "kvlistValue"):
        listed = _dicts(inner.get("values")) if isinstance(inner, dict) else []
        if kind == "arrayValue":
            return [_value(one) for one in listed]
        return {str(one.get("key")): _value(one.get("value")) for one in listed}
    return int(str(inner)) if kind == "intValue" and str(inner).isdecimal() else inner


def read_traces(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one record per trace; the user's columns are those of the root's record."""
    rows = list(table_rows(source, problems))
    of_line = {row.line: row for row in rows}
    tools = (described.get("calls_from") or {}).get("tool")
    found = records(spans_of(rows, problems), tools=tools)
    if columns:
        found = [with_roles(one, of_line[one.line], columns, problems) for one in found]
    return imported(found, described, problems)
