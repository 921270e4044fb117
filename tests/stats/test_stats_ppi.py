"""Means of judged values corrected with labels.

By hand, against the plain forms, and by simulation.
"""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from stats.ppi_differences import coverage

from ragscore.stats import mean_interval, ppi_difference, ppi_mean
from tests.messages import refused

VALUES = st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=2, max_size=20)
OTHERS = st.lists(st.floats(-5, 5), min_size=2, max_size=20)


def judged(n, n_others, rng, error=0.1, bias=0.1):
    """Labels with a rate of .7, and a judge who is wrong on some and lets failures pass more
    often.
    """
    labels = (rng.random(n + n_others) < 0.7).astype(float)
    wrong = rng.random(n + n_others) < np.where(labels == 1, error, error + bias)
    predictions = np.where(wrong, 1 - labels, labels)
    return predictions, np.where(np.arange(n + n_others) < n, labels, np.nan)


def partly(pairs, others):
    """Predictions and labels of labelled items, then of items without a label."""
    f, y = np.array(pairs).T
    return np.append(f, others), np.append(y, np.full(len(others), np.nan))


def test_the_corrected_mean_by_hand():
    # f 1 0 1 0, y 1 0 0 0, others 1 1 0 1: Cov = 1/6, Var f of all eight = 15/56 (mean 5/8), λ =
    # 1/6 / (2 · 15/56) = 14/45
    nan = np.nan
    found = ppi_mean([1, 0, 1, 0, 1, 1, 0, 1], [1, 0, 0, 0, nan, nan, nan, nan])
    assert found.weight == pytest.approx(14 / 45, abs=1e-12) and found.value == pytest.approx(
        0.25 + 14 / 45 * (0.75 - 0.5), abs=1e-12
    )
    # Var = λ²·(1/4)/4 + Var(1 − λ, 0, −λ, 0)/4 + (λ·1/4)², a disagreement more
    left = np.array([31 / 45, 0, -14 / 45, 0])
    expected = (14 / 45) ** 2 / 16 + left.var(ddof=1) / 4 + (14 / 45 / 4) ** 2
    assert found.error**2 == pytest.approx(expected, abs=1e-12)
    assert (found.n, found.n_unlabelled) == (4, 4) and found.effective_n == pytest.approx(
        0.25 / found.error**2
    )


@given(VALUES, OTHERS)
def test_without_weight_it_is_the_mean_of_the_labels_with_students_interval(pairs, others):
    y = np.array(pairs)[:, 1]
    found = ppi_mean(*partly(pairs, others), weight=0)
    assert found.value == pytest.approx(y.mean(), abs=1e-9)
    if np.ptp(y) > 1e-3:
        expected = stats.ttest_1samp(y, 0).confidence_interval()
        assert (found.low, found.high) == pytest.approx(
            (expected.low, expected.high), abs=1e-9
        ) and found.effective_n == pytest.approx(len(y))


def test_with_full_weight_the_interval_is_welchs():
    f, y = judged(30, 70, np.random.default_rng(0))
    found = ppi_mean(f, y, weight=1)
    expected = stats.ttest_ind(f[30:], (f - y)[:30], equal_var=False).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_predictions_that_say_nothing_get_no_weight():
    rng = np.random.default_rng(0)
    y = rng.random(40)
    labels = np.append(y, np.full(100, np.nan))
    for f in (np.ones(140), np.append(-y, -rng.random(100))):
        assert ppi_mean(f, labels).weight == 0
    assert ppi_mean(y, y).value == pytest.approx(y.mean())
    assert ppi_mean(np.append(y, 0.5), labels[:41]).value == pytest.approx(y.mean())


def test_items_without_a_prediction_are_left_out_and_nothing_is_labelled_by_nobody():
    f, y = judged(40, 60, np.random.default_rng(2))
    assert ppi_mean([*f, np.nan, np.nan], [*y, 1, np.nan]) == ppi_mean(f, y)
    nothing = ppi_mean([np.nan, 0.5, 0.6], [1, np.nan, np.nan])
    assert np.isnan(
        [nothing.value, nothing.low, nothing.high, nothing.error, nothing.weight]
    ).all() and (nothing.n, nothing.n_unlabelled) == (0, 2)


def test_equal_labels_are_no_certainty():
    pairs = np.column_stack([np.tile([0.9, 1.0], 20), np.ones(40)])
    f, y = partly(pairs, np.random.default_rng(0).random(100))
    plain, bounded = ppi_mean(f, y), ppi_mean(f, y, bounds=(0, 1))
    assert plain.value == 1 and np.isnan(plain.low) and np.isnan(plain.high)
    assert (
        bounded.high == 1
        and bounded.low == pytest.approx(mean_interval(np.ones(40), "bounded")[0][0])
        and bounded.low < 0.93
    )


@given(VALUES, OTHERS)
@example([(0.0, 5.0), (-4.0, 0.0)], [0.0, 0.0, 2.0])  # the corrected mean is 5.17
def test_with_bounds_the_interval_lies_within_them(pairs, others):
    found = ppi_mean(*partly(pairs, others), bounds=(-5, 5))
    assert -5 - 1e-9 <= found.low < found.high <= 5 + 1e-9


def test_one_label_has_no_interval_without_bounds():
    found = ppi_mean([1.0, 1, 0, 1], [0.0, np.nan, np.nan, np.nan])
    assert found.value == 0 and found.weight == 0 and np.isnan(found.low) and np.isnan(found.error)


def test_what_doesnt_fit_is_refused():
    with refused(2, 1, field="labels"):
        ppi_mean([1, 0], [1])
    with refused(1.5, 0, 1, field="weight"):
        ppi_mean([1, 0], [1, 0], weight=1.5)
    with refused("0 to 4", "0 to 1", field="labels"):
        ppi_mean([1, 0], [4, 0], bounds=(0, 1))


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


# Paired differences of two runs

DIFFERENCES = st.lists(
    st.tuples(st.integers(-5, 5), st.one_of(st.none(), st.integers(-5, 5)), st.integers(-1, 3)),
    min_size=8, max_size=24,
).filter(lambda rows: sum(row[1] is not None for row in rows) >= 2)  # fmt: skip


def by_formula(f, y, weight, groups=None):
    """Value and variance as the papers write them, query by query."""
    n = [place for place, label in enumerate(y) if not np.isnan(label)]
    others = [place for place in range(len(y)) if place not in n]
    mean_others = sum(f[place] for place in others) / len(others) if others else 0.0
    if not weight:
        others = []
    value = sum(y[place] - weight * f[place] for place in n) / len(n) + weight * mean_others
    left = {place: (y[place] - weight * f[place]) for place in n}
    mean_left = sum(left.values()) / len(n)
    shares = [{place: (left[place] - mean_left) / len(n) for place in n}]
    shares += [{place: weight * (f[place] - mean_others) / len(others) for place in others}]
    alone = sum(
        sum(one**2 for one in part.values()) * len(part) / (len(part) - 1)
        for part in shares
        if len(part) > 1
    )
    if groups is None:
        return value, alone
    sums, parts = {}, []
    for part in shares:
        own = {}
        for place, share in part.items():
            group = groups[place] if groups[place] >= 0 else f"alone {place}"
            own[group] = own.get(group, 0.0) + share
        scale = np.sqrt(len(own) / (len(own) - 1)) if len(own) > 1 else np.nan
        scaled = {group: one * scale for group, one in own.items()}
        for group, one in scaled.items():
            sums[group] = sums.get(group, 0.0) + one
        single = sum(one**2 for one in part.values()) * len(part) / max(len(part) - 1, 1)
        parts.append(np.maximum(sum(one**2 for one in scaled.values()), single))
    return value, np.maximum(sum(one**2 for one in sums.values()), sum(parts))


@given(DIFFERENCES, st.floats(0, 1))
def test_corrected_differences_follow_the_formula_with_groups_and_without(rows, weight):
    f = np.array([row[0] for row in rows], dtype=float)
    y = np.array([np.nan if row[1] is None else row[1] for row in rows], dtype=float)
    groups = np.array([row[2] for row in rows])
    weight = 0.0 if np.isnan(y).sum() < 2 else weight
    for of in (None, groups):
        found = ppi_difference(f, y, weight=weight, groups=of, width=10)
        value, variance = by_formula(f, y, found.weight, of)
        assert found.value == pytest.approx(value, abs=1e-9)
        # one group tells nothing of how groups differ
        assert found.error**2 == pytest.approx(variance, abs=1e-9, nan_ok=True)
        assert -10 <= found.low <= found.high <= 10


def test_labels_that_never_differ_are_no_certainty():
    judge = np.tile([0.0, 1, 0, -1], 50)
    labels = np.where(np.arange(200) < 40, 0.0, np.nan)
    found = ppi_difference(judge, labels, width=1)
    unseen = 1.959964**2 / (40 + 1.959964**2)
    assert (found.value, found.weight) == (0, 0)
    assert (found.low, found.high) == pytest.approx((-unseen, unseen), abs=1e-6)
    assert np.isnan(ppi_difference(judge, labels).low)
    # ten groups of four know less
    groups = np.arange(200) // 4
    assert ppi_difference(judge, labels, width=1, groups=groups).high > 2 * found.high


@pytest.mark.parametrize(
    ("scale", "shape"), [("binary", "whole"), ("points", "slice"), ("points", "clusters of 4")]
)
def test_intervals_of_corrected_differences_hold_the_true_difference(scale, shape):
    found = coverage(50, 0.9, scale, shape, draws=300)
    assert 0.92 <= found.corrected <= 0.975
    assert found.judge < 0.7  # a judge who is kinder to the candidate is sure, and wrong
    assert found.width < 0.95 * found.width_labels


@pytest.mark.parametrize("n", [30, 50])
def test_few_labels_that_meet_no_error_of_the_judge_claim_no_more_than_they_know(n):
    # a judge that misses 2.5 % of the items, one way; without one disagreement more 86 % are held
    draw, held, draws = np.random.default_rng(4), 0, 300
    for _ in range(draws):
        y = (draw.random(1_000) < 0.6).astype(float)
        f = np.where((y == 1) & (draw.random(1_000) < 0.025 / 0.6), 0.0, y)
        own = draw.permutation(1_000)[:n]
        found = ppi_mean(f, np.where(np.isin(np.arange(1_000), own), y, np.nan), bounds=(0, 1))
        held += found.low <= 0.6 <= found.high
    assert held / draws > 0.94
