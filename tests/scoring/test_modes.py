"""Slices by the mode of responses: by run, and compared where both runs used the same one."""

import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.scoring.modes import response_modes
from tests.messages import refused, says, warned

FOUND, MISSED = [hit("c1", "d1", 1)], [hit("c2", "d2", 1)]
# query: (mode, found) in run a, and in run b
MODES = {
    "q1": (("fast", True), ("fast", False)),
    "q2": (("fast", False), ("fast", True)),
    "q3": (("deep", True), ("deep", True)),
    "q4": (("deep", False), ("fast", True)),
    "q5": (("fast", True), (None, True)),
}


def records(place):
    return [
        record(query_id, FOUND if found else MISSED, mode=mode)
        for query_id, of_runs in MODES.items()
        for mode, found in [of_runs[place]]
    ]


@pytest.fixture
def golden(write_golden):
    rows = [{"id": name, "query": "?", "expected_doc_ids": ["d1"]} for name in MODES]
    return rs.load_golden(write_golden(rows))


@pytest.fixture
def ev(golden, write_run):
    runs = [write_run("a", records(0)), write_run("b", records(1))]
    return rs.evaluate(rs.load_results(runs), golden)


def test_means_by_mode_are_over_each_run_s_own_responses(ev):
    means = ev.summary("hit@1", by="mode").set_index(["run_id", "mode"])
    assert means["n"].to_dict() == {
        ("a", "deep"): 2, ("a", "fast"): 3, ("b", "(none)"): 1, ("b", "deep"): 1, ("b", "fast"): 3,
    }  # fmt: skip
    assert means["mean"].round(3).to_dict() == {
        ("a", "deep"): 0.5, ("a", "fast"): 0.667, ("b", "(none)"): 1, ("b", "deep"): 1,
        ("b", "fast"): 0.667,
    }  # fmt: skip
    assert isinstance(ev.summary("hit@1", by="mode")["run_id"].dtype, pd.CategoricalDtype)


def test_slices_by_mode_are_set_against_the_rest_of_their_run(ev):
    rows = ev.slices("mode", "hit@1", min_n=1).set_index(["run_id", "mode"])
    assert rows.loc[("a", "fast"), ["mean", "mean_rest"]].tolist() == pytest.approx([2 / 3, 0.5])
    assert rows.loc[("b", "fast"), "n_rest"] == 2


def test_modes_are_compared_where_both_runs_have_the_same_one(ev):
    found = ev.compare("a", "b").slices("mode", "hit@1")
    table = found.table.set_index("mode")
    # q4 was answered in another mode; of q5 only one run says how
    assert table["n"].to_dict() == {"deep": 1, "fast": 3}
    assert table.loc["fast", ["baseline", "candidate"]].tolist() == pytest.approx([2 / 3, 2 / 3])
    assert found.n_changed == 1
    says("\n".join(found.notes()), 1, "modes")


def test_runs_without_a_mode_in_common_are_not_compared_by_mode(golden, write_run):
    runs = [
        write_run(name, [record(query_id, FOUND, mode=name) for query_id in MODES])
        for name in ("a", "b")
    ]
    cmp = rs.evaluate(rs.load_results(runs), golden).compare("a", "b")
    with refused("a", "b", field="by"):
        cmp.slices("mode")


def test_a_mode_may_stand_in_the_run_s_config(golden, write_run):
    rows = [record(query_id, FOUND, mode=None) for query_id in MODES]
    write_run("a", rows, config={"folder_mode": "on"})
    results = rs.load_results(write_run("a", rows, config={"folder_mode": "on"}))
    assert response_modes(results)["mode"].unique().tolist() == ["on"]
    assert rs.evaluate(results, golden).summary("hit@1", by="mode")["mode"].tolist() == ["on"]


def test_without_any_mode_the_error_says_where_one_may_stand(golden, write_run):
    results = rs.load_results(write_run("a", [record("q1", FOUND, mode=None)]))
    with (
        warned("a", 4, "missing"),
        refused("mode", field="by"),
    ):
        rs.evaluate(results, golden).summary("hit@1", by="mode")
