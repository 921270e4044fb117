"""Several golden files side by side."""

import pytest
from conftest import hit, record

import ragscore as rs
from tests.messages import refused


@pytest.fixture
def suites(write_golden):
    main = rs.load_golden(
        write_golden(
            [{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"]} for n in (1, 2)], "main.yaml"
        )
    )
    sanity = rs.load_golden(
        write_golden([{"id": "s1", "query": "?", "expected_doc_ids": ["d"]}], "sanity.yaml")
    )
    return {"main": main, "sanity": sanity}


def hits(rank):
    return [*(hit(f"x{n}", "x", n) for n in range(1, rank)), hit("c", "d", rank)]


def means(table):
    return table.set_index(["suite", "run_id", "metric"])[["mean", "n"]].T.to_dict("list")


def test_each_suite_is_scored_on_its_own_questions(suites, write_run):
    a = write_run(
        "a", [record("q1", hits(1)), record("q2", hits(2)), record("s1", [], error="boom")]
    )
    b = write_run("b", [record("q1", hits(1)), record("q2", hits(1))])
    table = rs.golden.compare_suites(rs.load_results([a, b]), suites, ["hit@1", "failed"])
    assert means(table) == {
        ("main", "a", "hit@1"): [0.5, 2], ("main", "a", "failed"): [0, 2],
        ("main", "b", "hit@1"): [1, 2], ("main", "b", "failed"): [0, 2],
        ("sanity", "a", "hit@1"): [0, 1], ("sanity", "a", "failed"): [1, 1],
    }  # fmt: skip


def test_a_run_of_one_suite_is_not_scored_by_another(suites, write_run):
    same = dict(suites, sanity=suites["main"])
    a = write_run("a", [record("q1", hits(1)), record("q2", hits(1))], suite="main")
    b = write_run("b", [record("q1", hits(2)), record("q2", hits(2))], suite="sanity")
    assert means(rs.golden.compare_suites(rs.load_results([a, b]), same, "hit@1")) == {
        ("main", "a", "hit@1"): [1, 2],
        ("sanity", "b", "hit@1"): [0, 2],
    }


def test_a_question_of_two_suites_is_refused_where_the_run_does_not_say(suites, write_run):
    results = rs.load_results(write_run("a", [record("q1", hits(1))]))
    with refused("'q1'", "main", "sanity"):
        rs.golden.compare_suites(results, dict(suites, sanity=suites["main"]), "hit@1")
    with refused(field="suites"):
        rs.golden.compare_suites(results, {})
