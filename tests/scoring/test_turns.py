"""Conversation and turn on both sides: they tell queries apart, join them, and label them."""

import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs

# three conversations that begin alike; the right document is d and the place
ASKED = [("s1", 1, "Why?"), ("s1", 2, "And then?"), ("s2", 1, "Why?"), ("s3", 1, "How?")]


def rows(field, drop=(), **names):
    """Return a record per place of ASKED, with the document of each in `field`."""
    names = {"conversation": "session_id", "turn": "turn"} | names
    found = [
        {names["conversation"]: talk, names["turn"]: turn, "query": text, field: [f"d{talk}{turn}"]}
        for talk, turn, text in ASKED
    ]
    return [{name: value for name, value in row.items() if name not in drop} for row in found]


@pytest.mark.parametrize("make", [lambda one, _: one, lambda one, _: pd.DataFrame(one), put])
def test_one_text_in_two_conversations_is_two_queries_on_both_sides(make, tmp_path):
    source = rows("retrieved")
    results = rs.load_results(make(source, tmp_path) if make is not put else put(tmp_path, source))
    assert len(results.runs) == 1
    responses = results.responses[["query_id", "conversation", "turn"]]
    assert responses.iloc[::2].to_numpy().tolist() == [["s1/1", "s1", "1"], ["s2/1", "s2", "1"]]
    assert responses.iloc[1::2, 1:].to_numpy().tolist() == [["s1", "2"], ["s3", "1"]]
    golden = rs.load_golden(rows("relevant", turn="turn_number"))
    queries = golden.queries[["query_id", "conversation", "turn"]]
    assert queries.to_numpy().tolist() == responses.to_numpy().tolist()
    assert rs.evaluate(results, golden).summary("hit@1")["mean"].tolist() == [1]


def test_rows_per_hit_are_told_apart_by_conversation_and_turn():
    hits = pd.DataFrame([
        {"session_id": talk, "turn": float(turn), "query": text, "doc_id": doc, "score": score}
        for talk, turn, text in ASKED for doc, score in (("x", 1.0), (f"d{talk}{turn}", 2.0))
    ])  # fmt: skip
    ev = rs.evaluate(hits, rows("relevant"))
    assert ev.results.responses["turn"].tolist() == ["1", "2", "1", "1"]
    assert ev.summary("hit@1")[["n", "mean"]].to_numpy().tolist() == [[4, 1]]


@pytest.mark.parametrize("drop", [(), ("query",)])
def test_places_join_golden_queries_with_ids_of_their_own(drop):
    golden = rs.load_golden(
        [row | {"id": f"g{n}", "query": "asked otherwise"} for n, row in
         enumerate(rows("expected_doc_ids", conversation="conversation"))]
    )  # fmt: skip
    ev = rs.evaluate(rs.load_results(rows("retrieved", drop)), golden)
    assert ev.scores["state"].tolist() == ["scored"] * 4
    assert ev.results.hits["query_id"].tolist() == ["g0", "g1", "g2", "g3"]
    assert ev.summary("hit@1")["mean"].tolist() == [1]


def test_a_text_at_another_place_of_the_golden_conversations_is_no_golden_query():
    golden = rs.load_golden(rows("relevant")[:2])  # Why? is s1/1 only
    late = [{"session_id": "s1", "turn": 9, "query": "Why?", "retrieved": ["ds11"]}]
    late += [rows("retrieved")[1]]
    scores = rs.evaluate(rs.load_results(late), golden, missing="zero").scores
    assert scores["state"].astype("str").to_dict() == {
        golden.queries["query_id"][0]: "missing", golden.queries["query_id"][1]: "scored",
        "s1/9": "extra",
    }  # fmt: skip


def test_sessions_that_only_the_results_name_cluster_the_queries_and_unknown_stay_unknown():
    golden = {one: {"d": 1} for one in "abcde"}
    answered = [
        {"query_id": one, "session_id": talk, "turn": turn, "retrieved": ["d"]}
        for one, talk, turn in (("a", "s", 1), ("b", "s", 2), ("c", "t", 1), ("d", None, None))
    ]
    found = rs.evaluate(rs.load_results(answered), golden, missing="zero").golden.queries
    assert found["conversation"].fillna("-").tolist() == ["s", "s", "t", "-", "-"]
    assert found["turn"].fillna("-").tolist() == ["1", "2", "1", "-", "-"]
    assert found["conversation"].isna().sum() == found["turn"].isna().sum() == 2
    alone = rs.evaluate(rs.load_results(answered[1:]), golden, missing="zero").golden.queries
    assert "conversation" not in alone, "no two queries share one"


def test_the_golden_sets_conversations_count_and_only_queries_without_one_get_that_of_a_run():
    golden = [
        {"id": one, "query": f"{one}?", "expected_doc_ids": ["d"], "conversation": talk}
        for one, talk in (("a", "x"), ("b", "x"), ("c", None))
    ]
    answered = [
        {"query_id": one, "session_id": "x", "turn": n, "retrieved": ["d"]}
        for n, one in enumerate("abc", 1)
    ]
    found = rs.evaluate(rs.load_results(answered), golden).golden.queries
    assert found["conversation"].tolist() == ["x", "x", "x"]
    assert found["turn"].tolist() == ["1", "2", "3"]


def test_two_responses_of_one_place_are_joined_by_their_ids_alone():
    golden = rs.load_golden([row | {"id": f"g{n}"} for n, row in enumerate(rows("relevant"))])
    twice = [
        {"query_id": one, "session_id": "s1", "turn": 2, "retrieved": ["ds12"]} for one in "pq"
    ]
    twice += [row | {"query_id": f"g{n}"} for n, row in enumerate(rows("retrieved"))]
    assert rs.evaluate(rs.load_results(twice), golden).scores["state"].eq("extra").sum() == 2
