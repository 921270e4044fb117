"""A metric over runs in order of time, with breaks, bridges and the noise band."""

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.analysis.trend.trend import COLUMNS, LED_BY, Trend
from ragscore.frames.data import DataError
from ragscore.plot.lettering import lettered
from ragscore.plot.style import (
    MARKERS,
    PALETTE,
    check_columns,
    error_lengths,
    legend,
    n_text,
    new_axes,
    new_figure,
    scale_of,
    unit_scale,
    wrapped,
)
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import slice_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

DARK, NOISE = "#333333", "#BBBBBB"
MAX_PANELS = 12
LONGEST = 26  # characters of a name in the reason of a break
_LINE = 11  # points of a line of text above the axes


@lettered
def trend(
    table: pd.DataFrame | Trend,
    *,
    columns: int = 3,
    limit: int = MAX_PANELS,
    ax: "Axes | None" = None,
    figure: "FigureBase | None" = None,
) -> "Axes":
    """Draw one metric over runs: a line per system, its 95 % intervals as a band.

    A line ends where the provenance of the scores changed; the reason is above the break. A dashed
    line is a bridge: it starts, hollow, at the value of an earlier run under the newer provenance.
    The grey band holds 95 % of the runs of an unchanged system. A ring marks the baseline. Hollow
    markers are values that a run only reports: nothing is known of their spread. Times and costs
    are medians, without the band and the bridges, which are of means.

    A sliced trend has small panels on one scale, one per slice; runs are numbered by their
    position.

    Parameters
    ----------
    table
        A `Trend`, or its table.
    columns
        Panels side by side.
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
        Not the table of a trend; an `ax` for several panels.
    """
    shown = table.table if isinstance(table, Trend) else table
    check_columns(shown, set(COLUMNS), "table", "store.trend(metric), or its table")
    shown = _leading(shown)
    by = [str(name) for name in shown.columns if name not in COLUMNS]
    if not by:
        return _one_panel(shown, ax)
    if ax is not None:
        raise DataError(
            f"one axes for a trend by {' × '.join(by)}",
            field="ax",
            allowed="figure=, a figure or part of one",
        )
    return _panels(shown, by, columns, limit, figure)


def _leading(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose `mean`, `low`, `high` are what is drawn: of times, the medians."""
    if describe(str(table["metric"].iloc[0])).kind not in BY_QUANTILES:
        return table
    medians = {name: table[source] for name, source in zip(LED_BY[0], LED_BY[1], strict=True)}
    of_means = ("bridge_mean", "provenance_effect", "band_low", "band_high")
    return table.assign(
        **medians, **dict.fromkeys(of_means, np.nan), in_band=None, first_out_of_control=False
    )


def _drawn(table: pd.DataFrame) -> str:
    """Say what is drawn."""
    metric = str(table["metric"].iloc[0])
    name = "median" if describe(metric).kind in BY_QUANTILES else "mean"
    interval = "" if table["low"].isna().all() else " with 95 % interval"
    return f"{metric}, {name}{interval}"


def _one_panel(shown: pd.DataFrame, ax: "Axes | None") -> "Axes":
    labels = _labels(shown)
    # A slanted line of 8 points takes 0.28 inches of the axis, an upright one half of that.
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    slanted = 0.28 * lines * len(shown) <= 6
    n_breaks = len(_break_lines(shown))
    ax = new_axes(
        ax,
        width=max(7.0, (0.36 if slanted else 0.15 * lines) * len(shown) + 3),
        height=(3.6 if slanted else 4.8) + _LINE * n_breaks / 72,
    )
    _draw(ax, shown)
    ax.set_xlim(0.5, len(shown) + 0.5)  # a run at either end may have no value
    _write_breaks(ax, shown)
    ax.set_xticks(
        shown["position"].to_numpy(),
        labels,
        rotation=30 if slanted else 90,
        ha="right" if slanted else "center",
        fontsize=8,
    )
    ax.set_ylabel(_drawn(shown))
    told = shown[shown["n"].notna()]
    title = "runs that only report aggregates: n isn't told"
    if len(told):
        title = f"n = {n_text(told, 'metric', shown['metric'].iloc[0])} queries a run"
    ax.set_title(title, fontsize=10, pad=6 + _LINE * n_breaks)
    legend(ax)
    return ax


def _panels(
    table: pd.DataFrame, by: list[str], columns: int, limit: int, figure: "FigureBase | None"
) -> "Axes":
    slices = slice_texts(table, by)
    sizes = table.groupby(slices, sort=False)["n"].max()
    kept = sizes.sort_values(ascending=False, kind="stable").index[:limit]
    names = [name for name in sizes.index if name in set(kept)]
    rows = -(-len(names) // columns)
    figure = new_figure(figure, 3.6 * columns + 1.5, 2.5 * rows + 0.6)
    panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
    for ax, name in zip(panels, names, strict=False):
        own = table[slices == name]
        _draw(ax, own, systems=table["system"].unique().tolist())
        for position in own.loc[own["break_reason"].notna(), "position"]:
            ax.axvline(position - 0.5, color=DARK, linewidth=0.8, linestyle=":")
        ax.set_title(
            wrapped(f"{name} (n = {n_text(own, 'metric', own['metric'].iloc[0])})", 34), fontsize=9
        )
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    if panels[0].get_ylim()[1] <= 1:
        # the axes are shared: the last panel's end would cut others
        panels[0].set_ylim(top=_top(table))
    for ax in panels[len(names) :]:
        ax.remove()
    more = f", the {len(names)} largest of {len(sizes)} slices" if len(names) < len(sizes) else ""
    figure.suptitle(
        f"{table['metric'].iloc[0]} by {' × '.join(by)}, {_drawn(table).split(', ', 1)[1]}{more}",
        fontsize=10,
    )
    for ax in panels[max(len(names) - columns, 0) : len(names)]:
        ax.set_xlabel("run, in order")
        ax.xaxis.set_tick_params(labelbottom=True)
    legend(panels[min(columns, len(names)) - 1])
    found: Axes = panels[0]
    return found


def _labels(table: pd.DataFrame) -> list[str]:
    """Return run names, with times if the runs are from several days."""
    times = table["created_at"].dt.strftime("%Y-%m-%d %H:%M").fillna("")
    names = [wrapped(str(run), 24) for run in table["run_id"]]
    if table["created_at"].dt.date.nunique() < 2:
        return names
    return [f"{name}\n{time}" if time else name for name, time in zip(names, times, strict=True)]


def _draw(ax: "Axes", table: pd.DataFrame, systems: list[str] | None = None) -> None:
    """Draw lines, noise band, baseline and bridges of one panel."""
    table = table.assign(system=table["system"].fillna("run"))
    names = pd.Series(
        [name if isinstance(name, str) else "run" for name in systems or table["system"].unique()]
    ).unique()
    for number, system in enumerate(names):
        colour, marker = PALETTE[number % 8], MARKERS[number % 8]
        own = table[(table["system"] == system) & table["mean"].notna()]
        for place, (_, rows) in enumerate(own.groupby("segment", sort=False)):
            x = rows["position"].to_numpy()
            label = wrapped(str(system)) if place == 0 else None
            ax.errorbar(
                x,
                rows["mean"],
                yerr=error_lengths(rows),
                marker=marker,
                color=colour,
                capsize=2,
                elinewidth=0.7,
                linewidth=1.4,
                markersize=5,
                label=label,
            )
            ax.fill_between(
                x,
                rows["low"].astype("float64"),
                rows["high"].astype("float64"),
                color=colour,
                alpha=0.13,
                linewidth=0,
            )
    _draw_reported(ax, table, names.tolist())
    _draw_noise(ax, table)
    _draw_baseline(ax, table)
    _draw_bridges(ax, table)
    unit_scale(
        ax,
        scale_of(table.assign(min=table["low"], max=table["high"]), str(table["metric"].iloc[0])),
    )
    ax.set_ylim(top=_top(table) if ax.get_ylim()[1] == 1 else None)


def _draw_reported(ax: "Axes", table: pd.DataFrame, names: list[str]) -> None:
    """Make the markers hollow of values that a run only reports."""
    told = table[table["is_reported"].astype("bool") & table["mean"].notna()]
    for number, (system, rows) in enumerate(told.groupby("system", sort=False)):
        place = names.index(str(system))
        ax.plot(
            rows["position"], rows["mean"], linestyle="none", marker=MARKERS[place % 8],
            markersize=6, markerfacecolor="white", markeredgecolor=PALETTE[place % 8],
            markeredgewidth=1.3, zorder=4, clip_on=False,
            label="reported, without rows" if number == 0 else None,
        )  # fmt: skip


def _top(table: pd.DataFrame) -> float:
    """Return the end of an axis of 0 to 1: the next tenth above all intervals."""
    return float(
        min(
            1.0,
            np.ceil(np.nanmax(table[["mean", "high", "band_high"]].to_numpy("float64")) * 10 + 0.2)
            / 10,
        )
    )


def _draw_noise(ax: "Axes", table: pd.DataFrame) -> None:
    known = table[table["band_low"].notna()]
    for place, (_, rows) in enumerate(known.groupby("segment", sort=False)):
        x = np.repeat(rows["position"].to_numpy("float64"), 2) + np.tile([-0.5, 0.5], len(rows))
        low, high = (
            np.repeat(rows[name].to_numpy("float64"), 2) for name in ("band_low", "band_high")
        )
        label = (
            wrapped(f"noise of {rows['band_from'].iloc[0]}: 95 % of runs", 30)
            if place == 0
            else None
        )
        ax.fill_between(
            x,
            low,
            high,
            facecolor=NOISE,
            alpha=0.3,
            edgecolor=DARK,
            linewidth=0.6,
            linestyle=(0, (1, 2)),
            zorder=0,
            label=label,
        )
    left = table[table["first_out_of_control"]]
    for x, y in zip(left["position"], left["mean"], strict=True):
        ax.annotate(
            "left the band",
            (x, y),
            (0, 22),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            arrowprops={"arrowstyle": "->", "color": DARK},
        )


def _draw_baseline(ax: "Axes", table: pd.DataFrame) -> None:
    marked = table[table["is_baseline"]]
    if len(marked):
        ax.plot(
            marked["position"],
            marked["mean"],
            linestyle="none",
            marker="o",
            markersize=12,
            markerfacecolor="none",
            markeredgecolor=DARK,
            markeredgewidth=1.4,
            label="baseline",
        )


def _draw_bridges(ax: "Axes", table: pd.DataFrame) -> None:
    """Draw a dashed line from an earlier run's value under the newer provenance.

    It ends at the first run that was scored that way.
    """
    runs = table.set_index("run_id")[["position", "mean"]].astype("float64")
    first = table[table["bridge_mean"].notna() & table["bridge"].isin(runs.index)]
    earlier = runs.loc[first["bridge"]]
    ends = np.column_stack(
        [earlier, first[["position", "mean", "bridge_mean", "provenance_effect"]].astype("float64")]
    ).tolist()
    for number, (x, y, position, mean, bridged, moved) in enumerate(ends):
        label = "bridge: an earlier run,\nunder the newer provenance" if number == 0 else None
        ax.plot(
            [x, position],
            [bridged, mean],
            color=DARK,
            linewidth=1,
            linestyle="--",
            zorder=3,
            label=label,
        )
        ax.plot(
            [x],
            [bridged],
            marker="D",
            markersize=6,
            markerfacecolor="white",
            markeredgecolor=DARK,
            linestyle="none",
            zorder=4,
        )
        if abs(moved) > 1e-9:
            ax.plot([x, x], [y, bridged], color=DARK, linewidth=1, linestyle=":", zorder=3)
            ax.annotate(
                f"{moved:+.3f}",
                (x, bridged),
                (-5, 3),
                textcoords="offset points",
                ha="right",
                fontsize=8,
            )


def _shortened(found: "re.Match[str]") -> str:
    """Return the beginning of a long name; the notes have it whole."""
    return f"{found[0][: LONGEST - 1]}…"


def _break_lines(table: pd.DataFrame) -> list[tuple[float, str]]:
    """Return the lines above the axes, from the top: the position of a break, and what changed."""
    broken = table[table["break_reason"].notna()]
    return [
        (float(position), re.sub(rf"[^\s()]{{{LONGEST + 1},}}", _shortened, change))
        for position, reason in zip(broken["position"], broken["break_reason"], strict=True)
        for change in str(reason).split("; ")
    ]


def _write_breaks(ax: "Axes", table: pd.DataFrame) -> None:
    """Draw a dotted line at each break, and write its reason above the axes."""
    lines = _break_lines(table)
    for row, (position, change) in enumerate(lines):
        is_left = position <= table["position"].max() / 2
        height = 3 + _LINE * (len(lines) - 1 - row)
        ax.axvline(position - 0.5, color=DARK, linewidth=0.9, linestyle=":")
        ax.annotate(
            f"▾ {change}" if is_left else f"{change} ▾", (position - 0.5, 1),
            (-4 if is_left else 4, height), xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="left" if is_left else "right", va="bottom", fontsize=8, color=DARK,
        )  # fmt: skip
