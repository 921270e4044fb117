"""A file's format is told from its content; where it can't be, the candidates are named."""

import json

import pytest

import ragscore as rs
from ragscore.io.detect import Format, choose_format, sample
from tests.messages import refused


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
    with refused(2, file="rows.json", field="format"):
        choose_format(file, formats, None, "results")
    assert choose_format(file, formats, "two", "results") is formats[1]
    with refused("three", field="format"):
        choose_format(file, formats, "three", "results")
    file.write_text('{"b": 1}', encoding="utf-8")
    with refused(file="rows.json", field="format"):
        choose_format(file, formats, None, "results")


def test_a_format_can_be_asked_for(write_golden, tmp_path):
    file = write_golden([{"id": "q", "query": "?", "expected_doc_ids": ["d"]}])
    assert len(rs.load_golden(file, format="golden").queries) == 1
    with refused("kebap", file="golden.yaml", field="format"):
        rs.load_golden(file, format="kebap")


def lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "first",
    [
        {"query": "?", "hits_top_k": []},
        {
            "query": "?",
            "hits_top_k": [{"chunk_id": "c"}],
            "answer": None,
            "elapsed_ms": 1,
            "error": None,
        },
        {"query": "?", "mode": "hybrid", "error": "timeout"},
    ],
)
def test_a_run_whose_first_record_lacks_its_id_is_told_so(tmp_path, first):
    file = lines(
        tmp_path / "per_query.jsonl", first, {"query_id": "b", "query": "?", "hits_top_k": []}
    )
    with refused(file=file, line=1, field="query_id") as caught:
        rs.load_results(file)
    assert caught.value.allowed
    loaded = rs.load_results(file, strict=False)
    assert loaded.responses["query_id"].tolist() == ["b"] and loaded.problems["line"].tolist() == [
        1
    ]


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
    file = tmp_path / name
    file.write_text(
        "".join(("- " if name.endswith("yaml") else "") + json.dumps(row) + "\n" for row in rows),
        encoding="utf-8",
    )
    with refused(file=file, line=1, field="id") as caught:
        rs.load_golden(file)
    assert caught.value.allowed


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


def test_formats_that_name_their_question_only_stay_apart(tmp_path):
    question = lines(
        tmp_path / "queries.jsonl",
        {"query": "?", "expected_source_keys": ["k"], "difficulty": "easy"},
    )
    assert rs.load_golden(question).queries["query_id"].tolist() == ["?"]
    said = lines(
        tmp_path / "results.jsonl",
        {"query": "?", "retriever": "dense", "elapsed_ms": 1, "error": None, "hits": []},
    )
    assert rs.load_results(said).runs["run_id"].tolist() == ["dense"]
