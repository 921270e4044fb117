"""The ask endpoint on loopback: a run collected over it is what the systems give when called."""

import json
import os
import re
import signal
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
from ragscore.demo.retrievers import Index
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
QUERIES = {
    "q1": "how do I join tables by key",
    "q2": "sort an array",
    "q3": "which frequencies has a real FFT",
}
SAME = {
    "hits": [
        "query_id", "rank", "chunk_id", "doc_id", "path", "heading", "text", "score",
        "score_lexical", "score_vector", "score_kind", "start", "end", "span_unit",
    ],
    "citations": ["query_id", "position", "marker", "chunk_id", "path", "start", "end"],
    "responses": ["query_id", "answer", "refused"],
}  # fmt: skip


def search(query, k=2, folders=None, filters=None):
    return [
        {"chunk_id": f"{name}#lead", "path": name, "heading": "lead", "score": 1 / n, "text": text}
        for n, (name, text) in enumerate(list(TEXTS.items())[:k], 1)
    ]


def answer(query, hits):
    if "FFT" in query:
        raise LookupError("no model")
    cited = [{"path": hits[0]["path"], "marker": "[1]"}]
    return {"answer": f"{len(hits)} for {query}", "citations": cited, "refused": False}


@pytest.fixture
def server():
    coverage = {"chunker_version": "v1", "index_version": "i1", "docs_processed": 8}
    systems = {"found": search, "answered": (search, answer)}
    with DemoServer(systems, coverage=coverage) as running:
        yield running


@pytest.fixture
def golden(write_golden):
    rows = [
        {"id": name, "query": text, "expected_doc_ids": ["pandas.merge"]}
        for name, text in QUERIES.items()
    ]
    return rs.load_golden(write_golden(rows))


def post(server, body, path=f"{ASK}?debug=true"):
    content = {"content": body} if isinstance(body, bytes) else {"json": body}
    # certificates, which take a while to load, have no part here
    return httpx.post(f"{server.url}{path}", **content, verify=False)


def collect(system, golden, out, **options):
    return rs.collect(system, golden, out, retries=0, progress=False, **options)


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """The demo's index over eight passages of our own: the real systems, without the manuals."""
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


@pytest.mark.parametrize("mode", ["bm25", "hybrid_rerank"])
def test_a_run_over_http_is_that_of_the_system_asked_here(served, index, golden, tmp_path, mode):
    over_http = collect(served.url, golden, tmp_path / "a", mode=mode, k=3, workers=2)
    here = collect(systems_over(index, "v7", [mode])[mode], golden, tmp_path / "b", k=3)
    for kind, columns in SAME.items():
        found, expected = getattr(over_http, kind), getattr(here, kind)
        pd.testing.assert_frame_equal(
            found.reindex(columns=columns), expected.reindex(columns=columns)
        )
    assert len(over_http.citations) and over_http.responses["error"].isna().all()
    config = json.loads(over_http.runs["config"].iloc[0])
    assert [config[name] for name in ("mode", "k", "index_version")] == [mode, 3, index.version]
    assert over_http.runs["chunker_version"].tolist() == ["v7"]


def test_filters_and_folders_leave_only_what_they_name(index):
    system = systems_over(index, "v7", ["bm25"])["bm25"]

    def found(**more):
        reply = system.ask({"query": "sort an array or a table", "k": 8, **more}, None)
        return {hit["doc_id"] for hit in reply["hits"]}

    assert found(filters={"doc_type": "numpy"}) == {"numpy.sort", "numpy.mean"}
    both = {"doc_id": ["numpy.sort", "pandas.concat"], "doc_type": "numpy"}
    assert found(filters=both) == {"numpy.sort"}
    # and not the pandas.D of another name
    assert found(folders=["pandas.DataFrame"]) == {"pandas.DataFrame.sort_values"}
    assert found(folders=["nothing"]) == set()
    assert found(folders=[], filters=None) == found()
    with refused("year", "doc_type", field="filters"):
        found(filters={"year": 2024})


def test_an_answer_comes_on_request_and_a_refusal_is_an_abstention(served):
    asked = {"question": "sourdough bakery", "mode": "bm25"}
    reply = post(served, asked | {"with_answer": False}).json()
    assert reply["answer"] is None and "generation_ms" not in reply["debug"]["latency"]
    assert post(served, asked, ASK).json()["abstained"]


def test_the_debug_part_comes_on_request_only(server):
    body = {"question": "sort an array", "mode": "answered", "k": 1}
    cited = {"rel_path": "pandas.merge", "marker": "[1]"}
    reply = {"answer": "1 for sort an array", "references": [cited], "abstained": False}
    assert post(server, body, ASK).json() == reply
    debug = post(server, body).json()["debug"]
    (chunk,) = debug["retrieved_chunks"]
    names = ("rank", "chunk_id", "rel_path", "heading_path", "score_final")
    first = [1, "pandas.merge#lead", "pandas.merge", "lead", 1.0]
    assert [chunk[name] for name in names] == first and debug["mode"] == "answered"
    assert debug["indexing_coverage"]["docs_processed"] == 8
    assert set(debug["latency"]) == {"retrieval_ms", "generation_ms", "total_ms"}


def test_hits_of_a_query_whose_answer_failed_are_kept(server, golden, tmp_path):
    results = collect(server.url, golden, tmp_path / "run", mode="answered", k=2)
    assert results.responses["error"].notna().tolist() == [False, False, True]
    assert results.hits.groupby("query_id").size().tolist() == [2, 2, 2]
    says(results.responses["error"].iloc[2], 500, "LookupError", "no model")


@pytest.mark.parametrize(
    ("body", "status", "named"),
    [
        (b"{not json", 400, "JSON"),
        (b"[" * 100_000, 400, "JSON"),
        (b"[1]", 400, "list"),
        ({"mode": "found"}, 422, "question"),
        ({"question": "?", "mode": "bm26"}, 422, "bm26"),
        ({"question": "?", "mode": "found", "temperature": 0.5}, 422, "temperature"),
    ],
    ids=str,
)
def test_a_bad_request_is_told_so(server, capfd, body, status, named):
    reply = post(server, body)
    assert reply.status_code == status
    says(reply.json()["error"], named)
    assert post(server, {"question": "?", "mode": "found"}).status_code == 200
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("headers", [{"Origin": "http://evil.test"}, {"Host": "evil.test"}])
def test_a_page_in_a_browser_is_refused(server, headers):
    body = {"question": "q", "mode": "found"}
    assert httpx.post(f"{server.url}{ASK}", json=body, headers=headers).status_code == 403


def test_it_is_on_loopback_and_gone_when_closed():
    before = threading.active_count()
    with DemoServer({"one": search}) as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert post(server, {"question": "?"}).is_success
        with refused(field="port"):
            DemoServer({"one": search}, port=int(server.url.rpartition(":")[2]))
    with pytest.raises(httpx.ConnectError):
        post(server, {"question": "?"})
    assert threading.active_count() == before


def failing(error):
    def ask(request, seconds):
        raise error

    return System("failing", ask)


@pytest.mark.parametrize(
    ("system", "status", "named"),
    [
        (failing(AskError("down", reply={"hits": 5})), 500, "down"),
        (failing(KeyError("index")), 500, "KeyError"),
        (failing(rs.DataError("no such year", field="filters.year")), 422, "filters.year"),
        (lambda query: {"hits": [], "answer": 5}, 500, "answer"),
    ],
)
def test_a_system_that_fails_is_an_error_without_a_traceback(capfd, system, status, named):
    with DemoServer({"one": system}) as server:
        reply = post(server, {"question": "?"})
    assert reply.status_code == status and "Traceback" not in reply.text
    says(reply.json()["error"], named)
    assert capfd.readouterr() == ("", "")


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
    command, pipe = [sys.executable, "-c", SERVING], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            line = process.stderr.readline()
            says(line, "ragscore:", "bm25", "Ctrl-C")
            address = re.search(r"http://127\.0\.0\.1:\d+\S*", line).group()
            assert httpx.post(address, json={"question": "here?"}).json()["references"] == []
            process.send_signal(signal.SIGINT)
            printed, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, printed, said) == (0, "", "")


def test_a_port_that_cannot_be_used_is_refused_before_anything_is_built(monkeypatch, capsys):
    monkeypatch.setattr(serve, "demo_index", lambda cache: pytest.fail("built"))
    for options, named in (
        (["--port", "9000"], ["--port", "--serve"]),
        (["--serve", "--port", "70000"], ["port", 70000]),
    ):
        assert main(["demo", *options]) == 2
        says(capsys.readouterr().err, *named)
