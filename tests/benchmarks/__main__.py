"""Measure ragscore beside what one would use instead, and print the tables.

`python -m tests.benchmarks [PART ...] [--small]`: all parts, or some. `--small` takes a minute, to
see that they run. At full size, scoring needs 4 GB of memory, and a quiet machine an hour for all.
"""

import argparse
import importlib
from typing import Any

# Part -> arguments of its `main` to see that it runs.
PARTS: dict[str, dict[str, Any]] = {
    "scoring": {"sizes": (10**4,), "repeats": 1},
    "reading": {"n_lines": 300, "repeats": 1},
    "store": {"n_runs": 10, "n_queries": 20},
    "false_words": {"draws": 20, "layouts": ("40 queries",)},
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--small", action="store_true", help="see in a minute that it runs")
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"{', '.join(sorted(unknown))}: parts are {', '.join(PARTS)}")
    for name in given.parts or PARTS:
        module = importlib.import_module(f"tests.benchmarks.{name}")
        module.main(**PARTS[name] if given.small else {})
        print(flush=True)


if __name__ == "__main__":
    main()
