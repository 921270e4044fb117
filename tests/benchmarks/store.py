"""A store of many runs.

One metric, one slice, one system of them, all their tables, all scored anew, against pyarrow
reading the same columns.

Each reading is done in a fresh process: `first` is what a new `RunStore` takes, which has to read
every run.json; `again` is the median of the calls that follow on the same store. The peer gets the
list of files for nothing.
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import ragscore as rs
from ragscore.store.run_cache import compacted
from tests.benchmarks.plan import Plan
from tests.benchmarks.process import Clock, Measured, repeated, run_fresh
from tests.benchmarks.table import Claim, Table, at_most, middle, number

METRIC = "mrr"
COLUMNS = ["query_id", "state", "level", METRIC]
N_SYSTEMS, N_CATEGORIES, CALLS = 10, 5, 5
CATEGORY, SYSTEM, KEY = "c3", "s7", {"bm25.k1": 0.7}
READINGS = ("one metric", "one slice", "one system")
WHOLE = ("all loaded", "all scored anew")
WHOLE_CALLS = 2


def write(clock: Clock, root: str, n_runs: int, n_queries: int, n_hits: int) -> Measured:
    """Save the same answers again and again, under their own names, systems, dates and configs."""
    store, golden = rs.RunStore(Path(root) / "store"), golden_of(n_queries)
    for name in ("queries", "targets"):
        getattr(golden, name).to_parquet(Path(root) / f"{name}.parquet")
    run = run_of(golden, n_hits)
    for number_of_run in range(n_runs):
        runs = pd.DataFrame([described_run(number_of_run)])
        own = {
            name: getattr(run, name).assign(run_id=runs["run_id"][0])
            for name in ("responses", "hits")
        }
        store.save(rs.Results(runs=runs, **own), golden=golden)
    files = (file for file in (Path(root) / "store").rglob("*") if file.is_file())
    return {"bytes": sum(file.stat().st_size for file in files)}


def golden_of(n_queries: int) -> rs.Golden:
    """Return a golden set of so many queries, with one document each."""
    rng = np.random.default_rng(0)
    ids = [f"q{n:04}" for n in range(n_queries)]
    targets = [f"d{n}" for n in rng.integers(0, 300, n_queries)]
    queries = pd.DataFrame({
        "query_id": ids, "query": "?", "answerable": True, "position": range(n_queries),
        "category": [f"c{n % N_CATEGORIES}" for n in range(n_queries)],
    })  # fmt: skip
    frame = pd.DataFrame(
        {
            "query_id": ids,
            "target_id": targets,
            "doc_id": targets,
            "level": "doc",
            "grade": 1,
            "alternative": 0,
        }
    )
    return rs.Golden(queries=queries, targets=frame)


def run_of(golden: rs.Golden, n_hits: int) -> rs.Results:
    """Return a run that returns so many of 300 documents for each query."""
    rng = np.random.default_rng(1)
    ids = golden.queries["query_id"]
    docs = [f"d{n}" for _ in ids for n in rng.permutation(300)[:n_hits]]
    hits = pd.DataFrame(
        {
            "run_id": "r0000",
            "query_id": ids.repeat(n_hits).to_numpy(),
            "rank": np.tile(np.arange(1, n_hits + 1), len(ids)),
            "doc_id": docs,
        }
    )
    responses = pd.DataFrame(
        {
            "run_id": "r0000",
            "query_id": ids,
            "query": "?",
            "error": pd.Series(pd.NA, index=ids.index, dtype="str"),
        }
    )
    return rs.Results(runs=pd.DataFrame([described_run(0)]), responses=responses, hits=hits)


def described_run(of: int) -> dict[str, Any]:
    """Return what is known of the run of this number."""
    made = pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(hours=of)
    return {
        "run_id": f"r{of:04}",
        "system": f"s{of % N_SYSTEMS}",
        "created_at": made,
        "config": json.dumps({"bm25": {"k1": of % N_SYSTEMS / 10}}),
    }


def ours(clock: Clock, root: str, reading: str) -> Measured:
    """What `RunStore` takes."""
    category = _category(root)
    store = rs.RunStore(Path(root) / "store")

    def read() -> pd.DataFrame:
        if reading == "one system":
            return store.scores(
                METRIC, runs=store.find(system=SYSTEM, since="2026-01-01", config=KEY)
            )
        scores = store.scores(METRIC)
        return scores[scores.index.isin(category)] if reading == "one slice" else scores

    return _measured(clock, read)


def whole(clock: Clock, root: str, reading: str) -> Measured:
    """What `RunStore` takes to load every run, or to score them all anew."""
    store = rs.RunStore(Path(root) / "store")
    queries, targets = (
        pd.read_parquet(Path(root) / f"{name}.parquet") for name in ("queries", "targets")
    )
    golden = rs.Golden(queries=queries, targets=targets)
    return _measured(
        clock,
        lambda: store.load().hits if reading == "all loaded" else store.score(golden),
        WHOLE_CALLS,
    )


def whole_theirs(clock: Clock, root: str, reading: str) -> Measured:
    """What pyarrow takes to read the same tables, or the columns of hits and responses that are
    scored.
    """
    import pyarrow.dataset as ds

    columns = (
        {"hits": ["query_id", "rank", "doc_id"], "responses": ["query_id", "error"]}
        if reading == "all scored anew"
        else {"hits": None, "responses": None, "matches": None}
    )

    store = rs.RunStore(Path(root) / "store")
    files = {name: store.files(name) for name in columns}

    def read() -> pa.Table:
        tables = [ds.dataset(files[name]).to_table(columns=columns[name]) for name in columns]
        return tables[0]

    return _measured(clock, read, WHOLE_CALLS)


def theirs(clock: Clock, root: str, reading: str, is_compact: bool) -> Measured:
    """What pyarrow takes for the same rows and columns.

    A dataset of the runs' files, or the compact file.
    """
    import pyarrow.dataset as ds

    category = _category(root)
    folder = Path(root) / "store"
    files = rs.RunStore(folder).files("scores")
    files = files[int(SYSTEM[1:]) :: N_SYSTEMS] if reading == "one system" else files
    chosen = {
        "one slice": [("query_id", "in", category)],
        "one system": [("system", "==", SYSTEM)],
    }.get(reading)
    by_query = ds.field("query_id").isin(category) if reading == "one slice" else None
    copy = str(compacted(folder)["scores"]) if is_compact else ""
    bare = lambda: pq.read_table(copy, columns=COLUMNS, filters=chosen)  # noqa: E731
    return _measured(
        clock,
        (
            bare
            if is_compact
            else lambda: ds.dataset(files).to_table(columns=COLUMNS, filter=by_query)
        ),
    )


def compact(clock: Clock, root: str) -> Measured:
    """How long compacting takes."""
    with clock.stage("compact"):
        rs.RunStore(Path(root) / "store").compact()
    return {}


def _category(root: str) -> list[str]:
    queries = pd.read_parquet(Path(root) / "queries.parquet")
    return queries.loc[queries["category"] == CATEGORY, "query_id"].tolist()


def _measured(clock: Clock, read: Callable[[], Any], calls: int = CALLS) -> Measured:
    with clock.stage("first"):
        found = read()
    before = time.process_time()
    clock.wall["again"] = middle(repeated(read, calls))
    clock.cpu["again"] = (time.process_time() - before) / calls
    return {"rows": len(found)}


def measure(plan: Plan, folder: Path, say: Callable[[str], None]) -> list[Measured]:
    """One record per process: before compacting and after."""
    root = str(folder / "many")
    Path(root).mkdir(parents=True)
    say(f"writing {plan.n_runs:,} runs")
    written = run_fresh(
        "store",
        "write",
        root=root,
        n_runs=plan.n_runs,
        n_queries=plan.n_queries,
        n_hits=plan.n_hits,
    )
    shape = {"n_runs": plan.n_runs, "n_queries": plan.n_queries, "n_hits": plan.n_hits}
    records: list[Measured] = [{"what": "written", "bytes": written["bytes"], **shape}]
    for is_compact in (False, True):
        if is_compact:
            records.append({"what": "compact", **run_fresh("store", "compact", root=root)})
        for _ in range(plan.repeats):
            for reading in READINGS:
                for tool, found in (
                    ("ragscore", run_fresh("store", "ours", root=root, reading=reading)),
                    (
                        "pyarrow",
                        run_fresh(
                            "store", "theirs", root=root, reading=reading, is_compact=is_compact
                        ),
                    ),
                ):
                    records.append(
                        {"what": reading, "tool": tool, "is_compact": is_compact, **found}
                    )
        for reading in () if is_compact else WHOLE:
            for tool, function in (("ragscore", "whole"), ("pyarrow", "whole_theirs")):
                records.append(
                    {
                        "what": reading,
                        "tool": tool,
                        "is_compact": is_compact,
                        **run_fresh("store", function, root=root, reading=reading),
                    }
                )
        say(f"{len(READINGS)} readings {'after' if is_compact else 'before'} compact() measured")
    return records


def _spent(
    records: list[Measured],
    reading: str,
    tool: str,
    is_compact: bool,
    call: str,
    kind: str = "wall",
) -> list[float]:
    return [
        record[kind][call]
        for record in records
        if (record["what"], record.get("tool"), record.get("is_compact"))
        == (reading, tool, is_compact)
    ]


def claims(records: list[Measured]) -> list[Claim]:
    """At most 1.5 × a dataset's scan, at most 3 × the bare read of the compact file.

    One system of ten, for which nothing was promised, is in the table.
    """
    found = []
    for is_compact, target in ((False, 1.5), (True, 3.0)):
        for reading in ("one metric", "one slice"):
            for call in ("first", "again"):
                name = f"{reading}, {'compacted' if is_compact else 'as saved'}, {call}"
                wall, cpu = (
                    tuple(
                        _spent(records, reading, tool, is_compact, call, kind)
                        for tool in ("ragscore", "pyarrow")
                    )
                    for kind in ("wall", "cpu")
                )
                found.append(at_most(name, wall[0], wall[1], target, (cpu[0], cpu[1])))
    return found


def tables(records: list[Measured]) -> list[Table]:
    """Milliseconds."""
    (written,) = [record for record in records if record["what"] == "written"]
    title = (
        f"{written['n_runs']:,} runs × {written['n_queries']} queries × {written['n_hits']} hits"
        f" ({written['bytes'] / 1e6:,.0f} MB); milliseconds, medians."
    )
    rows = []
    for is_compact in (False, True):
        for reading in READINGS if is_compact else (*READINGS, *WHOLE):
            for tool in ("ragscore", "pyarrow"):
                spent = [
                    [1000 * one for one in _spent(records, reading, tool, is_compact, call)]
                    for call in ("first", "again")
                ]
                n_rows = next(
                    r["rows"]
                    for r in records
                    if (r["what"], r.get("tool"), r.get("is_compact"))
                    == (reading, tool, is_compact)
                )
                cells = [
                    cell
                    for values in spent
                    for cell in (
                        number(middle(values)),
                        f"{number(min(values))} to {number(max(values))}",
                    )
                ]
                rows.append(
                    [
                        f"{reading}, {'compacted' if is_compact else 'as saved'}: {tool}",
                        f"{n_rows:,}",
                        *cells,
                    ]
                )
    (spent_compacting,) = [
        record["wall"]["compact"] for record in records if record["what"] == "compact"
    ]
    note = f" `store.compact()` took {spent_compacting:.1f} s."
    return [Table(title + note, ["", "rows", "first", "range", "again", "range"], rows)]
