"""Hits of some runs, each passage, chunk or document once, with the runs that found it.

Also the snippets by which a passage is found again in any chunk that contains it: exact words of
its text, never cut with an ellipsis.
"""

import re
from collections.abc import Iterable

import pandas as pd

from ragscore.frames.data import Results
from ragscore.scoring.rules import ELLIPSES, Rule, by_anchor, by_chunk, by_doc

RULES: dict[str, Rule] = {"anchor": by_anchor(), "chunk": by_chunk, "doc": by_doc}
SHOWN = (
    "path", "heading", "text", "text_cut", "chunk_id", "doc_id", "start", "end", "span_unit",
    "chunker_version",
)  # fmt: skip


def pooled_hits(results: Results, level: str, k: int) -> pd.DataFrame:
    """Return the first k hits of each run, once per passage, chunk or document.

    Passages are one if they have the same text at the same place, else if they have the same chunk
    id.

    Returns
    -------
    One row per query and passage: `rank` (the best), `found` ("bm25 3, dense 1"), and chunk_id,
    doc_id, path, heading, span, text, what of these the hits have; best rank first, then more runs.
    """
    hits = results.hits[(results.hits["rank"] <= k).to_numpy()].reset_index(drop=True)
    columns = hits.reindex(columns=SHOWN)
    if results.chunks is not None and {"chunk_id", "text"} <= {*results.chunks}:
        texts = results.chunks.drop_duplicates("chunk_id").set_index("chunk_id")["text"]
        columns["text"] = (
            columns["chunk_id"].map(texts).astype("str").fillna(columns["text"].astype("str"))
        )
    if "chunker_version" in results.runs:
        of_run = results.runs.set_index(results.runs["run_id"].astype("str"))["chunker_version"]
        stated = hits["run_id"].astype("str").map(of_run).astype("str")
        columns["chunker_version"] = columns["chunker_version"].astype("str").fillna(stated)
    text = columns.astype("str").where(columns.notna())
    place = text["path"].fillna(text["doc_id"]).fillna("")
    spot = place + "\0" + text[["heading", "start", "end"]].fillna("").agg("\0".join, axis=1)
    by_text = place + "\0" + text["text"]
    name = by_text.fillna(text["chunk_id"]) if level == "anchor" else text[f"{level}_id"]
    hits = hits[["query_id", "rank"]].assign(
        **columns.dropna(axis=1, how="all"),
        run=hits["run_id"].cat.codes, run_id=hits["run_id"].astype("str"),
        passage=name.fillna(spot),
    )  # fmt: skip
    key = ["query_id", "passage"]
    hits = hits.sort_values(["rank", "run"], kind="stable")
    by_run = hits.drop_duplicates([*key, "run"]).sort_values("run", kind="stable")
    told = (by_run["run_id"] + " " + by_run["rank"].astype("str")).groupby(
        [by_run[name] for name in key]
    )
    pool = hits.drop_duplicates(key).set_index(key)
    pool = pool.assign(found=told.agg(", ".join), n_runs=told.size()).reset_index()
    pool = pool.sort_values(
        ["query_id", "rank", "n_runs", "run"], ascending=[True, True, False, True],
        kind="stable", ignore_index=True,
    )  # fmt: skip
    shown = ["query_id", "rank", "found", *(name for name in SHOWN if name in pool)]
    return pool[shown].astype({"query_id": "str"})


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
    pieces = [_cut(one) for line in text.split("\n") for one in _SENTENCE.split(line.strip())]
    found = [piece for piece in pieces if re.search(r"\w", piece)]
    if not found:
        return None
    elsewhere = [other.lower() for other in others]
    own = [one for one in found if not any(one.lower() in other for other in elsewhere)] or found
    long = [one for one in own if len(one) >= SHORTEST and len(one.split()) >= FEWEST]
    return long[0] if long else max(own, key=len)


def _cut(sentence: str) -> str:
    for mark in ELLIPSES:  # of a text that was cut when it was stored
        sentence = sentence.removesuffix(mark)
    if len(sentence) <= LONGEST:
        return sentence.strip()
    words = sentence[: LONGEST + 1].rsplit(None, 1)[0]
    return words[:LONGEST].strip()
