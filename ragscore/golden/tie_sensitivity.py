"""Tie sensitivity: the range of a metric over all orders of hits with equal scores.

In: results and golden set. Out: one row per run and metric, with tied hits as ranked, in their
worst order and in their best order.
"""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd

from ragscore.frames.data import Golden, Results, check_inputs
from ragscore.frames.errors import unsaid
from ragscore.frames.ranking import tied
from ragscore.frames.typing import Codes, Flags
from ragscore.scoring.grading import decidable, level_rule
from ragscore.scoring.level import choose_level
from ragscore.scoring.rules import apply_rule, response_of, targets_at
from ragscore.scoring.score import score
from ragscore.scoring.summary import metric_columns

COLUMNS = ("run_id", "metric", "worst", "mean", "best", "spread", "n", "n_tied", "n_moved")
METRICS = ("hit@1", "hit@5", "mrr@10", "ndcg@10")


def tie_sensitivity(
    results: Results, golden: Golden, metrics: list[str] | str | None = None, *, match: str = "auto"
) -> pd.DataFrame:
    """Return metrics over all orders of tied hits; see `Evaluation.tie_sensitivity`."""
    check_inputs(results, golden)
    labels = [metrics] if isinstance(metrics, str) else list(metrics or METRICS)
    level = choose_level(results, golden, match)
    tie, is_tied = tied(response_of(results.hits, results.responses), results.hits)
    # where nobody named ndcg@10, nobody means another gain by it
    with unsaid("ndcg has the gain") if metrics is None else nullcontext():
        scores = {"mean": score(results, golden, labels, match=match)}
    if not is_tied.any():
        scores |= {"worst": scores["mean"], "best": scores["mean"]}
        return _table(scores, results, is_tied, metric_columns(scores["mean"]))
    # the best grade that each hit meets at the match level (0: none)
    grade = np.zeros(len(results.hits), dtype=np.int64)
    for name in level.joinable if level.name == "per_query" else (level.name,):
        targets = targets_at(golden, name).targets
        matches = decidable(apply_rule(level_rule(name, results, golden), results.hits, targets))
        np.maximum.at(
            grade,
            matches["hit"].to_numpy(),
            targets["grade"].to_numpy(dtype=np.int64)[matches["target"].to_numpy()],
        )
    with unsaid():  # the first scoring has given these warnings already
        for name, key in (("worst", grade), ("best", -grade)):
            reordered = _reordered(results, tie, is_tied, key)
            scores[name] = score(reordered, golden, labels, match=match)
    return _table(scores, results, is_tied, metric_columns(scores["mean"]))


def _table(
    scores: dict[str, pd.DataFrame], results: Results, is_tied: Flags, labels: list[str]
) -> pd.DataFrame:
    # by id: means don't depend on the order of queries
    rows = scores["mean"]
    order = pd.Series(np.arange(len(rows)), rows.index).sort_index(kind="stable").to_numpy()
    values = {name: frame[labels].iloc[order] for name, frame in scores.items()}
    run = rows["run_id"].astype("str").iloc[order]
    moved = (values["best"] - values["worst"]).fillna(0).ne(0)
    parts = {
        **{name: frame.groupby(run, observed=False).mean() for name, frame in values.items()},
        "n": values["mean"].groupby(run, observed=False).count(),
        "n_moved": moved.groupby(run, observed=False).sum(),
    }
    table = pd.DataFrame(
        {
            name: part.rename_axis(index="run_id", columns="metric").stack(future_stack=True)
            for name, part in parts.items()
        }
    ).reset_index()
    n_scored, n_tied = _counts(results, is_tied)
    has_scores = table["run_id"].map(n_scored.gt(0)).astype(bool).to_numpy()
    table = table.assign(
        spread=table["best"] - table["worst"], n_tied=table["run_id"].map(n_tied)
    ).astype({"n_tied": "Int64", "n_moved": "Int64"})
    for name in ("worst", "best", "spread", "n_tied", "n_moved"):
        table[name] = table[name].where(has_scores)
    return table[list(COLUMNS)]


def _reordered(results: Results, tie: Codes, is_tied: Flags, key: Codes) -> Results:
    """Return the results with tied hits in another order, the lowest `key` first.

    Hits with the same key stay in order. Stored matches follow their hits to the new ranks.
    """
    rank = results.hits["rank"].to_numpy().astype(np.int64)
    at = np.flatnonzero(is_tied)
    old, tie = rank[at], tie[at]
    rank[at[np.lexsort((old, key[at], tie))]] = old[np.lexsort((old, tie))]
    hits = results.hits.assign(rank=rank.astype("int32"))
    if results.matches is None:
        return replace(results, hits=hits)
    keys = ["run_id", "query_id", "rank"]
    moved = results.hits[keys].astype({"run_id": "str"}).assign(new=rank)
    matches = results.matches.astype({"run_id": "str"}).merge(moved, on=keys, how="left")
    # Matches of rank 0 belong to no hit.
    new = matches["new"].fillna(matches["rank"]).astype("int32")
    return replace(results, hits=hits, matches=matches.assign(rank=new).drop(columns="new"))


def _counts(results: Results, is_tied: Flags) -> tuple[pd.Series, pd.Series]:
    """Return, by run, the number of hits with a score and of queries with equal scores."""
    hits, run_ids = results.hits, results.runs["run_id"]
    has_score = (
        hits["score"].notna().to_numpy() if "score" in hits else np.zeros(len(hits), dtype=bool)
    )
    tied = hits.loc[is_tied, ["run_id", "query_id"]].drop_duplicates()
    n_scored = hits.loc[has_score, "run_id"].value_counts().reindex(run_ids).fillna(0)
    return n_scored, tied["run_id"].value_counts().reindex(run_ids).fillna(0)
