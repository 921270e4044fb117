"""Frames of a golden set or of results that are changed after a first evaluation."""

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused

# D1 and d1: what is changed is how ids are written
pytestmark = pytest.mark.filterwarnings("ignore:ids of:UserWarning")


@pytest.fixture
def given():
    golden = rs.load_golden({"q0": ["D1"], "q1": ["D2"]})
    return golden, rs.load_results({"q0": ["d1"], "q1": ["D2"]})


def found(golden, results, metric="hit@5"):
    return rs.evaluate(results, golden, metric).scores[metric].tolist()


def test_changed_ids_of_targets_count_in_the_next_evaluation_alone(given):
    golden, results = given
    first, before = rs.evaluate(results, golden, "hit@5"), golden.golden_hash
    golden.targets["doc_id"] = golden.targets["doc_id"].str.lower()
    assert found(*given) == [1, 0] and golden.golden_hash != before
    # the first evaluation has frames of its own
    assert first.golden.golden_hash == before and first.summary("mrr")["mean"].tolist() == [0.5]


def test_changed_queries_count(given):
    given[0].queries["answerable"] = pd.array([True, False], "boolean")
    assert found(*given) == [0, pytest.approx(float("nan"), nan_ok=True)]
    given[0].queries["query_id"] = ["q0", "q7"]
    with refused("q1", field="targets.query_id"):
        found(*given)


@pytest.mark.parametrize("is_replaced", [True, False])
@pytest.mark.parametrize(
    ("name", "column", "values", "metric", "expected"),
    [
        ("hits", "doc_id", ["d1", "d2"], "hit@5", [0, 0]),
        ("responses", "error", "broken", "failed", [1, 1]),
        ("hits", "run_id", "run", "hit@5", [0, 1]),  # texts, which become categories again
    ],
)
def test_changed_results_count(given, name, column, values, metric, expected, is_replaced):
    golden, results = given
    first = rs.evaluate(results, golden, ["hit@5", "failed"])
    if is_replaced:
        setattr(results, name, getattr(results, name).assign(**{column: values}))
    else:
        getattr(results, name)[column] = values
    assert found(golden, results, metric) == expected
    assert first.summary("mrr")["mean"].tolist() == [0.5]


def test_changed_columns_are_checked_like_new_ones(given):
    given[1].hits["rank"] = "first"
    with refused("first"):
        found(*given)
