"""`results.save` and `golden.save`: the format by the path's ending or by name."""

import inspect
import warnings
from dataclasses import replace

import pandas as pd
import pytest

import ragscore as rs
from ragscore.io import registry
from ragscore.io.detect import function_at
from ragscore.io.left_out import left_out
from ragscore.io.registry import FORMATS
from tests.messages import refused, warned

GOLDEN = rs.Golden(
    queries=pd.DataFrame({"query_id": ["q1", "q2"]}),
    targets=pd.DataFrame(
        {"query_id": ["q1", "q2"], "level": "doc", "target_id": ["a", "b"], "doc_id": ["a", "b"]}
    ),
)
RESULTS = rs.Results(
    runs=pd.DataFrame({"run_id": ["bm25"]}),
    responses=pd.DataFrame({"run_id": "bm25", "query_id": ["q1", "q2"]}),
    hits=pd.DataFrame(
        {
            "run_id": "bm25",
            "query_id": ["q1", "q1", "q2"],
            "rank": [1, 2, 1],
            "doc_id": ["a", "c", "b"],
            "score": [2.0, 1.0, 3.0],
        }
    ),
)


@pytest.mark.parametrize(
    "name", ["run.trec", "run.run", "run.trec.gz", "bm25.jsonl", "bm25.jsonl.gz"]
)
def test_results_come_back_from_the_ending_s_format(name, tmp_path):
    path = RESULTS.save(tmp_path / name)
    assert path == tmp_path / name and path.is_file()
    found = rs.load_results(path)
    assert found.hits[["query_id", "doc_id", "rank"]].values.tolist() == [
        ["q1", "a", 1],
        ["q1", "c", 2],
        ["q2", "b", 1],
    ]


@pytest.mark.large
@pytest.mark.parametrize("name", ["g.yaml", "g.yml.gz", "g.jsonl", "g.qrels", "g.qrels.gz"])
def test_a_golden_set_comes_back_from_the_ending_s_format(name, tmp_path):
    found = rs.load_golden(GOLDEN.save(tmp_path / name))
    assert found.targets[["query_id", "doc_id", "grade"]].values.tolist() == [
        ["q1", "a", 1],
        ["q2", "b", 1],
    ]


@pytest.mark.large
@pytest.mark.parametrize("name", ["trec", "json_run", "per_query"])
def test_results_come_back_from_a_format_that_is_named(name, tmp_path):
    path = RESULTS.save(
        tmp_path / ("bm25.json" if name == "json_run" else "bm25.jsonl"), format=name
    )
    assert rs.load_results(path, format=name).hits["doc_id"].tolist() == ["a", "c", "b"]


@pytest.mark.large
@pytest.mark.parametrize("name", ["golden", "trec_qrels", "json_qrels", "qrels_jsonl", "beir"])
def test_a_golden_set_comes_back_from_a_format_that_is_named(name, tmp_path):
    path = GOLDEN.save(tmp_path / ("folder" if name == "beir" else "x.jsonl"), format=name)
    assert rs.load_golden(path, format=name).targets["doc_id"].tolist() == ["a", "b"]


def test_every_writer_takes_the_data_and_then_the_path():
    for one in (*FORMATS["results"], *FORMATS["golden"]):
        if one.write is not None:
            parameters = inspect.signature(function_at(one.write)).parameters
            assert next(iter(parameters)) in ("results", "golden")


def test_what_cannot_be_written_says_what_can(tmp_path):
    with refused("out.dat", "format=", "per_query", ".jsonl"):
        RESULTS.save("out.dat")
    with refused("trec_qrel", "trec_qrels", field="format"):
        GOLDEN.save("out", format="trec_qrel")
    with refused("lvl='doc'", "trec", "level"):
        RESULTS.save("out.trec", lvl="doc")
    with refused("int", field="path"):
        RESULTS.save(3)


FULL = replace(
    RESULTS,
    runs=pd.DataFrame(
        {"run_id": ["bm25"], "system": "s", "k": 5, "golden_hash": "g", "chunker_version": "c",
         "config": '{"a": 1}'}
    ),
    responses=RESULTS.responses.assign(query=["one?", "two?"], answer="yes"),
    hits=RESULTS.hits.assign(chunk_id=["a#1", "c#1", "b#1"], text="t", path="p", heading="h"),
    citations=pd.DataFrame(
        {"run_id": "bm25", "query_id": ["q1", "q1"], "position": [1, 2], "doc_id": ["a", "c"]}
    ),
)  # fmt: skip


@pytest.mark.large
def test_a_run_file_alone_loses_what_describes_the_run_and_says_so(tmp_path):
    described = ("run_id", "system", "k", "golden_hash", "chunker_version", "config", "runs", 1)
    with warned("a.jsonl", *described):
        FULL.save(tmp_path / "a.jsonl")
    for name in ("folder", "per_query.jsonl", "per_query.jsonl.gz"):  # run.json is beside these
        path = FULL.save(tmp_path / name.partition(".")[2] / name, format="per_query")
        assert path.is_file() and left_out(FULL, rs.load_results(path)) == {}


def test_retrievers_answers_citations_and_documents_are_counted(tmp_path):
    counted = ("answer", "responses", 2, "citations", "doc_id", "hits", 3)
    with warned("r.jsonl", *counted):
        FULL.save(tmp_path / "r.jsonl", format="retrievers")


def test_a_chatbot_s_documents_are_counted(tmp_path):
    with warned("doc_id", "hits", 3):
        FULL.save(tmp_path / "bm25", format="chatbot")
    with warned("g.jsonl", "targets", 2):
        GOLDEN.save(tmp_path / "g.jsonl", format="chatbot")


@pytest.mark.parametrize("one", FORMATS["results"], ids=lambda one: one.name)
def test_every_writer_names_each_column_that_does_not_come_back(one, tmp_path):
    if one.write is None or one.name == "metric_report":  # which holds reported values alone
        pytest.skip("no writer of hits")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = FULL.save(tmp_path / "out.jsonl", format=one.name)
    told = " ".join(str(one.message) for one in caught)
    found = rs.load_results(path, format=one.name)
    for kind in ("runs", "responses", "hits"):
        before, after = getattr(FULL, kind), getattr(found, kind)
        values = after.stack().astype("str").tolist()
        for column in before.columns.difference(["run_id", "query_id", "rank"]):
            is_kept = set(before[column].dropna().astype("str")) <= set(values)
            assert is_kept or column in told, (kind, column)
    assert len(found.citations) == len(FULL.citations) or "citations: 2" in told


def test_a_writer_of_others_is_checked_too(monkeypatch, tmp_path):
    monkeypatch.setattr(registry, "_registered", {})

    def write(results, path):
        pd.DataFrame({"q": results.responses["query_id"]}).to_csv(path, index=False)
        return path

    def read(path):
        for line, query_id in enumerate(pd.read_csv(path)["q"], 2):
            yield rs.io.Record(line, query_id=query_id, response={"query": "?"}, hits=[])

    rs.io.register(rs.io.Format("only_ids", lambda seen: 0, read, write))
    with warned("out.csv", "answer", "responses", 2, "hits", 3, "citations"):
        FULL.save(tmp_path / "out.csv", format="only_ids")
