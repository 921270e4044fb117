"""The permutation test of a slice against the rest, against enumeration and scipy."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import permutation_test

import ragscore as rs
from ragscore.stats import two_sample_p

RNG = np.random.default_rng(7)


def enumerated(values, n_in, distance):
    """Share of all slices of that size whose mean is as far from the rest's."""
    found = []
    for chosen in combinations(range(len(values)), n_in):
        inside = np.isin(np.arange(len(values)), chosen)
        found.append(abs(values[inside].mean() - values[~inside].mean()) >= distance - 1e-12)
    return np.mean(found)


@pytest.mark.parametrize(
    "values", [[1, 1, 1, 0, 0, 0, 0, 1], [0.1, 0.9, 0.8, 0.7, 0.2, 0.3, 0, 0.4]]
)
def test_p_is_the_share_of_all_slices_of_that_size(values):
    values = np.array(values, dtype=float)
    inside = np.array([True] * 3 + [False] * 5)
    exact = enumerated(values, 3, abs(values[:3].mean() - values[3:].mean()))
    assert two_sample_p(values, inside)[0] == pytest.approx(exact, abs=0.02)


def test_p_agrees_with_scipy():
    values, inside = (
        RNG.random((60, 1)) + np.repeat([0.2, 0], [20, 40])[:, None],
        np.repeat([True, False], [20, 40]),
    )
    theirs = permutation_test(
        (values[inside, 0], values[~inside, 0]),
        lambda a, b, axis: a.mean(axis) - b.mean(axis),
        n_resamples=9999,
        vectorized=True,
        rng=np.random.default_rng(1),
    )
    assert two_sample_p(values, inside)[0] == pytest.approx(theirs.pvalue, abs=0.015)


def test_a_group_moves_as_one():
    # 4 groups of 5 equal values: 6 ways to take two of them; the slice and its complement are the
    # farthest apart
    values, groups = np.repeat([1.0, 0.9, 0.1, 0.0], 5), np.repeat([0, 1, 2, 3], 5)
    inside = np.repeat([True, True, False, False], 5)
    assert two_sample_p(values, inside, groups=groups)[0] == pytest.approx(2 / 6, abs=0.02)
    assert two_sample_p(values, inside)[0] < 0.001


def test_members_of_a_mixed_group_change_places_within_it():
    # 5 pairs, the first of each in the slice and better by 1: only all swapped is as far, 2 of 2^5;
    # the pairs' own levels don't matter
    level = np.repeat([0.0, 10, 20, 30, 40], 2)
    values, inside = level + np.tile([1.0, 0], 5), np.tile([True, False], 5)
    assert two_sample_p(values, inside, groups=np.repeat(np.arange(5), 2))[0] == pytest.approx(
        2 / 32, abs=0.01
    )
    assert two_sample_p(values, inside)[0] > 0.8


def test_whole_and_mixed_groups_may_stand_side_by_side():
    # two single queries (in, out) and one pair (in, out): four relabellings, the observed one and
    # its opposite are the farthest
    values, inside, groups = (
        np.array([1.0, 0, 1, 0]),
        np.array([True, False, True, False]),
        np.array([-1, -1, 0, 0]),
    )
    assert two_sample_p(values, inside, groups=groups)[0] == pytest.approx(2 / 4, abs=0.02)


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
        two_sample_p(values, inside, groups=chosen[0]).tolist()
        == two_sample_p(values[order], inside[order], groups=chosen[1]).tolist()
    )


def test_each_metric_is_tested_on_the_queries_it_applies_to():
    values = RNG.random((12, 2))
    values[[0, 5], 1] = np.nan
    inside = np.arange(12) < 5
    kept = ~np.isnan(values[:, 1])
    assert two_sample_p(values, inside)[1] == two_sample_p(values[kept, 1], inside[kept])[0]


def test_without_a_slice_or_a_rest_there_is_no_p():
    values = np.array([[1.0, np.nan], [0.0, 1.0]])
    assert (
        np.isnan(two_sample_p(values, [True, True])).all()
        and np.isnan(two_sample_p(values, [False, False])).all()
    )
    assert np.isnan(two_sample_p(values, [True, False])).tolist() == [False, True]
    with pytest.raises(rs.DataError, match="is_in: found shape"):
        two_sample_p(values, [True])


def test_false_alarms_stay_near_the_level():
    hits = 0
    for round_ in range(300):
        values = np.random.default_rng(round_).random(40) < 0.8
        hits += (
            two_sample_p(values.astype(float), np.arange(40) < 12, iterations=499, seed=round_)[0]
            <= 0.05
        )
    assert hits <= 25  # 5 % of 300 is 15; three standard errors more is 26
