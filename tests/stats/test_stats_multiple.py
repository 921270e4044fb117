"""Corrections against scipy and closed testing; all pairs of runs against full enumeration."""

from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ragscore.stats import benjamini_hochberg, holm, max_t_p, sign_flip_p, tied_sets
from ragscore.stats.multiple import pairwise_p

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=7)


def by_closed_testing(p):
    """Holm's adjusted p as what it is.

    A hypothesis falls when every set it belongs to falls by Bonferroni.
    """
    sets = [
        set(one)
        for one in chain.from_iterable(
            combinations(range(len(p)), size) for size in range(1, len(p) + 1)
        )
    ]
    return [
        max(min(len(one) * min(p[i] for i in one), 1.0) for one in sets if j in one)
        for j in range(len(p))
    ]


def by_all_signs(scores):
    """Adjusted p of every pair and metric: step-down max-T over every pattern of signs."""
    n, runs, metrics = scores.shape
    names = [(a, b, m) for a, b in combinations(range(runs), 2) for m in range(metrics)]
    apart = np.array([scores[:, b, m] - scores[:, a, m] for a, b, m in names]).T
    root = np.sqrt((apart**2).sum(axis=0))
    moved = root > 1e-12
    units = apart / np.where(moved, root, 1.0)
    drawn = np.abs(np.array(list(product([1, -1], repeat=n))) @ units)
    found = np.abs(units.sum(axis=0))
    p, before = np.ones((runs, runs, metrics)), 0.0
    left = [place for place in np.argsort(-found, kind="stable") if moved[place]]
    while left:
        place = left[0]
        before = max(before, (drawn[:, left].max(axis=1) >= found[place] - 1e-9).mean())
        a, b, m = names[left.pop(0)]
        p[a, b, m] = p[b, a, m] = before
    return p


@given(P_VALUES)
def test_holm_is_closed_testing_with_bonferroni(p):
    assert holm(p) == pytest.approx(by_closed_testing(p), abs=1e-9)


@given(P_VALUES)
def test_benjamini_hochberg_agrees_with_scipy(p):
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p), abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 5, 30, 400])
def test_holm_and_benjamini_hochberg_agree_with_statsmodels(size):
    p = np.random.default_rng(size).beta(0.5, 2, size).round(3)  # rounded: some are equal
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-9)
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-9)


def test_holm_gives_the_values_worked_by_hand():
    # Sorted .01 .02 .03 .04: 4·.01, 3·.02, 2·.03, 1·.04, each at least the one before.
    assert holm([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
@given(p=st.lists(st.one_of(st.floats(0, 1), st.just(np.nan)), max_size=12))
def test_adjusted_p_values_keep_the_order_and_never_shrink(adjust, p):
    adjusted, p = adjust(p), np.array(p)
    tested = ~np.isnan(p)
    assert (
        (np.isnan(adjusted) == ~tested).all()
        and (adjusted[tested] >= p[tested]).all()
        and (adjusted[tested] <= 1).all()
    )
    assert (np.diff(adjusted[tested][np.argsort(p[tested])]) >= 0).all()
    # what isn't tested doesn't count
    assert adjusted[tested].tolist() == adjust(p[tested]).tolist()


# All pairs


@pytest.mark.parametrize(
    ("runs", "n", "metrics"),
    [(2, 1, 1), (2, 8, 1), (3, 2, 1), (3, 7, 1), (4, 6, 1), (5, 8, 1), (3, 7, 2), (4, 8, 3)],
)
def test_all_pairs_and_metrics_have_the_p_of_every_pattern_of_signs(runs, n, metrics):
    rng = np.random.default_rng(runs * n)
    scores = rng.integers(0, 5, (n, runs, metrics)) / 3 + np.arange(runs)[:, None] / 8
    np.testing.assert_allclose(max_t_p(scores), by_all_signs(scores), rtol=0, atol=1e-12)


def test_groups_change_sign_together_in_all_pairs():
    scores, groups = (
        np.random.default_rng(8).integers(0, 5, (8, 3)) / 4,
        np.array([0, 0, 1, 1, 1, 2, -1, 3]),
    )
    sums = np.array([scores[groups == name].sum(axis=0) for name in (0, 1, 2, 3, -1)])
    expected = by_all_signs(sums[:, :, None])[:, :, 0]
    np.testing.assert_allclose(max_t_p(scores, groups=groups), expected, rtol=0, atol=1e-12)


def test_random_signs_come_close_to_all_of_them(monkeypatch):
    scores = np.random.default_rng(7).normal([0, 0.5, 1], size=(12, 3))
    exact = max_t_p(scores)
    monkeypatch.setattr("ragscore.stats.multiple.EXACT_UP_TO", 0)
    error = np.sqrt(exact * (1 - exact) / 10_000)
    assert (np.abs(max_t_p(scores) - exact) <= 4 * error + 1e-4).all()


def test_two_runs_are_one_pair():
    scores = np.random.default_rng(1).random((12, 2))
    assert max_t_p(scores)[0, 1] == pytest.approx(
        sign_flip_p(scores[:, 1] - scores[:, 0])[0], abs=1e-12
    )


@given(st.integers(2, 4), st.integers(1, 12), st.randoms(use_true_random=False))
def test_neither_the_order_of_queries_nor_that_of_runs_changes_p(runs, n, random):
    scores = np.random.default_rng(random.randrange(1000)).integers(0, 9, (n, runs)) / 7
    rows, columns = random.sample(range(n), n), random.sample(range(runs), runs)
    p = max_t_p(scores, iterations=300)
    np.testing.assert_array_equal(
        max_t_p(scores[np.ix_(rows, columns)], iterations=300), p[np.ix_(columns, columns)]
    )


@pytest.mark.parametrize("seed", [11, 47])
def test_queries_that_only_rounding_tells_apart_are_equal(seed):
    scores = np.random.default_rng(seed).integers(0, 9, (7, 4)) / 7
    p = max_t_p(scores, iterations=300)
    for order in range(10):
        rows = np.random.default_rng(order).permutation(7)
        np.testing.assert_array_equal(max_t_p(scores[rows], iterations=300), p)


@pytest.mark.parametrize("n", [300, 1_500])  # drawn signs, the normal limit
def test_the_order_of_queries_changes_no_bit_of_a_drawn_p(n):
    rng = np.random.default_rng(9)
    scores, groups = rng.integers(0, 9, (n, 5, 2)) / 7, rng.integers(0, n // 2, n)
    rows = rng.permutation(n)
    for codes in (None, groups):
        p = max_t_p(scores, groups=codes, iterations=500)
        turned = None if codes is None else codes[rows]
        assert (max_t_p(scores[rows], groups=turned, iterations=500) == p).all()
        assert (p == p.swapaxes(0, 1)).all()


def test_a_query_that_a_run_lacks_is_left_out():
    scores = np.random.default_rng(3).random((10, 3))
    scores[4, 1] = np.nan
    np.testing.assert_array_equal(max_t_p(scores), max_t_p(np.delete(scores, 4, axis=0)))
    assert np.isnan(max_t_p(np.full((3, 2), np.nan))).all()


def test_equal_runs_are_tied():
    assert (max_t_p(np.repeat(np.random.default_rng(0).random((30, 1)), 3, axis=1)) == 1).all()


# Tied sets


def test_tied_sets_are_stretches_of_the_ordered_runs():
    # d .9, a .8, c .7, b .2: d–a and a–c can't be told apart, d–c can, b stands alone.
    means = [0.8, 0.2, 0.7, 0.9]
    p = np.ones((4, 4))
    for first, second in [(3, 2), (3, 1), (0, 1), (2, 1)]:
        p[first, second] = p[second, first] = 0.01
    assert tied_sets(means, p) == [[3, 0], [0, 2], [1]]


def test_all_tied_is_one_set_and_no_mean_is_in_none():
    assert tied_sets([0.1, 0.3, np.nan], np.ones((3, 3))) == [[1, 0]]
    assert tied_sets([np.nan], np.ones((1, 1))) == []


def test_two_runs_share_a_set_if_and_only_if_they_are_tied():
    rng = np.random.default_rng(10)
    for runs in range(1, 9):
        p = np.where(np.triu(rng.random((runs, runs)), 1) > 0.5, 1.0, 0.01)
        p = np.where(np.triu(np.ones((runs, runs)), 1) > 0, p, p.T)
        np.fill_diagonal(p, 1.0)
        sets = [set(members) for members in tied_sets(rng.random(runs), p)]
        for a, b in product(range(runs), repeat=2):
            assert any({a, b} <= members for members in sets) == (p[a, b] > 0.05)
        assert not any(one < other for one in sets for other in sets)


def test_a_run_of_wide_spread_may_be_tied_with_runs_that_differ_from_each_other():
    # 0 and 1 differ; 2, between them, is so unlike both that it can't be told from either.
    p = np.array([[1, 0.01, 1], [0.01, 1, 1], [1, 1, 1.0]])
    assert tied_sets([0.9, 0.5, 0.7], p) == [[0, 2], [2, 1]]


def test_the_normal_limit_of_many_queries_gives_the_p_of_random_labels(monkeypatch):
    rng = np.random.default_rng(5)
    scores = rng.random((1_200, 3, 2)) + np.array([0.0, 0.0, 0.02])[:, None]
    limit = max_t_p(scores, iterations=4_000)
    monkeypatch.setattr("ragscore.stats.multiple.NORMAL_FROM", 10**9)
    np.testing.assert_allclose(limit, max_t_p(scores, iterations=4_000), rtol=0, atol=0.04)


def variants_and_one_unlike(rng, runs, n=60):
    """0/1 values of variants that differ in 5 % of queries, and of one unrelated run."""
    base = rng.random((n, 1)) < 0.5
    variants = base ^ (rng.random((n, runs - 1)) < 0.05)
    return np.column_stack([variants, rng.random(n) < 0.5]).astype(float)


def test_variants_of_one_system_beside_an_unlike_run_rarely_differ():
    rng, draws = np.random.default_rng(1), 100
    false = sum(
        (max_t_p(variants_and_one_unlike(rng, 10), iterations=500) <= 0.05).any()
        for _ in range(draws)
    )
    # 5 % of 100 are exceeded by so many in one case of a thousand; pooled spread gave 11 to 28 %.
    assert false <= stats.binom.ppf(0.999, draws, 0.05)


@pytest.mark.parametrize(("wins", "losses"), [(20, 0), (14, 1)])
def test_clear_wins_are_seen_beside_eight_unrelated_runs(wins, losses):
    # 14 to 1: 13 / √15 = 3.4 standard errors, of which the largest of 45 pairs needs 3.2.
    rng, n = np.random.default_rng(2), 150
    for _ in range(10):
        one = rng.random(n) < 0.5
        other = one.copy()
        moved = rng.permutation(n)[: wins + losses]
        one[moved], other[moved] = np.arange(len(moved)) < wins, np.arange(len(moved)) >= wins
        p = max_t_p(np.column_stack([one, other, rng.random((n, 8)) < 0.5]), iterations=1_000)
        assert p[0, 1] <= 0.05


def test_few_different_queries_of_many_are_not_left_to_the_normal_limit():
    # Two runs differ in 6 of 5,000 queries, all one way: p is 2·2⁻⁶ at least. 30 to 0 is clear.
    rng = np.random.default_rng(3)
    scores = (rng.random((5_000, 4)) < 0.5).astype(float)
    scores[:, 1], scores[:, 3] = scores[:, 0], scores[:, 2]
    scores[:6, 0], scores[:6, 1], scores[:30, 2], scores[:30, 3] = 1, 0, 1, 0
    p = max_t_p(scores, iterations=2_000)
    assert p[0, 1] > 2 * 2**-6 and p[2, 3] < 0.01


def test_against_a_baseline_only_its_pairs_are_tested_and_the_level_is_higher():
    scores = np.random.default_rng(5).random((40, 5))
    of_all, level = pairwise_p(scores, iterations=2_000)
    of_one, alone = pairwise_p(scores, baseline=0, iterations=2_000)
    assert (of_one[1:, 1:] == 1).all() and (of_one[0, 1:] <= of_all[0, 1:] + 0.02).all()
    assert level < alone < 0.05, "ten pairs have less each than four"
