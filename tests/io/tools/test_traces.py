"""Traces -> one record each, with every retrieval as a call; dialects of attributes."""

import json

import ragscore as rs
from tests.messages import refused


def value(one):
    if isinstance(one, list):
        return {"arrayValue": {"values": [value(each) for each in one]}}
    if isinstance(one, dict):
        return {"kvlistValue": {"values": [{"key": k, "value": value(v)} for k, v in one.items()]}}
    kind = {str: "stringValue", int: "intValue", float: "doubleValue", bool: "boolValue"}[type(one)]
    return {kind: str(one) if kind == "intValue" else one}


def span(trace, number, parent, start, end, code=1, **attributes):
    pairs = [{"key": k.replace("__", "."), "value": value(v)} for k, v in attributes.items()]
    return {
        "traceId": trace,
        "spanId": f"{trace}{number}",
        "parentSpanId": parent and f"{trace}{parent}",
        "startTimeUnixNano": str((5000 + start) * 10**6),
        "endTimeUnixNano": str((5000 + end) * 10**6),
        "attributes": pairs,
        "status": {"code": code, "message": "boom" if code == 2 else ""},
    }


def documents(prefix, *ids):
    found = {}
    for n, one in enumerate(ids):
        found |= {
            f"{prefix}.{n}.document.id": one,
            f"{prefix}.{n}.document.score": 1.0 / (n + 1),
            f"{prefix}.{n}.document.metadata": json.dumps({"source": one}),
        }
    return found


def put(folder, *spans):
    file = folder / "traces.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}))
    return file


KIND = "openinference.span.kind"


def test_two_retrievals_of_one_query_are_two_calls_and_the_last_one_ranks(tmp_path):
    found = rs.load_results(
        put(
            tmp_path,
            span(
                "t",
                1,
                None,
                0,
                900,
                **{KIND: "AGENT", "input.value": "a?", "output.value": "A", "session.id": "s"},
            ),
            span(
                "t",
                2,
                1,
                10,
                30,
                **{
                    KIND: "RETRIEVER",
                    "input.value": "a1",
                    **documents("retrieval.documents", "c1", "c2"),
                },
            ),
            span(
                "t",
                3,
                1,
                40,
                70,
                **{
                    KIND: "RETRIEVER",
                    "input.value": "a2",
                    **documents("retrieval.documents", "c2", "c3", "c4"),
                },
            ),
            span(
                "t",
                4,
                1,
                80,
                90,
                **{KIND: "LLM", "llm.token_count.prompt": 7, "llm.cost.total": 0.5},
            ),
            span(
                "u",
                1,
                None,
                1000,
                1100,
                2,
                **{KIND: "AGENT", "input.value": "b?", "session.id": "s"},
            ),
        )
    )
    assert found.hits["chunk_id"].tolist() == ["c2", "c3", "c4"]
    hops = found.hops
    assert hops["kind"].tolist() == ["retriever"] * 2 and hops["chunks_added"].tolist() == [2, 2]
    assert hops["sub_queries"].tolist() == ['["a1"]', '["a2"]']
    assert hops["x_elapsed_ms"].tolist() == [20.0, 30.0]
    rows = found.responses.set_index("query")
    assert rows.loc["a?", "answer"] == "A" and rows.loc["a?", "elapsed_ms"] == 900
    assert rows.loc["a?", "prompt_tokens"] == 7 and rows.loc["a?", "cost_usd"] == 0.5
    assert rows.loc["b?", "error"] == "boom" and rows["x_turn"].tolist() == [1, 2]
    assert json.loads(found.hit_meta["value"].iloc[0]) == "c2"


def test_genai_attributes_are_another_dialect_of_the_same(tmp_path):
    found = rs.load_results(
        put(
            tmp_path,
            span(
                "t",
                1,
                None,
                0,
                9,
                **{"gen_ai.operation.name": "invoke_agent", "gen_ai.retrieval.query.text": "a?"},
            ),
            span(
                "t",
                2,
                1,
                1,
                3,
                **{
                    "gen_ai.operation.name": "retrieval",
                    "gen_ai.retrieval.documents": json.dumps([{"id": "d1", "score": 0.5}]),
                },
            ),
            span(
                "t", 3, 1, 4, 5, **{"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3}
            ),
        )
    )
    assert found.hits[["chunk_id", "score"]].to_numpy().tolist() == [["d1", 0.5]]
    assert found.responses["prompt_tokens"].tolist() == [3] and found.hops is None


def test_a_span_without_a_trace_is_a_problem_with_its_line(tmp_path):
    bad = span("t", 1, None, 0, 9) | {"traceId": None}
    with refused(file="traces.json", line=1, field="traceId"):
        rs.load_results(put(tmp_path, bad))
