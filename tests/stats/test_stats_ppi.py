"""Means of judged values corrected with labels: by hand, by the papers' forms, by simulation."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from ragscore.stats import mean_interval, paired_interval, ppi_difference, ppi_mean
from tests.messages import refused

VALUES = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=20)
OTHERS = st.lists(st.floats(-5, 5), min_size=2, max_size=20)
NAN = np.nan


def judged(n, n_others, rng, error=0.1, bias=0.1):
    """A rate of .7, and a judge who is wrong on some and lets failures pass more often."""
    labels = (rng.random(n + n_others) < 0.7).astype(float)
    wrong = rng.random(n + n_others) < np.where(labels == 1, error, error + bias)
    predictions = np.where(wrong, 1 - labels, labels)
    return predictions, np.where(np.arange(n + n_others) < n, labels, np.nan)


def partly(pairs, others):
    """Predictions and labels of labelled items, then of items without a label."""
    f, y = np.array(pairs).T
    return np.append(f, others), np.append(y, np.full(len(others), np.nan))


@pytest.mark.parametrize(
    ("predictions", "labels", "weight", "value", "variance", "spread"),
    [
        # others 1 1 0 1: Cov = 1/6, Var f of all eight = 15/56 (mean 5/8), λ = 1/6 / (2 · 15/56);
        # Var = λ²·(1/4)/4 + Var(1 − λ, 0, −λ, 0)/4 + (λ·1/4)², a disagreement more
        ([1, 0, 1, 0, 1, 1, 0, 1], [1, 0, 0, 0], 14 / 45, 0.25 + 14 / 45 * (0.75 - 0.5),
         (14 / 45) ** 2 / 16 + np.var([31 / 45, 0, -14 / 45, 0], ddof=1) / 4 + (14 / 45 / 4) ** 2,
         0.25),
        # of two and two: Cov = 1/4, Var f = 1/3, λ = 1/4 / (2 · 1/3) = 3/8;
        # Var = λ²·(1/2)/2 + Var(5/8, 1/2)/2 + (λ·1/2 / 2)² = 9/256 + 1/256 + 9/1024
        ([1, 0, 1, 0], [1, 0.5], 3 / 8, 0.75, 49 / 1024, 0.125),
    ],
)  # fmt: skip
def test_the_corrected_mean_by_hand(predictions, labels, weight, value, variance, spread):
    n = len(labels)
    found = ppi_mean(predictions, [*labels, *[NAN] * n])
    assert (found.weight, found.value) == pytest.approx((weight, value), abs=1e-12)
    assert found.error**2 == pytest.approx(variance, abs=1e-12)
    assert found.effective_n == pytest.approx(spread / variance)
    assert (found.n, found.n_unlabelled) == (n, n)


@given(VALUES, OTHERS)
def test_without_weight_it_is_the_mean_of_the_labels_with_students_interval(pairs, others):
    y = np.array(pairs)[:, 1]
    found = ppi_mean(*partly(pairs, others), weight=0)
    assert found.value == pytest.approx(y.mean(), abs=1e-9)
    if np.ptp(y) > 1e-3:
        expected = stats.ttest_1samp(y, 0).confidence_interval()
        assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-9)
        assert found.effective_n == pytest.approx(len(y))


def test_with_full_weight_the_interval_is_welchs():
    f, y = judged(30, 70, np.random.default_rng(0))
    found = ppi_mean(f, y, weight=1)
    expected = stats.ttest_ind(f[30:], (f - y)[:30], equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx(tuple(expected), abs=1e-9)


Y = np.random.default_rng(0).random(40)


@pytest.mark.parametrize(
    ("of_labelled", "others"),
    [(np.ones(40), np.ones(100)), (-Y, -np.linspace(0, 1, 100)), (Y, []), (Y, [0.5])],
    ids=["constant", "the wrong way round", "all are labelled", "one isn't"],
)
def test_predictions_that_say_nothing_get_no_weight(of_labelled, others):
    found = ppi_mean(*partly(np.column_stack([of_labelled, Y]), others))
    assert found.weight == 0 and found.value == pytest.approx(Y.mean())


def test_items_without_a_prediction_are_left_out_and_nothing_is_labelled_by_nobody():
    f, y = judged(40, 60, np.random.default_rng(2))
    assert ppi_mean([*f, NAN, NAN], [*y, 1, NAN]) == ppi_mean(f, y)
    nothing = ppi_mean([NAN, 0.5, 0.6], [1, NAN, NAN])
    assert np.isnan([nothing.value, nothing.low, nothing.error, nothing.weight]).all()
    assert (nothing.n, nothing.n_unlabelled) == (0, 2)


def test_equal_labels_and_one_label_are_no_certainty():
    f, y = partly(np.column_stack([np.tile([0.9, 1.0], 20), np.ones(40)]), Y)
    plain, bounded = ppi_mean(f, y), ppi_mean(f, y, bounds=(0, 1))
    assert plain.value == bounded.high == 1 and np.isnan([plain.low, plain.high]).all()
    assert bounded.low == mean_interval(np.ones(40), "bounded")[0][0] < 0.93
    one = ppi_mean([1.0, 1, 0, 1], [0.0, NAN, NAN, NAN])
    assert (one.value, one.weight) == (0, 0) and np.isnan([one.low, one.error]).all()


@given(VALUES, OTHERS)
@example([(0.0, 5.0), (-4.0, 0.0)], [0.0, 0.0, 2.0])  # the corrected mean is 5.17
def test_with_bounds_the_interval_lies_within_them(pairs, others):
    found = ppi_mean(*partly(pairs, others), bounds=(-5, 5))
    assert -5 - 1e-9 <= found.low < found.high <= 5 + 1e-9


@pytest.mark.parametrize(
    ("labels", "how", "named", "field"),
    [
        ([1], {}, [2, 1], "labels"),
        ([1, 0], {"weight": 1.5}, [1.5, 0, 1], "weight"),
        ([4, 0], {"bounds": (0, 1)}, ["0 to 4", "0 to 1"], "labels"),
    ],
)
def test_what_doesnt_fit_is_refused(labels, how, named, field):
    with refused(*named, field=field):
        ppi_mean([1, 0], labels, **how)


def test_intervals_hold_the_true_rate_and_are_narrower_than_those_of_the_labels():
    rng = np.random.default_rng(0)
    draws = [judged(50, 450, rng) for _ in range(500)]
    corrected, alone = (
        [ppi_mean(*draw, weight=weight, bounds=(0, 1)) for draw in draws] for weight in (None, 0)
    )
    assert 0.93 <= np.mean([one.low <= 0.7 <= one.high for one in corrected]) <= 0.97
    assert abs(np.mean([one.value for one in corrected]) - 0.7) < 0.009  # the judge itself says .72
    width, of_labels = (np.mean([one.high - one.low for one in of]) for of in (corrected, alone))
    assert width < 0.8 * of_labels


@pytest.mark.parametrize("n", [30, 50])
def test_few_labels_that_meet_no_error_of_the_judge_claim_no_more_than_they_know(n):
    # a judge that misses 2.5 % of the items, one way; without one disagreement more 86 % are held
    draw, held = np.random.default_rng(4), []
    for _ in range(300):
        y = (draw.random(1_000) < 0.6).astype(float)
        f = np.where((y == 1) & (draw.random(1_000) < 0.025 / 0.6), 0.0, y)
        found = ppi_mean(f, np.where(draw.permutation(1_000) < n, y, np.nan), bounds=(0, 1))
        held.append(found.low <= 0.6 <= found.high)
    assert np.mean(held) > 0.94


# Paired differences of two runs

DIFFERENCES = st.lists(
    st.tuples(st.integers(-5, 5), st.one_of(st.none(), st.integers(-5, 5)), st.integers(-1, 3)),
    min_size=8, max_size=24,
).filter(lambda rows: sum(row[1] is not None for row in rows) >= 2)  # fmt: skip


def by_formula(f, y, weight, groups):
    """Value and variance as the papers write them: two means, with sums over groups."""
    has_label = ~np.isnan(y)
    parts = {"labelled": (y - weight * f)[has_label], "others": weight * f[~has_label]}
    rows = {"labelled": groups[has_label], "others": groups[~has_label]}
    value, variances, moves = 0.0, [], []
    for name in parts if weight else ["labelled"]:
        terms = parts[name]
        shares = (terms - terms.mean()) / len(terms)
        sums = pd.Series(shares).groupby(rows[name]).sum()
        moves.append(sums * np.sqrt(len(sums) / (len(sums) - 1)) if len(sums) > 1 else sums * NAN)
        alone = (shares**2).sum() * len(terms) / (len(terms) - 1)
        variances.append(np.maximum((moves[-1] ** 2).sum(skipna=False), alone))
        value += terms.mean()
    together = pd.concat(moves).groupby(level=0).sum(min_count=1)
    return value, np.maximum((together**2).sum(skipna=False), sum(variances))


@given(DIFFERENCES, st.floats(0, 1))
def test_corrected_differences_follow_the_formula_with_groups_and_without(rows, weight):
    f, y, groups = pd.DataFrame(rows, dtype=float).to_numpy().T
    alone, weight = 100 + np.arange(len(rows)), 0.0 if np.isnan(y).sum() < 2 else weight
    for given_groups, own in (
        (None, alone),
        (groups.astype(int), np.where(groups < 0, alone, groups)),
    ):
        found = ppi_difference(f, y, weight=weight, groups=given_groups, width=10)
        value, variance = by_formula(f, y, found.weight, own)
        assert found.value == pytest.approx(value, abs=1e-9)
        # one group tells nothing of how groups differ
        assert found.error**2 == pytest.approx(variance, abs=1e-9, nan_ok=True)
        assert -10 <= found.low <= found.high <= 10


def test_labels_that_never_differ_are_no_certainty():
    judge, groups = np.tile([0.0, 1, 0, -1], 50), np.arange(200) // 4
    labels = np.where(np.arange(200) < 40, 0.0, np.nan)
    found = ppi_difference(judge, labels, width=1)
    unseen = 1.959964**2 / (40 + 1.959964**2)
    assert (found.value, found.weight) == (0, 0)
    assert (found.low, found.high) == pytest.approx((-unseen, unseen), abs=1e-6)
    assert np.isnan(ppi_difference(judge, labels).low)
    # ten groups of four know less
    assert ppi_difference(judge, labels, width=1, groups=groups).high > 2 * found.high


def compared(rng, cuts, clusters):
    """Differences of two runs' points on 500 queries: the judge's, and people's.

    The candidate is better by .25 on the normal scale that is cut into points; the judge is kinder
    to it. Half of what a query, or its answers, vary by is its cluster's.
    """

    def normal(n):
        own, shared = rng.standard_normal((2, n, 500))
        return own if clusters is None else np.sqrt(0.5) * (own + shared[:, clusters])

    people = np.sqrt(0.5) * (normal(1) + normal(2))
    judge = 0.9 * people + np.sqrt(1 - 0.9**2) * rng.standard_normal((2, 500))
    gain, kindness = np.array([[0.0], [0.25]]), np.array([[0.3], [0.5]])
    sides = judge + gain + kindness, people + gain
    points = [np.searchsorted(cuts, side) for side in sides]
    return [(candidate - baseline).astype(float) for baseline, candidate in points]


@pytest.mark.parametrize(
    ("cuts", "clusters"),
    [([0.0], None), ([-1.6, -0.9, -0.3, 0.4, 1.1], np.arange(500) // 4)],
    ids=["rates", "points in clusters of 4"],
)
def test_intervals_of_corrected_differences_hold_the_true_difference(cuts, clusters):
    true = (stats.norm.cdf(0.25 - np.array(cuts)) - stats.norm.cdf(-np.array(cuts))).sum()
    rng, width, held, widths = np.random.default_rng(0), len(cuts), [], []
    for _ in range(200):
        judge, people = compared(rng, cuts, clusters)
        labels = np.where(rng.permutation(500) < 50, people, np.nan)
        found = ppi_difference(judge, labels, width=width, groups=clusters)
        of_judge, of_labels = (
            np.ravel(paired_interval(one, "bounded", bounds=(0, width), groups=clusters))
            for one in (judge, labels)
        )
        held.append([found.low <= true <= found.high, of_judge[0] <= true <= of_judge[1]])
        widths.append([found.high - found.low, np.ptp(of_labels)])
    (corrected, alone), (narrow, wide) = np.mean(held, axis=0), np.mean(widths, axis=0)
    assert 0.92 <= corrected <= 0.985
    assert alone < 0.7  # a judge who is kinder to the candidate is sure, and wrong
    assert narrow < 0.95 * wide
