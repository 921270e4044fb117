"""Pictures: a frame in, matplotlib Axes out.

Each draws one idea, says n, and computes nothing that a table couldn't give.
"""

from ragscore.plot.curves import k_curve, risk_coverage, tradeoff
from ragscore.plot.grids import heat, refusals, transitions
from ragscore.plot.pairs import compare, forest, outcomes, scatter
from ragscore.plot.runs import bars, hit_scores, score_distribution, score_distributions, slices
from ragscore.plot.style import COLOURS
from ragscore.plot.trends import trend, trend_slices

__all__ = [
    "COLOURS",
    "bars", "slices", "heat", "trend", "trend_slices",
    "forest", "outcomes", "compare", "scatter",
    "k_curve", "tradeoff", "hit_scores", "score_distribution", "score_distributions",
    "refusals", "transitions", "risk_coverage",
]  # fmt: skip
