"""What n queries can show, worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.power import TTestPower

from ragscore.stats import minimum_detectable, queries_needed
from ragscore.stats.paired import is_heavy_tailed

Z = 1.959963985 + 0.841621234  # z_.975 + z_.8


# The minimum detectable difference


def test_the_minimum_detectable_difference_is_so_many_standard_errors():
    # t.975 + t.8 with 49 and with 19 degrees of freedom: 2.0096 + .8489 and 2.0930 + .8610; of very
    # many queries 1.9600 + .8416
    n = np.array([50, 20])
    assert minimum_detectable(0.25 / n**0.5, n) == pytest.approx(
        [2.8585 * 0.25 / 50**0.5, 2.9540 * 0.25 / 20**0.5], abs=1e-5
    )
    assert minimum_detectable(1e-4, 10**8) == pytest.approx(Z / 10**4, rel=1e-6)


@pytest.mark.parametrize("n", [10, 50, 1000])
def test_it_is_that_of_students_test(n):
    theirs = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    assert minimum_detectable(1 / n**0.5, n) == pytest.approx(theirs, rel=0.01)


def test_where_no_test_can_reject_or_nothing_differed_none_is_known():
    # five signs have p = 2 / 32 at least
    assert np.isnan(minimum_detectable(0.1, [1, 5])).all() and minimum_detectable(0.1, 6) > 0
    assert np.isnan(minimum_detectable(0.1, 7, 0.01)) and np.isnan(minimum_detectable(0.0, 50))


@pytest.mark.parametrize(("difference", "std"), [(0.05, 0.3), (0.1, 0.2), (0.02, 0.45)])
def test_about_so_many_queries_detect_the_difference(difference, std):
    n = float(queries_needed(difference, std))
    theirs = TTestPower().solve_power(
        effect_size=difference / std, nobs=None, alpha=0.05, power=0.8
    )
    assert abs(n - theirs) <= 1
    assert minimum_detectable(std / n**0.5, n) == pytest.approx(difference, rel=0.02)


def test_no_number_of_queries_finds_no_difference():
    assert queries_needed([0.0, 0.05, -0.05], 0.3).tolist() == [np.inf, 285, 285]
    assert np.isnan(queries_needed([0.1, np.nan], [0.0, 0.2])).all()


# The caution


def test_many_small_gains_and_a_few_disasters_get_a_caution_whether_or_not_a_disaster_was_seen():
    seen = np.repeat([0.05, -0.485, 0], [29, 3, 68])
    # the sum of gains, .75, is less than what 3 losses of 1 take away
    unseen = np.repeat([0.05, 0], [15, 35])
    assert is_heavy_tailed(seen)[0] and is_heavy_tailed(unseen)[0]


def test_balanced_large_or_0_1_differences_get_none():
    balanced = np.repeat([0.5, -0.5, 0.67, -0.67, 0], [6, 5, 3, 3, 33])
    large = np.repeat([0.5, 0.9, 0], [8, 7, 35])
    passed = np.repeat([1.0, 0], [6, 44])
    assert (
        not is_heavy_tailed(balanced)[0]
        and not is_heavy_tailed(large)[0]
        and not is_heavy_tailed(passed)[0]
    )
    assert not is_heavy_tailed(np.zeros(20))[0] and not is_heavy_tailed([np.nan])[0]


def test_cochrans_rule_lifts_the_caution_with_more_queries():
    seen = np.repeat([0.05, -0.485, 0], [29, 3, 68])  # skewness −4.9: 25 · 4.9² = 600
    assert is_heavy_tailed(np.tile(seen, 5))[0] and not is_heavy_tailed(np.tile(seen, 7))[0]


def test_a_metric_without_bounds_takes_the_largest_difference_for_its_width():
    few_slower = np.repeat([10.0, 0], [2, 48])
    assert (
        is_heavy_tailed(few_slower, width=np.nan)[0]
        and is_heavy_tailed(np.repeat([1.0, 900, 0], [10, 1, 40]), width=np.inf)[0]
    )
    assert not is_heavy_tailed(np.random.default_rng(0).normal(0, 100, 50), width=np.inf)[0]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_the_caution_is_the_same_for_both_orders_of_the_runs(differences):
    assert is_heavy_tailed(differences)[0] == is_heavy_tailed(np.negative(differences))[0]
