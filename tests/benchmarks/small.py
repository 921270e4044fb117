"""Small work.

Scoring a run of 100 queries × 10 hits, and the import of the package, which people wait for first.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.plan import Plan
from tests.benchmarks.process import ROOT, Clock, Measured, environment, repeated, run_fresh
from tests.benchmarks.table import Claim, Table, at_most, middle, number

IMPORTS = {
    "import pandas, pyarrow": "import pandas, pyarrow",
    "import ragscore": "import ragscore",
    "import ragscore, with what loads and scores": (
        "import ragscore as rs; rs.load_golden, rs.load_results, rs.evaluate"
    ),
}
CALLS = 30


def score_small(clock: Clock) -> Measured:
    """Milliseconds of each of 30 calls, after one that warms up."""
    import ragscore as rs
    from tests.benchmarks.workload import as_results, make_run

    hits, golden = make_run(100, 10, 1_000)
    results = as_results(hits, golden)
    rs.score(results, golden, match="doc")
    return {
        "ms": [
            1000 * spent
            for spent in repeated(lambda: rs.score(results, golden, match="doc"), CALLS)
        ]
    }


def measure(plan: Plan, folder: Path, say: Callable[[str], None]) -> list[Measured]:
    """One record per process."""
    records: list[Measured] = [
        {"what": "score 100 × 10", **run_fresh("small", "score_small")} for _ in range(plan.repeats)
    ]
    for code in IMPORTS.values():  # compiles what isn't
        _import(code)
    for _ in range(plan.imports):
        records += [{"what": what, **_import(code)} for what, code in IMPORTS.items()]
    say("small run and imports measured")
    return records


def _import(code: str) -> Measured:
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment())
    spent, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": spent,
        "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    }


def claims(records: list[Measured]) -> list[Claim]:
    """At most 20 ms; at most 1.3 × the import of what it stands on."""
    scored = [middle(record["ms"]) for record in records if "ms" in record]
    every = [spent for record in records if "ms" in record for spent in record["ms"]]
    found = [
        Claim(
            "100 queries × 10 hits: rs.score, warm",
            middle(scored),
            min(every),
            max(every),
            20,
            True,
            "ms",
        )
    ]
    theirs, *ours = IMPORTS
    wall, cpu = (
        {what: [record[key] for record in records if record["what"] == what] for what in IMPORTS}
        for key in ("seconds", "cpu_seconds")
    )
    return found + [
        at_most(
            f"{what}, against {theirs}", wall[what], wall[theirs], 1.3, (cpu[what], cpu[theirs])
        )
        for what in ours
    ]


def tables(records: list[Measured]) -> list[Table]:
    """Medians."""
    rows = []
    for what in IMPORTS:
        wall, cpu = (
            [record[key] for record in records if record["what"] == what]
            for key in ("seconds", "cpu_seconds")
        )
        rows.append(
            [
                what,
                number(middle(wall)),
                f"{number(min(wall))} to {number(max(wall))}",
                number(middle(cpu)),
            ]
        )
    return [
        Table(
            f"Imports, in {len(rows) and sum(record['what'] == what for record in records)} fresh"
            " processes each.",
            ["", "seconds", "range", "CPU s"],
            rows,
        )
    ]
