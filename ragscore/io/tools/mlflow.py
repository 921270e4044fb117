"""MLflow's evaluation tables (`result_df` as CSV, Parquet or frame.

The older `eval_results_table.json`) -> cases.

Labels stand among the scores (`expected_response/value`), passages in the trace's RETRIEVER span. A
label of a row whose scorer failed may be missing in the file itself: MLflow 3.17 leaves it out
there.
"""

import json
import re
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.rows import Source, nested, table_rows
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import Case, Imported, Stored, imported
from ragscore.io.tools.cells import Cells, our_name, score_of, stored, with_roles

SCORE = re.compile(
    r"^(?P<name>.+?)(?:/v\d+)?/(?P<part>value|rationale|error_message|error_code|score|justification)$"
)
QUESTION = ("question", "query", "input", "user_input", "prompt", "request")
EXPECTED = ("expected_response", "expected_facts", "expected_retrieved_context", "guidelines")
IDS = {"chunk": ("chunk_id", "id"), "doc": ("doc_uri", "doc_id", "source")}


def fits(seen: Sample) -> bool:
    """Whether a table has MLflow's columns: scores as `<name>/value`, or requests and their state."""
    scored = any(SCORE.match(name) for name in seen.keys)
    return (
        (scored and not seen.keys & {"user_input"})
        or seen.has("trace_id", "request", "response")
        or seen.has("request_id", "inputs", "outputs")
    )


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """One case per row; a scorer's error is a judge that failed."""
    return imported(
        [_case(row, columns, problems) for row in table_rows(source, problems)], described, problems
    )


def _case(row: Row, columns: dict[str, str], problems: Problems) -> Case:
    cells = Cells(row, problems)
    case = Case(
        row.line,
        query=_question(cells.take("inputs", "request")),
        answer=_answer(cells.take("outputs", "response", "prediction")),
    )
    state = cells.text("state")
    spans = _spans(cells.mapping("trace"), cells.take("spans"))
    case.error = cells.text("error_message") or (
        _message(spans) if state in ("ERROR", "TraceState.ERROR") else None
    )
    case.answer = None if case.error else case.answer
    case.latency_ms = cells.number("execution_duration")
    if (seconds := cells.number("latency")) is not None:  # the older table's, in seconds
        case.latency_ms = seconds * 1000
    _expect(
        case,
        Cells(
            Row(cells.mapping("expectations") | _assessed(cells) | _expected(cells), row.line),
            problems,
        ),
    )
    case.reference_answer = case.reference_answer or cells.text("ground_truth", "targets", "target")
    case.hits = _retrieved(spans)
    case.stored = _stored(cells)
    case.extra = {
        name: value
        for name in ("trace_id", "request_id", "client_request_id")
        if (value := cells.text(name)) is not None
    }
    return with_roles(case, row, columns, problems)


def _question(value: Any) -> str | None:
    value = nested(value)
    if isinstance(value, dict):
        named = [text for name in QUESTION if (text := as_text(value.get(name)))]
        texts = [one for one in value.values() if isinstance(one, str) and one]
        return (
            named or texts or [json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)]
        )[0]
    return as_text(value)


def _answer(value: Any) -> str | None:
    parsed = nested(value)
    if isinstance(parsed, dict):
        texts = [
            text
            for name in ("response", "answer", "output", "content")
            if (text := as_text(parsed.get(name)))
        ]
        return texts[0] if texts else json.dumps(parsed, ensure_ascii=False, default=str)
    return (
        json.dumps(parsed, ensure_ascii=False, default=str)
        if isinstance(parsed, list)
        else as_text(parsed)
    )


def _expected(cells: Cells) -> dict[str, Any]:
    """The labels that stand among the scores."""
    return {name: value for name in EXPECTED if (value := cells.take(f"{name}/value")) is not None}


def _assessed(cells: Cells) -> dict[str, Any]:
    """The labels among the assessments: the only place of those that are lists of mappings."""
    found = {}
    for one in cells.records("assessments"):
        expectation = one.get("expectation")
        if isinstance(expectation, dict):
            serialized = expectation.get("serialized_value")
            value = (
                nested(serialized.get("value"))
                if isinstance(serialized, dict)
                else expectation.get("value")
            )
            found[str(one.get("assessment_name"))] = value
    return {name: value for name, value in found.items() if name in EXPECTED and value is not None}


def _expect(case: Case, expected: Cells) -> None:
    case.reference_answer = expected.text("expected_response")
    if facts := expected.texts("expected_facts"):
        case.checks["key_fact"] = facts
    for one in expected.records("expected_retrieved_context"):
        for level, names in IDS.items():
            if (found := _first(one, names)) is not None:
                case.gold_ids.setdefault(level, []).append(found)


def _spans(trace: dict[str, Any], spans: Any) -> list[dict[str, Any]]:
    data = trace.get("data")
    listed = (
        nested(spans)
        if spans is not None
        else data.get("spans")
        if isinstance(data, dict)
        else None
    )
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _message(spans: list[dict[str, Any]]) -> str:
    """What the root span says of its failure."""
    status = spans[0].get("status") if spans else None
    return (
        as_text(status.get("message")) if isinstance(status, dict) else None
    ) or "the trace's state is ERROR"


def _retrieved(spans: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """The passages of the last RETRIEVER span."""
    found = None
    for span in spans:
        attributes = span.get("attributes")
        if (
            isinstance(attributes, dict)
            and str(attributes.get("mlflow.spanType")).strip('"') == "RETRIEVER"
        ):
            documents = nested(attributes.get("mlflow.spanOutputs"))
            found = (
                [_hit(one) for one in documents if isinstance(one, dict)]
                if isinstance(documents, list)
                else found
            )
    return found


def _hit(document: dict[str, Any]) -> dict[str, Any]:
    metadata = document.get("metadata")
    about = {**document, **(metadata if isinstance(metadata, dict) else {})}
    hit = {
        "text": as_text(document.get("page_content")),
        "chunk_id": _first(about, IDS["chunk"]),
        "doc_id": _first(about, IDS["doc"]),
    }
    return {name: value for name, value in hit.items() if value is not None}


def _first(values: dict[str, Any], names: tuple[str, ...]) -> str | None:
    return next((text for name in names if (text := as_text(values.get(name)))), None)


def _stored(cells: Cells) -> list[Stored]:
    parts: dict[str, dict[str, Any]] = {}
    for name in list(cells.values):
        if found := SCORE.match(name):
            parts.setdefault(found["name"], {})[found["part"]] = cells.take(name)
    scores = []
    for name, part in parts.items():
        value = part.get("value") if part.get("value") is not None else part.get("score")
        error = part.get("error_message") or part.get("error_code")
        reason = as_text(part.get("rationale") or part.get("justification"))
        label = re.sub(r"^(precision|recall|ndcg)_at_(\d+)$", r"\1@\2", our_name(name, {}))
        if error is not None or value is not None:
            score = stored(
                label,
                value,
                same={},
                reason=reason,
                error=as_text(error),
                is_judged=reason is not None or score_of(value)[1] is not None,
            )
            scores.append(score)
    return scores
