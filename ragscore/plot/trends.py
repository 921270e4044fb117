"""A metric over runs in order of time, with what changed between them and the noise band."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import FigureBase
from matplotlib.lines import Line2D

from ragscore.analysis.titles import n_text, of_trend
from ragscore.analysis.trend.trend import COLUMNS, Trend, as_drawn
from ragscore.frames.data import DataError, check_type
from ragscore.plot import names
from ragscore.plot.layout import columns_of, label_ends, legend, new_axes, quiet, title, wrap_text
from ragscore.plot.lettering import lettered, literal
from ragscore.plot.marks import CONFIG, Mark, changes, days, noted, room_for
from ragscore.plot.runs import MAX_BANDS
from ragscore.plot.style import (
    RunStyle,
    check_columns,
    label_of,
    largest_slices,
    run_styles,
    scale_of,
    unit_scale,
)
from ragscore.plot.theme import figure_size, inks, sizes
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, table_kind
from ragscore.scoring.summary import slice_texts

MAX_PANELS = 12


@lettered
def trend(
    table: pd.DataFrame | Trend,
    *,
    notes: "Mapping[Any, str] | pd.Series | None" = None,
    highlight: Sequence[str] | str | None = None,
    order: Sequence[str] | None = None,
    columns: int | None = None,
    limit: int = MAX_PANELS,
    ax: "Axes | None" = None,
    figure: "FigureBase | None" = None,
) -> "Axes":
    """Draw one metric over time: a line per system, its 95 % intervals as a band.

    Where runs lack times, or a system has two at one time, they stand in their order instead. A
    thin vertical line says in a few words what changed: whole where values are measured in another
    way from there on, dotted where a system's config changed, dashed for a note of yours. The
    trend's table has each change in full.

    A system's line ends where the measuring changed, and another one begins.

    The grey band holds 95 % of the runs of an unchanged system. It is drawn in the segments that
    have the run which left it, and in that of the newest run, of which the title then says on which
    side it lies. Panels of slices have it only where a run left it, and leave settings out.

    A ring marks the baseline. Hollow markers are values that a run only reports. Intervals are
    drawn of at most four systems; a lone point has a bar instead. Of more than eight systems the
    first and the three that ran last stand out. Times and costs are medians, without noise band.

    Parameters
    ----------
    table
        A `Trend`, or its table.
    notes
        Words for dates or run ids: `{"2026-11-02": "new chunker"}`. A column of the runs that is
        indexed by `run_id` is one, too: its words stand where they change. Those before the first
        run or after the last are left out.
    highlight
        Systems that keep their colour and their band; the others are grey and thin.
    order
        Slices that come first; by default words of a scale (easy, medium, hard) in its order.
    columns
        Panels side by side; by default up to three, as many as can be read.
    limit
        At most so many slices are drawn, those with the most queries; the figure's title says how
        many there are.
    ax
        Where a trend without slices is drawn.
    figure
        Where the panels of slices stand, an empty figure or part of one; by default a new one.

    Returns
    -------
    The axes; of several panels the first, and `ax.figure.axes` has all.

    Raises
    ------
    DataError
        Not the table of a trend, or no run has a value; an `ax` for several panels; an unknown
        system or slice; a note for what is neither a run nor a date.

    Examples
    --------
    >>> store.trend("mrr@10").plot(notes={"2026-11-02": "new chunker"})
    >>> store.trend("mrr@10").plot(notes=store.runs().set_index("run_id")["x_deploy"])
    """
    shown, declared = (
        (table.table, table.declared) if isinstance(table, Trend) else (table, NOTHING_DECLARED)
    )
    needed = set(COLUMNS) - {"config_change"}  # reports of before have none
    check_columns(shown, needed, "table", "store.trend(metric), or its table")
    check_type(notes, (Mapping, pd.Series, type(None)), "notes", "words by date or run id")
    by = [str(name) for name in shown.columns if name not in COLUMNS]
    shown, is_dated = _placed(as_drawn(shown))
    newest = shown.loc[shown["mean"].notna(), "system"].iloc[::-1].drop_duplicates().tolist()
    styles = run_styles(shown["system"], highlight, newest)
    marks = sorted([*changes(shown), *noted(notes, shown, is_dated)])
    if not by:
        return _one_panel(shown, styles, is_dated, marks, ax, declared)
    if ax is not None:
        raise DataError(
            f"one axes for a trend by {' × '.join(by)}",
            field="ax",
            allowed="figure=, a figure or part of one",
        )
    marks = [mark for mark in marks if mark.line != CONFIG]
    return _panels(shown, styles, is_dated, marks, by, order, columns, limit, figure, declared)


def _placed(table: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """Add `x` of each run, with the `left` and `right` ends of its share of the axis.

    x is the run's time if every run has one, time is their order, and no system has two at one
    time; else its position.
    """
    runs = table.drop_duplicates("position").sort_values("position")
    x = runs["position"].to_numpy("float64")
    times = pd.to_datetime(runs["created_at"], utc=True)
    is_dated = bool(
        times.nunique() > 1
        and times.notna().all()
        and times.is_monotonic_increasing
        and not pd.concat([runs["system"], times], axis=1).duplicated().any()
    )
    if is_dated:
        x = days(times)
    at = x[np.searchsorted(runs["position"].to_numpy(), table["position"].to_numpy())]
    places, place = np.unique(at, return_inverse=True)
    beside = 0.04 * (places[-1] - places[0]) if is_dated else 0.5
    edges = np.concatenate(
        [places[:1] - beside, (places[1:] + places[:-1]) / 2, places[-1:] + beside]
    )
    return table.assign(x=at, left=edges[place], right=edges[place + 1]), is_dated


def _drawn(table: pd.DataFrame, styles: dict[str, RunStyle]) -> str:
    """Say what is drawn."""
    name = "median" if table_kind(str(table["metric"].iloc[0])) in BY_QUANTILES else "mean"
    is_told = _banded(styles) and table["low"].notna().any()
    return f"{name}{' with 95 % interval' if is_told else ''}"


def _banded(styles: dict[str, RunStyle]) -> list[str]:
    """Return the systems whose intervals are drawn."""
    bright = [name for name, style in styles.items() if not style.is_muted]
    return bright if len(bright) <= MAX_BANDS else []


def _one_panel(
    shown: pd.DataFrame,
    styles: dict[str, RunStyle],
    is_dated: bool,
    marks: list[Mark],
    ax: "Axes | None",
    declared: Declarations,
) -> "Axes":
    ax = new_axes(ax, width=7.6, height=4.2)
    lines = _draw(ax, shown, styles, declared)
    ax.set_xlim(shown["left"].min(), shown["right"].max())  # a run at an end may have no value
    _time_axis(ax, shown, is_dated)
    ax.set_ylabel(f"{shown['metric'].iloc[0]}, {_drawn(shown, styles)}")
    last = shown[shown["mean"].notna()].drop_duplicates("system", keep="last")
    start, end = ax.get_xlim()
    ends = [
        (end, mean, label_of(styles[system].label), styles[system].colour)
        for system, mean in zip(last["system"], last["mean"], strict=True)
        if styles[system].label != "_"
    ]
    # if all systems have runs until late
    is_named = bool((last["x"] >= start + 0.6 * (end - start)).all()) and label_ends(ax, ends)
    if not is_named:
        for system, line in lines.items():
            line.set_label(label_of(names.shown(styles[system].label)))
    legend(ax)
    with room_for(ax, marks):
        title(ax, of_trend(shown))
    return ax


def _time_axis(ax: "Axes", table: pd.DataFrame, is_dated: bool, is_small: bool = False) -> None:
    """Write dates below the axis, or run names where there are none; in a small panel positions."""
    if is_dated:
        least, most = (2, 4) if is_small else (3, 7)
        places = AutoDateLocator(minticks=least, maxticks=most)  # type: ignore[no-untyped-call]
        shown = ConciseDateFormatter(places, show_offset=True)  # type: ignore[no-untyped-call]
        ax.xaxis.set(major_locator=places, major_formatter=shown)
    elif not is_small:
        kept = table.iloc[:: -(-len(table) // 24)]
        ax.set_xticks(kept["x"].to_numpy(), [label_of(str(run)) for run in kept["run_id"]])


def _panels(
    table: pd.DataFrame,
    styles: dict[str, RunStyle],
    is_dated: bool,
    marks: list[Mark],
    by: list[str],
    order: Sequence[str] | None,
    columns: int | None,
    limit: int,
    figure: Any,
    declared: Declarations,
) -> "Axes":
    slices = slice_texts(table, by)
    kept, more = largest_slices(table.groupby(slices, sort=False)["n"].max(), limit, order)
    if columns is None:
        columns = min(3, len(kept))
        width = figure_size(3.0 * columns + 2.0, 1)[0]
        if figure is not None:
            width = figure.bbox.width / figure.get_figure(root=True).dpi
        columns = max(1, min(columns, int(width / (0.16 * sizes()["label"]))))
    rows = -(-len(kept) // columns)
    bright = sum(style.label != "_" for style in styles.values())
    size = figure_size(3.0 * columns + 2.0, 2.4 * rows + 1.0 + 0.1 * bright)
    figure = figure or plt.figure(figsize=size, layout="constrained")
    panels: list[Axes] = list(
        figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    )
    panels[0].set_xlim(table["left"].min(), table["right"].max())
    for number, (ax, name) in enumerate(zip(panels, kept, strict=False)):
        own = table[slices == name]
        for system, line in _draw(ax, own, styles, declared).items():
            line.set_label(label_of(styles[system].label))
        with room_for(ax, marks, is_said=number < columns):
            ax.set_title(label_of(f"{name} (n\u00a0=\u00a0{n_text(own['n'])})"),
                         fontsize=sizes()["label"])  # fmt: skip
    if panels[0].get_ylim()[1] <= 1:
        # the axes are shared: the last panel's end would cut others
        panels[0].set_ylim(top=_top(table))
    for ax in panels[len(kept) :]:
        ax.remove()
    for ax in panels[max(len(kept) - columns, 0) : len(kept)]:
        _time_axis(ax, table, is_dated, is_small=True)
        ax.set_xlabel("" if is_dated else "run, in order")
        ax.xaxis.set_tick_params(labelbottom=True)
    said = f"{table['metric'].iloc[0]} by {' × '.join(by)}, {_drawn(table, styles)}{more}"
    text = literal("\n".join(filter(None, [said, names.note()])))
    above = figure.suptitle(text, fontsize=sizes()["title"], parse_math=False)
    wrap_text(above, 0.96 * figure.bbox.width)
    _common_legend(figure, panels[: len(kept)])
    return panels[0]


def _common_legend(figure: Any, panels: "list[Axes]") -> None:
    """Put one legend of all panels below them."""
    named = {
        literal(label): handle
        for ax in panels
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    columns = columns_of(panels[0], list(named), 0.97 * figure.bbox.width, 8)
    drawn = figure.legend(
        named.values(), list(named), loc="outside lower left", frameon=False, ncols=columns,
        fontsize=sizes()["note"], columnspacing=1.2, handlelength=1.8,
    )  # fmt: skip
    for text in drawn.get_texts():
        text.set_parse_math(False)
        wrap_text(text, 0.9 * figure.bbox.width)


def _draw(
    ax: "Axes", table: pd.DataFrame, styles: dict[str, RunStyle], declared: Declarations
) -> "dict[str, Line2D]":
    """Draw lines, noise band and baseline of one panel; return the line of each system."""
    banded = _banded(styles)
    lines: dict[str, Line2D] = {}
    for system, style in sorted(styles.items(), key=lambda pair: pair[1].is_muted):
        own = table[(table["system"] == system) & table["mean"].notna()]
        gaps = np.flatnonzero(own["segment"].ne(own["segment"].shift()))[1:]
        x, y = (np.insert(own[name].to_numpy("float64"), gaps, np.nan) for name in ("x", "mean"))
        (lines[system],) = ax.plot(
            x, y, marker=style.marker, markersize=style.size, linewidth=style.width,
            linestyle=style.line, zorder=2 if style.is_muted else 3, color=style.colour,
            clip_on=False,
        )  # fmt: skip
        if system not in banded:
            continue
        for _, rows in own.groupby("segment", sort=False):
            low, high = (rows[name].astype("float64") for name in ("low", "high"))
            if len(rows) == 1:
                ax.vlines(rows["x"], low, high, color=style.colour, linewidth=1)
            else:
                ax.fill_between(rows["x"], low, high, color=style.colour, alpha=0.13, linewidth=0)
    # values that a run only reports have hollow markers
    told = table[table["is_reported"].astype("bool") & table["mean"].notna()]
    for number, (name, rows) in enumerate(told.groupby("system", sort=False)):
        style = styles[str(name)]
        ax.plot(
            rows["x"], rows["mean"], linestyle="none", marker=style.marker,
            markersize=style.size, markerfacecolor=inks().ground, markeredgecolor=style.colour,
            markeredgewidth=1.3, zorder=4, clip_on=False,
            label="reported, without rows" if number == 0 else None,
        )  # fmt: skip
    for label, marker, name in (
        ("baseline", "o", "is_baseline"),
        ("left the noise band", "s", "first_out_of_control"),
    ):
        rows = table[table[name].astype("bool")]
        if len(rows):
            ax.plot(
                rows["x"], rows["mean"], linestyle="none", marker=marker, markersize=12,
                markerfacecolor="none", markeredgecolor=inks().note, markeredgewidth=1.4,
                clip_on=False, label=label,
            )  # fmt: skip
    for place, (_, rows) in enumerate(table[table["band_low"].notna()].groupby("segment")):
        label = f"noise of {rows['band_from'].iloc[0]}: 95 % of runs"
        ax.fill_between(
            [rows["left"].min(), rows["right"].max()], rows["band_low"].iloc[0],
            rows["band_high"].iloc[0], facecolor=inks().muted, alpha=0.3,
            edgecolor=inks().note, linewidth=0.6, linestyle=(0, (1, 2)), zorder=0,
            label=label_of(label) if place == 0 else None,
        )  # fmt: skip
    ends = table.assign(min=table["low"], max=table["high"])
    unit_scale(ax, scale_of(ends, str(table["metric"].iloc[0]), declared))
    quiet(ax)
    ax.set_ylim(top=_top(table) if ax.get_ylim()[1] == 1 else None)
    return lines


def _top(table: pd.DataFrame) -> float:
    """Return the end of an axis of 0 to 1: the next tenth above all intervals."""
    columns = ["mean", "high", "band_high"]
    highest = np.nanmax(table[columns].to_numpy("float64"))
    return float(min(1.0, np.ceil(highest * 10 + 0.2) / 10))
