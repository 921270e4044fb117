"""All metrics of a comparison tested together: worked by enumeration, and by what must hold."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, spearmanr

from ragscore.stats import joint_test, mcnemar_p, sign_flip_p


def enumerated(differences, members):
    """Step-down max-T of some columns over all sign patterns, in plain loops."""
    d = np.nan_to_num(np.asarray(differences, dtype=float))
    root = np.sqrt((d**2).sum(axis=0))
    root[root == 0] = 1
    found = np.abs(d.sum(axis=0)) / root
    patterns = [
        np.abs(np.array(signs) @ d) / root for signs in itertools.product((1, -1), repeat=len(d))
    ]
    ahead, p = 0.0, {}
    left = sorted(members, key=lambda column: -found[column])
    while left:
        reached = [max(one[c] for c in left) >= found[left[0]] - 1e-9 for one in patterns]
        ahead = max(ahead, float(np.mean(reached)))
        p[left.pop(0)] = ahead
    return p


def test_few_queries_give_the_p_of_all_sign_patterns():
    rng = np.random.default_rng(0)
    d = rng.normal(0.4, 0.5, (9, 4))
    d[:, 3] = rng.choice([0, 1], 9)
    found = joint_test(d, [True, True, False, False])
    first, rest = enumerated(d, [0, 1]), enumerated(d, [2, 3])
    primary = [min(first[c] / 0.8, 1) for c in (0, 1)]
    assert found.p[:2] == pytest.approx(primary)
    # a tenth of the level; or both shares, as far as every primary metric is decided
    others = [min(rest[c] / 0.1, max(rest[c] / 0.9, *primary)) for c in (2, 3)]
    assert found.p[2:] == pytest.approx(others)


def test_a_metric_alone_has_the_p_of_its_own_sign_flips():
    d = np.random.default_rng(1).normal(0.3, 1, (12, 1))
    for is_primary in ([True], [False]):
        assert joint_test(d, is_primary).p == pytest.approx(sign_flip_p(d))
    moved = np.array([[1.0]] * 9 + [[-1.0]] * 2)
    exact = binomtest(2, 11).pvalue
    assert joint_test(moved, [True]).p == pytest.approx([exact])
    assert mcnemar_p(9, 2, is_exact=True) == pytest.approx(exact)


def test_copies_of_a_metric_cost_nothing():
    d = np.random.default_rng(2).normal(0.25, 1, (60, 1))
    alone, copied = joint_test(d, [True]).p, joint_test(np.repeat(d, 20, axis=1), [True] * 20).p
    assert copied == pytest.approx(np.repeat(alone, 20))


def test_independent_metrics_cost_about_as_much_as_sidak_says():
    rng = np.random.default_rng(3)
    d = rng.choice([-1.0, 1.0], (400, 10)) + 0.11
    level = joint_test(d, [True] * 10).level
    assert level == pytest.approx(np.full(10, 1 - 0.95 ** (1 / 10)), rel=0.15)


def test_queries_of_a_group_change_sign_together():
    d = np.random.default_rng(4).normal(0.5, 1, (12, 2))
    groups = np.repeat(np.arange(4), 3)
    sums = d.reshape(4, 3, 2).sum(axis=1)
    assert joint_test(d, [True, True], groups=groups).p == pytest.approx(
        joint_test(sums, [True, True]).p
    )
    assert joint_test(d, [True, True], groups=groups).p.min() >= 1 / 8, "4 groups have 8 patterns"


def test_what_was_not_compared_is_not_tested_and_costs_nothing():
    d = np.random.default_rng(5).normal(0.4, 1, (15, 3))
    d[:, 2] = np.nan
    found = joint_test(d, [True, False, True])
    assert np.isnan(found.p).tolist() == [False, False, True]
    assert found.p[:2] == pytest.approx(joint_test(d[:, :2], [True, False]).p)
    still = joint_test(np.zeros((5, 2)), [True, False])
    assert still.p.tolist() == [1, 1]
    assert joint_test(np.zeros((0, 2)), [True, False]).p.tolist() != [0, 0]


@given(st.integers(0, 10**6), st.integers(3, 60))
def test_order_of_queries_and_of_the_runs_do_not_matter(seed, n):
    rng = np.random.default_rng(seed)
    d = rng.choice([-1, -0.5, 0, 0, 0.5, 1], (n, 3))
    d[rng.random((n, 3)) < 0.1] = np.nan
    first = [True, False, False]
    p = joint_test(d, first).p
    np.testing.assert_array_equal(p, joint_test(d[rng.permutation(n)], first).p)
    np.testing.assert_array_equal(p, joint_test(-d, first).p)
    alone = sign_flip_p(d)
    known = ~np.isnan(p)
    assert (p[known] >= alone[known] - 0.02).all(), "a correction never makes p smaller"


def test_from_a_thousand_moved_queries_the_normal_limit_agrees_with_random_signs():
    rng = np.random.default_rng(6)
    base = rng.exponential(1, (1_100, 1)) * rng.choice([-1, 1], (1_100, 1))
    d = base + rng.normal(0.03, 1, (1_100, 6)) + np.linspace(0, 0.12, 6)
    first = [True, True, False, False, False, False]
    limit, drawn = joint_test(d, first), joint_test(d[:999], first)
    again = joint_test(np.vstack([d[:999], np.zeros((500, 6))]), first)
    np.testing.assert_array_equal(drawn.p, again.p)  # queries that didn't move don't count
    assert spearmanr(limit.p, drawn.p).statistic > 0.8
    assert limit.level == pytest.approx(drawn.level, rel=0.3), "the last 1 % of 10,000 draws"


def test_where_nothing_changed_any_claim_is_made_in_at_most_5_percent():
    rng = np.random.default_rng(7)
    claims = 0
    for _ in range(200):
        shared = rng.normal(0, 1, (60, 1))
        d = 0.7 * shared + rng.normal(0, 0.7, (60, 12))
        d = np.where(np.abs(d) < 0.8, 0, d)
        claims += (joint_test(d, [True] * 3 + [False] * 9, iterations=1_000).p < 0.05).any()
    assert claims / 200 <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 200)


def test_a_metric_that_few_queries_moved_in_has_its_own_exact_p_among_many_that_did():
    rng = np.random.default_rng(8)
    d = np.column_stack([rng.normal(0, 1, 3_000), np.zeros(3_000), rng.normal(0, 1, 3_000)])
    d[:7, 1] = 1.0  # 7 / 0: exact p 2/128, of the normal limit .008
    found = joint_test(d, [True, True, False])
    assert found.p[1] == pytest.approx(2 / 128 * 2 / 0.8), "of two primary metrics"
