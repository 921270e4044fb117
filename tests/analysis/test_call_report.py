"""What each search adds: recall after each call, who found what, and what is repeated."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd
import pytest

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


def test_recall_after_each_call_keeps_what_a_query_with_fewer_calls_reached(ev):
    after = rs.extras.calls(ev).after.set_index(["run_id", "call"])
    # q1 .5 and then 1, q2 1, q3 0 | q1 .5 and then 1, q2 0 and then 1, q3 0
    assert after["recall"].tolist() == pytest.approx([1.5 / 3, 2 / 3, 2 / 3, 0.5 / 3, 2 / 3, 2 / 3])
    assert after["hit"].tolist() == pytest.approx([2 / 3] * 3 + [1 / 3, 2 / 3, 2 / 3])
    assert after["n"].tolist() == [3] * 6
    assert ((after["low"] < after["recall"]) & (after["recall"] < after["high"])).all()


def test_the_call_that_found_each_target_first_is_named_with_its_rank_there(ev):
    keys = ["run_id", "query_id", "target_id"]
    targets = rs.extras.calls(ev).targets.set_index(keys)
    assert targets.loc[("A", "q1")].to_numpy().tolist() == [[2, 1], [1, 2]]
    assert targets.loc[("B", "q2", "u")].tolist() == [2, 1]
    assert targets.loc[("A", "q3", "w")].isna().all()
    # within the first hit of each call, b is found by neither
    assert rs.extras.calls(ev, k=1).targets.set_index(keys).loc[("A", "q1", "b"), "call"] is pd.NA


def test_repeats_and_calls_without_a_new_document_are_counted(ev):
    table = rs.extras.calls(ev).table.set_index("run_id")
    # of the later calls' 4 + 3 hits b and x were there before; of 3 later calls one has only x
    assert table.loc["A", ["repeated", "without_new"]].tolist() == pytest.approx([2 / 7, 1 / 3])
    assert table.loc["B", ["repeated", "without_new"]].tolist() == [0, 0]
    assert table["n_several"].tolist() == [2, 2] and table["calls_max"].tolist() == [3, 2]
    assert table[["n_targets", "n_first", "n_later"]].to_numpy().tolist() == [[4, 2, 1], [4, 1, 2]]


def test_calls_and_costs_are_told_by_outcome():
    results = rs.load_results(RUNS["A"])
    calls = results.calls.assign(elapsed_ms=[10.0, 20, 5, 1, 2, 3])
    responses = results.responses.assign(cost_usd=[0.5, 0.25, 1.0])
    results = rs.Results(results.runs, responses, results.hits, calls=calls)
    rows = rs.extras.calls(rs.evaluate(results, GOLDEN)).per_query
    means = rows.groupby("outcome")[["n_calls", "elapsed_ms", "cost_usd"]].mean()
    assert means.loc["all found"].tolist() == [1.5, 17.5, 0.375]
    assert means.loc["none found", "n_calls"] == 3


def test_a_run_with_one_call_each_is_refused():
    with refused(field="results.calls"):
        rs.extras.calls(rs.evaluate({"q1": ["a"]}, {"q1": {"a": 1}}))


def test_its_picture_has_a_line_for_each_run(ev):
    ax = rs.extras.calls(ev).plot()
    lines = [line.get_ydata().tolist() for line in ax.get_lines() if len(line.get_ydata()) == 3]
    plt.close("all")
    assert [one[0] for one in lines] == pytest.approx([1.5 / 3, 0.5 / 3])


def test_a_comparison_ranks_targets_in_the_sequence_that_was_seen():
    runs = {
        "A": {"q1": [["a", "b", "x"]], "q2": [["u", "v"]], "q3": [["c", "d", "e", "w"]]},
        "B": {"q1": [["a"], ["b"]], "q2": [["v", "u"], ["z"]], "q3": [["c", "d", "w"], ["w"]]},
    }
    found = rs.evaluate(runs, {"q1": {"b": 1}, "q2": {"u": 1}, "q3": {"w": 1}}, "recall@3")
    rows = found.compare("A", "B").per_query
    # the first call's hits, then the second's
    assert rows["rank_baseline"].tolist() == [2, 1, 4]
    assert rows["rank_candidate"].tolist() == [2, 2, 3]
    assert rows["outcome"].tolist() == ["draw", "loss", "win"]


def test_each_query_may_have_its_own_level(ev):
    mixed = rs.evaluate(RUNS, GOLDEN, match="per_query")
    pd.testing.assert_frame_equal(rs.extras.calls(mixed).targets, rs.extras.calls(ev).targets)


def test_one_call_read_alone_is_a_step_on_hits_and_calls_stay_known():
    results = rs.load_results(RUNS)
    hits, keys = results.hits, ["run_id", "query_id"]
    hits = hits[hits["call"] == hits.groupby(keys)["call"].transform("max")]
    hits = hits.assign(rank=hits.groupby(keys)["rank"].rank().astype("int32"))
    last = rs.evaluate(replace(results, hits=hits), GOLDEN)
    of_q1 = hits[hits["query_id"].eq("q1") & hits["run_id"].eq("A")].sort_values("rank")
    assert of_q1["doc_id"].tolist() == ["t", "c", "b", "y"]
    assert of_q1["rank"].tolist() == [1, 2, 3, 4]
    assert rs.extras.calls(last.select("A")).table["calls_max"].tolist() == [3]


def test_a_call_of_another_tool_is_no_search():
    results = rs.load_results({"q": [["a"], ["b"]], "r": [["c"]]})
    other = results.calls.iloc[:1].assign(call=[3], n_hits=pd.array([pd.NA], dtype="Int64"))
    calls = pd.concat([results.calls.astype({"n_hits": "Int64"}), other])
    ev = rs.evaluate(replace(results, calls=calls), {"q": {"b": 1}, "r": {"c": 1}})
    assert ev.scores["n_calls"].tolist() == [2, 1]
    assert rs.extras.calls(ev).table["calls_max"].tolist() == [2]
