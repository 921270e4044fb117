"""TREC and BEIR files, judgements and runs as JSON, and frames for other tools: both ways."""

import gzip
import json
from dataclasses import replace
from functools import partial

import ir_measures
import numpy as np
import pandas as pd
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st
from trec_collections import RAGGY, ROBUST, VASWANI, as_dicts, needs

import ragscore as rs
from tests.messages import ANY, refused, says, warned

QRELS = "q2 0 d3 1\nq1 0 d1 2\nq1 0 d2 0\n"
RUN = (
    "q2 Q0 d3 1 3.25 bm25\nq1 Q0 d2 1 0.1 bm25\nq1 Q0 d1 2 1e-07 bm25\nq1 Q0 d7 3 -2.0 bm25\nq2 Q0"
    " d3 1 1.0 dense\n"
)
ONE = "".join(line + "\n" for line in RUN.splitlines() if line.endswith("bm25"))
JUDGED = [["q2", "d3", 1], ["q1", "d1", 2], ["q1", "d2", 0]]
HEADER = "query-id\tcorpus-id\tscore\n"
QUESTIONS = [
    {"_id": "q2", "text": "two", "metadata": {"url": "u", "query": {"number": 2}}, "own": [1]},
    {"_id": "q1", "text": "one"},
]


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


def assert_written(file, lines):
    data = file.read_bytes()
    text = gzip.decompress(data) if file.suffix == ".gz" else data
    assert [json.loads(one) for one in text.splitlines()] == lines


def found_at(results):
    return results.hits[["run_id", "query_id", "rank", "doc_id", "score"]].to_numpy().tolist()


def ranked(results):
    return results.hits.sort_values("rank")["doc_id"].tolist()


# judgements


@pytest.mark.parametrize("name", ["qrels", "qrels.gz"])
@pytest.mark.parametrize(
    ("text", "judged"),
    [
        (QRELS, JUDGED),
        (
            "q2 0 NA 1\nq1 0 1e5 1\nq1 0 007 0\n",
            [["q2", "NA", 1], ["q1", "1e5", 1], ["q1", "007", 0]],
        ),
    ],
)
def test_qrels_are_read_and_written_as_they_were(write, tmp_path, name, text, judged):
    golden = rs.load_golden(write(name, text))
    assert graded(golden) == judged and golden.queries["query"].tolist() == ["q2", "q1"]
    again = rs.load_golden(golden.save(tmp_path / "new" / name, format="trec_qrels"))
    for kind in ("queries", "targets"):
        pd.testing.assert_frame_equal(getattr(again, kind), getattr(golden, kind))


@pytest.mark.parametrize(
    ("more", "n", "queries"),
    [
        ("q2 0 d4 -1\nq2 0 d5 -2\nq2 0 d3 1\n", 2, ["q2", "q1"]),  # the last one says nothing new
        ("q3 0 d4 -1\n", 1, ["q2", "q1", "q3"]),  # it stays, and is unlabelled
    ],
)
def test_documents_of_negative_grade_are_not_judged_and_counted(write, more, n, queries):
    with warned("qrels.txt", n):
        golden = rs.load_golden(write("qrels.txt", QRELS + more))
    assert graded(golden) == JUDGED and golden.queries["query_id"].tolist() == queries
    assert golden.queries["answerable"].isna().tolist() == [False, False, True][: len(queries)]
    says(golden._problems["found"].item(), n)
    results = rs.load_results({"q2": ["d3", "d4"]})
    scores = rs.score(results, golden, ["judged@5"], missing="zero")
    assert scores.loc["q2", "judged@5"] == 0.5


def test_fractions_among_grades_are_gains(write):
    with warned("qrels.txt", 1.5):
        golden = rs.load_golden(write("qrels.txt", QRELS + "q2 0 d4 1.5\n"))
    assert golden.targets.set_index("doc_id")["gain"].to_dict() == {
        "d3": 1, "d4": 1.5, "d1": 2, "d2": 0,
    }  # fmt: skip


FIRST = '{"query_id": "q1", "query": "?", "relevant_docs": {"d": 255}}\n'
SECOND = '{"query_id": "q2", "query": "?"'
FAULTS = [
    ("qrels.txt", QRELS + "q2 0 d3 2\n", 4, ANY, ["d3", 2, 1]),
    ("qrels.txt", QRELS + "q2 0 d4 high\n", 4, "grade", ['"high"']),
    ("qrels.txt", QRELS + "q2 d4\n", 4, None, [2]),
    ("qrels.txt", QRELS + "q2 0 d4 1 more\n", 4, None, [5]),
    ("qrels.txt", QRELS + "q2 0 d4 99999999999\n", 4, "grade", [99999999999]),
    ("qrels.json", '{"q": {"d": 1, "e": "high"}}', 1, "doc_id", ['"high"']),
    ("qrels.jsonl", FIRST + SECOND, 2, None, []),
    ("topics.tsv", "q1\tone\nno tab here\n", 2, "_id", []),
    ("topics.tsv", "q1\tone\nq1\ttwo\n", 2, "_id", ["q1"]),
    ("topics.tsv", '{"_id": "q1", "text": "x"}\n{"text": "x"}\n', 2, "_id", []),
    ("run.txt", f"# a comment\n\n{RUN}q1 Q0 d4 0x3 1 a\n", 8, "rank", ['"0x3"']),
    ("run.txt", f"{RUN}q1 Q0 d4 1_0 1 a\n", 6, "rank", ['"1_0"']),
    ("run.txt", f"{RUN}q1 Q0 d4 3 0x1p3 a\n", 6, "score", ['"0x1p3"']),
    ("run.txt", f"{RUN}q1 Q0 d4 3 high a\n", 6, "score", ['"high"']),
    ("run.txt", f"{RUN}q1 Q0 d4 NA 1 a\n", 6, "rank", ['"NA"']),
    ("run.txt", f"{RUN}q1 Q0 d4 3 1\n", 6, None, [5]),
]


@pytest.mark.parametrize(("name", "text", "line", "field", "named"), FAULTS)
def test_a_faulty_line_is_refused_and_the_others_can_be_had(write, name, text, line, field, named):
    file, load = write(name, text), rs.load_results if name == "run.txt" else rs.load_golden
    if name == "topics.tsv":
        file, load = write("qrels.txt", QRELS), partial(rs.load_golden, topics=file)
    with refused(*named, file=name, line=line, field=field):
        load(file)
    found = load(file, strict=False)
    assert len(found.problems if name == "run.txt" else found._problems.dropna(subset="line")) == 1
    assert name == "topics.tsv" or len(found.hits if name == "run.txt" else found.targets) > 0


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_lines_of_judgements_are_read_and_written_as_they_were(write, tmp_path, ending):
    lines = [
        {"query_id": "1", "query": "who wrote 1984?", "relevant_docs": {"orwell": 2, "junk": 0},
         "reference_answer": "Orwell", "source": {"site": "web", "ids": [1]}, "a.b": 1},
        {"query_id": "q2", "query": "and?", "relevant_docs": {}, "weight": 0.5},
    ]  # fmt: skip
    file = write("qrels.jsonl", "\n".join(map(json.dumps, lines)) + "\n\n")
    with warned(1, 2):
        golden = rs.load_golden(file)
    assert graded(golden) == [["1", "orwell", 2], ["1", "junk", 0]]
    assert golden.queries["answerable"].tolist() == [True, pd.NA]
    refusing = rs.load_golden(file, absent_docs="refuse")
    assert refusing.queries["answerable"].tolist() == [True, False]
    assert_written(golden.save(tmp_path / f"new.jsonl{ending}", format="qrels_jsonl"), lines)


BOTH = ["second question", "first question"]


@pytest.mark.parametrize(
    ("name", "text", "queries", "n_unnamed"),
    [
        ("topics.tsv", "q1\tfirst question\nq2\tsecond question\n", BOTH, 0),
        ("topics.trec", "<top>\n<num> Number: q1\n<title> first\nquestion\n<desc> x\n</top>\n"
         "<top><num>q2</num><title>second question</title></top>\n", BOTH, 0),
        ("queries.jsonl", '{"_id": "q1", "text": "first question"}\n'
         '{"_id": "q2", "text": "second question", "metadata": {}}\n', BOTH, 0),
        ("topics.tsv", "q1\tfirst\nq9\tnever judged\n", ["q2", "first"], 1),
    ],
)  # fmt: skip
def test_topics_give_judged_queries_their_text(write, name, text, queries, n_unnamed):
    golden = rs.load_golden(write("qrels.txt", QRELS), topics=write(name, text))
    assert golden.queries["query"].tolist() == queries
    assert golden._problems.empty == (n_unnamed == 0)
    for found in golden._problems["found"]:  # of two queries, one has no topic
        says(found, n_unnamed, 2)


@pytest.fixture
def beir(write, tmp_path):
    write("set/queries.jsonl", "".join(json.dumps(one) + "\n" for one in QUESTIONS))
    write("set/qrels/test.tsv", HEADER + "q2\td 3\t1\nq1\td1\t2\nq1\td2\t0\n")
    return tmp_path / "set"


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        (None, [["q2", "d 3", 1], ["q1", "d1", 2], ["q1", "d2", 0]]),
        ("q2\t0\td3\t1\nq1\t0\td1\t1\n", [["q2", "d3", 1], ["q1", "d1", 1]]),
        (HEADER + "q2\tNew York\t1\nq1\tParis\t2\t\n", [["q2", "New York", 1], ["q1", "Paris", 2]]),
    ],
)
def test_a_beir_folder_loads_in_the_order_of_its_judgements(beir, text, judged):
    if text is not None:
        (beir / "qrels" / "test.tsv").write_text(text)
    golden = rs.load_golden(beir)
    assert golden.queries[["query_id", "query"]].values.tolist() == [["q2", "two"], ["q1", "one"]]
    assert graded(golden) == judged


def test_a_beir_folder_is_written_as_it_was_but_for_questions_not_judged(beir, tmp_path):
    with (beir / "queries.jsonl").open("a") as file:
        file.write('{"_id": "q8", "text": "trained on"}\n{"_id": "q9", "text": "not judged"}\n')
    with warned("test.tsv", "2 of 4"):
        golden = rs.load_golden(beir)
    folder, name = golden.save(tmp_path / "again", format="beir"), "qrels/test.tsv"
    assert_written(folder / "queries.jsonl", QUESTIONS)
    assert (folder / name).read_text() == (beir / name).read_text()


@pytest.mark.parametrize(
    ("name", "options", "field", "named"),
    [
        ("set", {}, "split", [2]),  # dev and test
        ("set", {"split": "train"}, "split", ["train"]),
        ("set", {"split": "dev", "topics": "t"}, "topics", ["t"]),
        ("qrels.txt", {"split": "test"}, "split", ["test", "trec_qrels"]),
        ("qrels.txt", {"catalogue": pd.DataFrame({"doc_id": ["d1", "d2"]})}, "expected_doc_ids",
         [1, "d3"]),
    ],
)  # fmt: skip
def test_an_option_that_does_not_fit_the_file_is_refused(
    beir, write, tmp_path, name, options, field, named
):
    write("set/qrels/dev.tsv", HEADER + "q1\td1\t1\n")
    write("qrels.txt", QRELS)
    with refused(*named, file=name, field=field):
        rs.load_golden(tmp_path / name, **options)


def test_one_of_several_splits_is_chosen(beir, write):
    write("set/qrels/dev.tsv", HEADER + "q1\td1\t1\n")
    with warned("dev.tsv", "1 of 2"):
        assert graded(rs.load_golden(beir, split="dev")) == [["q1", "d1", 1]]


# lines


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(" ", " \t  "),
        lambda text: text.replace(" ", "   ", 2).replace(" ", "\t", 9),
        lambda text: "  " + text.replace("\n", " \t\r\n\n \t\n"),
        lambda text: "# by hand\n" + text.replace("\n", "\n  # q9 0 d9 1 9 9\n"),
        lambda text: "\ufeff" + text.rstrip("\n"),
        lambda text: text.replace("\n", "\r"),
    ],
    ids=["tabs", "more blanks", "blank lines", "comments", "a mark at the beginning", "other ends"],
)
def test_white_space_blank_lines_and_comments_make_no_difference(write, change):
    results = rs.load_results(write("run.txt", change(RUN)))
    golden = rs.load_golden(write("qrels.txt", change(QRELS)))
    rows = [line.split() for line in RUN.splitlines()]
    assert found_at(results) == [
        [run, query, int(rank), doc, float(score)] for query, _, doc, rank, score, run in rows
    ]
    assert graded(golden) == JUDGED
    assert results.problems.empty and golden._problems.empty


@pytest.mark.parametrize("rest", [" # best", " and more", "q Q0 d 1 2 a"])  # or a second hit
def test_text_after_the_tag_is_left_out_and_such_lines_are_warned_of(write, rest):
    with warned("run.txt", 1, rest.split()[-1]):
        results = rs.load_results(write("run.txt", f"{RUN}p Q0 d 1 2 dense{rest}\n"))
    assert results.hits["doc_id"].tolist()[-1] == "d" and len(results.hits) == 6


WHOLE = gzip.compress(QRELS.encode() * 50, mtime=0)


@pytest.mark.parametrize("format", [None, "trec_qrels"])
@pytest.mark.parametrize(
    "damaged",
    [WHOLE[:-9], WHOLE[:12] + b"\xff\xff\xff" + WHOLE[15:], b"\x1f\x8b" + WHOLE[2:5], b"no gzip",
     gzip.compress(b"", mtime=0)],
    ids=["its end", "its middle", "its head alone", "none", "nothing in it"],
)  # fmt: skip
def test_damaged_gzip_files_end_in_one_error(tmp_path, damaged, format):
    (tmp_path / "qrels.gz").write_bytes(damaged)
    with refused(file="qrels.gz"):
        rs.load_golden(tmp_path / "qrels.gz", format=format)


# runs


@pytest.mark.parametrize("name", ["run.txt", "input.bm25.gz"])
def test_runs_are_read_under_their_tags_and_written_as_they_were(write, tmp_path, name):
    results = rs.load_results(write(name, RUN))
    assert found_at(results)[:2] == [["bm25", "q2", 1, "d3", 3.25], ["bm25", "q1", 1, "d2", 0.1]]
    about = results.runs[["run_id", "system", "n_queries"]].astype("str").to_numpy().tolist()
    assert about == [["bm25", "bm25", "2"], ["dense", "dense", "1"]]
    assert results.responses["query"].isna().all()
    data = results.save(tmp_path / "sub" / name, format="trec").read_bytes()
    assert (gzip.decompress(data) if name.endswith(".gz") else data).decode() == RUN


@given(
    st.dictionaries(
        st.sampled_from(["q1", "q2", "007"]),
        st.lists(
            st.tuples(
                st.sampled_from(["a", "é", "1e5", "NA"]) | st.text("ab10.-é\"'N,;x", min_size=1),
                st.floats(allow_nan=False, width=64),
            ),
            min_size=1,
            unique_by=lambda pair: pair[0],
        ),
        min_size=1,
    )
)
def test_any_run_comes_back_from_its_file(tmp_path_factory, lists):
    file = tmp_path_factory.mktemp("run") / "run.txt"
    rows = [
        f"{query_id} Q0 {doc} {rank} {score!r} tag\n"
        for query_id, docs in lists.items()
        for rank, (doc, score) in enumerate(docs, 1)
    ]
    file.write_text("".join(rows))
    results = rs.load_results(file)
    assert results.save(file.with_name("again.txt"), format="trec").read_text() == "".join(rows)


def test_files_of_the_same_tag_are_refused_with_the_line_that_names_them(write):
    files = [write("one.txt", ONE), write("two.gz", ONE)]
    with refused("bm25", "run_id=path.stem", field="run_id"):
        rs.load_results(files)
    named = rs.load_results([rs.load_results(path, run_id=path.stem) for path in files])
    assert named.runs[["run_id", "system"]].values.tolist() == [["one", "bm25"], ["two", "bm25"]]
    assert set(named.hits["run_id"]) == {"one", "two"}


TIED = "q Q0 a 2 1.0 t\nq Q0 b 1 1.0 t\nq Q0 c 3 1.0 t\n"
RISING = "p Q0 d 1 1 a\np Q0 e 2 2 a\nq Q0 d 1 2 a\nq Q0 e 2 2 a\n"
TWICE = "q Q0 a 1 2 t\nq Q0 b 1 3 t\n"


@pytest.mark.parametrize(
    ("text", "ties", "ranks", "n_told"),
    [
        (TIED, "file", [2, 1, 3], 0),
        (TIED, "trec", [3, 2, 1], 0),
        (RISING, "file", [1, 2, 1, 2], 1),
        (RISING, "trec", [2, 1, 2, 1], 0),
        (TWICE, "trec", [2, 1], 0),
    ],
)
def test_stored_ranks_hold_unless_trec_ties_are_asked_for(write, text, ties, ranks, n_told):
    results = rs.load_results(write("run.txt", text), ties=ties)
    assert results.hits["rank"].tolist() == ranks and len(results.problems) == n_told


def test_a_rank_twice_is_refused_with_the_way_on(write):
    with refused(1, "q", "trec", file="run.txt", line=2, field="rank"):
        rs.load_results(write("run.txt", TWICE))


@pytest.mark.parametrize(
    ("text", "ranks", "named"),
    [
        ("p Q0 d 0 2 a\np Q0 e 1 1 a\nq Q0 d 1 2 a\n", [1, 2, 1], ("a", 0, "1 of 2")),
        ("p Q0 d 2 2 a\nq Q0 d 1 2 a\nq Q0 e 9 1 a\n", [2, 1, 9], ("2 of 2",)),
    ],
)
def test_ranks_from_0_and_ranks_left_out_are_warned_of_once(write, text, ranks, named):
    with warned(*named) as caught:
        results = rs.load_results(write("run.txt", text))
    assert results.hits["rank"].tolist() == ranks and len(caught) == 1


def test_trec_ties_rank_runs_of_every_format(write_run):
    hits = [{"rank": n, "doc_id": doc, "score": 1.0} for n, doc in enumerate("abc", 1)]
    file = write_run("r", [{"query_id": "q", "query": "?", "hits_top_k": hits}])
    assert ranked(rs.load_results(file, ties="trec")) == ["c", "b", "a"]
    with refused(field="ties"):
        rs.load_results(file, ties="random")


LONG = "t" * 70_000


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (rs.load_results, '{"q": {"d": 1}, "p": 3}'),
        (rs.load_results, '{"q": {"d": 1, "e": "x"}}'),
        (rs.load_results, '{"q": {"d": 1, "e": true}}'),
        (rs.load_results, '{"q": {"d": 1, "d": 2}}'),
        (rs.load_results, '{"q": {"d": 1}'),
        (rs.load_results, json.dumps({"q": {LONG: 1.5}})),
        (rs.load_results, json.dumps({LONG: {"d": 1.5}})),
        (rs.load_golden, json.dumps({"q": {LONG: 1}})),
        (rs.load_golden, json.dumps({"query_id": "q", "query": "?", "relevant_docs": {LONG: 1}})),
    ],
)
def test_bad_json_and_endless_ids_are_refused_in_a_short_message(write, load, text):
    with refused(file="bad.json") as caught:
        load(write("bad.json", text))
    assert len(str(caught.value)) < 1000


# what files and frames of other tools can hold


@pytest.fixture
def small(write):
    return rs.load_results(write("run.txt", RUN)), rs.load_golden(write("qrels.txt", QRELS))


def test_chunks_are_written_where_asked_for_and_runs_without_scores_by_rank(write_run, tmp_path):
    hits = [
        {"rank": 1, "chunk_id": "c1", "doc_id": "d"},
        {"rank": 2, "chunk_id": "c2", "doc_id": "d"},
    ]
    results = rs.load_results(write_run("r", [{"query_id": "q", "query": "?", "hits_top_k": hits}]))
    with warned("query", "doc_id", 2):  # which a line of six columns has no place for
        written = results.save(tmp_path / "run.txt", format="trec", level="chunk")
    assert written.read_text() == "q Q0 c1 1 2.0 r\nq Q0 c2 2 1.0 r\n"
    for write in (
        lambda: results.save(tmp_path / "run.txt", format="trec"),
        lambda: rs.io.to_ranx(results),
    ):
        with refused("d", "collapse_hits"):
            write()
    once = replace(results, hits=rs.match.collapse_hits(results.hits))
    with warned("chunk_id"):
        written = once.save(tmp_path / "run.txt", format="trec")
    assert written.read_text() == "q Q0 d 1 1.0 r\n"


def test_what_the_formats_cannot_hold_is_refused_or_counted(small, write_golden, tmp_path):
    results, golden = small
    run, qrels = tmp_path / "out.trec", tmp_path / "out.qrels"
    once = results.hits.drop_duplicates(["run_id", "query_id"])
    with warned("out.trec", 1):  # a query without hits
        replace(results, hits=results.hits.query("query_id == 'q2'")).save(run)
    with refused("a b", field="file.doc"):
        replace(results, hits=once.assign(doc_id="a b")).save(run)
    some = results.hits["score"].where(results.hits["rank"] < 3)
    with refused(field="hits.score"):
        replace(results, hits=results.hits.assign(score=some)).save(run)
    with refused("span", "doc, chunk", field="level"):
        golden.save(qrels, level="span")
    rows = [
        {"id": "q1", "query": "?", "expected_doc_ids": [["a", "b"]], "expected_chunk_ids": ["c"],
         "tags": ["t"], "lang": "de"},
        {"id": "q2", "query": "?", "answerable": False},
    ]  # fmt: skip
    golden = rs.load_golden(write_golden(rows))
    with warned("out.qrels", "query", "alternative", "queries", "lang", "targets: 2", "tags: 1"):
        assert golden.save(qrels).read_text() == "q1 0 a 1\nq1 0 b 1\n"
    high = golden.targets.assign(grade=256)
    with refused(256, field="targets.grade"):
        replace(golden, targets=high).save(tmp_path / "out.jsonl", format="qrels_jsonl")


def test_frames_for_ir_measures_give_our_scores(pair):
    results, golden = pair
    results = replace(results, hits=rs.match.collapse_hits(results.hits))
    qrels, runs = rs.io.to_ir_measures(results, golden)
    measures = {"mrr": ir_measures.RR, "recall@5": ir_measures.R @ 5, "map@10": ir_measures.AP @ 10}
    scores = rs.score(results, golden, list(measures), match="doc").set_index("run_id", append=True)
    for run_id, run in runs.items():
        for one in ir_measures.iter_calc(list(measures.values()), qrels, run):
            label = next(label for label, measure in measures.items() if measure == one.measure)
            assert one.value == pytest.approx(scores.loc[(one.query_id, run_id), label], abs=1e-12)


def test_frames_for_ranx_hold_texts_as_objects_and_scores_that_fall_with_the_rank(small):
    results, golden = small
    runs, grades = rs.io.to_ranx(results), rs.io.to_ranx(golden)
    assert list(runs) == ["bm25", "dense"]
    for frame, number in ((runs["bm25"], "float64"), (grades, "int64")):
        assert frame.dtypes.astype("str").tolist() == ["object", "object", number]
    assert runs["bm25"].query("q_id == 'q1'")[["doc_id", "score"]].to_numpy().tolist() == [
        ["d2", 3.0], ["d1", 2.0], ["d7", 1.0],
    ]  # fmt: skip
    assert sorted(grades.to_numpy().tolist()) == sorted(JUDGED)


# Real TREC runs and judgements.

KS = (1, 5, 10, 100, 1000)
NAMES = {
    "precision": "P",
    "recall": "recall",
    "hit": "success",
    "map": "map_cut",
    "ndcg_linear": "ndcg_cut",
}
# Mean AP as published with the runs, where ties go by document id ascending. trec_eval's own order
# is descending: rutcor03100 has so many equal scores that it gets .0737 there; pircRBa1 .3101, the
# others the same four digits.
MEAN_AP = {
    "pircRBa1": 0.3100, "aplrob03a": 0.2998, "THUIRr0301": 0.2597, "fub03IeOLKe3": 0.2503,
    "SABIR03BASE": 0.2021, "humR03dc": 0.1248, "NLPR03vb10": 0.1055,
    "rutcor03100": 0.0582,
}  # fmt: skip
BY_TREC_EVAL = {**MEAN_AP, "pircRBa1": 0.3101, "rutcor03100": 0.0737}


@pytest.fixture(
    scope="module",
    params=[("pircRBa1", "rutcor03100"), pytest.param(tuple(MEAN_AP), marks=pytest.mark.slow)],
    ids=len,
)
def robust(request):
    files = [ROBUST / f"input.{name}.gz" for name in request.param]
    return rs.load_results(files, ties="trec"), rs.load_golden(ROBUST / "robust03_qrels.txt.gz")


@pytest.fixture(scope="module")
def scores(robust):
    labels = [f"{name}@{k}" for name in (*NAMES, "ndcg") for k in KS] + ["mrr"]
    return rs.score(*robust, labels, missing="zero")


@needs(ROBUST)
def test_robust_runs_agree_with_trec_eval_in_every_measure(robust, scores):
    results, golden = robust
    cuts = ",".join(map(str, KS))
    qrels = as_dicts(golden.targets, "grade")
    worth = as_dicts(
        golden.targets.assign(grade=2 ** golden.targets["grade"].astype("int64") - 1), "grade"
    )
    plain = pytrec_eval.RelevanceEvaluator(
        qrels, {*(f"{name}.{cuts}" for name in NAMES.values()), "recip_rank"}
    )
    exponential = pytrec_eval.RelevanceEvaluator(worth, {f"ndcg_cut.{cuts}"})
    ours = {
        label: f"{NAMES[name]}_{k}" for name in NAMES for k in KS for label in [f"{name}@{k}"]
    } | {"mrr": "recip_rank"}
    for run_id, hits in results.hits.groupby("run_id", observed=True):
        run = as_dicts(hits, "score")
        theirs = pd.DataFrame.from_dict(plain.evaluate(run), orient="index")
        found = scores[scores["run_id"] == run_id]
        # queries that a run leaves out are absent there, and 0 here: trec_eval's -c
        np.testing.assert_allclose(
            found[list(ours)],
            theirs.reindex(found.index)[list(ours.values())].fillna(0),
            rtol=0,
            atol=1e-9,
            err_msg=str(run_id),
        )
        theirs = (
            pd.DataFrame.from_dict(exponential.evaluate(run), orient="index")
            .reindex(found.index)
            .fillna(0)
        )
        np.testing.assert_allclose(
            found[[f"ndcg@{k}" for k in KS]],
            theirs[[f"ndcg_cut_{k}" for k in KS]],
            rtol=0,
            atol=1e-9,
            err_msg=str(run_id),
        )


@needs(ROBUST)
def test_mean_average_precision_of_the_robust_runs_is_the_published_one(robust, scores):
    results, golden = robust
    ordered = results.hits.sort_values(
        ["run_id", "query_id", "score", "doc_id"], ascending=[True, True, False, True]
    )
    ascending = ordered.assign(
        rank=ordered.groupby(["run_id", "query_id"], observed=True).cumcount() + 1
    )
    published = rs.score(replace(results, hits=ascending), golden, ["map@1000"], missing="zero")
    for found, known in ((published, MEAN_AP), (scores, BY_TREC_EVAL)):
        means = found.groupby("run_id", observed=True)["map@1000"].mean()
        assert means.round(4).to_dict() == {name: known[name] for name in means.index}


@needs(ROBUST)
def test_robust_runs_and_judgements_are_loaded_whole(robust):
    results, golden = robust
    assert len(golden.queries) == 100 and golden.targets["grade"].value_counts().to_dict() == {
        0: 122722,
        1: 5667,
        2: 407,
    }
    assert len(results.hits) == {2: 200_000, 8: 611_004}[len(results.runs)]
    assert results.hits["rank"].min() == 1


@needs(RAGGY)
@pytest.mark.filterwarnings("ignore:ndcg uses the gain:UserWarning")
def test_passages_judged_by_document_give_the_published_ndcg():
    results = rs.load_results(str(RAGGY / "run.*.txt"))
    documents = results.hits["doc_id"].str.split("#").str[0]
    results = replace(
        results, hits=results.hits.assign(chunk_id=results.hits["doc_id"], doc_id=documents)
    )
    parts = [
        rs.load_golden(RAGGY / f"qrels.dl{year}-doc.txt", topics=RAGGY / "topics.tsv")
        for year in (21, 23)
    ]
    queries = pd.concat([part.queries for part in parts], ignore_index=True)
    golden = rs.Golden(
        queries=queries.assign(position=range(len(queries))),
        targets=pd.concat([part.targets for part in parts], ignore_index=True),
    )
    asked = golden.queries["query_id"].isin(results.responses["query_id"])
    assert asked.sum() == 76
    golden = rs.Golden(
        queries=golden.queries[asked],
        targets=golden.targets[
            golden.targets["query_id"].isin(golden.queries.loc[asked, "query_id"])
        ],
    )
    found = (
        rs.score(results, golden, ["ndcg@10"], match="doc", collapse="doc")
        .groupby("run_id", observed=True)["ndcg@10"]
        .mean()
    )
    assert sorted(found.round(3)) == [0.388, 0.522, 0.592] and round(found["Anserini"], 3) == 0.388


@needs(VASWANI)
def test_the_vaswani_collection_loads_with_its_questions():
    golden = rs.load_golden(VASWANI / "qrels", topics=VASWANI / "query-text.trec")
    assert len(golden.queries) == 93 and len(golden.targets) == 2083 and golden._problems.empty
    assert (
        golden.queries["query"].iloc[0]
        == "MEASUREMENT OF DIELECTRIC CONSTANT OF LIQUIDS BY THE USE OF MICROWAVE TECHNIQUES"
    )
