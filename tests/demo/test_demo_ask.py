"""The demo's systems asked by the collector find what the committed runs found."""

import json
from pathlib import Path

import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.comparison.invariants import config_diff
from ragscore.demo.ask import REFUSE_BELOW, demo_system
from ragscore.demo.corpus import chunker_version
from tests.messages import refused

DATA = Path(__file__).parents[2] / "data" / "demo"


@pytest.fixture(scope="module")
def committed():
    run = rs.load_results(DATA / "runs" / "bm25")
    if run.runs["chunker_version"].iloc[0] != chunker_version():
        pytest.skip(
            f"the committed run is of {run.runs['chunker_version'].iloc[0]}, here is"
            f" {chunker_version()}"
        )
    return run


@pytest.mark.slow
def test_bm25_finds_and_answers_as_in_the_committed_run(committed, tmp_path):
    results = rs.collect(
        demo_system("bm25", tmp_path / "cache"),
        DATA / "golden.yaml",
        tmp_path / "run",
        sample=25,
        workers=2,
        progress=False,
    )
    asked = results.responses["query_id"].tolist()
    before = committed.select(committed.runs["run_id"].iloc[0], asked)
    columns = [
        "query_id",
        "rank",
        "chunk_id",
        "doc_id",
        "path",
        "heading",
        "start",
        "end",
        "span_unit",
        "score",
        "score_kind",
    ]
    pd.testing.assert_frame_equal(
        results.hits[columns], before.hits[columns].reset_index(drop=True)
    )
    answers = [
        "query_id",
        "mode",
        "answer",
        "grounded",
        "refused",
        "refusal_reason",
        "x_familiarity",
    ]
    pd.testing.assert_frame_equal(
        results.responses[answers], before.responses[answers].reset_index(drop=True)
    )
    cited = ["query_id", "position", "marker", "chunk_id", "path", "start", "end"]
    pd.testing.assert_frame_equal(
        results.citations[cited], before.citations[cited].reset_index(drop=True)
    )
    assert len(asked) == 25 and results.hits["text"].notna().all()
    keys = config_diff(
        rs.Results.concat([results, before]),
        *(run.runs["run_id"].iloc[0] for run in (results, before)),
    )["key"].tolist()
    assert set(keys) == {"system.kind", "system.retriever", "with_answer", "retriever"}
    assert json.loads(before.runs["config"].iloc[0])["answerer"]["refuse_below"] == REFUSE_BELOW


@pytest.mark.slow
def test_retrieval_only_gives_no_answer(tmp_path):
    results = rs.collect(
        demo_system("bm25", tmp_path / "cache"),
        DATA / "golden.yaml",
        tmp_path / "run",
        k=3,
        limit=2,
        retrieval_only=True,
        progress=False,
    )
    assert "answer" not in results.responses and results.hits.groupby(
        "query_id"
    ).size().tolist() == [3, 3]


def test_another_name_is_refused(tmp_path):
    with refused("bm26", "bm25", "dense", "hybrid", "hybrid_rerank", field="system"):
        demo_system("bm26", tmp_path)
