"""Intervals of paired differences: what they must never do."""

import numpy as np
import pytest
from scipy import stats

from ragscore.stats import paired_interval


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
