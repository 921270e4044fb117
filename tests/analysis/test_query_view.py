"""One question side by side.

What met a target, what moved, what was answered, and that nothing in a text becomes markup.
"""

from dataclasses import replace

import pytest
from conftest import answer, hit, record

import ragscore as rs
from tests.messages import refused, says


@pytest.fixture
def three(loaded):
    rows = [
        {"id": "q", "query": "where?", "expected_chunk_ids": {"c1": 2, "c9": 1},
         "must_contain": ["here"]},
        {"id": "no", "query": "nobody knows", "answerable": False, "expected_doc_ids": []},
        {"id": "doc", "query": "which?", "expected_doc_ids": ["d1"]},
    ]  # fmt: skip
    a = [hit("c1", "d1", 1), hit("c2", "d2", 2)]
    more = [record("no", []), record("doc", a)]
    b = [hit("c2", "d2", 1), hit("c3", "d3", 2), hit("c1", "d1", 3)]
    runs = {
        "a": [record("q", a, answer=answer("here", paths=["d.md", "e.md"])), *more],
        "b": [record("q", b, error="broke & burned"), *more],
        "c": [record("q", [], answer=answer("?", grounded=False)), *more],
    }
    return loaded(rows, runs)


def test_each_hit_says_what_it_met_and_where_the_run_before_had_it(three):
    ev = rs.evaluate(*three, match="per_query")
    view = ev.query("q")
    assert (ev.query("doc").level, {*ev.query("q", ["a"]).hits["run_id"]}) == ("doc", {"a"})
    hits = view.hits.fillna({"grade": 0, "rank_before": 0})
    assert hits[["run_id", "rank", "id", "target", "grade", "rank_before"]].values.tolist() == [
        ["a", 1, "c1", "c1", 2, 0], ["a", 2, "c2", "", 0, 0], ["b", 1, "c2", "", 0, 2],
        ["b", 2, "c3", "", 0, 0], ["b", 3, "c1", "c1", 2, 1],
    ]  # fmt: skip
    assert (
        repr(view)
        == """\
q: where?
expected (chunk, grade 2): c1 (a rank 1; b rank 3; c not found)
expected (chunk, grade 1): c9 (a not found; b not found; c not found)
must_contain: here

rank  a     b           c
   1  * c1    c2 (↑1)
   2    c2    c3 (new)
   3        * c1 (↓2)

a: here
cites d.md, e.md
b: failed: broke & burned
c: refused (score_gate) ?"""
    )


def test_every_alternative_of_a_target_is_named():
    golden = rs.load_golden([{"id": "q", "expected_doc_ids": [["d1", "d2", "d3"], "d4"]}])
    view = rs.evaluate(rs.load_results({"q": ["d2", "d4"]}, run_id="a"), golden).query("q")
    assert view.targets[["target_id", "alternatives", "a"]].to_numpy().tolist() == [
        ["d1", "d2 or d3", 1], ["d4", "", 2],
    ]  # fmt: skip


def test_a_question_to_refuse_says_so_and_an_unknown_one_is_named(three):
    ev = rs.evaluate(*three, match="per_query")
    says(repr(ev.query("no", ["a", "b"])), "refuse")
    with refused("x", "q, no, doc", field="query_id"):
        ev.query("x")


FOUR = {"q": [["a", "b"], ["x", "a"], [], ["t", "b", "u"]], "one": [["z"]]}


@pytest.fixture
def four():
    results = rs.load_results(FOUR)
    asked = results.calls.assign(
        query=["q", "why so?", "because", "reason", "and?"], tool="search",
        elapsed_ms=[10.0, 20, 30, 40, 50], error=[None, None, "timed out", None, None],
    )  # fmt: skip
    return replace(results, calls=asked)


def test_calls_stand_above_with_what_each_found_first_and_repeated(four):
    view = rs.evaluate(four, {"q": ["t", "b", "w"], "one": ["z"]}).query("q")
    columns = ["call", "query", "n_hits", "n_repeated", "found"]
    assert view.calls[columns].to_numpy().tolist() == [
        [1, "q", 2, 0, "b"], [2, "why so?", 2, 1, ""], [3, "because", 0, 0, ""],
        [4, "reason", 3, 1, "t"],
    ]  # fmt: skip
    hits = view.hits.fillna({"repeats": 0})
    assert hits[["call", "rank", "id", "repeats", "target"]].to_numpy().tolist() == [
        [1, 1, "a", 0, ""], [1, 2, "b", 0, "b"], [2, 3, "x", 0, ""], [2, 4, "a", 1, ""],
        [4, 5, "t", 0, "t"], [4, 6, "b", 1, "b"], [4, 7, "u", 0, ""],
    ]  # fmt: skip
    assert (
        repr(view)
        == """\
q: q
run, call 1, search, the query itself, 10 ms: 2 hits; first to find b
run, call 2, search, “why so?”, 20 ms: 2 hits; 1 returned before
run, call 3, search, “because”, 30 ms: failed: timed out
run, call 4, search, “reason”, 40 ms: 3 hits; 1 returned before; first to find t
expected (doc, grade 1): t (run rank 5)
expected (doc, grade 1): b (run rank 2)
expected (doc, grade 1): w (run not found)

rank  run
   1    a
   2  * b
   3    x
   4    a (as in call 1)
   5  * t
   6  * b (as in call 1)
   7    u

run: no answer"""
    )


def test_a_call_finds_relevant_targets_only(four):
    ev = rs.evaluate(four, {"q": {"t": 2, "b": 1, "a": 0}, "one": {"z": 1}})
    assert ev.query("q").calls["found"].tolist() == ["b", "", "", "t"]


def test_calls_of_two_runs_are_one_list_a_run():
    runs = {"A": {"q": [["a", "b"], ["c"]]}, "B": {"q": [["b", "a"], ["a"], ["c"]]}}
    view = rs.evaluate(runs, {"q": {"c": 1}}).query("q")
    assert view.calls[["run_id", "call", "found"]].to_numpy().tolist() == [
        ["A", 1, ""], ["A", 2, "c"], ["B", 1, ""], ["B", 2, ""], ["B", 3, "c"],
    ]  # fmt: skip
    of_b = view.hits[view.hits["run_id"] == "B"]
    # A's list is a, b, c; B's b, a, a, c
    assert of_b["rank_before"].fillna(0).tolist() == [2, 1, 1, 3]


def test_earlier_turns_of_a_conversation_stand_above():
    rows = [
        {"id": f"s_{turn}", "query": f"{turn}?", "expected_doc_ids": ["a"], "conversation": "s",
         "turn": str(turn)}
        for turn in (2, 1, 10)
    ]  # fmt: skip
    alone = {"id": "alone", "query": "what?", "expected_doc_ids": ["d"]}
    runs = {"s_1": ["a"], "s_2": ["b"], "s_10": ["x"], "alone": ["d"]}
    ev = rs.evaluate(runs, [*rows, alone])
    assert ev.query("s_10").turns[["turn", "query_id", "query"]].to_numpy().tolist() == [
        [1, "s_1", "1?"], [2, "s_2", "2?"], [10, "s_10", "10?"],
    ]  # fmt: skip
    assert ev.query("s_1").turns["query_id"].tolist() == ["s_1"]
    assert ev.query("alone").turns.empty
