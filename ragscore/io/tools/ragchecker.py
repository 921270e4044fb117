"""RAGChecker's inputs and outputs -> cases: one run, one case per result.

A file is {"results": [{query_id, query, gt_answer, response, retrieved_context}]}. Its outputs add
metrics, and verdicts of each passage on each claim, to each result; the means of the file (in per
cent there) stay with the run.
"""

from typing import Any

from ragscore.frames.errors import DataError
from ragscore.io.detect import Sample
from ragscore.io.records import Record
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row, as_text, describe
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import Cells, inner_hits, mapped, stored
from ragscore.io.values import flatten

PATHS = {
    "query_id": "query_id", "query": "query", "answer": "response", "reference_answer": "gt_answer",
}  # fmt: skip
KEYS = frozenset(("query_id", "query", "response", "retrieved_context"))
CLAIMS = {
    "faithfulness": ("response_claims", "retrieved2response"),
    "context_recall": ("gt_answer_claims", "retrieved2answer"),
}
"""A criterion -> the claims that it judges, and the verdicts of each passage on each claim.

Faithfulness judges the claims of the response, context recall (claim_recall there) those of the
reference answer.
"""
VERDICTS = ("Entailment", "Neutral", "Contradiction")


def fits(seen: Sample) -> bool:
    """Return True if a file's first result has the keys of RAGChecker's."""
    first = next(iter((seen.first or {}).get("results") or []), None)
    return isinstance(first, dict) and first.keys() >= KEYS


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per result."""
    top = dict(next(table_rows(source, problems), Row({}, 1)).values)
    results = top.pop("results", None)
    if not isinstance(results, list):
        allowed = "one JSON object with a list of results"
        raise DataError(
            f"found {describe(results)}", file=problems.file, field="results", allowed=allowed
        )
    listed = Cells(Row({"results": results}, 1), problems).records("results")
    cases = [_case(Row(one, n), problems, columns) for n, one in enumerate(listed, 1)]
    return imported(cases, described | flatten(top), problems)


def _case(row: Row, problems: Problems, columns: dict[str, str]) -> Record:
    case, cells = mapped(row, PATHS, columns, problems), Cells(row, problems)
    hits = inner_hits(cells.records("retrieved_context"), "doc_id", cells)
    case.hits = hits if case.hits is None else case.hits
    metrics = cells.mapping("metrics").items()
    case.stored += [stored(name, one, same={}, is_judged=False) for name, one in metrics]
    case.verdicts = _verdicts(row.values)
    case.extra = {name: one for name, one in cells.values.items() if name not in KEYS}
    return case


def _verdicts(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one judgment per claim that has a verdict of every passage.

    Claims and verdicts whose numbers differ give no judgments.
    """
    judgments: list[dict[str, Any]] = []
    for criterion, (claims, verdicts) in CLAIMS.items():
        texts: Any = values.get(claims)
        rows: Any = values.get(verdicts)
        is_whole = isinstance(texts, list) and isinstance(rows, list) and len(texts) == len(rows)
        if not is_whole or not all(isinstance(row, list) and {*row} <= {*VERDICTS} for row in rows):
            continue
        for place, (text, row) in enumerate(zip(texts, rows, strict=True)):
            is_entailed = "Entailment" in row
            claim = " ".join(map(str, text)) if isinstance(text, list) else as_text(text)
            verdict = "supported" if is_entailed else "unsupported"
            about = {"criterion": criterion, "item": str(place), "item_text": claim}
            found = {"value": float(is_entailed), "verdict": verdict, "state": "scored"}
            judgments.append(about | found)
    return judgments
