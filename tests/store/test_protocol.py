"""What a store's files are held to: sums, seals, verified reads, sweeping, one step at a time."""

import json
import random
import zlib
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from stored import described, stored_run

import ragscore as rs
from ragscore.store import draft, runs, tables
from ragscore.store.checked import (
    BLOCK,
    READ_AT_ONCE,
    BlockSums,
    FileEntry,
    StoredFile,
    sealed,
    unsealed,
)
from ragscore.store.draft import State, sweep
from tests.messages import refused


def summed(data, piece):
    """The entry of a file whose bytes pass in pieces."""
    sums = BlockSums()
    for at in range(0, len(data), piece):
        sums.add(memoryview(data)[at : at + piece])
    return sums.entry("hits-0123456789ab.parquet")


@pytest.mark.parametrize("size", [0, 1, 2**16, 2**16 + 1, 3 * 2**16 + 7])
@pytest.mark.parametrize("piece", [1000, 2**22])
def test_a_file_has_one_crc32_for_each_block_of_a_64_kibibytes(size, piece, tmp_path):
    data = random.Random(size).randbytes(size)
    blocks = [data[at : at + 2**16] for at in range(0, size, 2**16)]
    entry = summed(data, piece)
    assert (entry.size, entry.crc32) == (
        size,
        "".join(format(zlib.crc32(block), "08x") for block in blocks),
    )
    (tmp_path / entry.name).write_bytes(data)
    assert StoredFile(tmp_path, entry, {}).read_bytes() == data


@pytest.mark.parametrize("indent", [1, None])
def test_a_sealed_object_comes_back_from_a_checkout_with_other_line_ends_too(indent):
    content = {"run_id": "ü ✓", "note": "a\r\nb", "n": [1, 2.5, None], "own": {"}": '"'}}
    written = sealed(content, indent)
    assert unsealed(written, "run.json") == content
    assert unsealed(written.replace(b"\n", b"\r\n"), "run.json") == content


def test_no_byte_of_a_sealed_object_can_change_what_it_says():
    content = {"run_id": "r", "n": 10, "note": "été"}
    written = sealed(content)
    for at in range(len(written)):
        for byte in {written[at] ^ 1, written[at] ^ 0x20, written[at] ^ 0x80, 0x20}:
            changed = written[:at] + bytes([byte]) + written[at + 1 :]
            try:
                assert unsealed(changed, "run.json") == content
            except rs.DataError as error:
                assert error.file == "run.json"
        for shorter in (written[:at], written[:at] + written[at + 1 :]):
            with suppress(rs.DataError):
                assert unsealed(shorter, "run.json") == content


@pytest.fixture
def large(tmp_path):
    """A table of several blocks in four row groups, and its file."""
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.random(80_000) for name in "abc"})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=20_000, compression="none")
    data = bytes(sink.getvalue())
    entry = summed(data, 10**6)
    assert entry.size > READ_AT_ONCE + 2 * BLOCK
    (tmp_path / entry.name).write_bytes(data)
    return StoredFile(tmp_path, entry, {"hits": entry}), table


def test_a_large_table_reads_the_same_block_by_block(large):
    stored, table = large
    with stored.open() as file, pq.ParquetFile(file) as source:
        assert source.read().equals(table)
        assert source.read(["b"]).equals(table.select(["b"]))
        assert source.read_row_group(2, ["c"]).equals(table.select(["c"]).slice(40_000, 20_000))
        joined = pa.Table.from_batches(source.iter_batches(7_000))
        assert joined.equals(table)


def test_a_flip_matters_in_blocks_that_are_read_and_in_no_others(large):
    stored, table = large
    data = bytearray(stored.place.read_bytes())
    data[5] ^= 1  # in the first group's first column
    stored.place.write_bytes(bytes(data))
    with stored.open() as file, pq.ParquetFile(file) as source:
        assert source.read_row_group(3).equals(table.slice(60_000))
        with refused(1, file="hits-0123456789ab.parquet"):
            source.read_row_group(0)
    data[-1] ^= 1  # the footer is read by everyone
    stored.place.write_bytes(bytes(data))
    with refused(file="hits-0123456789ab.parquet"), stored.open() as file:
        pq.ParquetFile(file)


def test_what_nothing_names_is_swept_once_nobody_can_hold_it(tmp_path):
    """A superseded file after ten minutes, an orphan after a day, and nothing else ever."""
    names = {
        "named": "hits-000000000001.parquet",
        "superseded": "hits-000000000002.parquet",
        "orphan": "hits-000000000003.parquet",
        "staging": ".staging-000000000004",
        "report": "report.md",
        "run": "run.json",
    }
    for name in names.values():
        (tmp_path / name).write_bytes(b"x")
    now = datetime.now(UTC)
    state = State(
        "digest",
        {"hits": FileEntry(names["named"], 1, "00000000")},
        {names["superseded"]: now.isoformat()},
    )

    def left_after(later):
        sweep(tmp_path, state, now + later)
        return {what for what, name in names.items() if (tmp_path / name).exists()}

    assert left_after(timedelta(minutes=9)) == set(names)
    assert left_after(timedelta(minutes=10)) == set(names) - {"superseded"}
    assert left_after(timedelta(hours=23)) == set(names) - {"superseded"}
    assert left_after(timedelta(hours=25)) == {"named", "report", "run"}


@pytest.mark.parametrize("change", ["refresh", "add"])
def test_a_change_of_a_run_that_somebody_else_changed_is_refused(
    pair, tmp_path, monkeypatch, change
):
    results, golden = pair
    store = rs.RunStore(tmp_path)
    store.save(results.select("a"), golden=golden)
    step = draft.put

    def overtaken(*args, **options):
        monkeypatch.setattr(runs, "put", step)
        rs.RunStore(tmp_path).save(results.select("a"), overwrite=True)
        return step(*args, **options)

    monkeypatch.setattr(runs, "put", overtaken)
    chunks = pd.DataFrame({"chunk_id": ["c1"], "doc_id": ["d1"]})
    with refused(file="a", field="run_id"):
        store.refresh(golden) if change == "refresh" else store.add("a", chunks=chunks)
    assert "scoring" not in described(store, "a")
    assert sorted(stored_run(store, "a").entries) == ["hits", "responses"]
    assert not list(store.path("a").glob("chunks-*"))


def test_the_error_of_one_of_several_runs_says_which_were_saved_before(pair, tmp_path, monkeypatch):
    written = tables.write_run

    def full_at_b(draft, run, text, scored):
        if run.runs["run_id"].tolist() == ["b"]:
            raise OSError(28, "No space left on device")
        return written(draft, run, text, scored)

    monkeypatch.setattr("ragscore.store.store.write_run", full_at_b)
    store = rs.RunStore(tmp_path)
    with refused(file="b"):
        store.save(pair[0])
    assert store.runs()["run_id"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("config", "kept"),
    [
        ('{"k": NaN}', {"k": None}),
        ('{"k": -Infinity}', '{"k": -Infinity}'),
        ("k = 5", "k = 5"),
    ],
)
def test_of_a_config_nan_is_kept_as_null_and_what_is_no_json_as_text(pair, tmp_path, config, kept):
    results = pair[0].select("a")
    store = rs.RunStore(tmp_path)
    store.save(replace(results, runs=results.runs.assign(config=config)))
    assert described(store, "a")["config"] == kept
    assert json.loads(store.load().runs["config"][0]) == kept
