"""Several searches for one query: how they make one value, by hand and by properties."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.scoring.calls import is_read
from tests.messages import refused, says

# q1: two calls, of which the second finds t, and b again; q2: one call; q3: two that find nothing.
FOUND = {
    "q1": [["a", "b", "x"], ["t", "c", "b", "y"]],
    "q2": [["u", "v"]],
    "q3": [["x"], ["y", "z"]],
}
RIGHT = {"q1": {"t": 1, "b": 1}, "q2": {"u": 1}, "q3": {"w": 1}}
METRICS = ["hit@1", "hit@2", "recall@1", "recall@2", "recall@3", "precision@2", "mrr", "ndcg@3"]


@pytest.fixture(scope="module")
def both():
    return rs.load_results(FOUND), rs.load_golden(RIGHT)


BY_HAND = {  # of q1, in the order of METRICS
    # {a | t}, {a b | t c}, {a b x | t c b}; of 2 · 2 places b and t are right
    "union": [1, 1, 0.5, 1, 1, 0.5, np.nan, np.nan],
    # a b x: b at 2; ndcg (1/log2(3)) / (1 + 1/log2(3))
    "first": [0, 1, 0, 0.5, 0.5, 0.5, 0.5, 0.386853],
    # t c b y: t at 1, b at 3; ndcg (1 + 1/2) / (1 + 1/log2(3))
    "last": [1, 1, 0.5, 0.5, 1, 0.5, 1, 0.919721],
    "each": [0.5, 1, 0.25, 0.5, 0.75, 0.5, 0.75, 0.653287],
    "best": [1, 1, 0.5, 0.5, 1, 0.5, 1, 0.919721],
}  # fmt: skip


@pytest.mark.parametrize("how", list(BY_HAND))
def test_calls_make_one_value_as_the_policy_says(both, how):
    scores = rs.score(*both, METRICS, calls=how)
    assert scores.loc["q1", METRICS].tolist() == pytest.approx(BY_HAND[how], nan_ok=True, abs=1e-6)
    # one call is scored alike, whatever the policy
    assert scores.loc["q2", METRICS].tolist() == [1, 1, 1, 1, 1, 0.5, 1, 1]
    hits = [name for name in METRICS if name.startswith("hit")]
    assert scores.loc["q3", hits].tolist() == [0, 0]


def test_what_has_no_order_says_so_and_does_not_decide(both):
    ev = rs.evaluate(*both)
    told = ev.explain("mrr").set_index("query_id")
    assert told["state"].tolist() == ["not_applicable", "scored", "not_applicable"]
    says(told.loc["q1", "reason"], "order", "calls='first'")
    assert ev.primary[0] == "recall@10" and rs.evaluate(*both, calls="last").primary[0] == "ndcg@10"


def test_the_printed_evaluation_names_the_policy(both):
    ev = rs.evaluate(*both, ["recall@2"])
    says(ev, "union", 2, 3)
    assert ev.settings["n_several_calls"].tolist() == [2]
    single = rs.evaluate({"q2": ["u"]}, {"q2": {"u": 1}})
    assert "n_several_calls" not in single.settings and "everal calls" not in str(single)


@pytest.mark.parametrize(("how", "calls"), [("first", [1]), ("last", [2]), ("union", [1, 2])])
def test_hits_of_the_call_that_a_policy_reads_are_flagged(both, how, calls):
    hits = both[0].hits
    read = hits[is_read(hits, both[0], how) & hits["query_id"].eq("q1")]
    assert read["call"].unique().tolist() == calls


def test_calls_of_a_column_count_from_1_and_their_ranks_are_their_own():
    table = pd.DataFrame(
        [("q1", 0, 1, "a"), ("q1", 1, 2, "c"), ("q1", 1, 1, "t"), ("q1", 0, 2, "b")],
        columns=["query_id", "call", "rank", "doc_id"],
    )
    hits = rs.load_results(table).hits.sort_values("rank")
    assert hits["doc_id"].tolist() == ["a", "b", "t", "c"]
    assert hits["call"].tolist() == [1, 1, 2, 2] and hits["rank"].tolist() == [1, 2, 3, 4]
    with refused("twice", "call", field="rank", file="frame"):
        rs.load_results(table.assign(rank=1))


TWICE = pd.DataFrame(
    [("q", 1, "d1", 0.2), ("q", 1, "d1", 0.1), ("q", 1, "d2", 0.9),
     ("q", 2, "d1", 0.1), ("q", 2, "d3", 0.5)],
    columns=["query_id", "call", "doc_id", "score"],
).assign(chunk_id=list("abcde"), rank=[1, 2, 3, 1, 2])  # fmt: skip


def test_ties_order_and_collapsing_closes_up_each_call_by_itself():
    results = rs.load_results(TWICE)
    golden = rs.load_golden({"q": {"d2": 1, "d3": 1}})

    def values(**policies):
        scores = rs.score(results, golden, ["recall@1", "recall@2", "precision@2"], **policies)
        return scores.filter(like="@").iloc[0].tolist()

    # {d1 | d1}, {d1 d1 | d1 d3}
    assert values(match="doc") == [0, 0.5, 0.25]
    # by score {d2 | d3}, {d2 d1 | d3 d1}
    assert values(match="doc", ties="trec") == [1, 1, 0.5]
    # {d1 | d1}, {d1 d2 | d1 d3}
    assert values(match="doc", collapse="doc") == [0, 1, 0.5]


def test_calls_of_a_column_are_counted_in_memory_and_from_a_store(tmp_path):
    frame = pd.DataFrame(
        [("q2", 0, "d"), ("q1", 0, "a"), ("q1", 1, "b"), ("q1", 1, "c")],
        columns=["query_id", "call", "doc_id"],
    )
    results, golden = rs.load_results(frame), rs.load_golden({"q1": ["c"], "q2": ["d"]})
    assert results.calls[["query_id", "call", "n_hits"]].to_numpy().tolist() == [
        ["q1", 1, 1], ["q1", 2, 2], ["q2", 1, 1]
    ]  # fmt: skip
    store = rs.RunStore(tmp_path)
    store.save(results)
    for ev in (rs.evaluate(results, golden), store.evaluate(golden)):
        assert ev.settings["n_several_calls"].tolist() == [1]


def test_scores_of_several_calls_are_lists_of_lists_as_well():
    rows = [{"query_id": "q1", "doc_ids": [["a", "b"], ["c"]], "scores": [[2.0, 1.0], [3.0]]}]
    hits = rs.load_results(rows).hits
    assert hits[["doc_id", "call", "score"]].to_numpy().tolist() == [
        ["a", 1, 2.0], ["b", 1, 1.0], ["c", 2, 3.0]
    ]  # fmt: skip


def test_lists_of_lists_in_rows_are_calls_and_an_empty_one_is_a_call():
    rows = [{"query_id": "q1", "retrieved_ids": [["a"], [], ["b", "c"]]}]
    results = rs.load_results(rows)
    assert results.hits[["doc_id", "call"]].to_numpy().tolist() == [["a", 1], ["b", 3], ["c", 3]]
    assert results.calls["n_hits"].tolist() == [1, 0, 2]
    scores = rs.score(results, rs.load_golden({"q1": {"c": 1}}), ["recall@1", "recall@2"])
    assert scores.loc["q1", ["recall@1", "recall@2"]].tolist() == [0, 1]
    first = rs.score(results, rs.load_golden({"q1": {"a": 1}}), ["mrr"], calls="first")
    assert first.loc["q1", "mrr"] == 1


@rs.metric("n_seen@k", "hits", reads="hits.doc_id", needs=(), better="lower")
def n_seen(lists):
    return lists.total()


@rs.metric("first_right", "rank of the first relevant hit", reads="hits.doc_id")
def first_right(lists):
    return lists.total(lists.rank * (lists.so_far(lists.n_found) == 1) * lists.n_found)


OWN_BY_HAND = {  # q1's calls have 3 and 4 hits, b at 2, t at 1; q3's 1 and 2, and nothing right
    "union": ([np.nan, 2, np.nan], [np.nan, 1, np.nan]),
    "first": ([3, 2, 1], [2, 1, 0]),
    "last": ([3, 2, 2], [1, 1, 0]),  # of q1's 4 within 3
    "each": ([3, 2, 1.5], [1.5, 1, 0]),
    "best": ([3, 2, 1], [np.nan, 1, np.nan]),  # fewer is better; the other has no direction
}


@pytest.mark.parametrize("how", list(OWN_BY_HAND))
def test_a_metric_of_ones_own_sees_each_call_as_a_list(both, how):
    ev = rs.evaluate(*both, [n_seen.label(3), first_right], calls=how)
    for name, expected in zip(("n_seen@3", "first_right"), OWN_BY_HAND[how], strict=True):
        assert ev.scores[name].tolist() == pytest.approx(expected, nan_ok=True), name
    if how == "best":
        told = ev.explain("first_right").set_index("query_id")
        says(told.loc["q1", "reason"], "direction", "'each'")


def test_a_store_counts_calls_without_hits(tmp_path):
    found = {"q1": [["t"], []], "q2": [["x"], ["t"], []], "q3": [["t"]]}
    golden = rs.load_golden({query: {"t": 1} for query in found})
    store = rs.RunStore(tmp_path / "store")
    store.save(rs.load_results(found))
    by_hand = {  # precision@1: one right of two, of three, of one
        "union": [1 / 2, 1 / 3, 1], "first": [1, 0, 1], "last": [0, 0, 1],
        "each": [1 / 2, 1 / 3, 1], "best": [1, 1, 1],
    }  # fmt: skip
    for how, expected in by_hand.items():
        scores = store.score(golden, ["precision@1"], calls=how, part_hits=2)
        assert scores["precision@1"].tolist() == pytest.approx(expected)


def test_a_run_file_keeps_calls_and_what_each_asked(both, tmp_path):
    results, _ = both
    asked = results.calls.assign(query="what?", tool="search", elapsed_ms=1.5)
    results = replace(results, calls=asked)
    again = rs.load_results(results.save(tmp_path / "run", format="per_query"))
    pd.testing.assert_frame_equal(again.calls, results.calls)
    pd.testing.assert_frame_equal(again.hits, results.hits)


CALLS = st.lists(
    st.lists(st.sampled_from("abcde"), max_size=4, unique=True), min_size=1, max_size=3
)


@given(CALLS, st.sets(st.sampled_from("abcde"), min_size=1))
def test_united_calls_find_what_any_finds_within_k_of_each(calls, right):
    golden = rs.load_golden({"q": dict.fromkeys(right, 1), "other": {"a": 1}})
    scores = rs.score(rs.load_results({"q": calls, "other": [["a"]]}), golden)
    for k in (1, 3):
        seen = {doc for one in calls for doc in one[:k]}
        n_right = sum(doc in right for one in calls for doc in one[:k])
        found = scores.loc["q", [f"hit@{k}", f"recall@{k}", f"precision@{k}"]].tolist()
        expected = [
            float(bool(seen & right)), len(seen & right) / len(right), n_right / (k * len(calls))
        ]  # fmt: skip
        assert found == pytest.approx(expected)


@given(CALLS, st.sets(st.sampled_from("abcde"), min_size=1))
def test_each_and_best_are_the_mean_and_the_best_of_the_calls_alone(calls, right):
    names = ["mrr", "ndcg@3", "recall@2"]
    alone = {f"q{n}": [one] for n, one in enumerate(calls)}
    results = rs.load_results({"q": calls, **alone, "other": [["a"]]})
    expected = {name: dict.fromkeys(right, 1) for name in ("q", *alone)}
    golden = rs.load_golden({**expected, "other": {"a": 1}})
    for how, made in (("each", np.mean), ("best", np.max)):
        scores = rs.score(results, golden, names, calls=how)[names].astype(float)
        by_call = made(scores.loc[list(alone)].to_numpy(), axis=0)
        assert scores.loc["q"].tolist() == pytest.approx(by_call.tolist())
