"""`Results` -> the JSON lines of `load/retrievers.py`.

The way back, so that load and write round-trip.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from ragscore.frames.data import DataError, Results, records_of
from ragscore.io.formats.predicates import numbered, query_key
from ragscore.io.values import unflatten
from ragscore.io.written import write_lines

OUTCOME = ("n_hits", "rank_first_match", "passed", "kind")


def write_retrievers(results: Results, path: str | Path) -> Path:
    """Write runs as records with hits, one line per retriever and question, in the order of the responses.

    Loading the file gives the same frames again, fields of your own and values that the file had
    reported included. A line names its `query_id` only where that isn't the question's text.

    Returns
    -------
    The file's path; its folder is created.
    """
    hits = _grouped(results.hits)
    meta = _grouped(results.hit_meta) if results.hit_meta is not None else {}
    return write_lines(
        path,
        (
            line | {"hits": _hits_of(cell, hits, meta)} | outcome
            for cell, line, outcome in _lines(results, _reported(results))
        ),
    )


def write_retriever_summary(
    results: Results, path: str | Path, rows: pd.DataFrame | None = None
) -> Path:
    """Write what came of each question (n_hits, rank_first_match, passed, kind), without hits.

    Parameters
    ----------
    rows
        The outcomes, from `rs.predicate_rows`; by default those that the runs' file reported
        itself.

    Returns
    -------
    The file's path; its folder is created.

    Raises
    ------
    DataError
        No rows are given and nothing is reported: the runs come from another kind of file.
    """
    if rows is None and results.reported is None:
        raise DataError(
            "nothing is reported",
            field="results.reported",
            allowed="runs loaded from summary records, or rows=rs.predicate_rows(...)",
        )
    outcomes = (
        _reported(results)
        if rows is None
        else {
            (one["run_id"], one["query_id"]): one
            for one in records_of(rows.astype({"run_id": "str"}))
        }
    )
    return write_lines(
        path,
        (
            line | {"rank_first_match": None} | outcome
            for _, line, outcome in _lines(results, outcomes)
        ),
    )


def _reported(results: Results) -> dict[tuple[str, str], dict[str, Any]]:
    """What the file said of each response."""
    found = {
        cell: {one["metric"]: one["value"] for one in rows}
        for cell, rows in (
            _grouped(results.reported) if results.reported is not None else {}
        ).items()
    }
    if "x_kind" in results.responses:
        for run_id, query_id, kind in (
            results.responses[["run_id", "query_id", "x_kind"]].dropna().itertuples(index=False)
        ):
            found.setdefault((str(run_id), query_id), {})["kind"] = kind
    return found


def _lines(
    results: Results, outcomes: dict[tuple[str, str], dict[str, Any]]
) -> Iterator[tuple[tuple[str, str], dict[str, Any], dict[str, Any]]]:
    """Run and query of each response, its line without hits, and what came of it."""
    ks = (
        dict(zip(results.runs["run_id"].astype("str"), results.runs["k"], strict=True))
        if "k" in results.runs
        else {}
    )
    seen: dict[str, dict[str, int]] = {}
    for response in records_of(results.responses.astype({"run_id": "str"})):
        run_id, query_id, query = response["run_id"], response["query_id"], response["query"]
        if query is None:
            raise DataError(
                f"response {query_id!r} of {run_id} has no query text",
                field="responses.query",
                allowed="text",
            )
        line: dict[str, Any] = {"query": query}
        if numbered(query_key(query), seen.setdefault(run_id, {})) != query_id:
            line["query_id"] = query_id
        line["retriever"] = run_id
        if not pd.isna(k := ks.get(run_id)):
            line["k"] = int(k)
        line |= {
            name: response[name]
            for name in ("elapsed_ms", "error")
            if response.get(name) is not None
        }
        line |= unflatten(
            {
                name: value
                for name, value in response.items()
                if name.startswith("x_") and name != "x_kind" and value is not None
            }
        )
        yield (run_id, query_id), line, _outcome(outcomes.get((run_id, query_id), {}))


def _outcome(values: dict[str, Any]) -> dict[str, Any]:
    """The known values as JSON has them: whole numbers, true or false, text.

    An outcome says so where nothing matched: rank_first_match null.
    """
    types = {"n_hits": int, "rank_first_match": int, "passed": bool, "kind": str}
    known = {name: types[name](values[name]) for name in OUTCOME if not pd.isna(values.get(name))}
    return {
        name: known.get(name)
        for name in OUTCOME
        if name in known or (name == "rank_first_match" and known.keys() & {"n_hits", "passed"})
    }


def _hits_of(
    cell: tuple[str, str],
    hits: dict[tuple[str, str], list[dict[str, Any]]],
    meta: dict[tuple[str, str], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    by_rank: dict[int, dict[str, Any]] = {}
    for one in meta.get(cell, []):
        by_rank.setdefault(one["rank"], {})[one["key"]] = json.loads(one["value"])
    return [_hit(hit, by_rank.get(hit["rank"], {})) for hit in hits.get(cell, [])]


def _hit(hit: dict[str, Any], metadata: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"rank": int(hit["rank"])}
    found |= {
        name: hit[column]
        for name, column in (("id", "chunk_id"), ("document", "text"))
        if hit.get(column) is not None
    }
    return (
        found
        | {"metadata": metadata}
        | unflatten(
            {
                name: value
                for name, value in hit.items()
                if name.startswith("x_") and value is not None
            }
        )
    )


def _grouped(frame: pd.DataFrame) -> dict[tuple[str, str], list[dict[str, Any]]]:
    rows: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records_of(frame.astype({"run_id": "str"})):
        rows.setdefault((row["run_id"], row["query_id"]), []).append(row)
    return rows
