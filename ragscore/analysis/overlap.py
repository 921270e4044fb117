"""How alike two rankings are: rank-biased overlap, query by query.

In: the hits of two runs. Out: one row per query. Nothing here knows what is right; it tells where
the systems differ.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup, pair_codes
from ragscore.frames.data import DataError, Results, check_type, run_names
from ragscore.frames.ranking import collapse_hits
from ragscore.scoring.level import chunker_versions

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
