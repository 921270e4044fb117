"""Runs that don't differ, of the demo's records, and all that is claimed of runs anywhere."""

from dataclasses import fields, replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

import ragscore as rs
from ragscore.frames.data import Results
from ragscore.scoring.metrics import headline_of
from ragscore.scoring.value_states import metric_columns
from tests.benchmarks.false_words import DEMO, UNSURE


@cache
def demo() -> rs.Evaluation:
    """Return the demo's four runs, scored with every default."""
    return rs.evaluate(str(DEMO / "runs/*"), str(DEMO / "golden.yaml"))


def equal_runs(n_runs: int, n: int, rng: np.random.Generator) -> Results:
    """Return up to four runs whose records are exchanged, on the first `n` queries.

    Paraphrases of one query are from one run.
    """
    ev = demo()
    queries = ev.golden.queries.head(n)
    unit = queries["group"].fillna(queries["query_id"])
    order = {one: rng.permutation(ev.run_ids)[:n_runs] for one in unit.unique()}
    rows = [
        (query_id, run_id, f"r{place:02d}")
        for query_id, one in zip(queries["query_id"], unit, strict=True)
        for place, run_id in enumerate(order[one])
    ]
    chosen = pd.DataFrame(rows, columns=["query_id", "run_id", "drawn"])
    frames: dict[str, Any] = {}
    for item in fields(ev.results):
        frame = getattr(ev.results, item.name)
        if frame is not None and {"run_id", "query_id"} <= set(frame):
            named = frame.assign(run_id=frame["run_id"].astype("str"))
            both = chosen.merge(named, on=["run_id", "query_id"])
            frames[item.name] = both.assign(run_id=both["drawn"])[frame.columns]
    row = ev.results.runs.iloc[:1]
    runs = pd.concat([row.assign(run_id=name, system=name) for name in chosen["drawn"].unique()])
    return replace(ev.results, runs=runs.reset_index(drop=True), **frames)


def everything_claimed(ev: rs.Evaluation) -> list[str]:
    """Return what is claimed of runs: letters, and words of comparisons.

    Comparisons are those of a report: each run with the one before it.
    """
    board = ev.leaderboard([*ev.primary, *headline_of(metric_columns(ev.scores))])
    apart = board.pairs[~board.pairs["is_tied"].fillna(True).to_numpy(dtype=bool)]
    names = apart[["metric", "run_baseline", "run_candidate"]].itertuples(index=False)
    found = [f"letters {' '.join(name)}" for name in names]
    for pair in pairwise(ev.run_ids):
        cmp = ev.compare(*pair)
        tables = {"metric": cmp.deltas, "aspect": cmp.aspects}
        tables |= {"flips": cmp.flip_counts.rename(columns={"metric": "flips"})}
        for name, table in tables.items():
            claimed = table.loc[(table["verdict"] != UNSURE).to_numpy(), name]
            found += [f"{' '.join(pair)} {name} {one}" for one in claimed]
    return found
