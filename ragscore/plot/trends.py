"""A metric over runs, in order of time."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.frames import DataError
from ragscore.plot.style import COLOURS, MARKERS, error_lengths, legend, n_text, new_axes, scale_of, unit_scale, wrapped
from ragscore.summary import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def trend(scores: pd.DataFrame, metric: str, *, ax: "Axes | None" = None) -> "Axes":
    """One metric over runs in order of `created_at`, one line per system, with 95 % intervals.

    Parameters
    ----------
    scores
        From `store.scores()`, which knows `created_at` and `system`.

    Raises
    ------
    DataError
        The scores have no `created_at`.
    """
    if "created_at" not in scores:
        raise DataError("no column created_at", field="scores", allowed="store.scores(), or scores.assign(created_at=...)")
    about = scores.groupby("run_id", observed=True)[[name for name in ("created_at", "system") if name in scores]].first()
    table = summarize(scores, metrics=[metric]).join(about, on="run_id").dropna(subset=["created_at"]).sort_values("created_at", kind="stable")
    table["system"] = table["system"].fillna("run") if "system" in table else "run"
    times = pd.to_datetime(table["created_at"]).dt.strftime("%Y-%m-%d %H:%M")
    labels = [f"{wrapped(str(run), 24)}\n{time}" for run, time in zip(table["run_id"], times, strict=True)]
    # A slanted line of 8 points takes 0.28 inches of the axis, an upright one half of that.
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    slanted = 0.28 * lines * len(table) <= 6
    ax = new_axes(ax, width=7.0 if slanted else max(7.0, 0.15 * lines * len(table) + 2), height=3.6 if slanted else 4.4)
    # Runs minutes apart and runs months apart are both read in order: one place per run, its time below.
    place = pd.Series(np.arange(len(table)), index=table["run_id"].astype("str"))
    for number, (system, rows) in enumerate(table.groupby("system", sort=False)):
        x = place[rows["run_id"].astype("str")].to_numpy()
        ax.errorbar(
            x,
            rows["mean"],
            yerr=error_lengths(rows),
            marker=MARKERS[number % 8],
            color=COLOURS[number % 8],
            label=wrapped(str(system)),
            capsize=3,
            linewidth=1.2,
        )
    ax.set_xticks(np.arange(len(table)), labels, rotation=30 if slanted else 90, ha="right" if slanted else "center", fontsize=8)
    ax.set_ylabel(f"{metric}, mean with 95 % interval")
    ax.set_title(f"n = {n_text(table, 'metric', metric)} queries a run", fontsize=10)
    unit_scale(ax, scale_of(table, metric))
    legend(ax)
    return ax
