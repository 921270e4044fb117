"""What each citation points at: hits of its query, or chunks of its run's catalogue.

In: citations with the position of their response, `place`. Out: whether they resolve, and the
passages they are of, with the locators that hits and catalogue know.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import Codes, equal_pairs, lookup
from ragscore.frames.data import KINDS, Results
from ragscore.scoring.matching import has_spans

Flags = npt.NDArray[np.bool_]

LOCATORS = ("chunk_id", "doc_id", "path", "heading", "start", "end", "span_unit")


def has(frame: pd.DataFrame, column: str) -> Flags:
    """Where a column that may be absent holds a value."""
    return frame[column].notna().to_numpy() if column in frame else np.zeros(len(frame), dtype=bool)


@dataclass(frozen=True)
class Source:
    """Chunks that citations may point at.

    `rows`, the `scope` of each, and the scope in which each citation looks for them.

    A scope is a response (hits), a run (its catalogue) or 0 (a catalogue shared by all); -1 is
    none.
    """

    rows: pd.DataFrame
    scope: Codes
    scope_of_cited: Codes

    def pairs(self, cited: pd.DataFrame, key: str, with_span: bool = False) -> tuple[Codes, Codes]:
        """Row positions of each citation and the first chunk of its scope with an equal `key`.

        Or, `with_span`, every such chunk whose span holds its own.
        """
        none = np.zeros(0, dtype=np.int64)
        if not len(cited) or not len(self.rows) or key not in cited or key not in self.rows:
            return none, none
        if with_span and not (
            has_spans(cited, "citations")
            and has_spans(self.rows, "hits" if "query_id" in self.rows else "chunks")
        ):
            return none, none
        ids = pd.Index(cited[key].dropna().unique())
        sides = ((self.scope_of_cited, cited), (self.scope, self.rows))
        a, b = (
            np.where(
                (scope < 0) | ((code := lookup(frame[key], ids)) < 0), -1, scope * len(ids) + code
            )
            for scope, frame in sides
        )
        one, other = equal_pairs(a, b, only_first=not with_span)
        held = (
            _is_inside(cited.iloc[one], self.rows.iloc[other])
            if with_span
            else np.ones(len(one), dtype=bool)
        )
        return one[held], other[held]

    def holds(self, cited: pd.DataFrame, key: str, with_span: bool = False) -> Flags:
        """Whether each citation has such a chunk."""
        found = np.zeros(len(cited), dtype=bool)
        found[self.pairs(cited, key, with_span)[0]] = True
        return found


def hits_of(results: Results, place_of_hits: Codes, place: Codes) -> Source:
    """The hits of the responses that cite, for citations of these responses."""
    near = np.flatnonzero(np.isin(place_of_hits, place) & (place_of_hits >= 0))
    return Source(results.hits.iloc[near], place_of_hits[near], place)


def catalogue_of(results: Results, cited: pd.DataFrame) -> list[Source]:
    """The chunk catalogue: rows of the citation's own run, and rows that belong to every run."""
    chunks = results.chunks
    if chunks is None:
        return []
    for_all = np.zeros(len(cited), dtype=np.int64)
    if "run_id" not in chunks:
        return [Source(chunks, np.zeros(len(chunks), dtype=np.int64), for_all)]
    is_shared = chunks["run_id"].isna().to_numpy()
    own, shared = chunks[~is_shared], chunks[is_shared]
    run_ids = results.runs["run_id"].cat.categories
    return [
        Source(own, lookup(own["run_id"], run_ids), lookup(cited["run_id"], run_ids)),
        Source(shared, np.zeros(len(shared), dtype=np.int64), for_all),
    ]


def is_resolved(cited: pd.DataFrame, sources: list[Source]) -> Flags:
    """Whether each citation points at something the system really had.

    With a chunk id: that id is among the hits of the same query, or in the run's chunk catalogue
    (rows of it without a run_id belong to every run). Without one: its path is there and its span
    lies inside the chunk's; a citation that by its kind has no span (an image's region or caption)
    needs the path only, one that has a document's id and no path needs that id.
    """
    resolved = np.zeros(len(cited), dtype=bool)
    has_chunk, has_span, has_path = has(cited, "chunk_id"), has(cited, "start"), has(cited, "path")
    for source in sources:
        resolved |= has_chunk & source.holds(cited, "chunk_id")
        resolved |= ~has_chunk & ~has_span & source.holds(cited, "path")
        resolved |= ~has_chunk & has_span & source.holds(cited, "path", with_span=True)
        resolved |= ~has_chunk & ~has_path & source.holds(cited, "doc_id")
    return resolved


def cited_passages(
    results: Results, citations: pd.DataFrame, place: Codes, place_of_hits: Codes
) -> pd.DataFrame:
    """Each passage that a response cites, once.

    Two citations are of one passage if all their locators are equal, or, without any, their
    markers. Locators that a citation leaves out are those of the hit of its query, or of the chunk
    of the catalogue, that it points at.

    Returns
    -------
    One row per response and passage: `place` of the response, run_id, query_id, `rank` (the
    position of its first citation), `n_cited` (how often), locators, `is_retrieved` (it is among
    the hits of the query).
    """
    is_retrieved = is_resolved(citations, [hits_of(results, place_of_hits, place)])
    cited = citations.assign(place=place, rank=citations["position"], is_retrieved=is_retrieved)
    cited = cited.sort_values(["place", "rank"], kind="stable", ignore_index=True)
    located = np.any([has(cited, name) for name in LOCATORS], axis=0)
    key = cited[["place", *(name for name in LOCATORS if name in cited)]].assign(
        nameless=np.where(located | has(cited, "marker"), -1, np.arange(len(cited)))
    )
    if "marker" in cited:
        key = key.assign(marker=cited["marker"].mask(located))
    passage = key.groupby(list(key.columns), dropna=False, sort=False).ngroup().to_numpy()
    passages = cited[~pd.Series(passage).duplicated().to_numpy()].reset_index(drop=True)
    passages = passages.assign(n_cited=np.bincount(passage, minlength=len(passages)))
    return _located(
        passages,
        [
            hits_of(results, place_of_hits, passages["place"].to_numpy()),
            *catalogue_of(results, passages),
        ],
    )


def _located(passages: pd.DataFrame, sources: list[Source]) -> pd.DataFrame:
    """The passages with ids and spans that hits or catalogue know and the citation didn't say."""
    dtypes = KINDS["citations"].dtypes
    columns = {
        name: (
            passages[name]
            if name in passages
            else pd.Series(pd.NA, index=passages.index, dtype=dtypes[name])
        )
        for name in LOCATORS
    }
    filled = passages.assign(**columns)
    for source in sources:
        filled = _filled(
            filled, source, "chunk_id", ["doc_id", "path", "heading", "start", "end", "span_unit"]
        )
        filled = _filled(filled, source, "path", ["chunk_id", "doc_id", "heading"], with_span=True)
        filled = _filled(filled, source, "path", ["doc_id"])
        filled = _filled(filled, source, "doc_id", ["path"])
    return filled


def _filled(
    passages: pd.DataFrame, source: Source, key: str, names: list[str], with_span: bool = False
) -> pd.DataFrame:
    """The passages with `names` taken from the first chunk that has the same key, and holds their span if asked."""
    lacking = [name for name in names if name in source.rows and passages[name].isna().any()]
    one, other = (
        source.pairs(passages, key, with_span)
        if lacking
        else (np.zeros(0, np.int64), np.zeros(0, np.int64))
    )
    row, first = np.unique(one, return_index=True)
    if not len(row):
        return passages
    known = source.rows[lacking].iloc[other[first]].set_axis(row, axis=0).reindex(passages.index)
    return passages.assign(
        **{
            name: (
                passages[name].where(
                    passages[name].notna(), known[name].astype(passages[name].dtype)
                )
            )
            for name in lacking
        }
    )


def _is_inside(cited: pd.DataFrame, chunks: pd.DataFrame) -> Flags:
    start, end, within_start, within_end = (
        frame[name].to_numpy("float64", na_value=np.nan)
        for frame, name in ((cited, "start"), (cited, "end"), (chunks, "start"), (chunks, "end"))
    )
    same_unit = (
        cited["span_unit"].astype("str").to_numpy() == chunks["span_unit"].astype("str").to_numpy()
    )
    return np.asarray((start >= within_start) & (end <= within_end) & same_unit, dtype=bool)
