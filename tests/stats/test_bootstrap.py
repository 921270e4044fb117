"""Bootstrap intervals: equal to one resample after another, whatever is held at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ragscore.stats import bootstrap_mean, mean_interval
from ragscore.stats.bootstrap import bootstrap_t_interval

ITERATIONS = 60
CELLS = st.one_of(st.just(np.nan), st.sampled_from([0.0, 1.0]), st.floats(-3, 5))
# equal, or clearly apart: rounding decides nothing
TENTHS = st.one_of(st.just(np.nan), st.integers(-30, 50).map(lambda tenths: tenths / 10))


def matrices(cells):
    """Rows of queries, one to six metrics wide."""
    size = st.tuples(st.integers(1, 12), st.integers(1, 6))
    return size.flatmap(
        lambda size: st.lists(
            st.lists(cells, min_size=size[1], max_size=size[1]), min_size=size[0], max_size=size[0]
        )
    )


def resamples(column):
    """The resamples of one column's values, one after another."""
    kept = [value for value in column if value == value]
    rng = np.random.default_rng(5)
    for _ in range(ITERATIONS):
        yield [kept[at] for at in rng.integers(0, len(kept), len(kept))]


@given(matrices(CELLS))
def test_intervals_of_a_mean_are_those_of_one_resample_after_another(rows):
    for column in zip(*rows, strict=True):
        found = bootstrap_mean(column, ITERATIONS, 0.9, 5)
        if all(value != value for value in column):
            assert found is None
            continue
        means = [sum(drawn) / len(drawn) for drawn in resamples(column)]
        assert found == pytest.approx(tuple(np.quantile(means, [0.05, 0.95])), abs=1e-12)


@given(matrices(TENTHS))
def test_studentised_intervals_are_those_of_one_resample_after_another(rows):
    low, high = bootstrap_t_interval(rows, 0.9, iterations=ITERATIONS, seed=5)
    for place, column in enumerate(zip(*rows, strict=True)):
        kept = np.array([value for value in column if value == value])
        if len(kept) < 2:
            assert np.isnan(low[place]) and np.isnan(high[place])
            continue
        ratios = []
        for drawn in resamples(column):
            spread = np.std(drawn, ddof=1) / len(drawn) ** 0.5
            away = np.mean(drawn) - kept.mean()
            ratios.append(
                away / spread
                if len(set(drawn)) > 1
                else np.copysign(np.inf, away)
                if abs(away) > 1e-9
                else 0.0
            )
        with np.errstate(invalid="ignore"):
            lower, upper = np.quantile(ratios, [0.05, 0.95])
        error = kept.std(ddof=1) / len(kept) ** 0.5
        if np.isfinite(lower) and np.isfinite(upper):
            assert (low[place], high[place]) == pytest.approx(
                (kept.mean() - upper * error, kept.mean() - lower * error), rel=1e-9, abs=1e-9
            )


@pytest.mark.parametrize("at_once", [1, 1_000, 10**7])
def test_no_interval_depends_on_how_much_is_held_at_a_time(monkeypatch, at_once):
    values = np.random.default_rng(2).random((30, 5))
    values[:3, 2] = np.nan

    before = bootstrap_t_interval(values, iterations=301)
    monkeypatch.setattr("ragscore.stats.bootstrap.AT_ONCE", at_once)
    after = bootstrap_t_interval(values, iterations=301)
    np.testing.assert_allclose(before, after, rtol=0, atol=1e-12)


def test_where_resamples_have_no_spread_the_studentised_bootstrap_is_students_t():
    values = np.append(np.zeros(59), 1.0)  # 37 % of resamples hold only zeros
    low, high = bootstrap_t_interval(values)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert np.isnan(bootstrap_t_interval([1.0])[0][0])


def test_long_tailed_times_get_the_studentised_bootstrap_until_there_are_enough_for_t():
    values = np.random.default_rng(0).lognormal(0, 1, 60)
    assert mean_interval(values, "time")[1] == bootstrap_t_interval(values)[1]
    assert mean_interval(np.tile(values, 30), "time")[1][0] == pytest.approx(
        stats.ttest_1samp(np.tile(values, 30), 0).confidence_interval().high
    )
    assert mean_interval(values[:20], "time")[1] == bootstrap_t_interval(values[:20])[1]
    assert mean_interval(values[:19], "time")[1][0] == pytest.approx(
        stats.ttest_1samp(values[:19], 0).confidence_interval().high
    )
