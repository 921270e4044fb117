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


ONE = drawn(100, np.zeros(1))
FEW = drawn(29, np.full(4, 0.9))


@pytest.mark.parametrize(
    ("values", "groups", "level", "rel"),
    [
        # Šidák's where columns know nothing of each other
        (drawn(20_000, np.zeros(5)), None, 1 - 0.95**0.2, 0.06),
        # copies cost nothing, and columns without a difference are not asked
        (np.repeat(ONE, 6, axis=1), None, 0.05, 0.03),
        (np.column_stack([ONE, np.zeros((100, 4))]), None, 0.05, 0),
        (ONE, None, 0.05, 0),
        (np.zeros((100, 3)), None, 0.05, 0),
        # Bonferroni's below thirty queries or clusters, or for more than 1,000 columns
        (FEW, None, 0.05 / 4, 0),
        (np.repeat(FEW, 10, axis=0), np.arange(290) // 10, 0.05 / 4, 0),
        (drawn(60, np.full(1_001, 0.95)), None, 0.05 / 1_001, 0),
        # one dominant cluster makes many clusters few
        (
            drawn(150, np.full(3, 0.9)),
            np.append(np.zeros(100, dtype=int), np.arange(1, 51)),
            0.05 / 3,
            0,
        ),
    ],
)
def test_the_level_of_each_where_a_formula_gives_it(values, groups, level, rel):
    assert level_of_each(values, groups) == pytest.approx(level, rel=rel, abs=1e-15)


def test_two_correlated_columns_have_the_level_of_the_bivariate_normal():
    level = level_of_each(drawn(50_000, np.array([0.9**0.5, 0.9**0.5])))
    z = stats.norm.isf(level / 2)
    inside = stats.multivariate_normal.cdf(
        [z, z], cov=[[1, 0.9], [0.9, 1]], lower_limit=[-z, -z], rng=np.random.default_rng(0)
    )
    assert inside == pytest.approx(0.95, abs=0.003)


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
    draws, groups = 5 * EXAMPLES, None if size == 1 else np.arange(n) // size
    for _ in range(draws):
        values = drawn(n, np.full(5, 0.8), rng.integers(2**31))
        if size > 1:
            values += drawn(n // size, np.full(5, 0.8), rng.integers(2**31))[groups]
        confidence = 1 - level_of_each(values, groups)
        low, high = paired_interval(values, "other", groups=groups, confidence=confidence)
        held += bool(((low <= 0) & (high >= 0)).all())
    assert held >= stats.binom.ppf(0.001, draws, 0.945)


@pytest.mark.parametrize("size", [1, 2, 5, 30, 400])
@pytest.mark.parametrize(("ours", "theirs"), [(holm, "holm"), (benjamini_hochberg, "fdr_bh")])
def test_corrections_agree_with_statsmodels_and_leave_out_what_was_not_tested(size, ours, theirs):
    p = np.random.default_rng(size).beta(0.5, 2, size).round(3)  # rounded: some are equal
    expected = [*multipletests(p, method=theirs)[1], np.nan]
    assert ours([*p, np.nan]) == pytest.approx(expected, abs=1e-9, nan_ok=True)
