"""Seeded workloads: runs of any size, as frames and as the files that every tool starts from."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

import ragscore as rs

N_TARGETS = 5
DEPTH = 100
N_CHUNKS = 3_000_000
ROWS_AT_A_TIME = 100_000


def make_run(
    n_queries: int, depth: int, n_docs: int = 200_000, seed: int = 0
) -> tuple[pd.DataFrame, rs.Golden]:
    """One run of `n_queries` × `depth` hits with text ids, and five graded targets a query, half of
    them retrieved.
    """
    rng = np.random.default_rng(seed)
    names = pd.array([f"doc-{n:07d}" for n in range(n_docs)], dtype="str")
    queries = pd.Series([f"query-{n:06d}" for n in range(n_queries)], dtype="str")
    # A permutation in steps keeps documents different within a query without drawing each list on
    # its own.
    start, step = (
        rng.integers(n_docs, size=(n_queries, 1)),
        rng.integers(1, n_docs // depth, size=(n_queries, 1)),
    )
    docs = (start + step * np.arange(depth)) % n_docs
    hits = pd.DataFrame({
        "run_id": one_run(n_queries * depth),
        "query_id": queries.repeat(depth).reset_index(drop=True),
        "rank": np.tile(np.arange(1, depth + 1, dtype="int32"), n_queries),
        "doc_id": pd.Series(names.take(docs.ravel())),
    })  # fmt: skip
    places = [np.sort(_places(rng, n, depth), axis=1) for n in _blocks(n_queries)]
    wanted = names.take(((start + step * np.concatenate(places)) % n_docs).ravel())
    targets = pd.DataFrame({
        "query_id": queries.repeat(N_TARGETS).reset_index(drop=True), "level": "doc",
        "target_id": pd.Series(wanted),
        "alternative": np.int32(0),
        "grade": rng.integers(1, 4, n_queries * N_TARGETS).astype("int32"),
        "doc_id": pd.Series(wanted),
    }).drop_duplicates(["query_id", "target_id"])  # fmt: skip
    asked = pd.DataFrame(
        {"query_id": queries, "query": queries, "answerable": True, "position": range(n_queries)}
    )
    return hits, rs.Golden(queries=asked, targets=targets)


def _blocks(n: int) -> list[int]:
    """So many rows at a time: what is drawn and thrown away stays small."""
    return [min(ROWS_AT_A_TIME, n - first) for first in range(0, n, ROWS_AT_A_TIME)]


def _places(rng: np.random.Generator, n: int, depth: int) -> npt.NDArray[np.int64]:
    return rng.permuted(np.tile(np.arange(2 * depth), (n, 1)), axis=1)[:, :N_TARGETS]


def one_run(n: int) -> "pd.Categorical[str]":
    """The run_id of every row."""
    return pd.Categorical.from_codes(np.zeros(n, dtype=np.int8), pd.Index(["run"]))


def as_results(hits: pd.DataFrame, golden: rs.Golden) -> rs.Results:
    """The hits as a run that was asked every golden question."""
    n_queries = len(golden.queries)
    responses = golden.queries[["query_id", "query"]].assign(
        run_id=one_run(n_queries), error=pd.Series(pd.NA, dtype="str")
    )
    return rs.Results(
        runs=pd.DataFrame({"run_id": one_run(1), "k": DEPTH}), responses=responses, hits=hits
    )


def as_chunks(hits: pd.DataFrame, golden: rs.Golden) -> tuple[pd.DataFrame, rs.Golden]:
    """The same with what were documents as passages."""
    targets = golden.targets.rename(columns={"doc_id": "chunk_id"}).assign(level="chunk")
    return hits.rename(columns={"doc_id": "chunk_id"}), rs.Golden(
        queries=golden.queries, targets=targets
    )


# Files: one folder per workload with hits, queries and targets, and the same as a store


def write_workload(folder: Path, n_queries: int, variant: str = "plain") -> None:
    """Write hits.parquet, queries.parquet and targets.parquet into `folder`.

    Of the plain variant a store, too.

    Parameters
    ----------
    variant
        "plain"; "shuffled": rows in any order; "chunk": three million distinct passage ids;
        "category": ids are stored as dictionaries; "polars" and "duckdb": hits written by these, as
        they write by default.
    """
    hits, golden = make_run(
        n_queries, DEPTH, min(N_CHUNKS, n_queries * DEPTH) if variant == "chunk" else 200_000
    )
    hits["score"] = (1.0 / hits["rank"]).astype("float64")
    folder.mkdir(parents=True, exist_ok=True)
    if variant == "plain":
        rs.RunStore(folder / "store").save(as_results(hits, golden))
    if variant == "chunk":
        hits, golden = as_chunks(hits, golden)
    if variant == "shuffled":
        hits = hits.iloc[np.random.default_rng(1).permutation(len(hits))].reset_index(drop=True)
    if variant == "category":
        hits = hits.astype({"query_id": "category", "doc_id": "category"})
    golden.queries.to_parquet(folder / "queries.parquet", index=False)
    golden.targets.to_parquet(folder / "targets.parquet", index=False)
    write_hits(folder / "hits.parquet", hits, variant)


def write_hits(file: Path, hits: pd.DataFrame, writer: str) -> None:
    """Hits as Parquet with the defaults of pandas, polars or duckdb."""
    foreign = (
        hits.assign(run_id=hits["run_id"].astype("str")) if writer in ("polars", "duckdb") else hits
    )
    if writer == "polars":
        import polars

        polars.from_pandas(foreign).write_parquet(file)
    elif writer == "duckdb":
        import duckdb

        duckdb.from_df(foreign).write_parquet(str(file))
    else:
        hits.to_parquet(file, index=False)


def read_golden(folder: Path) -> rs.Golden:
    """The golden set of a workload."""
    return rs.Golden(
        queries=pd.read_parquet(folder / "queries.parquet"),
        targets=pd.read_parquet(folder / "targets.parquet"),
    )
