"""A job in a process of its own, which tells its peak memory.

`python -m tests.benchmarks.process MODULE JOB ARGUMENTS` calls
`tests.benchmarks.MODULE.JOB(**ARGUMENTS)` and prints what it returned.
"""

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[2]

Measured = dict[str, Any]
"""What a job returned, and its `rss`: peak memory in MiB."""


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return how many seconds a call took, and what it returned."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def first_and_again(call: Callable[[], Any], again: int) -> Measured:
    """Time a first call, which pays for what it imports and keeps, and the median of others."""
    first, *others = (timed(call)[0] for _ in range(1 + again))
    return {"first": first, "again": median(others)}


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


def main() -> None:
    job = getattr(importlib.import_module(f"tests.benchmarks.{sys.argv[1]}"), sys.argv[2])
    found = job(**json.loads(sys.argv[3])) or {}
    status = Path("/proc/self/status").read_text(encoding="ascii")
    peak = int(status.partition("VmHWM:")[2].split()[0])
    print(json.dumps({"rss": peak / 1024, **found}))


if __name__ == "__main__":
    main()
