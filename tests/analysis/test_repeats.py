"""SEEDS F.5.11: pass@k and pass^k over repeated trials."""

from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest
from conftest import scores_of

import ragscore as rs
from ragscore.analysis.repeats import average_repeats, pass_at_k, pass_power_k, repeats
from ragscore.scoring.summary import summarize
from tests.messages import refused, warned

THREE = scores_of("hit@1", t0=[1, 0], t1=[0, 1], t2=[1, 0])  # three trials of two queries


def test_three_trials_of_two_queries():
    found = repeats(THREE, "hit@1", 2)
    assert found.per_query[["pass@2", "pass^2"]].to_numpy().tolist() == [
        [1, pytest.approx(1 / 3)], [pytest.approx(2 / 3), 0],
    ]  # fmt: skip
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


@pytest.mark.parametrize(
    ("metric", "values", "threshold"),
    [("answered_unanswerable", [0, 1, 0], ()), ("latency_ms", [90.0, 200.0, 100.0], (100,))],
)
def test_a_metric_that_should_be_low_succeeds_at_or_below_the_threshold(metric, values, threshold):
    scores = scores_of(metric, **{f"t{n}": [value] for n, value in enumerate(values)})
    assert repeats(scores, metric, 1, *threshold).per_query["n_passed"].tolist() == [2]
    if threshold:
        with refused(metric, field="threshold"):
            repeats(scores, metric, 1)


def test_a_failed_trial_did_not_succeed_and_a_query_out_of_scope_is_nan():
    scores = scores_of("hit@1", t0=[1, np.nan], t1=[np.nan, np.nan])
    found = repeats(scores.assign(state=["scored", "scored", "failed", "scored"]), "hit@1", 2)
    rows = found.per_query[["n", "n_passed", "pass@2", "pass^2"]]
    assert rows.iloc[0].tolist() == [2, 1, 1, 0]
    assert rows["n"].iloc[1] == 0 and np.isnan(rows["pass@2"].iloc[1])
    assert found.summary["n"].tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("scores", "k", "named"),
    [
        (THREE, 0, [0, "all", 3, 1]), (THREE, 4, [4, "all", 3, 1]),
        (THREE.rename(columns={"hit@1": "hit@3"}), 2, ["hit@1"]),
        (THREE.iloc[:-1], 2, ["all", "q1", "answer"]),
        (THREE.assign(state=["scored"] * 5 + ["missing"]), 2, ["all", "q1", "answer"]),
        (THREE.assign(**{"hit@1": [1, 0, 0, 1, 1, np.nan]}), 2, ["all", "q1", "value"]),
        (THREE.assign(**{"hit@1": [1, 0, 0, 1, 1, np.inf]}), 2, ["all", "q1", "value"]),
        (pd.concat([THREE, THREE.iloc[:1]]), 2, ["all", "q0", "two answers"]),
    ],
    ids=range(8),
)  # fmt: skip
def test_trials_that_do_not_match_and_k_beyond_them_are_refused(scores, k, named):
    with refused(*named):
        repeats(scores, "hit@1", k)


def test_runs_of_a_system_are_its_trials():
    found = {"a1": ["d"], "a2": ["x", "y", "d"], "b1": ["d"], "b2": ["d"]}
    results = rs.load_results({run: {"q": docs, "r": ["d"]} for run, docs in found.items()})
    results.runs[["system", "repeat"]] = [["a", 1], ["a", 2], ["b", 1], ["b", 2]]
    runs = results.runs.astype({"repeat": "Int64"})
    scores = rs.score(results, rs.load_golden({"q": ["d"], "r": ["d"]}), ["hit@1"])
    # a finds q once: half of the pairs of trials, and none twice
    assert (
        repr(repeats(scores, "hit@1", 2, runs=runs))
        == """\
Repeats: 2 of a, 2 of b; success by hit@1

system  measure        mean [low, high]  n
a       pass_rate     0.75 [0.01, 1.00]  2
a       pass@2        1.00 [0.01, 1.00]  2
a       pass^2     0.500 [0.003, 0.997]  2
b       pass_rate     1.00 [0.01, 1.00]  2
b       pass@2        1.00 [0.01, 1.00]  2
b       pass^2        1.00 [0.01, 1.00]  2

Frames: .summary, .per_query"""
    )
    assert repeats(scores, "hit@1", 2, runs=["a1", "b1"]).per_query["pass^2"].tolist() == [1, 1]
    with refused("repeat 1", "a", field="runs.repeat"):
        repeats(scores, "hit@1", 2, runs=runs.assign(repeat=pd.array([1, 1, 1, 2], "Int64")))
    with refused("nobody", field="runs"):
        repeats(scores, "hit@1", 1, runs=["nobody"])


# Averaged


def test_runs_of_one_side_that_are_numbered_are_repeats():
    runs = {"s-r1": {"q": ["d"]}, "s-r2": {"q": ["x", "d"]}}, {"new": {"q": ["d"]}}
    cmp = rs.compare(*runs, {"q": ["d"]}, "hit@1")
    row = ["baseline", "candidate", "n", "verdict"]
    assert (cmp.baseline, *cmp.deltas[row].iloc[0]) == ("s", 0.5, 1, 1, "can't tell")


def repeated_runs(**more):
    """Runs t0, t1, t2: the first two are repeats of system s."""
    runs = {"system": ["s", "s", "other"], "repeat": pd.array([1, 2, pd.NA], dtype="Int64")}
    return pd.DataFrame({"run_id": ["t0", "t1", "t2"]} | runs | more)


def test_repeats_of_a_system_are_averaged_query_by_query_and_other_runs_stay():
    nan = np.nan
    scores = scores_of("hit@1", t0=[1, 0, nan, nan], t1=[0, 0, 1, nan], t2=[1, 1, 0, 0])
    found = average_repeats(scores, repeated_runs())
    assert found.index.name == "query_id" and found["run_id"].cat.categories.tolist() == ["s", "t2"]
    # q2 has a value in one repeat only, q3 in none
    values = found["hit@1"].tolist()
    assert values == pytest.approx([0.5, 0, 1, nan, 1, 1, 0, 0], nan_ok=True)
    assert summarize(found, metrics=["hit@1"])["n"].tolist() == [3, 4], "queries, not responses"
    for more in ({"repeat": [pd.NA] * 3}, {"system": ["a", "b", "c"]}):  # nothing is repeated
        found = average_repeats(THREE, repeated_runs(**more))
        assert found["run_id"].astype("str").tolist() == THREE["run_id"].tolist()
        assert found["hit@1"].tolist() == THREE["hit@1"].tolist()


@pytest.mark.parametrize("is_there", [True, False])
def test_a_query_that_a_repeat_was_not_asked_is_averaged_over_the_others_and_counted(is_there):
    scores = scores_of("hit@1", t0=[1, 0], t1=[0, np.nan], t2=[1, 1])
    scores = scores.assign(state=["scored"] * 3 + ["missing"] + ["scored"] * 2)
    with warned("1 of s"):
        found = average_repeats(
            scores if is_there else scores.iloc[[0, 1, 2, 4, 5]], repeated_runs()
        )
    assert found[found["run_id"] == "s"]["hit@1"].tolist() == [0.5, 0]
    assert found["state"].eq("scored").all()


def test_a_run_that_is_called_like_a_system_of_repeats_is_refused():
    with refused("t2", field="runs.system"):
        average_repeats(THREE, repeated_runs(system=["t2", "t2", "x"]))
