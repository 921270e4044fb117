"""Agreement of raters against statsmodels and krippendorff, hand-worked tables, and what undefined
means.
"""

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from scipy.stats import t as students
from stats.agreement_clusters import coverage
from statsmodels.stats.inter_rater import cohens_kappa

from ragscore.stats import (
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
    rank_correlation,
    weighted_kappa,
    wilson_interval,
)
from tests.messages import refused

POINTS = st.integers(0, 5).map(float)
SOME_POINTS = st.one_of(POINTS, st.just(np.nan))
PAIRS = st.lists(st.tuples(POINTS, POINTS), min_size=2, max_size=40)
TABLES = st.integers(2, 5).flatmap(
    lambda raters: st.lists(
        st.lists(SOME_POINTS, min_size=raters, max_size=raters), min_size=1, max_size=20
    )
)


def table_of(pairs):
    table = np.zeros((6, 6))
    for first, second in pairs:
        table[int(first), int(second)] += 1
    return table


def noisy(n, share, seed=0):
    """Points 0 to 5 of one rater, and another who rates a share of the items by chance.

    A kappa of 1 − share.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 6, n)
    return first, np.where(rng.random(n) < share, rng.integers(0, 6, n), first)


# Against others


@given(PAIRS)
def test_kappas_agree_with_statsmodels(pairs):
    first, second = zip(*pairs, strict=True)
    if len(set(first) | set(second)) == 1:
        return
    for ours, theirs in ((cohen_kappa, None), (weighted_kappa, "quadratic")):
        expected = cohens_kappa(table_of(pairs), wt=theirs, return_results=False)
        assert ours(first, second).value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
@given(table=TABLES)
def test_alpha_agrees_with_krippendorff(scale, table):
    found = krippendorff_alpha(table, scale)
    rated = [[value for value in row if not np.isnan(value)] for row in table]
    pairable = [value for row in rated if len(row) > 1 for value in row]
    assert found.n == sum(len(row) > 1 for row in rated)
    if len(set(pairable)) < 2:
        assert np.isnan(found.value)
    else:
        assert found.value == pytest.approx(
            krippendorff.alpha(np.transpose(table), level_of_measurement=scale), abs=1e-9
        )


@pytest.mark.parametrize(
    ("scale", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_of_krippendorffs_own_example(scale, expected):
    # Krippendorff 2011, "Computing Krippendorff's alpha-reliability", data C: four observers,
    # twelve units.
    observers = [
        "1 2 3 3 2 1 4 1 2 . . .",
        "1 2 3 3 2 2 4 1 2 5 . 3",
        ". 3 3 3 2 3 4 2 2 5 1 .",
        "1 2 3 3 2 4 4 1 2 5 1 .",
    ]
    ratings = np.array(
        [[np.nan if one == "." else float(one) for one in line.split()] for line in observers]
    ).T
    assert krippendorff_alpha(ratings, scale).value == pytest.approx(expected, abs=5e-4)


# By hand


def test_where_one_class_is_rare_kappa_falls_and_ac1_does_not():
    # 118 both yes, 5 and 2 one, none both no: p_o = .944. κ: p_e = .984·.96 + .016·.04 = .94528.
    # AC1: π = .972, p_e = 2·.972·.028 = .054432.
    first, second = np.repeat([1, 1, 0], [118, 5, 2]), np.repeat([1, 0, 1], [118, 5, 2])
    assert cohen_kappa(first, second).value == pytest.approx(-0.00128 / 0.05472, abs=1e-9)
    assert gwet_ac1(first, second).value == pytest.approx(0.889568 / 0.945568, abs=1e-9)


def test_an_unused_point_of_the_scale_keeps_its_place():
    # x 0 4, y 0 5: observed (0 + 1)/2, expected (0 + 25 + 16 + 1)/4 -> 1 − .5/10.5
    assert weighted_kappa([0, 4], [0, 5]).value == pytest.approx(1 - 0.5 / 10.5, abs=1e-12)


# What nothing can be said about


@pytest.mark.parametrize("coefficient", [cohen_kappa, weighted_kappa])
def test_two_raters_who_only_know_one_class_have_no_kappa(coefficient):
    found = coefficient([1, 1, 1], [1, 1, 1])
    assert np.isnan([found.value, found.low, found.high]).all() and found.n == 3


@pytest.mark.parametrize("coefficient", [cohen_kappa, weighted_kappa])
def test_one_rater_who_only_knows_one_class_has_a_kappa_of_0_and_no_interval(coefficient):
    found = coefficient([1, 1, 1, 1, 1], [1, 0, 1, 1, 0])
    assert (
        found.value == pytest.approx(0, abs=1e-12) and np.isnan(found.low) and np.isnan(found.high)
    )


def test_ac1_of_raters_who_only_know_one_class_is_1_with_a_width():
    found = gwet_ac1(np.ones(40), np.ones(40))
    assert found.value == found.high == 1 and found.low == pytest.approx(
        1 - wilson_interval(np.zeros(1), np.array([40.0]))[1][0]
    )


def test_nothing_rated_twice_has_no_agreement():
    for found in (
        cohen_kappa([], []),
        gwet_ac1([1, np.nan], [None, 0]),
        krippendorff_alpha([[1, np.nan], [np.nan, 2]]),
        krippendorff_alpha([[3, 3], [3, 3]]),
    ):
        assert np.isnan([found.value, found.low, found.high]).all()
    assert krippendorff_alpha([[3, 3], [3, 3]]).n == 2 and cohen_kappa([], []).n == 0


def test_raters_who_never_disagreed_are_no_certainty():
    first = np.tile([0, 1], 25)
    # u = z²/(50 + z²) of 50 items may be unlike, half of what chance gives: 1 − u/.5
    expected = 1 - wilson_interval(np.zeros(1), np.array([50.0]))[1][0] / 0.5
    for found in (
        cohen_kappa(first, first),
        weighted_kappa(first, first),
        gwet_ac1(first, first),
        krippendorff_alpha(np.column_stack([first, first])),
    ):
        assert found.value == found.high == 1 and found.low == pytest.approx(expected, abs=1e-12)
    few = cohen_kappa(np.tile(first, 4), np.tile(first, 4), groups=np.arange(200) // 4)
    assert few.low == pytest.approx(expected, abs=1e-12)  # 50 groups


def test_items_with_one_rating_count_nowhere():
    both = krippendorff_alpha([[1, 2, 1], [2, 2, np.nan], [3, 1, 1]], "interval")
    assert (
        krippendorff_alpha([[1, 2, 1], [np.nan, 5, np.nan], [2, 2, np.nan], [3, 1, 1]], "interval")
        == both
    )
    assert cohen_kappa([1, 0, 1, np.nan], [1, 0, 0, 1]) == cohen_kappa([1, 0, 1], [1, 0, 0])


# Properties


@given(PAIRS, st.sampled_from([cohen_kappa, weighted_kappa, gwet_ac1]))
def test_two_raters_can_change_places_and_none_agrees_more_than_always(pairs, coefficient):
    first, second = zip(*pairs, strict=True)
    one, other = (
        coefficient(first, second),
        coefficient(second, first),
    )
    np.testing.assert_allclose(one.value, other.value, atol=1e-12)
    assert np.isnan(one.value) or (
        -1 - 1e-12 <= one.value <= 1
        and (np.isnan(one.low) or -1 - 1e-9 <= one.low < one.high <= 1 + 1e-12)
    )


def test_texts_flags_and_missing_values_are_ratings():
    numbers = cohen_kappa([1, 0, 1, 0], [1, 0, 0, 0])
    assert (
        cohen_kappa(
            ["pass", "fail", "pass", "fail", None], ["pass", "fail", "fail", "fail", "pass"]
        )
        == numbers
    )
    assert (
        cohen_kappa(pd.Series([True, False, True, False, None], dtype="boolean"), [1, 0, 0, 0, 1])
        == numbers
    )
    assert krippendorff_alpha(
        [["a", "a"], ["b", None], ["b", "a"], ["b", "b"]]
    ) == krippendorff_alpha([[0, 0], [1, np.nan], [1, 0], [1, 1]])


def test_ratings_that_dont_fit_are_refused():
    with refused("(2,)", "(3,)", field="ratings"):
        cohen_kappa([1, 0], [1, 0, 1])
    with refused("ratio", "nominal", "ordinal", "interval", field="scale"):
        krippendorff_alpha([[1, 0]], "ratio")
    with refused(field="ratings"):
        weighted_kappa(["good", "bad"], ["bad", "good"])


# Items that come in groups

GROUPED = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4)), min_size=3, max_size=30
)


def by_leaving_out(coefficient, sides, groups):
    """Tukey's jackknife, group by group, on Fisher's scale."""
    value = coefficient(*sides).value
    names = sorted(set(groups.tolist()))
    without = [coefficient(*(side[groups != name] for side in sides)).value for name in names]
    if len(names) < 2 or np.isnan(without).any() or np.isnan(value) or abs(value) > 1 - 1e-9:
        return None
    n = len(names)
    error = np.sqrt((n - 1) / n * sum((one - np.mean(without)) ** 2 for one in without))
    half = students.ppf(0.975, n - 1) * error / (1 - value**2)
    return np.tanh([np.arctanh(value) - half, np.arctanh(value) + half]), error


@given(GROUPED, st.sampled_from([cohen_kappa, weighted_kappa, gwet_ac1]), st.booleans())
def test_intervals_leave_out_each_item_or_group_in_turn(rows, coefficient, are_alone):
    first, second, groups = np.array(rows).T
    groups = np.arange(len(rows)) if are_alone else groups
    found = coefficient(first, second, groups=None if are_alone else groups)
    value = coefficient(first, second).value
    assert np.isnan(value) or found.value == pytest.approx(value, abs=1e-12)
    assert (found.n, found.n_groups) == (len(rows), len(set(groups.tolist())))
    # AC1 counts the classes of all items, and so does not change with what is left out
    if coefficient is gwet_ac1 and len(set(first) | set(second)) != 2:
        return
    expected = by_leaving_out(coefficient, (first, second), groups)
    if expected is not None and expected[1] > 1e-9:
        assert (found.low, found.high) == pytest.approx(expected[0], abs=1e-6)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=4, max_size=30))
def test_the_rank_correlation_is_scipys(pairs):
    first, second = np.array(pairs).T
    found = rank_correlation(first, second)
    if np.ptp(first) and np.ptp(second):
        assert found.value == pytest.approx(spearmanr(first, second).statistic, abs=1e-9)
        assert np.isnan(found.low) or found.low <= found.value <= found.high
    else:
        assert np.isnan([found.value, found.low, found.high]).all()
    assert np.isnan(rank_correlation([1, 2, 3], [1, 2, 3]).low)


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
def test_alpha_leaves_out_groups_as_well(scale):
    def alpha(ratings, **options):
        return krippendorff_alpha(ratings, scale, **options)

    rng = np.random.default_rng(0)
    ratings = rng.integers(0, 6, (60, 3)).astype(float)
    ratings[:, 1] = np.clip(ratings[:, 0] + rng.integers(-1, 2, 60), 0, 5)
    ratings[rng.random((60, 3)) < 0.2] = np.nan
    groups = np.arange(60) // 5
    found = alpha(ratings, groups=groups)
    if scale == "ordinal":  # ranks are those among all items
        scale, is_alone = "interval", (~np.isnan(ratings)).sum(axis=1, keepdims=True) < 2
        ratings = pd.DataFrame(np.where(is_alone, np.nan, ratings)).stack().rank().unstack()
        ratings, groups = ratings.to_numpy(), groups[ratings.index]
    assert (found.low, found.high) == pytest.approx(by_leaving_out(alpha, [ratings], groups)[0])


def test_one_group_has_no_interval():
    first, second = noisy(40, 0.3)
    found = cohen_kappa(first, second, groups=np.zeros(40, dtype=int))
    assert np.isnan(found.low) and found.n_groups == 1
    with refused(field="groups"):
        cohen_kappa(first, second, groups=[1, 2])


@pytest.mark.parametrize("name", ["kappa", "alpha (ordinal)"])
def test_intervals_of_22_topics_hold_the_agreement_and_those_of_pairs_do_not(name):
    found = coverage(name, 0.8, draws=300)
    assert 0.915 <= found.clustered <= 0.98
    assert found.pairs < 0.86
