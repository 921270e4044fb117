"""Keys and tokens reach no file and no log: every byte that a run writes is searched for them."""

import copy
import pickle
import sys
import traceback

import pytest
from conftest import questions

import ragscore as rs
from ragscore.collecting.http import read_mapping
from ragscore.collecting.run import as_system
from tests.messages import refused

TOKEN = "tok-4fJ0aZk2LmQ8"
GOLDEN = questions(3)


@pytest.mark.filterwarnings("ignore:every query failed")
def test_an_exception_that_holds_a_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", TOKEN)

    def system(query):
        raise RuntimeError(
            f"401 for key {TOKEN}, which begins with {TOKEN[:9]}, at https://me:{TOKEN}@host/"
        )

    results = rs.collect(system, GOLDEN, tmp_path / "run", progress=False)
    assert TOKEN not in (tmp_path / "run" / "per_query.jsonl").read_text()
    assert (
        results.responses["error"].iloc[0]
        == "RuntimeError: 401 for key ***, which begins with ***, at https://me:***@host/"
    )


@pytest.mark.filterwarnings("ignore:every query failed")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_command_s_output_is_cut_after_its_keys_are_hidden(tmp_path, stream, monkeypatch):
    key = "Qw3rT-y7Uz1oP_aS5dF9gH2j"
    monkeypatch.setenv("MY_TOKEN", key)
    n = len(key) // 4 + 1
    code = (
        "import os, sys; at, key = 4 * int(sys.argv[1].split()[1]), os.environ['MY_TOKEN']\n"
        # 500 characters of the beginning of one and of the end of the other are shown
        "text = '.' * (500 - at) + key + '.' * (500 - len(key) + at)\n"
        f"print(text, file=sys.{stream}); sys.exit('{stream}' == 'stderr')"
    )
    command = [sys.executable, "-c", code, "{query}"]
    results = rs.collect(command, questions(n), tmp_path / "run", workers=2, progress=False)
    written = "".join(file.read_text() for file in (tmp_path / "run").iterdir())
    pieces = {key[at : at + 6] for at in range(len(key) - 5)}
    assert not {piece for piece in pieces if piece in written}
    assert results.responses["error"].str.len().between(450, 600).all()


REPLY = {"response": {"answer": "a"}}


@pytest.mark.parametrize(
    ("system", "field"),
    [
        ({"url": "http://h/", "headers": {"X-Key": TOKEN}} | REPLY, "headers.X-Key"),
        ({"url": "http://h/", "headers": {"X-Key": f"Bearer {TOKEN}"}} | REPLY, "headers.X-Key"),
        ({"url": "http://h/", "headers": {"X-Key": f"{TOKEN} $HOME"}} | REPLY, "headers.X-Key"),
        ({"url": "http://h/", "params": {"key": TOKEN}} | REPLY, "params.key"),
        ({"url": "http://h/", "fixed": {"llm": {"api_key": TOKEN}}} | REPLY, "fixed"),
        ({"url": f"http://user:{TOKEN}@h/"} | REPLY, "url"),
        ({"url": f"http://h/?token={TOKEN}"} | REPLY, "url"),
        ({"url": "http://h/", "headers": {"X-Key": "$ODD_KEY"}} | REPLY, "headers.X-Key"),
        (f"http://{TOKEN}@localhost/", "url"),
        (f"http://localhost:{TOKEN}/", "url"),
        (f"http://localhost:{TOKEN}/ask", "url"),
        (f"http://[{TOKEN}/", "url"),
        (f"htps://user:{TOKEN}@localhost/", "system"),
        (["rag", "--token", TOKEN], "system"),
        (["rag", f"--api-key={TOKEN}"], "system"),
        (["rag", f"MY_TOKEN={TOKEN}"], "system"),
        (["curl", "-H", f"Authorization: Bearer {TOKEN}"], "system"),
        (["curl", f"https://user:{TOKEN}@h/"], "system"),
        (["curl", f"https://h/ask?api_key={TOKEN}&q=1"], "system"),
        ({"url": "http://h/", "fixed": {"at": f"http://me:{TOKEN}@h"}} | REPLY, "fixed"),
    ],
)
def test_a_key_elsewhere_is_refused_and_not_shown(system, field, monkeypatch):
    monkeypatch.setenv("ODD_KEY", f"ä{TOKEN}")
    with refused(field=field) as caught:
        as_system(system)
    shown = "".join(traceback.format_exception(caught.value))
    assert TOKEN[:6] not in shown and TOKEN[:6].encode() not in pickle.dumps(caught.value)


@pytest.mark.parametrize("part", ["settings", "config"])
def test_a_key_among_settings_is_refused(tmp_path, part):
    with refused(field=part) as caught:
        rs.collect(lambda query, **more: query, GOLDEN, tmp_path / "run",
                   **{part: {"llm": {"api_key": TOKEN}}})  # fmt: skip
    assert TOKEN[:6] not in str(caught.value) and not (tmp_path / "run").exists()


def test_what_names_a_variable_is_shown_and_pickled(monkeypatch):
    monkeypatch.setenv("RAG_TOKEN", TOKEN)
    given = {"url": "http://h/", "headers": {"X-Key": "Bearer $RAG_TOKEN"}} | REPLY
    mapping = read_mapping(given)
    assert pickle.loads(pickle.dumps(mapping)) == mapping == copy.deepcopy(mapping)
    assert "$RAG_TOKEN" in repr(mapping) and TOKEN not in repr(as_system(given))


def test_keys_of_ids_and_queries_of_the_golden_set_stay(tmp_path, write_golden, monkeypatch):
    monkeypatch.setenv("RAG_TOKEN", TOKEN)
    golden = rs.load_golden(
        write_golden([{"id": TOKEN, "query": f"what is {TOKEN}?", "expected_doc_ids": ["d"]}])
    )
    results = rs.collect(lambda query: query, golden, tmp_path / "run", progress=False)
    assert results.responses[["query_id", "query", "answer"]].iloc[0].tolist() == [
        TOKEN, f"what is {TOKEN}?", "what is ***?",
    ]  # fmt: skip


def test_a_variable_that_is_not_set_is_an_error_that_names_it(tmp_path):
    mapping = {
        "url": "http://localhost/",
        "headers": {"Authorization": "Bearer $NO_SUCH_VARIABLE"},
        "response": {"answer": "a"},
    }
    with refused("NO_SUCH_VARIABLE", field="headers.Authorization"):
        rs.collect(mapping, GOLDEN, tmp_path / "run")
