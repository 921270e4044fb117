"""Parquet files that stand for more than they are; footers and page headers that lie."""

import resource
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from conftest import hit, record
from crafted_parquet import (
    DELTA_LENGTHS,
    DELTA_TEXTS,
    DICTIONARY,
    FIXED,
    INT64,
    OPTIONAL,
    REPEATED,
    TEXT,
    CraftedColumn,
    CraftedPage,
    craft,
    levels,
    number,
    run_of,
    text,
    varint,
)
from stored import put_file, stored_file, stored_table

import ragscore as rs
from ragscore.io.file_content import size_limit
from ragscore.io.parquet_file import open_parquet_file
from tests.messages import refused

MANY = 10**8
ZERO = b"\0" * 8
COUNTED = varint(1 << 20) + varint(4) + varint(1 << 29) + number(0)
"""The beginning of differences, which says that 2 ** 29 numbers follow."""


def column(pages, n, physical=INT64, **options):
    return CraftedColumn(b"query_id", physical, pages, n, **options)


def repeated(n, value=b"q" * 20, said=None):
    """A dictionary of one text, and a page that refers to it n times."""
    pages = [
        CraftedPage(text(value), 1, is_dictionary=True),
        CraftedPage(b"\x01" + run_of(0, n), n, DICTIONARY),
    ]
    return column(pages, said or n, TEXT)


def nested(n):
    """One row that is a list of n numbers, where the footer says one."""
    begin = run_of(0, 1) + run_of(1, n - 1)
    ranks = len(begin).to_bytes(4, "little") + begin
    pages = [
        CraftedPage(ZERO, 1, is_dictionary=True),
        CraftedPage(ranks + levels(1, n) + b"\x01" + run_of(0, n), n, DICTIONARY),
    ]
    return column(pages, 1, repetition=REPEATED)


ONE = CraftedPage(ZERO, 1)
CRAFTED = {
    "a text 10^8 times": ([repeated(MANY)], MANY, {}),
    "a long text 10^5 times": ([repeated(10**5, b"q" * 10**6)], 10**5, {}),
    "10^8 texts where the footer says ten": ([repeated(MANY, said=10)], 10, {}),
    "a list of 10^8 in one row": ([nested(MANY)], 1, {}),
    "a page that unpacks to 512 MB": lambda: (  # not made before its test runs
        [column([CraftedPage(text(b"\0" * (1 << 29)), 1)], 1, TEXT, said={6: (100,)})],
        1,
        {},
    ),
    "a page that says it unpacks to 2 GB": (
        [column([CraftedPage(ZERO, 1, said={2: 2**31 - 1})], 1)],
        1,
        {},
    ),
    "nulls of 2^28 bytes": (
        [column([CraftedPage(levels(0, 10), 10)], 10, FIXED, repetition=OPTIONAL, length=1 << 28)],
        10,
        {},
    ),
    "a row group of 2^40 rows": ([column([ONE], 1)], 1 << 40, {}),
    "a column of 2^31 values": ([column([ONE], 1 << 31)], 1, {}),
    "a dictionary of 2^31 - 1 values": (
        [
            column(
                [
                    CraftedPage(ZERO, 2**31 - 1, is_dictionary=True),
                    CraftedPage(b"\x01" + run_of(0, 1), 1, DICTIONARY),
                ],
                1,
            )
        ],
        1,
        {},
    ),
    "a thousand columns of a million zeros": (
        [
            CraftedColumn(
                f"c{n}".encode(),
                INT64,
                [
                    CraftedPage(ZERO, 1, is_dictionary=True),
                    CraftedPage(b"\x01" + run_of(0, 10**6), 10**6, DICTIONARY),
                ],
                10**6,
            )
            for n in range(1000)
        ],
        10**6,
        {},
    ),
}


def megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


@pytest.mark.parametrize("name", CRAFTED)
def test_a_small_file_that_decodes_to_much_is_refused_before_it_is_decoded(tmp_path, name):
    made = CRAFTED[name]
    columns, n_rows, said = made() if callable(made) else made
    file = craft(tmp_path / "hits.parquet", columns, n_rows, said)
    before = megabytes()
    with refused("max_bytes", file="hits.parquet") as e:
        rs.load_results(file)
    assert e.value.file == str(file) and e.value.field in ("query_id", "c13")
    assert megabytes() - before < 30


@pytest.mark.parametrize("encoding", [DELTA_LENGTHS, DELTA_TEXTS])
def test_texts_written_as_differences_are_refused_since_nothing_tells_their_size(
    tmp_path, encoding
):
    # 133 bytes of these take 2 GB: how many follow stands inside of the packed page.
    blocks = (number(0) + b"\0\0\0\0") * 512
    page = CraftedPage(COUNTED + blocks, 10, encoding)
    file = craft(tmp_path / "hits.parquet", [column([page], 10, TEXT)], 10)
    before = megabytes()
    with refused(file="hits.parquet", field="query_id") as caught:
        rs.load_results(file)
    assert caught.value.field == "query_id" and "max_bytes=None" in caught.value.allowed
    assert megabytes() - before < 30


def test_max_bytes_none_lifts_the_limits_of_parquet(tmp_path):
    n = 3 * 10**6
    crafted = [repeated(n), CraftedColumn(b"doc_id", TEXT, repeated(n).pages, n)]
    file = craft(tmp_path / "hits.parquet", crafted, n)
    with refused(file="hits.parquet", field="query_id"):
        rs.load_results(file)
    with open_parquet_file(file) as opened, refused(file="hits.parquet", field="query_id"):
        opened.read()
    with size_limit(None), open_parquet_file(file) as opened:
        assert opened.read().num_rows == n


VALUES = [f"v{n}" * (n % 7 + 1) for n in range(5000)]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_and_the_longest_value_are_found_whatever_wrote_the_file(tmp_path, codec, version):
    table = pa.table({
        "text": VALUES * 3,
        "list": [[one, one] for one in VALUES * 3],
        "map": pa.array([[(one, 1)] for one in VALUES * 3], pa.map_(pa.string(), pa.int32())),
        "number": np.arange(15_000) % 10,
    })  # fmt: skip
    file = tmp_path / "a.parquet"
    pq.write_table(table, file, compression=codec, data_page_version=version, data_page_size=10_000)
    with open_parquet_file(file) as opened:
        for number_of in range(4):
            chunk = opened.metadata.row_group(0).column(number_of)
            dictionary, *pages = list(opened._pages(chunk))
            assert dictionary.is_dictionary and pages
            assert sum(page.n for page in pages) == chunk.num_values
            if chunk.physical_type == "BYTE_ARRAY":
                assert opened._longest(dictionary, chunk.compression) == max(map(len, VALUES))
        assert opened.read().equals(table)


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
    (file,) = map(str, store.files("responses"))
    assert len(stored) == n and rs.RunStore(tmp_path / "store").load("r").responses.shape[0] == n
    assert 120_000 < Path(file).stat().st_size < 600_000  # padded to a thousandth


def test_a_store_of_crafted_tables_is_refused(tmp_path):
    results = rs.load_results([record("q", [hit("c", "d", 1)])], run_id="r")
    store = rs.RunStore(tmp_path / "store")
    store.save(results)
    craft(tmp_path / "x.parquet", [repeated(MANY)], MANY)
    for kind in ("responses", "hits"):
        put_file(store, "r", kind, (tmp_path / "x.parquet").read_bytes())
    before = megabytes()
    for read in (store.load, lambda: store.score(GOLDEN)):
        file = stored_file(store, "r", "responses").name
        with refused(file=file, field="query_id") as caught:
            read()
        assert "max_bytes" not in str(caught.value) and f"{tmp_path}" in caught.value.file
    assert megabytes() - before < 60


GOLDEN = rs.load_golden([{"id": "q", "query": "?", "expected_doc_ids": ["d"]}])


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
