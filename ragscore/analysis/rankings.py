"""How alike two runs rank: rank-biased overlap, one row per query.

In: results. Out: a frame. It needs no golden set.
"""

import numpy as np
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import Results, run_names
from ragscore.scoring.level import chunker_versions


def rank_overlap(
    results: Results, baseline: str, candidate: str, *, p: float = 0.9
) -> pd.DataFrame:
    """Return the rank-biased overlap of two runs, for every query that both were asked.

    RBO weighs agreement at the top most: with p = .9 the first ten ranks carry 86 % of the weight.
    It is extrapolated from the lists' ends, as if the agreement seen there went on (Webber, Moffat
    & Zobel 2010, equation 32). Chunk ids are compared if both runs have them from the same chunker,
    else document ids. An id counts once, where it is first.

    Returns
    -------
    One row per query: `query_id`, `rbo` (0 to 1; NaN where either list is empty), `n_common` ids,
    and the length of both lists, `n_baseline` and `n_candidate`.
    """
    names = run_names(results.runs, [baseline, candidate])
    pair = results.select(list(dict.fromkeys(names)))
    has_chunks = "chunk_id" in pair.hits and bool(pair.hits["chunk_id"].notna().all())
    one_chunker = chunker_versions(pair).nunique(dropna=False) == 1
    column = "chunk_id" if has_chunks and one_chunker else "doc_id"
    asked_a, asked_b = (
        pair.responses.loc[pair.responses["run_id"].eq(name).to_numpy(), "query_id"]
        for name in names
    )
    queries = pd.Index(asked_a[is_among(asked_a, asked_b)], dtype="str")
    hits = pair.hits.dropna(subset=[column])
    hits = pd.DataFrame({
        "run": hits["run_id"].astype("str"), "query": lookup(hits["query_id"], queries),
        "id": pd.factorize(hits[column])[0], "rank": hits["rank"],
    })  # fmt: skip
    hits = hits[hits["query"] >= 0].sort_values(["run", "query", "rank"], kind="stable")
    hits = hits.drop_duplicates(["run", "query", "id"])
    hits["place"] = hits.groupby(["run", "query"]).cumcount() + 1
    a, b = (hits.loc[hits["run"].eq(name), ["query", "id", "place"]] for name in names)
    n_a, n_b = (np.bincount(side["query"], minlength=len(queries)) for side in (a, b))
    both = a.merge(b, on=["query", "id"])
    both["depth"] = both[["place_x", "place_y"]].max(axis=1)
    # sums go by depth, so that neither the order of rows nor that of the runs changes a bit
    both = both.sort_values(["query", "depth"], kind="stable")
    query, depth = (both[name].to_numpy(np.int64) for name in ("query", "depth"))
    short, long = np.minimum(n_a, n_b), np.maximum(n_a, n_b)
    n_common = np.bincount(query, minlength=len(queries))
    in_short = np.bincount(query[depth <= short[query]], minlength=len(queries))
    depths = np.arange(1, int(long.max(initial=0)) + 1)
    powers = np.concatenate([[0.0], np.cumsum(p**depths)])  # sums of p^d up to each depth
    weights = np.concatenate([[0.0], np.cumsum(p**depths / depths)])  # sums of p^d / d
    seen = np.bincount(query, weights[long[query]] - weights[depth - 1], len(queries))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = in_short / short  # of the shorter list that is common
        beyond = share * (powers[long] - powers[short] - short * (weights[long] - weights[short]))
        rest = ((n_common - in_short) / long + share) * p**long
        rbo = np.where(short > 0, (1 - p) / p * (seen + beyond) + rest, np.nan)
    return pd.DataFrame(
        {"query_id": queries, "rbo": rbo, "n_common": n_common, "n_baseline": n_a,
         "n_candidate": n_b}
    )  # fmt: skip
