"""Files that stand for more than they are, and numbers that no column can hold."""

import gzip
import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import hit, record
from stored import stored_table

import ragscore as rs
from ragscore.io import files, run_records
from ragscore.io.source import parse_json
from tests.messages import refused, warned

MB = 1 << 20


def bomb(levels, width=9):
    """A golden file whose last row's tags are `width ** (levels + 1)` texts."""
    aliases = [f"- &a{n + 1} [{', '.join([f'*a{n}'] * width)}]\n" for n in range(levels)]
    row = f"- {{id: q, query: q, tags: *a{levels}}}\n"
    return f"- &a0 [{', '.join(['x'] * width)}]\n" + "".join(aliases) + row


MERGES = "- &a0 {k: v}\n" + "".join(
    f"- &a{n + 1} {{<<: [{', '.join([f'*a{n}'] * 9)}]}}\n" for n in range(8)
)


@pytest.mark.parametrize("text", [bomb(7), bomb(60), MERGES], ids=["nine", "endless", "merged"])
@pytest.mark.parametrize(
    "read",
    [
        rs.load_golden,
        lambda file: rs.load_golden(file, strict=False),
        lambda file: rs.label_sheet({"q": ["d"]}, file),
    ],
)
def test_aliases_that_stand_for_too_much_are_refused_at_their_line(tmp_path, text, read):
    (tmp_path / "g.yaml").write_text(text)
    # 9 ** 5 texts are under 100,000, 9 ** 6 aren't: line 1 has 9 of them, line 5 has 9 ** 5.
    with refused("*a4", "100,000", file="g.yaml", line=6) as caught:
        read(tmp_path / "g.yaml")
    assert caught.value.file == str((tmp_path / "g.yaml").resolve())


def test_aliases_that_many_queries_share_are_read_and_others_without_a_limit(tmp_path):
    file = tmp_path / "g.yaml"
    rows = [f"- {{id: q{n}, query: q, tags: *tags}}\n" for n in range(1, 3000)]
    file.write_text("- {id: q0, query: q, tags: &tags [a, b, c, d, e, f, g, h]}\n" + "".join(rows))
    with warned("3000 of 3000"):
        assert len(rs.load_golden(file).tags) == 3000 * 8
    one, other = (", ".join([text] * 400) for text in ("x", "*a0"))
    file.write_text(f"- {{id: a, query: q, x: &a0 [{one}]}}\n- {{id: b, query: q, x: [{other}]}}\n")
    with refused("a0", "max_bytes", file="g.yaml", line=2):
        rs.load_golden(file)
    with warned("2 of 2"):
        assert len(rs.load_golden(file, max_bytes=None).queries) == 2


LINE = json.dumps(record("q", [hit("c", "d", 1)]))


@pytest.fixture(params=[0, 1 << 30], ids=["pyarrow", "json"])
def parser(request, monkeypatch):
    """Both parsers of JSON lines."""
    monkeypatch.setattr(run_records, "FEWEST", request.param)


@pytest.mark.usefixtures("parser")
def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path, monkeypatch):
    rows = [LINE.replace('"query_id": "q"', f'"query_id": "q{n}"') for n in range(2000)]
    file = tmp_path / "per_query.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(rows).encode()))
    size, unpacked = file.stat().st_size, sum(map(len, rows))
    monkeypatch.setattr(files, "RATIO", unpacked // size // 2)
    with refused(f"{size:,}", "max_bytes", file="per_query.jsonl.gz"):
        rs.load_results(file, max_bytes=1000)
    assert len(rs.load_results(file).responses) == 2000  # under 64 MB, whatever the ratio
    assert len(rs.load_results(file, max_bytes=None).responses) == 2000


def packed(unit):
    """400 MB of the same bytes, in half a megabyte or less."""
    out = io.BytesIO()
    with gzip.open(out, "wb", compresslevel=9) as written:
        for _ in range(400):
            written.write((unit * (MB // len(unit) + 1))[:MB])
    return out.getvalue()


def zipped():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("header.json", "{}")
        written.writestr("samples/1_epoch_1.json", " " * (400 * MB))
    return out.getvalue()


def repeated():
    """A million equal numbers in each of 40 columns: 320 MB, in a few KB."""
    out, zeros = io.BytesIO(), pa.array(np.zeros(10**6, np.int64))
    table = pa.table({f"x_{n}": zeros for n in range(39)} | {"query_id": zeros})
    pq.write_table(table, out, compression="zstd")
    return out.getvalue()


BOMBS = {
    "spaces.jsonl.gz": lambda: packed(b" "), "lines.jsonl.gz": lambda: packed(b'{"a": 1}\n'),
    "cells.csv.gz": lambda: packed(b"a,b\n"), "run.trec.gz": lambda: packed(b"q Q0 d 1 1 t\n"),
    "golden.yaml.gz": lambda: packed(b"- a\n"), "deep.json.gz": lambda: packed(b"["),
    "ranks.trec": lambda: b"q Q0 d 1 1 t\n" + b"q Q0 d x 1 t\n" * 3_000_000,
    "hits.trec": lambda: b"q Q0 d 1 1 t\n" * 3_000_000,
    "hits.parquet": repeated, "log.eval": zipped, "aliases.yaml": lambda: bomb(60).encode(),
    "line.jsonl": lambda: b'{"query_id": "' + b"x" * 100 * MB,
    "deep.yaml": lambda: b"- " * 100_000, "deep.jsonl": lambda: b'{"a":' * MB,
}  # fmt: skip
MEASURED = """
import resource, sys, ragscore as rs
load = getattr(rs, sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
for number, file in enumerate(["warm.csv", sys.argv[2]]):
    before = peak()
    try:
        load(file)
    except rs.DataError as error:
        assert error.file == file, error.file
        print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("load", ["load_golden", "load_results"])
def test_a_file_that_stands_for_much_is_one_error_within_200_megabytes(tmp_path, name, load):
    (tmp_path / name).write_bytes(BOMBS[name]())
    (tmp_path / "warm.csv").write_text("query_id,doc_id\nq,d\n")
    told = subprocess.run(
        [sys.executable, "-c", MEASURED, load, name], cwd=tmp_path, capture_output=True, text=True
    )
    assert not told.returncode, told.stderr
    assert int(told.stdout.split()[-1]) < 200


@pytest.mark.usefixtures("parser")
def test_a_line_over_the_limit_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK_BYTES", 1000)
    file = tmp_path / "per_query.jsonl"
    file.write_text(f"{LINE}\n{json.dumps(record('long', [], query='x' * 5000))}\n")
    with refused("4,000", file="per_query.jsonl", line=2):
        rs.load_results(file, max_bytes=4000)
    assert len(rs.load_results(file).responses) == 2


def test_faults_without_end_end_in_one_error(tmp_path):
    (tmp_path / "g.jsonl.gz").write_bytes(gzip.compress(b"a,b\n" * 100_001))
    with refused("100,000 faults", file="g.jsonl.gz", line=100_001):
        rs.load_golden(tmp_path / "g.jsonl.gz", "golden", strict=False)


TAG = "t" * 2_000_000
LONG_IDS = {
    "run.txt": f"q1 Q0 d1 1 1.5 t\nq1 Q0 d2 1 1.0 {TAG}\n",
    "per_query.jsonl": f"{LINE}\n{json.dumps(record(TAG, []))}\n",
    "hits.csv": f"query_id,doc_id,rank\nq,d,1\nq,{TAG[:70_000]},2\n",
}


@pytest.mark.parametrize(
    ("name", "line", "field"),
    [("run.txt", 2, "tag"), ("per_query.jsonl", 2, "query_id"), ("hits.csv", 3, "doc_id")],
)
def test_an_endless_id_is_refused_at_its_line_and_field(tmp_path, name, line, field):
    (tmp_path / name).write_text(LONG_IDS[name])
    with refused("65,536", file=name, line=line, field=field) as caught:
        rs.load_results(tmp_path / name)
    assert len(str(caught.value)) < 500
    assert len(rs.load_results(tmp_path / name, max_bytes=None).responses)


@pytest.mark.parametrize(
    ("load", "name", "text", "line", "field", "named"),
    [
        (rs.load_golden, *one)
        for one in (
            ("g.yaml", "- id: a\n  query: q\n  size: 1:59:59" + ":59" * 3000, 3, "size", "int"),
            ("g.yaml", "- id: a\n  query: q\n  size: 1.0e+999\n", 3, "size", "1.0e+999"),
            ("g.jsonl", '{"id": "a", "query": "q", "size": {"x": [1e999]}}', 1, None, "1e999"),
            ("g.jsonl", '{"id": "a", "query": "q", "size": -Infinity}', 1, None, "-Infinity"),
        )
    ]
    + [
        (rs.load_results, *one)
        for one in (
            ("a.txt", "q Q0 d 1 1e999 t\n", 1, "score", "1e999"),
            ("a.csv", "query_id,doc_id,score\nq,d,1e999\n", 2, "score", "1e999"),
            ("a.json", '{"q": {"d": 1e999}}', 1, None, "1e999"),
        )
    ],
)
def test_numbers_that_overflow_are_refused_with_their_line(
    tmp_path, load, name, text, line, field, named
):
    (tmp_path / name).write_text(text)
    with refused(named, file=name, line=line, field=field):
        load(tmp_path / name)


def test_a_time_out_of_range_is_refused(tmp_path):
    (tmp_path / "per_query.jsonl").write_text(LINE)
    for time in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2024-13-01"):
        (tmp_path / "run.json").write_text(f'{{"run_id": "r",\n"created_at": "{time}"}}')
        with refused(file="run.json", line=None, field="created_at"):
            rs.load_results(tmp_path / "per_query.jsonl")


def test_a_description_comes_back_as_it_was_read(tmp_path):
    # NaN is null, as everywhere; whole numbers of any length stay exact.
    config = '{"k": 5, "t": NaN, "seed": 123456789012345678901234567890}'
    (tmp_path / "per_query.jsonl").write_text(LINE)
    (tmp_path / "run.json").write_text(
        f'{{"run_id": "r", "config": {config}, "big": 1{"0" * 40}, "x": NaN}}'
    )
    first = rs.load_results(tmp_path / "per_query.jsonl")
    wanted = {"k": 5, "t": None, "seed": 123456789012345678901234567890}
    assert json.loads(first.runs["config"].iloc[0]) == wanted
    assert first.runs["x_big.json"].tolist() == ["1" + "0" * 40]
    (tmp_path / "run.json").write_text('{"run_id": "r",\n"config": {"k": {"deep": 1e999}}}')
    with refused(file="run.json", line=2):
        rs.load_results(tmp_path / "per_query.jsonl")


@pytest.mark.parametrize("depth", [101, 100_000])
def test_deep_json_is_refused_and_what_is_in_quotes_is_not_deep(depth):
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth):
        with pytest.raises(RecursionError):
            parse_json(text)
    brackets = "[" * depth
    assert parse_json(json.dumps({"a": brackets, "b": '"' + brackets + "\\"}))["a"] == brackets
    assert len(parse_json(json.dumps([{"a": []}] * depth))) == depth


@pytest.mark.slow
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
    # Each record carries the same prompt of 4,000 characters: 68 MB, in some KB of Parquet.
    n = 17_000
    responses = pd.DataFrame({
        "run_id": "r", "query_id": [f"q{n}" for n in range(n)], "x_prompt": "p" * 4000,
    })  # fmt: skip
    results = rs.Results(runs=pd.DataFrame({"run_id": ["r"]}), responses=responses)
    store = rs.RunStore(tmp_path / "store")
    store.save(results)
    assert store.load().responses["x_prompt"].str.len().eq(4000).sum() == n
    assert len(stored_table(store, "r", "responses")) == n
