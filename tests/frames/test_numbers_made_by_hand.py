"""Numbers in frames made by hand that no column can hold as they are."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused

HUGE = [10**30, -(10**30), 2**63, 10**400]
WHOLE = [("runs", "k"), ("responses", "prompt_tokens"), ("hits", "rank"), ("hits", "start")]
FINITE = [("responses", "elapsed_ms"), ("responses", "latency_search_ms"),
          ("responses", "cost_usd"), ("judgments", "value")]  # fmt: skip


def results_with(frame, column, value):
    key = {"run_id": ["a"], "query_id": ["q"]}
    frames = {
        "runs": {"run_id": ["a"]},
        "responses": key,
        "hits": key | {"rank": [1], "doc_id": ["d"]},
        "judgments": key | {"criterion": ["c"], "item": [""], "value": [1.0]},
        "reported": key | {"metric": ["theirs"], "value": [1.0]},
    }
    frames[frame] = frames[frame] | {column: [value]}
    return rs.Results(**{name: pd.DataFrame(columns) for name, columns in frames.items()})


@pytest.mark.parametrize("value", [*HUGE, np.inf, -np.inf, "1e999"], ids=lambda one: str(one)[:9])
@pytest.mark.parametrize(("frame", "column"), WHOLE)
def test_a_whole_number_beyond_its_column_names_the_field(frame, column, value):
    with refused(frame, column, 0):
        results_with(frame, column, value)


@pytest.mark.parametrize("value", [np.inf, -np.inf, "1e999", "inf"])
@pytest.mark.parametrize(("frame", "column"), FINITE[:1] + FINITE[2:])
def test_a_time_a_cost_and_a_verdict_are_finite(frame, column, value):
    with refused(frame, column, 0):
        results_with(frame, column, value)


def test_the_time_of_a_phase_is_finite():
    with refused(0, field="responses.latency_search_ms"):
        results_with("responses", "latency_search_ms", np.inf)


@pytest.mark.parametrize(("frame", "column"), FINITE)
def test_nan_is_unknown_and_no_error(frame, column):
    assert getattr(results_with(frame, column, np.nan), frame)[column].isna().all()


def test_scores_and_reported_values_may_be_infinite():
    assert results_with("hits", "score", -np.inf).hits["score"].tolist() == [-np.inf]
    assert results_with("reported", "value", np.inf).reported["value"].tolist() == [np.inf]


@pytest.mark.parametrize("value", ["1e999", "-1e400"])
def test_a_score_that_overflows_is_no_infinity(value):
    with refused(0, 64, field="hits.score"):
        results_with("hits", "score", value)
    with refused(file="frame", line=1, field="score"):
        rs.load_results(pd.DataFrame({"query_id": ["q"], "doc_id": ["d"], "score": [value]}))


def test_a_score_of_many_digits_is_refused_in_a_dict_too():
    with refused("a mapping", file="dict", line=1, field="doc_id"):
        rs.load_results({"q": {"d": 10**400}})


@pytest.mark.parametrize("value", HUGE[:2])
def test_a_column_of_ones_own_holds_whole_numbers_of_64_bits(value):
    with refused(0, 64, field="responses.x_n"):
        results_with("responses", "x_n", value)
    with refused(0, field="queries.x_n"):
        rs.Golden(pd.DataFrame({"query_id": ["q"], "x_n": [value]}))


@pytest.mark.parametrize("value", [*HUGE, np.inf, np.nan])
def test_a_grade_beyond_its_column_names_the_field(value):
    target = {"query_id": ["q"], "level": ["doc"], "target_id": ["t"], "grade": [value]}
    with refused(0, field="targets.grade"):
        rs.Golden(pd.DataFrame({"query_id": ["q"]}), pd.DataFrame(target))
