"""RAGChecker's files -> `Results`, and their queries and reference answers -> `Golden`.

A file is {"results": [{query_id, query, gt_answer, response, retrieved_context}]}. Its outputs add
a dict of metrics to each result; those become `reported` values under the same names. Claims and
verdicts are kept as `x_*` columns, and the mean metrics of the file (in per cent there) with the
run.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.io.detect import Sample
from ragscore.io.formats.fields import frames_of, run_name
from ragscore.io.rows import json_value
from ragscore.io.source import Problems, as_id, as_text
from ragscore.io.values import flatten, number

Readers = dict[str, tuple[str, Callable[[Any], str | None]]]
RESPONSE: Readers = {"query": ("query", as_text), "response": ("answer", as_text)}
HIT: Readers = {"doc_id": ("doc_id", as_id), "text": ("text", as_text)}
RESULT_KEYS = frozenset(("query_id", *RESPONSE, "retrieved_context"))
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
    results = (seen.first or {}).get("results")
    return (
        isinstance(results, list)
        and bool(results)
        and isinstance(results[0], dict)
        and results[0].keys() >= RESULT_KEYS
    )


def read_ragchecker(path: Path, strict: bool) -> Results:
    """Read one run, named after its file."""
    problems = Problems(path, strict)
    content = _content(path, problems)
    of_file = {name: value for name, value in content.items() if name != "results"}
    run = {"run_id": run_name(path)} | flatten(of_file)
    records: dict[str, list[dict[str, Any]]] = {
        "responses": [], "hits": [], "reported": [], "judgments": [],
    }  # fmt: skip
    for place, query_id, values in _results(content, problems):
        cell = {"run_id": run["run_id"], "query_id": query_id}
        metrics = values.get("metrics") or {}
        if metrics:  # an empty object stays a field of its own
            del values["metrics"]
        hits = _hits(values.pop("retrieved_context", None) or [], place, problems)
        records["hits"] += [cell | hit for hit in hits]
        records["judgments"] += [cell | judgment for judgment in _judgments(values)]
        response = cell | _columns(values, RESPONSE) | {"error": None} | flatten(values)
        records["responses"].append(response)
        if not isinstance(metrics, dict):
            problems.reject(metrics, None, f"{place}.metrics", "an object of numbers")
            continue
        for name, value in metrics.items():
            score = number(value, f"{place}.metrics.{name}", 1, problems)
            records["reported"].append(cell | {"metric": str(name), "value": score})
    run["n_queries"] = len(records["responses"])
    return Results(
        runs=from_records([run], "runs"),
        **frames_of(records, optional=("reported", "judgments")),
        problems=problems.frame(run["run_id"]),
    )


def read_ragchecker_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read the queries with their reference answers.

    There are no targets, so neither `absent_docs` nor a catalogue changes anything.
    """
    problems = Problems(path, strict)
    queries = []
    results = _results(_content(path, problems), problems)
    for position, (place, query_id, values) in enumerate(results):
        query, reference = as_text(values.get("query")), as_text(values.get("gt_answer"))
        if query is None:
            problems.reject(values.get("query"), None, f"{place}.query", "text")
            continue
        queries.append(
            {
                "query_id": query_id,
                "query": query,
                "answerable": True if reference else None,
                "position": position,
                "reference_answer": reference,
            }
        )
    return Golden(queries=from_records(queries, "queries"), problems=problems.frame())


def _content(path: Path, problems: Problems) -> dict[str, Any]:
    """Return the file's object; an empty one, and a problem, if there is none with results."""
    allowed = "one JSON object with a list of results"
    try:
        content = json_value(path, allowed)
    except DataError as error:
        problems.add(error.found, line=error.line, allowed=error.allowed)
        return {}
    if isinstance(content, dict) and isinstance(content.get("results"), list):
        return content
    problems.reject(content, None, "results", allowed)
    return {}


def _results(content: dict[str, Any], problems: Problems) -> list[tuple[str, str, dict[str, Any]]]:
    """Return each result's place in the file, its query id, and its other fields.

    A missing or repeated query id is a problem.
    """
    results: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for index, result in enumerate(content.get("results", [])):
        place = f"results[{index}]"
        query_id = as_id(result.get("query_id")) if isinstance(result, dict) else None
        if query_id is None:
            problems.reject(
                result, None, f"{place}.query_id", "an object with query_id, text or a whole number"
            )
        elif query_id in results:
            problems.add(
                f"'{query_id}' is that of {results[query_id][0]} already",
                field=f"{place}.query_id",
                allowed="one result per query",
            )
        else:
            values = {name: value for name, value in result.items() if name != "query_id"}
            results[query_id] = (place, query_id, values)
    return list(results.values())


def _columns(values: dict[str, Any], fields: Readers) -> dict[str, Any]:
    """Remove the known fields from an object and return them as columns; other types are null."""
    return {column: read(values.pop(name, None)) for name, (column, read) in fields.items()}


def _hits(retrieved: Any, place: str, problems: Problems) -> list[dict[str, Any]]:
    """Return the retrieved passages in their order; without a doc_id, a passage is only a text."""
    if not isinstance(retrieved, list) or not all(isinstance(one, dict) for one in retrieved):
        problems.reject(
            retrieved, None, f"{place}.retrieved_context", "a list of objects with doc_id and text"
        )
        return []
    passages = [dict(passage) for passage in retrieved]
    return [
        {"rank": rank} | _columns(passage, HIT) | flatten(passage)
        for rank, passage in enumerate(passages, 1)
    ]


def _judgments(values: dict[str, Any]) -> list[dict[str, Any]]:
    """One judgment per claim that has a verdict of every passage.

    Claims and verdicts whose numbers differ give no judgments.
    """
    judgments: list[dict[str, Any]] = []
    for criterion, (claims, verdicts) in CLAIMS.items():
        texts, rows = values.get(claims), values.get(verdicts)
        if not (
            isinstance(texts, list)
            and isinstance(rows, list)
            and len(texts) == len(rows)
            and all(isinstance(row, list) and all(one in VERDICTS for one in row) for row in rows)
        ):
            continue
        for place, (text, row) in enumerate(zip(texts, rows, strict=True)):
            is_entailed = "Entailment" in row
            claim = " ".join(map(str, text)) if isinstance(text, list) else as_text(text)
            judgments.append(
                {
                    "criterion": criterion,
                    "item": str(place),
                    "item_text": claim,
                    "value": float(is_entailed),
                    "verdict": "supported" if is_entailed else "unsupported",
                    "state": "scored",
                }
            )
    return judgments
