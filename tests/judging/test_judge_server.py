"""The judge without a model: what it refuses."""

import http.client
import json

import pytest

from ragscore.demo.judge_server import JudgeServer

SOUND = {"model": "words", "input": ["Paris is in France."]}


@pytest.fixture(scope="module")
def server():
    with JudgeServer() as running:
        yield running


def asked(server, content):
    """Return status and error of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request("POST", "/v1/embeddings", content)
    reply = connection.getresponse()
    error = json.loads(reply.read()).get("error")
    connection.close()
    return reply.status, error


def test_a_program_of_this_machine_is_answered(server):
    assert asked(server, json.dumps(SOUND)) == (200, None)


@pytest.mark.parametrize(
    "content", [b"", b"[1]", b"{}", b"[" * 100_000, b'{"input": 5}', b"\xff\xfe"]
)
def test_what_is_no_request_is_told_so(server, content):
    status, error = asked(server, content)
    assert status == 400 and error["message"].startswith("no request of a judge")
