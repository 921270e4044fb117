"""What is declared of columns of your own belongs to its evaluation, and goes where that goes."""

import dataclasses
import json
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.extras.event_log import write_event_log
from ragscore.analysis.extras.knowledge_gain import knowledge_gain
from ragscore.scoring.limits import limits_of
from ragscore.scoring.metrics import Declarations
from tests.messages import refused, warned

N = 40
IDS = [f"q{n:02}" for n in range(N)]
SHARES = (0.2, 0.7)  # of the range, about which the values of runs a and b lie


@pytest.fixture(scope="module")
def ev():
    """Runs a and b of forty queries, which both find everything."""
    golden = [
        {"id": name, "query": name, "expected_doc_ids": ["d"], "difficulty": "ab"[n % 2]}
        for n, name in enumerate(IDS)
    ]
    runs = {run: {name: ["d", "e"] for name in IDS} for run in "ab"}
    return rs.evaluate(runs, rs.load_golden(golden), ["mrr", "hit@1"])


def column(least=0.0, most=1.0, seed=0, name="cost"):
    """Values of a about a fifth of the range, of b about seven tenths."""
    noise = np.random.default_rng(seed).uniform(-0.15, 0.15, (2, N))
    parts = [
        pd.DataFrame({"run_id": run, "query_id": IDS, name: least + (most - least) * (mean + own)})
        for run, mean, own in zip("ab", SHARES, noise, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


def verdict(ev, name="cost"):
    return ev.compare("a", "b", name).deltas["verdict"].item()


def test_another_evaluation_changes_no_word_and_no_gate_of_the_first(ev):
    first = ev.with_columns(column(), better="lower", range=(0, 1))
    cmp = first.compare("a", "b", "cost")
    second = ev.with_columns(column(), better="higher", range=(0, 10))
    assert verdict(second) == "better" and second.compare("a", "b", "cost").gate().passed
    for one in (first.compare("a", "b", "cost"), cmp):
        assert one.deltas["verdict"].item() == "worse"
        assert not one.gate({"cost": 0.01}).passed and not one.gate().passed
    assert (cmp.slices("difficulty", "cost").table["low"] > 0).all()
    assert pd.isna(verdict(ev.with_columns(column())))
    ranks = [one.leaderboard("cost").table.set_index("run_id")["rank"] for one in (first, second)]
    assert [one["a"] for one in ranks] == [1, 2]


def test_a_declaration_goes_wherever_its_evaluation_goes(ev):
    own = ev.with_columns(column(), better="lower", range=(0, 1))
    more = own.with_columns(column(name="age"), better="higher", range={"age": (0, None)})
    systems = dataclasses.replace(
        ev.results, runs=ev.results.runs.assign(system=["x", "y"], repeat=[1, 1])
    )
    averaged = dataclasses.replace(own, _source=systems).average_repeats()
    assert averaged.declared == own.declared
    for one in (
        own,
        own.select(["a", "b"]),
        own.select(queries=IDS[:30]),
        more,
        pickle.loads(pickle.dumps(own)),
        pickle.loads(pickle.dumps(own.select(["a", "b"], IDS[:30]))),
    ):
        assert verdict(one) == "worse"
        assert one.repeats("cost", 1, 0.5, runs=["a", "b"]).per_query["n_passed"].eq(1).all()
    assert verdict(more, "age") == "better"
    with refused("cost", "lower", "higher", field="metrics"):
        own.refusals("cost")
    with refused("cost", 0, 1, "passed", field="metric"):
        own.golden_health("cost")


def test_results_from_json_and_pickles_know_what_was_declared(ev):
    own = ev.with_columns(column(), better="lower", range=(0, 2))
    cmp = own.compare("a", "b", "cost")
    for again in (Comparison.from_json(cmp.to_json()), pickle.loads(pickle.dumps(cmp))):
        assert not again.gate({"cost": 0.01}).passed and again.declared == own.declared


def test_exports_go_by_the_declaration(ev, tmp_path):
    for better, is_worse in (("lower", True), ("higher", False)):
        one = ev.with_columns(column(), better=better, range=(0, 1))
        file = tmp_path / better
        deltas = one.compare("a", "b", "cost").deltas
        write_event_log(
            deltas, file, conversation_id="c", tolerances={"cost": 0.01}, declared=one.declared
        )
        assert json.loads(file.read_text())["regressed"] is is_worse
        gain = knowledge_gain(one.scores, "a", "b", {"cost": 1}, declared=one.declared).score
        assert (gain < 0) == is_worse


# -- stores


def test_a_store_keeps_own_columns_with_their_declaration(ev, tmp_path):
    own = ev.with_columns(column(), better="lower", range=(0, None))
    own = own.with_columns(column(name="plain"))
    store = rs.RunStore(tmp_path / "store")
    store.save(own)
    again = store.evaluate(ev.golden)
    columns = ["cost", "plain"]
    pd.testing.assert_frame_equal(again.scores[columns], own.scores[columns])
    assert again.declared == own.declared
    assert verdict(again) == "worse" and pd.isna(verdict(again, "plain"))
    store.refresh(ev.golden)
    assert verdict(store.evaluate(ev.golden)) == "worse"
    with warned(20, "cost", "plain"):
        fewer = store.evaluate(ev.golden.select(IDS[:30]))
    assert fewer.summary("cost")["n"].tolist() == [30, 30]


def test_stored_runs_of_contradicting_declarations_are_not_combined(ev, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.save(ev.select("a").with_columns(column().iloc[:N], better="lower"))
    store.save(ev.select("b").with_columns(column().iloc[N:], better="higher"))
    with refused("cost", "a", "b", "lower", "higher", field="better, range"):
        store.evaluate(ev.golden)
    with refused("cost", "a", "b", "lower", "higher", field="better, range"):
        store.trend("cost")
    assert store.evaluate(ev.golden, runs="b").declared.describe("cost").better == "higher"


def test_a_trend_names_the_runs_that_were_saved_without_the_column(ev, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.save(ev.select("a").with_columns(column().iloc[:N], better="lower"))
    store.save(ev.select("b"))
    with refused("cost", "b", field="metric"):
        store.trend("cost", golden=ev.golden)
    again = store.evaluate(ev.golden).summary("cost").set_index("run_id")
    assert again["n"].tolist() == [N, 0] and again["n_expected"]["a"] == N


def test_a_metric_of_ours_is_not_declared_anew():
    with refused("mrr@10", field="better, range"):
        Declarations().with_own("mrr@10", "lower", None)


@pytest.mark.parametrize(
    "content", [5, [1], {"cost": 3}, {"cost": {"better": "up"}}, {"cost": {"range": "0 to 1"}}]
)
def test_a_stored_declaration_of_another_shape_is_refused(content):
    with pytest.raises(rs.DataError):
        Declarations.from_plain(content)


# -- ranges

LIMITS = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100)


@given(LIMITS, LIMITS)
def test_any_two_finite_numbers_are_a_range_of_numbers(one, other):
    least, most = sorted((one, other))
    assume(most - least >= 1e-150)
    declared = Declarations().with_own("x", "higher", (least, most))
    metric = declared.describe("x")
    assert metric.bounds == (least, most) and metric.kind == "bounded"
    assert Declarations.from_plain(json.loads(json.dumps(declared.to_plain()))) == declared
    bad, good = limits_of("x", declared)
    assert least - 1e-9 * (most - least) <= bad <= good <= most


@pytest.mark.parametrize("limits", [(0, 1e6), (-2.5e-7, 1e-5), (1e9, 1e9 + 2)])
def test_intervals_verdicts_and_gates_are_those_of_the_range_from_0_to_1(ev, limits):
    least, most = limits
    width = most - least
    unit = ev.with_columns(column(), better="lower", range=(0, 1))
    own = ev.with_columns(column(least, most), better="lower", range=limits)
    numbers = ["mean", "low", "high"]
    want, got = (one.summary("cost")[numbers].to_numpy() for one in (unit, own))
    np.testing.assert_allclose(got, least + width * want, rtol=1e-9)
    want, got = (one.compare("a", "b", "cost") for one in (unit, own))
    for size, rtol in (("delta", 1e-6), ("low", 1e-6), ("high", 1e-6), ("detectable", 1e-2)):
        np.testing.assert_allclose(got.deltas[size] / width, want.deltas[size], rtol=rtol)
    words = ["verdict", "n_better", "n_worse", "n_same"]
    assert got.deltas[words].equals(want.deltas[words])
    assert got.flips["kind"].tolist() == want.flips["kind"].tolist()
    assert got.gate({"cost": 0.6 * width}).passed and not got.gate({"cost": 0.4 * width}).passed


def test_without_an_end_a_range_bounds_the_other_side_alone(ev):
    plain = ev.with_columns(column(), better="lower").summary("cost")[["low", "high"]]
    assert np.isfinite(plain).all(axis=None)
    for limits in ((0, None), (None, 2), (-np.inf, np.inf)):
        own = ev.with_columns(column(), better="lower", range=limits)
        pd.testing.assert_frame_equal(own.summary("cost")[["low", "high"]], plain)
        assert own.declared.describe("cost").kind == "other"


@pytest.mark.parametrize(
    "limits",
    ["0 to 1", ("0", "1"), (0, np.nan), (1, 1), (2, 1), (0, 1, 2), 5, (True, False), (0, 10**400),
     (0, 1e-200), (np.inf, None), (-1e308, 1e308)],
)  # fmt: skip
def test_what_is_no_range_is_refused(ev, limits):
    with pytest.raises(rs.DataError) as error:
        ev.with_columns(column(), better="lower", range=limits)
    assert error.value.field == "range"


def test_a_declaration_of_a_column_that_is_not_added_is_refused(ev):
    for given_ in ({"better": {"cots": "lower"}}, {"range": {"cots": (0, 1)}}):
        (option,) = given_
        with refused("cots", "cost", field=option):
            ev.with_columns(column(), **given_)


# -- rows that lack


def test_queries_without_a_row_are_nan_counted_and_said(ev):
    with warned(5, 80, "cost", "a", "q00", "partial"):
        own = ev.with_columns(column().iloc[5:], better="lower")
    assert own.summary("cost")[["n", "n_expected"]].to_numpy().tolist() == [[35, 35], [40, 40]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = ev.with_columns(column().iloc[5:], better="lower", partial=True)
    pd.testing.assert_frame_equal(quiet.scores, own.scores)


@pytest.mark.parametrize("partial", [True, False])
def test_a_mistyped_id_is_an_error_and_no_missing_row(ev, partial):
    table = column().replace({"query_id": {"q07": "q7"}})
    with refused(2, "a", "q7", field="table"):
        ev.with_columns(table, partial=partial)


# -- many evaluations at once
