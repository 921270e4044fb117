"""Run by test_collect_resume.

Collectors that are killed at a given moment of their life, each in a process of its own.

One process imports the library and forks for every collector. A moment is the n-th time that
something reaches the disk: before or after a statement of the journal, a renamed file, the end of
the journal. A thread may kill amid the statement of another.
"""

import json
import os
import random
import signal
import sqlite3
import sys
from pathlib import Path

import pandas as pd

import ragscore as rs
from ragscore.collecting import journal
from ragscore.collecting import run as collect_run

N_QUERIES, WORKERS = 24, 4


def golden() -> rs.Golden:
    """Questions about which nothing needs to be known."""
    rows = [
        {"query_id": f"q{n:02}", "query": f"question {n}", "answerable": True, "position": n}
        for n in range(N_QUERIES)
    ]
    return rs.Golden(pd.DataFrame(rows))


def collect(folder: Path) -> None:
    """The run that is killed: every question it is asked leaves a line in a log beside the
    folder.
    """
    log = os.open(folder.with_suffix(".log"), os.O_CREAT | os.O_APPEND | os.O_WRONLY)

    def system(query: str, k: int, seed: int) -> dict[str, object]:
        os.write(log, f"{query}\n".encode())
        drawn = random.Random(f"{query} {seed}")
        hits = [
            {
                "chunk_id": f"c{drawn.randrange(1000)}",
                "score": drawn.random(),
                "text": "ä" * drawn.randrange(200),
            }
            for _ in range(k)
        ]
        if drawn.random() < 0.1:
            return {"hits": hits, "error": "no answer"}
        return {
            "hits": hits,
            "answer": f"answer to {query}",
            "config": {"index_version": "i1"},
            "latency": {"retrieval_ms": 1.5},
        }

    rs.collect(
        system, golden(), folder, k=3, seed=11, workers=WORKERS, run_id="run", progress=False
    )


class Moments:
    """Counts what reaches the disk, and ends the process at one of them or after it."""

    def __init__(self, kill_at: int | None, is_after: bool) -> None:
        self.n, self.kill_at, self.is_after = 0, kill_at, is_after
        self.connect, self.replace, self.unlink = sqlite3.connect, Path.replace, Path.unlink
        journal.sqlite3.connect = self._connect
        Path.replace = lambda path, target: (self._pass(), self.replace(path, target))[1]  # type: ignore[assignment]
        Path.unlink = lambda path, missing_ok=False: (self._pass(), self.unlink(path, missing_ok))[
            1
        ]  # type: ignore[assignment,misc]

    def _pass(self) -> None:
        self.n += 1
        if self.n == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _connect(self, *given, **options):  # type: ignore[no-untyped-def]
        moments = self

        class Counted(sqlite3.Connection):
            def execute(self, *given):  # type: ignore[no-untyped-def]
                moments._pass() if not moments.is_after else None
                done = super().execute(*given)
                moments._pass() if moments.is_after else None
                return done

        return self.connect(*given, **options, factory=Counted)


def forked(folder: Path, kill_at: int | None = None, is_after: bool = False) -> tuple[int, int]:
    """One collector in a process of its own: its exit status (-9.

    Killed), and how many moments it had.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            moments = Moments(kill_at, is_after)
            collect(folder)
            os.write(write, str(moments.n).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    _, status = os.waitpid(child, 0)
    told = os.read(read, 20)
    os.close(read)
    return os.waitstatus_to_exitcode(status), int(told or 0)


def main(folder: Path, n_points: int) -> None:
    """A run that nothing stops, then one killed at each point and resumed.

    Prints what happened as JSON.
    """
    collect_run.load_results = lambda path: None  # type: ignore[assignment,return-value]  # nothing here looks at the frames,
    collect_run.environment = collect_run.code_version = dict  # nor at what the machine is,
    # and what a process has written outlives it without: that is for a machine that stops
    os.fsync = lambda handle: None
    status, n_moments = forked(folder / "whole")
    drawn = random.Random(5)
    told = []
    for number in range(n_points):
        run, kill_at = folder / f"killed-{number}", drawn.randrange(1, n_moments + 1)
        is_after = drawn.random() < 0.5
        killed, _ = forked(run, kill_at, is_after)
        n_before = len(run.with_suffix(".log").read_text().splitlines())
        resumed, _ = forked(run)
        told.append(
            {
                "run": run.name,
                "kill_at": kill_at,
                "is_after": is_after,
                "killed": killed,
                "resumed": resumed,
                "n_before": n_before,
            }
        )
    print(json.dumps({"whole": status, "moments": n_moments, "runs": told}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
