"""The match level of a scoring, and why not a finer one; and spans for expected chunk ids.

In: `Results` and `Golden`. Out: a `Level`, which is recorded with every number made from it; or a
golden set whose chunk targets know their document and span, so that the span rule finds them after
re-chunking.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import blocks, codes_of, is_among, is_present, lookup
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.kinds import cast
from ragscore.scoring.rules import LEVELS, level_rows

# Hits searched together for an expected chunk id: as a rule the first block of a run holds one.
SEARCHED = 2**16


@dataclass(frozen=True)
class Level:
    """The match level of one scoring: the same for every run and both sides of a comparison.

    Attributes
    ----------
    name
        chunk, span, doc, or per_query.
    left_out
        Why finer levels can't be used, or how many queries they would have left out; and how many
        this one leaves out.
    joinable
        The levels at which golden set and runs can be joined, finest first.
    chunker_version_match
        exact, fallback_doc_span or fallback_doc.
    citation_levels
        The levels at which citations can be compared with targets, where that is known of more
        citations than those at hand.
    warning
        What an automatic choice leaves out, though another level has targets for it.
    """

    name: str
    left_out: str
    joinable: tuple[str, ...]
    chunker_version_match: str
    citation_levels: tuple[str, ...] | None = None
    warning: str = ""

    @property
    def used(self) -> tuple[str, ...]:
        """The levels that queries are matched at: one, unless each query has its own."""
        return self.joinable if self.name == "per_query" else (self.name,)


def choose_level(
    results: Results, golden: Golden, match: str = "auto", keep_refusals: bool = False
) -> Level:
    """Choose the one match level of a scoring or a comparison, and say what rules out finer ones.

    Raises
    ------
    DataError
        `match` names a level for which the golden set has no target at all.
    """
    golden = golden._coded
    n_targets = golden._once(
        ("n_targets", keep_refusals), lambda: _n_targets(golden, keep_refusals)
    )
    n_labelled = int(np.any([n > 0 for n in n_targets.values()], axis=0).sum())
    with_targets = {level: int((n > 0).sum()) for level, n in n_targets.items()}
    obstacles = {
        level: _obstacle(results, golden, level) if with_targets[level] else "" for level in LEVELS
    }
    notes: dict[str, str] = {}
    for level in LEVELS:
        if obstacles[level]:
            notes[level] = f"{level}: {obstacles[level]}"
        elif 0 < with_targets[level] < n_labelled:
            notes[level] = (
                f"{level}: {n_labelled - with_targets[level]} of {n_labelled} queries have no"
                f" {level} targets"
            )
    versions_differ = obstacles["chunk"].startswith("chunker versions")
    joinable = tuple(level for level in LEVELS if not obstacles[level] and with_targets[level])
    if not joinable and obstacles["chunk"] and not versions_differ:
        # nothing else could be matched, and a run that finds no expected chunk has missed them: 0,
        # not NaN
        joinable = ("chunk",)
    if match == "auto":
        complete = [level for level in LEVELS if level not in notes and with_targets[level]]
        most = max(joinable, key=lambda level: with_targets[level], default="doc")
        name = complete[0] if complete else most
    else:
        name = match
        if match in LEVELS and n_labelled and not with_targets[match]:
            known = ", ".join(level for level in LEVELS if with_targets[level])
            raise DataError(
                f"no query has {match} targets",
                field="match",
                allowed=f"levels with targets: {known}",
            )
    upto = LEVELS[: LEVELS.index(name) + 1] if name in LEVELS else LEVELS
    left_out = "; ".join(notes[level] for level in upto if level in notes)
    by_span = name == "span" or (name == "per_query" and "span" in joinable)
    fallback = "fallback_doc_span" if by_span else "fallback_doc"
    warning = ""
    if match == "auto" and joinable and 0 < with_targets[name] < n_labelled:
        kept = np.any([n_targets[level] > 0 for level in joinable], axis=0).sum()
        more = kept - with_targets[name]
        warning = (
            f"{n_labelled - with_targets[name]} of {n_labelled} queries with targets have none at"
            f" the match level ({name}) and are in no mean of retrieval"
            + (f"; match='per_query' keeps {more} of them" if more else f": {left_out}")
        )
    version_match = fallback if versions_differ else "exact"
    return Level(name, left_out, joinable or ("doc",), version_match, warning=warning)


def _n_targets(golden: Golden, keep_refusals: bool) -> dict[str, npt.NDArray[np.int64]]:
    """Count the targets of each query at each level."""
    query = lookup(golden.targets["query_id"], golden.queries["query_id"])
    n = len(golden.queries)
    return {
        level: np.bincount(query[level_rows(golden, level, keep_refusals)], minlength=n)
        for level in LEVELS
    }


def _obstacle(results: Results, golden: Golden, level: str) -> str:
    """Say why golden set and runs can't be joined at this level; empty if they can."""
    hits = results.hits
    if level == "chunk":
        return _chunker_obstacle(results, golden)
    if level == "predicate":
        # a predicate asks for a source key, for metadata or for text
        is_given = [
            name in hits and bool(hits[name].notna().any()) for name in ("source_key", "text")
        ]
        has_meta = results.hit_meta is not None and len(results.hit_meta) > 0
        if has_meta or any(is_given) or not len(hits):
            return ""
        return "hits have neither source key nor metadata nor text"
    column = {"span": "start", "anchor": "path", "doc": "doc_id"}[level]
    run_ids, run = hits["run_id"].cat.categories, codes_of(hits["run_id"])
    given = is_present(hits[column]) if column in hits else np.zeros(len(run), dtype=bool)
    if given.all():
        return ""
    n_hits = np.bincount(run, minlength=len(run_ids))
    n_given = np.bincount(run[given], minlength=len(run_ids))
    without = [str(run_id) for run_id in run_ids[(n_hits > 0) & (n_given == 0)]]
    if not without:
        return ""
    return f"hits of {', '.join(without)} have no {'span' if level == 'span' else column}"


def _chunker_obstacle(results: Results, golden: Golden) -> str:
    """Say why chunk ids can't be compared; empty if all chunker versions agree.

    An unknown version agrees if expected ids are among the hits.
    """
    chunk_targets = golden.targets[golden.targets["level"] == "chunk"]
    if not len(chunk_targets):
        return ""
    of_runs, of_golden = chunker_versions(results), []
    if "chunker_version" in chunk_targets:
        of_golden = chunk_targets["chunker_version"].dropna().unique().tolist()
    known = sorted({*of_golden, *of_runs.dropna()})
    if len(known) > 1:
        return f"chunker versions differ ({', '.join(known)})"
    seen = _runs_with_any(results, chunk_targets["chunk_id"])
    if not of_golden and not seen:
        return "no expected chunk id is among the hits and the golden set names no chunker version"
    unseen = [str(run_id) for run_id in of_runs[of_runs.isna()].index if str(run_id) not in seen]
    if not unseen:
        return ""
    return f"{', '.join(unseen)} names no chunker version and holds no expected chunk id"


def chunker_versions(results: Results) -> pd.Series:
    """Return the chunker version of each run (index run_id), NA where it is unknown.

    The run states it or, if all its hits agree, they do.
    """
    runs, hits = results.runs, results.hits
    versions = pd.Series(pd.NA, index=runs["run_id"].astype("str"), dtype="str")
    if "chunker_version" in runs:
        versions = pd.Series(runs["chunker_version"].to_numpy(), index=versions.index, dtype="str")
    if "chunker_version" in hits and versions.isna().any():
        of_hits = hits[["run_id", "chunker_version"]].dropna().drop_duplicates()
        single = of_hits[~of_hits["run_id"].duplicated(keep=False)]
        index = single["run_id"].astype("str")
        versions = versions.fillna(
            pd.Series(single["chunker_version"].to_numpy(), index=index, dtype="str")
        )
    return versions


def _runs_with_any(results: Results, chunk_ids: pd.Series) -> set[str]:
    """Return the runs whose hits, or whose chunk catalogue, hold any of these chunk ids."""
    found = set[str]()
    if "chunk_id" in results.hits:
        run, run_ids = codes_of(results.hits["run_id"]), results.hits["run_id"].cat.categories
        holds = np.zeros(len(run_ids), dtype=bool)
        # one hit of each run is enough, and as a rule it comes early
        for rows in blocks(0, len(run), SEARCHED):
            holds[run[rows][is_among(results.hits["chunk_id"].iloc[rows], chunk_ids)]] = True
            if holds.all():
                break
        found |= set(run_ids[holds].astype("str"))
    if results.chunks is not None:
        chunks = results.chunks[is_among(results.chunks["chunk_id"], chunk_ids)]
        if len(chunks):
            is_shared = "run_id" not in chunks or chunks["run_id"].isna().any()
            found |= set((results.runs if is_shared else chunks)["run_id"].astype("str"))
    return found


_LOCATORS, _SPAN = ["doc_id", "path"], ["start", "end", "span_unit"]
_DTYPES = {
    "chunk_id": "str", "doc_id": "str", "path": "str",
    "start": "Int64", "end": "Int64", "span_unit": "str",
}  # fmt: skip


def resolve_spans(golden: Golden, known: Results | pd.DataFrame) -> Golden:
    """Give expected chunk ids the document and span they had, from a run or catalogue.

    The span rule can then find them after re-chunking. An explicit step, so that adding a run never
    changes another run's score; the golden hash leaves resolved locators out. Ids that nothing
    knows keep no span.

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
    targets = golden.targets
    is_chunk = targets["level"] == "chunk"
    if "chunk_id" not in targets or not is_chunk.any():
        return golden
    spans = _spans_of(_catalogue(known), targets.loc[is_chunk, "chunk_id"])
    resolved = targets.reindex(columns=list(dict.fromkeys([*targets.columns, *_DTYPES])))
    found = resolved[["chunk_id"]].merge(spans, on="chunk_id", how="left").set_index(resolved.index)
    differs = [
        resolved[name].notna() & found[name].notna() & (resolved[name] != found[name])
        for name in _LOCATORS
    ]
    other = sorted(resolved.loc[is_chunk & (differs[0] | differs[1]), "chunk_id"].unique())
    if other:
        raise DataError(
            f"{len(other)} expected chunks stand in another document than the catalogue says:"
            f" {', '.join(other[:10])}",
            field="chunk_id",
            allowed="chunk ids of the chunker that the golden set was written for",
        )
    has_no_span = is_chunk & resolved["start"].isna()
    for name in [*_LOCATORS, *_SPAN]:
        takes = has_no_span if name in _SPAN else is_chunk & resolved[name].isna()
        resolved[name] = resolved[name].where(~takes, found[name])
    return replace(golden, targets=resolved)


def _catalogue(known: Results | pd.DataFrame) -> pd.DataFrame:
    """Return all that is known of chunks, as text and whole numbers."""
    frames = [known] if isinstance(known, pd.DataFrame) else [known.chunks, known.hits]
    if isinstance(known, pd.DataFrame) and "chunk_id" not in known:
        raise DataError(
            "no column chunk_id",
            field="known",
            allowed="a frame with chunk_id, doc_id, start, end and span_unit",
        )
    parts = [pd.DataFrame({name: pd.Series([], dtype=dtype) for name, dtype in _DTYPES.items()})]
    for frame in frames:
        if frame is not None and "chunk_id" in frame:
            part = frame.reindex(columns=list(_DTYPES)).reset_index(drop=True)
            columns = {name: cast(part[name], dtype, "known") for name, dtype in _DTYPES.items()}
            parts.append(pd.DataFrame(columns))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def _spans_of(catalogue: pd.DataFrame, chunk_ids: pd.Series) -> pd.DataFrame:
    """Return one row per chunk with a span.

    Rows of one chunk complete each other, but may not contradict each other.
    """
    rows = catalogue[is_among(catalogue["chunk_id"], chunk_ids)].drop_duplicates()
    by_chunk = rows.groupby("chunk_id", sort=False)
    # Contradictions first: `first` takes each column's first value that is there, so a whole span
    # is one span only if all agree.
    n_values = by_chunk[[*_LOCATORS, *_SPAN]].nunique()
    twice = sorted(n_values.index[(n_values > 1).any(axis=1)])
    if twice:
        found = f"{len(twice)} chunk ids have more than one span: {', '.join(twice[:10])}"
        raise DataError(
            found, field="chunk_id", allowed="one span per chunk id; resolve from one chunker's run"
        )
    spans = by_chunk.first().reset_index()
    return spans[spans["start"].notna()]
