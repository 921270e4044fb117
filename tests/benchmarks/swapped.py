"""Two runs that don't differ: real runs of the demo whose records are exchanged query by query.

Whatever a comparison of such runs claims is false, and nothing about the data is made up: not the
ties, not the missing values, not how metrics of one query depend on each other. Paraphrases of one
query are exchanged together. Metrics are per query, so that exchanging rows of scores is the same
as exchanging records (tests/stats/test_stats_simulations.py compares the two).

Where only some queries are exchanged, the rest of the difference is real: the power of a test.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from itertools import combinations, pairwise
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
from ragscore.frames.data import Results
from ragscore.scoring.intervals import BY_QUANTILES, query_clusters
from ragscore.scoring.metrics import NOTHING_DECLARED, headline_of, table_kind
from ragscore.scoring.value_states import metric_columns
from ragscore.stats import ALPHA, UNSURE, Together, multiple, overall_word
from ragscore.stats.multiple import OTHER_SHARE, PRIMARY_SHARE

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
    for members, share in ((is_primary, PRIMARY_SHARE), (~is_primary, OTHER_SHARE)):
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


# Everything that is shown of runs that don't differ

CLAIM = re.compile(
    r"\bleads\b|\btold apart by\b|\b(better|worse|higher|lower)(?! in \d)\b|\b(best|worst|fewest)\b"
)
"""Words of titles that claim a difference; "better in 12 queries" is a count."""


def equal_runs(n_runs: int, n: int, rng: np.random.Generator, of: Sequence[str] = RUNS) -> Results:
    """Return runs whose records are drawn from those of the demo, query by query.

    Of as many runs as there are, records are exchanged; of more, they are drawn with replacement.
    Paraphrases of one query are from one run. Only `n` queries, by whole groups.
    """
    ev = demo()
    queries = ev.golden.queries
    units = _units(query_clusters(ev.golden, pd.Index(queries["query_id"]), "group"), len(queries))
    is_shown = _some_units(units, n, int(rng.integers(1_000)))
    places = np.tile(np.arange(len(of)), (units.max() + 1, 1))
    if n_runs <= len(of):
        drawn = rng.permuted(places, axis=1)[:, :n_runs]
    else:
        drawn = rng.integers(0, len(of), (units.max() + 1, n_runs))
    chosen = pd.concat(
        pd.DataFrame({
            "query_id": queries["query_id"].to_numpy()[is_shown],
            "run_id": np.array(of, dtype=object)[drawn[units[is_shown], run]],
            "drawn": f"r{run:02d}",
        })
        for run in range(n_runs)
    )  # fmt: skip
    frames: dict[str, Any] = {}
    for item in fields(ev.results):
        frame = getattr(ev.results, item.name)
        if frame is not None and {"run_id", "query_id"} <= set(frame):
            rows = frame.assign(run_id=frame["run_id"].astype("str"))
            rows = chosen.merge(rows, on=["run_id", "query_id"])
            frames[item.name] = rows.assign(run_id=rows["drawn"])[frame.columns]
    row = ev.results.runs.iloc[:1]
    runs = pd.concat([row.assign(run_id=name, system=name) for name in chosen["drawn"].unique()])
    return replace(ev.results, runs=runs.reset_index(drop=True), **frames)


def unlike_runs(n_runs: int, n: int, rng: np.random.Generator) -> Results:
    """Return two halves of runs: those of each don't differ from each other, the halves do.

    The first half is drawn from the two worse systems, the other one from the two better ones.
    """
    seed = int(rng.integers(1_000_000))
    halves = [
        _named(equal_runs(n_runs // 2, n, np.random.default_rng([seed, 1]), pair), prefix)
        for pair, prefix in ((RUNS[:2], "worse"), (RUNS[2:], "better"))
    ]
    both = {
        item.name: pd.concat([getattr(half, item.name) for half in halves], ignore_index=True)
        for item in fields(halves[0])
        if getattr(halves[0], item.name) is not None
        and isinstance(getattr(halves[0], item.name), pd.DataFrame)
    }
    return replace(halves[0], **both)


def _named(results: Results, prefix: str) -> Results:
    """Return the runs with a prefix before their names."""
    frames = {}
    for item in fields(results):
        frame = getattr(results, item.name)
        if isinstance(frame, pd.DataFrame) and "run_id" in frame:
            frames[item.name] = frame.assign(run_id=prefix + frame["run_id"].astype("str"))
    runs = frames["runs"].assign(system=frames["runs"]["run_id"])
    return replace(results, **frames | {"runs": runs})


def is_false_of_unlike(claim: str) -> bool:
    """Return True if a letter or a word is said of two runs of one half."""
    return len(set(re.findall(r"\b(worse|better)r\d\d\b", claim))) == 1 and (
        len(re.findall(r"\b(?:worse|better)r\d\d\b", claim)) == 2
    )


def everything_claimed(ev: rs.Evaluation) -> list[str]:
    """Return what is claimed of runs: letters, words of comparisons, and titles of pictures.

    Comparisons are those of a report: each run with the one before it.
    """
    board = ev.leaderboard([*ev.primary, *headline_of(metric_columns(ev.scores))])
    apart = board.pairs[~board.pairs["is_tied"].fillna(True).to_numpy(dtype=bool)]
    names = apart[["metric", "run_baseline", "run_candidate"]].itertuples(index=False)
    found = [f"letters {' '.join(name)}" for name in names]
    for pair in pairwise(ev.run_ids):
        cmp = ev.compare(*pair)
        said = Compared(cmp.deltas, cmp.aspects, cmp.flip_counts)
        found += [f"{' '.join(pair)} {claim}" for claim in said.claimed()]
        found += _titles({"forest": cmp.plot, "ranks": cmp.plot.ranks})
    pictures: dict[str, Any] = {
        "summary": ev.plot, "leaderboard": board.plot, "refusals": ev.plot.refusal_matrix,
        "of what decides": partial(ev.plot, ev.primary[0]),
        "risk": ev.plot.risk_coverage,
        **{f"{metric} over k": partial(ev.plot.metric_at_k, metric) for metric in ("hit", "ndcg")},
    }  # fmt: skip
    for by in ("difficulty", "category"):
        pictures[f"by {by}"] = partial(ev.plot.slices, "hit@5", by)
        pictures[f"map by {by}"] = partial(ev.plot.heatmap, "ndcg@10", by)
    return found + _titles(pictures)


def _titles(pictures: Mapping[str, Any]) -> list[str]:
    """Return the titles of pictures that claim a difference."""
    import matplotlib.pyplot as plt

    found = []
    for name, draw in pictures.items():
        ax = draw()
        title = ax.get_title() or ax.get_title(loc="left")
        if CLAIM.search(title.replace("\n", " ")):
            found.append(f"{name}: {title}")
        plt.close("all")
    return found


def shown_claims(
    n_runs: int, n: int, draws: int, pool: ProcessPoolExecutor | None = None, *,
    is_unlike: bool = False,
) -> tuple[float, dict[str, int]]:  # fmt: skip
    """Return how often anything is claimed of runs that don't differ, and what, how often.

    With `is_unlike` half of the runs are better: letters and words of two runs of one half count.
    """
    counted = _in_parts(_shown_claims, (n_runs, n, is_unlike), draws, pool)
    kinds: dict[str, int] = {}
    for _, own in counted:
        for name, times in own.items():
            kinds[name] = kinds.get(name, 0) + times
    return sum(one for one, _ in counted) / draws, kinds


def _shown_claims(task: tuple[int, int, bool, int, int]) -> tuple[int, dict[str, int]]:
    n_runs, n, is_unlike, part, draws = task
    rng = np.random.default_rng([n_runs, n, part])
    any_claim, kinds = 0, dict[str, int]()
    for _ in range(draws):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what some queries lack
            golden = demo().golden
            mixed = {by: rng.permutation(golden.queries[by]) for by in ("difficulty", "category")}
            golden = replace(golden, queries=golden.queries.assign(**mixed))
            runs = (unlike_runs if is_unlike else equal_runs)(n_runs, n, rng)
            found = everything_claimed(rs.evaluate(runs, golden))
            found = [one for one in found if is_false_of_unlike(one)] if is_unlike else found
        any_claim += bool(found)
        for name in {one.partition(" ")[0] for one in found}:
            kinds[name] = kinds.get(name, 0) + 1
    return any_claim, kinds
