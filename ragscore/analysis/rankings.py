"""Rankings without a metric: the retrievers' own scores, and how alike two rankings are.

In: results; for the relevance of hits a golden set as well. Out: quantiles of scores, one row per
kind of score (rrf, bm25, cosine, ...), which have no common scale; rank-biased overlap, one row per
query.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import coded, codes_of, distinct, is_among, lookup
from ragscore.frames.data import (
    DataError,
    Golden,
    Results,
    categorical,
    check_inputs,
    check_type,
    run_names,
)
from ragscore.frames.errors import check_choice
from ragscore.frames.ranking import collapse_hits
from ragscore.frames.typing import Values
from ragscore.scoring.level import choose_level, chunker_versions
from ragscore.scoring.rules import rule_of
from ragscore.scoring.targets import targets_at

Ranks = npt.NDArray[np.int64]

NO_KIND = "score"  # of hits that don't say what kind of score they have
RELEVANCE = ("relevant", "not relevant", "unjudged", "should be refused", "unlabelled")
QUANTILES = {"min": 0.0, "p5": 0.05, "p25": 0.25, "p50": 0.5, "p75": 0.75, "p95": 0.95, "max": 1.0}
MIDDLE = {name: QUANTILES[name] for name in ("p25", "p50", "p75")}
IDS = {"chunk": "chunk_id", "doc": "doc_id"}


def retriever_scores(results: Results, by: str | None = "rank") -> pd.DataFrame:
    """Return the retrievers' own scores of hits, by rank or over all hits.

    Parameters
    ----------
    by
        "rank": how scores fall with the rank. None: all hits of a run together.

    Returns
    -------
    One row per run, kind of score and `rank`: run_id, `score_kind`, `n` hits with a score, the
    `p25`, `p50`, `p75` of their scores. Kinds of scores (rrf, bm25, cosine, ...) have no common
    scale.

    Raises
    ------
    DataError
        No hit has a score; another `by`.

    Examples
    --------
    >>> results.retriever_scores().query("rank == 1")[["run_id", "score_kind", "p50"]]
    """
    check_type(results, Results, "results")
    if by is not None:
        check_choice(by, ("rank",), "by")
    keys = ["run_id", "score_kind", *([by] if by else [])]
    hits = _hits_with_scores(results).dropna(subset=["score"])
    table = _quantiles(hits, keys, MIDDLE)
    n = hits.groupby(keys, observed=True).size()
    table = table.join(n.rename("n")).reset_index().astype({"score_kind": "str"})
    return table[[*keys, "n", *MIDDLE]]


def score_distribution(results: Results, golden: Golden, *, match: str = "auto") -> pd.DataFrame:
    """Return scores of relevant and other hits; see `Evaluation.retriever_scores`."""
    check_inputs(results, golden)
    keys = ["run_id", "score_kind", "relevance"]
    hits = _hits_with_scores(results).assign(
        query_id=lambda rows: lookup(rows["query_id"], distinct(rows["query_id"])),
        relevance=categorical(_relevance(results, golden, match), RELEVANCE),
    )
    scored = hits.dropna(subset=["score"]) if hits["score"].hasnans else hits
    grouped = hits.groupby(keys, observed=True, sort=True)["score"]
    table = pd.DataFrame(
        {"n_hits": grouped.count(), "n_no_score": grouped.size() - grouped.count()}
    )
    n_queries = scored.groupby(keys, observed=True, sort=True)["query_id"].nunique()
    table = table.join(n_queries.rename("n_queries")).join(_quantiles(scored, keys, QUANTILES))
    table = table.reset_index().astype({"score_kind": "str"})
    table = table.assign(
        n_queries=table["n_queries"].fillna(0).astype("int64"),
        above=_shares_above(scored, table),
        relevance=table["relevance"].astype("str"),
    )
    return table[[*keys, "n_hits", "n_queries", "n_no_score", *QUANTILES, "above"]]


def _hits_with_scores(results: Results) -> pd.DataFrame:
    """Return all hits with their score and its kind."""
    hits = results.hits
    if "score" not in hits or not hits["score"].notna().any():
        raise DataError(
            "no hit has a score", field="results.hits.score", allowed="hits with scores"
        )
    code, kinds = score_kinds(hits, NO_KIND)
    known = pd.CategoricalDtype(sorted(kinds))
    return hits[["run_id", "query_id", "rank", "score"]].assign(
        score=hits["score"].astype("float64"),
        score_kind=categorical(known.categories.get_indexer(pd.Index(kinds))[code], known),
    )


def score_kinds(hits: pd.DataFrame, unknown: str) -> tuple[Ranks, list[str]]:
    """Return a code for the kind of each hit's score, and the kinds; `unknown` is one of them."""
    if "score_kind" not in hits:
        return np.zeros(len(hits), dtype=np.int64), [unknown]
    kinds = coded(hits["score_kind"])
    names = [*kinds.cat.categories.astype("str"), unknown]  # hits may call theirs so, too
    codes, unique = pd.factorize(np.array(names, dtype=object))
    return codes.astype(np.int64)[codes_of(kinds)], unique.tolist()  # -1, no kind: the last one


def _quantiles(hits: pd.DataFrame, keys: list[str], shares: dict[str, float]) -> pd.DataFrame:
    """Return quantiles of the score by these keys, one column per share."""
    grouped = hits.groupby(keys, observed=True, sort=True)["score"]
    return (
        grouped.quantile(np.array(list(shares.values()))).unstack().set_axis(list(shares), axis=1)
    )


def _relevance(results: Results, golden: Golden, match: str) -> Ranks:
    """Return the position of each hit's relevance in RELEVANCE.

    Where queries have levels of their own, each is matched at its finest.
    """
    level = choose_level(results, golden, match)
    hits = results.hits
    grade = np.full(len(hits), -1)
    labelled = np.zeros(len(hits), dtype=bool)
    for name in level.used:
        targets = targets_at(golden, name).targets
        is_own = is_among(hits["query_id"], targets["query_id"]) & ~labelled
        hit, target = rule_of(name, results, golden)(hits, targets)
        keep = is_own[hit]
        np.maximum.at(grade, hit[keep], targets["grade"].to_numpy()[target[keep]])
        labelled |= is_own
    to_refuse = is_among(hits["query_id"], golden.refusals)
    flags = {
        "relevant": grade > 0,
        "not relevant": grade == 0,
        "unjudged": labelled,
        "should be refused": to_refuse,
    }
    places = [RELEVANCE.index(name) for name in flags]
    return np.select(list(flags.values()), places, RELEVANCE.index("unlabelled"))


def _shares_above(scored: pd.DataFrame, table: pd.DataFrame) -> list[float]:
    """Return for each row how often a relevant hit of its run and kind scores higher.

    Ties count half (Mann and Whitney 1947).
    """
    groups = scored.groupby(["run_id", "score_kind", "relevance"], observed=True)["score"]
    scores = {key: np.sort(part.to_numpy()) for key, part in groups}
    shares = []
    for run_id, kind, relevance in table[["run_id", "score_kind", "relevance"]].to_numpy():
        relevant = scores.get((run_id, kind, RELEVANCE[0]), np.zeros(0))
        others = scores.get((run_id, kind, relevance), np.zeros(0))
        if relevance == RELEVANCE[0] or not len(relevant) or not len(others):
            shares.append(np.nan)
            continue
        below = np.searchsorted(others, relevant, "left")
        below = below + np.searchsorted(others, relevant, "right")
        shares.append(float(below.mean() / (2 * len(others))))
    return shares


def rank_overlap(
    results: Results, baseline: str, candidate: str, *, ids: str = "auto", p: float = 0.9
) -> pd.DataFrame:
    """Return the rank-biased overlap of two runs, for every query that both were asked.

    RBO weighs agreement at the top most: with p = .9 the first ten ranks carry 86 % of the weight.
    It is extrapolated from the lists' ends, as if the agreement seen there went on (Webber, Moffat
    & Zobel 2010, equation 32). It tells where systems differ, not which of them is right.

    Parameters
    ----------
    baseline, candidate
        A run_id, or a system that only one run has.
    ids
        What must be equal: "chunk" ids, "doc" ids (the first hit of each document counts), or
        "auto": chunks if both runs have them from the same chunker.
    p
        Persistence, 0 < p < 1: the chance that a reader looks one rank further.

    Returns
    -------
    One row per query: `query_id`, `rbo` (0 to 1; NaN where either list is empty), `n_common` ids,
    and the length of both lists, `n_baseline` and `n_candidate`.

    Raises
    ------
    DataError
        An unknown run or `ids`; `p` outside 0..1; hits without the ids asked for.

    Examples
    --------
    >>> results.rank_overlap("dense", "hybrid").sort_values("rbo").head()
    """
    check_type(results, Results, "results")
    if not 0 < p < 1:
        raise DataError(f"found {p!r}", field="p", allowed="a number between 0 and 1")
    names = run_names(results.runs, [baseline, candidate])
    pair = results.select(list(dict.fromkeys(names)))
    check_choice(ids, ("auto", *IDS), "ids")
    if ids == "auto":
        has_chunks = "chunk_id" in pair.hits and bool(pair.hits["chunk_id"].notna().all())
        one_chunker = chunker_versions(pair).nunique(dropna=False) == 1
        ids = "chunk" if has_chunks and one_chunker else "doc"
    if IDS[ids] not in pair.hits:
        raise DataError(
            f"hits have no {IDS[ids]}", field="ids", allowed="ids in the hits of both runs"
        )
    column = IDS[ids]
    asked_a, asked_b = (
        pair.responses.loc[(pair.responses["run_id"] == name).to_numpy(), "query_id"]
        for name in names
    )
    queries = pd.Index(asked_a[is_among(asked_a, asked_b)], dtype="str")
    sides, is_repeated = _sides(pair.hits, names, column, queries)
    if is_repeated and column == "doc_id":
        sides, _ = _sides(collapse_hits(pair.hits), names, column, queries)
    (n_a, place_a, keys_a, first_a), (n_b, place_b, keys_b, first_b) = sides
    _, in_a, in_b = np.intersect1d(keys_a, keys_b, assume_unique=True, return_indices=True)
    at_a, at_b = first_a[in_a], first_b[in_b]
    query = np.repeat(np.arange(len(queries)), n_a)[at_a]
    depth = np.maximum(place_a[at_a], place_b[at_b])
    # Sums go by depth, so that neither the order of rows nor that of the runs changes a bit.
    order = np.lexsort((depth, query))
    query, depth = query[order], depth[order]
    return pd.DataFrame(
        {
            "query_id": pd.Series(queries, dtype="str"),
            "rbo": _extrapolated_rbo(query, depth, n_a, n_b, p),
            "n_common": np.bincount(query, minlength=len(queries)),
            "n_baseline": n_a,
            "n_candidate": n_b,
        }
    )


def _sides(
    hits: pd.DataFrame, run_ids: list[str], column: str, queries: pd.Index
) -> tuple[list[tuple[Ranks, Ranks, Ranks, Ranks]], bool]:
    """Return each run's lists, and whether one of them holds an id twice.

    Of each run: the length of its lists, the place of each hit with an id in its list, and its
    ids as numbers, each once, with the position of its first hit.
    """
    found = coded(hits[column])
    query, ids_of = lookup(hits["query_id"], queries), codes_of(found).astype(np.int64)
    width, is_repeated = max(len(found.cat.categories), 1), False
    rank, sides = hits["rank"].to_numpy(), []
    for run_id in run_ids:
        is_own = (hits["run_id"] == run_id).to_numpy() & (query >= 0) & (ids_of >= 0)
        rows = np.flatnonzero(is_own)
        if (np.diff(query[rows]) < 0).any() or (
            np.diff(rank[rows])[np.diff(query[rows]) == 0] < 0
        ).any():
            rows = rows[np.lexsort((rank[rows], query[rows]))]
        n = np.bincount(query[rows], minlength=len(queries))
        # hits without an id leave no gap in the ranks
        place = np.arange(len(rows)) - np.repeat(np.cumsum(n) - n, n) + 1
        # an id that a list holds twice counts where it is first
        keys, first = np.unique(query[rows] * width + ids_of[rows], return_index=True)
        is_repeated |= len(keys) < len(rows)
        sides.append((n, place, keys, first))
    return sides, is_repeated


def _extrapolated_rbo(query: Ranks, depth: Ranks, n_a: Ranks, n_b: Ranks, p: float) -> Values:
    """Return RBO_ext of every query.

    `query` and `depth` have one entry per common id: the position of its query, and the depth from
    which both lists hold it. `n_a` and `n_b` are the lengths of the lists.
    """
    short, long = np.minimum(n_a, n_b), np.maximum(n_a, n_b)
    depths = np.arange(1, int(long.max(initial=0)) + 1)
    powers = np.concatenate([[0.0], np.cumsum(p**depths)])  # sums of p^d up to each depth
    weights = np.concatenate([[0.0], np.cumsum(p**depths / depths)])  # sums of p^d / d

    def total(values: Values) -> Values:
        """Add up values of common ids by query."""
        return np.asarray(np.bincount(query, values, len(n_a)), dtype=np.float64)

    seen = total(weights[long[query]] - weights[depth - 1])
    in_long, in_short = total(np.ones(len(query))), total((depth <= short[query]).astype("float64"))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = in_short / short  # of the shorter list that is common
        beyond = share * (powers[long] - powers[short] - short * (weights[long] - weights[short]))
        rest = ((in_long - in_short) / long + in_short / short) * p**long
        return np.where(short > 0, (1 - p) / p * (seen + beyond) + rest, np.nan)
