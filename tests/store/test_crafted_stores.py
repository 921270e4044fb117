"""Stores that somebody made up: every field of what describes them, names, and what is no file."""

import copy
import hashlib
import json
import os
import random
import shutil
import threading
import warnings
from pathlib import Path

import pandas as pd
import pytest
from conftest import EXAMPLES, hit, record
from stored import describe, described, put_file, stored_file

import ragscore as rs
from ragscore.store.checked import (
    DIGEST_LENGTH,
    json_object,
    sealed,
    unsealed,
)
from ragscore.store.runs import RUN_FILE, folder_of
from tests.messages import refused

GOLDEN = rs.load_golden(
    [{"id": f"q{n}", "query": "?", "expected_doc_ids": [f"d{n}"]} for n in range(3)]
)
ODD = [
    None, True, 0, -1, 5, 2**63, 10**400, 1.5, "", "x", "\u202e\x00", "\ud800", "x" * 100_000,
    "2024-01-01", "../../x", [], [None], [[]], ["a", 1], {}, {"a": 1}, {"": None},
    {"a": {"b": [1]}}, "compact.json",
]  # fmt: skip
READS = {
    "runs": lambda store: store.runs(),
    "load": lambda store: store.load(),
    "scores": lambda store: store.scores(allow_different=True),
    "metrics": lambda store: store.metrics(allow_different=True),
    "provenance": lambda store: store.provenance(),
    "trend": lambda store: store.trend("mrr"),
}


def results_of(run_id, shift=0):
    rows = [record(f"q{n}", [hit("c", f"d{(n + shift) % 3}", 1)]) for n in range(3)]
    loaded = rs.load_results(rows, run_id="r")
    about = {"run_id": run_id, "system": run_id, "config": '{"bm25": {"k1": 1}}'}
    created_at = pd.Timestamp("2026-01-01", tz="UTC") + pd.Timedelta(days=shift)
    runs = loaded.runs.assign(**about, created_at=created_at)
    own = {kind: getattr(loaded, kind).assign(run_id=run_id) for kind in ("responses", "hits")}
    return rs.Results(runs=runs, **own)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("crafted") / "store"
    store = rs.RunStore(root)
    for shift, run_id in enumerate(("a", "b")):
        store.save(results_of(run_id, shift), golden=GOLDEN)
    return root


@pytest.fixture
def root(made, tmp_path):
    return shutil.copytree(made, tmp_path / "store")


def places(value, at=()):
    """The paths of all values in a JSON value."""
    yield at
    if isinstance(value, (dict, list)):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*at, name))


def changed(value, at, odd):
    """The value with another one in a place, or without it."""
    if not at:
        return odd
    value = copy.deepcopy(value)
    parent = value
    for name in at[:-1]:
        parent = parent[name]
    if odd == "drop":
        del parent[at[-1]]
    else:
        parent[at[-1]] = odd
    return value


def outcome(store, read):
    """The file that an error names; None if it reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of runs that were measured differently
        try:
            read(store)
        except rs.DataError as error:
            return error.file or "none"
    return None


@pytest.mark.slow
def test_a_description_that_was_changed_anywhere_reads_right_or_is_an_error_that_names_it(root):
    file = root / "a" / RUN_FILE
    before = file.read_bytes()
    content = unsealed(before, file)
    rng, n_errors = random.Random(0), 0
    every = list(places(content))
    for at in rng.sample(every, min(len(every), 8 * EXAMPLES)):
        new = changed(content, at, rng.choice([*ODD, "drop", "drop"]))
        try:
            file.write_bytes(sealed(new) if isinstance(new, dict) else json.dumps(new).encode())
        except (ValueError, AttributeError):
            continue  # half a character in a name, or a number that JSON can't have
        for name in READS if rng.random() < 0.2 else ("runs", "metrics", "load"):
            found = outcome(rs.RunStore(root), READS[name])
            assert found is None or found.startswith(str(root)), (at, name)
            n_errors += found is not None
    assert n_errors
    file.write_bytes(before)
    assert rs.RunStore(root).scores(["mrr"])["mrr"].tolist() == [1] * 3 + [0] * 3


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        (lambda run: {"system": "s"}, "run_id", "as the store writes it"),
        (lambda run: run | {"run_id": 5}, "run_id", "text"),
        (lambda run: run | {"text": "some"}, "text", "cut, full, none"),
        (lambda run: run | {"scoring": []}, "scoring", "an object"),
        (lambda run: run | {"scoring": run["scoring"] | {"level": "word"}}, "scoring.level", "doc"),
        (
            lambda run: run | {"scoring": run["scoring"] | {"policies": {"missing": "x"}}},
            "scoring.policies",
            "policies of rs.score",
        ),
        (
            lambda run: run | {"scoring": run["scoring"] | {"primary": ["mrr", None]}},
            "scoring.primary.1",
            "text",
        ),
        (lambda run: run | {"ragscore": {}}, "ragscore.files", "as the store writes it"),
        (lambda run: run | {"ragscore": {"files": {"hits": "h"}}}, "ragscore.files.hits", ""),
        (
            lambda run: (
                run
                | {
                    "ragscore": {
                        "files": {
                            "scores": {
                                "name": "scores-0123456789ab.parquet",
                                "size": 1,
                                "crc32": "0",
                            }
                        }
                    }
                }
            ),
            "ragscore.files.responses",
            "",
        ),
        (
            lambda run: run | {"ragscore": run["ragscore"] | {"superseded": ["x"]}},
            "ragscore.superseded",
            "an object",
        ),
        (lambda run: run | {"created_at": "soon"}, "created_at", "ISO 8601"),
        (lambda run: run | {"k": "10"}, "k", "a whole number"),
    ],
)
def test_a_field_of_run_json_is_what_the_schema_says(root, change, field, allowed):
    describe(root, "a", change)
    with pytest.raises(rs.DataError) as caught:
        rs.RunStore(root).load()
    assert caught.value.file == str(root / "a" / RUN_FILE)
    assert caught.value.field == field and allowed in caught.value.allowed


@pytest.mark.parametrize("odd", [b"[" * 3000 + b"]" * 3000, b"1e999"], ids=["deep", "infinite"])
def test_a_config_that_a_reader_would_give_up_at_is_refused(root, odd):
    file = root / "a" / RUN_FILE
    content = unsealed(file.read_bytes(), file) | {"config": {"k": "here"}}
    reseal(file, content, b'"here"', b"[" * 90 + b"]" * 90)
    assert len(rs.RunStore(root).runs()) == 2 == len(rs.RunStore(root).load().runs)
    reseal(file, content, b'"here"', odd)
    with refused(file=file):
        rs.RunStore(root).runs()


def reseal(file, content, old, new):
    """Write content as no store would, with its checksum."""
    head = sealed(content).partition(b',\n "checksum"')[0].replace(old, new)
    digest = hashlib.sha256(head).hexdigest()[:DIGEST_LENGTH].encode()
    file.write_bytes(head + b',\n "checksum": "' + digest + b'"\n}\n')


@pytest.mark.parametrize(
    "name",
    [
        None, 5, "../b/x", "/etc/hosts", "a/hits-0123456789ab.parquet", "hits.parquet",
        "hits-0123456789ab.txt", "hits-0123456789ab.parquet\n", "run.json",
    ],
)  # fmt: skip
def test_a_name_of_a_file_that_no_store_gives_is_refused(root, name):
    def rename(run):
        run["ragscore"]["files"]["hits"]["name"] = name

    describe(root, "a", rename)
    for read in READS.values():
        with refused(file="run.json", field="ragscore.files.hits.name"):
            read(rs.RunStore(root))


def test_half_of_a_character_is_refused_and_a_whole_one_is_read():
    whole = rb'{"run_id": "\ud83d\ude00"}'
    assert json_object(whole, "run.json") == {"run_id": "\U0001f600"}
    with refused(file="run.json"):
        json_object(rb'{"run_id": "\ud83d"}', "run.json")


def test_metrics_of_another_run_are_refused(root):
    store = rs.RunStore(root)
    put_file(store, "a", "metrics", stored_file(store, "b", "metrics").read_bytes())
    file = f"a/{stored_file(store, 'a', 'metrics').name}"
    with refused("b", file=file, field="run_id"):
        rs.RunStore(root).metrics()


NAMES = [
    "compact.json", "Compact.JSON", ".lock", ".", "..", "CON", "Aux.txt", "con .x", "a.", "b ",
    'h"i', "a:b", "k\\l", "m/n", "d*", "x" * 300, "x" * 299 + "y", "é", "%41", "\n",
]  # fmt: skip


def test_a_run_of_any_name_is_kept_in_a_folder_that_every_system_can_have(tmp_path):
    store = rs.RunStore(tmp_path)
    for name in NAMES:
        assert store.save(results_of(name)) == [name]
    store.refresh(GOLDEN, runs="compact.json")
    again = rs.RunStore(tmp_path)
    assert set(again.runs()["run_id"]) == set(NAMES)
    assert again.scores(["mrr"], "compact.json")["mrr"].tolist() == [1, 1, 1]
    assert again.load("x" * 300).runs["run_id"].tolist() == ["x" * 300]
    devices = {"con", "prn", "aux", "nul", "com1", "lpt9"}
    folders = [folder_of(tmp_path, name).name for name in NAMES]
    assert len({name.lower() for name in folders}) == len(NAMES)
    for folder in folders:
        assert (tmp_path / folder).is_dir() and len(folder) <= 200
        assert not set(folder) & set('<>:"/\\|?*') and folder.isprintable()
        assert folder[-1] not in ". " and folder.split(".")[0].strip().lower() not in devices
        assert folder.lower() != "compact.json" and not folder.startswith(".")


@pytest.mark.parametrize("overwrite", [False, True])
def test_run_ids_that_differ_in_case_alone_are_refused(tmp_path, overwrite):
    store = rs.RunStore(tmp_path)
    store.save(results_of("BM25"))
    with refused("bm25", "BM25", field="run_id") as caught:
        store.save(results_of("bm25"), overwrite=overwrite)
    assert caught.value.field == "run_id" and store.runs()["run_id"].tolist() == ["BM25"]
    with refused(field="run_id"):
        store.save(rs.Results.concat([results_of("x"), results_of("X")]))
    assert store.runs()["run_id"].tolist() == ["BM25"]
    assert store.save(results_of("BM25"), overwrite=True) == ["BM25"]


def test_a_copied_run_folder_is_named_with_the_one_it_was_copied_from(root):
    shutil.copytree(root / "a", root / "a copy")
    with pytest.raises(rs.DataError) as caught:
        rs.RunStore(root).runs()
    assert caught.value.file == str(root / "a copy" / RUN_FILE) and caught.value.field == "run_id"
    assert str(root / "a") in caught.value.found and str(root / "a copy") in caught.value.allowed
    shutil.rmtree(root / "a copy")
    assert len(rs.RunStore(root).runs()) == 2


def pipe(place):
    os.mkfifo(place)


def device(place):
    place.symlink_to("/dev/zero")


def loop(place):
    place.symlink_to(place.name)


SPECIAL = {"pipe": pipe, "device": device, "folder": os.mkdir, "loop": loop}


def within(seconds, call):
    """What a call raises, if it ends in time."""
    caught = []

    def run():
        try:
            call()
        except Exception as error:
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "it waits"
    return caught[0] if caught else None


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("what", [RUN_FILE, "metrics", "hits"])
def test_what_is_no_file_is_named_and_never_waited_for(root, kind, what):
    store = rs.RunStore(root)
    place = root / "a" / RUN_FILE if what == RUN_FILE else stored_file(store, "a", what)
    place.unlink()
    SPECIAL[kind](place)
    read = READS["metrics" if what == "metrics" else "load" if what == "hits" else "scores"]
    error = within(20, lambda: read(rs.RunStore(root)))
    assert isinstance(error, rs.DataError) and error.file == str(place)


READERS = {
    "results": lambda place: rs.load_results(place),
    "golden": lambda place: rs.load_golden(place),
    "topics": lambda place: rs.load_golden(
        place.parent / "qrels.txt", format="trec_qrels", topics=place
    ),
    "documents": lambda place: rs.io.load_documents(place),
    "ingest": lambda place: rs.RunStore(place.parent / "store").ingest(place),
}


@pytest.mark.parametrize("kind", [kind for kind in SPECIAL if kind != "folder"])
@pytest.mark.parametrize("reader", READERS)
def test_no_reader_waits_for_what_is_no_file(tmp_path, kind, reader):
    (tmp_path / "qrels.txt").write_text("q 0 d 1\n")
    for name in ("per_query.jsonl", "run.txt.gz", "hits.parquet", "x.db"):
        SPECIAL[kind](tmp_path / name)
        error = within(20, lambda name=name: READERS[reader](tmp_path / name))
        assert isinstance(error, rs.DataError) and name in str(error)


@pytest.mark.parametrize("name", ["run.json", "judgments.jsonl"])
def test_no_reader_waits_for_what_lies_beside_a_run(tmp_path, name):
    (tmp_path / "per_query.jsonl").write_text(json.dumps(record("q", [hit("c", "d", 1)])))
    os.mkfifo(tmp_path / name)
    error = within(20, lambda: rs.load_results(tmp_path / "per_query.jsonl"))
    assert isinstance(error, rs.DataError) and error.file == str(tmp_path / name)


def test_the_stored_runs_of_the_demo_still_read():
    history = Path(__file__).parents[2] / "data" / "demo" / "history"
    store = rs.RunStore(history)
    assert len(store.runs()) == 18
    for name in store.runs()["run_id"]:
        assert described(store, name)["scoring"]["level"] == "doc"
    assert pd.notna(store.metrics("14-rerank-30-relabelled")["mean"]).any()
