"""Relevance by a judge: grades of hits that nobody labelled, apart from people's labels.

In: results with judgments of the criterion "relevance", and the golden set. Out: the grades, one
row per query and document or chunk; a golden set that has them, marked; the agreement of several
labellings of the same pairs.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import has_pair
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import name_list
from ragscore.scoring.metrics.judged import FAILED
from ragscore.stats import cohen_kappa, krippendorff_alpha, mean_interval, weighted_kappa

CRITERION = "relevance"
_IDS = ("chunk_id", "doc_id")


def flag_labelled(hits: pd.DataFrame, golden: Golden) -> pd.Series:
    """Flag hits whose document or chunk the golden set labels for their query, as whatever."""
    is_labelled = np.zeros(len(hits), dtype=bool)
    for name in _IDS:
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
    columns = ["query_id", *_IDS, "grade", "n", "judged_by"]
    judgments = results.judgments
    if judgments is None or not judgments["criterion"].eq(CRITERION).any():
        return pd.DataFrame({name: pd.Series(dtype="str") for name in columns})
    rows = judgments[judgments["criterion"].eq(CRITERION).to_numpy()]
    state = rows.get("state", pd.Series(pd.NA, index=rows.index, dtype="str"))
    rows = rows[state.ne(FAILED).fillna(True).to_numpy(dtype=bool) & rows["value"].notna()]
    hits = results.hits.reindex(columns=["run_id", "query_id", "rank", *_IDS])
    keyed = hits.astype(dict.fromkeys(("run_id", *_IDS), "str"))
    keyed = keyed.assign(item=keyed["chunk_id"].fillna(keyed["rank"].astype("str")))
    by_rank = keyed.assign(item=keyed["rank"].astype("str"))
    keys = ["run_id", "query_id", "item"]
    known = pd.concat([keyed, by_rank]).drop_duplicates(keys)
    judge = rows.get("judge", pd.Series(pd.NA, index=rows.index, dtype="str")).fillna("judge")
    found = rows.assign(run_id=rows["run_id"].astype("str"), judge=judge).merge(
        known[[*keys, *_IDS]], on=keys, how="inner"
    )
    unit = ["query_id", *(name for name in _IDS if found[name].notna().any())]
    groups = found.groupby(unit, dropna=False, sort=False)
    graded = groups.agg(
        grade=("value", "median"), n=("value", "size"),
        judged_by=("judge", lambda names: ", ".join(sorted(set(names)))),
    ).reset_index()  # fmt: skip
    return graded.assign(grade=np.floor(graded["grade"]).astype("int32"))


def with_grades(golden: Golden, results: Results, relevant_from: int = 2) -> Golden:
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
    if "judged_by" not in targets:
        targets = targets.assign(judged_by=pd.Series(pd.NA, index=targets.index, dtype="str"))
    if "gain" in targets:
        of_grade = targets.drop_duplicates("grade").set_index("grade")["gain"]
        added["gain"] = added["grade"].map(of_grade)
    both = pd.concat([targets, added[[one for one in added if one in (*targets, name)]]])
    relevant = added.loc[added["grade"] > 0, "query_id"]
    queries = golden.queries
    is_new = queries["answerable"].isna() & queries["query_id"].isin(relevant)
    return replace(
        golden,
        queries=queries.assign(answerable=queries["answerable"].mask(is_new, True)),
        targets=both.reset_index(drop=True),
    )


def label_agreement(
    labels: Mapping[str, Golden | pd.DataFrame], *, min_grade: int = 1
) -> pd.DataFrame:
    """Measure how well several labellings of the same pairs agree: people, judges, a jury.

    Parameters
    ----------
    labels
        Name -> a golden set, or a frame with query_id, doc_id or chunk_id, and grade.
    min_grade
        The lowest grade that is relevant.

    Returns
    -------
    One row per two labellings `a` and `b`, and one for all (`b` NA) if there are more than two:
    `n` pairs that both (or two of all) graded, in `n_queries`; `exact`, the share with the same
    grade, and `relevant`, the share that both or neither call relevant, each with its 95 % interval
    `_low`, `_high` (0 to 1, higher is better); `kappa` (Cohen's, relevant or not), `weighted_kappa`
    (quadratic weights) and `alpha` (Krippendorff's, ordinal), at most 1, with intervals that take
    queries as independent. Of all: `exact` and `relevant` are those of all at once.

    Raises
    ------
    DataError
        Fewer than two labellings, or no pair in common.

    Examples
    --------
    >>> rs.judging.label_agreement({"people": golden, "judge": judged.graded()})
    """
    check_type(labels, Mapping, "labels", "name -> a golden set, or a frame of grades")
    wide = pd.concat([_grades(one, name) for name, one in labels.items()], axis=1)
    if len(labels) < 2 or not (wide.notna().sum(axis=1) > 1).any():
        raise DataError(
            f"found {name_list(labels)} without a common pair" if len(labels) > 1 else "found one",
            field="labels",
            allowed="at least two labellings of the same queries and documents",
        )
    rows = [
        _row(wide[[a, b]].dropna(), a, b, min_grade)
        for a, b in combinations(map(str, wide.columns), 2)
    ]
    if len(wide.columns) > 2:
        rows.append(_row(wide[wide.notna().sum(axis=1) > 1], "all", None, min_grade))
    return pd.DataFrame(rows).astype({"a": "str", "b": "str"})


def _grades(labels: Golden | pd.DataFrame, name: str) -> pd.Series:
    """Return grades by query and id."""
    check_type(labels, (Golden, pd.DataFrame), f"labels[{name!r}]", "a golden set, or a frame")
    frame = labels.targets if isinstance(labels, Golden) else labels
    ids = [one for one in _IDS if one in frame and frame[one].notna().any()]
    if not ids or "grade" not in frame:
        raise DataError(
            f"columns {name_list(frame.columns)}", field=f"labels[{name!r}]",
            allowed="query_id, grade, and doc_id or chunk_id",
        )  # fmt: skip
    rows = frame.dropna(subset=[ids[0]])
    best = rows.groupby([rows["query_id"].astype("str"), rows[ids[0]].astype("str")])["grade"].max()
    return best.rename_axis(["query_id", "id"]).rename(name).astype("float64")


def _row(wide: pd.DataFrame, a: str, b: str | None, min_grade: int) -> dict[str, Any]:
    groups = pd.factorize(wide.index.get_level_values("query_id"))[0]
    values = wide.to_numpy("float64")
    lowest, highest = np.nanmin(values, axis=1), np.nanmax(values, axis=1)
    row: dict[str, Any] = {
        "a": a,
        "b": b,
        "n": len(wide),
        "n_queries": int(groups.max(initial=-1)) + 1,
    }
    for name, same in (
        ("exact", lowest == highest),
        ("relevant", (lowest >= min_grade) == (highest >= min_grade)),
    ):
        low, high = mean_interval(same.astype("float64"), "binary", groups=groups)
        row |= {
            name: float(same.mean()),
            f"{name}_low": float(low[0]),
            f"{name}_high": float(high[0]),
        }
    found = {}
    if b is not None:
        found = {
            "kappa": cohen_kappa(*(values >= min_grade).T, groups=groups),
            "weighted_kappa": weighted_kappa(*values.T, groups=groups),
        }
    found["alpha"] = krippendorff_alpha(values, "ordinal", groups=groups)
    for name, one in found.items():
        row |= {name: one.value, f"{name}_low": one.low, f"{name}_high": one.high}
    return row
