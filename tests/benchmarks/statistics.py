"""Check the statistics by simulation, at full size.

`python -m tests.benchmarks.statistics [draws] [verdicts]` (default 10,000 a cell; of real runs
whose records are exchanged, 10,000 at each n). `verdicts`: only the words of comparisons.

Coverage of 95 % intervals, false alarms of the default tests where nothing changed, power at the
printed minimum detectable difference, any false claim among all pairs. 0/1 metrics are enumerated,
so those figures are exact; the rest is drawn with seed 0. tests/test_stats_simulations.py runs the
same at a smaller size.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from ragscore.stats import (
    bootstrap_t_interval,
    interval_of_differences,
    interval_of_means,
    is_heavy_tailed,
    max_t_p,
    mcnemar_p,
    minimum_detectable,
    minimum_detectable_rate,
    moments,
    ppi_difference,
    ppi_mean,
    quantile_interval,
    sign_flip_p,
    t_interval,
    tango_interval,
    wilson_interval,
)
from ragscore.stats.power import EXACT_BELOW

from .swapped import PAIRS, PROCESSES, claims, power, shown_claims
from .words import drawn_again, means_within, rates_within, real_differences, trade, without_change

Values = npt.NDArray[np.float64]
# (rng, n, draws) -> one row per query, one column per draw
Draw = Callable[[np.random.Generator, int, int], Values]

DEPTH = 10


def reciprocal_ranks(first: float) -> Draw:
    """Reciprocal ranks: each position holds the first hit with chance `first`; 0 below rank 10."""

    def draw(rng: np.random.Generator, n: int, draws: int) -> Values:
        rank = rng.geometric(first, (n, draws))
        return np.where(rank <= DEPTH, 1 / rank, 0.0)

    return draw


def reciprocal_rank_mean(first: float) -> float:
    """The mean that `reciprocal_ranks(first)` has."""
    rank = np.arange(1, DEPTH + 1)
    return float((first * (1 - first) ** (rank - 1) / rank).sum())


def recalls(mean: float, n_targets: int = 3) -> Draw:
    """Recall of three targets, queries differing in difficulty (beta-binomial)."""
    return lambda rng, n, draws: (
        rng.binomial(n_targets, rng.beta(4 * mean, 4 * (1 - mean), (n, draws))) / n_targets
    )


def points(mean: float) -> Draw:
    """A judge's points between 0 and 1."""
    return lambda rng, n, draws: rng.beta(10 * mean, 10 * (1 - mean), (n, draws))


def nearly_all_right(rng: np.random.Generator, n: int, draws: int) -> Values:
    """95 % ones, the rest anywhere: the hardest case for any interval."""
    return np.where(rng.random((n, draws)) < 0.95, 1.0, rng.random((n, draws)))


MEANS: dict[str, tuple[Draw, float]] = {
    **{
        f"RR@10 mean {reciprocal_rank_mean(first):.2f}": (
            reciprocal_ranks(first),
            reciprocal_rank_mean(first),
        )
        for first in (0.35, 0.75, 0.92)
    },
    **{f"recall of 3, mean {mean}": (recalls(mean), mean) for mean in (0.5, 0.9, 0.96)},
    **{f"points, mean {mean}": (points(mean), mean) for mean in (0.5, 0.8)},
}


# No change: differences of mean 0


def moved_reciprocal_ranks(
    rng: np.random.Generator, n: int, draws: int, second: float = 0.5
) -> Values:
    """Differences of RR@10 of which 40 % of the queries are drawn again."""
    baseline, again = reciprocal_ranks(0.5)(rng, n, draws), reciprocal_ranks(second)(rng, n, draws)
    return np.where(rng.random((n, draws)) < 0.4, again - baseline, 0.0)


def small_gains_few_disasters(rng: np.random.Generator, n: int, draws: int) -> Values:
    """29 % of the queries gain .05, 3 % lose .483: the mean difference is 0."""
    chance = rng.random((n, draws))
    return np.where(chance < 0.29, 0.05, np.where(chance < 0.32, -0.05 * 29 / 3, 0.0))


SHIFTS: dict[str, Draw] = {
    "RR@10, 40 % move": moved_reciprocal_ranks,
    "points of two runs": lambda rng, n, draws: (
        points(0.7)(rng, n, draws) - points(0.7)(rng, n, draws)
    ),
    "normal": lambda rng, n, draws: rng.normal(0, 0.25, (n, draws)),
}

# The share of queries that have the real difference of two runs of the demo
REAL_SHARES = (
    ("bm25", "hybrid_rerank", 0.25),
    ("bm25", "hybrid_rerank", 0.5),
    ("bm25", "hybrid_rerank", 0.75),
    ("dense", "hybrid_rerank", 0.75),
)
REAL_MARGINS = (
    ("ndcg@10", "dense", "hybrid_rerank"),
    ("recall@5", "dense", "hybrid"),
    ("mrr@10", "bm25", "dense"),
)


def rate_coverage(rate: float, n: int) -> float:
    """Exact coverage of the Wilson interval."""
    passed = np.arange(n + 1)
    low, high = wilson_interval(passed / n, np.full(n + 1, float(n)))
    return float(binom.pmf(passed, n, rate)[(low <= rate) & (rate <= high)].sum())


def mean_coverage(
    draw: Draw, mean: float, n: int, draws: int, interval: Callable[[Values], tuple[Values, Values]]
) -> float:
    """Share of draws whose interval holds the true mean."""
    low, high = interval(draw(np.random.default_rng(0), n, draws))
    return float(((low <= mean + 1e-12) & (mean - 1e-12 <= high)).mean())


def grouped(draw: Draw, of: int) -> Draw:
    """Groups of `of` queries that are half copies: with chance .5 a query has its group's value.

    Correlation .25 between two of a group.
    """

    def draw_groups(rng: np.random.Generator, n: int, draws: int) -> Values:
        shared = np.repeat(draw(rng, n // of, draws), of, axis=0)
        return np.where(rng.random((n, draws)) < 0.5, shared, draw(rng, n, draws))

    return draw_groups


def grouped_coverage(
    draw: Draw, mean: float, kind: str, n: int, draws: int, is_known: bool
) -> float:
    """Coverage where queries come in groups of five, with the groups given or not."""
    groups = np.arange(n) // 5 if is_known else None
    return mean_coverage(
        grouped(draw, 5),
        mean,
        n,
        draws,
        lambda values: interval_of_means(values, kind, groups=groups),
    )


def times(rng: np.random.Generator, n: int, draws: int) -> Values:
    """Latencies with a long tail: lognormal, mean e^½."""
    return rng.lognormal(0, 1, (n, draws))


def zero_or_one(rng: np.random.Generator, n: int, draws: int) -> Values:
    """A pass rate of .8."""
    return (rng.random((n, draws)) < 0.8).astype(np.float64)


def moved_table(n: int, discordance: float, delta: float = 0.0) -> tuple[Values, Values, Values]:
    """Every number of wins and losses of n paired 0/1 queries, with its chance."""
    wins, losses = (part.ravel() for part in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    wins, losses = wins[wins + losses <= n], losses[wins + losses <= n]
    moved = wins + losses
    chance = binom.pmf(moved, n, discordance) * binom.pmf(
        wins, moved, (discordance + delta) / (2 * discordance)
    )
    return wins.astype(float), losses.astype(float), chance


def rates_claimed(n: int, discordance: float, delta: float = 0.0) -> float:
    """Exact chance that two rates are called different: of a false alarm if delta is 0, else the
    power. Mid-p is below .05, the exact p too if few changed, and Tango's interval leaves out 0.
    """
    wins, losses, chance = moved_table(n, discordance, delta)
    low, high = tango_interval(wins, losses, np.full(len(wins), float(n)))
    is_exact = (wins + losses >= EXACT_BELOW) | (mcnemar_p(wins, losses, is_exact=True) < 0.05)
    is_called = is_exact & (mcnemar_p(wins, losses) < 0.05) & ((low > 0) | (high < 0))
    return float(chance[is_called].sum())


def tango_coverage(n: int, discordance: float, delta: float) -> float:
    """Exact coverage of Tango's interval."""
    wins, losses, chance = moved_table(n, discordance, delta)
    low, high = tango_interval(wins, losses, np.full(len(wins), float(n)))
    return float(chance[(low <= delta + 1e-12) & (delta - 1e-12 <= high)].sum())


def claimed(differences: Values, iterations: int = 2_000) -> npt.NDArray[np.bool_]:
    """Which columns' verdict is better or worse: p < .05 by sign flips, and an interval without
    0.
    """
    # wide enough for all that is drawn
    low, high = interval_of_differences(differences, "bounded", bounds=(0, 5))
    return (sign_flip_p(differences, iterations=iterations) < 0.05) & ((low > 0) | (high < 0))


def alarms(draw: Draw, n: int, draws: int, iterations: int = 2_000) -> tuple[float, float, float]:
    """Share of draws of mean 0 called better or worse, of those without a caution, and of draws
    with a caution.
    """
    differences = draw(np.random.default_rng(0), n, draws)
    is_alarm, has_caution = claimed(differences, iterations), is_heavy_tailed(differences)
    return (
        float(is_alarm.mean()),
        float((is_alarm & ~has_caution).mean()),
        float(has_caution.mean()),
    )


def power_at_mde(draw: Draw, n: int, draws: int, iterations: int = 2_000) -> float:
    """Share of draws called better or worse where the true mean difference is the one that the
    population's spread makes detectable.
    """
    rng = np.random.default_rng(0)
    population = draw(rng, 1_000_000, 1)
    mde = minimum_detectable(population.std(), n)
    return float(claimed(draw(rng, n, draws) - population.mean() + mde, iterations).mean())


def false_claims(n: int, runs: int, draws: int, iterations: int = 1_000) -> tuple[float, float]:
    """Share of draws where any pair of runs of equal means gets p < .05.

    By max-T, and by one uncorrected test per pair.
    """
    rng = np.random.default_rng(0)
    first, second = np.triu_indices(runs, 1)
    by_max, by_pair = 0, 0
    for _ in range(draws):
        scores = np.where(
            rng.random((n, runs)) < 0.4,
            reciprocal_ranks(0.5)(rng, n, runs),
            reciprocal_ranks(0.5)(rng, n, 1),
        )
        by_max += bool((max_t_p(scores, iterations=iterations)[first, second] < 0.05).any())
        by_pair += bool(
            (sign_flip_p(scores[:, first] - scores[:, second], iterations=iterations) < 0.05).any()
        )
    return by_max / draws, by_pair / draws


def students(values: Values) -> tuple[Values, Values]:
    """Student's t, clipped, for comparison; equal values have no width."""
    low, high = t_interval(*moments(values))
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def _rows(draws: int) -> Iterator[tuple[Any, ...]]:
    yield "coverage of 95 % intervals", "n", "ragscore", "Student's t", "bootstrap-t"
    for rate in (0.5, 0.9, 0.95):
        for n in (20, 50, 200):
            t = t_interval(*moments(np.triu(np.ones((n, n + 1)), 1)))  # column k: k of n passed
            passed = np.arange(n + 1)
            yield (
                f"0/1, rate {rate} (exact)",
                n,
                rate_coverage(rate, n),
                float(binom.pmf(passed, n, rate)[(t[0] <= rate) & (rate <= t[1])].sum()),
                "",
            )
    for name, (draw, mean) in {**MEANS, "95 % ones, mean .975": (nearly_all_right, 0.975)}.items():
        for n in (20, 50, 200):
            studentised = (
                mean_coverage(
                    draw,
                    mean,
                    n,
                    min(draws, 1_000),
                    lambda values: bootstrap_t_interval(values, 2_000),
                )
                if n >= 50
                else ""
            )
            ours = mean_coverage(
                draw, mean, n, draws, lambda values: interval_of_means(values, "bounded")
            )
            yield name, n, ours, mean_coverage(draw, mean, n, draws, students), studentised
    for n in (20, 50, 200):
        ours = mean_coverage(
            times,
            np.exp(0.5),
            n,
            min(draws, 2_000),
            lambda values: interval_of_means(values, "time"),
        )
        yield (
            "latency, lognormal",
            n,
            ours,
            mean_coverage(
                times, np.exp(0.5), n, draws, lambda values: t_interval(*moments(values))
            ),
            "",
        )
    for n in (80, 200):
        values = times(np.random.default_rng(0), n, min(draws, 2_000))
        bounds = np.array([quantile_interval(column, 0.95) for column in values.T])
        yield (
            "latency p95, lognormal",
            n,
            float(
                ((bounds[:, 0] <= np.exp(1.6448536)) & (np.exp(1.6448536) <= bounds[:, 1])).mean()
            ),
            "",
            "",
        )
    yield "coverage with groups of 5", "n", "by group", "ignored", ""
    for kind, draw, mean in (("binary", zero_or_one, 0.8), ("bounded", *MEANS["RR@10 mean 0.86"])):
        for n in (50, 200):
            yield (
                kind,
                n,
                *(
                    grouped_coverage(draw, mean, kind, n, draws, is_known)
                    for is_known in (True, False)
                ),
                "",
            )
    yield "coverage, difference", "n", "ragscore", "", ""
    for delta in (0.0, 0.1):
        for n in (20, 50, 200):
            yield (
                f"0/1, 20 % discordant, Δ {delta} (exact)",
                n,
                tango_coverage(n, 0.2, delta),
                "",
                "",
            )
    for n in (20, 50, 200):
        yield (
            "RR@10, 40 % move",
            n,
            mean_coverage(
                moved_reciprocal_ranks,
                0,
                n,
                draws,
                lambda values: interval_of_differences(values, "bounded"),
            ),
            "",
            "",
        )
    yield "no change, called better or worse", "n", "called", "without a caution", "cautions"
    for n in (20, 50, 200):
        yield "0/1, 20 % discordant (exact)", n, rates_claimed(n, 0.2), "", ""
    for name, draw in (
        ("RR@10, 40 % move", moved_reciprocal_ranks),
        ("29 % gain .05, 3 % lose .483", small_gains_few_disasters),
    ):
        for n in (20, 50, 100, 200, 500):
            yield name, n, *alarms(draw, n, draws)
    yield "power at the minimum detectable difference", "n", "power", "", ""
    for discordance in (0.1, 0.2, 0.3, 0.5):
        for n in (20, 50, 100, 200, 500):
            delta = float(minimum_detectable_rate(discordance, n))
            yield (
                f"0/1, {discordance:.0%} discordant (exact)",
                n,
                rates_claimed(n, discordance, delta) if np.isfinite(delta) else "not detectable",
                "",
                "",
            )
    for name, draw in SHIFTS.items():
        for n in (20, 50, 200):
            yield name, n, power_at_mde(draw, n, draws), "", ""
    yield "any false claim among all pairs", "n", "max-T", "uncorrected", ""
    for runs in (4, 8):
        yield f"{runs} equal runs", 50, *false_claims(50, runs, min(draws // 10, 1_000)), ""


def _verdict_rows(draws: int) -> Iterator[tuple[Any, ...]]:
    """Yield how often a comparison's words are false, and how often they are found."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        yield from _exchanged_rows(draws, pool)
        yield from _power_rows(min(draws // 20, 500), pool)
        yield from _shown_rows(min(draws // 100, 100), pool)
    yield from _margin_rows(draws)
    yield from _trade_rows(min(draws // 20, 500))
    yield from _judged_rows(min(draws // 5, 2_000))
    yield from _mended_rows(min(draws // 5, 2_000))


def _exchanged_rows(draws: int, pool: ProcessPoolExecutor) -> Iterator[tuple[Any, ...]]:
    """At each n `draws` exchanges in all, the same number for every pair of the demo's runs."""
    for n in (40, 182):
        yield (
            "records exchanged, a change is claimed",
            "n",
            "overall (aim .05)",
            "any word (aim .05)",
            "but times",
        )
        found = [claims(*pair, n, -(-draws // len(PAIRS)), pool) for pair in PAIRS]
        shares = np.array([(one.overall, one.any_word, one.any_but_times) for one in found])
        for pair, row in zip(PAIRS, shares, strict=True):
            yield ", ".join(pair), n, *row.tolist()
        yield "all six pairs", n, *shares.mean(axis=0).tolist()


def _power_rows(draws: int, pool: ProcessPoolExecutor) -> Iterator[tuple[Any, ...]]:
    yield "a real change is found to be better", "n", "alone", "corrected", "costs"
    for baseline, candidate, share in REAL_SHARES:
        for n in (40, 182):
            found = power(baseline, candidate, share, n, draws, pool)
            for metric in ("ndcg@10", "passed"):
                alone, corrected = found.alone[metric], found.corrected[metric]
                name = f"{metric}, {share:.0%} {baseline} to {candidate}"
                yield name, n, alone, corrected, alone - corrected


def _shown_rows(draws: int, pool: ProcessPoolExecutor) -> Iterator[tuple[Any, ...]]:
    yield "anything is claimed of equal runs", "n", "draws", "rate (aim .05)", "most often"
    for n_runs, share in ((2, 1), (4, 1), (10, 3), (20, 10)):
        own = max(draws // share, 8)
        rate, kinds = shown_claims(n_runs, 182, own, pool)
        yield f"{n_runs} runs", 182, own, rate, max(kinds, key=lambda name: kinds[name], default="")
    for n_runs, share in ((4, 1), (10, 3), (20, 10)):
        own = max(draws // share, 8)
        rate, kinds = shown_claims(n_runs, 182, own, pool, is_unlike=True)
        often = max(kinds, key=lambda name: kinds[name], default="")
        yield f"{n_runs} runs, half of them better", 182, own, rate, often


def _margin_rows(draws: int) -> Iterator[tuple[Any, ...]]:
    yield "margin m, true difference", "n", "same (aim .025)", "no worse", "without change: same"
    for discordance, margin in ((0.1, 0.05), (0.2, 0.1)):
        for n in (40, 182, 500):
            none = rates_within(n, discordance, 0.0, margin)
            for sign, side in ((-1, "-m"), (1, "+m")):
                found = rates_within(n, discordance, sign * margin, margin)
                yield (
                    f"0/1, {discordance:.0%} discordant, m {margin}, {side} (exact)",
                    n,
                    found.same,
                    found.no_worse,
                    none.same,
                )
    for metric, baseline, candidate in REAL_MARGINS:
        population = real_differences(metric, baseline, candidate)
        margin = abs(float(population.mean()))
        better = population * np.sign(population.mean())
        for n in (40, 182, 500):
            none = means_within(without_change(population), n, margin, draws)
            for sign, side in ((-1, "-m"), (1, "+m")):
                found = means_within(drawn_again(sign * better), n, margin, draws)
                yield (
                    f"{metric} {baseline}/{candidate}, m {margin:.3f}, {side}",
                    n,
                    found.same,
                    found.no_worse,
                    none.same,
                )


def _trade_rows(draws: int) -> Iterator[tuple[Any, ...]]:
    yield "refusals, only a threshold moved", "n", "false_refusal alone", "jointly better", "worse"
    for rates in ((0.25, 0.18), (0.25, 0.10)):
        for n in (40, 182, 500):
            found = trade(n, rates, draws)
            name = f"false_refusal {rates[0]} to {rates[1]}, a trade"
            yield name, n, found.alone, found.better, found.worse + found.mixed
            found = trade(n, rates, draws, should_refuse_too=False)
            name = f"false_refusal {rates[0]} to {rates[1]}, a gain"
            yield name, n, found.alone, found.better, found.worse + found.mixed


def _judged_rows(draws: int) -> Iterator[tuple[Any, ...]]:
    from tests.stats import agreement_clusters, ppi_differences

    yield "PPI++ difference, coverage (aim .93-.97)", "labels", "corrected", "labels alone", "judge"
    for n_labels, correlation, scale, shape in ppi_differences.cells():
        one = ppi_differences.coverage(n_labels, correlation, scale, shape, draws)
        name = f"{scale}, {shape}, correlation {correlation}"
        yield name, n_labels, one.corrected, one.labels, one.judge
    yield "agreement, coverage by topic (aim .93-.97)", "topics", "clustered", "pairs", ""
    for name in agreement_clusters.COEFFICIENTS:
        for error in agreement_clusters.ERRORS:
            both = agreement_clusters.coverage(name, error, draws // 2)
            title = f"{name}, error {error}"
            yield title, agreement_clusters.TOPICS, both.clustered, both.pairs, ""


def few_labels(n: int, draws: int, n_all: int = 1_000, rate: float = 0.025) -> tuple[float, float]:
    """Return how often a mean and a difference are held that a rarely wrong judge was corrected by.

    The judge misses `rate` of all items, one way; `n` of `n_all` have a label.
    """
    rng, held = np.random.default_rng(n), np.zeros(2)
    for _ in range(draws):
        y = (rng.random(n_all) < 0.6).astype(float)
        f = np.where((y == 1) & (rng.random(n_all) < rate / 0.6), 0.0, y)
        other = (rng.random(n_all) < 0.6).astype(float)
        own = rng.permutation(n_all)[:n]
        mean = ppi_mean(f[own], y[own], np.delete(f, own), bounds=(0, 1))
        labels = np.full(n_all, np.nan)
        labels[own] = (y - other)[own]
        apart = ppi_difference(f - other, labels, width=1.0)
        held += [mean.low <= 0.6 <= mean.high, apart.low <= 0 <= apart.high]
    return float(held[0] / draws), float(held[1] / draws)


UNLIKE = {
    "ten clusters of 5": [5] * 10,
    "one of 40, nine of 5 to 10": [40, 10, *[5] * 8],
    "30, 20, 10 and twenty of 2": [30, 20, 10, *[2] * 20],
    "one of 50, ten of 5": [50, *[5] * 10],
}


def unlike_clusters(sizes: list[int], correlation: float, draws: int) -> float:
    """Return how often the interval of a difference holds 0, with clusters of these sizes."""
    rng, held = np.random.default_rng(len(sizes)), 0
    code = np.repeat(np.arange(len(sizes)), sizes)
    for _ in range(draws):
        shared = rng.normal(0, np.sqrt(correlation), len(sizes))[code]
        values = shared + rng.normal(0, np.sqrt(1 - correlation), len(code))
        low, high = interval_of_differences(values[:, None], "other", groups=code)
        held += bool(low[0] <= 0 <= high[0])
    return held / draws


def _mended_rows(draws: int) -> Iterator[tuple[Any, ...]]:
    yield "judge wrong in 2.5 %, one way: coverage", "labels", "mean", "difference", ""
    for n in (30, 50, 100):
        yield "1,000 items", n, *few_labels(n, draws), ""
    yield "unlike clusters: coverage", "n", "correlation .05", ".3", ".8"
    for name, sizes in UNLIKE.items():
        found = [unlike_clusters(sizes, correlation, draws) for correlation in (0.05, 0.3, 0.8)]
        yield name, sum(sizes), *found


def main(draws: int, only: str = "all") -> None:
    """Print the tables; `only` "verdicts" leaves out those of single intervals and tests."""
    rows = _verdict_rows(draws)
    for name, n, *figures in rows if only == "verdicts" else chain(_rows(draws), rows):
        shown = [f"{figure:.3f}" if isinstance(figure, float) else figure for figure in figures]
        print(
            ("" if isinstance(n, int) else "\n")
            + f"{name:48}{n:>7}"
            + "".join(f"{figure:>21}" for figure in shown),
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, *sys.argv[2:])
