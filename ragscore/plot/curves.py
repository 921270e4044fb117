"""Curves: a metric over k, risk over coverage, quality against time or cost."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ragscore.analysis import titles
from ragscore.analysis.leaderboard import pareto_front
from ragscore.analysis.risk_coverage import NO_KIND
from ragscore.analysis.titles import MIN_ANSWERS, n_text
from ragscore.analysis.trend.trend import LED_BY
from ragscore.frames.data import DataError, run_names
from ragscore.frames.errors import check_choice, nearest
from ragscore.plot.layout import finish, new_axes
from ragscore.plot.lettering import lettered
from ragscore.plot.runs import draw_lines
from ragscore.plot.style import (
    SCORES,
    check_columns,
    check_summary,
    error_lengths,
    label_of,
    rows_of,
    run_styles,
    scale_of,
    unit_scale,
)
from ragscore.plot.theme import inks
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, table_kind
from ragscore.scoring.summary import summarize


@lettered
def metric_at_k(
    summary: pd.DataFrame,
    metric: str = "hit",
    *,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    question: None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a ranking metric over its cut-off k: a line per run.

    The first run has the 95 % interval of its means as a band. Beyond eight runs only it and the
    three best at the last k are in colour.

    Parameters
    ----------
    summary
        From `ev.summary()` (not sliced), with the metric at two or more k.
    metric
        Its name without k: hit, recall, precision, ndcg, ...; "recall:doc" for one of another match
        level.
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False; by default names stand at the ends of lines.
    question
        What is decided (`ev.question`): the title says what its tests found at a k that decides.

    Raises
    ------
    DataError
        Not a summary, or no k of that metric has values.
    """
    check_summary(summary)
    name, _, level = metric.partition(":")
    suffix = f":{level}" if level else ""
    label = rf"^{re.escape(name)}@(\d+){re.escape(suffix)}$"
    k = summary["metric"].astype("str").str.extract(label)[0].astype("float64")
    rows = summary.assign(k=k)[k.notna() & (summary["n"] > 0)]
    if not len(rows):
        raise DataError(
            f"no value of {metric} at any k",
            field="metric",
            allowed=nearest(metric, summary["metric"].unique(), "the summary has"),
        )
    rows = rows.astype({"k": "int64"})
    told = f"k (n = {n_text(rows['n'])} queries)", f"mean {name}@k{suffix}"
    finding = titles.of_cutoffs(rows, f"{name}{suffix}", question)
    best = rows[rows["k"].eq(rows["k"].max()).to_numpy()].sort_values("mean", ascending=False)
    columns, leading = ["k", "mean", "low", "high"], best["run_id"].astype("str").tolist()
    return _by_number(rows, columns, told, finding, highlight, legend, ax, leading, ylim=(0, 1))


@lettered
def calls(
    after: pd.DataFrame,
    measure: str = "recall",
    *,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw what the searches for a query have found after each call: a line per run.

    The first run has the 95 % interval of its means as a band.

    Parameters
    ----------
    after
        `CallReport.after`.
    measure
        recall, or hit.
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False; by default names stand at the ends of lines.

    Raises
    ------
    DataError
        Not that frame, or none of its rows has a value.
    """
    check_columns(after, {"run_id", "call", "n", "recall", "hit"}, "after", "ev.calls().after")
    check_choice(measure, ("recall", "hit"), "measure")
    ends = ["low", "high"] if measure == "recall" else ["hit_low", "hit_high"]
    rows = after[after[measure].notna()]
    if not len(rows):
        raise DataError("no query has a target", field="after", allowed="ev.calls().after")
    told = f"calls so far (n = {n_text(rows['n'])} queries)", f"mean {measure}"
    columns, finding = ["call", measure, *ends], f"{measure} after each call"
    return _by_number(rows, columns, told, finding, highlight, legend, ax, ylim=(0, 1))


@lettered
def turns(
    table: pd.DataFrame,
    metric: str = "metric",
    *,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw a metric over the turns of conversations: a line per run.

    The first run has the 95 % interval of its means as a band.

    Parameters
    ----------
    table
        `Conversations.turns`.
    metric
        Its name, for the axis.
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False; by default names stand at the ends of lines.

    Raises
    ------
    DataError
        Not that frame.
    """
    columns = ["turn", "mean", "low", "high"]
    check_columns(table, {"run_id", "n", *columns}, "table", "ev.conversations().turns")
    told = f"turn (n = {n_text(table['n'])} conversations)", f"mean {metric}"
    return _by_number(table, columns, told, f"{metric} by turn", highlight, legend, ax)


def _by_number(
    rows: pd.DataFrame,
    columns: list[str],
    told: tuple[str, str],
    finding: str,
    highlight: list[str] | str | None,
    legend: str | bool | None,
    ax: "Axes | None",
    leading: Sequence[str] = (),
    **limits: Any,
) -> "Axes":
    """Draw a line per run over whole numbers; `columns` are the number, the mean and its ends."""
    styles = run_styles(rows, highlight, leading)
    first = next(run for run, style in styles.items() if not style.is_muted)
    return draw_lines(
        rows, styles, columns, [first], finding, legend, ax, xlabel=told[0],
        ylabel=f"{told[1]}; band: 95 % interval of {first}",
        xticks=sorted(rows[columns[0]].unique()), **limits,
    )  # fmt: skip


@lettered
def risk_coverage(
    curve: pd.DataFrame,
    *,
    baseline: str | None = None,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw risk against coverage while a threshold on the top score refuses more and more.

    There is a line per run, and the 95 % interval of the baseline as a band. At its right end (the
    mark) the threshold refuses nothing. Lower and further right is better. Where fewer than ten
    answers are left, a line is grey: one answer moves it by a tenth and more.

    Parameters
    ----------
    curve
        `RiskCoverage.curve`.
    baseline
        The run whose band is drawn; by default the first.
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False.

    Raises
    ------
    DataError
        Not that frame, or one without a threshold that answers anything; a run that it doesn't
        have.
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
    styles = run_styles(rows, highlight, [])
    (first,) = run_names(pd.DataFrame({"run_id": list(styles)}), [baseline or next(iter(styles))])
    is_one_kind = rows["score_kind"].nunique() == 1
    for (run, kind), own in rows.groupby(["run_id", "score_kind"], observed=True, sort=False):
        style = styles[str(run)]
        own = own.sort_values("coverage", kind="stable")
        stable = own[(own["coverage"] * own["n"]).ge(MIN_ANSWERS - 1e-9).to_numpy()]
        left = own.iloc[: len(own) - len(stable) + 1]
        ax.plot(left["coverage"], left["risk"], color=inks().muted, linewidth=0.8, zorder=1)
        stable = _thinned(stable) if len(stable) else own.iloc[-1:]
        ax.plot(
            stable["coverage"], stable["risk"], color=style.colour, linestyle=style.line,
            clip_on=False, marker=style.marker, markevery=[len(stable) - 1], linewidth=style.width,
            markersize=style.size,
            label=label_of(
                style.label if is_one_kind or style.is_muted else f"{run}, {kind}"
            ),
        )  # fmt: skip
        if run == first:
            ax.fill_between(
                stable["coverage"], stable["risk_low"], stable["risk_high"], color=style.colour,
                alpha=0.13, linewidth=0,
            )  # fmt: skip
    kind = rows["score_kind"].iloc[0]
    kinds = f", by {'' if kind == NO_KIND else f'{kind} '}score" if is_one_kind else ""
    ax.set(
        xlabel=f"coverage: share of queries that are answered{kinds} (n = {n_text(rows['n'])})",
        ylabel=f"risk: share of answers that are wrong; band: 95 % of {first}",
        xlim=(0, 1.02),
        ylim=(0, 1),
    )
    return finish(ax, titles.of_risk(rows, first), "y", legend)


BINS = 400  # of the axis: about one for each pixel of a figure's width


def _thinned(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the few rows of a long curve that look as all do: the ends and extremes of each bin.

    The rows are ordered by coverage.
    """
    if len(rows) <= 4 * BINS:
        return rows
    place = np.floor(rows["coverage"].to_numpy() * BINS)
    first = np.flatnonzero(np.diff(place, prepend=-1))
    last = np.append(first[1:], len(rows)) - 1
    by_risk = np.lexsort((rows["risk"].to_numpy(), place))
    kept = np.unique(np.concatenate([first, last, by_risk[first], by_risk[last]]))
    return rows.iloc[kept]


@lettered
def tradeoff(
    scores: pd.DataFrame,
    metric: str,
    *,
    against: str = "latency_ms",
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    declared: Declarations = NOTHING_DECLARED,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw two metrics against each other: one point per run, and the Pareto front.

    Both values have their 95 % intervals. Times are medians, which one slow query doesn't move; all
    other values are means. Runs on the front are joined by a dotted line: no other run is better in
    one value without being worse in the other.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`, or their `ev.summary()`.
    metric
        What stands on the upward axis, such as `hit@5`.
    against
        What stands on the other: `latency_ms`, `cost_usd` or any other metric column.
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False.
    declared
        What is declared of columns of your own; `ev.plot` gives it.

    Raises
    ------
    DataError
        Not a scores frame, or no run has values of both.
    """
    if "metric" in scores:
        check_summary(scores)
        table = rows_of(scores, [metric, against])
    else:
        check_columns(scores, *SCORES)
        table = summarize(scores, metrics=[metric, against], declared=declared)
    rows = {
        name: own.set_index(own["run_id"].astype("str"))
        for name in (metric, against)
        for own in [table[(table["metric"] == name).to_numpy()]]
    }
    both = (rows[metric]["n"] > 0) & (rows[against]["n"] > 0)
    if not both.any():
        raise DataError(
            f"no run has values of both {metric} and {against}",
            field="scores",
            allowed="runs with n > 0 for both in ev.summary()",
        )
    (y, of_y), (x, of_x) = (_central(rows[name][both], name) for name in (metric, against))
    better, better_y = (declared.describe(name).better for name in (against, metric))
    front = pareto_front(x["mean"], y["mean"], better, better_y)
    styles = run_styles(y["run_id"], highlight, front)
    ax = new_axes(ax, width=6.4)
    ax.plot(
        x["mean"][front], y["mean"][front], linestyle=":", color=inks().note, linewidth=1,
        zorder=1, label="Pareto front" if len(front) > 1 else "_",
    )  # fmt: skip
    for run, style in styles.items():
        ax.errorbar(
            x.loc[[run], "mean"], y.loc[[run], "mean"], xerr=error_lengths(x.loc[[run]]),
            yerr=error_lengths(y.loc[[run]]), fmt=style.marker, color=style.colour,
            label=label_of(style.label), capsize=0,
            markersize=style.size, elinewidth=0.8, zorder=2 if style.is_muted else 3,
            clip_on=False,
        )  # fmt: skip
    told = n_text(pd.concat([x["n"], y["n"]]))
    word = "counted as: higher" if better not in ("higher", "lower") else better
    ax.set(
        xlabel=f"{against}, {of_x} with 95 % interval ({word} is better)",
        ylabel=f"{metric}, {of_y} with 95 % interval (n = {told})",
    )
    if (x["mean"] >= 0).all():
        ax.set_xlim(left=0, right=1 if scale_of(table, against, declared) == "0 to 1" else None)
    unit_scale(ax, scale_of(table, metric, declared))
    return finish(ax, titles.of_front(front, len(styles), metric, against), "y", legend)


def _central(rows: pd.DataFrame, metric: str) -> tuple[pd.DataFrame, str]:
    """Return rows whose mean, low and high are the metric's median or mean, and which it is."""
    if table_kind(metric) != "time":
        return rows, "mean"
    medians = {name: rows[source] for name, source in zip(*LED_BY, strict=True)}
    return rows.assign(**medians), "median"
