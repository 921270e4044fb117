"""Judgements and runs in the formats of TREC, BEIR and ranx: what loads, what is refused and
where.
"""

import gzip
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from tests.messages import refused, says, warned

QRELS = "q1 0 d1 2\nq1 0 d2 0\nq2 0 d3 1\n"
RUN = "q1 Q0 d2 1 9.5 bm25\nq1 Q0 d1 2 9.0 bm25\nq2 Q0 d3 1 3.25 bm25\n"


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return file

    return write


def graded(golden):
    return golden.targets[["query_id", "doc_id", "grade"]].to_numpy().tolist()


def found_at(results):
    return results.hits[["query_id", "rank", "doc_id", "score"]].to_numpy().tolist()


# graded judgements as JSON lines


def test_qrels_lines_give_questions_grades_and_reference_answers(write):
    lines = [
        {
            "query_id": "q1",
            "query": "who wrote 1984?",
            "relevant_docs": {"doc-orwell": 2, "junk": 0, "doc-1984": 1},
            "reference_answer": "Orwell",
        },
        {"query_id": "q2", "query": "and?", "relevant_docs": {}, "source": "web"},
    ]
    file = write("qrels.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    with warned(1, 2):
        golden = rs.load_golden(file)
    assert graded(golden) == [["q1", "doc-orwell", 2], ["q1", "junk", 0], ["q1", "doc-1984", 1]]
    assert (golden.targets["grade"] > 0).sum() == 2  # grades 2, 0, 1: two relevant documents
    assert (
        golden.queries["answerable"].tolist() == [True, pd.NA]
        and golden.queries["reference_answer"].iloc[0] == "Orwell"
    )
    assert golden.queries["x_source"].iloc[1] == "web"
    assert rs.load_golden(file, absent_docs="refuse").queries["answerable"].tolist() == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("second", "field"),
    [
        ('{"query_id": "q2", "query": "?"', None),
        ('{"query_id": "q1", "query": "?", "relevant_docs": {}}', "query_id"),
        ('{"query_id": "q2", "query": "?"}', "relevant_docs"),
        ('{"query_id": "q2", "query": "?", "relevant_docs": ["d"]}', "relevant_docs"),
        ('{"query_id": "q2", "query": "?", "relevant_docs": {"d": -1}}', "relevant_docs"),
        ('{"query_id": "q2", "query": "?", "relevant_docs": {"d": 1.0}}', "relevant_docs"),
        ('{"query_id": "q2", "query": "?", "relevant_docs": {"d": 256}}', "relevant_docs"),
    ],
)
def test_a_bad_second_line_is_refused_with_its_number(write, second, field):
    file = write(
        "qrels.jsonl",
        '{"query_id": "q1", "query": "?", "relevant_docs": {"d": 255}}\n' + second + "\n",
    )
    with pytest.raises(rs.DataError) as caught:
        rs.load_golden(file)
    assert (caught.value.line, caught.value.field) == (2, field)
    rest = rs.load_golden(file, strict=False)
    assert graded(rest) == [["q1", "d", 255]] and rest._problems["line"].tolist() == [2]


# TREC and BEIR judgements


@pytest.mark.parametrize("name", ["qrels", "qrels.gz"])
def test_trec_qrels_load_from_text_and_gzip(write, name):
    golden = rs.load_golden(write(name, QRELS))
    assert graded(golden) == [["q1", "d1", 2], ["q1", "d2", 0], ["q2", "d3", 1]]
    assert golden.queries["query"].tolist() == ["q1", "q2"] and golden._problems.empty


def test_negative_grades_are_left_out_and_counted(write):
    with warned("qrels.txt", 2):
        golden = rs.load_golden(write("qrels.txt", QRELS + "q2 0 d4 -1\nq2 0 d5 -2\n"))
    assert graded(golden) == [["q1", "d1", 2], ["q1", "d2", 0], ["q2", "d3", 1]]
    (found,) = golden._problems["found"]
    says(found, 2)


def test_a_document_of_negative_grade_is_not_judged(write):
    with warned("qrels.txt", 1):
        golden = rs.load_golden(write("qrels.txt", "q1 0 d1 -1\nq1 0 d2 0\nq1 0 d3 1\n"))
    results = rs.load_results(write("run.txt", "q1 Q0 d1 1 3 a\nq1 Q0 d2 2 2 a\n"))
    assert rs.score(results, golden, ["judged@5"]).loc["q1", "judged@5"] == 0.5


def test_a_query_with_only_unjudged_documents_stays_and_is_unlabelled(write):
    with warned("qrels.txt", 1):
        golden = rs.load_golden(write("qrels.txt", QRELS + "q3 0 d4 -1\n"))
    assert golden.queries["query_id"].tolist() == ["q1", "q2", "q3"] and pd.isna(
        golden.queries["answerable"].iloc[2]
    )


def test_a_judgement_that_stands_there_twice_counts_once_and_is_counted(write):
    with warned("qrels.txt", 1):
        golden = rs.load_golden(write("qrels.txt", QRELS + "q2 0 d3 1\n"))
    assert len(golden.targets) == 3 and len(golden._problems) == 1


@pytest.mark.parametrize(
    ("line", "field", "named"),
    [
        ("q2 0 d3 2", "grade", ["d3", 2, 1, 3]),
        ("q2 0 d4 yes", "grade", ['"yes"']),
        ("q2 0 d4 1.5", "grade", ['"1.5"']),
        ("q2 d4", None, [2]),
        ("q2 0 d4 1 more", None, [5]),
        ("q2 0 d4 99999999999", "grade", [99999999999]),
    ],
)
def test_bad_judgements_are_refused_with_their_line(write, line, field, named):
    with refused(*named, file="qrels.txt", line=4, field=field):
        rs.load_golden(write("qrels.txt", QRELS + line + "\n"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("topics.tsv", "q1\tfirst question\nq2\tsecond question\n"),
        (
            "topics.trec",
            (
                "<top>\n<num> Number: q1\n<title> first\nquestion\n<desc>"
                " x\n</top>\n<top><num>q2</num><title>second question</title></top>\n"
            ),
        ),
        (
            "queries.jsonl",
            (
                '{"_id": "q1", "text": "first question"}\n{"_id": "q2", "text": "second question",'
                ' "metadata": {}}\n'
            ),
        ),
    ],
)
def test_topics_give_judged_queries_their_text(write, name, text):
    golden = rs.load_golden(write("qrels.txt", QRELS), topics=write(name, text))
    assert (
        golden.queries["query"].tolist() == ["first question", "second question"]
        and golden._problems.empty
    )


def test_a_query_without_a_topic_keeps_its_id_and_is_counted(write):
    golden = rs.load_golden(
        write("qrels.txt", QRELS), topics=write("topics.tsv", "q1\tfirst\nq9\tnever judged\n")
    )
    assert golden.queries["query"].tolist() == ["first", "q2"]
    for found in golden._problems["found"]:
        says(found, 1, 2)


@pytest.mark.parametrize(
    "text",
    ["q1\tone\nno tab here\n", "q1\tone\nq1\ttwo\n", '{"_id": "q1", "text": "x"}\n{"text": "x"}\n'],
)
def test_bad_topics_are_refused_with_their_line(write, text):
    with pytest.raises(rs.DataError) as caught:
        rs.load_golden(write("qrels.txt", QRELS), topics=write("topics.tsv", text))
    assert caught.value.line == 2 and caught.value.file.endswith("topics.tsv")


@pytest.fixture
def beir(write, tmp_path):
    write("set/queries.jsonl", '{"_id": "q1", "text": "one"}\n{"_id": "q2", "text": "two"}\n')
    write("set/qrels/test.tsv", "query-id\tcorpus-id\tscore\nq2\td 3\t1\nq1\td1\t2\nq1\td2\t0\n")
    return tmp_path / "set"


def test_a_beir_folder_loads_in_the_order_of_its_judgements(beir):
    golden = rs.load_golden(beir)
    assert golden.queries[["query_id", "query"]].to_numpy().tolist() == [
        ["q2", "two"],
        ["q1", "one"],
    ]
    assert graded(golden) == [["q2", "d 3", 1], ["q1", "d1", 2], ["q1", "d2", 0]]


def test_a_beir_folder_with_four_columns_without_a_header_loads(beir):
    (beir / "qrels" / "test.tsv").write_text("q2\t0\td3\t1\nq1\t0\td1\t1\n")
    assert graded(rs.load_golden(beir)) == [["q2", "d3", 1], ["q1", "d1", 1]]


def test_beir_questions_that_no_split_judges_are_unlabelled_and_those_of_other_splits_counted(beir):
    with (beir / "queries.jsonl").open("a") as file:
        file.write('{"_id": "q8", "text": "trained on"}\n{"_id": "q9", "text": "not judged"}\n')
    (beir / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq8\td1\t1\nq1\td1\t1\n")
    with warned(1, 3):
        golden = rs.load_golden(beir, split="test")
    assert golden.queries["query_id"].tolist() == ["q2", "q1", "q9"] and golden.queries[
        "answerable"
    ].tolist() == [True, True, pd.NA]
    (found,) = golden._problems["found"]
    says(found, 1, 4, "queries.jsonl")


def test_several_splits_must_be_chosen_from(beir):
    (beir / "qrels" / "dev.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    with refused(2, file="set", field="split"):
        rs.load_golden(beir)
    with refused("train", file="set", field="split"):
        rs.load_golden(beir, split="train")
    assert graded(rs.load_golden(beir, split="dev")) == [["q1", "d1", 1]]


def test_relevant_documents_that_the_corpus_lacks_are_counted(beir):
    (beir / "corpus.jsonl").write_text('{"_id": "d1", "title": "", "text": "x"}\n')
    golden = rs.load_golden(beir)
    (found,) = golden._problems["found"]
    says(found, 1, "corpus.jsonl", "d 3")
    assert len(golden.targets) == 3
    rows = "".join(f"q1\te{n}\t1\n" for n in range(5))
    (beir / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\nq2\td3\t1\n{rows}")
    (found,) = rs.load_golden(beir)._problems["found"]
    assert "6 relevant" in found and "d3, e0, e1, e2, e3" in found and "e4" not in found


def test_an_option_that_means_nothing_to_the_format_is_refused(beir, write):
    with refused("t", file="set", field="topics"):
        rs.load_golden(beir, topics="t")
    with refused("test", "trec_qrels", file="qrels.txt", field="split"):
        rs.load_golden(write("qrels.txt", QRELS), split="test")


def test_expected_documents_must_be_in_the_catalogue(write):
    catalogue = pd.DataFrame({"doc_id": ["d1", "d2"]})
    with refused(1, "d3", file="qrels.txt", field="expected_doc_ids"):
        rs.load_golden(write("qrels.txt", QRELS), catalogue=catalogue)


# runs


@pytest.mark.parametrize("name", ["run.txt", "input.bm25.gz"])
def test_a_trec_run_loads_under_its_tag(write, name):
    results = rs.load_results(write(name, RUN))
    assert found_at(results) == [["q1", 1, "d2", 9.5], ["q1", 2, "d1", 9.0], ["q2", 1, "d3", 3.25]]
    assert results.runs[["run_id", "system", "n_queries"]].astype(object).to_numpy().tolist() == [
        ["bm25", "bm25", 2]
    ]
    assert results.responses["query"].isna().all()


def test_files_of_the_same_tag_are_told_apart_by_their_names(write):
    files = [
        write("one.txt", RUN),
        write("two.gz", RUN),
        write("three.txt", RUN.replace("bm25", "dense")),
    ]
    results = rs.load_results(files)
    assert results.runs["run_id"].tolist() == ["one", "two", "dense"] and results.runs[
        "system"
    ].tolist() == ["bm25", "bm25", "dense"]
    mixed = write("mixed.txt", RUN + RUN.replace("bm25", "dense"))
    assert rs.load_results([files[0], mixed]).runs["run_id"].tolist() == [
        "one",
        "mixed:bm25",
        "mixed:dense",
    ]


def test_stored_ranks_hold_unless_trec_ties_are_asked_for(write):
    file = write("run.txt", "q Q0 a 2 1.0 t\nq Q0 b 1 1.0 t\nq Q0 c 3 7.0 t\n")
    by_rank, by_score = (
        rs.load_results(file, ties=ties).hits.sort_values("rank")["doc_id"].tolist()
        for ties in ("file", "trec")
    )
    assert by_rank == ["b", "a", "c"] and by_score == ["c", "b", "a"]


def test_repeated_ranks_need_trec_ties(write):
    file = write("run.txt", "q Q0 a 1 2 t\nq Q0 b 1 3 t\n")
    with refused(1, "q", "trec", file="run.txt", field="hits.rank"):
        rs.load_results(file)
    assert rs.load_results(file, ties="trec").hits["rank"].tolist() == [2, 1]


def test_a_run_of_scored_documents_ranks_by_score(write):
    run = {"q1": {"a": 0.5, "b": 2, "c": 0.5}, "q2": {}}
    for text in (json.dumps(run), json.dumps(run, indent=1)):
        results = rs.load_results(write("hybrid.json", text))
        assert found_at(results) == [["q1", 1, "b", 2.0], ["q1", 2, "a", 0.5], ["q1", 3, "c", 0.5]]
        assert results.responses["query_id"].tolist() == ["q1", "q2"] and results.runs[
            "run_id"
        ].tolist() == ["hybrid"]
    by_trec = rs.load_results(write("hybrid.json", text), ties="trec").hits.sort_values("rank")
    assert by_trec["doc_id"].tolist() == ["b", "c", "a"]


@pytest.mark.parametrize(
    "bad",
    [
        '{"q": {"d": 1}, "p": 3}',
        '{"q": {"d": 1, "e": "x"}}',
        '{"q": {"d": 1, "e": true}}',
        '{"q": {"d": 1, "d": 2}}',
        '{"q": {"d": 1}',
    ],
)
def test_a_bad_json_run_is_refused(write, bad):
    with refused(file="run.json"):
        rs.load_results(write("run.json", bad), format="json_run")


def test_trec_ties_rank_runs_of_every_format(write):
    hits = [{"rank": n, "doc_id": doc, "score": 1.0} for n, doc in enumerate("abc", 1)]
    file = write(
        "per_query.jsonl", json.dumps({"query_id": "q", "query": "?", "hits_top_k": hits}) + "\n"
    )
    assert rs.load_results(file, ties="trec").hits.sort_values("rank")["doc_id"].tolist() == [
        "c",
        "b",
        "a",
    ]
    with refused(field="ties"):
        rs.load_results(file, ties="random")


def test_damaged_gzip_files_end_in_one_error(write):
    whole = write("qrels.gz", QRELS * 50).read_bytes()
    file = write("qrels.gz", "")
    for damaged in (
        whole[:-9],
        whole[:12] + b"\xff\xff\xff" + whole[15:],
        b"\x1f\x8b" + whole[2:5],
        b"no gzip",
    ):
        file.write_bytes(damaged)
        for name in (None, "trec_qrels"):
            with refused(file="qrels.gz"):
                rs.load_golden(file, format=name)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("pq"),
            st.sampled_from(["a", "1e5", "NA"]) | st.text("ab10.-é\"'N,;x", min_size=1),
            st.integers(0, 3),
        ),
        min_size=1,
        unique_by=lambda row: row[:2],
    )
)
def test_every_judgement_of_a_good_file_is_in_the_frames(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("good") / "qrels.txt"
    file.write_text("".join(f"{query} 0 {doc} {grade}\n" for query, doc, grade in rows))
    golden = (
        rs.load_golden(file)
        if {q for q, _, g in rows if g} == {q for q, _, _ in rows}
        else rs.load_golden(file, absent_docs="refuse")
    )
    assert sorted(map(tuple, graded(golden))) == sorted(rows)
    assert (
        golden.queries["position"].to_numpy().tolist()
        == np.arange(golden.queries["query_id"].nunique()).tolist()
    )


@pytest.mark.parametrize(
    ("format", "content", "field"),
    [
        ("json_run", {"q": {"t" * 70_000: 1.5}}, "score"),
        ("json_run", {"t" * 70_000: {"d": 1.5}}, "query"),
        ("json_qrels", {"q": {"t" * 70_000: 1}}, "grade"),
        (
            "qrels_jsonl",
            {"query_id": "q", "query": "?", "relevant_docs": {"t" * 70_000: 1}},
            "relevant_docs",
        ),
    ],
)
def test_an_endless_id_is_refused_in_a_short_message(write, format, content, field):
    file = write("endless.json", json.dumps(content))
    load = rs.load_results if format == "json_run" else rs.load_golden
    with pytest.raises(rs.DataError) as caught:
        load(file, format=format)
    assert caught.value.field == field and len(str(caught.value)) < 1000
