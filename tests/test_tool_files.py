"""Files of other tools that we read: loaded, then written, they are what they were, unknown keys included."""

import json

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ragscore as rs

FRAMES = ("runs", "responses", "hits", "citations", "reported", "queries", "targets")
TEXT = st.text(st.characters(codec="utf-8"), max_size=5)
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
OWN = st.dictionaries(st.sampled_from(["own", "a.b", "json", "x"]), st.booleans() | st.integers(-5, 5) | TEXT | st.lists(st.none(), max_size=1), max_size=2)


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(one) + "\n" for one in content) if isinstance(content, list) else json.dumps(content))
        return file

    return write


def lines_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def assert_same(first, second):
    for name in FRAMES:
        one, other = getattr(first, name, None), getattr(second, name, None)
        assert (one is None) == (other is None), name
        if one is not None:
            pd.testing.assert_frame_equal(one, other)


# graded judgements as JSON lines

JUDGED = [
    {"query_id": "1", "query": "who?", "relevant_docs": {"b": 2, "a": 0}, "reference_answer": "Orwell", "source": {"site": "web", "ids": [1]}, "a.b": 1},
    {"query_id": "q2", "query": "and?", "relevant_docs": {}, "weight": 0.5},
]


@pytest.mark.filterwarnings("ignore:.*carry no expectation")
def test_graded_judgements_are_written_as_they_were(write, tmp_path):
    golden = rs.load_golden(write("in.jsonl", JUDGED))
    file = rs.write_qrels_jsonl(golden, tmp_path / "new" / "out.jsonl")
    assert lines_of(file) == JUDGED
    assert_same(rs.load_golden(file), golden)
    assert_same(rs.load_golden(rs.write_qrels_jsonl(golden, tmp_path / "out.jsonl.gz")), golden)


def test_what_judgements_cannot_say_is_counted(write_golden, tmp_path):
    rows = [
        {"id": "q", "query": "?", "expected_doc_ids": [["a", "b"]], "expected_chunk_ids": ["c"], "tags": ["t"], "lang": "de"},
        {"id": "r", "query": "?", "answerable": False},
    ]
    golden = rs.load_golden(write_golden(rows))
    message = "has no place for 1 alternatives of targets, which become judgements of their own, 1 targets of other levels, 1 tags, 1 stated refusals, 1 labels"
    with pytest.warns(UserWarning, match=message):
        file = rs.write_qrels_jsonl(golden, tmp_path / "out.jsonl")
    assert [one["relevant_docs"] for one in lines_of(file)] == [{"a": 1, "b": 1}, {}]


def test_a_grade_that_the_format_refuses_is_not_written(write_golden, tmp_path):
    golden = rs.load_golden(write_golden([{"id": "q", "query": "?", "expected_doc_ids": {"a": 256}}]))
    with pytest.raises(rs.DataError, match=r"targets\.grade: found the grade 256"):
        rs.write_qrels_jsonl(golden, tmp_path / "out.jsonl")


@settings(max_examples=40)
@given(st.lists(st.tuples(TEXT, st.dictionaries(IDS, st.integers(0, 255), max_size=3), OWN), min_size=1, max_size=3))
@pytest.mark.filterwarnings("ignore:.*carry no expectation")
def test_any_graded_judgements_come_back(tmp_path_factory, rows):
    folder = tmp_path_factory.mktemp("qrels")
    lines = [{"query_id": f"q{n}", "query": query, "relevant_docs": docs, **own} for n, (query, docs, own) in enumerate(rows)]
    (folder / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    golden = rs.load_golden(folder / "in.jsonl", format="qrels_jsonl")
    file = rs.write_qrels_jsonl(golden, folder / "out.jsonl")
    assert lines_of(file) == lines
    assert_same(rs.load_golden(file, format="qrels_jsonl"), golden)
