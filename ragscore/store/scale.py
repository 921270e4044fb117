"""Score stored runs group by group, here or on a Dask cluster, in bounded memory.

A group is as many parts of runs as hold `PART_HITS` hits together: many small runs, or one part of
a large one. Each is scored by the same function, and only its scores come back. What must be the
same for all groups, metrics and match level, follows from the runs' files before.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import (
    KINDS,
    Golden,
    Results,
    categorical,
    from_records,
    golden_part,
)
from ragscore.frames.errors import packages_of, warn
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import MetricTable
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import SETTINGS
from ragscore.scoring.readings import Reading
from ragscore.scoring.rules import READS_TEXT, Rule
from ragscore.scoring.score import Asked, Scored, scored, table_of
from ragscore.scoring.summary import summarize
from ragscore.scoring.turns import with_turns
from ragscore.store import tables
from ragscore.store.runs import StoredRun
from ragscore.store.tables import Part, map_threads, read_frame, read_parts, read_table

MADE_UP = ""  # the id of a made-up query
READ = ("responses", "hits", "citations", "hit_meta", "judgments", "chunks", "calls")


@dataclass(frozen=True)
class Job:
    """Everything that all groups are scored by."""

    golden: Golden
    rule: Rule | None
    reading: Reading
    policies: Policies
    about: pd.DataFrame  # the runs' rows of the runs frame
    table: MetricTable
    labels: Asked = ()
    level: Level | None = None
    known: Results | None = None  # an outline of the runs
    counts: bool = False  # whether expected values are counted

    @property
    def has_own_code(self) -> bool:
        """True if a rule or a metric of your own is called."""
        return self.rule is not None or bool(self.table.own)

    def read(self, group: list[Part]) -> Results:
        """Read what scoring looks at: text is most of what a hit weighs."""
        reads_text = is_among(self.golden.targets["level"], (*READS_TEXT, "source_key")).any()
        without = ["x_*", "score_lexical", "score_vector", "score_kind"]
        without += ["score"] * (self.policies.ties == "file") + ["text"] * (not reads_text)
        run_ids = list(dict.fromkeys(run.run_id for run, _ in group))
        about = self.about[self.about["run_id"].astype("str").isin(run_ids)]
        return read_parts(group, about, READ, () if self.has_own_code else without)

    def scored(self, results: Results, golden: Golden, labels: Asked) -> Scored:
        """Score these results as `rs.score` does."""
        return scored(
            *with_turns(results, golden), labels, rule=self.rule, profile=self.reading,
            policies=self.policies, level=self.level,
        )  # fmt: skip


class GroupScores(NamedTuple):
    """The scores of a group, and what there is to say about them."""

    scores: pd.DataFrame
    notes: tuple[str, ...]
    expected: pd.DataFrame | None


def score_stored_runs(
    runs: list[StoredRun], about: pd.DataFrame, golden: Golden, metrics: Asked, *,
    rule: Rule | None, profile: Reading, policies: Policies, client: Any = None,
    counts: bool = False,
) -> tuple[Scored, pd.DataFrame | None]:  # fmt: skip
    """Score stored runs, of which `about` holds the rows of the runs frame.

    Where they were not scored at once, the rows behind the scores come from an `outline`. With
    `counts`, also return how many values were expected, per run and metric.
    """
    table = table_of(metrics)
    job = Job(golden, rule, profile, policies, about, table, counts=counts)
    groups = groups_of(runs, len(golden.queries))
    if len(groups) == 1 and client is None:  # it fits: as `rs.score` does
        found = job.scored(job.read(groups[0]), golden, metrics)
        for note in found.notes:
            warn(note)
        return found, None
    known = outline(runs, groups, job, client)
    plan = scored(
        known, golden, metrics, rule=rule, profile=profile, policies=policies, is_outline=True
    )
    job = replace(job, labels=plan.labels, level=plan.level, known=known)
    parts = list(run_each(score_group, groups, job, client))
    scores, notes = _assembled(parts, job), Counter[str]()
    for note in [note for one in parts for note in one.notes]:
        n = "" if note.startswith("ids of") else re.findall(r"\d+", note)[0]
        notes[note.replace(n, "{}", 1) if n else note] += int(n or 0)
    for note in [
        *(text.replace("{}", str(n), 1) for text, n in notes.items()),
        *plan.notes_on(scores),
    ]:
        warn(note)
    counted = pd.concat([one.expected for one in parts]) if counts else None
    return replace(plan, scores=scores), counted


def groups_of(runs: list[StoredRun], n_queries: int) -> list[list[Part]]:
    """Gather parts of runs; a part of a large run is a group by itself."""
    groups: list[list[Part]] = []
    room = 0
    for run in runs:
        n_rows = run.n_rows("hits") + max(run.n_rows("responses"), n_queries)
        if run.n_parts == 1 and n_rows <= room:
            groups[-1].append((run, 0))
        else:
            groups += [[(run, part)] for part in range(run.n_parts)]
            room = tables.PART_HITS // 4 if run.n_parts == 1 else 0  # several for the threads
        room -= n_rows
    return groups


def outline(runs: list[StoredRun], groups: list[list[Part]], job: Job, client: Any) -> Results:
    """Return a few made-up rows per run, from which metrics and match level follow as from all.

    The runs' files list the columns that hold a value. Only expected chunk ids, versions of
    chunkers and numbers of calls are looked up.
    """
    rows = {kind: [_made_up(run, kind, run.filled(kind)) for run in runs if run.n_rows(kind)]
            for kind in ("responses", "hits", "citations", "hit_meta")}  # fmt: skip
    chunks: list[dict[str, Any]] = []
    has_calls = any("call" in run.filled("hits") for run in runs)
    if has_calls or len(_expected_chunks(job)):
        for hits, own in run_each(find_evidence, groups, job, client):
            rows["hits"] += [one | {"query_id": MADE_UP} for one in hits]
            chunks += own
    rows["hits"] = [one | {"rank": rank} for rank, one in enumerate(rows["hits"], 1)]
    rows["calls"] = [{"run_id": run.run_id, "query_id": MADE_UP, "call": 1} for run in runs
                     if run.n_rows("calls") or "call" in run.filled("hits")]  # fmt: skip
    of_judges = frozenset(["state", *SETTINGS]).__contains__
    read = map_threads(lambda run: read_frame(run, "judgments", of_judges), runs)
    judged = [
        one.drop_duplicates().assign(run_id=run.run_id, item=lambda rows: rows.index.astype(str))
        for run, one in zip(runs, read, strict=True)
        if one is not None
    ]
    return Results(
        runs=job.about.assign(run_id=[run.run_id for run in runs]),
        **{kind: from_records(own, kind) for kind, own in rows.items()
           if own or kind not in ("hit_meta", "calls")},
        chunks=from_records(chunks, "chunks") if chunks else None,
        judgments=pd.concat(judged).assign(query_id=MADE_UP, value=np.nan) if judged else None,
    )  # fmt: skip


def _made_up(run: StoredRun, kind: str, filled: set[str]) -> dict[str, Any]:
    """Return a row with a value in each of these columns."""
    values = {"str": "?", "boolean": False, "float64": 0.0, "Int64": 1, "int32": 1}
    dtypes, unlike = KINDS[kind].dtypes, ("error", "call", "chunker_version")
    known = [name for name in filled & dtypes.keys() if name not in unlike]
    return {name: values.get(dtypes[name]) for name in known} | {
        "run_id": run.run_id, "query_id": MADE_UP
    }  # fmt: skip


def _expected_chunks(job: Job) -> pd.Series:
    targets = job.golden.targets
    if "chunk_id" not in targets:
        return pd.Series(dtype="str")
    return targets.loc[targets["level"].eq("chunk").to_numpy(), "chunk_id"].dropna()


def find_evidence(group: list[Part], job: Job) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return hits and chunks of a group: an expected one per run, each version, the last call."""
    expected = _expected_chunks(job)
    is_read = frozenset(["chunk_id", "chunker_version", "call"]).__contains__
    hits: list[dict[str, Any]] = []
    chunks: list[dict[str, Any]] = []
    for run, part in group:
        for kind, found in (("hits", hits), ("chunks", chunks)):
            table = read_table(run, kind, part, is_read)
            if table is None or not table.num_columns:
                continue
            frame = table.to_pandas()
            rows = []
            if "chunk_id" in frame:
                rows.append(frame.loc[is_among(frame["chunk_id"], expected), ["chunk_id"]].head(1))
            for name in ("chunker_version", "call"):
                if kind == "hits" and name in frame:
                    values = frame[[name]].dropna().drop_duplicates()
                    rows.append(values.nlargest(1, name) if name == "call" else values)
            found += [
                row | {"run_id": run.run_id} for one in rows for row in one.to_dict("records")
            ]
    return hits, chunks


def run_each(
    work: Callable[[list[Part], Job], Any], groups: list[list[Part]], job: Job, client: Any
) -> Generator[Any]:
    """Yield `work` of each group in order: here in threads, or on the workers of a cluster.

    A rule or metric of your own is called by one thread only.
    """
    if client is None:
        n_threads = 1 if job.has_own_code else min(pa.cpu_count(), len(groups))
        # pandas silences warnings for a moment, and two threads could restore each other's silence
        with warnings.catch_warnings(), ThreadPoolExecutor(n_threads) as pool:
            yield from pool.map(work, groups, [job] * len(groups))
        return
    with packages_of("scale", field="client"):
        import cloudpickle
    # A task and not scattered data: a worker that is lost with its copy gets the job again.
    shared = client.submit(bytes, cloudpickle.dumps(job), pure=False)
    yield from client.gather(client.map(_on_worker, groups, work=work, job=shared, pure=False))


def _on_worker(group: list[Part], work: Callable[[list[Part], Job], Any], job: bytes) -> Any:
    try:
        return work(group, _unpickled(job))
    finally:  # a worker is paused for good while arrow keeps what it freed
        pa.default_memory_pool().release_unused()


@lru_cache(maxsize=2)
def _unpickled(job: bytes) -> Job:
    import cloudpickle

    found: Job = cloudpickle.loads(job)
    return found


def score_group(group: list[Part], job: Job) -> GroupScores:
    """Score a group; of a part of a run, the queries that it answers."""
    (run, part), results, golden = group[0], job.read(group), job.golden
    if run.n_parts > 1:
        query_ids = golden.queries["query_id"]
        own = is_among(query_ids, results.responses["query_id"])
        if not part:  # and those that no part answers
            parts = range(1, run.n_parts)
            elsewhere = [read_table(run, "responses", one, "query_id".__eq__) for one in parts]
            ids = pa.concat_tables([one for one in elsewhere if one is not None])["query_id"]
            own = ~is_among(query_ids, ids.to_pandas())
        golden = golden_part(golden, golden.queries[own])
    found = job.scored(_with_outline(results, job), golden, job.labels)
    scores, expected = found.scores[found.scores.index != MADE_UP], None
    if job.counts:
        summary = summarize(scores, golden, rows=found.rows, table=found.table)
        expected = summary[["run_id", "metric", "n_expected"]]
    # of ids, one part represents the others; all else is a number of hits
    said = [one for one in found.notes if not part or not one.startswith("ids of")]
    return GroupScores(scores, tuple(said), expected)


def _with_outline(results: Results, job: Job) -> Results:
    """Add a made-up query to each run that has what it records in any part: 0 isn't unknown."""
    assert job.known is not None
    known = job.known.select(results.runs["run_id"].astype("str").tolist())
    kinds = ("responses", "citations", "judgments", "calls")
    frames = {kind: [one for one in (getattr(results, kind), getattr(known, kind))
                     if one is not None and len(one)] for kind in kinds}  # fmt: skip
    return replace(results, **{
        kind: pd.concat(own, ignore_index=True) for kind, own in frames.items() if own
    })  # fmt: skip


def _assembled(parts: list[GroupScores], job: Job) -> pd.DataFrame:
    """Return scores as `rs.score` orders them."""
    run_ids = job.about["run_id"].astype("str").tolist()
    scores = pd.concat([one.scores.astype({"run_id": "str"}) for one in parts])
    run = pd.Index(run_ids).get_indexer(pd.Index(scores["run_id"]))
    scores["run_id"] = categorical(run, run_ids)
    place = lookup(scores.index, job.golden.queries["query_id"])
    is_extra = place < 0
    order = np.lexsort([np.where(is_extra, 0, place), run, is_extra])
    return scores if pd.Index(order).is_monotonic_increasing else scores.iloc[order]
