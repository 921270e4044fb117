"""Two runs that don't differ: real runs of the demo whose records are exchanged query by query.

Whatever a comparison of such runs claims is false, and nothing about the data is made up: not the
ties, not the missing values, not how metrics of one query depend on each other. Paraphrases of one
query are exchanged together. Metrics are per query, so that exchanging rows of scores is the same
as exchanging records (tests/stats/test_stats_simulations.py compares the two).

Where only some queries are exchanged, the rest of the difference is real: the power of a test.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import ragscore as rs
from ragscore.analysis.comparison.deltas import (
    count_flips,
    flip_moves,
    jointly_tested,
    judge_aspects,
    of_points,
    paired_deltas,
)
from ragscore.analysis.comparison.score_diff import answer_flips
from ragscore.analysis.leaderboard import leaderboard
from ragscore.frames.data import Results
from ragscore.scoring.intervals import BY_QUANTILES, query_clusters
from ragscore.scoring.metrics import NOTHING_DECLARED, table_kind
from ragscore.scoring.value_states import metric_columns
from ragscore.stats import ALPHA, UNSURE, Together, multiple, overall_word
from ragscore.stats.multiple import PRIMARY_SHARE

DEMO = Path(__file__).parents[2] / "data" / "demo"
RUNS = ("bm25", "dense", "hybrid", "hybrid_rerank")
PAIRS = tuple(combinations(RUNS, 2))
PROCESSES = 2
PARTS = 8  # of the draws of a cell: each has its own seed, whatever number of processes draws them

Groups = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Compared:
    """What `ev.compare` says in words: `deltas`, `aspects`, `flip_counts`, and `overall`."""

    deltas: pd.DataFrame
    aspects: pd.DataFrame
    flip_counts: pd.DataFrame

    @property
    def overall(self) -> str:
        return overall_word(self.aspects["verdict"].tolist())

    def claimed(self) -> list[str]:
        """Return what any word but can't tell is said of."""
        return [
            *(f"{name} flips" for name in _claimed(self.flip_counts, "metric")),
            *_claimed(self.deltas, "metric"),
            *(f"aspect {name}" for name in _claimed(self.aspects, "aspect")),
        ]


def _claimed(table: pd.DataFrame, name: str) -> list[str]:
    return table.loc[(table["verdict"] != UNSURE).to_numpy(), name].tolist()


@dataclass(frozen=True)
class Pair:
    """Scores of two runs on the same queries, and the answers that flipped (`moves`).

    `groups` are what the tests know of paraphrases, as `query_clusters` gives it; `units` number
    what is exchanged together.
    """

    first: pd.DataFrame
    second: pd.DataFrame
    moves: pd.DataFrame
    groups: Groups | None
    units: Groups
    primary: tuple[str, ...]

    @property
    def n_units(self) -> int:
        return int(self.units.max()) + 1

    def exchanged(self, is_exchanged: Flags) -> "Pair":
        """Return the pair with the rows of these units exchanged."""
        rows = is_exchanged[self.units][:, None]
        a, b = self.first.to_numpy("float64"), self.second.to_numpy("float64")
        return replace(
            self,
            first=_like(self.first, np.where(rows, b, a)),
            second=_like(self.second, np.where(rows, a, b)),
            moves=self.moves * np.where(rows, -1.0, 1.0),
        )

    def select(self, rows: Flags, groups: Groups | None) -> "Pair":
        """Return the pair on some of its queries."""
        return Pair(
            self.first[rows],
            self.second[rows],
            self.moves[rows],
            groups,
            np.unique(self.units[rows], return_inverse=True)[1],
            self.primary,
        )

    def together(self) -> Together:
        """Test all that a comparison shows at once."""
        return jointly_tested(
            self.first,
            self.second,
            self.primary,
            groups=self.groups,
            also=of_points(self.moves, NOTHING_DECLARED),
        )

    def compared(self, together: Together | None = None) -> Compared:
        """Return what `ev.compare` says of the pair."""
        found = together or self.together()
        deltas = paired_deltas(
            self.first, self.second, self.first * np.nan, groups=self.groups, together=found
        )
        names = [*self.first, *of_points(self.moves, NOTHING_DECLARED)]
        flips = count_flips(self.moves, dict(zip(names, found.p, strict=True)), self.groups)
        return Compared(deltas, judge_aspects(deltas, self.primary, {}), flips)


def _like(frame: pd.DataFrame, values: npt.NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(values, index=frame.index, columns=frame.columns)


@cache
def demo() -> rs.Evaluation:
    """Return the demo's four runs, scored with every default."""
    return rs.evaluate(str(DEMO / "runs/*/per_query.jsonl"), str(DEMO / "golden.yaml"))


@cache
def demo_pair(baseline: str, candidate: str) -> Pair:
    """Return two runs of the demo on all its queries."""
    ev = demo()
    names = metric_columns(ev.scores)
    run = ev.scores["run_id"].astype("str").to_numpy()
    first = ev.scores.loc[run == baseline, names]
    second = ev.scores.loc[run == candidate, names].reindex(first.index)
    moves = flip_moves(answer_flips(ev.scores, baseline, candidate), first.index)
    groups = query_clusters(ev.golden, first.index, "group")
    return Pair(first, second, moves, groups, _units(groups, len(first)), ev.primary)


@cache
def demo_subset(baseline: str, candidate: str, n: int, subset: int = 0) -> Pair:
    """Return two runs of the demo on n of its queries, by whole groups of paraphrases."""
    pair = demo_pair(baseline, candidate)
    rows = _some_units(pair.units, n, subset)
    return pair.select(rows, query_clusters(demo().golden, pair.first.index[rows], "group"))


def _units(groups: Groups | None, n: int) -> Groups:
    """Return the number of every query's group; a query of no group is a unit of its own."""
    alone = np.arange(n) + n
    codes = alone if groups is None else np.where(groups < 0, alone, groups)
    return np.unique(codes, return_inverse=True)[1]


def _some_units(units: Groups, n: int, subset: int) -> Flags:
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


@contextmanager
def signs_drawn_once() -> Iterator[dict[Any, Any]]:
    """Keep the joint test's random signs of one pair while its records are exchanged.

    An exchange turns a query's differences round, and the test doesn't depend on which way round
    they are: it would draw the same again.
    """
    draw, kept = multiple._signed, {}

    def drawn(units: Any, iterations: int, seed: int) -> Any:
        if units.shape not in kept:
            kept[units.shape] = draw(units, iterations, seed)
        return kept[units.shape]

    multiple._signed = drawn
    try:
        yield kept
    finally:
        multiple._signed = draw


def may_claim(pair: Pair, is_exchanged: Flags) -> Flags:
    """Flag the exchanges (rows: one flag per unit) after which any corrected p may be below 5 %.

    Without a margin no word but can't tell is said of the others, and they need no table. The
    largest statistic of each family is held against its own distribution under random signs,
    which is the same for all exchanges of a pair; what comes close is flagged, too.
    """
    with signs_drawn_once() as kept:
        tested = pair.together().p
        (draws,) = kept.values()
    differences = pair.second.to_numpy("float64") - pair.first.to_numpy("float64")
    is_timed = [table_kind(name) in BY_QUANTILES for name in pair.first]
    differences[:, is_timed] = np.sign(differences[:, is_timed])
    points = of_points(pair.moves, NOTHING_DECLARED)
    differences = np.column_stack([differences, points.to_numpy("float64")])
    sums = np.zeros((pair.n_units, differences.shape[1]))
    np.add.at(sums, pair.units, np.nan_to_num(differences))
    root = np.sqrt((sums**2).sum(axis=0))
    found = np.abs(np.where(is_exchanged, -1.0, 1.0) @ (sums / np.where(root > 0, root, 1.0)))
    is_primary = np.array([name in pair.primary for name in [*pair.first, *points]])
    is_flagged = np.zeros(len(found), dtype=bool)
    for members, share in ((is_primary, PRIMARY_SHARE), (~is_primary, 1 - PRIMARY_SHARE)):
        here = members & ~np.isnan(tested)
        largest = np.sort(draws[:, here].max(axis=1))
        reached = len(largest) - np.searchsorted(largest, found[:, here].max(axis=1) - 1e-9)
        is_flagged |= reached / len(largest) < 1.1 * ALPHA * share
    return is_flagged


# Nothing changed: any word is false


@dataclass(frozen=True)
class Claims:
    """Shares of comparisons of runs that don't differ in which something is claimed.

    By the overall word, in any row or word shown, in any that isn't a time or a cost; and of what.
    """

    overall: float
    any_word: float
    any_but_times: float
    of: dict[str, float]


def claims(
    baseline: str, candidate: str, n: int, draws: int, pool: ProcessPoolExecutor | None = None
) -> Claims:
    """Count what comparisons of two runs claim whose records are exchanged at random."""
    counted = _in_parts(_claims, (baseline, candidate, n), draws, pool)
    of: dict[str, float] = {}
    for *_, said in counted:
        for name, times in said.items():
            of[name] = of.get(name, 0) + times / draws
    shares = [sum(one[place] for one in counted) / draws for place in range(3)]
    return Claims(*shares, dict(sorted(of.items(), key=lambda item: -item[1])))


def _claims(task: tuple[Any, ...]) -> tuple[int, int, int, dict[str, int]]:
    baseline, candidate, n, part, draws = task
    pair = demo_subset(baseline, candidate, n)
    rng = np.random.default_rng([PAIRS.index((baseline, candidate)), n, part])
    decided, any_word, untimed = 0, 0, 0
    of: dict[str, int] = {}
    is_exchanged = rng.random((draws, pair.n_units)) < 0.5
    with signs_drawn_once():
        for row in is_exchanged[may_claim(pair, is_exchanged)]:
            compared = pair.exchanged(row).compared()
            said = compared.claimed()
            decided += compared.overall != UNSURE
            any_word += bool(said)
            untimed += any(
                name not in pair.first or table_kind(name) not in BY_QUANTILES for name in said
            )
            for name in said:
                of[name] = of.get(name, 0) + 1
    return decided, any_word, untimed, of


def _in_parts(
    count: Any, of: tuple[Any, ...], draws: int, pool: ProcessPoolExecutor | None
) -> list[Any]:
    sizes = np.diff(np.linspace(0, draws, PARTS + 1).astype(int))
    tasks = [(*of, part, int(size)) for part, size in enumerate(sizes)]
    return list((pool.map if pool else map)(count, tasks))


# A real difference: what the correction costs


@dataclass(frozen=True)
class Power:
    """Shares of comparisons that find what is there: a metric alone, and corrected."""

    alone: dict[str, float]
    corrected: dict[str, float]
    overall: float


def power(
    baseline: str,
    candidate: str,
    share: float,
    n: int,
    draws: int,
    pool: ProcessPoolExecutor | None = None,
) -> Power:
    """Count how often the primary metrics are found to be better, before and after the correction.

    A share of the queries has the real difference of two runs, the others have their records
    exchanged at random. With fewer than all queries another few are drawn each time.
    """
    counted = _in_parts(_power, (baseline, candidate, share, n), draws, pool)
    names = demo().primary
    alone, corrected = (
        dict(zip(names, sum(one[place] for one in counted) / draws, strict=True))
        for place in range(2)
    )
    return Power(alone, corrected, sum(one[2] for one in counted) / draws)


SUBSETS = 4  # fewer than all queries: so many sets of them in each part


def _power(task: tuple[Any, ...]) -> tuple[Any, Any, int]:
    baseline, candidate, share, n, part, draws = task
    rng = np.random.default_rng([PAIRS.index((baseline, candidate)), n, round(100 * share), part])
    alone, corrected = np.zeros(len(demo().primary)), np.zeros(len(demo().primary))
    overall = 0
    sizes = np.diff(np.linspace(0, draws, SUBSETS + 1).astype(int))
    for subset, size in enumerate(sizes):
        pair = demo_subset(baseline, candidate, n, SUBSETS * part + subset)
        with signs_drawn_once():
            for _ in range(size):
                is_null = rng.random(pair.n_units) >= share
                found = pair.exchanged(is_null & (rng.random(pair.n_units) < 0.5))
                compared = _decided(found)
                rows = compared.deltas.set_index("metric").loc[list(pair.primary)]
                is_gain = rows["better"].fillna(False).to_numpy(dtype=bool)
                leaves_out_0 = ((rows["low"] > 0) | (rows["high"] < 0)).to_numpy()
                alone += is_gain & leaves_out_0 & (rows["p"] < ALPHA).to_numpy()
                corrected += (rows["verdict"] == "better").to_numpy()
                overall += compared.overall == "better"
    return alone, corrected, overall


def _decided(pair: Pair) -> Compared:
    """Return what is said of the primary metrics, in a joint test with all others."""
    together = pair.together()
    names = list(pair.primary)
    places = pair.first.columns.get_indexer(names)
    few = replace(pair, first=pair.first[names], second=pair.second[names])
    deltas = paired_deltas(
        few.first,
        few.second,
        few.first * np.nan,
        groups=pair.groups,
        together=replace(together, p=together.p[places], level=together.level[places]),
    )
    return Compared(deltas, judge_aspects(deltas, pair.primary, {}), pd.DataFrame())


# A leaderboard of runs that don't differ


def board_claims(
    n: int, draws: int, pool: ProcessPoolExecutor | None = None
) -> tuple[float, float, float]:
    """Return how often a leaderboard of runs that don't differ tells any two apart.

    By the letters of any metric, by any word against the baseline, by either.
    """
    counted = _in_parts(_board_claims, (n,), draws, pool)
    told_apart, said, either = (sum(one[place] for one in counted) / draws for place in range(3))
    return told_apart, said, either


def _board_claims(task: tuple[int, int, int]) -> tuple[int, int, int]:
    n, part, draws = task
    ev = demo()
    index = ev.scores.index[(ev.scores["run_id"] == RUNS[0]).to_numpy()]
    units = _units(query_clusters(ev.golden, index, "group"), len(index))
    is_shown = _some_units(units, n, 0)
    rng = np.random.default_rng([n, part, len(RUNS)])
    told_apart, said, either = 0, 0, 0
    for _ in range(draws):
        board = leaderboard(
            exchanged_board(is_shown, units, rng), baseline=RUNS[1], golden=ev.golden
        )
        letters = bool((~board.table["is_tied_with_best"].fillna(True)).any())
        words = bool((board.table["verdict"].fillna(UNSURE) != UNSURE).any())
        told_apart, said, either = told_apart + letters, said + words, either + (letters or words)
    return told_apart, said, either


def exchanged_board(is_shown: Flags, units: Groups, rng: np.random.Generator) -> pd.DataFrame:
    """Return scores of the demo's runs on some queries, exchanged among all runs at random."""
    ev = demo()
    names = list(ev.primary)
    sides = [ev.scores[(ev.scores["run_id"] == run).to_numpy()] for run in RUNS]
    sides = [
        side.reindex(sides[0].index)[is_shown][["run_id", "state", "level", *names]]
        for side in sides
    ]
    values = np.stack([side[names].to_numpy("float64") for side in sides])  # run × query × metric
    orders = rng.permuted(np.tile(np.arange(len(RUNS)), (units.max() + 1, 1)), axis=1)
    values = values[orders[units[is_shown]].T, np.arange(values.shape[1])]
    exchanged: Sequence[pd.DataFrame] = [
        side.assign(**dict(zip(names, one.T, strict=True)))
        for side, one in zip(sides, values, strict=True)
    ]
    return pd.concat(exchanged)
