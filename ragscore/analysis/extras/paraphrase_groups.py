"""Paraphrase groups: how far the documents found depend on the wording of a query.

In: an evaluation whose golden queries carry `group` (and `variant`, the kind of paraphrase). Out:
`Paraphrases`: one row per paraphrase, per group, per kind, per run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError
from ragscore.frames.errors import plural, unsaid, warn
from ragscore.scoring.score import score
from ragscore.scoring.summary import NO_VALUE

NARROW, POOL = 10, 50  # what a reader sees, and what a reranker could still reach
CLASSES = ("Ok", "MisRanked", "Missing", "NoExpected")


@dataclass(frozen=True, repr=False, eq=False)
class Paraphrases(FramesResult):
    """How far the documents found depend on the wording of a query.

    A group's members expect the same documents, so whatever differs is due to the wording.

    Attributes
    ----------
    summary
        One row per run: `n_groups`; `mean_recall_spread` over all groups; `n_consistent` groups
        (spread 0, worst recall 1) and their `share_consistent`; `share_answers_consistent` of the
        groups with checked answers; `n_ranking` and `n_retrieval`, groups that misranked or missing
        documents explain; `pool_cut_short`: Missing may be MisRanked further down.
    kinds
        One row per run and kind of paraphrase ("(none)" where there is none): `n` paraphrases;
        `recall_narrow` and `recall_pool`, means (0 to 1); `recall_lost`, by how much recall_narrow
        is below the best of its group, on average (0 to 1, lower is better); `n_ok`, `n_misranked`,
        `n_missing`, `n_no_expected`; `answer_ok`, mean; NaN where nothing is measured.
    groups
        One row per run and group: `n` paraphrases; `recall_spread`, the largest minus the smallest
        recall_narrow (0 where none is measurable); `worst_recall` (NaN where none is);
        `answer_consistency`, 1 if every checked answer is right, 0 if not, NaN without checked
        answers; `n_misranked`, `n_missing`; `dominant`, the cause that explains the group:
        "ranking" (at least as many misranked as missing), "retrieval" (more missing), "" (neither);
        `pool_cut_short` of the run.
    per_query
        One row per run and paraphrase that the run was asked: run_id, group, variant, query_id,
        query, `recall_narrow` and `recall_pool` (share of expected documents at rank ≤ narrow /
        pool, 0 to 1; NaN where none is expected), `answer_ok` (as the metric answer_checks),
        `diagnosis`: Ok (all found), MisRanked (some only in the pool), Missing (some not even
        there), NoExpected; `pool_cut_short`: the run has hits but none as deep as `pool`.
    narrow, pool
        The two cut-offs.
    """

    summary: pd.DataFrame
    kinds: pd.DataFrame
    groups: pd.DataFrame
    per_query: pd.DataFrame
    narrow: int
    pool: int

    def _heading(self) -> str:
        n = plural(self.per_query["query_id"].nunique(), "paraphrase")
        groups = plural(self.per_query["group"].nunique(), "group")
        return f"{n} in {groups}; found at rank ≤ {self.narrow}, in the pool at rank ≤ {self.pool}"

    def _shown(self) -> pd.DataFrame:
        table = self.summary.round(3)
        return table if table["pool_cut_short"].any() else table.drop(columns="pool_cut_short")


def paraphrases(ev: Any, *, narrow: int | None = None, pool: int | None = None) -> Paraphrases:
    r"""Compare what each run finds for several wordings of one query (`golden.queries.group`).

    Parameters
    ----------
    narrow, pool
        Cut-offs: a document counts as found at rank ≤ narrow, and as retrieved but ranked too
        low at rank ≤ pool. By default 10 and 50, or half of the runs' smallest k and that k.

    Returns
    -------
    `Paraphrases`: frames `summary`, `kinds`, `groups` and `per_query`; its docstring has their
    columns.

    Raises
    ------
    DataError
        A run says that it retrieved fewer than `pool` hits a query; `narrow` is not below
        `pool`.

    Warns
    -----
    UserWarning
        A run has hits but none at rank `pool`: the pool may have been cut short. A run's
        document ids don't join those that are expected.

    Examples
    --------
    >>> rs.extras.paraphrases(ev).kinds
    """
    results, golden = ev.results, ev.golden
    runs = results.runs.reindex(columns=["run_id", "k"])
    if pool is None:
        pool = min([POOL, *map(int, runs["k"].dropna())])
    if narrow is None:
        narrow = min(NARROW, max(1, pool // 2))
    if not (isinstance(narrow, int) and isinstance(pool, int) and 1 <= narrow <= pool):
        raise DataError(
            f"narrow is {narrow}, pool is {pool}", field="narrow",
            allowed="whole numbers, 1 ≤ narrow ≤ pool",
        )  # fmt: skip
    shallow = runs[(runs["k"] < pool).fillna(False)]
    if len(shallow):
        named = ", ".join(f"{run_id} (k = {k})" for run_id, k in shallow.itertuples(index=False))
        raise DataError(
            f"{named} retrieved fewer than {pool} hits a query",
            field="pool",
            allowed="runs with k of at least the pool, or a smaller pool",
        )
    labels = [f"recall@{narrow}:doc", f"recall@{pool}:doc", "answer_checks_all"]
    # queries that a run lacks are left out here, and that is visible
    with unsaid("golden queries without a row"):
        scores = score(results, golden, list(dict.fromkeys(labels)))
    asked = scores[scores["state"].isin(["scored", "failed"])].reset_index()
    members = golden.queries.reindex(columns=["query_id", "query", "group", "variant"])
    rows = members.dropna(subset=["group"]).merge(asked, on="query_id", how="inner")
    near, deep = rows[labels[0]].to_numpy(), rows[labels[1]].to_numpy()
    diagnosis = np.select(
        [np.isnan(near), near >= 1, deep > near], ["NoExpected", "Ok", "MisRanked"], "Missing"
    )
    deepest = results.hits.groupby("run_id", observed=True)["rank"].max()
    cut_short = [str(run_id) for run_id, rank in deepest.items() if rank < pool]
    if cut_short:
        warn(
            f"the candidate pool of {', '.join(cut_short)} may be cut short: no query has a hit at"
            f" rank {pool}; a target that is Missing may be MisRanked further down"
        )
    rows = rows.assign(
        recall_narrow=near, recall_pool=deep, answer_ok=rows["answer_checks_all"],
        diagnosis=pd.Categorical(diagnosis, categories=list(CLASSES)),
        pool_cut_short=rows["run_id"].astype("str").isin(cut_short),
    )  # fmt: skip
    rows = rows.sort_values(["run_id", "group"], kind="stable", ignore_index=True)
    per_query = rows[[
        "run_id", "group", "variant", "query_id", "query", "recall_narrow", "recall_pool",
        "answer_ok", "diagnosis", "pool_cut_short",
    ]]  # fmt: skip
    kinds, groups, summary = _tables(per_query)
    return Paraphrases(summary, kinds, groups, per_query, narrow, pool)


def _tables(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the figures of each kind of paraphrase, of each group, and of each run."""
    rows = rows.sort_values("query_id", kind="stable")  # one order for sums
    recall, is_a = rows["recall_narrow"], rows["diagnosis"]
    best = recall.groupby([rows["run_id"], rows["group"]], observed=True).transform("max")
    rows = rows.assign(
        kind=rows["variant"].astype("str").fillna(NO_VALUE), recall_lost=best - recall,
        n_ok=is_a.eq("Ok"), n_misranked=is_a.eq("MisRanked"), n_missing=is_a.eq("Missing"),
        n_no_expected=is_a.eq("NoExpected"),
    )  # fmt: skip
    counted = {"n_ok", "n_misranked", "n_missing", "n_no_expected"}
    names = ["recall_narrow", "recall_pool", "recall_lost", *sorted(counted), "answer_ok"]
    kinds = rows.groupby(["run_id", "kind"], observed=True).agg(
        n=("query_id", "size"), **{one: (one, "sum" if one in counted else "mean") for one in names}
    )
    groups = rows.groupby(["run_id", "group"], observed=True).agg(
        n=("query_id", "size"), best=("recall_narrow", "max"),
        worst_recall=("recall_narrow", "min"),
        answer_consistency=("answer_ok", "min"), n_misranked=("n_misranked", "sum"),
        n_missing=("n_missing", "sum"), pool_cut_short=("pool_cut_short", "any"),
    )  # fmt: skip
    groups.insert(1, "recall_spread", (groups.pop("best") - groups["worst_recall"]).fillna(0.0))
    by_retrieval = groups["n_missing"] > groups["n_misranked"]
    by_ranking = ~by_retrieval & (groups["n_misranked"] > 0)
    consistent = (groups["recall_spread"] == 0) & (groups["worst_recall"] == 1)
    flags = {"consistent": consistent, "ranking": by_ranking, "retrieval": by_retrieval}
    summary = groups.assign(**flags).groupby("run_id", observed=True).agg(
        n_groups=("n", "size"), mean_recall_spread=("recall_spread", "mean"),
        n_consistent=("consistent", "sum"), share_consistent=("consistent", "mean"),
        share_answers_consistent=("answer_consistency", "mean"), n_ranking=("ranking", "sum"),
        n_retrieval=("retrieval", "sum"), pool_cut_short=("pool_cut_short", "any"),
    )  # fmt: skip
    groups["dominant"] = np.select([by_ranking, by_retrieval], ["ranking", "retrieval"], "")
    return kinds.reset_index(), groups.reset_index(), summary.reset_index()
