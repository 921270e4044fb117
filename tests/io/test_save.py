"""`results.save` and `golden.save`: the format by the path's ending or by name."""

import warnings
from dataclasses import replace

import pandas as pd
import pytest

import ragscore as rs
from ragscore.io.registry import FORMATS
from tests.messages import ANY, refused, warned

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
    ("name", "format"),
    [
        ("run.trec", None),
        ("run.run", None),
        ("bm25.jsonl.gz", None),
        ("bm25.jsonl", "trec"),
    ],
)
def test_results_come_back_from_the_format_of_the_ending_or_name(name, format, tmp_path):
    path = RESULTS.save(tmp_path / name, format=format)
    assert path == tmp_path / name and path.is_file()
    assert rs.load_results(path, format=format).hits[
        ["query_id", "doc_id", "rank"]
    ].values.tolist() == [["q1", "a", 1], ["q1", "c", 2], ["q2", "b", 1]]


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("g.yml.gz", None),
        ("g.jsonl", None),
        ("g.qrels", None),
        ("x.jsonl", "qrels_jsonl"),
        ("folder", "beir"),
    ],
)
def test_a_golden_set_comes_back_from_the_format_of_the_ending_or_name(name, format, tmp_path):
    found = rs.load_golden(GOLDEN.save(tmp_path / name, format=format), format=format)
    assert found.targets[["query_id", "doc_id", "grade"]].values.tolist() == [
        ["q1", "a", 1],
        ["q2", "b", 1],
    ]


@pytest.mark.parametrize(
    ("held", "path", "options", "field", "named"),
    [
        (RESULTS, "out.dat", {}, ANY, ["out.dat", "format=", "per_query", ".jsonl"]),
        (GOLDEN, "out", {"format": "trec_qrel"}, "format", ["trec_qrel", "trec_qrels"]),
        (RESULTS, "out.trec", {"lvl": "doc"}, ANY, ["lvl='doc'", "trec", "level"]),
        (RESULTS, 3, {}, "path", ["int"]),
    ],
)
def test_what_cannot_be_written_says_what_can(held, path, options, field, named):
    with refused(*named, field=field):
        held.save(path, **options)


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


def test_a_run_file_alone_loses_what_describes_the_run_and_says_so(tmp_path):
    described = ("run_id", "system", "k", "golden_hash", "chunker_version", "config")
    with warned("a.jsonl", "run.json", *described):
        FULL.save(tmp_path / "a.jsonl")
    for name in ("folder", "per_query.jsonl", "per_query.jsonl.gz"):  # run.json is beside these
        path = FULL.save(tmp_path / name.partition(".")[2] / name, format="per_query")
        found = rs.load_results(path)
        for kind in ("runs", "responses", "hits", "citations"):
            expected = getattr(FULL, kind).drop(columns="run_id").astype("str")
            again = getattr(found, kind)[expected.columns].astype("str")
            pd.testing.assert_frame_equal(again, expected)


WRITERS = [one for one in FORMATS["results"] if one.write]


@pytest.mark.parametrize("one", WRITERS, ids=lambda one: one.name)
def test_every_writer_names_each_column_that_does_not_come_back(one, tmp_path):
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
