"""Our own run file: nothing of a wrong type vanishes, faults have a place, metadata come back."""

import json
import sqlite3
from dataclasses import replace

import pandas as pd
import pytest
from conftest import RUN_A, hit, record
from plausible_runs import lines_of

import ragscore as rs
from ragscore.frames.data import from_records
from tests.messages import ANY, refused, warned

ONE_HIT = [hit("c", "d", 1)]


def in_hit(**more):
    return record("q", [hit("c", "d", 1) | more])


def in_answer(**more):
    return record("q", [], answer={"answer": "a"} | more)


@pytest.mark.parametrize(
    ("given", "field", "found", "allowed"),
    [
        (record("q", [], error={"code": 500}), "error", ["mapping"], ["text", "null"]),
        (record("q", [], mode=True), "mode", ["boolean"], ["text", "null"]),
        (record("q", [], elapsed_ms=10**400), "elapsed_ms", ["number"], ["number", "null"]),
        (in_answer(cost_usd="0.5"), "answer.cost_usd", ['"0.5"'], ["number", "null"]),
        (in_answer(refused=1), "answer.refused", [1], ["true", "false", '"unknown"']),
        (in_answer(citations={"a": 1}), "answer.citations", ["mapping"], ["list", "objects"]),
        (in_answer(citations=[{"marker": []}]), "answer.citations.marker", ["list"],
        ["text", "null"]),
        (in_answer(citations=[{"chunk_id": 1.5}]), "answer.citations.chunk_id", [1.5],
        ["text", "empty"]),
        (in_answer(usage={"prompt_tokens": 2**63}), "answer.usage.prompt_tokens",
        ["9223372036854775808"], ["whole number", 0]),
        (in_answer(usage={"completion_tokens": 1.5}), "answer.usage.completion_tokens",
        [1.5], ["whole number", 0]),
        ({"query": "?"}, "query_id", ["missing"], []),
        (in_hit(chunk_id=1.5), "hits_top_k.chunk_id", [1.5], ["65,536", "whole number", "null"]),
        (in_hit(doc_id=""), "hits_top_k.doc_id", ['""'], ["text", "empty"]),
        (in_hit(metadata=["m"]), "hits_top_k.metadata", ["list"], ["mapping", "null"]),
        (in_hit(stale="no"), "hits_top_k.stale", ['"no"'], ["true", "false", "null"]),
        (in_hit(heading_path=["a", None]), "hits_top_k.heading_path", ["list"], ["list", "texts"]),
        (in_hit(citation={"kind": "line", "path": 3 == 3}), "hits_top_k.citation.path", ["boolean"],
        ["text", "null"]),
        (in_hit(citation={"kind": ["line"]}), "hits_top_k.citation", ["mapping"],
        ["object", "kind"]),
        (in_hit(span_unit="char", start=5, end=2, citation=None), "hits_top_k",
        ["start", 5, "end", 2], ["half-open"]),
        (in_hit(retrieval={"fusion_score": "high"}), "hits_top_k.retrieval.fusion_score", ["text"],
        ["number", "null"]),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_an_error_and_else_a_problem(
    write_run, given, field, found, allowed
):
    file = write_run("a", [record("p", ONE_HIT), given])
    with refused(*found, *allowed, file=file, line=2, field=field):
        rs.load_results(file)
    results = rs.load_results(file, strict=False)
    assert results.problems[["line", "field", "run_id"]].astype(object).to_numpy().tolist() == [
        [2, field, "a"]
    ]
    assert results.responses["query_id"].tolist() == ["p", "q"][: 1 + ("query_id" in given)]


@pytest.mark.parametrize(
    ("error", "n_failed"),
    [
        ({"code": 500}, 1), (500, 1), (True, 1), ("Timeout", 1),
        ([], 0), ({}, 0), (False, 0), (0, 0), ("", 0), (" ", 0), (None, 0),
    ],
)  # fmt: skip
def test_an_error_of_any_shape_counts_as_failed_unless_it_is_empty(write_run, error, n_failed):
    results = rs.load_results(write_run("a", [record("q", [], error=error)]), strict=False)
    assert (
        results.runs["n_failed"].tolist()
        == [n_failed]
        == [int(results.responses["error"].notna().sum())]
    )


@pytest.mark.parametrize(
    ("described", "field", "found"),
    [
        ({"k": "5"}, "k", '"5"'),
        ({"k": 0}, "k", "0"),
        ({"system": ["s"]}, "system", "list"),
        ({"created_at": 1760000000}, "created_at", "1760000000"),
        ({"created_at": "now"}, "created_at", '"now"'),
        ({"run_id": ""}, "run_id", '""'),
    ],
)
def test_a_fault_of_run_json_is_named_with_its_field(write_run, described, field, found):
    file = write_run("a", RUN_A)
    beside = file.parent / "run.json"
    beside.write_text(
        json.dumps({"config": {"k": 7, "run_id": "not this"}, "note": "n"} | described, indent=1)
    )
    with refused(found, file=beside, line=None, field=field) as caught:
        rs.load_results(file)
    assert str(caught.value).count("run.json") == 1
    if field != "run_id":
        results = rs.load_results(file, strict=False)
        assert results.problems["file"].tolist() == [str(beside)]
        assert results.runs["run_id"].tolist() == ["a"]


@pytest.mark.parametrize(("text", "line"), [("{\n bad", 2), ("[1]", 1), ('{"k": 1, "k": 2}', None)])
def test_a_run_json_that_is_none_is_named_once(write_run, text, line):
    file = write_run("a", RUN_A)
    (file.parent / "run.json").write_text(text)
    with refused(file="run.json", line=line) as caught:
        rs.load_results(file)
    assert str(caught.value).count("run.json") == 1


@pytest.mark.parametrize(
    ("records", "written", "meant"),
    [
        (
            [{"query_id": "p"}, {"query_id": "q", "hits": []}, {"query_id": "r", "hits": []}],
            "hits",
            "hits_top_k",
        ),
        (
            [
                {"query_id": "p"},
                {"query_id": "q", "hit_top_k": []},
                {"query_id": "r", "hit_top_k": []},
            ],
            "hit_top_k",
            "hits_top_k",
        ),
        (
            [
                record("p", ONE_HIT),
                record("q", [{"docid": "d"}, {"docid": "e"}]),
                record("r", [{"docid": "d"}]),
            ],
            "docid",
            "doc_id",
        ),
        (
            [record("p", []), in_answer(citation=[]), record("r", [], answer={"citation": []})],
            "citation",
            "citations",
        ),
    ],
)
def test_a_slip_in_a_run_file_warns_once_and_is_kept(write_run, records, written, meant):
    with warned("per_query.jsonl:2", written, meant) as caught:
        results = rs.load_results(write_run("a", records))
    assert len(caught) == 1 and caught[0].filename == __file__
    assert [
        name for frame in (results.responses, results.hits) for name in frame if written in name
    ]


def test_a_slip_in_run_json_names_its_line(write_run):
    with warned("run.json:1", "sytem", 1, "system") as caught:
        rs.load_results(write_run("a", RUN_A, sytem="s"))
    assert caught[0].filename == __file__


def database(path, runs, results):
    with sqlite3.connect(path) as base:
        base.executescript("""
            CREATE TABLE eval_runs (run_id TEXT, suite TEXT, config_snapshot_json TEXT,
              aggregate_json TEXT, commit_hash TEXT, created_at TEXT);
            CREATE TABLE eval_query_results (run_id TEXT, query_id TEXT, result_json TEXT)
        """)
        base.executemany("INSERT INTO eval_runs (run_id) VALUES (?)", [[run] for run in runs])
        base.executemany("INSERT INTO eval_query_results VALUES (?, ?, ?)", results)
    base.close()
    return path


GOOD = ("a", "q1", json.dumps(RUN_A[0]))


@pytest.mark.parametrize(
    ("runs", "results", "field", "named"),
    [
        (
            ["a"],
            [GOOD, ("a", "q2", None)],
            "eval_query_results.result_json",
            ("null", 2, "a", "q2"),
        ),
        (
            ["a"],
            [GOOD, ("a", "q2", b"\x00\xff")],
            "eval_query_results.result_json",
            ("bytes", 2, "a", "q2"),
        ),
        (
            ["a"],
            [GOOD, ("a", "q2", "[1]")],
            "eval_query_results.result_json",
            ("[1]", 2, "a", "q2"),
        ),
        (
            ["a"],
            [GOOD, ("a", "q2", "{")],
            "eval_query_results.result_json",
            ("JSON", 2, "a"),
        ),
        (["a"], [("a", None, "{}"), GOOD], "query_id", ("missing", 1)),
        (
            ["a"],
            [GOOD, (None, "q2", "{}")],
            "eval_query_results.run_id",
            ("null", 1, "eval_runs"),
        ),
        (
            ["a"],
            [GOOD, ("gone", "q2", "{}"), ("gone", "q3", "{}")],
            "eval_query_results.run_id",
            ("gone", 2),
        ),
    ],
)
def test_a_fault_in_a_database_names_table_and_row(tmp_path, runs, results, field, named):
    file = database(tmp_path / "kebab.db", runs, results)
    with refused(*named, file="kebab.db", field=field):
        rs.load_results(file)
    loaded = rs.load_results(file, strict=False)
    assert len(loaded.problems) == 1 and loaded.responses["query_id"].tolist() == ["q1"]


def test_problems_of_a_database_stand_with_their_run_once(tmp_path):
    rows = [("a", "q2", None), ("b", "q1", GOOD[2]), ("b", "q2", "1"), ("b", "q3", "2")]
    file = database(tmp_path / "kebab.db", ["a", "b"], [GOOD, *rows])
    assert rs.load_results(file, strict=False).problems["run_id"].tolist() == ["a", "b", "b"]


# Metadata of hits: a frame, kept wherever results go, written back as they were

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
