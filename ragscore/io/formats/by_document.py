"""Rankings and judgements by document, as the writers of foreign formats need them.

Other tools know documents by one id, take each document once in a list, and have one grade for it.
Here hits and targets become such lists, or an error names the row that can't.
"""

import pandas as pd

from ragscore.frames.data import DataError, Golden, Results

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
    # One document may stand for several targets: the best grade is what finding it can earn.
    best = judged.groupby(["query_id", "doc"], sort=False)["grade"].transform("max")
    return judged.assign(grade=best).drop_duplicates(ignore_index=True)


def grades_by_query(golden: Golden, level: str) -> dict[str, dict[str, int]]:
    """Return {query: {document: grade}} of the queries that have targets of a level."""
    judged = graded_documents(golden, level).groupby("query_id", sort=False)
    return {
        str(one): dict(zip(rows["doc"], rows["grade"].tolist(), strict=True))
        for one, rows in judged
    }


def _ids(frame: pd.DataFrame, level: str, kind: str) -> pd.Series:
    if level not in ID_COLUMNS:
        allowed = f"one of {', '.join(ID_COLUMNS)}"
        raise DataError(f"found {level!r}", field="level", allowed=allowed)
    column = ID_COLUMNS[level]
    n_missing = int(frame[column].isna().sum()) if column in frame else len(frame)
    if n_missing:
        raise DataError(
            f"{n_missing} of {len(frame)} rows have no {column}",
            field=f"{kind}.{column}",
            allowed="an id in every row",
        )
    return frame[column] if column in frame else pd.Series([], index=frame.index, dtype="str")


def refuse_repeated_documents(hits: pd.DataFrame, column: str) -> None:
    """Raise a DataError if a list names a document twice."""
    is_repeated = hits.duplicated(["run_id", "query_id", column])
    if is_repeated.any():
        first = hits[is_repeated].iloc[0]
        raise DataError(
            f"{first[column]!r} is there twice for query {first['query_id']!r} of run"
            f" {first['run_id']!r} ({int(is_repeated.sum())} hits are like that)",
            field="hits",
            allowed=(
                "each document once in a list; rs.match.collapse_hits(results.hits) keeps the first"
                " hit of each"
            ),
        )


def refuse_spaces(columns: list[pd.Series], pattern: str = r"\s") -> None:
    """Raise a DataError for empty ids, and for ids that a separator would cut in two."""
    for column in columns:
        ids = column.astype("str").drop_duplicates()
        bad = ids[ids.str.contains(pattern, regex=True) | (ids == "")]
        if len(bad):
            raise DataError(
                f"{bad.iloc[0]!r}",
                field=str(column.name),
                allowed="ids without white space, which separates the format's columns",
            )


def scores_or_ranks(hits: pd.DataFrame) -> list[float]:
    """Return the score of each hit; without scores, the query's number of hits - rank + 1."""
    n_hits = hits.groupby(["run_id", "query_id"], observed=True, sort=False)["rank"]
    by_rank = n_hits.transform("size") - hits["rank"] + 1.0
    score = hits["score"] if "score" in hits else pd.Series(float("nan"), index=hits.index)
    share = score.notna().groupby(hits["run_id"], observed=True).transform("mean")
    partly = hits.loc[(share > 0) & (share < 1), "run_id"].unique().tolist()
    if partly:
        raise DataError(
            f"only some hits of {', '.join(map(str, partly))} have a score",
            field="hits.score",
            allowed="a score for all hits of a run, or for none",
        )
    return [float(value) for value in score.where(share == 1, by_rank)]
