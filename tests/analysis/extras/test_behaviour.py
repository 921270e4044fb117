"""SEEDS F.5.19: checks of what answers hold, of budgets and of tools."""

import pytest
from conftest import answer, record

import ragscore as rs
from tests.messages import refused, warned

FULL = {
    "required": ["Resolved"], "forbidden": ["panic"], "tools": ["search"], "max_turns": 3,
    "max_tool_calls": 2, "max_tokens": 30, "max_output_tokens": 20,
    "max_cost_usd": 0.01, "max_latency_ms": 100,
}  # fmt: skip


@pytest.fixture
def run(write_run):
    """Results of one run with these answers to q0, q1, ...; `more` goes into every record."""

    def load(*answers, **more):
        records = [record(f"q{n}", [], answer=one, **more) for n, one in enumerate(answers)]
        return rs.load_results(write_run("r", records))

    return load


def observed(text="resolved it safely", **more):
    usage = {"prompt_tokens": 10, "completion_tokens": 20}
    tools = [{"name": "search"}]
    return answer(text, turns=2, tool_calls=tools, usage=usage, cost_usd=0.01) | more


TEN = {"q0": {"required": list("abcdefghij")}}
ONE_OF_TWO = {"q1": {"required": ["a"]}}
TWICE = {"*": {"tools": {"search": 2}}}
BOTH = {"*": {"forbidden": ["b"]}, "q0": {"required": ["a"]}}
JSON = {"*": {"json": True}}


# answers, expectations and options -> checks, how many are passed, score, passed; -1: none
@pytest.mark.parametrize(
    ("answers", "expected", "how", "rows"),
    [
        ([observed()], {"q0": FULL}, {}, [[9, 9, 1, 1]]),
        # a part of the checks may be enough
        ([answer("a b c d e f g")], TEN, {"threshold": 0.7}, [[10, 7, 0.7, 1]]),
        ([answer("a b c d e f")], TEN, {"threshold": 0.7}, [[10, 6, 0.6, 0]]),
        ([answer("a b c d e f g")], TEN, {"threshold": 1.0}, [[10, 7, 0.7, 0]]),
        # JSON is what parses
        ([answer('{"a": 1}'), answer("[1, 2]"), answer("null")], JSON, {}, [[1, 1, 1, 1]] * 3),
        ([answer("{a: 1}"), answer("")], JSON, {}, [[1, 0, 0, 0]] * 2),
        # a tool may be due more than once
        ([observed(tool_calls=["search", {"tool": "search"}]), observed()], TWICE, {},
         [[1, 1, 1, 1], [1, 0, 0, 0]]),
        # responses without checks have no score unless one is given
        ([answer("a"), answer("a")], ONE_OF_TWO, {}, [[0, 0, -1, -1], [1, 1, 1, 1]]),
        ([answer("a"), answer("a")], ONE_OF_TWO, {"empty_value": 1.0},
         [[0, 0, 1, 1], [1, 1, 1, 1]]),
        # expectations of every question join those of one
        ([answer("a"), answer("b")], BOTH, {}, [[2, 2, 1, 1], [1, 0, 0, 0]]),
    ],
    ids=range(10),
)  # fmt: skip
def test_checks_are_counted_and_make_a_score(run, answers, expected, how, rows):
    table = rs.extras.behaviour(run(*answers, elapsed_ms=100), expected, **how).per_query
    columns = ["n_checks", "n_passed", "behaviour.score", "behaviour.passed"]
    assert table[columns].fillna(-1).to_numpy().tolist() == rows


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"answer": "done"}, ["required"]), ({"answer": "resolved after a PANIC"}, ["forbidden"]),
        ({"tool_calls": ["browse"]}, ["tools"]), ({"turns": 4}, ["max_turns"]),
        ({"tool_calls": ["search", "search", "search"]}, ["max_tool_calls"]),
        ({"usage": {"prompt_tokens": 1, "completion_tokens": 21}}, ["max_output_tokens"]),
        ({"usage": {"prompt_tokens": 20, "completion_tokens": 20}}, ["max_tokens"]),
        ({"cost_usd": 0.011}, ["max_cost_usd"]),
    ],
)  # fmt: skip
def test_each_check_can_fail_alone(run, change, failed):
    checks = rs.extras.behaviour(run(observed(**change), elapsed_ms=100), {"q0": FULL}).checks
    assert checks.loc[~checks["passed"], "check"].tolist() == failed


def test_missing_telemetry_fails_its_check(run):
    told = rs.extras.behaviour(run(answer("resolved"), elapsed_ms=None), {"q0": FULL})
    checks = told.checks.set_index("check")
    assert checks.index[checks["passed"]].tolist() == ["required", "forbidden"]
    assert (checks.loc[~checks["passed"], "found"] == "").all()
    expected = {"q0": {"required": ["a"], "forbidden": ["b"], "json": True}}
    assert not rs.extras.behaviour(run(None), expected).checks["passed"].any()


@pytest.mark.parametrize(
    ("expected", "field", "named"),
    [
        ({}, "expectations", []), ({"q0": {"json": False}}, "expectations", []),
        ({"q0": {"requires": ["a"]}}, "expectations.q0.requires", []),
        ({"q0": {"required": "a"}}, "expectations.q0.required", ["a"]),
        ({"q0": {"max_turns": "3"}}, "expectations.q0.max_turns", [3, 0]),
        ({"q0": {"tools": {"a": 0}}}, "expectations.q0.tools", ["a", 0, 1]),
        ({"q0": {"json": 1}}, "expectations.q0.json", [1, True, False]),
        ({"q0": {"required": [""]}}, "expectations.q0.required", ["''"]),
        ({"q0": {"max_cost_usd": float("nan")}}, "expectations.q0.max_cost_usd", ["nan", 0]),
    ],
)  # fmt: skip
def test_expectations_that_make_no_sense_are_refused(run, expected, field, named):
    with refused(*named, field=field):
        rs.extras.behaviour(run(answer("a")), expected)


def test_expectations_of_questions_never_asked_are_said(run):
    never = {"q9": {"required": ["a"]}, "q8": {"required": ["a"]}}
    with warned("q8", "q9", 2):
        assert rs.extras.behaviour(run(answer("a")), never).checks.empty
