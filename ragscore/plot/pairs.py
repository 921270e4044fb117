"""Two runs: what changed, by metric and by query."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.compare import Comparison
from ragscore.plot.style import legend, new_axes, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUTCOME_COLOURS = {"win": "#009E73", "loss": "#E69F00", "regression": "#D55E00", "draw": "#BBBBBB"}
_LINES = {"draw": "-", "win": "-", "loss": "--", "regression": ":"}


def compare(cmp: Comparison, *, ax: "Axes | None" = None) -> "Axes":
    """First-hit rank of every query in run a and run b, joined by a line; thicker where more queries share it.

    The lowest place is "miss". Only queries with a target and a row in both runs are drawn.
    """
    rows = cmp.per_query[cmp.per_query["outcome"].isin(["win", "loss", "regression", "draw", "both_miss"])]
    miss = int(max(rows[["rank_a", "rank_b"]].max().max(), 1)) + 1 if rows[["rank_a", "rank_b"]].notna().any().any() else 2
    lines = rows.assign(a=rows["rank_a"].fillna(miss), b=rows["rank_b"].fillna(miss), kind=rows["outcome"].replace("both_miss", "draw"))
    counts = lines.groupby(["kind", "a", "b"]).size()
    ax = new_axes(ax, width=5.0, height=5.0)
    for kind in ("draw", "win", "loss", "regression"):
        drawn = counts[counts.index.get_level_values("kind") == kind]
        places = drawn.index.to_frame()
        for a, b, n in zip(places["a"], places["b"], drawn, strict=True):
            ax.plot([0, 1], [a, b], color=OUTCOME_COLOURS[kind], linewidth=0.8 + 0.9 * np.sqrt(n), alpha=0.8, solid_capstyle="round", linestyle=_LINES[kind])
        if len(drawn):
            ax.plot(
                [], [], color=OUTCOME_COLOURS[kind], linewidth=2.5, linestyle=_LINES[kind], label=f"{kind if kind != 'draw' else 'same'} ({int(drawn.sum())})"
            )
    ticks = [1, *range(5, miss, 5)]
    ax.set_yticks([*ticks, miss], [*map(str, ticks), "miss"])
    ax.set_ylim(miss + 0.5, 0.5)
    ax.set_xlim(-0.05, 1.05)
    ax.set_xticks([0, 1], [wrapped(f"a: {cmp.baseline}", 20), wrapped(f"b: {cmp.candidate}", 20)])
    ax.set_ylabel("rank of the first hit")
    ax.set_title(f"{len(rows)} queries, matched by {cmp.level.name.replace('_', ' ')}", fontsize=10)
    legend(ax)
    return ax
