"""The demo's systems asked by the collector find what the committed runs found."""

import json
from pathlib import Path

import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.comparison.invariants import config_diff
from tests.demo.built import build
from tests.messages import refused

DATA = Path(__file__).parents[2] / "data" / "demo"
SAME = {
    "hits": [
        "query_id", "rank", "chunk_id", "doc_id", "path", "heading", "start", "end", "span_unit",
        "score", "score_kind",
    ],
    "responses": [
        "query_id", "mode", "answer", "grounded", "refused", "refusal_reason", "x_familiarity",
    ],
    "citations": ["query_id", "position", "marker", "chunk_id", "path", "start", "end"],
}  # fmt: skip

TEXTS = {
    "pandas.merge": "join two tables on a shared key",
    "pandas.concat": "put tables under each other",
    "pandas.DataFrame.sort_values": "sort rows of a table",
    "numpy.sort": "sort an array",
    "numpy.mean": "average of an array along an axis",
}


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    """One of the demo's systems over passages of our own, without the manuals."""
    chunks = [
        {
            "chunk_id": f"{name}#lead", "doc_id": name, "path": name, "heading": "lead", "start": 1,
            "end": 3, "span_unit": "line", "text": f"{name}: {text}",
            "doc_type": name.split(".")[0],
        }
        for name, text in TEXTS.items()
    ]  # fmt: skip
    index = build.Index(pd.DataFrame(chunks), tmp_path_factory.mktemp("cache"))
    return build.systems_over(index, "v7", ["bm25"])["bm25"]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"filters": {"doc_type": "numpy"}}, {"numpy.sort", "numpy.mean"}),
        (
            {"filters": {"doc_id": ["numpy.sort", "pandas.concat"], "doc_type": "numpy"}},
            {"numpy.sort"},
        ),
        # and not the pandas.D of another name
        ({"folders": ["pandas.DataFrame"]}, {"pandas.DataFrame.sort_values"}),
        ({"folders": ["nothing"]}, set()),
        ({"folders": [], "filters": None}, {*TEXTS}),
        ({}, {*TEXTS}),
    ],
)
def test_filters_and_folders_leave_only_what_they_name(system, asked, expected):
    reply = system.ask({"query": "sort an array or a table", "k": 8, **asked}, None)
    assert {hit["doc_id"] for hit in reply["hits"]} == expected


def test_a_filter_of_an_unknown_field_is_refused(system):
    with refused("year", "doc_type", field="filters"):
        system.ask({"query": "sort", "k": 8, "filters": {"year": 2024}}, None)


def test_an_answer_comes_on_request_and_may_be_a_refusal(system):
    asked = {"query": "sourdough bakery"}
    assert system.ask(asked, None)["refused"]
    assert "answer" not in system.ask(asked | {"with_answer": False}, None)


@pytest.mark.slow
def test_bm25_finds_and_answers_as_in_the_committed_run(tmp_path):
    committed = rs.load_results(DATA / "runs" / "bm25")
    recorded, here = committed.runs["chunker_version"].iloc[0], build.chunker_version()
    if recorded != here:
        pytest.skip(f"the committed run is of {recorded}, here is {here}")
    system, golden = build.demo_system("bm25", tmp_path), rs.load_golden(DATA / "golden.yaml")
    some = golden.select(golden.queries["query_id"].sample(25, random_state=0))
    results = rs.collect(system, some, tmp_path / "run", workers=2, progress=False)
    before = committed.select("bm25", results.responses["query_id"].tolist())
    for kind, columns in SAME.items():
        expected = getattr(before, kind)[columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(getattr(results, kind)[columns], expected)
    assert len(results.responses) == 25 and results.hits["text"].notna().all()
    both = rs.Results.concat([results, before])
    changed = config_diff(both, *both.runs["run_id"])["key"]
    assert set(changed) == {"system.kind", "system.retriever", "with_answer", "retriever"}
    config = json.loads(before.runs["config"].iloc[0])
    assert config["answerer"]["refuse_below"] == build.REFUSE_BELOW


def test_another_name_is_refused(tmp_path):
    with refused("bm26", "bm25", "dense", "hybrid", "hybrid_rerank", field="system"):
        build.demo_system("bm26", tmp_path)
