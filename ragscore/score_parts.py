"""Scoring a store part by part: the same function for each part of each run, here or on the workers of a cluster, and only scores come back.

What has to be the same for all parts is settled first, from the few hits of each run that decide it: the match level.
"""

import re
import warnings
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

from ragscore.citations import carried_by, comparable
from ragscore.cited import cited_passages
from ragscore.codes import Codes, SmallCodes, codes_of, is_among, is_given, lookup
from ragscore.frames import DataError, Golden, Results, categorical, concat_results, narrowed
from ragscore.level import Level, choose_level
from ragscore.match import LEVELS, Rule, response_of
from ragscore.metrics import Label
from ragscore.partitions import PART_HITS, PART_HITS_WITH_TEXT, READ, Part, filled_columns, head_of, read_part
from ragscore.policies import STATES
from ragscore.profiles import Profile
from ragscore.ranks import collapsed
from ragscore.rules import READS_TEXT
from ragscore.run_batches import read_runs
from ragscore.score import keeps_refusals, scores_at
from ragscore.warned import heard

TEXT_TARGETS = (*READS_TEXT, "source_key")
FEW = 512  # responses of a run that is read at once
BATCHES = 8  # of small runs, in as many hits as a part has: so that there are some for each thread and worker
SMALL = 4  # at least so many runs make a full batch
BATCH_ROWS = 2**17  # of the scores of a batch, which hold every question of the golden set for each run
_DECIDING = ("start", "path", "doc_id", "source_key", "text")
Batch = tuple[Part, ...]  # a part of one run, or several small runs, each whole
_COUNTED = re.compile(r"(\d+) (.*)", re.DOTALL)


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
        return ("x_*", "score", "score_lexical", "score_vector", "score_kind", *(() if needs_text else ("text",)))

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
        frames = {name: _rows_where(getattr(self.golden, name), here[query]) for name, query in self._query_of.items()}
        return narrowed(self.golden, queries=_rows_where(self.golden.queries, here), **frames)

    @cached_property
    def _query_of(self) -> dict[str, npt.NDArray[np.int64]]:
        """The query of each row of each frame of the golden set, looked up once for all parts."""
        frames = {item.name: getattr(self.golden, item.name) for item in fields(self.golden)}
        ids = pd.Index(self.golden.queries["query_id"])
        return {name: lookup(frame["query_id"], ids) for name, frame in frames.items() if "query_id" in frame and name not in ("queries", "problems")}


def _rows_where(frame: pd.DataFrame, holds: npt.NDArray[np.bool_]) -> pd.DataFrame:
    """The rows for which this holds; where they lie together, as those of a part do, they are not copied."""
    rows = np.flatnonzero(holds)
    return frame.iloc[rows[0] : rows[-1] + 1] if len(rows) and rows[-1] - rows[0] + 1 == len(rows) else frame[holds]


@dataclass(frozen=True)
class Found:
    """What decides the match level, of one run: a few of its hits, and at which levels its citations can be compared."""

    number: int
    results: Results
    carried: set[str]
    cites: bool


@dataclass(frozen=True)
class Scored:
    """The scores of one batch: for each of its runs of the golden queries by their position (`query`), then of the others by their ids (`extra`)."""

    number: int
    query: npt.NDArray[np.int32]
    extra: list[str]
    extra_run: npt.NDArray[np.int32]  # by its place in the batch
    state: npt.NDArray[np.int8]
    level: npt.NDArray[np.int8]
    values: npt.NDArray[np.float64]  # metrics by rows
    valued: pd.DataFrame
    warned: list[str]

    def __sizeof__(self) -> int:
        # Dask asks: a worker must know what the scores it holds weigh.
        return sum(array.nbytes for array in (self.query, self.state, self.level, self.values)) + sum(map(len, self.extra))


def batched(of_runs: list[list[Part]], n_queries: int, part_hits: int) -> list[list[Batch]]:
    """The parts of each run, one by one; of small runs that follow each other many at once, for what a scoring costs that doesn't grow with the hits."""
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
            room, rows_left = (part_hits // BATCHES - hits, BATCH_ROWS - rows) if is_small else (0, 0)
    return groups


def _read(batch: Batch, setting: Setting, kinds: tuple[str, ...] = READ) -> tuple[Results, npt.NDArray[np.bool_]]:
    """What was found, and which golden queries it is about."""
    asked = setting.golden.queries["query_id"]
    if len(batch) > 1:
        about = pd.concat([part.about for part in batch])
        return read_runs([part.run for part in batch], about, kinds, setting.without), np.ones(len(asked), dtype=bool)
    coded_ids = setting.joins_ids and not (batch[0].run.folder / "citations.parquet").exists()
    results, queries = read_part(batch[0], setting.without, kinds, coded_ids=coded_ids)
    return results, queries.hold(asked)


def score_batch(batch: Batch, number: int, setting: Setting) -> Scored:
    """Score one batch; runs on a worker."""
    assert setting.level is not None
    results, here = _read(batch, setting)
    golden = setting.of_queries(here)
    with heard() as said:
        scores, valued = scores_at(results, golden, setting.labels, setting.level, setting.rule, setting.profile, setting.policies)
        counts = valued()
    values = np.array([scores[label.text].to_numpy() for label in setting.labels]).reshape(len(setting.labels), len(scores))
    codes = [codes_of(scores[name]).astype(np.int8) for name in ("state", "level")]
    known = len(batch) * int(here.sum())
    return Scored(
        number, np.flatnonzero(here).astype(np.int32), scores.index[known:].tolist(), codes_of(scores["run_id"])[known:].astype(np.int32), codes[0], codes[1], values, counts,
        [str(one) for one in said if isinstance(one, UserWarning)],
    )  # fmt: skip


def find_level(group: list[Batch], number: int, setting: Setting) -> Found:
    """Look through the parts of one run, or a batch of small ones, for what decides the match level, until all that there may be is found; runs on a worker."""
    runs = [part.run for part in group[0]]
    wanted = (
        setting.golden.targets.loc[setting.golden.targets["level"] == "chunk", "chunk_id"] if "chunk_id" in setting.golden.targets else pd.Series(dtype="str")
    )
    cites = any(not label.is_ranking for label in setting.labels) and any((run.folder / "citations.parquet").exists() for run in runs)
    looked_at = group if len(runs) > 1 or group[-1][0].last <= FEW else [(head_of(group[0][0]),), *group]
    open_columns = set[str]()
    if len(looked_at) > 1:
        open_columns = filled_columns(runs[0], "hits") & {*_DECIDING, *(("chunk_id",) if len(wanted) else ()), "chunker_version"} - set(setting.without)
    found: list[Results] = []
    carried: set[str] = set()
    has_cited, open_levels = False, set(comparable(setting.golden, set(LEVELS))) if cites else set()
    kinds = READ if cites else tuple(kind for kind in READ if kind not in ("citations", "judgments", "matches"))
    for batch in looked_at:
        results, _ = _read(batch, setting, kinds)
        ranked = collapsed(results) if setting.policies["collapse"] == "doc" else results
        witness = _witness(ranked, wanted)
        found.append(witness)
        open_columns -= _decided(witness, wanted)
        if cites:
            of_part, cited_here = _carried(results)
            carried, has_cited = carried | of_part, has_cited or cited_here
        if not open_columns and not open_levels - carried:
            break
    hits = pd.concat([one.hits.astype({"run_id": "str"}) for one in found], ignore_index=True)
    hits = hits.assign(rank=np.arange(1, len(hits) + 1, dtype=np.int32))
    chunks = [one.chunks for one in found if one.chunks is not None]
    meta = [one.hit_meta for one in found if one.hit_meta is not None]
    return Found(number, narrowed(found[0], hits=hits, chunks=chunks[0] if chunks else None, hit_meta=meta[0] if meta else None), carried, has_cited)


def _witness(results: Results, wanted: pd.Series) -> Results:
    """The few hits that decide at which level runs can be matched: of each run one for each column that holds something, and each chunker version."""
    hits, run = results.hits, codes_of(results.hits["run_id"])
    holds = [np.ones(len(hits), dtype=bool), *(is_given(hits[name]) for name in _DECIDING if name in hits)]
    if "chunk_id" in hits:
        holds.append(is_among(hits["chunk_id"], wanted))
    if "chunker_version" in hits:
        holds.append(~hits.assign(run_id=run)[["run_id", "chunker_version"]].duplicated().to_numpy())
    rows = np.unique(np.concatenate([_first_of_each(run, is_there) for is_there in holds]))
    few = hits.iloc[rows]
    if "text" in few:
        few = few.assign(text=few["text"].str.slice(0, 1))
    chunks = None if results.chunks is None else results.chunks[is_among(results.chunks["chunk_id"], wanted)].drop_duplicates("run_id")
    meta = None if results.hit_meta is None or not len(results.hit_meta) else results.hit_meta.head(1)
    left_out = dict.fromkeys(("judgments", "reported", "matches", "hops", "documents"))
    return narrowed(results, responses=results.responses.iloc[:0], citations=results.citations.iloc[:0], hits=few, chunks=chunks, hit_meta=meta, **left_out)


def _first_of_each(run: SmallCodes, is_there: npt.NDArray[np.bool_]) -> Codes:
    """The first row of each run for which this holds; rows lie run by run."""
    rows = np.flatnonzero(is_there)
    return rows[np.diff(run[rows], prepend=-1) != 0]


def _decided(witness: Results, wanted: pd.Series) -> set[str]:
    """Columns of which nothing more needs to be found; versions are, where the run states its own."""
    hits, decided = witness.hits, {name for name in _DECIDING if name in witness.hits and witness.hits[name].notna().any()}
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
    return carried_by(cited_passages(results, kept, place[place >= 0], response_of(results.hits, responses))), True


def settle(found: Iterable[Found], setting: Setting, match: str) -> Setting:
    """The setting with the match level that all runs together lead to."""
    looked = sorted(found, key=lambda one: one.number)
    results = concat_results([one.results for one in looked])
    level = choose_level(results, setting.golden, match, keeps_refusals(setting.profile))
    carried = set().union(*(one.carried for one in looked)) if any(one.cites for one in looked) else set(LEVELS)
    return replace(setting, level=replace(level, cited=tuple(comparable(setting.golden, carried))))


def mapped(function: Callable[..., Any], items: list[Any], setting: Setting, client: Any) -> Iterator[Any]:
    """The function's value for each item, as they come: here, in as many threads as arrow uses, or from the workers of a Dask cluster.

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
        raise DataError(f"{error.name} is not installed", field="client", allowed="pip install 'ragscore[scale]'") from error
    # A task, not scattered data: a worker that is lost with its copy gets the setting again.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "10GB"}):
        shared = client.submit(_same, setting, pure=False)
        futures = [client.submit(function, item, number, shared, pure=False) for number, item in enumerate(items)]
    coming = as_completed(futures, with_results=True)  # type: ignore[no-untyped-call]
    del futures
    for future, value in coming:
        future.release()
        yield value


def _same(setting: Setting) -> Setting:
    return setting


def assembled(batches: list[Batch], made: Iterable[Scored], setting: Setting, run_ids: list[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The frame of `rs.score` from the scores of all batches, and what they counted; their warnings are given once."""
    asked = setting.golden.queries["query_id"]
    n, of_run = len(asked), {run_id: number for number, run_id in enumerate(run_ids)}
    values = np.full((len(setting.labels), len(run_ids) * n), np.nan)
    state, level = (np.full(len(run_ids) * n, -1, dtype=np.int8) for _ in range(2))
    extras: dict[int, tuple[npt.NDArray[np.int64], Scored]] = {}
    counts: list[pd.DataFrame] = []
    warned: Counter[tuple[str, int]] = Counter()
    for one in made:
        runs = np.array([of_run[part.run.run_id] for part in batches[one.number]])
        rows, known = _as_slice(np.add.outer(runs * n, one.query).ravel()), len(runs) * len(one.query)
        values[:, rows], state[rows], level[rows] = one.values[:, :known], one.state[:known], one.level[:known]
        if one.extra:
            extras[one.number] = (runs[one.extra_run], replace(one, values=one.values[:, known:].copy(), state=one.state[known:], level=one.level[known:]))
        counts.append(one.valued)
        warned.update(_with_turn(one.warned))
    more = [extras[number] for number in sorted(extras)]
    run_code = np.concatenate([np.repeat(np.arange(len(run_ids)), n), *(run for run, _ in more)])
    ids = pd.concat([*[asked] * len(run_ids), *(pd.Series(one.extra, dtype="str") for _, one in more)], ignore_index=True)
    columns = {
        label.text: np.concatenate([values[at], *(one.values[at] for _, one in more)]) if more else values[at] for at, label in enumerate(setting.labels)
    }
    states, levels = (np.concatenate([codes, *(getattr(one, name) for _, one in more)]) for name, codes in (("state", state), ("level", level)))
    head = {"run_id": categorical(run_code, run_ids), "state": categorical(states, STATES), "level": categorical(levels, LEVELS)}
    _warn_once(warned)
    return pd.DataFrame({**head, **columns}, copy=False).set_axis(pd.Index(ids, name="query_id"), axis=0), pd.concat(counts).groupby(level=0, sort=False).sum()


def _as_slice(rows: npt.NDArray[np.int64]) -> slice | npt.NDArray[np.int64]:
    """Rows that lie together, as those of a part do, as a slice: writing there is copying."""
    return slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) and (np.diff(rows) == 1).all() else rows


def _with_turn(messages: list[str]) -> dict[tuple[str, int], int]:
    """Messages of one part without the number that they begin with, told apart where one comes twice; and that number, 0 without."""
    turns: Counter[str] = Counter()
    found = {}
    for message in messages:
        counted = _COUNTED.fullmatch(message)
        text = f"# {counted[2]}" if counted else message
        found[text, turns[text]] = int(counted[1]) if counted else 1
        turns[text] += 1
    return found


def _warn_once(warned: Counter[tuple[str, int]]) -> None:
    """Each warning of the parts once: numbers of hits are added up, of others it is said how many parts gave them."""
    for (text, _), n in warned.items():
        said = f"{n}{text[1:]}" if text.startswith("# ") else text + (f" ({n} parts)" if n > 1 else "")
        warnings.warn(said, UserWarning, stacklevel=4)
