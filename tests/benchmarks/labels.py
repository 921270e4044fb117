"""Time reading labels and hits: `python -m tests.benchmarks.labels [n_rows [earlier checkout]]`.

A million labels, 55 a query, from each source that may hold them, and as many hits from dicts and
lists. Against pytrec_eval's own parser of the same labels as text. Ways run in turn, each in a
fresh process; medians of three and ranges. An earlier checkout's ragscore is measured once beside.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.benchmarks.dicts import from_slices
from tests.benchmarks.process import Clock, Measured, median, run_fresh
from tests.benchmarks.tools import warm_up

REPEATS = 3
PER_QUERY = 55
N_DOCUMENTS = 200_000
LABELS = ("frame", "CSV", "Parquet", "{query: {id: grade}}", "{query: [ids]}", "TREC")
HITS = ("{query: {id: score}}", "{query: [ids]}", "list column")


def write(clock: Clock, folder: str, n_rows: int) -> Measured:
    """Write the same judgements as Parquet, CSV and TREC text, with a score of each."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    n_queries = max(n_rows // PER_QUERY, 1)
    query = np.repeat(np.arange(n_queries), PER_QUERY)
    first = np.repeat(rng.integers(0, N_DOCUMENTS, n_queries), PER_QUERY)
    doc = first + np.tile(np.arange(PER_QUERY) * 7, n_queries)
    columns = {
        "query_id": "q" + pd.Series(query).astype("str"),
        "doc_id": "doc-" + pd.Series(doc).astype("str"),
        "grade": rng.integers(0, 4, len(query)),
    }
    frame = pd.DataFrame(columns)
    frame.to_parquet(f"{folder}/labels.parquet", index=False)
    frame.to_csv(f"{folder}/labels.csv", index=False)
    frame.assign(Q0=0)[["query_id", "Q0", "doc_id", "grade"]].to_csv(
        f"{folder}/labels.qrels", sep=" ", header=False, index=False
    )
    return {"rows": len(frame)}


def _source(folder: str, way: str) -> Any:
    """Return what is loaded in this way, made outside the clock."""
    import numpy as np
    import pandas as pd

    files = {"CSV": "csv", "Parquet": "parquet", "TREC": "qrels"}
    if way in files:
        return f"{folder}/labels.{files[way]}"
    frame = pd.read_parquet(f"{folder}/labels.parquet")
    if way == "frame":
        return frame
    if way == "{query: {id: score}}":
        frame["grade"] = np.random.default_rng(0).random(len(frame))
    found = from_slices(frame, "doc_id", "grade")
    if way in ("{query: [ids]}", "list column"):
        found = {query_id: list(docs) for query_id, docs in found.items()}
    if way == "list column":
        return pd.DataFrame({"query_id": list(found), "retrieved": list(found.values())})
    return found


def labels(clock: Clock, folder: str, way: str) -> Measured:
    """ragscore's golden set."""
    import ragscore as rs

    warm_up()
    source = _source(folder, way)
    with clock.stage("read"):
        found = rs.load_golden(source)
    return {"rows": len(found.targets)}


def hits(clock: Clock, folder: str, way: str) -> Measured:
    """ragscore's results."""
    import ragscore as rs

    warm_up()
    source = _source(folder, way)
    with clock.stage("read"):
        found = rs.load_results(source)
    return {"rows": len(found.hits)}


def pytrec_eval(clock: Clock, folder: str, way: str) -> Measured:
    """pytrec_eval's dict of the same labels."""
    import pytrec_eval as tool

    with clock.stage("read"), Path(folder, "labels.qrels").open(encoding="ascii") as lines:
        found = tool.parse_qrel(lines)
    return {"rows": sum(map(len, found.values()))}


def main(n_rows: int = 1_000_000, earlier: str | None = None) -> None:
    """Print a line for each way."""
    ways = [("pytrec_eval", "TREC"), *(("labels", one) for one in LABELS)]
    ways += [("hits", one) for one in HITS]
    spent: dict[tuple[str, str], list[Measured]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        made = run_fresh("labels", "write", folder=folder, n_rows=n_rows)
        for _ in range(REPEATS):
            for what, way in ways:
                spent[what, way].append(run_fresh("labels", what, folder=folder, way=way))
        before = {
            (what, way): run_fresh("labels", what, source=Path(earlier), folder=folder, way=way)
            for what, way in (ways[1:] if earlier else [])
        }
    n_found = {one["rows"] for runs in spent.values() for one in runs}
    assert n_found == {made["rows"]}, n_found
    print(f"{made['rows']:,} rows, {REPEATS} alternating runs in fresh processes")
    base = median([one["wall"]["read"] for one in spent[ways[0]]])
    for (what, way), runs in spent.items():
        walls = [one["wall"]["read"] for one in runs]
        cpu, rss = (
            median([one["cpu"]["read"] for one in runs]),
            median([one["rss"] for one in runs]),
        )
        once = before.get((what, way))
        print(
            f"{what:11} {way:20}   median {median(walls):5.2f} s   range {min(walls):.2f} to"
            f" {max(walls):.2f}   cpu {cpu:5.2f} s   {median(walls) / base:5.2f} of pytrec_eval's"
            f"   {rss:,.0f} MiB"
            + (f"   before {once['wall']['read']:6.2f} s, {once['rss']:,.0f} MiB" if once else "")
        )


if __name__ == "__main__":
    main(*(int(one) if one.isdecimal() else one for one in sys.argv[1:]))
