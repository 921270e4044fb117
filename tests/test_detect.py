"""A file's format is told from its content; where it can't be, the candidates are named."""

import json

import pytest

import ragscore as rs
from ragscore.load.detect import Format, choose, sample


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.jsonl", '\n{"query_id": "q"}\n{"query_id": "r"}\n', "jsonl"),
        ("a.json", '{"results": []}', "json"),
        ("a.json", '[\n {"id": 1},\n {"id": 2}\n]', "json"),
        ("a.yaml", "- id: q\n", "yaml"),
        ("a.txt", "q1 Q0 d1 1 0.5 tag\n", "text"),
        ("a.jsonl", " \n", "empty"),
        ("a.jsonl", "\ufeff{}\r\n", "jsonl"),
    ],
)
def test_a_sample_says_what_kind_of_file_it_is(tmp_path, name, content, kind):
    (tmp_path / name).write_text(content, encoding="utf-8")
    assert sample(tmp_path / name).kind == kind


def test_a_file_that_fits_two_formats_or_none_names_them(tmp_path):
    file = tmp_path / "rows.json"
    file.write_text(json.dumps({"a": 1}), encoding="utf-8")
    formats = [Format(name, lambda seen: seen.has("a"), print) for name in ("one", "two")]
    with pytest.raises(rs.DataError, match=r"rows\.json: format: fits 2 formats: one, two; pass format= to choose"):
        choose(file, formats, None, "results")
    assert choose(file, formats, "two", "results") is formats[1]
    with pytest.raises(rs.DataError, match="unknown format 'three'; one of one, two"):
        choose(file, formats, "three", "results")
    file.write_text('{"b": 1}', encoding="utf-8")
    with pytest.raises(rs.DataError, match=r"fits no format of results \(json with b\); pass format=, one of one, two"):
        choose(file, formats, None, "results")


def test_a_format_can_be_asked_for(write_golden, tmp_path):
    file = write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["d"]}])
    assert len(rs.load_golden(file, format="ragscore").queries) == 1
    with pytest.raises(rs.DataError, match="unknown format 'kebap'"):
        rs.load_golden(file, format="kebap")
