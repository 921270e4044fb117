"""A store in a folder, in memory and on object storage: one protocol.

A run is there when its run-….json is, whole, and of several writers one wins.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from threading import Barrier, Lock
from uuid import uuid4

import pandas as pd
import pytest
from conftest import RUN_A
from stored import assert_same, named_by

import ragscore as rs
from ragscore.store import runs as store_runs
from ragscore.store import tables as run_tables
from tests.messages import ANY, check, refused

s3fs = pytest.importorskip("s3fs")


@pytest.fixture(scope="module")
def s3():
    """The storage options of an S3 server on this machine with one bucket, `bucket`.

    As S3 does, it answers one request to a key after the other.
    """
    server = pytest.importorskip("moto.server").ThreadedMotoServer(
        ip_address="127.0.0.1", port=0, verbose=False
    )
    server.start()
    host, port = server.get_host_and_port()
    app, one_at_a_time = server._server.app, Lock()

    def locked(environ, start_response):
        with one_at_a_time:
            return list(app(environ, start_response))

    server._server.app = locked
    options = {"endpoint_url": f"http://{host}:{port}", "key": "any", "secret": "any"}
    s3fs.S3FileSystem(**options).makedirs("bucket", exist_ok=True)
    yield options
    server.stop()


@pytest.fixture(
    params=["memory", *(pytest.param(one, marks=pytest.mark.slow) for one in ("folder", "s3"))]
)
def anew(request, tmp_path):
    """Open a new store anew, each time: a folder, or where nothing can be renamed."""
    options = request.getfixturevalue("s3") if request.param == "s3" else None
    roots = {"folder": tmp_path / "store", "memory": f"memory://{uuid4().hex}"}
    root = roots.get(request.param, f"s3://bucket/{uuid4().hex}")
    return lambda: rs.RunStore(root, storage_options=options)


def names_in(store: rs.RunStore, run: str = "") -> set[str]:
    """Every file of the store, or of a run of it."""
    return {name for name in store._place.files() if name.startswith(run)}


def test_a_store_gives_what_was_saved_and_scores_it_wherever_it_lies(pair, anew, monkeypatch):
    (results, golden), store = pair, anew()
    assert len(store.runs()) == 0
    assert store.save(results, golden=golden) == ["a", "b"]
    scores = rs.score(results, golden, "all")
    same = partial(pd.testing.assert_frame_equal, check_categorical=False)
    for read in (store, anew()):
        assert_same(replace(read.load(), runs=results.runs), results)
        same(read.scores()[[*scores]], scores)
    assert store.refresh(golden, collapse="doc") == ["a", "b"]
    assert len(store.scores(metrics=["mrr"])) == 6
    whole = rs.score(store.load(), golden)
    monkeypatch.setattr(run_tables, "PART_HITS", 2)  # each run is a group
    pd.testing.assert_frame_equal(store.scores(golden), whole, check_exact=True)
    assert [name.split("/")[-2] for name in store.files("hits")] == ["a", "b"]


def test_a_run_without_its_file_is_not_there_and_what_a_crash_left_goes_after_a_day(
    pair, anew, monkeypatch
):
    store = anew()
    store.save(pair[0])
    store._place.remove("a/run-0001.json")
    assert anew().runs()["run_id"].tolist() == ["b"] == store.load().runs["run_id"].tolist()
    orphans = names_in(store, "a/")
    assert store.save(pair[0].select("a")) == ["a"]
    store.save(pair[0].select("a"), overwrite=True)
    # for a day, files of a writer that may still be at work stay, and numbers of runs that were
    assert orphans | {"a/run-0001.json", "a/run-0002.json"} < names_in(store)
    monkeypatch.setattr(store_runs, "KEPT_FOR_WRITERS", -60)
    store.save(pair[0].select("a"), overwrite=True)
    kinds = sorted(name.split("-")[0] for name in names_in(store, "a/"))
    assert kinds == ["a/hits", "a/responses", "a/run"] and "a/run-0003.json" in names_in(store)


def test_saving_twice_is_refused_and_overwriting_removes_the_old_files(pair, anew):
    results, golden = pair
    store = anew()
    store.save(results, golden=golden)
    before = names_in(store)
    with refused("a saved already", "overwrite=True", field="run_id"):
        store.save(results)
    assert names_in(store) == before
    store.save(results, overwrite=True)
    assert names_in(store) & before == {"a/run-0001.json", "b/run-0001.json"}
    assert named_by(store, "a") == ["hits", "responses"]


def test_of_two_writers_at_once_one_wins_and_the_other_is_told(write_run, anew, monkeypatch):
    """Both have found the place free, and written their tables, before either puts its
    run-….json in place.
    """
    versions = [rs.load_results(write_run("r", RUN_A[:n], system=f"system {n}")) for n in (1, 3)]
    both_wrote, written = Barrier(2), run_tables.write_run

    def waiting(draft, run, text):
        written(draft, run, text)
        both_wrote.wait(timeout=60)
        assert len(anew().runs()) <= 1  # tables alone are no run

    monkeypatch.setattr("ragscore.store.store.write_run", waiting)

    def save(results):
        try:
            return anew().save(results)
        except rs.DataError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(save, versions))
    (won,) = (n for n, outcome in enumerate(outcomes) if outcome == ["r"])
    check(outcomes[1 - won], "r", "another writer", field="run_id")
    assert_same(anew().load(), versions[won])
    assert len(names_in(anew())) == len(("run-0001.json", "hits", "responses"))


@pytest.mark.parametrize("run", ["a", None])
def test_a_run_elsewhere_has_no_folder_on_this_machine(pair, run):
    store = rs.RunStore(f"memory://{uuid4().hex}")
    store.save(pair[0])
    with refused("no folder", file=ANY):
        store.path(run)


def test_a_file_system_that_overwrites_what_it_should_create_is_refused(pair, monkeypatch):
    store = rs.RunStore(f"memory://{uuid4().hex}")
    fs = type(store._place.fs)
    pipe = fs.pipe_file
    monkeypatch.setattr(fs, "pipe_file", lambda self, path, value, mode="": pipe(self, path, value))
    with refused("overwrites", file=ANY):
        store.save(pair[0])
    assert len(store.runs()) == 0 and not [one for one in names_in(store) if "staging" in one]


@pytest.mark.parametrize(
    ("root", "options", "field", "named"),
    [
        ("nowhere://x", None, ANY, ["nowhere"]),
        ("runs", {"key": "x"}, "storage_options", ["key", "s3://bucket/runs"]),
    ],
)
def test_a_place_that_is_none_is_refused(root, options, field, named):
    with refused(*named, field=field):
        rs.RunStore(root, storage_options=options)


def test_a_file_url_is_a_folder(pair, tmp_path):
    rs.RunStore(f"file://{tmp_path}/s").save(pair[0])
    assert rs.RunStore(tmp_path / "s").runs()["run_id"].tolist() == ["a", "b"]
