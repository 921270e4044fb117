"""Run files with faults: nothing of a wrong type vanishes, and every message says where it is."""

import json
import sqlite3

import pytest
from conftest import RUN_A, hit, record

import ragscore as rs
from tests.messages import refused, warned

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
        (in_hit(span_unit="char", start=5, end=9), "hits_top_k", ["line", "char"], ["one span"]),
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
