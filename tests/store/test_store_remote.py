"""A store on object storage.

A run is there when its run.json is, whole, and of several writers one wins.
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
from ragscore.store import tables as run_tables
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
    store.root.fs.invalidate_cache()
    return sorted(
        name.split(store.root.path.strip("/") + "/")[1]
        for name in store.root.fs.find(store.root.path)
    )


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
    pd.testing.assert_frame_equal(remote.metrics(), local.metrics())
    pd.testing.assert_frame_equal(remote.provenance(), local.provenance())
    assert remote.refresh(golden, collapse="doc") == ["a", "b"]
    assert len(remote.scores(["mrr"], collapse="doc")) == 6


def test_a_store_on_object_storage_is_scored_in_parts(pair, remote):
    results, golden = pair
    remote.save(results, golden=golden)
    whole = rs.score(remote.load(), golden)
    pd.testing.assert_frame_equal(remote.score(golden, part_hits=2), whole, check_exact=True)
    assert [name.split("/")[-2] for name in remote.files("hits")] == ["a", "b"]


def test_a_run_without_its_run_json_is_not_there(pair, remote):
    remote.save(pair[0], golden=pair[1])
    remote.root.fs.rm(f"{remote.root.path}/a/run.json")
    assert remote.runs()["run_id"].tolist() == ["b"] and remote.load().runs["run_id"].tolist() == [
        "b"
    ]
    assert remote.save(pair[0].select("a")) == ["a"]


def test_saving_twice_is_refused_and_overwriting_leaves_the_old_files_to_their_readers(
    pair, remote
):
    results, golden = pair
    remote.save(results, golden=golden)
    before = names_in(remote)
    with refused("a, b", "overwrite=True", field="run_id"):
        remote.save(results)
    assert names_in(remote) == before
    remote.save(results, overwrite=True)
    assert set(names_in(remote)) > set(before) and named_by(remote, "a") == ["hits", "responses"]


def test_of_two_writers_at_once_one_wins_and_the_other_is_told(write_run, remote, monkeypatch):
    """Both have found the place free, and written their tables, before either writes its
    run.json.
    """
    versions = [rs.load_results(write_run("r", RUN_A[:n], system=f"system {n}")) for n in (1, 3)]
    both_wrote, written = Barrier(2), run_tables.write_run

    def waiting(draft, run, text, scored):
        described = written(draft, run, text, scored)
        both_wrote.wait(timeout=60)
        assert len(remote.runs()) <= 1  # tables alone are no run
        return described

    monkeypatch.setattr("ragscore.store.store.write_run", waiting)

    def save(results):
        try:
            return rs.RunStore(
                str(remote.root), storage_options=remote.root.fs.storage_options or None
            ).save(results, text="full")
        except rs.DataError as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(save, versions))
    won = [n for n, outcome in enumerate(outcomes) if outcome == ["r"]]
    lost = [outcome for outcome in outcomes if outcome != ["r"]]
    assert len(won) == 1 and len(lost) == 1
    check(lost[0], "r", "overwrite=True", field="run_id")
    loaded, expected = remote.load(), versions[won[0]]
    for kind in ("runs", "responses", "hits"):
        pd.testing.assert_frame_equal(getattr(loaded, kind), getattr(expected, kind))
    assert len(names_in(remote)) == len(("run.json", "hits", "responses"))


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_writer_that_fails_leaves_what_was_there(pair, remote, monkeypatch, overwrite):
    results, golden = pair
    if overwrite:
        remote.save(results, golden=golden)
    before = names_in(remote)

    def crash(draft, described, scored):
        raise OSError("connection lost")

    monkeypatch.setattr(run_tables, "write_scores", crash)
    kept = "the a saved before is as it was" if overwrite else "no a was saved"
    with refused(kept, file="a") as caught:
        remote.save(results, golden=golden, overwrite=overwrite)
    assert caught.value.file == f"{remote.root}/a"
    assert names_in(remote) == before and len(remote.runs()) == (2 if overwrite else 0)


def test_a_run_elsewhere_has_no_folder_on_this_machine(pair, remote):
    remote.save(pair[0])
    with refused(file="a"):
        remote.path("a")


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
