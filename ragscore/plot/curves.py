"""Curves: a metric over k, risk over coverage, quality against time or cost."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.frames.errors import nearest
from ragscore.plot.lettering import lettered
from ragscore.plot.style import (
    LINES,
    MARKERS,
    PALETTE,
    check_columns,
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
from ragscore.scoring.metrics import describe, parse_label
from ragscore.scoring.summary import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@lettered
def metric_at_k(summary: pd.DataFrame, metric: str = "hit", *, ax: "Axes | None" = None) -> "Axes":
    """Draw a ranking metric over its cut-off k.

    There is a line per run, with the 95 % intervals of its means as a band.

    Parameters
    ----------
    summary
        From `ev.summary()` (not sliced), with the metric at two or more k.
    metric
        Its name without k: hit, recall, precision, ndcg, ...; "recall:doc" for one of another match
        level.

    Raises
    ------
    DataError
        Not a summary, or no k of that metric has values.
    """
    check_summary(summary)
    name, _, level = metric.partition(":")
    labels = {label: _cut_off(label, name, level) for label in summary["metric"].unique()}
    rows = summary[
        summary["metric"].isin([label for label, k in labels.items() if k]) & (summary["n"] > 0)
    ]
    if not len(rows):
        raise DataError(
            f"no value of {metric} at any k",
            field="metric",
            allowed=nearest(metric, labels, "the summary has"),
        )
    ax = new_axes(ax)
    for run, number in numbered_runs(rows).items():
        own = (
            rows[rows["run_id"].astype("str") == run]
            .assign(k=lambda t: t["metric"].map(labels))
            .sort_values("k")
        )
        label = wrapped(f"{run} (n = {n_text(own, 'run_id', run)})")
        ax.plot(
            own["k"],
            own["mean"],
            marker=MARKERS[number % 8],
            linestyle=LINES[number % 4],
            color=PALETTE[number % 8],
            label=label,
        )
        ax.fill_between(
            own["k"], own["low"], own["high"], color=PALETTE[number % 8], alpha=0.12, linewidth=0
        )
    ax.set_xticks(sorted({k for k in labels.values() if k}))
    ax.set_xlabel("k")
    ax.set_ylabel(f"{name}@k{':' * bool(level)}{level}, mean with 95 % interval")
    unit_scale(ax, "0 to 1")
    legend(ax)
    return ax


def _cut_off(column: str, name: str, level: str) -> int:
    """Return k of a metric's column, 0 for columns of other metrics."""
    try:
        label = parse_label(column)
    except DataError:
        return 0
    return (label.k or 0) if (label.name, label.level or "") == (name, level) else 0


@lettered
def risk_coverage(curve: pd.DataFrame, *, ax: "Axes | None" = None) -> "Axes":
    """Draw risk against coverage while a threshold on the top score refuses more and more.

    There is a line per run, with 95 % intervals as a band. At its right end (the mark) the
    threshold refuses nothing. Lower and further right is better. n counts the queries whose answers
    are known to be right or wrong.

    Parameters
    ----------
    curve
        `RiskCoverage.curve`.

    Raises
    ------
    DataError
        Not that frame, or one without a threshold that answers anything.
    """
    check_columns(
        curve,
        {"run_id", "score_kind", "coverage", "risk", "risk_low", "risk_high", "n"},
        "curve",
        "ev.risk_coverage().curve",
    )
    rows = curve[curve["risk"].notna()]
    if not len(rows):
        raise DataError(
            "nothing is answered at any threshold",
            field="curve",
            allowed="ev.risk_coverage().curve",
        )
    ax = new_axes(ax)
    numbers = numbered_runs(rows)
    for (run, kind), own in rows.groupby(["run_id", "score_kind"], observed=True, sort=False):
        colour, number = PALETTE[numbers[str(run)] % 8], numbers[str(run)]
        label = wrapped(f"{run}, {kind} (n = {own['n'].iloc[0]})")
        ax.plot(
            own["coverage"],
            own["risk"],
            color=colour,
            linestyle=LINES[number % 4],
            marker=MARKERS[number % 8],
            markevery=[0],
            linewidth=1.4,
            label=label,
        )
        ax.fill_between(
            own["coverage"], own["risk_low"], own["risk_high"], color=colour, alpha=0.1, linewidth=0
        )
    ax.set_xlabel("coverage: share of queries that are answered")
    ax.set_ylabel("risk: share of answers that are wrong")
    ax.set_xlim(0, 1.02)
    unit_scale(ax, "0 to 1")
    legend(ax)
    return ax


@lettered
def tradeoff(
    scores: pd.DataFrame, metric: str, *, against: str = "latency_ms", ax: "Axes | None" = None
) -> "Axes":
    """Draw quality against time or cost: one point per run, and the Pareto front.

    Both values have their 95 % intervals. Times are medians, which one slow query doesn't move; all
    other values are means. Runs on the front are ringed and joined by a line: no other run is
    better in one value without being worse in the other.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`, or their `ev.summary()`.
    metric
        What stands on the upward axis, such as `hit@5`.
    against
        What stands on the other: `latency_ms`, `cost_usd` or any other metric column.

    Raises
    ------
    DataError
        Not a scores frame, or no run has values of both.
    """
    if "metric" in scores:
        check_summary(scores)
        table = rows_of(scores, [metric, against])
    else:
        check_scores(scores)
        table = summarize(scores, metrics=[metric, against])
    rows = {name: table[table["metric"] == name].set_index("run_id") for name in (metric, against)}
    both = (rows[metric]["n"] > 0) & (rows[against]["n"] > 0)
    if not both.any():
        raise DataError(
            f"no run has values of both {metric} and {against}",
            field="scores",
            allowed="runs with n > 0 for both in ev.summary()",
        )
    y, x = (_central(rows[name][both], name) for name in (metric, against))
    ax = new_axes(ax, width=6.4)
    for run, number in numbered_runs(y.reset_index()).items():
        place, height = x.loc[[run]], y.loc[[run]]
        ax.errorbar(
            place["mean"], height["mean"], xerr=error_lengths(place), yerr=error_lengths(height),
            fmt=MARKERS[number % 8], color=PALETTE[number % 8],
            label=wrapped(f"{run} (n = {height['n'].iloc[0]})"), capsize=2, markersize=7,
            linewidth=1,
        )  # fmt: skip
    front = _front(x["mean"], y["mean"], describe(against).better, describe(metric).better)
    ax.plot(
        x["mean"][front],
        y["mean"][front],
        linestyle=":",
        color="#333333",
        linewidth=1,
        zorder=0,
        label="Pareto front (ringed)",
    )
    ax.scatter(
        x["mean"][front], y["mean"][front], s=220, facecolor="none", edgecolor="#333333", zorder=0
    )
    ax.set_xlabel(f"{against}, {_centre(against)} with 95 % interval ({_better(against)})")
    ax.set_ylabel(f"{metric}, {_centre(metric)} with 95 % interval")
    ax.set_xlim(left=0)
    unit_scale(ax, scale_of(table, metric))
    legend(ax)
    return ax


def _better(metric: str) -> str:
    better = describe(metric).better
    return (
        f"{better} is better" if better in ("higher", "lower") else "counted as: higher is better"
    )


def _centre(metric: str) -> str:
    return "median" if describe(metric).kind == "time" else "mean"


def _central(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return rows whose mean, low and high are the metric's median or mean with its interval."""
    return (
        rows.assign(mean=rows["p50"], low=rows["p50_low"], high=rows["p50_high"])
        if _centre(metric) == "median"
        else rows
    )


def _front(x: pd.Series, y: pd.Series, better_x: str, better_y: str) -> list[str]:
    """Return the runs of the Pareto front from left to right."""
    gains = pd.DataFrame(
        {"x": -x if better_x == "lower" else x, "y": -y if better_y == "lower" else y}
    )
    is_beaten = [
        ((gains >= own).all(axis=1) & (gains > own).any(axis=1)).any()
        for _, own in gains.iterrows()
    ]
    return x[~np.array(is_beaten)].sort_values(kind="stable").index.tolist()
