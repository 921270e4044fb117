"""DeepEval's test run (`test_run_*.json`) -> cases: one run, one case per test case.

The file has a system's failure only if the system was traced, as the error of the root span.
"""

from typing import Any

from ragscore.frames.kinds import LABELS
from ragscore.io.records import Record, Stored
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row, as_text
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import (
    Cells,
    json_text,
    labels_in,
    mapped,
    stored,
)

SAME = {
    "faithfulness": "faithfulness",
    "contextual precision": "context_precision",
    "contextual recall": "context_recall",
}
"""Answer Relevancy isn't ours: a share of relevant statements there, a similarity of texts here."""


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per test case; conversations are left out and counted as a problem."""
    top = next(table_rows(source, problems), Row({}, 1))
    top = Row(top.values.get("testRunData") or top.values, top.line)  # as `.latest_test_run.json`
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
    _tell_ranges(cases)
    if conversations := cells.records("conversationalTestCases"):
        problems.add(
            f"{len(conversations)} conversations",
            field="conversationalTestCases",
            allowed="single queries; conversations are left out",
        )
    return imported(cases, described, problems)


def _tell_ranges(cases: list[Record]) -> None:
    """Give scores the range of DeepEval's metrics, 0 to 1, unless one of your own leaves it."""
    scores = [one for case in cases for one in case.stored if one.value is not None]
    others = {one.metric for one in scores if not 0 <= float(one.value or 0) <= 1}
    for one in (one for one in scores if one.metric not in others):
        one.lowest, one.highest = 0.0, 1.0


PATHS = {
    "query": "input", "query_id": "metadata.id|additionalMetadata.id", "answer": "actualOutput",
    "reference_answer": "expectedOutput", "gold_text": "context", "text": "retrievalContext",
    "latency_s": "completionTime", "cost_usd": "tokenCost", "tags": "tags",
}  # fmt: skip


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Record:
    cells, case = Cells(row, problems), mapped(row, PATHS, columns, problems)
    metadata = cells.mapping("metadata", "additionalMetadata")
    if (error := _failure(cells.mapping("trace"))) is not None:
        case.response |= {"error": error, "answer": None}
    case.labels = labels_in(metadata) | case.labels
    for metric in map(cells.of, cells.records("metricsData")):
        value, name = metric.pop("score"), metric.text("name") or "metric"
        judge = metric.text("evaluationModel")
        score = stored(
            name, value, same=SAME, judge=judge, is_judged=judge is not None,
            error=metric.text("error") if value is None else None,
            reason=metric.text("reason"), cost_usd=metric.number("evaluationCost"),
            threshold=metric.number("threshold"),
        )  # fmt: skip
        score.better = _direction(score, metric.flag("success"))
        case.stored.append(score)
    if (success := cells.flag("success")) is not None and case.stored:
        about: dict[str, Any] = {"better": "higher", "lowest": 0.0, "highest": 1.0}
        case.stored.append(stored("success", success, is_judged=False, **about))
    own = {name: cells.values.get(name) for name in ("name", "comments")}
    own["metadata"] = {name: one for name, one in metadata.items() if name not in ("id", *LABELS)}
    case.extra = {name: value for name, value in own.items() if value}
    return case


def _direction(score: Stored, is_success: bool | None) -> str | None:
    """Return which values are better, if a value that is not the threshold itself tells it."""
    if score.value is None or score.threshold is None or is_success is None:
        return None
    distance = score.value - score.threshold
    return None if not distance else "higher" if (distance > 0) == is_success else "lower"


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
