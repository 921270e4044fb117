"""What a billion hits need.

Bytes on disk and in memory, hits per second and core, and from these machines, time and money.

Every figure is derived from measured ones, in proportion; `Price` is the assumption. How much
slower workers are beside each other is measured for as many as this machine has cores, and holds
for these alone: for more, times are the least that it takes. Passages are random words of 210
characters on average.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.plan import Plan
from tests.benchmarks.process import Clock, Measured, run_fresh
from tests.benchmarks.scoring import FRAMES, STORE, Records
from tests.benchmarks.table import Table, number, power
from tests.benchmarks.workload import DEPTH

LARGE = (10**9, 10**11)
N_WORDS = 30
KEPT = {"none": "without texts", "cut": "with 200 characters of each hit's text"}


@dataclass(frozen=True)
class Price:
    """What is assumed.

    A machine of so many cores for so much an hour, and a time in which to be done.
    """

    per_hour: float = 0.40
    cores: int = 8
    minutes: float = 10


def kept(clock: Clock, folder: str, n_queries: int, text: str) -> Measured:
    """Save a run with texts; bytes of its tables of hits, on disk and in memory."""
    import numpy as np
    import pandas as pd

    import ragscore as rs
    from tests.benchmarks.workload import as_results, make_run

    hits, golden = make_run(n_queries, DEPTH)
    rng = np.random.default_rng(2)
    words = np.array([f"word{number}" for number in range(3_000)])
    passages = pd.array(
        [" ".join(words[rng.integers(0, len(words), N_WORDS)]) for _ in range(20_000)], dtype="str"
    )
    if text != "none":
        hits["text"] = passages.take(
            hits["doc_id"].str[4:].astype("int64").to_numpy() % len(passages)
        )
    results = as_results(hits, golden)
    with clock.stage("save"):
        store = rs.RunStore(Path(folder) / text)
        store.save(results, text=text)
    golden.queries.to_parquet(Path(folder) / "queries.parquet", index=False)
    golden.targets.to_parquet(Path(folder) / "targets.parquet", index=False)
    in_memory = (
        hits[["run_id", "query_id", "rank", "doc_id"]].memory_usage(index=False, deep=True).sum()
    )
    return {
        "hits": len(hits),
        "bytes": Path(store.files("hits")[0]).stat().st_size,
        "in_memory": int(in_memory),
    }


def alone(clock: Clock, folder: str) -> Measured:
    """Score the stored run in this process."""
    import ragscore as rs
    from tests.benchmarks.tools import warm_up
    from tests.benchmarks.workload import read_golden

    warm_up()
    golden = read_golden(Path(folder))
    with clock.stage("score"):
        scores = rs.RunStore(Path(folder) / "none").score(golden, match="doc")
    return {"hits": len(scores) * DEPTH}


def spread(clock: Clock, folder: str, workers: int) -> Measured:
    """Score the stored run with so many worker processes of one thread."""
    from distributed import Client, LocalCluster

    import ragscore as rs
    from tests.benchmarks.tools import warm_up
    from tests.benchmarks.workload import read_golden

    golden, store = read_golden(Path(folder)), rs.RunStore(Path(folder) / "none")
    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):  # type: ignore[no-untyped-call]
        client.run(warm_up)
        with clock.stage("score"):
            scores = store.score(golden, match="doc", client=client)
    return {"hits": len(scores) * DEPTH, "workers": workers}


def measure(plan: Plan, folder: Path, say: Callable[[str], None], cores: int) -> list[Measured]:
    """One record per process."""
    home = str(folder / "sizing")
    Path(home).mkdir(parents=True, exist_ok=True)
    sizes = {"cut": plan.sizing_text, "none": plan.sizing}
    records = [
        {
            "what": text,
            **run_fresh("sizing", "kept", folder=home, n_queries=hits // DEPTH, text=text),
        }
        for text, hits in sizes.items()
    ]
    records += [
        {"what": "alone", **run_fresh("sizing", "alone", folder=home)} for _ in range(plan.repeats)
    ]
    for workers in sorted({1, cores}):
        records += [
            {"what": "spread", **run_fresh("sizing", "spread", folder=home, workers=workers)}
            for _ in range(plan.repeats)
        ]
    say("bytes and speed measured")
    return records


@dataclass(frozen=True)
class Facts:
    """Measured: bytes a hit, hits a second and core, peak memory in MiB."""

    disk: dict[str, float]
    in_memory: float
    per_core: float
    saved_per_core: float
    workers: int
    efficiency: float
    frames_more: float | None
    store_more: float | None
    largest: int


def facts(records: list[Measured], scoring: list[Measured] | None) -> Facts:
    """Take the figures from what was measured.

    Speed and memory of scoring from the largest runs there are.
    """
    disk = {
        record["what"]: record["bytes"] / record["hits"]
        for record in records
        if record["what"] in KEPT
    }
    plain = next(record for record in records if record["what"] == "none")
    speeds = [
        record["hits"] / record["cpu"]["score"] for record in records if record["what"] == "alone"
    ]
    largest = plain["hits"]
    more: dict[str, float] = {}
    if scoring:
        found = Records(scoring)
        largest = max(record["hits"] for record in scoring)
        speeds = [largest / sum(record["cpu"].values()) for record in found.of(STORE, largest)]
        for tool in (FRAMES, STORE):
            first = found.sizes[-2]
            more[tool] = (
                (min(found.rss(tool, largest)) - min(found.rss(tool, first)))
                * 2**20
                / (largest - first)
            )
    walls = {
        workers: min(r["wall"]["score"] for r in records if r.get("workers") == workers)
        for workers in {r["workers"] for r in records if "workers" in r}
    }
    most = max(walls)
    efficiency = walls[1] / walls[most] / most
    saved = plain["hits"] / plain["cpu"]["save"]
    return Facts(
        disk,
        plain["in_memory"] / plain["hits"],
        sorted(speeds)[len(speeds) // 2],
        saved,
        most,
        efficiency,
        more.get(FRAMES),
        more.get(STORE),
        largest,
    )


def needs(found: Facts, hits: int, price: Price) -> dict[str, float]:
    """What so many hits take, in proportion.

    Returns
    -------
    disk_gb and disk_text_gb; core_hours to score; save_core_hours to write the store;
    measured_hours on as many cores as were measured, each as fast as it was beside the others. At
    least, as if each core were as fast as one alone: hours on one machine; machines to be done in
    time; money to score, machines paid while they work.
    """
    core_hours = hits / found.per_core / 3600
    hours = core_hours / price.cores
    return {
        "disk_gb": hits * found.disk["none"] / 1e9, "disk_text_gb": hits * found.disk["cut"] / 1e9,
        "core_hours": core_hours,
        "measured_hours": core_hours / found.workers / min(found.efficiency, 1.0),
        "save_core_hours": hits / found.saved_per_core / 3600, "hours": hours,
        "machines": max(1, math.ceil(hours * 60 / price.minutes)),
        "money": hours * price.per_hour,
        "save_money": hits / found.saved_per_core / 3600 / price.cores * price.per_hour,
    }  # fmt: skip


def tables(records: list[Measured], scoring: list[Measured] | None, price: Price) -> list[Table]:
    """Measured figures, and what follows for a billion hits and a hundred times as many."""
    found = facts(records, scoring)
    bytes_rows = [[f"on disk, {KEPT[text]}", number(size)] for text, size in found.disk.items()]
    bytes_rows.append(["in memory, as a frame with str ids", number(found.in_memory)])
    for name, more in (("frames", found.frames_more), ("the store", found.store_more)):
        if more is not None:
            bytes_rows.append([f"more at the peak while scoring from {name}", number(more)])
    speed_rows = [
        ["scored from the store, a core", f"{found.per_core / 1e6:.2f}"],
        ["saved to the store, a core", f"{found.saved_per_core / 1e6:.2f}"],
        [f"of the speed of one worker, each of {found.workers} has", f"{found.efficiency:.0%}"],
    ]  # fmt: skip
    return [
        Table("Bytes a hit (of a run with 100 hits a query).", ["", "bytes"], bytes_rows),
        Table(
            f"Millions of hits a second (scoring: {power(found.largest)} hits, by CPU time).",
            ["", "millions"],
            speed_rows,
        ),
        _needed(found, price),
    ]


def _needed(found: Facts, price: Price) -> Table:
    of = {hits: needs(found, hits, price) for hits in LARGE}
    rows: list[tuple[str, Callable[[dict[str, Any]], str]]] = [
        ("disk, without texts", lambda need: _bytes(need["disk_gb"])),
        ("disk, with 200 characters each", lambda need: _bytes(need["disk_text_gb"])),
        ("scoring, hours of one core", lambda need: number(need["core_hours"])),
        (
            f"scoring, {found.workers} workers as measured",
            lambda need: _time(need["measured_hours"]),
        ),
        (f"scoring, {price.cores} cores, at least", lambda need: _time(need["hours"])),
        (
            f"machines to be done in {price.minutes:g} minutes, at least",
            lambda need: str(need["machines"]),
        ),
        ("money, scoring once, at least", lambda need: f"{need['money']:.2f}"),
        ("money, saving once, at least", lambda need: f"{need['save_money']:.2f}"),
    ]
    title = (
        f"In proportion, at {price.per_hour:.2f} an hour for a machine of {price.cores} cores"
        " (assumed), paid while it works; disks as fast as this one's."
    )
    return Table(
        title,
        ["hits", *map(power, LARGE)],
        [[name, *(cell(of[hits]) for hits in LARGE)] for name, cell in rows],
    )


def _bytes(gigabytes: float) -> str:
    return f"{gigabytes / 1000:.1f} TB" if gigabytes >= 1000 else f"{number(gigabytes)} GB"


def _time(hours: float) -> str:
    if hours >= 2:
        return f"{number(hours)} hours"
    return f"{number(60 * hours)} minutes" if hours * 60 >= 2 else f"{number(3600 * hours)} s"
