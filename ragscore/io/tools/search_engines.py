"""Search engines' own evaluations: OpenSearch's, Elasticsearch's rank_eval, and UBI.

OpenSearch's judgments and experiments name queries by their texts: ids are made of these. UBI
(User Behavior Insights) has queries and events; what users did is the score of a query.
"""

from collections import Counter
from typing import Any

from ragscore.io.detect import Sample
from ragscore.io.records import Record
from ragscore.io.rows import Source, table_rows
from ragscore.io.source import Problems, Row
from ragscore.io.tools.cases import Imported, imported
from ragscore.io.tools.cells import Cells, stored, without_missing

HIGHER: dict[str, Any] = {"better": "higher"}
HIGHEST_GRADE = 10  # whole ratings up to this are grades, others gains


def read_judgments(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read the ratings of each query, or queries without any."""
    cases = []
    for row in table_rows(source, problems):
        cells = Cells(row, problems)
        judged = map(cells.of, cells.records("judgmentRatings"))
        asked = map(cells.of, cells.records("querySetQueries"))
        for one in (*judged, *asked):
            case = Record(row.line, response={"query": one.text("query", "queryText")})
            case.gold_gains = _ratings(one, "docId", "rating")
            case.reference_answer = one.text("referenceAnswer")
            cases.append(case)
    return imported(_as_grades(cases), described | {"are_queries": True}, problems)


def _ratings(cells: Cells, name: str, rating: str) -> dict[str, float]:
    found = {}
    for one in map(cells.of, cells.records("ratings")):
        doc_id, value = one.identifier(name), one.number(rating)
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


def read_experiment(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per query and search configuration, with its documents and metrics."""
    cases = []
    for row in table_rows(source, problems):
        cells = Cells(row, problems)
        case = Record(row.line, run=cells.text("searchConfigurationId"))
        case.response["query"] = cells.text("searchText")
        ids = cells.ids("documentIds")
        case.hits = None if ids is None else [{"doc_id": one} for one in ids]
        case.stored = [
            stored(one.text("metric") or "metric", one.pop("value"), is_judged=False, **HIGHER)
            for one in map(cells.of, cells.records("metrics"))
        ]
        cases.append(case)
    return imported(cases, described, problems)


def fits_rank_eval(seen: Sample) -> bool:
    """Return True for a request or a response of Elasticsearch's rank_eval."""
    return seen.has("metric_score", "details") or seen.has("requests", "metric")


def read_rank_eval(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per request: its ratings and, of a response, its hits and its score."""
    top = next(table_rows(source, problems), Row({}, 1))
    cells = Cells(top, problems)
    cases = []
    for request in map(cells.of, cells.records("requests")):
        case = Record(top.line, request.identifier("id"))
        case.gold_gains = _ratings(request, "_id", "rating")
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
    case.stored = [stored(name, details.pop("metric_score"), is_judged=False, **HIGHER)]
    return case


def fits_ubi(seen: Sample) -> int:
    """Return a mark for UBI's queries or events, also under the lines of a bulk request."""
    first = (seen.first or {}).get("index")
    is_bulk = isinstance(first, dict) and str(first.get("_index", "")).startswith("ubi_")
    is_one = seen.has("user_query", "client_id") or seen.has("action_name", "client_id")
    return 3 * (is_bulk or is_one)


def read_ubi(
    source: Source, problems: Problems, described: dict[str, Any], columns: dict[str, str]
) -> Imported:
    """Read one case per query that was asked; the events of each action are its scores.

    A query has its hits if it was stored with them, else the documents of its impressions by their
    place. Events of queries that no document is about are left out, and counted.
    """
    asked: dict[str, Record] = {}
    events: dict[str, list[Cells]] = {}
    n_again = 0
    for row in table_rows(source, problems):
        cells = Cells(row, problems)
        query_id = cells.identifier("query_id")
        if "action_name" in cells.values:
            events.setdefault(query_id or "", []).append(cells)
        elif query_id is not None and query_id not in asked:
            asked[query_id] = _asked(Record(row.line, query_id), cells)
        elif query_id is not None:
            n_again += 1
    actions = dict.fromkeys(
        str(one.values["action_name"]) for query_id in asked for one in events.get(query_id, ())
    )
    for query_id, case in asked.items():
        own = events.pop(query_id, [])
        counts = Counter(str(one.values["action_name"]) for one in own)
        case.stored = [stored(name, counts[name], is_judged=False) for name in actions]
        if case.hits is None:
            case.hits = _seen(own)
    if n_again:
        problems.note(f"{n_again} queries stand there again with an id: each counts once")
    if n := sum(map(len, events.values())):
        problems.note(f"{n} events are left out: they name no query that stands there")
    return imported(list(asked.values()), described, problems)


def _asked(case: Record, cells: Cells) -> Record:
    case.response["query"] = cells.text("user_query")
    ids = cells.ids("query_response_hit_ids", "query_response_objects_ids")
    case.hits = None if ids is None else [{"doc_id": one} for one in ids]
    names = ("client_id", "session_id", "application", "timestamp")
    case.extra = without_missing({name: cells.pop(name) for name in names})
    return case


def _seen(events: list[Cells]) -> list[dict[str, Any]] | None:
    """Return the documents that users were shown, by their place; None where none is told."""
    places: dict[str, float] = {}
    for one in events:
        about = one.values.get("event_attributes")
        if one.values.get("action_name") != "impression" or not isinstance(about, dict):
            continue
        object_id = (about.get("object") or {}).get("object_id")
        place = (about.get("position") or {}).get("ordinal")
        if isinstance(object_id, str) and isinstance(place, (int, float)):
            places.setdefault(object_id, place)
    return [{"doc_id": one} for one in sorted(places, key=lambda one: places[one])] or None
