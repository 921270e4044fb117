"""Paired differences against statsmodels, scipy and published values; many of them at one level."""

from itertools import product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from ragscore.stats import (
    benjamini_hochberg,
    holm,
    mcnemar_p,
    paired_interval,
    sign_flip_p,
    tango_interval,
)
from ragscore.stats.moments import as_columns, sample
from ragscore.stats.multiple import level_of_each
from ragscore.stats.paired import paired_test, welch
from ragscore.stats.quantiles import median_difference_interval, moves_of_median
from tests.conftest import EXAMPLES

DIFFERENCES = st.lists(st.integers(-4, 4).map(lambda value: value / 4), min_size=1, max_size=24)
LONG_DIFFERENCES = st.lists(
    st.integers(1, 9).flatmap(lambda size: st.sampled_from([-size / 7, size / 7])),
    min_size=17,
    max_size=24,
)
NAN = np.nan


def paired_p(differences, kind, groups=None):
    columns = as_columns(differences)
    return paired_test(columns, sample(columns, groups), kind, (0, 1), 0.95)[2]


def by_enumeration(differences, groups=None):
    """Share of all sign patterns of the groups whose mean is at least as far from 0."""
    groups = np.arange(len(differences)) if groups is None else np.asarray(groups)
    sums = [differences[groups == name].sum() for name in sorted(set(groups.tolist()))]
    totals = np.array(list(product([1, -1], repeat=len(sums)))) @ sums
    return (np.abs(totals) >= abs(differences.sum()) - 1e-9).mean()


def moved(wins, losses, ties=0):
    """Differences of so many queries."""
    return np.repeat([1.0, -1, 0], [wins, losses, ties])


# McNemar's test and Tango's interval


@given(st.integers(0, 60), st.integers(0, 60))
@example(1, 0)
@example(1, 3)
def test_mcnemar_agrees_with_statsmodels_and_mid_p_takes_half_of_what_was_seen(wins, losses):
    expected = mcnemar([[7, wins], [losses, 11]], exact=True).pvalue if wins + losses else 1.0
    assert mcnemar_p(wins, losses, is_exact=True) == pytest.approx(expected, abs=1e-9)
    seen = stats.binom(wins + losses, 0.5)
    mid_p = 2 * seen.cdf(min(wins, losses)) - seen.pmf(min(wins, losses))
    assert mcnemar_p(wins, losses) == pytest.approx(min(mid_p, 1), abs=1e-9)


@given(st.integers(1, 60), st.integers(0, 60))
def test_tango_leaves_out_0_where_statsmodels_score_test_does(wins, losses):
    low, high = tango_interval(wins, losses, 130)
    p = mcnemar([[7, wins], [losses, 11]], exact=False, correction=False).pvalue
    assert ((low[0] > 0) or (high[0] < 0)) == (p < 0.05)


def test_p_and_intervals_are_the_published_ones():
    # Cavo et al. 2012 in Fagerland, Lydersen and Laake 2017, chapter 8: 59 and 80 pairs agree, 6
    # and 16 don't.
    assert mcnemar_p(6, 16, is_exact=True) == pytest.approx(0.052479, abs=5e-7)
    assert mcnemar_p(6, 16) == pytest.approx(0.034690, abs=5e-7)
    assert np.ravel(tango_interval(6, 16, 161)) == pytest.approx([-0.1240, -0.0054], abs=5e-5)
    # z = 10 / √22 = 2.132, whose two tails hold .0330; of one change it is 1
    found = paired_p(np.column_stack([moved(6, 16, 139), moved(1, 0, 160)]), "binary")
    assert found == pytest.approx([0.0330, 0.3173], abs=5e-5)


def test_nothing_moved_is_no_evidence_and_leaves_open_what_was_not_seen():
    assert mcnemar_p([0, 3], [0, 3]).tolist() == [1, 1] and mcnemar_p(0, 0, is_exact=True) == 1
    unseen = 1.959964**2 / (50 + 1.959964**2)
    assert np.ravel(tango_interval(0, 0, 50)) == pytest.approx([-unseen, unseen], abs=1e-6)
    assert np.isnan(tango_interval(0, 0, 0)).all()
    assert np.isnan(paired_p([NAN], "binary")[0]) and paired_p([0.0], "binary")[0] == 1


@pytest.mark.parametrize(
    ("wins", "losses", "n"), [(6, 16, 161), (3, 0, 20), (40, 20, 160), (0, 9, 9)]
)
def test_tango_holds_what_the_score_test_accepts(wins, losses, n):
    bounds = np.concatenate(tango_interval(wins, losses, n))
    for bound in bounds[bounds > -1]:  # the end of the range
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


# Sign flips


@given(DIFFERENCES)
def test_sign_flips_are_enumerated_where_few_differences_are_not_zero(differences):
    some = np.array([one for one in differences if one][:12])
    expected = by_enumeration(some) if len(some) else 1.0
    assert sign_flip_p([*some, 0.0])[0] == pytest.approx(expected, abs=1e-12)


def test_of_more_than_sixteen_random_ones_come_close_to_all_of_them():
    differences = np.random.default_rng(4).normal(0.35, 1, 17)
    exact, p = by_enumeration(differences), sign_flip_p(differences)[0]
    assert p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 10_000))
    assert p * 10_001 % 1 == pytest.approx(0, abs=1e-6)  # (1 + number) / (B + 1)
    assert sign_flip_p(np.ones(16))[0] == 2 / 2**16


@given(LONG_DIFFERENCES, st.integers(0, 300), st.randoms(use_true_random=False))
def test_neither_empty_queries_nor_other_metrics_nor_any_order_change_p(differences, empty, random):
    p = sign_flip_p(differences, iterations=500)[0]
    rows = [*differences, *[NAN] * empty, *[0.0] * empty]
    random.shuffle(rows)
    other = np.random.default_rng(empty).normal(size=(len(rows), 3))
    assert sign_flip_p(np.negative(rows), iterations=500)[0] == p
    assert sign_flip_p(np.column_stack([other, rows]), iterations=500)[3] == p


def test_members_of_a_group_flip_together():
    rng = np.random.default_rng(0)
    differences, groups = rng.normal(0.3, 1, 20), rng.integers(0, 7, 20)
    assert sign_flip_p(differences, groups=groups)[0] == pytest.approx(
        by_enumeration(differences, groups), abs=1e-12
    )
    assert sign_flip_p(differences, groups=np.full(20, -1))[0] == sign_flip_p(differences)[0]


ROUNDED = np.append(np.full(40, 1e-17) * np.tile([1, -1], 20), [0.5, 0.5, -0.25])


@pytest.mark.parametrize(
    ("differences", "p"),
    [([NAN, NAN], NAN), ([0.0, 0, NAN], 1), ([0.5, 0.5, -0.25], 0.5), (ROUNDED, 0.5)],
)
def test_rounding_and_zeros_are_no_difference(differences, p):
    np.testing.assert_equal(sign_flip_p(differences)[0], p)


# Intervals of any kind of metric, and their p

CASES = st.tuples(
    st.lists(st.sampled_from([0, 0.25, 0.5, 1.0, -0.25, -1.0, NAN]), min_size=2, max_size=40),
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
    assert abs(p - (1 - confidence)) <= 1e-9 or (p < 1 - confidence) == (low > 0 or high < 0)


def students(values, confidence=0.95):
    return tuple(stats.ttest_1samp(values, 0).confidence_interval(confidence))


VALUES = np.random.default_rng(0).random(40)


@pytest.mark.parametrize(
    ("differences", "kind", "groups", "expected"),
    [
        # of 0/1 metrics Tango's, of averaged repeats Student's
        ([*moved(6, 16, 139), NAN], "binary", None, np.ravel(tango_interval(6, 16, 161))),
        (moved(6, 16, 139) / 2, "binary", None, students(moved(6, 16, 139) / 2)),
        # copies add nothing: every query three times has the interval of one
        (np.repeat(VALUES, 3), "time", np.arange(120) // 3, students(VALUES)),
        (np.repeat(VALUES[:2], 3), "time", np.arange(6) // 3, students(VALUES[:2])),
        # of one group nothing tells how groups differ: it is worth one sign
        (VALUES, "time", np.zeros(40, dtype=int), (NAN, NAN)),
        (VALUES, "bounded", np.zeros(40, dtype=int), (VALUES.mean() * (1 - 1.959964), 1)),
        # within the width
        ([1, 1, -0.5], "bounded", None, (-1, 1)),
        # without bounds equal differences tell nothing
        (np.zeros(30), "cost", None, (NAN, NAN)),
        (np.zeros(30), "cost", np.arange(30) // 3, (NAN, NAN)),
    ],
)
def test_intervals_of_differences(differences, kind, groups, expected):
    found = np.ravel(paired_interval(differences, kind, groups=groups))
    assert found == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize("kind", ["binary", "bounded"])
@pytest.mark.parametrize("groups", [None, np.arange(30) // 3])
@pytest.mark.parametrize("value", [-1.0, -0.3, 0.0])
def test_equal_differences_have_a_width(kind, groups, value):
    low, high = paired_interval(np.full(30, value), kind, groups=groups)
    assert high[0] - low[0] > 0.05


@pytest.mark.parametrize(("kind", "size"), [("binary", 5), ("bounded", 1), ("bounded", 5)])
def test_three_equal_differences_are_no_evidence_and_four_are(kind, size):
    # as of signs: 4 / √4 = 2 lies beyond 1.96, and 3 / √3 does not
    for n in range(1, 8):
        (low,), (high,) = paired_interval(
            np.ones(n * size), kind, groups=np.arange(n * size) // size
        )
        assert (low > 0) == (n > 3) and high == 1


@pytest.mark.parametrize(
    ("groups", "alike"),
    [
        # of 100 and ten of 5 queries: (150)² / (100² + 10 · 5²) = 2.2 clusters of one size
        (np.append(np.zeros(100, dtype=int), 1 + np.arange(50) // 5), 150**2 / (100**2 + 250)),
        (np.arange(150) // 5, 30),
        (None, 150),
    ],
)
def test_a_large_cluster_counts_for_what_the_mean_owes_to_it(groups, alike):
    assert sample(np.ones((150, 1)), groups).alike == pytest.approx([alike])


def test_0_1_metrics_in_pairs_of_copies_have_tangos_interval_of_half_as_many():
    # Of 161 pairs of copies the variance of the mean is (2·161 − 1) / (161 − 1) times that of 322
    # single queries; t has 160 degrees of freedom.
    differences, groups = moved(12, 32, 278), np.arange(322) // 2
    expected = tango_interval(*np.array([12, 32, 322]) * 160 / 321, freedom=160)
    found = paired_interval(differences, "binary", groups=groups)
    assert np.ravel(found) == pytest.approx(np.ravel(expected))
    p = paired_p(differences, "binary", groups=groups)
    assert p == pytest.approx(2 * stats.t.sf(20 / np.sqrt(44 * 321 / 160), 160))


def test_a_slice_is_compared_with_the_rest_as_welch_does():
    values, inside = np.random.default_rng(0).normal(0, 1, 50), np.arange(50) < 20
    found = np.ravel(welch(values, inside)).tolist()
    theirs = stats.ttest_ind(values[:20], values[20:], equal_var=False)
    delta = values[:20].mean() - values[20:].mean()
    assert found == pytest.approx([delta, *theirs.confidence_interval(), theirs.pvalue])
    for nothing in (welch(np.ones(50), inside), welch(values, np.arange(50) < 1)):
        assert np.isnan(nothing[3]).all()


# Medians


def test_what_each_value_adds_to_a_median_by_hand():
    # of 0 ... 15 the median is 7.5; shares .25 and .75, 1/√16 on either side, lie at 3.75 and
    # 11.25: half of the values in 7.5, a density of 1/15
    assert moves_of_median(np.arange(16.0)).tolist() == [-7.5] * 8 + [7.5] * 8


def test_the_interval_of_a_difference_of_medians_is_students_of_what_queries_add():
    first, second = np.random.default_rng(0).lognormal(size=(2, 30))
    half = stats.t.ppf(0.95, 29) * stats.sem(moves_of_median(second) - moves_of_median(first))
    delta = np.median(second) - np.median(first)
    found = median_difference_interval([*first, NAN], [*second, 9], 0.9)
    assert found == pytest.approx((delta - half, delta + half))


SIX = np.arange(6.0)


@pytest.mark.parametrize(
    ("first", "second", "how", "expected"),
    [
        (SIX, SIX + 2, {}, (2, 2)),
        (SIX[:5], SIX[:5], {}, (NAN, NAN)),
        (SIX, SIX, {"groups": [0, 0, 1, 2, 3, 4]}, (NAN, NAN)),
        ([], [], {}, (NAN, NAN)),
        (SIX, SIX, {"confidence": 0.99}, (NAN, NAN)),  # 2^−6 is more than half of 1 %
    ],
)
def test_medians_of_few_queries_have_no_interval(first, second, how, expected):
    np.testing.assert_equal(median_difference_interval(first, second, **how), expected)


@pytest.mark.parametrize(("n", "size"), [(20, 1), (200, 5)])
def test_intervals_of_medians_hold_the_difference(n, size):
    rng, groups, held = np.random.default_rng(10), np.arange(n) // size, []
    for _ in range(600):
        shared = rng.standard_normal(n // size)[groups] + rng.standard_normal(n)
        first, second = np.exp(0.5 * shared + np.sqrt(0.5) * rng.standard_normal((2, n)))
        low, high = median_difference_interval(first, 1.2 * second, groups=groups)
        held.append(low <= 0.2 <= high)
    assert 0.935 <= np.mean(held) <= 0.985


# The level of each interval against full formulas, and corrections against statsmodels


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
        # Šidák's where columns know nothing of each other, however small their values are
        (drawn(20_000, np.zeros(5)) / 1_000, None, 1 - 0.95**0.2, 0.06),
        # copies cost nothing, and columns without a difference are not asked
        (np.repeat(ONE, 6, axis=1), None, 0.05, 0.03),
        (np.column_stack([ONE, np.zeros((100, 4))]), None, 0.05, 0),
        (ONE, None, 0.05, 0),
        (np.zeros((100, 3)), None, 0.05, 0),
        # Bonferroni's below thirty queries or clusters, or for more than 1,000 columns
        (FEW, None, 0.05 / 4, 0),
        (np.where(np.arange(29)[:, None] < 2, FEW, NAN), None, 0.05 / 4, 0),
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
