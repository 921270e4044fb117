"""Paraphrase groups: how far the documents found depend on the wording of a query.

In: `Results` and a golden set whose queries carry `group` (and `variant`, the kind of paraphrase).
Out: `Paraphrases`: one row per paraphrase, per group, per kind, per run.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.data import DataError, Golden, Results, check_inputs, check_type
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

    FRAMES = ("summary", "kinds", "groups", "per_query")

    per_query: pd.DataFrame
    narrow: int
    pool: int

    @cached_property
    def groups(self) -> pd.DataFrame:
        """Recall and answers of each group of paraphrases."""
        rows = self.per_query
        flags = {
            "n_misranked": rows["diagnosis"].eq("MisRanked"),
            "n_missing": rows["diagnosis"].eq("Missing"),
        }
        grouped = rows.assign(**flags).groupby(["run_id", "group"], observed=True, sort=True)
        recall = grouped["recall_narrow"]
        table = pd.DataFrame(
            {
                "n": grouped.size(),
                "recall_spread": (recall.max() - recall.min()).fillna(0.0),
                "worst_recall": recall.min(),
                "answer_consistency": grouped["answer_ok"].min(),
                "n_misranked": grouped["n_misranked"].sum().astype("int64"),
                "n_missing": grouped["n_missing"].sum().astype("int64"),
                "pool_cut_short": grouped["pool_cut_short"].max().astype(bool),
            }
        )
        by_ranking = (table["n_misranked"] > 0) & (table["n_misranked"] >= table["n_missing"])
        by_retrieval = table["n_missing"] > table["n_misranked"]
        dominant = np.select([by_ranking, by_retrieval], ["ranking", "retrieval"], "")
        return table.assign(dominant=dominant).reset_index()

    @cached_property
    def summary(self) -> pd.DataFrame:
        """Consistency of each run over all groups."""
        groups = self.groups
        grouped = groups.assign(
            consistent=(groups["recall_spread"] == 0) & (groups["worst_recall"] == 1),
            by_ranking=groups["dominant"].eq("ranking"),
            by_retrieval=groups["dominant"].eq("retrieval"),
        ).groupby("run_id", observed=True)
        return pd.DataFrame(
            {
                "n_groups": grouped.size(),
                "mean_recall_spread": grouped["recall_spread"].mean(),
                "n_consistent": grouped["consistent"].sum(),
                "share_consistent": grouped["consistent"].mean(),
                "share_answers_consistent": grouped["answer_consistency"].mean(),
                "n_ranking": grouped["by_ranking"].sum().astype("int64"),
                "n_retrieval": grouped["by_retrieval"].sum().astype("int64"),
                "pool_cut_short": grouped["pool_cut_short"].max().astype(bool),
            }
        ).reset_index()

    @cached_property
    def kinds(self) -> pd.DataFrame:
        """How each run copes with each kind of paraphrase."""
        rows = self.per_query.sort_values("query_id", kind="stable")  # one order for sums
        best = rows.groupby(["run_id", "group"], observed=True)["recall_narrow"].transform("max")
        labels = dict(
            zip(("n_ok", "n_misranked", "n_missing", "n_no_expected"), CLASSES, strict=True)
        )
        grouped = rows.assign(
            kind=rows["variant"].astype("str").fillna(NO_VALUE),
            recall_lost=best - rows["recall_narrow"],
            **{name: rows["diagnosis"].eq(label) for name, label in labels.items()},
        ).groupby(["run_id", "kind"], observed=True)
        means = {
            name: grouped[name].mean() for name in ("recall_narrow", "recall_pool", "recall_lost")
        }
        counts = {name: grouped[name].sum().astype("int64") for name in labels}
        table = {"n": grouped.size(), **means, **counts, "answer_ok": grouped["answer_ok"].mean()}
        return pd.DataFrame(table).reset_index()

    def _heading(self) -> str:
        n = plural(self.per_query["query_id"].nunique(), "paraphrase")
        groups = plural(self.per_query["group"].nunique(), "group")
        return f"{n} in {groups}; found at rank ≤ {self.narrow}, in the pool at rank ≤ {self.pool}"

    def _shown(self) -> pd.DataFrame:
        table = self.summary.round(3)
        return table if table["pool_cut_short"].any() else table.drop(columns="pool_cut_short")


def paraphrases(
    results: Results,
    golden: Golden,
    *,
    narrow: int | None = None,
    pool: int | None = None,
) -> Paraphrases:
    """Compare what is found for several wordings; see `rs.extras.paraphrases`."""
    check_inputs(results, golden)
    runs = results.runs.reindex(columns=["run_id", "k"])
    if pool is None:
        pool = min([POOL, *map(int, runs["k"].dropna())])
    check_type(pool, int, "pool", "a whole number from 1")
    if narrow is None:
        narrow = min(NARROW, max(1, pool // 2))
    check_type(narrow, int, "narrow", "a whole number from 1")
    if not 1 <= narrow <= pool:
        raise DataError(
            f"narrow is {narrow}, pool is {pool}", field="narrow", allowed="1 ≤ narrow ≤ pool"
        )
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
            f"the candidate pool of {', '.join(cut_short)} may be cut short: no hit at rank {pool};"
            " Missing may be MisRanked further down"
        )
    table = rows[["run_id", "group", "variant", "query_id", "query"]].assign(
        recall_narrow=near,
        recall_pool=deep,
        answer_ok=rows["answer_checks_all"],
        diagnosis=pd.Categorical(diagnosis, categories=list(CLASSES)),
        pool_cut_short=rows["run_id"].astype("str").isin(cut_short),
    )
    per_query = table.sort_values(["run_id", "group"], kind="stable", ignore_index=True)
    return Paraphrases(per_query, narrow, pool)
