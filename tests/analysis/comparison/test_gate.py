"""A gate by declared losses.

Direction, both rules, failures that never help, what can't be evaluated, and the same answer
everywhere.
"""

import math
from dataclasses import replace

import pandas as pd
import pytest
from conftest import hit, record
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import ragscore as rs
from ragscore.analysis.comparison.compare import compare_runs
from ragscore.analysis.comparison.gate import Gate, _verdict, gate
from ragscore.cli import main
from tests.messages import refused, says

METRICS = [
    "hit@1", "hit@3", "hit@5", "mrr", "mrr@10", "ndcg@10", "passed", "failed", "empty",
    "latency_ms", "refusal_correct",
]  # fmt: skip
FOUND, MISSED = [hit("c", "d", 1)], [hit("x", "y", 1)]


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


def test_a_loss_beyond_what_is_allowed_fails_whichever_way_is_worse(write_golden, write_run):
    cmp = compared(
        write_golden, write_run, runs(FOUND, FOUND, FOUND, FOUND), runs(FOUND, FOUND, FOUND, [])
    )
    found = gate(cmp, {"hit@5": 0.25, "mrr": 0.2, "empty": 0.25, "failed": 0})
    assert found.table["verdict"].tolist() == ["pass", "fail", "pass", "pass"]
    mrr = found.table.set_index("metric").loc["mrr"]
    assert (mrr["delta"], mrr["max_drop"]) == (-0.25, 0.2)
    assert (found.passed, found.exit_status) == (False, 1)
    assert gate(cmp, {"empty": 0.2}).exit_status == 1, "more empty lists are a loss"
    assert found.regressions[["query_id", "outcome"]].to_numpy().tolist() == [["q3", "regression"]]


def test_the_interval_rule_asks_that_the_loss_is_ruled_out(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(*[FOUND] * 20), runs(*[FOUND] * 20))
    assert gate(cmp, {"hit@5": 0.05}).passed
    strict = gate(cmp, {"hit@5": 0.05}, rule="interval")
    # nothing moved among 20: Tango's interval is ± z² / (20 + z²) = ± .161
    assert strict.table["low"][0] == pytest.approx(-0.161, abs=5e-4)
    assert strict.table["delta"][0] == 0 and not strict.passed
    assert gate(cmp, {"hit@5": 0.17}, rule="interval").passed


def test_by_the_interval_rule_a_gain_passes_and_no_interval_is_not_evaluated(
    write_golden, write_run
):
    better = compared(write_golden, write_run, runs(*[[]] * 10, *[FOUND] * 20), runs(*[FOUND] * 30))
    found = gate(better, {"hit@5": 0.05}, rule="interval")
    assert found.table["delta"][0] == pytest.approx(1 / 3)
    assert (found.passed, found.overall) == (True, "better")
    quick, slow = (runs(*[FOUND] * 3, elapsed_ms=ms) for ms in (10.0, 12.0))
    few = compared(write_golden, write_run, quick, slow)
    open_one = gate(few, {"latency_ms": 5}, rule="interval", require=True)
    row = open_one.table.iloc[0]
    assert (row["verdict"], row["delta"]) == ("not evaluated", 2)
    assert row[["low", "high"]].isna().all()
    assert (open_one.answer, open_one.exit_status) == ("not evaluated", 2)


def test_errors_never_make_a_gate_pass(write_golden, write_run):
    a = runs(FOUND, FOUND, [], [])
    b = runs(FOUND, FOUND) + runs([], [], error="timed out")
    cmp = compared(write_golden, write_run, a, b)
    # `empty` has no value where b failed: what is left looks better than a (0 of 2 against 2 of 4)
    row = gate(cmp, {"empty": 0.1}).table.iloc[0]
    assert (row["verdict"], row["n_lost"]) == ("pass", 2)
    worse = compared(write_golden, write_run, runs(FOUND, FOUND, FOUND, FOUND), b)
    row = gate(worse, {"empty": 0.1}).table.iloc[0]
    assert row[["baseline", "candidate", "delta", "n"]].tolist() == [0, 0.5, 0.5, 4]
    assert row["verdict"] == "fail"
    assert gate(worse, {"latency_ms": 1000}).table["verdict"][0] == "fail"


@pytest.mark.parametrize("policy", [{}, {"missing": "zero"}])
def test_failed_queries_count_at_their_worst_though_they_keep_their_hits(
    write_golden, write_run, policy
):
    a, b = runs(*[FOUND] * 40), runs(*[FOUND] * 40, error="no answer")
    cmp = compared(write_golden, write_run, a, b, policies=rs.Policies(**policy))
    found = gate(cmp, {"hit@5": 0.02, "mrr": 0.02, "failed": 0.02, "empty": 0.02})
    assert found.exit_status == 1 and set(found.table["verdict"]) == {"fail"}
    assert found.table["delta"].tolist() == [-1, -1, 1, 1]
    assert found.table["n_lost"].tolist() == [40] * 4
    # by a metric that nothing happened to, as scored
    alone = compared(write_golden, write_run, a, b, metrics="hit@5", policies=rs.Policies(**policy))
    assert gate(alone).exit_status == gate(alone, {"hit@5": 0.02}, rule="interval").exit_status == 1
    assert alone.deltas["delta"][0] == 0, "scores keep hits"


def test_a_run_against_itself_passes_whatever_it_failed_on(write_golden, write_run):
    one = [*runs(*[FOUND] * 6), *runs(FOUND, FOUND, [], error="late")]
    cmp = compared(write_golden, write_run, one, one)
    allowed = dict.fromkeys(["hit@5", "mrr", "passed", "failed", "timeout", "empty_all"], 0)
    found = gate(compared(write_golden, write_run, one, one, metrics=list(allowed)), allowed)
    assert found.table["verdict"].tolist() == ["pass"] * 6 and gate(cmp).passed
    rows = found.table.set_index("metric")
    assert rows.loc["hit@5", ["n", "n_left_out", "n_lost"]].tolist() == [6, 3, 0]
    assert rows.loc["failed", ["n", "baseline", "candidate"]].tolist() == [9, 3 / 9, 3 / 9]


def test_errors_of_the_baseline_never_make_a_gate_pass(write_golden, write_run):
    # 4 of the 6 that the baseline answered are lost; the 6 it failed on don't make up for them
    lost = [*[FOUND] * 2, *[MISSED] * 4]
    a = [*runs(*[FOUND] * 6), *runs(*[[]] * 6, error="late")]
    cmp = compared(write_golden, write_run, a, runs(*lost, *[FOUND] * 6))
    row = gate(cmp, {"hit@5": 0.1}).table.iloc[0]
    assert cmp.deltas.set_index("metric").loc["hit@5", "delta"] == pytest.approx(2 / 12)
    assert (row["verdict"], row["n"], row["n_left_out"]) == ("fail", 6, 6)
    assert row[["baseline", "candidate", "delta"]].tolist() == pytest.approx([1, 1 / 3, -2 / 3])


def test_where_the_baseline_failed_on_everything_nothing_is_left_to_compare(
    write_golden, write_run
):
    none = compared(write_golden, write_run, runs(*[FOUND] * 6, error="late"), runs(*[FOUND] * 6))
    for found in (gate(none, {"hit@5": 0.1}), gate(none)):
        assert (found.answer, found.exit_status) == ("not evaluated", 2)
    failing = gate(none, {"failed": 0}).table.iloc[0]
    assert (failing["verdict"], failing["delta"]) == ("pass", -1), "failures are what it measures"


def test_a_margin_must_hold_with_failed_queries_at_their_worst(write_golden, write_run):
    margins = {"hit@5": 0.1}
    a = runs(*[FOUND] * 100)
    for n_failed, answer in ((0, "passed"), (5, "not evaluated"), (20, "failed")):
        b = [*runs(*[FOUND] * (100 - n_failed)), *runs(*[FOUND] * n_failed, error="late")]
        cmp = compared(write_golden, write_run, a, b, metrics="hit@5", margins=margins)
        assert (cmp.overall, gate(cmp).answer) == ("no worse", answer)


def test_a_margin_of_one_metric_of_a_pair_must_hold():
    """The two metrics of refusals are judged together; a margin is held against its own metric."""
    golden = [{"id": f"q{n}", "query": "?", "expected_doc_ids": ["d"][: n % 2]} for n in range(8)]
    records = [
        {"run_id": run, "query_id": f"q{n}", "hits": [], "answer": "yes", "refused": False}
        for run in "ab"
        for n in range(8)
    ]
    pair = ["answered_unanswerable", "false_refusal"]
    ev = rs.evaluate(records, golden, pair, primary=pair)
    assert ev.compare("a", "b").gate(undecided="pass").passed
    found = ev.compare("a", "b", margins={"false_refusal": 0.05}).gate()
    assert found.table.set_index("metric").loc[pair, "verdict"].tolist() == [
        "pass", "not evaluated",
    ]  # fmt: skip
    assert found.exit_status == 2


def test_queries_dropped_from_stored_scores_count_at_their_worst():
    """Another tool's scores have no row for a query that was not asked."""
    asked = [(run, f"q{n}") for run, n_asked in (("a", 10), ("b", 5)) for n in range(n_asked)]
    keys = pd.DataFrame(asked, columns=["run_id", "query_id"])
    results = rs.load_results([{**row, "hits": []} for row in keys.to_dict("records")])
    results = replace(results, reported=keys.assign(metric="mrr", value=1.0))
    golden = rs.load_golden({f"q{n}": {"d": 1} for n in range(10)})
    cmp = compare_runs(results, golden, "a", "b", scores=results.reported_scores())
    row = gate(cmp, {"mrr": 0.1}).table.iloc[0]
    assert row[["verdict", "n", "n_lost", "delta"]].tolist() == ["fail", 10, 5, -0.5]


def test_what_cannot_be_evaluated_stops_a_gate_that_requires_it(write_golden, write_run):
    cmp = compared(
        write_golden, write_run, runs(FOUND), runs(FOUND), metrics=["hit@5", "refusal_correct"]
    )
    asked = {"hit@5": 0, "refusal_correct": 0, "mrr": 0}
    loose, strict = gate(cmp, asked), gate(cmp, asked, require=True)
    assert loose.table["verdict"].tolist() == ["pass", "not evaluated", "not evaluated"]
    assert loose.table["n"].tolist() == [1, 0, 0]
    assert (loose.passed, loose.exit_status) == (True, 0)
    assert (strict.passed, strict.exit_status) == (False, 2)


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


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_interval_rule_never_passes_what_the_threshold_fails(loss, more, allowed):
    by_threshold, by_interval = (
        _verdict(loss, loss + more, allowed, rule)[0] for rule in ("threshold", "interval")
    )
    assert (by_threshold, by_interval) in [("pass", "pass"), ("pass", "fail"), ("fail", "fail")]


def test_the_command_line_says_it_by_its_exit_status(write_golden, write_run, capsys):
    golden = write_golden([{"id": "q0", "query": "?", "expected_doc_ids": ["d"]}])
    a, b = (write_run(name, [record("q0", found)]) for name, found in (("a", FOUND), ("b", MISSED)))
    command = ["gate", str(a), str(b), "--golden", str(golden), "--max-drop"]
    asked = [["hit@7=0.5"], ["hit@7=1"], ["refusal_correct=0", "--require"], ["hit@7"]]
    assert [main([*command, *one]) for one in asked] == [1, 0, 2, 2]
    says(capsys.readouterr().err, "--max-drop", "hit@7")


@pytest.mark.parametrize("rule", ["threshold", "interval"])
def test_a_reloaded_comparison_gives_the_same_verdict(write_golden, write_run, rule):
    failed = runs([], error="late")
    b = [*runs(*[FOUND] * 9, MISSED, MISSED), *failed, *failed]
    cmp = compared(write_golden, write_run, runs(*[FOUND] * 12, MISSED), b)
    asked = {"mrr@10": 0.3, "hit@5": 0.02, "empty": 0.2, "latency_ms": 1, "refusal_correct": 0}
    again = rs.Comparison.from_json(cmp.to_json())
    first, second = (gate(one, asked, rule=rule, require=True) for one in (cmp, again))
    assert second.to_json() == first.to_json() == Gate.from_json(first.to_json()).to_json()
    assert first.exit_status == 1, "what fails comes before what is not evaluated"


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
    counts = ["n", "n_expected_baseline", "n_expected_candidate", "n_lost"]
    assert found.table[counts].to_numpy().tolist() == [[3, 3, 3, 1]]


@pytest.mark.filterwarnings("ignore:ids of")
def test_without_allowed_losses_the_primary_verdicts_decide(write_golden, write_run):
    many, few = [FOUND] * 30, [MISSED] * 30
    worse = gate(compared(write_golden, write_run, runs(*many), runs(*few)))
    assert (worse.rule, worse.answer, worse.overall) == ("verdict", "failed", "worse")
    assert worse.table["metric"].tolist() == ["ndcg@10", "passed"]
    same = gate(compared(write_golden, write_run, runs(*many), runs(*many)))
    assert same.passed and same.table["max_drop"].isna().all()
    assert same.overall == "can't tell"


@pytest.mark.filterwarnings("ignore:ids of")
def test_with_margins_the_gate_asks_for_proof(write_golden, write_run):
    half = runs(*[FOUND] * 30, *[MISSED] * 30)
    margins = {"ndcg@10": 0.1, "passed": 0.1}
    held = gate(compared(write_golden, write_run, half, half, margins=margins))
    assert held.passed and held.overall == "no worse"
    assert held.table["max_drop"].tolist() == [0.1, 0.1]
    few = runs(*[FOUND] * 5)
    unknown = gate(compared(write_golden, write_run, few, few, margins=margins))
    assert unknown.answer == "not evaluated", "five queries can't show that a loss stays within .1"
    assert unknown.exit_status == 2


def test_queries_that_the_candidate_was_not_asked_fail_the_gate_by_verdicts(
    write_golden, write_run
):
    found = gate(compared(write_golden, write_run, runs(*[FOUND] * 3), runs(*[FOUND] * 2), n=3))
    assert found.answer == "failed" and found.table["n_lost"].tolist() == [1, 1]
    assert found.table["delta"][0] == pytest.approx(-1 / 3), "at its worst"


def test_margins_that_must_all_hold_are_each_tested_at_the_whole_level(write_golden, write_run):
    # no query moves: each margin holds by its own interval, not by the wider ones of five
    half = runs(*[FOUND] * 30, *[MISSED] * 30)
    names = ["ndcg@10", "passed", "hit@1", "hit@3", "hit@5"]
    for asked, words in (
        (names[:1], {"same within margin"}),
        (names, {"can't tell"}),
    ):
        margins = dict.fromkeys(asked, 0.068)
        cmp = compared(write_golden, write_run, half, half, margins=margins)
        rows = cmp.deltas[cmp.deltas["margin"].notna()]
        assert set(rows["verdict"]) == words and rows["holds_margin"].all()
        assert gate(cmp).answer == "passed"


def test_an_amount_allowed_says_how_often_runs_alike_lose_more(write_golden, write_run):
    first = [FOUND if n % 2 else MISSED for n in range(40)]
    second = [FOUND if n % 2 != n % 8 // 4 else MISSED for n in range(40)]
    found = gate(compared(write_golden, write_run, runs(*first), runs(*second)), {"hit@1": 0.05})
    row = found.table.iloc[0]
    error = (row["high"] - row["low"]) / (2 * 1.96)
    says("\n".join(found.notes()), f"{100 * norm.sf(0.05 / error):.0f} %", "margins")
