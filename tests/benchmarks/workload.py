"""A run of any size from a seed, as frames and as the files that every tool starts from."""

from pathlib import Path

import numpy as np
import pandas as pd

import ragscore as rs

N_TARGETS = 5
DEPTH = 100


def make_run(
    n_queries: int, depth: int = DEPTH, n_docs: int = 200_000
) -> tuple[pd.DataFrame, rs.Golden]:
    """Return the hits of a run, and five graded targets a query, of which half are retrieved."""
    rng = np.random.default_rng(0)
    names = pd.array([f"doc-{n:07d}" for n in range(n_docs)], dtype="str")
    queries = pd.Series([f"query-{n:06d}" for n in range(n_queries)], dtype="str")
    # Documents in steps differ within a query; drawing each list on its own would take longer.
    start = rng.integers(n_docs, size=(n_queries, 1))
    step = rng.integers(1, n_docs // depth, size=(n_queries, 1))
    docs = (start + step * np.arange(depth)) % n_docs
    rank = np.tile(np.arange(1, depth + 1, dtype="int32"), n_queries)
    hits = pd.DataFrame({
        "run_id": one_run(n_queries * depth), "query_id": queries.repeat(depth).array,
        "rank": rank, "doc_id": names.take(docs.ravel()), "score": 1.0 / rank,
    })  # fmt: skip
    # One place in each fifth of twice the depth.
    within = rng.integers(2 * depth // N_TARGETS, size=(n_queries, N_TARGETS))
    places = within + 2 * depth // N_TARGETS * np.arange(N_TARGETS)
    wanted = names.take(((start + step * places) % n_docs).ravel())
    targets = pd.DataFrame({
        "query_id": queries.repeat(N_TARGETS).array, "level": "doc", "target_id": wanted,
        "alternative": np.int32(0), "doc_id": wanted,
        "grade": rng.integers(1, 4, n_queries * N_TARGETS).astype("int32"),
    }).drop_duplicates(["query_id", "target_id"])  # fmt: skip
    asked = pd.DataFrame(
        {"query_id": queries, "query": queries, "answerable": True, "position": range(n_queries)}
    )
    return hits, rs.Golden(queries=asked, targets=targets)


def one_run(n: int) -> "pd.Categorical[str]":
    """Return the run_id of every row."""
    return pd.Categorical.from_codes(np.zeros(n, dtype=np.int8), pd.Index(["run"]))


def as_results(hits: pd.DataFrame, golden: rs.Golden) -> rs.Results:
    """Return the hits as a run that was asked every golden query."""
    n_queries = len(golden.queries)
    responses = golden.queries[["query_id", "query"]].assign(
        run_id=one_run(n_queries), error=pd.Series(pd.NA, dtype="str")
    )
    runs = pd.DataFrame({"run_id": one_run(1), "k": DEPTH})
    return rs.Results(runs=runs, responses=responses, hits=hits)


def write_workload(folder: str, n_queries: int) -> None:
    """Write hits.parquet, queries.parquet and targets.parquet, and the same run as a store."""
    hits, golden = make_run(n_queries)
    rs.RunStore(f"{folder}/store").save(as_results(hits, golden))
    hits.to_parquet(f"{folder}/hits.parquet", index=False)
    write_golden(golden, folder)


def write_golden(golden: rs.Golden, folder: str) -> None:
    """Write a golden set as two files."""
    golden.queries.to_parquet(f"{folder}/queries.parquet", index=False)
    golden.targets.to_parquet(f"{folder}/targets.parquet", index=False)


def read_golden(folder: Path) -> rs.Golden:
    """Return the golden set that a folder holds as two files."""
    queries, targets = (
        pd.read_parquet(folder / f"{name}.parquet") for name in ("queries", "targets")
    )
    return rs.Golden(queries=queries, targets=targets)
