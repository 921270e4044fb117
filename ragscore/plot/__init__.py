"""Pictures: a frame in, matplotlib Axes out.

Each draws one idea, says n, and computes nothing that a table couldn't give. The objects that these
frames are from draw themselves, too: `cmp.plot()`, `ev.plot.summary()`.
"""

from ragscore.plot.dots import forest, outcomes, refusals, slice_deltas, slices, summary
from ragscore.plot.grids import failures, heatmap, ranks, scatter, tradeoff
from ragscore.plot.lines import metric_at_k, risk_coverage, trend
from ragscore.plot.style import theme

__all__ = [
    "summary", "slices", "forest", "slice_deltas", "outcomes", "ranks", "heatmap", "scatter",
    "tradeoff", "trend", "metric_at_k", "risk_coverage", "refusals", "failures", "theme",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
