"""DeepEval's test run (`test_run_*.json`) -> cases: one run, one case per test case.

The file has a system's failure only if the system was traced, as the error of the root span.
"""

from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import Case, Imported, imported
from ragscore.io.tools.cells import (
    LABELS,
    Cells,
    hits_of,
    json_text,
    labels_in,
    stored,
    with_roles,
)

SAME = {
    "faithfulness": "faithfulness",
    "contextual precision": "context_precision",
    "contextual recall": "context_recall",
}
"""Answer Relevancy isn't ours: a share of relevant statements there, a similarity of texts here."""


def fits(seen: Sample) -> bool:
    """Return True for a test run."""
    return seen.has("testCases")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per test case; conversations are left out and counted as a problem."""
    top = next(table_rows(source, problems), Row({}, 1))
    cells = Cells(top, problems)
    described = dict(described)
    if isinstance(top.values.get("hyperparameters"), dict):
        described["config"] = json_text(top.values["hyperparameters"])
    if (identifier := cells.text("identifier")) is not None:
        described["system"] = identifier
    cases = [
        _case(Row(one, number), problems, columns)
        for number, one in enumerate(cells.records("testCases"), 1)
    ]
    if conversations := cells.records("conversationalTestCases"):
        problems.add(
            f"{len(conversations)} conversations",
            field="conversationalTestCases",
            allowed="single queries; conversations are left out",
        )
    return imported(cases, described, problems)


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Case:
    cells = Cells(row, problems)
    metadata = cells.part("metadata", "additionalMetadata")
    case = Case(row.line, query=cells.text("input"), query_id=metadata.identifier("id"))
    answer = cells.text("actualOutput")
    case.error = _failure(cells.mapping("trace"))
    case.answer = None if case.error else answer
    case.reference_answer = cells.text("expectedOutput")
    case.gold_texts = cells.texts("context") or []
    case.hits = hits_of(cells.texts("retrievalContext"))
    case.latency_ms = cells.milliseconds("completionTime")
    case.cost_usd = cells.number("tokenCost")
    case.tags = {"tag": tags} if (tags := cells.texts("tags")) else {}
    case.labels = labels_in(metadata.values)
    for name in LABELS:
        metadata.take(name)
    for metric in map(cells.of, cells.records("metricsData")):
        value, name = metric.take("score"), metric.text("name") or "metric"
        judge = metric.text("evaluationModel")
        score = stored(
            name, value, same=SAME, judge=judge, is_judged=judge is not None,
            error=metric.text("error") if value is None else None,
            reason=metric.text("reason"), cost_usd=metric.number("evaluationCost"),
        )  # fmt: skip
        case.stored.append(score)
    own = {name: cells.values.get(name) for name in ("name", "comments")}
    own["metadata"] = metadata.values
    case.extra = {name: value for name, value in own.items() if value}
    return with_roles(case, row, columns, problems)


def _failure(trace: dict[str, Any]) -> str | None:
    """Return the error of a trace's root span; None if it didn't fail.

    The trace itself may say SUCCESS although its root span failed.
    """
    for kind in ("base", "agent", "llm", "retriever", "tool"):
        spans = trace.get(f"{kind}Spans")
        for span in spans if isinstance(spans, list) else []:
            is_root = isinstance(span, dict) and span.get("parentUuid") is None
            if is_root and span.get("status") == "ERRORED":
                return as_text(span.get("error")) or "the trace's status is ERRORED"
    return None
