"""Files of other tools that we read.

Loaded, then written, they are what they were, unknown keys included.
"""

import gzip
import json

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, warned

FRAMES = ("runs", "responses", "hits", "citations", "reported", "queries", "targets")


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(one) + "\n" for one in content)
        file.write_text(lines if isinstance(content, list) else json.dumps(content))
        return file

    return write


def content_of(file):
    """The value of a JSON file, or the list of its lines."""
    data = file.read_bytes()
    text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
    is_lines = ".jsonl" in file.name
    return [json.loads(one) for one in text.split("\n") if one] if is_lines else json.loads(text)


def assert_same(first, second):
    for name in FRAMES:
        one, other = getattr(first, name, None), getattr(second, name, None)
        assert (one is None) == (other is None), name
        if one is not None:
            pd.testing.assert_frame_equal(one, other)


JUDGED = [
    {
        "query_id": "1",
        "query": "who?",
        "relevant_docs": {"b": 2, "a": 0},
        "reference_answer": "Orwell",
        "source": {"site": "web", "ids": [1]},
        "a.b": 1,
    },
    {"query_id": "q2", "query": "and?", "relevant_docs": {}, "weight": 0.5},
]
QUESTIONS = [
    {"_id": "q2", "text": "two", "metadata": {"url": "u", "query": {"number": 2}}, "own": [1]},
    {"_id": "q1", "text": "one"},
    {"_id": "q9", "text": "nobody judged", "title": "t"},
]
WRITTEN = [
    ("in.jsonl", JUDGED, rs.load_golden, "qrels_jsonl"),
]


@pytest.mark.filterwarnings("ignore:.*carry no expectation")
@pytest.mark.parametrize(("name", "content", "load", "format"), WRITTEN)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_a_file_is_written_as_it_was(write, tmp_path, name, content, load, format, ending):
    loaded = load(write(name, content))
    file = loaded.save(tmp_path / "new" / f"{name}{ending}", format=format)
    assert content_of(file) == content
    assert_same(load(file), loaded)


@pytest.mark.filterwarnings("ignore:.*carry no expectation")
def test_a_beir_folder_is_written_as_it_was_with_its_metadata(write, tmp_path):
    write("set/queries.jsonl", QUESTIONS)
    (tmp_path / "set" / "qrels").mkdir()
    (tmp_path / "set" / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq2\td 3\t1\nq1\td1\t2\nq1\td2\t0\n"
    )
    with warned("test.tsv", "1 of 3"):
        golden = rs.load_golden(tmp_path / "set")
    folder = golden.save(tmp_path / "again", format="beir")
    assert content_of(folder / "queries.jsonl") == QUESTIONS[:2]
    assert (folder / "qrels" / "test.tsv").read_text() == (
        tmp_path / "set" / "qrels" / "test.tsv"
    ).read_text()
    assert_same(rs.load_golden(folder), golden)
    assert golden.queries["x_metadata.url"].notna().tolist() == [True, False]


def test_what_judgements_cannot_say_is_counted(write_golden, tmp_path):
    rows = [
        {
            "id": "q",
            "query": "?",
            "expected_doc_ids": [["a", "b"]],
            "expected_chunk_ids": ["c"],
            "tags": ["t"],
            "lang": "de",
        },
        {"id": "r", "query": "?", "answerable": False},
    ]
    golden = rs.load_golden(write_golden(rows))
    with warned("out.jsonl", "answerable", "lang", "targets: 2", "tags: 1"):
        file = golden.save(tmp_path / "out.jsonl", format="qrels_jsonl")
    assert [one["relevant_docs"] for one in content_of(file)] == [{"a": 1, "b": 1}, {}]


def test_a_grade_that_the_format_refuses_is_not_written(write_golden, tmp_path):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_doc_ids": {"a": 256}}])
    )
    with refused(256, field="targets.grade"):
        golden.save(tmp_path / "out.jsonl", format="qrels_jsonl")
