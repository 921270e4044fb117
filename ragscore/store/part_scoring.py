"""Scoring a store part by part.

The same function for each part of each run, here or on the workers of a cluster, and only scores
come back.

What has to be the same for all parts is settled first, from what decides it in each run: the match
level (see `deciding`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from ragscore.frames.codes import codes_of, is_among, lookup
from ragscore.frames.data import DataError, Golden, Results, categorical, narrowed
from ragscore.scoring.grading import READS_TEXT
from ragscore.scoring.level import Level
from ragscore.scoring.matching import LEVELS, Rule
from ragscore.scoring.metrics import Label
from ragscore.scoring.policies import STATES
from ragscore.scoring.profiles import Profile
from ragscore.scoring.score import Notes, scores_at, warn_of_notes
from ragscore.store.parts import PART_HITS, PART_HITS_WITH_TEXT, READ, Part, read_part
from ragscore.store.tables import read_runs

TEXT_TARGETS = (*READS_TEXT, "source_key")
# of small runs, in as many hits as a part has: so that there are some for each thread and worker
BATCHES = 8
SMALL = 4  # at least so many runs make a full batch
# of the scores of a batch, which hold every question of the golden set for each run
BATCH_ROWS = 2**17
Batch = tuple[Part, ...]  # a part of one run, or several small runs, each whole


@dataclass(frozen=True)
class Setting:
    """What all parts are scored by."""

    golden: Golden
    labels: list[Label]
    rule: Rule | None
    profile: Profile | None
    policies: dict[str, str]
    level: Level | None = None

    @cached_property
    def without(self) -> tuple[str, ...]:
        """Columns of hits that nothing here reads: their text is most of what a hit weighs."""
        if self.rule is not None:
            return ()
        needs_text = bool(is_among(self.golden.targets["level"], TEXT_TARGETS).any())
        return (
            "x_*",
            "score",
            "score_lexical",
            "score_vector",
            "score_kind",
            *(() if needs_text else ("text",)),
        )

    @property
    def joins_ids(self) -> bool:
        """Whether hits are only ever joined by their ids, so that these may stay codes."""
        return "text" in self.without

    @property
    def part_hits(self) -> int:
        """How many hits a part has by default: fewer where their texts are read."""
        return PART_HITS if self.joins_ids else PART_HITS_WITH_TEXT

    def of_queries(self, here: npt.NDArray[np.bool_]) -> Golden:
        """The golden set with these of its queries."""
        frames = {
            name: _rows_where(getattr(self.golden, name), here[query])
            for name, query in self._query_of.items()
        }
        return narrowed(self.golden, queries=_rows_where(self.golden.queries, here), **frames)

    @cached_property
    def _query_of(self) -> dict[str, npt.NDArray[np.int64]]:
        """The query of each row of each frame of the golden set, looked up once for all parts."""
        frames = {item.name: getattr(self.golden, item.name) for item in fields(self.golden)}
        ids = pd.Index(self.golden.queries["query_id"])
        return {
            name: lookup(frame["query_id"], ids)
            for name, frame in frames.items()
            if "query_id" in frame and name not in ("queries", "problems")
        }


def _rows_where(frame: pd.DataFrame, holds: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """The rows for which this holds.

    Where they lie together, as those of a part do, they are not copied.
    """
    rows = np.flatnonzero(holds)
    return (
        frame.iloc[rows[0] : rows[-1] + 1]
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows)
        else frame[holds]
    )


@dataclass(frozen=True)
class Scored:
    """The scores of one batch.

    For each of its runs of the golden queries by their position (`query`), then of the others by
    their ids (`extra`).
    """

    number: int
    query: npt.NDArray[np.int32]
    extra: list[str]
    extra_run: npt.NDArray[np.int32]  # by its place in the batch
    state: npt.NDArray[np.int8]
    level: npt.NDArray[np.int8]
    values: npt.NDArray[np.float64]  # metrics by rows
    valued: pd.DataFrame
    notes: Notes

    def __sizeof__(self) -> int:
        # Dask asks: a worker must know what the scores it holds weigh.
        return sum(
            array.nbytes
            for array in (self.query, self.extra_run, self.state, self.level, self.values)
        ) + sum(map(len, self.extra))


def batched(of_runs: list[list[Part]], n_queries: int, part_hits: int) -> list[list[Batch]]:
    """The parts of each run, one by one.

    Of small runs that follow each other many at once, for what a scoring costs that doesn't grow
    with the hits.
    """
    groups: list[list[Batch]] = []
    room = rows_left = 0
    for parts in of_runs:
        hits, rows = parts[0].run_hits, max(n_queries, parts[0].last)
        is_small = len(parts) == 1 and hits * BATCHES * SMALL <= part_hits
        if is_small and hits <= room and rows <= rows_left:
            groups[-1] = [(*groups[-1][0], parts[0])]
            room, rows_left = room - hits, rows_left - rows
        else:
            groups.append([(part,) for part in parts])
            room, rows_left = (
                (part_hits // BATCHES - hits, BATCH_ROWS - rows) if is_small else (0, 0)
            )
    return groups


def read_batch(
    batch: Batch, setting: Setting, kinds: tuple[str, ...] = READ
) -> tuple[Results, npt.NDArray[np.bool_]]:
    """What was found, and which golden queries it is about."""
    asked = setting.golden.queries["query_id"]
    if len(batch) > 1:
        about = pd.concat([part.about for part in batch])
        return read_runs([part.run for part in batch], about, kinds, setting.without), np.ones(
            len(asked), dtype=bool
        )
    coded_ids = setting.joins_ids and not (batch[0].run.folder / "citations.parquet").exists()
    results, queries = read_part(batch[0], setting.without, kinds, coded_ids=coded_ids)
    return results, queries.hold(asked)


def score_batch(batch: Batch, number: int, setting: Setting) -> Scored:
    """Score one batch; runs on a worker."""
    assert setting.level is not None
    results, here = read_batch(batch, setting)
    golden = setting.of_queries(here)
    scores, valued, notes = scores_at(
        results,
        golden,
        setting.labels,
        setting.level,
        setting.rule,
        setting.profile,
        setting.policies,
    )
    values = np.array([scores[label.text].to_numpy() for label in setting.labels]).reshape(
        len(setting.labels), len(scores)
    )
    codes = [codes_of(scores[name]).astype(np.int8) for name in ("state", "level")]
    known = len(batch) * int(here.sum())
    return Scored(
        number, np.flatnonzero(here).astype(np.int32), scores.index[known:].tolist(),
        codes_of(scores["run_id"])[known:].astype(np.int32), codes[0], codes[1], values, valued(),
        notes,
    )  # fmt: skip


def mapped(
    function: Callable[..., Any], items: list[Any], setting: Setting, client: Any
) -> Iterator[Any]:
    """The function's value for each item, as they come.

    Here, in as many threads as arrow uses, or from the workers of a Dask cluster.

    A rule of your own is called by one thread.
    """
    if client is None:
        n_threads = min(pa.cpu_count(), len(items)) if setting.rule is None else 1
        with ThreadPoolExecutor(max(n_threads, 1)) as pool:
            yield from pool.map(lambda at: function(items[at], at, setting), range(len(items)))
        return
    try:
        import dask
        from distributed import as_completed
    except ImportError as error:
        raise DataError(
            f"{error.name} is not installed",
            field="client",
            allowed="pip install 'ragscore[scale]'",
        ) from error
    # A task, not scattered data: a worker that is lost with its copy gets the setting again.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        shared = client.submit(_same, setting, pure=False)
        futures = [
            client.submit(function, item, number, shared, pure=False)
            for number, item in enumerate(items)
        ]
    coming = as_completed(futures, with_results=True)  # type: ignore[no-untyped-call]
    del futures
    for future, value in coming:
        future.release()
        yield value


def _same(setting: Setting) -> Setting:
    return setting


def assembled(
    batches: list[Batch], made: Iterable[Scored], setting: Setting, run_ids: list[str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frame of `rs.score` from the scores of all batches, and what they counted.

    Their warnings are given once.
    """
    asked = setting.golden.queries["query_id"]
    n, of_run = len(asked), {run_id: number for number, run_id in enumerate(run_ids)}
    values = np.full((len(setting.labels), len(run_ids) * n), np.nan)
    state, level = (np.full(len(run_ids) * n, -1, dtype=np.int8) for _ in range(2))
    extras: dict[int, tuple[npt.NDArray[np.int64], Scored]] = {}
    counts: list[pd.DataFrame] = []
    notes: Counter[tuple[str, str]] = Counter()
    for one in made:
        runs = np.array([of_run[part.run.run_id] for part in batches[one.number]])
        rows, known = (
            _as_slice(np.add.outer(runs * n, one.query).ravel()),
            len(runs) * len(one.query),
        )
        values[:, rows], state[rows], level[rows] = (
            one.values[:, :known],
            one.state[:known],
            one.level[:known],
        )
        if one.extra:
            extras[one.number] = (
                runs[one.extra_run],
                replace(
                    one,
                    values=one.values[:, known:].copy(),
                    state=one.state[known:],
                    level=one.level[known:],
                ),
            )
        counts.append(one.valued)
        notes.update(one.notes)
    more = [extras[number] for number in sorted(extras)]
    run_code = np.concatenate([np.repeat(np.arange(len(run_ids)), n), *(run for run, _ in more)])
    ids = pd.concat(
        [*[asked] * len(run_ids), *(pd.Series(one.extra, dtype="str") for _, one in more)],
        ignore_index=True,
    )
    columns = {
        label.text: (
            np.concatenate([values[at], *(one.values[at] for _, one in more)])
            if more
            else values[at]
        )
        for at, label in enumerate(setting.labels)
    }
    states, levels = (
        np.concatenate([codes, *(getattr(one, name) for _, one in more)])
        for name, codes in (("state", state), ("level", level))
    )
    head = {
        "run_id": categorical(run_code, run_ids),
        "state": categorical(states, STATES),
        "level": categorical(levels, LEVELS),
    }
    warn_of_notes(notes)
    return (
        pd.DataFrame({**head, **columns}, copy=False).set_axis(
            pd.Index(ids, name="query_id"), axis=0
        ),
        pd.concat(counts).groupby(level=0, sort=False).sum(),
    )


def _as_slice(rows: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """Rows that lie together, as those of a part do, as a slice: writing there is copying."""
    return (
        slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) and (np.diff(rows) == 1).all() else rows
    )
