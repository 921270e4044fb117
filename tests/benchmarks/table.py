"""What a benchmark found, as tables on the screen and in Markdown, and the machine it was found
on.
"""

import importlib.metadata
import math
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = (
    "pandas",
    "pyarrow",
    "numpy",
    "scipy",
    "pytrec_eval-terrier",
    "ir_measures",
    "polars",
    "duckdb",
)
WITHIN_FIGURE = re.compile(r"(?<=\d) (?=×|ms$|to \d)|(?<=\d to) (?=\d)|(?<=^[≤≥]) ")


@dataclass(frozen=True)
class Table:
    """Rows of text under headings."""

    title: str
    header: list[str]
    rows: list[list[str]]

    def text(self) -> str:
        """For the screen: columns in line."""
        widths = [
            max(len(row[at]) for row in [self.header, *self.rows]) for at in range(len(self.header))
        ]
        lines = [
            "  ".join(
                cell.ljust(width) if at == 0 else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            for row in [self.header, *self.rows]
        ]
        return "\n".join([self.title, *(line.rstrip() for line in lines)])

    def markdown(self) -> str:
        """For the page: a figure and its unit, or the two of a range, stay on one line."""
        aligned = ["---"] + ["--:"] * (len(self.header) - 1)
        rows = [[WITHIN_FIGURE.sub("\u00a0", cell) for cell in row] for row in self.rows]
        return f"{self.title}\n\n" + "\n".join(
            "| " + " | ".join(row) + " |" for row in [self.header, aligned, *rows]
        )


@dataclass(frozen=True)
class Claim:
    """A figure with its target.

    `found` (with the range of the runs) must be at least, or at most, `target`.

    `by_cpu` is the same by CPU time of all threads, which a busy machine disturbs less; NaN: not
    known.
    """

    name: str
    found: float
    low: float
    high: float
    target: float
    at_most: bool = False
    unit: str = "×"
    by_cpu: float = math.nan

    @property
    def verdict(self) -> str:
        """met, or by how much it is missed."""
        if self.found <= self.target if self.at_most else self.found >= self.target:
            return "met"
        short = self.found / self.target - 1 if self.at_most else 1 - self.found / self.target
        return f"short by {max(short, 0.01):.0%}"


def of_times(
    name: str,
    ours: list[float],
    theirs: list[float],
    target: float,
    cpu: tuple[list[float], list[float]] | None = None,
) -> Claim:
    """How many times faster we are.

    The ratio of the medians, and the range of the ratios of runs that stood next to each other;
    `cpu` is ours and theirs.
    """
    pairs = ratios(theirs, ours)
    by_cpu = middle(cpu[1]) / middle(cpu[0]) if cpu else math.nan
    return Claim(name, middle(theirs) / middle(ours), min(pairs), max(pairs), target, by_cpu=by_cpu)


def at_most(
    name: str,
    ours: list[float],
    theirs: list[float],
    target: float,
    cpu: tuple[list[float], list[float]] | None = None,
) -> Claim:
    """How much more we take, which must be no more than `target`."""
    pairs = ratios(ours, theirs)
    by_cpu = middle(cpu[0]) / middle(cpu[1]) if cpu else math.nan
    return Claim(
        name,
        middle(ours) / middle(theirs),
        min(pairs),
        max(pairs),
        target,
        at_most=True,
        by_cpu=by_cpu,
    )


def ratios(above: list[float], below: list[float]) -> list[float]:
    """Ratios of runs in the order they were made.

    A tool that ran once is set against every run of the other.
    """
    n = max(len(above), len(below))
    return [above[at % len(above)] / below[at % len(below)] for at in range(n)]


def middle(values: list[float]) -> float:
    """The median."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def claims_table(title: str, claims: list[Claim], earlier: list[Claim]) -> Table:
    """Found against target; of an earlier run what it found, if there is one."""
    before = {claim.name: claim for claim in earlier}
    header = ["", "found", "range", "by CPU", *(["run before"] if before else []), "target", ""]
    rows = []
    for claim in claims:
        again = (
            [f"{number(before[claim.name].found)} {claim.unit}" if claim.name in before else ""]
            if before
            else []
        )
        sign = "≤" if claim.at_most else "≥"
        found = f"{number(claim.found)} {claim.unit}"
        by_cpu = "" if math.isnan(claim.by_cpu) else f"{number(claim.by_cpu)} {claim.unit}"
        rows.append(
            [
                claim.name,
                found,
                f"{number(claim.low)} to {number(claim.high)}",
                by_cpu,
                *again,
                f"{sign} {claim.target:g} {claim.unit}",
                claim.verdict,
            ]
        )
    return Table(title, header, rows)


def number(value: float) -> str:
    """Three digits that count."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def seconds(values: list[float]) -> list[str]:
    """Median and range, as two cells."""
    return [
        number(middle(values)),
        f"{number(min(values))} to {number(max(values))}" if len(values) > 1 else "once",
    ]


def power(hits: int) -> str:
    """A number of hits as people say it."""
    exponent = len(str(hits)) - 1
    return (
        f"10^{exponent}"
        if hits == 10**exponent
        else f"{hits / 1e6:.1f} M"
        if hits >= 10**6
        else f"{hits:,}"
    )


def machine() -> dict[str, Any]:
    """What the figures were found on; names no host."""
    cpu = re.search(
        r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), flags=re.M
    )
    memory = re.search(
        r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text(encoding="ascii"), flags=re.M
    )
    versions = {name: found for name in PACKAGES if (found := _version(name))}
    return {
        "cpu": cpu[1].strip() if cpu else platform.processor(), "cores": os.cpu_count(),
        "gib": round(int(memory[1]) / 2**20) if memory else None,
        "python": platform.python_version(), "versions": versions,
    }  # fmt: skip


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine_line(found: dict[str, Any]) -> str:
    """The machine and the versions, in two sentences."""
    versions = ", ".join(f"`{name} {version}`" for name, version in found["versions"].items())
    return (
        f"Measured on {found['cores']} cores ({found['cpu']}), {found['gib']} GiB, Python"
        f" {found['python']}. Versions: {versions}."
    )
