"""A collector that is killed at a given moment of its life, in a process of its own.

A moment is a question that is asked or answered, or a file that is put in place or removed. The
thread that kills may do so amid a statement of the journal that another one makes.
"""

import os
import random
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from conftest import questions
from faults.children import die, start

import ragscore as rs
from ragscore.collecting import run as collect_run

N_QUERIES, WORKERS = 24, 4


def reply(query: str, k: int, seed: int) -> dict[str, Any]:
    """Reply by chance, the same for the same seed."""
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


def collected(folder: Path, kill_at: int | None = None) -> Any:
    """Collect a run in a process of its own; return how many moments it had, None if killed."""

    def collect() -> int:
        moments = count(1)

        def counted(do: Callable[..., Any], *given: Any, **how: Any) -> Any:
            if next(moments) == kill_at:
                die()
            return do(*given, **how)

        def system(query: str, k: int, seed: int) -> dict[str, Any]:
            with folder.with_suffix(".log").open("a") as lines:
                counted(lines.write, f"{query}\n")
            return counted(reply, query, k, seed)

        replace, unlink = Path.replace, Path.unlink
        Path.replace = lambda *given: counted(replace, *given)
        Path.unlink = lambda *given, **how: counted(unlink, *given, **how)
        # nothing here looks at the frames, nor at what the machine is, and what a process has
        # written outlives it without: that is for a machine that stops
        collect_run.load_results = lambda path: None
        collect_run.environment = collect_run.code_version = dict
        os.fsync = lambda handle: None
        rs.collect(
            system, questions(N_QUERIES), folder, k=3, seed=11, workers=WORKERS, run_id="run",
            progress=False,
        )  # fmt: skip
        return next(moments) - 1

    return start(collect).answer(limit=120)
