"""RAGChecker's files, `{"results".

[{query_id, query, gt_answer, response, retrieved_context}]}` <-> `Results`, and -> `Golden`.

Its outputs add a dict of metrics to each result: those become `reported` values, named as they are.
The claims and verdicts beside them are kept as `x_*` columns; whether any passage entails a claim
becomes a judgment of it (`faithfulness` for the response's claims, `context_recall`, there
claim_recall, for the reference's). The means of the whole file (in per cent there) are kept with
the run.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, from_records
from ragscore.io.detect import Sample
from ragscore.io.output import by_query, check_one_run, write_text
from ragscore.io.source import Problems, as_id, as_text, describe, parse_json, read_text
from ragscore.io.values import extra_fields, flatten, number, row_dicts, unflatten, unify_types

FIELDS = frozenset(("query_id", "query", "response", "retrieved_context"))
CLAIMS = {
    "faithfulness": ("response_claims", "retrieved2response"),
    "context_recall": ("gt_answer_claims", "retrieved2answer"),
}
"""A criterion -> the claims that it judges, and where each passage's verdicts on them stand."""
RESULT_KEYS = {"query_id", "query", "response", "retrieved_context"}


def fits(seen: Sample) -> bool:
    """Whether a file's first result looks like one of RAGChecker's."""
    results = (seen.first or {}).get("results")
    return (
        isinstance(results, list)
        and bool(results)
        and isinstance(results[0], dict)
        and results[0].keys() >= RESULT_KEYS
    )


def read_ragchecker(path: Path, strict: bool) -> Results:
    """One run, named after its file."""
    problems = Problems(path, strict)
    content = _content(path, problems)
    run = {
        "run_id": path.name.removesuffix(".gz").removesuffix(".json"),
        **flatten({name: value for name, value in content.items() if name != "results"}),
    }
    responses, hits, reported, judged = [], [], [], []
    for place, query_id, values in _results(content, problems):
        cell = {"run_id": run["run_id"], "query_id": query_id}
        metrics, retrieved = (
            values.get("metrics") or {},
            values.pop("retrieved_context", None) or [],
        )
        if metrics:  # an empty object stays a field of its own
            del values["metrics"]
        judged += [cell | one for one in _judgments(values)]
        responses.append(
            cell
            | {
                "query": as_text(values.pop("query", None)),
                "answer": as_text(values.pop("response", None)),
                "error": None,
            }
            | flatten(values)
        )
        hits += [cell | hit for hit in _hits(retrieved, place, problems)]
        if not isinstance(metrics, dict):
            problems.add(
                f"found {describe(metrics)}",
                field=f"{place}.metrics",
                allowed="an object of numbers",
            )
            continue
        read = {
            str(name): number(value, f"{place}.metrics.{name}", 1, problems)
            for name, value in metrics.items()
        }
        reported += [cell | {"metric": name, "value": value} for name, value in read.items()]
    frames = {
        "responses": from_records(unify_types(responses), "responses"),
        "hits": from_records(unify_types(hits), "hits"),
    }
    frames |= {
        name: from_records(records, name)
        for name, records in (("reported", reported), ("judgments", judged))
        if records
    }
    return Results(
        runs=from_records([run | {"n_queries": len(responses)}], "runs"),
        **frames,
        problems=problems.frame(run["run_id"]),
    )


def _judgments(values: dict[str, Any]) -> list[dict[str, Any]]:
    """One judgment per claim that has a verdict of every passage.

    Claims and verdicts that don't go together are left as they are.
    """
    found: list[dict[str, Any]] = []
    for criterion, (claims, verdicts) in CLAIMS.items():
        texts, rows = values.get(claims), values.get(verdicts)
        if (
            not isinstance(texts, list)
            or not isinstance(rows, list)
            or len(texts) != len(rows)
            or not all(map(_is_verdicts, rows))
        ):
            continue
        for place, (text, row) in enumerate(zip(texts, rows, strict=True)):
            is_entailed = "Entailment" in row
            claim = " ".join(map(str, text)) if isinstance(text, list) else as_text(text)
            about: dict[str, Any] = {"criterion": criterion, "item": str(place), "item_text": claim}
            found.append(
                about
                | {
                    "value": float(is_entailed),
                    "verdict": "supported" if is_entailed else "unsupported",
                    "state": "scored",
                }
            )
    return found


def _is_verdicts(row: Any) -> bool:
    return isinstance(row, list) and all(
        one in ("Entailment", "Neutral", "Contradiction") for one in row
    )


def read_ragchecker_golden(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """The questions with their reference answers.

    There are no targets, so that neither `absent_docs` nor a catalogue changes anything.
    """
    problems = Problems(path, strict)
    queries = []
    for position, (place, query_id, values) in enumerate(
        _results(_content(path, problems), problems)
    ):
        query = as_text(values.get("query"))
        if query is None:
            problems.add(
                f"found {describe(values.get('query'))}", field=f"{place}.query", allowed="text"
            )
            continue
        reference = as_text(values.get("gt_answer"))
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
    try:
        content = parse_json(read_text(path))
    except json.JSONDecodeError as error:
        problems.add(
            f"not valid JSON ({error.msg})",
            line=error.lineno,
            allowed="one JSON object with results",
        )
        return {}
    except (ValueError, RecursionError) as error:
        problems.add(f"not valid JSON ({error})", allowed="one JSON object with results")
        return {}
    if not isinstance(content, dict) or not isinstance(content.get("results"), list):
        problems.add(
            f"found {describe(content)}",
            field="results",
            allowed="one JSON object with a list of results",
        )
        return {}
    return content


def _results(content: dict[str, Any], problems: Problems) -> list[tuple[str, str, dict[str, Any]]]:
    """Each result with its place and its query id.

    One that has no id, or that of another, is a problem.
    """
    found: dict[str, tuple[str, str, dict[str, Any]]] = {}
    for index, result in enumerate(content.get("results", [])):
        place = f"results[{index}]"
        query_id = as_id(result.get("query_id")) if isinstance(result, dict) else None
        if query_id is None:
            problems.add(
                f"found {describe(result)}",
                field=f"{place}.query_id",
                allowed="an object with query_id, text or a whole number",
            )
        elif query_id in found:
            problems.add(
                f"'{query_id}' is that of {found[query_id][0]} already",
                field=f"{place}.query_id",
                allowed="one result per query",
            )
        else:
            found[query_id] = (
                place,
                query_id,
                {name: value for name, value in result.items() if name != "query_id"},
            )
    return list(found.values())


def _hits(retrieved: Any, place: str, problems: Problems) -> list[dict[str, Any]]:
    """The retrieved passages in their order; a passage without a doc_id has only its text."""
    if not isinstance(retrieved, list) or not all(isinstance(one, dict) for one in retrieved):
        problems.add(
            f"found {describe(retrieved)}",
            field=f"{place}.retrieved_context",
            allowed="a list of objects with doc_id and text",
        )
        return []
    hits = []
    for rank, one in enumerate(retrieved, 1):
        extra = {name: value for name, value in one.items() if name not in ("doc_id", "text")}
        hits.append(
            {
                "rank": rank,
                "doc_id": as_id(one.get("doc_id")),
                "text": as_text(one.get("text")),
                **flatten(extra),
            }
        )
    return hits


def write_ragchecker(results: Results, path: str | Path, golden: Golden | None = None) -> Path:
    """Write one run as RAGChecker's file (gzip if it ends in .gz).

    Its input, or its output where the run has reported values.

    A run that was loaded from such a file gives the same objects again, unknown fields included; a
    NaN is null.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    golden
        Gives questions their `gt_answer` (the reference answer), which RAGChecker needs, where the
        run came from elsewhere.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        No run or more than one; a hit without text, which is what RAGChecker judges; an `x_` column
        that bears a known field's name.
    """
    check_one_run(results)
    reported = results.reported if results.reported is not None else pd.DataFrame({"query_id": []})
    parts = {
        "hits": by_query(results.hits.sort_values("rank", kind="stable")),
        "reported": by_query(reported[reported["query_id"] != ""]),
    }
    truths = (
        {}
        if golden is None
        else {
            one["query_id"]: one["reference_answer"]
            for one in row_dicts(golden.queries)
            if "reference_answer" in one
        }
    )
    written = []
    for response in row_dicts(results.responses.drop(columns="run_id")):
        query_id = response["query_id"]
        truth = {"gt_answer": truths[query_id]} if query_id in truths else {}
        written.append(
            _result(
                response,
                truth,
                parts["hits"].get(query_id, []),
                parts["reported"].get(query_id, []),
            )
        )
    run = unflatten(
        {
            name: value
            for name, value in next(row_dicts(results.runs)).items()
            if name.startswith("x_")
        }
    )
    return write_text(
        path, json.dumps({"results": written} | run, ensure_ascii=False, indent=2) + "\n"
    )


def _result(
    response: dict[str, Any],
    truth: dict[str, str],
    hits: list[dict[str, Any]],
    reported: list[dict[str, Any]],
) -> dict[str, Any]:
    own = extra_fields(response, FIELDS, "responses")
    named = {
        name: response[column]
        for column, name in {"query": "query", "answer": "response"}.items()
        if column in response
    }
    contexts = [_context(hit) for hit in hits]
    metrics = {row["metric"]: row.get("value") for row in reported}
    return (
        {"query_id": response["query_id"]}
        | named
        | truth
        | {"retrieved_context": contexts}
        | own
        | ({"metrics": metrics} if metrics else {})
    )


def _context(hit: dict[str, Any]) -> dict[str, Any]:
    if "text" not in hit:
        raise DataError(
            f"the hit of rank {hit['rank']} has none",
            field="hits.text",
            allowed="the text of every hit: it is what is judged",
        )
    own = extra_fields(hit, frozenset(("doc_id", "text")), "hits")
    return {name: hit[name] for name in ("doc_id", "text") if name in hit} | own
