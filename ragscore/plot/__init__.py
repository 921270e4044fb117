"""Pictures: a frame in, matplotlib Axes out. Each draws one idea, says n, and computes nothing a table couldn't give."""

from ragscore.plot.curves import hit_scores, tradeoff
from ragscore.plot.means import bars, slices
from ragscore.plot.pairs import compare
from ragscore.plot.trends import trend, trend_slices

__all__ = ["bars", "compare", "hit_scores", "slices", "tradeoff", "trend", "trend_slices"]
