"""Phoenix / OpenInference spans exported as a frame -> cases, one per trace.

Phoenix's experiment export too, one per run of an example.

The last RERANKER span of a trace, else its last RETRIEVER, gives the ranking; the root span
question, answer, error and latency; LLM spans give tokens and cost.
"""

import json
from typing import Any

import pandas as pd

from ragscore.io.detect import Sample
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row, as_id, as_text
from ragscore.io.tools.cases import Case, Imported, Stored, imported
from ragscore.io.tools.cells import Cells, as_number, stored, with_roles

RANKED = {"RERANKER": "reranker.output_documents", "RETRIEVER": "retrieval.documents"}
QUESTION = ("question", "query", "input", "user_input")
ANSWER = ("answer", "output", "response", "content")


def fits(seen: Sample) -> bool:
    """Whether a table holds spans, or an experiment's runs."""
    return (seen.keys >= {"context.trace_id", "parent_id"}) or seen.has(
        "example_id", "repetition_number"
    )


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """One case per trace, or per run of an example."""
    if isinstance(source, pd.DataFrame) and source.index.name and source.index.name not in source:
        source = source.reset_index()  # the client's frame has the span's id as its index
    rows = list(table_rows(source, problems))
    if rows and "example_id" in rows[0].values:
        return imported(
            [_experiment_case(row, columns, problems) for row in rows], described, problems
        )
    traces: dict[str, list[Row]] = {}
    for row in rows:
        trace = as_id(row.values.get("context.trace_id"))
        if trace is None:
            problems.add(
                "a span without a trace", line=row.line, field="context.trace_id", allowed="an id"
            )
        else:
            traces.setdefault(trace, []).append(row)
    return imported(
        [_trace_case(spans, columns, problems) for spans in traces.values()], described, problems
    )


def _trace_case(spans: list[Row], columns: dict[str, str], problems: Problems) -> Case:
    spans = sorted(spans, key=lambda row: str(row.values.get("start_time") or ""))
    root = next((row for row in spans if not row.values.get("parent_id")), spans[0])
    cells = Cells(root, problems)
    case = Case(root.line, query=_text_of(_attribute(root, "input.value"), QUESTION))
    if cells.text("status_code") == "ERROR":
        case.error = cells.text("status_message") or "status ERROR"
    case.answer = None if case.error else _text_of(_attribute(root, "output.value"), ANSWER)
    case.latency_ms = _milliseconds(root.values.get("start_time"), root.values.get("end_time"))
    case.hits = _ranking(spans)
    models = [row for row in spans if _kind(row) == "LLM"]
    case.prompt_tokens, case.completion_tokens = (
        _total(models, f"llm.token_count.{name}") for name in ("prompt", "completion")
    )
    costs = [
        cost for row in models if (cost := as_number(_attribute(row, "llm.cost.total"))) is not None
    ]
    case.cost_usd = sum(costs) if costs else None
    about = {
        "trace_id": root.values.get("context.trace_id"),
        "session_id": _attribute(root, "session.id"),
    }
    case.extra = {name: value for name, value in about.items() if value is not None}
    return with_roles(case, root, columns, problems)


def _attribute(row: Row, name: str) -> Any:
    """An attribute, as a column of its own or inside a mapping that stands for its first parts."""
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
    for kind, attribute in RANKED.items():
        of_kind = [row for row in spans if _kind(row) == kind]
        documents = nested(_attribute(of_kind[-1], attribute)) if of_kind else None
        if of_kind:
            return (
                [_hit(one) for one in documents if isinstance(one, dict)]
                if isinstance(documents, list)
                else []
            )
    return None


def _hit(document: dict[str, Any]) -> dict[str, Any]:
    inner = document.get("document")
    about = {
        name.removeprefix("document."): value
        for name, value in (inner if isinstance(inner, dict) else document).items()
    }
    hit = {
        "chunk_id": as_id(about.get("id")),
        "text": as_text(about.get("content")),
        "score": as_number(about.get("score")),
    }
    return {name: value for name, value in hit.items() if value is not None}


def _total(models: list[Row], name: str) -> int | None:
    counts = [
        count
        for row in models
        if (count := as_number(_attribute(row, name))) is not None
        and count % 1 == 0
        and 0 <= count < 2**53
    ]
    return int(sum(counts)) if counts else None


def _milliseconds(start: Any, end: Any) -> float | None:
    try:
        took = (
            (pd.Timestamp(end) - pd.Timestamp(start)) / pd.Timedelta("1ms")
            if start is not None and end is not None
            else None
        )
    except (ValueError, TypeError, OverflowError):
        return None
    return None if took is None or pd.isna(took) or took < 0 else float(took)


def _text_of(value: Any, names: tuple[str, ...]) -> str | None:
    """A text, or the one that a mapping (also as JSON) has under one of these names."""
    parsed = nested(value)
    if isinstance(parsed, dict):
        named = [text for name in names if (text := as_text(parsed.get(name)))]
        only = (
            [text for one in parsed.values() if (text := as_text(one))] if len(parsed) == 1 else []
        )
        return (
            named or only or [json.dumps(parsed, ensure_ascii=False, sort_keys=True, default=str)]
        )[0]
    return as_text(value)


def _experiment_case(row: Row, columns: dict[str, str], problems: Problems) -> Case:
    cells = Cells(row, problems)
    case = Case(
        row.line,
        query_id=cells.identifier("example_id"),
        repeat=cells.whole("repetition_number"),
        error=cells.text("error") or None,
    )
    case.query, case.latency_ms = (
        _text_of(cells.take("input"), QUESTION),
        cells.number("latency_ms"),
    )
    answer, reference = cells.take("output"), cells.take("reference_output")
    case.answer = None if case.error or answer is None else _text_of(answer, ANSWER)
    case.reference_answer = None if reference is None else _text_of(reference, ANSWER)
    case.prompt_tokens, case.completion_tokens = (
        cells.whole("prompt_token_count"),
        cells.whole("completion_token_count"),
    )
    case.stored = [
        _annotation(Cells(Row(one, row.line), problems)) for one in cells.records("annotations")
    ] + _flat_annotations(cells, problems)
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


def _flat_annotations(cells: Cells, problems: Problems) -> list[Stored]:
    """The CSV's columns `annotation_<name>_score` and so on."""
    parts = ("score", "label", "explanation", "annotator_kind", "error")
    names = {
        name[len("annotation_") : -len(part) - 1]: None
        for name in cells.values
        for part in parts
        if name.startswith("annotation_") and name.endswith(f"_{part}")
    }
    found = []
    for name in names:
        one: dict[str, Any] = {
            "name": name,
            **{part: cells.take(f"annotation_{name}_{part}") for part in parts},
        }
        if any(one[part] is not None for part in ("score", "label", "error")):
            found.append(_annotation(Cells(Row(one, cells.line), problems)))
    return found
