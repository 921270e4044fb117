"""Runs and judgements as one JSON object <-> `Results` and `Golden`.

Runs are {query: {document: score}}, judgements {query: {document: grade}}: the files of ranx, BEIR
and pytrec_eval.
"""

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.ranking import rank_hits
from ragscore.io.columns import are_means
from ragscore.io.detect import Sample
from ragscore.io.formats.by_document import (
    grades_by_query,
    ranked_documents,
    refuse_repeated_documents,
    scores_or_ranks,
)
from ragscore.io.formats.fields import json_object, run_name
from ragscore.io.left_out import keeping
from ragscore.io.output import check_one_run, write_text
from ragscore.io.qrels import HIGHEST, Qrels
from ragscore.io.source import Problems, describe
from ragscore.io.values import is_int

_TEXT, _NUMBER = r'"(?:[^"\\]|\\.)*"', r"-?\d"
_BEGIN = re.compile(rf"\s*\{{\s*{_TEXT}\s*:\s*\{{\s*(?:{_TEXT}\s*:\s*{_NUMBER}|\}})")


def is_json_run(seen: Sample) -> bool:
    """Return True if a file begins as an object of objects of numbers, which are no means."""
    whole = seen.first or {}
    is_flat = all(
        isinstance(one, dict) and not any(isinstance(inner, (dict, list)) for inner in one.values())
        for one in whole.values()
    )
    is_run = seen.kind in ("json", "jsonl") and is_flat and not are_means(whole)
    return is_run and _BEGIN.match(seen.begin) is not None


def read_json_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """Read one run, named after its file.

    An object has no order: documents rank by score, equal ones in file order (or as `ties` says).
    """
    problems = Problems(path, strict)
    run_id = run_name(path)
    query_ids: list[str] = []
    hits: list[tuple[str, str, str, float]] = []
    for query_id, scores in _objects(path, "score", problems):
        query_ids.append(query_id)
        hits += [
            (run_id, query_id, doc_id, float(score))
            for doc_id, score in scores.items()
            if _is_score(query_id, doc_id, score, problems)
        ]
    frame = pd.DataFrame(hits, columns=["run_id", "query_id", "doc_id", "score"]).astype(
        {"run_id": "str", "query_id": "str", "doc_id": "str", "score": "float64"}
    )
    if ties == "file":
        place = frame.groupby("query_id", sort=False).ngroup()
        frame = (
            frame.assign(place=place)
            .sort_values(["place", "score"], ascending=[True, False], kind="stable")
            .drop(columns="place")
            .reset_index(drop=True)
        )
    runs = pd.DataFrame(
        {"run_id": [run_id], "system": run_id, "n_queries": len(query_ids), "n_failed": 0}
    )
    columns = {"run_id": run_id, "query_id": query_ids, "query": None, "error": None}
    responses = pd.DataFrame(columns, index=range(len(query_ids)), dtype="str")
    return Results(
        runs=runs,
        responses=responses,
        hits=rank_hits(frame, ties),
        problems=problems.frame(run_id),
    )


def read_json_qrels(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read judgements {query: {document: grade}}.

    A query's id stands for its text. Negative grades mean "not judged"; they are counted.
    """
    problems, qrels = Problems(path, strict), Qrels()
    for query_id, grades in _objects(path, "grade", problems):
        qrels.queries[query_id] = {}
        for doc_id, grade in grades.items():
            if is_int(grade) and abs(grade) <= HIGHEST and doc_id:
                qrels.add(query_id, doc_id, grade, 1, problems)
            else:
                found = f"{doc_id!r} of {query_id!r} has {describe(grade)}"
                problems.add(found, field="grade", allowed="a whole number for each document")
    return qrels.golden(problems, absent_docs, catalogue)


def _objects(path: Path, value: str, problems: Problems) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each query and its object; any other value is a problem."""
    content = json_object(path, f"one object {{query: {{document: {value}}}}}")
    for query_id, values in content.items():
        if isinstance(values, dict) and query_id:
            yield query_id, values
        else:
            found = f"{query_id!r} has {describe(values)}"
            problems.add(found, field="query", allowed=f"an object {{document: {value}}}")


def _is_score(query_id: str, doc_id: str, score: Any, problems: Problems) -> bool:
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool)
    if is_number and abs(score) < 2**1023 and not math.isnan(score) and doc_id:
        return True
    found = f"{doc_id!r} of {query_id!r} has {describe(score)}"
    problems.add(found, field="score", allowed="a number for each document")
    return False


@keeping("responses.query_id", "hits.score", "hits.rank")
def write_json_run(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write one run as a JSON object {query: {document: score}} (gzip if the file ends in .gz).

    Loading the file gives the same hits again, in a run named after the file. Queries without hits
    have an empty object. If a run has no scores at all, each hit gets the number of the query's
    hits minus its rank, plus one.

    Parameters
    ----------
    results
        Exactly one run (see `Results.select`).
    level
        "doc" writes doc_id, "chunk" chunk_id.

    Returns
    -------
    The file's path.

    Raises
    ------
    DataError
        No run or more than one; an id that is missing; a document twice in one list
        (`rs.match.collapse_hits` keeps the first); ranks that are not those of the scores. An
        object has no order, so its reader ranks by score.
    """
    check_one_run(results)
    hits = ranked_documents(results, level)
    refuse_repeated_documents(hits, "doc")
    scored = hits.assign(score=scores_or_ranks(hits))
    by_score = scored.sort_values(
        ["query_id", "score"], ascending=[True, False], kind="stable"
    ).groupby("query_id", sort=False)
    wrong = scored[by_score.cumcount().sort_index() + 1 != scored["rank"]]
    if len(wrong):
        raise DataError(
            f"{len(wrong)} hits have other ranks than their scores say, first"
            f" {wrong['doc'].iloc[0]!r} of query {wrong['query_id'].iloc[0]!r}",
            field="hits.rank",
            allowed="1, 2, 3, ... as scores fall; rs.match.rank_hits(hits, ties='trec') ranks so",
        )
    content: dict[str, dict[str, float]] = {
        query_id: {} for query_id in (*results.responses["query_id"], *scored["query_id"])
    }
    for query_id, doc, score in scored[["query_id", "doc", "score"]].itertuples(index=False):
        content[query_id][doc] = score
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


@keeping("queries.query_id", "targets.grade")
def write_json_qrels(golden: Golden, path: str | Path, *, level: str = "doc") -> Path:
    """Write the targets of one level as a JSON object {query: {document: grade}}.

    The file is gzip if it ends in .gz. Every query is written, but not its text: the format has no
    place for it.

    Warns
    -----
    UserWarning
        Counts what else the format has no place for, as format qrels_jsonl does, and query texts
        that differ from the query's id.
    """
    grades = grades_by_query(golden, level)
    content = {query_id: grades.get(query_id, {}) for query_id in golden.queries["query_id"]}
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
