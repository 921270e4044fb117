"""What an answer cites, as sets.

The passages cited, those the system retrieved, and those that answer the question.

In: the citations of `Results`, its hits and chunk catalogue, and the golden targets. Out: one value
per response. Citations have the shape of hits, so what they earn is decided by the rules that judge
hits.
"""

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results
from ragscore.scoring.cited import Source, catalogue_of, has, is_resolved
from ragscore.scoring.grading import grade_hits
from ragscore.scoring.level import Level
from ragscore.scoring.matching import LEVELS, at_level, level_rows
from ragscore.scoring.rules import rule_of

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.int64]

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

    Citations that carry nothing comparable can't be judged; where nothing is cited at all, there is
    nothing to carry it.
    """
    carried = (
        list(level.cited)
        if level.cited is not None
        else comparable(golden, carried_by(passages) if len(passages) else set(COMPARED))
    )
    if level.name == "per_query":
        return [name for name in carried if name in level.joinable]
    return [name for name in carried if LEVELS.index(name) >= LEVELS.index(level.name)][:1]


def carried_by(passages: pd.DataFrame) -> set[str]:
    """The levels at which some passage carries what is compared there."""
    return {name for name, column in COMPARED.items() if has(passages, column).any()}


def comparable(golden: Golden, carried: set[str]) -> list[str]:
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
            graded, _ = grade_hits(passages, targets, rule_of(level, results, golden))
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
