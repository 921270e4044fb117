"""Runs and judgements as one JSON object <-> `Results` and `Golden`.

Runs are {query: {document: score}}, judgements {query: {document: grade}}: the files of ranx, BEIR
and pytrec_eval.
"""

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import excerpt
from ragscore.frames.ranking import rank_hits
from ragscore.io.columns import are_means
from ragscore.io.detect import Sample
from ragscore.io.files import check_one_run, write_text
from ragscore.io.formats.by_document import (
    grades_by_query,
    ranked_documents,
    refuse_repeated_documents,
    scores_or_ranks,
)
from ragscore.io.formats.fields import json_object, run_name
from ragscore.io.formats.qrels import HIGHEST, JUDGED, judged_once
from ragscore.io.formats.trec import HIT_DTYPES, results_of_lists
from ragscore.io.source import Problems, as_id, describe
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
    problems, run_id = Problems(path, strict), run_name(path)
    query_ids, rows = _values(path, "score", problems)
    places = {query_id: place for place, query_id in enumerate(query_ids)}
    if ties == "file":
        rows.sort(key=lambda row: (places[row[0]], -row[2]))
    hits = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]).assign(run_id=run_id)
    dtypes = {name: type for name, type in HIT_DTYPES.items() if name != "rank"}
    run = pd.Categorical([run_id] * len(query_ids), [run_id])  # a run without queries is one
    cells = pd.DataFrame({"run_id": run, "query_id": pd.Series(query_ids, dtype="str")})
    ranked = rank_hits(hits.astype(dtypes)[[*dtypes]], ties)
    return results_of_lists(cells, ranked, problems.frame(run_id))


def read_json_qrels(
    path: Path, strict: bool, absent_docs: str, catalogue: pd.DataFrame | None
) -> Golden:
    """Read judgements {query: {document: grade}}.

    A query's id stands for its text. Negative grades mean "not judged"; they are counted.
    """
    problems = Problems(path, strict)
    query_ids, rows = _values(path, "grade", problems)
    judged = judged_once(pd.DataFrame(rows, columns=JUDGED), problems, query_ids)
    return judged.golden(problems, absent_docs, catalogue, {})


def _values(
    path: Path, name: str, problems: Problems
) -> tuple[list[str], list[tuple[str, str, Any]]]:
    """Return the queries, and query, document and value of each; any other is a problem."""
    allowed = f"an object {{document: {name}}}"
    query_ids, rows = list[str](), list[tuple[str, str, Any]]()
    for query_id, values in json_object(path, f"one object {{query: {allowed[10:]}}}").items():
        if not (isinstance(values, dict) and as_id(query_id)):
            found = f"{excerpt(query_id)} has {describe(values)}"
            problems.add(found, field="query", allowed=allowed)
            continue
        query_ids.append(query_id)
        for doc_id, value in values.items():
            is_score = isinstance(value, float) and abs(value) < 2**1023 and name == "score"
            most = 2**1023 if name == "score" else HIGHEST + 1
            if as_id(doc_id) and (is_score or (is_int(value) and abs(value) < most)):
                rows.append((query_id, doc_id, value))
            else:
                found = f"{excerpt(doc_id)} of {excerpt(query_id)} has {describe(value)}"
                kind = "a number" if name == "score" else "a whole number"
                problems.add(found, field=name, allowed=f"{kind} for each document")
    return query_ids, rows


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
