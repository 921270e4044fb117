"""Runs that were interrupted: killed at any moment they go on, and end as if nothing had been."""

import json
import os
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from conftest import EXAMPLES, questions
from faults.children import die, start

import ragscore as rs
from ragscore.collecting import journal
from ragscore.collecting import run as collect_run
from ragscore.collecting.reproducible import same_run
from tests.messages import refused, says

ROWS = [{"id": f"q{n}", "query": f"question {n}", "expected_doc_ids": ["d"]} for n in range(6)]


OTHER = [one | {"expected_doc_ids": ["x"]} for one in ROWS]
GOLDEN = rs.load_golden(ROWS)


def found(query):
    return [{"chunk_id": f"c {query}"}]


def lines_without_timing(file: Path) -> list[str]:
    return re.sub(
        r'"elapsed_ms": [\d.]+', '"elapsed_ms": 0', file.read_text(encoding="utf-8")
    ).splitlines()


# A collector that is killed at a given moment of its life, in a process of its own. A moment is a
# question that is asked or answered, or a file that is put in place or removed. The thread that
# kills may do so amid a statement of the journal that another one makes.

N_QUERIES, WORKERS = 24, 4


def drawn_reply(query, k, seed):
    """Reply by chance, the same for the same seed."""
    drawn = random.Random(f"{query} {seed}")
    hits = [
        {"chunk_id": f"c{drawn.randrange(1000)}", "score": drawn.random(),
         "text": "ä" * drawn.randrange(200)}
        for _ in range(k)
    ]  # fmt: skip
    if drawn.random() < 0.1:
        return {"hits": hits, "error": "no answer"}
    return {
        "hits": hits, "answer": f"answer to {query}", "config": {"index_version": "i1"},
        "latency": {"retrieval_ms": 1.5},
    }  # fmt: skip


def collected(folder, kill_at=None):
    """Collect a run in a process of its own; return how many moments it had, None if killed."""

    def collect():
        moments = count(1)

        def counted(do, *given, **how):
            if next(moments) == kill_at:
                die()
            return do(*given, **how)

        def system(query, k, seed):
            with folder.with_suffix(".log").open("a") as lines:
                counted(lines.write, f"{query}\n")
            return counted(drawn_reply, query, k, seed)

        replace, unlink = Path.replace, Path.unlink
        Path.replace = lambda *given: counted(replace, *given)
        Path.unlink = lambda *given, **how: counted(unlink, *given, **how)
        # nothing here looks at the frames, nor at what the machine is, and what a process has
        # written outlives it without: that is for a machine that stops
        collect_run.load_results = lambda path: None
        collect_run.environment = collect_run.code_version = dict
        os.fsync = lambda handle: None
        rs.collect(
            system, questions(N_QUERIES), folder, k=3, seed=11, workers=WORKERS, run_id="run",
            progress=False,
        )  # fmt: skip
        return next(moments) - 1

    return start(collect).answer(limit=120)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked for speed")
def test_a_run_killed_at_any_moment_ends_as_one_that_was_not(tmp_path):
    whole, drawn = tmp_path / "whole", random.Random(5)
    n_moments = collected(whole)
    assert isinstance(n_moments, int), n_moments
    expected = lines_without_timing(whole / "per_query.jsonl")
    assert len(expected) == N_QUERIES and any("no answer" in line for line in expected)
    description = json.loads((whole / "run.json").read_text())
    for number in range(EXAMPLES):
        folder, at = tmp_path / f"killed-{number}", drawn.randrange(1, n_moments + 1)
        assert collected(folder, at) is None, at
        assert isinstance(collected(folder), int), at
        assert lines_without_timing(folder / "per_query.jsonl") == expected, at
        found = json.loads((folder / "run.json").read_text())
        assert found | {"created_at": 0} == description | {"created_at": 0}, at
        assert number > 2 or same_run(whole, folder).empty
        # a killed writer may leave a hidden file beside them
        names = sorted(one.name for one in folder.iterdir() if not one.name.startswith("."))
        assert names == ["per_query.jsonl", "run.json"], at
        asked = Counter(folder.with_suffix(".log").read_text().splitlines())
        assert len(asked) == N_QUERIES and asked.total() - N_QUERIES <= WORKERS, at


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
@pytest.mark.parametrize("workers", [1, 4])
def test_ctrl_c_waits_for_the_replies_in_flight_so_that_no_query_is_asked_twice(
    tmp_path, capsys, workers
):
    golden = questions(12 * workers)  # enough to be at work still when the signal is handled
    asked, last, together = [], [5 + workers], threading.Barrier(workers)

    def system(query):
        asked.append(query)
        if len(asked) == last[0]:
            os.kill(os.getpid(), signal.SIGINT)
        if last[0] and len(asked) <= workers:
            together.wait(30)
        time.sleep(0.02)
        return found(query)

    before = {thread.ident for thread in threading.enumerate()}
    with pytest.raises(KeyboardInterrupt) as stopped:
        rs.collect(system, golden, tmp_path / "run", workers=workers, timeout=30)
    assert {thread.ident for thread in threading.enumerate()} <= before
    says(capsys.readouterr().err, "in flight")
    n_first, last[0] = len(asked), 0
    assert n_first < 12 * workers
    says(stopped.value.__notes__[0], n_first, tmp_path / "run" / journal.JOURNAL_NAME)
    results = rs.collect(system, golden, tmp_path / "run", workers=workers, progress=False)
    assert len(asked) == len(set(asked)) == 12 * workers == len(results.responses)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="signals of POSIX")
def test_a_second_ctrl_c_leaves_the_replies_in_flight(tmp_path, monkeypatch):
    signal.siginterrupt(signal.SIGINT, True)  # an event loop of another test may have changed it
    release, started, told = (threading.Event() for _ in range(3))

    def write(text):
        if "in flight" in text:
            told.set()

    def press_twice():  # never just as the main thread begins to wait: it would not wake up
        for asked in (started, told):
            asked.wait(30)
            time.sleep(0.2)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    def system(query):
        if query != "question 0":
            started.set()
            release.wait(60)
        return found(query)

    monkeypatch.setattr(sys.stderr, "write", write)
    threading.Thread(target=press_twice, daemon=True).start()
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt) as stopped:
        rs.collect(system, GOLDEN, tmp_path / "run", timeout=90)
    assert time.monotonic() - begun < 50  # it did not wait for the reply
    says(stopped.value.__notes__[0], 1)
    release.set()


def begun(folder, **options):
    """A run that was stopped after two answers."""
    left = iter([True, True])

    def system(query, k=None, mode=None, folder_mode=None):
        if not next(left, False):
            raise KeyboardInterrupt
        return found(query)

    with pytest.raises(KeyboardInterrupt):
        rs.collect(system, GOLDEN, folder, progress=False, name="s", **options)
    return system


@pytest.fixture(scope="module")
def begun_with_3(tmp_path_factory):
    """A folder with a run that was stopped, and its system."""
    folder = tmp_path_factory.mktemp("begun")
    return folder, begun(folder, k=3)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"k": 5}, ["config.k", 3, 5]),
        ({}, ["config.k", 3]),
        ({"k": 3, "settings": {"folder_mode": "on"}}, ["config.folder_mode", "on"]),
        ({"k": 3, "limit": 4}, ["queries"]),
        ({"k": 3, "run_id": "mine"}, ["run_id", "mine"]),
        ({"k": 3, "golden": rs.load_golden(OTHER)}, ["golden_hash"]),
        (
            {"k": 5, "limit": 4, "run_id": "r", "suite": "s", "repeat": 2, "mode": "m"},
            ["run_id", "suite", "repeat", "config.k", 'now ["q0", "q1", "q2", "q3"] and 1 more'],
        ),
    ],
)
def test_going_on_with_other_settings_is_one_clear_error(begun_with_3, options, named):
    folder, system = begun_with_3
    given = {"golden": GOLDEN, "progress": False, "name": "s"} | options
    with refused(*named, "fresh=True", "--fresh", file=folder / journal.JOURNAL_NAME):
        rs.collect(system, out=folder, **given)


def test_how_a_run_asks_may_change_when_it_goes_on(tmp_path):
    begun(tmp_path)
    asked = []

    def system(query):
        asked.append(query)
        return found(query)

    # the same function, as a notebook's cell run again makes it
    system.__qualname__ = "begun.<locals>.system"
    results = rs.collect(
        system, GOLDEN, tmp_path, progress=False, name="s", workers=3, retries=0, timeout=None
    )
    assert len(results.hits) == 6 and sorted(asked) == [f"question {n}" for n in (2, 3, 4, 5)]


def test_a_file_that_is_no_journal_is_named(tmp_path):
    system = begun(tmp_path)
    file = tmp_path / journal.JOURNAL_NAME
    file.write_bytes(b"x" * 9000)
    with refused("not a database", file=".per_query.journal"):
        rs.collect(system, GOLDEN, tmp_path, progress=False, name="s")


def test_two_collectors_in_one_folder_are_refused(tmp_path):
    def system(query):
        with refused("process", file=".per_query.journal"):
            rs.collect(found, GOLDEN, tmp_path, progress=False, name="system")
        return found(query)

    assert len(rs.collect(system, GOLDEN, tmp_path, progress=False, limit=1).hits) == 1


def test_fresh_begins_anew(tmp_path):
    begun(tmp_path, k=3)
    anew = [{"chunk_id": "anew"}]
    results = rs.collect(lambda query: anew, GOLDEN, tmp_path, progress=False, fresh=True)
    assert results.hits["chunk_id"].tolist() == ["anew"] * 6
