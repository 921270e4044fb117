"""How large an attack is, and what came of it."""

import json
import os
from collections import Counter
from pathlib import Path

COUNTS: Counter[tuple[str, str]] = Counter()


def times(small: int) -> int:
    """How many rounds an attack takes: `small` of them, as many hundreds as RAGSCORE_FAULTS says.

    RAGSCORE_FAULTS=100 is the size that every test run takes, 10000 a hundred times that.
    """
    percent = float(os.environ.get("RAGSCORE_FAULTS", "100"))
    return max(small, -int(-small * percent // 100))


def tally(attack: str, outcome: str, n: int = 1) -> None:
    """Count an outcome of an attack, and add it to the report if RAGSCORE_FAULTS_REPORT names one.

    The report holds JSON lines: attack, outcome, n. Processes may append to it at the same time.
    """
    COUNTS[attack, outcome] += n
    if report := os.environ.get("RAGSCORE_FAULTS_REPORT"):
        line = json.dumps({"attack": attack, "outcome": outcome, "n": n}) + "\n"
        with Path(report).open("a", encoding="utf-8") as out:
            out.write(line)
