"""Intervals against scipy's."""

import numpy as np
import pytest
from scipy import stats

from ragscore.stats import mean_interval, median_interval, paired_interval, t_interval, wilson_interval


@pytest.mark.parametrize(("k", "n"), [(0, 1), (0, 20), (1, 20), (10, 20), (45, 50), (50, 50), (499, 500)])
def test_wilson_agrees_with_scipy(k, n):
    low, high = wilson_interval(np.array([k / n]), np.array([float(n)]))
    expected = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_t_agrees_with_scipy():
    values = np.random.default_rng(0).random(30)
    low, high = t_interval(*(np.array([one]) for one in (values.mean(), values.std(ddof=1), 30.0)))
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize("interval", [mean_interval, paired_interval])
@pytest.mark.parametrize("kind", ["binary", "bounded"])
def test_equal_values_are_not_certainty(interval, kind):
    low, high = interval(np.array([0.0]), np.array([0.0]), np.array([50.0]), kind)
    assert high[0] - low[0] > 0.05


def test_bounded_intervals_stay_inside_their_range():
    low, high = mean_interval(np.array([0.95]), np.array([0.3]), np.array([10.0]), "bounded")
    assert high[0] == 1 and 0 <= low[0] < 0.95
    low, high = paired_interval(np.array([0.5]), np.array([1.0]), np.array([3.0]), "bounded")
    assert (low[0], high[0]) == (-1, 1)


def test_no_value_has_no_interval():
    for kind in ("binary", "bounded", "time"):
        low, high = mean_interval(np.array([np.nan]), np.array([np.nan]), np.array([0.0]), kind)
        assert np.isnan(low[0]) and np.isnan(high[0])


@pytest.mark.parametrize("n", [6, 7, 20, 101])
def test_the_median_interval_agrees_with_scipy(n):
    values = np.random.default_rng(n).lognormal(size=n)
    expected = stats.quantile_test(values, p=0.5).confidence_interval(0.95)
    assert median_interval(values) == (expected.low, expected.high)


def test_too_few_values_have_no_median_interval():
    assert np.isnan(median_interval(np.arange(5.0))).all() and np.isnan(median_interval(np.array([]))).all()
    assert median_interval(np.array([1, 2, 3, 4, 5, 6, np.nan])) == (1, 6)  # 2 (1/2)^6 = .03
