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


@pytest.mark.slow
def test_bm25_finds_and_answers_as_in_the_committed_run(tmp_path):
    committed = rs.load_results(DATA / "runs" / "bm25")
    recorded, here = committed.runs["chunker_version"].iloc[0], chunker_version()
    if recorded != here:
        pytest.skip(f"the committed run is of {recorded}, here is {here}")
    system, golden, out = demo_system("bm25", tmp_path), DATA / "golden.yaml", tmp_path / "run"
    results = rs.collect(system, golden, out, sample=25, workers=2, progress=False)
    asked = results.responses["query_id"].tolist()
    before = committed.select("bm25", asked)
    for kind, columns in SAME.items():
        expected = getattr(before, kind)[columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(getattr(results, kind)[columns], expected)
    assert len(asked) == 25 and results.hits["text"].notna().all()
    both = rs.Results.concat([results, before])
    changed = config_diff(both, *both.runs["run_id"])["key"]
    assert set(changed) == {"system.kind", "system.retriever", "with_answer", "retriever"}
    assert json.loads(before.runs["config"].iloc[0])["answerer"]["refuse_below"] == REFUSE_BELOW


def test_another_name_is_refused(tmp_path):
    with refused("bm26", "bm25", "dense", "hybrid", "hybrid_rerank", field="system"):
        demo_system("bm26", tmp_path)
