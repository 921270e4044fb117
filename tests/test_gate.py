"""A gate by declared losses: direction, both rules, failures that never help, what can't be evaluated, and the same answer everywhere."""

import json
import math

import pytest
from conftest import hit, record
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from ragscore.cli import main
from ragscore.gate import _judged

FOUND, MISSED = [hit("c", "d", 1)], [hit("x", "y", 1)]


def compared(write_golden, write_run, a, b, n=None, **more):
    golden = rs.load_golden(write_golden([{"id": f"q{i}", "query": "?", "expected_doc_ids": ["d"]} for i in range(n or len(a))]))
    runs = [write_run(name, [one | {"query_id": f"q{i}"} for i, one in enumerate(records)], k=5) for name, records in (("a", a), ("b", b))]
    return rs.compare_runs(rs.load_results(runs), golden, "a", "b", **more)


def runs(*hits, **more):
    return [record("", list(found), **more) for found in hits]


def test_a_loss_beyond_what_is_allowed_fails_whichever_way_is_worse(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(FOUND, FOUND, FOUND, FOUND), runs(FOUND, FOUND, FOUND, []))
    found = rs.gate(cmp, {"hit@5": 0.25, "mrr": 0.2, "empty": 0.25, "failed": 0})
    assert found.table["verdict"].tolist() == ["pass", "fail", "pass", "pass"]
    assert found.table.set_index("metric").loc["mrr", "reason"] == "worse by 0.25, more than 0.2"
    assert (found.passed, found.exit_status) == (False, 1)
    assert rs.gate(cmp, {"empty": 0.2}).exit_status == 1, "more empty lists are a loss"
    assert found.regressions[["query_id", "outcome"]].to_numpy().tolist() == [["q3", "regression"]]


def test_the_interval_rule_asks_that_the_loss_is_ruled_out(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(*[FOUND] * 20), runs(*[FOUND] * 20))
    assert rs.gate(cmp, {"hit@5": 0.05}).passed
    strict = rs.gate(cmp, {"hit@5": 0.05}, rule="interval")
    # nothing moved among 20: Tango's interval is ± z² / (20 + z²) = ± .161
    assert strict.table["low"][0] == pytest.approx(-0.161, abs=5e-4)
    assert strict.table["reason"][0] == "nothing changed, but a loss of 0.161 can't be ruled out" and not strict.passed
    assert rs.gate(cmp, {"hit@5": 0.17}, rule="interval").passed


def test_errors_never_make_a_gate_pass(write_golden, write_run):
    a = runs(FOUND, FOUND, [], [])
    b = runs(FOUND, FOUND) + runs([], [], error="timed out")
    cmp = compared(write_golden, write_run, a, b)
    # `empty` has no value where b failed: what is left looks better than a (0 of 2 against 2 of 4)
    row = rs.gate(cmp, {"empty": 0.1}).table.iloc[0]
    assert (row["verdict"], row["n_lost"]) == ("pass", 2) and "2 failed queries counted at their worst" in row["reason"]
    worse = compared(write_golden, write_run, runs(FOUND, FOUND, FOUND, FOUND), b)
    assert rs.gate(worse, {"empty": 0.1}).table["reason"][0] == "worse by 0.5, more than 0.1, 2 failed queries counted at their worst"
    slow = rs.gate(worse, {"latency_ms": 1000}).table.iloc[0]
    assert (slow["verdict"], slow["reason"]) == ("fail", "the candidate failed on 2 queries that have no latency_ms now")


def test_queries_the_candidate_was_not_asked_count_as_lost(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(FOUND, FOUND, FOUND, FOUND), runs(FOUND))
    assert rs.gate(cmp, {"mrr": 0.5}).table["change"][0] == -0.75


def test_what_cannot_be_evaluated_says_so_and_stops_a_gate_that_requires_it(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(FOUND), runs(FOUND), metrics=["hit@5", "refusal_correct"])
    asked = {"hit@5": 0, "refusal_correct": 0, "mrr": 0}
    loose, strict = rs.gate(cmp, asked), rs.gate(cmp, asked, require=True)
    assert loose.table["reason"].tolist() == ["nothing changed", "no query has a value in both runs", "the comparison lacks this metric"]
    assert (loose.passed, loose.exit_status, strict.passed, strict.exit_status) == (True, 0, False, 2)
    assert "2 not evaluated" in repr(loose)


def test_a_mistyped_metric_or_loss_is_an_error_not_a_pass(write_golden, write_run):
    cmp = compared(write_golden, write_run, runs(FOUND), runs(FOUND))
    for asked, field in (
        ({"mrrr@10": 0}, "metric"),
        ({"mrr": -0.1}, "max_drop"),
        ({}, "max_drop"),
        ({"mrr": math.nan}, "max_drop"),
        ({"mrr": True}, "max_drop"),
    ):
        with pytest.raises(rs.DataError, match=field):
            rs.gate(cmp, asked)
    with pytest.raises(rs.DataError, match="rule"):
        rs.gate(cmp, {"mrr": 0}, rule="p")


def test_one_word_for_the_whole_comparison(write_golden, write_run):
    many, few = [FOUND] * 30, [MISSED] * 30
    assert compared(write_golden, write_run, runs(*few), runs(*many)).overall == "better"
    assert compared(write_golden, write_run, runs(*many), runs(*few)).overall == "regressed"
    assert compared(write_golden, write_run, runs(*many), runs(*many)).overall == "same"
    assert compared(write_golden, write_run, runs(*few), runs(*many, error="but slow")).overall == "mixed", "more is found, and every query fails"


def test_the_forms_of_a_gate_give_the_same_answer(write_golden, write_run):
    found = rs.gate(compared(write_golden, write_run, runs(FOUND, FOUND), runs(FOUND, MISSED)), {"mrr": 0.1, "refusal_correct": 0})
    content = json.loads(found.to_json())
    assert (content["passed"], content["exit_status"], content["overall"]) == (found.passed, found.exit_status, found.overall)
    assert [row["verdict"] for row in content["table"]] == found.table["verdict"].tolist() and content["table"][1]["a"] is None
    for text in (found.to_markdown(), repr(found), found._repr_html_()):
        assert (
            "Gate failed by mrr, 1 not evaluated: b against a (over all metrics compared: " in text and "worse by 0.5, more than 0.1" in text and "q1" in text
        )


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0, 1))
def test_the_interval_rule_never_passes_what_the_threshold_fails(loss, more, allowed):
    by_threshold, by_interval = (_judged(loss, loss + more, allowed, rule, 0)["verdict"] for rule in ("threshold", "interval"))
    assert (by_threshold, by_interval) in [("pass", "pass"), ("pass", "fail"), ("fail", "fail")]


def test_the_command_line_says_it_by_its_exit_status(write_golden, write_run, capsys):
    golden = write_golden([{"id": "q0", "query": "?", "expected_doc_ids": ["d"]}])
    a, b = (write_run(name, [record("q0", found)]) for name, found in (("a", FOUND), ("b", MISSED)))
    command = ["gate", str(a), str(b), "--golden", str(golden), "--max-drop"]
    assert main([*command, "mrr@10=0.5"]) == 1 and "Gate failed" in capsys.readouterr().out
    assert main([*command, "mrr@10=1"]) == 0
    assert main([*command, "refusal_correct=0", "--require"]) == 2
    assert main([*command, "mrr@10"]) == 2 and "--max-drop" in capsys.readouterr().err
    capsys.readouterr()
    assert main([*command, "hit@7=0.5", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["table"][0]["metric"] == "hit@7", "any cut-off may be asked for"
