"""`passed`: one 0/1 value across kinds of queries, what it means for a query is its kind.

In: ranking and refusal columns of a scoring. Out: the column `passed`.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, has_pair, is_among
from ragscore.frames.data import Golden, Results
from ragscore.scoring.matching import RANKLESS, at_level

NO_LIMIT = 2**31 - 1  # no list is longer: ranks have 32 bits


def hit_at_run_k(results: Results) -> pd.Series:
    """Per run (index run_id) the metric that says whether a hit within the run's own k is right.

    A run without a k has no limit.
    """
    ks = results.runs["k"].tolist() if "k" in results.runs else [pd.NA] * len(results.runs)
    labels = [f"hit@{NO_LIMIT if pd.isna(k) else int(k)}" for k in ks]
    return pd.Series(labels, index=results.runs["run_id"].cat.categories, dtype="str")


def passed_of(
    results: Results,
    golden: Golden,
    rows: pd.DataFrame,
    ranking: dict[str, npt.NDArray[np.float64]],
    refusal_correct: npt.NDArray[np.float64],
    keep_refusals: bool,
) -> npt.NDArray[np.float64]:
    """One 0/1 value across kinds of queries; what it means for a query is its kind."""
    run = codes_of(rows["run_id"])
    wanted = hit_at_run_k(results).reindex(rows["run_id"].cat.categories.astype("str")).tolist()
    met = np.full(len(rows), np.nan)
    for label in dict.fromkeys(wanted):
        met = np.where(np.array([one == label for one in wanted])[run], ranking[label], met)
    checks = golden.checks
    none = np.zeros(len(rows), dtype=bool)
    expects_none, forbids = (
        (
            is_among(rows["query_id"], checks["query_id"][is_among(checks["kind"], [kind])])
            if len(checks)
            else none
        )
        for kind in RANKLESS
    )
    kinds = [expects_none, forbids, ~np.isnan(refusal_correct)]
    passed = np.select(
        kinds,
        [
            rows["n_hits"].to_numpy() == 0,
            ~_has_forbidden_source(results, golden, rows),
            refusal_correct,
        ],
        met,
    )
    lost = rows["failed"].to_numpy() | (
        codes_of(rows["state"]) == rows["state"].cat.categories.get_loc("missing")
    )
    # What failed has not passed, also where its hits can't be judged.
    return (
        np.where(
            lost & (~np.isnan(passed) | _has_targets(golden, rows, keep_refusals)), 0.0, passed
        )
        if lost.any()
        else passed
    )


def _has_targets(golden: Golden, rows: pd.DataFrame, keep_refusals: bool) -> npt.NDArray[np.bool_]:
    """Whether each row's query has a relevant target at the level that it is judged at."""
    found, level = np.zeros(len(rows), dtype=bool), codes_of(rows["level"])
    for code in np.unique(level[level >= 0]).tolist():
        targets = at_level(golden, rows["level"].cat.categories[code], keep_refusals).targets
        found |= (level == code) & is_among(
            rows["query_id"], targets["query_id"][targets["grade"].to_numpy() > 0]
        )
    return found


def _has_forbidden_source(
    results: Results, golden: Golden, rows: pd.DataFrame
) -> npt.NDArray[np.bool_]:
    """Whether the source key of a hit within its run's k holds a forbidden token (case-insensitive substring)."""
    if "source_key" not in results.hits or not len(golden.checks):
        return np.zeros(len(rows), dtype=bool)
    tokens = golden.checks.loc[
        golden.checks["kind"] == "forbidden_source_key", ["query_id", "text"]
    ]
    if not len(tokens):
        return np.zeros(len(rows), dtype=bool)
    run_k = pd.Series(
        results.runs["k"].to_numpy("float64", na_value=np.inf) if "k" in results.runs else np.inf,
        index=results.runs["run_id"].astype("str"),
    )
    hits = results.hits.loc[
        is_among(results.hits["query_id"], tokens["query_id"]),
        ["run_id", "query_id", "rank", "source_key"],
    ].dropna()
    pairs = hits[
        hits["rank"].to_numpy() <= run_k.reindex(hits["run_id"].astype("str")).to_numpy()
    ].merge(tokens, on="query_id")
    # Substring search has no column form in pandas where both sides vary by row.
    holds = [
        token.lower() in key.lower()
        for key, token in zip(pairs["source_key"], pairs["text"], strict=True)
    ]
    return has_pair(rows, pairs.loc[holds], ("run_id", "query_id"))
