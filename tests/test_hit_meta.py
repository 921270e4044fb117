"""Metadata of hits in our own run file.

Loaded as a frame, kept wherever results go, written back as they were.
"""

import json

import pandas as pd
import pytest
from conftest import hit, record

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
    meta = results.hit_meta
    first = meta[(meta["query_id"] == "q1") & (meta["rank"] == 1)]
    assert dict(zip(first["key"], map(json.loads, first["value"]), strict=True)) == METADATA
    assert first.set_index("key")["value"][["year", "crop", "tags"]].tolist() == [
        "2024",
        '"Corn"',
        '["x", 1]',
    ]
    assert meta.loc[meta["query_id"] == "q2", ["rank", "key", "value"]].to_numpy().tolist() == [
        [7, "year", "1"]
    ]
    assert not [name for name in results.hits if "metadata" in name]


def test_a_source_key_among_the_metadata_is_the_hits_unless_it_says_otherwise(results):
    assert results.hits["source_key"].astype(object).where(
        results.hits["source_key"].notna(), None
    ).tolist() == [None, None, "K-3", None, "own", "own", "K-7"]


def test_a_run_without_metadata_has_no_such_frame(write_run):
    assert (
        rs.load_results(write_run("b", [record("q", [hit("c", "d", 1, metadata=None)])])).hit_meta
        is None
    )


def test_nan_is_read_as_null(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"query_id": "q", "hits_top_k": [{"chunk_id": "c", "metadata": {"x": NaN}}]}\n',
        encoding="utf-8",
    )
    assert rs.load_results(tmp_path / "a.jsonl").hit_meta["value"].tolist() == ["null"]


def test_writing_and_loading_gives_equal_frames(results, tmp_path):
    file = results.save(tmp_path / "again" / "a", format="per_query")
    again = rs.load_results(file)
    for name in ("runs", "responses", "hits", "hit_meta"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(results, name))
    written = [
        json.loads(line)["hits_top_k"] for line in file.read_text(encoding="utf-8").splitlines()
    ]
    assert (
        written[0][0]["metadata"] == METADATA
        and "metadata" not in written[0][1]
        and "metadata" not in written[1][1]
    )


@pytest.mark.parametrize(
    ("row", "field", "named"),
    [
        (
            {"query_id": "q1", "rank": 9, "key": "x", "value": "1"},
            "hit_meta.rank",
            ["q1", 9],
        ),
        (
            {"query_id": "zz", "rank": 1, "key": "x", "value": "1"},
            "hit_meta.query_id",
            [1, "zz"],
        ),
        (
            {"query_id": "q1", "rank": 1, "key": "x", "value": "text"},
            ANY,
            ["x_x", "'text'", "JSON"],
        ),
    ],
)
def test_what_the_file_could_not_give_back_is_refused(results, tmp_path, row, field, named):
    odd = rs.Results(
        runs=results.runs,
        responses=results.responses,
        hits=results.hits,
        hit_meta=from_records([{"run_id": "a", **row}], "hit_meta"),
    )
    with refused(*named, field=field):
        odd.save(tmp_path / "again", format="per_query")


def test_other_runs_metadata_are_left_out_and_joined_again(results, write_run):
    both = rs.load_results([write_run("a", RECORDS, k=10), write_run("b", RECORDS[1:], k=10)])
    assert both.hit_meta["run_id"].value_counts().to_dict() == {"a": len(results.hit_meta), "b": 3}
    pd.testing.assert_frame_equal(both.select("a").hit_meta, results.hit_meta)
    joined = rs.Results.concat([both.select("b"), both.select("a")])
    assert joined.hit_meta["run_id"].astype("str").tolist() == ["b"] * 3 + ["a"] * len(
        results.hit_meta
    )


def test_our_run_file_is_judged_by_predicates(results, write_golden):
    rows = [
        {"id": "q1", "query": "?", "expected_metadata": {"year": 2024}},
        {"id": "q3", "query": "?", "expected_source_keys": ["k-7", "OWN"]},
    ]
    assert rs.score(results.select("a"), rs.load_golden(write_golden(rows)), ["mrr"]).loc[
        ["q1", "q3"], "mrr"
    ].tolist() == [1, 1]


def test_metadata_follow_their_hits_to_new_ranks(write_run, write_golden):
    hits = [
        hit("c1", "d1", 1),
        hit("c2", "d1", 2),
        hit("c3", "d3", 3, metadata={"x": 1}),
        hit("c4", "d4", 4, retrieval={"fusion_score": 9.0}),
    ]
    file = write_run("a", [record("q", hits)])
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_metadata": {"x": 1}}])
    )
    assert rs.score(rs.load_results(file), golden, ["mrr"])["mrr"].tolist() == [1 / 3]
    assert rs.score(rs.load_results(file), golden, ["mrr"], collapse="doc")["mrr"].tolist() == [
        1 / 2
    ]
    by_score = rs.load_results(file, ties="trec")
    assert by_score.hits["rank"].tolist() == [2, 3, 4, 1] and by_score.hit_meta[
        "rank"
    ].tolist() == [4]
    assert rs.score(by_score, golden, ["mrr"])["mrr"].tolist() == [1 / 4]
