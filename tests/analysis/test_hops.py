"""Traces of multi-hop answers: read, written back, and added up."""

import json
import math

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from tests.messages import refused


def step(number, kind, ms, **more):
    return {
        "iter": number,
        "kind": kind,
        "sub_queries": [],
        "context_chunks_added": 0,
        "forced_stop": False,
        "llm_call_ms": ms,
    } | more


TRACE = [
    step(0, "decompose", 100, sub_queries=["a?", "b?"]),
    step(1, "decide", 0, context_chunks_added=3),
    step(2, "synthesize", 500, forced_stop=True, seen=4),
]
SHORT = [step(0, "decompose", 300), step(1, "synthesize", 100, context_chunks_added=2)]


@pytest.fixture
def results(write_run):
    verified = [
        {"verification": {"nli_score": score, "nli_threshold": 0.5, "nli_passed": score >= 0.5}}
        for score in (0.9, 0.2)
    ]
    answers = [
        answer("x", hops=TRACE, **verified[0]),
        answer("x", hops=SHORT, **verified[1]),
        answer("x"),
        None,
    ]
    return rs.load_results(
        write_run(
            "r", [record(f"q{n}", [hit("c", "d", 1)], answer=one) for n, one in enumerate(answers)]
        )
    )


def test_steps_are_rows(results):
    hops = results.calls
    assert hops[["query_id", "call", "kind"]].values.tolist() == [
        ["q0", 1, "decompose"],
        ["q0", 2, "decide"],
        ["q0", 3, "synthesize"],
        ["q1", 1, "decompose"],
        ["q1", 2, "synthesize"],
    ]
    assert hops["sub_queries"].tolist()[:2] == ['["a?", "b?"]', "[]"]
    assert hops["x_seen"].iloc[2] == 4


def test_steps_come_back_as_they_were_written(results, tmp_path):
    again = rs.load_results(results.save(tmp_path / "copy" / "r", format="per_query"))
    pd.testing.assert_frame_equal(again.calls, results.calls)
    pd.testing.assert_frame_equal(again.responses, results.responses)
    written = [
        json.loads(line)
        for line in (tmp_path / "copy" / "r" / "per_query.jsonl").read_text().splitlines()
    ]
    assert [line["answer"]["hops"] for line in written[:2]] == [TRACE, SHORT]


@pytest.mark.parametrize(
    "hops", [[], [{"iter": 3}], [{"iter": 2, "kind": "decide", "llm_call_ms": 7.5}, {"iter": 1}]]
)
def test_what_a_step_does_not_say_is_not_made_up(write_run, tmp_path, hops):
    results = rs.load_results(write_run("r", [record("q", [], answer=answer("x", hops=hops))]))
    written = json.loads(results.save(tmp_path / "copy", format="per_query").read_text())
    assert written["answer"].get("hops", []) == hops


def test_steps_without_numbers_are_numbered_in_order(write_run):
    plain = [{"kind": "decide"}, {"kind": "synthesize"}]
    found = rs.load_results(write_run("r", [record("q", [], answer=answer("x", hops=plain))]))
    assert found.calls["call"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "bad",
    [
        "text",
        [1],
        [step(0, "a", 1), step(0, "b", 1)],
        [step(0, "a", -math.inf, sub_queries=3)],
        [step(0, "a", 1, forced_stop="no")],
    ],
)
def test_what_is_no_trace_is_named_by_line(write_run, bad):
    with refused("answer.hops", file="per_query.jsonl", line=1):
        rs.load_results(write_run("r", [record("q", [], answer=answer("x", hops=bad))]))
