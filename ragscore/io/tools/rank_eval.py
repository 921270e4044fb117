"""Requests and responses of Elasticsearch's rank_eval -> cases."""

from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.records import Record
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import Cells, stored, without_missing

HIGHEST_GRADE = 10  # whole ratings up to this are grades, others gains


def _ratings(cells: Cells) -> dict[str, float]:
    found = {}
    for one in map(cells.of, cells.records("ratings")):
        doc_id, value = one.identifier("_id"), one.number("rating")
        if doc_id is not None and value is not None:
            found[doc_id] = value
    return found


def _as_grades(cases: list[Record]) -> list[Record]:
    """Return cases whose ratings are grades, where all are small whole numbers; else gains."""
    ratings = {value for case in cases for value in case.gold_gains.values()}
    if all(value % 1 == 0 and 0 <= value <= HIGHEST_GRADE for value in ratings):
        for case in cases:
            case.gold_gains = {one: int(value) for one, value in case.gold_gains.items()}
    return cases


def fits(seen: Sample) -> bool:
    """Return True for a request or a response of Elasticsearch's rank_eval."""
    return seen.has("metric_score", "details") or seen.has("requests", "metric")


def read(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per request: its ratings and, of a response, its hits and its score."""
    top = next(table_rows(source, problems), Row({}, 1))
    cells = Cells(top, problems)
    cases = []
    for request in map(cells.of, cells.records("requests")):
        case = Record(top.line, request.identifier("id"))
        case.gold_gains = _ratings(request)
        cases.append(case)
    for query_id, details in cells.mapping("details").items():
        cases.append(_answered(Record(top.line, query_id), cells.of(details)))
    for query_id, failure in cells.mapping("failures").items():
        reason = failure.get("reason") if isinstance(failure, dict) else None
        case = Record(top.line, query_id, response={"error": str(reason or failure)})
        cases.append(case)
    return imported(_as_grades(cases), described, problems)


def _answered(case: Record, details: Cells) -> Record:
    case.hits = []
    for one in map(details.of, details.records("hits")):
        hit = one.part("hit")
        found = {"doc_id": hit.identifier("_id"), "score": hit.number("_score")}
        case.hits.append(without_missing(found))
        if (rating := one.number("rating")) is not None and found["doc_id"] is not None:
            case.gold_gains[str(found["doc_id"])] = rating
    name = next(iter(details.mapping("metric_details")), "metric_score")
    case.stored = [stored(name, details.pop("metric_score"), is_judged=False, better="higher")]
    return case
