"""SEEDS F.5.15-16: knowledge gain, candidate documents, novelty."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused


def scores_of(a, b):
    """Scores of two runs: each a mapping of metric to values, one per query."""
    parts = []
    for name, columns in (("a", a), ("b", b)):
        ids = [f"q{n}" for n in range(1, len(next(iter(columns.values()))) + 1)]
        parts.append(
            pd.DataFrame(
                {"run_id": name, "state": "scored", "level": "doc", **columns},
                index=pd.Index(ids, name="query_id"),
            )
        )
    return pd.concat(parts)


BETTER = scores_of(
    {"recall@5": [0.25, 0.25], "mrr": [0.0, 0.0]}, {"recall@5": [0.5, 1.0], "mrr": [1.0, 1.0]}
)


def test_gain_is_the_weighted_mean_of_the_differences():
    gain = rs.extras.knowledge_gain.knowledge_gain
    found = gain(BETTER, "a", "b")
    assert (found.score, found.total_weight) == (0.75, 2)
    weighted = gain(BETTER, "a", "b", {"recall@5": 2.0, "mrr": 0.0})
    assert (weighted.score, weighted.total_weight) == (0.5, 2)
    assert weighted.metrics["metric"].tolist() == ["recall@5"]
    assert gain(BETTER, "b", "a").score == -0.75, "a worse run gains less than nothing"


@pytest.mark.parametrize("weight", [0.0, -1.0, np.nan, np.inf])
def test_weights_that_are_none_count_as_0(weight):
    gain = rs.extras.knowledge_gain.knowledge_gain(BETTER, "a", "b", {"mrr": weight})
    assert (gain.score, gain.total_weight, len(gain.per_query)) == (0, 0, 0)


def test_a_metric_that_should_be_low_gains_by_falling():
    scores = scores_of({"answered_unanswerable": [1.0]}, {"answered_unanswerable": [0.0]})
    assert rs.extras.knowledge_gain.knowledge_gain(scores, "a", "b").score == 1


def test_gains_of_queries_use_the_metrics_that_both_runs_have():
    scores = scores_of(
        {"recall@5": [0, 0.5, 0.5], "mrr": [0, 0, np.nan]},
        {"recall@5": [0.5, 0, 0.25], "mrr": [1, 0.5, 1]},
    )
    gain = rs.extras.knowledge_gain.knowledge_gain(scores, "a", "b", {"recall@5": 1, "mrr": 3})
    assert gain.per_query.values.tolist() == [["q1", 0.875, 2], ["q2", 0.25, 2], ["q3", -0.25, 1]]
    assert gain.metrics["n"].tolist() == [3, 2]


def test_candidate_documents_by_gain_and_novelty(write_golden):
    golden = rs.load_golden(write_golden([
        {"id": "q1", "query": "?", "expected_doc_ids": {"d1": 2}},
        {"id": "q2", "query": "?", "expected_doc_ids": {"d2": 1}},
    ]))  # fmt: skip
    per_query = pd.DataFrame({"query_id": ["q1", "q2"], "gain": [1.0, 0.25]})
    rows = rs.extras.knowledge_gain.candidate_documents(
        per_query, golden, {"d1": 0.2, "d2": 1.0, "d3": 0.1}, novelty_weight=0.5
    )
    assert rows["doc_id"].tolist() == ["d1", "d2", "d3"]
    assert rows["score"].tolist() == pytest.approx([2.1, 0.75, 0.05])
    assert rs.extras.knowledge_gain.candidate_documents(per_query, golden, {"d2": 7.0})[
        "score"
    ].tolist() == [2, 0.25]


def test_a_run_or_metric_that_is_not_there_is_named():
    with refused("c", "a, b", field="run"):
        rs.extras.knowledge_gain.knowledge_gain(BETTER, "a", "c")
    with refused("recall@7", field="weights"):
        rs.extras.knowledge_gain.knowledge_gain(BETTER, "a", "b", {"recall@7": 1})


KNOWN = [[1.0, 0.0]]


def test_novelty_of_chunks():
    gains = rs.extras.knowledge_gain
    assert gains.novelty_per_chunk([[0.6, 0.8]], KNOWN) == pytest.approx(0.4)
    assert gains.novelty_per_chunk([[1, 0], [0, 1]], KNOWN) == 0.5
    assert gains.novelty_per_chunk([[-1, 0]], KNOWN) == 1
    assert gains.novelty_all_pairs([[1, 0], [0, 1]], KNOWN) == 0
    assert gains.novelty_all_pairs([[0.6, 0.8], [0, 1]], KNOWN) == pytest.approx(0.4)
    assert gains.novelty_all_pairs([[-1, 0]], KNOWN) == 2


@pytest.mark.parametrize(
    "novelty",
    [rs.extras.knowledge_gain.novelty_per_chunk, rs.extras.knowledge_gain.novelty_all_pairs],
)
def test_novelty_without_chunks(novelty):
    assert (novelty([], KNOWN), novelty(KNOWN, []), novelty([], [])) == (0, 1, 0)
    assert novelty(np.zeros((0, 2)), KNOWN) == 0


def test_texts_are_embedded_by_the_function_given():
    def embed(texts):
        return [[text.count("a"), text.count("b")] for text in texts]

    assert rs.extras.knowledge_gain.novelty_per_chunk(["aa", "bb"], ["a"], embed) == 0.5
    with refused(field="embed"):
        rs.extras.knowledge_gain.novelty_per_chunk(["aa"], ["a"])
    with refused("(1, 1)", field="embeddings"):
        rs.extras.knowledge_gain.novelty_per_chunk(["aa", "b"], ["a"], lambda texts: [[1.0]])


@pytest.mark.parametrize(
    ("candidate", "known", "value"),
    [
        ("same words", "Words, same!", 0),
        ("alpha", "beta", 1),
        ("alpha gamma", "alpha beta", 2 / 3),
        ("", "", 0),
        ("", "a", 0),
        ("a", "", 1),
        ("?!", "a", 0),
    ],
)
def test_lexical_novelty(candidate, known, value):
    assert rs.extras.knowledge_gain.lexical_novelty(candidate, known) == pytest.approx(value)
