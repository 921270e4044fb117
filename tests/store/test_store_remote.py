"""A store on object storage.

A run is there when its run-….json is, whole, and of several writers one wins.
"""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from uuid import uuid4

import pandas as pd
import pytest
from conftest import RUN_A
from object_storage import s3_server
from stored import named_by

import ragscore as rs
from ragscore.store import runs as store_runs
from ragscore.store import tables as run_tables
from ragscore.store.place import Remote, _named
from tests.messages import ANY, check, refused

pytest.importorskip("s3fs")


@pytest.fixture(scope="module")
def s3():
    with s3_server() as options:
        yield options


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.slow)])
def remote(request):
    """A new store on a file system where nothing can be renamed."""
    if request.param == "memory":
        return rs.RunStore(f"memory://{uuid4().hex}")
    return rs.RunStore(f"s3://bucket/{uuid4().hex}", storage_options=request.getfixturevalue("s3"))


def names_in(store: rs.RunStore) -> list[str]:
    """Every file of the store, as seen by somebody who comes anew."""
    return sorted(store._place.files())


def test_a_store_on_object_storage_gives_what_a_folder_gives(pair, remote, tmp_path):
    results, golden = pair
    local = rs.RunStore(tmp_path)
    for store in (local, remote):
        assert len(store.runs()) == 0
        assert store.save(results, golden=golden) == ["a", "b"]
    for kind in ("runs", "responses", "hits", "citations"):
        pd.testing.assert_frame_equal(getattr(remote.load(), kind), getattr(local.load(), kind))
    pd.testing.assert_frame_equal(remote.runs(), local.runs())
    pd.testing.assert_frame_equal(remote.scores(), local.scores())
    pd.testing.assert_frame_equal(remote.summary(), local.summary())
    assert remote.refresh(golden, collapse="doc") == ["a", "b"]
    assert len(remote.scores(metrics=["mrr"], collapse="doc")) == 6


def test_a_store_on_object_storage_is_scored_in_groups(pair, remote, monkeypatch):
    results, golden = pair
    remote.save(results, golden=golden)
    whole = rs.score(remote.load(), golden)
    monkeypatch.setattr(run_tables, "PART_HITS", 2)  # each run is a group
    pd.testing.assert_frame_equal(remote.scores(golden), whole, check_exact=True)
    assert [name.split("/")[-2] for name in remote.files("hits")] == ["a", "b"]


def test_a_run_without_its_file_is_not_there_and_what_a_crash_left_goes_after_a_day(
    pair, remote, monkeypatch
):
    remote.save(pair[0], golden=pair[1])
    remote._place.remove("a/run-0001.json")
    assert remote.runs()["run_id"].tolist() == ["b"]
    assert remote.load().runs["run_id"].tolist() == ["b"]
    orphans = {name for name in names_in(remote) if name.startswith("a/")}
    assert remote.save(pair[0].select("a")) == ["a"]
    assert orphans < set(names_in(remote))
    monkeypatch.setattr(store_runs, "KEPT_FOR_WRITERS", -60)
    remote.save(pair[0].select("a"), overwrite=True)
    assert not orphans & set(names_in(remote))
    assert [one.split("-")[0] for one in names_in(remote) if one.startswith("a/")] == [
        "a/hits", "a/responses", "a/run"
    ]  # fmt: skip


def test_saving_twice_is_refused_and_overwriting_removes_the_old_files(pair, remote):
    results, golden = pair
    remote.save(results, golden=golden)
    before = names_in(remote)
    with refused("a saved already", "overwrite=True", field="run_id"):
        remote.save(results)
    assert names_in(remote) == before
    remote.save(results, overwrite=True)
    kept = set(names_in(remote)) & set(before)
    assert kept == {"a/run-0001.json", "b/run-0001.json"}
    assert named_by(remote, "a") == ["hits", "responses"]


def test_of_two_writers_at_once_one_wins_and_the_other_is_told(write_run, remote, monkeypatch):
    """Both have found the place free, and written their tables, before either puts its
    run-….json in place.
    """
    versions = [rs.load_results(write_run("r", RUN_A[:n], system=f"system {n}")) for n in (1, 3)]
    both_wrote, written = Barrier(2), run_tables.write_run

    def waiting(draft, run, text):
        written(draft, run, text)
        both_wrote.wait(timeout=60)
        assert len(remote.runs()) <= 1  # tables alone are no run

    monkeypatch.setattr("ragscore.store.store.write_run", waiting)

    def save(results):
        try:
            options = remote._place.fs.storage_options or None
            return rs.RunStore(remote._root, storage_options=options).save(results)
        except rs.DataError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(save, versions))
    won = [n for n, outcome in enumerate(outcomes) if outcome == ["r"]]
    lost = [outcome for outcome in outcomes if outcome != ["r"]]
    assert len(won) == 1 and len(lost) == 1
    check(lost[0], "r", "another writer", field="run_id")
    loaded, expected = remote.load(), versions[won[0]]
    for kind in ("runs", "responses", "hits"):
        pd.testing.assert_frame_equal(getattr(loaded, kind), getattr(expected, kind))
    assert len(names_in(remote)) == len(("run-0001.json", "hits", "responses"))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_writer_that_fails_leaves_what_was_there(pair, remote, monkeypatch, overwrite):
    results, golden = pair
    if overwrite:
        remote.save(results, golden=golden)
    before = names_in(remote)

    write, n_written = Remote.write, []

    def crash(place, name, data):
        n_written.append(name)
        if len(n_written) == 3:
            raise OSError("connection lost")
        write(place, name, data)

    monkeypatch.setattr(Remote, "write", _named(crash))
    with refused("connection lost", "as it was", file=ANY) as caught:
        remote.save(results, golden=golden, overwrite=overwrite)
    assert caught.value.file.startswith(f"{remote._root}/a/")
    assert names_in(remote) == before and len(remote.runs()) == (2 if overwrite else 0)


def test_a_run_elsewhere_has_no_folder_on_this_machine(pair, remote):
    remote.save(pair[0])
    for run in ("a", None):
        with refused("no folder", file=ANY):
            remote.path(run)


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
