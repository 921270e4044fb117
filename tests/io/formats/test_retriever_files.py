"""The files of predicate harnesses.

Read, written back as they were, told apart; bad input ends in frames or one clear error.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import found, said
from plausible_runs import lines_of, put

import ragscore as rs
from tests.compared import extra
from tests.messages import refused, warned

retrievers = extra("retrievers")

QUESTIONS = [
    {
        "query": "Which hybrid?",
        "tool": "search_docs",
        "filters": {"product": "P1142", "year": 2024},
        "expected_source_keys": ["a", "b"],
        "expect_lessons_call": True,
    },
    {
        "query": "yield",
        "tool": "search_trials",
        "expected_metadata": {"year": 2024, "crop": "Corn", "ok": True},
        "expected_substrings": ["t/ha"],
        "difficulty": "hard",
    },
    {
        "query": "made up",
        "must_not_contain_source_keys": ["pioneer"],
        "answerable": True,  # which no other field of it says
        "expect_lessons_call": False,
        "reviewer": {"name": "x", "ids": [1]},
    },
    {"query": "nowhere", "expected_empty": True, "tags": ["t"], "weight": 1.5},
]
RECORDS = [
    said(
        "Which hybrid?",
        [
            found(1, "a", "text", year=2024, tags=["x"], none=None) | {"score": 0.5},
            found(2, document="", note="2024"),
        ],
        "dense",
        trace={"id": 7},
    ),
    said("Which hybrid?", [], "bm25", error="timeout", seed=3),
    said(
        "yield",
        [found(3), found(1)],
        "dense",
        n_hits=2,
        rank_first_match=1,
        passed=True,
        kind="positive",
    ),
    said("yield", [], "bm25", seed="none"),
    said("own id", [], "bm25", query_id="q-1"),
]
SUMMARY = [
    {
        "query": "q",
        "retriever": "dense",
        "k": 5,
        "n_hits": 5,
        "rank_first_match": 2,
        "passed": True,
        "elapsed_ms": 79.1,
        "kind": "positive",
    },
    {
        "query": "r",
        "retriever": "dense",
        "k": 5,
        "n_hits": 0,
        "rank_first_match": None,
        "passed": True,
        "elapsed_ms": 3.0,
        "kind": "expected_empty",
        "own": [1],
    },
    {
        "query": "q",
        "retriever": "bm25",
        "k": 3,
        "n_hits": 1,
        "rank_first_match": None,
        "passed": False,
        "elapsed_ms": 1.0,
        "kind": "positive",
    },
]


def results_of(tmp_path, *rows, **how):
    return rs.load_results(put(tmp_path, rows, "results.jsonl"), **how)


def golden_of(tmp_path, *rows):
    return rs.load_golden(put(tmp_path, rows, "queries.jsonl"))


def test_questions_are_written_back_as_they_were(tmp_path):
    golden = golden_of(tmp_path, *QUESTIONS)
    file = golden.save(tmp_path / "again" / "queries.jsonl", format="predicates")
    assert lines_of(file) == QUESTIONS
    assert rs.load_golden(file).golden_hash == golden.golden_hash


NO_MATCH = {"n_hits": 1, "rank_first_match": None, "passed": False, "kind": "positive"}


ODD = {
    "deep": {"a": [None, {"json": 'ü " \\'}]},
    "big": 2**63 - 1,
    "n": -(2**63),
    "json": 1,
}


@pytest.mark.parametrize(
    "records",
    [
        RECORDS,
        [said("q", [found(1, "a")], **NO_MATCH)],
        [said("q", [found(1, "a", **ODD, none=None)], own=ODD, json=[1])],
    ],
)
def test_records_are_written_back_as_they_were(tmp_path, records):
    results = results_of(tmp_path, *records)
    file = results.save(tmp_path / "again" / "results.jsonl", format="retrievers")
    assert lines_of(file) == records
    again = rs.load_results(file)
    for name in ("runs", "responses", "hits", "hit_meta"):
        pd.testing.assert_frame_equal(getattr(again, name), getattr(results, name), check_like=True)


def test_a_summary_is_written_back_as_it_was(tmp_path):
    with warned("results.jsonl", "2 records", "n_hits"):
        results = results_of(tmp_path, *SUMMARY)
    assert lines_of(results.save(tmp_path / "again.jsonl", format="retrievers")) == SUMMARY


def test_what_a_record_becomes(tmp_path):
    results = results_of(tmp_path, *RECORDS)
    counts = results.runs[["run_id", "system", "k", "n_queries", "n_failed"]].astype("str")
    assert counts.values.tolist() == [
        ["dense", "dense", "5", "2", "0"], ["bm25", "bm25", "5", "3", "1"],
    ]  # fmt: skip
    ids = ["Which hybrid?", "Which hybrid?", "yield", "yield", "q-1"]
    assert results.responses["query_id"].tolist() == ids
    assert results.hits[["rank", "chunk_id", "source_key"]].fillna("-").values.tolist() == [
        [1, "c1", "a"], [2, "c2", "-"], [3, "c3", "-"], [1, "c1", "-"],
    ]  # fmt: skip
    assert results.hit_meta.set_index("key")["value"].to_dict() == {
        "source_key": '"a"', "year": "2024", "tags": '["x"]', "none": "null", "note": '"2024"',
    }  # fmt: skip
    assert results.reported[["metric", "value"]].values.tolist() == [
        ["n_hits", 2], ["rank_first_match", 1], ["passed", 1],
    ]  # fmt: skip


def test_what_a_question_becomes(tmp_path):
    golden = golden_of(tmp_path, *QUESTIONS)
    assert golden.queries["query_id"].tolist() == ["Which hybrid?", "yield", "made up", "nowhere"]
    assert golden.queries[["x_tool", "answerable"]].values.tolist()[:2] == [
        ["search_docs", True], ["search_trials", True],
    ]  # fmt: skip
    assert golden.conditions["value"].tolist() == ["2024", '"Corn"', "true"]
    assert golden.checks.loc[golden.checks["kind"] == "product", "text"].tolist() == ["P1142"]
    assert golden.targets[["query_id", "level", "target_id"]].to_numpy().tolist() == [
        ["Which hybrid?", "source_key", "a"], ["Which hybrid?", "source_key", "b"],
        ["yield", "predicate", "metadata"],
    ]  # fmt: skip


def test_the_text_is_the_id_whatever_its_spaces_and_composition(tmp_path):
    text = "  caf\u00e9  au\tlait "
    golden = golden_of(tmp_path, {"query": text, "expected_source_keys": ["k"]})
    results = results_of(tmp_path, said("cafe\u0301 au lait", [found(1, "k")]))
    assert golden.queries[["query_id", "query"]].values.tolist() == [["caf\u00e9 au lait", text]]
    assert rs.score(results, golden, ["mrr"])["mrr"].to_dict() == {"caf\u00e9 au lait": 1}


def test_repeated_questions_are_kept_apart_FLAW_upstream_put_them_into_one_cell(tmp_path):
    tools = (("search_docs", "a"), ("search_trials", "b"))
    questions = [{"query": "q", "tool": tool, "expected_source_keys": [k]} for tool, k in tools]
    records = [said("q", [found(1, key)], name) for key in ("a", "c") for name in ("dense", "bm25")]
    with warned(1, "q"):
        golden = golden_of(tmp_path, *questions)
    results = results_of(tmp_path, *records)
    assert retrievers(results, golden).matrix.to_dict("index") == {
        "q": {"bm25": "✅ #1", "dense": "✅ #1"},
        "q (2)": {"bm25": "❌", "dense": "❌"},
    }
    assert lines_of(results.save(tmp_path / "again.jsonl", format="retrievers")) == records
    assert lines_of(golden.save(tmp_path / "again.jsonl", format="predicates")) == questions


def test_a_question_that_expects_nothing_is_said_to_be_one(tmp_path):
    with warned("queries.jsonl", "1 of 2"):
        golden = golden_of(
            tmp_path, {"query": "a", "expected_empty": True}, {"query": "b", "tool": "search_docs"}
        )
    assert golden.targets[["query_id", "target_id"]].to_numpy().tolist() == [["b", "nothing"]]


def test_a_set_with_ids_of_its_own_is_written_with_them(tmp_path):
    rows = [
        {"id": "q", "query": "?", "expected_substrings": ["s"], "filters": {"product": "p"}},
        {"id": "r", "query": "!", "expected_source_keys": [["k", "l"]]},
    ]
    golden = rs.load_golden(rows)
    file = golden.save(tmp_path / "queries.jsonl", format="predicates")
    assert lines_of(file) == rows and rs.load_golden(file).targets.equals(golden.targets)
    with refused(field="golden"):
        rs.load_golden({"q": ["d"]}).save(file, format="predicates")


@pytest.mark.parametrize(
    ("row", "field", "named"),
    [
        ({"query": "  ", "retriever": "r", "hits": []}, "query", []),
        ({"query": "q", "hits": []}, "retriever", []),
        ({"query": "q", "retriever": True, "hits": []}, "retriever", ["true"]),
        ({"query": "q", "retriever": "r", "hits": {}}, "hits", ["{}"]),
        ({"query": "q", "retriever": "r", "hits": [1]}, "hits", [1]),
        ({"query": "q", "retriever": "r", "hits": [{"rank": 0}]}, "hits.rank", [0]),
        ({"query": "q", "retriever": "r", "hits": [{"rank": 1}, {}]}, "hits.rank", ["null"]),
        ({"query": "q", "retriever": "r", "hits": [{"rank": 1}, {"rank": 1}]},
        "hits.rank", [1, "each once"]),
        ({"query": "q", "retriever": "r", "hits": [{"metadata": []}]}, "hits.metadata", ["[]"]),
        ({"query": "q", "retriever": "r", "hits": [{"id": False}]}, "hits.id", ["false"]),
        ({"query": "q", "retriever": "dense", "hits": [], "k": 3}, "k", [3, "dense", 5]),
        ({"query": "q", "retriever": "r", "hits": [], "elapsed_ms": "fast"},
        "elapsed_ms", ['"fast"']),
        ({"query": "q", "retriever": "r", "passed": 1}, "passed", [1]),
        ({"query": "q", "retriever": "dense", "hits": [], "query_id": "first"},
        "query_id", ["'first'", "dense", 1]),
    ],
)  # fmt: skip
def test_a_bad_record_names_line_and_field(tmp_path, row, field, named):
    with refused(*named, file="results.jsonl", line=2, field=field):
        results_of(tmp_path, said("first", []), row)
    loose = results_of(tmp_path, said("first", []), row, strict=False)
    assert loose.problems["line"].tolist() == [2] and "first" in {*loose.responses["query_id"]}


@pytest.mark.parametrize(
    ("row", "field", "named"),
    [
        ({"expected_empty": True}, "query", []),
        ({"query": "q", "filters": {"product": []}}, "filters.product", ["[]"]),
        ({"query": "q", "expected_source_keys": "a"}, "expected_source_keys", ['"a"']),
        ({"query": "q", "expected_metadata": ["a"]}, "expected_metadata", ['["a"]']),
        ({"query": "q", "expected_substrings": "a"}, "expected_substrings", ['"a"']),
        ({"query": "q", "expected_empty": "yes"}, "expected_empty", ['"yes"']),
    ],
)
def test_a_bad_question_names_line_and_field(tmp_path, row, field, named):
    with refused(*named, file="queries.jsonl", line=2, field=field):
        golden_of(tmp_path, {"query": "first", "expected_empty": True}, row)


def test_files_are_told_from_their_content(tmp_path, write_run):
    golden = golden_of(tmp_path, {"query": "q", "expected_empty": True, "id": "1"})
    assert golden.queries["query_id"].tolist() == ["1"]
    kebab = {"query_id": "q", "query": "?", "retriever": "dense", "hits_top_k": [], "error": None}
    assert rs.load_results(write_run("run", [kebab])).runs["run_id"].tolist() == ["run"]
    own = results_of(tmp_path, {"query_id": "q", **said("?", [])})
    assert own.responses[["run_id", "query_id"]].values.tolist() == [["dense", "q"]]


def test_outcomes_without_hits_are_scored_by_what_they_state(tmp_path):
    told = {"query": "p", "retriever": "a", "n_hits": 5, "rank_first_match": 3, "passed": True}
    rest = [{"query": "q"}, {"query": "r", "passed": None, "rank_first_match": 2}, {"query": "s"}]
    rest[0] |= {"rank_first_match": None, "passed": False}
    rest[2] |= {"rank_first_match": None, "passed": None}
    keys = [{"query": query, "expected_source_keys": [query]} for query in "pqrs"]
    other = [
        told | {"query": query, "retriever": "b", "rank_first_match": rank}
        for query, rank in zip("pqrs", (4, 1, None, None), strict=True)
    ]
    with warned("results.jsonl", "8 records", "n_hits", "NaN"):
        results = results_of(tmp_path, told, *(told | one for one in rest), *other)
    names = ["mrr", "hit@2", "found", "passed", "empty", "recall@5"]
    ev = rs.evaluate(results, golden_of(tmp_path, *keys), names)
    nan = float("nan")
    assert ev.select("a").scores[names].T.to_numpy() == pytest.approx(np.array([
        [1 / 3, 0, 1 / 2, nan], [0, 0, 1, nan], [1, 0, 1, nan], [1, 0, 1, nan], [0] * 4, [nan] * 4,
    ]), nan_ok=True)  # fmt: skip
    assert set(ev.explain("recall@5")["state"]) == {"not_applicable"}
    pair = ev.compare("a", "b")
    assert pair.per_query["outcome"].tolist() == ["loss", "win", "regression", "both_miss"]
