"""Score stored runs part by part, here or on the workers of a cluster.

Each part is scored by the same function, and only its scores come back. What must be the same for
all parts, above all the match level, is fixed before (`level_search`).

In: batches of parts and a `ScoringJob`. Out: the frame of `rs.score`.
"""

import re
import warnings
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import codes_of, is_among, lookup
from ragscore.frames.data import Golden, Results, categorical, narrowed, rows_where
from ragscore.frames.errors import packages_of, warn
from ragscore.scoring.level import Level
from ragscore.scoring.metrics import Label
from ragscore.scoring.policies import Policies
from ragscore.scoring.readings import Reading
from ragscore.scoring.rows import STATES
from ragscore.scoring.rules import READS_TEXT, Rule
from ragscore.scoring.score import Scored, scored
from ragscore.scoring.targets import LEVELS
from ragscore.store.parts import (
    PART_HITS,
    PART_HITS_WITH_TEXT,
    READ,
    Part,
    read_part,
)
from ragscore.store.tables import read_runs

TEXT_TARGETS = (*READS_TEXT, "source_key")
# Small runs are scored together, a quarter of a part at a time: scoring a run has fixed costs, and
# yet there should be a batch for each thread or worker.
BATCHES_OF_PART = 4
SMALLEST_BATCH = 4  # A run is small if at least so many fit into a batch.
# The scores of a batch hold every golden query for each run: so many rows of the default metrics
# take about 60 MB.
BATCH_ROWS = 2**17
Batch = tuple[Part, ...]  # a part of one run, or several small runs, each whole


@dataclass(frozen=True)
class ScoringJob:
    """Everything that all parts are scored by."""

    golden: Golden
    labels: list[Label]
    rule: Rule | None
    reading: Reading
    policies: Policies
    level: Level | None = None

    @cached_property
    def without(self) -> tuple[str, ...]:
        """Columns of hits that nothing reads; text is most of what a hit weighs."""
        if self.has_own_code:
            return ()
        text = () if reads_text(self.golden, self.rule) else ("text",)
        score = ("score",) if self.policies.ties == "file" else ()
        dropped = (*score, "score_lexical", "score_vector", "score_kind", *text)
        return ("x_*", *dropped)

    @property
    def has_own_code(self) -> bool:
        """True if a rule or a metric of your own is called."""
        return self.rule is not None or any(label.metric.source for label in self.labels)

    @property
    def joins_ids(self) -> bool:
        """True if hits are only joined by their ids, so that these may stay codes."""
        return "text" in self.without

    @property
    def part_hits(self) -> int:
        """The number of hits of a part by default: fewer where their texts are read."""
        return PART_HITS if self.joins_ids else PART_HITS_WITH_TEXT

    def scores_of(self, results: Results, golden: Golden) -> Scored:
        """Score these results; `golden` holds all or some of the job's queries."""
        assert self.level is not None
        return scored(
            results, golden, self.labels, rule=self.rule, profile=self.reading,
            policies=self.policies, level=self.level,
        )  # fmt: skip

    def golden_of(self, has_query: npt.NDArray[np.bool_]) -> Golden:
        """Return the golden set with these of its queries."""
        frames = {
            name: rows_where(getattr(self.golden, name), has_query[query])
            for name, query in self._query_of.items()
        }
        return narrowed(self.golden, queries=rows_where(self.golden.queries, has_query), **frames)

    @cached_property
    def _query_of(self) -> dict[str, npt.NDArray[np.int64]]:
        """The query of each row of each golden frame, looked up once for all parts."""
        frames = {item.name: getattr(self.golden, item.name) for item in fields(self.golden)}
        ids = pd.Index(self.golden.queries["query_id"])
        return {
            name: lookup(frame["query_id"], ids)
            for name, frame in frames.items()
            if "query_id" in frame and name not in ("queries", "problems")
        }


def reads_text(golden: Golden, rule: Rule | None) -> bool:
    """Return whether scores may depend on the texts of hits."""
    return rule is not None or bool(is_among(golden.targets["level"], TEXT_TARGETS).any())


@dataclass(frozen=True)
class BatchScores:
    """The scores of one batch, as small as they can be sent.

    Rows are, run by run, the golden queries at the positions `query`; after those of all runs,
    responses without a golden query, with their ids in `extra` and the places of their runs in the
    batch in `extra_run`. States and levels are codes.
    """

    number: int
    query: npt.NDArray[np.int32]
    extra: list[str]
    extra_run: npt.NDArray[np.int32]
    state: npt.NDArray[np.int8]
    level: npt.NDArray[np.int8]
    values: npt.NDArray[np.float64]  # metrics by rows
    notes: tuple[str, ...]

    def __sizeof__(self) -> int:
        # Dask asks: a worker must know what the scores it holds weigh.
        arrays = (self.query, self.extra_run, self.state, self.level, self.values)
        return sum(array.nbytes for array in arrays) + sum(map(len, self.extra))


def batches_of(
    parts_of_runs: list[list[Part]], n_queries: int, part_hits: int
) -> list[list[Batch]]:
    """Return the batches of each run, one per part; small runs in sequence share one batch."""
    groups: list[list[Batch]] = []
    hits_left = rows_left = 0
    for parts in parts_of_runs:
        hits, rows = parts[0].run_hits, max(n_queries, parts[0].last)
        is_small = len(parts) == 1 and hits * BATCHES_OF_PART * SMALLEST_BATCH <= part_hits
        if is_small and hits <= hits_left and rows <= rows_left:
            groups[-1] = [(*groups[-1][0], parts[0])]
            hits_left, rows_left = hits_left - hits, rows_left - rows
            continue
        groups.append([(part,) for part in parts])
        hits_left = part_hits // BATCHES_OF_PART - hits if is_small else 0
        rows_left = BATCH_ROWS - rows if is_small else 0
    return groups


def read_batch(
    batch: Batch, job: ScoringJob, kinds: tuple[str, ...] = READ
) -> tuple[Results, npt.NDArray[np.bool_]]:
    """Return the results of a batch, and which golden queries it is about."""
    query_ids = job.golden.queries["query_id"]
    if len(batch) > 1:
        about = pd.concat([part.about for part in batch])
        results = read_runs([part.run for part in batch], about, kinds, job.without)
        return results, np.ones(len(query_ids), dtype=bool)
    coded_ids = job.joins_ids and "citations" not in batch[0].run.entries
    results, queries = read_part(batch[0], job.without, kinds, coded_ids=coded_ids)
    return results, queries.hold(query_ids)


def score_batch(batch: Batch, number: int, job: ScoringJob) -> BatchScores:
    """Score one batch; runs on a worker."""
    results, has_query = read_batch(batch, job)
    found = job.scores_of(results, job.golden_of(has_query))
    scores = found.scores
    values = [scores[label.text].to_numpy() for label in job.labels]
    n_golden = len(batch) * int(has_query.sum())
    return BatchScores(
        number,
        query=np.flatnonzero(has_query).astype(np.int32),
        extra=scores.index[n_golden:].tolist(),
        extra_run=codes_of(scores["run_id"])[n_golden:].astype(np.int32),
        state=codes_of(scores["state"]).astype(np.int8),
        level=codes_of(scores["level"]).astype(np.int8),
        values=np.array(values).reshape(len(job.labels), len(scores)),
        notes=found.notes,
    )


def run_each(
    function: Callable[..., Any], items: list[Any], job: ScoringJob, client: Any
) -> Generator[Any]:
    """Yield the function's value for each item, as they come. Close it.

    Here, in as many threads as arrow uses; with a client, from the workers of a Dask cluster. A
    rule or metric of your own is called by one thread only, since it need not be thread-safe.
    """
    if client is None:
        n_threads = 1 if job.has_own_code else min(pa.cpu_count(), len(items))
        # pandas silences UserWarning for a moment in many calls. Two threads that do so at once can
        # restore each other's silence, and every later warning of the process would be lost.
        with warnings.catch_warnings(), ThreadPoolExecutor(max(n_threads, 1)) as pool:
            yield from pool.map(lambda at: function(items[at], at, job), range(len(items)))
        return
    with packages_of("scale", field="client"):
        import cloudpickle
        import dask
        from distributed import as_completed
    # A task, not scattered data: a worker that is lost with its copy gets the job again.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        shared = client.submit(JobOnWorker, cloudpickle.dumps(job), pure=False)
        futures = [
            client.submit(_in_task, function, item, number, shared, pure=False)
            for number, item in enumerate(items)
        ]
    coming = as_completed(futures, with_results=True)  # type: ignore[no-untyped-call]
    del futures
    for future, value in coming:
        future.release()
        yield value


@dataclass(frozen=True)
class JobOnWorker:
    """A job as one worker sends it to another: as it was, whatever a task does to it meanwhile.

    A job that is scored keeps what it worked out, and pickling what grows raises, or waits forever.
    """

    pickled: bytes

    @cached_property
    def job(self) -> ScoringJob:
        """The job, unpickled for the tasks of this worker."""
        import cloudpickle

        return cast("ScoringJob", cloudpickle.loads(self.pickled))

    def __reduce__(self) -> tuple[Any, ...]:
        return JobOnWorker, (self.pickled,)


def _in_task(function: Callable[..., Any], item: Any, number: int, shared: JobOnWorker) -> Any:
    """Call a function on a worker, which is paused for good while arrow keeps what it freed."""
    try:
        return function(item, number, shared.job)
    finally:
        pa.default_memory_pool().release_unused()


def assemble(
    batches: list[Batch], results: Iterable[BatchScores], job: ScoringJob, run_ids: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the frame of `rs.score` of all batches, and runs whose ids may not join.

    Of these a part found some that don't. What else parts noted is warned of once.
    """
    query_ids = job.golden.queries["query_id"]
    n, place = len(query_ids), {run_id: number for number, run_id in enumerate(run_ids)}
    # Written to as batches come: the values of all and their copy would not fit in memory. What
    # no batch has is filled after all: touching so much memory takes as long as scoring a part.
    values = np.empty((len(job.labels), len(run_ids) * n))
    state, level = (np.full(len(run_ids) * n, -1, dtype=np.int8) for _ in range(2))
    extras: dict[int, tuple[npt.NDArray[np.int64], BatchScores]] = {}
    notes, doubted = dict[str, str](), set[str]()
    for one in results:
        runs = np.array([place[part.run.run_id] for part in batches[one.number]])
        rows = _as_slice(np.add.outer(runs * n, one.query).ravel())
        n_golden = len(runs) * len(one.query)
        values[:, rows] = one.values[:, :n_golden]
        state[rows], level[rows] = one.state[:n_golden], one.level[:n_golden]
        if one.extra:
            rest = replace(
                one,
                values=one.values[:, n_golden:].copy(),
                state=one.state[n_golden:],
                level=one.level[n_golden:],
            )
            extras[one.number] = runs[one.extra_run], rest
        part = batches[one.number][0]
        is_whole = part.first == 0 and part.is_last
        for note in one.notes:  # parts of a run differ in numbers only
            if note.startswith("ids of") and not is_whole:
                doubted.add(part.run.run_id)
            else:
                notes.setdefault(re.split(r"\(level|[0-9]+ of |of [0-9]+ hits", note)[0], note)
    values[:, np.flatnonzero(state < 0)] = np.nan
    more = [extras[number] for number in sorted(extras)]
    run = np.concatenate([np.repeat(np.arange(len(run_ids)), n), *(run for run, _ in more)])
    state = np.concatenate([state, *(one.state for _, one in more)])
    level = np.concatenate([level, *(one.level for _, one in more)])
    columns: dict[str, Any] = {
        "run_id": categorical(run, run_ids),
        "state": categorical(state, STATES),
        "level": categorical(level, LEVELS),
    }
    for at, label in enumerate(job.labels):
        own = values[at]
        columns[label.text] = (
            np.concatenate([own, *(one.values[at] for _, one in more)]) if more else own
        )
    ids = [*[query_ids] * len(run_ids), *(pd.Series(one.extra, dtype="str") for _, one in more)]
    index = pd.Index(pd.concat(ids, ignore_index=True), name="query_id")
    for note in notes.values():
        warn(note)
    scores = pd.DataFrame(columns, copy=False).set_axis(index, axis=0)
    return scores, [run_id for run_id in run_ids if run_id in doubted]


def _as_slice(rows: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """Return adjacent rows, as those of a part mostly are, as a slice: writing there is copying."""
    is_adjacent = len(rows) > 0 and bool((np.diff(rows) == 1).all())
    return slice(int(rows[0]), int(rows[-1]) + 1) if is_adjacent else rows
