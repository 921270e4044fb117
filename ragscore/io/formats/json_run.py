"""Runs and judgements as one JSON object {query: {document.

Score}}, as ranx, BEIR and pytrec_eval write them <-> `Results` and `Golden`.
"""

import json
import math
import re
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.ranking import rank_hits
from ragscore.io.detect import Sample
from ragscore.io.formats.trec import (
    grades_of,
    ids_of,
    left_of_golden,
    refuse_repeated_documents,
    scores_or_ranks,
)
from ragscore.io.output import check_one_run, warn_of_left_out, write_text
from ragscore.io.qrels import HIGHEST, Qrels
from ragscore.io.source import Problems, describe, parse_json, read_text
from ragscore.io.values import is_int

_TEXT, _NUMBER = r'"(?:[^"\\]|\\.)*"', r"-?\d"
_BEGIN = re.compile(rf"\s*\{{\s*{_TEXT}\s*:\s*\{{\s*(?:{_TEXT}\s*:\s*{_NUMBER}|\}})")


def is_json_run(seen: Sample) -> bool:
    """An object of objects of numbers, told from its beginning."""
    return seen.kind in ("json", "jsonl") and _BEGIN.match(seen.begin) is not None


def read_json_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """One run, named after its file.

    An object has no order: documents rank by score, equal ones in file order (or as `ties` says).
    """
    problems = Problems(path, strict)
    run_id = path.name.removesuffix(".gz").removesuffix(".json")
    asked, hits = [], []
    for query_id, scored in _whole(path).items():
        if not isinstance(scored, dict) or not query_id:
            problems.add(
                f"{query_id!r} has {describe(scored)}",
                field="query",
                allowed="an object {document: score}",
            )
            continue
        asked.append(query_id)
        hits += [
            (query_id, doc_id, score)
            for doc_id, score in scored.items()
            if _is_score(query_id, doc_id, score, problems)
        ]
    frame = pd.DataFrame(hits, columns=["query_id", "doc_id", "score"]).astype(
        {"query_id": "str", "doc_id": "str", "score": "float64"}
    )
    frame.insert(0, "run_id", pd.Series([run_id] * len(frame), dtype="str"))
    runs = pd.DataFrame(
        {"run_id": [run_id], "system": run_id, "n_queries": len(asked), "n_failed": 0}
    )
    none = pd.Series([None] * len(asked), dtype="str")
    responses = pd.DataFrame(
        {
            "run_id": pd.Series([run_id] * len(asked), dtype="str"),
            "query_id": pd.Series(asked, dtype="str"),
            "query": none,
            "error": none,
        }
    )
    return Results(
        runs=runs, responses=responses, hits=_ranked(frame, ties), problems=problems.frame(run_id)
    )


def _ranked(hits: pd.DataFrame, ties: str) -> pd.DataFrame:
    if ties == "trec":
        return rank_hits(hits, ties)
    order = hits.groupby("query_id", sort=False).ngroup()
    return rank_hits(
        hits.assign(order=order)
        .sort_values(["order", "score"], ascending=[True, False], kind="stable", ignore_index=True)
        .drop(columns="order")
    )


def read_json_qrels(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Judgements {query: {document: grade}}.

    The text of a question is its id; negative grades are not judged and counted.
    """
    problems, judged = Problems(path, strict), Qrels()
    for query_id, graded in _whole(path).items():
        if not isinstance(graded, dict) or not query_id:
            problems.add(
                f"{query_id!r} has {describe(graded)}",
                field="query",
                allowed="an object {document: grade}",
            )
            continue
        judged.queries[query_id] = {}
        for doc_id, grade in graded.items():
            if not (is_int(grade) and abs(grade) <= HIGHEST and doc_id):
                problems.add(
                    f"{doc_id!r} of {query_id!r} has {describe(grade)}",
                    field="grade",
                    allowed="a whole number for each document",
                )
            else:
                judged.add(query_id, doc_id, grade, 1, problems)
    return judged.golden(problems, absent_docs, catalogue)


def write_json_run(results: Results, path: str | Path, *, level: str = "doc") -> Path:
    """Write one run as a JSON object {query: {document: score}} (gzip if the file ends in .gz).

    Loading the file gives the same hits again; the run is then named after the file. Queries
    without hits have an empty object. A run that has no scores at all gets the number of its hits
    minus the rank, plus one.

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
        (`rs.collapse_hits` keeps the first); ranks that are not those of the scores: an object has
        no order, so that its reader ranks by score.
    """
    check_one_run(results)
    hits = results.hits.assign(doc=ids_of(results.hits, level, "hits")).sort_values(
        ["query_id", "rank"], kind="stable", ignore_index=True
    )
    refuse_repeated_documents(hits, "doc")
    scored = hits.assign(score=scores_or_ranks(hits))
    by_score = (
        scored.sort_values(["query_id", "score"], ascending=[True, False], kind="stable")
        .groupby("query_id", sort=False)
        .cumcount()
        + 1
    )
    if len(wrong := scored[by_score.sort_index() != scored["rank"]]):
        found = (
            f"{len(wrong)} hits have other ranks than their scores say, first"
            f" {wrong['doc'].iloc[0]!r} of query {wrong['query_id'].iloc[0]!r}"
        )
        raise DataError(
            found,
            field="hits.rank",
            allowed="1, 2, 3, ... as scores fall; rs.rank_hits(hits, ties='trec') ranks that way",
        )
    content: dict[str, dict[str, float]] = {
        query_id: {} for query_id in (*results.responses["query_id"], *scored["query_id"])
    }
    for query_id, doc, score in scored[["query_id", "doc", "score"]].itertuples(index=False):
        content[query_id][doc] = score
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def write_json_qrels(golden: Golden, path: str | Path, *, level: str = "doc") -> Path:
    """Write the targets of one level as a JSON object {query: {document.

    Grade}} (gzip if the file ends in .gz).

    Every question is written; the format has no place for their texts.

    Warns
    -----
    UserWarning
        Counts what else the format has no place for, as `rs.write_qrels_jsonl`, and texts of
        questions other than their ids.
    """
    grades = grades_of(golden, level)
    n_texts = int((golden.queries["query"] != golden.queries["query_id"]).sum())
    warn_of_left_out(path, {"texts of questions": n_texts, **left_of_golden(golden, level)})
    content = {query_id: grades.get(query_id, {}) for query_id in golden.queries["query_id"]}
    return write_text(path, json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def _whole(path: Path) -> dict[str, Any]:
    try:
        content = parse_json(read_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(
            f"not valid JSON ({error})", file=path, allowed="one object {query: {document: score}}"
        ) from error
    if not isinstance(content, dict):
        raise DataError(
            f"found {describe(content)}", file=path, allowed="one object {query: {document: score}}"
        )
    return content


def _is_score(query_id: str, doc_id: str, score: Any, problems: Problems) -> bool:
    is_number = (
        isinstance(score, (int, float))
        and not isinstance(score, bool)
        and abs(score) < 2**1023
        and not math.isnan(score)
    )
    if not (is_number and doc_id):
        problems.add(
            f"{doc_id!r} of {query_id!r} has {describe(score)}",
            field="score",
            allowed="a number for each document",
        )
    return is_number and bool(doc_id)
