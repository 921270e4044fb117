"""A gate: by the words of primary metrics, by amounts, by intervals.

Direction, the three rules, failures that never help, what can't be evaluated, numbers as shown, and
the same answer everywhere.
"""

import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from conftest import hit, record
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.analysis.comparison.gate import LEVELS, Gate, gate
from ragscore.analysis.reported import reported_scores
from ragscore.cli import main
from ragscore.scoring.policies import Policies
from tests.compared import compare_runs
from tests.messages import refused, says

METRICS = [
    "hit@1", "hit@3", "hit@5", "mrr", "mrr@10", "ndcg@10", "passed", "failed", "empty",
    "latency_ms", "refusal_correct",
]  # fmt: skip
FOUND, MISSED = [hit("c", "d", 1)], [hit("x", "y", 1)]
FAILURES = ["verdict", "candidate", "max_drop", "n"]


def compared(write_golden, write_run, a, b, n=None, **more):
    golden = rs.load_golden(
        write_golden(
            [{"id": f"q{i}", "query": "?", "expected_doc_ids": ["d"]} for i in range(n or len(a))]
        )
    )
    runs = [
        write_run(name, [one | {"query_id": f"q{i}"} for i, one in enumerate(records)], k=10)
        for name, records in (("a", a), ("b", b))
    ]
    return compare_runs(rs.load_results(runs), golden, "a", "b", **{"metrics": METRICS} | more)


def runs(*hits, **more):
    return [record("", list(found), **more) for found in hits]


def verdicts(found):
    return found.table["verdict"].tolist()


def test_a_loss_beyond_what_is_allowed_fails_whichever_way_is_worse(write_golden, write_run):
    cmp = compared(
        write_golden, write_run, runs(FOUND, FOUND, FOUND, FOUND), runs(FOUND, FOUND, FOUND, [])
    )
    found = gate(cmp, {"hit@5": 0.25, "mrr": 0.2, "empty": 0.25, "failed": 0})
    assert verdicts(found) == ["pass", "fail", "pass", "pass", "pass"]
    mrr = found.table.set_index("metric").loc["mrr"]
    assert (mrr["delta"], mrr["max_drop"]) == (-0.25, 0.2)
    assert (found.passed, found.exit_status) == (False, 1)
    assert gate(cmp, {"empty": 0.2}).exit_status == 1, "more empty lists are a loss"
    assert found.regressions[["query_id", "outcome"]].to_numpy().tolist() == [["q3", "regression"]]


def test_the_interval_rule_is_undecided_until_a_loss_is_ruled_out(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(*[FOUND] * 20), runs(*[FOUND] * 20))
    assert gate(cmp, {"hit@5": 0.05}).passed
    strict = gate(cmp, {"hit@5": 0.05}, rule="interval")
    # nothing moved among 20: Tango's interval is ± z² / (20 + z²) = ± .161
    assert strict.table["low"][0] == pytest.approx(-0.161, abs=5e-4)
    assert strict.table["delta"][0] == 0
    assert (strict.answer, strict.exit_status) == ("undecided", 2)
    assert gate(cmp, {"hit@5": 0.17}, rule="interval").passed
    assert gate(cmp, {"hit@5": 0.05}, rule="interval", undecided="pass").passed


def test_by_the_interval_rule_a_sure_loss_fails_and_a_seen_one_is_undecided(
    write_golden, write_run
):
    # 5 of 30 lost, none gained: where Tango's score (0 − 5 − 30d) / √(30 (2q + d (1 − d))) is ± z
    a, b = runs(*[FOUND] * 30), runs(*[FOUND] * 25, *[MISSED] * 5)
    cmp = compared(write_golden, write_run, a, b)
    low, high = cmp.deltas.set_index("metric").loc["hit@5", ["low_95", "high_95"]]
    assert (low, high) == pytest.approx((-0.33564, -0.03423), abs=1e-5)
    for allowed, words in (
        (-high - 0.01, ("fail", "fail")),
        (-high + 0.01, ("fail", "undecided")),
        (-low - 0.01, ("pass", "undecided")),
        (-low + 0.01, ("pass", "pass")),
    ):
        rules = ("threshold", "interval")
        assert tuple(verdicts(gate(cmp, {"hit@5": allowed}, rule=one))[0] for one in rules) == words


def test_by_the_interval_rule_a_gain_passes_and_no_interval_is_undecided(write_golden, write_run):
    better = compared(write_golden, write_run, runs(*[[]] * 10, *[FOUND] * 20), runs(*[FOUND] * 30))
    found = gate(better, {"hit@5": 0.05}, rule="interval")
    assert found.table["delta"][0] == pytest.approx(1 / 3) and found.passed
    quick, slow = (runs(*[FOUND] * 3, elapsed_ms=ms) for ms in (10.0, 12.0))
    few = compared(write_golden, write_run, quick, slow)
    open_one = gate(few, {"latency_ms": 5}, rule="interval")
    row = open_one.table.iloc[0]
    assert (row["verdict"], row["delta"]) == ("undecided", 2)
    assert row[["low", "high"]].isna().all() and open_one.exit_status == 2


def test_by_the_interval_rule_each_metric_has_its_own_interval(write_golden, write_run):
    """Loaded with five primary metrics or alone, a metric passes by the same 95 % interval."""
    a = runs(*[FOUND] * 30, *[MISSED] * 30)
    b = runs(*[MISSED] * 5, *[FOUND] * 25, *[MISSED] * 30)
    names = ["ndcg@10", "passed", "hit@1", "hit@3", "latency_ms", "hit@5"]
    times = [
        [one | {"elapsed_ms": 9.0 + n % of} for n, one in enumerate(own)]
        for own, of in ((a, 7), (b, 5))
    ]
    both = [
        compared(write_golden, write_run, *times, metrics=of, primary=of)
        for of in (["hit@5"], [*names, "empty"])
    ]
    alone, together = (one.deltas.set_index("metric").loc["hit@5"] for one in both)
    assert alone[["low", "high"]].tolist() == alone[["low_95", "high_95"]].tolist()
    assert alone[["low", "high"]].tolist() == together[["low_95", "high_95"]].tolist()
    assert together["low"] < alone["low"], "seven hold together by wider ones"
    allowed = -(together["low"] + alone["low"]) / 2
    assert all(gate(one, {"hit@5": allowed}, rule="interval").passed for one in both)


def test_times_go_by_their_median_or_by_their_95th_percentile(write_golden, write_run):
    # medians 10 and 12; the 95th percentile of 21 times is the 20th: 20 and 60
    times = [[10.0] * 19 + [20.0, 30.0], [12.0] * 19 + [60.0, 90.0]]
    a, b = ([record("", FOUND, elapsed_ms=ms) for ms in own] for own in times)
    cmp = compared(write_golden, write_run, a, b)
    asked = {"latency_ms": 2, "p95(latency_ms)": 39}
    for rule in ("threshold", "interval"):
        rows = gate(cmp, asked, rule=rule).table
        assert rows["metric"].tolist()[:2] == list(asked)
        assert rows.loc[1, ["baseline", "candidate", "delta"]].tolist() == [20, 60, 40]
        assert (rows.loc[1, "verdict"], rows.loc[0, "delta"]) == ("fail", 2)
    assert gate(cmp, {"latency_ms": 2, "p95(latency_ms)": 40}).passed
    again = rs.Comparison.from_json(cmp.to_json())
    assert gate(again, asked).to_json() == gate(cmp, asked).to_json()
    with refused("p95(mrr)", field="max_drop"):
        gate(cmp, {"p95(mrr)": 1})


def test_queries_that_only_the_candidate_failed_on_fail_the_gate(write_golden, write_run):
    a = runs(FOUND, FOUND, [], [])
    b = runs(FOUND, FOUND) + runs([], [], error="timed out")
    cmp = compared(write_golden, write_run, a, b)
    # `empty` has no value where b failed: what is left looks better than a (0 of 2 against 2 of 4)
    found = gate(cmp, {"empty": 0.1})
    assert verdicts(found) == ["pass", "fail"]
    assert found.table.iloc[-1][FAILURES].tolist() == ["fail", 2, 0, 4]
    says(found.headline(), "failed", "failed queries")
    assert gate(cmp, {"empty": 0.1}, max_failed=2).passed
    assert gate(cmp, {"latency_ms": 1000}, max_failed=1).exit_status == 1
    with refused("max_failed", field="max_failed"):
        gate(cmp, max_failed="none")


@pytest.mark.parametrize("policy", [{}, {"missing": "zero"}])
def test_failed_queries_fail_the_gate_though_they_keep_their_hits(write_golden, write_run, policy):
    a, b = runs(*[FOUND] * 40), runs(*[FOUND] * 40, error="no answer")
    cmp = compared(write_golden, write_run, a, b, policies=Policies(**policy))
    found = gate(cmp, {"hit@5": 0.02, "mrr": 0.02, "failed": 0.02})
    assert verdicts(found) == ["pass", "pass", "fail", "fail"]
    assert found.table["delta"].tolist() == [0, 0, 1, 40], "scores keep hits"
    alone = compared(write_golden, write_run, a, b, metrics="hit@5", policies=Policies(**policy))
    assert gate(alone).exit_status == gate(alone, {"hit@5": 0.02}, rule="interval").exit_status == 1
    assert gate(alone, max_failed=40).passed


def test_a_run_against_itself_passes_whatever_it_failed_on(write_golden, write_run):
    one = [*runs(*[FOUND] * 6), *runs(FOUND, FOUND, [], error="late")]
    allowed = dict.fromkeys(["hit@5", "mrr", "passed", "failed", "timeout", "empty_all"], 0)
    found = gate(compared(write_golden, write_run, one, one, metrics=list(allowed)), allowed)
    assert verdicts(found) == ["pass"] * 7
    assert gate(compared(write_golden, write_run, one, one)).passed
    rows = found.table.set_index("metric")
    # scored on the hits they have: 8 of 9 found
    assert rows.loc["hit@5", ["n", "baseline", "candidate"]].tolist() == [9, 8 / 9, 8 / 9]
    assert rows.loc["failed", ["n", "baseline", "candidate"]].tolist() == [9, 3 / 9, 3 / 9]
    assert rows.loc["failed queries", FAILURES].tolist() == ["pass", 0, 0, 6]


def test_queries_that_the_baseline_failed_on_count_as_scored(write_golden, write_run):
    # 4 of the 6 that the baseline answered are lost, the 6 it failed on are gained: +2/12
    lost = [*[FOUND] * 2, *[MISSED] * 4]
    a = [*runs(*[FOUND] * 6), *runs(*[[]] * 6, error="late")]
    cmp = compared(write_golden, write_run, a, runs(*lost, *[FOUND] * 6))
    found = gate(cmp, {"hit@5": 0.1})
    row = found.table.iloc[0]
    assert row[["baseline", "candidate", "delta", "n"]].tolist() == pytest.approx(
        [6 / 12, 8 / 12, 2 / 12, 12]
    )
    assert found.passed and found.table.iloc[-1][FAILURES].tolist() == ["pass", 0, 0, 6]
    says(found.shown()["why"].iloc[-1], "0 of 6")


def test_a_baseline_that_answered_nothing_passes_no_gate(write_golden, write_run):
    none = compared(write_golden, write_run, runs(*[FOUND] * 6, error="late"), runs(*[FOUND] * 6))
    for found in (gate(none, {"hit@5": 0.1}), gate(none)):
        assert (found.answer, found.exit_status) == ("undecided", 2)
    failing = gate(none, {"failed": 0}).table.iloc[0]
    assert (failing["verdict"], failing["delta"]) == ("pass", -1), "failures are what it measures"


def test_queries_dropped_from_stored_scores_fail_the_gate():
    """Another tool's scores have no row for a query that was not asked."""
    asked = [(run, f"q{n}") for run, n_asked in (("a", 10), ("b", 5)) for n in range(n_asked)]
    keys = pd.DataFrame(asked, columns=["run_id", "query_id"])
    results = rs.load_results([{**row, "hits": []} for row in keys.to_dict("records")])
    results = replace(results, reported=keys.assign(metric="mrr", value=1.0))
    golden = rs.load_golden({f"q{n}": {"d": 1} for n in range(10)})
    cmp = compare_runs(results, golden, "a", "b", scores=reported_scores(results))
    found = gate(cmp, {"mrr": 0.1})
    assert found.table.iloc[0][["verdict", "n", "delta"]].tolist() == ["pass", 5, 0]
    assert found.table.iloc[-1][FAILURES].tolist() == ["fail", 5, 0, 10]


def test_what_cannot_be_evaluated_stops_a_gate_that_requires_it(write_golden, write_run):
    cmp = compared(
        write_golden, write_run, runs(FOUND), runs(FOUND), metrics=["hit@5", "refusal_correct"]
    )
    asked = {"hit@5": 0, "refusal_correct": 0, "mrr": 0}
    loose, strict = gate(cmp, asked), gate(cmp, asked, require=True)
    assert verdicts(loose) == ["pass", "not evaluated", "not evaluated", "pass"]
    assert loose.table["n"].tolist() == [1, 0, 0, 1]
    assert (loose.passed, loose.exit_status) == (True, 0)
    assert (strict.passed, strict.exit_status) == (False, 2)
    nothing = gate(cmp, {"refusal_correct": 0})
    assert (nothing.answer, nothing.exit_status) == ("not evaluated", 2), "it looked at nothing"


def test_a_mistyped_metric_or_loss_is_an_error_not_a_pass(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(FOUND), runs(FOUND))
    for asked, field, named in (
        ({"mrrr@10": 0}, "metrics", ["mrrr@10"]),
        ({"mrr": -0.1}, "max_drop", ["mrr", -0.1]),
        ({}, "max_drop", []),
        ({"mrr": math.nan}, "max_drop", ["mrr", math.nan]),
        ({"mrr": True}, "max_drop", ["mrr", True]),
    ):
        with refused(*named, field=field):
            gate(cmp, asked)
    with refused("p", "threshold", "interval", field="rule"):
        gate(cmp, {"mrr": 0}, rule="p")


def test_the_command_line_says_it_by_its_exit_status(write_golden, write_run, capsys):
    golden = write_golden([{"id": "q0", "query": "?", "expected_doc_ids": ["d"]}])
    b = [record("q0", MISSED, error="late")]
    a, b = (write_run(name, found) for name, found in (("a", [record("q0", FOUND)]), ("b", b)))
    command = ["gate", str(a), str(b), "--golden", str(golden), "--max-drop"]
    one = ["--max-failed", "1"]
    asked = [
        ["hit@7=0.5", *one], ["hit@7=1", *one], ["hit@7=1"], ["p95(latency_ms)=0", *one],
        ["refusal_correct=0", "--require", *one], ["hit@7", *one],
    ]  # fmt: skip
    assert [main([*command, *more]) for more in asked] == [1, 0, 1, 2, 2, 2]
    says(capsys.readouterr().err, "--max-drop", "hit@7")


@pytest.mark.parametrize("rule", ["threshold", "interval"])
def test_a_reloaded_comparison_gives_the_same_verdict(write_golden, write_run, rule):
    failed = runs([], error="late")
    b = [*runs(*[FOUND] * 9, MISSED, MISSED), *failed, *failed]
    cmp = compared(write_golden, write_run, runs(*[FOUND] * 12, MISSED), b)
    asked = {"mrr@10": 0.3, "hit@5": 0.02, "empty": 0.2, "latency_ms": 1, "refusal_correct": 0}
    again = rs.Comparison.from_json(cmp.to_json())
    for more in ({}, {"max_drop": asked, "rule": rule, "require": True}):
        first, second = (gate(one, **more) for one in (cmp, again))
        assert second.to_json() == first.to_json() == Gate.from_json(first.to_json()).to_json()
    assert first.exit_status == 1, "what fails comes before what is not evaluated"


@pytest.mark.filterwarnings("ignore:ids of")
def test_the_gate_says_how_many_values_it_rests_on_and_names_the_worst_first(
    write_golden, write_run
):
    fallen = [[hit("x", "y", 1), hit("c", "d", 2)]]
    cmp = compared(write_golden, write_run, runs(FOUND, *fallen, FOUND), runs(*fallen, MISSED))
    found = gate(cmp, {"mrr": 1})
    # q1 was lost altogether, q2 was not asked, q0 fell by one rank
    assert found.regressions[["query_id", "outcome"]].to_numpy().tolist() == [
        ["q1", "regression"],
        ["q2", "only_baseline"],
        ["q0", "loss"],
    ]
    assert found.table["n"].tolist() == [2, 3], "both have two values, the baseline answered three"
    lines = compared(write_golden, write_run, runs(*[FOUND] * 9), runs(*[MISSED] * 9))
    assert gate(lines).regressions["query_id"].tolist() == [f"q{n}" for n in range(5)]


@pytest.mark.filterwarnings("ignore:ids of")
def test_without_amounts_the_words_of_primary_metrics_decide(write_golden, write_run):
    many, few = [FOUND] * 30, [MISSED] * 30
    worse = gate(compared(write_golden, write_run, runs(*many), runs(*few)))
    assert (worse.rule, worse.answer) == ("verdict", "failed")
    better = gate(compared(write_golden, write_run, runs(*few), runs(*many)))
    assert better.passed
    same = gate(compared(write_golden, write_run, runs(*many), runs(*many)))
    assert same.passed and same.table["max_drop"][:-1].isna().all(), "nothing changed"
    noisy = compared(write_golden, write_run, runs(*many), runs(MISSED, *many[1:]))
    found = gate(noisy)
    assert (found.answer, noisy.overall) == ("undecided", "can't tell")
    assert found.table["metric"].tolist() == [*noisy._primary, "failed queries"]


def test_a_metric_that_is_worse_fails_whatever_the_others_won():
    """Refusing everything: false refusals are worse, answers that should be refused better."""
    golden = [{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"][: n % 2]} for n in range(80)]
    records = [
        {"run_id": run, "query_id": f"q{n}", "hits": [], "answer": "yes", "refused": run == "b"}
        for run in "ab"
        for n in range(80)
    ]
    pair = ["answered_unanswerable", "false_refusal"]
    cmp = rs.evaluate(records, golden, pair, primary=pair).compare("a", "b")
    found = cmp.gate()
    assert cmp.overall == "can't tell"
    assert dict(zip(found.table["metric"], verdicts(found), strict=True)) == {
        "answered_unanswerable": "pass", "false_refusal": "fail", "failed queries": "pass",
    }  # fmt: skip
    says(found.headline(), "failed", "false_refusal")


def test_a_build_reads_the_verdicts_in_junit(write_golden, write_run):
    a, b = runs(*[FOUND] * 20), runs(MISSED, *[FOUND] * 19)
    cmp = compared(write_golden, write_run, a, b)
    asked = {"hit@5": 0.05, "mrr": 0.01, "refusal_correct": 0}
    for undecided, kind in ((None, "skipped"), ("fail", "failure"), ("pass", None)):
        found = gate(cmp, asked, rule="interval", undecided=undecided)
        suite = ElementTree.fromstring(found.to_junit())
        first, *_, lacking, last = ([one.tag for one in case] for case in suite)
        assert (first, lacking, last) == ([kind] if kind else [], ["skipped"], [])
        assert suite.get("tests") == "4"
        for name, tag in (("failures", "failure"), ("skipped", "skipped")):
            assert int(suite.get(name)) == len(suite.findall(f"*/{tag}"))
        assert (int(suite.get("failures")) > 0) == (found.exit_status == 1)
    says(gate(cmp, asked).to_junit(), "0.01", "-0.05")


@given(
    st.lists(st.integers(-3, 3), min_size=3, max_size=40),
    st.sampled_from(["threshold", "interval"]),
    st.integers(2, 4),
)
@pytest.mark.filterwarnings("ignore")
def test_shown_numbers_lie_on_the_side_of_the_amount_that_the_verdict_says(moves, rule, digits):
    """At amounts that losses lie on exactly, or by a digit beside."""
    rng = np.random.default_rng(len(moves))
    base = rng.random(len(moves)) * 0.4 + 0.3
    values = np.stack([base, base + np.array(moves) / 10])
    ids = [f"q{n}" for n in range(len(moves))]
    keys = [{"run_id": run, "query_id": one, "hits": []} for run in "ab" for one in ids]
    results = replace(
        rs.load_results(keys),
        reported=pd.DataFrame(keys)[["run_id", "query_id"]].assign(
            metric="mrr", value=values.ravel()
        ),
    )
    golden = rs.load_golden({one: {"d": 1} for one in ids})
    cmp = compare_runs(results, golden, "a", "b", scores=reported_scores(results))
    delta, low = cmp.deltas.loc[0, ["delta", "low_95"]].abs().fillna(0)
    for exact in (delta, low):
        for allowed in (exact, round(exact, digits)):
            found = gate(cmp, {"mrr": allowed}, rule=rule)
            row, shown = found.table.iloc[0], found.shown().iloc[0]
            a, b, apart = (float(shown[name]) for name in ("baseline", "candidate", "delta"))
            assert abs(b - a - apart) <= 1.5 * 10 ** -len(shown["delta"].partition(".")[2]) + 1e-12
            if rule == "threshold":
                assert (-apart > allowed) == (row["verdict"] == "fail")
            elif shown["95 % interval"]:
                ends = [-float(one) for one in shown["95 % interval"].strip("[]").split(", ")]
                assert LEVELS[sum(end > allowed for end in ends)] == row["verdict"]
