"""Two runs that don't differ: real runs of the demo whose records are exchanged query by query.

Whatever a comparison of such runs claims is false, and nothing about the data is made up: not the
ties, not the missing values, not how metrics of one query depend on each other. Paraphrases of one
query are exchanged together. Metrics are per query, so that exchanging rows of scores is the same
as exchanging records (tests/stats/test_stats_simulations.py compares the two).
"""

from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import ragscore as rs
from ragscore.analysis.comparison.deltas import paired_deltas
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import Results
from ragscore.scoring.intervals import BY_QUANTILES, query_clusters
from ragscore.scoring.metrics import describe
from ragscore.scoring.value_states import metric_columns

DEMO = Path(__file__).parents[2] / "data" / "demo"
RUNS = ("bm25", "dense", "hybrid", "hybrid_rerank")
PAIRS = tuple(combinations(RUNS, 2))
PROCESSES = 2
NOTHING = ("can't tell", "same")  # words that claim no difference

Groups = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Pair:
    """Scores of two runs on the same queries.

    `groups` are what the tests know of paraphrases, as `query_clusters` gives it; `units` number
    what is exchanged together.
    """

    first: pd.DataFrame
    second: pd.DataFrame
    groups: Groups | None
    units: Groups

    def exchanged(self, is_exchanged: npt.NDArray[np.bool_]) -> "Pair":
        """Return the pair with the rows of these units exchanged."""
        rows = is_exchanged[self.units][:, None]
        a, b = self.first.to_numpy("float64"), self.second.to_numpy("float64")
        sides = (np.where(rows, b, a), np.where(rows, a, b))
        first, second = (
            pd.DataFrame(side, index=self.first.index, columns=self.first.columns) for side in sides
        )
        return replace(self, first=first, second=second)

    def deltas(self) -> pd.DataFrame:
        """Return the table that `ev.compare` shows, with its verdicts."""
        return paired_deltas(self.first, self.second, self.first * np.nan, groups=self.groups)


def overall(deltas: pd.DataFrame) -> str:
    """Return the overall word of a comparison with these differences."""
    return str(Comparison.overall.fget(SimpleNamespace(deltas=deltas)))  # type: ignore[attr-defined]


@cache
def demo() -> rs.Evaluation:
    """Return the demo's four runs, scored with every default."""
    return rs.evaluate(str(DEMO / "runs/*/per_query.jsonl"), str(DEMO / "golden.yaml"))


@cache
def demo_pair(baseline: str, candidate: str, n: int | None = None, subset: int = 0) -> Pair:
    """Return two runs of the demo, on all queries or n of them (whole groups of paraphrases)."""
    ev = demo()
    names = metric_columns(ev.scores)
    run = ev.scores["run_id"].astype("str").to_numpy()
    first = ev.scores.loc[run == baseline, names]
    second = ev.scores.loc[run == candidate, names].reindex(first.index)
    groups = query_clusters(ev.golden, first.index, "group")
    units = _units(groups, len(first))
    if n is not None:
        rows = _some_units(units, n, subset)
        first, second, units = (
            first[rows],
            second[rows],
            np.unique(units[rows], return_inverse=True)[1],
        )
        groups = query_clusters(ev.golden, first.index, "group")
    return Pair(first, second, groups, units)


def _units(groups: Groups | None, n: int) -> Groups:
    """Return the number of every query's group; a query of no group is a unit of its own."""
    alone = np.arange(n) + n
    return np.unique(
        alone if groups is None else np.where(groups < 0, alone, groups), return_inverse=True
    )[1]


def _some_units(units: Groups, n: int, subset: int) -> npt.NDArray[np.bool_]:
    """Flag n queries: whole units in random order, as long as they fit."""
    rows = np.zeros(len(units), dtype=bool)
    for unit in np.random.default_rng(subset).permutation(units.max() + 1):
        members = units == unit
        if rows.sum() + members.sum() <= n:
            rows |= members
    return rows


def exchanged_records(
    results: Results, baseline: str, candidate: str, query_ids: Iterable[str]
) -> Results:
    """Return results in which two runs have exchanged all they recorded of some queries."""
    other, chosen, changed = {baseline: candidate, candidate: baseline}, set(query_ids), {}
    for item in fields(results):
        frame = getattr(results, item.name)
        if frame is not None and {"run_id", "query_id"} <= set(frame):
            run = frame["run_id"].astype("str")
            moved = run.where(~frame["query_id"].isin(chosen), run.replace(other))
            changed[item.name] = frame.assign(run_id=moved)
    return replace(results, **changed)


@dataclass(frozen=True)
class Claims:
    """What was claimed in a number of comparisons of runs that don't differ."""

    overall: float
    any_row: float
    any_row_but_times: float
    by_metric: dict[str, float]
    draws: int


def _claims(
    task: tuple[str, str, int | None, int, int, int],
) -> tuple[int, int, int, dict[str, int], int]:
    baseline, candidate, n, subset, part, draws = task
    pair = demo_pair(baseline, candidate, n, subset)
    rng = np.random.default_rng([PAIRS.index((baseline, candidate)), n or 0, subset, part])
    decided, rows, untimed = 0, 0, 0
    by_metric: dict[str, int] = {}
    for _ in range(draws):
        found = pair.exchanged(rng.random(pair.units.max() + 1) < 0.5).deltas()
        said = found.loc[~found["verdict"].isin(NOTHING), "metric"].tolist()
        decided += overall(found) not in NOTHING
        rows += bool(said)
        untimed += any(describe(name).kind not in BY_QUANTILES for name in said)
        for name in said:
            by_metric[name] = by_metric.get(name, 0) + 1
    return decided, rows, untimed, by_metric, draws


def claims(
    baseline: str,
    candidate: str,
    n: int | None,
    draws: int,
    subset: int = 0,
    pool: ProcessPoolExecutor | None = None,
) -> Claims:
    """Count what comparisons of two runs claim whose records were exchanged at random."""
    parts = np.diff(np.linspace(0, draws, 9).astype(int))
    tasks = [(baseline, candidate, n, subset, part, int(size)) for part, size in enumerate(parts)]
    counted: list[Any] = list((pool.map if pool else map)(_claims, tasks))
    by_metric: dict[str, int] = {}
    for *_, said, _ in counted:
        for name, times in said.items():
            by_metric[name] = by_metric.get(name, 0) + times
    return Claims(
        *(sum(one[place] for one in counted) / draws for place in range(3)),
        {
            name: times / draws
            for name, times in sorted(by_metric.items(), key=lambda item: -item[1])
        },
        draws,
    )
