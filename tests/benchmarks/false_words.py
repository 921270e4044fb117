"""How often words and marks are false, whether intervals hold together, and what is found.

Each draw takes queries of the demo, whole groups of paraphrases or clusters of a given size, with
replacement. Where nothing differs, the records of the demo's runs are exchanged at random, those of
a group together: any word but "can't tell" is then false, and so is a run without a mark. Metrics
are per query, so exchanging rows of scores exchanges records. As they are, the runs differ by what
all queries say.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import ragscore as rs
from ragscore.analysis.comparison.align import AlignedScores, align
from ragscore.analysis.comparison.deltas import aspects, figures, level_together, paired_deltas
from ragscore.analysis.leaderboard import level_of_all
from ragscore.scoring.intervals import query_clusters, shared_only
from ragscore.stats.verdicts import UNSURE, overall_word

DEMO = Path(__file__).parents[2] / "data" / "demo"
ALIKE = 0.5  # the chance that a query of a cluster is its cluster's first query once more

# a number of queries in the demo's own groups, or the sizes of clusters
Layout = int | tuple[int, ...]
LAYOUTS: dict[str, Layout] = {
    **{f"{n} queries": n for n in (20, 40, 80, 182)},
    "30 clusters of 5": (5,) * 30,
    "one of 100, ten of 5": (100, *(5,) * 10),
    "8 clusters of 10": (10,) * 8,
    "12 clusters of 10": (10,) * 12,
}

EXCHANGED, AS_THEY_ARE = "nothing differs", "as they are"
# number of runs, how they differ, and the part of the draws that are made
WORLDS = (
    (2, EXCHANGED, 1), (4, EXCHANGED, 2), (10, EXCHANGED, 5), (20, EXCHANGED, 10),
    (2, AS_THEY_ARE, 1), (4, AS_THEY_ARE, 2),
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """Values of queries × runs × metrics, the group of each query, and the true means."""

    values: np.ndarray
    groups: np.ndarray
    means: np.ndarray

    def aligned(self, runs: Sequence[int]) -> AlignedScores:
        """Return the scores of these runs as leaderboards and comparisons have them."""
        values, metrics = self.values[:, runs], list(demo()[0].metrics)
        # a query that was drawn twice is two
        ids = pd.Index([f"q{place:04}" for place in range(len(values))], name="query_id")
        return AlignedScores(ids, [f"r{run:02}" for run in runs], metrics, values)


@cache
def demo() -> tuple[AlignedScores, np.ndarray]:
    """Return the primary metrics of the demo's four runs, and the group of each query."""
    ev = rs.evaluate(str(DEMO / "runs/*"), str(DEMO / "golden.yaml"))
    aligned = align(ev.scores, list(ev.primary))
    groups = query_clusters(ev.golden, aligned.query_ids, "group")
    alone = groups < 0
    return aligned, np.where(alone, groups.max() + np.cumsum(alone), groups)


def drawn(layout: Layout, rng: np.random.Generator) -> Drawn:
    """Return the demo's runs as they are, on queries drawn at random."""
    aligned, own = demo()
    if isinstance(layout, int):
        units = [np.flatnonzero(own == one) for one in rng.integers(0, own.max() + 1, layout)]
        rows = np.concatenate(units)[:layout]
        groups = np.repeat(np.arange(layout), [len(unit) for unit in units])[:layout]
    else:
        groups = np.repeat(np.arange(len(layout)), layout)
        rows = rng.integers(0, len(own), len(groups))
        first = rows[np.searchsorted(groups, groups)]
        rows = np.where(rng.random(len(rows)) < ALIKE, first, rows)
    return Drawn(aligned.values[rows], groups, _means(aligned.values))


def exchanged(of: Drawn, n_runs: int, rng: np.random.Generator) -> Drawn:
    """Return runs that don't differ: of each group every run has the records of some run.

    Up to four runs share the records out, of more each takes any.
    """
    size, n_real = of.groups[-1] + 1, of.values.shape[1]
    taken = rng.integers(0, n_real, (size, n_runs))
    if n_runs <= n_real:
        taken = rng.permuted(np.tile(rng.permutation(n_real)[:n_runs], (size, 1)), axis=1)
    values = np.take_along_axis(of.values, taken[of.groups][:, :, None], axis=1)
    return Drawn(values, of.groups, np.zeros((n_runs, values.shape[2])))


def compared(of: Drawn, runs: Sequence[int] = (0, 1)) -> dict[str, bool]:
    """Return what a comparison says of two runs, and whether its intervals hold what is true."""
    aligned, groups = of.aligned(runs), shared_only(of.groups)
    sides = [aligned.frame(run) for run in aligned.run_ids]
    level = level_together(
        *(side.to_numpy("float64") for side in sides), aligned.described(), groups
    )
    table = paired_deltas(*sides, aligned.metrics, groups=groups, level=level)
    return {
        "overall word": overall_word(aspects(table)["verdict"].tolist()) != UNSURE,
        "any word": bool(table["verdict"].isin(("better", "worse")).any()),
        "all hold": _all_hold(table, of.means[runs[1]] - of.means[runs[0]]),
    }


def ranked(of: Drawn) -> dict[str, bool]:
    """Return what a leaderboard says of all runs, and whether its intervals hold what is true."""
    n_runs, n_metrics = of.values.shape[1:]
    aligned, groups = of.aligned(range(n_runs)), shared_only(of.groups)
    first, second = np.triu_indices(n_runs, 1)
    sides = (of.values[:, side].reshape(len(of.values), -1) for side in (first, second))
    levels = np.full(n_metrics * len(first), level_of_all(aligned, None, groups))
    pairs = figures(*sides, aligned.described() * len(first), levels, groups)
    is_word = ((pairs["low"] > 0) | (pairs["high"] < 0)).reshape(len(first), n_metrics)
    signs = [-1 if one.better == "lower" else 1 for one in aligned.described()]
    best = np.argmax(signs * np.nan_to_num(_means(of.values)), axis=0)
    is_of_best = (first[:, None] == best) | (second[:, None] == best)
    return {
        "no mark": bool((is_word & is_of_best).any()),
        "any word": bool(is_word.any()),
        "all hold": _all_hold(pairs, (of.means[second] - of.means[first]).ravel()),
    }


def _means(values: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.nansum(values, axis=0) / (~np.isnan(values)).sum(axis=0)


def _all_hold(pairs: Mapping[str, np.ndarray] | pd.DataFrame, truth: np.ndarray) -> bool:
    return not ((pairs["low"] > truth + 1e-9) | (pairs["high"] < truth - 1e-9)).any()


def shares(layout: str, n_runs: int, world: str, draws: int) -> pd.Series:
    """Return the share of draws in which each thing happens."""
    rng, told = np.random.default_rng(0), []
    for _ in range(draws):
        of = drawn(LAYOUTS[layout], rng)
        if world != AS_THEY_ARE:
            of = exchanged(of, n_runs, rng)
        pair = rng.permutation(of.values.shape[1])[:2]
        told.append(compared(of, pair) if n_runs == 2 else ranked(of))
    return pd.DataFrame(told).mean()


def main(draws: int = 1_000, layouts: Sequence[str] = tuple(LAYOUTS)) -> None:
    """Print the shares of draws; the aims are 5 % of words where nothing differs, 93.5 % that hold.

    Of more runs there are fewer draws, as each takes longer.
    """
    for n_runs, world, part in WORLDS:
        print(f"{n_runs} runs, {world}: {draws // part:,} draws")
        for layout in layouts:
            told = shares(layout, n_runs, world, draws // part)
            print(f"{layout:20}", *(f"{name:>14}{one:>7.1%}" for name, one in told.items()))
