"""Servers that drip, lie, break off, redirect, send bombs and nonsense, asked by `rs.collect`.

Each question is answered well or by one fault, drawn by the round's number. A fault is that
question's error; the other answers are there to the letter; time and secrets are kept.
"""

import gzip
import json
import random
import re
import zlib
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

import pandas as pd
import pytest
from conftest import questions, times

import ragscore as rs
from faults.judge_wire import WireServer, damaged

pytestmark = pytest.mark.slow

LIMIT, MAX_BYTES, N_QUERIES = 0.6, 200_000, 6
SECRET = "s3cret-0f-the-house"
Parts = Iterable[bytes | float]  # what a server sends, and seconds that it waits


def good(query: str) -> bytes:
    hits = [{"chunk_id": f"c{n} {query}", "text": f"tëxt {n}", "score": 1 / n} for n in (1, 2)]
    return json.dumps({"hits": hits, "answer": f"answer to {query}"}).encode()


def reply(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    declared = len(body) if length is None else length
    head = [f"HTTP/1.1 {status}", f"Content-Length: {declared}", "Connection: close", *headers]
    return "\r\n".join([*head, "", ""]).encode() + body


def packed(body: bytes, encoding: str = "gzip") -> bytes:
    return reply(gzip.compress(body), f"Content-Encoding: {encoding}")


def drip(begun: bytes, piece: bytes) -> Parts:
    """Send a piece every 20 ms, for longer than any time limit here."""
    yield begun
    for _ in range(150):
        yield 0.02
        yield piece


def pour(begun: bytes, piece: bytes) -> Parts:
    """Send pieces without end."""
    yield begun
    while True:
        yield piece


def says(*bodies: bytes) -> Callable[[str, random.Random], Parts]:
    """Send one of these replies."""
    return lambda query, drawn: [drawn.choice(bodies)]


ODD = [
    b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 100_000, b'{"hits": "abc"}', b'{"hits": [1, 2]}',
    b'{"hits": [{"chunk_id": "c", "score": 1%s}]}' % (b"0" * 400), b'{"hits": [null]}',
    b'{"hits": [{"chunk_id": "c", "rank": 1%s}]}' % (b"0" * 5000), b'{"answer": "\\ud800"}',
    b'{"hits": {"a": 1}}', b'{"answer": ["x"]}', b'{"hits": [], "hits": []}', b"", b"null", b"7",
    b'{"answer": 1e999999}', b'{"hits": [[[]]]}', b"\xff\xfe{}", b'{"answer": "\xe4"}',
    b'{"answer": {"answer": {}}}', b'{"hits": [{"chunk_id": "c", "rank": -1}]}', b"\0" * 50,
    b'{"hits": [{"chunk_id": "c", "metadata": ' + b'{"a":' * 300 + b"1" + b"}" * 300 + b"}]}",
    b'{"hits": [{"chunk_id": "c", "heading": {"a": 1}, "score": "high"}]}', b'{"hits": [{}',
    b'{"hits": [{"chunk_id": "c"}], "config": {"k": -3}}',
    b'{"hits": [{"chunk_id": "c"}], "config": {"k": 1%s}}' % (b"0" * 400),
]  # fmt: skip
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
ZEROS = b" " * 30_000_000
BOMB, BOMB_OF_BOMB = gzip.compress(ZEROS), gzip.compress(gzip.compress(ZEROS))
# The parts that a fault sends, and what its error says; "" if a sound answer may come of it, too.
FAULTS: dict[str, tuple[Callable[[str, random.Random], Parts], str]] = {
    "dripped first line": (lambda q, d: drip(b"HTTP/1.1 ", b"2"), r"\d s\b|Protocol"),
    "dripped headers": (lambda q, d: drip(HEAD, b"X-A: b\r\n"), r"\d s\b"),
    "dripped body": (
        lambda q, d: drip(HEAD + b"Content-Length: 9999\r\n\r\n", b" "), r"\d s\b"),
    "dripped chunks": (lambda q, d: drip(CHUNKED, b"1\r\n \r\n"), r"\d s\b"),
    "no reply": (lambda q, d: drip(b"", b""), r"\d s\b"),
    "endless 102": (lambda q, d: drip(b"", b"HTTP/1.1 102 Processing\r\n\r\n"), r"\d s\b"),
    "endless headers": (lambda q, d: pour(HEAD, b"X-A: b\r\n" * 99), "Protocol|\\d s\\b"),
    "endless body": (
        lambda q, d: pour(CHUNKED, b"4000\r\n" + b" " * 0x4000 + b"\r\n"), "200,000"),
    "closed": (lambda q, d: [], "Protocol|ReadError"),
    "closed in the body": (lambda q, d: [reply(b"{", length=50)], "ReadError|Protocol"),
    "length too long": (
        lambda q, d: [reply(good(q), length=len(good(q)) + 9)], "Protocol|ReadError"),
    "length too short": (lambda q, d: [reply(good(q), length=len(good(q)) - 9)], "JSON"),
    "length of a terabyte": (says(reply(b"", length=10**12)), "Protocol|ReadError"),
    "no number as length": (
        says(reply(b"", "Content-Length: x"), reply(b"", "Content-Length: -5")), "Protocol"),
    "too large": (says(reply(b" " * 300_000)), "200,000"),
    "bomb": (says(reply(BOMB, "Content-Encoding: gzip")), r"200,000|\d s\b"),
    "deflate bomb": (
        says(reply(zlib.compress(ZEROS), "Content-Encoding: deflate")), r"200,000|\d s\b"),
    "bomb in a bomb": (
        says(reply(BOMB_OF_BOMB, "Content-Encoding: gzip, gzip")), r"200,000|\d s\b"),
    "unknown encoding": (says(reply(b"{}", "Content-Encoding: br")), "no hits|Decoding"),
    "no gzip": (says(reply(b"{}", "Content-Encoding: gzip")), "Decoding"),
    "gzip cut short": (
        lambda q, d: [reply(gzip.compress(good(q))[:-12], "Content-Encoding: gzip")],
        "JSON|Decoding"),
    "redirect": (
        says(*(reply(b"", "Location: http://localhost:{port}/ask", status=status)
               for status in ("301 M", "302 F", "303 S", "307 T", "308 P"))),
        "http://localhost"),
    "odd redirect": (
        says(reply(b"", "Location: http://[", status="302 F"),
             reply(b"", "Location: \x01", status="302 F")), "302|Protocol|redirect"),
    "error page": (says(reply(b"<html>\xff", status="500 Oh"),
                        reply(b"", status="404 No")), "500|404"),
    "not HTTP": (says(b"SSH-2.0-OpenSSH_9.6\r\n", b"\0" * 99, b"HTTP/9.9 x y\r\n\r\n"), "Protocol"),
    "odd JSON": (says(*map(reply, ODD)), "."),
    "odd JSON, packed": (says(*map(packed, ODD)), "."),
    "mutated": (lambda q, d: [damaged(d.random(), reply(good(q)))], ""),
}  # fmt: skip


def check(seed: int, fault: str | None, response: dict[str, Any], hits: list[str]) -> None:
    """Check what was recorded of one question."""
    query, error = response["query"], response["error"]
    about = f"seed {seed}: {query}: {fault}"
    if fault is None:
        assert pd.isna(error), f"{about}: {error}"
        assert response["answer"] == f"answer to {query}"
        assert hits == [f"c1 {query}", f"c2 {query}"]
    elif FAULTS[fault][1] or not pd.isna(error):
        assert not pd.isna(error), f"{about} passed for an answer"
        assert re.search(FAULTS[fault][1], error), f"{about} gave {error[:200]}"
        assert SECRET not in error


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_fault_of_a_server_is_one_question_s_error(tmp_path, monkeypatch):
    monkeypatch.setenv("HOUSE_TOKEN", SECRET)
    names = list(FAULTS)
    for seed in range(times(7)):  # each fault comes up once
        drawn = random.Random(seed)
        # Every fault comes up in turn, beside others that are drawn.
        chosen = [names[(4 * seed + n) % len(names)] for n in range(4)] + [None, None]
        drawn.shuffle(chosen)
        fault_of = {f"question {n}": fault for n, fault in enumerate(chosen) if fault}
        started = monotonic()

        def answer(number, body, fault_of=fault_of, drawn=drawn):
            fault = fault_of.get(body["query"])
            if fault is None:
                return [reply(good(body["query"]))]
            port = str(elsewhere.port).encode()
            return (
                part.replace(b"{port}", port) if isinstance(part, bytes) else part
                for part in FAULTS[fault][0](body["query"], drawn)
            )

        with WireServer(lambda number, body: []) as elsewhere, WireServer(answer) as server:
            mapping = {
                "url": server.url,
                "headers": {"Authorization": "Bearer $HOUSE_TOKEN"},
                "response": {"hits": "hits", "answer": "answer", "config": {"k": "config.k"}},
                "max_bytes": MAX_BYTES,
            }
            results = rs.collect(
                mapping, questions(N_QUERIES), tmp_path / str(seed),
                workers=drawn.choice([1, 2, 6]),
                timeout=LIMIT * 4 if drawn.random() < 0.1 else LIMIT, retries=0, progress=False,
            )  # fmt: skip
            assert not elsewhere.requests, f"seed {seed}: a redirect was followed"
        assert monotonic() - started < 20, f"seed {seed} took too long"
        responses = results.responses.to_dict("records")
        assert [one["query"] for one in responses] == [f"question {n}" for n in range(N_QUERIES)]
        hits = results.hits.reindex(columns=["query_id", "chunk_id"])
        for fault, response in zip(chosen, responses, strict=True):
            found = hits.loc[hits["query_id"] == response["query_id"], "chunk_id"]
            check(seed, fault, response, [*found])
        assert SECRET not in (tmp_path / str(seed) / "per_query.jsonl").read_text()
