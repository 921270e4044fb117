"""Find the match level of stored runs without reading all their hits.

The level depends on which columns of the hits hold values, which chunker versions occur, and
whether expected chunk ids occur. Parquet statistics tell the first, a sample of hits the rest.

In: the batches of `part_scoring`. Out: the job with the one level that all runs lead to.
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, is_among, is_present
from ragscore.frames.data import Results, empty, from_records, narrowed
from ragscore.scoring.level import choose_level
from ragscore.store.part_scoring import Batch, ScoringJob, read_batch, run_each
from ragscore.store.parts import Part, head_of, statistics_of

# A run of at most so many responses is read whole: its first ones alone would save nothing.
SMALL_RUN = 512
_LEVEL_COLUMNS = ("start", "path", "doc_id", "source_key", "text")


@dataclass(frozen=True)
class LevelEvidence:
    """Evidence of one run, or a batch of small ones, for the match level.

    Attributes
    ----------
    results
        A sample of the hits, from which the level follows as from all of them.
    """

    number: int
    results: Results


def find_level(groups: list[list[Batch]], job: ScoringJob, client: Any) -> ScoringJob:
    """Return the job with the match level that all runs together lead to."""
    # Small runs are told together: what is made of each batch takes longer than to look at it.
    from_files = _from_file_statistics([part for group in groups for part in group[0]], job)
    if from_files is not None:
        return _with_level([LevelEvidence(0, from_files)], job)
    with closing(run_each(find_evidence, groups, job, client)) as evidence:
        return _with_level(evidence, job)


def find_evidence(group: list[Batch], number: int, job: ScoringJob) -> LevelEvidence:
    """Search the parts of a run, or a batch of small runs, until nothing more can turn up.

    Runs on a worker.
    """
    from_files = _from_file_statistics(list(group[0]), job)
    if from_files is not None:
        return LevelEvidence(number, from_files)
    runs, expected = [part.run for part in group[0]], _expected_chunks(job)
    # The first responses of a large run mostly hold all that its other parts could show.
    is_small = len(runs) > 1 or group[-1][0].last <= SMALL_RUN
    batches = group if is_small else [(head_of(group[0][0]),), *group]
    missing = set[str]()
    if len(batches) > 1:
        columns = {*_LEVEL_COLUMNS, "chunker_version", *(["chunk_id"] if len(expected) else [])}
        statistics = group[0][0].hit_columns
        missing = {name for name in columns if statistics.get(name, False) is not False}
        missing -= set(job.without)
    kinds = ("hits", "hit_meta", "chunks")
    samples: list[Results] = []
    for batch in batches:
        results, _ = read_batch(batch, job, kinds)
        samples.append(_sample_hits(job.policies.lists(results), expected))
        missing -= _settled_columns(samples[-1], expected)
        if not missing:
            break
    hits = pd.concat([sample.hits for sample in samples], ignore_index=True)
    hits = hits.assign(rank=np.arange(1, len(hits) + 1, dtype=np.int32))
    chunks = [sample.chunks for sample in samples if sample.chunks is not None]
    meta = [sample.hit_meta for sample in samples if sample.hit_meta is not None]
    joined = narrowed(
        samples[0],
        hits=hits,
        chunks=chunks[0] if chunks else None,
        hit_meta=meta[0] if meta else None,
    )
    return LevelEvidence(number, joined)


def _expected_chunks(job: ScoringJob) -> pd.Series:
    targets = job.golden.targets
    if "chunk_id" not in targets:
        return pd.Series(dtype="str")
    return targets.loc[targets["level"] == "chunk", "chunk_id"]


def _with_level(evidence: Iterable[LevelEvidence], job: ScoringJob) -> ScoringJob:
    # Workers answer in any order, on which the level and its reasons must not depend.
    ordered = sorted(evidence, key=lambda one: one.number)
    results = (
        ordered[0].results
        if len(ordered) == 1
        else Results.concat([one.results for one in ordered])
    )
    of_hits = job.reading.golden(job.golden)[1]
    return replace(job, level=choose_level(results, of_hits._coded, job.policies.match))


def _from_file_statistics(parts: list[Part], job: ScoringJob) -> Results | None:
    """Return one made-up hit per run, with a value in each column that holds any.

    `parts` are the first of each run. None where statistics don't suffice: they may be missing,
    and they tell no ids, nor which hits remain when hits are collapsed.
    """
    if job.policies.collapse != "none" or len(_expected_chunks(job)):
        return None
    hits, meta = [], []
    for part in parts:
        has_values = {
            name: is_filled
            for name, is_filled in part.hit_columns.items()
            if name in _LEVEL_COLUMNS and name not in job.without
        }
        if None in has_values.values():
            return None
        key = {"run_id": part.run.run_id, "query_id": "", "rank": 1}
        if part.run_hits:
            values = {
                name: None if not is_filled else 0 if name == "start" else "?"
                for name, is_filled in has_values.items()
            }
            hits.append(key | values)
        if any(statistics_of(part.run, "hit_meta").values()):
            meta.append(key | {"key": "?", "value": "?"})
    runs = pd.concat([part.about for part in parts])
    return Results(
        runs=runs.assign(run_id=runs["run_id"].astype("str")),
        responses=empty("responses"),
        hits=from_records(hits, "hits"),
        hit_meta=from_records(meta, "hit_meta") if meta else None,
    )


def _sample_hits(results: Results, expected: pd.Series) -> Results:
    """Keep a few hits of each run: one per column that holds a value, and per chunker version.

    And one whose chunk id is expected.
    """
    hits, run = results.hits, codes_of(results.hits["run_id"])
    conditions = [np.ones(len(hits), dtype=bool)]
    conditions += [is_present(hits[name]) for name in _LEVEL_COLUMNS if name in hits]
    if "chunk_id" in hits:
        conditions.append(is_among(hits["chunk_id"], expected))
    rows = []
    for holds in conditions:
        at = np.flatnonzero(holds)
        # Rows lie run by run, so the first of each run is where the run changes.
        rows.append(at[np.diff(run[at], prepend=-1) != 0])
    if "chunker_version" in hits:
        versions = hits.assign(run_id=run)[["run_id", "chunker_version"]]
        rows.append(np.flatnonzero(~versions.duplicated().to_numpy()))
    sample = hits.iloc[np.unique(np.concatenate(rows))]
    if "text" in sample:
        # Only whether there is a text counts, and samples come back from workers.
        sample = sample.assign(text=sample["text"].str.slice(0, 1))
    chunks, meta = results.chunks, results.hit_meta
    if chunks is not None:
        chunks = chunks[is_among(chunks["chunk_id"], expected)].drop_duplicates("run_id")
    return narrowed(
        results,
        responses=results.responses.iloc[:0],
        citations=results.citations.iloc[:0],
        hits=sample,
        chunks=chunks,
        hit_meta=meta.head(1) if meta is not None and len(meta) else None,
        **dict.fromkeys(("judgments", "reported", "calls", "documents")),
    )


def _settled_columns(sample: Results, expected: pd.Series) -> set[str]:
    """Return the columns of which no further hits are needed.

    Versions are settled where each run states its own.
    """
    hits, runs = sample.hits, sample.runs
    settled = {name for name in _LEVEL_COLUMNS if name in hits and hits[name].notna().any()}
    if "chunk_id" in hits and is_among(hits["chunk_id"], expected).any():
        settled.add("chunk_id")
    if "chunker_version" in runs and runs["chunker_version"].notna().all():
        settled.add("chunker_version")
    return settled
