"""A job in a process of its own, which times its stages and tells its own peak memory.

`python -m tests.benchmarks.process MODULE JOB ARGUMENTS` calls
`tests.benchmarks.MODULE.JOB(clock, **ARGUMENTS)` and prints what it measured.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]

Measured = dict[str, Any]
"""What a job reports: wall (seconds by stage), rss (peak, MiB), and what it returned."""


class Clock:
    """Seconds by stage; what happens between stages isn't counted."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.wall[name] = time.perf_counter() - start

    def calls(self, call: Callable[[], Any], again: int) -> Any:
        """Time a first call, which pays for what it imports and keeps, and the median of others."""
        with self.stage("first"):
            found = call()
        spent = []
        for _ in range(again):
            with self.stage("again"):
                call()
            spent.append(self.wall["again"])
        self.wall["again"] = median(spent)
        return found


def run_fresh(module: str, job: str, **arguments: Any) -> Measured:
    """Run a job in a fresh process, which finds compiled modules as an installation has them."""
    compiled = str(Path(tempfile.gettempdir()) / "ragscore_benchmarks_compiled")
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.process", module, job, json.dumps(arguments)],
        capture_output=True, text=True, cwd=ROOT,
        env={**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": compiled},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{module}.{job} {arguments}: {done.stderr}")
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def peak_mib() -> float:
    """Return the peak memory of this process by its own count."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def main() -> None:
    clock = Clock()
    job = getattr(importlib.import_module(f"tests.benchmarks.{sys.argv[1]}"), sys.argv[2])
    found = job(clock, **json.loads(sys.argv[3])) or {}
    print(json.dumps({"wall": clock.wall, "rss": peak_mib(), **found}))


if __name__ == "__main__":
    main()
