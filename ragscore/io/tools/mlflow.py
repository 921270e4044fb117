"""MLflow's evaluation tables -> cases.

`result_df` as CSV, Parquet or frame, and the older `eval_results_table.json`. Labels stand among
the scores (`expected_response/value`), passages in the trace's RETRIEVER span. If a row's scorer
failed, the file itself may lack its label: MLflow 3.17 leaves it out.
"""

import json
import re
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.records import Record, Stored
from ragscore.io.rows import nested
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import one_per_row
from ragscore.io.tools.cells import (
    Cells,
    our_name,
    query_of,
    score_of,
    stored,
    text_in,
    with_roles,
    without_missing,
)
from ragscore.io.traces import Trace, dicts_in, span_in

SCORE = re.compile(
    r"^(?P<name>.+?)(?:/v\d+)?/"
    r"(?P<part>value|rationale|error_message|error_code|score|justification)$"
)
ANSWER_KEYS = ("response", "answer", "output", "content")
EXPECTED = ("expected_response", "expected_facts", "expected_retrieved_context", "guidelines")
ID_KEYS = {"chunk": ("chunk_id", "id"), "doc": ("doc_uri", "doc_id", "source")}


def fits(seen: Sample) -> bool:
    """Return True for a table with scores `<name>/value`, or with requests and responses."""
    has_scores = any(SCORE.match(name) for name in seen.keys)
    return (
        (has_scores and not seen.keys & {"user_input"})
        or seen.has("trace_id", "request", "response")
        or seen.has("request_id", "inputs", "outputs")
    )


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Record:
    cells = Cells(row, problems)
    case = Record(row.line, response={"query": query_of(cells.pop("inputs", "request"))})
    answer = _answer(cells.pop("outputs", "response", "prediction"))
    has_failed = cells.text("state") in ("ERROR", "TraceState.ERROR")
    spans = _spans(cells.mapping("trace"), cells.pop("spans"))
    error = cells.text("error_message") or (_message(spans) if has_failed else None)
    elapsed, latency = cells.number("execution_duration"), cells.milliseconds("latency")
    case.response |= {
        "error": error,
        "answer": None if error else answer,
        "elapsed_ms": elapsed if latency is None else latency,  # the older table's
    }
    among_scores = without_missing({name: cells.pop(f"{name}/value") for name in EXPECTED})
    _expect(case, cells.of(cells.mapping("expectations") | _assessed(cells) | among_scores))
    case.reference_answer = case.reference_answer or cells.text("ground_truth", "targets", "target")
    trace = Trace("")
    for one in spans:  # those of a table may lack ids
        span = span_in({"trace_id": "-", "span_id": None} | one, row.line, problems, {})
        if span is not None:
            trace.add(span, None)
    case.calls = trace.calls()
    case.stored = _stored(cells)
    ids = ("trace_id", "request_id", "client_request_id")
    case.extra = without_missing({name: cells.text(name) for name in ids})
    return with_roles(case, row, columns, problems)


def _answer(value: Any) -> str | None:
    value = nested(value)
    if isinstance(value, dict) and (text := text_in(value, ANSWER_KEYS)):
        return text
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, default=str)
    return as_text(value)


def _assessed(cells: Cells) -> dict[str, Any]:
    """Return the labels among the assessments, where alone lists of mappings stand."""
    labels = {}
    for assessment in cells.records("assessments"):
        expectation = assessment.get("expectation")
        if isinstance(expectation, dict):
            value, serialized = expectation.get("value"), expectation.get("serialized_value")
            if isinstance(serialized, dict):
                value = nested(serialized.get("value"))
            labels[str(assessment.get("assessment_name"))] = value
    return without_missing({name: value for name, value in labels.items() if name in EXPECTED})


def _expect(case: Record, expected: Cells) -> None:
    case.reference_answer = expected.text("expected_response")
    if facts := expected.texts("expected_facts"):
        case.checks["key_fact"] = facts
    for passage in expected.records("expected_retrieved_context"):
        for level, names in ID_KEYS.items():
            if (found := text_in(passage, names)) is not None:
                case.gold_ids.setdefault(level, []).append(found)


def _spans(trace: dict[str, Any], spans: Any) -> list[dict[str, Any]]:
    """Return the spans of a trace, which the older table has in a column of their own."""
    data = trace.get("data")
    inside = data.get("spans") if isinstance(data, dict) else None
    return dicts_in(inside if spans is None else nested(spans))


def _message(spans: list[dict[str, Any]]) -> str:
    """Return the root span's message about its failure."""
    status = spans[0].get("status") if spans else None
    message = as_text(status.get("message")) if isinstance(status, dict) else None
    return message or "the trace's state is ERROR"


def _stored(cells: Cells) -> list[Stored]:
    """Return the scores, whose parts stand in columns `<name>/value`, `<name>/rationale`, ..."""
    parts: dict[str, dict[str, Any]] = {}
    for name in list(cells.values):
        if found := SCORE.match(name):
            parts.setdefault(found["name"], {})[found["part"]] = cells.pop(name)
    scores = []
    for name, part in parts.items():
        value = part.get("score") if part.get("value") is None else part["value"]
        error = part.get("error_message") or part.get("error_code")
        reason = as_text(part.get("rationale") or part.get("justification"))
        if error is None and value is None:
            continue
        metric = re.sub(r"^(precision|recall|ndcg)_at_(\d+)$", r"\1@\2", our_name(name, {}))
        is_judged = reason is not None or score_of(value)[1] is not None
        about = {"reason": reason, "error": as_text(error), "is_judged": is_judged}
        scores.append(stored(metric, value, same={}, **about))
    return scores


read = one_per_row(_case)
