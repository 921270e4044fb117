"""A collector that is killed at a given moment of its life, in a process of its own.

A moment is the n-th time that something reaches the disk: before or after a statement of the
journal, a renamed file, the end of the journal. A thread may kill amid the statement of another.
"""

import os
import random
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

from conftest import questions
from faults.children import die, start

import ragscore as rs
from ragscore.collecting import journal
from ragscore.collecting import run as collect_run

N_QUERIES, WORKERS = 24, 4


def system(query: str, k: int, seed: int, log: Path) -> dict[str, Any]:
    """Reply by chance, the same for the same seed, after a line in the log."""
    with log.open("a") as lines:
        lines.write(f"{query}\n")
    drawn = random.Random(f"{query} {seed}")
    hits = [
        {"chunk_id": f"c{drawn.randrange(1000)}", "score": drawn.random(),
         "text": "ä" * drawn.randrange(200)}
        for _ in range(k)
    ]  # fmt: skip
    if drawn.random() < 0.1:
        return {"hits": hits, "error": "no answer"}
    return {
        "hits": hits, "answer": f"answer to {query}", "config": {"index_version": "i1"},
        "latency": {"retrieval_ms": 1.5},
    }  # fmt: skip


class Moments:
    """Counts what reaches the disk, and ends the process at one of them or after it."""

    def __init__(self, kill_at: int | None, is_after: bool) -> None:
        self.n, self.kill_at, moments = 0, kill_at, self
        connect, replace, unlink = sqlite3.connect, Path.replace, Path.unlink

        class Counted(sqlite3.Connection):
            def execute(self, *given: Any) -> Any:
                if is_after:
                    done = super().execute(*given)
                    moments.count()
                    return done
                moments.count()
                return super().execute(*given)

        journal.sqlite3.connect = partial(connect, factory=Counted)
        Path.replace = lambda *given: (self.count(), replace(*given))[1]
        Path.unlink = lambda *given, **how: (self.count(), unlink(*given, **how))[1]

    def count(self) -> None:
        self.n += 1
        if self.n == self.kill_at:
            die()


def collected(folder: Path, kill_at: int | None = None, is_after: bool = False) -> Any:
    """Collect a run in a process of its own; return how many moments it had, None if killed."""

    def collect() -> int:
        # nothing here looks at the frames, nor at what the machine is, and what a process has
        # written outlives it without: that is for a machine that stops
        collect_run.load_results = lambda path: None
        collect_run.environment = collect_run.code_version = dict
        os.fsync = lambda handle: None
        ask = partial(system, log=folder.with_suffix(".log"))
        moments = Moments(kill_at, is_after)
        rs.collect(
            ask, questions(N_QUERIES), folder, k=3, seed=11, workers=WORKERS, run_id="run",
            progress=False,
        )  # fmt: skip
        return moments.n

    return start(collect).answer(limit=120)
