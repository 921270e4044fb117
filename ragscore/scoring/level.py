"""The match level.

The one at which a whole scoring, or both sides of a comparison, are matched, and why not a finer
one.

In: `Results` and `Golden`. Out: a `Level`, which is recorded with every number made from it.

Expected chunk ids get the document and span they had, so that the span rule finds them after re-chunking.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import blocks, codes_of, is_among, is_present, lookup
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.kinds import cast
from ragscore.scoring.matching import LEVELS, level_rows

LOOK = 2**16  # hits looked at together for an id that is expected


@dataclass(frozen=True)
class Level:
    """The match level of one scoring.

    The same for every run, every query and both sides of a comparison.

    Attributes
    ----------
    name
        chunk, span, doc, or per_query.
    left_out
        What the finer levels would have left out, or why they can't be used.
    joinable
        The levels at which golden set and runs can be joined, finest first.
    chunker_version_match
        exact, fallback_doc_span or fallback_doc.
    cited
        The levels that citations carry something to compare at, where that is known of more
        citations than those at hand.
    """

    name: str
    left_out: str
    joinable: tuple[str, ...]
    chunker_version_match: str
    cited: tuple[str, ...] | None = None


def choose_level(
    results: Results, golden: Golden, match: str = "auto", keep_refusals: bool = False
) -> Level:
    """The one match level for a scoring or a comparison, with what speaks against the finer ones.

    Raises
    ------
    DataError
        `match` names a level for which the golden set has no target at all.
    """
    golden = golden.coded
    n_targets = golden.once(("n_targets", keep_refusals), lambda: _n_targets(golden, keep_refusals))
    labelled = np.any([n > 0 for n in n_targets.values()], axis=0)
    with_targets = {level: int((n > 0).sum()) for level, n in n_targets.items()}
    obstacles = {
        level: _obstacle(results, golden, level) if with_targets[level] else "" for level in LEVELS
    }
    notes: dict[str, str] = {}
    for level in LEVELS:
        if obstacles[level]:
            notes[level] = f"{level}: {obstacles[level]}"
        elif 0 < with_targets[level] < labelled.sum():
            notes[level] = (
                f"{level}: {labelled.sum() - with_targets[level]} of {labelled.sum()} queries have"
                f" no {level} targets"
            )
    joinable = tuple(level for level in LEVELS if not obstacles[level] and with_targets[level])
    if (
        not joinable
        and obstacles["chunk"]
        and not obstacles["chunk"].startswith("chunker versions")
    ):
        # nothing else could be matched, and a run that finds no expected chunk has missed them: 0,
        # not NaN
        joinable = ("chunk",)
    if match == "auto":
        complete = [level for level in LEVELS if level not in notes and with_targets[level]]
        name = (
            complete[0]
            if complete
            else max(joinable, key=lambda level: with_targets[level], default="doc")
        )
    else:
        name = match
        if match in LEVELS and labelled.any() and not with_targets[match]:
            raise DataError(
                f"no query has {match} targets",
                field="match",
                allowed=(
                    "levels with targets:"
                    f" {', '.join(level for level in LEVELS if with_targets[level])}"
                ),
            )
    finer = LEVELS[: LEVELS.index(name)] if name in LEVELS else LEVELS
    versions_agree = not obstacles.get("chunk", "").startswith("chunker versions")
    fallback = (
        "fallback_doc_span"
        if name == "span" or (name == "per_query" and "span" in joinable)
        else "fallback_doc"
    )
    return Level(
        name,
        "; ".join(notes[level] for level in finer if level in notes),
        joinable or ("doc",),
        "exact" if versions_agree else fallback,
    )


def _n_targets(golden: Golden, keep_refusals: bool) -> dict[str, npt.NDArray[np.int64]]:
    """How many targets each question has at each level."""
    of_query, n = (
        lookup(golden.targets["query_id"], golden.queries["query_id"]),
        len(golden.queries),
    )
    return {
        level: np.bincount(of_query[level_rows(golden, level, keep_refusals)], minlength=n)
        for level in LEVELS
    }


def _obstacle(results: Results, golden: Golden, level: str) -> str:
    """Why golden set and runs can't be joined at this level; empty if they can."""
    if level == "chunk":
        return _chunker_obstacle(results, golden)
    if level == "predicate":
        return _predicate_obstacle(results)
    column = {"span": "start", "anchor": "path", "doc": "doc_id"}[level]
    run_ids, run = results.hits["run_id"].cat.categories, codes_of(results.hits["run_id"])
    present = (
        is_present(results.hits[column])
        if column in results.hits
        else np.zeros(len(run), dtype=bool)
    )
    if present.all():
        return ""
    n_hits, n_present = (
        np.bincount(run, minlength=len(run_ids)),
        np.bincount(run[present], minlength=len(run_ids)),
    )
    without = [str(run_id) for run_id in run_ids[(n_hits > 0) & (n_present == 0)]]
    return (
        f"hits of {', '.join(without)} have no {'span' if level == 'span' else column}"
        if without
        else ""
    )


def _predicate_obstacle(results: Results) -> str:
    """A predicate asks for a source key, for metadata or for text."""
    is_there = [
        name in results.hits and bool(results.hits[name].notna().any())
        for name in ("source_key", "text")
    ]
    has_meta = results.hit_meta is not None and len(results.hit_meta) > 0
    return (
        ""
        if has_meta or any(is_there) or not len(results.hits)
        else "hits have neither source key nor metadata nor text"
    )


def _chunker_obstacle(results: Results, golden: Golden) -> str:
    """Chunk ids can be compared if all chunker versions agree.

    An unknown one agrees if expected ids are seen.
    """
    chunk_targets = golden.targets[golden.targets["level"] == "chunk"]
    if not len(chunk_targets):
        return ""
    of_runs = chunker_versions(results)
    of_golden = (
        chunk_targets["chunker_version"].dropna().unique().tolist()
        if "chunker_version" in chunk_targets
        else []
    )
    known = sorted({*of_golden, *of_runs.dropna()})
    if len(known) > 1:
        return f"chunker versions differ ({', '.join(known)})"
    expected = chunk_targets["chunk_id"]
    seen = {str(run_id) for run_id in _runs_that_know(results, expected)}
    if not of_golden and not seen:
        return "no expected chunk id is among the hits and the golden set names no chunker version"
    unseen = [str(run_id) for run_id in of_runs[of_runs.isna()].index if str(run_id) not in seen]
    return (
        f"{', '.join(unseen)} names no chunker version and holds no expected chunk id"
        if unseen
        else ""
    )


def chunker_versions(results: Results) -> pd.Series:
    """The chunker version of each run (index run_id), from the run or, if all its hits agree, from them; NA = unknown."""
    stated = (
        results.runs["chunker_version"]
        if "chunker_version" in results.runs
        else pd.Series(pd.NA, index=results.runs.index, dtype="str")
    )
    versions = pd.Series(stated.to_numpy(), index=results.runs["run_id"].astype("str"), dtype="str")
    if "chunker_version" in results.hits and versions.isna().any():
        of_hits = results.hits[["run_id", "chunker_version"]].dropna().drop_duplicates()
        single = of_hits[~of_hits["run_id"].duplicated(keep=False)]
        versions = versions.fillna(
            pd.Series(
                single["chunker_version"].to_numpy(),
                index=single["run_id"].astype("str"),
                dtype="str",
            )
        )
    return versions


def _runs_that_know(results: Results, chunk_ids: pd.Series) -> list[Any]:
    known: list[Any] = []
    if "chunk_id" in results.hits:
        run, run_ids = codes_of(results.hits["run_id"]), results.hits["run_id"].cat.categories
        knows = np.zeros(len(run_ids), dtype=bool)
        # one hit of each run is enough, and as a rule it comes early
        for rows in blocks(0, len(run), LOOK):
            knows[run[rows][is_among(results.hits["chunk_id"].iloc[rows], chunk_ids)]] = True
            if knows.all():
                break
        known += run_ids[knows].tolist()
    if results.chunks is not None and len(
        here := results.chunks[is_among(results.chunks["chunk_id"], chunk_ids)]
    ):
        is_shared = "run_id" not in here or here["run_id"].isna().any()
        known += (results.runs if is_shared else here)["run_id"].unique().tolist()
    return known


_PLACE, _SPAN = ["doc_id", "path"], ["start", "end", "span_unit"]
_DTYPES = {
    "chunk_id": "str",
    "doc_id": "str",
    "path": "str",
    "start": "Int64",
    "end": "Int64",
    "span_unit": "str",
}


def resolve_spans(golden: Golden, known: Results | pd.DataFrame) -> Golden:
    """Give expected chunk ids the document and span they had, from any run or catalogue that still knows them.

    The span rule can then find them after re-chunking. An explicit step, so that adding a run never
    changes another run's score; the golden hash leaves resolved locators out. Ids that nobody knows
    keep no span.

    Parameters
    ----------
    golden
        Its chunk targets are resolved; locators they have already stay, and a span is taken whole
        or not at all.
    known
        Results (their chunk catalogue if they have one, and their hits), or a frame with chunk_id,
        doc_id, start, end and span_unit.

    Raises
    ------
    DataError
        One chunk id with two different spans: chunk ids of different chunkers collide. A target
        whose document isn't the one that its chunk stands in.
    """
    check_type(golden, Golden, "golden")
    check_type(known, (Results, pd.DataFrame), "known", "Results or a DataFrame with chunk_id")
    is_chunk = golden.targets["level"] == "chunk"
    if "chunk_id" not in golden.targets or not is_chunk.any():
        return golden
    spans = _spans_of(_catalogue(known), golden.targets.loc[is_chunk, "chunk_id"])
    resolved = golden.targets.reindex(
        columns=list(dict.fromkeys([*golden.targets.columns, *_DTYPES]))
    )
    found = resolved[["chunk_id"]].merge(spans, on="chunk_id", how="left").set_index(resolved.index)
    _refuse_other_places(resolved[is_chunk], found[is_chunk])
    unplaced = is_chunk & resolved["start"].isna()
    for name in [*_PLACE, *_SPAN]:
        takes = unplaced if name in _SPAN else is_chunk & resolved[name].isna()
        resolved[name] = resolved[name].where(~takes, found[name])
    return replace(golden, targets=resolved)


def _catalogue(known: Results | pd.DataFrame) -> pd.DataFrame:
    """Everything that is known of chunks, as text and whole numbers."""
    if isinstance(known, pd.DataFrame) and "chunk_id" not in known:
        raise DataError(
            "no column chunk_id",
            field="known",
            allowed="a frame with chunk_id, doc_id, start, end and span_unit",
        )
    frames = (
        [known]
        if isinstance(known, pd.DataFrame)
        else [frame for frame in (known.chunks, known.hits) if frame is not None]
    )
    parts = [frame.reindex(columns=list(_DTYPES)) for frame in frames if "chunk_id" in frame]
    typed = [
        pd.DataFrame(
            {
                name: cast(part[name].reset_index(drop=True), dtype, "known")
                for name, dtype in _DTYPES.items()
            }
        )
        for part in parts
    ]
    return (
        pd.concat(typed, ignore_index=True)
        if typed
        else pd.DataFrame({name: pd.Series([], dtype=dtype) for name, dtype in _DTYPES.items()})
    )


def _spans_of(catalogue: pd.DataFrame, chunk_ids: pd.Series) -> pd.DataFrame:
    """One row per chunk with a span.

    What one row leaves open another may tell, but none may contradict it.
    """
    rows = catalogue[
        lookup(catalogue["chunk_id"], pd.Index(chunk_ids.unique())) >= 0
    ].drop_duplicates()
    by_chunk = rows.groupby("chunk_id", sort=False)
    # Contradictions first: `first` takes each column's first value that is there, so a whole span
    # is one span only if all agree.
    n_values = by_chunk[[*_PLACE, *_SPAN]].nunique()
    twice = sorted(n_values.index[(n_values > 1).any(axis=1)])
    if twice:
        found = f"{len(twice)} chunk ids have more than one span: {', '.join(twice[:10])}"
        raise DataError(
            found, field="chunk_id", allowed="one span per chunk id; resolve from one chunker's run"
        )
    spans = by_chunk.first().reset_index()
    return spans[spans["start"].notna()]


def _refuse_other_places(targets: pd.DataFrame, found: pd.DataFrame) -> None:
    differs = [
        targets[name].notna() & found[name].notna() & (targets[name] != found[name])
        for name in _PLACE
    ]
    other = sorted(targets.loc[differs[0] | differs[1], "chunk_id"].unique())
    if other:
        text = (
            f"{len(other)} expected chunks stand in another document than the catalogue says:"
            f" {', '.join(other[:10])}"
        )
        raise DataError(
            text,
            field="chunk_id",
            allowed="chunk ids of the chunker that the golden set was written for",
        )
