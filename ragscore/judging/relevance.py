"""Relevance by a judge: grades of hits that nobody labelled, apart from people's labels.

In: results with judgments of the criterion "relevance", and the golden set. Out: the grades, one
row per query and document or chunk; a golden set that has them, marked.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from ragscore.frames.codes import has_pair
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.kinds import FAILED

CRITERION = "relevance"
IDS = ("chunk_id", "doc_id")


def flag_labelled(hits: pd.DataFrame, golden: Golden) -> pd.Series:
    """Flag hits whose document or chunk the golden set labels for their query, as whatever."""
    is_labelled = np.zeros(len(hits), dtype=bool)
    for name in IDS:
        if name in hits and name in golden.targets:
            known = golden.targets.dropna(subset=[name])
            of_hits = hits[["query_id", name]].astype("str")
            is_labelled |= has_pair(of_hits, known, ("query_id", name)) & hits[name].notna()
    return pd.Series(is_labelled, index=hits.index)


def relevance_grades(results: Results) -> pd.DataFrame:
    """Return the grades that judges gave to hits.

    Returns
    -------
    One row per query and hit that was graded: query_id; chunk_id and doc_id, what of these the hits
    have; `grade`, 0 to 3, the median of all judges and repeats, rounded down; `n` verdicts; and
    `judged_by`, the judges.
    """
    columns = ["query_id", *IDS, "grade", "n", "judged_by"]
    judgments = results.judgments
    if judgments is None or not judgments["criterion"].eq(CRITERION).any():
        return pd.DataFrame({name: pd.Series(dtype="str") for name in columns})
    columns = ["run_id", "query_id", "item", "judge", "value"]
    rows = judgments.reindex(columns=[*columns, "criterion", "state"])
    is_failed = rows["state"].eq(FAILED).fillna(False).to_numpy(dtype=bool)
    rows = rows[rows["criterion"].eq(CRITERION) & ~is_failed & rows["value"].notna()]
    hits = results.hits.reindex(columns=["run_id", "query_id", "rank", *IDS])
    keyed = hits.astype(dict.fromkeys(("run_id", *IDS), "str"))
    keys = ["run_id", "query_id", "item"]
    named = [keyed.assign(item=keyed[name].astype("str")) for name in ("chunk_id", "rank")]
    known = pd.concat(named).dropna(subset=["item"]).drop_duplicates(keys)
    rows = rows.astype({"run_id": "str", "judge": "str"}).fillna({"judge": "judge"})
    found = rows.merge(known[[*keys, *IDS]], on=keys)
    unit = ["query_id", *(name for name in IDS if found[name].notna().any())]
    groups = found.groupby(unit, dropna=False, sort=False)
    graded = groups.agg(
        grade=("value", "median"), n=("value", "size"),
        judged_by=("judge", lambda names: ", ".join(sorted(set(names)))),
    ).reset_index()  # fmt: skip
    return graded.assign(grade=np.floor(graded["grade"]).astype("int32"))


def with_grades(golden: Golden, results: Results, relevant_from: int) -> Golden:
    """Return the golden set with the judge's grades beside people's labels; see `Judged.graded`.

    A hit that people labelled keeps their label. Targets of a judge say so in `judged_by`.

    Raises
    ------
    DataError
        No judge graded a hit, or the hits have no id of the golden set's level.
    """
    grades = relevance_grades(results)
    levels = set(golden.targets["level"].unique()) or {"chunk"}
    name = "chunk_id" if "chunk" in levels and "chunk_id" in grades else "doc_id"
    if not len(grades) or name not in grades or not grades[name].notna().any():
        raise DataError(
            "no judge graded a hit" if not len(grades) else f"the graded hits have no {name}",
            field="results.judgments",
            allowed="rs.judge(results, golden, 'relevance', endpoint)",
        )
    best = grades.dropna(subset=[name]).sort_values("grade", ascending=False, kind="stable")
    best = best.drop_duplicates(["query_id", name])
    best = best[~flag_labelled(best, golden).to_numpy()]
    best = best[best["query_id"].isin(golden.queries["query_id"])]
    added = best[["query_id", name, "grade", "judged_by"]].assign(
        level=name.removesuffix("_id"), target_id=best[name], alternative=0
    )
    targets = golden.targets
    if targets["grade"].max() <= 1:  # people say relevant or not, and so does the judge then
        added["grade"] = (added["grade"] >= relevant_from).astype("int32")
    if "gain" in targets:
        of_grade = targets.drop_duplicates("grade").set_index("grade")["gain"]
        added["gain"] = added["grade"].map(of_grade)
    kept = [one for one in added if one in (*targets, name, "judged_by")]
    both = pd.concat([targets, added[kept]]).astype({"judged_by": "str"})
    relevant = added.loc[added["grade"] > 0, "query_id"]
    queries = golden.queries
    is_new = queries["answerable"].isna() & queries["query_id"].isin(relevant)
    return replace(
        golden,
        queries=queries.assign(answerable=queries["answerable"].mask(is_new, True)),
        targets=both.reset_index(drop=True),
    )
