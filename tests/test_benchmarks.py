"""Each part of the benchmarks runs and prints its table. What it times is nobody's test."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SHOWN = {
    "scoring": [
        "ragscore, frames",
        "ragscore, store",
        "plain pandas",
        "pytrec_eval",
        "ir_measures",
    ],
    "reading": ["pyarrow.json, bare", "ragscore, to a store", "polars, nested"],
    "store": ["one metric", "all scored anew"],
    "false_words": [
        "2 runs, nothing differs: 20 draws",
        "40 queries",
        "4 runs, as they are: 10 draws",
    ],
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
