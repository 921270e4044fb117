"""Pictures: a frame in, matplotlib Axes out.

Each draws one idea, says n, and computes nothing that a table couldn't give. The objects that these
frames are from draw themselves, too: `cmp.plot()`, `ev.plot.summary()`.
"""

from ragscore.plot.curves import calls, metric_at_k, risk_coverage, tradeoff, turns
from ragscore.plot.grids import failure_transitions, heatmap, refusal_matrix
from ragscore.plot.pairs import forest, outcomes, ranks, scatter, slice_deltas
from ragscore.plot.runs import scores_by_rank, slices, summary
from ragscore.plot.style import PALETTE
from ragscore.plot.trends import trend

__all__ = [
    "PALETTE",
    "summary", "slices", "heatmap", "trend",
    "ranks", "outcomes", "forest", "scatter", "slice_deltas",
    "metric_at_k", "tradeoff", "scores_by_rank",
    "refusal_matrix", "failure_transitions", "risk_coverage", "calls", "turns",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
