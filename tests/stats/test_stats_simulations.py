"""Whether the statistics keep what they claim: exact for 0/1 metrics, else drawn at random."""

import numpy as np
import pytest
from benchmarks.false_words import DEMO, exchanged, said
from scipy.stats import binom

import ragscore as rs
from ragscore.stats import (
    NO_WORSE,
    SAME,
    interval_of_differences,
    is_heavy_tailed,
    mcnemar_p,
    mean_interval,
    minimum_detectable,
    minimum_detectable_rate,
    quantile_interval,
    sign_flip_p,
    tango_interval,
    verdict,
    wilson_interval,
)
from ragscore.stats.differences import interval_for_margin
from ragscore.stats.intervals import interval_from_moments
from ragscore.stats.moments import moments
from ragscore.stats.power import EXACT_BELOW

DRAWS = 2_000  # a coverage of .95 is then known to ± .01


# What is drawn: (rng, n, draws) -> one row per query, one column per draw


def reciprocal_ranks(rng, n, draws, first=0.5):
    """Each position holds the first hit with chance `first`; 0 below rank 10."""
    rank = rng.geometric(first, (n, draws))
    return np.where(rank <= 10, 1 / rank, 0.0)


def moved_reciprocal_ranks(rng, n, draws, second=0.5):
    """Differences of which 40 % of the queries are drawn again: of mean 0."""
    baseline = reciprocal_ranks(rng, n, draws)
    again = reciprocal_ranks(rng, n, draws, second)
    return np.where(rng.random((n, draws)) < 0.4, again - baseline, 0.0)


def small_gains_few_disasters(rng, n, draws):
    """29 % of the queries gain .05, 3 % lose .483: the mean difference is 0."""
    chance = rng.random((n, draws))
    return np.where(chance < 0.29, 0.05, np.where(chance < 0.32, -0.05 * 29 / 3, 0.0))


def nearly_all_right(rng, n, draws):
    """95 % ones, the rest anywhere: the hardest case for any interval."""
    return np.where(rng.random((n, draws)) < 0.95, 1.0, rng.random((n, draws)))


def recalls_of_three(rng, n, draws):
    return rng.binomial(3, rng.beta(3.6, 0.4, (n, draws))) / 3


def zero_or_one(rng, n, draws):
    return (rng.random((n, draws)) < 0.8).astype(float)


RANKS = np.arange(1, 11)
MEANS = {
    "reciprocal ranks": (reciprocal_ranks, (0.5**RANKS / RANKS).sum()),
    "recall": (recalls_of_three, 0.9),
    "points": (lambda rng, n, draws: rng.beta(5, 5, (n, draws)), 0.5),
    "nearly all right": (nearly_all_right, 0.975),
    "nearly all wrong": (lambda *given: 1 - nearly_all_right(*given), 0.025),
}


def coverage(draw, mean, n, interval, draws=DRAWS):
    """Share of draws whose interval holds the true mean."""
    low, high = interval(draw(np.random.default_rng(0), n, draws))
    return ((low <= mean + 1e-12) & (mean - 1e-12 <= high)).mean()


def moved_table(n, discordance, delta=0.0):
    """Every number of wins and losses of n paired 0/1 queries, with its chance."""
    wins, losses = (part.ravel() for part in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    chance = binom.pmf(wins + losses, n, discordance) * binom.pmf(
        wins, wins + losses, (discordance + delta) / (2 * discordance)
    )
    likely = (wins + losses <= n) & (chance > 1e-12)
    return wins[likely], losses[likely], chance[likely]


def rates_claimed(n, discordance, delta=0.0):
    """Chance that two rates are called different."""
    wins, losses, chance = moved_table(n, discordance, delta)
    low, high = tango_interval(wins, losses, np.full(len(wins), float(n)))
    is_exact = (wins + losses >= EXACT_BELOW) | (mcnemar_p(wins, losses, is_exact=True) < 0.05)
    return chance[is_exact & (mcnemar_p(wins, losses) < 0.05) & ((low > 0) | (high < 0))].sum()


def claimed(differences):
    """Which columns' verdict is better or worse; see the test of the verdict's words."""
    low, high = interval_of_differences(differences, "bounded", bounds=(0, 5))
    return (sign_flip_p(differences, iterations=1_000) < 0.05) & ((low > 0) | (high < 0))


# Intervals


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("rate", [0.5, 0.9, 0.95])
def test_intervals_of_rates_hold_the_rate(rate, n):
    passed = np.arange(n + 1)
    low, high = wilson_interval(passed / n, np.full(n + 1, float(n)))
    assert 0.91 <= binom.pmf(passed, n, rate)[(low <= rate) & (rate <= high)].sum() <= 0.975


@pytest.mark.parametrize("n", [20, 200])
@pytest.mark.parametrize("name", MEANS)
def test_intervals_of_bounded_means_hold_the_mean(name, n):
    held = coverage(*MEANS[name], n, lambda values: mean_interval(values, "bounded"))
    assert 0.91 <= held <= 0.975


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 50])
def test_intervals_of_long_tailed_times_hold_more_than_students_t(n):
    def times(rng, n, draws):
        return rng.lognormal(0, 1, (n, draws))

    ours, students = (
        coverage(times, np.exp(0.5), n, interval, 1_000)
        for interval in (
            lambda values: mean_interval(values, "time"),
            lambda values: interval_from_moments(*moments(values), "time"),
        )
    )
    assert 0.91 <= ours <= 0.975 and ours > students


@pytest.mark.parametrize("n", [72, 100, 500])
@pytest.mark.parametrize("q", [0.5, 0.95])
def test_order_statistics_hold_the_quantile_and_none_nearer_do(q, n):
    # Of the values 0 ... n−1 so many lie below the quantile as Bin(n, q) says, whatever they are.
    low, high = quantile_interval(np.arange(float(n)), q)
    assert binom.cdf(high, n, q) - binom.cdf(low, n, q) >= 0.95
    assert binom.cdf(low + 1, n, q) > 0.025 and binom.sf(high - 1, n, q) > 0.025


@pytest.mark.parametrize(("kind", "name"), [("binary", "0/1"), ("bounded", "points")])
def test_intervals_by_group_hold_the_mean_where_ignoring_groups_fails(kind, name):
    draw, mean = {"0/1": (zero_or_one, 0.8), **MEANS}[name]

    def in_fives(rng, n, draws):
        """With chance .5 a query has its group's value."""
        shared = np.repeat(draw(rng, n // 5, draws), 5, axis=0)
        return np.where(rng.random((n, draws)) < 0.5, shared, draw(rng, n, draws))

    for groups, low, high in ((np.arange(200) // 5, 0.91, 0.975), (None, 0, 0.88)):
        held = coverage(
            in_fives,
            mean,
            200,
            lambda values, of=groups: mean_interval(values, kind, groups=of),
        )
        assert low <= held <= high


@pytest.mark.parametrize("n", [20, 50, 200])
def test_intervals_of_differences_hold_the_difference(n):
    for delta in (0, 0.1):
        wins, losses, chance = moved_table(n, 0.2, delta)
        low, high = tango_interval(wins, losses, np.full(len(wins), float(n)))
        assert 0.91 <= chance[(low <= delta + 1e-12) & (delta - 1e-12 <= high)].sum() <= 0.975
    held = coverage(
        moved_reciprocal_ranks, 0, n, lambda values: interval_of_differences(values, "bounded")
    )
    assert 0.91 <= held <= 0.975


# Words


@pytest.mark.parametrize("n", [20, 50, 100, 200])
def test_where_nothing_changed_better_and_worse_are_rare(n):
    assert rates_claimed(n, 0.2) <= 0.06
    differences = moved_reciprocal_ranks(np.random.default_rng(0), n, DRAWS)
    assert claimed(differences).mean() <= 0.06
    assert is_heavy_tailed(differences).mean() <= {20: 0.25}.get(n, 0.03)


@pytest.mark.parametrize("n", [20, 50, 500])
def test_a_false_alarm_from_rare_disasters_comes_with_a_caution(n):
    differences = small_gains_few_disasters(np.random.default_rng(0), n, DRAWS)
    alarms = claimed(differences)
    assert (alarms & ~is_heavy_tailed(differences)).mean() <= 0.02
    # beyond the 6 % of other settings, which is why it is needed; from 200 on it fades
    assert n > 100 or alarms.mean() > 0.2


@pytest.mark.parametrize("n", [20, 50, 200])
@pytest.mark.parametrize("discordance", [0.1, 0.3])
def test_a_detectable_difference_of_rates_is_found_four_times_in_five(discordance, n):
    delta = float(minimum_detectable_rate(discordance, n))
    if np.isinf(delta):
        assert n * discordance < 8 and rates_claimed(n, discordance, discordance) < 0.8
    else:
        assert rates_claimed(n, discordance, delta) == pytest.approx(0.8, abs=0.005)


@pytest.mark.parametrize("n", [20, 50, 200])
def test_a_detectable_difference_of_means_is_found_four_times_in_five(n):
    rng = np.random.default_rng(0)
    population = moved_reciprocal_ranks(rng, 1_000_000, 1)
    shift = minimum_detectable(population.std(), n) - population.mean()
    assert 0.75 <= claimed(moved_reciprocal_ranks(rng, n, DRAWS) + shift).mean() <= 0.85


def test_what_is_simulated_is_what_the_verdict_says():
    differences = moved_reciprocal_ranks(np.random.default_rng(5), 40, 300, 0.35)
    low, high = interval_of_differences(differences, "bounded")
    p, mean = sign_flip_p(differences, iterations=1_000), differences.mean(axis=0)
    words = [verdict(*numbers, 0.1, 40).word for numbers in zip(mean, low, high, p, strict=True)]
    found = claimed(differences)
    assert [word in ("better", "worse") for word in words] == found.tolist()
    assert 30 < found.sum() < 270


@pytest.mark.slow
def test_of_runs_that_do_not_differ_a_comparison_rarely_says_anything():
    ev = rs.evaluate(str(DEMO / "runs" / "*"), str(DEMO / "golden.yaml"))
    rng, draws = np.random.default_rng(0), 40
    pairs = [("bm25", "dense"), ("dense", "hybrid"), ("bm25", "hybrid_rerank")]
    two = [ev.select(runs=list(pair)) for pair in pairs]
    words = [said(exchanged(two[draw % 3], 40, rng))["any word"] for draw in range(draws)]
    assert sum(words) <= binom.ppf(0.999, draws, 0.05)


# Margins


@pytest.mark.parametrize(("n", "discordance", "margin"), [(40, 0.2, 0.1), (182, 0.1, 0.05)])
def test_a_rate_that_is_a_margin_worse_is_rarely_called_no_worse(n, discordance, margin):
    def shares(delta):
        wins, losses, chance = moved_table(n, discordance, delta)
        bounds = tango_interval(wins, losses, np.full(len(wins), float(n)))
        found = np.array([
            verdict(*numbers, np.nan, np.nan, n, margin=margin).word
            for numbers in zip((wins - losses) / n, *bounds, strict=True)
        ])  # fmt: skip
        same = chance[found == SAME].sum()
        return same, same + chance[found == NO_WORSE].sum()

    (same_if_worse, no_worse_if_worse), (same, no_worse) = shares(-margin), shares(margin)
    assert same_if_worse <= no_worse_if_worse <= 0.026
    assert same <= 0.026 and no_worse > 0.4
    assert shares(0.0)[0] >= same_if_worse


@pytest.mark.parametrize("n", [40, 182])
def test_an_interval_for_a_margin_rarely_leaves_out_the_mean_of_skewed_losses(n):
    rng, draws = np.random.default_rng(1), 5_000
    losses = -np.where(rng.random((n, draws)) < 0.4, rng.beta(1, 3, (n, draws)), 0.0)
    low, high = interval_for_margin(losses, "bounded")
    most = binom.ppf(0.999, draws, 0.026) / draws
    assert (low > -0.1).mean() <= most and (high < -0.1).mean() <= most
    students = interval_of_differences(losses, "bounded")
    assert n > 100 or (students[0] > -0.1).mean() > most


def test_an_interval_for_a_margin_is_students_where_nothing_is_skewed_and_tangos_for_rates():
    even = np.array([-0.4, -0.1, 0.0, 0.1, 0.4] * 8)
    for values, kind in ((even, "bounded"), (np.array([1.0, 1.0, -1.0, *[0.0] * 30]), "binary")):
        np.testing.assert_allclose(
            interval_for_margin(values, kind), interval_of_differences(values, kind), atol=1e-12
        )


def test_an_interval_for_a_margin_by_hand():
    # Differences 0, 0, 0, 1 have mean 1/4, s = 1/2, error 1/4, lean 1/√3.
    t, lean = 3.182446, 1 / np.sqrt(3)
    up = 3 / lean * (np.cbrt(1 + lean * (t - lean / 6)) - 1)
    down = 3 / lean * (np.cbrt(1 + lean * (-t - lean / 6)) - 1)
    low, high = interval_for_margin(np.array([0.0, 0.0, 0.0, 1.0]), "bounded")
    assert low[0] == pytest.approx(min(0.25 - t / 4, 0.25 - up / 4), abs=1e-6)
    assert high[0] == pytest.approx(min(max(0.25 + t / 4, 0.25 - down / 4), 1.0), abs=1e-6)


def test_members_of_a_group_count_once_in_an_interval_for_a_margin():
    once = np.array([0.3, 0.0, 0.0, 0.1, 0.0, 0.9, 0.0, 0.2])
    low, high = interval_for_margin(np.repeat(once, 3), "bounded", groups=np.repeat(range(8), 3))
    np.testing.assert_allclose((low, high), interval_for_margin(once, "bounded"), atol=1e-12)
