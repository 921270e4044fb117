"""What n queries can show, worked by hand, and the verdict's words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from ragscore.stats import (
    Verdict,
    flip_rate,
    is_heavy_tailed,
    mde_of_differences,
    median_verdict,
    minimum_detectable,
    minimum_detectable_rate,
    queries_needed,
    queries_needed_rate,
    rate_power,
    verdict,
)
from tests.messages import refused, says

Z = 1.959963985 + 0.841621234  # z_.975 + z_.8


# The minimum detectable difference


def test_the_minimum_detectable_difference_is_so_many_standard_errors():
    # t.975 + t.8 with 49 and with 19 degrees of freedom: 2.0096 + .8489 and 2.0930 + .8610; of very
    # many queries 1.9600 + .8416
    assert minimum_detectable([0.25, 0.25], [50, 20]) == pytest.approx(
        [2.8585 * 0.25 / 50**0.5, 2.9540 * 0.25 / 20**0.5], abs=1e-5
    )
    assert minimum_detectable(1, 10**8) == pytest.approx(Z / 10**4, rel=1e-6)


@pytest.mark.parametrize("n", [10, 50, 1000])
def test_it_is_that_of_students_test(n):
    theirs = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    assert minimum_detectable(1, n) == pytest.approx(theirs, rel=0.01)


def test_that_of_two_rates_is_found_four_times_in_five():
    delta = float(minimum_detectable_rate(0.2, 50))
    assert rate_power(delta, 0.2, 50) == pytest.approx(0.8, abs=1e-6)
    # by all numbers of changed queries (nearly always below 25) and wins, with the exact p
    power = sum(
        stats.binom.pmf(m, 50, 0.2) * stats.binom.pmf(w, m, (0.2 + delta) / 0.4)
        for m in range(51)
        for w in range(m + 1)
        if 2 * w > m and 2 * stats.binom.cdf(m - w, m, 0.5) < 0.05
    )
    assert power == pytest.approx(0.8, abs=0.001)


def test_the_power_of_few_changed_queries_by_hand():
    # All queries change here, each a win with chance .9. 6 wins of 6 have an exact p of .031, 5 of
    # 5 one of .0625; of 8 one may be a loss in mid-p (.039), but not in the exact p (.070).
    assert rate_power(0.8, 1, 6) == pytest.approx(0.9**6)
    assert rate_power(0.8, 1, 5) == rate_power(1, 1, 5) == 0
    assert rate_power(0.8, 1, 8) == pytest.approx(0.9**8)
    assert rate_power(0.8, 1, 8, exact_below=0) == pytest.approx(0.9**8 + 8 * 0.1 * 0.9**7)


@pytest.mark.parametrize(("discordance", "n"), [(0.1, 501), (0.3, 2_000), (0.05, 100_000)])
def test_of_many_queries_it_is_the_normal_formulas(discordance, n):
    # δ² = z²(ψ − δ²)/n
    delta = float(minimum_detectable_rate(discordance, n))
    assert delta**2 == pytest.approx(Z**2 * (discordance - delta**2) / n, rel=0.04)


def test_a_difference_beyond_the_discordance_is_not_detectable():
    # 20 queries of which 30 % change: with all changes one way 6 or more are needed, which happens
    # in .584 of cases; of 45 % in .87. Of 5000 of which 1 in 10,000 does: none.
    assert np.isinf(
        minimum_detectable_rate([0.1, 0.0, 0.3, 1e-4], [20, 1000, 20, 5000])
    ).all() and np.isfinite(minimum_detectable_rate(0.45, 20))
    assert rate_power(0.3, 0.3, 20) == pytest.approx(stats.binom.sf(5, 20, 0.3), abs=1e-9)


@pytest.mark.parametrize("kind", ["binary", "bounded"])
def test_where_no_test_can_reject_no_difference_is_detectable(kind):
    # Of 5 queries, or 5 clusters of 31, the least p is 2·2⁻⁵ = .0625; of 6 it is .031. With the
    # level a tenth, 9 are needed (.0039; 8 have .0078).
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, 310) * 2.0 - 1  # 31 of them never add up to 0
    five, six = np.arange(155) // 31, np.arange(186) // 31
    if kind == "bounded":
        values = values * rng.random(310)
    assert not np.isfinite(mde_of_differences(values[:5], kind)[0])
    assert np.isnan(mde_of_differences(values[:155], kind, groups=five)[0])
    assert np.isfinite(mde_of_differences(values[:186], kind, groups=six)[0])
    for n, is_finite in ((10, True), (8, False)):
        groups = np.arange(31 * n) % n
        found = mde_of_differences(values[: 31 * n], kind, groups=groups, confidence=0.995)
        assert np.isfinite(found[0]) == is_finite
    assert not np.isfinite(mde_of_differences(np.append(values[:5], [0.0] * 95), kind)[0])


def test_degrees_of_freedom_are_those_of_the_clusters():
    rng, groups = np.random.default_rng(1), np.arange(160) // 20
    values = np.repeat(rng.normal(size=8), 20) + 0.1 * rng.normal(size=160)
    means = values.reshape(8, 20).mean(axis=1)
    t = stats.t.ppf(0.975, 7) + stats.t.ppf(0.8, 7)
    assert mde_of_differences(values, "bounded", groups=groups)[0] == pytest.approx(
        t * means.std(ddof=1) / 8**0.5
    )


def test_nothing_seen_tells_no_detectable_difference():
    assert (
        np.isnan(minimum_detectable([0.0, 0.2, np.nan], [50, 1, 0])).all()
        and np.isnan(minimum_detectable_rate([np.nan, 0.2], [50, 0])).all()
    )


def test_the_printed_difference_fits_the_kind():
    differences = np.repeat([1.0, -1, 0, np.nan], [6, 4, 40, 5])
    assert mde_of_differences(differences, "binary")[0] == minimum_detectable_rate(0.2, 50)
    sd = np.nanstd(differences, ddof=1)
    assert mde_of_differences(differences, "bounded")[0] == pytest.approx(
        float(minimum_detectable(sd, 50))
    )
    assert (
        mde_of_differences(differences / 2, "binary")[0]
        == mde_of_differences(differences / 2, "bounded")[0]
    )


@given(st.floats(0.01, 1), st.floats(0.001, 1))
def test_so_many_queries_detect_the_difference_and_one_less_does_not(std, difference):
    n = float(queries_needed(difference, std))
    assert n >= 6 and minimum_detectable(std, n) <= difference * (1 + 1e-6)
    assert n == 6 or minimum_detectable(std, n - 1) > difference  # 5 signs: p is .0625 at least


def test_no_number_of_queries_finds_no_difference():
    assert (
        queries_needed([0.0, 0.05, -0.05], 0.3).tolist() == [np.inf, 285, 285]
        and np.isnan(queries_needed([0.1, np.nan], [0.0, 0.2])).all()
    )
    assert (
        np.ceil(TTestPower().solve_power(effect_size=0.05 / 0.3, nobs=None, alpha=0.05, power=0.8))
        == 285
    )


@pytest.mark.parametrize(("difference", "discordance"), [(0.05, 0.2), (0.1, 0.1), (0.3, 0.2)])
def test_so_many_queries_find_a_difference_of_rates(difference, discordance):
    n = float(queries_needed_rate(difference, discordance))
    share = max(difference, discordance)
    assert rate_power(difference, share, n) >= 0.8 > rate_power(difference, share, n - 1)


# Noise


def test_the_flip_rate_is_the_share_of_pairs_of_repeats_that_differ():
    # 1 1 0: two of three pairs differ; 1 1 1: none of three; 1 and 0, the third missing: the one
    # pair.
    assert flip_rate([[1, 1, 0], [1, 1, 1], [1, 0, np.nan]]) == pytest.approx(3 / 7)
    assert flip_rate([[0.5, 0.52], [0.1, 0.5]], margin=0.05) == 0.5
    assert np.isnan(flip_rate([[1, np.nan]])) and np.isnan(flip_rate([1.0, 0.0]))


# The caution


def test_many_small_gains_and_a_few_disasters_get_a_caution_whether_or_not_a_disaster_was_seen():
    seen = np.repeat([0.05, -0.485, 0], [29, 3, 68])
    # the sum of gains, .75, is less than what 3 losses of 1 take away
    unseen = np.repeat([0.05, 0], [15, 35])
    assert is_heavy_tailed(seen)[0] and is_heavy_tailed(unseen)[0]


def test_balanced_large_or_0_1_differences_get_none():
    balanced = np.repeat([0.5, -0.5, 0.67, -0.67, 0], [6, 5, 3, 3, 33])
    large = np.repeat([0.5, 0.9, 0], [8, 7, 35])
    passed = np.repeat([1.0, 0], [6, 44])
    assert (
        not is_heavy_tailed(balanced)[0]
        and not is_heavy_tailed(large)[0]
        and not is_heavy_tailed(passed)[0]
    )
    assert not is_heavy_tailed(np.zeros(20))[0] and not is_heavy_tailed([np.nan])[0]


def test_cochrans_rule_lifts_the_caution_with_more_queries():
    seen = np.repeat([0.05, -0.485, 0], [29, 3, 68])  # skewness −4.9: 25 · 4.9² = 600
    assert is_heavy_tailed(np.tile(seen, 5))[0] and not is_heavy_tailed(np.tile(seen, 7))[0]


def test_a_metric_without_bounds_takes_the_largest_difference_for_its_width():
    few_slower = np.repeat([10.0, 0], [2, 48])
    assert (
        is_heavy_tailed(few_slower, width=np.nan)[0]
        and is_heavy_tailed(np.repeat([1.0, 900, 0], [10, 1, 40]), width=np.inf)[0]
    )
    assert not is_heavy_tailed(np.random.default_rng(0).normal(0, 100, 50), width=np.inf)[0]


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_the_caution_is_the_same_for_both_orders_of_the_runs(differences):
    assert is_heavy_tailed(differences)[0] == is_heavy_tailed(np.negative(differences))[0]


# The verdict


def test_an_improvement_is_better():
    found = verdict(0.08, 0.02, 0.14, 0.0041, 0.1, 50)
    assert found == Verdict("better", "better: +.08 [+.02, +.14], p = .004")


def test_where_lower_is_better_a_rise_is_worse():
    assert verdict(80, 20, 140, 0.0004, 90, 50, better="lower") == Verdict(
        "worse", "worse: +80 [+20, +140], p < .001"
    )
    assert verdict(-80, -140, -20, 0.0004, 90, 50, better="lower").word == "better"


def test_no_difference_is_never_said():
    found = verdict(0.03, -0.05, 0.11, 0.4, 0.1245, 50, margin=0.05)
    assert found.word == "can't tell"
    says(found.sentence, "can't tell", 50, ".12", 310, ".05")


def test_where_no_direction_is_declared_only_the_movement_is_named():
    found = [
        verdict(delta, delta - 0.1, delta + 0.1, 0.001, 0.1, 50, better="not declared", margin=0.5)
        for delta in (0.3, -0.3)
    ]
    assert [one.word for one in found] == ["higher", "lower"]
    says(found[1].sentence, "lower", "−.30", "[−.40, −.20]", "p = .001")
    # what would be a loss isn't known
    assert (
        verdict(-0.05, -0.15, 0.05, 0.4, 0.1, 50, better="not declared", margin=0.5).word
        == "can't tell"
    )


def test_what_is_not_detectable_is_said_with_what_the_interval_leaves_open():
    found = verdict(0.0, -0.161, 0.161, 1, np.inf, 20, margin=0.05, n_moved=3)
    says(found.sentence, "can't tell", "3 of 20", ".16")
    says(verdict(0.0, np.nan, np.nan, 1, np.nan, 1).sentence, "can't tell", 1)
    found = verdict(0.1, -0.1, 0.3, 0.06, np.nan, 150, n_moved=140, clusters=(5, 5))
    says(found.sentence, "can't tell", 5, ".3")


def test_a_small_difference_is_the_same_or_no_worse_within_a_declared_margin():
    for found, word, *numbers in (
        (verdict(-0.004, -0.012, 0.004, 0.3, 0.01, 500, margin=0.02), "same within", ".02", ".012"),
        (verdict(0.01, -0.01, 0.03, 0.3, 0.01, 500, margin=0.02), "no worse than", ".02", ".01"),
        (verdict(0.01, 0, 0.02, 0.06, 0.01, 500, margin=0.02), "no worse than", ".02"),
        (verdict(4, -4, 12, 0.3, 10, 500, margin=20, better="lower"), "same within", 20, 12),
    ):
        assert found.word == f"{word} margin"
        says(found.sentence, word, *numbers)


def test_a_sure_loss_within_the_margin_is_named():
    found = verdict(-0.01, -0.015, -0.005, 0.001, 0.01, 500, margin=0.02)
    assert found.word == "same within margin"
    says(found.sentence, "same within ±.02", ".01", ".015")


def test_a_loss_that_may_reach_the_margin_is_worse_or_unknown():
    assert verdict(-0.03, -0.05, -0.01, 0.001, 0.02, 500, margin=0.02).word == "worse"
    found = verdict(-0.01, -0.03, 0.01, 0.3, 0.028, 100, margin=0.02)
    assert found.word == "can't tell"
    says(found.sentence, "can't tell", 100, ".028", 200, ".02")


def test_the_caution_stands_behind_the_verdict():
    plain, found = (
        verdict(0.015, 0.009, 0.021, 0.001, 0.01, 50, caution=caution) for caution in (False, True)
    )
    assert found.word == "better"
    assert says(found.sentence, "better").startswith(plain.sentence) and found != plain


def test_without_a_common_query_or_a_test_nothing_is_claimed():
    says(verdict(np.nan, np.nan, np.nan, np.nan, np.nan, 0).sentence, "can't tell")
    found = verdict(0.4, 0.1, 0.7, np.nan, 0.3, 6)
    assert found.word == "can't tell"
    says(found.sentence, "can't tell", 6)


def test_times_go_by_their_median_and_claim_neither_a_p_nor_a_detectable_difference():
    for found, word, *named in (
        (median_verdict(-80, -140, -20, 50, better="lower"), "better", "−80", "[−140, −20]"),
        (median_verdict(80, 20, 140, 50, better="lower"), "worse", "+80", "[+20, +140]"),
        (median_verdict(1, -6, 12, 20, better="lower"), "can't tell", "−6", "+12", 20),
    ):
        assert found.word == word and " p " not in found.sentence
        says(found.sentence, word, *named)
    found = median_verdict(1, -6, 12, 20, margin=15, better="lower")
    assert found.word == "same within margin"
    says(found.sentence, "same within ±15", 12)


@pytest.mark.parametrize("n", [5, 1])
def test_too_few_times_have_no_interval_to_go_by(n):
    says(median_verdict(3, np.nan, np.nan, n).sentence, "can't tell", n)
    says(median_verdict(np.nan, np.nan, np.nan, 0).sentence, "can't tell")


@pytest.mark.parametrize("wrong", [{"margin": 0}, {"margin": -0.02}, {"better": "up"}])
def test_a_margin_that_allows_nothing_and_an_unknown_direction_are_refused(wrong):
    ((field, value),) = wrong.items()
    with refused(value, field=field):
        verdict(0.1, 0, 0.2, 0.1, 0.1, 50, **wrong)


@given(
    st.floats(-1, 1),
    st.floats(0, 0.5),
    st.floats(0, 1),
    st.sampled_from([None, 0.02, 0.2]),
)
def test_turning_the_metric_around_turns_nothing_else(delta, half, p, margin):
    one = verdict(delta, delta - half, delta + half, p, 0.1, 50, margin=margin)
    other = verdict(
        -delta,
        -delta - half,
        -delta + half,
        p,
        0.1,
        50,
        margin=margin,
        better="lower",
    )
    words = ("better", "worse", "no worse than margin", "same within margin", "can't tell")
    assert one.word == other.word and one.word in words
    assert one.sentence.startswith(one.word.removesuffix(" margin"))


def test_every_few_of_many_numbers_of_changed_queries_give_the_power_of_all(monkeypatch):
    shares, n = [0.05, 0.41, 0.7, 0.2], [100_000, 100_000, 5_000, 20_000]
    found = minimum_detectable_rate(shares, n, confidence=0.9971)
    monkeypatch.setattr("ragscore.stats.power.MOST_NUMBERS", 10**6)
    assert found == pytest.approx(minimum_detectable_rate(shares, n, confidence=0.9971), rel=3e-4)


@pytest.mark.parametrize("n", [500, 3_000])
def test_where_every_query_changes_power_is_that_of_their_losses(n):
    losses = np.arange(n + 1)
    mid_p = 2 * (stats.binom.cdf(losses - 1, n, 0.5) + stats.binom.pmf(losses, n, 0.5) / 2)
    is_shown = (mid_p < 0.05) & (n - 2 * losses > 1.959963985 * np.sqrt(n))  # and Tango's interval
    most = losses[is_shown & (losses < n / 2)].max()
    assert rate_power(1 / 15, 1.0, n) == pytest.approx(stats.binom.cdf(most, n, 7 / 15), abs=1e-9)
    least = minimum_detectable_rate(1.0, n)
    assert stats.binom.cdf(most, n, (1 - least) / 2) == pytest.approx(0.8, abs=1e-6)
