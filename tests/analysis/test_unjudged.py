"""`ev.unjudged`: what means could be if unjudged hits had labels."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, warned

GOLDEN = [
    {"id": "q1", "query": "one", "expected_doc_ids": ["a"]},
    {"id": "q2", "query": "two", "expected_doc_ids": ["b", {"any": ["no"], "grade": 0}]},
    {"id": "q3", "query": "three", "answerable": False},
    {"id": "q4", "query": "four"},
]
RUNS = {
    "old": {"q1": ["a", "x"], "q2": ["no", "b"], "q3": ["a"], "q4": ["z"]},
    "new": {"q1": ["y", "a"], "q2": ["b"], "q3": [], "q4": ["z"]},
}
METRICS = ["hit@1", "recall@1", "mrr@10"]


@pytest.fixture
def ev():
    with warned("1 of 4"):
        golden = rs.load_golden(GOLDEN)
    return rs.evaluate(rs.load_results(RUNS), golden, [*METRICS, "judged@1", "judged@10", "passed"])


def test_the_bounds_of_means_worked_by_hand(ev):
    found = ev.unjudged(METRICS)
    table = found.table.set_index(["run_id", "metric"])
    # old: x of q1 alone is unjudged, at rank 2; relevant, it is a target that rank 1 lacks
    # new: y of q1 alone, at rank 1
    expected = {
        ("old", "hit@1"): [1 / 2, 1 / 2, 1 / 2, 1 / 2, 1 / 2, 1.0, 0, 2],
        ("new", "hit@1"): [1 / 2, 1 / 2, 1.0, 1 / 2, 1.0, 1 / 2, 1, 2],
        ("old", "recall@1"): [1 / 2, 1 / 2, 1 / 4, 1 / 4, 1 / 2, 1.0, 0, 2],
        ("new", "recall@1"): [1 / 2, 1 / 2, 3 / 4, 1 / 2, 3 / 4, 1 / 2, 1, 2],
        ("old", "mrr@10"): [3 / 4, 3 / 4, 3 / 4, 3 / 4, 3 / 4, 3 / 4, 1, 2],
        ("new", "mrr@10"): [3 / 4, 3 / 4, 1.0, 3 / 4, 1.0, 3 / 4, 1, 2],
    }
    columns = ["mean", "all_irrelevant", "all_relevant", "low", "high", "judged", "n_unjudged", "n"]
    for key, values in expected.items():
        assert table.loc[key, columns].tolist() == pytest.approx(values), key
    one = found.per_query.query("run_id == 'new' and metric == 'mrr@10'").set_index("query_id")
    assert one.loc["q1", ["value", "low", "high"]].tolist() == [0.5, 0.5, 1]


def test_judged_and_the_mean_are_those_of_the_summary(demo):
    found = demo.unjudged(["ndcg@10", "recall@5", "mrr"]).table
    for metric, judged in (("ndcg@10", "judged@10"), ("recall@5", "judged@5")):
        rows = found[found["metric"] == metric]
        means = demo.scores.groupby("run_id", observed=True)[[metric, judged]].mean()
        assert rows["run_id"].tolist() == means.index.tolist()
        np.testing.assert_allclose(rows[["mean", "judged"]], means, rtol=0, atol=1e-12)
    assert ((found["low"] <= found["mean"]) & (found["mean"] <= found["high"])).all()
    np.testing.assert_allclose(found["mean"], found["all_irrelevant"], rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def demo():
    return rs.evaluate("data/demo/runs/*/per_query.jsonl", "data/demo/golden.yaml")


def test_by_default_every_ranking_metric_that_was_scored_is_bounded(ev):
    assert ev.unjudged().table["metric"].unique().tolist() == METRICS
    with refused("passed", "judged@1", field="metrics"):
        ev.unjudged(["passed", "judged@1", "mrr@10"])


def test_a_suffix_asks_for_bounds_at_its_own_level(ev):
    plain, suffixed = (ev.unjudged(name).table for name in ("mrr@10", "mrr@10:doc"))
    assert suffixed["metric"].unique().tolist() == ["mrr@10:doc"]
    pd.testing.assert_frame_equal(suffixed.drop(columns="metric"), plain.drop(columns="metric"))


def test_what_judged_only_hides_lowers_the_score_where_it_is_irrelevant():
    golden = rs.load_golden([
        {"id": "q", "query": "?", "expected_doc_ids": ["a", {"any": ["no"], "grade": 0}]}
    ])  # fmt: skip
    ev = rs.evaluate(rs.load_results({"q": ["x", "a"]}), golden, ["mrr"], judged_only=True)
    (row,) = ev.unjudged().table.to_dict("records")
    names = ("mean", "all_irrelevant", "all_relevant", "low", "high")
    assert [row[name] for name in names] == [1, 1 / 2, 1, 1 / 2, 1]


def test_a_query_that_a_policy_gives_its_value_is_open_to_labels():
    golden = rs.load_golden([{"id": "q", "query": "?", "expected_doc_ids": ["a"]},
                             {"id": "r", "query": "?", "answerable": True, "expected_doc_ids":
                              [{"any": ["no"], "grade": 0}]}])  # fmt: skip
    results = rs.load_results({"q": ["a"], "r": ["x"]})
    ev = rs.evaluate(results, golden, ["mrr"], empty_gold="one")
    rows = ev.unjudged().per_query.set_index("query_id")[["value", "low", "high"]]
    assert rows.loc["q"].tolist() == [1, 1, 1] and rows.loc["r"].tolist() == [1, 0, 1]
