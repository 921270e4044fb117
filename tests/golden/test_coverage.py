"""The ids of hits and targets counted before any mean, and how coverage is shown."""

import pandas as pd
import pytest
from conftest import golden_of, targets_of

import ragscore as rs
from ragscore.frames.data import from_records
from ragscore.golden.coverage import coverage
from tests.messages import says


@pytest.fixture
def loaded():
    """Run a returns d1 twice, d9 and a hit without a document; run b returns nothing."""
    hits = [
        {"run_id": "a", "query_id": "q1", "rank": 1, "doc_id": "d1", "chunk_id": "c1"},
        {"run_id": "a", "query_id": "q1", "rank": 2, "doc_id": "d1", "chunk_id": "c2"},
        {"run_id": "a", "query_id": "q2", "rank": 1, "doc_id": "d1", "chunk_id": "c1"},
        {"run_id": "a", "query_id": "q2", "rank": 2, "doc_id": "d9", "chunk_id": None},
        {"run_id": "a", "query_id": "q2", "rank": 3, "doc_id": None, "chunk_id": "c3"},
    ]
    responses = [
        {"run_id": run, "query_id": query, "query": "?", "error": None}
        for run in "ab"
        for query in ("q1", "q2")
    ]
    results = rs.Results(
        from_records([{"run_id": "a"}, {"run_id": "b"}], "runs"),
        from_records(responses, "responses"),
        from_records(hits, "hits"),
    )
    targets = [
        targets_of({"doc_id": "d1"}, {"doc_id": "d2"}, query_id="q1"),
        targets_of({"doc_id": "d2"}, query_id="q2"),
        targets_of({"level": "chunk", "target_id": "C1", "chunk_id": "C1"}, query_id="q2"),
    ]
    return results, golden_of(pd.concat(targets, ignore_index=True))


def test_ids_are_counted_by_run_and_level(loaded):
    ids = coverage(*loaded).ids
    # at level doc: four hits with one of d1, d9; expected are d1, d2; q1 expects both hits of d1
    expected = pd.DataFrame(
        [
            ("a", "chunk", 5, 4, 3, 1, 0, 0),
            ("a", "doc", 5, 4, 2, 2, 1, 2),
            ("b", "chunk", 0, 0, 0, 1, 0, 0),
            ("b", "doc", 0, 0, 0, 2, 0, 0),
        ],
        columns=[
            "run_id", "level", "n_hits", "n_with_id", "n_ids", "n_expected_ids", "n_joined_ids",
            "n_joined_hits",
        ],
    )  # fmt: skip
    pd.testing.assert_frame_equal(ids, expected.astype({"run_id": "str", "level": "str"}))


def test_coverage_shows_queries_and_ids_side_by_side(loaded):
    text = repr(coverage(*loaded))
    shown = {" ".join(line.split()[:-2]): line.split()[-2:] for line in text.splitlines()}
    assert shown["n_empty"] == ["0", "2"] and shown["n_missing"] == ["0", "0"]
    says(text, "(chunk)", "4 of 5", "0 of 0")
    says(text, "(doc)", "1 of 2", "0 of 2")


def test_a_golden_set_that_expects_no_ids_has_none_to_count(loaded):
    results, golden = loaded
    found = coverage(results, rs.Golden(golden.queries))
    assert found.ids.empty and "n_golden" in repr(found)
