"""Keys and tokens reach no file and no log: every byte that a run writes is searched for them."""

import copy
import json
import logging
import os
import pickle
import sys
import traceback
from pathlib import Path

import pytest
from servers import Reply, Server, chatbot

import ragscore as rs
from ragscore.collecting.systems import System, as_system
from ragscore.collecting.systems.mapping import read_mapping
from ragscore.io.secrets import Redactor, is_secret
from tests.messages import refused, says

SECRET = 'Wq7+x/9 "ä'  # awkward on purpose: JSON and addresses write it in other ways
TOKEN = "tok-4fJ0aZk2LmQ8"
FORMS = (
    SECRET,
    TOKEN,
    json.dumps(SECRET)[1:-1],
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
    "Wq7%2Bx",
    "Wq7+x",
    "V3E3K3gvOSAi",
)


@pytest.fixture
def golden(write_golden):
    return rs.load_golden(
        write_golden(
            [{"id": f"q{n}", "query": f"question {n}", "expected_doc_ids": ["d"]} for n in range(3)]
        )
    )


@pytest.fixture
def written(tmp_path, monkeypatch, caplog, capfd):
    """Everything a run wrote so far.

    Files, also those that were there for a while, standard output and error, logs.
    """
    seen: list[bytes] = []
    write_bytes, fsync = Path.write_bytes, os.fsync

    def read_all(*_):
        seen.extend(file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file())

    monkeypatch.setattr(
        Path,
        "write_bytes",
        lambda path, data: (seen.append(bytes(data)), write_bytes(path, data))[1],
    )
    monkeypatch.setattr(os, "fsync", lambda handle: (fsync(handle), read_all())[0])
    caplog.set_level(logging.DEBUG)

    def everything() -> str:
        read_all()
        captured = capfd.readouterr()
        return "\n".join(
            [
                *(data.decode("utf-8", "replace") for data in seen),
                captured.out,
                captured.err,
                caplog.text,
                *map(str, caplog.records),
            ]
        )

    return everything


def assert_hidden(text: str) -> None:
    assert text
    for form in FORMS:
        assert form not in text, text[max(text.index(form) - 100, 0) : text.index(form) + 60]


def echo(seen):
    """A chatbot that gives back all it was sent, in the answer, the hits and what it says of
    itself.
    """
    told = f"{seen.headers} {seen.params} {seen.text} {SECRET} {TOKEN}"
    reply = chatbot(seen)
    reply["debug"]["retrieved_chunks"][0] |= {"text": told, TOKEN: TOKEN}
    reply["debug"]["indexing_coverage"]["index_version"] = {"api_key": TOKEN, "note": told}
    return reply | {"answer": told}


def failing(seen):
    return Reply({"error": f"denied to {seen.headers} {SECRET} {TOKEN}"}, status=403)


@pytest.mark.filterwarnings("ignore:every query failed", "ignore:replies differ")
@pytest.mark.parametrize("reply", [echo, failing])
def test_headers_variables_and_addresses(golden, tmp_path, monkeypatch, written, reply):
    monkeypatch.setenv("RAG_TOKEN", TOKEN)
    monkeypatch.setenv("MY_PASSWORD", SECRET)
    with Server(reply) as server:
        address = server.url.replace("://", f"://user:{TOKEN}@")
        mapping = {
            "url": f"{address}/api/v1/ask?api_key={TOKEN}",
            "headers": {"X-Key": "Bearer ${RAG_TOKEN}"},
            "params": {"access_token": "$RAG_TOKEN"},
            "request": {"query": "question", "k": "k", "password": "password"},
            "response": {
                "answer": "answer", "hits": "debug.retrieved_chunks",
                "hit": {"chunk_id": "chunk_id"},
                "config": {"index_version": "debug.indexing_coverage.index_version"},
            },
        }  # fmt: skip
        results = rs.collect(
            mapping, golden, tmp_path / "run", k=1, settings={"password": SECRET}, retries=0
        )
        assert (
            server.requests[0].headers["X-Key"].endswith(TOKEN)
            and server.requests[0].body["password"] == SECRET
        )
        assert server.requests[0].headers["Authorization"].startswith("Basic ")
    text = written()
    assert_hidden(text)
    assert server.requests[0].headers["Authorization"].split()[1] not in text
    config = json.loads(results.runs["config"].iloc[0])
    assert (
        config["system"]["headers"] == {"X-Key": "***"}
        and config["password"] == "***"
        and config["system"]["url"].endswith("/api/v1/ask?api_key=***")
    )
    assert "HTTP Request: POST" in text  # the client did log


@pytest.mark.filterwarnings("ignore:every query failed")
def test_a_command_s_arguments_and_errors(golden, tmp_path, written):
    code = "import sys; sys.exit(f'denied: {sys.argv[1:]}')"
    command = [
        sys.executable,
        "-c",
        code,
        "--api-key",
        TOKEN,
        f"--password={SECRET}",
        f"MY_TOKEN={TOKEN}",
        "--max-tokens",
        "17",
    ]
    results = rs.collect(command, golden, tmp_path / "run", progress=True)
    assert_hidden(written())
    shown = json.loads(results.runs["config"].iloc[0])["system"]["command"]
    assert shown[3:] == ["--api-key", "***", "--password=***", "MY_TOKEN=***", "--max-tokens", "17"]
    says(results.responses["error"].iloc[0], 1, "denied: ['--api-key', '***'")


@pytest.mark.filterwarnings("ignore:every query failed")
def test_an_exception_that_holds_a_variable(golden, tmp_path, monkeypatch, written):
    monkeypatch.setenv("OPENAI_API_KEY", TOKEN)

    def system(query):
        raise RuntimeError(
            f"401 for key {TOKEN} and sk-abcdefghijklmnopqrstuvwx at https://me:s3cr3t+pw@host/"
        )

    results = rs.collect(
        system,
        golden,
        tmp_path / "run",
        config={"llm": {"model_id": "m", "api_key": TOKEN}},
        progress=False,
    )
    assert_hidden(written())
    assert (
        results.responses["error"].iloc[0]
        == "RuntimeError: 401 for key *** and *** at https://***@host/"
    )
    assert json.loads(results.runs["config"].iloc[0])["llm"] == {"model_id": "m", "api_key": "***"}


@pytest.mark.filterwarnings("ignore:every query failed")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_command_s_output_is_cut_after_its_keys_are_hidden(tmp_path, write_golden, stream):
    key = "Qw3rT-y7Uz1oP_aS5dF9gH2j"
    n = len(key) + 1
    rows = [{"id": f"q{at}", "query": f"{at}", "expected_doc_ids": ["d"]} for at in range(n)]
    code = (
        "import os, sys; at, key = int(sys.argv[1]), sys.argv[3]\n"
        # 500 characters of the beginning of one and of the end of the other are shown
        "text = '.' * (500 - at) + key + '.' * (500 - len(key) + at)\n"
        f"print(text, file=sys.{stream}); sys.exit('{stream}' == 'stderr')"
    )
    command = [sys.executable, "-c", code, "{query}", "--token", key]
    golden = rs.load_golden(write_golden(rows))
    results = rs.collect(command, golden, tmp_path / "run", workers=2, progress=False)
    written = "".join(file.read_text() for file in (tmp_path / "run").iterdir())
    pieces = {key[at : at + 6] for at in range(len(key) - 5)}
    assert not {piece for piece in pieces if piece in written}
    assert results.responses["error"].str.len().between(450, 600).all()


def test_a_mapping_shows_no_key_and_is_not_pickled_with_one():
    def mapping(**more):
        return read_mapping({"url": "http://localhost/", "response": {"answer": "a"}} | more)

    keyed = [
        mapping(headers={"X-Key": TOKEN}),
        mapping(params={"key": TOKEN}),
        mapping(url=f"http://user:{TOKEN}@localhost/"),
        mapping(url=f"http://localhost/?token={TOKEN}"),
        mapping(fixed={"llm": {"api_key": TOKEN}}),
    ]
    for one, field in zip(keyed, ("headers.X-Key", "params.key", *["url, fixed"] * 3), strict=True):
        assert TOKEN not in repr(one) and "'localhost/'" not in repr(one)
        with refused("$NAME", field=field):
            pickle.dumps(one)
    for named in (mapping(headers={"X-Key": "Bearer $RAG_TOKEN"}), mapping(params={"k": "5"})):
        assert pickle.loads(pickle.dumps(named)) == named == copy.deepcopy(named)


@pytest.mark.parametrize(
    ("system", "field"),
    [
        (f"htps://user:{TOKEN}@localhost/", "system"),
        (f"http://localhost:{TOKEN}/", "url"),
        (f"http://[{TOKEN}/", "url"),
        (
            {"url": "http://h/", "headers": {"X-Key": f"ä{TOKEN}"}, "response": {"hits": "h"}},
            "headers",
        ),
    ],
)
def test_what_is_refused_is_named_without_its_key(system, field):
    with refused(field=field) as caught:
        as_system(system)
    shown = "".join(traceback.format_exception(caught.value))
    assert TOKEN not in shown and TOKEN[:6] not in shown


def answering(request, seconds):
    return "an answer"


def test_a_system_shows_no_secret_and_is_not_pickled_with_one():
    system = System("mine", answering, secrets=(TOKEN,), close=print)
    assert TOKEN not in repr(system) and TOKEN not in repr(as_system(["run", "--token", TOKEN]))
    with refused("$NAME", field="secrets"):
        pickle.dumps(system)
    plain = System("mine", answering, close=print)
    assert pickle.loads(pickle.dumps(plain)).name == "mine"


def test_keys_of_ids_and_queries_of_the_golden_set_stay(tmp_path, write_golden):
    golden = rs.load_golden(
        write_golden([{"id": TOKEN, "query": f"what is {TOKEN}?", "expected_doc_ids": ["d"]}])
    )
    results = rs.collect(
        lambda query: query, golden, tmp_path / "run", config={"api_key": TOKEN}, progress=False
    )
    assert results.responses[["query_id", "query", "answer"]].iloc[0].tolist() == [
        TOKEN, f"what is {TOKEN}?", "what is ***?",
    ]  # fmt: skip


def test_a_variable_that_is_not_set_is_an_error_that_names_it(golden, tmp_path):
    mapping = {
        "url": "http://localhost/",
        "headers": {"Authorization": "Bearer $NO_SUCH_VARIABLE"},
        "response": {"answer": "a"},
    }
    with refused("NO_SUCH_VARIABLE", field="headers.Authorization"):
        rs.collect(mapping, golden, tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("api_key", True), ("X-Api-Key", True), ("apiKey", True), ("OPENAI_API_KEY", True),
        ("access_token", True), ("Authorization", True), ("DB_PASSWORD", True),
        ("sig", True), ("max_tokens", False), ("tokenizer", False), ("key", False),
        ("keyword", False), ("author", False), ("prompt_tokens", False),
    ],
)  # fmt: skip
def test_names_that_tell_of_secrets(name, secret):
    assert is_secret(name) is secret


def test_only_known_secrets_are_taken_from_texts_of_hits():
    redact = Redactor(["secret-value"], environment={"MODE": "production", "AUTH": "none"})
    text = (
        "Send Authorization: Bearer abcdefgh and token=12345678; none in production; secret-value"
    )
    assert redact.text(text) == text.replace("secret-value", "***")
    assert (
        redact.message(text)
        == "Send Authorization: Bearer *** and token=***; none in production; ***"
    )
