"""Intervals of means and quantiles against scipy's and statsmodels', bootstrapped ones, groups."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as some
from scipy import stats
from statsmodels.api import OLS
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import DescrStatsW

from ragscore.stats import bootstrap_mean, mean_interval, quantile_interval, wilson_interval
from ragscore.stats.bootstrap import bootstrap_t_interval
from ragscore.stats.grouped import Grouping, statistics
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
    assert [found[0] == 0, found[1] == 1] == [k == 0, k == n]


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


@pytest.mark.parametrize(
    ("kind", "square"),
    [
        # a mean of .5, with an error of .5 instead of √(.25 / 39): worth 40 / 39 queries
        ("binary", (1.959964 * stats.t.ppf(0.975, 1) / stats.t.ppf(0.975, 39)) ** 2 * 39 / 40),
        ("bounded", stats.t.ppf(0.975, 1) ** 2 / 2),
    ],
)
def test_two_groups_have_one_degree_of_freedom(kind, square):
    found = mean_interval(np.repeat([0.0, 1], 20), kind, groups=np.arange(40) // 20)
    half = np.sqrt(square / 4 + square**2 / 4) / (1 + square)
    assert np.ravel(found) == pytest.approx([0.5 - half, 0.5 + half], abs=1e-6)


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


# Bootstrap intervals: equal to one resample after another, whatever is held at a time

ITERATIONS = 60
CELLS = st.one_of(st.just(np.nan), st.sampled_from([0.0, 1.0]), st.floats(-3, 5))
# equal, or clearly apart: rounding decides nothing
ROUNDED = st.one_of(st.just(np.nan), st.integers(-30, 50).map(lambda tenths: tenths / 10))


def matrices(cells):
    """Rows of queries, one to six metrics wide."""
    return st.integers(1, 6).flatmap(
        lambda width: st.lists(
            st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=12
        )
    )


def resamples(kept):
    """The resamples of some values, one after another."""
    rng = np.random.default_rng(5)
    for _ in range(ITERATIONS):
        yield kept[rng.integers(0, len(kept), len(kept))]


@given(matrices(CELLS))
def test_intervals_of_a_mean_are_those_of_one_resample_after_another(rows):
    for column in np.transpose(rows):
        found, kept = bootstrap_mean(column, ITERATIONS, 0.9, 5), column[~np.isnan(column)]
        if len(kept):
            means = [sum(drawn) / len(drawn) for drawn in resamples(kept)]
            assert found == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])), abs=1e-12)
        else:
            assert found is None


def ratio(drawn, kept):
    """How many of its standard errors a resample's mean lies off; infinite without spread."""
    away = drawn.mean() - kept.mean()
    if np.ptp(drawn):
        return away / drawn.std(ddof=1) * len(drawn) ** 0.5
    return np.copysign(np.inf, away) if abs(away) > 1e-9 else 0.0


@given(matrices(ROUNDED))
def test_studentised_intervals_are_those_of_one_resample_after_another(rows):
    bounds = np.transpose(bootstrap_t_interval(rows, 0.9, iterations=ITERATIONS, seed=5))
    for found, column in zip(bounds, np.transpose(rows), strict=True):
        kept = column[~np.isnan(column)]
        if len(kept) < 2:
            assert np.isnan(found).all()
            continue
        with np.errstate(invalid="ignore"):
            ends = np.quantile([ratio(drawn, kept) for drawn in resamples(kept)], [0.95, 0.05])
        expected = kept.mean() - ends * kept.std(ddof=1) / len(kept) ** 0.5
        if np.isfinite(ends).all():
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("at_once", [1, 1_000, 10**7])
def test_no_interval_depends_on_how_much_is_held_at_a_time(monkeypatch, at_once):
    values = np.random.default_rng(2).random((30, 5))
    values[:3, 2] = np.nan
    before = bootstrap_t_interval(values, iterations=301)
    monkeypatch.setattr("ragscore.stats.bootstrap.AT_ONCE", at_once)
    after = bootstrap_t_interval(values, iterations=301)
    np.testing.assert_allclose(before, after, rtol=0, atol=1e-12)


def students(values):
    return tuple(stats.ttest_1samp(values, 0).confidence_interval())


# 37 and 50 % of resamples hold only one value
@pytest.mark.parametrize("values", [np.append(np.zeros(59), 1.0), np.array([1.0, 2.0])])
def test_where_resamples_have_no_spread_the_studentised_bootstrap_is_students_t(values):
    assert np.ravel(bootstrap_t_interval(values)) == pytest.approx(students(values), abs=1e-12)


LONG_TAILED = np.random.default_rng(0).lognormal(0, 1, 60)


@pytest.mark.parametrize(
    ("values", "interval"),
    [
        (LONG_TAILED[:19], students),
        (LONG_TAILED[:20], bootstrap_t_interval),
        (LONG_TAILED, bootstrap_t_interval),
        (np.tile(LONG_TAILED, 30), students),
    ],
)
def test_long_tailed_times_get_the_studentised_bootstrap_until_there_are_enough_for_t(
    values, interval
):
    assert np.ravel(mean_interval(values, "time")) == pytest.approx(np.ravel(interval(values)))


# Statistics by group: what pandas' groupby finds, from one pass over each column

NUMBERS = st.floats(-1e6, 1e6, width=32)
COLUMNS = (
    NUMBERS,
    st.sampled_from([0.0, 1.0]),
    st.integers(-5, 5).map(float),
    st.just(np.nan),
    st.just(0.7),
    NUMBERS | st.sampled_from([np.inf, -np.inf]),
)


@st.composite
def grouped_columns(draw):
    """Codes of rows in no order, -1 in no group; and columns with gaps, some of nothing at all."""
    n = draw(st.integers(1, 40))
    most = draw(st.sampled_from([0, 3, 60]))
    codes = draw(some.arrays(np.int64, n, elements=st.integers(-1, most)))
    cells = [kind | st.just(np.nan) if draw(st.booleans()) else kind for kind in COLUMNS]
    columns = [draw(some.arrays(np.float64, n, elements=one)) for one in cells]
    return pd.factorize(np.where(codes < 0, np.nan, codes), sort=draw(st.booleans()))[0], columns


def by_pandas(codes, columns):
    values = pd.DataFrame(dict(enumerate(columns))).groupby(np.where(codes < 0, np.nan, codes))
    return {
        "n": values.count(), "sum": values.sum(min_count=1), "mean": values.mean(),
        "std": values.std(), "min": values.min(), "max": values.max(),
        "p50": values.quantile(0.5), "p95": values.quantile(0.95),
    }  # fmt: skip


@given(grouped_columns())
def test_every_statistic_is_the_one_that_pandas_finds(case):
    codes, columns = case
    for column in columns:
        column.flags.writeable = False  # they are left as they were
    found, wanted = statistics(columns, Grouping.by_codes(codes)), by_pandas(codes, columns)
    assert found["n"].dtype == np.int64
    for name in ("n", "min", "max", "p50", "p95"):
        np.testing.assert_array_equal(found[name], wanted[name], err_msg=name)
    # Sums that cancel out keep what rounding did to their largest term.
    finite = [np.abs(column[np.isfinite(column)]).max(initial=0) for column in columns]
    for name in ("sum", "mean", "std"):
        np.testing.assert_allclose(
            found[name], wanted[name], rtol=1e-12, atol=1e-14 * max(finite), err_msg=name
        )


def test_equal_values_are_their_own_mean_and_do_not_spread():
    found = statistics([np.full(50, 0.7)], Grouping.by_codes(np.zeros(50, dtype=np.int64)))
    assert (found["mean"][0, 0], found["std"][0, 0]) == (0.7, 0)


def test_a_row_may_be_in_several_groups():
    grouping = Grouping.by_codes(np.array([1, 0, 1, -1, 1]), rows=np.array([0, 0, 1, 1, 2]))
    assert statistics([np.array([1.0, 10.0, 100.0])], grouping)["sum"].tolist() == [[1], [111]]
    assert grouping.count(np.array([True, False, True])).tolist() == [1, 2]
