"""Runs as one JSON object {query: {document: score}}, as ranx, BEIR and pytrec_eval write them -> `Results`."""

import math
import re
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames import DataError, Results
from ragscore.load.detect import Sample
from ragscore.load.source import Problems, open_text, parsed, shown
from ragscore.ranks import rank_hits

_TEXT, _NUMBER = r'"(?:[^"\\]|\\.)*"', r"-?\d"
_BEGIN = re.compile(rf"\s*\{{\s*{_TEXT}\s*:\s*\{{\s*(?:{_TEXT}\s*:\s*{_NUMBER}|\}})")


def is_json_run(seen: Sample) -> bool:
    """An object of objects of numbers, told from its beginning."""
    return seen.kind in ("json", "jsonl") and _BEGIN.match(seen.begin) is not None


def read_json_run(path: Path, strict: bool, ties: str = "file") -> Results:
    """One run, named after its file. An object has no order: documents rank by score, equal ones in file order (or as `ties` says)."""
    problems = Problems(path, strict)
    run_id = path.name.removesuffix(".gz").removesuffix(".json")
    asked, hits = [], []
    for query_id, scored in _whole(path).items():
        if not isinstance(scored, dict) or not query_id:
            problems.add(f"{query_id!r} has {shown(scored)}", field="query", allowed="an object {document: score}")
            continue
        asked.append(query_id)
        hits += [(query_id, doc_id, score) for doc_id, score in scored.items() if _is_score(query_id, doc_id, score, problems)]
    frame = pd.DataFrame(hits, columns=["query_id", "doc_id", "score"]).astype({"query_id": "str", "doc_id": "str", "score": "float64"})
    frame.insert(0, "run_id", pd.Series([run_id] * len(frame), dtype="str"))
    runs = pd.DataFrame({"run_id": [run_id], "system": run_id, "n_queries": len(asked), "n_failed": 0})
    none = pd.Series([None] * len(asked), dtype="str")
    responses = pd.DataFrame({"run_id": pd.Series([run_id] * len(asked), dtype="str"), "query_id": pd.Series(asked, dtype="str"), "query": none, "error": none})
    return Results(runs=runs, responses=responses, hits=_ranked(frame, ties), problems=problems.frame(run_id))


def _ranked(hits: pd.DataFrame, ties: str) -> pd.DataFrame:
    if ties == "trec":
        return rank_hits(hits, ties)
    order = hits.groupby("query_id", sort=False).ngroup()
    return rank_hits(hits.assign(order=order).sort_values(["order", "score"], ascending=[True, False], kind="stable", ignore_index=True).drop(columns="order"))


def _whole(path: Path) -> dict[str, Any]:
    try:
        content = parsed(open_text(path))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"not valid JSON ({error})", file=path, allowed="one object {query: {document: score}}") from error
    if not isinstance(content, dict):
        raise DataError(f"found {shown(content)}", file=path, allowed="one object {query: {document: score}}")
    return content


def _is_score(query_id: str, doc_id: str, score: Any, problems: Problems) -> bool:
    is_number = isinstance(score, (int, float)) and not isinstance(score, bool) and abs(score) < 2**1023 and not math.isnan(score)
    if not (is_number and doc_id):
        problems.add(f"{doc_id!r} of {query_id!r} has {shown(score)}", field="score", allowed="a number for each document")
    return is_number and bool(doc_id)
