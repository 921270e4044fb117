"""The level of each interval against full formulas, and corrections against statsmodels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from ragscore.stats import benjamini_hochberg, holm, paired_interval
from ragscore.stats.multiple import level_of_each
from tests.conftest import EXAMPLES


def drawn(n, shares, seed=0):
    """Columns with a part in common: correlated by the product of their shares."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    return shares * common + np.sqrt(1 - np.square(shares)) * rng.normal(size=(n, len(shares)))


def test_columns_that_know_nothing_of_each_other_have_sidaks_level():
    level = level_of_each(drawn(20_000, np.zeros(5)))
    assert level == pytest.approx(1 - 0.95**0.2, rel=0.06)


def test_two_correlated_columns_have_the_level_of_the_bivariate_normal():
    level = level_of_each(drawn(50_000, np.array([0.9**0.5, 0.9**0.5])))
    z = stats.norm.isf(level / 2)
    inside = stats.multivariate_normal.cdf(
        [z, z], cov=[[1, 0.9], [0.9, 1]], lower_limit=[-z, -z], rng=np.random.default_rng(0)
    )
    assert inside == pytest.approx(0.95, abs=0.003)


def test_copies_cost_nothing_and_columns_without_a_difference_are_not_asked():
    one = drawn(100, np.zeros(1))
    assert level_of_each(np.repeat(one, 6, axis=1)) == pytest.approx(0.05, rel=0.03)
    assert level_of_each(np.column_stack([one, np.zeros((100, 4))])) == 0.05
    assert level_of_each(np.zeros((100, 3))) == level_of_each(one) == 0.05


@pytest.mark.parametrize("groups", [None, np.arange(290) // 10])
def test_below_thirty_queries_or_clusters_it_is_bonferronis(groups):
    values = np.repeat(drawn(29, np.full(4, 0.9)), 1 if groups is None else 10, axis=0)
    assert level_of_each(values, groups) == 0.05 / 4


def test_one_dominant_cluster_makes_many_clusters_few():
    values = drawn(150, np.full(3, 0.9))
    groups = np.append(np.zeros(100, dtype=int), 1 + np.arange(50) // 1)
    assert level_of_each(values, groups) == 0.05 / 3 < level_of_each(values)


def test_of_more_columns_than_queries_it_lies_between_bonferroni_and_one_interval():
    values = drawn(60, np.full(300, 0.95))
    level = level_of_each(values)
    assert 0.05 / 300 < level < 0.05
    assert level_of_each(drawn(60, np.full(1_001, 0.95))) == 0.05 / 1_001


@given(st.integers(0, 2**31), st.integers(2, 8), st.booleans())
def test_neither_the_order_of_queries_nor_the_side_changes_it(seed, width, has_groups):
    rng = np.random.default_rng(seed)
    values = np.round(drawn(80, rng.random(width), seed), 2)
    values[rng.random(values.shape) < 0.1] = np.nan
    groups, order = np.arange(80) // 2 if has_groups else None, rng.permutation(80)
    level = level_of_each(values, groups)
    assert level_of_each(-values, groups) == level
    assert level_of_each(values[order], None if groups is None else groups[order]) == level
    assert level == float(f"{level:.4g}") and 0.05 / width <= level <= 0.05


@pytest.mark.parametrize(("n", "size"), [(20, 1), (60, 1), (40, 5), (200, 5)])
def test_intervals_at_this_level_hold_together(n, size):
    """Five columns of one value in common; groups of `size` queries share half of theirs."""
    rng, held = np.random.default_rng(n), 0
    draws, groups = 10 * EXAMPLES, np.arange(n) // size
    for _ in range(draws):
        values = drawn(n, np.full(5, 0.8), rng.integers(2**31))
        if size > 1:
            values += np.repeat(
                drawn(n // size, np.full(5, 0.8), rng.integers(2**31)), size, axis=0
            )
        own = None if size == 1 else groups
        confidence = 1 - level_of_each(values, own)
        low, high = paired_interval(values, "other", groups=own, confidence=confidence)
        held += bool(((low <= 0) & (high >= 0)).all())
    assert held >= stats.binom.ppf(0.001, draws, 0.945)


@pytest.mark.parametrize("size", [1, 2, 5, 30, 400])
def test_holm_and_benjamini_hochberg_agree_with_statsmodels(size):
    p = np.random.default_rng(size).beta(0.5, 2, size).round(3)  # rounded: some are equal
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1], abs=1e-9)
    assert benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1], abs=1e-9)


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_what_is_not_tested_stays_so_and_is_not_counted(adjust):
    known = adjust([0.04, 0.01])
    assert adjust([0.04, np.nan, 0.01])[[0, 2]].tolist() == known.tolist()
    assert np.isnan(adjust([0.04, np.nan, 0.01])[1])
