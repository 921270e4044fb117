"""Slices.

Means beside the rest, two runs slice by slice, small slices marked.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import ragscore as rs
from ragscore.analysis.slices import compare_slices, slice_means
from ragscore.scoring.summary import summarize
from ragscore.stats import mean_interval
from ragscore.stats.paired import welch
from tests.messages import refused


def golden_of(write_golden, kinds, **more):
    """One query per letter of `kinds`: its difficulty is easy (e), hard (h) or medium (m)."""
    words = {"e": "easy", "h": "hard", "m": "medium"}
    rows = [
        {"id": f"q{n:03}", "query": "?", "expected_doc_ids": ["d"], "difficulty": words[kind]}
        for n, kind in enumerate(kinds)
    ]
    return rs.load_golden(
        write_golden(
            [row | {name: values[n] for name, values in more.items()} for n, row in enumerate(rows)]
        )
    )


def scores_of(golden, metric="hit@5", **runs):
    index = pd.Index(golden.queries["query_id"], name="query_id")
    return pd.concat(
        [
            pd.DataFrame(
                {
                    "run_id": run_id,
                    "state": "scored",
                    "level": "doc",
                    metric: np.array(values, dtype=float),
                },
                index=index,
            )
            for run_id, values in runs.items()
        ]
    )


@pytest.fixture
def uneven(write_golden):
    """20 easy queries, all passed; 20 hard ones, 5 passed; 3 of medium."""
    golden = golden_of(write_golden, "e" * 20 + "h" * 20 + "m" * 3)
    return scores_of(golden, a=[1] * 20 + [1] * 5 + [0] * 15 + [1, 0, 0]), golden


def test_a_slice_stands_beside_the_rest_of_the_run(uneven):
    scores, golden = uneven
    row = slice_means(scores, golden, "difficulty").set_index("difficulty").loc["hard"]
    assert (row["n"], row["mean"], row["n_rest"]) == (20, 0.25, 23)
    assert row["delta_rest"] == pytest.approx(0.25 - 21 / 23)
    values = scores["hit@5"].to_numpy()
    _, low, high, p = welch(values, golden.queries["difficulty"].eq("hard").to_numpy())
    assert row[["delta_low", "delta_high", "p"]].tolist() == [low[0], high[0], p[0]]
    low, high = mean_interval(values[20:40], "binary")
    assert (row["low"], row["high"]) == (low[0], high[0])


def test_slices_under_ten_queries_are_marked(uneven):
    table = slice_means(*uneven, "difficulty").set_index("difficulty")
    assert table["is_small"].to_dict() == {"easy": False, "hard": False, "medium": True}
    assert not slice_means(*uneven, "difficulty", min_n=3)["is_small"].any()


def test_times_by_slice_are_not_compared_with_the_rest(uneven):
    scores, golden = uneven
    times = slice_means(scores.rename(columns={"hit@5": "latency_ms"}), golden, "difficulty")
    assert times[["delta_rest", "delta_low", "p"]].isna().all(axis=None)


def test_slices_of_a_pair_of_columns_are_all_combinations_that_occur(write_golden):
    golden = golden_of(write_golden, "eehh", tags=[["x"], ["x", "y"], ["y"], []])
    table = slice_means(scores_of(golden, a=[1, 0, 1, 1]), golden, ("difficulty", "tag"))
    assert table.set_index(["difficulty", "tag"])[["n", "mean"]].to_dict("index") == {
        ("easy", "x"): {"n": 2, "mean": 0.5}, ("easy", "y"): {"n": 1, "mean": 0},
        ("hard", "(none)"): {"n": 1, "mean": 1}, ("hard", "y"): {"n": 1, "mean": 1},
    }  # fmt: skip


def test_means_by_slice_are_those_of_summarize(uneven):
    columns = ["difficulty", "mean", "low", "high", "n"]
    ours = slice_means(*uneven, "difficulty")[columns]
    theirs = summarize(*uneven, by="difficulty")[columns]
    pd.testing.assert_frame_equal(ours, theirs, check_dtype=False)


def test_two_runs_are_compared_slice_by_slice(write_golden):
    golden = golden_of(write_golden, "e" * 12 + "h" * 12 + "m" * 4)
    a, b = [1] * 12 + [0] * 16, [1] * 12 + [1] * 8 + [0] * 4 + [1] * 4
    compared = compare_slices(scores_of(golden, a=a, b=b), golden, "difficulty", "a", "b")
    table = compared.table.set_index("difficulty")
    assert table["delta"].to_dict() == pytest.approx({"easy": 0, "hard": 8 / 12, "medium": 1})
    assert table["n"].to_dict() == {"easy": 12, "hard": 12, "medium": 4}
    assert table["p"].tolist()[:2] == pytest.approx([1, 2 * norm.sf(8 / 8**0.5)])
    assert table["low"].gt(0).tolist() == [False, True, True] and "verdict" not in table
    assert table["is_small"].tolist() == [False, False, True]
    assert compared.overall["delta"].iloc[0] == pytest.approx(12 / 28)


@pytest.mark.parametrize(
    ("by", "named"),
    [(["difficulty", "difficulty"], "difficulty"), ("x", "x"), ("mean", "mean")],
)
def test_what_cannot_be_sliced_is_refused(uneven, by, named):
    with refused(named, field="by"):
        slice_means(*uneven, by)
