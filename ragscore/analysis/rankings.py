"""The retrievers' own scores.

How they fall with the rank, and whether they tell what is relevant from what isn't.

In: results, and the golden set that says what is relevant. Out: quantiles, one kind of score (rrf,
bm25, cosine, ...) to a row: they have no common scale.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results, categorical, check_inputs, check_type
from ragscore.scoring.kept import level_rule
from ragscore.scoring.level import choose_level
from ragscore.scoring.matching import LEVELS, apply_rule, at_level

NO_KIND = "score"  # of hits that don't say what kind of score they have
RELEVANCE = ("relevant", "not relevant", "unjudged", "undecided", "should be refused", "unlabelled")
QUANTILES = {"min": 0.0, "p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
MIDDLE = {name: QUANTILES[name] for name in ("p25", "p50", "p75")}


def scores_by_rank(results: Results) -> pd.DataFrame:
    """How scores fall with the rank.

    Returns
    -------
    One row per run, kind of score and rank: run_id, `score_kind`, `rank`, `n` queries with a score
    there, its `p25`, `p50`, `p75` over queries.

    Raises
    ------
    DataError
        No hit has a score.
    """
    check_type(results, Results, "results")
    hits = _scored(results)
    groups = hits[hits["score"].notna()].groupby(
        ["run_id", "score_kind", "rank"], observed=True, sort=True
    )["score"]
    return (
        _quantiles(groups, MIDDLE)
        .join(groups.size().rename("n"))
        .reset_index()[["run_id", "score_kind", "rank", "n", *MIDDLE]]
    )


def score_distribution(results: Results, golden: Golden, *, match: str = "auto") -> pd.DataFrame:
    """Scores of relevant hits beside those of all others.

    A score that tells them apart can be cut at a threshold.

    Parameters
    ----------
    match
        The match level, as for `rs.score`.

    Returns
    -------
    One row per run, kind of score and `relevance`: *relevant* (the hit meets a target of grade ≥
    1), *not relevant* (of grade 0 only), *unjudged* (none), *undecided* (its text is cut), *should
    be refused* and *unlabelled* (nothing can be relevant to the question). `n_hits` with a score,
    `n_queries` they are of, `n_no_score` hits left out; `min`, `p5`, `p25`, `p50`, `p75`, `p95`,
    `max` of the score. `above`: how often a relevant hit scores higher than one of this row, over
    all pairs of the run, ties half (0.5 says nothing, 1 tells them apart; near 0 for distances,
    where less is better; NaN without a pair).

    Raises
    ------
    DataError
        No hit has a score; an unknown match level.
    """
    check_inputs(results, golden)
    hits = _scored(results).assign(
        relevance=categorical(_relevance(results, golden, match), RELEVANCE)
    )
    keys = ["run_id", "score_kind", "relevance"]
    groups = hits.groupby(keys, observed=True, sort=True)
    known = hits[hits["score"].notna()].groupby(keys, observed=True, sort=True)
    table = pd.DataFrame(
        {
            "n_hits": groups["score"].count(),
            "n_no_score": groups["score"].size() - groups["score"].count(),
        }
    )
    table = (
        table.join(known["query_id"].nunique().rename("n_queries"))
        .join(_quantiles(known["score"], QUANTILES))
        .reset_index()
    )
    table = table.assign(
        n_queries=table["n_queries"].fillna(0).astype("int64"),
        above=_above(hits, table),
        relevance=table["relevance"].astype("str"),
    )
    return table[[*keys, "n_hits", "n_queries", "n_no_score", *QUANTILES, "above"]]


def _scored(results: Results) -> pd.DataFrame:
    """All hits with their score and its kind."""
    hits = results.hits
    if "score" not in hits or not hits["score"].notna().any():
        raise DataError(
            "no hit has a score", field="results.hits.score", allowed="hits with scores"
        )
    kinds = (
        hits["score_kind"].astype("str").fillna(NO_KIND)
        if "score_kind" in hits
        else pd.Series(NO_KIND, index=hits.index, dtype="str")
    )
    return hits[["run_id", "query_id", "rank", "score"]].assign(
        score=hits["score"].astype("float64"), score_kind=kinds
    )


def _quantiles(groups: Any, wanted: dict[str, float]) -> pd.DataFrame:
    found: pd.DataFrame = groups.quantile(list(wanted.values())).unstack()
    return found.set_axis(list(wanted), axis=1)


def _relevance(results: Results, golden: Golden, match: str) -> npt.NDArray[np.int64]:
    """The place of each hit's relevance in RELEVANCE.

    Where queries have levels of their own, each is matched at its finest.
    """
    level = choose_level(results, golden, match)
    names = (
        [name for name in LEVELS if name in level.joinable]
        if level.name == "per_query"
        else [level.name]
    )
    hits, labelled = results.hits, np.zeros(len(results.hits), dtype=bool)
    grade, unknown = np.full(len(hits), -1), np.zeros(len(hits), dtype=bool)
    for name in names:
        targets = at_level(golden, name).targets
        here = is_among(hits["query_id"], targets["query_id"]) & ~labelled
        matches = apply_rule(level_rule(name, results, golden), hits, targets)
        matches = matches[here[matches["hit"].to_numpy()]]
        is_open = (
            matches["unknown"].to_numpy(dtype=bool)
            if "unknown" in matches
            else np.zeros(len(matches), dtype=bool)
        )
        hit, of_target = (
            matches["hit"].to_numpy(),
            targets["grade"].to_numpy()[matches["target"].to_numpy()],
        )
        np.maximum.at(grade, hit[~is_open], of_target[~is_open])
        unknown[hit[is_open]] = True
        labelled |= here
    kinds = [grade > 0, unknown, grade == 0, labelled, is_among(hits["query_id"], golden.refusals)]
    return np.select(kinds, [0, 3, 1, 2, 4], 5)


def _above(hits: pd.DataFrame, table: pd.DataFrame) -> list[float]:
    """For each row of the table how often a relevant hit of its run and kind scores higher, ties half (Mann and Whitney 1947)."""
    known = hits[hits["score"].notna()]
    scores = {
        key: np.sort(part.to_numpy())
        for key, part in known.groupby(["run_id", "score_kind", "relevance"], observed=True)[
            "score"
        ]
    }
    none = np.zeros(0)
    shares = []
    for run_id, kind, relevance in zip(
        table["run_id"], table["score_kind"], table["relevance"], strict=True
    ):
        relevant, others = (
            scores.get((run_id, kind, RELEVANCE[0]), none),
            scores.get((run_id, kind, relevance), none),
        )
        below = np.searchsorted(others, relevant, "left") + np.searchsorted(
            others, relevant, "right"
        )
        shares.append(
            float(below.mean() / (2 * len(others)))
            if relevance != RELEVANCE[0] and len(relevant) and len(others)
            else np.nan
        )
    return shares
