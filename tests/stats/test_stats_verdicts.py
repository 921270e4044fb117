"""The words of a comparison: an interval each, one over the pair of refusals, one over aspects."""

import numpy as np
import pytest

from ragscore.stats.verdicts import UNSURE, joint_word, overall_word, words


def test_an_interval_that_leaves_out_0_has_a_word():
    low, high = [0.1, -0.3, -0.1, 0.0, np.nan], [0.3, -0.1, 0.1, 0.2, np.nan]
    told = ["better", "worse", UNSURE, UNSURE, UNSURE]
    assert words(low, high).tolist() == told
    turned = words(low, high, [True] * 5).tolist()
    assert turned == ["worse", "better", UNSURE, UNSURE, UNSURE]


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
    opposite = {"better": "worse", "worse": "better", UNSURE: UNSURE}
    for a, b, sign in ((first, second, 1), (opposite[first], opposite[second], -1)):
        found, why = joint_word(
            {"x": a, "y": b}, {name: sign * gain for name, gain in zip("xy", gains, strict=True)}
        )
        assert found == (word if sign > 0 else opposite[word])
        assert ("a trade?" in why) == (word == UNSURE and first != UNSURE)


def test_over_aspects_the_word_is_that_of_some_and_mixed_of_both():
    assert overall_word(["better", UNSURE]) == "better"
    assert overall_word(["better", "worse", UNSURE]) == "mixed"
    assert overall_word([UNSURE]) == overall_word([]) == UNSURE
