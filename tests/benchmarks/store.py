"""A store of many small runs, beside pyarrow reading the same columns of the same files.

`first` is what a new store takes in a fresh process, `again` the median of calls that follow.
pyarrow gets the list of files for nothing.
"""

import json
import tempfile
from pathlib import Path

import pandas as pd
import pyarrow.dataset as ds

import ragscore as rs
from tests.benchmarks.process import Measured, first_and_again, run_fresh
from tests.benchmarks.workload import as_results, make_run, read_golden, write_golden

METRIC = "mrr"
N_DOCS, N_HITS, N_SYSTEMS = 300, 10, 10
CALLS = 3
# What is read -> the tables and columns of which pyarrow needs the same.
READINGS: dict[str, dict[str, list[str] | None]] = {
    "one metric": {"scores": ["query_id", "state", "level", METRIC]},
    "one system": {"scores": ["query_id", "state", "level", METRIC]},
    "all loaded": {"hits": None, "responses": None},
    "trend": {},
    "all scored anew": {
        "hits": ["query_id", "rank", "doc_id"], "responses": ["query_id", "error"],
    },
}  # fmt: skip


def write(root: str, n_runs: int, n_queries: int) -> Measured:
    """Save the same answers again and again, as runs of their own systems, dates and configs."""
    hits, golden = make_run(n_queries, N_HITS, N_DOCS)
    write_golden(golden, root)
    answers, store = as_results(hits, golden), rs.RunStore(f"{root}/store")
    for number in range(n_runs):
        run = {
            "run_id": f"r{number:04}", "system": f"s{number % N_SYSTEMS}",
            "created_at": pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(hours=number),
            "config": json.dumps({"bm25": {"k1": number % N_SYSTEMS / 10}}),
        }  # fmt: skip
        own = (one.assign(run_id=run["run_id"]) for one in (answers.responses, answers.hits))
        store.save(rs.Results(pd.DataFrame([run]), *own), golden=golden)
    files = [file for file in Path(f"{root}/store").rglob("*") if file.is_file()]
    return {"mb": sum(file.stat().st_size for file in files) / 1e6}


def ours(root: str, reading: str) -> Measured:
    store, golden = rs.RunStore(f"{root}/store"), read_golden(Path(root))

    read = {
        "one metric": lambda: store.scores(metrics=METRIC),
        "one system": lambda: store.scores(
            metrics=METRIC, runs=store.runs().query("system == 's7'")["run_id"].tolist()
        ),
        "all loaded": store.load,
        "trend": lambda: store.trend(METRIC),
        "all scored anew": lambda: store.scores(golden),
    }[reading]
    return first_and_again(read, CALLS)


def theirs(root: str, reading: str) -> Measured:
    store = rs.RunStore(f"{root}/store")
    first, every = (7, N_SYSTEMS) if reading == "one system" else (0, 1)
    files = {table: store.files(table)[first::every] for table in READINGS[reading]}

    return first_and_again(
        lambda: [
            ds.dataset(files[table]).to_table(columns=columns)
            for table, columns in READINGS[reading].items()
        ],
        CALLS,
    )


def main(n_runs: int = 1_000, n_queries: int = 500) -> None:
    """Print milliseconds of each reading."""
    with tempfile.TemporaryDirectory() as root:
        size = run_fresh("store", "write", root=root, n_runs=n_runs, n_queries=n_queries)["mb"]
        print(f"{n_runs:,} runs × {n_queries} queries × {N_HITS} hits ({size:,.0f} MB)")
        print(f"{'milliseconds':28}{'first':>10}{'again':>10}{'pyarrow':>10}{'again':>10}")
        for reading in READINGS:
            cells = ""
            for job in ("ours", "theirs"):
                found = run_fresh("store", job, root=root, reading=reading)
                cells += f"{1000 * found['first']:>10,.1f}{1000 * found['again']:>10,.1f}"
            print(f"{reading:28}{cells}", flush=True)
