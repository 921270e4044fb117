"""How much the order of equal scores could move a metric.

In: results and golden set. Out: one row per run and metric, as ranked and with tied hits in their
worst and their best order.
"""

import warnings
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import Golden, Results, check_inputs
from ragscore.scoring.grading import decided
from ragscore.scoring.kept import level_rule
from ragscore.scoring.level import choose_level
from ragscore.scoring.matching import apply_rule, at_level, response_of
from ragscore.scoring.score import score
from ragscore.scoring.summary import metric_columns

Ranks = npt.NDArray[np.int64]
TIE_COLUMNS = ("run_id", "metric", "worst", "mean", "best", "spread", "n", "n_tied", "n_moved")
METRICS = ("hit@1", "hit@5", "mrr@10", "ndcg@10")


def tie_sensitivity(
    results: Results, golden: Golden, metrics: list[str] | str | None = None, *, match: str = "auto"
) -> pd.DataFrame:
    """How much a metric depends on the order of hits with equal scores, which is an accident.

    Hits of one question with exactly the same score share the ranks they have in all other orders:
    the ones of the highest grade last (worst), then first (best). Where several tied hits meet one
    and the same target, an even better or worse order may exist for recall and nDCG.

    Parameters
    ----------
    metrics
        Labels of ranking metrics; by default hit@1, hit@5, mrr@10 and ndcg@10.
    match
        As for `rs.score`.

    Returns
    -------
    One row per run and metric: means `worst`, `mean` (as ranked) and `best`, over the same `n`
    questions; `spread` = best − worst; `n_tied` questions with equal scores, `n_moved` of them
    whose value depends on their order. A run whose hits have no score has NaN there and NA counts:
    its ties are unknown.
    """
    check_inputs(results, golden)
    labels = [metrics] if isinstance(metrics, str) else list(metrics or METRICS)
    grade, block = _grades(results, golden, match), _blocks(results)
    scores = {"mean": score(results, golden, labels, match=match)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # said once already
        for name, first in (("worst", grade), ("best", -grade)):
            scores[name] = score(
                _reranked(results, _ranks(results, block, first)), golden, labels, match=match
            )
    return _table(scores, results, block, metric_columns(scores["mean"]))


def _table(
    scores: dict[str, pd.DataFrame], results: Results, block: Ranks, labels: list[str]
) -> pd.DataFrame:
    run = scores["mean"]["run_id"].to_numpy()
    means = {
        name: frame[labels].groupby(run, observed=False).mean() for name, frame in scores.items()
    }
    moved = (
        (scores["best"][labels] - scores["worst"][labels])
        .fillna(0)
        .ne(0)
        .groupby(run, observed=False)
        .sum()
    )
    parts = {
        **means,
        "n": scores["mean"][labels].groupby(run, observed=False).count(),
        "n_moved": moved,
    }
    table = pd.DataFrame(
        {
            name: part.rename_axis(index="run_id", columns="metric").stack(future_stack=True)
            for name, part in parts.items()
        }
    ).reset_index()
    is_scored, n_tied = _tied(results, block)
    known = table["run_id"].map(is_scored).astype(bool).to_numpy()
    table = table.assign(
        spread=table["best"] - table["worst"], n_tied=table["run_id"].map(n_tied)
    ).astype({"n_tied": "Int64", "n_moved": "Int64"})
    for name in ("worst", "best", "spread", "n_tied", "n_moved"):
        table[name] = table[name].where(known)
    return table[list(TIE_COLUMNS)]


def _grades(results: Results, golden: Golden, match: str) -> Ranks:
    """The best grade that each hit meets at the match level (0: none)."""
    level = choose_level(results, golden, match)
    grade = np.zeros(len(results.hits), dtype=np.int64)
    for name in level.joinable if level.name == "per_query" else (level.name,):
        targets = at_level(golden, name).targets
        matches = decided(apply_rule(level_rule(name, results, golden), results.hits, targets))
        np.maximum.at(
            grade,
            matches["hit"].to_numpy(),
            targets["grade"].to_numpy(dtype=np.int64)[matches["target"].to_numpy()],
        )
    return grade


def _blocks(results: Results) -> Ranks:
    """A number for each run, query and score; hits without a score are alone in theirs."""
    hits, n = results.hits, len(results.hits)
    value = (
        hits["score"].to_numpy("float64", na_value=np.nan)
        if "score" in hits
        else np.full(n, np.nan)
    )
    place = response_of(hits, results.responses)
    order = np.lexsort((value, place))
    new = np.ones(n, dtype=bool)
    new[1:] = (np.diff(place[order]) != 0) | (np.diff(value[order]) != 0)  # NaN differs from NaN
    block = np.empty(n, dtype=np.int64)
    block[order] = np.cumsum(new)
    return block


def _ranks(results: Results, block: Ranks, first: Ranks) -> Ranks:
    """Ranks after those of each block of tied hits are dealt anew.

    Lowest `first` first, else as they were.
    """
    rank = results.hits["rank"].to_numpy().astype(np.int64)
    dealt = np.empty(len(rank), dtype=np.int64)
    dealt[np.lexsort((rank, first, block))] = rank[np.lexsort((rank, block))]
    return dealt


def _reranked(results: Results, rank: Ranks) -> Results:
    """The same hits at other ranks; matches kept under the old ranks follow them."""
    hits = results.hits.assign(rank=rank.astype("int32"))
    if results.matches is None:
        return replace(results, hits=hits)
    keys = ["run_id", "query_id", "rank"]
    moved = results.hits[keys].astype({"run_id": "str"}).assign(new=rank)
    matches = results.matches.astype({"run_id": "str"}).merge(moved, on=keys, how="left")
    # rank 0 stands for "nothing was found"
    new = matches["new"].fillna(matches["rank"]).astype("int32")
    return replace(results, hits=hits, matches=matches.assign(rank=new).drop(columns="new"))


def _tied(results: Results, block: Ranks) -> tuple[pd.Series, pd.Series]:
    """By run: whether its hits have scores, and the number of questions with equal ones."""
    hits, run_ids = results.hits, results.runs["run_id"]
    scored = (
        hits["score"].notna().to_numpy() if "score" in hits else np.zeros(len(hits), dtype=bool)
    )
    tied = scored & pd.Series(block).duplicated(keep=False).to_numpy()
    cells = hits.loc[tied, ["run_id", "query_id"]].drop_duplicates()
    n_scored = hits.loc[scored, "run_id"].value_counts().reindex(run_ids).fillna(0)
    return n_scored.gt(0), cells["run_id"].value_counts().reindex(run_ids).fillna(0)
