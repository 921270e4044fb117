"""Limits of one request: its time, the size of its reply, where it may lead, what is kept."""

import errno
import json
import sys
from unittest.mock import Mock

import pandas as pd
import pytest
from conftest import questions
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


@pytest.mark.parametrize(("max_bytes", "error"), [(100, True), (4000, False), (None, False)])
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


ODD = {
    "nested": {"answer": "x", "more": json.loads("[" * 200 + "]" * 200)},
    "4300": {"answer": "x", "more": 10**5000},
    "k: found": {"answer": "x", "config": {"k": 10**400}},
    "HalfError": lambda: (_ for _ in ()).throw(type("HalfError", (Exception,), {})("\ud800")),
}


@pytest.mark.parametrize("named", ODD)
def test_an_odd_reply_never_ends_the_run(tmp_path, named):
    def system(query):
        if query != "question 0":
            return GOOD
        return ODD[named]() if callable(ODD[named]) else ODD[named]

    found = errors(system, tmp_path)
    says(found[0], named)
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
    for _ in range(3):
        tried = []

        def save(answer, tried=tried):
            tried.append(answer)
            raise OSError(f"the disk is full: {len(tried)}")

        with pytest.raises(OSError, match=r"full: 1$"):
            list(ask_all(as_system(lambda query: GOOD), requests, policy, save))
        assert len(tried) == 1
