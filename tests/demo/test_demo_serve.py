"""The ask endpoint on loopback.

A run collected over it is what the systems give when they are called, and a bad request is told so.
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pandas as pd
import pytest

import ragscore as rs
from ragscore.cli import main
from ragscore.collecting.systems import ASK, AskError, System
from ragscore.demo import serve
from ragscore.demo.ask import systems_over
from ragscore.demo.retrievers import SYSTEMS, Index
from ragscore.demo.serve import DemoServer, index_coverage
from tests.messages import refused, says

TEXTS = {
    "pandas.merge": "join two tables on a shared key",
    "pandas.concat": "put tables under each other",
    "pandas.DataFrame.sort_values": "sort rows of a table",
    "numpy.sort": "sort an array", "numpy.fft.rfftfreq": "frequencies of the outputs of a real FFT",
    "numpy.mean": "average of an array along an axis",
    "matplotlib.axes.Axes.scatter": "draw points whose size shows a value",
    "python.assert": "stop the program if a condition is false",
}  # fmt: skip
QUESTIONS = {
    "q1": "how do I join tables by key",
    "q2": "sort an array",
    "q3": "which frequencies has a real FFT",
}


def search(query, k=2, folders=None, filters=None):
    names = [name for name in TEXTS if folders is None or name.split(".")[0] in folders]
    return [
        {
            "chunk_id": f"{name}#lead",
            "path": name,
            "heading": "lead",
            "score": 1 / n,
            "text": TEXTS[name],
        }
        for n, name in enumerate(names[:k], 1)
    ]


def answer(query, hits):
    if "FFT" in query:
        raise LookupError("no model")
    return {
        "answer": f"{len(hits)} for {query}",
        "citations": [{"path": hits[0]["path"], "marker": "[1]"}],
        "refused": False,
    }


@pytest.fixture
def server():
    with DemoServer(
        {"found": search, "answered": (search, answer)},
        coverage={"chunker_version": "v1", "index_version": "i1", "docs_processed": 8},
    ) as running:
        yield running


@pytest.fixture
def golden(write_golden):
    return rs.load_golden(
        write_golden(
            [
                {"id": name, "query": text, "expected_doc_ids": ["pandas.merge"]}
                for name, text in QUESTIONS.items()
            ]
        )
    )


def post(server, body, path=f"{ASK}?debug=true"):
    content = {"content": body} if isinstance(body, (bytes, str)) else {"json": body}
    # certificates, which take a while to load, have no part here
    return httpx.post(f"{server.url}{path}", **content, verify=False)


def collect(system, golden, out, **options):
    return rs.collect(system, golden, out, retries=0, progress=False, **options)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The demo's index over eight passages of our own.

    The real systems, without the time that the manuals take.
    """
    chunks = [
        {
            "chunk_id": f"{name}#lead", "doc_id": name, "path": name, "heading": "lead", "start": 1,
            "end": 3, "span_unit": "line",
            "text": f"{name}: {text}", "doc_type": name.split(".")[0],
        }
        for name, text in TEXTS.items()
    ]  # fmt: skip
    return Index(pd.DataFrame(chunks), tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def served(index):
    with DemoServer(systems_over(index, "v7"), coverage=index_coverage(index, "v7")) as running:
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("mode", SYSTEMS)
def test_a_run_collected_over_http_is_what_the_retriever_finds(
    served, index, golden, tmp_path, mode
):
    results = collect(served.url, golden, tmp_path / "run", mode=mode, k=3, workers=2)
    assert results.responses["error"].isna().all(), results.responses["error"].tolist()
    for query_id, question in QUESTIONS.items():
        ranking, hits = (
            index.search(mode, question, 3),
            results.hits[results.hits["query_id"] == query_id],
        )
        found = index.chunks.iloc[ranking.chunk]
        columns = ["chunk_id", "doc_id", "path", "heading", "text", "start", "end", "span_unit"]
        assert hits[columns].to_numpy().tolist() == found[columns].to_numpy().tolist() and hits[
            "rank"
        ].tolist() == list(range(1, len(found) + 1))
        for column, scores in {
            "score": ranking.score,
            "score_lexical": ranking.lexical,
            "score_vector": ranking.vector,
        }.items():
            # a run keeps five decimals
            assert hits.reindex(columns=[column])[column].tolist() == pytest.approx(
                scores.tolist(), abs=5e-6, nan_ok=True
            )
        assert set(hits["score_kind"]) == {ranking.score_kind}
    run, config = results.runs.iloc[0], json.loads(results.runs["config"].iloc[0])
    assert (config["mode"], config["k"], config["chunker_version"], config["index_version"]) == (
        mode,
        3,
        "v7",
        index.version,
    )
    assert run["chunker_version"] == "v7" and set(
        results.responses["x_indexing_coverage.chunks_embedded"]
    ) == {len(TEXTS)}
    times = results.responses[["latency_retrieval_ms", "latency_generation_ms", "latency_total_ms"]]
    assert (times.iloc[:, 0] + times.iloc[:, 1] <= times["latency_total_ms"]).all() and (
        times > 0
    ).all().all()
    assert (times["latency_total_ms"] <= results.responses["elapsed_ms"]).all()


def test_a_run_over_http_is_that_of_the_system_asked_here(served, index, golden, tmp_path):
    over_http = collect(served.url, golden, tmp_path / "a", mode="hybrid", k=4)
    here = collect(systems_over(index, "v7", ["hybrid"])["hybrid"], golden, tmp_path / "b", k=4)
    hits = [
        "query_id",
        "rank",
        "chunk_id",
        "doc_id",
        "path",
        "heading",
        "text",
        "score",
        "score_lexical",
        "score_vector",
        "score_kind",
        "start",
        "end",
    ]
    pd.testing.assert_frame_equal(over_http.hits[hits], here.hits[hits])
    cited = ["query_id", "position", "marker", "chunk_id", "path", "start", "end", "span_unit"]
    pd.testing.assert_frame_equal(over_http.citations[cited], here.citations[cited])
    said = ["query_id", "answer", "refused"]
    pd.testing.assert_frame_equal(over_http.responses[said], here.responses[said])
    assert len(over_http.citations) and over_http.responses["answer"].str.startswith("See ").any()


@pytest.mark.large
@pytest.mark.parametrize("mode", SYSTEMS)
def test_filters_and_folders_leave_only_what_they_name(served, mode):
    def found(**more):
        reply = post(
            served, {"question": "sort an array or a table", "mode": mode, "k": 8, **more}
        ).json()
        return {chunk["doc_id"] for chunk in reply["debug"]["retrieved_chunks"]}

    assert found(filters={"doc_type": "numpy"}) and all(
        one.startswith("numpy.") for one in found(filters={"doc_type": "numpy"})
    )
    assert found(filters={"doc_id": ["numpy.sort", "pandas.concat"], "doc_type": "numpy"}) == {
        "numpy.sort"
    }
    # and not the pandas.D of another name
    assert found(folders=["pandas.DataFrame"]) == {"pandas.DataFrame.sort_values"}
    assert found(folders=["nothing"]) == set()
    assert found(folders=[], filters=None) == found()


def test_filters_of_a_golden_query_reach_the_system(served, write_golden, tmp_path):
    rows = [{"id": "q1", "query": "sort", "expected_doc_ids": ["d"], "folders": ["pandas"]}]
    rows += [
        {"id": "q2", "query": "sort", "expected_doc_ids": ["d"], "filters": {"doc_type": "numpy"}}
    ]
    rows += [{"id": "q3", "query": "sort", "expected_doc_ids": ["d"], "filters": {"year": 2024}}]
    results = collect(
        served.url, rs.load_golden(write_golden(rows)), tmp_path / "run", mode="dense", k=8
    )
    libraries = (
        results.hits["doc_id"]
        .str.split(".")
        .str[0]
        .groupby(results.hits["query_id"], observed=True)
        .unique()
        .map(list)
        .to_dict()
    )
    assert libraries == {"q1": ["pandas"], "q2": ["numpy"]}
    assert json.loads(results.responses["scope"].iloc[0]) == {
        "folders": ["pandas"],
        "available": ["matplotlib", "numpy", "pandas", "python"],
    }
    says(results.responses["error"].iloc[2], 422, "filters", "year", "doc_type")
    assert (
        results.responses["error"].notna().tolist() == [False, False, True]
        and results.responses["latency_folder_selection_ms"].iloc[0] > 0
    )


def test_without_an_answer_none_is_made(served, golden, tmp_path):
    results = collect(served.url, golden, tmp_path / "run", mode="bm25", k=1, retrieval_only=True)
    assert (
        results.responses["error"].isna().all()
        and "answer" not in results.responses
        and len(results.citations) == 0
    )
    reply = post(served, {"question": "sort", "mode": "bm25", "with_answer": False}).json()
    assert reply["answer"] is None and "generation_ms" not in reply["debug"]["latency"]


@pytest.mark.large
def test_a_question_that_is_refused_is_an_abstention(served, write_golden, tmp_path):
    golden = rs.load_golden(
        write_golden([{"id": "q1", "query": "sourdough bakery", "answerable": False}])
    )
    results = collect(served.url, golden, tmp_path / "run", mode="dense", k=2)
    assert results.responses[["refused", "refusal_reason"]].iloc[0].tolist() == [
        True,
        "unfamiliar_words",
    ]


def test_the_debug_part_comes_on_request_only(server):
    body = {"question": "sort an array", "mode": "answered", "k": 1}
    reply = {
        "answer": "1 for sort an array",
        "references": [{"rel_path": "pandas.merge", "marker": "[1]"}],
        "abstained": False,
    }
    assert (
        post(server, body, ASK).json() == post(server, body, f"{ASK}?debug=false").json() == reply
    )
    debug = post(server, body).json()["debug"]
    chunk = {
        "rank": 1,
        "chunk_id": "pandas.merge#lead",
        "rel_path": "pandas.merge",
        "heading_path": "lead",
        "score_final": 1.0,
        "text": TEXTS["pandas.merge"],
    }
    assert debug["retrieved_chunks"] == [chunk] and debug["mode"] == "answered"
    assert debug["indexing_coverage"] == {
        "chunker_version": "v1",
        "index_version": "i1",
        "docs_processed": 8,
    }
    assert set(debug["latency"]) == {"retrieval_ms", "generation_ms", "total_ms"}


def test_hits_of_a_question_whose_answer_failed_are_kept(server, golden, tmp_path):
    results = collect(server.url, golden, tmp_path / "run", mode="answered", k=2)
    assert results.responses["error"].notna().tolist() == [
        False,
        False,
        True,
    ] and results.hits.groupby("query_id").size().tolist() == [2, 2, 2]
    assert (
        results.responses["error"]
        .iloc[2]
        .startswith('HTTP 500: {"error": "LookupError: no model", "debug"')
    )


def test_a_system_that_only_searches_can_be_asked_for_an_answer(server, golden, tmp_path):
    results = collect(server.url, golden, tmp_path / "run", mode="found", k=2)
    assert results.responses["error"].isna().all() and len(results.hits) == 6
    assert post(server, {"question": "?", "mode": "found", "with_answer": False}).json() == {
        "error": "with_answer: found can't be told this; one of question, mode, filters, folders, k"
    }


BAD = {
    "no JSON": (b"{not json", 400, "the body is not valid JSON"),
    "nothing": (b"", 400, "the body is not valid JSON"),
    "no text": (b"\xff\xfe", 400, "the body is not valid JSON"),
    "half a pair": (b'{"question": "\\ud800"}', 400, "the body is not valid JSON"),
    "deep": (b"[" * 100_000, 400, "the body is not valid JSON"),
    "a list": (b"[1]", 400, "the body is a list"),
    "no question": (
        {"mode": "found"},
        422,
        "question: the field is missing; text",
    ),
    "a number": ({"question": 5, "mode": "found"}, 422, "question: found a number: 5"),
    "no mode": ({"question": "?"}, 422, "mode: the field is missing; one of found, answered"),
    "another mode": (
        {"question": "?", "mode": "bm26"},
        422,
        'mode: found text: "bm26"; one of found, answered',
    ),
    "a list as mode": ({"question": "?", "mode": ["found"]}, 422, "mode: found a list"),
    "what can't be told": (
        {"question": "?", "mode": "found", "temperature": 0.5},
        422,
        "temperature: found can't be told this; one of question, mode",
    ),
}


@pytest.mark.parametrize("body, status, message", BAD.values(), ids=list(BAD))
def test_a_bad_request_is_told_so(server, capfd, body, status, message):
    reply = post(server, body)
    assert reply.status_code == status and reply.headers["Content-Type"] == "application/json"
    assert list(reply.json()) == ["error"] and reply.json()["error"].startswith(message)
    assert post(server, {"question": "?", "mode": "found"}).status_code == 200
    assert capfd.readouterr() == ("", "")


def test_another_address_is_told_so(server):
    reply = post(server, b"{}", "/api/v1/search")
    assert reply.status_code == 404
    assert reply.json() == {"error": f"nothing at /api/v1/search; POST {ASK}"}


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.test"}, {"Host": "evil.test"}])
def test_a_page_in_a_browser_is_refused(server, headers):
    reply = httpx.post(f"{server.url}{ASK}", json={"question": "q"}, headers=headers)
    assert reply.status_code == 403


def test_its_threads_end_with_it():
    before = threading.active_count()
    with DemoServer({"found": search}) as server, httpx.Client(verify=False) as client:
        for _ in range(3):
            assert client.post(server.url + ASK, json={"question": "?"}).is_success
        assert threading.active_count() > before
    assert threading.active_count() == before


@pytest.mark.large
def test_a_client_that_says_nothing_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr("ragscore.demo.local._Handler.timeout", 0.2)
    before = threading.active_count()
    with DemoServer({"found": search}) as server:
        client = socket.create_connection(server.server_address)
        assert post(server, {"question": "?"}).is_success
    with client:
        assert threading.active_count() == before


def test_a_client_that_leaves_is_no_news(server, capfd):
    with socket.create_connection(server.server_address) as client:
        head = f"POST {ASK} HTTP/1.1\r\nContent-Length: 500\r\n\r\n{{"
        client.sendall(head.encode())
        # the connection is reset
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert post(server, {"question": "?", "mode": "found"}).status_code == 200
    assert capfd.readouterr() == ("", "")


def failing(found):
    def ask(request, seconds):
        raise found

    return System("failing", ask)


@pytest.mark.parametrize(
    ("system", "status", "message"),
    [
        (failing(AskError("down", reply={"hits": 5})), 500, "down"),
        (failing(KeyError("index")), 500, "KeyError: 'index'"),
        (
            failing(rs.DataError("no such year", field="filters.year")),
            422,
            "filters.year: no such year",
        ),
        (lambda query: object(), 500, "the reply can't be written: found a object"),
        (lambda query: None, 500, "the reply holds neither hits nor an answer"),
        (lambda query: {"hits": [], "error": "half \ud800 of it"}, 500, "half ? of it"),
        (
            lambda query: {"hits": [], "answer": 5},
            500,
            "the reply can't be read: answer: found a number: 5",
        ),
        (
            lambda query: {"hits": [{"chunk_id": True}]},
            500,
            "the reply can't be read: hits_top_k.chunk_id",
        ),
    ],
)
def test_a_system_that_fails_is_an_error_without_a_traceback(capfd, system, status, message):
    with DemoServer({"one": system}) as server:
        reply = post(server, {"question": "?"})
    assert (
        reply.status_code == status
        and reply.json()["error"].startswith(message)
        and "Traceback" not in reply.text
    )
    assert capfd.readouterr() == ("", "")


def test_numbers_that_json_has_not_are_null():
    with DemoServer(
        {"one": lambda query: [{"chunk_id": "c", "score": float("nan")}]},
        coverage={"mean": float("inf")},
    ) as server:
        debug = post(server, {"question": "?"}).json()["debug"]
    assert debug["retrieved_chunks"][0]["score_final"] is None and debug["indexing_coverage"] == {
        "mean": None
    }


@pytest.mark.large
def test_several_are_answered_at_a_time(golden, tmp_path):
    together = threading.Barrier(3)

    def system(query):
        together.wait(30)  # none is answered before three are asked
        return [{"chunk_id": query}]

    with DemoServer({"one": system}) as server:
        results = collect(server.url, golden, tmp_path / "run", workers=3)
    assert results.hits["chunk_id"].tolist() == list(QUESTIONS.values())


def test_it_is_on_loopback_and_gone_when_closed():
    with DemoServer({"one": search}) as server:
        assert server.url.startswith("http://127.0.0.1:")
        with refused(field="port"):
            DemoServer({"one": search}, port=int(server.url.rpartition(":")[2]))
    with pytest.raises(httpx.ConnectError):
        post(server, {"question": "?"})


@pytest.mark.parametrize(
    ("systems", "named", "field"),
    [({}, [], "systems"), ({"a": 5}, ["int"], "system")],
)
def test_what_is_no_system_is_not_served(systems, named, field):
    with refused(*named, field=field):
        DemoServer(systems)


SERVING = """
import signal, sys
from ragscore.cli import main
from ragscore.demo import serve

# SIGINT is ignored where the tests run in the background
signal.signal(signal.SIGINT, signal.default_int_handler)
search = lambda query, k=1: [{"chunk_id": query}] * k
serve.demo_server = lambda cache, port: serve.DemoServer({"bm25": search}, port)
sys.exit(main(["demo", "--serve", "--port", "0"]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_the_command_says_where_it_serves_and_ends_with_ctrl_c():
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [sys.executable, "-c", SERVING],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            line = process.stderr.readline()
            says(line, "ragscore:", "bm25", "Ctrl-C")
            address = re.search(r"http://127\.0\.0\.1:\d+\S*", line).group()
            assert address.endswith(ASK)
            assert httpx.post(address, json={"question": "here?"}).json()["references"] == []
            process.send_signal(signal.SIGINT)
            printed, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, printed, said) == (0, "", "")


def test_the_command_has_no_idle_options(monkeypatch, capsys):
    monkeypatch.setattr(serve, "demo_index", lambda cache: pytest.fail("built"))
    for options, named in (
        (["--port", "9000"], ["--port", "--serve"]),
        (["--serve", "--golden", "g.yaml"], ["--golden", "--serve"]),
        (["--serve", "--port", "70000"], ["port", 70000]),
    ):
        assert main(["demo", *options]) == 2
        says(capsys.readouterr().err, *named)
