"""Matching, step by step: the rules that join hits to targets, and steps on lists of hits.

A rule is any function `(hits, targets) -> pairs`; `rank_hits`, `collapse_hits`, `filter_hits` and
`judged_only` prepare lists of hits before scoring. Everything here is reached as `rs.match`.
"""

from dataclasses import replace

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.ranking import collapse_hits, rank_hits, ranked_again
from ragscore.scoring.metrics.citations import citations_in
from ragscore.scoring.rules import (
    Rule,
    by_anchor,
    by_chunk,
    by_doc,
    by_predicate,
    by_span,
    texts,
)
from ragscore.scoring.score import scored

__all__ = [
    "Rule", "by_anchor", "by_chunk", "by_doc", "by_predicate", "by_span",
    "collapse_hits", "filter_hits", "judged_only", "parse_citations", "rank_hits",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def filter_hits(results: Results, golden: Golden) -> Results:
    """Keep only hits whose text holds the product that the query filters by, ranked from 1 again.

    The product (`filters: {product: ...}` of a golden row) is searched whatever the case. Queries
    without one, and those that the golden set doesn't have, keep all their hits.

    Returns
    -------
    Results of the same runs; `responses.x_n_filtered` counts the hits dropped from each response.

    Raises
    ------
    DataError
        The text of a hit that would have to be searched has been cut.
    """
    products = golden.checks.loc[golden.checks["kind"].eq("product"), ["query_id", "text"]]
    hits = results.hits.reset_index(drop=True)
    asked = np.flatnonzero(hits["query_id"].isin(products["query_id"]).to_numpy())
    if "text_cut" in hits and (n_cut := int(hits["text_cut"].iloc[asked].fillna(False).sum())):
        raise DataError(
            f"{n_cut} hits have cut text: the part cut off may hold the product",
            field="hits.text",
            allowed="whole texts",
        )
    whole = texts(hits, "text").iloc[asked].str.lower()
    searched = hits.iloc[asked][["query_id"]].assign(hit=asked, whole=whole)
    pairs = searched.merge(products.assign(text=products["text"].str.lower()), on="query_id")
    lacks = [text not in one for text, one in zip(pairs["text"], pairs["whole"], strict=True)]
    keep = ~hits.index.isin(pairs["hit"][lacks])
    keys = ["run_id", "query_id"]
    dropped = hits[~keep].groupby(keys, observed=True).size().rename("x_n_filtered").reset_index()
    responses = results.responses.drop(columns="x_n_filtered", errors="ignore")
    responses = responses.astype({"run_id": "str"}).merge(
        dropped.astype({"run_id": "str"}), on=keys, how="left"
    )
    responses["x_n_filtered"] = responses["x_n_filtered"].fillna(0).astype("Int64")
    return replace(_with_rows(results, keep), responses=responses)


def judged_only(results: Results, golden: Golden) -> Results:
    """Keep only hits that meet a target of any grade, ranked from 1 again (trec_eval's -J).

    Targets are of the level that `match="auto"` chooses.
    """
    rows = scored(results, golden, ["judged@10"]).rows
    keep = np.zeros(len(results.hits), dtype=bool)
    width = int(results.hits["rank"].max() if len(results.hits) else 0) + 1
    place = rows.row_of_hit.astype(np.int64) * width + rows.hits["rank"].to_numpy()
    for level in rows.level.used:
        matched = rows.matched_at(level)
        keep |= np.isin(place, matched.row * width + matched.rank) & (rows.row_of_hit >= 0)
    return _with_rows(results, keep)


def _with_rows(results: Results, keep: np.ndarray) -> Results:
    """Return results with some of their hits, ranks closed up."""
    results = replace(results, hits=results.hits.reset_index(drop=True))
    left = results.hits[keep].sort_values("rank", kind="stable")
    rank = left.groupby(["run_id", "query_id"], observed=True).cumcount() + 1
    return ranked_again(results, left.assign(rank=rank.astype("int32")).sort_index())


def parse_citations(answers: pd.Series) -> pd.DataFrame:
    """Find the citations in the answers' text.

    Read are, in any case of letters, `[File: path, Section: heading]`, the same with quotes around
    path or heading, `[path.md, Section: heading]`, `(File: path, Section: heading)` and `File:
    path.md, Section: heading`. Citations of a block that begins with `Citations:` come first. A
    path that holds a comma is not read.

    Returns
    -------
    One row per answer and cited (path, heading), each once: `answer`, the label of the text in the
    index of `answers`; `position` (from 1), `path`, `heading`.
    """
    rows = [
        (label, position, *one)
        for label, text in answers.astype("str").fillna("").items()
        for position, one in enumerate(citations_in(text), 1)
    ]
    found = pd.DataFrame(rows, columns=["answer", "position", "path", "heading"])
    return found.astype({"position": "int32", "path": "str", "heading": "str"})
