"""A line per run: a metric over k, calls, turns or ranks, risk over coverage, a trend over time."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FixedLocator, MaxNLocator

from ragscore.analysis.trend import COLUMNS, Trend, as_drawn
from ragscore.frames.data import DataError
from ragscore.frames.errors import nearest
from ragscore.plot.dots import check_means
from ragscore.plot.style import (
    GREY,
    LETTER,
    RunStyle,
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

MAX_BANDS = 4  # more runs' bands can't be distinguished
MIN_ANSWERS = 10  # below, one answer moves the risk by a tenth and more


def _lines(
    rows: pd.DataFrame,
    columns: Sequence[str],
    title: str,
    highlight: Sequence[str] | str | None,
    legend: bool,
    ax: Axes | None,
    **options: Any,
) -> Axes:
    """Draw y over x with a band from low to high: the four `columns`; of many runs no bands."""
    styles, x = run_styles(rows, highlight), rows[columns[0]]
    ax = new_axes(ax, entries=len(styles))
    for run, style in styles.items():
        own = rows[rows["run_id"].astype("str").eq(run).to_numpy()]
        at, y, low, high = own.sort_values(columns[0], kind="stable")[list(columns)].to_numpy(
            "float64", na_value=np.nan
        ).T  # fmt: skip
        ax.plot(at, y, linestyle=style.line, markevery=max(len(own) // 20, 1), **style.look)
        if len(styles) <= MAX_BANDS and not style.is_muted:
            ax.fill_between(at, low, high, color=style.colour, alpha=0.12, linewidth=0)
    if pd.api.types.is_integer_dtype(x):
        ax.xaxis.set_major_locator(
            FixedLocator(sorted(x.unique())) if x.max() <= 10 else MaxNLocator("auto", integer=True)
        )
    ax.set(**options)
    title = f"{title}, {runs_text([*styles])}"
    return finish(ax, title, "y", legend and len(styles) > 1)


@drawn
def metric_at_k(
    table: pd.DataFrame,
    metric: str = "recall",
    *,
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a ranking metric over its cut-off k: a line per run, 95 % intervals of up to four.

    Parameters
    ----------
    table
        From `ev.summary()` (not sliced), with the metric at two or more k.
    metric
        Its name without k: hit, recall, precision, ndcg, ...; "recall:doc" for one of another match
        level.
    highlight
        Runs in colour; the others are grey.

    Raises
    ------
    DataError
        Not a summary, or no k of that metric has values.
    """
    check_means(table)
    name, colon, level = metric.partition(":")
    label = rf"^{re.escape(name)}@(\d+){re.escape(colon + level)}$"
    k = table["metric"].astype("str").str.extract(label)[0].astype("Int64")
    rows = table.assign(k=k)[k.notna().to_numpy() & table["n"].gt(0).to_numpy()]
    if not len(rows):
        allowed = nearest(metric, table["metric"].unique(), "the summary has")
        raise DataError(f"no value of {metric} at any k", field="metric", allowed=allowed)
    return _lines(
        rows.astype({"k": "int64"}), ("k", "mean", "low", "high"), f"{name}@k{colon}{level}",
        highlight, legend, ax, xlabel=f"k (n = {n_text(rows['n'])} queries)", ylim=(0, 1),
        ylabel="mean with 95 % interval",
    )  # fmt: skip


@drawn
def calls(
    after: pd.DataFrame,
    *,
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the recall reached after each call for a query: `rs.extras.calls(ev).after`.

    Raises
    ------
    DataError
        No query has a target.
    """
    rows = after[after["recall"].notna().to_numpy()]
    if not len(rows):
        raise DataError("no query has a target", field="after", allowed="rs.extras.calls(ev).after")
    return _lines(
        rows, ("call", "recall", "low", "high"), "recall after each call", highlight, legend, ax,
        xlabel=f"calls so far (n = {n_text(rows['n'])} queries)", ylim=(0, 1),
        ylabel="mean with 95 % interval",
    )  # fmt: skip


@drawn
def turns(
    table: pd.DataFrame,
    metric: str = "metric",
    *,
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric over the turns of conversations: `rs.extras.conversations(ev).turns`."""
    return _lines(
        table, ("turn", "mean", "low", "high"), f"{metric} by turn", highlight, legend, ax,
        xlabel=f"turn (n = {n_text(table['n'])} conversations)", ylabel="mean with 95 % interval",
    )  # fmt: skip


@drawn
def risk_coverage(
    curve: pd.DataFrame,
    *,
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the risk of a wrong answer while a threshold on the top score refuses more and more.

    Lower and further right is better. Thresholds that leave fewer than ten answers are not drawn
    where others leave more: one answer moves the risk by a tenth.

    Parameters
    ----------
    curve
        `rs.extras.risk_coverage(ev).curve`.
    highlight
        Runs in colour; the others are grey.

    Raises
    ------
    DataError
        Not that frame; nothing is answered at any threshold.
    """
    columns = ("coverage", "risk", "risk_low", "risk_high")
    known = "rs.extras.risk_coverage(ev).curve"
    check_columns(curve, {"run_id", "n", *columns}, "curve", known)
    rows = curve[curve["risk"].notna().to_numpy()]
    is_stable = (rows["coverage"] * rows["n"]).round(6).ge(MIN_ANSWERS).to_numpy()
    rows = rows[is_stable | ~is_stable.any()]
    if not len(rows):
        raise DataError("nothing is answered at any threshold", field="curve", allowed=known)
    return _lines(
        rows, columns, "Risk over coverage", highlight, legend, ax, xlim=(0, 1.02), ylim=(0, 1),
        xlabel=f"coverage: share of queries answered (n = {n_text(rows['n'])})",
        ylabel="risk: share of answers that are wrong, with 95 % interval",
    )  # fmt: skip


@drawn
def trend(
    table: pd.DataFrame | Trend,
    *,
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw a metric over time: a line per system, 95 % intervals of up to four.

    A line ends where values are measured in another way. Vertical lines say what changed: solid
    ones how values are measured, dotted ones settings. The grey band holds
    95 % of the runs of an unchanged system; a square marks the run that left it. Runs of which only
    means are known are hollow. Runs without dates are in their order.

    Parameters
    ----------
    table
        `store.trend(metric)`, `ev.trend(metric)`, or its table.
    highlight
        Systems in colour; the others are grey.

    Raises
    ------
    DataError
        Not a trend, or one without a value.
    """
    frame = table.table if isinstance(table, Trend) else table
    check_columns(frame, COLUMNS, "table", "store.trend(metric), or its table")
    frame = as_drawn(frame)
    times = pd.to_datetime(frame["created_at"], utc=True)
    is_dated = bool(times.notna().all() and times.nunique() > 1)
    days = (times - pd.Timestamp("1970", tz="UTC")) / pd.Timedelta(days=1)  # as matplotlib's dates
    frame = frame.assign(x=days if is_dated else frame["position"].astype("float64"))
    styles, metric = run_styles(frame["system"], highlight), str(frame["metric"].iloc[0])
    ax = new_axes(ax, entries=len(styles) + 3)
    _draw_trend(ax, frame, styles, is_dated)
    _mark(ax, frame)
    ax.set_ylabel(metric)
    title = f"{metric} of {runs_text([*styles]).replace('run', 'system')}"
    return finish(ax, f"{title} (n = {n_text(frame['n'])} queries)", "y", legend)


def _draw_trend(
    ax: Axes, frame: pd.DataFrame, styles: Mapping[str, RunStyle], is_dated: bool
) -> None:
    """Draw a line per system and segment, intervals, the noise band, and what left it."""
    for system, style in styles.items():
        own = frame[(frame["system"].eq(system) & frame["mean"].notna()).to_numpy()]
        for n, (_, part) in enumerate(own.groupby("segment", sort=False)):
            look = {**style.look, "label": "_" if n else style.label}
            ax.plot(part["x"], part["mean"], linestyle=style.line, **look)
            if len(styles) <= MAX_BANDS:
                low, high = (part[name].astype("float64") for name in ("low", "high"))
                ax.vlines(part["x"], low, high, color=style.colour, linewidth=0.8)
    ground = plt.rcParams["axes.facecolor"]
    for label, marker, size, face, name in (
        ("reported, without rows", "o", 0.6, ground, "is_reported"),
        ("baseline", "D", 1.1, "none", "is_baseline"),
        ("left the noise band", "s", 1.1, "none", "first_out_of_control"),
    ):
        rows = frame[frame[name].astype("bool").to_numpy()]
        if len(rows):
            ax.plot(
                rows["x"], rows["mean"], marker, markersize=size * plt.rcParams["font.size"],
                markerfacecolor=face, color=GREY, zorder=4, label=label, clip_on=False,
            )  # fmt: skip
    for _, rows in frame[frame["band_low"].notna().to_numpy()].groupby("segment"):
        beside = 0.02 * np.ptp(frame["x"]) or 0.5
        ends = [rows["x"].min() - beside, rows["x"].max() + beside]
        band = rows[["band_low", "band_high"]].to_numpy("float64")[0]
        ax.fill_between(ends, band[0], band[1], color=GREY, alpha=0.25, linewidth=0, zorder=0)
    wide = room_of(ax)[0] / plt.rcParams["font.size"]
    if is_dated:
        places = AutoDateLocator(minticks=2, maxticks=max(int(wide / 8), 3))  # type: ignore[no-untyped-call]
        ax.xaxis.set(major_locator=places, major_formatter=ConciseDateFormatter(places))  # type: ignore[no-untyped-call]
    else:
        runs = frame.drop_duplicates("position")
        runs = runs.iloc[:: -(-len(runs) // max(int(wide / 3), 1))]
        names = run_labels(runs["run_id"].astype("str").tolist()).values()
        ax.set_xticks(runs["x"], names, rotation=40, ha="right", rotation_mode="anchor",
                      parse_math=False)  # fmt: skip


def _mark(ax: Axes, frame: pd.DataFrame) -> None:
    """Draw a vertical line with a few words for what changed, words above the values."""
    marks: list[tuple[float, str, str]] = []
    for name, end, line in (("break_reason", " (", "-"), ("config_change", ",", ":")):
        found = frame.loc[frame[name].notna(), ["x", name]].drop_duplicates()
        marks += [(x, str(text).partition(end)[0], line) for x, text in found.to_numpy()]
    if not marks:
        return
    low, high = ax.get_ylim()
    ax.set_yticks([one for one in ax.get_yticks() if low <= one <= high])
    ax.set_ylim(low, high + 0.6 * (high - low))  # words are above the lines
    # words that would be too near to the ones before are added to them
    size, (wide, tall) = plt.rcParams["font.size"], room_of(ax)
    near, most = 2 * size / wide * np.ptp(ax.get_xlim()), int(0.3 * tall / (LETTER * 0.7 * size))
    said: dict[float, str] = {}
    for x, text, line in sorted(marks):
        ax.axvline(x, color=GREY, linestyle=line, linewidth=0.9, zorder=1)
        place = max((one for one in said if x - one < near), default=x)
        said[place] = f"{said[place]}, {text}" if place in said else text
    for x, text in said.items():
        ax.annotate(label_of(text, most), (x, 1), (2, -2), xycoords=ax.get_xaxis_transform(),
                    rotation=90, textcoords="offset points", va="top",
                    fontsize="x-small")  # fmt: skip
