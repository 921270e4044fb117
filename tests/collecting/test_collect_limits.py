"""Limits of a request: its time, the size of its reply, what is kept, and what stays behind."""

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
from conftest import questions, times
from servers import Server

import ragscore as rs
from ragscore.collecting import journal
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
    with refused(str(given).lower(), field="max_bytes"):
        as_system(mapped("http://localhost", max_bytes=given))
    as_system(mapped("http://localhost", max_bytes=1))


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
