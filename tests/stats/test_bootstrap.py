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


@given(matrices(TENTHS))
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


def test_where_resamples_have_no_spread_the_studentised_bootstrap_is_students_t():
    values = np.append(np.zeros(59), 1.0)  # 37 % of resamples hold only zeros
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
