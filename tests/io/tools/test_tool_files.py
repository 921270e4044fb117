"""Files of other tools that we read.

Loaded, then written, they are what they were, unknown keys included.
"""

import json

import pandas as pd
import pytest
from conftest import hit, record
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from tests.messages import refused, warned

FRAMES = ("runs", "responses", "hits", "citations", "reported", "queries", "targets")
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            "".join(json.dumps(one) + "\n" for one in content)
            if isinstance(content, list)
            else json.dumps(content)
        )
        return file

    return write


def lines_of(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]


def assert_same(first, second):
    for name in FRAMES:
        one, other = getattr(first, name, None), getattr(second, name, None)
        assert (one is None) == (other is None), name
        if one is not None:
            pd.testing.assert_frame_equal(one, other)


# graded judgements as JSON lines

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


@pytest.mark.filterwarnings("ignore:.*carry no expectation")
def test_graded_judgements_are_written_as_they_were(write, tmp_path):
    golden = rs.load_golden(write("in.jsonl", JUDGED))
    file = golden.save(tmp_path / "new" / "out.jsonl", format="qrels_jsonl")
    assert lines_of(file) == JUDGED
    assert_same(rs.load_golden(file), golden)
    assert_same(
        rs.load_golden(golden.save(tmp_path / "out.jsonl.gz", format="qrels_jsonl")), golden
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
    assert [one["relevant_docs"] for one in lines_of(file)] == [{"a": 1, "b": 1}, {}]


def test_a_grade_that_the_format_refuses_is_not_written(write_golden, tmp_path):
    golden = rs.load_golden(
        write_golden([{"id": "q", "query": "?", "expected_doc_ids": {"a": 256}}])
    )
    with refused(256, field="targets.grade"):
        golden.save(tmp_path / "out.jsonl", format="qrels_jsonl")


# JSON objects of scores and of grades

RUN = {"q2": {"b": 3.5, "a": 3.5, "c": -1.0}, "q1": {}, "ü": {"a": 1e-9}}
GRADES = {"q2": {"b": 2, "a": 0}, "q1": {"d": 1}}


@pytest.mark.parametrize("name", ["bm25.json", "bm25.json.gz"])
def test_a_json_run_is_written_as_it_was(write, tmp_path, name):
    results = rs.load_results(write("bm25.json", RUN))
    file = results.save(tmp_path / "new" / name, format="json_run")
    assert_same(rs.load_results(file), results)
    assert name.endswith(".gz") or json.loads(file.read_text()) == RUN


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


@given(
    st.dictionaries(
        IDS,
        st.dictionaries(
            IDS,
            st.floats(allow_nan=False, allow_infinity=False, width=32) | st.integers(-9, 9),
            max_size=3,
        ),
        min_size=1,
        max_size=3,
    )
)
def test_any_json_run_comes_back(tmp_path_factory, run):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "r.json").write_text(json.dumps(run))
    results = rs.load_results(folder / "r.json", format="json_run")
    (folder / "new").mkdir()
    assert json.loads(results.save(folder / "new" / "r.json", format="json_run").read_text()) == run


def test_json_judgements_load_and_are_written_as_they_were(write, tmp_path):
    golden = rs.load_golden(write("qrels.json", GRADES))
    assert golden.targets[["query_id", "doc_id", "grade"]].values.tolist() == [
        ["q2", "b", 2],
        ["q2", "a", 0],
        ["q1", "d", 1],
    ]
    file = golden.save(tmp_path / "again.json", format="json_qrels")
    assert json.loads(file.read_text()) == GRADES
    assert_same(rs.load_golden(file), golden)


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"q": {"d": 1, "e": 0.5}}, "grade"),
        ({"q": {"d": 1, "e": True}}, "grade"),
    ],
)
def test_bad_json_judgements_are_named(write, bad, field):
    file = write("qrels.json", bad)
    with pytest.raises(rs.DataError) as caught:
        rs.load_golden(file, format="json_qrels")
    assert caught.value.field == field
    rest = rs.load_golden(file, format="json_qrels", strict=False)
    assert rest.targets["doc_id"].tolist() == ["d"] and rest._problems["field"].tolist() == [field]


# answers of the TREC RAG track

ANSWERS = [
    {
        "run_id": "r", "topic_id": "t1", "topic": "why?", "references": ["p1", "p2", "p1"],
        "response_length": 4, "meta": {"a.b": [1], "json": True},
        "answer": [{"text": "One. ", "citations": [2, 0, 7, -1]},
        {"text": " Two", "citations": [], "score": 0.5}, {"text": "", "citations": [1]},
        {"text": "Four"}],
    },
    {"run_id": "s", "topic_id": "t1", "references": [], "answer": []},
    {"run_id": "r", "topic_id": "t2", "references": ["p9"],
    "answer": [{"text": "x", "citations": None}]},
]  # fmt: skip


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz"])
def test_cited_answers_are_written_as_they_were(write, tmp_path, name):
    results = rs.load_results(write("in.jsonl", ANSWERS))
    file = results.save(tmp_path / "new" / name, format="trec_rag")
    assert name.endswith(".gz") or lines_of(file) == ANSWERS
    assert_same(rs.load_results(file), results)


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
        first, second = lines_of(results.save(tmp_path / "out.jsonl", format="trec_rag"))
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


# BEIR folders

QUESTIONS = [
    {"_id": "q2", "text": "two", "metadata": {"url": "u", "query": {"number": 2}}, "own": [1]},
    {"_id": "q1", "text": "one", "metadata": {}},
    {"_id": "q9", "text": "nobody judged", "title": "t"},
]


@pytest.mark.filterwarnings("ignore:.*carry no expectation")
def test_a_beir_folder_is_written_as_it_was_with_its_metadata(write, tmp_path):
    write("set/queries.jsonl", QUESTIONS)
    (tmp_path / "set" / "qrels").mkdir()
    (tmp_path / "set" / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\nq2\td 3\t1\nq1\td1\t2\nq1\td2\t0\n"
    )
    golden = rs.load_golden(tmp_path / "set")
    folder = golden.save(tmp_path / "again", format="beir")
    assert lines_of(folder / "queries.jsonl") == QUESTIONS
    assert (folder / "qrels" / "test.tsv").read_text() == (
        tmp_path / "set" / "qrels" / "test.tsv"
    ).read_text()
    assert_same(rs.load_golden(folder), golden)
    assert (
        golden.queries["x_metadata.url"].notna().tolist() == [True, False, False]
        and golden._problems.empty
    )
