"""Time loading a frame of another library, one row per hit.

`python -m tests.benchmarks.frames [n_rows]` (default ten million rows, 100 hits a query).

Against what a user would write without ragscore: the frame as a pandas frame, sorted by query and
rank. Each way runs in a fresh process, in turn; medians of three are printed, as seconds and
as what the peak memory grows by.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.benchmarks.reading import _peak_mb

REPEATS = 3
DEPTH = 100


def table(n: int) -> pa.Table:
    """Return hits of n // 100 queries: query_id, doc_id, rank, score."""
    rng = np.random.default_rng(0)
    at = np.arange(n)
    query, doc = (
        pc.cast(pa.array(ids), pa.string()) for ids in (at // DEPTH, rng.integers(n, size=n))
    )
    texts = [pc.binary_join_element_wise(name, ids, "") for name, ids in (("q", query), ("d", doc))]
    rank = at % DEPTH + 1
    return pa.table({"query_id": texts[0], "doc_id": texts[1], "rank": rank, "score": 1.0 / rank})


def _of(kind: str, made: pa.Table) -> Any:
    if kind == "polars":
        import polars

        return polars.from_arrow(made)
    return made


def _ours(frame: Any) -> Any:
    import ragscore as rs

    return rs.load_results(frame)


def _plain(frame: Any) -> Any:
    return frame.to_pandas().sort_values(["query_id", "rank"], ignore_index=True)


WAYS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "ragscore, polars": ("polars", _ours), "ragscore, pyarrow": ("pyarrow", _ours),
    "pandas, polars": ("polars", _plain), "pandas, pyarrow": ("pyarrow", _plain),
}  # fmt: skip


def one(name: str, n: int) -> dict[str, float]:
    """Time one way in this process; packages are imported before."""
    kind, load = WAYS[name]
    frame = _of(kind, table(n))
    load(_of(kind, table(DEPTH)))
    before, started = _peak_mb(), time.perf_counter()
    loaded = load(frame)
    spent = {"wall": time.perf_counter() - started, "mb": _peak_mb() - before}
    del loaded
    return spent


def main(n: int = 10_000_000) -> None:
    """Print the table."""
    command = [sys.executable, "-m", "tests.benchmarks.frames", "--one"]
    spent: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for _ in range(REPEATS):
        for name, runs in spent.items():
            done = subprocess.run(
                [*command, name, str(n)], check=True, capture_output=True, text=True
            )
            runs.append(json.loads(done.stdout))
    print(f"{n:,} rows, {REPEATS} alternating runs in fresh processes")
    for name, runs in spent.items():
        wall, mb = (statistics.median(run[key] for run in runs) for key in ("wall", "mb"))
        print(f"{name:18} median {wall:6.2f} s   peak grows by {mb:,.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(sys.argv[2], int(sys.argv[3]))))
    else:
        main(*map(int, sys.argv[1:]))
