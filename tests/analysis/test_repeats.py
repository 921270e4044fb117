"""SEEDS F.5.11: pass@k and pass^k over repeated trials."""

from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.analysis.repeats import (
    average_repeats,
    pass_at_k,
    pass_power_k,
    repeats,
)
from ragscore.scoring.summary import summarize
from tests.messages import refused, warned


def scores_of(table, metric="hit@1", state=None):
    """A scores frame: `table` has one row of values per query, one column per trial."""
    parts = [
        pd.DataFrame(
            {
                "run_id": f"t{n}",
                "state": (state or {}).get(f"t{n}", "scored"),
                "level": "doc",
                metric: [row[n] for row in table.values()],
            },
            index=pd.Index(list(table), name="query_id"),
        )
        for n in range(len(next(iter(table.values()))))
    ]
    return pd.concat(parts)


THREE = {"q1": [1, 0, 1], "q2": [0, 1, 0]}


def test_three_trials_of_two_queries():
    found = repeats(scores_of(THREE), "hit@1", 2)
    rows = found.per_query.set_index("query_id")
    assert rows["pass@2"].tolist() == pytest.approx([1, 2 / 3])
    assert rows["pass^2"].tolist() == pytest.approx([1 / 3, 0])
    summary = found.summary.set_index("measure")["mean"]
    assert summary.to_dict() == pytest.approx({"pass_rate": 0.5, "pass@2": 5 / 6, "pass^2": 1 / 6})


@pytest.mark.parametrize("n", [1, 7, 40])
def test_both_measures_are_the_ratios_of_binomial_coefficients(n):
    passed = np.arange(n + 1, dtype="float64")
    for k in range(1, n + 1):
        at = [float(1 - Fraction(comb(n - i, k), comb(n, k))) for i in range(n + 1)]
        power = [float(Fraction(comb(i, k), comb(n, k))) for i in range(n + 1)]
        assert pass_at_k(n, passed, k) == pytest.approx(at, rel=1e-12, abs=1e-15)
        assert pass_power_k(n, passed, k) == pytest.approx(power, rel=1e-12, abs=1e-300)


def test_many_trials_neither_overflow_nor_lose_small_probabilities():
    n, k = 100_000, 500
    assert pass_at_k(n, np.array([1.0]), k)[0] == pytest.approx(k / n, rel=1e-12)
    assert pass_power_k(n, np.array([float(n - 1)]), k)[0] == pytest.approx(1 - k / n, rel=1e-10)


def test_a_metric_that_should_be_low_succeeds_at_or_below_the_threshold():
    flags = scores_of({"q": [0, 1]}, "answered_unanswerable")
    assert repeats(flags, "answered_unanswerable", 1).per_query["n_passed"].tolist() == [1]
    times = scores_of({"q": [90.0, 200.0]}, "latency_ms")
    assert repeats(times, "latency_ms", 1, 100).per_query["n_passed"].tolist() == [1]
    with refused("latency_ms", field="threshold"):
        repeats(times, "latency_ms", 1)


def test_a_failed_trial_did_not_succeed_and_a_query_out_of_scope_is_nan():
    scores = scores_of(
        {"q1": [1, np.nan], "q2": [np.nan, np.nan]}, state={"t1": ["failed", "scored"]}
    )
    found = repeats(scores, "hit@1", 2)
    rows = found.per_query.set_index("query_id")
    assert rows.loc["q1", ["n", "n_passed", "pass@2", "pass^2"]].tolist() == [2, 1, 1, 0]
    assert rows.loc["q2", "n"] == 0 and np.isnan(rows.loc["q2", "pass@2"])
    assert found.summary["n"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("k", [0, 4])
def test_k_beyond_the_trials_is_refused(k):
    with refused(k, "all", 3, 1, field="k"):
        repeats(scores_of(THREE), "hit@1", k)


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda s: s.rename(columns={"hit@1": "hit@3"}), ["hit@1"]),
        (lambda s: s.iloc[:-1], ["all", "q2", "answer"]),
        (lambda s: s.assign(state=["scored"] * 5 + ["missing"]), ["all", "q2", "answer"]),
        (lambda s: s.assign(**{"hit@1": [1, 0, 0, 1, 1, np.nan]}), ["all", "q2", "value"]),
        (lambda s: s.assign(**{"hit@1": [1, 0, 0, 1, 1, np.inf]}), ["all", "q2", "value"]),
        (lambda s: pd.concat([s, s.iloc[:1]]), ["all", "q1", "two answers"]),
    ],
)
def test_trials_that_do_not_match_are_refused(spoil, named):
    with refused(*named):
        repeats(spoil(scores_of(THREE)), "hit@1", 2)


def test_runs_of_a_system_are_its_trials(write_golden, write_run):
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["d"]}]))
    ranks = {"a1": ("a", 1, 1), "a2": ("a", 2, 3), "b1": ("b", 1, 1), "b2": ("b", 2, 1)}
    files = [
        write_run(name, [record("q", [hit("c", "d", rank)])], system=system, repeat=repeat)
        for name, (system, repeat, rank) in ranks.items()
    ]
    results = rs.load_results(files)
    scores = rs.score(results, golden, ["hit@1"])
    rows = repeats(scores, "hit@1", 2, runs=results.runs).per_query.set_index("system")
    assert rows["pass^2"].to_dict() == {"a": 0, "b": 1}
    assert repeats(scores, "hit@1", 2, runs=["a1", "b1"]).per_query["pass^2"].tolist() == [1]
    twice = results.runs.assign(repeat=pd.array([1, 1, 1, 2], dtype="Int64"))
    with refused("repeat 1", "a", field="runs.repeat"):
        repeats(scores, "hit@1", 2, runs=twice)
    with refused("nobody", field="runs"):
        repeats(scores, "hit@1", 1, runs=["nobody"])


def repeated_runs(**more):
    """Runs t0, t1, t2: the first two are repeats of system s."""
    return pd.DataFrame(
        {
            "run_id": ["t0", "t1", "t2"],
            "system": ["s", "s", "other"],
            "repeat": pd.array([1, 2, pd.NA], dtype="Int64"),
        }
        | more
    )


def test_repeats_of_a_system_are_averaged_query_by_query_and_other_runs_stay():
    found = average_repeats(
        scores_of(
            {"q1": [1, 0, 1], "q2": [0, 0, 1], "q3": [np.nan, 1, 0], "q4": [np.nan, np.nan, 0]}
        ),
        repeated_runs(),
    )
    table = found.reset_index().pivot(index="query_id", columns="run_id", values="hit@1")
    # q3 has a value in one repeat only, q4 in none
    np.testing.assert_array_equal(
        table[["s", "t2"]].to_numpy(), [[0.5, 1], [0, 1], [1, 0], [np.nan, 0]]
    )
    assert found.index.name == "query_id" and found["run_id"].cat.categories.tolist() == ["s", "t2"]


def test_repeats_leave_n_the_number_of_queries():
    scores = scores_of({f"q{n}": [n % 2, n % 2, 1] for n in range(10)})
    averaged = summarize(average_repeats(scores, repeated_runs()), metrics=["hit@1"])
    row = averaged.set_index("run_id").loc["s"]
    alone = summarize(scores[scores["run_id"] == "t0"], metrics=["hit@1"]).iloc[0]
    assert row[["n", "low", "high"]].tolist() == [10, alone["low"], alone["high"]]


def test_a_query_that_a_repeat_was_not_asked_is_averaged_over_the_others_and_counted():
    scores = scores_of({"q1": [1, 0, 1], "q2": [0, np.nan, 1]}, state={"t1": ["scored", "missing"]})
    with warned("1 of s"):
        found = average_repeats(scores, repeated_runs())
    assert found[found["run_id"] == "s"]["hit@1"].tolist() == [0.5, 0]
    assert found["state"].eq("scored").all()
    with warned("1 of s"):
        average_repeats(scores.iloc[[0, 1, 2, 4, 5]], repeated_runs())


@pytest.mark.parametrize("more", [{"repeat": [pd.NA] * 3}, {"system": ["a", "b", "c"]}])
def test_runs_without_repeats_are_left_as_they_are(more):
    scores = scores_of(THREE)
    found = average_repeats(scores, repeated_runs(**more))
    assert found["hit@1"].tolist() == scores["hit@1"].tolist()
    assert found["run_id"].astype("str").tolist() == scores["run_id"].tolist()


def test_a_run_that_is_called_like_a_system_of_repeats_is_refused():
    with refused("t2", field="runs.system"):
        average_repeats(scores_of(THREE), repeated_runs(system=["t2", "t2", "x"]))
