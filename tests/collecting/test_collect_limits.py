"""Limits of a request: its time, the size of its reply, what is kept; keys stay nowhere."""

import asyncio
import copy
import errno
import gc
import logging
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from conftest import questions, times
from servers import Server

import ragscore as rs
from ragscore.collecting import journal
from ragscore.collecting.http import read_mapping
from ragscore.collecting.requests import RequestPolicy, ask_all
from ragscore.collecting.run import as_system
from tests.messages import refused, says

GOOD = {"hits": [{"chunk_id": "c"}], "answer": "yes"}


GOLDEN = questions(3)


def errors(system, out, **options):
    results = rs.collect(system, GOLDEN, out, progress=False, retries=0, **options)
    return [None if pd.isna(one) else one for one in results.responses["error"]]


def mapped(url, **more):
    return {"url": f"{url}/ask", "response": {"hits": "hits", "answer": "answer"}, **more}


def replying(first):
    return Server(lambda seen: first if seen.number == 1 else GOOD)


@pytest.mark.parametrize(("max_bytes", "error"), [(100, True), (4000, False)])
def test_a_mapping_says_how_large_a_reply_may_be(tmp_path, max_bytes, error):
    with replying(GOOD | {"padding": " " * 2000}) as server:
        found = errors(mapped(server.url, max_bytes=max_bytes), tmp_path)
    assert [one is not None for one in found] == [error, False, False]
    if error:
        says(found[0], 100)


@pytest.mark.parametrize("given", [0, True, "many", 1.5])
def test_a_size_that_is_none_is_refused(given):
    with refused(str(given), field="max_bytes"):
        as_system(mapped("http://localhost", max_bytes=given))


@pytest.mark.slow
def test_a_command_whose_child_holds_its_output_open_ends_with_its_time(tmp_path):
    code = (
        "import subprocess, sys\n"
        "if '{query}'.endswith('0'):\n"
        "    subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(9)'],"
        " start_new_session=True)\n"
        "print('[]')"
    )
    found = errors([sys.executable, "-c", code], tmp_path, timeout=3)
    says(found[0], "3 s")
    assert found[1:] == [None, None]


def test_a_full_disk_says_what_is_kept_and_the_same_call_goes_on(tmp_path, monkeypatch):
    asked, full = [], OSError(errno.ENOSPC, "No space left on device")

    def system(query):
        asked.append(query)
        if len(asked) == 2:
            monkeypatch.setattr(journal, "json_line", Mock(side_effect=full))
        return GOOD

    with refused("No space left on device", 1, file=".per_query.journal"):
        rs.collect(system, GOLDEN, tmp_path, progress=False)
    monkeypatch.undo()
    results = rs.collect(system, GOLDEN, tmp_path, progress=False)
    assert asked == ["question 0", "question 1", "question 1", "question 2"]
    assert results.responses["error"].isna().all()


def test_of_several_workers_the_first_that_cannot_save_is_told_and_no_other_saves():
    """Between an error and its telling other workers are at the door."""
    requests = [{"query_id": f"q{n}", "query": f"question {n}"} for n in range(40)]
    policy = RequestPolicy(workers=8)
    for _ in range(times(1)):
        tried = []

        def save(answer, tried=tried):
            tried.append(answer)
            raise OSError(f"the disk is full: {len(tried)}")

        with pytest.raises(OSError, match=r"full: 1$"):
            list(ask_all(as_system(lambda query: GOOD), requests, policy, save))
        assert len(tried) == 1


# Nothing stays behind a call: no thread, no open file or socket, nothing in the logs' way


N = 4


FOUR = questions(N)


def state():
    """Return what a call could leave: threads, open files, what makes and takes log records."""
    gc.collect()
    loggers = [logging.getLogger(), *map(logging.getLogger, logging.root.manager.loggerDict)]
    folder = Path("/proc/self/fd")
    return {
        # a server of another test may end meanwhile
        "threads": sorted(
            one.name for one in threading.enumerate() if not one.name.endswith("(serve)")
        ),
        "files": len(list(folder.iterdir())) if folder.exists() else 0,
        "factory": logging.getLogRecordFactory(),
        "filters": sum(len(one.filters) + len(one.handlers) for one in loggers),
    }


async def slow(query):
    await asyncio.sleep(0.01)
    return [{"chunk_id": query}]


def interrupted(query):
    if query == "question 3":
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.02)
    return [{"chunk_id": query}]


def ends(query):
    if query == "question 3":
        raise SystemExit(1)
    return [{"chunk_id": query}]


@pytest.fixture(scope="module")
def loaded_once(tmp_path_factory):
    """Collect, so that what is loaded once is there."""
    rs.collect(slow, FOUR, tmp_path_factory.mktemp("first"), progress=False)


COMMAND = [sys.executable, "-c", "print('[]')"]
HANGS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.filterwarnings("ignore:every query failed")
@pytest.mark.parametrize(
    ("system", "options", "ending"),
    [
        (lambda query: [{"chunk_id": query}], {}, nullcontext()),
        (slow, {}, nullcontext()),
        (COMMAND, {}, nullcontext()),
        (HANGS, {"timeout": 0.05}, nullcontext()),
        (lambda query: 1 / 0, {}, nullcontext()),
        (ends, {}, pytest.raises(SystemExit)),
        (interrupted, {}, pytest.raises(KeyboardInterrupt)),
    ],
    ids=["function", "async", "command", "hangs", "fails", "ends", "Ctrl-C"],
)
def test_a_function_or_command_leaves_nothing(loaded_once, tmp_path, system, options, ending):
    before = state()
    given = {"workers": 3, "retries": 0} | options
    with ending:
        rs.collect(system, FOUR, tmp_path / "run", progress=True, **given)
    assert state() == before


@pytest.mark.parametrize("progress", [True, False])
def test_without_extras_a_function_is_asked_all_the_same(tmp_path, monkeypatch, capsys, progress):
    for name in ("tqdm", "tqdm.auto", "tenacity", "httpx"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    results = rs.collect(
        lambda query: [{"chunk_id": query}], FOUR, tmp_path / "run", progress=progress
    )
    assert len(results.responses) == N and capsys.readouterr().err == ""


# Keys and tokens reach no file and no log: every byte that a run writes is searched for them.

TOKEN = "tok-4fJ0aZk2LmQ8"


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
