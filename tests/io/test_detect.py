"""A file's format is told from its content; where it can't be, the candidates are named."""

import json

import pytest

import ragscore as rs
from tests.messages import refused


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.filterwarnings("ignore:.*not read")
@pytest.mark.parametrize(
    "first",
    [
        {"query": "?", "hits_top_k": []},
        {"query": "?", "hits_top_k": [{"chunk_id": "c"}], "answer": None, "elapsed_ms": 1,
         "error": None},
        {"query": "?", "mode": "hybrid", "error": "timeout"},
    ],
)  # fmt: skip
def test_a_run_whose_first_record_lacks_its_id_is_told_so(tmp_path, first):
    file = lines(tmp_path / "r.jsonl", first, {"query_id": "b", "query": "?", "hits_top_k": []})
    with refused("text", file=file, line=1, field="query_id"):
        rs.load_results(file)
    loaded = rs.load_results(file, strict=False)
    assert loaded.responses["query_id"].tolist() == ["b"]
    assert loaded.problems["line"].tolist() == [1]


@pytest.mark.parametrize(
    "more",
    [
        {"expected_doc_ids": ["d"]},
        {"answerable": False},
        {"must_contain": ["x"]},
        {"gold_supports": []},
        {"difficulty": "easy"},
    ],
)
@pytest.mark.parametrize("name", ["golden.jsonl", "golden.yaml"])
def test_a_golden_file_whose_first_record_lacks_its_id_is_told_so(tmp_path, more, name):
    rows = [{"query": "?", **more}, {"id": "b", "query": "?", **more}]
    begin = "- " if name.endswith("yaml") else ""
    (tmp_path / name).write_text("".join(f"{begin}{json.dumps(row)}\n" for row in rows))
    with refused(file=name, line=1, field="id"):
        rs.load_golden(tmp_path / name)


@pytest.mark.parametrize(
    "row",
    [
        {"query": "?"},
        {"query": "?", "said": "a"},
        {"question": "?", "difficulty": "easy"},
    ],
)
def test_records_that_may_be_of_any_tool_fit_no_run(tmp_path, row):
    with refused(file="rows.jsonl", field="format"):
        rs.load_results(lines(tmp_path / "rows.jsonl", row))
