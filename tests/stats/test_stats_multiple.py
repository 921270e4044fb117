"""Corrections against scipy and closed testing; all pairs of runs against full enumeration."""

import itertools
from itertools import chain, combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ragscore.stats import benjamini_hochberg, holm, max_t_p, sign_flip_p, tied_sets

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


def tukey_by_enumeration(scores):
    """Adjusted p of every pair from every relabelling of every query."""
    sums = np.zeros((1, scores.shape[1]))
    for row in scores:
        sums = np.concatenate([sums + np.array(order) for order in permutations(row.tolist())])
    ranges, totals = np.ptp(sums, axis=1), scores.sum(axis=0)
    return [[(ranges >= abs(a - b) - 1e-9).mean() for b in totals] for a in totals]


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
    ("runs", "n"),
    [
        *((2, n) for n in range(1, 9)),
        *((3, n) for n in range(1, 9)),
        *((4, n) for n in range(1, 5)),
    ],
)
def test_max_t_agrees_with_full_enumeration(runs, n):
    scores = np.random.default_rng(runs * n).integers(0, 5, (n, runs)) / 4 + np.arange(runs) / 8
    # 6⁷ relabellings of three runs and eight queries, relative to the first query
    p = max_t_p(scores, iterations=300_000)
    assert p[~np.eye(runs, dtype=bool)] == pytest.approx(
        np.array(tukey_by_enumeration(scores))[~np.eye(runs, dtype=bool)], abs=1e-12
    )


def test_max_t_with_groups_agrees_with_full_enumeration_of_the_groups():
    scores, groups = (
        np.random.default_rng(8).integers(0, 5, (8, 3)) / 4,
        np.array([0, 0, 1, 1, 1, 2, -1, 3]),
    )
    sums = np.array([scores[groups == name].sum(axis=0) for name in (0, 1, 2, 3, -1)])
    assert max_t_p(scores, groups=groups)[~np.eye(3, dtype=bool)] == pytest.approx(
        np.array(tukey_by_enumeration(sums))[~np.eye(3, dtype=bool)], abs=1e-12
    )


def test_random_relabellings_come_close_to_all_of_them():
    scores = np.random.default_rng(7).normal([0, 0.5, 1], size=(6, 3))  # 6^6 = 46,656 relabellings
    exact = np.array(tukey_by_enumeration(scores))
    drawn = max_t_p(scores)
    assert (
        np.abs(drawn - exact)[~np.eye(3, dtype=bool)]
        <= 4 * np.sqrt(exact * (1 - exact) / 10_000)[~np.eye(3, dtype=bool)] + 1e-4
    ).all()


def test_two_runs_are_one_pair():
    scores = np.random.default_rng(1).random((12, 2))
    assert max_t_p(scores)[0, 1] == pytest.approx(
        sign_flip_p(scores[:, 1] - scores[:, 0])[0], abs=1e-12
    )


@given(st.integers(2, 4), st.integers(1, 12), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_neither_the_order_of_queries_nor_that_of_runs_changes_p(runs, n, random):
    scores = np.random.default_rng(random.randrange(1000)).integers(0, 9, (n, runs)) / 7
    rows, columns = random.sample(range(n), n), random.sample(range(runs), runs)
    p = max_t_p(scores, iterations=300)
    np.testing.assert_array_equal(
        max_t_p(scores[np.ix_(rows, columns)], iterations=300), p[np.ix_(columns, columns)]
    )


@pytest.mark.parametrize("seed", [11, 20, 47, 68])
def test_queries_that_only_rounding_tells_apart_are_equal(seed):
    scores = np.random.default_rng(seed).integers(0, 9, (7, 4)) / 7
    p = max_t_p(scores, iterations=300)
    for order in range(10):
        rows = np.random.default_rng(order).permutation(7)
        np.testing.assert_array_equal(max_t_p(scores[rows], iterations=300), p)


@given(st.integers(2, 5), st.integers(1, 30), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_a_larger_difference_never_has_a_larger_p(runs, n, seed):
    scores = np.random.default_rng(seed).random((n, runs))
    p, means = max_t_p(scores, iterations=200), scores.mean(axis=0)
    pairs = np.triu_indices(runs, 1)
    by_size = p[pairs][np.argsort(np.abs(means[pairs[0]] - means[pairs[1]]))]
    assert (p == p.T).all() and (np.diff(by_size) <= 0).all()


def test_groups_are_relabelled_together():
    scores = np.random.default_rng(3).random((10, 3))
    copied = max_t_p(np.repeat(scores, 4, axis=0), groups=np.repeat(np.arange(10), 4))
    # Sums of a group are four times the query's values, every one by the same factor.
    assert copied == pytest.approx(max_t_p(scores), abs=1e-12)


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


def test_all_pairs_of_several_metrics_are_tested_at_once_as_brute_force_does():
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 4, (4, 3, 2)).astype(float)
    scores[0, :, 1] = np.nan  # the first query has no value of the second metric
    filled = np.nan_to_num(scores)
    centred = filled - filled.mean(axis=1, keepdims=True)
    scale = np.sqrt((centred**2).sum(axis=(0, 1)))
    largest = [
        max(np.ptp(sum(filled[q][list(order)] for q, order in enumerate(orders)), axis=0) / scale)
        for orders in itertools.product(itertools.permutations(range(3)), repeat=4)
    ]
    totals = filled.sum(axis=0)
    p = max_t_p(scores, iterations=300_000)
    for a, b, metric in itertools.product(range(3), range(3), range(2)):
        least = abs(totals[a, metric] - totals[b, metric]) / scale[metric]
        expected = np.mean([one >= least - 1e-9 for one in largest]) if a != b else 1.0
        assert p[a, b, metric] == pytest.approx(expected, abs=1e-12)


def test_the_normal_limit_of_many_queries_gives_the_p_of_random_labels(monkeypatch):
    rng = np.random.default_rng(5)
    scores = rng.random((1_200, 3, 2)) + np.array([0.0, 0.0, 0.02])[:, None]
    limit = max_t_p(scores, iterations=4_000)
    monkeypatch.setattr("ragscore.stats.multiple.NORMAL_FROM", 10**9)
    np.testing.assert_allclose(limit, max_t_p(scores, iterations=4_000), rtol=0, atol=0.04)


def test_a_second_metric_makes_no_pair_clearer():
    rng = np.random.default_rng(6)
    scores = rng.random((40, 4, 3))
    alone = max_t_p(scores[:, :, 0], iterations=2_000)
    assert (max_t_p(scores, iterations=2_000)[:, :, 0] >= alone - 0.03).all()
