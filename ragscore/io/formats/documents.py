"""Rankings and judgements by document, as other tools take them: in files and in frames.

Other tools know documents by one id, take each document once in a list, and have one grade for it.
Here hits and targets become such lists, or an error names the row that can't. ranx, ir_measures and
RAGAS take frames.
"""

import csv
from pathlib import Path

import pandas as pd

from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import check_choice
from ragscore.frames.kinds import refuse_rows
from ragscore.io.files import write_text
from ragscore.io.tables import CELL

ID_COLUMNS = {"doc": "doc_id", "chunk": "chunk_id"}


def ranked_documents(results: Results, level: str) -> pd.DataFrame:
    """Return the hits by run, query and rank, with the level's id as column `doc`."""
    return results.hits.assign(doc=_ids(results.hits, level, "hits")).sort_values(
        ["run_id", "query_id", "rank"], kind="stable", ignore_index=True
    )


def graded_documents(golden: Golden, level: str) -> pd.DataFrame:
    """Return query_id, doc and grade of every target of a level, in file order."""
    targets = golden.targets[golden.targets["level"] == level]
    judged = targets.assign(doc=_ids(targets, level, "targets"))[["query_id", "doc", "grade"]]
    # One document may be several targets: the best grade is what finding it can earn.
    best = judged.groupby(["query_id", "doc"], sort=False)["grade"].transform("max")
    return judged.assign(grade=best).drop_duplicates(ignore_index=True)


def _ids(frame: pd.DataFrame, level: str, kind: str) -> pd.Series:
    check_choice(level, ID_COLUMNS, "level")
    column = frame.reindex(columns=[ID_COLUMNS[level]]).iloc[:, 0]
    refuse_rows(column, column.isna().to_numpy(), kind, "an id in every row")
    return column.astype("str")


def refuse_repeated_documents(hits: pd.DataFrame, column: str) -> None:
    """Raise a DataError if a list names a document twice."""
    is_repeated = hits.duplicated(["run_id", "query_id", column]).to_numpy()
    allowed = "each document once in a list; rs.match.collapse_hits(results.hits) keeps the first"
    refuse_rows(hits[column], is_repeated, "hits", allowed)


def write_fields(
    path: str | Path, frame: pd.DataFrame, delimiter: str = " ", header: str = ""
) -> Path:
    """Write rows as lines of fields; refuse ids that are empty or would be cut in two."""
    cuts = r"\s" if delimiter == " " else r"[\t\r\n]"
    for name in [one for one in frame if one in ("query_id", "doc", "run_id")]:
        ids = frame[name].astype("str")
        is_bad = ids.str.contains(cuts) | (ids == "")
        refuse_rows(ids, is_bad.to_numpy(), "file", "ids without the sign between the fields")
    lines = frame.to_csv(
        sep=delimiter, header=False, index=False, quoting=csv.QUOTE_NONE, lineterminator="\n"
    )
    return write_text(path, header + lines)


def scores_or_ranks(hits: pd.DataFrame) -> pd.Series:
    """Return the score of each hit; without scores, the query's number of hits - rank + 1."""
    n_hits = hits.groupby(["run_id", "query_id"], observed=True, sort=False)["rank"]
    by_rank = n_hits.transform("size") - hits["rank"] + 1.0
    score = hits.reindex(columns=["score"])["score"].astype("float64")
    has_some = score.notna().groupby(hits["run_id"], observed=True).transform("any")
    is_lacking = has_some & score.isna()
    refuse_rows(score, is_lacking.to_numpy(), "hits", "a score for all hits of a run, or for none")
    return score.fillna(by_rank)


# Frames of ranx, ir_measures and RAGAS


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


def to_ragas(results: Results, golden: Golden | None = None) -> pd.DataFrame:
    """Return runs and labels as the rows that RAGAS evaluates.

    `EvaluationDataset.from_pandas(...)` or `.from_list(df.to_dict("records"))` takes them.

    Returns
    -------
    One row per response, in the order of `results.responses`: run_id and query_id first (drop them
    for RAGAS), then user_input, response, retrieved_contexts and retrieved_context_ids (lists by
    rank; the chunk id, else the document's), and with a golden set reference and
    reference_context_ids (chunk ids of grade ≥ 1, else documents'). None = not known. Columns
    without any known value are left out. A failed query has no response.
    """
    hits = results.hits.sort_values("rank", kind="stable")
    rows = results.responses.reindex(columns=["run_id", "query_id", "query", "answer"])
    rows = rows.rename(columns={"query": "user_input", "answer": "response"})
    parts = {"retrieved_contexts": _lists(hits, CELL, "text")}
    parts["retrieved_context_ids"] = _lists(hits, CELL, "chunk_id", "doc_id")
    if golden is not None:
        targets = golden.targets[golden.targets["grade"] > 0]
        once = targets.drop_duplicates(
            ["query_id", *targets.columns.intersection(["chunk_id", "doc_id"])]
        )
        queries = golden.queries.set_index("query_id")
        parts["reference"] = queries.reindex(columns=["reference_answer"]).iloc[:, 0]
        parts["reference_context_ids"] = _lists(once, CELL[1:], "chunk_id", "doc_id")
    for name, found in parts.items():
        rows = rows.join(found.rename(name), on=[*map(str, found.index.names)])
    plain = rows.astype(object).where(rows.notna(), None)
    return plain.dropna(axis="columns", how="all")


def _lists(frame: pd.DataFrame, keys: list[str], *names: str) -> pd.Series:
    """Return the values of each list, from the first of these columns that has some in it."""
    lists = pd.Series(dtype=object, index=frame[keys].head(0).set_index(keys).index)
    for name in [one for one in names if one in frame]:
        known = frame.dropna(subset=[name]).astype(dict.fromkeys(keys, "str"))
        found = known.groupby(keys, sort=False)[name].agg(list)
        lists = lists.combine_first(found)
    return lists
