"""What decides the match level of stored runs.

What their files' statistics tell, or a few of their hits, looked for part by part.

In: the batches of `score_parts`. Out: the setting with the one level that all runs together lead
to.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import Codes, SmallCodes, codes_of, is_among, is_present
from ragscore.frames.data import Results, concat_results, empty, from_records, narrowed
from ragscore.frames.ranking import collapsed
from ragscore.scoring.citations import citation_levels, cited_passages, levels_with_targets
from ragscore.scoring.level import choose_level
from ragscore.scoring.matching import LEVELS, response_of
from ragscore.scoring.score import keeps_refusals
from ragscore.store.part_scoring import Batch, Setting, read_batch
from ragscore.store.parts import READ, filled, head_of

FEW = 512  # responses of a run that is read at once
_DECIDING = ("start", "path", "doc_id", "source_key", "text")


@dataclass(frozen=True)
class Found:
    """What decides the match level, of one run or batch.

    A few of its hits, and at which levels its citations can be compared.
    """

    number: int
    results: Results
    carried: set[str]
    cites: bool


def find_level(group: list[Batch], number: int, setting: Setting) -> Found:
    """Look through the parts of one run, or a batch of small ones, for what decides the match level, until all that there may be is found; runs on a worker."""
    runs = [part.run for part in group[0]]
    wanted = (
        setting.golden.targets.loc[setting.golden.targets["level"] == "chunk", "chunk_id"]
        if "chunk_id" in setting.golden.targets
        else pd.Series(dtype="str")
    )
    cites = any(not label.is_ranking for label in setting.labels) and any(
        (run.folder / "citations.parquet").exists() for run in runs
    )
    if not cites and not len(wanted) and (told := _told_by_files(group[0], setting)) is not None:
        return Found(number, told, set(), cites=False)
    looked_at = (
        group if len(runs) > 1 or group[-1][0].last <= FEW else [(head_of(group[0][0]),), *group]
    )
    open_columns = set[str]()
    if len(looked_at) > 1:
        open_columns = {
            *_DECIDING,
            *(("chunk_id",) if len(wanted) else ()),
            "chunker_version",
        } - set(setting.without)
        open_columns &= {
            name for name, is_filled in filled(runs[0], "hits").items() if is_filled is not False
        }
    found: list[Results] = []
    carried: set[str] = set()
    has_cited, open_levels = (
        False,
        set(levels_with_targets(setting.golden, set(LEVELS))) if cites else set(),
    )
    kinds = (
        READ
        if cites
        else tuple(kind for kind in READ if kind not in ("citations", "judgments", "matches"))
    )
    for batch in looked_at:
        results, _ = read_batch(batch, setting, kinds)
        ranked = collapsed(results) if setting.policies["collapse"] == "doc" else results
        witness = _witness(ranked, wanted)
        found.append(witness)
        open_columns -= _decided(witness, wanted)
        if cites:
            of_part, cited_here = _carried(results)
            carried, has_cited = carried | of_part, has_cited or cited_here
        if not open_columns and not open_levels - carried:
            break
    hits = pd.concat([one.hits for one in found], ignore_index=True)
    hits = hits.assign(rank=np.arange(1, len(hits) + 1, dtype=np.int32))
    chunks = [one.chunks for one in found if one.chunks is not None]
    meta = [one.hit_meta for one in found if one.hit_meta is not None]
    return Found(
        number,
        narrowed(
            found[0],
            hits=hits,
            chunks=chunks[0] if chunks else None,
            hit_meta=meta[0] if meta else None,
        ),
        carried,
        has_cited,
    )


def _told_by_files(batch: Batch, setting: Setting) -> Results | None:
    """Stand-ins for the hits that decide, made of what the statistics of the files say.

    None where these don't say enough, or the hits are to be collapsed.
    """
    if setting.policies["collapse"] != "none":
        return None
    hits, meta = [], []
    for part in batch:
        found = filled(part.run, "hits")
        is_there = {
            name: found[name] for name in _DECIDING if name in found and name not in setting.without
        }
        if None in is_there.values():
            return None
        key = {"run_id": part.run.run_id, "query_id": "", "rank": 1}
        if part.run_hits:
            hits.append(
                key
                | {
                    name: (0 if name == "start" else "?") if is_filled else None
                    for name, is_filled in is_there.items()
                }
            )
        if any(filled(part.run, "hit_meta").values()):
            meta.append(key | {"key": "?", "value": "?"})
    runs = pd.concat([part.about for part in batch])
    return Results(
        runs=runs.assign(run_id=runs["run_id"].astype("str")), responses=empty("responses"),
        hits=from_records(hits, "hits"),
        hit_meta=from_records(meta, "hit_meta") if meta else None,
    )  # fmt: skip


def _witness(results: Results, wanted: pd.Series) -> Results:
    """The few hits that decide at which level runs can be matched.

    Of each run one for each column that holds something, and each chunker version.
    """
    hits, run = results.hits, codes_of(results.hits["run_id"])
    versions = np.zeros(0, dtype=np.int64)
    holds = [
        np.ones(len(hits), dtype=bool),
        *(is_present(hits[name]) for name in _DECIDING if name in hits),
    ]
    if "chunk_id" in hits:
        holds.append(is_among(hits["chunk_id"], wanted))
    if "chunker_version" in hits:
        versions = np.flatnonzero(
            ~hits.assign(run_id=run)[["run_id", "chunker_version"]].duplicated().to_numpy()
        )
    rows = np.unique(
        np.concatenate([*(_first_of_each(run, is_there) for is_there in holds), versions])
    )
    few = hits.iloc[rows]
    if "text" in few:
        few = few.assign(text=few["text"].str.slice(0, 1))
    chunks = (
        None
        if results.chunks is None
        else results.chunks[is_among(results.chunks["chunk_id"], wanted)].drop_duplicates("run_id")
    )
    meta = (
        None if results.hit_meta is None or not len(results.hit_meta) else results.hit_meta.head(1)
    )
    left_out = dict.fromkeys(("judgments", "reported", "matches", "hops", "documents"))
    return narrowed(
        results,
        responses=results.responses.iloc[:0],
        citations=results.citations.iloc[:0],
        hits=few,
        chunks=chunks,
        hit_meta=meta,
        **left_out,
    )


def _first_of_each(run: SmallCodes, is_there: npt.NDArray[np.bool_]) -> Codes:
    """The first row of each run for which this holds; rows lie run by run."""
    rows = np.flatnonzero(is_there)
    return rows[np.diff(run[rows], prepend=-1) != 0]


def _decided(witness: Results, wanted: pd.Series) -> set[str]:
    """Columns of which nothing more needs to be found; versions are, where the run states its own."""
    hits, decided = (
        witness.hits,
        {name for name in _DECIDING if name in witness.hits and witness.hits[name].notna().any()},
    )
    if "chunk_id" in hits and is_among(hits["chunk_id"], wanted).any():
        decided.add("chunk_id")
    if "chunker_version" in witness.runs and witness.runs["chunker_version"].notna().all():
        decided.add("chunker_version")
    return decided


def _carried(results: Results) -> tuple[set[str], bool]:
    """The levels at which citations of these results can be compared, and whether there are any."""
    responses = results.responses.reset_index(drop=True)
    citations = results.citations.reset_index(drop=True)
    place = response_of(citations, responses)
    if not (place >= 0).any():
        return set(), False
    kept = citations[place >= 0].reset_index(drop=True)
    return (
        citation_levels(
            cited_passages(results, kept, place[place >= 0], response_of(results.hits, responses))
        ),
        True,
    )


def settle(found: Iterable[Found], setting: Setting, match: str) -> Setting:
    """The setting with the match level that all runs together lead to."""
    looked = sorted(found, key=lambda one: one.number)
    results = (
        looked[0].results if len(looked) == 1 else concat_results([one.results for one in looked])
    )
    level = choose_level(results, setting.golden, match, keeps_refusals(setting.profile))
    carried = (
        set().union(*(one.carried for one in looked))
        if any(one.cites for one in looked)
        else set(LEVELS)
    )
    return replace(
        setting,
        level=replace(level, citation_levels=tuple(levels_with_targets(setting.golden, carried))),
    )
