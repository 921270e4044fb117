"""Per-query values from elsewhere as metrics."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.scoring.summary import add_columns, summarize
from tests.messages import names, refused


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


def test_rows_are_joined_by_run_and_query_not_by_place(scores):
    table = table_of(scores, [1, 0.5, np.nan, 0, 0, 0])
    joined = add_columns(scores, table.iloc[::-1])
    np.testing.assert_array_equal(joined["judge.faithfulness"], [1, 0.5, np.nan, 0, 0, 0])
    row = summarize(joined, metrics=["judge.faithfulness"]).iloc[0]
    assert (row["n"], row["mean"]) == (2, 0.75)  # what could not be measured is left out
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
