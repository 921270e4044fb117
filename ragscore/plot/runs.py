"""Means of metrics, by run and by slice, with their intervals."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden
from ragscore.plot.style import (
    COLOURS,
    ERROR_BAR,
    HATCHES,
    MARKERS,
    MAX_SLICES,
    check_scales,
    check_scores,
    check_summary,
    error_lengths,
    legend,
    n_text,
    new_axes,
    numbered_runs,
    rows_of,
    scale_of,
    unit_scale,
    wrapped,
)  # fmt: skip
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def bars(
    summary: pd.DataFrame, metrics: list[str] | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """Metric bars of one or several runs, with their 95 % intervals.

    Parameters
    ----------
    summary
        From `rs.summarize` (not sliced).
    metrics
        Which, in this order, all of one scale; by default those of the summary whose scale is 0 to
        1, at most eight.

    Raises
    ------
    DataError
        Not a summary, or a sliced one; a metric that it doesn't have; metrics of different scales
        (ms beside 0 to 1).
    """
    check_summary(summary)
    chosen = (
        metrics
        or [name for name in summary["metric"].unique() if scale_of(summary, name) == "0 to 1"][:8]
        or summary["metric"].unique().tolist()
    )
    table = rows_of(summary, chosen)
    check_scales(table, chosen)
    runs = numbered_runs(table)
    labels = [f"{wrapped(name, 12)}\nn = {n_text(table, 'metric', name)}" for name in chosen]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    ax = new_axes(
        ax, width=max(6.0, max(0.32 * len(runs), 0.09 * longest + 0.1) * len(chosen) + 2.5)
    )
    width = 0.8 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = table[table["run_id"] == run].set_index("metric").reindex(chosen)
        place = np.arange(len(chosen)) + (side - (len(runs) - 1) / 2) * width
        ax.bar(
            place,
            rows["mean"],
            width,
            label=wrapped(run),
            color=COLOURS[number % 8],
            hatch=HATCHES[number % 8],
            edgecolor="white",
            yerr=error_lengths(rows),
            error_kw=ERROR_BAR,
        )
    ax.set_xticks(np.arange(len(chosen)), labels)
    scale = scale_of(table, chosen[0])
    unit_scale(ax, scale)
    ax.set_ylabel(
        "mean with 95 % interval" + (f" ({scale})" if scale not in ("0 to 1", "any") else "")
    )
    legend(ax)
    return ax


def slices(
    scores: pd.DataFrame,
    golden: Golden | None = None,
    metric: str | None = None,
    *,
    by: str,
    limit: int = MAX_SLICES,
    ax: "Axes | None" = None,
) -> "Axes":
    """One metric by a column or tag of the golden set, a point with its 95 % interval per run and slice.

    Parameters
    ----------
    scores
        From `rs.summarize(scores, golden, by=...)`; or scores, of which that frame is then made by
        `golden`.
    metric
        Which; not needed where a summary has one only.
    limit
        At most so many slices are drawn, those with the most queries; the title says how many there
        are.

    Raises
    ------
    DataError
        A summary without these slices, or no scores frame; several metrics, or nothing to draw: no
        query of any slice has a value.
    """
    table, metric = _sliced(scores, golden, metric, by)
    table = table[table["n"] > 0]
    if not len(table):
        raise DataError(
            f"no query has a value of {metric}",
            field="metric",
            allowed="a metric with n > 0 in rs.summarize(scores)",
        )
    sizes = table.groupby(table[by].astype("str"), sort=False)["n"].max()
    kept = set(sizes.sort_values(ascending=False, kind="stable").index[:limit])
    names = [name for name in sizes.index if name in kept]
    runs = numbered_runs(table)
    ax = new_axes(
        ax, width=6.5, height=max(2.5, max(0.25, 0.15 * len(runs) + 0.05) * len(names) + 1.2)
    )
    if len(names) < len(sizes):
        ax.set_title(f"the {len(names)} largest of {len(sizes)} slices", fontsize=10)
    step = 0.7 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = (
            table[table["run_id"] == run]
            .assign(name=lambda t: t[by].astype("str"))
            .set_index("name")
            .reindex(names)
        )
        place = np.arange(len(names)) + (side - (len(runs) - 1) / 2) * step
        ax.errorbar(
            rows["mean"],
            place,
            xerr=error_lengths(rows),
            fmt=MARKERS[number % 8],
            color=COLOURS[number % 8],
            label=wrapped(run),
            capsize=2,
            markersize=5,
            linewidth=1,
        )
    ax.set_yticks(
        np.arange(len(names)),
        [wrapped(f"{name} (n = {n_text(table, by, name)})", 34) for name in names],
    )
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"{metric}, mean with 95 % interval")
    ax.set_ylabel(by)
    if describe(metric).range == "0 to 1":
        ax.set_xlim(0, 1)
    ax.grid(axis="x", alpha=0.3)
    legend(ax)
    return ax


def _sliced(
    scores: pd.DataFrame, golden: Golden | None, metric: str | None, by: str
) -> tuple[pd.DataFrame, str]:
    """The rows to draw: those of a sliced summary, or of the one made from scores."""
    if "metric" not in scores:
        check_scores(scores)
        if metric is None:
            raise DataError("found none", field="metric", allowed="a column of the scores")
        return summarize(scores, golden, by=by, metrics=[metric]), metric
    if by not in scores:
        raise DataError(
            f"found a summary that isn't sliced by {by}",
            field="scores",
            allowed=f"rs.summarize(scores, golden, by={by!r}), or the frame of rs.score",
        )
    known = scores["metric"].unique().tolist()
    if metric is None and len(known) != 1:
        raise DataError(
            f"found {len(known)} metrics", field="metric", allowed=f"one of {', '.join(known)}"
        )
    metric = metric or str(known[0])
    return rows_of(scores, [metric]), metric
