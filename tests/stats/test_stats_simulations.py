"""Whether the statistics keep what they claim.

Exact for 0/1 metrics, else simulated with a fixed seed (full size: python -m
tests.benchmarks.statistics).
"""

import numpy as np
import pandas as pd
import pytest
from benchmarks.statistics import (
    MEANS,
    SHIFTS,
    alarms,
    claimed,
    false_claims,
    grouped_coverage,
    mean_coverage,
    moved_reciprocal_ranks,
    nearly_all_right,
    power_at_mde,
    rate_coverage,
    rates_claimed,
    small_gains_few_disasters,
    tango_coverage,
    times,
    zero_or_one,
)
from benchmarks.swapped import (
    PAIRS,
    claims,
    demo,
    demo_pair,
    demo_subset,
    exchanged_records,
    may_claim,
    power,
    signs_drawn_once,
)
from benchmarks.words import (
    drawn_again,
    means_within,
    rates_within,
    real_differences,
    trade,
    without_change,
)
from scipy.stats import binom

import ragscore as rs
from ragscore.stats import (
    interval_of_differences,
    interval_of_means,
    minimum_detectable_rate,
    moments,
    quantile_interval,
    sign_flip_p,
    t_interval,
    verdict,
)
from ragscore.stats.intervals import interval_for_margin

pytestmark = pytest.mark.slow

DRAWS = 2_000  # a coverage of .95 is then known to ± .01


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.95])
def test_intervals_of_rates_hold_the_rate(rate, n):
    assert 0.91 <= rate_coverage(rate, n) <= 0.975


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("turned", [False, True])
def test_intervals_of_values_that_are_nearly_all_at_one_end_hold_the_mean(turned, n):
    def draw(rng, n, draws):
        values = nearly_all_right(rng, n, draws)
        return 1 - values if turned else values

    assert (
        0.91
        <= mean_coverage(
            draw,
            0.025 if turned else 0.975,
            n,
            DRAWS,
            lambda values: interval_of_means(values, "bounded"),
        )
        <= 0.975
    )


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("name", MEANS)
def test_intervals_of_bounded_means_hold_the_mean(name, n):
    assert (
        0.91
        <= mean_coverage(
            *MEANS[name], n, DRAWS, lambda values: interval_of_means(values, "bounded")
        )
        <= 0.975
    )


def test_students_t_does_not_near_the_end_of_the_range():
    assert (
        mean_coverage(
            *MEANS["RR@10 mean 0.96"], 20, DRAWS, lambda values: t_interval(*moments(values))
        )
        < 0.85
    )


@pytest.mark.parametrize("n", [20, 50, 200])
def test_intervals_of_long_tailed_times_hold_more_than_students_t(n):
    ours = mean_coverage(
        times, np.exp(0.5), n, 1_000, lambda values: interval_of_means(values, "time")
    )
    assert 0.91 <= ours <= 0.975 and ours > mean_coverage(
        times, np.exp(0.5), n, 1_000, lambda values: t_interval(*moments(values))
    )


@pytest.mark.parametrize("n", [72, 100, 200, 500])
@pytest.mark.parametrize("q", [0.5, 0.95])
def test_order_statistics_hold_the_quantile_and_none_nearer_do(q, n):
    # Of the values 0 ... n−1 so many lie below the quantile as Bin(n, q) says, whatever they are.
    low, high = quantile_interval(np.arange(float(n)), q)
    assert binom.cdf(high, n, q) - binom.cdf(low, n, q) >= 0.95
    assert binom.cdf(low + 1, n, q) > 0.025 and binom.sf(high - 1, n, q) > 0.025


@pytest.mark.parametrize(
    ("kind", "draw", "mean"), [("binary", zero_or_one, 0.8), ("bounded", *MEANS["RR@10 mean 0.86"])]
)
@pytest.mark.parametrize("n", [50, 200])
def test_intervals_by_group_hold_the_mean_where_ignoring_groups_fails(kind, draw, mean, n):
    assert 0.91 <= grouped_coverage(draw, mean, kind, n, DRAWS, True) <= 0.975
    assert grouped_coverage(draw, mean, kind, n, DRAWS, False) < 0.88


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("delta", [0, 0.1])
def test_intervals_of_differences_hold_the_difference(delta, n):
    assert 0.91 <= tango_coverage(n, 0.2, delta) <= 0.975
    if not delta:
        ours = mean_coverage(
            moved_reciprocal_ranks,
            0,
            n,
            DRAWS,
            lambda values: interval_of_differences(values, "bounded"),
        )
        assert 0.91 <= ours <= 0.975


@pytest.mark.parametrize("n", [20, 50, 100, 200])
def test_where_nothing_changed_better_and_worse_are_rare(n):
    assert rates_claimed(n, 0.2) <= 0.06
    called, _, cautions = alarms(moved_reciprocal_ranks, n, DRAWS, 1_000)
    assert called <= 0.06 and cautions <= {20: 0.25}.get(n, 0.03)


@pytest.mark.parametrize("n", [20, 50, 100, 200, 500])
def test_a_false_alarm_from_rare_disasters_comes_with_a_caution(n):
    called, without_caution, _ = alarms(small_gains_few_disasters, n, DRAWS, 1_000)
    assert without_caution <= 0.02
    # 8,000 draws say .322, .223, .099: beyond the 6 % of the other settings, which is why it is
    # needed. From 200 on it fades.
    assert n > 100 or called == pytest.approx({20: 0.322, 50: 0.223, 100: 0.099}[n], abs=0.01)


@pytest.mark.parametrize("n", [20, 50, 100, 200])
@pytest.mark.parametrize("discordance", [0.1, 0.2, 0.3, 0.5])
def test_a_detectable_difference_of_rates_is_found_four_times_in_five(discordance, n):
    delta = float(minimum_detectable_rate(discordance, n))
    if np.isinf(delta):
        assert n * discordance < 8 and rates_claimed(n, discordance, discordance) < 0.8
    else:
        assert rates_claimed(n, discordance, delta) == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("name", SHIFTS)
def test_a_detectable_difference_of_means_is_found_four_times_in_five(name, n):
    assert 0.75 <= power_at_mde(SHIFTS[name], n, DRAWS) <= 0.85


def test_what_is_simulated_is_what_the_verdict_says():
    differences = moved_reciprocal_ranks(np.random.default_rng(5), 40, 300, 0.35)
    low, high = interval_of_differences(differences, "bounded")
    p, mean = sign_flip_p(differences, iterations=2_000), differences.mean(axis=0)
    words = [verdict(*numbers, 0.1, 40).word for numbers in zip(mean, low, high, p, strict=True)]
    assert [word in ("better", "worse") for word in words] == claimed(
        differences
    ).tolist() and 30 < claimed(differences).sum() < 270


def test_of_all_pairs_of_equal_runs_rarely_any_is_claimed():
    by_max, by_pair = false_claims(40, 4, 200, 300)
    assert by_max <= 0.08 and by_pair > 0.1  # 200 draws: ± .03


@pytest.mark.parametrize(("baseline", "candidate"), [PAIRS[2], PAIRS[3]])
def test_exchanging_rows_of_scores_is_exchanging_records(baseline, candidate):
    ev, pair = demo(), demo_pair(baseline, candidate)
    is_exchanged = np.random.default_rng(3).random(pair.n_units) < 0.5
    queries = pair.first.index[is_exchanged[pair.units]]
    assert 60 < len(queries) < 120
    results = ev.results.select([baseline, candidate])
    results = exchanged_records(results, baseline, candidate, queries)
    cmp = rs.evaluate(results, ev.golden).compare(baseline, candidate)
    found = pair.exchanged(is_exchanged).compared()
    assert found.deltas.columns.isin(cmp.deltas.columns).all()
    both = [
        one.deltas[found.deltas.columns.tolist()].sort_values("metric", ignore_index=True)
        for one in (cmp, found)
    ]
    pd.testing.assert_frame_equal(*both)
    pd.testing.assert_frame_equal(cmp.aspects, found.aspects)
    by_metric = [
        one.sort_values("metric", ignore_index=True) for one in (cmp.flip_counts, found.flip_counts)
    ]
    pd.testing.assert_frame_equal(*by_metric)
    assert cmp.overall == found.overall
    assert not cmp.deltas["delta"].equals(ev.compare(baseline, candidate).deltas["delta"])


def test_forty_queries_are_whole_groups_of_paraphrases():
    whole, few = demo_pair("dense", "hybrid"), demo_subset("dense", "hybrid", 40)
    assert len(whole.first) == 182 and len(few.first) == 40
    assert {*np.bincount(whole.units)} == {*np.bincount(few.units)} == {1, 3}


@pytest.mark.parametrize("n", [40, 182])
def test_only_exchanges_that_claim_nothing_are_passed_over(n):
    pair = demo_subset("dense", "hybrid", n)
    is_exchanged = np.random.default_rng(1).random((60, pair.n_units)) < 0.5
    flagged = may_claim(pair, is_exchanged)
    in_full = [pair.exchanged(row).together().p for row in is_exchanged[:5]]
    with signs_drawn_once():
        p = np.array([pair.exchanged(row).together().p for row in is_exchanged])
    np.testing.assert_array_equal(in_full, p[:5])
    claims_any = (p < 0.05).any(axis=1)
    # none that claims is passed over, and of the others nine in ten are
    assert flagged[claims_any].all() and (~flagged).sum() >= 0.9 * (~claims_any).sum()
    for row in is_exchanged[~flagged][:2]:
        assert pair.exchanged(row).compared().claimed() == []


@pytest.mark.parametrize("n", [40, 182])
def test_of_runs_that_do_not_differ_a_comparison_rarely_says_anything(n):
    draws, pairs = 300, PAIRS[1::2]
    most = binom.ppf(0.999, draws * len(pairs), 0.05) / (draws * len(pairs))
    found = [claims(*pair, n, draws) for pair in pairs]
    assert np.mean([one.overall for one in found]) <= most
    assert 0.01 < np.mean([one.any_word for one in found]) <= most


def test_the_correction_costs_the_primary_metrics_little():
    found = power("bm25", "hybrid_rerank", 0.5, 182, 48)
    assert 0.7 < found.corrected["ndcg@10"] <= found.alone["ndcg@10"]
    assert found.alone["passed"] - found.corrected["passed"] < 0.25


@pytest.mark.parametrize("n", [40, 182])
@pytest.mark.parametrize(("discordance", "margin"), [(0.1, 0.05), (0.2, 0.1)])
def test_a_rate_that_is_a_margin_worse_is_rarely_called_no_worse(n, discordance, margin):
    worse, better = (rates_within(n, discordance, sign * margin, margin) for sign in (-1, 1))
    assert worse.same <= worse.no_worse <= 0.026
    assert better.same <= 0.026 and better.no_worse > 0.4
    assert rates_within(n, discordance, 0.0, margin).same >= worse.same


@pytest.mark.parametrize("n", [40, 182, 500])
@pytest.mark.parametrize(
    ("metric", "baseline", "candidate"),
    [("mrr@10", "bm25", "dense"), ("ndcg@10", "bm25", "hybrid_rerank")],
)
def test_a_mean_that_is_a_margin_worse_is_rarely_called_no_worse(metric, baseline, candidate, n):
    population = real_differences(metric, baseline, candidate)
    margin = population.mean()
    most = binom.ppf(0.999, 5_000, 0.026) / 5_000
    worse, better = (
        means_within(drawn_again(sign * population), n, margin, 5_000) for sign in (-1, 1)
    )
    assert worse.no_worse <= most and better.same <= most
    assert n < 500 or means_within(without_change(population), n, margin, 500).same > 0.99


def test_students_t_alone_would_call_too_many_skewed_losses_no_worse():
    loss = -real_differences("ndcg@10", "bm25", "hybrid_rerank")
    drawn = drawn_again(loss)(np.random.default_rng(0), 40, 5_000)
    low, high = interval_of_differences(drawn, "bounded")
    wider, higher = interval_for_margin(drawn, "bounded")
    assert (low > loss.mean()).mean() > 0.033 and (wider > loss.mean()).mean() < 0.026
    assert (wider <= low).all() and (higher >= high).all()


def test_an_interval_for_a_margin_is_students_where_nothing_is_skewed_and_tangos_for_rates():
    even = np.array([-0.4, -0.1, 0.0, 0.1, 0.4] * 8)
    for values, kind in ((even, "bounded"), (np.array([1.0, 1.0, -1.0, *[0.0] * 30]), "binary")):
        np.testing.assert_allclose(
            interval_for_margin(values, kind), interval_of_differences(values, kind), atol=1e-12
        )
    # Worked by hand: differences 0, 0, 0, 1 have mean 1/4, s = 1/2, error 1/4, lean 1/√3.
    t, lean = 3.182446, (3 * (-1 / 4) ** 3 + (3 / 4) ** 3) / (3 / 4) ** 1.5
    assert lean == pytest.approx(1 / np.sqrt(3))
    up = 3 / lean * (np.cbrt(1 + lean * (t - lean / 6)) - 1)
    down = 3 / lean * (np.cbrt(1 + lean * (-t - lean / 6)) - 1)
    low, high = interval_for_margin(np.array([0.0, 0.0, 0.0, 1.0]), "bounded")
    assert low[0] == pytest.approx(min(0.25 - t / 4, 0.25 - up / 4), abs=1e-6)
    assert high[0] == pytest.approx(min(max(0.25 + t / 4, 0.25 - down / 4), 1.0), abs=1e-6)


def test_members_of_a_group_count_once_in_an_interval_for_a_margin():
    once = np.array([0.3, 0.0, 0.0, 0.1, 0.0, 0.9, 0.0, 0.2])
    low, high = interval_for_margin(np.repeat(once, 3), "bounded", groups=np.repeat(range(8), 3))
    np.testing.assert_allclose((low, high), interval_for_margin(once, "bounded"), atol=1e-12)


def test_refusing_less_alone_is_rarely_better():
    found = trade(182, (0.25, 0.10), 60)
    assert found.alone > 0.5 and found.better <= 0.1
    assert trade(182, (0.25, 0.10), 60, should_refuse_too=False).better > found.better
