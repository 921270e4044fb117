"""Frames as other evaluation packages take them: ranx and ir_measures."""

import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.io.formats.by_document import (
    graded_documents,
    ranked_documents,
    refuse_repeated_documents,
)


def to_ranx(data: Results | Golden) -> dict[str, pd.DataFrame] | pd.DataFrame:
    """Return frames for `ranx.Run.from_df` and `ranx.Qrels.from_df`.

    Texts are Python objects, as ranx needs them.

    Parameters
    ----------
    data
        Results, or a golden set.

    Returns
    -------
    For results, {run_id: one row per hit: `q_id`, `doc_id`, `score`}. The score is the query's last
    rank minus the rank, plus one, so ranx ranks as the run does, ties included. For a golden set,
    one row per document target: `q_id`, `doc_id`, `score` (its grade).

    Raises
    ------
    DataError
        A hit without doc_id, or a document twice in one list.
    """
    names = {"query_id": "q_id", "relevance": "score"}
    if isinstance(data, Golden):
        return _qrels(data).rename(columns=names).astype({"q_id": object, "doc_id": object})
    return {
        run_id: run.rename(columns=names).astype({"q_id": object, "doc_id": object})
        for run_id, run in _runs(data).items()
    }


def to_ir_measures(
    results: Results, golden: Golden
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return frames for `ir_measures.calc_aggregate(measures, qrels, run)`.

    Returns
    -------
    qrels
        One row per document target: `query_id`, `doc_id`, `relevance`.
    runs
        {run_id: one row per hit: `query_id`, `doc_id`, `score`}; the score is the query's last
        rank minus the rank, plus one.

    Raises
    ------
    DataError
        A hit without doc_id, or a document twice in one list.
    """
    return _qrels(golden), _runs(results)


def _qrels(golden: Golden) -> pd.DataFrame:
    names = {"doc": "doc_id", "grade": "relevance"}
    # ranx takes whole numbers of 64 bits alone
    return graded_documents(golden, "doc").rename(columns=names).astype({"relevance": "int64"})


def _runs(results: Results) -> dict[str, pd.DataFrame]:
    hits = ranked_documents(results, "doc")
    refuse_repeated_documents(hits, "doc_id")
    last = hits.groupby(["run_id", "query_id"], observed=True)["rank"].transform("max")
    scored = hits.assign(score=(last - hits["rank"] + 1).astype("float64"))
    return {
        name: rows[["query_id", "doc_id", "score"]].reset_index(drop=True)
        for name in results.runs["run_id"].astype("str")
        for rows in [scored[scored["run_id"] == name]]
    }
