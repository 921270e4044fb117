"""SEEDS F.5.19: checks of what answers hold, of budgets and of tools."""

import numpy as np
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
        return rs.load_results(
            write_run(
                "r", [record(f"q{n}", [], answer=one, **more) for n, one in enumerate(answers)]
            )
        )

    return load


def observed(text="resolved it safely", **more):
    return (
        answer(
            text,
            turns=2,
            tool_calls=[{"name": "search"}],
            usage={"prompt_tokens": 10, "completion_tokens": 20},
            cost_usd=0.01,
        )
        | more
    )


def test_an_answer_that_passes_every_check_scores_1(run):
    row = rs.extras.behaviour(run(observed(), elapsed_ms=100), {"q0": FULL}).per_query.iloc[0]
    columns = ["n_checks", "n_passed", "behaviour.score", "behaviour.passed"]
    assert row[columns].tolist() == [9, 9, 1, 1]


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
    checks = rs.extras.behaviour(
        run(answer("resolved"), elapsed_ms=None), {"q0": FULL}
    ).checks.set_index("check")
    assert checks.index[checks["passed"]].tolist() == ["required", "forbidden"]
    assert (checks.loc[~checks["passed"], "found"] == "").all()
    without_answer = rs.extras.behaviour(
        run(None), {"q0": {"required": ["a"], "forbidden": ["b"], "json": True}}
    ).checks
    assert not without_answer["passed"].any()


@pytest.mark.parametrize(
    ("text", "threshold", "score", "passed"),
    [("a b c d e f g", 0.7, 0.7, 1), ("a b c d e f", 0.7, 0.6, 0), ("a b c d e f g", 1.0, 0.7, 0)],
)
def test_a_part_of_the_checks_may_be_enough(run, text, threshold, score, passed):
    expected = {"q0": {"required": list("abcdefghij")}}
    found = rs.extras.behaviour(run(answer(text)), expected, threshold=threshold).per_query
    assert found[["behaviour.score", "behaviour.passed"]].iloc[0].tolist() == [score, passed]


@pytest.mark.parametrize(
    ("text", "passed"),
    [('{"a": 1}', True), ("[1, 2]", True), ("null", True), ("{a: 1}", False), ("", False)],
)
def test_json_is_what_parses(run, text, passed):
    assert rs.extras.behaviour(run(answer(text)), {"q0": {"json": True}}).checks[
        "passed"
    ].tolist() == [passed]


def test_a_tool_may_be_due_more_than_once(run):
    results = run(observed(tool_calls=["search", {"tool": "search"}]), observed())
    checks = rs.extras.behaviour(results, {"*": {"tools": {"search": 2}}}).checks
    assert checks["passed"].tolist() == [True, False]


def test_responses_without_checks_have_no_score(run):
    results, expected = run(answer("a"), answer("a")), {"q1": {"required": ["a"]}}
    assert np.isnan(rs.extras.behaviour(results, expected).per_query["behaviour.score"].iloc[0])
    given = rs.extras.behaviour(results, expected, empty_value=1.0).per_query
    assert given["behaviour.passed"].tolist() == [1, 1]


def test_expectations_of_every_question_join_those_of_one(run):
    table = rs.extras.behaviour(
        run(answer("a"), answer("b")), {"*": {"forbidden": ["b"]}, "q0": {"required": ["a"]}}
    ).per_query
    assert table[["n_checks", "n_passed"]].values.tolist() == [[2, 2], [1, 0]]


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
