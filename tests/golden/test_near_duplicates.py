"""Questions that nearly ask the same."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest

import ragscore as rs
from tests.messages import refused


def golden_of(*texts):
    ids = [f"q{n}" for n in range(len(texts))]
    queries = pd.DataFrame({"query_id": ids, "query": texts, "position": range(len(texts))})
    return rs.Golden(queries.assign(answerable=True))


def pairs_of(golden, similarity):
    found = golden.duplicates(similarity)
    return found[["query_id", "other", "similarity"]].to_numpy().tolist()


def test_similarity_is_shared_words_over_all_words():
    golden = golden_of(
        "How do I merge two frames?", "how do I MERGE frames", "what is the weather like"
    )
    # how do i merge frames; of these and "two"
    assert pairs_of(golden, 0.8) == [["q0", "q1", pytest.approx(5 / 6)]]
    assert pairs_of(golden, 0.9) == []


def test_all_pairs_are_found_as_by_comparing_each_with_each():
    rng = np.random.default_rng(3)
    texts = [" ".join(rng.choice(list("abcdefgh"), 5)) for _ in range(60)]
    sets = [set(re.findall(r"\w", text)) for text in texts]
    expected = {
        (f"q{a}", f"q{b}")
        for a, b in itertools.combinations(range(60), 2)
        if len(sets[a] & sets[b]) / len(sets[a] | sets[b]) >= 0.6
    }
    assert {(a, b) for a, b, _ in pairs_of(golden_of(*texts), 0.6)} == expected and len(
        expected
    ) > 20


def test_a_text_without_words_is_like_none():
    assert pairs_of(golden_of("the same", "Same, the!", "", "?"), 0.7) == [["q0", "q1", 1.0]]


def test_a_pair_says_whether_it_is_meant_and_whether_it_agrees():
    golden = rs.load_golden([
        {"id": "q0", "query": "a b c d", "expected_doc_ids": ["d1"], "group": "g"},
        {"id": "q1", "query": "a b c d e", "expected_doc_ids": ["d1"], "group": "g"},
        {"id": "q2", "query": "a b c d f", "expected_doc_ids": ["d2"]},
    ])  # fmt: skip
    found = golden.duplicates(0.8)[["query_id", "other", "same_group", "same_targets"]]
    assert sorted(found.to_numpy().tolist()) == [
        ["q0", "q1", True, True], ["q0", "q2", False, False],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("texts", "same"),
    [
        (("string to date", "date to string"), False),
        (("string to date", "String to a date?"), True),
        (("to date a string to", "to a string"), True),  # "to" first, in both
    ],
)
def test_a_pair_says_whether_its_words_come_in_the_same_order(texts, same):
    found = golden_of(*texts).duplicates(0.5)
    assert found["same_order"].tolist() == [same]


def test_scripts_without_spaces_are_compared_by_character():
    golden = golden_of("東京の天気", "京都の天気", "大阪はどこ")
    assert pairs_of(golden, 0.6) == [["q0", "q1", pytest.approx(4 / 6)]]


def test_a_similarity_out_of_range_is_refused():
    with refused(0, field="similarity"):
        golden_of("a").duplicates(0)
