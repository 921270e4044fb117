"""The notebooks' prose is as true as their tables: the numbers of their answers, computed again."""

import json
import re
from pathlib import Path

import pytest

import ragscore as rs

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def cells(name: str) -> list[dict]:
    return json.loads((ROOT / "notebooks" / name).read_text(encoding="utf-8"))["cells"]


def prose(name: str) -> str:
    return "\n".join("".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "markdown")


@pytest.fixture(scope="module")
def data():
    golden = rs.load_golden(ROOT / "data" / "demo" / "golden.yaml")
    return rs.load_results(ROOT / "data" / "demo" / "runs" / "*"), golden


def test_the_first_look_answers_with_true_numbers(data):
    results, golden = data
    scores, text = rs.score(results, golden), prose("01_first_look.ipynb")
    means = rs.summarize(scores, golden).set_index(["metric", "run_id"])["mean"]
    by_difficulty = rs.summarize(scores, golden, by="difficulty", metrics=["hit@5"]).set_index(["difficulty", "run_id"])["mean"]
    hit = {run: f"{means['hit@5', run]:.1%}" for run in ("bm25", "dense", "hybrid", "hybrid_rerank")}
    assert (
        f"for {hit['hybrid_rerank']} of the answerable questions, `dense` for {hit['dense']}, `hybrid` for {hit['hybrid']}, `bm25` for {hit['bm25']}." in text
    )
    assert f"`dense` leads with {by_difficulty['easy', 'dense']:.1%} against {by_difficulty['easy', 'hybrid_rerank']:.1%}" in text
    assert f"`hybrid_rerank` with {by_difficulty['hard', 'hybrid_rerank']:.1%} against {by_difficulty['hard', 'dense']:.1%}" in text
    assert f"refuses {means['refusal_correct', 'hybrid_rerank']:.1%}, and it also refuses {means['false_refusal', 'hybrid_rerank']:.1%}" in text
    assert f"the same {len(golden.queries)} questions" in text and f"{len(golden.refusals)} questions have no answer" in text
    assert f"{golden.queries['group'].nunique()} questions are asked in three ways" in text
    # "The intervals of dense, hybrid and hybrid_rerank overlap"
    bounds = rs.summarize(scores, metrics=["hit@5"]).set_index("run_id").drop("bm25")
    assert bounds["low"].max() < bounds["high"].min()


def test_the_comparison_answers_with_true_numbers(data):
    results, golden = data
    text = prose("02_compare_runs.ipynb")
    cmp = rs.compare_runs(results, golden, "dense", "hybrid")
    row = cmp.deltas.set_index("metric").loc["hit@5"]
    assert (
        f"hit@5 is {row['b']:.1%} against {row['a']:.1%}, a change of {row['delta']:+.3f} with a 95 % interval from {row['low']:+.3f} to {row['high']:+.3f}"
        in text
    )
    assert f"It won {cmp.counts['win']} questions, had {cmp.counts['loss']} at a worse rank, and lost {cmp.counts['regression']} altogether" in text
    lost = cmp.per_query.query("outcome == 'regression'")["query_id"]
    later = rs.compare_runs(results, golden, "hybrid", "hybrid_rerank").per_query.set_index("query_id").loc[lost]
    assert f"gets {later['rank_b'].notna().sum()} of the {len(lost)} back" in text
    assert {"mpl-030", "np-001", "pd-027"} <= set(lost)


def test_the_causes_are_what_the_rankings_show(data):
    results, golden = data
    hits = results.hits
    ranks = rs.compare_runs(results, golden, "dense", "hybrid").per_query.set_index("query_id")["rank_a"]
    assert ranks[["mpl-030", "np-001", "pd-027"]].tolist() == [1, 2, 3]
    fused = hits.query("query_id == 'mpl-030' and run_id == 'hybrid'")
    assert fused[["score_lexical", "score_vector"]].notna().all().all()
    assert 1 / 61 < fused["score"].min() < 1 / 61 + 1 / 160
    rounding = hits.query("query_id == 'np-001' and run_id == 'hybrid' and doc_id in ['numpy.rint', 'numpy.fix']")
    assert len(rounding) >= 2 and rounding[["score_lexical", "score_vector"]].notna().all().all()
    assert {"numpy.dstack", "numpy.lexsort"} <= set(hits.query("query_id == 'pd-027' and run_id == 'bm25'")["doc_id"])


@pytest.mark.parametrize("name", [file.name for file in NOTEBOOKS])
def test_outputs_are_committed_without_errors_paths_or_private_names(name):
    text = (ROOT / "notebooks" / name).read_text(encoding="utf-8")
    assert not re.search(r'"output_type": "error"|/tmp/|/home/|/root/', text)
    for cell in cells(name):
        assert "execution" not in cell["metadata"], "timings stay out"
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            assert cell["outputs"] or source.rstrip().endswith((")", "'")), source
            assert not re.search(r"\brs\._|import _|def ", source), source
            is_figure = any("image/png" in output.get("data", {}) for output in cell["outputs"])
            assert is_figure == ("NBVAL_IGNORE_OUTPUT" in source), "only figure cells are exempt from comparison"
