"""Scores that retrievers give: by rank, and of relevant hits beside the others."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import hit, record

import ragscore as rs
from ragscore.analysis.rankings import RELEVANCE, retriever_scores, score_distribution
from tests.messages import refused, warned

GOLDEN = [
    {"id": "q1", "query": "?", "expected_doc_ids": {"good": 2, "bad": 0}},
    {"id": "q2", "query": "?", "expected_doc_ids": ["good"]},
    {"id": "refuse", "query": "?", "answerable": False}, {"id": "open", "query": "?"},
]  # fmt: skip


def labelled(file):
    with warned("1 of 4"):
        return rs.load_golden(file)


def found(kind, *scored):
    """Hits of these documents with these scores, best first."""
    return [
        hit(f"c{rank}", doc, rank, score_kind=kind, retrieval={"fusion_score": score})
        for rank, (doc, score) in enumerate(scored, 1)
    ]


@pytest.fixture
def two(write_golden, write_run):
    """Run a with cosines, run b with BM25 scores of one query."""
    a = [
        record("q1", found("cosine", ("good", 0.9), ("bad", 0.6), ("other", 0.4))),
        record("q2", found("cosine", ("other", 0.8), ("good", 0.5))),
        record("refuse", found("cosine", ("good", 0.7))),
        record("open", found("cosine", ("good", 0.95))),
    ]  # fmt: skip
    b = [record("q1", found("bm25", ("other", 30.0), ("good", 20.0)))]
    return rs.load_results([write_run("a", a), write_run("b", b)]), labelled(write_golden(GOLDEN))


def test_each_hit_is_relevant_or_says_why_not(two):
    table = score_distribution(*two)
    of_a = table[(table["run_id"] == "a").to_numpy()].set_index("relevance")
    assert of_a["n_hits"].to_dict() == {
        "relevant": 2, "not relevant": 1, "unjudged": 2, "should be refused": 1, "unlabelled": 1
    }  # fmt: skip
    relevant = of_a.loc["relevant", ["min", "p50", "max", "n_queries"]].tolist()
    assert relevant == pytest.approx([0.5, 0.7, 0.9, 2])
    assert table["score_kind"].tolist() == ["cosine"] * 5 + ["bm25"] * 2
    assert set(table["relevance"]) <= set(RELEVANCE)


def test_above_is_the_share_of_pairs_in_which_the_relevant_hit_scores_higher(two):
    above = score_distribution(*two).set_index(["run_id", "relevance"])["above"]
    # .9 and .5 against .4 and .8: three of four pairs; against .6 and against .7: one of two;
    # against .95 none; b: 20 is below 30.
    assert above["a"].dropna().to_dict() == {
        "unjudged": 0.75, "not relevant": 0.5, "should be refused": 0.5, "unlabelled": 0
    }  # fmt: skip
    assert above["b", "unjudged"] == 0


def test_equal_scores_are_half_a_win(write_golden, write_run):
    tied = found("rrf", ("good", 0.5), ("other", 0.5))
    results = rs.load_results(write_run("a", [record("q1", tied)]))
    above = score_distribution(results, labelled(write_golden(GOLDEN)))["above"]
    assert above.dropna().tolist() == [0.5]


def test_hits_without_a_score_are_counted(two):
    results, golden = two
    hits = results.hits.assign(score=results.hits["score"].where(results.hits["doc_id"] != "bad"))
    table = score_distribution(replace(results, hits=hits), golden)
    row = table[(table["relevance"] == "not relevant").to_numpy()].iloc[0]
    assert row[["n_hits", "n_queries", "n_no_score"]].tolist() == [0, 0, 1]
    assert np.isnan(row["p50"])


def test_a_cut_text_leaves_file_and_heading_to_decide(write_golden, write_run):
    golden = rs.load_golden(
        write_golden(
            [
                {
                    "id": "q1",
                    "query": "?",
                    "gold_supports": [
                        {"path": "docs/d.md", "heading": "root", "snippets": ["deep inside"]}
                    ],
                }
            ]
        )
    )
    results = rs.load_results(write_run("a", [record("q1", found("rrf", ("d", 1.0)))]))
    cut = results.hits.assign(text="the beginning", text_cut=pd.array([True], dtype="boolean"))
    assert score_distribution(replace(results, hits=cut), golden, match="anchor")[
        "relevance"
    ].tolist() == ["relevant"]


def test_scores_by_rank_are_quartiles_over_queries(two):
    results, _ = two
    table = retriever_scores(results).set_index(["run_id", "rank"])
    # .7 .8 .9 .95
    first = table.loc[("a", 1), ["n", "p25", "p50", "p75"]].tolist()
    assert first == pytest.approx([4, 0.775, 0.85, 0.9125])
    with refused("score", field="results.hits.score"):
        retriever_scores(replace(results, hits=results.hits.drop(columns="score")))
