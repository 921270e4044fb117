"""What judges were given, on disk.

To judge the same answers again, by other models or prompts, without the run they came from.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.io.source import Problems, json_rows
from ragscore.io.written import write_lines
from ragscore.judging.cases import Case


def write_judge_inputs(cases: Iterable[Case], path: str | Path) -> Path:
    """One JSON object per response.

    Ids, question, answer, context with ranks, reference answer, key facts.
    """
    return write_lines(path, (_record(case) for case in cases))


def load_judge_inputs(path: str | Path) -> tuple[Results, Golden]:
    """Kept inputs as results and golden set, for `rs.judge`.

    `rs.judge(*rs.load_judge_inputs(path), judges, endpoint)`.

    Raises
    ------
    DataError
        A line that isn't such a record; a question that two responses hold differently.
    """
    problems = Problems(path, strict=True)
    records = []
    for row in json_rows(Path(path), problems):
        missing = [
            name
            for name in ("run_id", "query_id", "query", "context", "key_facts")
            if name not in row.values
        ]
        if missing:
            problems.add(
                f"the fields {missing} are missing",
                line=row.line,
                allowed="a record that keep_inputs= wrote",
            )
        records.append(row.values)
    return _results(records), _golden(records, path)


def _record(case: Case) -> dict[str, Any]:
    context = [
        {"rank": passage.rank, "item": passage.item, "text": passage.text}
        for passage in case.context
    ]
    return {
        "run_id": case.run_id, "query_id": case.query_id, "query": case.question,
        "answer": case.answer, "refused": case.refused, "failed": case.failed,
        "is_cut": case.is_cut, "n_textless": case.n_textless, "context": context,
        "reference_answer": case.reference, "key_facts": list(case.key_facts),
        "input_hash": case.input_hash,
    }  # fmt: skip


def _results(records: list[dict[str, Any]]) -> Results:
    cell = [{"run_id": one["run_id"], "query_id": one["query_id"]} for one in records]
    responses = [
        at
        | {
            "query": one["query"],
            "answer": one.get("answer"),
            "refused": one.get("refused"),
            "error": "failed" if one.get("failed") else None,
        }
        for at, one in zip(cell, records, strict=True)
    ]
    hits = [
        at | {"rank": hit["rank"],
        "chunk_id": None if hit["item"] == str(hit["rank"]) else hit["item"], "text": hit["text"],
        "text_cut": True if one.get("is_cut") else None}
        for at, one in zip(cell, records, strict=True)
        for hit in one["context"]
    ]  # fmt: skip
    # A hit whose text wasn't known keeps its place, so that what couldn't be judged still can't.
    hits += [
        at | {"rank": 10**6 + n}
        for at, one in zip(cell, records, strict=True)
        for n in range(one.get("n_textless", 0))
    ]
    runs = [{"run_id": run_id} for run_id in dict.fromkeys(one["run_id"] for one in records)]
    return Results(
        runs=from_records(runs, "runs"),
        responses=from_records(responses, "responses"),
        hits=from_records(hits, "hits"),
    )


def _golden(records: list[dict[str, Any]], path: str | Path) -> Golden:
    queries: dict[str, dict[str, Any]] = {}
    facts: dict[str, list[str]] = {}
    for one in records:
        query = {
            "query_id": one["query_id"],
            "query": one["query"],
            "reference_answer": one.get("reference_answer"),
        }
        if (
            queries.setdefault(one["query_id"], query) != query
            or facts.setdefault(one["query_id"], one["key_facts"]) != one["key_facts"]
        ):
            raise DataError(
                f"two responses to {one['query_id']!r} differ in question, reference answer or key"
                " facts",
                file=path,
                field="query_id",
            )
    rows = [query | {"answerable": None, "position": n} for n, query in enumerate(queries.values())]
    checks = [
        {"query_id": query_id, "kind": "key_fact", "text": text}
        for query_id, texts in facts.items()
        for text in texts
    ]
    return Golden(queries=from_records(rows, "queries"), checks=from_records(checks, "checks"))
