"""Frames of a golden set or of results that are changed after a first evaluation."""

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused

# D1 and d1: what is changed is how ids are written
pytestmark = pytest.mark.filterwarnings("ignore:ids of:UserWarning")


def given():
    golden = rs.load_golden({"q0": ["D1"], "q1": ["D2"]})
    return golden, rs.load_results({"q0": ["d1"], "q1": ["D2"]})


def hits(golden, results):
    return rs.evaluate(results, golden, "hit@5").scores["hit@5"].tolist()


def lower(column):
    return column.str.lower()


def test_changed_ids_of_targets_count_in_the_next_evaluation_alone():
    golden, results = given()
    first = rs.evaluate(results, golden, "hit@5")
    before = golden.golden_hash
    golden.targets["doc_id"] = lower(golden.targets["doc_id"])
    assert hits(golden, results) == [1, 0]
    assert golden.golden_hash != before
    # the first evaluation has frames of its own
    assert first.golden.golden_hash == before and first.summary("mrr")["mean"].tolist() == [0.5]


def test_changed_queries_count():
    golden, results = given()
    hits(golden, results)
    golden.queries["answerable"] = pd.array([True, False], "boolean")
    (first, second) = hits(golden, results)
    assert first == 0 and second != second
    golden.queries["query_id"] = ["q0", "q7"]
    with refused("q1", field="targets.query_id"):
        hits(golden, results)


@pytest.mark.parametrize("how", ["column", "frame"])
@pytest.mark.parametrize("name", ["hits", "responses"])
def test_changed_results_count(name, how):
    golden, results = given()
    first = rs.evaluate(results, golden, ["hit@5", "failed"])
    frame = getattr(results, name)
    column, new = ("doc_id", lower(frame["doc_id"])) if name == "hits" else ("error", "broken")
    if how == "column":
        frame[column] = new
    else:
        setattr(results, name, frame.assign(**{column: new}))
    scores = rs.evaluate(results, golden, ["hit@5", "failed"]).scores
    assert scores["hit@5"].tolist() == ([0, 0] if name == "hits" else [0, 1])
    assert scores["failed"].tolist() == ([0, 0] if name == "hits" else [1, 1])
    assert first.summary("mrr")["mean"].tolist() == [0.5]


def test_changed_columns_are_checked_like_new_ones():
    golden, results = given()
    hits(golden, results)
    results.hits["run_id"] = "run"  # texts, which become categories again
    assert hits(golden, results) == [0, 1]
    results.hits["rank"] = "first"
    with refused("first"):
        hits(golden, results)
