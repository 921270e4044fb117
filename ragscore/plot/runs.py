"""Means with intervals by run and slice, and the scores of retrievers by rank."""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ragscore.analysis import titles
from ragscore.analysis.rankings import retriever_scores
from ragscore.analysis.titles import n_text
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import name_list, nearest
from ragscore.plot.layout import finish, label_ends, new_axes, rows_that_fit
from ragscore.plot.lettering import LONGEST, lettered
from ragscore.plot.style import (
    MAX_RUNS,
    MAX_SLICES,
    ROW,
    TALLEST,
    RunStyle,
    check_columns,
    check_scales,
    check_summary,
    error_lengths,
    label_of,
    rows_of,
    run_styles,
    scale_of,
    sliced,
)
from ragscore.plot.theme import inks
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.summary import Slicing


@lettered
def summary(
    table: pd.DataFrame,
    metrics: list[str] | str | None = None,
    *,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    declared: Declarations = NOTHING_DECLARED,
    question: None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw metrics of one or several runs: means as dots, with their 95 % intervals.

    Intervals of two means say less about their difference than they seem to: `cmp.plot()` has that.

    Parameters
    ----------
    table
        From `ev.summary()` (not sliced), or `ev.leaderboard(...).table`.
    metrics
        Which, in this order, all of one scale; by default those whose scale is 0 to 1, what decides
        first, at most eight.
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False.
    declared
        What is declared of columns of your own; `ev.plot` gives it.
    question
        What is decided (`ev.question`): the title says what its tests found of the metrics drawn.

    Raises
    ------
    DataError
        Not a summary, or a sliced one; a metric that it doesn't have; metrics of different scales
        (ms beside 0 to 1).
    """
    check_summary(table)
    known = table["metric"].unique().tolist()
    deciding = () if question is None else question.primary
    known.sort(key=lambda name: name not in deciding)  # what decides comes first
    chosen = [metrics] if isinstance(metrics, str) else metrics
    chosen = (
        chosen
        or [name for name in known if scale_of(table, name, declared) == "0 to 1"][:8]
        or known
    )
    table = rows_of(table, chosen)
    if table["mean"].isna().all():
        raise DataError(
            f"no value of {name_list(chosen)}", field="metrics", allowed="metrics with n > 0"
        )
    check_scales(table, chosen, declared)
    scale = scale_of(table, chosen[0], declared)
    ordered = table[table["metric"].eq(chosen[0]).to_numpy()].sort_values(
        "mean", ascending=declared.describe(chosen[0]).better == "lower"
    )
    styles = run_styles(table, highlight, ordered["run_id"].astype("str").tolist())
    ax = _dots(table.set_index("metric"), chosen, chosen, styles, 0.76, ax)
    if scale == "0 to 1":
        ax.set_xlim(0, 1)
    unit = f" ({scale})" if scale not in ("0 to 1", "any") else ""
    ax.set_xlabel(f"mean with 95 % interval{unit}; {_counted(table, chosen)}")
    return finish(ax, titles.of_means(table, chosen, question), "x", legend)


def _counted(rows: pd.DataFrame, metrics: list[str]) -> str:
    """Return n once where all metrics have the same, else metric by metric."""
    counts = {name: n_text(rows.loc[rows["metric"].eq(name), "n"]) for name in metrics}
    ((usual, _),) = Counter(counts.values()).most_common(1)
    others = [f"{n} for {name}" for name, n in counts.items() if n != usual]
    return f"n = {usual}" + (f" ({', '.join(others)})" if others else "")


def _dots(
    rows: pd.DataFrame, names: list[str], labels: list[str], styles: dict[str, RunStyle],
    room: float, ax: "Axes | None",
) -> "Axes":  # fmt: skip
    """Draw the means of runs beside each other as marks with bars, whole at the ends of a scale.

    `rows` are indexed by `names`, one below the other; runs share `room` there. What a run only
    reports is hollow.
    """
    row = 0.17 * min(len(styles), MAX_RUNS) + 0.15  # inches; marks may touch
    high = min(row * len(names), max(TALLEST, ROW * len(names)))
    ax = new_axes(ax, width=6.5, height=max(2.4, high + 1.2))
    middle = np.arange(len(names))
    for side, (run, style) in enumerate(styles.items()):
        own = rows[(rows["run_id"].astype("str") == run).to_numpy()].reindex(names)
        is_hollow = "is_reported" in own and bool(own["is_reported"].eq(True).any())
        place = middle + (side - (len(styles) - 1) / 2) * room / len(styles)
        ax.errorbar(
            own["mean"], place, xerr=error_lengths(own), fmt=style.marker, color=style.colour,
            markerfacecolor=inks().ground if is_hollow else style.colour,
            label=label_of(f"{style.label} (reported)" if is_hollow else style.label),
            markersize=style.size, elinewidth=style.width, capsize=0,
            zorder=2 if style.is_muted else 3, clip_on=False,
        )  # fmt: skip
    ax.set_yticks(middle, [label_of(label) for label in labels])
    ax.set_ylim(len(names) - 0.5, -0.5)
    return ax


@lettered
def slices(
    table: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    golden: Golden | None = None,
    limit: int = MAX_SLICES,
    order: list[str] | None = None,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    declared: Declarations = NOTHING_DECLARED,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric by columns or tags of the golden set: a mean per run and slice.

    Each with its 95 % interval; `cmp.slices(by).plot()` has differences.

    Parameters
    ----------
    table
        From `ev.summary(metric, by=...)`; or scores, of which that frame is then made by `by` and
        `golden`.
    metric
        Which; not needed where a summary has one only.
    by
        As for `golden.slices`; not needed for a summary.
    limit
        At most so many slices are drawn, those with the most queries; the label says how many there
        are.
    order
        Slices that come first. By default words of a scale stand in its order (easy, medium, hard).
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False.
    declared
        What is declared of columns of your own; `ev.plot` gives it.

    Raises
    ------
    DataError
        A summary without these slices, or no scores frame; several metrics, or nothing to draw: no
        query of any slice has a value.
    """
    rows, metric, n_of, axis, finding = sliced(
        table, metric, by, golden, declared, rows_that_fit(ax, limit), order
    )
    styles = run_styles(rows, highlight, [])
    labels = [f"{label_of(name, LONGEST - 40)} ({n})" for name, n in n_of.items()]
    ax = _dots(rows.set_index("slice"), list(n_of), labels, styles, 0.7, ax)
    ax.set(xlabel=f"{metric}, mean with 95 % interval", ylabel=axis)
    if declared.describe(metric).is_unit:
        ax.set_xlim(0, 1)
    return finish(ax, finding, "x", legend)


@lettered
def scores_by_rank(
    table: pd.DataFrame | Results,
    *,
    score_kind: str | None = None,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the retrievers' own scores by rank.

    The line is the median of each rank, the band the middle half of the queries (up to four runs).
    Beyond eight runs the first four are in colour. Kinds of scores (`score_kind`: rrf, bm25,
    cosine, ...) have no common scale, so one kind is drawn and names the axis.

    Parameters
    ----------
    table
        From `results.retriever_scores()`, or the results it is made of.
    score_kind
        Which kind; not needed where the hits have one only. Hits that don't state theirs are of the
        kind "score".
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False; by default names stand at the ends of lines.

    Raises
    ------
    DataError
        No hit has a score; hits of several kinds and none is chosen; a kind that no hit has.
    """
    rows = retriever_scores(table) if isinstance(table, Results) else table
    check_columns(
        rows,
        {"run_id", "score_kind", "rank", "n", "p25", "p50", "p75"},
        "table",
        "results.retriever_scores()",
    )
    rows, kind = _of_kind(rows, score_kind)
    styles = run_styles(rows, highlight, rows["run_id"].astype("str").unique().tolist())
    has_bands = len(styles) <= MAX_BANDS
    banded = [run for run, style in styles.items() if has_bands and not style.is_muted]
    return draw_lines(
        rows, styles, ["rank", "p50", "p25", "p75"], banded, titles.of_scores_by_rank(rows, kind),
        legend, ax,
        xlabel=f"rank (n = {rows['n'].max()} queries)",
        ylabel=f"{kind} score: median{' and middle half' if has_bands else ''}",
    )  # fmt: skip


def draw_lines(
    rows: pd.DataFrame, styles: dict[str, RunStyle], columns: list[str], banded: list[str],
    finding: str, legend: str | bool | None, ax: "Axes | None", **options: Any,
) -> "Axes":  # fmt: skip
    """Draw a line per run and bands of some.

    `columns` are x, y, and the lower and upper side of a band. Names stand at the ends of lines; in
    a legend if one is asked for, or where they are too long.
    """
    ax, ends = new_axes(ax), []
    for run, style in styles.items():
        own = rows[rows["run_id"].astype("str").eq(run).to_numpy()].sort_values(columns[0])
        x, y, low, high = (own[name] for name in columns)
        ax.plot(
            x, y, marker=style.marker, color=style.colour, linestyle=style.line, clip_on=False,
            linewidth=style.width, markersize=style.size, label=label_of(style.label),
        )  # fmt: skip
        if run in banded:
            ax.fill_between(x, low, high, color=style.colour, alpha=0.13, linewidth=0)
        if not style.is_muted:
            ends.append((float(x.iloc[-1]), float(y.iloc[-1]), label_of(run), style.colour))
    ax.set(**options)
    n_lines = len(ax.get_legend_handles_labels()[1])
    if legend is None and len(ends) == n_lines and label_ends(ax, ends):
        legend = False
    return finish(ax, finding, "y", legend)


MAX_BANDS = 4  # lines whose bands can be told apart


def _of_kind(rows: pd.DataFrame, score_kind: str | None) -> tuple[pd.DataFrame, str]:
    """Return the rows of the chosen kind, or of the only one."""
    known = rows["score_kind"].unique().tolist()
    chosen = known[0] if score_kind is None and len(known) == 1 else score_kind
    if chosen not in known:
        found = (
            f"found {score_kind!r}"
            if score_kind is not None
            else f"scores of {len(known)} kinds, which have no common scale"
        )
        raise DataError(found, field="score_kind", allowed=nearest(score_kind, known))
    return rows[(rows["score_kind"] == chosen).to_numpy()], str(chosen)
