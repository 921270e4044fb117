"""What n queries can show, worked by hand, and the verdict's words."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

import ragscore as rs
from ragscore.stats import (
    Verdict,
    flip_rate,
    is_heavy_tailed,
    mde_of_differences,
    median_verdict,
    minimum_detectable,
    minimum_detectable_rate,
    moves_by_noise,
    queries_needed,
    rate_power,
    verdict,
)

Z = 1.959963985 + 0.841621234  # z_.975 + z_.8


# The minimum detectable difference


def test_the_minimum_detectable_difference_is_so_many_standard_errors():
    # t.975 + t.8 with 49 and with 19 degrees of freedom: 2.0096 + .8489 and 2.0930 + .8610; of very
    # many queries 1.9600 + .8416
    assert minimum_detectable([0.25, 0.25], [50, 20]) == pytest.approx(
        [2.8585 * 0.25 / 50**0.5, 2.9540 * 0.25 / 20**0.5], abs=1e-5
    )
    assert minimum_detectable(1, 10**8) == pytest.approx(Z / 10**4, rel=1e-6)


@pytest.mark.parametrize("n", [10, 20, 50, 200, 1000])
def test_it_is_that_of_students_test(n):
    theirs = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8)
    assert minimum_detectable(1, n) == pytest.approx(theirs, rel=0.01)


def test_that_of_two_rates_is_found_four_times_in_five():
    delta = float(minimum_detectable_rate(0.2, 50))
    assert rate_power(delta, 0.2, 50) == pytest.approx(0.8, abs=1e-6) and delta == pytest.approx(
        0.1641, abs=5e-5
    )


def test_the_power_of_five_moved_queries_by_hand():
    # Of 5 moved queries all, of 6 all must be wins (mid-p .031 and .016; 1 loss of 6: .0625 +
    # .047): all 5 queries move here, each a win with chance .9.
    assert (
        rate_power(0.8, 1, 5) == pytest.approx(0.9**5)
        and rate_power(0.8, 1, 6) == pytest.approx(0.9**6)
        and rate_power(0.5, 1, 4) == 0
    )


@pytest.mark.parametrize("discordance", [0.1, 0.3, 1])
def test_more_than_500_queries_have_the_formulas_rate(discordance):
    # δ² = z²(ψ − δ²)/n, close to what enumeration gives
    delta = float(minimum_detectable_rate(discordance, 501))
    assert delta**2 == pytest.approx(Z**2 * (discordance - delta**2) / 501, abs=1e-9)
    assert (
        delta == pytest.approx(float(minimum_detectable_rate(discordance, 500)), rel=0.02)
        and 0.79 <= rate_power(delta, discordance, 501) <= 0.82
    )


def test_a_difference_beyond_the_discordance_is_not_detectable():
    # 20 queries of which 30 % move: with all moves one way 5 or more are needed, which happens in
    # .762 of cases. Of 5000 of which 1 in 10,000 does: none.
    assert np.isinf(
        minimum_detectable_rate([0.1, 0.0, 0.3, 1e-4], [20, 1000, 20, 5000])
    ).all() and np.isfinite(minimum_detectable_rate(0.35, 20))
    assert (
        rate_power(0.3, 0.3, 20)
        == pytest.approx(stats.binom.sf(4, 20, 0.3), abs=1e-9)
        == pytest.approx(0.762, abs=5e-4)
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
    assert mde_of_differences(differences, "bounded", design_effect=4)[0] == pytest.approx(
        float(minimum_detectable(sd, 12.5))
    )


@given(st.floats(0.01, 1), st.floats(0.001, 1))
def test_so_many_queries_detect_the_difference_and_one_less_does_not(std, difference):
    n = float(queries_needed(difference, std))
    assert n >= 2 and minimum_detectable(std, n) <= difference * (1 + 1e-6)
    assert n == 2 or minimum_detectable(std, n - 1) > difference


def test_no_number_of_queries_finds_no_difference():
    assert (
        queries_needed([0.0, 0.05, -0.05], 0.3).tolist() == [np.inf, 285, 285]
        and np.isnan(queries_needed([0.1, np.nan], [0.0, 0.2])).all()
    )
    assert (
        np.ceil(TTestPower().solve_power(effect_size=0.05 / 0.3, nobs=None, alpha=0.05, power=0.8))
        == 285
    )


# Noise


def test_the_flip_rate_is_the_share_of_pairs_of_repeats_that_differ():
    # 1 1 0: two of three pairs differ; 1 1 1: none of three; 1 and 0, the third missing: the one
    # pair.
    assert flip_rate([[1, 1, 0], [1, 1, 1], [1, 0, np.nan]]) == pytest.approx(3 / 7)
    assert flip_rate([[0.5, 0.52], [0.1, 0.5]], margin=0.05) == 0.5
    assert np.isnan(flip_rate([[1, np.nan]])) and np.isnan(flip_rate([1.0, 0.0]))


def test_noise_alone_gives_half_of_the_flips_to_each_side():
    expected, low, high = moves_by_noise(50, 0.12)
    assert expected == pytest.approx(3) and (low, high) == (
        stats.binom.ppf(0.025, 50, 0.06),
        stats.binom.ppf(0.975, 50, 0.06),
    )
    assert (
        np.isnan(moves_by_noise(0, 0.1)).all() and np.isnan(moves_by_noise(50, float("nan"))).all()
    )


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
    found = verdict(0.03, -0.05, 0.11, 0.4, 0.1245, 50, worth=0.05)
    assert found == Verdict(
        "can't tell",
        "can't tell: 50 queries see differences from .12 up; about 310 would be needed for a"
        " difference of .05",
    )


def test_without_a_difference_worth_finding_the_sentence_ends_with_what_n_sees():
    assert (
        verdict(0.03, -0.05, 0.11, 0.4, 0.1245, 1).sentence
        == "can't tell: 1 query sees differences from .12 up"
    )


def test_enough_queries_say_that_the_difference_would_have_been_found():
    found = verdict(0.003, -0.01, 0.016, 0.6, 0.02, 2000, worth=0.05)
    assert (
        found.sentence
        == "can't tell: 2000 queries see differences from .02 up, so that one of .05 would probably"
        " have been found"
    )


def test_where_no_direction_is_declared_only_the_movement_is_named():
    found = [
        verdict(delta, delta - 0.1, delta + 0.1, 0.001, 0.1, 50, better="not declared", margin=0.5)
        for delta in (0.3, -0.3)
    ]
    assert [one.word for one in found] == ["higher", "lower"] and found[
        1
    ].sentence == "lower: −.30 [−.40, −.20], p = .001"
    # what would be a loss isn't known
    assert (
        verdict(-0.05, -0.15, 0.05, 0.4, 0.1, 50, better="not declared", margin=0.5).word
        == "can't tell"
    )


def test_what_is_not_detectable_is_said_with_what_the_interval_leaves_open():
    found = verdict(0.0, -0.161, 0.161, 1, np.inf, 20, worth=0.05)
    assert (
        found.sentence
        == "can't tell: a difference is not detectable at this n, too few of 20 queries moved; one"
        " up to .16 isn't ruled out"
    )
    assert (
        verdict(0.0, np.nan, np.nan, 1, np.nan, 1).sentence
        == "can't tell: a difference is not detectable at this n, too few of 1 query moved"
    )


def test_a_small_difference_is_the_same_or_no_worse_within_a_declared_margin():
    assert verdict(-0.004, -0.012, 0.004, 0.3, 0.01, 500, margin=0.02) == Verdict(
        "same within margin", "same within ±.02: a loss is at most .012"
    )
    assert verdict(0.01, -0.01, 0.03, 0.3, 0.01, 500, margin=0.02) == Verdict(
        "no worse than margin", "no worse than .02: a loss is at most .01"
    )
    assert (
        verdict(0.01, 0, 0.02, 0.06, 0.01, 500, margin=0.02).sentence
        == "no worse than .02: the interval holds no loss"
    )
    assert (
        verdict(4, -4, 12, 0.3, 10, 500, margin=20, better="lower").sentence
        == "same within ±20: a loss is at most 12"
    )


def test_a_sure_loss_within_the_margin_is_named():
    assert (
        verdict(-0.01, -0.015, -0.005, 0.001, 0.01, 500, margin=0.02).sentence
        == "same within ±.02: a loss of .01 is there, at most .015"
    )


def test_a_loss_that_may_reach_the_margin_is_worse_or_unknown():
    assert verdict(-0.03, -0.05, -0.01, 0.001, 0.02, 500, margin=0.02).word == "worse"
    found = verdict(-0.01, -0.03, 0.01, 0.3, 0.028, 100, margin=0.02)
    assert found == Verdict(
        "can't tell",
        "can't tell: 100 queries see differences from .028 up; about 200 would be needed for a"
        " difference of .02",
    )


def test_tied_runs_cant_be_told_apart_whatever_their_own_p():
    assert verdict(0.08, 0.02, 0.14, 0.004, 0.1, 50, is_tied=True).word == "can't tell"


def test_the_caution_stands_behind_the_verdict():
    found = verdict(0.015, 0.009, 0.021, 0.001, 0.01, 50, caution=True)
    assert (
        found.word == "better"
        and "; caution: a few queries carry this difference" in found.sentence
    )


def test_without_a_common_query_or_a_test_nothing_is_claimed():
    assert (
        verdict(np.nan, np.nan, np.nan, np.nan, np.nan, 0).sentence
        == "can't tell: no query has a value in both runs"
    )
    assert verdict(0.4, 0.1, 0.7, np.nan, 0.3, 6) == Verdict(
        "can't tell", "can't tell: not tested with 6 queries"
    )


def test_times_go_by_their_median_and_claim_neither_a_p_nor_a_detectable_difference():
    assert median_verdict(-80, -140, -20, 50, better="lower") == Verdict(
        "better", "better: −80 [−140, −20] at the median"
    )
    assert median_verdict(80, 20, 140, 50, better="lower") == Verdict(
        "worse", "worse: +80 [+20, +140] at the median"
    )
    found = median_verdict(1, -6, 12, 20, better="lower")
    assert found == Verdict(
        "can't tell",
        "can't tell: the median difference may be anything from −6 to +12 (20 queries)",
    )
    assert (
        median_verdict(1, -6, 12, 20, margin=15, better="lower").sentence
        == "same within ±15: a loss is at most 12"
    )


@pytest.mark.parametrize(("n", "queries"), [(5, "5 queries are"), (1, "1 query is")])
def test_too_few_times_have_no_interval_to_go_by(n, queries):
    assert (
        median_verdict(3, np.nan, np.nan, n).sentence
        == f"can't tell: {queries} too few for an interval of the median difference"
    )
    assert (
        median_verdict(np.nan, np.nan, np.nan, 0).sentence
        == "can't tell: no query has a value in both runs"
    )


@pytest.mark.parametrize("wrong", [{"margin": 0}, {"margin": -0.02}, {"better": "up"}])
def test_a_margin_that_allows_nothing_and_an_unknown_direction_are_refused(wrong):
    with pytest.raises(rs.DataError, match=next(iter(wrong))):
        verdict(0.1, 0, 0.2, 0.1, 0.1, 50, **wrong)


@given(
    st.floats(-1, 1),
    st.floats(0, 0.5),
    st.floats(0, 1),
    st.sampled_from([None, 0.02, 0.2]),
    st.booleans(),
)
def test_turning_the_metric_around_turns_nothing_else(delta, half, p, margin, is_tied):
    one = verdict(delta, delta - half, delta + half, p, 0.1, 50, margin=margin, is_tied=is_tied)
    other = verdict(
        -delta,
        -delta - half,
        -delta + half,
        p,
        0.1,
        50,
        margin=margin,
        is_tied=is_tied,
        better="lower",
    )
    assert one.word == other.word and one.sentence.startswith(
        ("better", "worse", "no worse than", "same within", "can't tell")
    )
