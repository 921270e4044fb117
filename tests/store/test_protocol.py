"""What a store's files are held to: seals, names, one step at a time, and what is no file."""

import json
import os
import shutil
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from stored import described, named_by, stored_file

import ragscore as rs
from ragscore.store.runs import folder_of, sealed, unsealed
from ragscore.store.store import Disk
from tests.messages import refused

GOLDEN = rs.load_golden({f"q{n}": [f"d{n}"] for n in range(3)})


def results_of(*run_ids):
    return rs.load_results({one: {f"q{n}": [f"d{n}"] for n in range(3)} for one in run_ids})


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_a_sealed_run_comes_back_from_a_checkout_with_other_line_ends_too(ends):
    content = {"run": {"run_id": "ü ✓", "note": "a\r\nb"}, "n": [1, 2.5, None, {"}": '"'}]}
    content |= {"files": {"hits": [None]}}
    assert unsealed(sealed(content).replace(b"\n", ends), "run-0001.json") == content


def test_no_byte_of_a_sealed_run_can_change_what_it_says():
    content = {"run": {"run_id": "r", "k": 10, "note": "été"}, "files": {"hits": [None]}}
    # by the first 16 digits of the SHA-256 of {"files": {"hits": [null]}, "n": 1}
    assert sealed({"files": {"hits": [None]}, "n": 1}) == (
        b'{\n"files": {\n"hits": [null]\n},\n"n": 1,\n"checksum": "6b408172d4c76298"\n}'
    )
    written = sealed(content)
    for at in range(len(written)):
        others = {written[at] ^ 1, written[at] ^ 0x20, written[at] ^ 0x80, 0x20}
        for changed in [bytes([one]) for one in others] + [b""]:
            try:
                assert unsealed(written[:at] + changed + written[at + 1 :], "run.json") == content
            except rs.DataError as error:
                assert error.file == "run.json"
        with suppress(rs.DataError):
            assert unsealed(written[:at], "run.json") == content


@pytest.mark.parametrize(
    "name", [None, 5, "../b/x", "/etc/hosts", "hits.parquet", "hits-0123456789ab.parquet\n"]
)
def test_a_name_of_a_file_that_no_store_gives_is_refused(name):
    entry = {"name": name, "size": 1, "crc32": 0, "n_rows": 1, "filled": []}
    with refused(file="run-0001.json"):
        unsealed(sealed({"files": {"hits": [entry]}}), "run-0001.json")


@pytest.mark.parametrize("change", ["refresh", "add", "overwrite"])
def test_a_change_of_a_run_that_somebody_else_changed_is_refused(
    pair, tmp_path, monkeypatch, change, store
):
    results, golden = pair
    store.save(results.select("a"), golden=golden)
    step = Disk.put_new

    def overtaken(self, *args):
        monkeypatch.setattr(Disk, "put_new", step)
        for _ in range(3):  # its number is taken, whatever came after
            rs.RunStore(tmp_path).save(results.select("a"), overwrite=True)
        return step(self, *args)

    monkeypatch.setattr(Disk, "put_new", overtaken)
    chunks = pd.DataFrame({"chunk_id": ["c1"], "doc_id": ["d1"]})
    do = {
        "refresh": lambda: store.refresh(golden), "add": lambda: store.add("a", chunks=chunks),
        "overwrite": lambda: store.save(results.select("a"), golden=golden, overwrite=True),
    }  # fmt: skip
    with refused("another writer", file="a", field="run_id"):
        do[change]()
    assert "scoring" not in described(store, "a") and named_by(store, "a") == ["hits", "responses"]
    assert {one.name.split("-")[0] for one in store.path("a").glob("*.parquet")} == {
        "hits", "responses"
    }  # fmt: skip
    assert len(store.load().responses) == 3


def test_a_file_that_a_writer_sweeps_while_the_store_is_listed_hides_no_run(
    pair, tmp_path, monkeypatch, store
):
    store.save(pair[0])
    scandir, left = os.scandir, store.path("a") / "left"
    left.touch()

    def overtaken(folder):
        with scandir(folder) as found:
            entries = list(found)
        if left in map(Path, entries):
            left.unlink()
        return nullcontext(entries)

    monkeypatch.setattr(os, "scandir", overtaken)
    assert set(rs.RunStore(tmp_path).runs()["run_id"]) == {"a", "b"}


def test_where_hard_links_are_missing_a_run_is_saved_and_one_of_two_writers_is_told(
    pair, tmp_path, monkeypatch, store
):
    def no_links(*args, **options):
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    results, golden = pair
    store.save(results, golden=golden)
    pd.testing.assert_frame_equal(
        store.scores(golden), rs.score(results, golden), check_categorical=False
    )
    monkeypatch.setattr("ragscore.store.store.run_before", lambda *args: None)
    with refused("another writer", field="run_id"):
        store.save(results.select("a"))
    assert not list(tmp_path.rglob(".staging-*"))


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ('{"k": NaN}', {"k": None}),
        ('{"k": -Infinity}', '{"k": -Infinity}'),
        ("k = 5", "k = 5"),
    ],
)
def test_of_a_config_nan_is_kept_as_null_and_what_is_no_json_as_text(pair, store, config, kept):
    results = pair[0].select("a")
    store.save(replace(results, runs=results.runs.assign(config=config)))
    assert described(store, "a")["run"]["config"] == kept
    assert json.loads(store.load().runs["config"][0]) == kept


NAMES = [
    "run-0001.json", ".lock", ".", "..", "CON", "Aux.txt", "con .x", "a.", "b ", 'h"i', "a:b",
    "k\\l", "m/n", "d*", "x" * 151, "x" * 300, "x" * 299 + "y", "é", "%41", "\n",
]  # fmt: skip


def test_a_run_of_any_name_is_kept_in_a_folder_that_every_system_can_have(tmp_path, store):
    assert set(store.save(results_of(*NAMES))) == set(NAMES)
    store.refresh(GOLDEN, runs="run-0001.json")
    again = rs.RunStore(tmp_path)
    assert set(again.runs()["run_id"]) == set(NAMES)
    assert again.scores(metrics="mrr", runs="run-0001.json")["mrr"].tolist() == [1, 1, 1]
    assert again.load("x" * 300).runs["run_id"].tolist() == ["x" * 300]
    devices = {"con", "prn", "aux", "nul", "com1", "lpt9"}
    folders = [folder_of(name) for name in NAMES]
    assert len({name.lower() for name in folders}) == len(NAMES)
    for folder in folders:
        assert (tmp_path / folder).is_dir() and len(folder) <= 150
        assert not set(folder) & set('<>:"/\\|?*') and folder.isprintable()
        assert folder[-1] not in ". " and folder.split(".")[0].strip().lower() not in devices
        assert not folder.startswith(".")


def test_a_copied_run_folder_is_named_with_the_run_that_it_holds(tmp_path, store):
    store.save(results_of("a"))
    shutil.copytree(tmp_path / "a", tmp_path / "a copy")
    with refused("'a'", file=tmp_path / "a copy" / "run-0001.json", field="run_id"):
        rs.RunStore(tmp_path).runs()
    shutil.rmtree(tmp_path / "a copy")
    assert len(rs.RunStore(tmp_path).runs()) == 1


SPECIAL = {
    "pipe": os.mkfifo,
    "device": lambda place: place.symlink_to("/dev/zero"),
    "folder": os.mkdir,
    "loop": lambda place: place.symlink_to(place.name),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_named_and_never_waited_for(tmp_path, kind, store):
    store.save(results_of("a"))
    file = stored_file(store, "a", "hits")
    file.unlink()
    SPECIAL[kind](file)
    with refused(file=file):
        rs.RunStore(tmp_path).load()


READERS = {
    "results": lambda place: rs.load_results(place),
    "golden": lambda place: rs.load_golden(place),
    "topics": lambda place: rs.load_golden(
        place.parent / "qrels.txt", format="trec_qrels", topics=place
    ),
    "documents": lambda place: rs.io.load_documents(place),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", [kind for kind in SPECIAL if kind != "folder"])
@pytest.mark.parametrize("reader", READERS)
def test_no_reader_waits_for_what_is_no_file(tmp_path, kind, reader):
    (tmp_path / "qrels.txt").write_text("q 0 d 1\n")
    for name in ("per_query.jsonl", "run.txt.gz", "hits.parquet", "x.db"):
        SPECIAL[kind](tmp_path / name)
        with refused(name):
            READERS[reader](tmp_path / name)
