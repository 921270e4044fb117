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

from ragscore.frames.codes import coded, codes_of
from ragscore.frames.data import DataError, Results, conform
from ragscore.frames.errors import check_choice, warn
from ragscore.frames.kinds import refuse_rows
from ragscore.frames.typing import Codes, Flags


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
        Stored ranks start at 0 in some lists: those of these lists are moved up by one. Stored
        ranks leave numbers out: they stay as they are.
    """
    check_choice(ties, TIES, "ties")
    ranks = TIES[ties][0](hits) if len(hits) else np.zeros(0)
    return conform(hits.assign(rank=ranks.astype("int32")), "hits")


def collapse_hits(hits: pd.DataFrame) -> pd.DataFrame:
    """Return only the first hit of each document in each run and query, ranks closed up.

    The passage with the best rank stands for its document. Hits without a doc_id are kept, since
    they may belong to any document.

    Returns
    -------
    One row per hit kept, in the order and with the index of `hits`; `rank` counts the hits kept,
    from 1.
    """
    if "doc_id" not in hits or not len(hits):
        return hits
    cell, doc = _cells(hits), _codes(hits["doc_id"])
    order = np.lexsort((hits["rank"].to_numpy(), cell))
    ranked = pd.DataFrame({"cell": cell, "doc": doc}).iloc[order]
    is_kept = (~ranked.duplicated() | (ranked["doc"] < 0)).to_numpy()
    rank = np.zeros(len(hits), dtype="int32")
    rank[order[is_kept]] = ranked[is_kept].groupby("cell").cumcount() + 1
    return hits[rank > 0].assign(rank=rank[rank > 0])


def tied(cell: Codes, hits: pd.DataFrame) -> Flags:
    """Flag hits with the score of another hit of their list; `cell` is the list of each hit."""
    scores = hits.reindex(columns=["score"])["score"].to_numpy("float64", na_value=np.nan)
    is_repeated = pd.DataFrame({"cell": cell, "score": scores}).duplicated(keep=False)
    return is_repeated.to_numpy() & ~np.isnan(scores)


def collapsed(results: Results) -> Results:
    """Return the same results with each document's first hit only, ranks closed up."""
    return ranked_again(results, collapse_hits(results.hits))


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
    keys = ["run_id", "query_id", "rank"]
    moved = results.hits.loc[hits.index, keys].assign(new=hits["rank"].to_numpy("int32"))
    sides = [one.astype({"run_id": "str"}) for one in (results.hit_meta, moved)]
    meta = sides[0].merge(sides[1], on=keys).drop(columns="rank").rename(columns={"new": "rank"})
    return replace(results, hits=hits, hit_meta=meta)


def _trec_ranks(hits: pd.DataFrame, dtype: str) -> Codes:
    cell = _cells(hits)
    score = hits["score"].to_numpy("float64") if "score" in hits else np.full(len(hits), np.nan)
    if (without := np.isnan(score)).any():
        n_hits, n_without = np.bincount(cell), np.bincount(cell[without], minlength=cell.max() + 1)
        if ((n_without > 0) & (n_without < n_hits)).any():
            raise DataError(
                f"{int(without.sum())} of {len(hits)} hits have no score",
                field="hits.score",
                allowed="a score in every hit of a list or in none, or ties='file'",
            )
        has_ranks = "rank" in hits and hits["rank"].notna().all()
        order = hits["rank"].to_numpy() if has_ranks else np.arange(len(hits))
        score = np.where(without, -order.astype("float64"), score)
    names = [name for name in ("doc_id", "chunk_id") if name in hits and hits[name].notna().any()]
    if not names:
        raise DataError(
            "hits have neither doc_id nor chunk_id",
            field="hits",
            allowed="an id to break ties by, or ties='file'",
        )
    with np.errstate(over="ignore"):  # scores beyond 32 bits become infinite, and tie
        score = score.astype(dtype)
    # Arrow compares texts by their bytes, as trec_eval does.
    columns = {"cell": cell, "score": score} | {
        name: pa.array(hits[name]).cast(pa.large_string()) for name in names
    }
    keys = [
        ("cell", "ascending"),
        ("score", "descending"),
        *((name, "descending") for name in names),
    ]
    return _places(
        cell, pc.sort_indices(pa.table(columns), sort_keys=keys).to_numpy().astype(np.int64)
    )


def _file_ranks(hits: pd.DataFrame) -> Codes:
    """Return the stored ranks, or the order of the rows where there are none."""
    cell = _cells(hits)
    if "rank" not in hits or hits["rank"].isna().all():
        return _places(cell, np.argsort(cell, kind="stable"))
    rank = hits["rank"]
    allowed = "whole numbers from 1 (or from 0), each once in a query"
    allowed += ", or ties='trec' to rank by score"
    refuse_rows(rank, rank.isna().to_numpy() | ~(rank >= 0).to_numpy(bool), "hits", allowed)
    rows = pd.DataFrame({"cell": cell, "rank": rank.to_numpy().astype(np.int64)})
    twice = rows.duplicated().to_numpy()
    if twice.any():
        first = hits.iloc[int(twice.argmax())]
        raise DataError(
            f"rank {first['rank']} appears twice for query {first['query_id']!r} of run"
            f" {first['run_id']!r} ({int(twice.sum())} hits are like that)",
            field="hits.rank",
            allowed=allowed,
        )
    ranks = rows.groupby("cell")["rank"]
    from_zero = ranks.transform("min").eq(0).to_numpy()
    is_first = ~rows["cell"].duplicated().to_numpy()
    n_lists = int(is_first.sum())
    if from_zero.any():
        named = ", ".join(hits["run_id"].astype("str")[from_zero].unique())
        warn(
            f"ranks of {named} start at 0 in {int((from_zero & is_first).sum())} of {n_lists}"
            " lists: every rank there is moved up by one"
        )
    n_hits, last = ranks.transform("size"), ranks.transform("max") + from_zero
    has_gaps = is_first & last.ne(n_hits).to_numpy()
    if has_gaps.any():
        at = int(has_gaps.argmax())
        first = hits.iloc[at]
        warn(
            f"{int(has_gaps.sum())} of {n_lists} lists leave ranks out, such as query"
            f" {first['query_id']!r} of run {first['run_id']!r} with {n_hits[at]} hits up to rank"
            f" {last[at]}: the ranks stay as they are, and ties='trec' ranks by score"
        )
    return rows["rank"].to_numpy() + from_zero


def n_contradicting(hits: pd.DataFrame) -> int:
    """Count the lists in which a hit has a higher score than one ranked before it."""
    cell, rank = _cells(hits), hits["rank"].to_numpy()
    order = np.lexsort((rank, cell))
    scores = hits["score"].to_numpy("float64")[order]
    rises = scores[1:] > scores[:-1]  # a difference of two infinities would be none
    rises &= np.diff(cell[order]) == 0
    return len(np.unique(cell[order[1:]][rises]))


def _places(cell: Codes, order: Codes) -> Codes:
    """Return the rank of each row within its cell, from 1.

    `order` sorts the rows by cell, and within a cell as they should rank.
    """
    begins = np.flatnonzero(np.diff(cell[order], prepend=-1))
    places = np.empty(len(cell), dtype=np.int64)
    places[order] = np.arange(len(cell)) - np.repeat(begins, np.diff(begins, append=len(cell))) + 1
    return places


def _cells(hits: pd.DataFrame) -> Codes:
    """Return one number per row that tells its run and query (its cell)."""
    query = _codes(hits["query_id"])
    return _codes(hits["run_id"]) * (query.max(initial=0) + 1) + query


def _codes(column: pd.Series) -> Codes:
    """Return the values of a column as codes from 0, -1 for NA."""
    return codes_of(coded(column)).astype(np.int64)


# The values of the policy `ties`, the default first: what ranks the hits, and what it goes by.
TIES: dict[str, tuple[Callable[[pd.DataFrame], Codes], str]] = {
    "file": (_file_ranks, "as the file says (default)"),
    "trec": (partial(_trec_ranks, dtype="float32"), "by score as trec_eval ranks"),
    "trec64": (
        partial(_trec_ranks, dtype="float64"),
        "as trec_eval 10 does, which compares all 64 bits",
    ),
}
