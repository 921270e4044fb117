"""Citations of answers as sets: passages cited, hits retrieved, targets expected.

In: the citations of `Results`, its hits and chunk catalogue, and the golden targets. Out: one value
per response and metric. Citations have the shape of hits, so the rules that judge hits judge them;
the locators that a citation leaves out come from the hit or chunk that it points at.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import equal_pairs, lookup
from ragscore.frames.data import KINDS, Golden, Results
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.scoring.grading import grade_hits, level_rule
from ragscore.scoring.level import Level
from ragscore.scoring.rules import LEVELS, has_spans, level_rows, response_of, targets_at

LOCATORS = ("chunk_id", "doc_id", "path", "heading", "start", "end", "span_unit")
COMPARED = {"chunk": "chunk_id", "span": "start", "anchor": "path", "doc": "doc_id"}
"""Match level -> what a citation must carry to be matched there. None carries metadata, which
predicates ask for."""


@dataclass(frozen=True)
class Cited:
    """What each response cites, counted: citations, and passages, each once.

    Targets are matched at the scoring's level or, where the citations don't carry what that
    compares, at the next coarser one.
    """

    n_citations: npt.NDArray[np.int64]
    n_unresolved: npt.NDArray[np.int64]
    n_pathless: npt.NDArray[np.int64]
    n_passages: Values
    n_fabricated: Values
    n_relevant: Values
    n_met: Values
    n_targets: Values

    def only_if_expected(self, values: Values) -> Values:
        """Return values of responses whose query has targets."""
        return np.where(self.n_targets > 0, values, np.nan)


def cited_of(
    results: Results, golden: Golden, responses: pd.DataFrame, response_of_hit: Codes, level: Level
) -> Cited:
    """Count what each response cites."""
    n = len(responses)
    citations = results.citations.reset_index(drop=True)
    place = response_of(citations, responses)
    citations, place = citations[place >= 0].reset_index(drop=True), place[place >= 0]
    n_citations = np.bincount(place, minlength=n)
    sources = [hits_of(results, response_of_hit, place), *catalogue_of(results, citations)]
    unresolved = np.bincount(place, ~is_resolved(citations, sources), n)
    has_path = has_value(citations, "path")
    if "path" in citations:
        has_path = has_path & (citations["path"].to_numpy() != "")
    pathless = np.bincount(place, ~has_path, n)

    passages = cited_passages(results, citations, place, response_of_hit)
    levels = _levels(level, golden, passages)
    n_relevant, n_met, n_targets = _matched(results, golden, passages, responses, levels)
    place = passages["place"].to_numpy()

    def total(values: npt.ArrayLike) -> Values:
        sums = np.bincount(place, np.asarray(values, dtype="float64"), n)
        return sums.astype("float64", copy=False)

    return Cited(
        n_citations, unresolved, pathless, total(np.ones(len(place))),
        total(~passages["is_retrieved"]), n_relevant, n_met, n_targets,
    )  # fmt: skip


def has_value(frame: pd.DataFrame, column: str) -> Flags:
    """Flag the rows in which a column that may be absent holds a value."""
    return frame[column].notna().to_numpy() if column in frame else np.zeros(len(frame), dtype=bool)


@dataclass(frozen=True)
class Source:
    """Chunks that citations may point at.

    A scope is a response (hits), a run (its catalogue) or 0 (a catalogue shared by all); -1 is
    none. `rows` are the chunks, `scope` is that of each of them, `scope_of_cited` the one in which
    each citation looks for them.
    """

    rows: pd.DataFrame
    scope: Codes
    scope_of_cited: Codes

    def pairs(self, cited: pd.DataFrame, key: str, with_span: bool = False) -> tuple[Codes, Codes]:
        """Pair each citation with the first chunk of its scope that has an equal `key`.

        `with_span` pairs it with every such chunk whose span holds its own instead.

        Returns
        -------
        Row positions in `cited` and in `rows`.
        """
        none = np.zeros(0, dtype=np.int64)
        if not len(cited) or not len(self.rows) or key not in cited or key not in self.rows:
            return none, none
        name = "hits" if "query_id" in self.rows else "chunks"
        if with_span and not (has_spans(cited, "citations") and has_spans(self.rows, name)):
            return none, none
        ids = pd.Index(cited[key].dropna().unique())
        keys = []
        for scope, frame in ((self.scope_of_cited, cited), (self.scope, self.rows)):
            code = lookup(frame[key], ids)
            keys.append(np.where((scope < 0) | (code < 0), -1, scope * len(ids) + code))
        citation, chunk = equal_pairs(keys[0], keys[1], only_first=not with_span)
        if not with_span:
            return citation, chunk
        is_inside = _is_inside(cited.iloc[citation], self.rows.iloc[chunk])
        return citation[is_inside], chunk[is_inside]

    def holds(self, cited: pd.DataFrame, key: str, with_span: bool = False) -> Flags:
        """Flag the citations that have such a chunk."""
        found = np.zeros(len(cited), dtype=bool)
        found[self.pairs(cited, key, with_span)[0]] = True
        return found


def hits_of(results: Results, response_of_hit: Codes, place: Codes) -> Source:
    """Return the hits of the responses that cite, as a source for citations at these responses."""
    near = np.flatnonzero(np.isin(response_of_hit, place) & (response_of_hit >= 0))
    return Source(results.hits.iloc[near], response_of_hit[near], place)


def catalogue_of(results: Results, cited: pd.DataFrame) -> list[Source]:
    """Return the chunk catalogue: rows of the citation's own run, and rows shared by all runs."""
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
    """Flag the citations that point at something the system really had.

    With a chunk id: that id is among the hits of the same query, or in the run's chunk catalogue
    (rows of it without a run_id belong to every run). Without one: its path is there and its span
    lies inside the chunk's; a citation that by its kind has no span (an image's region or caption)
    needs the path only, one that has a document's id and no path needs that id.
    """
    resolved = np.zeros(len(cited), dtype=bool)
    has_chunk, has_span, has_path = (
        has_value(cited, name) for name in ("chunk_id", "start", "path")
    )
    for source in sources:
        resolved |= has_chunk & source.holds(cited, "chunk_id")
        resolved |= ~has_chunk & ~has_span & source.holds(cited, "path")
        resolved |= ~has_chunk & has_span & source.holds(cited, "path", with_span=True)
        resolved |= ~has_chunk & ~has_path & source.holds(cited, "doc_id")
    return resolved


def cited_passages(
    results: Results, citations: pd.DataFrame, place: Codes, response_of_hit: Codes
) -> pd.DataFrame:
    """List the passages that each response cites, each once.

    Two citations are of one passage if all their locators are equal, or, without any, their
    markers. Locators that a citation leaves out are those of the hit of its query, or of the chunk
    of the catalogue, that it points at.

    Parameters
    ----------
    place, response_of_hit
        The position of the response of each citation, and of each hit (-1: none).

    Returns
    -------
    One row per response and passage: `place` of the response, run_id, query_id, `rank` (the
    position of its first citation), locators, `is_retrieved` (it is among the hits of the query).
    """
    is_retrieved = is_resolved(citations, [hits_of(results, response_of_hit, place)])
    cited = citations.assign(place=place, rank=citations["position"], is_retrieved=is_retrieved)
    cited = cited.sort_values(["place", "rank"], kind="stable", ignore_index=True)
    located = np.any([has_value(cited, name) for name in LOCATORS], axis=0)
    key = cited[["place", *(name for name in LOCATORS if name in cited)]].assign(
        nameless=np.where(located | has_value(cited, "marker"), -1, np.arange(len(cited)))
    )
    if "marker" in cited:
        key = key.assign(marker=cited["marker"].mask(located))
    passage = key.groupby(list(key.columns), dropna=False, sort=False).ngroup().to_numpy()
    passages = cited[~pd.Series(passage).duplicated().to_numpy()].reset_index(drop=True)
    dtypes = KINDS["citations"].dtypes
    absent = {
        name: pd.Series(pd.NA, index=passages.index, dtype=dtypes[name])
        for name in LOCATORS
        if name not in passages
    }
    passages = passages.assign(**absent)
    others = [name for name in LOCATORS if name != "chunk_id"]
    near = hits_of(results, response_of_hit, passages["place"].to_numpy())
    for source in [near, *catalogue_of(results, passages)]:
        passages = _filled(passages, source, "chunk_id", others)
        passages = _filled(
            passages, source, "path", ["chunk_id", "doc_id", "heading"], with_span=True
        )
        passages = _filled(passages, source, "path", ["doc_id"])
        passages = _filled(passages, source, "doc_id", ["path"])
    return passages


def _filled(
    passages: pd.DataFrame, source: Source, key: str, names: list[str], with_span: bool = False
) -> pd.DataFrame:
    """Fill missing locators from the first chunk with the same key (and a span around theirs)."""
    missing = [name for name in names if name in source.rows and passages[name].isna().any()]
    if not missing:
        return passages
    passage, chunk = source.pairs(passages, key, with_span)
    row, first = np.unique(passage, return_index=True)
    if not len(row):
        return passages
    known = source.rows[missing].iloc[chunk[first]].set_axis(row, axis=0).reindex(passages.index)
    found = {
        name: passages[name].where(passages[name].notna(), known[name].astype(passages[name].dtype))
        for name in missing
    }
    return passages.assign(**found)


def _is_inside(cited: pd.DataFrame, chunks: pd.DataFrame) -> Flags:
    start, end, chunk_start, chunk_end = (
        frame[name].to_numpy("float64", na_value=np.nan)
        for frame, name in ((cited, "start"), (cited, "end"), (chunks, "start"), (chunks, "end"))
    )
    unit, chunk_unit = (frame["span_unit"].astype("str").to_numpy() for frame in (cited, chunks))
    is_inside = (start >= chunk_start) & (end <= chunk_end) & (unit == chunk_unit)
    return np.asarray(is_inside, dtype=bool)


def _levels(level: Level, golden: Golden, passages: pd.DataFrame) -> list[str]:
    """Return the levels to match at, finest first: one, unless each query has its own.

    Citations that carry nothing comparable can't be judged; where nothing is cited at all, nothing
    could carry it, so every level counts.
    """
    if level.citation_levels is not None:
        usable = list(level.citation_levels)
    else:
        carried = citation_levels(passages) if len(passages) else set(COMPARED)
        usable = levels_with_targets(golden, carried)
    if level.name == "per_query":
        return [name for name in usable if name in level.joinable]
    return [name for name in usable if LEVELS.index(name) >= LEVELS.index(level.name)][:1]


def citation_levels(passages: pd.DataFrame) -> set[str]:
    """Return the levels at which some passage carries what is compared there."""
    return {name for name, column in COMPARED.items() if has_value(passages, column).any()}


def levels_with_targets(golden: Golden, levels: set[str]) -> list[str]:
    """Return which of the levels have targets and can match citations at all, finest first."""
    return [name for name in COMPARED if name in levels and level_rows(golden._coded, name).any()]


def _matched(
    results: Results,
    golden: Golden,
    passages: pd.DataFrame,
    responses: pd.DataFrame,
    levels: list[str],
) -> tuple[Values, Values, Values]:
    """Count for each response relevant passages, targets that they meet, and all its targets.

    Relevant is what meets a target of grade ≥ 1. Each query counts at the finest level at which it
    has targets.
    """
    n = len(responses)
    n_relevant, n_met, n_targets = (np.zeros(n) for _ in range(3))
    place = passages[["run_id", "query_id", "rank", "place"]].astype({"run_id": "str"})
    for level in reversed(levels):
        targets = targets_at(golden, level).targets
        relevant = met = np.zeros(n)
        if len(passages):
            rule = level_rule(level, results, golden, stored=False)
            graded, _ = grade_hits(passages, targets, rule)
            graded = graded.astype({"run_id": "str"})
            graded = graded.merge(place, on=["run_id", "query_id", "rank"])
            relevant, met = (
                np.bincount(graded["place"], values, n).astype("float64")
                for values in (graded["grade"] > 0, graded["n_found"])
            )
        of_query = targets[targets["grade"] > 0].groupby("query_id")["target_id"].nunique()
        expected = responses["query_id"].map(of_query).to_numpy("float64", na_value=0.0)
        n_relevant = np.where(expected > 0, relevant, n_relevant)
        n_met = np.where(expected > 0, met, n_met)
        n_targets = np.where(expected > 0, expected, n_targets)
    return n_relevant, n_met, n_targets
