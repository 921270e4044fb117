"""Files as people have them: JSON lines of any name, answers in lists."""

import json

import pandas as pd
import pytest
from plausible_runs import put

import ragscore as rs
from tests.messages import refused


@pytest.mark.parametrize(("load", "third"), [(rs.load_results, "rank"), (rs.load_golden, "grade")])
def test_a_file_without_a_header_is_refused_until_pandas_names_its_columns(tmp_path, load, third):
    file = put(tmp_path, ["q1\td1\t1\tx\ty", "q2\td2\t1\tx\ty"], "run.tsv")
    with refused("q1", "d1", file="run.tsv", field="format"):
        load(file)
    load(pd.read_csv(file, sep="\t", names=["query_id", "doc_id", third, "a", "b"]))
    frame = pd.read_csv(file, sep="\t", header=None)
    load(frame, columns={"query_id": 0, "doc_id": 1})


def test_json_lines_in_a_file_named_json_are_read_as_such(tmp_path):
    run = [{"query_id": one, "query": "?", "hits_top_k": []} for one in ("q1", "q2")]
    found = rs.load_results(put(tmp_path, run, "run.json"))
    assert found.responses["query_id"].tolist() == ["q1", "q2"]
    rows = [{"query": text, "answerable": True} for text in ("one?", "two?")]
    golden = rs.load_golden(put(tmp_path, rows, "golden.json"))
    assert golden.queries["query"].tolist() == ["one?", "two?"]


LABEL = {"query_id": "q1", "query": "?", "expected_doc_ids": ["a"]}


@pytest.mark.parametrize(("name", "start"), [("golden.jsonl", ""), ("golden.yaml", "- ")])
def test_a_golden_file_may_call_its_ids_query_id_but_is_no_run(tmp_path, name, start):
    file = put(tmp_path, [start + json.dumps(LABEL)], name)
    golden = rs.load_golden(file)
    assert golden.targets[["query_id", "doc_id"]].values.tolist() == [["q1", "a"]]
    assert "x_query_id" not in golden.queries
    if name == "golden.jsonl":
        with refused("expected_doc_ids", file=name, field="format"):
            rs.load_results(file)


def test_results_and_golden_set_the_other_way_round_are_told_so():
    golden, results = rs.load_golden({"q": ["a"]}), rs.load_results({"q": ["a"]})
    with refused("Results", field="source"):
        rs.evaluate(golden, results)
    with refused("Golden", field="source"):
        rs.load_results(golden)


@pytest.mark.parametrize("path", [None, "hits", "hits.hits._id"])
def test_the_hits_of_a_response_of_elasticsearch_are_those_inside_its_hits(path):
    found = [{"_id": "a", "_score": 2.0}, {"_id": "b", "_score": 1.0}]
    response = {"query": "?", "hits": {"total": {"value": 2}, "hits": found}}
    results = rs.load_results([response], columns=path and {"doc_id": path})
    assert results.hits["doc_id"].tolist() == ["a", "b"]
