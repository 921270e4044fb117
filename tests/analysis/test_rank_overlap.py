"""Rank-biased overlap.

Against the definition written out, and where lists are equal, disjoint, uneven or empty.
"""

import numpy as np
import pytest
from conftest import hit, record
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.analysis.comparison.changes import rank_overlap
from ragscore.frames.data import from_records


def written_out(one, other, p):
    """Equation 32 of Webber, Moffat & Zobel (2010), depth by depth."""
    short, long = sorted([one, other], key=len)
    s, n = len(short), len(long)
    overlap = [len(set(short[:d]) & set(long[:d])) for d in range(n + 1)]
    total = sum(overlap[d] / d * p**d for d in range(1, n + 1)) + sum(
        overlap[s] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1)
    )
    return (1 - p) / p * total + ((overlap[n] - overlap[s]) / n + overlap[s] / s) * p**n


def runs_of(lists):
    """Two runs; for each query a pair of lists of document ids."""
    rows = [
        {"run_id": run, "query_id": f"q{n}", "query": "?", "error": None}
        for n in range(len(lists))
        for run in "ab"
    ]
    hits = [
        {"run_id": run, "query_id": f"q{n}", "rank": rank, "doc_id": doc}
        for n, pair in enumerate(lists) for run, ids in zip("ab", pair, strict=True) for rank,
        doc in enumerate(ids, 1)
    ]  # fmt: skip
    runs = from_records([{"run_id": run} for run in "ab"], "runs")
    return rs.Results(
        runs=runs, responses=from_records(rows, "responses"), hits=from_records(hits, "hits")
    )


ranking = st.lists(st.sampled_from("stuvwxyz"), unique=True, min_size=1, max_size=8)


@given(
    st.lists(st.tuples(ranking, ranking), min_size=1, max_size=4), st.sampled_from([0.5, 0.9, 0.98])
)
def test_overlap_is_that_of_its_definition_both_ways_round(lists, p):
    results = runs_of(lists)
    expected = [written_out(*pair, p) for pair in lists]
    for a, b in ("ab", "ba"):
        np.testing.assert_allclose(rank_overlap(results, a, b, p=p)["rbo"], expected, atol=1e-12)


def test_equal_lists_overlap_fully_and_disjoint_ones_not_at_all():
    lists = [("xyz", "xyz"), ("xyz", "stu"), ("xy", "yx"), ("xyz", "")]
    found = rank_overlap(runs_of(lists), "a", "b")
    # xy / yx: nothing at depth 1, all at depth 2 and, extrapolated, beyond: p
    assert found["rbo"].tolist() == pytest.approx([1, 0, 0.9, np.nan], abs=1e-12, nan_ok=True)
    counts = found[["n_common", "n_baseline", "n_candidate"]].to_numpy().tolist()
    assert counts == [[3, 3, 3], [0, 3, 3], [2, 2, 2], [0, 3, 0]]


def test_runs_of_different_chunkers_are_compared_by_document_and_one_document_counts_once(
    write_run,
):
    chunks = {"a": [("c1", "d1"), ("c2", "d1"), ("c3", "d2")], "b": [("e1", "d1"), ("e2", "d2")]}
    files = [
        write_run(name, [record("q", [
            hit(*ids, rank, chunker_version=f"x@{name}") for rank, ids in enumerate(own, 1)
        ])])
        for name, own in chunks.items()
    ]  # fmt: skip
    results = rs.load_results(files)
    found = rank_overlap(results, "a", "b").iloc[0]
    assert (found["rbo"], found["n_baseline"], found["n_common"]) == (pytest.approx(1), 2, 2)


def test_only_queries_of_both_runs_are_compared(write_run):
    a, b = (
        write_run("a", [record("q", [hit("c", "d", 1)]), record("only", [])]),
        write_run("b", [record("q", [hit("c", "d", 1)])]),
    )
    assert rank_overlap(rs.load_results([a, b]), "a", "b")["query_id"].tolist() == ["q"]
