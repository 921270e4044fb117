"""Intervals of means and quantiles against scipy's and statsmodels', and what they never do."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.api import OLS
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from ragscore.stats import mean_interval, quantile_interval, wilson_interval
from ragscore.stats.intervals import interval_from_moments
from ragscore.stats.moments import moments, sample, skewness
from tests.messages import refused

LEVELS = st.sampled_from([0.8, 0.95, 0.99])
KINDS = pytest.mark.parametrize("kind", ["binary", "bounded", "time"])
TENTHS = np.arange(30) // 3


def width(values, kind, groups=None):
    (low,), (high,) = mean_interval(values, kind, groups=groups)
    return high - low


# Against others


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), LEVELS)
def test_wilson_agrees_with_statsmodels(passed, level):
    k, n = passed
    found = wilson_interval(np.array([k / n]), np.array([float(n)]), level)
    expected = proportion_confint(k, n, alpha=1 - level, method="wilson")
    assert np.ravel(found) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30), LEVELS)
def test_t_agrees_with_statsmodels(values, level):
    found = np.ravel(interval_from_moments(*moments(values), "time", level))
    if np.ptp(values) > 1e-9:
        expected = DescrStatsW(np.array(values)).tconfint_mean(alpha=1 - level)
        assert found == pytest.approx(expected, abs=1e-9)
    elif np.ptp(values) == 0:  # equal values are no certainty
        assert np.isnan(found).all()


@pytest.mark.parametrize("n_groups", [2, 5, 12])
def test_the_grouped_standard_error_is_statsmodels_of_a_constant(n_groups):
    rng = np.random.default_rng(n_groups)
    values, groups = rng.random(40), rng.permutation(np.arange(40) % n_groups)
    expected = OLS(values, np.ones(40)).fit(cov_type="cluster", cov_kwds={"groups": groups}).bse[0]
    # of two groups that happen to balance out, that of single queries
    found = sample(values, groups).error[0]
    assert found == pytest.approx(max(expected, values.std(ddof=1) / 40**0.5), abs=1e-9)


def test_skewness_agrees_with_scipy():
    values = np.random.default_rng(0).lognormal(size=(40, 3))
    values[:9, 1] = np.nan
    assert skewness(values) == pytest.approx(stats.skew(values, nan_policy="omit"), abs=1e-9)
    assert skewness(np.full(50, 0.7))[0] == 0 and np.isnan(skewness([np.nan])[0])


def test_the_bounded_interval_is_students_t_far_from_the_ends():
    values = 0.5 + np.random.default_rng(0).normal(0, 0.05, 200)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert np.ravel(mean_interval(values, "bounded")) == pytest.approx(tuple(expected), abs=2e-5)


# Near the ends of the range, and where values are equal


def test_a_single_value_off_the_end_of_the_range_is_hardly_more_certain_than_none():
    # 49 ones and a .99 have hardly any spread; no spread at all leaves .93 open. L = .01: 10^−.05 =
    # .89 of the variance are those of 0/1 values.
    none, one = (
        mean_interval(np.append(np.ones(49), last), "bounded")[0][0] for last in (1.0, 0.99)
    )
    assert none == pytest.approx(0.925, abs=1e-3) and one == pytest.approx(none, abs=0.01)


def test_the_spread_near_an_end_by_hand():
    # Mean .995, s² = (19·.005² + .095²)/19, L = .1, w = 10^−.5: of the variance w are .995·.005/19;
    # the rest is Wilson's form with t(19) = 2.093.
    mean, w, error = 0.995, 10**-0.5, (19 * 0.005**2 + 0.095**2) / 19 / 20
    amount = mean * 0.005 / ((1 - w) * error + w * mean * 0.005 / 19) + 1
    square = stats.t.ppf(0.975, 19) ** 2 / amount
    expected = [
        (mean + square / 2 + sign * np.sqrt(square * mean * 0.005 + square**2 / 4)) / (1 + square)
        for sign in (-1, 1)
    ]
    found = mean_interval(np.append(np.ones(19), 0.9), "bounded")
    assert np.ravel(found) == pytest.approx(expected, abs=1e-12)


@KINDS
@pytest.mark.parametrize("groups", [None, TENTHS])
@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
def test_equal_values_have_a_width_where_there_are_bounds_and_no_interval_else(kind, groups, value):
    found = width(np.full(30, value), kind, groups)
    assert np.isnan(found) if kind == "time" else found > 0.05


def test_a_million_equal_values_leave_room_for_others_as_fifty_do():
    values = np.full((1_000_000, 1), 0.7)  # summed up, their mean is .7 less 5e-12
    assert width(values, "bounded") > 1e-3 and skewness(values) == [0]
    assert np.isnan(width(values * 176, "time"))


@KINDS
def test_no_value_has_no_interval(kind):
    unknown = np.array([np.nan]), np.array([np.nan]), np.array([0.0])
    assert np.isnan(interval_from_moments(*unknown, kind)).all()
    for groups in (None, [0, 0, 1, 1]):
        assert np.isnan(mean_interval(np.full((4, 1), np.nan), kind, groups=groups)).all()


@given(st.lists(st.floats(0, 5), min_size=1, max_size=30), st.booleans())
def test_means_with_bounds_lie_inside_their_interval_and_range(values, is_grouped):
    groups, mean = np.arange(len(values)) // 2 if is_grouped else None, np.mean(values)
    (low,), (high,) = mean_interval(values, "bounded", bounds=(0, 5), groups=groups)
    assert -1e-12 <= low <= mean + 1e-9 and mean - 1e-9 <= high <= 5 + 1e-12 and low < high


@pytest.mark.parametrize("kind", ["bounded", "time"])
def test_a_column_doesnt_depend_on_the_others_and_nan_is_left_out(kind):
    values = np.random.default_rng(1).lognormal(size=(80, 3)).clip(0, 50) / 50
    values[:20, 1] = np.nan
    together = np.transpose(mean_interval(values, kind))[1]
    assert together == pytest.approx(np.ravel(mean_interval(values[20:, 1], kind)), abs=1e-12)


@pytest.mark.parametrize(
    ("values", "bounds", "named"),
    [([0.2, 4], (0, 1), ["0.2 to 4", "0 to 1"]), ([0.2], (1, 1), ["0.2", "1 to 1"])],
)
def test_a_value_outside_the_bounds_is_refused(values, bounds, named):
    with refused(*named, field="values"):
        mean_interval(values, "bounded", bounds=bounds)


# Groups


@KINDS
@pytest.mark.parametrize("groups", [np.arange(40), np.full(40, -1)])
def test_groups_of_one_change_nothing(kind, groups):
    values = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(float)
    values[:5, 1] = np.nan
    grouped, plain = mean_interval(values, kind, groups=groups), mean_interval(values, kind)
    np.testing.assert_allclose(grouped, plain, atol=1e-12)


def test_copies_of_a_query_add_nothing():
    # Every query three times: a design effect of 3 (but for n/(n−1)).
    values, groups = np.random.default_rng(0).random(40), np.repeat(np.arange(40), 3)
    of = sample(np.repeat(values, 3), groups)
    assert of.design_effect[0] == pytest.approx(3 * 40 / 39 * 119 / 120)


@KINDS
def test_groups_that_agree_widen_an_interval_and_those_that_balance_out_never_narrow_it(kind):
    passed, balanced = np.repeat([1.0, 0, 1, 1, 0, 1, 1, 1, 0, 1], 5), np.tile([0.0, 1], 10)
    assert width(passed, kind, np.arange(50) // 5) > 2 * width(passed, kind)
    assert width(balanced, kind, np.arange(20) // 2) >= width(balanced, kind)  # each pair's mean .5


# Quantiles


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("n", [1, 5, 6, 71, 72, 200, 200_000])
def test_quantile_intervals_agree_with_scipy_and_are_nan_where_there_is_none(q, n):
    values = np.random.default_rng(n).lognormal(size=n)
    expected = stats.quantile_test(values, p=q).confidence_interval(0.95)
    np.testing.assert_array_equal(quantile_interval(values, q), tuple(expected))


@given(st.floats(0.02, 0.98), st.sampled_from([0.9, 0.95, 0.99]))
@example(0.5, 0.95)  # 2 (1/2)^6 = .03: six values
@example(0.95, 0.95)  # .95^72 = .0249: 72
def test_of_one_value_less_than_a_quantile_needs_its_interval_has_an_open_end(q, level):
    n = max(math.ceil(math.log((1 - level) / 2) / math.log(max(q, 1 - q)) - 1e-9), 2)
    assert not np.isnan(quantile_interval(np.arange(float(n)), q, level)).any()
    assert np.isnan(quantile_interval(np.arange(n - 1.0), q, level)).any()


@pytest.mark.parametrize("q", [0, 95])
def test_a_percentage_is_no_quantile(q):
    with refused(0, 1, field="q"):
        quantile_interval([1.0, 2.0], q)
