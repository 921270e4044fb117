"""The order of hits: ranks checked or made, ties found or broken, documents kept once on request.

In: hits. Out: hits with ranks 1, 2, 3, ... within each run and query. Hits are ranked once, so that
every metric sees the same list.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from ragscore.frames.data import DataError, Results, conform
from ragscore.frames.errors import check_choice, warn
from ragscore.frames.kinds import refuse_rows
from ragscore.frames.typing import Codes, Flags

CELL = ["run_id", "query_id"]  # what a list of hits belongs to


def rank_hits(hits: pd.DataFrame, ties: str = "file") -> pd.DataFrame:
    """Return hits with the rank that each one has in its run and query, from 1.

    Parameters
    ----------
    hits
        Columns run_id and query_id; `rank`, if there is one; for "trec" `score`, and doc_id or
        chunk_id. Other columns stay.
    ties
        "file": the stored rank, or the order of the rows where there is none. "trec": as trec_eval
        ranks, score descending, ties by document id descending; the stored rank is ignored. Scores
        are compared in 32 bits, as in trec_eval up to version 9 and in pytrec_eval; "trec64"
        compares all 64 bits, as trec_eval 10 does. Lists without any score keep their order.

    Returns
    -------
    One row per hit with the index and order of `hits`; only `rank` (int32) is new.

    Raises
    ------
    DataError
        An unknown `ties`; a stored rank that is missing, negative or twice in one query; for "trec"
        hits without an id, or a list of which only some hits have a score.

    Warns
    -----
    UserWarning
        Stored ranks start at 0 in some lists: all ranks of these lists are moved up by one.
        Stored ranks leave numbers out: they stay as they are.
    """
    check_choice(ties, TIES, "ties")
    ranks = TIES[ties][0](hits) if len(hits) else np.zeros(0)
    return conform(hits.assign(rank=ranks.astype("int32")), "hits")


def collapse_hits(hits: pd.DataFrame) -> pd.DataFrame:
    """Return only the first hit of each document in each run and query, ranks closed up.

    The passage with the best rank represents its document. Hits without a doc_id are kept, since
    they may belong to any document.

    Returns
    -------
    One row per hit kept, in the order and with the index of `hits`; `rank` counts the hits kept,
    from 1.
    """
    if "doc_id" not in hits:
        return hits
    cells = pd.DataFrame({"cell": _cells(hits), "doc": pd.factorize(hits["doc_id"])[0]})
    ranked = cells.iloc[np.argsort(hits["rank"].to_numpy(), kind="stable")]
    is_again = ranked.duplicated() & (ranked["doc"] >= 0)
    rank = ranked[~is_again].groupby("cell").cumcount().sort_index() + 1
    return hits.iloc[rank.index].assign(rank=rank.to_numpy("int32"))


def tied(cell: Codes, hits: pd.DataFrame) -> Flags:
    """Flag hits with the score of another hit of their list; `cell` is the list of each hit."""
    scores = hits.reindex(columns=["score"])["score"].to_numpy("float64", na_value=np.nan)
    rows = pd.DataFrame({"cell": cell, "score": scores})
    return rows.duplicated(keep=False).to_numpy() & ~np.isnan(scores)


def ranked_again(results: Results, hits: pd.DataFrame) -> Results:
    """Return the same results with these of their hits under new ranks.

    Metadata of these hits get the new ranks, too.

    Parameters
    ----------
    hits
        Rows of `results.hits`, with their index.
    """
    if results.hit_meta is None:
        return replace(results, hits=hits)
    keys = [*CELL, "rank"]
    moved = results.hits.loc[hits.index, keys].assign(new=hits["rank"].to_numpy("int32"))
    meta = results.hit_meta.merge(moved, on=keys).drop(columns="rank")
    return replace(results, hits=hits, hit_meta=meta.rename(columns={"new": "rank"}))


def _trec_ranks(hits: pd.DataFrame, dtype: str) -> Codes:
    cell = _cells(hits)
    score = hits.reindex(columns=["score"])["score"].to_numpy("float64", na_value=np.nan)
    without = np.isnan(score)
    share = pd.Series(without).groupby(cell).mean() if without.any() else pd.Series(0)
    if share.between(0, 1, "neither").any():
        raise DataError(
            f"{int(without.sum())} of {len(hits)} hits have no score",
            field="hits.score",
            allowed="a score in every hit of a list or in none, or ties='file'",
        )
    names = [name for name in ("doc_id", "chunk_id") if name in hits and hits[name].notna().any()]
    if not names:
        raise DataError(
            "hits have neither doc_id nor chunk_id",
            field="hits",
            allowed="an id to break ties by, or ties='file'",
        )
    has_ranks = "rank" in hits and hits["rank"].notna().all()
    order = hits["rank"].to_numpy("float64") if has_ranks else np.arange(len(hits))
    with np.errstate(over="ignore"):  # scores beyond 32 bits become infinite, and tie
        score = np.where(without, -order, score).astype(dtype)
    # Arrow compares texts by their bytes, as trec_eval does.
    ids = {name: pa.array(hits[name]).cast(pa.large_string()) for name in names}
    keys = [("cell", "ascending"), *((name, "descending") for name in ("score", *names))]
    ordered = pc.sort_indices(pa.table({"cell": cell, "score": score} | ids), sort_keys=keys)
    return places(cell, ordered.to_numpy().astype(np.int64))


def _file_ranks(hits: pd.DataFrame) -> Codes:
    """Return the stored ranks, or the order of the rows where there are none."""
    cell = _cells(hits)
    if "rank" not in hits or hits["rank"].isna().all():
        return places(cell, np.argsort(cell, kind="stable"))
    rank = hits["rank"]
    allowed = "whole numbers from 1 (or from 0), each once in a query"
    allowed += ", or ties='trec' to rank by score"
    refuse_rows(rank, rank.isna().to_numpy() | ~(rank >= 0).to_numpy(bool), "hits", allowed)
    rows = pd.DataFrame({"cell": cell, "rank": rank.to_numpy().astype(np.int64)})
    is_again = rows.duplicated().to_numpy()
    if is_again.any():
        first = hits.iloc[int(is_again.argmax())]
        raise DataError(
            f"rank {first['rank']} appears twice for query {first['query_id']!r} of run"
            f" {first['run_id']!r} ({int(is_again.sum())} hits are like that)",
            field="hits.rank",
            allowed=allowed,
        )
    # one row per list, in the order of their first hits
    lists = rows.groupby("cell", sort=False)["rank"].agg(["min", "max", "size"])
    lists[CELL] = hits.loc[~rows["cell"].duplicated().to_numpy(), CELL].astype("str").to_numpy()
    from_zero = lists["min"] == 0
    lists["max"] += from_zero
    if from_zero.any():
        warn(
            f"ranks of {', '.join(lists.loc[from_zero, 'run_id'].unique())} start at 0 in"
            f" {int(from_zero.sum())} of {len(lists)} lists: every rank there is moved up by one"
        )
    if len(gaps := lists[lists["max"] != lists["size"]]):
        first = gaps.iloc[0]
        warn(
            f"{len(gaps)} of {len(lists)} lists leave ranks out, such as query"
            f" {first['query_id']!r} of run {first['run_id']!r} with {first['size']} hits up to"
            f" rank {first['max']}: the ranks stay as they are, and ties='trec' ranks by score"
        )
    return rows["rank"].to_numpy() + from_zero.reindex(cell).to_numpy()


def n_contradicting(hits: pd.DataFrame) -> int:
    """Count the lists in which a hit has a higher score than one ranked before it."""
    rows = hits.assign(cell=_cells(hits)).sort_values(["cell", "rank"])
    rises = rows["score"] > rows.groupby("cell")["score"].shift()
    return rows.loc[rises, "cell"].nunique()


def places(cell: Codes, order: Codes) -> Codes:
    """Return the rank of each row within its cell, from 1; `order` sorts rows as they rank."""
    begins = np.flatnonzero(np.diff(cell[order], prepend=-1))
    places = np.empty(len(cell), dtype=np.int64)
    places[order] = np.arange(len(cell)) - np.repeat(begins, np.diff(begins, append=len(cell))) + 1
    return places


def _cells(hits: pd.DataFrame) -> Codes:
    """Return the number of each row's run and query (its cell)."""
    run, query = (pd.factorize(hits[name])[0].astype(np.int64) for name in CELL)
    return run * (query.max(initial=0) + 1) + query


# The values of the policy `ties`, the default first: what ranks the hits, and by what.
TIES: dict[str, tuple[Callable[[pd.DataFrame], Codes], str]] = {
    "file": (_file_ranks, "as the file says (default)"),
    "trec": (partial(_trec_ranks, dtype="float32"), "by score as trec_eval ranks"),
    "trec64": (
        partial(_trec_ranks, dtype="float64"),
        "as trec_eval 10 does, which compares all 64 bits",
    ),
}
