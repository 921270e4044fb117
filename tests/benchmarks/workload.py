"""Seeded workloads: runs of any size, as frames and as pytrec_eval's dicts."""

import numpy as np
import pandas as pd

import ragscore as rs

N_TARGETS = 5


def make_run(n_queries: int, depth: int, n_docs: int = 200_000, seed: int = 0) -> tuple[pd.DataFrame, rs.Golden]:
    """One run of `n_queries` × `depth` hits with text ids, and five graded targets a query, half of them retrieved."""
    rng = np.random.default_rng(seed)
    names = np.array([f"doc-{n:07d}" for n in range(n_docs)])
    queries = pd.Series([f"query-{n:06d}" for n in range(n_queries)], dtype="str")
    # A permutation in steps keeps documents different within a query without drawing each list on its own.
    start, step = rng.integers(n_docs, size=(n_queries, 1)), rng.integers(1, n_docs // depth, size=(n_queries, 1))
    docs = (start + step * np.arange(depth)) % n_docs
    hits = pd.DataFrame({
        "run_id": pd.Categorical(["run"] * (n_queries * depth)), "query_id": queries.repeat(depth).reset_index(drop=True),
        "rank": np.tile(np.arange(1, depth + 1, dtype="int32"), n_queries), "doc_id": pd.Series(names[docs.ravel()], dtype="str"),
    })  # fmt: skip
    places = np.sort(rng.permuted(np.tile(np.arange(2 * depth), (n_queries, 1)), axis=1)[:, :N_TARGETS], axis=1)
    wanted = names[((start + step * places) % n_docs).ravel()]
    targets = pd.DataFrame({
        "query_id": queries.repeat(N_TARGETS).reset_index(drop=True), "level": "doc", "target_id": pd.Series(wanted, dtype="str"),
        "alternative": np.int32(0), "grade": rng.integers(1, 4, n_queries * N_TARGETS).astype("int32"), "doc_id": pd.Series(wanted, dtype="str"),
    }).drop_duplicates(["query_id", "target_id"])  # fmt: skip
    asked = pd.DataFrame({"query_id": queries, "query": queries, "answerable": True, "position": range(n_queries)})
    return hits, rs.Golden(queries=asked, targets=targets)


def as_results(hits: pd.DataFrame, golden: rs.Golden) -> rs.Results:
    """The hits as a run that was asked every golden question."""
    responses = golden.queries[["query_id", "query"]].assign(run_id=pd.Categorical(["run"] * len(golden.queries)), error=pd.Series(pd.NA, dtype="str"))
    return rs.Results(runs=pd.DataFrame({"run_id": pd.Categorical(["run"]), "k": 100}), responses=responses, hits=hits)


def as_dicts(hits: pd.DataFrame, golden: rs.Golden) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """The same as pytrec_eval wants it: {query: {document: score}} and {query: {document: grade}}."""
    run: dict[str, dict[str, float]] = {}
    for query_id, doc_id, rank in zip(hits["query_id"].tolist(), hits["doc_id"].tolist(), hits["rank"].tolist(), strict=True):
        run.setdefault(query_id, {})[doc_id] = 1.0 / rank
    qrels: dict[str, dict[str, int]] = {}
    targets = golden.targets
    for query_id, doc_id, grade in zip(targets["query_id"].tolist(), targets["doc_id"].tolist(), targets["grade"].tolist(), strict=True):
        qrels.setdefault(query_id, {})[doc_id] = grade
    return run, qrels
