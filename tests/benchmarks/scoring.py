"""Scoring against its peers.

Every tool from the same files to the means, in turn, each in a fresh process.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ragscore as rs
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import PYTHON_VARIABLE, Measured, run_fresh
from tests.benchmarks.table import Claim, Table, at_most, middle, number, of_times, power, seconds
from tests.benchmarks.workload import DEPTH

FRAMES, STORE, PYTREC = "ragscore, frames", "ragscore, store", "pytrec_eval"
SLICED, IR, RANX = "pytrec_eval, dicts by slices", "ir_measures", "ranx"
VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "rows shuffled": ("shuffled", {}),
    "ids as category": ("category", {}),
    "ids as object": ("plain", {"ids": "object"}),
    "Parquet by polars": ("polars", {}),
    "Parquet by duckdb": ("duckdb", {}),
    "3 million chunk ids": ("chunk", {"match": "chunk"}),
}
OWN_PEER = ("rows shuffled", "3 million chunk ids")  # variants that pytrec_eval is measured on, too
NEEDED = ["query_id", "rank", "doc_id"]


def measure(plan: Plan, folder: Path, say: Callable[[str], None]) -> list[Measured]:
    """Run every tool; one record per process, with its tool, hits and variant."""
    records: list[Measured] = []
    ranx_python = _python_with_ranx()
    for hits in plan.sizes:
        _write(folder, hits, ["plain"], say)
        tools = _tools(plan, hits, ranx_python)
        for turn in range(plan.repeats):
            for tool, (function, python, options) in tools.items():
                if turn == 0 or not _is_slow(tool, hits, plan):
                    records.append(
                        _one(folder, hits, "plain", tool, function, say, python, **options)
                    )
        records += _floors(folder, hits)
    records += _variants(plan, folder, say)
    _write(folder, plan.ours_only, ["plain"], say)
    for _ in range(plan.repeats):
        for tool, function in ((FRAMES, "frames"), (STORE, "store")):
            records.append(_one(folder, plan.ours_only, "plain", tool, function, say))
    return records


def _tools(
    plan: Plan, hits: int, ranx_python: str | None
) -> dict[str, tuple[str, str, dict[str, str]]]:
    tools: dict[str, tuple[str, str, dict[str, str]]] = {
        FRAMES: ("frames", sys.executable, {}), PYTREC: ("pytrec_eval", sys.executable, {}),
        STORE: ("store", sys.executable, {}),
        SLICED: ("pytrec_eval", sys.executable, {"dicts": "slices"}),
    }  # fmt: skip
    if hits <= plan.slow_up_to:
        tools[IR] = ("ir_measures", sys.executable, {})
    if ranx_python is not None:
        tools[RANX] = ("ranx", ranx_python, {})
    return tools


def _is_slow(tool: str, hits: int, plan: Plan) -> bool:
    """Whether once is enough."""
    return (tool == IR and hits == plan.slow_up_to) or (
        tool in (RANX, SLICED) and hits > plan.slow_up_to
    )


def _python_with_ranx() -> str | None:
    """An interpreter that has ranx: this one, or the one that RAGSCORE_BENCH_PYTHON names."""
    named = os.environ.get(PYTHON_VARIABLE)
    return next(
        (
            python
            for python in (sys.executable, named)
            if python and run_fresh("tools", "version", python, package="ranx")["version"]
        ),
        None,
    )


def _variants(plan: Plan, folder: Path, say: Callable[[str], None]) -> list[Measured]:
    hits = plan.sizes[-1]
    _write(folder, hits, [variant for variant, _ in VARIANTS.values() if variant != "plain"], say)
    records = []
    for turn in range(plan.repeats):
        for name, (variant, options) in VARIANTS.items():
            records.append(
                _one(folder, hits, variant, FRAMES, "frames", say, **options) | {"variant": name}
            )
            if name in OWN_PEER and turn < 2:
                peer = {"hit_id": "chunk_id"} if variant == "chunk" else {}
                records.append(
                    _one(folder, hits, variant, PYTREC, "pytrec_eval", say, **peer)
                    | {"variant": name}
                )
    return records


def _write(folder: Path, hits: int, variants: list[str], say: Callable[[str], None]) -> None:
    say(f"writing {hits:,} hits: {', '.join(variants)}")
    run_fresh(
        "tools", "write", folder=str(folder / str(hits)), n_queries=hits // DEPTH, variants=variants
    )


def _one(
    folder: Path,
    hits: int,
    variant: str,
    tool: str,
    function: str,
    say: Callable[[str], None],
    python: str = sys.executable,
    **options: str,
) -> Measured:
    about: Measured = {"tool": tool, "hits": hits, "variant": "plain"}
    try:
        found = run_fresh(
            "tools", function, python, folder=str(folder / str(hits) / variant), **options
        )
    except RuntimeError as error:
        if tool in (FRAMES, STORE, PYTREC):  # without these there is nothing to compare
            raise
        say(f"{tool}, {hits:,} hits: {error}")
        return {**about, "failed": str(error)}
    say(
        f"{tool}, {hits:,} hits, {variant}: {sum(found['wall'].values()):.2f} s,"
        f" {found['rss']:,.0f} MiB"
    )
    return {**about, **found}


def _floors(folder: Path, hits: int) -> list[Measured]:
    home = folder / str(hits) / "plain"
    files = {FRAMES: home / "hits.parquet", STORE: rs.RunStore(home / "store").files("hits")[0]}
    found = run_fresh(
        "tools", "floor", files={of: str(file) for of, file in files.items()}, columns=NEEDED
    )
    return [
        {
            "tool": f"pyarrow reads for {of}",
            "hits": hits,
            "variant": "plain",
            **found,
            "wall": {"read": found["wall"][of]},
        }
        for of in files
    ]


# What the records say


class Records:
    """The records of a measurement, to take figures from."""

    def __init__(self, records: list[Measured]) -> None:
        self.records = [record for record in records if "failed" not in record]
        peers = [record for record in records if record["tool"] == PYTREC]
        self.sizes = sorted({record["hits"] for record in peers})
        self.largest = self.sizes[-1]

    def of(self, tool: str, hits: int, variant: str = "plain") -> list[Measured]:
        """The processes of one tool."""
        return [
            record
            for record in self.records
            if (record["tool"], record["hits"], record["variant"]) == (tool, hits, variant)
        ]

    def wall(
        self,
        tool: str,
        hits: int,
        variant: str = "plain",
        stages: tuple[str, ...] = (),
        kind: str = "wall",
    ) -> list[float]:
        """Seconds of each process, of all stages or some."""
        return [
            sum(spent for name, spent in record[kind].items() if not stages or name in stages)
            for record in self.of(tool, hits, variant)
        ]

    def cpu(
        self, tool: str, hits: int, variant: str = "plain", stages: tuple[str, ...] = ()
    ) -> list[float]:
        """CPU seconds of each process, of all its threads."""
        return self.wall(tool, hits, variant, stages, "cpu")

    def rss(self, tool: str, hits: int, variant: str = "plain") -> list[float]:
        """Peak memory of each process."""
        return [record["rss"] for record in self.of(tool, hits, variant)]

    def growth(self, tool: str, kind: str = "wall") -> tuple[float, list[float]]:
        """The exponent of time over hits, fitted over all sizes, and that of each step between two
        sizes.
        """
        sizes = sorted(
            {
                record["hits"]
                for record in self.records
                if record["tool"] == tool and record["variant"] == "plain"
            }
        )
        x, y = np.log(sizes), np.log([middle(self.wall(tool, hits, kind=kind)) for hits in sizes])
        return float(np.polyfit(x, y, 1)[0]) if len(sizes) > 1 else float("nan"), (
            np.diff(y) / np.diff(x)
        ).tolist()


def agreement(records: list[Measured]) -> float:
    """The largest difference of a mean between tools, over all sizes and variants.

    Variants hold the same rankings.
    """
    found = 0.0
    of_kind: dict[Any, list[dict[str, float]]] = {}
    for record in records:
        if "means" in record:
            of_kind.setdefault((record["hits"], record["variant"]), []).append(record["means"])
    for means in of_kind.values():
        found = max(found, *(abs(one[name] - means[0][name]) for one in means for name in one))
    return found


def claims(records: list[Measured]) -> list[Claim]:
    """Every ratio that was promised."""
    found = Records(records)
    return [
        *_against_pytrec(found),
        *_against_reading(found),
        *_of_variants(found),
        *_of_growth(found),
    ]


def _against_pytrec(found: Records) -> list[Claim]:
    both, claims = ("dicts", "evaluate"), []
    for hits, from_frames, from_store in ((found.largest, 6, 12), (found.sizes[-2], 7, 7)):
        for name, tool, ours, theirs, target in (
            ("frames: score, against dicts + evaluate", FRAMES, ("score",), both, from_frames),
            ("store: all, against read + dicts + evaluate", STORE, (), ("read", *both), from_store),
        ):
            wall, cpu = (
                (of(tool, hits, stages=ours), of(PYTREC, hits, stages=theirs))
                for of in (found.wall, found.cpu)
            )
            claims.append(of_times(f"{name}, {power(hits)} hits", *wall, target, cpu))
    at = f"{power(found.largest)} hits"
    claims.append(
        at_most(
            f"frames: peak memory, {at}",
            found.rss(FRAMES, found.largest),
            found.rss(PYTREC, found.largest),
            0.4,
        )
    )
    claims.append(
        at_most(
            f"store: peak memory, {at}",
            found.rss(STORE, found.largest),
            found.rss(PYTREC, found.largest),
            0.25,
        )
    )
    return claims


def _against_reading(found: Records) -> list[Claim]:
    at = f"{power(found.largest)} hits"
    return [
        at_most(
            f"{tool.removeprefix('ragscore, ')}: all, against pyarrow reading the columns, {at}",
            found.wall(tool, found.largest),
            floor,
            8,
        )
        for tool in (FRAMES, STORE)
        if (floor := found.wall(f"pyarrow reads for {tool}", found.largest))
    ]


def _of_variants(found: Records) -> list[Claim]:
    claims, hits = [], found.largest
    for name in VARIANTS:
        peer = name if name in OWN_PEER else "plain"
        wall, cpu = (
            (of(FRAMES, hits, name, ("score",)), of(PYTREC, hits, peer, ("dicts", "evaluate")))
            for of in (found.wall, found.cpu)
        )
        claims.append(of_times(f"frames, {name}: score", *wall, 5 if "chunk" in name else 4, cpu))
        if "chunk" not in name:
            claims.append(
                at_most(
                    f"frames, {name}: peak memory",
                    found.rss(FRAMES, hits, name),
                    found.rss(PYTREC, hits, peer),
                    0.6,
                )
            )
    return claims


def _of_growth(found: Records) -> list[Claim]:
    claims = []
    for tool, target in ((STORE, 1.05), (FRAMES, 1.2)):
        (fitted, steps), (by_cpu, _) = found.growth(tool), found.growth(tool, "cpu")
        name = f"{tool.removeprefix('ragscore, ')}: growth exponent (range: between sizes)"
        claims.append(Claim(name, fitted, min(steps), max(steps), target, True, "", by_cpu))
    return claims


def tables(records: list[Measured]) -> list[Table]:
    """Every tool at every size: seconds by stage, memory, growth."""
    found = Records(records)
    order = [FRAMES, STORE, PYTREC, SLICED, IR, RANX]
    rows = [
        _row(found, tool, hits, "plain")
        for hits in sorted({record["hits"] for record in records})
        for tool in order
        if found.of(tool, hits)
    ]
    of_variants = [
        _row(found, tool, found.largest, name)
        for name in VARIANTS
        for tool in (FRAMES, PYTREC)
        if found.of(tool, found.largest, name)
    ]
    slow = f"Slow ones run once at their largest size: {IR}, {RANX} and the dicts by slices."
    header = [
        "tool",
        "hits",
        "seconds",
        "range",
        "by stage",
        "CPU s",
        "peak MiB",
        "measures",
        "× pytrec_eval",
    ]
    growth = [
        [tool, number(fitted), ", ".join(map(number, steps))]
        for tool in order
        if found.of(tool, found.sizes[-2])
        for fitted, steps in [found.growth(tool)]
        if steps
    ]
    ranx = next(
        (f"ranx is {record['version']}" for record in found.of(RANX, found.sizes[0])),
        "ranx is not installed",
    )
    failed = "".join(
        f" {record['tool']} failed at {power(record['hits'])} hits."
        for record in records
        if "failed" in record
    )
    compared = (
        "Read + score + summarize, seconds and MiB. The tools' means differ by"
        f" {agreement(records):.0e} at most. {slow} {ranx}.{failed}"
    )
    floors = [
        [f"{record['tool']}", power(record["hits"]), number(record["wall"]["read"])]
        for record in records
        if record["tool"].startswith("pyarrow")
    ]
    return [
        Table(compared, header, rows),
        Table(
            f"Other inputs of {power(found.largest)} hits; in brackets the peak when the frame was"
            " made and nothing of it scored yet.",
            header,
            of_variants,
        ),
        Table(
            "The least it can take: reading the needed columns, warm, best of five.",
            ["", "hits", "seconds"],
            floors,
        ),
        Table(
            "Growth exponents of time over hits.", ["tool", "all sizes", "between sizes"], growth
        ),
    ]


def _row(found: Records, tool: str, hits: int, variant: str) -> list[str]:
    records = found.of(tool, hits, variant)
    wall = found.wall(tool, hits, variant)
    stages = ", ".join(
        f"{name} {number(middle([record['wall'][name] for record in records]))}"
        for name in records[0]["wall"]
    )
    cpu = middle([sum(record["cpu"].values()) for record in records])
    theirs = found.wall(PYTREC, hits, variant if variant in OWN_PEER else "plain")
    ratio = f"{middle(theirs) / middle(wall):.2f}" if theirs else ""
    name = tool if variant == "plain" else f"{tool}: {variant}"
    given = (
        f" ({middle([record['given'] for record in records]):,.0f})"
        if variant != "plain" and "given" in records[0]
        else ""
    )
    peak = f"{middle(found.rss(tool, hits, variant)):,.0f}{given}"
    return [
        name,
        power(hits),
        *seconds(wall),
        stages,
        number(cpu),
        peak,
        str(records[0]["n_measures"]),
        ratio,
    ]
