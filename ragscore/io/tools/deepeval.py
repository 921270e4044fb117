"""DeepEval's test run (`test_run_*.json`) -> cases: one run, one case per test case.

Only a traced system's failure is in the file: as the error of its trace's root span.
"""

import json
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import Case, Imported, imported
from ragscore.io.tools.cells import Cells, hits_of, stored, with_roles

SAME = {
    "faithfulness": "faithfulness",
    "contextual precision": "context_precision",
    "contextual recall": "context_recall",
}
"""Not Answer Relevancy: relevant statements / statements there, a similarity of questions in RAGAS."""


def fits(seen: Sample) -> bool:
    """Whether it is a test run."""
    return seen.has("testCases")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """One case per test case; conversational ones are counted as problems."""
    top = next(table_rows(source, problems), Row({}, 1))
    cells = Cells(top, problems)
    described = dict(described)
    if isinstance(top.values.get("hyperparameters"), dict):
        described["config"] = json.dumps(
            top.values["hyperparameters"], ensure_ascii=False, sort_keys=True
        )
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
            allowed="single questions; conversations are left out",
        )
    return imported(cases, described, problems)


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Case:
    cells = Cells(row, problems)
    metadata = cells.mapping("metadata", "additionalMetadata")
    about = Cells(Row(metadata, row.line), problems)
    case = Case(
        row.line,
        query=cells.text("input"),
        query_id=about.identifier("id"),
        answer=cells.text("actualOutput"),
    )
    case.error = _failure(cells.mapping("trace"))
    case.answer = None if case.error else case.answer
    case.reference_answer, case.gold_texts = (
        cells.text("expectedOutput"),
        cells.texts("context") or [],
    )
    case.hits = hits_of(cells.texts("retrievalContext"), None, None, [])
    seconds = cells.number("completionTime")
    case.latency_ms, case.cost_usd = (
        (None if seconds is None else seconds * 1000),
        cells.number("tokenCost"),
    )
    case.tags = {"tag": tags} if (tags := cells.texts("tags")) else {}
    case.labels = {
        name: value
        for name in ("difficulty", "category", "lang")
        if isinstance(value := about.take(name), str)
    }
    for one in cells.records("metricsData"):
        metric = Cells(Row(one, row.line), problems)
        value, name = metric.take("score"), metric.text("name") or "metric"
        error = metric.text("error") if value is None else None
        judge, cost = metric.text("evaluationModel"), metric.number("evaluationCost")
        case.stored.append(
            stored(
                name,
                value,
                same=SAME,
                reason=metric.text("reason"),
                error=error,
                judge=judge,
                cost_usd=cost,
                is_judged=judge is not None,
            )
        )
    case.extra = {
        name: value
        for name, value in {
            "name": cells.values.get("name"),
            "comments": cells.values.get("comments"),
            "metadata": about.values,
        }.items()
        if value
    }
    return with_roles(case, row, columns, problems)


def _failure(trace: dict[str, Any]) -> str | None:
    """What the root span of a trace says of its failure.

    The trace itself may say SUCCESS all the same.
    """
    for spans in (
        trace.get(f"{kind}Spans") for kind in ("base", "agent", "llm", "retriever", "tool")
    ):
        for span in spans if isinstance(spans, list) else []:
            if (
                isinstance(span, dict)
                and span.get("status") == "ERRORED"
                and span.get("parentUuid") is None
            ):
                return as_text(span.get("error")) or "the trace's status is ERRORED"
    return None
