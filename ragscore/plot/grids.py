"""Tables with colours, and queries or runs as points."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from ragscore.analysis.comparison.model import OUTCOMES, Comparison
from ragscore.analysis.failure_causes import Failures, turns
from ragscore.analysis.leaderboard import pareto_front
from ragscore.analysis.trend import LED_BY
from ragscore.frames.data import DataError, Golden, check_type, run_names
from ragscore.frames.errors import check_known
from ragscore.frames.tables import shown_number
from ragscore.plot.dots import check_means, finite, lengths, sliced
from ragscore.plot.style import (
    BETTER,
    GREY,
    LETTER,
    MAX_SLICES,
    WORSE,
    check_columns,
    drawn,
    finish,
    label_of,
    n_text,
    new_axes,
    room_of,
    run_labels,
    run_styles,
    runs_text,
)
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import Slicing, metric_columns

FEW = 10  # queries below which a slice says little
BINS, EDGES = ("1", "2–3", "4–5", "6–10", "11+", "miss"), (0, 1, 3, 5, 10, np.inf)


def _grid(
    values: pd.DataFrame,
    texts: pd.DataFrame,
    bounds: Any,
    colours: str,
    title: str,
    runs: Sequence[str],
    ax: Axes | None,
    **options: Any,
) -> Axes:
    """Draw a table: a ground for each value, and a text in each cell, as large as fits."""
    below, beside = ([label_of(str(name)) for name in names] for names in (texts, texts.index))
    longest = max(map(len, below))
    slanted = 0.04 * longest if longest > 5 else 0  # inches that names below the columns take
    ax = new_axes(ax, min(0.3 * len(values), 9) + slanted)
    image = ax.imshow(values.to_numpy("float64"), cmap=colours, vmin=bounds[0], vmax=bounds[1],
                      aspect="auto")  # fmt: skip
    grounds = np.asarray(image.cmap(image.norm(values.fillna(0).to_numpy("float64"))))
    size, letter = 0.83 * plt.rcParams["font.size"], LETTER * 0.83 * plt.rcParams["font.size"]
    room = (room_of(ax)[0] - letter * max(map(len, beside)) - 40) / len(below)
    fitting = room / LETTER / max(texts.map(len).to_numpy().max(), 1)
    for (row, column), text in np.ndenumerate(texts.to_numpy(dtype=object)):
        is_dark = grounds[row, column, :3] @ (0.3, 0.6, 0.1) < 0.45
        ax.text(column, row, text, ha="center", va="center", fontsize=min(size, fitting),
                color="white" if is_dark else "black")  # fmt: skip
    ax.set_yticks(range(len(beside)), beside, parse_math=False)
    ax.set_xticks(
        range(len(below)), below, parse_math=False, rotation=40 if slanted else 0,
        ha="right" if slanted else "center", rotation_mode="anchor" if slanted else "default",
    )  # fmt: skip
    ax.spines[:].set_visible(False)
    ax.set(**options)
    return finish(ax, title, None)


@drawn
def heatmap(
    table: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    golden: Golden | None = None,
    limit: int = MAX_SLICES,
    order: Sequence[str] | None = None,
    declared: MetricTable = TABLE,
    ax: Axes | None = None,
) -> Axes:
    """Draw one metric by slice and run: a cell per mean; * marks one of fewer than ten queries.

    Of runs and slices, the more numerous are the rows.

    Parameters
    ----------
    table, metric, by, golden, limit, order, declared
        As for `slices`.

    Raises
    ------
    DataError
        As `slices` does.
    """
    rows, metric, labels, axis = sliced(table, metric, by, golden, declared, limit, order)
    rows, runs = rows.assign(run=rows["run_id"].astype("str")), list(run_styles(rows))
    few = rows["n"].lt(FEW)
    numbers = rows["mean"].map(lambda mean: shown_number(mean, 2)) + few.map({True: "*", False: ""})
    is_turned = len(runs) > len(labels)
    means, texts = (
        rows.assign(shown=one).pivot(index="slice", columns="run", values="shown")
        .reindex(index=list(labels), columns=runs).set_axis([*labels.values()])
        .set_axis([*run_labels(runs).values()], axis=1)
        for one in (rows["mean"], numbers)
    )  # fmt: skip
    if is_turned:
        means, texts = means.T, texts.T
    bounds = finite(declared.describe(metric).bounds)
    notes = f"*: fewer than {FEW} queries" if few.any() else ""
    below = "; ".join(filter(None, [axis, notes])) if is_turned else notes
    # cividis is light and dark alike to colour-blind readers and in grey
    return _grid(
        means, texts.fillna(""), bounds, "cividis", f"Mean {metric} by {axis.partition(' (')[0]}",
        runs, ax, xlabel=below, ylabel="" if is_turned else axis,
    )  # fmt: skip


@drawn
def failures(
    found: Failures, baseline: str | None = None, candidate: str | None = None, *,
    ax: Axes | None = None,
) -> Axes:  # fmt: skip
    """Draw how many queries went from each failure cause to each other between two runs.

    ▲ and green became right, ▼ and brown wrong; the darker, the more queries.

    Parameters
    ----------
    found
        What `ev.failures` returns.
    baseline, candidate
        Run ids; by default the only two runs.

    Raises
    ------
    DataError
        Not that object; no such run; several pairs and none named.
    """
    check_type(found, Failures, "found", "what ev.failures returns")
    counts, pair = found.transitions(baseline, candidate), found._pair(baseline, candidate)
    return _moves("Failure causes", counts, turns(counts), *pair, ax)


def _moves(
    what: str, counts: pd.DataFrame, kinds: Any, baseline: str, candidate: str, ax: Axes | None
) -> Axes:
    """Draw counts, green ▲ where kinds are 1 and brown ▼ where they are -1, by their root."""
    depth = np.sqrt(counts / max(counts.to_numpy().max(), 1))  # one large cell hides no other
    values = (kinds * (0.3 + 0.7 * depth)).where(counts > 0, 0)
    signs = np.array(["", " ▲", " ▼"])[kinds]
    texts = (counts.astype("str") + signs).where(counts > 0, "")
    title = f"{what} in two runs (n = {counts.to_numpy().sum()} queries)"
    names = {"xlabel": candidate, "ylabel": baseline}
    return _grid(values, texts, (-1.6, 1.6), "BrBG", title, (), ax, **names)


@drawn
def ranks(cmp: Comparison, *, ax: Axes | None = None) -> Axes:
    """Draw the rank of each query's first hit in both runs, as numbers of queries.

    ▲ and green, left of the diagonal: it came earlier in the candidate; ▼ and brown: later.
    Only queries with a target and a row in both runs are counted.

    Raises
    ------
    DataError
        Not a comparison.
    """
    check_type(cmp, Comparison, "cmp", "what ev.compare returns")
    rows = cmp.per_query[cmp.per_query["outcome"].isin(OUTCOMES[:5]).to_numpy()]
    a, b = (
        pd.cut(rows[f"rank_{side}"].astype("float64"), EDGES, labels=list(BINS[:-1]))
        .astype("object").fillna("miss") for side in ("baseline", "candidate")
    )  # fmt: skip
    counts = pd.crosstab(a, b).reindex(BINS, columns=BINS, fill_value=0)
    kinds = np.sign(np.subtract.outer(range(len(BINS)), range(len(BINS))))
    return _moves("Rank of the first hit", counts, kinds, cmp.baseline, cmp.candidate, ax)


@drawn
def scatter(
    scores: pd.DataFrame,
    metric: str,
    baseline: str,
    candidate: str,
    *,
    legend: bool = True,
    declared: MetricTable = TABLE,
    ax: Axes | None = None,
) -> Axes:
    """Draw one metric of every query in both runs; larger marks are more queries.

    Above the line the candidate is higher.

    Parameters
    ----------
    scores
        `ev.scores`; queries with a value in both runs are drawn.
    baseline, candidate
        Run ids.
    declared
        What is declared of columns of your own; `ev.plot` gives it.

    Raises
    ------
    DataError
        No such run or metric, or no query has a value in both.
    """
    check_columns(scores, {"run_id", "state"}, "scores", "ev.scores")
    check_known(metric, metric_columns(scores), "metric", "column", "the scores have")
    runs = pd.DataFrame({"run_id": scores["run_id"].astype("str").unique()})
    names = run_names(runs, [baseline, candidate])
    own = scores[scores["state"].ne("extra").to_numpy()]
    sides = [own.loc[own["run_id"].eq(run).to_numpy(), metric] for run in names]
    points = pd.concat(sides, axis=1, keys=["a", "b"]).dropna()
    if not len(points):
        raise DataError(f"no query has {metric} in both runs", field="metric")
    n, ax = points.value_counts().reset_index(), new_axes(ax)
    sign = -1 if declared.describe(metric).better == "lower" else 1
    better = sign * (n["b"] - n["a"]).map(np.sign)
    for side, word, colour, marker in (
        (1, "better", BETTER, "^"), (0, "same", GREY, "o"), (-1, "worse", WORSE, "v"),
    ):  # fmt: skip
        part = n[better.eq(side).to_numpy()]
        look: dict[str, Any] = {"color": colour, "marker": marker, "clip_on": False}
        ax.scatter(part["a"], part["b"], s=20 * np.sqrt(part["count"]), alpha=0.8, **look)
        ax.scatter([], [], s=30, label=f"{word} ({part['count'].sum()})", **look)
    ax.axline((0, 0), slope=1, color=GREY, linewidth=0.8, zorder=0)
    ax.set(xlabel=baseline, ylabel=candidate)
    return finish(ax, f"{metric} of {len(points)} queries", "both", legend)


@drawn
def tradeoff(
    table: pd.DataFrame,
    metric: str,
    *,
    against: str = "latency_ms",
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    declared: MetricTable = TABLE,
    ax: Axes | None = None,
) -> Axes:
    """Draw two metrics of each run with their 95 % intervals, and the Pareto front.

    Times and costs are medians, which one slow query doesn't move; all others are means. A dotted
    line joins the runs that no other run beats in one value without being worse in the other.

    Parameters
    ----------
    table
        `ev.summary()`.
    metric, against
        The values upward and across.
    highlight
        Runs in colour; the others are grey.
    declared
        What is declared of columns of your own; `ev.plot` gives it.

    Raises
    ------
    DataError
        Not that frame; no run has values of both metrics.
    """
    check_means(table, "p50", "p50_low", "p50_high")
    known = table.loc[table["n"].gt(0).to_numpy(), "metric"].unique()
    check_known([metric, against], known, "metric", "scored metric", "with values there are")
    of_x, of_y = (declared.describe(name) for name in (against, metric))
    leads = [LED_BY[one.kind in ("time", "cost")] for one in (of_x, of_y)]
    measured = table[table["n"].gt(0).to_numpy()]
    x, y = (
        measured[measured["metric"].eq(name).to_numpy()].set_index("run_id")[[*lead, "n"]]
        .set_axis([*LED_BY[0], "n"], axis=1)
        for name, lead in zip((against, metric), leads, strict=True)
    )  # fmt: skip
    both = pd.concat([x["mean"], y["mean"]], axis=1, join="inner", keys=["x", "y"])
    if not len(both):
        raise DataError(f"no run has both {metric} and {against}", field="metric")
    front = pareto_front(both["x"], both["y"], of_x.better, of_y.better)
    styles = run_styles(both.reset_index(), highlight)
    ax = new_axes(ax, entries=len(styles) + 1)
    ax.plot(x["mean"][front], y["mean"][front], ":", color=GREY, label="Pareto front")
    for run, style in styles.items():
        look = {**style.look, "linestyle": "none", "elinewidth": 0.8}
        ends = {"xerr": lengths(x.loc[[run]]), "yerr": lengths(y.loc[[run]])}
        ax.errorbar(x["mean"][run], y["mean"][run], **ends, **look)
    words = [f"{'median' if lead is LED_BY[1] else 'mean'} with 95 % interval" for lead in leads]
    ax.set(
        xlim=finite(of_x.bounds), xlabel=f"{against}, {words[0]} ({of_x.better} is better)",
        ylim=finite(of_y.bounds), ylabel=f"{metric}, {words[1]} (n = {n_text(y['n'])})",
    )  # fmt: skip
    title = f"{metric} and {against} of {runs_text([*styles])}"
    return finish(ax, title, "both", legend and len(styles) > 1)
