"""From 1,000 units a side tests go by their normal limit: against permutation and scipy."""

import numpy as np
import pytest
from scipy import stats

from ragscore.stats import (
    NORMAL_FROM,
    sign_flip_p,
    two_sample_test,
)
from ragscore.stats.moments import group_sums
from ragscore.stats.paired import WELCH_FROM, is_by_limit

N = NORMAL_FROM
NEVER = 10**9
COLUMNS = 30


def by_permutation(monkeypatch):
    monkeypatch.setattr("ragscore.stats.paired.NORMAL_FROM", NEVER)


def recall_like(rng, n, columns):
    """Skewed values from 0 to 1, most of them 1."""
    return np.where(rng.random((n, columns)) < 0.8, 1.0, rng.beta(1, 2, (n, columns)))


def test_welch_is_scipys_and_agrees_with_the_permutation(monkeypatch):
    # of the skewness of these values Cochran's rule asks for some more
    rng, inside = np.random.default_rng(1), np.arange(N) < 1.5 * WELCH_FROM
    values = recall_like(rng, N, COLUMNS)
    p, by_limit = two_sample_test(values, inside)
    theirs = stats.ttest_ind(values[inside], values[~inside], equal_var=False).pvalue
    assert by_limit.all() and p == pytest.approx(theirs, abs=1e-10)
    monkeypatch.setattr("ragscore.stats.paired.WELCH_FROM", NEVER)
    drawn, by_limit = two_sample_test(values, inside, iterations=2_000)
    assert not by_limit.any()
    # a tail counted twice is more than both tails where values are skewed
    assert (np.abs(p - drawn) <= 0.15 * p + 0.02).all()


def test_one_value_less_on_one_side_is_still_a_permutation():
    values, inside = recall_like(np.random.default_rng(2), N, 1), np.arange(N) < WELCH_FROM - 1
    assert not two_sample_test(values, inside, iterations=50)[1].any()


def test_rare_failures_are_tested_by_permutation_at_any_n():
    # none of 5,000 in the slice and 9 of 45,000 in the rest: the hypergeometric chance of a
    # distance at least as large; Welch, without any spread in the slice, would say .003
    values, inside = np.zeros(50_000), np.arange(50_000) < 5_000
    values[-9:] = 1.0
    p, by_limit = two_sample_test(values, inside)
    counts = stats.hypergeom(50_000, 9, 5_000)
    ks = np.arange(10)
    far = np.abs(ks / 5_000 - (9 - ks) / 45_000) >= 9 / 45_000 - 1e-15
    assert not by_limit[0] and p[0] == pytest.approx(counts.pmf(ks)[far].sum(), rel=1e-9)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_false_alarms_of_welch_keep_to_5_percent_with_groups(is_mixed):
    # pairs that share most of their value; wholly on one side, or one member on each
    rng, rounds = np.random.default_rng(5), 600
    level = recall_like(rng, 2 * N, rounds).repeat(2, axis=0)
    values = 0.9 * level + 0.1 * rng.random(level.shape)
    groups = np.arange(2 * N).repeat(2)
    inside = np.arange(4 * N) % 2 == 0 if is_mixed else groups < N
    p, by_limit = two_sample_test(values, inside, groups=groups)
    assert by_limit.all() and 0.03 <= (p < 0.05).mean() <= 0.075  # .05 ± 3 standard errors
    ignored = two_sample_test(values, inside)[0]
    assert (ignored < 0.05).mean() < 0.02 if is_mixed else (ignored < 0.05).mean() > 0.1


def test_sign_flips_agree_with_their_normal_limit(monkeypatch):
    rng = np.random.default_rng(6)
    differences = recall_like(rng, 2 * N, COLUMNS) - recall_like(rng, 2 * N, COLUMNS)
    groups = np.arange(2 * N) // 2
    for own in (None, groups):
        monkeypatch.undo()
        differences[differences == 0] = 1e-3  # every one has moved
        assert is_by_limit(group_sums(differences, own)).all()
        p = sign_flip_p(differences, groups=own)
        by_permutation(monkeypatch)
        drawn = sign_flip_p(differences, groups=own, iterations=4_000)
        assert np.abs(p - drawn).max() < 4 * np.sqrt(0.25 / 4_000)


def test_false_alarms_of_sign_flips_keep_to_5_percent():
    rng = np.random.default_rng(7)
    differences = recall_like(rng, 4 * N, 400) - recall_like(rng, 4 * N, 400)
    assert is_by_limit(differences).all()
    assert 0.017 <= (sign_flip_p(differences) < 0.05).mean() <= 0.083


def test_a_few_large_differences_or_few_that_moved_are_flipped():
    one_decides = np.r_[np.full(2 * N, 1e-3), 100.0]
    few_moved = np.r_[np.ones(N - 1), np.zeros(N)]
    for own, is_by in ((one_decides, False), (few_moved, False), (np.ones(N), True)):
        assert is_by_limit(own[:, None]).tolist() == [is_by]
