"""The permutation test of a slice against the rest, against enumeration and scipy."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from ragscore.stats import paired, two_sample_test
from tests.messages import refused

RNG = np.random.default_rng(7)


def enumerated(values, n_in, distance):
    """Share of all slices of that size whose mean is as far from the rest's."""
    found = []
    for chosen in combinations(range(len(values)), n_in):
        inside = np.isin(np.arange(len(values)), chosen)
        found.append(abs(values[inside].mean() - values[~inside].mean()) >= distance - 1e-12)
    return np.mean(found)


def test_p_of_0_1_values_is_the_share_of_all_slices_of_that_size():
    values, inside = np.array([1.0, 1, 1, 0, 0, 0, 0, 1]), np.array([True] * 3 + [False] * 5)
    exact = enumerated(values, 3, abs(values[:3].mean() - values[3:].mean()))
    assert two_sample_test(values, inside)[0][0] == pytest.approx(exact, abs=1e-12)
    assert exact == pytest.approx(stats.fisher_exact([[3, 0], [1, 4]])[1])


def test_p_is_twice_the_share_of_slices_whose_welch_statistic_is_as_extreme():
    values = np.array([0.1, 0.9, 0.8, 0.7, 0.2, 0.3, 0, 0.4, 0.95, 0.15])
    inside = np.array([False, True, True, True, False, False, False, False, True, False])
    found = [
        stats.ttest_ind(values[list(chosen)], np.delete(values, chosen), equal_var=False).statistic
        for chosen in combinations(range(10), 4)
    ]
    own = stats.ttest_ind(values[inside], values[~inside], equal_var=False)
    share = np.mean(np.array(found) >= own.statistic - 1e-9)
    assert share > 0 and own.pvalue < 2 * share
    assert two_sample_test(values, inside)[0][0] == pytest.approx(2 * share, abs=0.004)


def test_p_is_never_below_welchs():
    rng = np.random.default_rng(3)
    values, inside = (
        rng.random((60, 30)) + np.repeat([0.2, 0], [20, 40])[:, None],
        np.arange(60) < 20,
    )
    welch = stats.ttest_ind(values[inside], values[~inside], equal_var=False).pvalue
    p = two_sample_test(values, inside)[0]
    assert (p >= welch * (1 - 1e-10)).all() and p == pytest.approx(welch, abs=0.05)


def test_a_slice_that_only_varies_more_than_the_rest_is_rarely_called_different():
    # sd .45 against .15 around equal means; exchanging values alone called 19 to 41 % different
    rng, rounds, n_in, n_rest = np.random.default_rng(4), 200, 12, 138
    wide, narrow = rng.beta(0.1173, 0.1173, (n_in, rounds)), rng.beta(5.06, 5.06, (n_rest, rounds))
    assert wide.std() == pytest.approx(0.45, abs=0.01) and narrow.std() == pytest.approx(
        0.15, abs=0.01
    )
    inside = np.arange(n_in + n_rest) < n_in
    p = two_sample_test(np.concatenate([wide, narrow]), inside, iterations=999)[0]
    assert (p <= 0.05).sum() <= stats.binom.ppf(0.999, rounds, 0.06)


def test_nearly_perfect_values_are_neither_called_different_for_nothing_nor_hidden():
    rng, rounds, n = np.random.default_rng(5), 200, 150
    values = 1 - (rng.random((n, rounds)) < 0.1) * rng.random((n, rounds))
    inside = np.arange(n) < 40
    assert (two_sample_test(values, inside, iterations=999)[0] <= 0.05).mean() <= 0.08
    values[:40] -= 0.5 * (rng.random((40, rounds)) < 0.5)  # a fourth of a point lower
    assert (two_sample_test(values, inside, iterations=999)[0] <= 0.05).mean() >= 0.9


def test_members_of_uneven_groups_are_measured_by_their_own_spread():
    # of five paraphrases one, in the slice, varies three times as much; means are equal
    rng, rounds, groups = np.random.default_rng(6), 200, np.repeat(np.arange(30), 5)
    inside = np.arange(150) % 5 == 0
    values = rng.normal(0, np.where(inside, 0.45, 0.15)[:, None], (150, rounds))
    p = two_sample_test(values, inside, groups=groups, iterations=499)[0]
    assert (p <= 0.05).sum() <= stats.binom.ppf(0.999, rounds, 0.06)


def test_a_group_moves_as_one():
    # 4 groups of 5 equal values: 6 ways to take two of them; the slice and its complement are the
    # farthest apart
    values, groups = np.repeat([1.0, 0.9, 0.1, 0.0], 5), np.repeat([0, 1, 2, 3], 5)
    inside = np.repeat([True, True, False, False], 5)
    assert two_sample_test(values, inside, groups=groups)[0][0] == pytest.approx(2 / 6, abs=0.02)
    assert two_sample_test(values, inside)[0][0] < 0.001


def test_members_of_a_mixed_group_change_places_within_it():
    # 5 pairs, the first of each in the slice and better by 1: only all swapped is as far, 2 of 2^5;
    # the pairs' own levels don't matter
    level = np.repeat([0.0, 10, 20, 30, 40], 2)
    values, inside = level + np.tile([1.0, 0], 5), np.tile([True, False], 5)
    assert two_sample_test(values, inside, groups=np.repeat(np.arange(5), 2))[0][
        0
    ] == pytest.approx(2 / 32, abs=0.01)
    assert two_sample_test(values, inside)[0][0] > 0.8


def test_whole_and_mixed_groups_may_stand_side_by_side():
    # two single queries (in, out) and one pair (in, out): four relabellings, the observed one and
    # its opposite are the farthest
    values, inside, groups = (
        np.array([1.0, 0, 1, 0]),
        np.array([True, False, True, False]),
        np.array([-1, -1, 0, 0]),
    )
    assert two_sample_test(values, inside, groups=groups)[0][0] == pytest.approx(2 / 4, abs=0.02)


@pytest.mark.parametrize("with_groups", [False, True])
def test_the_order_of_queries_does_not_matter(with_groups):
    values, inside, groups = (
        RNG.random((30, 2)),
        np.arange(30) % 3 == 0,
        np.repeat(np.arange(15), 2),
    )
    order = RNG.permutation(30)
    chosen = (groups, groups[order]) if with_groups else (None, None)
    assert (
        two_sample_test(values, inside, groups=chosen[0])[0].tolist()
        == two_sample_test(values[order], inside[order], groups=chosen[1])[0].tolist()
    )


def test_each_metric_is_tested_on_the_queries_it_applies_to():
    values = RNG.random((12, 2))
    values[[0, 5], 1] = np.nan
    inside = np.arange(12) < 5
    kept = ~np.isnan(values[:, 1])
    assert (
        two_sample_test(values, inside)[0][1]
        == two_sample_test(values[kept, 1], inside[kept])[0][0]
    )


def test_without_a_slice_or_a_rest_there_is_no_p():
    values = np.array([[1.0, np.nan], [0.0, 1.0]])
    assert (
        np.isnan(two_sample_test(values, [True, True])[0]).all()
        and np.isnan(two_sample_test(values, [False, False])[0]).all()
    )
    assert np.isnan(two_sample_test(values, [True, False])[0]).tolist() == [False, True]
    with refused(1, field="is_in"):
        two_sample_test(values, [True])[0]


@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7])
@pytest.mark.parametrize("with_groups", [False, True])
def test_equal_values_are_no_difference_however_many_queries(value, with_groups):
    # their mean is not the value itself, but for rounding
    values, inside = np.full((5_000, 2), value), np.arange(5_000) % 3 == 0
    groups = np.arange(5_000) // 2 if with_groups else None
    assert two_sample_test(values, inside, groups=groups)[0].tolist() == [1.0, 1.0]
    values[~inside, 1] += 0.25
    assert two_sample_test(values, inside, groups=groups)[0].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("n_others", [2, 300])
def test_rare_values_among_equal_ones_have_the_p_of_relabelling_every_query(n_others, monkeypatch):
    rng = np.random.default_rng(n_others)
    values = np.full((3_000, 2), 0.25)  # and others, in other queries of each column
    for column in values.T:
        column[rng.choice(len(values), n_others, replace=False)] += rng.lognormal(0, 2, n_others)
    inside = np.arange(3_000) % 12 == 0
    values[np.flatnonzero(inside)[: n_others // 8], 0] += 3
    p, by_limit = two_sample_test(values, inside)
    assert not by_limit.any()
    monkeypatch.setattr(paired, "PLAIN", 3_001)
    one_by_one, _ = two_sample_test(values, inside, iterations=4_000, seed=1)
    # both are drawn: three standard errors of twice a share of 4,000 and of 10,000
    share = one_by_one / 2
    assert (np.abs(p - one_by_one) < 6 * np.sqrt(share * (1 - share) * (1 / 4e3 + 1e-4))).all()
