"""Per-query values from elsewhere as metrics."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.leaderboard import leaderboard
from ragscore.analysis.slices import compare_slices
from ragscore.scoring.summary import add_columns, summarize
from tests.messages import names, refused, says


@pytest.fixture
def scores(pair):
    return rs.score(*pair, ["hit@1"])


def table_of(scores, values, **more):
    return pd.DataFrame(
        {
            "run_id": scores["run_id"].astype("str").to_numpy(),
            "query_id": scores.index,
            "judge.faithfulness": values,
            **more,
        }
    )


def test_values_that_could_not_be_measured_are_left_out_of_the_mean(scores):
    joined = add_columns(scores, table_of(scores, [1, 0.5, np.nan, 0, 0, 0]))
    row = summarize(joined, metrics=["judge.faithfulness"]).iloc[0]
    assert (row["n"], row["mean"]) == (2, 0.75)


def test_rows_are_joined_by_run_and_query_not_by_place(scores):
    table = table_of(scores, np.arange(6.0))
    assert add_columns(scores, table.iloc[::-1])["judge.faithfulness"].tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    # the scores given stay as they are
    assert list(scores.columns) == ["run_id", "state", "level", "hit@1"]


def test_columns_may_be_named(scores):
    table = table_of(scores, 1.0, plain=2.0)
    assert (
        "plain" not in add_columns(scores, table)
        and add_columns(scores, table, ["plain"])["plain"].eq(2).all()
    )
    with refused("nothing", field="columns"):
        add_columns(scores, table, ["nothing"])
    with refused(field="columns") as none_left:
        add_columns(scores, table[["run_id", "query_id", "plain"]])
    assert not names(str(none_left.value), "nothing")
    with refused("judge.faithfulness", field="columns"):
        add_columns(add_columns(scores, table), table)


@pytest.mark.large
def test_queries_that_a_run_was_not_asked_need_no_row(pair, scores):
    state = scores["state"].astype("str").to_numpy()
    state[5] = "missing"
    gap = scores.assign(state=state)
    assert np.isnan(add_columns(gap, table_of(scores, 1.0).iloc[:5])["judge.faithfulness"].iloc[5])


@pytest.mark.large
@pytest.mark.parametrize("falls", [True, False])
def test_of_a_column_of_your_own_the_movement_is_named_and_not_valued(write_golden, falls):
    golden = rs.load_golden(
        write_golden(
            [
                {"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"], "lang": "en"}
                for n in range(40)
            ]
        )
    )
    index = pd.Index(golden.queries["query_id"], name="query_id")
    runs = {"a": [1.0] * 30 + [0.0] * 10, "b": [0.0] * 40}
    values = pd.concat(
        [
            pd.DataFrame(
                {"run_id": name, "state": "scored", "level": "doc", "fault": one}, index=index
            )
            for name, one in runs.items()
        ]
    )
    baseline, candidate = ("a", "b") if falls else ("b", "a")
    word = "lower" if falls else "higher"
    board = leaderboard(values, baseline=baseline)
    row = board.table.set_index("run_id").loc[candidate]
    assert row["verdict"] == word
    says(row["sentence"], word)
    says(board.sentences["fault"], "fault", "a", word)
    assert not {"better", "worse", "leads"} & set(repr(board).split())
    assert compare_slices(values, golden, "lang", baseline, candidate).table[
        "verdict"
    ].tolist() == [word]
