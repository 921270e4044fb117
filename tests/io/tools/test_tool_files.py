"""Files of other tools that we read.

Loaded, then written, they are what they were, unknown keys included.
"""

import gzip
import json

import pandas as pd
import pytest
from conftest import hit, record

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
RUN = {"q2": {"b": 3.5, "a": 3.5, "c": -1.0}, "q1": {}, "ü": {"a": 1e-9}}
GRADES = {"q2": {"b": 2, "a": 0}, "q1": {"d": 1}}
ANSWERS = [
    {
        "run_id": "r", "topic_id": "t1", "topic": "why?", "references": ["p1", "p2", "p1"],
        "response_length": 4, "meta": {"a.b": [1], "json": True},
        "answer": [{"text": "One. ", "citations": [2, 0, 7, -1]},
        {"text": " Two", "citations": [], "score": 0.5}, {"text": "", "citations": [1]},
        {"text": "Four", "citations": []}],
    },
    {"run_id": "s", "topic_id": "t1", "references": [], "answer": []},
    {"run_id": "r", "topic_id": "t2", "references": ["p9"],
    "answer": [{"text": "x", "citations": []}]},
]  # fmt: skip
QUESTIONS = [
    {"_id": "q2", "text": "two", "metadata": {"url": "u", "query": {"number": 2}}, "own": [1]},
    {"_id": "q1", "text": "one"},
    {"_id": "q9", "text": "nobody judged", "title": "t"},
]
WRITTEN = [
    ("in.jsonl", JUDGED, rs.load_golden, "qrels_jsonl"),
    ("bm25.json", RUN, rs.load_results, "json_run"),
    ("qrels.json", GRADES, rs.load_golden, "json_qrels"),
    ("answers.jsonl", ANSWERS, rs.load_results, "trec_rag"),
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
    golden = rs.load_golden(tmp_path / "set")
    folder = golden.save(tmp_path / "again", format="beir")
    assert content_of(folder / "queries.jsonl") == QUESTIONS
    assert (folder / "qrels" / "test.tsv").read_text() == (
        tmp_path / "set" / "qrels" / "test.tsv"
    ).read_text()
    assert_same(rs.load_golden(folder), golden)
    assert (
        golden.queries["x_metadata.url"].notna().tolist() == [True, False, False]
        and golden._problems.empty
    )


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


def test_runs_of_other_files_become_json_runs(write_run, tmp_path):
    results = rs.load_results(
        write_run("r", [record("q", [hit("c1", "d1", 1), hit("c2", "d2", 2)]), record("none", [])])
    )
    plain = rs.Results(results.runs, results.responses, results.hits.drop(columns="score"))
    with warned("r.json", "config", "doc_id"):
        file = plain.save(tmp_path / "r.json", format="json_run", level="chunk")
    assert json.loads(file.read_text()) == {
        "q": {"c1": 2.0, "c2": 1.0},
        "none": {},
    }


def test_ranks_that_scores_do_not_give_are_refused(write_run, tmp_path):
    hits = [{"rank": 1, "doc_id": "a", "score": 0.1}, {"rank": 2, "doc_id": "b", "score": 0.2}]
    results = rs.load_results(write_run("r", [{"query_id": "q", "query": "?", "hits_top_k": hits}]))
    with refused(2, "a", "q", field="hits.rank"):
        results.save(tmp_path / "r.json", format="json_run")
    two = rs.Results.concat([results, rs.load_results(write_run("s", [record("q", [])]))])
    with refused(2, field="results"):
        two.save(tmp_path / "r.json", format="json_run")


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"q": {"d": 1, "e": "high"}}, "grade"),
        ({"q": {"d": 1, "e": None}}, "grade"),
    ],
)
def test_bad_json_judgements_are_named(write, bad, field):
    file = write("qrels.json", bad)
    with pytest.raises(rs.DataError) as caught:
        rs.load_golden(file, format="json_qrels")
    assert caught.value.field == field
    rest = rs.load_golden(file, format="json_qrels", strict=False)
    assert rest.targets["doc_id"].tolist() == ["d"] and rest._problems["field"].tolist() == [field]


def test_an_answer_from_elsewhere_is_one_sentence_with_its_citations(write_run, tmp_path):
    cited = {
        "answer": "a [2]",
        "grounded": True,
        "citations": [{"marker": "[2]", "doc_id": "d2"}, {"marker": "[1]", "doc_id": "d1"}],
    }
    records = [
        record("q", [hit("c1", "d1", 1), hit("c2", "d2", 2)], answer=cited),
        record("r", [], error="time-out"),
    ]
    results = rs.load_results(write_run("run", records))
    with warned("error", "responses: 2"):
        first, second = content_of(results.save(tmp_path / "out.jsonl", format="trec_rag"))
    assert (first["references"], first["answer"]) == (
        ["d1", "d2"],
        [{"text": "a [2]", "citations": [1, 0]}],
    ) and second["answer"] == []


def test_a_citation_of_what_was_not_found_is_refused(write_run, tmp_path):
    results = rs.load_results(
        write_run(
            "run",
            [
                record(
                    "q",
                    [hit("c1", "d1", 1)],
                    answer={"answer": "a", "citations": [{"doc_id": "d9"}]},
                )
            ],
        )
    )
    with refused("d9", "q", field="citations.doc_id"):
        results.save(tmp_path / "out.jsonl", format="trec_rag")
