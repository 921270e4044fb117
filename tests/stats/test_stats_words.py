"""The words of a comparison, what n queries can show, a caution; and the similarity of vectors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower

from ragscore.stats import minimum_detectable, queries_needed
from ragscore.stats.paired import is_heavy_tailed
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


# What n queries can show

NAN = np.nan


@pytest.mark.parametrize(
    ("error", "units", "level", "expected"),
    [
        # t.975 + t.8 with 49 and with 19 degrees of freedom: 2.0096 + .8489 and 2.0930 + .8610
        (0.25 / 50**0.5, 50, 0.05, 2.8585 * 0.25 / 50**0.5),
        (0.25 / 20**0.5, 20, 0.05, 2.9540 * 0.25 / 20**0.5),
        # of very many queries z.975 + z.8
        (1e-4, 10**8, 0.05, (1.95996 + 0.84162) / 10**4),
        # one query has no spread, and five signs have p = 2 / 32 at least; nothing differed
        (0.1, 1, 0.05, NAN),
        (0.1, 5, 0.05, NAN),
        (0.1, 7, 0.01, NAN),
        (0.0, 50, 0.05, NAN),
    ],
)
def test_the_minimum_detectable_difference_is_so_many_standard_errors(
    error, units, level, expected
):
    assert minimum_detectable(error, units, level) == pytest.approx(expected, rel=1e-4, nan_ok=True)


@pytest.mark.parametrize(("difference", "std"), [(0.05, 0.3), (0.1, 0.2), (0.02, 0.45)])
def test_about_so_many_queries_detect_the_difference(difference, std):
    n = float(queries_needed(difference, std))
    test = {"effect_size": difference / std, "alpha": 0.05, "power": 0.8}
    assert abs(n - TTestPower().solve_power(nobs=None, **test)) <= 1
    assert minimum_detectable(std / n**0.5, n) == pytest.approx(difference, rel=0.02)


def test_no_number_of_queries_finds_no_difference():
    assert queries_needed([0.0, 0.05, -0.05], 0.3).tolist() == [np.inf, 285, 285]
    assert np.isnan(queries_needed([0.1, np.nan], [0.0, 0.2])).all()


# The caution

DISASTERS = np.repeat([0.05, -0.485, 0], [29, 3, 68])  # skewness −4.9: 25 · 4.9² = 600
SOME = np.random.default_rng(0).normal(0, 100, 50)


@pytest.mark.parametrize(
    ("differences", "width", "is_flagged"),
    [
        # many small gains and a few disasters, which Cochran's rule lifts with more queries
        (DISASTERS, 1, True),
        (np.tile(DISASTERS, 5), 1, True),
        (np.tile(DISASTERS, 7), 1, False),
        # no disaster was seen: the sum of gains, .75, is less than what 3 losses of 1 take away
        (np.repeat([0.05, 0], [15, 35]), 1, True),
        # balanced, large, or 0/1
        (np.repeat([0.5, -0.5, 0.67, -0.67, 0], [6, 5, 3, 3, 33]), 1, False),
        (np.repeat([0.5, 0.9, 0], [8, 7, 35]), 1, False),
        (np.repeat([1.0, 0], [6, 44]), 1, False),
        (np.zeros(20), 1, False),
        ([np.nan], 1, False),
        # a metric without bounds takes the largest difference for its width
        (np.repeat([10.0, 0], [2, 48]), np.nan, True),
        (np.repeat([1.0, 900, 0], [10, 1, 40]), np.inf, True),
        (SOME, np.inf, False),
    ],
)
def test_many_small_gains_and_a_few_disasters_get_a_caution(differences, width, is_flagged):
    assert is_heavy_tailed(differences, width).tolist() == [is_flagged]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_the_caution_is_the_same_for_both_orders_of_the_runs(differences):
    assert is_heavy_tailed(differences)[0] == is_heavy_tailed(np.negative(differences))[0]
