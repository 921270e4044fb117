"""Metadata of hits in our own run file.

Loaded as a frame, kept wherever results go, written back as they were.
"""

import json
from dataclasses import replace

import pandas as pd
import pytest
from conftest import hit, record
from plausible_runs import lines_of

import ragscore as rs
from ragscore.frames.data import from_records
from tests.messages import ANY, refused

METADATA = {
    "year": 2024,
    "crop": "Corn",
    "share": 0.5,
    "ok": True,
    "none": None,
    "tags": ["x", 1],
    "deep": {"a": {"b": None}},
    "": "ü",
}
RECORDS = [
    record(
        "q1",
        [
            hit("c1", "d1", 1, metadata=METADATA),
            hit("c2", "d1", 2),
            hit("c3", "d3", 3, metadata={"year": "2024", "source_key": "K-3"}),
        ],
    ),
    record(
        "q2",
        [
            hit("c4", "d4", 7, metadata={"year": 1}),
            hit("c5", "d5", 2, metadata={}, source_key="own"),
        ],
    ),
    record(
        "q3",
        [
            hit("c6", "d6", 1, metadata={"source_key": "K-6"}, source_key="own"),
            hit("c7", "d7", 2, metadata={"source_key": "K-7"}, source_key=None),
        ],
    ),
]


@pytest.fixture
def results(write_run):
    return rs.load_results(write_run("a", RECORDS, k=10))


def test_each_value_is_a_row_with_its_json(results):
    meta = results.hit_meta.set_index(["query_id", "rank"])
    first = meta.loc[("q1", 1)].set_index("key")["value"]
    assert {key: json.loads(value) for key, value in first.items()} == METADATA
    assert first[["year", "crop", "tags"]].tolist() == ["2024", '"Corn"', '["x", 1]']
    assert meta.loc[("q2", 7), ["key", "value"]].tolist() == ["year", "1"]
    assert not [name for name in results.hits if "metadata" in name]


def test_a_source_key_among_the_metadata_is_the_hits_unless_it_says_otherwise(results):
    keys = results.hits["source_key"].fillna("-").tolist()
    assert keys == ["-", "-", "K-3", "-", "own", "own", "K-7"]


@pytest.mark.parametrize(("metadata", "values"), [(None, None), ({"x": float("nan")}, ["null"])])
def test_a_run_without_metadata_has_no_such_frame_and_nan_is_null(write_run, metadata, values):
    meta = rs.load_results(write_run("b", [record("q", [hit("c", "d", 1, metadata=metadata)])]))
    assert (None if meta.hit_meta is None else meta.hit_meta["value"].tolist()) == values


def test_writing_and_loading_gives_equal_frames(results, tmp_path):
    file = results.save(tmp_path / "again" / "a", format="per_query")
    again = rs.load_results(file)
    for name in ("runs", "responses", "hits", "hit_meta"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(results, name))
    (first, second, _), (_, empty), _ = (one["hits_top_k"] for one in lines_of(file))
    assert first["metadata"] == METADATA and not {"metadata"} & (second.keys() | empty.keys())


@pytest.mark.parametrize(
    ("row", "field", "named"),
    [
        (
            {"query_id": "q1", "rank": 9, "key": "x", "value": "1"},
            "hit_meta",
            ["q1", 9],
        ),
        (
            {"query_id": "zz", "rank": 1, "key": "x", "value": "1"},
            "hit_meta",
            ["zz"],
        ),
        (
            {"query_id": "q1", "rank": 1, "key": "x", "value": "text"},
            ANY,
            ["hit_meta.value", "'text'", "JSON"],
        ),
    ],
)
def test_what_the_file_could_not_give_back_is_refused(results, tmp_path, row, field, named):
    odd = replace(results, hit_meta=from_records([{"run_id": "a", **row}], "hit_meta"))
    with refused(*named, field=field):
        odd.save(tmp_path / "again", format="per_query")


def test_other_runs_metadata_are_left_out_and_joined_again(results, write_run):
    both = rs.load_results([write_run("a", RECORDS, k=10), write_run("b", RECORDS[1:], k=10)])
    n = len(results.hit_meta)
    assert both.hit_meta["run_id"].tolist() == ["a"] * n + ["b"] * 3
    pd.testing.assert_frame_equal(both.select("a").hit_meta, results.hit_meta)
    joined = rs.Results.concat([both.select("b"), both.select("a")])
    assert joined.hit_meta["run_id"].tolist() == ["b"] * 3 + ["a"] * n


@pytest.mark.parametrize(
    ("ties", "collapse", "ranks", "rank", "mrr"),
    [
        ("file", "none", [1, 2, 3, 4], 3, 1 / 3), ("file", "doc", [1, 2, 3, 4], 3, 1 / 2),
        ("trec", "none", [2, 3, 4, 1], 4, 1 / 4),
    ],
)  # fmt: skip
def test_metadata_follow_their_hits_to_new_ranks(write_run, ties, collapse, ranks, rank, mrr):
    hits = [
        hit("c1", "d1", 1), hit("c2", "d1", 2), hit("c3", "d3", 3, metadata={"x": 1}),
        hit("c4", "d4", 4, retrieval={"fusion_score": 9.0}),
    ]  # fmt: skip
    golden = rs.load_golden([{"id": "q", "query": "?", "expected_metadata": {"x": 1}}])
    results = rs.load_results(write_run("a", [record("q", hits)]), ties=ties)
    assert results.hits["rank"].tolist() == ranks and results.hit_meta["rank"].tolist() == [rank]
    assert rs.score(results, golden, ["mrr"], collapse=collapse)["mrr"].tolist() == [mrr]
