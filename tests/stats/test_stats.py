"""Intervals against scipy's, and what they must never do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.api import OLS
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from ragscore.stats import (
    average_repeats,
    bootstrap_t_interval,
    design_effect,
    interval_of_means,
    least_n,
    mean_interval,
    median_interval,
    moments,
    paired_interval,
    quantile_difference_interval,
    quantile_interval,
    skewness,
    standard_error,
    t_interval,
    wilson_interval,
)
from tests.messages import refused


@pytest.mark.parametrize(
    ("k", "n"), [(0, 1), (0, 20), (1, 20), (10, 20), (45, 50), (50, 50), (499, 500)]
)
def test_wilson_agrees_with_scipy(k, n):
    low, high = wilson_interval(np.array([k / n]), np.array([float(n)]))
    expected = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)


@given(
    st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.sampled_from([0.8, 0.95, 0.99]),
)
def test_wilson_agrees_with_statsmodels(passed, level):
    k, n = passed
    low, high = wilson_interval(np.array([k / n]), np.array([float(n)]), level)
    assert (low[0], high[0]) == pytest.approx(
        proportion_confint(k, n, alpha=1 - level, method="wilson"), abs=1e-9
    )


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30), st.sampled_from([0.8, 0.95, 0.99]))
def test_t_agrees_with_statsmodels(values, level):
    low, high = t_interval(*moments(values), level)
    with np.errstate(invalid="ignore"):
        expected = DescrStatsW(np.array(values)).tconfint_mean(alpha=1 - level)
    assert (low[0], high[0]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n_groups", [2, 5, 12])
def test_the_grouped_standard_error_is_statsmodels_of_a_constant(n_groups):
    rng = np.random.default_rng(n_groups)
    values, groups = rng.random(40), rng.permutation(np.arange(40) % n_groups)
    expected = OLS(values, np.ones(40)).fit(cov_type="cluster", cov_kwds={"groups": groups}).bse[0]
    assert standard_error(values[:, None], groups)[0][0] == pytest.approx(expected, abs=1e-9)


def test_the_design_effect_divides_the_n_of_wilson():
    plain = wilson_interval(np.array([0.8]), np.array([25.0]))
    assert wilson_interval(np.array([0.8]), np.array([100.0]), design_effect=4.0) == plain


@pytest.mark.parametrize("kind", ["binary", "bounded"])
@pytest.mark.parametrize("std", [0.0, 1e-16])  # fifty times .7 has a standard deviation of 1e-16
def test_equal_values_are_not_certainty(kind, std):
    low, high = mean_interval(np.array([0.0]), np.array([std]), np.array([50.0]), kind)
    assert high[0] - low[0] > 0.05


@pytest.mark.parametrize("kind", ["binary", "bounded"])
@pytest.mark.parametrize("groups", [None, np.arange(30) // 3])
@pytest.mark.parametrize("value", [0.0, 0.7, 1.0])
def test_equal_columns_have_a_width(kind, groups, value):
    values = np.full(30, value)
    for low, high in (
        interval_of_means(values, kind, groups=groups),
        paired_interval(values - 1, kind, groups=groups),
    ):
        assert high[0] - low[0] > 0.05


def test_equal_times_have_no_interval():
    for groups in (None, np.arange(30) // 3):
        for bounds in (
            interval_of_means(np.full(30, 0.7), "time", groups=groups),
            paired_interval(np.zeros(30), "cost", groups=groups),
        ):
            assert np.isnan(bounds).all()


def test_bounded_intervals_stay_inside_their_range():
    low, high = mean_interval(np.array([0.95]), np.array([0.2]), np.array([10.0]), "bounded")
    assert 0 <= low[0] < 0.8 and 0.95 < high[0] <= 1
    low, high = paired_interval([1, 1, -0.5], "bounded")
    assert (low[0], high[0]) == (-1, 1)


@given(st.lists(st.floats(0, 5), min_size=1, max_size=30), st.booleans())
def test_means_with_bounds_lie_inside_their_interval_and_range(values, is_grouped):
    groups = np.arange(len(values)) // 2 if is_grouped else None
    low, high = interval_of_means(values, "bounded", bounds=(0, 5), groups=groups)
    assert (
        -1e-12 <= low[0] <= np.mean(values) + 1e-9
        and np.mean(values) - 1e-9 <= high[0] <= 5 + 1e-12
        and low[0] < high[0]
    )


def test_no_value_has_no_interval():
    nothing = np.full((4, 1), np.nan)
    for kind in ("binary", "bounded", "time"):
        for bound in (
            *mean_interval(np.array([np.nan]), np.array([np.nan]), np.array([0.0]), kind),
            *interval_of_means(nothing, kind),
            *interval_of_means(nothing, kind, groups=[0, 0, 1, 1]),
            *paired_interval(nothing, kind),
        ):
            assert np.isnan(bound).all()


def test_a_column_doesnt_depend_on_the_others_and_nan_is_left_out():
    values = np.random.default_rng(1).lognormal(size=(80, 3))
    values[:20, 1] = np.nan
    for kind in ("bounded", "time"):
        scaled = np.clip(values / 50, 0, 1) if kind == "bounded" else values
        together = interval_of_means(scaled, kind)
        alone = interval_of_means(scaled[20:, 1], kind)
        assert (together[0][1], together[1][1]) == pytest.approx(
            (alone[0][0], alone[1][0]), abs=1e-12
        )


def test_values_of_zero_and_one_get_wilson_with_the_quantile_of_t():
    # A bounded metric that happens to be 0 or 1 has n_eff = p(1-p)/se² + 1 = n: Wilson's formula,
    # with t's quantile for z.
    values = np.repeat([1.0, 0.0], [45, 5])
    t = stats.t.ppf(0.975, 49)
    expected = stats.binomtest(45, 50).proportion_ci(
        confidence_level=2 * stats.norm.cdf(t) - 1, method="wilson"
    )
    low, high = interval_of_means(values, "bounded")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_a_single_value_off_the_end_of_the_range_is_hardly_more_certain_than_none():
    # 49 ones and a .99 have hardly any spread; no spread at all leaves .93 open. L = .01: 10^−.05 =
    # .89 of the variance are those of 0/1 values.
    none, one = (
        interval_of_means(np.append(np.ones(49), last), "bounded")[0][0] for last in (1.0, 0.99)
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
    assert np.ravel(interval_of_means(np.append(np.ones(19), 0.9), "bounded")) == pytest.approx(
        expected, abs=1e-12
    )


def test_the_bounded_interval_is_students_t_far_from_the_ends():
    values = 0.5 + np.random.default_rng(0).normal(0, 0.05, 200)
    low, high = interval_of_means(values, "bounded")
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=2e-5)


def test_a_value_outside_the_bounds_is_refused():
    with refused("0 to 4", "0 to 1", field="values"):
        interval_of_means([0.2, 4], "bounded")
    with refused("(1, 1)", field="bounds"):
        interval_of_means([0.2], "bounded", bounds=(1, 1))


# Groups


def test_the_grouped_standard_error_by_hand():
    # Mean 4; groups (2, 4), (6, 4), (4): sums of deviations -2, 2, 0. √(3/2 · 8)/5 = √12/5.
    error, units = standard_error(np.array([[2.0], [4], [6], [4], [4]]), [0, 0, 1, 1, 2])
    assert error[0] == pytest.approx(12**0.5 / 5, abs=1e-12) and units[0] == 3


@pytest.mark.parametrize("kind", ["binary", "bounded", "time"])
def test_groups_of_one_change_nothing(kind):
    values = np.random.default_rng(0).integers(0, 2, (40, 3)).astype(float)
    values[:5, 1] = np.nan
    for groups in (np.arange(40), np.full(40, -1)):
        for grouped, plain in zip(
            interval_of_means(values, kind, groups=groups),
            interval_of_means(values, kind),
            strict=True,
        ):
            assert grouped == pytest.approx(plain, abs=1e-12)


def test_copies_of_a_query_add_nothing():
    # Every query three times: a design effect of 3 (but for n/(n−1)), and as many degrees of
    # freedom as queries.
    values = np.random.default_rng(0).random(40)
    low, high = paired_interval(np.repeat(values, 3), "time", groups=np.repeat(np.arange(40), 3))
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert design_effect(np.repeat(values, 3), np.repeat(np.arange(40), 3))[0] == pytest.approx(
        3 * 40 / 39 * 119 / 120
    )


def test_groups_that_agree_widen_wilson_and_never_narrow_it():
    passed = np.repeat([1.0, 0, 1, 1, 0, 1, 1, 1, 0, 1], 5)
    width = [
        np.subtract(*interval_of_means(passed, "binary", groups=groups)[::-1])[0]
        for groups in (None, np.arange(50) // 5, np.arange(50) % 5)
    ]
    assert width[1] > 2 * width[0] and width[2] >= width[0]


@pytest.mark.parametrize("kind", ["binary", "bounded", "time"])
def test_groups_whose_members_balance_out_are_no_certainty(kind):
    values, groups = np.tile([0.0, 1], 10), np.arange(20) // 2  # every group has the mean .5
    low, high = interval_of_means(values, kind, groups=groups)
    plain = interval_of_means(values, kind)
    assert high[0] - low[0] >= plain[1][0] - plain[0][0]


def test_repeats_are_averaged_by_query():
    values = np.array([[1.0, np.nan], [0, np.nan], [1, 4], [1, np.nan]])
    np.testing.assert_array_equal(average_repeats(values, [0, 0, 1, 1]), [[0.5, np.nan], [1, 4]])


# The bootstrap, skewness


def test_the_studentised_bootstrap_leans_to_the_long_tail_as_scipys_bootstraps_do():
    values = np.random.default_rng(3).lognormal(0, 1, 100)
    low, high = (bound[0] for bound in bootstrap_t_interval(values))
    mean = values.mean()
    expected = stats.bootstrap((values,), np.mean, method="BCa", rng=0).confidence_interval
    plain = stats.ttest_1samp(values, 0).confidence_interval()
    assert high - mean > 1.3 * (mean - low) and high > plain.high
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=0.15 * (high - low))


def test_where_resamples_have_no_spread_the_studentised_bootstrap_is_students_t():
    values = np.append(np.zeros(59), 1.0)  # 37 % of resamples hold only zeros
    low, high = bootstrap_t_interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert np.isnan(bootstrap_t_interval([1.0])[0][0])


def test_long_tailed_times_get_the_studentised_bootstrap_until_there_are_enough_for_t():
    values = np.random.default_rng(0).lognormal(0, 1, 60)
    assert interval_of_means(values, "time")[1] == bootstrap_t_interval(values)[1]
    assert interval_of_means(np.tile(values, 30), "time")[1][0] == pytest.approx(
        stats.ttest_1samp(np.tile(values, 30), 0).confidence_interval().high
    )
    assert interval_of_means(values[:20], "time")[1] == bootstrap_t_interval(values[:20])[1]
    assert interval_of_means(values[:19], "time")[1][0] == pytest.approx(
        stats.ttest_1samp(values[:19], 0).confidence_interval().high
    )


def test_skewness_agrees_with_scipy():
    values = np.random.default_rng(0).lognormal(size=(40, 3))
    values[:9, 1] = np.nan
    assert skewness(values) == pytest.approx(stats.skew(values, nan_policy="omit"), abs=1e-9)
    assert skewness(np.full(50, 0.7))[0] == 0 and np.isnan(skewness([np.nan])[0])


def test_a_million_equal_values_leave_room_for_others_as_fifty_do():
    values = np.full((1_000_000, 3), 0.7)  # summed row by row: their mean is .7 less 5e-12
    low, high = interval_of_means(values, "bounded")
    assert (high - low > 1e-3).all() and (skewness(values) == 0).all()
    assert np.isnan(interval_of_means(values * 176, "time")[0]).all()


# Quantiles


@pytest.mark.parametrize("q", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("n", [1, 5, 6, 71, 72, 200])
def test_quantile_intervals_agree_with_scipy_and_are_nan_where_there_is_none(q, n):
    values = np.random.default_rng(n).lognormal(size=n)
    expected = stats.quantile_test(values, p=q).confidence_interval(0.95)
    np.testing.assert_array_equal(quantile_interval(values, q), (expected.low, expected.high))


def test_too_few_values_have_no_median_interval():
    assert (
        np.isnan(median_interval(np.arange(5.0))).all()
        and np.isnan(median_interval(np.array([]))).all()
    )
    assert median_interval(np.array([1, 2, 3, 4, 5, 6, np.nan])) == (1, 6)  # 2 (1/2)^6 = .03


def test_p95_needs_72_values_and_a_median_6():
    assert (least_n(0.95), least_n(0.5)) == (72, 6)
    assert (
        np.isnan(quantile_interval(np.arange(71.0), 0.95)[1])
        and quantile_interval(np.arange(72.0), 0.95)[1] == 71
    )


@given(st.floats(0.02, 0.98), st.sampled_from([0.9, 0.95, 0.99]))
def test_one_value_less_than_the_least_n_has_an_open_end(q, level):
    n = least_n(q, level)
    assert not np.isnan(quantile_interval(np.arange(float(n)), q, level)).any() or n == 1
    assert n == 1 or np.isnan(quantile_interval(np.arange(n - 1.0), q, level)).any()


def test_a_shift_of_all_latencies_shifts_their_quantile():
    first = np.random.default_rng(0).lognormal(size=100)
    assert quantile_difference_interval(first, first + 2, 0.95) == pytest.approx((2, 2))
    low, high = quantile_difference_interval(
        first, np.random.default_rng(1).permutation(first), 0.95
    )
    assert low < 0 < high  # the same times, on other queries
    assert np.isnan(quantile_difference_interval(first[:71], first[:71], 0.95)).all()


@pytest.mark.parametrize("q", [0, 95])
def test_a_percentage_is_no_quantile(q):
    with refused(0, 1, field="q"):
        quantile_interval([1.0, 2.0], q)


@pytest.mark.parametrize("q", [0.5, 0.95, 0.0001])
def test_quantile_intervals_of_many_values_end_where_binomial_quantiles_say(q):
    n = 200_000
    low, high = quantile_interval(np.arange(1.0, n + 1), q)
    assert (low, high) == (stats.binom.ppf(0.025, n, q), stats.binom.ppf(0.975, n, q) + 1)
