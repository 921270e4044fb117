"""The match level of a scoring, and spans for expected chunk ids."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from ragscore.frames.codes import blocks, codes_of, is_among
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import check_known
from ragscore.scoring.metrics.needs import with_target
from ragscore.scoring.targets import LEVELS, judges_irrelevant, targets_at

COLUMNS = {"span": "start", "anchor": "path", "text": "text", "doc": "doc_id"}  # hits carry them
SEARCHED = 2**17  # hits looked at in one go for an expected chunk id


@dataclass(frozen=True)
class Level:
    """The match level of one scoring.

    Attributes
    ----------
    name
        A level, or per_query.
    left_out
        Why finer levels can't be used, or how many queries they would have left out; and how many
        this one leaves out.
    joinable
        The levels at which golden set and runs can be joined, finest first.
    chunker_version_match
        exact, fallback_doc_span or fallback_doc.
    irrelevant
        The levels at which some document is judged not to be relevant, as bpref needs.
    warning
        What an automatic choice leaves out, though another level has targets for it.
    """

    name: str
    left_out: str
    joinable: tuple[str, ...]
    chunker_version_match: str = "exact"
    irrelevant: tuple[str, ...] = ()
    warning: str = ""

    @classmethod
    def of(cls, results: Results, golden: Golden, match: str = "auto") -> "Level":
        """Choose the finest level at which every query with targets has some, and hits carry it.

        Raises
        ------
        DataError
            `match` names a level for which the golden set has no target at all.
        """
        queries = {level: with_target(golden, level) for level in LEVELS}
        with_targets = {level: int(flags.sum()) for level, flags in queries.items()}
        n_all = int(np.any(list(queries.values()), axis=0).sum())
        why = {level: _obstacle(results, golden, level) for level in LEVELS if with_targets[level]}
        joinable = tuple(level for level, reason in why.items() if not reason)
        for level in joinable:
            if lacking := n_all - with_targets[level]:
                why[level] = f"{lacking} of {n_all} queries have no {level} targets"
        versions_differ = why.get("chunk", "").startswith("chunker versions differ")
        if not joinable and "chunk" in why and not versions_differ:
            joinable = ("chunk",)  # a run that finds no expected chunk has missed them: 0, not NaN
        name = match
        if match == "auto":
            complete = [level for level in joinable if not why[level]]
            most = max(joinable, key=lambda one: with_targets[one], default="doc")
            name = complete[0] if complete else most
        elif match in LEVELS and n_all and not with_targets[match]:
            raise DataError(
                f"no query has {match} targets",
                field="match",
                allowed=f"levels with targets: {', '.join(why)}",
            )
        upto = LEVELS[: LEVELS.index(name) + 1] if name in LEVELS else LEVELS
        left_out = "; ".join(f"{level}: {why[level]}" for level in upto if why.get(level))
        by_span = name == "span" or (name == "per_query" and "span" in joinable)
        fallback = f"fallback_doc{'_span' * by_span}" if versions_differ else "exact"
        warning, n_without = "", n_all - with_targets.get(name, 0)
        if match == "auto" and joinable and 0 < n_without < n_all:
            more = np.any([queries[level] for level in joinable], axis=0).sum() - with_targets[name]
            way_on = f"; match='per_query' keeps {more} of them" if more else f": {left_out}"
            warning = (
                f"{n_without} of {n_all} queries with targets have none at the match level ({name})"
                f" and are in no retrieval mean{way_on}"
            )
        irrelevant = tuple(at for at in why if judges_irrelevant(targets_at(golden, at)))
        return cls(name, left_out, joinable or ("doc",), fallback, irrelevant, warning)

    @property
    def used(self) -> tuple[str, ...]:
        """The levels that queries are matched at: one, unless each query has its own."""
        return self.joinable if self.name == "per_query" else (self.name,)


def _obstacle(results: Results, golden: Golden, level: str) -> str:
    """Say why golden set and runs can't be joined at a level; "" if they can."""
    hits, runs = results.hits, results.runs["run_id"].cat.categories
    if level == "predicate":
        has_text = any(name in hits and hits[name].notna().any() for name in ("source_key", "text"))
        if has_text or results.hit_meta is not None or not len(hits):
            return ""
        return "hits have neither source key nor metadata nor text"
    if level == "chunk":
        return _chunks_differ(results, golden)
    column, run = COLUMNS[level], codes_of(hits["run_id"])
    given = hits[column].notna().to_numpy() if column in hits else np.zeros(len(hits), dtype=bool)
    if given.all():
        return ""
    n_hits, n_given = (np.bincount(of, minlength=len(runs)) for of in (run, run[given]))
    without = ", ".join(runs[(n_hits > 0) & (n_given == 0)])
    return without and f"hits of {without} have no {'span' if level == 'span' else column}"


def _chunks_differ(results: Results, golden: Golden) -> str:
    """An unknown chunker version agrees if expected ids are among the hits or chunks of the run."""
    targets = targets_at(golden, "chunk").targets
    of_runs = chunker_versions(results)
    of_golden = targets.get("chunker_version", pd.Series(dtype="str")).dropna().unique()
    known = sorted({*of_golden, *of_runs.dropna()})
    if len(known) > 1:
        return f"chunker versions differ ({', '.join(known)})"
    if len(of_golden) and of_runs.notna().all():
        return ""
    seen = _runs_with_any(results, targets["chunk_id"])
    if not len(of_golden) and not seen:
        return "no expected chunk id is among the hits and the golden set names no chunker version"
    if unseen := [one for one in of_runs.index[of_runs.isna()] if one not in seen]:
        return f"{', '.join(unseen)} names no chunker version and holds no expected chunk id"
    return ""


def _runs_with_any(results: Results, chunk_ids: pd.Series) -> set[str]:
    """Return the runs whose hits, or whose chunk catalogue, hold any of these chunk ids."""
    run_ids = results.runs["run_id"].astype("str")
    found, hits, chunks = set[str](), results.hits, results.chunks
    # one hit of each run is enough, and as a rule it comes early
    for rows in blocks(0, len(hits), SEARCHED) if "chunk_id" in hits else ():
        some = hits.iloc[rows]
        found |= set(some.loc[is_among(some["chunk_id"], chunk_ids), "run_id"].astype("str"))
        if len(found) == len(run_ids):
            return found
    if chunks is not None:
        known = chunks.reindex(columns=["run_id", "chunk_id"])
        runs = known.loc[is_among(known["chunk_id"], chunk_ids), "run_id"]
        found |= set(run_ids if runs.isna().any() else runs.astype("str"))  # NA: of every run
    return found


def chunker_versions(results: Results) -> pd.Series:
    """Return the chunker version of each run: it states it, or all its hits do; NA if unknown."""
    index = pd.Index(results.runs["run_id"].astype("str"))
    stated = results.runs.reindex(columns=["chunker_version"])["chunker_version"].astype("str")
    stated = stated.set_axis(index)
    if "chunker_version" in results.hits and stated.isna().any():
        pairs = results.hits[["run_id", "chunker_version"]].dropna().drop_duplicates().astype("str")
        single = pairs.drop_duplicates("run_id", keep=False).set_index("run_id")["chunker_version"]
        stated = stated.fillna(single.reindex(index))
    return stated


_LOCATORS, _SPAN = ["doc_id", "path"], ["start", "end", "span_unit"]


def resolve_spans(golden: Golden, known: Results | pd.DataFrame) -> Golden:
    """Give expected chunk ids the document and span that they have in a run or catalogue.

    The span rule can then find them after re-chunking. An explicit step, so that adding a run never
    changes another run's score. Locators that a target has already stay; ids that nothing knows
    keep no span.

    Parameters
    ----------
    known
        Results (their chunk catalogue and their hits), or a frame with chunk_id, doc_id, start, end
        and span_unit.

    Raises
    ------
    DataError
        One chunk id with two different spans: chunk ids of different chunkers collide. A target
        whose document isn't the one that its chunk is in.
    """
    check_type(known, (Results, pd.DataFrame), "known", "Results or a DataFrame with chunk_id")
    if isinstance(known, pd.DataFrame):
        check_known("chunk_id", list(known), "known", "column", "it has")
    names, targets = [*_LOCATORS, *_SPAN], golden.targets
    is_chunk = targets["level"].eq("chunk").to_numpy(dtype=bool)
    if "chunk_id" not in targets or not is_chunk.any():
        return golden
    frames = [known] if isinstance(known, pd.DataFrame) else [known.chunks, known.hits]
    dtypes = dict.fromkeys(["chunk_id", *names], "str") | {"start": "Int64", "end": "Int64"}
    rows = pd.concat(
        one.reindex(columns=[*dtypes]).astype(dtypes) for one in frames if one is not None
    )
    rows = rows[is_among(rows["chunk_id"], targets.loc[is_chunk, "chunk_id"].dropna())]
    by_chunk = rows.drop_duplicates().groupby("chunk_id", sort=False)[names]
    n_values = by_chunk.nunique()
    if twice := sorted(n_values.index[(n_values > 1).any(axis=1)]):
        raise DataError(
            f"{len(twice)} chunk ids have more than one span: {', '.join(twice[:10])}",
            field="chunk_id",
            allowed="one span per chunk id; resolve from one chunker's run",
        )
    spans, own = by_chunk.first().dropna(subset="start"), targets.reindex(columns=names)
    found = spans.reindex(targets["chunk_id"]).set_axis(targets.index)
    both = own[_LOCATORS].notna() & found[_LOCATORS].notna()
    differs = (both & (own[_LOCATORS] != found[_LOCATORS])).any(axis=1).to_numpy(bool)
    if wrong := sorted(targets.loc[is_chunk & differs, "chunk_id"].unique()):
        raise DataError(
            f"{len(wrong)} expected chunks are in another document than the catalogue says:"
            f" {', '.join(wrong[:10])}",
            field="chunk_id",
            allowed="chunk ids of the chunker that the golden set was written for",
        )
    lacks = own.isna().assign(**dict.fromkeys(_SPAN, own["start"].isna()))
    resolved = own.where(~lacks | ~is_chunk[:, None], found)
    return replace(golden, targets=targets.assign(**{name: resolved[name] for name in names}))
