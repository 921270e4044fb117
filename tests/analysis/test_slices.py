"""Slices.

Means beside the rest, two runs slice by slice, small slices marked.
"""

import numpy as np
import pandas as pd
import pytest
from conftest import scores_of
from scipy.stats import norm

import ragscore as rs
from ragscore.analysis.slices import compare_slices, slice_means
from ragscore.scoring.summary import summarize
from ragscore.stats.paired import welch
from tests.messages import refused

LEVELS = {"e": "easy", "h": "hard", "m": "medium"}


def golden_of(letters, **more):
    """One query per letter: its difficulty is easy (e), hard (h) or medium (m)."""
    rows = [
        {"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"], "difficulty": LEVELS[letter]}
        | {name: values[n] for name, values in more.items()}
        for n, letter in enumerate(letters)
    ]
    return rs.load_golden(rows)


@pytest.fixture(scope="module")
def uneven():
    """20 easy queries, all passed; 20 hard ones, 5 passed; 3 of medium."""
    values = [1] * 20 + [1] * 5 + [0] * 15 + [1, 0, 0]
    return scores_of(a=values), golden_of("e" * 20 + "h" * 20 + "m" * 3)


def test_a_slice_stands_beside_the_rest_of_the_run_and_is_marked_below_ten_queries(uneven):
    scores, golden = uneven
    table = slice_means(scores, golden, "difficulty").set_index("difficulty")
    row = table.loc["hard"]
    assert row[["n", "mean", "n_rest"]].tolist() == [20, 0.25, 23]
    is_hard = golden.queries["difficulty"].eq("hard").to_numpy()
    rest = np.ravel(welch(scores["hit@5"].to_numpy(), is_hard)).tolist()
    found = row[["delta_rest", "delta_low", "delta_high", "p"]].tolist()
    assert found == pytest.approx(rest) and rest[0] == pytest.approx(0.25 - 21 / 23)
    columns = ["mean", "low", "high", "n"]
    theirs = summarize(scores, golden, by="difficulty").set_index("difficulty")[columns]
    pd.testing.assert_frame_equal(table[columns], theirs, check_dtype=False)
    assert table["is_small"].to_dict() == {"easy": False, "hard": False, "medium": True}
    assert not slice_means(*uneven, "difficulty", min_n=3)["is_small"].any()


def test_times_by_slice_are_not_compared_with_the_rest(uneven):
    scores, golden = uneven
    times = slice_means(scores.rename(columns={"hit@5": "latency_ms"}), golden, "difficulty")
    assert times[["delta_rest", "delta_low", "p"]].isna().all(axis=None)


def test_slices_of_a_pair_of_columns_are_all_combinations_that_occur():
    golden = golden_of("eehh", tags=[["x"], ["x", "y"], ["y"], []])
    table = slice_means(scores_of(a=[1, 0, 1, 1]), golden, ("difficulty", "tag"))
    assert table[["difficulty", "tag", "n", "mean"]].to_numpy().tolist() == [
        ["easy", "x", 2, 0.5], ["easy", "y", 1, 0], ["hard", "(none)", 1, 1], ["hard", "y", 1, 1],
    ]  # fmt: skip


def test_two_runs_are_compared_slice_by_slice():
    golden = golden_of("e" * 12 + "h" * 12 + "m")
    scores = scores_of(a=[1] * 12 + [0] * 13, b=[1] * 12 + [1] * 8 + [0] * 4 + [1])
    compared = compare_slices(scores, golden, "difficulty", "a", "b")
    table = compared.table.set_index("difficulty")
    assert table["delta"].to_dict() == pytest.approx({"easy": 0, "hard": 8 / 12, "medium": 1})
    assert table["n"].tolist() == [12, 12, 1] and table["is_small"].tolist() == [False, False, True]
    assert table["p"].tolist()[:2] == pytest.approx([1, 2 * norm.sf(8 / 8**0.5)])
    assert table["low"].gt(0).tolist() == [False, True, False] and "verdict" not in table
    assert compared.overall["delta"].iloc[0] == pytest.approx(9 / 25)
    assert "medium*" in repr(compared) and compared.notes()[1:] == ["* fewer than 10 queries."]
    assert len(compare_slices(scores, golden, "difficulty", "a", "b", min_n=1).notes()) == 1


def test_queries_that_two_runs_answered_in_different_modes_are_left_out():
    found = {"q0": ["d"], "q1": ["x"], "q2": ["d"]}
    results = rs.load_results({"a": found, "b": found})
    results.responses["mode"] = ["text", "text", "text", "text", "text", "vector"]
    ev = rs.evaluate(results, {name: ["d"] for name in found}, ["hit@1"])
    compared = ev.compare("a", "b").slices("mode")
    assert compared.table[["mode", "n", "baseline"]].to_numpy().tolist() == [["text", 2, 0.5]]
    assert compared.n_changed == 1 and "1 queries" in " ".join(compared.notes())
    of_each = ev.slices("mode")[["run_id", "mode", "n"]].to_numpy().tolist()
    assert of_each == [["a", "text", 3], ["b", "text", 2], ["b", "vector", 1]]
    alone = ev.select(queries=["q2"]).compare("a", "b").slices("mode")
    assert alone.table.empty and alone.n_changed == 1


@pytest.mark.parametrize(
    ("by", "named"),
    [(["difficulty", "difficulty"], "difficulty"), ("x", "x"), ("mean", "mean")],
)
def test_what_cannot_be_sliced_is_refused(uneven, by, named):
    with refused(named, field="by"):
        slice_means(*uneven, by)
