"""`results.save` and `golden.save`: the format by the path's ending or by name."""

import inspect

import pandas as pd
import pytest

import ragscore as rs
from ragscore.io.detect import function_at
from ragscore.io.registry import FORMATS
from tests.messages import refused

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


@pytest.mark.parametrize("name", ["run.trec", "run.run", "run.trec.gz", "run.jsonl"])
def test_results_come_back_from_the_ending_s_format(name, tmp_path):
    path = RESULTS.save(tmp_path / name)
    assert path == tmp_path / name
    found = rs.load_results(path)
    assert found.hits[["query_id", "doc_id", "rank"]].values.tolist() == [
        ["q1", "a", 1],
        ["q1", "c", 2],
        ["q2", "b", 1],
    ]


@pytest.mark.parametrize("name", ["g.yaml", "g.yml.gz", "g.jsonl", "g.qrels", "g.qrels.gz"])
def test_a_golden_set_comes_back_from_the_ending_s_format(name, tmp_path):
    found = rs.load_golden(GOLDEN.save(tmp_path / name))
    assert found.targets[["query_id", "doc_id", "grade"]].values.tolist() == [
        ["q1", "a", 1],
        ["q2", "b", 1],
    ]


@pytest.mark.parametrize("name", ["trec", "json_run", "per_query"])
def test_results_come_back_from_a_format_that_is_named(name, tmp_path):
    path = RESULTS.save(tmp_path / "x.jsonl", format=name)
    assert rs.load_results(path, format=name).hits["doc_id"].tolist() == ["a", "c", "b"]


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
