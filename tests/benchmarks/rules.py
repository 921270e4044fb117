"""Time the rules against each other.

`python -m tests.benchmarks.rules [n_queries]` (default 10,000 queries × 100 hits).

The same hits, with document, span, path, heading, text, source key and two metadata values each,
are scored by document id, span, anchor and predicate: five targets a question, or for predicates
five source keys, or metadata that a tenth of the hits have, with a text or without. The whole of
`rs.score` is inside the clock. Rules run in turn within one process; medians of five and ranges are
printed, as seconds on the wall and of all cores (which a busy machine disturbs less), and as share
of the time by document id.
"""

import statistics
import sys
import time
from dataclasses import replace

import numpy as np
import pandas as pd

import ragscore as rs
from ragscore.scoring.metrics import DEFAULT_METRICS, parse_label
from tests.benchmarks.workload import as_results, make_run

REPEATS = 5
DEPTH = 100
RANKING = [label for label in DEFAULT_METRICS if parse_label(label).is_ranking]
HEADINGS, YEARS, WORDS = 2_000, 10, 5_000


def texts(stem: str, codes: np.ndarray) -> pd.Series:  # type: ignore[type-arg]
    """Numbered texts, one per code."""
    names = pd.array([f"{stem}{number}" for number in range(int(codes.max()) + 1)], dtype="str")
    return pd.Series(names.take(codes))


def make(n_queries: int, seed: int = 0) -> tuple[rs.Results, dict[str, rs.Golden]]:
    """The results, and a golden set for each rule."""
    hits, golden = make_run(n_queries, DEPTH, seed=seed)
    rng, n = np.random.default_rng(seed), len(hits)
    doc = hits["doc_id"].str.slice(4).astype("int64").to_numpy()
    word = rng.integers(0, WORDS, n)
    start = rng.integers(0, 5_000, n)
    hits = hits.assign(
        path="docs/" + hits["doc_id"] + ".md",
        heading=texts("Guide > Chapter ", doc % HEADINGS) + texts(" > Part ",
        rng.integers(0, 9, n)),
        start=pd.array(start, dtype="Int64"), end=pd.array(start + 400, dtype="Int64"),
        span_unit="chars", source_key="Source-" + hits["doc_id"],
        text=texts("What stands in this passage is told in some words, of which one is Word",
        word) + " and the others are always the same, whatever it is about.",
    )  # fmt: skip
    year = rng.integers(2000, 2000 + YEARS, n)
    keys = ["run_id", "query_id", "rank"]
    meta = pd.concat([
        hits[keys].assign(key="year", value=pd.Series(year.astype(str), dtype="str")),
        hits[keys].assign(key="kind", value=texts('"Kind ', rng.integers(0, 2, n)) + '"'),
    ], ignore_index=True)  # fmt: skip
    results = replace(as_results(hits, golden), hits=hits, hit_meta=meta)
    return results, {
        "doc": golden,
        "span": _spans(golden),
        "anchor": _anchors(golden, rng),
        "predicate": _predicates(golden, rng),
    }


def _spans(golden: rs.Golden) -> rs.Golden:
    more = {
        "start": pd.array([1_500] * len(golden.targets), dtype="Int64"),
        "end": pd.array([4_500] * len(golden.targets), dtype="Int64"),
        "span_unit": "chars",
    }
    return replace(golden, targets=golden.targets.assign(level="anchor", **more))


def _anchors(golden: rs.Golden, rng: np.random.Generator) -> rs.Golden:
    """Half of the targets with a text, of two ways to say it."""
    doc = golden.targets["doc_id"].str.slice(4).astype("int64").to_numpy()
    anchors = golden.targets.assign(
        level="anchor",
        path="docs/" + golden.targets["doc_id"] + ".md",
        heading=texts("# Guide > Chapter ", doc % HEADINGS),
    )
    anchors = anchors.drop(columns="doc_id")
    ways = [
        anchors.assign(snippet=way, alternative=np.int32(number))
        for number, way in enumerate(["Told in some words…", "the others are never"])
    ]
    without = rng.random(len(anchors)) < 0.5
    return replace(
        golden,
        targets=pd.concat([anchors[without], *(way[~without] for way in ways)], ignore_index=True),
    )


def _predicates(golden: rs.Golden, rng: np.random.Generator) -> rs.Golden:
    """A third of the questions by source keys, a third by metadata, a third by metadata and a
    text.
    """
    query_ids, targets = golden.queries["query_id"], golden.targets
    part = np.arange(len(query_ids)) % 3
    keyed = targets[targets["query_id"].isin(query_ids[part == 0])]
    keyed = keyed.assign(level="source_key", source_key="source-" + keyed["doc_id"]).drop(
        columns="doc_id"
    )
    by_content = pd.DataFrame(
        {
            "query_id": query_ids[part > 0],
            "level": "predicate",
            "target_id": "expected",
            "alternative": np.int32(0),
            "grade": np.int32(1),
        }
    )
    asked = {"query_id": query_ids[part > 0], "target_id": "expected"}
    year = pd.Series(
        rng.integers(2000, 2000 + YEARS, int((part > 0).sum())).astype(str),
        dtype="str",
        index=query_ids.index[part > 0],
    )
    conditions = pd.concat(
        [
            pd.DataFrame(asked).assign(key="year", value=year),
            pd.DataFrame(asked).assign(key="kind", value='"kind 1"'),
        ],
        ignore_index=True,
    )
    checks = pd.DataFrame(
        {"query_id": query_ids[part == 2], "kind": "expected_substring", "text": "word1"}
    )
    return replace(
        golden,
        targets=pd.concat([keyed, by_content], ignore_index=True),
        conditions=conditions,
        checks=checks,
    )


def main(n_queries: int = 10_000) -> None:
    """Print the table."""
    results, golden = make(n_queries)
    spent: dict[str, list[tuple[float, float]]] = {level: [] for level in golden}
    means: dict[str, float] = {}
    for _ in range(REPEATS):
        for level, own in golden.items():
            wall, cpu = time.perf_counter(), time.process_time()
            scores = rs.score(results, own, RANKING, match=level)
            spent[level].append((time.perf_counter() - wall, time.process_time() - cpu))
            means[level] = float(scores["recall@10"].mean())
    print(
        f"{len(results.hits):,} hits, {n_queries:,} queries, {len(RANKING)} columns, {REPEATS}"
        " alternating runs"
    )
    wall, cpu = (statistics.median(one) for one in zip(*spent["doc"], strict=True))
    for level, runs in spent.items():
        walls, cpus = zip(*runs, strict=True)
        ratio = (
            f"{statistics.median(walls) / wall:5.2f} × doc (cpu"
            f" {statistics.median(cpus) / cpu:5.2f})"
        )
        figures = (
            f"median {statistics.median(walls):6.3f} s   range {min(walls):.3f} to {max(walls):.3f}"
            f"   cpu {statistics.median(cpus):6.3f} s"
        )
        print(f"{level:10} {figures}   {ratio}   mean recall@10 {means[level]:.4f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
