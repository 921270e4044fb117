"""Judgements of other tools: loaded, then written, they are what they were, with unknown keys."""

import gzip
import json

import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused, warned

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


def put(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return file


def rows_of(file):
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt") as lines:
        return [*map(json.loads, lines)]


def assert_same(one, other):
    pd.testing.assert_frame_equal(one.queries, other.queries)
    pd.testing.assert_frame_equal(one.targets, other.targets)


@pytest.mark.filterwarnings("ignore:.*carry no expectation")
@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz"])
def test_lines_of_judgements_are_written_as_they_were(tmp_path, name):
    loaded = rs.load_golden(put(tmp_path / "in.jsonl", JUDGED))
    file = loaded.save(tmp_path / "new" / name, format="qrels_jsonl")
    assert rows_of(file) == JUDGED
    assert_same(rs.load_golden(file), loaded)


@pytest.mark.filterwarnings("ignore:.*carry no expectation")
def test_a_beir_folder_is_written_as_it_was_with_its_metadata(tmp_path):
    judged = put(tmp_path / "set" / "qrels" / "test.tsv", [])
    judged.write_text("query-id\tcorpus-id\tscore\nq2\td 3\t1\nq1\td1\t2\nq1\td2\t0\n")
    put(tmp_path / "set" / "queries.jsonl", QUESTIONS)
    with warned("test.tsv", "1 of 3"):
        golden = rs.load_golden(tmp_path / "set")
    folder = golden.save(tmp_path / "again", format="beir")
    assert rows_of(folder / "queries.jsonl") == QUESTIONS[:2]
    assert (folder / "qrels" / "test.tsv").read_text() == judged.read_text()
    assert_same(rs.load_golden(folder), golden)
    assert golden.queries["x_metadata.url"].notna().tolist() == [True, False]


def test_what_judgements_cannot_say_is_counted_and_a_grade_out_of_range_refused(tmp_path):
    rows = [
        {"id": "q", "query": "?", "expected_doc_ids": [["a", "b"]], "expected_chunk_ids": ["c"],
         "tags": ["t"], "lang": "de"},
        {"id": "r", "query": "?", "answerable": False},
    ]  # fmt: skip
    golden = rs.load_golden(put(tmp_path / "golden.jsonl", rows))
    with warned("out.jsonl", "answerable", "lang", "targets: 2", "tags: 1"):
        file = golden.save(tmp_path / "out.jsonl", format="qrels_jsonl")
    assert [one["relevant_docs"] for one in rows_of(file)] == [{"a": 1, "b": 1}, {}]
    with refused(256, field="targets.grade"):
        rs.load_golden({"q": {"a": 256}}).save(file, format="qrels_jsonl")
