"""Each part of the benchmarks runs and prints its table. What it times is nobody's test."""

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks.false_words import DEMO, exchanged

import ragscore as rs

ROOT = Path(__file__).parents[1]
SHOWN = {
    "scoring": ["ragscore, frames", "ragscore, store", "pytrec_eval", "ir_measures"],
    "reading": ["pyarrow.json, bare", "ragscore, to a store", "polars, nested"],
    "questions": ["evaluate", "compare", "report", "store.save"],
    "store": ["one metric", "all scored anew"],
    "false_words": ["overall word", "any p alone"],
}


@pytest.mark.slow
@pytest.mark.parametrize("part", SHOWN)
def test_a_part_runs_and_shows_what_it_compares(part):
    # The tools' means agree, else scoring stops.
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", part, "--small"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert all(any(line.startswith(name) for line in lines) for name in SHOWN[part])


@pytest.mark.slow
def test_exchanging_rows_of_scores_is_exchanging_records():
    ev = rs.evaluate(str(DEMO / "runs/*"), str(DEMO / "golden.yaml"))
    ev, other = ev.select(runs=["dense", "hybrid"]), {"dense": "hybrid", "hybrid": "dense"}
    found = exchanged(ev, 40, np.random.default_rng(3))
    before = ev.select(queries=found.golden.queries["query_id"].tolist())
    moved = found.scores.index[found.scores["run_id"].ne(before.scores["run_id"]).to_numpy()]
    assert 10 < moved.nunique() < 30
    records = {}
    for item in fields(before.results):
        frame = getattr(before.results, item.name)
        if frame is not None and {"run_id", "query_id"} <= set(frame):
            run = frame["run_id"].astype("str")
            run = run.where(~frame["query_id"].isin(moved), run.replace(other))
            records[item.name] = frame.assign(run_id=run)
    again = rs.evaluate(replace(before.results, **records), before.golden)
    expected, cmp = (one.compare("dense", "hybrid") for one in (again, found))
    for table in ("deltas", "aspects", "flip_counts"):
        pd.testing.assert_frame_equal(getattr(cmp, table), getattr(expected, table))
