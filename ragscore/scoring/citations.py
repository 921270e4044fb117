"""What an answer cites, as sets.

The passages cited, those the system retrieved, and those that answer the question.

In: the citations of `Results`, its hits and chunk catalogue, and the golden targets. Out: one value
per response. Citations have the shape of hits, so what they earn is decided by the rules that judge
hits.

What each citation points at: hits of its query, or chunks of its run's catalogue.

In: citations with the position of their response, `place`. Out: whether they resolve, and the
passages they are of, with the locators that hits and catalogue know.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import Codes, equal_pairs, is_among, lookup
from ragscore.frames.data import KINDS, Golden, Results
from ragscore.scoring.grading import grade_hits, level_rule
from ragscore.scoring.level import Level
from ragscore.scoring.matching import LEVELS, at_level, has_spans, level_rows

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


Values = npt.NDArray[np.float64]

SETS = (
    "citation_precision",
    "citation_recall",
    "retrieved_cited",
    "citation_fabricated",
    "citation_out_of_scope",
    "citation_duplicate",
)
COMPARED = {"chunk": "chunk_id", "span": "start", "anchor": "path", "doc": "doc_id"}
"""Match level -> what a citation must carry to be matched there. The metadata that predicates ask for, no citation has."""


def score_citations(
    results: Results,
    golden: Golden,
    responses: pd.DataFrame,
    passages: pd.DataFrame,
    place_of_hits: Codes,
    level: Level,
) -> dict[str, Values]:
    """Set measures of the passages that each response cites (see `cited_passages`).

    Targets are matched at the scoring's level or, where the citations don't carry what that
    compares, the next coarser one.

    Returns
    -------
    `citation_precision`, `citation_recall`, `retrieved_cited`, `citation_fabricated`,
    `citation_out_of_scope` and `citation_duplicate`, as `rs.metrics()` defines them, in the order
    of `responses`; NaN where there is nothing to divide by.
    """
    n, place = len(responses), passages["place"].to_numpy()
    earned, met, wanted = _earned(
        results, golden, passages, responses, _levels(level, golden, passages)
    )
    outside, is_bounded = _outside(results, passages, responses)
    n_hits = np.bincount(place_of_hits[place_of_hits >= 0], minlength=n)

    def total(values: npt.ArrayLike) -> Values:
        return np.bincount(place, np.asarray(values, dtype="float64"), n).astype(
            "float64", copy=False
        )

    n_passages, n_cited = total(np.ones(len(place))), total(passages["n_cited"])
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "citation_precision": np.where(wanted > 0, earned / n_passages, np.nan),
            "citation_recall": met / wanted,
            "retrieved_cited": _cited_hits(results, passages, place_of_hits, n) / n_hits,
            "citation_fabricated": total(~passages["is_retrieved"]) / n_passages,
            "citation_out_of_scope": total(outside) / total(is_bounded),
            "citation_duplicate": 1 - n_passages / n_cited,
        }


def _levels(level: Level, golden: Golden, passages: pd.DataFrame) -> list[str]:
    """The levels to match at, finest first.

    One for all, unless each query is matched at its finest.

    Citations that carry nothing levels_with_targets can't be judged; where nothing is cited at all, there is
    nothing to carry it.
    """
    carried = (
        list(level.cited)
        if level.cited is not None
        else levels_with_targets(
            golden, citation_levels(passages) if len(passages) else set(COMPARED)
        )
    )
    if level.name == "per_query":
        return [name for name in carried if name in level.joinable]
    return [name for name in carried if LEVELS.index(name) >= LEVELS.index(level.name)][:1]


def citation_levels(passages: pd.DataFrame) -> set[str]:
    """The levels at which some passage carries what is compared there."""
    return {name for name, column in COMPARED.items() if has(passages, column).any()}


def levels_with_targets(golden: Golden, carried: set[str]) -> list[str]:
    """Of the levels that citations carry, those with targets, finest first."""
    return [name for name in COMPARED if name in carried and level_rows(golden.coded, name).any()]


def _earned(
    results: Results,
    golden: Golden,
    passages: pd.DataFrame,
    responses: pd.DataFrame,
    levels: list[str],
) -> tuple[Values, Values, Values]:
    """For each response: passages of grade ≥ 1, targets that they meet, and targets that there are."""
    earned, met, wanted = (np.zeros(len(responses)) for _ in range(3))
    place = passages[["run_id", "query_id", "rank", "place"]].astype({"run_id": "str"})
    for level in reversed(levels):
        targets = at_level(golden, level).targets
        good = found = np.zeros(len(responses))
        if len(passages):
            graded, _ = grade_hits(
                passages, targets, level_rule(level, results, golden, stored=False)
            )
            graded = graded.astype({"run_id": "str"}).merge(
                place, on=["run_id", "query_id", "rank"]
            )
            good, found = (
                np.bincount(graded["place"], values, len(responses)).astype("float64")
                for values in (graded["grade"] > 0, graded["n_found"])
            )
        here = (
            responses["query_id"]
            .map(targets[targets["grade"] > 0].groupby("query_id")["target_id"].nunique())
            .to_numpy("float64", na_value=0.0)
        )
        earned, met, wanted = (
            np.where(here > 0, new, old)
            for new, old in ((good, earned), (found, met), (here, wanted))
        )
    return earned, met, wanted


def _cited_hits(results: Results, passages: pd.DataFrame, place_of_hits: Codes, n: int) -> Values:
    """How many hits of each response are cited: by chunk id, else by document, else by path."""
    near = np.flatnonzero(
        np.isin(place_of_hits, passages["place"].to_numpy()) & (place_of_hits >= 0)
    )
    hits = results.hits.iloc[near]
    cited_by = Source(passages, passages["place"].to_numpy(), place_of_hits[near])
    undecided, cited = np.ones(len(hits), dtype=bool), np.zeros(len(hits), dtype=bool)
    for name in ("chunk_id", "doc_id", "path"):
        cited |= undecided & cited_by.holds(hits, name)
        undecided &= ~has(hits, name)
    return np.bincount(place_of_hits[near], cited, n).astype("float64", copy=False)


def _outside(
    results: Results, passages: pd.DataFrame, responses: pd.DataFrame
) -> tuple[Flags, Flags]:
    """Passages outside what the run may cite, and those of which that can be told.

    The run has a catalogue, or the response states folders.
    """
    chunks = results.chunks
    runs = passages["run_id"].astype("str")
    in_known_run = (
        np.zeros(len(passages), dtype=bool)
        if chunks is None
        else np.ones(len(passages), dtype=bool)
    )
    if chunks is not None and "run_id" in chunks and chunks["run_id"].notna().all():
        in_known_run = is_among(runs, chunks["run_id"])
    outside = in_known_run & ~is_resolved(passages, catalogue_of(results, passages))
    folders = _folders(responses)
    bounded = passages["place"].isin(folders["place"]).to_numpy() & has(passages, "path")
    pairs = (
        passages.loc[bounded, ["place", "path"]]
        .rename_axis("row")
        .reset_index()
        .merge(folders, on="place")
    )
    # A prefix search has no column form in pandas where both sides vary by row.
    is_in = [
        path == folder or path.startswith(folder + "/")
        for path, folder in zip(pairs["path"], pairs["folder"], strict=True)
    ]
    outside |= bounded & ~passages.index.isin(pairs.loc[is_in, "row"])
    return outside, in_known_run | bounded


def _folders(responses: pd.DataFrame) -> pd.DataFrame:
    """The folders that responses state as their scope, `{"folders": [...]}`.

    One row per response (`place`) and folder; no folder means all.
    """
    stated = (
        responses["scope"].reset_index(drop=True).dropna()
        if "scope" in responses
        else pd.Series(dtype="str")
    )
    listed = {text: _folders_of(text) for text in stated.unique()}
    folders = stated.map(listed).explode().dropna().astype("str").str.rstrip("/")
    return folders.rename("folder").rename_axis("place").reset_index()


def _folders_of(scope: str) -> list[str]:
    try:
        read: Any = json.loads(scope)
    except ValueError:
        return []
    folders = read.get("folders") if isinstance(read, dict) else None
    return (
        [folder for folder in folders if isinstance(folder, str)]
        if isinstance(folders, list)
        else []
    )
