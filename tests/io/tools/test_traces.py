"""Traces -> one record each, with every retrieval as a call; dialects of attributes."""

import json

import pytest

import ragscore as rs
from ragscore.analysis.extras.runs import traces
from ragscore.cli import main
from tests.messages import refused


def put(folder, *records):
    file = folder / "traces.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    return file


def span(trace, number, parent, start, end, error=None, **attributes):
    return {
        "trace_id": trace,
        "span_id": f"{trace}{number}",
        "parent_id": parent and f"{trace}{parent}",
        "start_time": (5000 + start) * 10**6,
        "end_time": (5000 + end) * 10**6,
        "status": {"status_code": "ERROR", "description": error} if error else {},
        "attributes": attributes,
    }


def documents(prefix, *ids):
    return {
        f"{prefix}.{n}.document.{name}": value
        for n, one in enumerate(ids)
        for name, value in (
            ("id", one), ("score", 1.0 / (n + 1)), ("metadata", json.dumps({"source": one}))
        )
    }  # fmt: skip


KIND = "openinference.span.kind"


def root(trace="t", query="a?", **more):
    return span(trace, 1, None, 0, 900, **{KIND: "AGENT", "input.value": query, **more})


def retrieval(number, parent, start, end, query, *ids, trace="t", kind="RETRIEVER"):
    at = "retrieval.documents" if kind == "RETRIEVER" else "reranker.output_documents"
    about = {KIND: kind, "input.value": query, **documents(at, *ids)}
    return span(trace, number, parent, start, end, **about)


def calls(results):
    """The rows of calls, and the ids of the hits of each."""
    hits = results.hits
    ids = next(hits[name] for name in ("chunk_id", "doc_id") if name in hits)
    lists = [
        ids[(hits["query_id"] == one.query_id) & (hits["call"] == one.call)].tolist()
        for one in results.calls.itertuples()
    ]
    return results.calls, lists


def test_each_retrieval_of_a_trace_is_a_call_with_its_hits(tmp_path):
    found = rs.load_results(
        put(
            tmp_path,
            root(**{"output.value": "A", "session.id": "s"}),
            retrieval(2, 1, 10, 30, "a1", "c1", "c2"),
            retrieval(3, 1, 40, 40, "a2", "c2", "c3", "c4"),
            span("t", 4, 1, 80, 90, **{KIND: "LLM", "llm.token_count.prompt": 7,
                 "llm.token_count.completion": 0, "llm.cost.total": 0.5}),
            span("t", 5, 1, 90, 80, **{KIND: "LLM", "llm.token_count.prompt": -7}),
            span("u", 1, None, 1000, 1100, "boom", **{KIND: "AGENT", "input.value": "b?",
                 "session.id": "s"}),
        )
    )  # fmt: skip
    table, lists = calls(found)
    assert lists == [["c1", "c2"], ["c2", "c3", "c4"]]
    assert table["query"].tolist() == ["a1", "a2"] and table["n_hits"].tolist() == [2, 3]
    assert table["elapsed_ms"].tolist() == [20.0, 0.0]
    assert table["start"].iloc[0] == "1970-01-01T00:00:05.010000+00:00"
    assert found.hits["rank"].tolist() == [1, 2, 3, 4, 5]
    rows = found.responses.set_index("query")
    assert rows.loc["a?", "answer"] == "A" and rows.loc["a?", "elapsed_ms"] == 900
    used = ["prompt_tokens", "completion_tokens", "cost_usd"]
    assert rows.loc["a?", used].tolist() == [7, 0, 0.5]  # numbers below zero are none
    assert rows.loc["b?", "error"] == "boom" and rows["turn"].tolist() == ["1", "2"]
    assert found.hits["x_metadata.source"].iloc[0] == "c1"


OUTER = [
    retrieval(2, 1, 10, 30, "outer", "c1", "c2"), retrieval(3, 2, 11, 29, "inner"),
    retrieval(4, 1, 40, 70, "outer"), retrieval(5, 4, 41, 69, "inner", "c3"),
    retrieval(6, 1, 80, 90, "nothing"),
]  # fmt: skip
RERANKED = [
    retrieval(2, 1, 10, 30, "first", "c1", "c2"),
    retrieval(3, 1, 40, 50, "rerank", "c2", "c1", kind="RERANKER"),
    retrieval(4, 1, 60, 70, "second", "c3"),
]
ORPHAN = [retrieval(3, 9, 40, 70, "lost", "c2"), retrieval(2, 1, 10, 30, "kept", "c1")]


@pytest.mark.parametrize(
    ("spans", "queries", "ids"),
    [
        (OUTER, ["outer", "outer", "nothing"], [["c1", "c2"], ["c3"], []]),
        (RERANKED, ["first", "second"], [["c2", "c1"], ["c3"]]),
        (ORPHAN, ["kept", "lost"], [["c1"], ["c2"]]),
    ],
    ids=["an inner search is the outer one", "a reranker takes the place", "a parent is missing"],
)
def test_searches_of_a_trace_are_calls_in_the_order_of_time(tmp_path, spans, queries, ids):
    found = rs.load_results(put(tmp_path, root(), *spans))
    table, lists = calls(found)
    assert (table["query"].tolist(), lists) == (queries, ids)
    assert table["n_hits"].tolist() == [*map(len, ids)]
    row = found.responses.iloc[0]
    n_orphans = 1 if spans is ORPHAN else 0
    assert (row["x_n_spans"], row.get("x_n_orphans", 0)) == (len(spans) + 1, n_orphans)


def test_a_tool_is_a_call_only_where_a_pattern_names_it(tmp_path):
    listed = json.dumps([{"url": "https://a", "title": "A", "body": "text"}, {"url": "https://b"}])
    tool = {KIND: "TOOL", "tool.name": "web_search", "input.value": '{"query": "x"}',
            "output.value": listed}  # fmt: skip
    file = put(tmp_path, root(), span("t", 2, 1, 10, 20, **tool))
    assert rs.load_results(file).calls is None
    found = rs.load_results(file, calls_from={"tool": "*search*"})
    assert found.calls[["query", "tool", "n_hits"]].to_numpy().tolist() == [["x", "web_search", 2]]
    assert found.hits["doc_id"].tolist() == ["https://a", "https://b"]
    assert rs.load_results(file, calls_from={"tool": "*lookup*"}).calls is None
    with refused("tools", field="calls_from"):
        rs.load_results(file, calls_from={"tools": "*"})


def test_equal_questions_of_several_turns_are_several_queries_in_the_order_of_time(tmp_path):
    late = span("v", 1, None, 1000, 1100, **{KIND: "AGENT", "input.value": "How?",
                "session.id": "s2"})  # fmt: skip
    asked = [root("t", "Why?", **{"session.id": "s1"}), root("u", "Why?", **{"session.id": "s2"})]
    found = rs.load_results(put(tmp_path, late, *asked))  # an export may begin with the newest
    turns = found.responses.set_index("query_id")["turn"]
    assert turns.tolist() == ["1", "1", "2"] and turns.index.tolist()[:2] == ["s1/1", "s2/1"]
    assert found.runs["run_id"].tolist() == ["traces"]
    alone = rs.load_results(put(tmp_path, root("t", "How?"))).responses["query_id"]
    assert alone.tolist() == [turns.index[2]]


LANGFUSE = {"traceId": "t", "parentObservationId": None, "startTime": "2026-01-01T00:00:00Z",
            "endTime": "2026-01-01T00:00:01Z"}  # fmt: skip
RUN = {"trace_id": "t", "parent_run_id": None, "start_time": "2026-01-01T00:00:00",
       "inputs": {"question": "a?"}}  # fmt: skip
TRULENS = "ai.observability."
MLFLOW = {"trace_id": "dA==", "start_time_unix_nano": 10**18, "end_time_unix_nano": 10**18 + 10**6,
          "status": {"code": "STATUS_CODE_OK", "message": ""}}  # fmt: skip


def otlp(number, parent, **attributes):
    """A span of OTLP's JSON."""
    return {
        "traceId": "t", "spanId": number, "parentSpanId": parent, "status": {"code": 1},
        "startTimeUnixNano": str(10**18), "endTimeUnixNano": str(10**18 + 10**6),
        "attributes": [{"key": one, "value": value} for one, value in attributes.items()],
    }  # fmt: skip


SEARCHED = {
    "mlflow.spanType": '"RETRIEVER"', "mlflow.spanOutputs": '[{"page_content": "x", "id": "c1"}]',
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        {"resourceSpans": [{"scopeSpans": [{"spans": [
            otlp("1", None, **{KIND: {"stringValue": "AGENT"},
                               "input.value": {"stringValue": "a?"}}),
            otlp("2", "1", **{
                KIND: {"stringValue": "RETRIEVER"},
                "retrieval.documents": {"arrayValue": {"values": [{"kvlistValue": {"values": [
                    {"key": "document.id", "value": {"stringValue": "c1"}}]}}]}}}),
        ]}]}]},
        {  # Langfuse's export of a trace
            "trace": {"id": "t", "sessionId": "s", "scores": [{"name": "good", "value": 0.5}]},
            "observations": [
                LANGFUSE | {"id": "1", "type": "SPAN", "name": "root", "input": {"query": "a?"}},
                LANGFUSE | {"id": "2", "type": "RETRIEVER", "name": "search",
                            "parentObservationId": "1", "output": [{"id": "c1"}]},
            ],
        },
        {  # LangSmith's runs, posted and patched
            "post": [RUN | {"id": "1", "run_type": "chain", "name": "root"},
                     RUN | {"id": "2", "run_type": "retriever", "name": "search",
                            "parent_run_id": "1"}],
            "patch": [RUN | {"id": "2", "run_type": "retriever", "parent_run_id": "1",
                             "outputs": {"documents": [{"page_content": "x", "id": "c1"}]}}],
        },
        [  # Phoenix's REST API
            {"context": {"trace_id": "t", "span_id": "1"}, "parent_id": None, "span_kind": "AGENT",
             "attributes": {"input.value": "a?"}, "name": "root"},
            {"context": {"trace_id": "t", "span_id": "2"}, "parent_id": "1", "name": "search",
             "span_kind": "RETRIEVER",
             "attributes": dict(documents("retrieval.documents", "c1"))},
        ],
        {  # MLflow
            "info": {"trace_id": "tr-1", "trace_metadata": {"mlflow.trace.session": "s"}},
            "data": {"spans": [
                MLFLOW | {"span_id": "1", "parent_span_id": None, "name": "root", "attributes": {
                    "mlflow.spanType": '"CHAIN"', "mlflow.spanInputs": '{"question": "a?"}',
                    "mlflow.spanOutputs": '"A"'}},
                MLFLOW | {"span_id": "2", "parent_span_id": "1", "name": "search", "attributes": {
                    "mlflow.spanType": '"RETRIEVER"', "mlflow.spanInputs": '{"query": "x"}',
                    "mlflow.spanOutputs": '[{"page_content": "x", "id": "c1"}]'}},
            ]},
        },
        [  # TruLens
            {"trace": {"trace_id": "t", "span_id": "1", "parent_id": ""}, "record": {"name": "r"},
             "record_attributes": {TRULENS + "span_type": "record_root",
                                   TRULENS + "record_root.input": "a?"}},
            {"trace": {"trace_id": "t", "span_id": "2", "parent_id": "1"}, "record": {"name": "s"},
             "record_attributes": {TRULENS + "span_type": "retrieval",
                                   TRULENS + "retrieval.retrieved_contexts": ["one text"]}},
        ],
        [{"trace_id": "tr-1", "request": "a?", "response": "A", "trace": {"data": {"spans": [
            MLFLOW | {"span_id": "1", "parent_span_id": None, "attributes": SEARCHED},
            MLFLOW | {"span_id": "2", "parent_span_id": "1", "attributes": SEARCHED},  # the same
        ]}}}],
    ],
    ids=["OTLP", "Langfuse", "LangSmith", "Phoenix", "MLflow", "TruLens", "MLflow's table"],
)  # fmt: skip
def test_spans_of_every_container_end_in_one_response_with_its_call(tmp_path, content):
    found = rs.load_results(put(tmp_path, *(content if isinstance(content, list) else [content])))
    assert found.responses["query"].tolist() == ["a?"]
    assert found.calls["n_hits"].tolist() == [1] and found.hits["call"].tolist() == [1]
    ids = found.hits["chunk_id"].tolist()
    assert ids == ["c1"] or found.hits["text"].tolist() == ["one text"]


def test_a_span_without_a_trace_is_a_problem_with_its_line(tmp_path):
    with refused(file="traces.jsonl", line=2, field="trace_id"):
        rs.load_results(put(tmp_path, root(), span("t", 1, None, 0, 9) | {"trace_id": None}))


def test_mlflow_s_traces_have_tokens_sessions_and_feedback(tmp_path):
    def span(number, parent, kind, **more):
        return MLFLOW | {"span_id": number, "parent_span_id": parent, "name": kind, "attributes":
                         {"mlflow.spanType": json.dumps(kind)} | more}  # fmt: skip

    used = {"mlflow.chat.tokenUsage": '{"input_tokens": 7, "output_tokens": 2}'}
    asked = {"mlflow.spanInputs": '{"question": "a?"}', "mlflow.spanOutputs": '"A"'}
    assessed = [
        {"assessment_name": "good", "feedback": {"value": 0.5},
         "source": {"source_type": "LLM_JUDGE"}, "rationale": "half of it"},
        {"assessment_name": "expected_response", "expectation": {"value": "A"}},
    ]  # fmt: skip
    trace = {
        "info": {"trace_metadata": {"mlflow.trace.session": "s"}, "assessments": assessed},
        "data": {"spans": [span("1", None, "AGENT", **asked), span("2", "1", "CHAT_MODEL", **used),
                           span("3", "1", "RETRIEVER"), span("4", "3", "RETRIEVER")]},
    }  # fmt: skip
    found = rs.load_results(put(tmp_path, trace, trace | {"data": {"spans": [
        span("5", None, "AGENT", **asked) | {"trace_id": "dQ=="}]}}))  # fmt: skip
    row = found.responses.iloc[0]
    assert (row["answer"], row["prompt_tokens"], row["completion_tokens"]) == ("A", 7, 2)
    assert row["elapsed_ms"] == 1.0 and found.responses["turn"].tolist() == ["1", "2"]
    assert found.calls["n_hits"].tolist() == [0]  # the inner retrieval is the same call
    assert (
        found.judgments[["criterion", "value", "reason"]].to_numpy().tolist()
        == [["good", 0.5, "half of it"]] * 2
    )


def test_averaged_feedback_of_langsmith_is_a_stored_score(tmp_path):
    feedback = {"feedback_stats": {"good": {"n": 2, "avg": 0.5}}}
    found = rs.load_results(put(tmp_path, RUN | {"id": "1", "run_type": "chain"} | feedback))
    assert found.reported[["metric", "value"]].to_numpy().tolist() == [["good", 0.5]]


def test_a_patch_in_a_later_line_completes_its_post(tmp_path):
    post = RUN | {"id": "1", "run_type": "tool", "name": "before", "dotted_order": "1"}
    patch = {
        "trace_id": "t",
        "id": "1",
        "dotted_order": "1",
        "name": "search",
        "inputs": {},
        "end_time": "2026-01-01T00:00:02",
        "outputs": {"documents": [{"id": "c1"}]},
    }
    # with an error it has failed, whatever its status
    other = RUN | {"trace_id": "u", "id": "2", "run_type": "chain", "inputs": {"question": "b?"},
                   "error": "RateLimit()"}  # fmt: skip
    file = put(tmp_path, {"post": [post, other]}, {"post": [], "patch": [patch]})
    found = rs.load_results(file, calls_from={"tool": "search"})
    asked = found.responses[["query", "error"]].fillna("").to_numpy().tolist()
    assert sorted(asked) == [["a?", ""], ["b?", "RateLimit()"]]  # the other was never patched
    call = found.calls.iloc[0]
    # what the patch says counts, but for what it leaves empty
    assert (call["tool"], call["query"], call["elapsed_ms"], call["n_hits"]) == (
        "search", "a?", 2000.0, 1
    )  # fmt: skip


def test_a_span_is_read_by_its_own_dialect_whatever_the_others_of_its_trace(tmp_path):
    operation = "gen_ai.operation.name"
    found = rs.load_results(
        put(
            tmp_path,
            root(),
            span("t", 2, 1, 1, 3, **{operation: "retrieval",
                 "gen_ai.retrieval.documents": json.dumps([{"id": "d1", "score": 0.5}])}),
            span("t", 3, 1, 4, 5, **{operation: "chat", "gen_ai.usage.input_tokens": 3}),
            retrieval(4, 1, 6, 7, "x", "c1", "c2"),
        )
    )  # fmt: skip
    assert calls(found)[1] == [["d1"], ["c1", "c2"]] and found.hits["score"].iloc[0] == 0.5
    assert found.responses["prompt_tokens"].tolist() == [3]


def test_what_was_read_of_traces_is_counted_by_run_and_told_by_check(tmp_path, capsys):
    tool = {KIND: "TOOL", "tool.name": "web_search", "input.value": "x"}
    file = put(
        tmp_path,
        root(**{"session.id": "s"}),
        span("t", 2, 1, 10, 20, **tool),
        span("t", 3, 1, 20, 30, **{KIND: "TOOL", "tool.name": "calculator"}),
        span("t", 4, 1, 30, 40, **{KIND: "TOOL", "tool.name": "calculator"}),
        retrieval(5, 1, 50, 60, "x", "c1", "c2"),
        span("t", 6, 5, 51, 52, **{KIND: "TOOL", "tool.name": "inner_search"}),
        retrieval(7, 1, 70, 80, "y"),
        span("u", 8, 9, 0, 1, **{KIND: "AGENT"}),
        *(span("t", f"1{one}", 1, 31, 32, **{KIND: "TOOL", "tool.name": one}) for one in "abc"),
    )
    found = rs.load_results(file)
    assert traces(found).set_index("run_id").loc["traces"].to_dict() == {
        "n_traces": 2, "n_sessions": 1, "n_turns": 1, "n_spans": 11, "n_orphans": 1, "n_calls": 2,
        "n_empty": 1, "n_documents": 2, "n_without_query": 1, "n_without_calls": 1,
    }  # fmt: skip
    (note,) = found.problems.itertuples()
    # what is called as a search is comes first, then what is used most; five of them
    shown = "inner_search (1), web_search (1), calculator (2), a (1), b (1), …"
    assert note.found == f"7 uses of tools that no rule names as searches: {shown}"
    assert note.field == "calls_from" and '{"tool": "inner_search"}' in note.allowed
    named = rs.load_results(file, calls_from={"tool": "web_search"})
    assert traces(named)["n_calls"].tolist() == [3]
    assert "web_search" not in named.problems["found"].iloc[0]
    with refused("traces", field="responses"):
        traces(rs.load_results({"q": ["a"]}))
    main(["check", str(file), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert [one["n_spans"] for one in told["traces"]] == [11]
    assert told["left_out"][0]["field"] == "calls_from"
