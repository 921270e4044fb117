"""Intervals of paired differences: what they must never do; medians."""

import numpy as np
import pytest
from scipy import stats

from ragscore.stats import paired_interval
from ragscore.stats.quantiles import median_difference_interval, moves_of_median


@pytest.mark.parametrize("kind", ["binary", "bounded"])
@pytest.mark.parametrize("groups", [None, np.arange(30) // 3])
@pytest.mark.parametrize("value", [-1.0, -0.3, 0.0])
def test_equal_differences_have_a_width(kind, groups, value):
    low, high = paired_interval(np.full(30, value), kind, groups=groups)
    assert high[0] - low[0] > 0.05


def test_equal_differences_of_costs_have_no_interval():
    for groups in (None, np.arange(30) // 3):
        assert np.isnan(paired_interval(np.zeros(30), "cost", groups=groups)).all()


def test_differences_stay_inside_their_width():
    low, high = paired_interval([1, 1, -0.5], "bounded")
    assert (low[0], high[0]) == (-1, 1)


def test_copies_of_a_query_add_nothing():
    # Every query three times: a design effect of 3 (but for n/(n−1)), and as many degrees of
    # freedom as queries.
    values = np.random.default_rng(0).random(40)
    low, high = paired_interval(np.repeat(values, 3), "time", groups=np.repeat(np.arange(40), 3))
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


# Medians


def test_what_each_value_adds_to_a_median_by_hand():
    # of 0 ... 15 the median is 7.5; shares .25 and .75, 1/√16 on either side, lie at 3.75 and
    # 11.25: half of the values in 7.5, a density of 1/15
    assert moves_of_median(np.arange(16.0)).tolist() == [-7.5] * 8 + [7.5] * 8


def test_the_interval_of_a_difference_of_medians_is_students_of_what_queries_add():
    first, second = np.random.default_rng(0).lognormal(size=(2, 30))
    apart = moves_of_median(second) - moves_of_median(first)
    half = stats.t.ppf(0.95, 29) * stats.sem(apart)
    delta = np.median(second) - np.median(first)
    found = median_difference_interval([*first, np.nan], [*second, 9], 0.9)
    assert found == pytest.approx((delta - half, delta + half))
    # pairs of copies know as much as one of each
    copied = median_difference_interval(
        *np.repeat([first, second], 2, axis=1), groups=np.arange(60) // 2
    )
    assert copied[1] - copied[0] > np.subtract(*median_difference_interval(first, second)[::-1]) / 2


def test_medians_of_few_queries_have_no_interval():
    first = np.arange(6.0)
    assert median_difference_interval(first, first + 2) == (2, 2)
    assert np.isnan(median_difference_interval(first[:5], first[:5])).all()
    assert np.isnan(median_difference_interval(first, first, groups=[0, 0, 1, 2, 3, 4])).all()
    assert np.isnan(median_difference_interval([], [])).all()
    # 2^−6 is more than half of 1 %
    assert np.isnan(median_difference_interval(first, first, 0.99)).all()


@pytest.mark.parametrize(("n", "size"), [(20, 1), (200, 1), (200, 5)])
def test_intervals_of_medians_hold_the_difference(n, size):
    rng, held, draws = np.random.default_rng(10), 0, 1_000
    for _ in range(draws):
        of_group = np.repeat(rng.standard_normal(n // size), size)
        shared = np.sqrt(0.5) * (of_group + rng.standard_normal(n))
        first, second = np.exp(np.sqrt(0.5) * (shared + rng.standard_normal((2, n))))
        groups = None if size == 1 else np.arange(n) // size
        low, high = median_difference_interval(first, 1.2 * second, groups=groups)
        held += low <= 0.2 <= high
    assert 0.935 <= held / draws <= 0.98
