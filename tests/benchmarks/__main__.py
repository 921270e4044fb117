"""Measure ragscore against what one would use instead.

`python -m tests.benchmarks [part ...] [--small]`.

Without a part, all. Parts: scoring, questions, small, store, sizing (their raw numbers go into
--json, their tables into --markdown and --page), and reading, records, spans, trec, labels,
resampling, rules, statistics, of which that is kept what they print. `all` is every one but
statistics, which takes long and is no matter of speed.

At full size scoring needs 10 GB of memory, 6 GB of disk in the temporary folder and about a quarter
of an hour of a quiet machine. ranx is measured where it can be imported, here or by the interpreter
that RAGSCORE_BENCH_PYTHON names.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks import questions, scoring, sizing, small, store
from tests.benchmarks.blocks import rewritten
from tests.benchmarks.plan import FULL, SMALL, Plan
from tests.benchmarks.sizing import Price
from tests.benchmarks.table import Claim, Table, claims_table, machine, machine_line

MEASURED: dict[str, Any] = {
    "scoring": scoring, "questions": questions, "small": small, "store": store, "sizing": sizing,
}  # fmt: skip
PRINTED: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "reading": ((), (300,)), "spans": ((100_000,), (200,)), "trec": ((), (1_000,)),
    "records": ((20_000,), (100,)),
    "labels": ((), (1_000,)), "resampling": ((), (200,)),
    "rules": ((), (100,)), "statistics": ((10_000,), (50,)),
}  # fmt: skip
"""Part -> arguments of its `main` at full size, and small."""

Raw = dict[str, Any]


def main(arguments: list[str] | None = None) -> None:
    """Measure what is asked for, print it, and write it where it is asked for."""
    asked = _parser().parse_args(arguments)
    parts = (
        [*MEASURED, *(name for name in PRINTED if name != "statistics")]
        if "all" in asked.parts
        else asked.parts
    )
    raw = (
        json.loads(asked.raw.read_text(encoding="utf-8"))
        if asked.raw
        else measure(SMALL if asked.small else FULL, parts, asked.json)
    )
    earlier = json.loads(asked.earlier.read_text(encoding="utf-8")) if asked.earlier else {}
    tables = {
        name: tables_of(name, raw, earlier, Price(asked.price, asked.cores))
        for name in MEASURED
        if name in raw
    }
    print(
        "\n\n".join(
            [
                machine_line(raw["machine"]),
                *(table.text() for part in tables.values() for table in part),
                *raw["printed"].values(),
            ]
        )
    )
    blocks = {
        name: "\n\n".join(table.markdown() for table in part) for name, part in tables.items()
    }
    blocks |= {name: f"```text measured\n{text}\n```" for name, text in raw["printed"].items()} | {
        "machine": machine_line(raw["machine"])
    }
    if asked.markdown:
        asked.markdown.write_text("\n\n".join(blocks.values()) + "\n", encoding="utf-8")
    if asked.page:
        asked.page.write_text(
            rewritten(asked.page.read_text(encoding="utf-8"), blocks), encoding="utf-8"
        )


def measure(plan: Plan, parts: list[str], kept: Path | None = None) -> Raw:
    """Raw numbers of these parts, and what the others print.

    Written after each part, as the next may fail.
    """
    raw: Raw = {"machine": machine(), "printed": {}}
    for name in parts:
        if name in PRINTED:
            _say(f"measuring {name}")
            raw["printed"][name] = printed(name, plan is SMALL)
        else:
            with tempfile.TemporaryDirectory(prefix="ragscore-benchmarks-") as folder:
                more = (os.cpu_count() or 1,) if name == "sizing" else ()
                raw[name] = MEASURED[name].measure(plan, Path(folder) / name, _say, *more)
        if kept is not None:
            kept.write_text(json.dumps(raw, indent=1), encoding="utf-8")
    return raw


def tables_of(name: str, raw: Raw, earlier: Raw, price: Price) -> list[Table]:
    """The tables of a part, what was promised first."""
    if name == "sizing":
        return sizing.tables(raw[name], raw.get("scoring"), price)
    claimed: Callable[[Any], list[Claim]] = MEASURED[name].claims
    promised = claims_table(
        f"Targets of {'all methods' if name == 'questions' else name} (set for full size).",
        claimed(raw[name]),
        claimed(earlier[name]) if name in earlier else [],
    )
    return [promised, *MEASURED[name].tables(raw[name])]


def printed(name: str, is_small: bool) -> str:
    """What a part prints, or that it can't be measured."""
    full, less = PRINTED[name]
    try:
        part = importlib.import_module(f"tests.benchmarks.{name}")
    except ModuleNotFoundError as error:
        return f"{name}: not measured, {error.name} is missing"
    with contextlib.redirect_stdout(io.StringIO()) as said:
        part.main(*(less if is_small else full))
    return said.getvalue().strip()


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # A text as default: argparse looks whether an empty list is among the choices.
    parser.add_argument(
        "parts", nargs="*", default="all", choices=[*MEASURED, *PRINTED, "all"], help="default: all"
    )
    parser.add_argument(
        "--small", action="store_true", help="10^4 to 10^5 hits, once: to see that it runs"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all raw numbers")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE",
        help="rewrite its blocks between <!-- benchmark:... --> comments",
    )
    parser.add_argument(
        "--raw",
        type=Path,
        metavar="FILE",
        help="measure nothing, take the raw numbers of an earlier run",
    )
    parser.add_argument(
        "--earlier", type=Path, metavar="FILE", help="raw numbers of an earlier run, shown beside"
    )
    parser.add_argument(
        "--price",
        type=float,
        default=Price.per_hour,
        help="of an hour of one machine (default %(default)s)",
    )
    parser.add_argument(
        "--cores", type=int, default=Price.cores, help="of that machine (default %(default)s)"
    )
    return parser


if __name__ == "__main__":
    main()
