"""What an answer cites, as sets: the passages cited, those the system retrieved, and those that answer the question.

In: the citations of `Results`, its hits and chunk catalogue, and the golden targets. Out: one value per response.
Citations have the shape of hits, so what they earn is decided by the rules that judge hits.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames import KINDS, Golden, Results
from ragscore.level import Level
from ragscore.match import LEVELS, at_level, grade_hits, has_spans
from ragscore.rules import rule_of

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]

LOCATORS = ("chunk_id", "doc_id", "path", "heading", "start", "end", "span_unit")
COMPARED = {"chunk": "chunk_id", "span": "start", "anchor": "path", "doc": "doc_id"}
"""Match level -> what a citation must carry to be matched there. The metadata that predicates ask for, no citation has."""


def has(frame: pd.DataFrame, column: str) -> Flags:
    """Where a column that may be absent holds a value."""
    return frame[column].notna().to_numpy() if column in frame else np.zeros(len(frame), dtype=bool)


def score_citations(results: Results, golden: Golden, responses: pd.DataFrame, passages: pd.DataFrame, place_of_hits: Codes, level: Level) -> dict[str, Values]:
    """Set measures of the passages that each response cites (see `cited_passages`).

    Targets are matched at the scoring's level or, where the citations don't carry what that compares, the next coarser one.

    Returns
    -------
    `citation_precision`, `citation_recall`, `retrieved_cited`, `citation_fabricated`, `citation_out_of_scope` and
    `citation_duplicate`, as `rs.metrics()` defines them, in the order of `responses`; NaN where there is nothing to divide by.
    """
    n, place = len(responses), passages["place"].to_numpy()
    earned, met, wanted = _earned(results, golden, passages, responses, _levels(level, golden, passages))
    outside, is_bounded = _outside(results, passages, responses)
    n_hits = np.bincount(place_of_hits[place_of_hits >= 0], minlength=n)

    def total(values: npt.ArrayLike) -> Values:
        return np.bincount(place, np.asarray(values, dtype="float64"), n).astype("float64", copy=False)

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


def cited_passages(results: Results, citations: pd.DataFrame, place: Codes) -> pd.DataFrame:
    """Each passage that a response cites, once.

    Two citations are of one passage if all their locators are equal, or, without any, their markers. Locators that a
    citation leaves out are those of the hit of its query, or of the chunk of the catalogue, that it points at.

    Returns
    -------
    One row per response and passage: `place` of the response, run_id, query_id, `rank` (the position of its first
    citation), `n_cited` (how often), locators, `is_retrieved` (it is among the hits of the query).
    """
    cited = citations.assign(place=place, rank=citations["position"], is_retrieved=resolve_citations(results, citations, ("hits",)))
    cited = cited.sort_values(["place", "rank"], kind="stable", ignore_index=True)
    located = np.any([has(cited, name) for name in LOCATORS], axis=0)
    key = cited[["place", *(name for name in LOCATORS if name in cited)]].assign(nameless=np.where(located | has(cited, "marker"), -1, np.arange(len(cited))))
    if "marker" in cited:
        key = key.assign(marker=cited["marker"].mask(located))
    passage = key.groupby(list(key.columns), dropna=False, sort=False).ngroup().to_numpy()
    passages = cited[~pd.Series(passage).duplicated().to_numpy()].reset_index(drop=True)
    return _located(passages.assign(n_cited=np.bincount(passage, minlength=len(passages))), results)


def _located(passages: pd.DataFrame, results: Results) -> pd.DataFrame:
    """The passages with ids and spans that hits or catalogue know and the citation didn't say."""
    dtypes = KINDS["citations"].dtypes
    filled = passages.assign(**{name: pd.Series(pd.NA, index=passages.index, dtype=dtypes[name]) for name in LOCATORS if name not in passages})
    for source, keys in _sources(results, ("hits", "chunks")):
        filled = _filled(filled, source, [*keys, "chunk_id"], ["doc_id", "path", "heading", "start", "end", "span_unit"], with_span=False)
        filled = _filled(filled, source, [*keys, "path"], ["chunk_id", "doc_id", "heading"], with_span=True)
        filled = _filled(filled, source, [*keys, "path"], ["doc_id"], with_span=False)
        filled = _filled(filled, source, [*keys, "doc_id"], ["path"], with_span=False)
    return filled


def _filled(passages: pd.DataFrame, source: pd.DataFrame, keys: list[str], names: list[str], with_span: bool) -> pd.DataFrame:
    """The passages with `names` taken from the first row of `source` that has the same keys, and holds their span if asked."""
    known = [name for name in names if name in source]
    lacking = passages[passages[known].isna().any(axis=1).to_numpy()] if known else passages.iloc[:0]
    pairs = _pairs(lacking, source, keys, known, with_span).drop_duplicates("row").set_index("row")
    found = {name: passages[name].where(passages[name].notna(), pairs[f"{name}_known"].reindex(passages.index).astype(passages[name].dtype)) for name in known}
    return passages.assign(**found) if len(pairs) else passages


def _pairs(cited: pd.DataFrame, source: pd.DataFrame, keys: list[str], names: list[str], with_span: bool) -> pd.DataFrame:
    """Pairs of a citation (its index as `row`) and a chunk with equal keys (its `names` as `<name>_known`), whose span holds the citation's if asked."""
    spans = ["start", "end", "span_unit"] if with_span else []
    lacks_span = with_span and not (has_spans(cited, "citations") and has_spans(source, "hits" if "query_id" in source else "chunks"))
    if lacks_span or any(name not in source or name not in cited for name in keys):
        return pd.DataFrame({"row": pd.Series(dtype="int64"), **{f"{name}_known": pd.Series(dtype="str") for name in names}})
    text = dict.fromkeys(keys, "str")
    wanted = cited[[*keys, *spans]].assign(row=cited.index).dropna(subset=keys).astype(text)
    chunks = source[keys].assign(**{f"{name}_known": source[name] for name in [*spans, *names]}).dropna(subset=keys).astype(text).drop_duplicates()
    pairs = wanted.merge(chunks, on=keys)
    if with_span:
        fits = (pairs["start"] >= pairs["start_known"]) & (pairs["end"] <= pairs["end_known"]) & (pairs["span_unit"] == pairs["span_unit_known"])
        pairs = pairs[fits.fillna(False).astype(bool)]
    return pairs


def _sources(results: Results, among: tuple[str, ...]) -> list[tuple[pd.DataFrame, list[str]]]:
    """Where citations may point, each with what must be equal: hits of the query, the catalogue's rows of the run and those shared by all."""
    hits = [(results.hits, ["run_id", "query_id"])] if "hits" in among else []
    chunks = results.chunks if "chunks" in among else None
    if chunks is None:
        return hits
    if "run_id" not in chunks:
        return [*hits, (chunks, [])]
    is_shared = chunks["run_id"].isna()
    return [*hits, (chunks[~is_shared], ["run_id"]), (chunks[is_shared], [])]


def resolve_citations(results: Results, citations: pd.DataFrame, among: tuple[str, ...] = ("hits", "chunks")) -> Flags:
    """Whether each citation points at something the system really had.

    With a chunk id: that id is among the hits of the same query, or in the run's chunk catalogue (rows of it without a
    run_id belong to every run; `among` leaves one of the two out). Without one: its path is there and its span lies inside the chunk's; a citation that by its kind has no
    span (an image's region or caption) needs the path only, one that has a document's id and no path needs that id.
    """
    resolved = np.zeros(len(citations), dtype=bool)
    has_chunk, has_span, has_path = has(citations, "chunk_id"), has(citations, "start"), has(citations, "path")
    for source, keys in _sources(results, among):
        resolved |= has_chunk & _inside(citations, source, [*keys, "chunk_id"], with_span=False)
        resolved |= ~has_chunk & ~has_span & _inside(citations, source, [*keys, "path"], with_span=False)
        resolved |= ~has_chunk & has_span & _inside(citations, source, [*keys, "path"], with_span=True)
        resolved |= ~has_chunk & ~has_path & _inside(citations, source, [*keys, "doc_id"], with_span=False)
    return resolved


def _inside(citations: pd.DataFrame, source: pd.DataFrame, keys: list[str], with_span: bool) -> Flags:
    """Whether some chunk with equal `keys` holds the citation (its whole span, if asked)."""
    found = np.zeros(len(citations), dtype=bool)
    if len(citations) and len(source):
        found[_pairs(citations.reset_index(drop=True), source, keys, [], with_span)["row"].to_numpy()] = True
    return found


def _levels(level: Level, golden: Golden, passages: pd.DataFrame) -> list[str]:
    """The levels to match at, finest first: one for all, unless each query is matched at its finest.

    Citations that carry nothing comparable can't be judged; where nothing is cited at all, there is nothing to carry it.
    """
    carried = [name for name, column in COMPARED.items() if has(passages, column).any() or not len(passages)]
    carried = [name for name in carried if len(at_level(golden, name).targets)]
    if level.name == "per_query":
        return [name for name in carried if name in level.joinable]
    return [name for name in carried if LEVELS.index(name) >= LEVELS.index(level.name)][:1]


def _earned(results: Results, golden: Golden, passages: pd.DataFrame, responses: pd.DataFrame, levels: list[str]) -> tuple[Values, Values, Values]:
    """For each response: passages of grade ≥ 1, targets that they meet, and targets that there are."""
    earned, met, wanted = (np.zeros(len(responses)) for _ in range(3))
    place = passages[["run_id", "query_id", "rank", "place"]].astype({"run_id": "str"})
    for level in reversed(levels):
        targets = at_level(golden, level).targets
        graded, _ = grade_hits(passages, targets, rule_of(level, results, golden))
        graded = graded.astype({"run_id": "str"}).merge(place, on=["run_id", "query_id", "rank"])
        here = responses["query_id"].map(targets[targets["grade"] > 0].groupby("query_id")["target_id"].nunique()).to_numpy("float64", na_value=0.0)
        good, found = (np.bincount(graded["place"], values, len(responses)) for values in (graded["grade"] > 0, graded["n_found"]))
        earned, met, wanted = (np.where(here > 0, new, old) for new, old in ((good, earned), (found, met), (here, wanted)))
    return earned, met, wanted


def _cited_hits(results: Results, passages: pd.DataFrame, place_of_hits: Codes, n: int) -> Values:
    """How many hits of each response are cited: by chunk id, else by document, else by path."""
    near = np.isin(place_of_hits, passages["place"].to_numpy()) & (place_of_hits >= 0)
    hits, keys = results.hits[near].reset_index(drop=True), ["run_id", "query_id"]
    undecided, cited = np.ones(len(hits), dtype=bool), np.zeros(len(hits), dtype=bool)
    for name in ("chunk_id", "doc_id", "path"):
        cited |= undecided & _inside(hits, passages, [*keys, name], with_span=False)
        undecided &= ~has(hits, name)
    return np.bincount(place_of_hits[near], cited, n).astype("float64", copy=False)


def _outside(results: Results, passages: pd.DataFrame, responses: pd.DataFrame) -> tuple[Flags, Flags]:
    """Passages outside what the run may cite, and those of which that can be told: the run has a catalogue, or the response states folders."""
    chunks = results.chunks
    runs = passages["run_id"].astype("str")
    in_known_run = np.zeros(len(passages), dtype=bool) if chunks is None else np.ones(len(passages), dtype=bool)
    if chunks is not None and "run_id" in chunks and chunks["run_id"].notna().all():
        in_known_run = runs.isin(chunks["run_id"].dropna().astype("str").unique()).to_numpy()
    outside = in_known_run & ~resolve_citations(results, passages, ("chunks",))
    folders = _folders(responses)
    bounded = passages["place"].isin(folders["place"]).to_numpy() & has(passages, "path")
    pairs = passages.loc[bounded, ["place", "path"]].rename_axis("row").reset_index().merge(folders, on="place")
    # A prefix search has no column form in pandas where both sides vary by row.
    is_in = [path == folder or path.startswith(folder + "/") for path, folder in zip(pairs["path"], pairs["folder"], strict=True)]
    outside |= bounded & ~passages.index.isin(pairs.loc[is_in, "row"])
    return outside, in_known_run | bounded


def _folders(responses: pd.DataFrame) -> pd.DataFrame:
    """The folders that responses state as their scope, `{"folders": [...]}`: one row per response (`place`) and folder; no folder means all."""
    stated = responses["scope"].reset_index(drop=True).dropna() if "scope" in responses else pd.Series(dtype="str")
    listed = {text: _folders_of(text) for text in stated.unique()}
    folders = stated.map(listed).explode().dropna().astype("str").str.rstrip("/")
    return folders.rename("folder").rename_axis("place").reset_index()


def _folders_of(scope: str) -> list[str]:
    try:
        read: Any = json.loads(scope)
    except ValueError:
        return []
    folders = read.get("folders") if isinstance(read, dict) else None
    return [folder for folder in folders if isinstance(folder, str)] if isinstance(folders, list) else []
