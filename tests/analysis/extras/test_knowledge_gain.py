"""SEEDS F.5.15-16: knowledge gain, candidate documents, novelty."""

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from ragscore.analysis.extras import gains
from tests.messages import refused


def scores(a, b):
    """Scores of runs a and b: each a mapping of metric to values, one per query."""
    parts = [
        pd.DataFrame({"query_id": [f"q{n}" for n in range(1, 4)][: len(next(iter(own.values())))],
                      "run_id": run, "state": "scored", "level": "doc", **own})
        for run, own in (("a", a), ("b", b))
    ]  # fmt: skip
    return pd.concat(parts).set_index("query_id")


BETTER = scores(
    {"recall@5": [0.25, 0.25], "mrr": [0.0, 0.0]}, {"recall@5": [0.5, 1.0], "mrr": [1.0, 1.0]}
)


# a metric that should be low gains by falling
FLAGS = scores({"answered_unanswerable": [1.0]}, {"answered_unanswerable": [0.0]})


@pytest.mark.parametrize(
    ("of", "sides", "weights", "score", "total", "n"),
    [
        (BETTER, "ab", None, 0.75, 2, 2),
        (BETTER, "ba", None, -0.75, 2, 2),  # a worse run gains less than nothing
        (BETTER, "ab", {"recall@5": 2.0, "mrr": 0.0}, 0.5, 2, 2),
        # weights that are none count as 0
        *((BETTER, "ab", {"mrr": weight}, 0, 0, 0) for weight in (0.0, -1.0, np.nan, np.inf)),
        (FLAGS, "ab", None, 1, 1, 1),
    ],
    ids=range(8),
)
def test_gain_is_the_weighted_mean_of_the_differences(of, sides, weights, score, total, n):
    found = rs.extras.knowledge_gain(of, *sides, weights)
    assert (found.score, found.total_weight, len(found.per_query)) == (score, total, n)


def test_gains_of_queries_use_the_metrics_that_both_runs_have():
    of = scores(
        {"recall@5": [0, 0.5, 0.5], "mrr": [0, 0, np.nan]},
        {"recall@5": [0.5, 0, 0.25], "mrr": [1, 0.5, 1]},
    )
    gain = rs.extras.knowledge_gain(of, "a", "b", {"recall@5": 1, "mrr": 3})
    assert gain.per_query.values.tolist() == [["q1", 0.875, 2], ["q2", 0.25, 2], ["q3", -0.25, 1]]
    assert gain.metrics["n"].tolist() == [3, 2]


def test_candidate_documents_by_gain_and_novelty():
    golden = rs.load_golden({"q1": {"d1": 2}, "q2": {"d2": 1}})
    per_query = pd.DataFrame({"query_id": ["q1", "q2"], "gain": [1.0, 0.25]})
    novelty = {"d1": 0.2, "d2": 1.0, "d3": 0.1}
    rows = gains.candidate_documents(per_query, golden, novelty, novelty_weight=0.5)
    assert rows["doc_id"].tolist() == ["d1", "d2", "d3"]
    assert rows["score"].tolist() == pytest.approx([2.1, 0.75, 0.05])
    alone = gains.candidate_documents(per_query, golden, {"d2": 7.0})
    assert alone["score"].tolist() == [2, 0.25]


@pytest.mark.parametrize(
    ("candidate", "weights", "field", "named"),
    [("c", None, "run", ["c", "a, b"]), ("b", {"recall@7": 1}, "weights", ["recall@7"])],
)
def test_a_run_or_metric_that_is_not_there_is_named(candidate, weights, field, named):
    with refused(*named, field=field):
        rs.extras.knowledge_gain(BETTER, "a", candidate, weights)


KNOWN = [[1.0, 0.0]]


@pytest.mark.parametrize(
    ("chunks", "per_chunk", "all_pairs"),
    [
        ([[0.6, 0.8]], 0.4, 0.4), ([[1, 0], [0, 1]], 0.5, 0), ([[-1, 0]], 1, 2),
        ([[0.6, 0.8], [0, 1]], 0.7, 0.4), ([], 0, 0), (np.zeros((0, 2)), 0, 0),
    ],
    ids=str,
)  # fmt: skip
def test_novelty_of_chunks(chunks, per_chunk, all_pairs):
    assert gains.novelty_per_chunk(chunks, KNOWN) == pytest.approx(per_chunk)
    assert gains.novelty_all_pairs(chunks, KNOWN) == pytest.approx(all_pairs)
    for novelty in (gains.novelty_per_chunk, gains.novelty_all_pairs):
        assert (novelty(KNOWN, []), novelty([], [])) == (1, 0), "nothing is known"


def test_texts_are_embedded_by_the_function_given():
    def embed(texts):
        return [[text.count("a"), text.count("b")] for text in texts]

    assert gains.novelty_per_chunk(["aa", "bb"], ["a"], embed) == 0.5
    with refused(field="embed"):
        gains.novelty_per_chunk(["aa"], ["a"])
    with refused("(1, 1)", field="embeddings"):
        gains.novelty_per_chunk(["aa", "b"], ["a"], lambda texts: [[1.0]])


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
    assert gains.lexical_novelty(candidate, known) == pytest.approx(value)
