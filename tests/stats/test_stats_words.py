"""The words of a comparison, and the similarity of vectors."""

import numpy as np
import pytest

from ragscore.stats.similarity import cosine_matrix
from ragscore.stats.verdicts import UNSURE, joint_word, overall_word, words

OPPOSITE = {"better": "worse", "worse": "better", UNSURE: UNSURE}


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.1, 0.3, "better"),
        (-0.3, -0.1, "worse"),
        (-0.1, 0.1, UNSURE),
        (0.0, 0.2, UNSURE),
        (np.nan, np.nan, UNSURE),
    ],
)
def test_an_interval_that_leaves_out_0_has_a_word(low, high, word):
    assert words([low], [high]).tolist() == [word]
    assert words([low], [high], [True]).tolist() == [OPPOSITE[word]]


@pytest.mark.parametrize(
    ("first", "second", "gains", "word"),
    [
        ("better", UNSURE, (0.1, 0.0), "better"),
        ("better", "better", (0.1, 0.1), "better"),
        ("better", UNSURE, (0.1, -0.01), UNSURE),
        ("worse", UNSURE, (-0.1, -0.1), "worse"),
        ("worse", UNSURE, (-0.1, 0.01), UNSURE),
        ("better", "worse", (0.1, -0.1), UNSURE),
        (UNSURE, UNSURE, (0.1, 0.1), UNSURE),
        ("better", UNSURE, (0.1, -1e-17), "better"),
    ],
)
def test_of_a_pair_one_must_have_moved_and_the_other_not_back(first, second, gains, word):
    found, why = joint_word({"x": first, "y": second}, {"x": gains[0], "y": gains[1]})
    turned, _ = joint_word(
        {"x": OPPOSITE[first], "y": OPPOSITE[second]}, {"x": -gains[0], "y": -gains[1]}
    )
    assert (found, turned) == (word, OPPOSITE[word])
    assert ("a trade?" in why) == (word == UNSURE and first != UNSURE)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (["better", UNSURE], "better"),
        (["better", "worse", UNSURE], "mixed"),
        ([UNSURE], UNSURE),
        ([], UNSURE),
    ],
)
def test_over_aspects_the_word_is_that_of_some_and_mixed_of_both(given, word):
    assert overall_word(given) == word


@pytest.mark.parametrize(
    ("a", "b", "value"),
    [
        ([1, 0], [0, 1], 0),
        ([1, 2], [2, 4], 1),
        ([1, 0], [1, 0, 0], 0),
        ([0, 0], [1, 0], 0),
        ([], [], 0),
        ([1, 0], [-2, 0], -1),
    ],
)
def test_cosine(a, b, value):
    assert cosine_matrix(np.array([a], float), np.array([b], float)) == pytest.approx(value)
