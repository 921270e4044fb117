"""Paraphrase groups: whether a system finds the same documents however the question is put.

In: `Results` and a golden set whose questions carry `group` (and `variant`, the kind of paraphrase). Out: one row per
paraphrase, per group, per run. A group's members expect the same documents, so whatever differs is the wording.
"""

import warnings

import numpy as np
import pandas as pd

from ragscore.frames import DataError, Golden, Results, check_inputs
from ragscore.score import score

NARROW, POOL = 10, 50  # what a reader sees, and what a reranker could still reach
CLASSES = ("Ok", "MisRanked", "Missing", "NoExpected")


def paraphrases(results: Results, golden: Golden, *, narrow: int = NARROW, pool: int = POOL) -> pd.DataFrame:
    """Recall of every paraphrase near the top and in the whole candidate pool.

    Parameters
    ----------
    narrow, pool
        Cut-offs: what counts as found, and how deep a document still counts as retrieved but ranked too low.

    Returns
    -------
    One row per run and paraphrase that the run was asked: run_id, group, variant, query_id, `recall_narrow` and
    `recall_pool` (share of expected documents at rank ≤ narrow / pool, 0 to 1; NaN where none is expected),
    `answer_ok` (as the metric answer_checks), `diagnosis`: Ok (all found), MisRanked (some only in the pool),
    Missing (some not even there), NoExpected.

    Raises
    ------
    DataError
        A run says that it retrieved fewer than `pool` hits a query, or `narrow` is not below `pool`.

    Warns
    -----
    UserWarning
        No run of the frame has a hit at rank `pool`: the pool may have been cut short, and Missing may be MisRanked.
    """
    check_inputs(results, golden)
    if not 1 <= narrow <= pool:
        raise DataError(f"narrow is {narrow}, pool is {pool}", field="narrow", allowed="1 ≤ narrow ≤ pool")
    if "k" in results.runs and (results.runs["k"] < pool).any():
        shallow = results.runs.loc[(results.runs["k"] < pool).fillna(False), ["run_id", "k"]]
        named = ", ".join(f"{run_id} (k = {k})" for run_id, k in shallow.itertuples(index=False))
        raise DataError(f"{named} retrieved fewer than {pool} hits a query", field="pool", allowed="runs with k of at least the pool, or a smaller pool")
    labels = [f"recall@{narrow}:doc", f"recall@{pool}:doc", "answer_checks_all"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # queries that a run lacks are left out here, and that is visible
        scores = score(results, golden, list(dict.fromkeys(labels)))
    asked = scores[scores["state"].isin(["scored", "failed"])].reset_index()
    about = golden.queries.reindex(columns=["query_id", "group", "variant"]).dropna(subset=["group"])
    rows = about.merge(asked, on="query_id", how="inner")
    near, deep = rows[labels[0]].to_numpy(), rows[labels[1]].to_numpy()
    diagnosis = np.select([np.isnan(near), near >= 1, deep > near], ["NoExpected", "Ok", "MisRanked"], "Missing")
    _warn_if_shallow(results, pool)
    return pd.DataFrame({
        "run_id": rows["run_id"], "group": rows["group"], "variant": rows["variant"], "query_id": rows["query_id"], "recall_narrow": near, "recall_pool": deep,
        "answer_ok": rows["answer_checks_all"], "diagnosis": pd.Categorical(diagnosis, categories=list(CLASSES)),
    }).sort_values(["run_id", "group"], kind="stable", ignore_index=True)  # fmt: skip


def paraphrase_groups(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per run and group, from `paraphrases`.

    Returns
    -------
    `n` paraphrases; `recall_spread`, the largest minus the smallest recall_narrow (0 where none is measurable);
    `worst_recall` (NaN where none is); `answer_consistency`, 1 if every checked answer is right, 0 if not, NaN without
    checked answers; `n_misranked`, `n_missing`; `dominant`, which of the two explains the group: "ranking" (at least
    as many misranked as missing), "retrieval" (more missing), "" (neither).
    """
    grouped = rows.groupby(["run_id", "group"], observed=True, sort=True)
    recall = grouped["recall_narrow"]
    table = pd.DataFrame({
        "n": grouped.size(), "recall_spread": (recall.max() - recall.min()).fillna(0.0), "worst_recall": recall.min(),
        "answer_consistency": grouped["answer_ok"].min(),
        "n_misranked": grouped["diagnosis"].agg(lambda found: int((found == "MisRanked").sum())).astype("int64"),
        "n_missing": grouped["diagnosis"].agg(lambda found: int((found == "Missing").sum())).astype("int64"),
    })  # fmt: skip
    by_ranking = (table["n_misranked"] > 0) & (table["n_misranked"] >= table["n_missing"])
    by_retrieval = table["n_missing"] > table["n_misranked"]
    return table.assign(dominant=np.select([by_ranking, by_retrieval], ["ranking", "retrieval"], "")).reset_index()


def paraphrase_summary(groups: pd.DataFrame) -> pd.DataFrame:
    """One row per run, from `paraphrase_groups`.

    Returns
    -------
    `n_groups`; `mean_recall_spread` over all groups; `n_consistent` groups (spread 0, worst recall 1) and their
    `share_consistent`; `share_answers_consistent` of the groups with checked answers; `n_ranking` and `n_retrieval`,
    groups that misranked or missing documents explain.
    """
    whole = groups.assign(consistent=(groups["recall_spread"] == 0) & (groups["worst_recall"] == 1))
    by_run = whole.groupby("run_id", observed=True)
    return pd.DataFrame({
        "n_groups": by_run.size(), "mean_recall_spread": by_run["recall_spread"].mean(), "n_consistent": by_run["consistent"].sum(),
        "share_consistent": by_run["consistent"].mean(), "share_answers_consistent": by_run["answer_consistency"].mean(),
        "n_ranking": by_run["dominant"].agg(lambda found: int((found == "ranking").sum())).astype("int64"),
        "n_retrieval": by_run["dominant"].agg(lambda found: int((found == "retrieval").sum())).astype("int64"),
    })  # fmt: skip


def _warn_if_shallow(results: Results, pool: int) -> None:
    """Warn of runs that have hits, but none at the pool's depth."""
    deepest = results.hits.groupby("run_id", observed=True)["rank"].max()
    shallow = [str(run_id) for run_id, rank in deepest.items() if rank < pool]
    if shallow:
        text = f"the candidate pool of {', '.join(shallow)} may be cut short: no hit at rank {pool}; Missing may be MisRanked further down"
        warnings.warn(text, UserWarning, stacklevel=3)
