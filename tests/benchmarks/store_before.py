"""A store's writing and reading against an earlier state of this repository.

`python -m tests.benchmarks.store_before PATH [--runs 1000] [--pairs 5] [--json FILE]`

PATH is a checkout of the earlier state, such as `git worktree add PATH COMMIT` makes. Both states
do the same work in fresh processes, pair by pair and each first in turn; a figure is the median of
the pairs' ratios, now / before. Each state reads the stores that it wrote itself. The machine may
be busy: times by CPU stand beside those by the wall, and only ratios are worth quoting.
"""

import argparse
import json
import shutil
import tempfile
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

import ragscore as rs
from tests.benchmarks.process import ROOT, Clock, Measured, run_fresh
from tests.benchmarks.store import described_run, golden_of, run_of
from tests.benchmarks.table import Table, middle, number, ratios

N_HITS = 10
SMALL, LARGE = 50, 20_000  # queries of a run
N_SMALL = 10  # small runs that are written one after the other: one alone takes too little time
LIMIT = 1.15
METRIC = "mrr"


def write(clock: Clock, root: str) -> Measured:
    """Time everything that writes, in stores of its own."""
    folder = Path(root)
    shutil.rmtree(folder, ignore_errors=True)
    small, large = golden_of(SMALL), golden_of(LARGE)
    runs = [_renamed(run_of(small, N_HITS), number) for number in range(N_SMALL)]
    big, demo = run_of(large, N_HITS), _demo()
    rs.RunStore(folder / "warm").save(runs[0], golden=small)  # imports, once
    stores = {name: rs.RunStore(folder / name) for name in ("small", "large", "demo", "ingested")}
    with clock.stage("save small runs"):
        for run in runs:
            stores["small"].save(run, golden=small)
    with clock.stage("save the demo's runs"):
        stores["demo"].save(demo[0], golden=demo[1])
    with clock.stage("save a large run"):
        stores["large"].save(big, golden=large)
    with clock.stage("overwrite small runs"):
        for run in runs:
            stores["small"].save(run, golden=small, overwrite=True)
    with clock.stage("overwrite a large run"):
        stores["large"].save(big, golden=large, overwrite=True)
    with clock.stage("refresh small runs"):
        stores["small"].refresh(_relabelled(small))
    with clock.stage("refresh the demo's runs"):
        stores["demo"].refresh(_relabelled(demo[1]))
    with clock.stage("refresh a large run"):
        stores["large"].refresh(_relabelled(large))
    file = folder / "ingested.jsonl"
    _write_lines(big, file)
    with clock.stage("ingest a file"):
        stores["ingested"].ingest(file, golden=large, progress=False)
    return {"bytes": _size(folder / "large")}


def fill(clock: Clock, root: str, n_runs: int, n_queries: int) -> Measured:
    """Save many runs, and the same again in a store that is compacted."""
    folder, golden = Path(root), golden_of(n_queries)
    shutil.rmtree(folder, ignore_errors=True)
    store, run = rs.RunStore(folder / "many"), run_of(golden, N_HITS)
    with clock.stage("save many runs"):
        for number in range(n_runs):
            store.save(_renamed(run, number), golden=golden)
    shutil.copytree(folder / "many", folder / "compacted")
    with clock.stage("compact"):
        rs.RunStore(folder / "compacted").compact()
    large = golden_of(LARGE)
    rs.RunStore(folder / "large").save(run_of(large, N_HITS), golden=large)
    return {"bytes": _size(folder / "many")}


def read(clock: Clock, root: str, n_queries: int) -> Measured:
    """Time everything that reads, each time by a store that knows nothing yet."""
    folder, golden = Path(root), golden_of(n_queries)
    with clock.stage("load a large run"):
        loaded = rs.RunStore(folder / "large").load()
    for name in ("many", "compacted"):
        as_it_is = "" if name == "many" else ", compacted"
        with clock.stage(f"open many runs{as_it_is}"):
            runs = rs.RunStore(folder / name).runs()
        with clock.stage(f"one metric of many runs{as_it_is}"):
            rs.RunStore(folder / name).scores(METRIC)
        with clock.stage(f"all scores of many runs{as_it_is}"):
            rs.RunStore(folder / name).scores()
        with clock.stage(f"trend of many runs{as_it_is}"):
            rs.RunStore(folder / name).trend(METRIC)
    with clock.stage("load many runs"):
        rs.RunStore(folder / "many").load()
    with clock.stage("score many runs anew"):
        rs.RunStore(folder / "many").score(golden)
    return {"rows": len(runs), "hits": len(loaded.hits)}


def _renamed(run: rs.Results, number: int) -> rs.Results:
    """Return the same answers under another name, system, date and config."""
    runs = pd.DataFrame([described_run(number)])
    name = runs["run_id"][0]
    frames = {"hits": run.hits, "responses": run.responses, "citations": run.citations}
    own = {key: frame.assign(run_id=name) for key, frame in frames.items()}
    return rs.Results(runs=runs, **own)


def _relabelled(golden: rs.Golden) -> rs.Golden:
    """Return the same golden set with other labels, so that nothing kept is valid."""
    return replace(golden, targets=golden.targets.assign(grade=golden.targets["grade"] + 1))


def _demo() -> tuple[rs.Results, rs.Golden]:
    demo = ROOT / "data" / "demo"
    return (
        rs.load_results(str(demo / "runs" / "*" / "per_query.jsonl")),
        rs.load_golden(demo / "golden.yaml"),
    )


def _write_lines(run: rs.Results, file: Path) -> None:
    """Write a run as our JSON lines, without the library: both states read the same bytes."""
    with file.open("w", encoding="utf-8") as out:
        for query_id, hits in run.hits.groupby("query_id", sort=False):
            found = [
                {"rank": int(rank), "doc_id": doc_id}
                for rank, doc_id in zip(hits["rank"], hits["doc_id"], strict=True)
            ]
            line = {"query_id": query_id, "query": "?", "hits_top_k": found, "answer": None}
            out.write(json.dumps(line) + "\n")


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def measure(before: Path, folder: Path, n_runs: int, n_queries: int, pairs: int) -> dict[str, Any]:
    """Return seconds by wall and by CPU: kind -> work -> (now, before), one value per pair."""
    sources = {"now": ROOT, "before": before}
    found: dict[str, Any] = {"wall": {}, "cpu": {}, "bytes": {}}

    def run(job: str, state: str, root: Path, **more: Any) -> None:
        done = run_fresh("store_before", job, source=sources[state], root=str(root / state), **more)
        for kind in ("wall", "cpu"):
            for work, spent in done[kind].items():
                found[kind].setdefault(work, {"now": [], "before": []})[state].append(spent)
        if "bytes" in done:
            found["bytes"].setdefault(job, {})[state] = done["bytes"]

    for state in sources:
        run("fill", state, folder / "kept", n_runs=n_runs, n_queries=n_queries)
    for pair in range(pairs):
        for state in sorted(sources, reverse=bool(pair % 2)):
            run("write", state, folder / "written")
            run("read", state, folder / "kept", n_queries=n_queries)
        print(f"{pair + 1} of {pairs} pairs measured", flush=True)
    return found


def table(found: dict[str, Any], n_runs: int, n_queries: int) -> Table:
    """Return the ratios now / before as a table, the wall first."""
    rows = []
    for work, wall in found["wall"].items():
        each = ratios(wall["now"], wall["before"])
        cpu = found["cpu"][work]
        by_cpu = middle(ratios(cpu["now"], cpu["before"])) if min(cpu["before"]) else float("nan")
        rows.append(
            [
                work,
                *(f"{1000 * middle(wall[state]):,.0f}" for state in ("before", "now")),
                number(middle(each)),
                f"{number(min(each))} to {number(max(each))}",
                number(by_cpu),
                "" if middle(each) <= LIMIT else "slower",
            ]
        )
    sizes = ", ".join(
        f"{'many runs' if job == 'fill' else 'a large run'} {of['now'] / of['before']:.2f} ×"
        for job, of in found["bytes"].items()
    )
    title = (
        f"Now against before: milliseconds, and the median of the ratios of each pair. Small runs:"
        f" {N_SMALL} of {SMALL} queries × {N_HITS} hits; a large one: {LARGE:,} × {N_HITS}; many:"
        f" {n_runs:,} of {n_queries} × {N_HITS}. Size on disk: {sizes}."
    )
    return Table(title, ["", "before", "now", "ratio", "range", "by CPU", ""], rows)


def main(arguments: list[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.store_before",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("before", type=Path, help="a checkout of the earlier state")
    parser.add_argument("--runs", type=int, default=1_000, help="of the store with many runs")
    parser.add_argument("--queries", type=int, default=500, help="of each of them")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all seconds")
    parser.add_argument("--folder", type=Path, help="where the stores go (default: temporary)")
    asked = parser.parse_args(arguments)
    if not (asked.before / "ragscore" / "__init__.py").is_file():
        parser.error(f"{asked.before} holds no ragscore/__init__.py: give a checkout")
    with tempfile.TemporaryDirectory(prefix="ragscore-store-", dir=asked.folder) as folder:
        found = measure(
            asked.before.resolve(), Path(folder), asked.runs, asked.queries, asked.pairs
        )
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    print(table(found, asked.runs, asked.queries).text())


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
