"""Formats that aren't ragscore's: registered in a session, or declared as ours are."""

import json

import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from ragscore.io import detect, registry, traces
from tests.messages import refused

LINE = {"ask": "q1", "text": "Why?", "found": ["d2", "d1"], "said": "So."}


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})


def read_acme(path):
    rows = pd.read_json(path, lines=True)
    names = {"ask": "query_id", "text": "query", "found": "doc_id", "said": "answer"}
    return rows.rename(columns=names)


def test_a_registered_function_returns_a_frame_that_is_read_as_a_table(tmp_path):
    file = put(tmp_path, [LINE, LINE | {"ask": "q2", "found": []}], "monday.jsonl")
    rs.io.register("acme", read_acme, mark="ask found")
    found = rs.load_results(file)
    assert found.responses["query_id"].tolist() == ["q1", "q2"]
    assert found.hits[["query_id", "rank", "doc_id"]].to_numpy().tolist() == [
        ["q1", 1, "d2"],
        ["q1", 2, "d1"],
    ]
    assert found.responses["answer"].tolist() == ["So.", "So."]
    assert found.runs["run_id"].tolist() == ["monday"]
    assert rs.load_results(file, run_id="mine").runs["run_id"].tolist() == ["mine"]


def test_a_results_file_of_another_tool_is_one_declared_row(tmp_path):
    rows = [
        {"case": {"id": "q1", "ask": "why?", "right": "so"}, "took": 12.5, "said": "So.",
         "found": [{"page": "d2", "points": 2.0}, {"page": "d1", "points": 1.0}],
         "marks": {"tone": 0.5}, "seed": 7},
        {"case": {"id": "q2", "ask": "how?", "right": "thus"}, "failure": "time-out",
         "found": [], "marks": {}},
    ]  # fmt: skip
    file = put(tmp_path, [{"acme_version": 2, "outcomes": rows}], "run.json")
    rs.io.register(
        "acme",
        {"query_id": "case.id", "query": "case.ask", "answer": "said", "error": "failure",
         "latency_ms": "took", "doc_id": "found.page", "score": "found.points",
         "scores": "marks", "reference_answer": "case.right"},
        mark="acme_version outcomes", rows="outcomes",
    )  # fmt: skip
    found = rs.load_results(file)
    assert found.hits[["query_id", "doc_id", "score"]].to_numpy().tolist() == [
        ["q1", "d2", 2.0],
        ["q1", "d1", 1.0],
    ]
    assert found.responses[["answer", "error"]].fillna("").to_numpy().tolist() == [
        ["So.", ""],
        ["", "time-out"],
    ]
    assert found.responses["elapsed_ms"].tolist()[:1] == [12.5]
    assert found.responses["x_seed"].dropna().tolist() == [7]
    assert found.reported[["query_id", "metric", "value"]].to_numpy().tolist() == [
        ["q1", "tone", 0.5]
    ]
    assert rs.load_golden(file).queries["reference_answer"].tolist() == ["so", "thus"]
    # the user's columns come before those of the declaration
    other = rs.load_results(file, columns={"answer": "case.ask"})
    assert other.responses["answer"].tolist()[0] == "why?"


def test_a_dialect_of_traces_is_one_declaration(tmp_path, monkeypatch):
    acme = traces.Dialect(
        kind="acme.step",
        kinds={"ask": "CHAIN", "find": "RETRIEVER", "say": "LLM"},
        query="acme.question",
        answer="acme.reply",
        documents={"RETRIEVER": "acme.pages"},
        hit={"doc_id": "url", "score": "points"},
        tokens={"prompt_tokens": "acme.tokens_in"},
        session="acme.chat",
    )
    monkeypatch.setattr(traces, "DIALECTS", (*traces.DIALECTS, acme))
    ids = {"trace_id": "t", "start_time": 1, "end_time": 2 * 10**6}
    steps = [
        {"acme.step": "ask", "acme.question": "why?", "acme.reply": "So.", "acme.chat": "s"},
        {"acme.step": "find", "acme.question": "reasons",
         "acme.pages": json.dumps([{"url": "a", "points": 2.0}, {"url": "b"}])},
        {"acme.step": "say", "acme.tokens_in": 5},
    ]  # fmt: skip
    spans = [
        ids | {"span_id": str(n), "parent_id": "0" if n else None, "attributes": one}
        for n, one in enumerate(steps)
    ]
    found = rs.load_results(put(tmp_path, spans, "run.jsonl"))
    row = found.responses.iloc[0]
    assert (row["query"], row["answer"], row["prompt_tokens"]) == ("why?", "So.", 5)
    assert (row["conversation"], row["turn"]) == ("s", "1")
    assert found.calls[["query", "n_hits"]].to_numpy().tolist() == [["reasons", 2]]
    assert found.hits["doc_id"].tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "read", "field", "named"),
    [(one, read_acme, "name", one) for one in ("trec", "beir", "table", "ragas")]
    + [("acme", "read_acme", "read", "a function")],
)
def test_a_name_of_ours_cannot_be_registered(name, read, field, named):
    with refused(named, field=field):
        rs.io.register(name, read)


def test_the_highest_mark_wins_a_tie_names_both_and_a_name_again_replaces_the_first(tmp_path):
    file = put(tmp_path, [LINE], "run.jsonl")
    rs.io.register("acme", read_acme, mark="ask found")
    rs.io.register("other", read_acme, mark="ask said")
    with refused("acme", "other", file="run.jsonl", field="format"):
        rs.load_results(file)
    assert len(rs.load_results(file, format="other").hits) == 2
    rs.io.register("acme", read_acme, mark="ask found said")
    assert len(rs.load_results(file).hits) == 2
    assert [one.name for one in registry.formats_of("results")].count("acme") == 1
    with refused("acme", field="format"):  # it is read, not written
        rs.load_results(file).save(tmp_path / "tail", format="acme")


@pytest.mark.parametrize(
    ("read", "field", "named"),
    [
        (lambda path: 1 / 0, None, "ZeroDivisionError"),
        (lambda path: [{"ask": 1}], "source", "list"),
    ],
)
def test_a_reader_that_fails_is_one_error_with_its_file(tmp_path, read, field, named):
    rs.io.register("acme", read, mark="ask found")
    with refused(named, file="run.jsonl", field=field):
        rs.load_results(put(tmp_path, [LINE], "run.jsonl"))


@pytest.mark.parametrize(
    "row",
    [
        {"question": "a?", "answer": "b", "ground_truth": "c", "retrieved_ids": ["d2", "d1"]},
        {"question": "a?", "contexts": ["x"], "answer": "b", "latency_ms": 3.5},
        {"user_input": "a?", "response": "b", "retrieved_ids": ["d2", "d1"]},
        {"user_input": "a?", "response": "b", "reference": "c", "retrieved_doc_ids": ["d2"]},
    ],
)
def test_a_table_of_ones_own_is_not_taken_for_another_tool_s(tmp_path, row):
    seen = detect.sample(put(tmp_path, [row], "run.jsonl"))
    assert [tool.name for tool in registry.TOOLS if tool.fits(seen)] == []
