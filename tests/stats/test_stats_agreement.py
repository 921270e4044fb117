"""Agreement of raters against statsmodels, krippendorff, scipy, and tables worked by hand."""

import krippendorff
import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr
from scipy.stats import t as students
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
PAIRS = st.lists(st.tuples(POINTS, POINTS), min_size=2, max_size=40)
TABLES = st.integers(2, 5).flatmap(
    lambda raters: st.lists(
        st.lists(st.one_of(POINTS, st.just(np.nan)), min_size=raters, max_size=raters),
        min_size=1,
        max_size=20,
    )
)
OF_TWO = st.sampled_from([cohen_kappa, weighted_kappa, gwet_ac1])
NAN = np.nan


def alpha_of_two(first, second, **options):
    return krippendorff_alpha(np.column_stack([first, second]), "ordinal", **options)


# Against others


@given(PAIRS)
def test_kappas_agree_with_statsmodels(pairs):
    first, second = np.array(pairs).T
    table = np.zeros((6, 6))
    np.add.at(table, (first.astype(int), second.astype(int)), 1)
    if len({*first, *second}) > 1:
        for ours, weights in ((cohen_kappa, None), (weighted_kappa, "quadratic")):
            expected = cohens_kappa(table, wt=weights, return_results=False)
            assert ours(first, second).value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("scale", ["nominal", "ordinal", "interval"])
@given(table=TABLES)
def test_alpha_agrees_with_krippendorff(scale, table):
    found, ratings = krippendorff_alpha(table, scale), pd.DataFrame(table)
    counted = ratings[ratings.count(axis=1) > 1]
    assert found.n == len(counted)
    if counted.stack().nunique() < 2:
        assert np.isnan(found.value)
    else:
        theirs = krippendorff.alpha(ratings.T.to_numpy(), level_of_measurement=scale)
        assert found.value == pytest.approx(theirs, abs=1e-9)


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


# By hand

# 118 both yes, 5 and 2 one, none both no: p_o = .944
RARE = np.repeat([1, 1, 0], [118, 5, 2]), np.repeat([1, 0, 1], [118, 5, 2])
ONE_CLASS = [1, 1, 1, 1, 1], [1, 0, 1, 1, 0]


@pytest.mark.parametrize(
    ("coefficient", "given", "n", "value", "has_interval"),
    [
        # κ falls: p_e = .984·.96 + .016·.04 = .94528
        (cohen_kappa, RARE, 125, -0.00128 / 0.05472, True),
        # AC1 doesn't: π = .972, p_e = 2·.972·.028 = .054432
        (gwet_ac1, RARE, 125, 0.889568 / 0.945568, True),
        # an unused point keeps its place: observed (0 + 1)/2, expected (0 + 25 + 16 + 1)/4
        (weighted_kappa, ([0, 4], [0, 5]), 2, 1 - 0.5 / 10.5, False),
        # one rater knows one class only
        (cohen_kappa, ONE_CLASS, 5, 0, False),
        (weighted_kappa, ONE_CLASS, 5, 0, False),
        # both do
        (cohen_kappa, ([1, 1, 1], [1, 1, 1]), 3, NAN, False),
        (weighted_kappa, ([1, 1, 1], [1, 1, 1]), 3, NAN, False),
        (krippendorff_alpha, ([[3, 3], [3, 3]],), 2, NAN, False),
        # nothing is rated twice
        (cohen_kappa, ([], []), 0, NAN, False),
        (gwet_ac1, ([1, NAN], [None, 0]), 0, NAN, False),
        (krippendorff_alpha, ([[1, NAN], [NAN, 2]],), 0, NAN, False),
    ],
)
def test_coefficients_worked_by_hand(coefficient, given, n, value, has_interval):
    found = coefficient(*given)
    assert found.value == pytest.approx(value, abs=1e-9, nan_ok=True) and found.n == n
    assert (np.isnan([found.low, found.high]) != has_interval).all()


HALVES = np.tile([0, 1], 25)


@pytest.mark.parametrize(
    ("coefficient", "ratings", "by_chance", "groups"),
    [
        (cohen_kappa, HALVES, 0.5, None),
        (weighted_kappa, HALVES, 0.5, None),
        (gwet_ac1, HALVES, 0.5, None),
        (alpha_of_two, HALVES, 0.5, None),
        (gwet_ac1, np.ones(50), 1, None),
        (cohen_kappa, np.tile(HALVES, 4), 0.5, np.arange(200) // 4),
    ],
)
def test_raters_who_never_disagreed_are_no_certainty(coefficient, ratings, by_chance, groups):
    # u = z²/(50 + z²) of 50 items or groups may be unlike
    unseen = wilson_interval(np.zeros(1), np.array([50.0]))[1][0]
    found = coefficient(ratings, ratings, groups=groups)
    assert (found.value, found.high) == (1, 1)
    assert found.low == pytest.approx(1 - unseen / by_chance, abs=1e-12)


KAPPA = cohen_kappa([1, 0, 1, 0], [1, 0, 0, 0])
INTERVAL = krippendorff_alpha([[1, 2, 1], [2, 2, NAN], [3, 1, 1]], "interval")


@pytest.mark.parametrize(
    ("found", "same"),
    [
        (cohen_kappa([*list("pfpf"), None], list("pffff")), KAPPA),
        (cohen_kappa(pd.array([True, False, True, False, None]), [1, 0, 0, 0, 1]), KAPPA),
        (cohen_kappa([1, 0, 1, 0, NAN], [1, 0, 0, 0, 1]), KAPPA),
        (
            krippendorff_alpha([["a", "a"], ["b", None], ["b", "a"], ["b", "b"]]),
            krippendorff_alpha([[0, 0], [1, NAN], [1, 0], [1, 1]]),
        ),
        (
            krippendorff_alpha([[1, 2, 1], [NAN, 5, NAN], [2, 2, NAN], [3, 1, 1]], "interval"),
            INTERVAL,
        ),
    ],
    ids=["texts", "flags", "missing", "texts of alpha", "one rating of alpha"],
)
def test_texts_and_flags_are_ratings_and_items_rated_once_count_nowhere(found, same):
    assert found == same


@given(PAIRS, OF_TWO)
def test_two_raters_can_change_places_and_none_agrees_more_than_always(pairs, coefficient):
    first, second = zip(*pairs, strict=True)
    one, other = coefficient(first, second), coefficient(second, first)
    np.testing.assert_allclose(one.value, other.value, atol=1e-12)
    assert np.isnan(one.value) or abs(one.value) <= 1 + 1e-12
    assert np.isnan(one.low) or -1 - 1e-9 <= one.low < one.high <= 1 + 1e-12


@pytest.mark.parametrize(
    ("coefficient", "given", "named", "field"),
    [
        (cohen_kappa, ([1, 0], [1, 0, 1]), ["(2,)", "(3,)"], "ratings"),
        (weighted_kappa, (["good", "bad"], ["bad", "good"]), [], "ratings"),
        (krippendorff_alpha, ([1, 0],), [1], "ratings"),
        (krippendorff_alpha, ([[1, 0]], "ratio"), ["ratio", "nominal", "interval"], "scale"),
        (krippendorff_alpha, ([["a", "b"], ["b", "b"]], "interval"), [], "ratings"),
    ],
)
def test_ratings_that_dont_fit_are_refused(coefficient, given, named, field):
    with refused(*named, field=field):
        coefficient(*given)


# Intervals, of items alone or in groups

GROUPED = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4)), min_size=3, max_size=30
)


def by_leaving_out(coefficient, sides, groups):
    """Tukey's jackknife, group by group, on Fisher's scale: an interval, and its error."""
    value = coefficient(*sides).value
    names = sorted(set(groups.tolist()))
    without = [coefficient(*(side[groups != name] for side in sides)).value for name in names]
    if len(names) < 2 or np.isnan([value, *without]).any() or abs(value) > 1 - 1e-9:
        return (np.nan, np.nan), 0
    n = len(names)
    error = np.sqrt((n - 1) / n * sum((one - np.mean(without)) ** 2 for one in without))
    half = students.ppf(0.975, n - 1) * error / (1 - value**2)
    return np.tanh([np.arctanh(value) - half, np.arctanh(value) + half]), error


@given(GROUPED, OF_TWO, st.booleans())
@example([(0, 0, 0), (1, 1, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1), (1, 1, 1)], cohen_kappa, False)
@example([(0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 1)], cohen_kappa, False)  # −1: no interval
def test_intervals_leave_out_each_item_or_group_in_turn(rows, coefficient, are_alone):
    first, second, groups = np.array(rows).T
    groups = np.arange(len(rows)) if are_alone else groups
    found = coefficient(first, second, groups=None if are_alone else groups)
    assert (found.n, found.n_groups) == (len(rows), len(set(groups.tolist())))
    # AC1 counts the classes of all items, and so does not change with what is left out
    if coefficient is not gwet_ac1 or len({*first, *second}) == 2:
        expected, error = by_leaving_out(coefficient, (first, second), groups)
        assert error <= 1e-9 or (found.low, found.high) == pytest.approx(expected, abs=1e-6)


def test_alpha_leaves_out_groups_as_well_and_ranks_are_those_among_all_items():
    rng, groups = np.random.default_rng(0), np.arange(60) // 5
    ratings = rng.integers(0, 6, (60, 3)).astype(float)
    ratings[:, 1] = np.clip(ratings[:, 0] + rng.integers(-1, 2, 60), 0, 5)
    of_ranks = krippendorff_alpha(rankdata(ratings).reshape(60, 3), "interval", groups=groups)
    found = krippendorff_alpha(ratings, "ordinal", groups=groups)
    assert (found.low, found.high) == pytest.approx((of_ranks.low, of_ranks.high))
    ratings[rng.random((60, 3)) < 0.2] = np.nan
    found = krippendorff_alpha(ratings, groups=groups)
    assert (found.low, found.high) == pytest.approx(
        by_leaving_out(krippendorff_alpha, [ratings], groups)[0]
    )


def test_one_group_has_no_interval_and_every_item_needs_its_group():
    first, second = np.random.default_rng(0).integers(0, 3, (2, 40))
    found = cohen_kappa(first, second, groups=np.zeros(40, dtype=int))
    assert np.isnan(found.low) and found.n_groups == 1
    with refused(field="groups"):
        cohen_kappa(first, second, groups=[1, 2])


def judged(rng, topics, pairs, cuts):
    """Points by two judges of many answers, and the topic of each.

    Answers of a topic are alike in how good they are, and in how hard they are to judge.
    """
    topic = np.repeat(np.arange(topics), pairs)
    level, harder = rng.standard_normal((2, topics))[:, topic]
    own, *errors = rng.standard_normal((3, len(topic)))
    worth = np.sqrt(0.3) * level + np.sqrt(0.7) * own
    first, second = (
        np.searchsorted(cuts, worth + 0.8 * np.exp(0.4 * harder) * one) for one in errors
    )
    return first, second, topic


@pytest.mark.parametrize(
    ("coefficient", "cuts"),
    [
        (cohen_kappa, [0.0]),
        pytest.param(alpha_of_two, [-1.6, -0.9, -0.3, 0.4, 1.1], marks=pytest.mark.slow),
    ],
)
def test_intervals_of_22_topics_hold_the_agreement_and_those_of_pairs_do_not(coefficient, cuts):
    first, second, _ = judged(np.random.default_rng(1), 20_000, 10, cuts)
    true, rng, held = coefficient(first, second).value, np.random.default_rng(0), []
    for _ in range(200):
        first, second, topic = judged(rng, 22, 40, cuts)
        found = coefficient(first, second, groups=topic), coefficient(first, second)
        held.append([one.low <= true <= one.high for one in found])
    clustered, of_pairs = np.mean(held, axis=0)
    assert 0.9 <= clustered <= 0.985 and of_pairs < 0.87
