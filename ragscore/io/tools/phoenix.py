"""Phoenix / OpenInference spans as a frame -> cases, one per trace.

The ranking is that of a trace's last RERANKER span, else of its last RETRIEVER. The root span gives
query, answer, error and latency; LLM spans give tokens and cost. Phoenix's experiment export gives
one case per run of an example.
"""

from typing import Any

import pandas as pd

from ragscore.io.detect import Sample
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.tools.cases import Case, Imported, Stored, imported
from ragscore.io.tools.cells import (
    Cells,
    as_number,
    json_text,
    stored,
    text_in,
    with_roles,
    without_missing,
)

RANKED = {"RERANKER": "reranker.output_documents", "RETRIEVER": "retrieval.documents"}
QUERY_KEYS = ("question", "query", "input", "user_input")
ANSWER_KEYS = ("answer", "output", "response", "content")


def fits(seen: Sample) -> bool:
    """Return True for a table of spans, or of an experiment's runs."""
    is_spans = seen.has("context.trace_id", "parent_id")
    return is_spans or seen.has("example_id", "repetition_number")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per trace, or per run of an example."""
    if isinstance(source, pd.DataFrame) and source.index.name and source.index.name not in source:
        source = source.reset_index()  # the client's frame has the span's id as its index
    rows = list(table_rows(source, problems))
    if rows and "example_id" in rows[0].values:
        cases = [_experiment_case(row, columns, problems) for row in rows]
        return imported(cases, described, problems)
    traces: dict[str, list[Row]] = {}
    for row in rows:
        trace = as_id(row.values.get("context.trace_id"))
        if trace is None:
            problems.add(
                "a span without a trace", line=row.line, field="context.trace_id", allowed="an id"
            )
        else:
            traces.setdefault(trace, []).append(row)
    cases = [_trace_case(spans, columns, problems) for spans in traces.values()]
    return imported(cases, described, problems)


def _trace_case(spans: list[Row], columns: dict[str, str], problems: Problems) -> Case:
    spans = sorted(spans, key=lambda row: str(row.values.get("start_time") or ""))
    root = next((row for row in spans if not row.values.get("parent_id")), spans[0])
    cells = Cells(root, problems)
    case = Case(root.line, query=_text_of(_attribute(root, "input.value"), QUERY_KEYS))
    if cells.text("status_code") == "ERROR":
        case.error = cells.text("status_message") or "status ERROR"
    case.answer = None if case.error else _text_of(_attribute(root, "output.value"), ANSWER_KEYS)
    case.latency_ms = _milliseconds(root.values.get("start_time"), root.values.get("end_time"))
    case.hits = _ranking(spans)
    models = [row for row in spans if _kind(row) == "LLM"]
    case.prompt_tokens = _total(models, "llm.token_count.prompt")
    case.completion_tokens = _total(models, "llm.token_count.completion")
    costs = [as_number(_attribute(row, "llm.cost.total")) for row in models]
    known = [cost for cost in costs if cost is not None]
    case.cost_usd = sum(known) if known else None
    session_id = _attribute(root, "session.id")
    ids = {"trace_id": root.values.get("context.trace_id"), "session_id": session_id}
    case.extra = without_missing(ids)
    return with_roles(case, root, columns, problems)


def _attribute(row: Row, name: str) -> Any:
    """Return an attribute from its own column, or from the mapping in a column of its prefix."""
    if (value := row.values.get(f"attributes.{name}")) is not None:
        return value
    first, _, rest = name.partition(".")
    place = nested(row.values.get(f"attributes.{first}"))
    for part in rest.split("."):
        place = place.get(part) if isinstance(place, dict) else None
    return place


def _kind(row: Row) -> str:
    return str(
        row.values.get("span_kind") or _attribute(row, "openinference.span.kind") or ""
    ).upper()


def _ranking(spans: list[Row]) -> list[dict[str, Any]] | None:
    """Return the passages of the span that ranked last; None if none did."""
    for kind, attribute in RANKED.items():
        of_kind = [row for row in spans if _kind(row) == kind]
        if of_kind:
            documents = nested(_attribute(of_kind[-1], attribute))
            listed = documents if isinstance(documents, list) else []
            return [_hit(one) for one in listed if isinstance(one, dict)]
    return None


def _hit(document: dict[str, Any]) -> dict[str, Any]:
    inner = document.get("document")
    values = {
        name.removeprefix("document."): value
        for name, value in (inner if isinstance(inner, dict) else document).items()
    }
    return without_missing(
        {
            "chunk_id": as_id(values.get("id")),
            "text": as_text(values.get("content")),
            "score": as_number(values.get("score")),
        }
    )


def _total(models: list[Row], name: str) -> int | None:
    """Return the sum of the whole numbers of tokens; None if no span has one."""
    counts = [as_number(_attribute(row, name)) for row in models]
    known = [n for n in counts if n is not None and n % 1 == 0 and 0 <= n < 2**53]
    return int(sum(known)) if known else None


def _milliseconds(start: Any, end: Any) -> float | None:
    if start is None or end is None:
        return None
    try:
        elapsed = (pd.Timestamp(end) - pd.Timestamp(start)) / pd.Timedelta("1ms")
    except (ValueError, TypeError, OverflowError):
        return None
    return None if pd.isna(elapsed) or elapsed < 0 else float(elapsed)


def _text_of(value: Any, names: tuple[str, ...]) -> str | None:
    """Return a text, or the one that a mapping (also as JSON) has under one of these names."""
    parsed = nested(value)
    if not isinstance(parsed, dict):
        return as_text(value)
    only = text_in(parsed, parsed) if len(parsed) == 1 else None
    return text_in(parsed, names) or only or json_text(parsed)


def _experiment_case(row: Row, columns: dict[str, str], problems: Problems) -> Case:
    cells = Cells(row, problems)
    case = Case(
        row.line,
        query_id=cells.identifier("example_id"),
        repeat=cells.whole("repetition_number"),
        error=cells.text("error") or None,
    )
    case.query = _text_of(cells.take("input"), QUERY_KEYS)
    case.latency_ms = cells.number("latency_ms")
    answer, reference = cells.take("output"), cells.take("reference_output")
    case.answer = None if case.error or answer is None else _text_of(answer, ANSWER_KEYS)
    case.reference_answer = None if reference is None else _text_of(reference, ANSWER_KEYS)
    case.prompt_tokens = cells.whole("prompt_token_count")
    case.completion_tokens = cells.whole("completion_token_count")
    annotations = [cells.of(one) for one in cells.records("annotations")]
    case.stored = [_annotation(one) for one in annotations + _flat_annotations(cells)]
    return with_roles(case, row, columns, problems)


def _annotation(cells: Cells) -> Stored:
    label, kind = cells.text("label"), cells.text("annotator_kind")
    about = {
        "reason": cells.text("explanation"),
        "error": cells.text("error") or None,
        "verdict": label,
        "judge": None if kind is None else kind.lower(),
    }
    score = stored(cells.text("name") or "annotation", cells.take("score"), same={}, **about)
    score.is_judged = kind != "CODE"
    return score


def _flat_annotations(cells: Cells) -> list[Cells]:
    """Return the annotations in the CSV's columns `annotation_<name>_score` and so on."""
    parts = ("score", "label", "explanation", "annotator_kind", "error")
    names = {
        name[len("annotation_") : -len(part) - 1]: None
        for name in cells.values
        for part in parts
        if name.startswith("annotation_") and name.endswith(f"_{part}")
    }
    annotations = []
    for name in names:
        values = {part: cells.take(f"annotation_{name}_{part}") for part in parts}
        if any(values[part] is not None for part in ("score", "label", "error")):
            annotations.append(cells.of({"name": name} | values))
    return annotations
