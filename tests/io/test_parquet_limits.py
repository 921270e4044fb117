"""Parquet files that stand for more than they are."""

import resource

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from stored import stored_table

import ragscore as rs
from ragscore.io.files import read_parquet, size_limit
from tests.messages import refused


def repeated(file, n_columns=40):
    """Write a million equal numbers in each column: 320 MB, in a few KB."""
    zeros = pa.array(np.zeros(10**6, np.int64))
    names = ["query_id", *(f"x_{n}" for n in range(1, n_columns))]
    pq.write_table(pa.table(dict.fromkeys(names, zeros)), file, compression="zstd")
    return file


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def test_a_small_file_that_decodes_to_much_is_refused_before_it_is_decoded(tmp_path):
    file = repeated(tmp_path / "hits.parquet")
    before = megabytes()
    with refused("max_bytes", file="hits.parquet"):
        rs.load_results(file)
    assert megabytes() - before < 60
    with size_limit(None):
        assert read_parquet(repeated(file, 2)).num_rows == 10**6


def test_much_repetition_within_the_limits_is_read(tmp_path):
    # 10^6 hits of 10^4 queries that all find the same hundred documents: 300 times the file.
    n = 10**6
    frame = pd.DataFrame({
        "run_id": "a run with a name", "query_id": np.repeat(np.arange(n // 100), 100).astype(str),
        "doc_id": np.tile([f"doc{n}" for n in range(100)], n // 100),
        "rank": np.tile(np.arange(1, 101), n // 100),
    })  # fmt: skip
    file = tmp_path / "hits.parquet"
    frame.to_parquet(file, compression="zstd")
    assert 1000 * file.stat().st_size > frame.memory_usage(deep=True).sum()
    assert len(rs.load_results(file).hits) == n


def test_a_store_can_read_whatever_it_has_written(tmp_path):
    # Each record carries the same prompt of 4,000 characters: 120 MB, in 40 KB of Parquet.
    n = 30_000
    responses = pd.DataFrame({
        "run_id": "r", "query_id": [f"q{n}" for n in range(n)], "x_prompt": "p" * 4000,
    })  # fmt: skip
    results = rs.Results(runs=pd.DataFrame({"run_id": ["r"]}), responses=responses)
    store = rs.RunStore(tmp_path / "store")
    store.save(results)
    assert store.load().responses["x_prompt"].str.len().eq(4000).sum() == n
    stored = stored_table(store, "r", "responses")
    assert len(stored) == n and rs.RunStore(tmp_path / "store").load("r").responses.shape[0] == n


def test_a_file_of_arrow_is_no_table_of_ours(tmp_path):
    for name, write in {
        "a.feather": lambda file, table: pa.feather.write_feather(table, file),
        "a.arrow": lambda file, table: pa.ipc.new_file(file, table.schema).write_table(table),
    }.items():
        write(str(tmp_path / name), pa.table({"query_id": ["q"], "doc_id": ["d"]}))
        with pytest.raises(rs.DataError) as caught:
            rs.load_results(tmp_path / name)
        assert caught.value.file == str(tmp_path / name)


def test_many_columns_of_different_texts_load(tmp_path):
    # Were each value as long as all of its column, each of the four would be 29 MB: above 64 MB.
    ids = [f"a-document-of-{number:06}" for number in range(1200)]
    columns = dict.fromkeys(("doc_id", "chunk_id", "path", "heading"), ids)
    table = pa.table({"query_id": ids, "rank": [1] * len(ids), **columns})
    pq.write_table(table, tmp_path / "hits.parquet", compression="zstd")
    assert len(rs.load_results(tmp_path / "hits.parquet").hits) == len(ids)
