"""Golden sets and runs as the files and frames of other tools, and back."""

import gzip
from dataclasses import replace

import ir_measures
import pandas as pd
import pytest
from conftest import hit, record
from hypothesis import given
from hypothesis import strategies as st

import ragscore as rs
from tests.messages import refused, warned

QRELS = "q2 0 d3 1\nq1 0 d1 2\nq1 0 d2 0\n"
RUN = (
    "q2 Q0 d3 1 3.25 bm25\nq1 Q0 d2 1 0.1 bm25\nq1 Q0 d1 2 1e-07 bm25\nq1 Q0 d7 3 -2.0 bm25\nq2 Q0"
    " d3 1 1.0 dense\n"
)


@pytest.fixture
def small(tmp_path):
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "run.txt").write_text(RUN)
    return rs.load_results(tmp_path / "run.txt"), rs.load_golden(tmp_path / "qrels.txt")


def assert_same(first, second):
    for name in (
        ("runs", "responses", "hits") if isinstance(first, rs.Results) else ("queries", "targets")
    ):
        pd.testing.assert_frame_equal(getattr(first, name), getattr(second, name))


@pytest.mark.parametrize("name", ["again.txt", "again.txt.gz"])
def test_a_run_file_is_written_as_it_was(small, tmp_path, name):
    file = small[0].save(tmp_path / "sub" / name, format="trec")
    text = gzip.decompress(file.read_bytes()).decode() if name.endswith(".gz") else file.read_text()
    assert text == RUN
    assert_same(rs.load_results(file), small[0])


@pytest.mark.parametrize("name", ["again.txt", "again.gz"])
def test_qrels_are_written_as_they_were(small, tmp_path, name):
    file = small[1].save(tmp_path / name, format="trec_qrels")
    assert (
        gzip.decompress(file.read_bytes()).decode() if name.endswith(".gz") else file.read_text()
    ) == QRELS
    assert_same(rs.load_golden(file), small[1])


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


def test_queries_without_hits_are_counted_as_not_written(write_run, tmp_path):
    results = rs.load_results(write_run("r", [record("q1", [hit("c", "d", 1)]), record("q2", [])]))
    with warned("run.txt", 1):
        results.save(tmp_path / "run.txt", format="trec")


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
        with refused("d", "q", "r", "collapse_hits", field="hits"):
            write()
    once = replace(results, hits=rs.match.collapse_hits(results.hits))
    with warned("chunk_id"):
        written = once.save(tmp_path / "run.txt", format="trec")
    assert written.read_text() == "q Q0 d 1 1.0 r\n"


def test_what_the_formats_cannot_hold_is_refused_or_counted(small, write_golden, tmp_path):
    results, golden = small
    spaced = replace(results, hits=results.hits.assign(doc_id="a b"), responses=results.responses)
    with refused("a b", field="doc"):
        replace(spaced, hits=spaced.hits.drop_duplicates(["run_id", "query_id"])).save(
            tmp_path / "run.txt", format="trec"
        )
    with refused("bm25", field="hits.score"):
        replace(
            results,
            hits=results.hits.assign(score=results.hits["score"].where(results.hits["rank"] < 3)),
        ).save(tmp_path / "run.txt", format="trec")
    with refused("span", "doc, chunk", field="level"):
        golden.save(tmp_path / "qrels.txt", format="trec_qrels", level="span")
    rows = [
        {"id": "q1", "query": "?", "expected_doc_ids": [["a", "b"]]},
        {"id": "q2", "query": "?", "answerable": False},
    ]
    with warned("qrels.txt", "query", "alternative", "queries", 1):
        text = (
            rs.load_golden(write_golden(rows))
            .save(tmp_path / "qrels.txt", format="trec_qrels")
            .read_text()
        )
    assert text == "q1 0 a 1\nq1 0 b 1\n"


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
    runs = rs.io.to_ranx(results)
    assert list(runs) == ["bm25", "dense"] and runs["bm25"].dtypes.astype("str").tolist() == [
        "object",
        "object",
        "float64",
    ]
    assert runs["bm25"].query("q_id == 'q1'")[["doc_id", "score"]].to_numpy().tolist() == [
        ["d2", 3.0],
        ["d1", 2.0],
        ["d7", 1.0],
    ]
    grades = rs.io.to_ranx(golden)
    assert grades.dtypes.astype("str").tolist() == ["object", "object", "int64"]
    assert grades.sort_values(["q_id", "doc_id"]).to_numpy().tolist() == [
        ["q1", "d1", 2],
        ["q1", "d2", 0],
        ["q2", "d3", 1],
    ]
