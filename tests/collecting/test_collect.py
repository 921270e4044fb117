"""Asking a system.

What is sent is what the snapshot says, failures are recorded, several at a time, from a notebook
too.
"""

import asyncio
import json
import sys
import threading
from unittest.mock import Mock

import pandas as pd
import pytest
from conftest import questions
from servers import Reply, Server, chatbot, in_turn

import ragscore as rs
from ragscore.collecting import requests as asking
from ragscore.collecting.run import as_system
from ragscore.collecting.systems import CARRIED, SETTINGS
from tests.messages import refused, says, warned

ROWS = [
    {
        "id": "q1",
        "query": "first?",
        "expected_doc_ids": ["d1"],
        "vaults": ["work"],
        "folders": ["a", "b/c"],
        "filters": {"year": 2024, "product": "pump"},
    },
    {"id": "q2", "query": "second?", "expected_doc_ids": ["d2"], "tool": "search_docs"},
    {"id": "q3", "query": "third?", "expected_doc_ids": ["d3"]},
]
SENT = {"mode": "hybrid", "k": 2, "temperature": 0.0, "seed": 7}
GOLDEN = rs.load_golden(ROWS)
FIELDS = (*SETTINGS, *CARRIED, "folder_mode")


def collect(system, golden, out, **options):
    return rs.collect(system, golden, out, progress=False, **options)


def config_of(results):
    return json.loads(results.runs["config"].iloc[0])


def found(query, k=2):
    """A retriever that needs no corpus."""
    return [
        {
            "chunk_id": f"c{n}",
            "doc_id": f"d{n}",
            "path": f"d{n}.md",
            "heading": "A > B",
            "text": f"{query} {n}",
            "score": 1 / n,
        }
        for n in range(1, k + 1)
    ]


def check_sent(requests, results, out):
    """Every request equals the snapshot, and what its record says that the query carried."""
    lines = (out / "per_query.jsonl").read_text(encoding="utf-8").splitlines()
    config, records = config_of(results), {row["query_id"]: row for row in map(json.loads, lines)}
    snapshot = {name: config[name] for name in (*SETTINGS, "folder_mode") if name in config}
    assert len(requests) == len(results.responses)
    for request in requests:
        sent = {name: request[name] for name in FIELDS if name in request}
        assert sent == snapshot | records[request["query_id"]].get("request", {})


@pytest.fixture
def out(tmp_path):
    return tmp_path / "run"


CARRIED_BY = {
    "q1": {
        "filters": {"year": 2024},
        "vaults": ["work"],
        "folders": ["a", "b/c"],
        "product": "pump",
    },
    "q2": {"tool": "search_docs"},
}


def test_a_callable_gets_what_the_snapshot_says(out):
    seen = []

    def system(query, **told):
        seen.append(told)
        return {"hits": found(query), "answer": "yes"}

    results = collect(system, GOLDEN, out, run_id="run", settings={"folder_mode": "on"}, **SENT)
    check_sent(seen, results, out)
    assert {
        one["query_id"]: {name: one[name] for name in CARRIED if name in one} for one in seen
    } == CARRIED_BY | {"q3": {}}
    assert {name: config_of(results)[name] for name in (*SETTINGS, "folder_mode")} == SENT | {
        "with_answer": True,
        "folder_mode": "on",
    }


def test_a_chatbot_gets_what_the_snapshot_says(out):
    with Server(chatbot) as server:
        results = collect(
            server.url, GOLDEN, out, settings={"folder_mode": "on"}, retrieval_only=True, **SENT
        )
    assert config_of(results)["with_answer"] is False
    ids = dict(GOLDEN.queries[["query", "query_id"]].itertuples(index=False))
    check_sent(
        [{**body, "query_id": ids[body["question"]]} for body in server.bodies], results, out
    )
    assert {(seen.method, seen.path, *seen.params["debug"]) for seen in server.requests} == {
        ("POST", "/api/v1/ask", "true")
    }


MAPPING = {
    "request": (
        {"query": "text", "query_id": "id", "k": "search.top", "mode": "search.mode"}
        | {
            name: name
            for name in (
                "temperature",
                "seed",
                "with_answer",
                "filters",
                "vaults",
                "folders",
                "product",
                "tool",
                "folder_mode",
            )
        }
    ),
    "fixed": {"search.debug": True},
    "response": {
        "hits": "found.0.items",
        "hit": {"chunk_id": "id", "doc_id": "source.document", "score": "points"},
        "answer": "reply.text",
    },
}


def test_a_mapped_endpoint_gets_what_the_snapshot_says(out):
    item = {"id": "c1", "source": {"document": "d1", "page": 3}, "points": 0.5, "own": "kept"}
    with Server(lambda seen: {"found": [{"items": [item]}], "reply": {"text": "so"}}) as server:
        results = collect(
            {"url": f"{server.url}/search", **MAPPING},
            GOLDEN,
            out,
            run_id="run",
            settings={"folder_mode": "on"},
            **SENT,
        )
    sent = [
        {**body, "query_id": body["id"], "k": body["search"]["top"], "mode": body["search"]["mode"]}
        for body in server.bodies
    ]
    check_sent(sent, results, out)
    assert all(body["search"]["debug"] is True for body in server.bodies)
    described = {"kind": "http", "method": "POST", "url": f"{server.url}/search", **MAPPING}
    assert config_of(results)["system"] == described
    hit = results.hits.iloc[0]
    assert (hit["chunk_id"], hit["doc_id"], hit["score"], hit["x_own"]) == ("c1", "d1", 0.5, "kept")
    assert results.responses["answer"].tolist() == ["so"] * 3


COMMAND = """
import json, sys
request = json.load(sys.stdin)
open(sys.argv[1], "a").write(json.dumps(request) + "\\n")
assert sys.argv[2] == request["query"] and sys.argv[3] == str(request["k"])
assert sys.argv[4] == "{braces}"
print(json.dumps({"hits": [{"chunk_id": "c1"}], "answer": "yes"}))
"""


def test_a_command_gets_what_the_snapshot_says(out, tmp_path):
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-c", COMMAND, str(log), "{query}", "{k}", "{braces}"]
    results = collect(command, GOLDEN, out, run_id="run", settings={"folder_mode": "on"}, **SENT)
    check_sent([json.loads(line) for line in log.read_text().splitlines()], results, out)


def test_a_chatbot_s_reply_is_kept_whole(out):
    with Server(chatbot) as server:
        results = collect(server.url, GOLDEN, out, k=2)
    frames = {"hits": results.hits, "citations": results.citations, "runs": results.runs}
    kept = {
        "hits": {
            "rank": 1, "chunk_id": "c1", "path": "notes/a.md", "heading": "# A > ## B",
            "score": 0.75, "score_vector": 0.5, "text": "some text",
        },
        "citations": {"path": "notes/a.md", "heading": "# A > ## B", "x_vault": "personal"},
        "responses": {
            "answer": "answer to first?", "latency_folder_selection_ms": 3,
            "latency_retrieval_ms": 20, "latency_generation_ms": 100, "latency_total_ms": 123,
            "x_indexing_coverage.chunks_embedded": 40,
        },
        "runs": {"chunker_version": "v1"},
    }  # fmt: skip
    for name, expected in kept.items():
        row = frames.get(name, results.responses).iloc[0]
        assert row[list(expected)].to_dict() == expected
    response = results.responses.iloc[0]
    assert len(results.hits) == 6 and response["elapsed_ms"] > 0 and "refused" not in response
    assert json.loads(response["scope"]) == {"folders": ["notes"], "available": ["notes", "work"]}
    assert config_of(results)["chunker_version"] == "v1"


TAKEN = ["folders", "k", "product", "tool", "vaults"]


@pytest.mark.parametrize(
    ("options", "field", "named"),
    [
        ({"temperature": 0.5}, "settings", ["system", "temperature", *TAKEN]),
        ({"settings": {"folder_mode": "on"}}, "settings", ["system", "folder_mode", *TAKEN]),
        ({"retrieval_only": True}, "settings", ["system", "with_answer", *TAKEN]),
        ({}, "golden", ["filters", "system", *TAKEN, "leave_out=['filters']"]),
        ({"leave_out": ["filter"]}, "leave_out", ["filter", *CARRIED]),
        ({"settings": {"k": 3}}, "settings", ["k"]),
        ({"k": 0}, "k", [0, 1]),
        ({"limit": 0}, "limit", [0]),
        ({"seed": 1, "leave_out": CARRIED}, "settings", ["seed"]),
    ],
)
def test_what_a_system_cant_be_told_is_refused_before_anything_is_asked(out, options, field, named):
    def system(query, k=1, vaults=None, folders=None, product=None, tool=None):
        raise AssertionError("asked")

    with refused(*named, field=field):
        collect(system, GOLDEN, out, **options)
    assert not out.exists()


def test_a_field_left_out_is_not_sent_and_the_snapshot_says_so(out):
    results = collect(found, GOLDEN, out, leave_out=CARRIED, k=1)
    assert config_of(results)["left_out"] == list(CARRIED) and "x_request" not in " ".join(
        results.responses.columns
    )


def test_a_query_goes_to_its_parameter_wherever_it_stands(out):
    results = collect(lambda k=2, *, question: found(question, k), questions(2), out)
    assert results.hits["text"].tolist()[:2] == ["question 0 1", "question 0 2"]


def test_a_failing_query_stops_nothing(out):
    def system(query):
        if query.endswith("1"):
            raise KeyError("index")
        return found(query)

    results = collect(system, questions(3), out)
    assert results.responses["error"].isna().tolist() == [True, False, True]
    assert results.responses["error"].iloc[1] == "KeyError: 'index'"
    assert results.runs["n_failed"].iloc[0] == 1 and results.hits.groupby(
        "query_id"
    ).size().to_dict() == {"q00": 2, "q02": 2}


def test_tokens_beside_an_answer_join_its_own_usage_and_a_refusal_needs_no_text(out):
    own = {"answer": "yes", "usage": {"completion_tokens": 7}}
    replies = iter([{"answer": own, "prompt_tokens": 5}, {"hits": [], "refused": True}])
    rows = collect(lambda query: next(replies), questions(2), out).responses
    assert rows[["prompt_tokens", "completion_tokens"]].iloc[0].tolist() == [5, 7]
    assert rows["refused"].fillna(False).tolist() == [False, True]


@pytest.mark.filterwarnings("ignore:every query failed")
def test_hits_are_kept_if_only_the_answer_failed(out):
    reply = {"latency": {"retrieval_ms": 3}, "error": "RuntimeError: no model"}
    results = collect(lambda query: reply | {"hits": found(query)}, questions(1), out)
    row = results.responses.iloc[0]
    assert len(results.hits) == 2 and pd.isna(row.get("answer"))
    assert (row["error"], row["latency_retrieval_ms"]) == ("RuntimeError: no model", 3)


# What is replied, and what the error of its query names.
BAD = [
    (object(), ["object"]),
    (None, ["hits", "answer", "nothing (null)"]),
    (7, ["hits", "answer", 7]),
    ({"documents": []}, ["hits", "answer", "mapping"]),
    ([5], ["hits_top_k", 5]),
    ({"hits": [{"chunk_id": True}]}, ["hits_top_k.chunk_id", "boolean"]),
    ({"hits": [], "latency": {"search": "fast"}}, ["latency_search_ms", "fast"]),
    ({"answer": "x", "more": json.loads("[" * 200 + "]" * 200)}, ["nested"]),
    ({"answer": "x", "more": 10**5000}, [4300]),
    ({"answer": "x", "config": {"k": 10**400}}, ["k: found"]),
    (LookupError("\ud800"), ["LookupError"]),
]


@pytest.mark.filterwarnings("ignore:every query failed")
def test_a_reply_that_no_run_could_hold_is_that_query_s_error(out):
    replies = Mock(side_effect=[reply for reply, _ in BAD])
    results = collect(lambda query: replies(), questions(len(BAD)), out)
    for error, (_, named) in zip(results.responses["error"], BAD, strict=True):
        says(error, *named)


def test_a_server_that_is_gone_is_named(out):
    with Server(chatbot) as server:
        pass  # its port is closed now
    with warned("ConnectError"):
        results = collect(server.url, questions(1), out, retries=0)
    assert results.responses["error"].iloc[0].startswith("ConnectError")


FAULTS = {
    "HTTP 500": Reply({"error": "broken"}, status=500),
    "JSON": Reply(text="{not json"),
    "RemoteProtocolError": Reply(parts=[b'HTTP/1.1 200 OK\r\nContent-Length: 23\r\n\r\n{"ans']),
    "debug.retrieved_chunks": {"answer": "without debug"},
    "HTTP 307": Reply({}, status=307, headers={"Location": "/elsewhere"}),
}


@pytest.mark.parametrize("retrieval_only", [False, True])
def test_a_fault_of_the_server_is_named_and_the_next_query_is_asked(out, retrieval_only):
    n, silent = len(FAULTS), {"debug": {"retrieved_chunks": []}}
    options = {"retries": 0, "k": 1, "retrieval_only": retrieval_only}
    with Server(in_turn([*FAULTS.values(), silent], chatbot)) as server:
        errors = collect(server.url, questions(n + 2), out, **options).responses["error"]
    for error, fault in zip(errors[:n], FAULTS, strict=True):
        says(error, fault)
    assert errors.isna().tolist()[n:] == [retrieval_only, True] and len(server.requests) == n + 2


def test_errors_that_may_pass_are_asked_again_and_others_not(out, monkeypatch):
    monkeypatch.setattr(asking, "FIRST_WAIT", 0.001)
    faults = [
        Reply({}, status=503, headers={"Retry-After": "soon"}),  # no time: as if it said none
        Reply(text="<html>"),
        chatbot,
        Reply({"error": "bad request"}, status=400),
    ]
    with Server(in_turn(faults, chatbot)) as server:
        responses = collect(server.url, questions(2), out, retries=2, k=1).responses
    assert len(server.requests) == 4  # three for the first question, one for the second
    says(responses["error"].iloc[1], 400, '{"error": "bad request"}')
    assert pd.isna(responses["error"].iloc[0]) and responses["x_attempts"].iloc[0] == 3


def asked(given, **policy):
    """The record of one question, and the waits between its attempts."""
    waits, system = [], as_system(given)
    record, _ = asking.ask(
        system, {"query": "?", "query_id": "q"}, asking.RequestPolicy(**policy), waits.append
    )
    system.close()
    return record, waits


@pytest.mark.parametrize("given", ["0", "60", "1.5"])
def test_a_server_that_says_when_is_asked_then(given):
    busy = Reply({}, status=429, headers={"Retry-After": given})
    with Server(in_turn([busy], chatbot)) as server:
        record, waits = asked(server.url)
    assert (record["error"], record["attempts"], waits) == (None, 2, [float(given)])


@pytest.mark.parametrize("given", ["61", "inf"])
def test_a_wait_of_more_than_a_minute_is_the_end_of_its_query(given):
    busy = Reply({"error": "busy"}, status=429, headers={"Retry-After": given})
    with Server(in_turn([busy], chatbot)) as server:
        record, waits = asked(server.url, retries=5)
    assert waits == [] and len(server.requests) == 1
    says(record["error"], 429, "60 s")


def test_waits_grow_and_are_random():
    def system(query):
        raise ConnectionError("gone")

    record, waits = asked(system, retries=6)
    assert record["error"] == "ConnectionError: gone" and record["attempts"] == 7
    assert (
        len(waits) == 6
        and all(0 <= wait <= 0.5 * 2**number for number, wait in enumerate(waits))
        and len(set(waits)) == 6
    )


def test_as_many_queries_are_in_flight_as_there_are_workers(out):
    with Server(chatbot, gather=4) as server:
        results = collect(server.url, questions(8), out, workers=4, k=1)
    assert server.most_in_flight == 4 and len(server.requests) == 8
    assert results.responses["query_id"].tolist() == sorted(results.responses["query_id"])


def test_async_callables_share_one_loop_while_another_runs(out):
    loops, together = set(), threading.Barrier(3)

    async def system(query):
        loops.add(id(asyncio.get_running_loop()))
        await asyncio.to_thread(together.wait, 30)
        return found(query)

    async def cell():
        return collect(system, questions(6), out, workers=3)

    assert len(asyncio.run(cell()).hits) == 12 and len(loops) == 1


def test_an_async_callable_that_hangs_is_cancelled(out):
    cancelled = threading.Event()

    async def system(query):
        if query.endswith("0"):
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()
        return found(query)

    results = collect(system, questions(2), out, timeout=0.1, retries=0)
    says(results.responses["error"].iloc[0], "0.1 s")
    assert cancelled.is_set() and len(results.hits) == 2


def test_a_plain_callable_that_hangs_is_left_behind(out):
    go_on = threading.Event()
    results = collect(
        lambda query: go_on.wait(60) if query.endswith("0") else found(query),
        questions(2),
        out,
        timeout=0.1,
        retries=0,
    )
    go_on.set()
    says(results.responses["error"].iloc[0], "0.1 s")
    assert len(results.hits) == 2


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ([sys.executable, "-c", "print('no')"], "JSON"),
        ([sys.executable, "-c", "pass"], "JSON"),
        ([sys.executable, "-c", "import sys; sys.exit('no index')"], "no index"),
        (["no-such-program"], "no-such-program"),
    ],
)
def test_a_command_that_fails_says_why(command, named):
    says(asked(command)[0]["error"], named)


def test_what_differs_from_what_was_sent_is_told(out):
    replies = iter(["v1", "v2"])
    with warned("index_version", "v1", "v2"), warned("k", 5, 10):
        results = collect(
            lambda query, k: {
                "hits": found(query),
                "config": {"k": 5, "index_version": next(replies)},
            },
            questions(2),
            out,
            k=10,
        )
    config = config_of(results)
    assert (
        config["k"] == 10
        and config["reported"] == {"k": 5}
        and config["index_version"] == ["v1", "v2"]
    )


def test_a_finished_run_is_not_written_over(out):
    collect(found, questions(1), out)
    with refused("fresh=True", file="per_query.jsonl"):
        collect(found, questions(1), out)
    assert len(collect(found, questions(2), out, fresh=True).responses) == 2


@pytest.mark.parametrize("given", ["bm26", 5, ["a", 1], (found, found)])
def test_what_is_no_system_is_refused(out, given):
    with refused(field="system"):
        collect(given, GOLDEN, out)
