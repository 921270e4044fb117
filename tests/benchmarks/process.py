"""A measured process.

Started afresh, it times stages by the wall and by CPU and tells its own peak memory.

`python -m tests.benchmarks.process MODULE FUNCTION ARGUMENTS [SOURCE]` calls
`tests.benchmarks.MODULE.FUNCTION(clock, **ARGUMENTS)` and prints what it measured.
"""

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHON_VARIABLE = "RAGSCORE_BENCH_PYTHON"  # an interpreter that has ranx, where this one hasn't

WRITES_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"

Measured = dict[str, Any]
"""What a process reports: wall and cpu (seconds by stage), rss (peak, MiB), the job's result."""


@dataclass
class Clock:
    """Seconds by stage; what happens between stages isn't counted."""

    wall: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; process_time counts all threads."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall[name], self.cpu[name] = time.perf_counter() - wall, time.process_time() - cpu


def peak_mib() -> float:
    """Peak memory of this process by its own count.

    What getrusage gives a child may be its parent's.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def environment() -> dict[str, str]:
    """Return the environment of a fresh process, which finds compiled modules as an install has.

    They are kept apart, so that an environment that forbids them measures no compiler.
    """
    kept = {name: value for name, value in os.environ.items() if name != WRITES_NO_BYTECODE}
    compiled = str(Path(tempfile.gettempdir()) / "ragscore_benchmarks_compiled")
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": compiled}


def run_fresh(
    module: str,
    function: str,
    python: str = sys.executable,
    source: Path | None = None,
    **arguments: Any,
) -> Measured:
    """Call a job in a process of its own and give what it measured.

    Parameters
    ----------
    source
        The checkout whose ragscore is imported; by default this one's. The job is this one's.

    Raises
    ------
    RuntimeError
        The process failed, with what it said.
    """
    command = [python, "-m", "tests.benchmarks.process", module, function, json.dumps(arguments)]
    command += [] if source is None else [str(source)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(),
    )
    if done.returncode:
        raise RuntimeError(
            f"{module}.{function} failed:"
            f" {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
        )
    found: Measured = json.loads(done.stdout.splitlines()[-1])
    return found


def best_of(call: Callable[[], Any], n: int = 5) -> float:
    """The least of n times, after a first call that warms up."""
    call()
    return min(repeated(call, n))


def repeated(call: Callable[[], Any], n: int) -> list[float]:
    """Seconds of each of n calls."""
    spent = []
    for _ in range(n):
        start = time.perf_counter()
        call()
        spent.append(time.perf_counter() - start)
    return spent


def median(values: list[float]) -> float:
    """The median, of one or more."""
    return float(statistics.median(values))


def main() -> None:
    """Do the job of the command line."""
    clock = Clock()
    sys.path[:0] = sys.argv[4:]  # the jobs' own package is imported already
    job = getattr(importlib.import_module(f"tests.benchmarks.{sys.argv[1]}"), sys.argv[2])
    found = job(clock, **json.loads(sys.argv[3])) or {}
    print(json.dumps({"wall": clock.wall, "cpu": clock.cpu, "rss": peak_mib(), **found}))


if __name__ == "__main__":
    main()
