"""The retrievers' own scores.

How they fall with the rank, and whether they tell what is relevant from what isn't.

In: results, and the golden set that says what is relevant. Out: quantiles, one kind of score (rrf,
bm25, cosine, ...) to a row: they have no common scale.

How alike two rankings are: rank-biased overlap, query by query.

In: the hits of two runs. Out: one row per query. Nothing here knows what is right; it tells where
the systems differ.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup, pair_codes
from ragscore.frames.data import (
    DataError,
    Golden,
    Results,
    categorical,
    check_inputs,
    check_type,
    run_names,
)
from ragscore.frames.ranking import collapse_hits
from ragscore.scoring.grading import level_rule
from ragscore.scoring.level import choose_level, chunker_versions
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
    grade, undecidable = np.full(len(hits), -1), np.zeros(len(hits), dtype=bool)
    for name in names:
        targets = at_level(golden, name).targets
        here = is_among(hits["query_id"], targets["query_id"]) & ~labelled
        matches = apply_rule(level_rule(name, results, golden), hits, targets)
        matches = matches[here[matches["hit"].to_numpy()]]
        is_open = (
            matches["undecidable"].to_numpy(dtype=bool)
            if "undecidable" in matches
            else np.zeros(len(matches), dtype=bool)
        )
        hit, of_target = (
            matches["hit"].to_numpy(),
            targets["grade"].to_numpy()[matches["target"].to_numpy()],
        )
        np.maximum.at(grade, hit[~is_open], of_target[~is_open])
        undecidable[hit[is_open]] = True
        labelled |= here
    kinds = [
        grade > 0,
        undecidable,
        grade == 0,
        labelled,
        is_among(hits["query_id"], golden.refusals),
    ]
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


Values = npt.NDArray[np.float64]
Ranks = npt.NDArray[np.int64]
IDS = {"chunk": "chunk_id", "doc": "doc_id"}


def rank_overlap(
    results: Results, a: str, b: str, *, by: str = "auto", p: float = 0.9
) -> pd.DataFrame:
    """Rank-biased overlap of two runs' rankings, for every query that both were asked.

    RBO weighs agreement at the top most: with p = .9 the first ten ranks carry 86 % of the weight.
    Extrapolated from the lists' ends, as if the agreement seen there went on (Webber, Moffat &
    Zobel 2010, equation 32).

    Parameters
    ----------
    a, b
        A run_id, or a system that only one run has.
    by
        What must be equal: "chunk" ids, "doc" ids (the first hit of each document counts), or
        "auto": chunks if both runs have them from the same chunker.
    p
        Persistence, 0 < p < 1: the chance that a reader looks one rank further.

    Returns
    -------
    One row per query: `query_id`, `rbo` (0 to 1; NaN where either list is empty), `n_common` ids,
    `n_a`, `n_b`.

    Raises
    ------
    DataError
        An unknown run or `by`; `p` outside 0..1; hits without the ids asked for.
    """
    check_type(results, Results, "results")
    if not 0 < p < 1:
        raise DataError(f"found {p!r}", field="p", allowed="a number between 0 and 1")
    names = run_names(results.runs, [a, b])
    pair = results.select(list(dict.fromkeys(names)))
    column = _id_column(pair, by)
    asked = [
        pair.responses.loc[(pair.responses["run_id"] == name).to_numpy(), "query_id"]
        for name in names
    ]
    queries = pd.Index(asked[0][lookup(asked[0], pd.Index(asked[1])) >= 0])
    hits = (collapse_hits(pair.hits) if column == "doc_id" else pair.hits).dropna(subset=[column])
    sides = [hits[(hits["run_id"] == name).to_numpy()] for name in names]
    query = [lookup(side["query_id"], queries) for side in sides]
    n_a, n_b = (np.bincount(found[found >= 0], minlength=len(queries)) for found in query)
    place, deeper = _common(sides, query, queries, column)
    rbo = _extrapolated(place, deeper, n_a, n_b, p)
    return pd.DataFrame(
        {
            "query_id": pd.Series(queries, dtype="str"),
            "rbo": rbo,
            "n_common": np.bincount(place, minlength=len(queries)),
            "n_a": n_a,
            "n_b": n_b,
        }
    )


def _id_column(results: Results, by: str) -> str:
    if by not in ("auto", *IDS):
        raise DataError(f"found {by!r}", field="by", allowed=f"one of auto, {', '.join(IDS)}")
    if by == "auto":
        has_chunks = "chunk_id" in results.hits and bool(results.hits["chunk_id"].notna().all())
        by = (
            "chunk"
            if has_chunks and chunker_versions(results).nunique(dropna=False) == 1
            else "doc"
        )
    if IDS[by] not in results.hits:
        raise DataError(
            f"hits have no {IDS[by]}", field="by", allowed="ids in the hits of both runs"
        )
    return IDS[by]


def _common(
    sides: list[pd.DataFrame], query: list[Ranks], queries: pd.Index, column: str
) -> tuple[Ranks, Ranks]:
    """Ids that both lists of a query hold.

    The query's place, and the larger of their two ranks (each list's own, from 1).
    """
    ids = pd.Index(sides[1][column].unique())
    first, second = (pair_codes(side, ("query_id", column), queries, ids) for side in sides)
    ranks = [
        _own_ranks(side["rank"].to_numpy().astype(np.int64), found)
        for side, found in zip(sides, query, strict=True)
    ]
    merged = (
        pd.DataFrame({"code": first, "a": ranks[0]})
        .merge(pd.DataFrame({"code": second, "b": ranks[1]}), on="code")
        .query("code >= 0")
    )
    # an id that a list holds twice counts where it is first
    merged = merged.groupby("code", as_index=False, sort=False).min()
    return np.floor_divide(
        merged["code"].to_numpy(np.int64), max(len(ids), 1), dtype=np.int64
    ), merged[["a", "b"]].max(axis=1).to_numpy(np.int64)


def _own_ranks(rank: Ranks, query: Ranks) -> Ranks:
    """Ranks closed up within each query: hits without an id leave no gap."""
    order = np.lexsort((rank, query))
    begins = np.flatnonzero(np.diff(query[order], prepend=-2))
    own = np.empty(len(rank), dtype=np.int64)
    own[order] = np.arange(len(rank)) - np.repeat(begins, np.diff(begins, append=len(rank))) + 1
    return own


def _extrapolated(place: Ranks, deeper: Ranks, n_a: Ranks, n_b: Ranks, p: float) -> Values:
    """RBO_ext of every query, from the depth at which each common id is seen in both lists."""
    short, long = np.minimum(n_a, n_b), np.maximum(n_a, n_b)
    depths = np.arange(1, int(long.max(initial=0)) + 1)
    powers = np.concatenate([[0.0], np.cumsum(p**depths)])  # sums of p^d up to each depth
    weights = np.concatenate([[0.0], np.cumsum(p**depths / depths)])  # sums of p^d / d
    n = len(n_a)

    def total(values: Values) -> Values:
        return np.asarray(np.bincount(place, values, n), dtype=np.float64)

    seen = total((weights[long[place]] - weights[deeper - 1]).astype("float64"))
    in_long, in_short = (
        total(np.ones(len(place))),
        total((deeper <= short[place]).astype("float64")),
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        beyond = (
            in_short
            / short
            * (powers[long] - powers[short] - short * (weights[long] - weights[short]))
        )
        rest = ((in_long - in_short) / long + in_short / short) * p**long
        return np.where(short > 0, (1 - p) / p * (seen + beyond) + rest, np.nan)
