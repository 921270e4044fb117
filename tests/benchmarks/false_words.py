"""How often a comparison says anything of two runs that don't differ.

Records of two of the demo's runs are exchanged query by query at random, paraphrases together: any
word but "can't tell" is then false. Metrics are per query, so exchanging rows of scores exchanges
records.
"""

from collections import Counter
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np

import ragscore as rs

DEMO = Path(__file__).parents[2] / "data" / "demo"
UNSURE = "can't tell"
ALPHA = 0.05


def exchanged(ev: rs.Evaluation, n: int, rng: np.random.Generator) -> rs.Evaluation:
    """Return two runs on about `n` queries, of which half have their rows exchanged."""
    queries = ev.golden.queries.set_index("query_id")
    unit = queries["group"].fillna(queries.index.to_series())
    order = unit.drop_duplicates().sample(frac=1, random_state=rng)
    size = unit.value_counts().loc[order].cumsum()
    chosen = unit[unit.isin(size.index[size <= n])]
    few = ev.select(queries=chosen.index.tolist())
    moved = chosen[chosen.isin(order[rng.random(len(order)) < 0.5])].index
    run = few.scores["run_id"].astype("str")
    first, second = few.run_ids
    run = run.where(~run.index.isin(moved), run.map({first: second, second: first}))
    return replace(few, scores=few.scores.assign(run_id=run.astype(few.scores["run_id"].dtype)))


def said(ev: rs.Evaluation) -> dict[str, bool]:
    """Return what is claimed of the two runs, and whether any p alone would claim something."""
    cmp = ev.compare(*ev.run_ids)
    words = [*cmp.deltas["verdict"].dropna(), *cmp.aspects["verdict"]]
    return {
        "overall word": cmp.overall != UNSURE,
        "any word": any(word != UNSURE for word in words),
        "any p alone": bool((cmp.deltas["p"] < ALPHA).any()),
    }


def main(draws: int = 1_000, sizes: tuple[int, ...] = (40, 182)) -> None:
    """Print the shares of comparisons, over all six pairs of the demo's runs; the aim is 5 %."""
    every = rs.evaluate(str(DEMO / "runs/*"), str(DEMO / "golden.yaml"))
    pairs = [every.select(runs=list(pair)) for pair in combinations(every.run_ids, 2)]
    for n in sizes:
        rng, found = np.random.default_rng(n), Counter[str]()
        for draw in range(draws):
            found.update(said(exchanged(pairs[draw % len(pairs)], n, rng)))
        print(f"{n} queries, {draws:,} comparisons of runs that don't differ")
        for name, times in found.items():
            print(f"{name:28}{times / draws:>8.1%}")
