"""What each search adds: recall after each call, who found what, repeats; and multi-hop traces."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from tests.messages import refused

RUNS = {
    "A": {
        "q1": [["a", "b", "x"], ["t", "c", "b", "y"]],
        "q2": [["u", "v"]],
        "q3": [["x"], ["y", "z"], ["x"]],
    },
    "B": {"q1": [["t"], ["b"]], "q2": [["z"], ["u"]], "q3": [["x"]]},
}
GOLDEN = {"q1": {"t": 1, "b": 1}, "q2": {"u": 1}, "q3": {"w": 1}}


@pytest.fixture(scope="module")
def ev():
    return rs.evaluate(RUNS, GOLDEN)


@pytest.fixture(scope="module")
def report(ev):
    return rs.extras.calls(ev)


def test_recall_after_each_call_keeps_what_a_query_with_fewer_calls_reached(report):
    after = report.after.set_index(["run_id", "call"])
    assert after[["recall", "hit", "n"]].to_numpy() == pytest.approx(np.array([
        [1.5 / 3, 2 / 3, 3], [2 / 3, 2 / 3, 3], [2 / 3, 2 / 3, 3],  # q1 .5 and then 1, q2 1, q3 0
        [0.5 / 3, 1 / 3, 3], [2 / 3, 2 / 3, 3], [2 / 3, 2 / 3, 3],  # q1 .5, 1; q2 0, 1; q3 0
    ]))  # fmt: skip
    assert ((after["low"] < after["recall"]) & (after["recall"] < after["high"])).all()


def test_the_call_that_found_each_target_first_is_named_with_its_rank_there(ev, report):
    keys = ["run_id", "query_id", "target_id"]
    targets = report.targets.set_index(keys)
    assert targets.loc[("A", "q1")].to_numpy().tolist() == [[2, 1], [1, 2]]
    assert targets.loc[("B", "q2", "u")].tolist() == [2, 1]
    assert targets.loc[("A", "q3", "w")].isna().all()
    # within the first hit of each call, b is found by neither
    assert rs.extras.calls(ev, k=1).targets.set_index(keys).loc[("A", "q1", "b"), "call"] is pd.NA
    mixed = rs.evaluate(RUNS, GOLDEN, match="per_query")
    pd.testing.assert_frame_equal(rs.extras.calls(mixed).targets, report.targets)


def test_repeats_and_calls_without_a_new_document_are_counted(report):
    counts = ["n_several", "calls_max", "n_targets", "n_first", "n_later"]
    table = report.table.set_index("run_id")[[*counts, "repeated", "without_new"]]
    # of A's later calls' 4 + 3 hits b and x were there before; of 3 later calls one has only x
    assert table.T.to_dict("list") == {
        "A": [2, 3, 4, 2, 1, pytest.approx(2 / 7), pytest.approx(1 / 3)],
        "B": [2, 2, 4, 1, 2, 0, 0],
    }


def test_calls_and_costs_are_told_by_outcome():
    results = rs.load_results(RUNS["A"])
    results.calls["elapsed_ms"] = [10.0, 20, 5, 1, 2, 3]
    results.responses["cost_usd"] = [0.5, 0.25, 1.0]
    by_outcome = rs.extras.calls(rs.evaluate(results, GOLDEN)).per_query.groupby("outcome")
    means = by_outcome[["n_calls", "elapsed_ms", "cost_usd"]].mean()
    assert (means.loc["all found"].tolist(), means.loc["none found", "n_calls"]) == (
        [1.5, 17.5, 0.375], 3,
    )  # fmt: skip


def test_a_run_with_one_call_each_is_refused():
    with refused(field="results.calls"):
        rs.extras.calls(rs.evaluate({"q1": ["a"]}, {"q1": {"a": 1}}))


def test_calls_stay_known_where_one_call_is_read_alone():
    results = rs.load_results(RUNS)
    hits, keys = results.hits, ["run_id", "query_id"]
    hits = hits[hits["call"] == hits.groupby(keys)["call"].transform("max")]
    hits = hits.assign(rank=hits.groupby(keys)["rank"].rank().astype("int32"))
    last = rs.evaluate(replace(results, hits=hits), GOLDEN)
    assert rs.extras.calls(last.select("A")).table["calls_max"].tolist() == [3]


def test_a_call_of_another_tool_is_no_search():
    results = rs.load_results({"q": [["a"], ["b"]], "r": [["c"]]})
    other = results.calls.iloc[:1].assign(call=[3], n_hits=pd.array([pd.NA], dtype="Int64"))
    calls = pd.concat([results.calls.astype({"n_hits": "Int64"}), other])
    ev = rs.evaluate(replace(results, calls=calls), {"q": {"b": 1}, "r": {"c": 1}})
    one = rs.evaluate({"A": {"q": [["a"], ["b"]]}, "B": {"q": [["a"]]}}, {"q": ["a"]}, "n_calls")
    assert [*ev.scores["n_calls"], *one.scores["n_calls"]] == [2, 1, 2, 1], "one search is a call"
    assert rs.extras.calls(ev).table["calls_max"].tolist() == [2]


# Traces of multi-hop answers: read, written back, and added up


def step(number, kind, ms, **more):
    return {
        "iter": number, "kind": kind, "sub_queries": [], "context_chunks_added": 0,
        "forced_stop": False, "llm_call_ms": ms,
    } | more  # fmt: skip


TRACE = [
    step(0, "decompose", 100, sub_queries=["a?", "b?"]),
    step(1, "decide", 0, context_chunks_added=3),
    step(2, "synthesize", 500, forced_stop=True, seen=4),
]
SHORT = [step(0, "decompose", 300), step(1, "synthesize", 100, context_chunks_added=2)]


@pytest.fixture
def load(write_run):
    """Load a run whose answers have these traces; None: an answer without one."""

    def load(*traces):
        answers = [answer("x", **({} if one is None else {"hops": one})) for one in traces]
        records = [record(f"q{n}", [hit("c", "d", 1)], answer=one) for n, one in enumerate(answers)]
        return rs.load_results(write_run("r", records))

    return load


def test_steps_are_rows_and_come_back_as_they_were_written(load, tmp_path):
    results = load(TRACE, SHORT, None)
    steps = results.calls[["query_id", "call", "kind"]].to_numpy().tolist()
    assert steps == [
        ["q0", 1, "decompose"], ["q0", 2, "decide"], ["q0", 3, "synthesize"],
        ["q1", 1, "decompose"], ["q1", 2, "synthesize"],
    ]  # fmt: skip
    assert results.calls["sub_queries"].tolist()[:2] == ['["a?", "b?"]', "[]"]
    assert results.calls["x_seen"].iloc[2] == 4
    again = rs.load_results(results.save(tmp_path / "copy" / "r", format="per_query"))
    pd.testing.assert_frame_equal(again.calls, results.calls)
    pd.testing.assert_frame_equal(again.responses, results.responses)


@pytest.mark.parametrize(
    "hops",
    [
        TRACE, [], [{"iter": 3}],
        [{"iter": 2, "kind": "decide", "llm_call_ms": 7.5}, {"iter": 1}],
    ],
)  # fmt: skip
def test_what_a_step_does_not_say_is_not_made_up(load, tmp_path, hops):
    written = load(hops).save(tmp_path / "copy", format="per_query").read_text()
    assert json.loads(written)["answer"].get("hops", []) == hops


def test_steps_without_numbers_are_numbered_in_order(load):
    assert load([{"kind": "decide"}, {"kind": "synthesize"}]).calls["call"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "bad",
    [
        "text", [1], [step(0, "a", 1), step(0, "b", 1)],
        [step(0, "a", 1, sub_queries=3)], [step(0, "a", 1, forced_stop="no")],
    ],
)  # fmt: skip
def test_what_is_no_trace_is_named_by_line(load, bad):
    with refused("answer.hops", file="per_query.jsonl", line=1):
        load(bad)
