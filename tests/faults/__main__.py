"""Attack the product, and print or write down what came of it.

    python -m tests.faults 10000 [--page notebooks/reference/store-safety.md] \
        [--report FILE] [-k PATTERN]

10000 is the size: a hundred times that of the test suite. The report holds JSON lines, which later
calls add to; `--table` only makes the table of what it holds.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
WRITTEN = re.compile(r"(<!-- faults -->\n).*?(<!-- /faults -->)", re.DOTALL)


def table(report: Path) -> str:
    """Return a Markdown table: per kind of attack its rounds, and what came of them."""
    counts: dict[str, Counter[str]] = {}
    for line in report.read_text(encoding="utf-8").splitlines():
        found = json.loads(line)
        kind = re.split("[:,]", found["attack"])[0]
        counts.setdefault(kind, Counter())[found["outcome"]] += found["n"]
    rows = [
        f"| {attack} | {sum(of.values()):,} | "
        f"{', '.join(f'{outcome} {n:,}' for outcome, n in of.most_common())} |"
        for attack, of in sorted(counts.items())
    ]
    return "\n".join(["| attack | rounds | outcomes |", "|---|--:|---|", *rows]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("size", nargs="?", type=int, default=100)
    parser.add_argument("-k", dest="chosen", help="only tests whose names hold this")
    parser.add_argument("--report", type=Path, default=Path("faults.jsonl"))
    parser.add_argument("--page", type=Path, help="write the table there")
    parser.add_argument("--table", action="store_true", help="attack nothing")
    args = parser.parse_args()
    status = 0
    if not args.table:
        told = {"RAGSCORE_FAULTS": str(args.size), "RAGSCORE_FAULTS_REPORT": str(args.report)}
        command = [
            sys.executable, "-m", "pytest", "-q", "-p", "no:nbval", "-o", "addopts=",
            "-o", "timeout=0", HERE,
        ]  # fmt: skip
        command += ["-k", args.chosen] if args.chosen else []
        status = subprocess.run(command, env=os.environ | told, check=False).returncode
    found = table(args.report)
    print(found)
    if args.page and status == 0:
        text = args.page.read_text(encoding="utf-8")
        args.page.write_text(
            WRITTEN.sub(lambda part: f"{part[1]}\n{found}\n{part[2]}", text), encoding="utf-8"
        )
    return status


if __name__ == "__main__":
    sys.exit(main())
