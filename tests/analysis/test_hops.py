"""Traces of multi-hop answers: read, written back, and added up."""

import json

import pandas as pd
import pytest
from conftest import answer, hit, record

import ragscore as rs
from tests.messages import refused


def step(number, kind, ms, **more):
    return {
        "iter": number, "kind": kind, "sub_queries": [], "context_chunks_added": 0,
        "forced_stop": False, "llm_call_ms": ms,
    } | more  # fmt: skip


TRACE = [
    step(0, "decompose", 100, sub_queries=["a?", "b?"]),
    step(1, "decide", 0, context_chunks_added=3),
    step(2, "synthesize", 500, forced_stop=True, seen=4),
]
SHORT = [step(0, "decompose", 300), step(1, "synthesize", 100, context_chunks_added=2)]


@pytest.fixture
def load(write_run):
    """Load a run whose answers have these traces; None: an answer without one."""

    def load(*traces):
        answers = [answer("x", **({} if one is None else {"hops": one})) for one in traces]
        records = [record(f"q{n}", [hit("c", "d", 1)], answer=one) for n, one in enumerate(answers)]
        return rs.load_results(write_run("r", records))

    return load


def test_steps_are_rows_and_come_back_as_they_were_written(load, tmp_path):
    results = load(TRACE, SHORT, None)
    steps = results.calls[["query_id", "call", "kind"]].to_numpy().tolist()
    assert steps == [
        ["q0", 1, "decompose"], ["q0", 2, "decide"], ["q0", 3, "synthesize"],
        ["q1", 1, "decompose"], ["q1", 2, "synthesize"],
    ]  # fmt: skip
    assert results.calls["sub_queries"].tolist()[:2] == ['["a?", "b?"]', "[]"]
    assert results.calls["x_seen"].iloc[2] == 4
    again = rs.load_results(results.save(tmp_path / "copy" / "r", format="per_query"))
    pd.testing.assert_frame_equal(again.calls, results.calls)
    pd.testing.assert_frame_equal(again.responses, results.responses)


@pytest.mark.parametrize(
    "hops",
    [
        TRACE, [], [{"iter": 3}],
        [{"iter": 2, "kind": "decide", "llm_call_ms": 7.5}, {"iter": 1}],
    ],
)  # fmt: skip
def test_what_a_step_does_not_say_is_not_made_up(load, tmp_path, hops):
    written = load(hops).save(tmp_path / "copy", format="per_query").read_text()
    assert json.loads(written)["answer"].get("hops", []) == hops


def test_steps_without_numbers_are_numbered_in_order(load):
    assert load([{"kind": "decide"}, {"kind": "synthesize"}]).calls["call"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "bad",
    [
        "text", [1], [step(0, "a", 1), step(0, "b", 1)],
        [step(0, "a", 1, sub_queries=3)], [step(0, "a", 1, forced_stop="no")],
    ],
)  # fmt: skip
def test_what_is_no_trace_is_named_by_line(load, bad):
    with refused("answer.hops", file="per_query.jsonl", line=1):
        load(bad)
