"""What is declared of columns of your own belongs to its evaluation, and goes where that goes."""

import dataclasses
import json
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stored import described, stored_file

import ragscore as rs
from ragscore.analysis.comparison.deltas import paired_deltas
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.extras.event_log import write_event_log
from ragscore.analysis.extras.knowledge_gain import knowledge_gain
from ragscore.analysis.leaderboard import Leaderboard
from ragscore.analysis.slices import SliceComparison
from ragscore.analysis.trend.trend import Trend
from ragscore.reporting import Report
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


@pytest.mark.slow
def test_another_evaluation_changes_no_word_and_no_gate_of_the_first(ev):
    first = ev.with_columns(column(), better="lower", range=(0, 1))
    cmp = first.compare("a", "b", "cost")
    second = ev.with_columns(column(), better="higher", range=(0, 10))
    for one in (first.compare("a", "b", "cost"), cmp):
        assert one.deltas["verdict"].item() == "worse"
        assert not one.gate({"cost": 0.01}).passed and not one.gate().passed
        assert one.slices("difficulty", "cost").table["verdict"].tolist() == ["worse", "worse"]
    assert verdict(second) == "better" and second.compare("a", "b", "cost").gate().passed
    assert verdict(ev.with_columns(column())) == "higher"
    assert [board.table.set_index("run_id")["rank"]["a"] for board in
            (first.leaderboard("cost"), second.leaderboard("cost"))] == [1, 2]  # fmt: skip
    assert len(rs.metrics().query("name == 'cost'")) == 0


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


@pytest.mark.slow
def test_results_from_json_and_pickles_know_what_was_declared(ev):
    own = ev.with_columns(column(), better="lower", range=(0, 2))
    cmp, board = own.compare("a", "b", "cost"), own.leaderboard("cost", baseline="a")
    for again in (Comparison.from_json(cmp.to_json()), pickle.loads(pickle.dumps(cmp))):
        assert not again.gate({"cost": 0.01}).passed and again.declared == own.declared
    made = own.report()
    for one, kind in (
        (board, Leaderboard),
        (cmp.slices("difficulty", "cost"), SliceComparison),
        (own.trend("cost", order=["a", "b"]), Trend),
        (made, Report),
    ):
        again = kind.from_json(one.to_json())
        assert again.declared == own.declared and again.to_json() == one.to_json()


@pytest.mark.slow
def test_pictures_pages_and_exports_go_by_the_declaration(ev, tmp_path):
    own = ev.with_columns(column(), better="lower", range=(0, 1))
    other = ev.with_columns(column(), better="higher", range=(0, 1))
    for one, word, best in ((own, "worse", "a"), (other, "better", "b")):
        cmp = one.compare("a", "b", "cost")
        assert word in cmp.plot(["cost"]).get_title()
        assert ("↓" in cmp.plot(["cost"]).get_yticklabels()[0].get_text()) == (word == "worse")
        scatter = one.plot.scatter("cost", "a", "b").get_title()
        assert f"cost {word} in 40" in scatter.replace("better in 0 queries, ", "")
        assert one.plot.tradeoff("cost", against="mrr").get_title().endswith(f": {best}")
        write_event_log(
            cmp.deltas, tmp_path / word, conversation_id="c", tolerances={"cost": 0.01},
            declared=one.declared,
        )  # fmt: skip
        event = json.loads((tmp_path / word).read_text())
        assert event["regressed"] is (word == "worse")
        gain = knowledge_gain(one.scores, "a", "b", {"cost": 1}, declared=one.declared).score
        assert (gain > 0) == (word == "better")


# -- stores


@pytest.mark.slow
def test_a_store_keeps_own_columns_with_their_declaration(ev, tmp_path):
    own = ev.with_columns(column(), better="lower", range=(0, None))
    own = own.with_columns(column(name="plain"))
    store = rs.RunStore(tmp_path / "store")
    store.save(own)
    assert described(store, "a")["scoring"]["declared"] == {
        "cost": {"better": "lower", "range": [0.0, None]},
        "plain": {},
    }
    metrics = json.loads(stored_file(store, "a", "metrics").read_text())
    assert metrics["declared"] == described(store, "a")["scoring"]["declared"]
    assert metrics["metrics"]["cost"]["mean"] == pytest.approx(own.pivot("cost")["a"].mean())
    for _ in range(2):
        again = pickle.loads(pickle.dumps(store.evaluate(ev.golden)))
        pd.testing.assert_frame_equal(
            again.scores[["cost", "plain"]], own.scores[["cost", "plain"]]
        )
        assert again.declared == own.declared
        assert (verdict(again), verdict(again, "plain")) == ("worse", "higher")
        assert store.trend("cost", order=["a", "b"]).declared == own.declared.of(["cost"])
        assert store.scores(["cost"]).shape[0] == 2 * N
        store.compact()
    store.refresh(ev.golden)
    assert verdict(store.evaluate(ev.golden)) == "worse"
    with warned(20, "cost", "plain"):
        fewer = store.evaluate(ev.golden.select(IDS[:30]))
    assert fewer.summary("cost")["n"].tolist() == [30, 30]


def test_stored_runs_of_contradicting_declarations_are_not_combined(ev, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.save(ev.select("a").with_columns(column().iloc[:N], better="lower"))
    store.save(ev.select("b").with_columns(column().iloc[N:], better="higher"))
    for combine in (lambda: store.evaluate(ev.golden), lambda: store.trend("cost")):
        with refused("cost", "a", "b", "lower", "higher", field="better, range"):
            combine()
    assert store.trend("mrr", order=["a", "b"]).table["mean"].tolist() == [1, 1]
    assert store.evaluate(ev.golden, runs="b").declared.describe("cost").better == "higher"


def test_a_trend_names_the_runs_that_were_saved_without_the_column(ev, tmp_path):
    store = rs.RunStore(tmp_path / "store")
    store.save(ev.select("a").with_columns(column().iloc[:N], better="lower"))
    store.save(ev.select("b"))
    with refused("cost", "b", field="metric"):
        store.trend("cost", golden=ev.golden)
    again = store.evaluate(ev.golden).summary("cost").set_index("run_id")
    assert again["n"].tolist() == [N, 0] and again["n_expected"]["a"] == N


def test_declarations_that_contradict_each_other_are_refused():
    mine = Declarations().with_own("cost", "lower", (0, 1))
    assert mine.joined(mine) == mine and mine.with_own("cost", "lower", (0, 1)) == mine
    for better, limits in (("higher", (0, 1)), ("lower", (0, 2)), ("lower", None)):
        with refused("cost", field="better, range"):
            mine.joined(Declarations().with_own("cost", better, limits))
    with refused("mrr@10", field="better, range"):
        mine.with_own("mrr@10", "lower", None)
    assert Declarations.from_plain(json.loads(json.dumps(mine.to_plain()))) == mine


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
    if most - least < 1e-150:
        with pytest.raises(rs.DataError) as error:
            Declarations().with_own("x", None, (least, most))
        assert error.value.field == "range"
        return
    declared = Declarations().with_own("x", "higher", (least, most))
    metric = declared.describe("x")
    assert metric.bounds == (least, most) and metric.kind == "bounded"
    assert Declarations.from_plain(json.loads(json.dumps(declared.to_plain()))) == declared
    bad, good = limits_of("x", declared)
    assert least - 1e-9 * (most - least) <= bad <= good <= most


@pytest.mark.large
@given(
    st.floats(-1e12, 1e12),
    st.floats(-140, 140).map(lambda power: 10.0**power),
    st.sampled_from(["higher", "lower"]),
)
def test_a_range_of_any_width_has_the_words_of_the_range_from_0_to_1(least, width, better):
    least = 0.0 if abs(least) > 1e4 * width else least  # beyond, a float holds no such value
    most = least + width
    found = []
    for low, high in ((0.0, 1.0), (least, most)):
        declared = Declarations().with_own("x", better, (low, high))
        sides = (
            column(low, high, name="x")[["run_id", "x"]].query("run_id == @run")[["x"]]
            for run in "ab"
        )
        first, second = (side.reset_index(drop=True) for side in sides)
        row = paired_deltas(first, second, first * np.nan, declared=declared).iloc[0]
        sizes = row[["delta", "low", "high", "mde"]].astype(float) / (high - low)
        found.append((row[["verdict", "n_better", "n_worse"]].tolist(), [row["p"], *sizes]))
    assert found[0][0] == found[1][0]
    assert found[1][1] == pytest.approx(found[0][1], rel=1e-6)


@pytest.mark.large
@pytest.mark.parametrize("limits", [(0, 1e6), (0, 1e-5), (-2.5e-7, 1e-5), (0, 5), (1e9, 1e9 + 2)])
def test_intervals_verdicts_and_gates_are_those_of_the_range_from_0_to_1(ev, limits):
    least, most = limits
    width = most - least
    unit = ev.with_columns(column(), better="lower", range=(0, 1))
    own = ev.with_columns(column(least, most), better="lower", range=limits)
    numbers = ["mean", "low", "high"]
    want, got = (one.summary("cost")[numbers].to_numpy() for one in (unit, own))
    np.testing.assert_allclose(got, least + width * want, rtol=1e-9)
    want, got = (one.compare("a", "b", "cost") for one in (unit, own))
    for size, rtol in (("delta", 1e-6), ("low", 1e-6), ("high", 1e-6), ("mde", 1e-2)):
        np.testing.assert_allclose(got.deltas[size] / width, want.deltas[size], rtol=rtol)
    words = ["verdict", "n_better", "n_worse", "n_same"]
    assert got.deltas[words].equals(want.deltas[words])
    assert got.flips["kind"].tolist() == want.flips["kind"].tolist()
    assert got.gate({"cost": 0.6 * width}).passed and not got.gate({"cost": 0.4 * width}).passed
    assert not got.gate({"cost": 0.0}).passed
    np.testing.assert_allclose(
        own.leaderboard("cost").pairs["p"], unit.leaderboard("cost").pairs["p"]
    )


def test_without_an_end_a_range_bounds_the_other_side_alone(ev):
    bounded = {}
    for limits in ((0, None), (0, np.inf), (None, 2), (None, None), (-np.inf, np.inf), None):
        own = ev.with_columns(column(), better="lower", range=limits)
        bounded[str(limits)] = own.summary("cost")[["low", "high"]].to_numpy()
        assert own.declared.describe("cost").kind == "other"
    for before, after in pairwise(bounded.values()):
        np.testing.assert_array_equal(before, after)
    assert np.isfinite(bounded["None"]).all()
    told = [
        Declarations().with_own("x", "higher", limits).describe("x").range
        for limits in ((0, None), (None, 2.5), (0, 1e6), (1e-5, 0.1))
    ]
    assert told == ["0 and above", "2.5 and below", "0 to 1000000", "1e-05 to 0.1"]


@pytest.mark.parametrize(
    "limits",
    [
        "01", "0 to 1", ("0", "1"), (np.nan, 1), (0, np.nan), (1, 1), (2, 1), (np.inf, 1), (0,),
        (0, 1, 2), 5, (True, False), (0, "1"), {"a", "b"}, (0, 1j), (0, 10**400), (0, 1e-200),
        (np.inf, None), (None, -np.inf), (-1e308, 1e308),
    ],
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


def test_bounds_of_missing_values_are_those_of_metrics_from_0_to_1_alone(ev):
    table = column(0, 5).iloc[5:]
    own = ev.with_columns(table, better="higher", range=(0, 5), partial=True)
    row = own.summary("cost", bounds=True).iloc[0]
    assert np.isnan(row[["lower_bound_missing", "upper_bound_missing"]].astype(float)).all()


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


def sweep(ev, tmp_path, n, seed=0):
    """Interleave n declarations of one name; return how many answers were compared.

    Every evaluation is asked right after it was made and once more after all the others: its words
    are known from how its values were made, its figures from the range from 0 to 1.
    """
    rng = np.random.default_rng(seed)
    unit = ev.with_columns(column(), better="lower", range=(0, 1)).compare("a", "b", "cost").deltas
    sizes = unit[["delta", "low", "high"]].to_numpy()[0]
    made, n_compared = [], 0
    words = {"higher": ("better", "worse"), "lower": ("worse", "better"), None: ("higher", "lower")}

    def check(one, better, falls, limits):
        cmp = one.compare("a", "b", "cost")
        word = words[better][falls]
        assert cmp.deltas["verdict"].item() == word, (better, falls, limits)
        least, most = limits
        np.testing.assert_allclose(
            np.sort(np.abs(cmp.deltas[["delta", "low", "high"]].to_numpy()[0])),
            np.sort(np.abs(sizes * (most - least))), rtol=1e-6,
        )  # fmt: skip
        assert cmp.gate().passed == (word != "worse")
        if better:
            loss = 0.1 * (most - least)
            assert cmp.gate({"cost": loss}).passed == (word == "better")
        rank = one.leaderboard("cost").table.set_index("run_id")["rank"]["a"]
        assert (rank == 1) == ((better == "lower") != falls)
        return 4

    for number in range(n):
        better, falls = rng.choice(["higher", "lower", ""]) or None, bool(rng.integers(2))
        least = float(rng.choice([0.0, -1.0, 0.5]))
        limits = (least, least + float(10.0 ** rng.integers(-5, 7)))
        table = column(*limits)
        if falls:
            table = table.assign(run_id=table["run_id"].map({"a": "b", "b": "a"}))
        one = ev.with_columns(table, better=better, range=limits)
        way = number % 4
        if way == 1:
            one = pickle.loads(pickle.dumps(one))
        elif way == 2:
            one = one.select(["a", "b"]).select(queries=IDS)
        elif way == 3:
            store = rs.RunStore(tmp_path / f"{seed}-{number}")
            store.save(one)
            one = store.evaluate(ev.golden)
        n_compared += check(one, better, falls, limits)
        made.append((one, better, falls, limits))
        n_compared += check(*made[rng.integers(len(made))])
    for place in rng.permutation(len(made)):
        n_compared += check(*made[place])
    return n_compared


@pytest.mark.slow
def test_interleaved_evaluations_say_what_each_says_alone(ev, tmp_path):
    assert sweep(ev, tmp_path, 6) == 6 * 12
