"""Nothing stays behind a call: no thread, no open file or socket, nothing in the logs' way."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
from conftest import questions

import ragscore as rs

N = 4


GOLDEN = questions(N)


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
    time.sleep(0.05)
    return [{"chunk_id": query}]


def ends(query):
    if query == "question 3":
        raise SystemExit(1)
    return [{"chunk_id": query}]


@pytest.fixture(scope="module")
def loaded_once(tmp_path_factory):
    """Collect, so that what is loaded once is there."""
    rs.collect(slow, GOLDEN, tmp_path_factory.mktemp("first"), progress=False)


COMMAND = [sys.executable, "-c", "print('[]')"]
HANGS = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.mark.filterwarnings("ignore:every query failed")
@pytest.mark.parametrize(
    ("system", "options", "ending"),
    [
        (lambda query: [{"chunk_id": query}], {}, nullcontext()),
        (slow, {}, nullcontext()),
        (COMMAND, {}, nullcontext()),
        (HANGS, {"timeout": 0.3}, nullcontext()),
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
        rs.collect(system, GOLDEN, tmp_path / "run", progress=True, **given)
    assert state() == before


@pytest.mark.parametrize("progress", [True, False])
def test_without_extras_a_function_is_asked_all_the_same(tmp_path, monkeypatch, capsys, progress):
    for name in ("tqdm", "tqdm.auto", "tenacity", "httpx"):
        monkeypatch.setitem(sys.modules, name, None)  # as if it were not installed
    results = rs.collect(
        lambda query: [{"chunk_id": query}], GOLDEN, tmp_path / "run", progress=progress
    )
    assert len(results.responses) == N and capsys.readouterr().err == ""
