"""Pooled hits of one or several runs: each passage once, with the runs that found it.

In: `Results`. Out: one row per query and passage, in the order in which they are shown. Also the
snippets by which a passage is found again in any chunk that contains it: exact words of its text,
never cut with an ellipsis.
"""

import re
from collections.abc import Iterable

import pandas as pd

from ragscore.frames.data import Results, run_names
from ragscore.scoring.rules import (
    ELLIPSES,
    Rule,
    by_anchor,
    by_chunk,
    by_doc,
    matched_pairs,
)

LABELS = ["grade", "own_grade", "labels"]
RULES: dict[str, Rule] = {"chunk": by_chunk, "anchor": by_anchor(), "doc": by_doc}
SHOWN = (
    "chunk_id",
    "doc_id",
    "path",
    "heading",
    "start",
    "end",
    "span_unit",
    "text",
    "text_cut",
    "chunker_version",
    "source_key",
)


def pooled_hits(
    results: Results,
    runs: list[str] | None = None,
    *,
    depth: int = 20,
    texts: pd.DataFrame | None = None,
    by_id: bool = False,
) -> pd.DataFrame:
    """Pool the first `depth` hits of each run; each passage is listed once.

    Hits are one passage if they have the same text at the same place, else if they have the same
    chunk id (with `by_id`, only then).

    Returns
    -------
    One row per `query_id` and `number` (from 1: best rank first, then more runs, then the order of
    runs): `best_rank`, `n_runs`, `found` ("bm25 3, dense 1"), and chunk_id, doc_id, path, heading,
    span, text, what of these the hits have.
    """
    names = run_names(
        results.runs, list(results.runs["run_id"].astype("str")) if runs is None else runs
    )
    hits = results.select(names).hits
    hits = hits[(hits["rank"] <= depth).to_numpy()].reset_index(drop=True)
    hits = _with_texts(hits, texts if texts is not None else results.chunks)
    hits = hits.assign(passage=_passages(hits, by_id), run=hits["run_id"].cat.codes.to_numpy())
    ordered = hits.sort_values(["query_id", "passage", "rank", "run"], kind="stable")
    first = ordered.drop_duplicates(["query_id", "passage"]).set_index(["query_id", "passage"])
    by_run = ordered.drop_duplicates(["query_id", "passage", "run"]).sort_values(
        ["query_id", "passage", "run"], kind="stable"
    )
    found = by_run.assign(
        found=by_run["run_id"].astype("str") + " " + by_run["rank"].astype("str")
    ).groupby(["query_id", "passage"], sort=False)["found"]
    pool = first[[name for name in SHOWN if name in first]].assign(
        best_rank=first["rank"], run=first["run"], n_runs=found.size(), found=found.agg(", ".join)
    )
    pool = pool.reset_index().sort_values(
        ["query_id", "best_rank", "n_runs", "run"],
        ascending=[True, True, False, True],
        kind="stable",
        ignore_index=True,
    )
    number = pool.groupby("query_id", sort=False).cumcount() + 1
    front = ["query_id", "number", "best_rank", "n_runs", "found"]
    return pool.assign(number=number)[[*front, *(name for name in SHOWN if name in pool)]]


def _with_texts(hits: pd.DataFrame, known: pd.DataFrame | None) -> pd.DataFrame:
    """Return the hits with the best known text.

    That is the text of the table of passages, else their own, else the longest that another hit of
    the same chunk has.
    """
    text = (
        hits["text"].replace("", pd.NA)
        if "text" in hits
        else pd.Series(pd.NA, index=hits.index, dtype="str")
    )
    if "chunk_id" not in hits:
        return hits.assign(text=text)
    longest = (
        pd.DataFrame({"chunk_id": hits["chunk_id"], "text": text, "length": text.str.len()})
        .dropna()
        .sort_values("length", ascending=False)
    )
    sources = [longest[["chunk_id", "text"]]]
    if known is not None and {"chunk_id", "text"} <= set(known.columns):
        sources.insert(0, known[["chunk_id", "text"]].dropna())
    table = pd.concat(sources, ignore_index=True).drop_duplicates("chunk_id").reset_index(drop=True)
    found = (
        table["text"]
        .reindex(pd.Index(table["chunk_id"]).get_indexer(pd.Index(hits["chunk_id"])))
        .set_axis(hits.index, axis=0)
        .astype("str")
    )
    cut = (
        {
            "text_cut": (
                hits["text_cut"].astype("boolean")
                & (found.isna() | (found == text)).astype("boolean")
            )
        }
        if "text_cut" in hits
        else {}
    )
    return hits.assign(text=found.fillna(text), **cut)


def _passages(hits: pd.DataFrame, by_id: bool) -> pd.Series:
    """Return one number per hit, equal for hits of the same passage."""
    column = {
        name: (
            hits[name].astype("str")
            if name in hits
            else pd.Series(pd.NA, index=hits.index, dtype="str")
        )
        for name in SHOWN
    }
    place = column["path"].fillna(column["doc_id"]).fillna(column["source_key"]).fillna("")
    by_chunk_id = "id\x00" + column["chunk_id"]
    by_text = "text\x00" + place + "\x00" + column["text"]
    spot = "spot\x00" + place
    for name in ("heading", "start", "end"):
        spot += "\x00" + column[name].fillna("")
    first, second = (by_chunk_id, by_text) if by_id else (by_text, by_chunk_id)
    return pd.Series(pd.factorize(first.fillna(second).fillna(spot))[0], index=hits.index)


def labels_of(pool: pd.DataFrame, targets: pd.DataFrame) -> pd.DataFrame:
    """Return the targets that each passage meets, by the rules that score runs.

    Returns
    -------
    One row per passage and target: `row` (position in the pool), `level`, `target_id`, `grade`;
    finest level first.
    """
    parts = []
    for level, rule in RULES.items():
        here = targets[(targets["level"] == level).to_numpy()].reset_index(drop=True)
        hit, target = matched_pairs(rule, pool, here)
        met = here.iloc[target]
        columns = {
            "row": hit,
            "level": level,
            "target_id": met["target_id"].to_numpy(),
            "grade": met["grade"].to_numpy(),
        }
        parts.append(pd.DataFrame(columns).astype({"level": "str", "target_id": "str"}))
    return pd.concat(parts, ignore_index=True).drop_duplicates(ignore_index=True)


def with_labels(pool: pd.DataFrame, targets: pd.DataFrame, level: str) -> pd.DataFrame:
    """Return the pool with the labels that each passage has so far.

    Returns
    -------
    The same rows with `grade` (the best that it has at any level; NA: not judged), `own_grade` (at
    this level) and `labels` ("doc numpy.rint = 2, anchor ..."; empty: none).
    """
    found = labels_of(pool, targets)
    said = found.assign(
        said=found["level"]
        + " "
        + found["target_id"]
        + found["grade"].map(lambda grade: "" if grade == 1 else f" = {grade}").astype("str")
    )
    by_row, own = (
        said.groupby("row", sort=False),
        found[(found["level"] == level).to_numpy()].groupby("row")["grade"].max(),
    )
    rows = pd.RangeIndex(len(pool))
    return pool.assign(
        grade=by_row["grade"].max().reindex(rows).astype("Int64").to_numpy(),
        own_grade=own.reindex(rows).astype("Int64").to_numpy(),
        labels=by_row["said"].agg(", ".join).reindex(rows).fillna("").astype("str").to_numpy(),
    ).astype({"grade": "Int64", "own_grade": "Int64", "labels": "str"})  # fmt: skip


LONGEST, SHORTEST = 100, 12  # characters
FEWEST = 3  # words; a name alone occurs in many passages
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+")


def snippet_of(text: str, others: Iterable[str] = ()) -> str | None:
    """Return a sentence of a text, or its first 100 characters cut between words.

    It is the first sentence that none of the `others` (hits of the same place) contains, so that
    the label doesn't cover them too. Sentences lie within one line, because another chunker may
    join or cut lines. Without a sentence of three words the longest one is returned, without any
    words None.
    """
    found = [
        piece
        for line in text.split("\n")
        for piece in (_cut(one) for one in _SENTENCE.split(line.strip()))
        if re.search(r"\w", piece)
    ]
    if not found:
        return None
    elsewhere = [other.lower() for other in others]
    own = [
        piece for piece in found if not any(piece.lower() in other for other in elsewhere)
    ] or found
    return next(
        (piece for piece in own if len(piece) >= SHORTEST and len(piece.split()) >= FEWEST),
        max(own, key=len),
    )


def _cut(sentence: str) -> str:
    for mark in ELLIPSES:  # of a text that was cut when it was stored
        sentence = sentence.removesuffix(mark)
    if len(sentence) <= LONGEST:
        return sentence.strip()
    words = sentence[: LONGEST + 1].rsplit(None, 1)[0]
    return words[:LONGEST].strip()
