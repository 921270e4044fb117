"""Paired tests against scipy, published examples and full enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar

from ragscore.stats import mcnemar_p, paired_interval, sign_flip_p, tango_interval
from ragscore.stats.moments import as_columns, sample
from ragscore.stats.paired import paired_test, welch

DIFFERENCES = st.lists(st.integers(-4, 4).map(lambda value: value / 4), min_size=1, max_size=24)
LONG_DIFFERENCES = st.lists(
    st.integers(1, 9).flatmap(lambda size: st.sampled_from([-size / 7, size / 7])),
    min_size=17,
    max_size=24,
)


def paired_p(differences, kind, groups=None):
    columns = as_columns(differences)
    return paired_test(columns, sample(columns, groups), kind, (0, 1), 0.95)[2]


def by_enumeration(differences, groups=None):
    """Share of all sign patterns of the groups whose mean is at least as far from 0."""
    groups = np.arange(len(differences)) if groups is None else np.asarray(groups)
    sums = [differences[groups == name].sum() for name in sorted(set(groups.tolist()))]
    totals = np.array(list(product([1, -1], repeat=len(sums)))) @ sums
    return (np.abs(totals) >= abs(differences.sum()) - 1e-9).mean()


# McNemar


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_agrees_with_statsmodels_and_mid_p_takes_half_of_what_was_seen(wins, losses):
    expected = mcnemar([[7, wins], [losses, 11]], exact=True).pvalue if wins + losses else 1.0
    assert mcnemar_p(wins, losses, is_exact=True) == pytest.approx(expected, abs=1e-9)
    two_sided = 2 * stats.binom.cdf(min(wins, losses), wins + losses, 0.5) if wins + losses else 1.0
    seen = stats.binom.pmf(min(wins, losses), wins + losses, 0.5) if wins + losses else 0.0
    assert mcnemar_p(wins, losses) == pytest.approx(min(two_sided - seen, 1), abs=1e-9)


@given(st.integers(1, 60), st.integers(0, 60))
def test_tango_leaves_out_0_where_statsmodels_score_test_does(wins, losses):
    low, high = tango_interval(wins, losses, 130)
    p = mcnemar([[7, wins], [losses, 11]], exact=False, correction=False).pvalue
    assert ((low[0] > 0) or (high[0] < 0)) == (p < 0.05)


def test_mcnemar_gives_the_published_p_values():
    # Cavo et al. 2012 in Fagerland, Lydersen and Laake 2017, chapter 8: 59 and 80 pairs agree, 6
    # and 16 don't.
    assert mcnemar_p(6, 16, is_exact=True) == pytest.approx(0.052479, abs=5e-7)
    assert mcnemar_p(6, 16) == pytest.approx(0.034690, abs=5e-7)


def test_nothing_moved_is_no_evidence():
    assert mcnemar_p([0, 3], [0, 3]).tolist() == [1, 1] and mcnemar_p(0, 0, is_exact=True) == 1


# Tango's interval


def test_tango_gives_the_published_interval():
    low, high = tango_interval(6, 16, 161)
    assert (low[0], high[0]) == pytest.approx((-0.1240, -0.0054), abs=5e-5)


@pytest.mark.parametrize(
    ("wins", "losses", "n"), [(6, 16, 161), (3, 0, 20), (40, 20, 160), (0, 9, 9)]
)
def test_tango_holds_what_the_score_test_accepts(wins, losses, n):
    for bound in np.concatenate(tango_interval(wins, losses, n)):
        if bound == -1:
            continue  # the end of the range
        # The most likely rate of losses if the difference is the bound, by search instead of by
        # formula.
        rate = np.linspace(max(0, -bound), (1 - bound) / 2, 400_001)[1:-1]
        likelihood = (
            wins * np.log(rate + bound)
            + losses * np.log(rate)
            + (n - wins - losses) * np.log(np.maximum(1 - bound - 2 * rate, 1e-300))
        )
        best = rate[likelihood.argmax()]
        score = abs(wins - losses - n * bound) / np.sqrt(n * (2 * best + bound - bound**2))
        assert score == pytest.approx(stats.norm.ppf(0.975), abs=1e-3)


@given(st.integers(0, 30), st.integers(0, 30), st.integers(0, 50))
def test_swapping_two_runs_turns_the_interval_around(wins, losses, ties):
    n = wins + losses + ties
    low, high = tango_interval(wins, losses, n)
    back = tango_interval(losses, wins, n)
    np.testing.assert_allclose((low, high), (-back[1], -back[0]), atol=1e-9)
    assert n == 0 or (-1 <= low[0] <= (wins - losses) / n <= high[0] <= 1 and high[0] > low[0])


def test_nothing_moved_leaves_open_what_was_not_seen():
    low, high = tango_interval(0, 0, 50)
    assert (low[0], high[0]) == pytest.approx(
        (-(1.959964**2) / (50 + 1.959964**2), 1.959964**2 / (50 + 1.959964**2)), abs=1e-6
    )
    assert np.isnan(tango_interval(0, 0, 0)).all()


def test_the_interval_of_a_0_1_metric_is_tangos_and_of_averaged_repeats_students():
    differences = np.repeat([1.0, -1, 0, np.nan], [6, 16, 139, 5])
    assert np.ravel(paired_interval(differences, "binary")) == pytest.approx(
        np.ravel(tango_interval(6, 16, 161))
    )
    halves = differences[:-5] / 2
    expected = stats.ttest_1samp(halves, 0).confidence_interval()
    assert np.ravel(paired_interval(halves, "binary")) == pytest.approx(
        (expected.low, expected.high)
    )


# Sign flips


@given(DIFFERENCES)
def test_sign_flips_are_enumerated_where_few_differences_are_not_zero(differences):
    differences = np.array(differences)
    moved = differences[differences != 0]
    if len(moved) <= 12:
        assert sign_flip_p(differences)[0] == pytest.approx(
            by_enumeration(moved) if len(moved) else 1.0, abs=1e-12
        )


def test_random_sign_flips_come_close_to_all_of_them():
    differences = np.random.default_rng(4).normal(0.35, 1, 17)
    exact = by_enumeration(differences)
    assert sign_flip_p(differences)[0] == pytest.approx(
        exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000)
    )
    # (1 + number) / (B + 1)
    assert sign_flip_p(differences)[0] * 10_001 % 1 == pytest.approx(0, abs=1e-6)


def test_sixteen_differences_are_enumerated_and_seventeen_drawn():
    ones = np.ones(17)
    assert sign_flip_p(ones[:16])[0] == 2 / 2**16
    assert sign_flip_p(ones)[0] >= 1 / 10_001


@given(st.one_of(DIFFERENCES, LONG_DIFFERENCES), st.randoms(use_true_random=False))
def test_neither_the_order_of_queries_nor_that_of_the_runs_changes_p(differences, random):
    shuffled = random.sample(differences, len(differences))
    p = sign_flip_p(differences, iterations=500)[0]
    assert (
        sign_flip_p(shuffled, iterations=500)[0]
        == p
        == sign_flip_p(np.negative(differences), iterations=500)[0]
    )


def test_members_of_a_group_flip_together():
    rng = np.random.default_rng(0)
    differences, groups = rng.normal(0.3, 1, 20), rng.integers(0, 7, 20)
    assert sign_flip_p(differences, groups=groups)[0] == pytest.approx(
        by_enumeration(differences, groups), abs=1e-12
    )
    assert sign_flip_p(differences, groups=np.full(20, -1))[0] == sign_flip_p(differences)[0]


@given(LONG_DIFFERENCES, st.integers(0, 300), st.randoms(use_true_random=False))
def test_neither_queries_without_a_difference_nor_other_metrics_nor_order_change_p(
    differences, empty, random
):
    p = sign_flip_p(differences, iterations=3000)[0]
    rows = [*differences, *[np.nan] * empty, *[0.0] * empty]
    random.shuffle(rows)
    other = np.random.default_rng(empty).normal(size=(len(rows), 3))
    assert sign_flip_p(rows, iterations=3000)[0] == p
    assert sign_flip_p(np.column_stack([other, rows]), iterations=3000)[3] == p


def test_no_difference_has_no_p_and_equal_runs_have_one():
    assert np.isnan(sign_flip_p([np.nan, np.nan])[0]) and sign_flip_p([0.0, 0, np.nan])[0] == 1
    assert np.isnan(paired_p([np.nan], "binary")[0]) and paired_p([0.0], "binary")[0] == 1


def test_rounding_in_a_difference_is_no_difference():
    noisy = np.append(np.full(40, 1e-17) * np.tile([1, -1], 20), [0.5, 0.5, -0.25])
    assert sign_flip_p(noisy)[0] == sign_flip_p([0.5, 0.5, -0.25])[0] == 0.5


CASES = st.tuples(
    st.lists(st.sampled_from([0, 0.25, 0.5, 1.0, -0.25, -1.0, np.nan]), min_size=2, max_size=40),
    st.sampled_from(["binary", "bounded", "other"]),
    st.sampled_from([None, 2, 7]),
)


@given(CASES, st.sampled_from([0.8, 0.95, 0.99]))
def test_p_is_below_the_level_just_where_the_interval_leaves_out_0(case, confidence):
    differences, kind, size = case
    if kind == "binary":
        differences = np.fix(differences)
    groups = None if size is None else np.arange(len(differences)) // size
    (low,), (high,) = paired_interval(differences, kind, groups=groups, confidence=confidence)
    p = paired_p(differences, kind, groups=groups)[0]
    assert np.isnan(low) == np.isnan(p)
    if abs(p - (1 - confidence)) > 1e-9:
        assert (p < 1 - confidence) == (low > 0 or high < 0)


def test_p_of_0_1_metrics_is_mcnemars_without_a_correction():
    # 6 and 16: z = 10 / √22 = 2.132, whose two tails hold .0330
    assert paired_p(np.repeat([1.0, -1, 0], [6, 16, 139]), "binary") == pytest.approx(
        [0.0330], abs=5e-5
    )


def test_a_large_cluster_counts_for_what_the_mean_owes_to_it():
    # of 100 and ten of 5 queries: (150)² / (100² + 10 · 5²) = 2.2 clusters of one size
    groups = np.append(np.zeros(100, dtype=int), 1 + np.arange(50) // 5)
    values = np.ones((150, 1))
    assert sample(values, groups).alike == pytest.approx([150**2 / (100**2 + 250)])
    assert sample(values, np.arange(150) // 5).alike.tolist() == [30]
    assert sample(values).alike.tolist() == [150]


def test_0_1_metrics_in_pairs_of_copies_have_tangos_interval_of_half_as_many():
    # Of 161 pairs of copies the variance of the mean is (2·161 − 1) / (161 − 1) times that of 322
    # single queries; t has 160 degrees of freedom.
    differences, groups = np.repeat([1.0, -1, 0], [12, 32, 278]), np.arange(322) // 2
    expected = tango_interval(*np.array([12, 32, 322]) * 160 / 321, freedom=160)
    assert np.ravel(paired_interval(differences, "binary", groups=groups)) == pytest.approx(
        np.ravel(expected)
    )
    p = paired_p(differences, "binary", groups=groups)
    assert p == pytest.approx(2 * stats.t.sf(20 / np.sqrt(44 * 321 / 160), 160))


@pytest.mark.parametrize(("kind", "size"), [("binary", 5), ("bounded", 1), ("bounded", 5)])
def test_three_equal_differences_are_no_evidence_and_four_are(kind, size):
    # as of signs: 4 / √4 = 2 lies beyond 1.96, and 3 / √3 does not
    for n in range(1, 8):
        (low,), (high,) = paired_interval(
            np.ones(n * size), kind, groups=np.arange(n * size) // size
        )
        assert (low > 0) == (n > 3) and high == 1


def test_a_slice_is_compared_with_the_rest_as_welch_does():
    rng = np.random.default_rng(0)
    values, inside = rng.normal(0, 1, 50), np.arange(50) < 20
    delta, low, high, p = welch(values, inside)
    theirs = stats.ttest_ind(values[:20], values[20:], equal_var=False)
    ends = theirs.confidence_interval()
    assert delta == pytest.approx(values[:20].mean() - values[20:].mean())
    assert p == pytest.approx(theirs.pvalue)
    assert [low[0], high[0]] == pytest.approx([ends.low, ends.high])
    assert np.isnan(welch(np.ones(50), inside)[3]).all()
    assert np.isnan(welch(values, np.arange(50) < 1)[3]).all()
