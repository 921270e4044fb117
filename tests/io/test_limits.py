"""Files that stand for more than they are, and numbers that no column can hold."""

import gzip
import json
import subprocess
import sys

import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.golden.golden_text import read_golden_text
from ragscore.io import files, parsed_lines
from ragscore.io.source import parse_json
from tests.messages import refused, warned


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
        lambda file: read_golden_text(file).rows,
    ],
)
def test_aliases_that_stand_for_too_much_are_refused_at_their_line(tmp_path, text, read):
    (tmp_path / "g.yaml").write_text(text)
    # 9 ** 5 texts are under 100,000, 9 ** 6 aren't: line 1 has 9 of them, line 5 has 9 ** 5.
    with refused("*a4", "100,000", file="g.yaml", line=6) as caught:
        read(tmp_path / "g.yaml")
    assert caught.value.file == str((tmp_path / "g.yaml").resolve())


def test_aliases_that_many_queries_share_are_read(tmp_path):
    shared = f"- &all {{id: q0, query: q, tags: &tags [{', '.join('abcdefgh')}]}}\n"
    rows = "".join(f"- {{id: q{n}, query: q, tags: *tags}}\n" for n in range(1, 3000))
    (tmp_path / "g.yaml").write_text(shared + rows)
    with warned("3000 of 3000"):
        assert len(rs.load_golden(tmp_path / "g.yaml").tags) == 3000 * 8


def test_max_bytes_none_lifts_the_limit_of_aliases(tmp_path):
    text = "- {id: q0, query: q, x: &a0 [" + ", ".join("x" * 400) + "]}\n"
    text += "- {id: q1, query: q, x: [" + ", ".join(["*a0"] * 400) + "]}\n"
    (tmp_path / "g.yaml").write_text(text)
    with refused("a0", "max_bytes", file="g.yaml", line=2):
        rs.load_golden(tmp_path / "g.yaml")
    with warned("2 of 2"):
        assert len(rs.load_golden(tmp_path / "g.yaml", max_bytes=None).queries) == 2


LINE = json.dumps(record("q", [hit("c", "d", 1)]))


@pytest.mark.parametrize("fewest", [0, 1 << 30], ids=["pyarrow", "json"])
def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path, monkeypatch, fewest):
    monkeypatch.setattr(parsed_lines, "FEWEST", fewest)
    rows = [LINE.replace('"query_id": "q"', f'"query_id": "q{n}"') for n in range(2000)]
    file = tmp_path / "per_query.jsonl.gz"
    file.write_bytes(gzip.compress("\n".join(rows).encode()))
    size, unpacked = file.stat().st_size, sum(map(len, rows))
    monkeypatch.setattr(files, "RATIO", unpacked // size // 2)
    with refused(f"{size:,}", "max_bytes", file="per_query.jsonl.gz"):
        rs.load_results(file, max_bytes=1000)
    assert len(rs.load_results(file).responses) == 2000  # under 64 MB, whatever the ratio
    assert len(rs.load_results(file, max_bytes=None).responses) == 2000


@pytest.mark.slow
def test_gigabytes_of_one_byte_end_in_an_error_within_a_fraction_of_them(tmp_path):
    with gzip.open(tmp_path / "g.jsonl.gz", "wb", compresslevel=1) as out:
        for _ in range(300):
            out.write(b" " * (1 << 20))
    code = (
        "import resource, ragscore as rs\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: rs.load_golden('g.jsonl.gz', 'golden')\n"
        "except rs.DataError as error: print('max_bytes' in str(error))\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    is_refused, megabytes = run.stdout.split()
    assert is_refused == "True" and int(megabytes) < 250  # 1 MB of it is 300 MB unpacked


@pytest.mark.parametrize("fewest", [0, 1 << 30], ids=["pyarrow", "json"])
def test_a_line_over_the_limit_is_named(tmp_path, monkeypatch, fewest):
    monkeypatch.setattr(parsed_lines, "FEWEST", fewest)
    monkeypatch.setattr(files, "BLOCK_BYTES", 1000)
    file = tmp_path / "per_query.jsonl"
    long = json.dumps(record("long", [], query="x" * 5000))
    file.write_text(f"{LINE}\n{long}\n")
    with refused("4,000", file="per_query.jsonl", line=2):
        rs.load_results(file, max_bytes=4000)
    assert len(rs.load_results(file).responses) == 2


def test_faults_without_end_end_in_one_error(tmp_path):
    (tmp_path / "g.jsonl.gz").write_bytes(gzip.compress(b"a,b\n" * 300_000))
    with refused("100,000 faults", file="g.jsonl.gz", line=100_001):
        rs.load_golden(tmp_path / "g.jsonl.gz", "golden", strict=False)


@pytest.mark.parametrize("limit", [0, 1.5, True])
def test_a_limit_is_a_whole_number_from_1_or_none(tmp_path, limit):
    (tmp_path / "per_query.jsonl").write_text(LINE)
    with refused(field="max_bytes"):
        rs.load_results(tmp_path / "per_query.jsonl", max_bytes=limit)


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
    ("name", "text", "line", "field", "named"),
    [
        ("g.yaml", "- id: a\n  query: q\n  size: 1:59:59" + ":59" * 3000, 3, "size", ["int"]),
        ("g.yaml", "- id: a\n  query: q\n  size: 1.0e+999\n", 3, "size", ["1.0e+999", "float"]),
        ("g.jsonl", '{"id": "a", "query": "q", "size": {"x": [1e999]}}', 1, "size.x", ["1e999"]),
        ("g.jsonl", '{"id": "a", "query": "q", "size": -Infinity}', 1, "size", ["-Infinity"]),
    ],
)
def test_numbers_that_overflow_are_refused_with_line_and_field(
    tmp_path, name, text, line, field, named
):
    (tmp_path / name).write_text(text)
    with refused(*named, file=name, line=line, field=field):
        rs.load_golden(tmp_path / name)


def test_infinite_scores_of_a_run_are_refused_in_every_format(tmp_path):
    for name, text, field in (
        ("a.txt", "q Q0 d 1 1e999 t\n", "format"),
        ("a.csv", "query_id,doc_id,score\nq,d,1e999\n", "score"),
        ("a.json", '{"q": {"d": 1e999}}', "q.d"),
    ):
        (tmp_path / name).write_text(text)
        with refused("1e999", field=field) as caught:
            rs.load_results(tmp_path / name)
        assert caught.value.file == str(tmp_path / name)


def test_a_time_out_of_range_is_refused(tmp_path):
    (tmp_path / "per_query.jsonl").write_text(LINE)
    for time in ("9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00", "2024-13-01"):
        (tmp_path / "run.json").write_text(f'{{"run_id": "r",\n"created_at": "{time}"}}')
        with refused(file="run.json", line=2, field="created_at"):
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
    with refused(file="run.json", line=2, field="config.k.deep"):
        rs.load_results(tmp_path / "per_query.jsonl")


@pytest.mark.parametrize("depth", [101, 100_000])
def test_deep_json_is_refused_and_what_is_in_quotes_is_not_deep(depth):
    for text in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth):
        with pytest.raises(RecursionError):
            parse_json(text)
    brackets = "[" * depth
    assert parse_json(json.dumps({"a": brackets, "b": '"' + brackets + "\\"}))["a"] == brackets
    assert parse_json("[" * 100 + "]" * 100)
    assert len(parse_json(json.dumps([{"a": []}] * depth))) == depth
