"""Words about margins and about refusals where the truth is known.

Equivalence: the true difference is exactly the margin, so that "same within margin" is false on
either side and "no worse than margin" on the side of the loss. Refusals: a threshold is moved, so
that the candidate refuses less, of what it should answer and of what it should refuse.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.stats import binom, norm

from ragscore.analysis.comparison.deltas import jointly_tested, judge_aspects, paired_deltas
from ragscore.scoring.primary import REFUSALS
from ragscore.stats import NO_WORSE, SAME, tango_interval, verdict
from ragscore.stats.intervals import interval_for_margin

from .swapped import demo_pair

Values = npt.NDArray[np.float64]
# (rng, n, draws) -> differences, one row per query, one column per draw
Differences = Callable[[np.random.Generator, int, int], Values]


@dataclass(frozen=True)
class Within:
    """Shares of comparisons in which a margin's words are said."""

    same: float
    no_worse: float  # or the same


def margin_words(delta: Values, low: Values, high: Values, n: int, margin: float) -> list[str]:
    """Return what is said beside a margin, where nothing else is sure."""
    return [
        verdict(*numbers, np.nan, np.nan, n, margin=margin).word
        for numbers in zip(delta.tolist(), low.tolist(), high.tolist(), strict=True)
    ]


def _within(words: list[str], chance: Values) -> Within:
    found = np.array(words)
    same = float(chance[found == SAME].sum())
    return Within(same, same + float(chance[found == NO_WORSE].sum()))


def rates_within(n: int, discordance: float, delta: float, margin: float) -> Within:
    """Exact chance of a margin's words for two rates with a true difference of delta."""
    wins, losses = (part.ravel() for part in np.meshgrid(np.arange(n + 1), np.arange(n + 1)))
    wins, losses = wins[wins + losses <= n], losses[wins + losses <= n]
    moved = wins + losses
    chance = binom.pmf(moved, n, discordance) * binom.pmf(
        wins, moved, (discordance + delta) / (2 * discordance)
    )
    likely = chance > 1e-12
    wins, losses, chance = wins[likely], losses[likely], chance[likely]
    low, high = tango_interval(wins, losses, np.full(len(wins), float(n)))
    return _within(margin_words((wins - losses) / n, low, high, n, margin), chance)


def means_within(draw: Differences, n: int, margin: float, draws: int) -> Within:
    """Share of draws with a margin's words, for means of differences between −1 and 1."""
    differences = draw(np.random.default_rng(0), n, draws)
    low, high = interval_for_margin(differences, "bounded")
    words = margin_words(differences.mean(axis=0), low, high, n, margin)
    return _within(words, np.full(draws, 1 / draws))


def real_differences(metric: str, baseline: str, candidate: str, towards: float = 1.0) -> Values:
    """Return the differences of a metric between two runs of the demo, or turned round."""
    pair = demo_pair(baseline, candidate)
    found = (pair.second[metric] - pair.first[metric]).to_numpy("float64")
    return towards * found[~np.isnan(found)]


def drawn_again(population: Values) -> Differences:
    """Differences drawn from these: the true mean is theirs."""
    return lambda rng, n, draws: rng.choice(population, (n, draws))


def without_change(population: Values) -> Differences:
    """Differences of these sizes that go either way: the true mean is 0."""
    return lambda rng, n, draws: (
        rng.choice(population, (n, draws)) * rng.choice([-1.0, 1.0], (n, draws))
    )


@dataclass(frozen=True)
class Traded:
    """What is said of a candidate that only refuses less.

    Shares of comparisons: `false_refusal` alone is better (p and interval), then the joint words.
    """

    alone: float
    better: float
    worse: float
    mixed: float


RIGHT, WRONG = 1.2, 0.0  # mean scores of what can be answered and of what can't; spread 1
SHARED = 0.9  # correlation of a query's score between the two runs


def trade(
    n: int,
    false_refusal: tuple[float, float],
    draws: int,
    *,
    share_to_refuse: float = 0.18,
    should_refuse_too: bool = True,
) -> Traded:
    """Compare runs that answer what scores above a threshold; the candidate's is lower.

    Parameters
    ----------
    false_refusal
        Rates of baseline and candidate among queries that can be answered: these set the
        thresholds.
    share_to_refuse
        Queries that can't be answered.
    should_refuse_too
        If not, only false refusals fall: a real gain, which should be found.
    """
    thresholds = RIGHT + norm.ppf(false_refusal)
    to_refuse = np.arange(n) < round(share_to_refuse * n)
    rng, names = np.random.default_rng(0), list(REFUSALS)
    alone, words = 0, []
    for _ in range(draws):
        query, *own = rng.standard_normal((3, n))
        base = np.where(to_refuse, WRONG, RIGHT)
        sides = []
        for threshold, noise in zip(thresholds, own, strict=True):
            lower = (
                threshold if should_refuse_too else np.where(to_refuse, thresholds[0], threshold)
            )
            refused = base + np.sqrt(SHARED) * query + np.sqrt(1 - SHARED) * noise < lower
            values = {
                "answered_unanswerable": np.where(to_refuse, ~refused, np.nan),
                "false_refusal": np.where(to_refuse, np.nan, refused),
            }
            sides.append(pd.DataFrame(values).astype("float64")[names])
        together = jointly_tested(*sides, names)
        deltas = paired_deltas(*sides, sides[0] * np.nan, together=together)
        row = deltas.set_index("metric").loc["false_refusal"]
        alone += bool(row["p"] < 0.05 and row["high"] < 0)
        words.append(judge_aspects(deltas, tuple(names), {})["verdict"].item())
    said = pd.Series(words).value_counts(normalize=True)
    return Traded(alone / draws, *(float(said.get(w, 0)) for w in ("better", "worse", "mixed")))
