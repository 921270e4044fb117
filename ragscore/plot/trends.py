"""A metric over runs in order of time, with what changed between them and the noise band."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.analysis.trend.trend import COLUMNS, LED_BY, Trend
from ragscore.frames.data import DataError
from ragscore.plot.layout import label_ends, legend, new_axes, quiet
from ragscore.plot.lettering import lettered
from ragscore.plot.runs import MAX_BANDS
from ragscore.plot.style import (
    RunStyle,
    check_columns,
    error_lengths,
    in_order,
    n_text,
    new_figure,
    run_styles,
    scale_of,
    unit_scale,
    wrapped,
)
from ragscore.plot.theme import sizes
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, table_kind
from ragscore.scoring.summary import slice_texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

DARK, NOISE = "#333333", "#BBBBBB"
MAX_PANELS = 12
MAX_CHANGES = 12  # lines below the axes
LONGEST = 26  # characters of a name in the reason of a break
WIDEST = 90  # characters of a line below the axes
_LINE = 12  # points of a row of numbers above the axes


@lettered
def trend(
    table: pd.DataFrame | Trend,
    *,
    highlight: Sequence[str] | str | None = None,
    order: Sequence[str] | None = None,
    columns: int = 3,
    limit: int = MAX_PANELS,
    ax: "Axes | None" = None,
    figure: "FigureBase | None" = None,
) -> "Axes":
    """Draw one metric over time: a line per system, its 95 % intervals as a band.

    Where runs lack times or share them, they stand in their order instead. A line ends where the
    provenance of the scores changed. Numbers above the axes mark such breaks, and changes of a
    system's config; the list below says what changed. A dashed line is a bridge: it starts, hollow,
    at the value of an earlier run under the newer provenance. The grey band holds 95 % of the runs
    of an unchanged system. A ring marks the baseline. Hollow markers are values that a run only
    reports. Bands are drawn of at most four systems; a lone point has a bar instead. Times and
    costs are medians, without noise band and bridges, which are of means.

    Parameters
    ----------
    table
        A `Trend`, or its table.
    highlight
        Systems that keep their colour and their band; the others are grey and thin.
    order
        Slices that come first; by default words of a scale (easy, medium, hard) in its order.
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
        Not the table of a trend, or no run has a value; an `ax` for several panels; an unknown
        system or slice.
    """
    shown, declared = (
        (table.table, table.declared) if isinstance(table, Trend) else (table, NOTHING_DECLARED)
    )
    needed = set(COLUMNS) - {"config_change"}  # reports of before have none
    check_columns(shown, needed, "table", "store.trend(metric), or its table")
    shown = _leading(shown)
    if shown["mean"].isna().all():
        raise DataError("no run has a value", field="table", allowed="a trend with n > 0")
    shown = shown.assign(system=shown["system"].fillna("run").astype("str"))
    shown, is_dated = _placed(shown)
    styles = run_styles(shown["system"], highlight)
    by = [str(name) for name in shown.columns if name not in (*COLUMNS, "x", "left", "right")]
    if not by:
        return _one_panel(shown, styles, is_dated, ax, declared)
    if ax is not None:
        raise DataError(
            f"one axes for a trend by {' × '.join(by)}",
            field="ax",
            allowed="figure=, a figure or part of one",
        )
    return _panels(shown, styles, is_dated, by, order, columns, limit, figure, declared)


def _placed(table: pd.DataFrame) -> tuple[pd.DataFrame, bool]:
    """Add `x` of each run, with the `left` and `right` ends of its share of the axis.

    x is the run's time if every run has one of its own and time is their order, else its position.
    """
    runs = table.drop_duplicates("position").sort_values("position")
    x = runs["position"].to_numpy("float64")
    times = pd.to_datetime(runs["created_at"], utc=True)
    is_dated = bool(
        len(x) > 1 and times.notna().all() and times.is_monotonic_increasing and times.is_unique
    )
    if is_dated:
        from matplotlib.dates import date2num

        x = np.asarray(
            date2num(times.dt.tz_localize(None).to_numpy()),  # type: ignore[no-untyped-call]
            dtype="float64",
        )
    middle = (x[1:] + x[:-1]) / 2
    ends = (
        [2 * x[0] - middle[0], 2 * x[-1] - middle[-1]] if len(x) > 1 else [x[0] - 0.5, x[0] + 0.5]
    )
    edges = np.concatenate([ends[:1], middle, ends[1:]])
    place = np.searchsorted(runs["position"].to_numpy(), table["position"].to_numpy())
    return table.assign(x=x[place], left=edges[place], right=edges[place + 1]), is_dated


def _leading(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose `mean`, `low`, `high` are what is drawn: of times, the medians."""
    if table_kind(str(table["metric"].iloc[0])) not in BY_QUANTILES:
        return table
    medians = {name: table[source] for name, source in zip(LED_BY[0], LED_BY[1], strict=True)}
    of_means = ("bridge_mean", "provenance_effect", "band_low", "band_high")
    return table.assign(
        **medians, **dict.fromkeys(of_means, np.nan), in_band=None, first_out_of_control=False
    )


def _drawn(table: pd.DataFrame, styles: dict[str, RunStyle]) -> str:
    """Say what is drawn."""
    metric = str(table["metric"].iloc[0])
    name = "median" if table_kind(metric) in BY_QUANTILES else "mean"
    is_told = _banded(styles) and table["low"].notna().any()
    return f"{metric}, {name}{' with 95 % interval' if is_told else ''}"


def _banded(styles: dict[str, RunStyle]) -> list[str]:
    """Return the systems whose intervals are drawn."""
    bright = [name for name, style in styles.items() if not style.is_muted]
    return bright if len(bright) <= MAX_BANDS else []


def _finding(table: pd.DataFrame) -> str:
    """Say how the newest system moved while its scores were computed the same way."""
    known = table[table["mean"].notna()]
    metric = str(table["metric"].iloc[0])
    n = (
        f"n = {n_text(known['n'])} queries a run"
        if known["n"].notna().any()
        else "runs that only report aggregates: n isn't told"
    )
    last = known.iloc[-1]
    own = known[(known["system"] == last["system"]) & (known["segment"] == last["segment"])]
    if len(own) < 2:
        return f"{metric} of {last['system']}: {last['mean']:.3g} at the last run ({n})"
    first, moved = own.iloc[0], float(last["mean"] - own["mean"].iloc[0])
    digits = 3 if abs(last["mean"]) < 10 else 0
    word = "rose by" if moved > 0 else "fell by"
    change = f"{word} {abs(moved):.{digits}f}" if round(moved, digits) else "did not move"
    since = f"since {first['run_id']}"
    if pd.notna(first["created_at"]) and first["created_at"].date() != last["created_at"].date():
        since = f"since {first['created_at']:%Y-%m-%d}"
    noise = {True: ", within the noise", False: ", outside the noise"}
    within = "" if pd.isna(last["in_band"]) else noise[bool(last["in_band"])]
    return f"{metric}: {last['system']} {change} {since}, scored alike{within} ({n})"


def _one_panel(
    shown: pd.DataFrame,
    styles: dict[str, RunStyle],
    is_dated: bool,
    ax: "Axes | None",
    declared: Declarations,
) -> "Axes":
    is_given = ax is not None
    found = _changes(shown)
    changes = found[: 3 if is_given else MAX_CHANGES]
    ends = _ends(shown, styles)
    longest = max((len(str(run)) for run in shown["run_id"]), default=0)
    below = len(changes) * 0.16 + (0.0 if is_dated else 0.07 * min(longest, 60))
    ax = new_axes(ax, width=7.6, height=max(3.4, 0.16 * len(ends) + 0.9) + below)
    _draw(ax, shown, styles, declared, is_named=not ends)
    ax.set_xlim(shown["left"].min(), shown["right"].max())  # a run at an end may have no value
    _time_axis(ax, shown, is_dated)
    rows = _write_changes(ax, shown, changes, 0.1 if is_given else 0.035)
    size = sizes()
    lines = [f"{number}  {text}" for number, (text, _, _) in enumerate(changes, 1)]
    if len(found) > len(changes):
        lines += [f"{len(found) - len(changes)} more changes: the trend's table"]
    ax.set_xlabel("\n".join(lines), x=0.0 if not is_given else 0.5,
                  ha="left" if not is_given else "center", fontsize=size["note"])  # fmt: skip
    ax.set_ylabel(_drawn(shown, styles))
    ax.set_title(_finding(shown), x=0.0, ha="left", fontsize=size["title"], pad=6 + _LINE * rows)
    if ends:
        label_ends(ax, ends)
    legend(ax)
    return ax


def _ends(table: pd.DataFrame, styles: dict[str, RunStyle]) -> list[tuple[float, float, str, str]]:
    """Return the ends of lines to label, if all systems have runs until late; else none."""
    known = table[table["mean"].notna()]
    last = known.drop_duplicates("system", keep="last")
    start, end = table["left"].min(), table["right"].max()
    if not len(last) or (last["x"] < start + 0.6 * (end - start)).any():
        return []
    return [
        (end, mean, wrapped(system, 24), styles[system].colour)
        for system, mean in zip(last["system"], last["mean"], strict=True)
    ]


def _time_axis(ax: "Axes", table: pd.DataFrame, is_dated: bool, is_small: bool = False) -> None:
    """Write dates below the axis, or run names where there are none; in a small panel positions."""
    if is_dated:
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locate: Any = AutoDateLocator
        places = locate(minticks=2, maxticks=4 if is_small else 6)
        ax.xaxis.set_major_locator(places)
        shorten: Any = ConciseDateFormatter
        ax.xaxis.set_major_formatter(shorten(places, show_offset=True))
    elif not is_small:
        step = -(-len(table) // 24)
        kept = table.iloc[::step]
        names = [wrapped(str(run), 24).replace("\n", "") for run in kept["run_id"]]
        ax.set_xticks(kept["x"].to_numpy(), names, rotation=90, fontsize=sizes()["note"])


def _panels(
    table: pd.DataFrame,
    styles: dict[str, RunStyle],
    is_dated: bool,
    by: list[str],
    order: Sequence[str] | None,
    columns: int,
    limit: int,
    figure: "FigureBase | None",
    declared: Declarations,
) -> "Axes":
    slices = slice_texts(table, by)
    largest = table.groupby(slices, sort=False)["n"].max()
    kept = largest.sort_values(ascending=False, kind="stable").index[:limit]
    names = [name for name in in_order(largest.index, order) if name in set(kept)]
    rows = -(-len(names) // columns)
    is_own = figure is None
    height = max(2.5 * rows + 0.6, 0.2 * len(styles) + 0.8)
    figure = new_figure(figure, 3.0 * columns + 2.0, height)
    panels: list[Axes] = list(
        figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    )
    for ax, name in zip(panels, names, strict=False):
        own = table[slices == name]
        _draw(ax, own, styles, declared)
        for place in own.loc[own["break_reason"].notna(), "left"]:
            ax.axvline(place, color=DARK, linewidth=0.8, linestyle=":")
        ax.set_title(
            wrapped(f"{name} (n\u00a0=\u00a0{n_text(own['n'])})", 34), fontsize=sizes()["label"]
        )
    if panels[0].get_ylim()[1] <= 1:
        # the axes are shared: the last panel's end would cut others
        panels[0].set_ylim(top=_top(table))
    panels[0].set_xlim(table["left"].min(), table["right"].max())
    for ax in panels[len(names) :]:
        ax.remove()
    more = f", the {len(names)} largest of {len(largest)} slices"
    drawn = _drawn(table, styles).split(", ", 1)[1]
    figure.suptitle(
        f"{table['metric'].iloc[0]} by {' × '.join(by)}, {drawn}"
        + (more if len(names) < len(largest) else ""),
        fontsize=sizes()["title"],
    )
    for ax in panels[max(len(names) - columns, 0) : len(names)]:
        _time_axis(ax, table, is_dated, is_small=True)
        ax.set_xlabel("" if is_dated else "run, in order")
        ax.xaxis.set_tick_params(labelbottom=True)
    if is_own:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right upper",
                      frameon=False, fontsize=sizes()["note"])  # fmt: skip
    else:
        legend(panels[min(columns, len(names)) - 1])
    return panels[0]


def _draw(
    ax: "Axes",
    table: pd.DataFrame,
    styles: dict[str, RunStyle],
    declared: Declarations,
    is_named: bool = True,
) -> None:
    """Draw lines, noise band, baseline and bridges of one panel; a legend names the systems."""
    banded = _banded(styles)
    for system, style in styles.items():
        own = table[(table["system"] == system) & table["mean"].notna()]
        for place, (_, rows) in enumerate(own.groupby("segment", sort=False)):
            ax.plot(
                rows["x"], rows["mean"], marker=style.marker, markersize=style.size,
                linewidth=style.width, linestyle=style.line, zorder=2 if style.is_muted else 3,
                label=wrapped(system) if place == 0 and is_named else None,
                color=style.colour, clip_on=False,
            )  # fmt: skip
            if system not in banded:
                continue
            if len(rows) == 1:
                ax.errorbar(rows["x"], rows["mean"], yerr=error_lengths(rows), fmt="none",
                            ecolor=style.colour, elinewidth=1)  # fmt: skip
            else:
                low, high = (rows[name].astype("float64") for name in ("low", "high"))
                ax.fill_between(rows["x"], low, high, color=style.colour, alpha=0.13, linewidth=0)
    # values that a run only reports have hollow markers
    told = table[table["is_reported"].astype("bool") & table["mean"].notna()]
    for number, (name, rows) in enumerate(told.groupby("system", sort=False)):
        style = styles[str(name)]
        ax.plot(
            rows["x"], rows["mean"], linestyle="none", marker=style.marker,
            markersize=style.size, markerfacecolor="white", markeredgecolor=style.colour,
            markeredgewidth=1.3, zorder=4, clip_on=False,
            label="reported, without rows" if number == 0 else None,
        )  # fmt: skip
    _draw_noise(ax, table)
    marked = table[table["is_baseline"]]
    if len(marked):
        ax.plot(
            marked["x"],
            marked["mean"],
            linestyle="none",
            marker="o",
            markersize=12,
            markerfacecolor="none",
            markeredgecolor=DARK,
            markeredgewidth=1.4,
            clip_on=False,
            label="baseline",
        )
    _draw_bridges(ax, table)
    ends = table.assign(min=table["low"], max=table["high"])
    unit_scale(ax, scale_of(ends, str(table["metric"].iloc[0]), declared))
    quiet(ax)
    ax.set_ylim(top=_top(table) if ax.get_ylim()[1] == 1 else None)


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
        x = rows[["left", "right"]].to_numpy("float64").ravel()
        low, high = (
            np.repeat(rows[name].to_numpy("float64"), 2) for name in ("band_low", "band_high")
        )
        label = f"noise of {rows['band_from'].iloc[0]}: 95 % of runs"
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
            label=wrapped(label, 30) if place == 0 else None,
        )
    left = table[table["first_out_of_control"]]
    for x, y in zip(left["x"], left["mean"], strict=True):
        ax.annotate(
            "left the band",
            (x, y),
            (0, 22),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            arrowprops={"arrowstyle": "->", "color": DARK},
        )


def _draw_bridges(ax: "Axes", table: pd.DataFrame) -> None:
    """Draw a dashed line from an earlier run's value under the newer provenance.

    It ends at the first run that was scored that way.
    """
    runs = table.set_index("run_id")[["x", "mean"]].astype("float64")
    first = table[table["bridge_mean"].notna() & table["bridge"].isin(runs.index)]
    earlier = runs.loc[first["bridge"]]
    ends = np.column_stack(
        [earlier, first[["x", "mean", "bridge_mean", "provenance_effect"]].astype("float64")]
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


def _changes(table: pd.DataFrame) -> list[tuple[str, float, bool]]:
    """Return what changed, in order: its text, its first place, True for a break.

    A change of config that several runs share is one.
    """
    found: dict[str, tuple[float, bool]] = {}
    configs = table["config_change"] if "config_change" in table else [None] * len(table)
    rows = zip(table["break_reason"], configs, table["left"], table["x"], strict=True)
    for reason, config, left, x in rows:
        if isinstance(reason, str) and reason:
            found.setdefault(reason, (left, True))
        if isinstance(config, str) and config:
            found.setdefault(f"config: {config}", (x, False))
    changes = []
    for text, (x, is_break) in found.items():  # the notes have long names whole
        text = re.sub(rf"[^\s()]{{{LONGEST + 1},}}", lambda n: f"{n[0][: LONGEST - 1]}…", text)
        changes.append((text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…", x, is_break))
    return changes


def _write_changes(
    ax: "Axes", table: pd.DataFrame, changes: list[tuple[str, float, bool]], room: float
) -> int:
    """Number the changes above the axes, and return the rows that the numbers take.

    A break has a dotted line, a change of config a small mark. `room` is the share of the axes that
    a number needs.
    """
    for left in table.loc[table["break_reason"].notna(), "left"].unique():
        ax.axvline(left, color=DARK, linewidth=0.9, linestyle=":")
    low, high = ax.get_xlim()
    rows: list[float] = []  # the place of the last number of each row
    for number, (_, x, is_break) in enumerate(changes, 1):
        place = (x - low) / (high - low)
        row = next((n for n, last in enumerate(rows) if place - last >= room), len(rows))
        rows[row : row + 1] = [place]
        if not is_break:
            ax.plot([x], [1], marker=7, markersize=4, color=DARK, linestyle="none",
                    transform=ax.get_xaxis_transform(), clip_on=False)  # fmt: skip
        ax.annotate(
            str(number), (x, 1), (0, 5 + _LINE * row), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", va="bottom", fontsize=sizes()["note"],
            fontweight="bold", color=DARK, annotation_clip=False,
        )  # fmt: skip
    return len(rows)
