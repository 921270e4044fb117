"""One question side by side.

What met a target, what moved, what was answered, and that nothing in a text becomes markup.
"""

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from ragscore.analysis.query_view import show_query
from ragscore.frames.tables import HEAD
from tests.messages import refused, says

NASTY = '<script>alert("x")</script> | **bold** ' + "ä" * 10_000


@pytest.fixture
def three(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([
            {"id": "q", "query": "where is <it>?", "expected_doc_ids": {"d1": 2, "d9": 1},
            "must_contain": ["a|b"]},
            {"id": "no", "query": "nobody knows", "answerable": False, "expected_doc_ids": []},
        ])
    )  # fmt: skip
    a = write_run(
        "a",
        [
            record("q", [hit("c1", "d1", 1), hit("c2", "d2", 2)], answer=answer(NASTY)),
            record("no", []),
        ],
    )
    b = write_run(
        "b",
        [
            record(
                "q",
                [hit("c2", "d2", 1), hit("c3", "d3", 2), hit("c1", "d1", 3)],
                error="broke & burned",
            ),
            record("no", []),
        ],
    )
    c = write_run("c", [record("q", [])])
    return rs.load_results([a, b, c]), golden


def test_each_hit_says_what_it_met_and_where_the_run_before_had_it(three):
    view = show_query(*three, "q")
    assert view.hits[["run_id", "rank", "id", "target"]].to_numpy().tolist() == [
        ["a", 1, "c1", "d1"], ["a", 2, "c2", ""], ["b", 1, "c2", ""], ["b", 2, "c3", ""],
        ["b", 3, "c1", "d1"],
    ]  # fmt: skip
    assert view.hits["grade"].fillna(0).tolist() == [2, 0, 0, 0, 2]
    assert view.hits["rank_before"].fillna(0).tolist() == [0, 0, 2, 0, 1]
    found = view.targets.set_index("target_id")
    assert found.loc["d1", ["grade", "a", "b"]].tolist() == [2, 1, 3]
    assert found.loc["d9", ["a", "b", "c"]].isna().all()


def test_the_text_form_marks_hits_and_moves_and_tells_answers(three):
    text = repr(show_query(*three, "q", ["a", "b"]))
    says(text, "*", "c1 (↓2)")
    says(text, "c2 (↑1)")
    says(text, "c3", "new")
    says(text, "d9", "a", "b")
    says(text, "b", "broke & burned")


def test_every_alternative_of_a_target_is_named(write_golden, write_run):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_doc_ids": [["d1", "d2", "d3"], "d4"]}])
    )
    run = write_run("a", [record("q", [hit("c2", "d2", 1), hit("c4", "d4", 2)])])
    view = show_query(rs.load_results(run), golden, "q")
    assert view.targets[["target_id", "alternatives"]].to_numpy().tolist() == [
        ["d1", "d2 or d3"], ["d4", ""],
    ]  # fmt: skip
    says(repr(view), "doc", "grade 1", "d1", "d2", "d3", "a rank 1")
    says(repr(view), "doc", "grade 1", "d4", "a rank 2")


def test_one_run_alone_is_shown_without_moves(three):
    view = show_query(*three, "q", ["b"])
    assert view.hits["rank_before"].isna().all() and "* c1\n" in repr(view)


def test_no_text_becomes_markup(three):
    html = show_query(*three, "q")._repr_html_().removeprefix(HEAD)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "where is &lt;it&gt;?" in html
    assert "http" not in html


def test_a_question_to_refuse_says_so_and_a_run_without_hits_too(three):
    view = show_query(*three, "no", ["a", "b"])
    says(repr(view), "refuse")
    assert not len(view.hits)


def test_texts_are_shown_where_hits_kept_none(three):
    results, golden = three
    bare = rs.Results(
        runs=results.runs, responses=results.responses, hits=results.hits.drop(columns="text")
    )
    texts = pd.DataFrame({"chunk_id": ["c2", "c1"], "text": ["two", "one"]})
    assert show_query(bare, golden, "q", texts=texts).hits["text"].fillna("").tolist() == [
        "one",
        "two",
        "two",
        "",
        "one",
    ]


def test_an_unknown_question_is_named(three):
    with refused("x", field="query_id"):
        show_query(*three, "x")
