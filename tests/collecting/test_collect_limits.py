"""Limits of one request: its time, the size of its reply, where it may lead, what is kept."""

import errno
import gzip
import json
import socket
import sys
import threading
from contextlib import contextmanager, suppress

import pandas as pd
import pytest
from servers import Reply, Server

import ragscore as rs
from ragscore.collecting import journal
from ragscore.collecting.requests import RequestPolicy, ask_all
from ragscore.collecting.run import as_system
from tests.messages import refused, says

GOOD = {"hits": [{"chunk_id": "c"}], "answer": "yes"}


@pytest.fixture
def golden():
    rows = [
        {"query_id": f"q{n}", "query": f"question {n}", "answerable": True, "position": n}
        for n in range(3)
    ]
    return rs.Golden(pd.DataFrame(rows))


def errors(system, golden, out, **options):
    results = rs.collect(system, golden, out, progress=False, retries=0, **options)
    return [None if pd.isna(one) else one for one in results.responses["error"]]


def mapped(url, **more):
    return {"url": f"{url}/ask", "response": {"hits": "hits", "answer": "answer"}, **more}


@contextmanager
def raw(act):
    """A server that hands the first connection to `act`, and answers all others well."""
    listening, closing = socket.create_server(("127.0.0.1", 0)), threading.Event()

    def serve():
        first = True
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                threading.Thread(target=one, args=(connection, first), daemon=True).start()
                first = False

    def one(connection, is_first):
        body = json.dumps(GOOD).encode()
        with connection, suppress(OSError):
            connection.recv(65536)
            if is_first:
                act(connection, closing)
            else:
                head = (
                    f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
                )
                connection.sendall(head.encode() + body)

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    closing.set()
    listening.close()


@pytest.mark.parametrize(
    ("begun", "drop"),
    [
        ("", "H"),
        ("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n", " "),
        ("", "HTTP/1.1 102 Processing\r\n\r\n"),
    ],
    ids=["nothing", "headers", "body", "informational"],
)
def test_a_drip_does_not_begin_the_time_anew(golden, tmp_path, begun, drop):
    def drip(connection, closing):
        connection.sendall(begun.encode())
        while not closing.wait(0.02):
            if begun or drop != "H":
                connection.sendall(drop.encode())

    with raw(drip) as url:
        found = errors(mapped(url), golden, tmp_path, timeout=0.4)
    says(found[0], "0.4 s")
    assert found[1:] == [None, None]


def replying(first):
    return Server(lambda seen: first if seen.number == 1 else GOOD)


def test_a_reply_without_end_is_given_up_at_its_size_however_it_is_packed(golden, tmp_path):
    bomb = gzip.compress(bytes(60_000_000))

    def send(connection, closing):
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
        connection.sendall(head.encode() + bomb)

    with raw(send) as url:
        found = errors(mapped(url), golden, tmp_path, timeout=20)
    says(found[0], "10,000,000")
    assert found[1:] == [None, None]


@pytest.mark.parametrize(("max_bytes", "error"), [(100, True), (4000, False), (None, False)])
def test_a_mapping_says_how_large_a_reply_may_be(golden, tmp_path, max_bytes, error):
    with replying(GOOD | {"padding": " " * 2000}) as server:
        found = errors(mapped(server.url, max_bytes=max_bytes), golden, tmp_path)
    assert [one is not None for one in found] == [error, False, False]
    if error:
        says(found[0], 100)


@pytest.mark.parametrize("given", [0, True, "many", 1.5])
def test_a_size_that_is_none_is_refused(given):
    with refused(str(given).lower(), field="max_bytes"):
        as_system(mapped("http://localhost", max_bytes=given))
    as_system(mapped("http://localhost", max_bytes=1))


def test_a_reply_that_is_not_utf_8_is_an_error_and_no_other_text(golden, tmp_path):
    def latin(connection, closing):
        body = '{"answer": "Straße"}'.encode("latin-1")
        head = f"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)

    with raw(latin) as url:
        found = errors(mapped(url) | {"response": {"answer": "answer"}}, golden, tmp_path)
    says(found[0], "UTF-8", "0xdf", 16)
    assert found[1:] == [None, None]


@pytest.mark.parametrize("status", [302, 307])
def test_a_key_goes_to_no_other_host(golden, tmp_path, status, monkeypatch):
    monkeypatch.setenv("HOUSE_TOKEN", "the key of the house")
    with Server(lambda seen: GOOD) as other:
        elsewhere = other.url.replace("127.0.0.1", "localhost") + "/ask"
        with replying(Reply({}, status=status, headers={"Location": elsewhere})) as server:
            keyed = mapped(server.url, headers={"Authorization": "Bearer $HOUSE_TOKEN"})
            found = errors(keyed, golden, tmp_path)
        assert not other.requests
    says(found[0], status, elsewhere)
    assert found[1:] == [None, None]


@pytest.mark.slow
def test_a_command_whose_child_holds_its_output_open_ends_with_its_time(golden, tmp_path):
    code = (
        "import subprocess, sys\n"
        "if '{query}'.endswith('0'):\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(9)'],"
        " start_new_session=True)\n"
        "print('[]')"
    )
    found = errors([sys.executable, "-c", code], golden, tmp_path, timeout=3)
    says(found[0], "3 s")
    assert found[1:] == [None, None]


ODD = {
    "nested": {"answer": "x", "more": json.loads("[" * 200 + "]" * 200)},
    "4300": {"answer": "x", "more": 10**5000},
    "k: found": {"answer": "x", "config": {"k": 10**400}},
    "HalfError": lambda: (_ for _ in ()).throw(type("HalfError", (Exception,), {})("\ud800")),
}


@pytest.mark.parametrize("named", ODD)
def test_an_odd_reply_never_ends_the_run(golden, tmp_path, named):
    def system(query):
        if query != "question 0":
            return GOOD
        return ODD[named]() if callable(ODD[named]) else ODD[named]

    found = errors(system, golden, tmp_path)
    says(found[0], named)
    assert found[1:] == [None, None]


def full_disk(*given):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_says_what_is_kept_and_the_same_call_goes_on(golden, tmp_path, monkeypatch):
    asked = []

    def system(query):
        asked.append(query)
        if len(asked) == 2:
            monkeypatch.setattr(journal, "json_line", full_disk)
        return GOOD

    with refused("No space left on device", 1, file=".per_query.journal"):
        rs.collect(system, golden, tmp_path, progress=False)
    monkeypatch.undo()
    results = rs.collect(system, golden, tmp_path, progress=False)
    assert asked == ["question 0", "question 1", "question 1", "question 2"]
    assert results.responses["error"].isna().all()


def test_of_several_workers_the_first_that_cannot_save_is_told_and_no_other_saves():
    """Between an error and its telling other workers are at the door."""
    requests = [{"query_id": f"q{n}", "query": f"question {n}"} for n in range(40)]
    policy = RequestPolicy(workers=8)
    for _ in range(50):
        tried = []

        def save(answer, tried=tried):
            tried.append(answer)
            raise OSError(f"the disk is full: {len(tried)}")

        with pytest.raises(OSError, match=r"full: 1$"):
            list(ask_all(as_system(lambda query: GOOD), requests, policy, save))
        assert len(tried) == 1


def test_a_finished_run_is_found_after_a_collector_that_waited_for_its_journal(golden, tmp_path):
    """The journal that a collector has opened may be gone when it is locked."""
    rs.collect(lambda query: GOOD, golden, tmp_path, progress=False)
    with (
        refused("fresh=True", file="per_query.jsonl"),
        journal.open_journal(tmp_path, {"asked": {}}),
    ):
        pass
    assert not (tmp_path / journal.JOURNAL_NAME).exists()
