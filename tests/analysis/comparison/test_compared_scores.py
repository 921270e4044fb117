"""Rows of an evaluation are compared as they are, columns of one's own with the rest."""

import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from tests.compared import compare_runs
from tests.messages import refused

N = 40


@pytest.fixture
def runs(write_golden, write_run):
    """Two runs that find everything; half of the queries are easy."""
    rows = [
        {
            "id": f"q{n:02}",
            "query": "?",
            "expected_doc_ids": ["d"],
            "difficulty": "easy" if n % 2 else "hard",
        }
        for n in range(N)
    ]
    records = [record(row["id"], [hit("c", "d", 1)]) for row in rows]
    results = rs.load_results([write_run("old", records), write_run("new", records)])
    return results, rs.load_golden(write_golden(rows))


def lengths(results, old, new):
    """One row per run and query: a value of about `old` or `new`; 0 and 1 in turn beside it."""
    rows = results.responses[["run_id", "query_id"]].astype("str")
    place = rows.groupby("run_id").cumcount()
    base = rows["run_id"].map({"old": old, "new": new})
    odd = rows["run_id"].eq("new") * (place % 4 // 2)
    return rows.assign(length_of_answer=base + place % 3 + odd)


def test_the_rows_given_are_those_that_are_compared(pair):
    results, golden = pair
    scores = rs.score(results, golden)
    given = compare_runs(results, golden, "a", "b", scores=scores)
    anew = compare_runs(results, golden, "a", "b")
    pd.testing.assert_frame_equal(given.deltas, anew.deltas)
    pd.testing.assert_frame_equal(given.per_query, anew.per_query)
    other = compare_runs(results, golden, "a", "b", metrics="mrr", scores=scores.assign(mrr=0.25))
    assert other.deltas[["metric", "baseline", "candidate"]].values.tolist() == [
        ["mrr", 0.25, 0.25]
    ]


@pytest.mark.parametrize(("better", "word"), [("lower", "better"), ("higher", "worse")])
def test_a_column_of_ones_own_is_compared_gated_and_sliced_in_its_direction(runs, better, word):
    results, golden = runs
    name = f"length_{better}"
    frame = lengths(results, 100, 90).rename(columns={"length_of_answer": name})
    ev = rs.evaluate(results, golden, ["mrr"]).with_columns(frame, better=better)
    cmp = ev.compare("old", "new", name)
    row = cmp.deltas.set_index("metric").loc[name]
    # 100 + n % 3 against 90 + n % 3 + 0, 0, 1, 1 in turn: 13·(0 + 1 + 2) / 40 = .975 above the base
    assert row[["baseline", "candidate", "delta"]].tolist() == pytest.approx(
        [100.975, 91.475, -9.5]
    )
    assert (row["verdict"], row["n"]) == (word, N)
    assert cmp.gate({name: 5}).passed is (word == "better")
    sliced = cmp.slices("difficulty", name)
    own = sliced.table[sliced.table["metric"] == name]
    assert own[["difficulty", "n"]].values.tolist() == [["easy", 20], ["hard", 20]]
    assert own["high"].lt(0).all()
    assert own["delta"].tolist() == pytest.approx([-9.5, -9.5])


def test_a_gate_wants_to_know_which_direction_is_better(runs):
    results, golden = runs
    frame = lengths(results, 100, 90).rename(columns={"length_of_answer": "undirected"})
    cmp = rs.evaluate(results, golden, ["mrr"]).with_columns(frame).compare("old", "new")
    own = rs.evaluate(results, golden, ["mrr"]).with_columns(frame)
    row = own.compare("old", "new", "undirected").deltas.iloc[0]
    assert row["high"] < 0 and pd.isna(row["verdict"])
    with refused("undirected", "higher", "lower", "ev.with_columns", field="max_drop"):
        cmp.gate({"undirected": 1})


def test_a_comparison_from_json_says_what_its_slices_need(pair):
    again = rs.Comparison.from_json(compare_runs(*pair, "a", "b").to_json())
    with refused("JSON", "scores", "rs.evaluate(results, golden).compare(baseline", field="scores"):
        again.slices("difficulty")


def test_a_trend_of_an_evaluation_follows_its_own_columns(runs):
    results, golden = runs
    frame = lengths(results, 100, 90).rename(columns={"length_of_answer": "length_followed"})
    ev = rs.evaluate(results, golden, ["mrr"]).with_columns(frame)
    means = ev.trend("length_followed", order=["old", "new"]).table["mean"]
    assert means.tolist() == ev.summary("length_followed")["mean"].tolist()
