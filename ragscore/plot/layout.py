"""Where texts stand: titles, legends, names beside axes and at the ends of lines.

Matplotlib's constrained layout gives axes the room that their labels leave; here it is seen to that
labels leave enough. Titles, labels and names are measured and wrapped, legends go to the right or
below, and a figure of our own grows as far as its texts need.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import wrap
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.gridspec import GridSpec
from matplotlib.text import Annotation, Text
from matplotlib.ticker import FixedFormatter, FuncFormatter
from matplotlib.transforms import IdentityTransform, ScaledTranslation, blended_transform_factory

from ragscore.frames.errors import DataError
from ragscore.frames.escaping import visible
from ragscore.plot import names
from ragscore.plot.theme import figure_size, inks, sizes

PLACES = ("right", "below", "inside")
END = "ragscore:end"  # marks names at the ends of lines
PAD = 4.0  # points between a picture and the edge of its place
BESIDE = 0.3  # share of a picture's width that names or a legend beside its axes may take
MANY = 30  # rows whose names take two lines at most, lest a figure be higher than a page
AROUND = 1.1  # inches at 10 points that title and labels take of a figure's height
SMALLEST = 6.0  # points of the smallest text that is read in print
_own: "WeakKeyDictionary[Figure, float]" = WeakKeyDictionary()  # inches that its axes are high
_drawn: "WeakSet[Axes]" = WeakSet()
_said: "WeakKeyDictionary[Text, tuple[str, str]]" = WeakKeyDictionary()  # as wrapped, as written


def new_axes(ax: "Axes | None", width: float = 6.4, height: float = 4.0) -> "Axes":
    """Return the given axes, or those of a new figure of this size in inches at 10 points."""
    if ax is None:
        figure, ax = plt.subplots(figsize=figure_size(width, height), layout="constrained")
        _own[figure] = figure_size(width, max(height - AROUND, 0.8))[1]
    return ax


def rows_that_fit(ax: "Axes | None", limit: int) -> int:
    """Return how many rows with names given axes have room for, at most `limit`."""
    if ax is None:
        return limit
    _, bottom, _, top = room_of(ax)
    points = 72 / ax.figure.get_figure(root=True).dpi
    return max(min(limit, int(0.5 * (top - bottom) * points / (1.25 * SMALLEST))), 1)


def is_new(ax: "Axes") -> bool:
    """Return True if the figure is ours and may grow."""
    return ax.figure.get_figure(root=True) in _own


@contextmanager
def closing_figures() -> Iterator[None]:
    """Close the figures that were opened meanwhile if this ends in an error."""
    before = plt.get_fignums()
    try:
        yield
    except BaseException:
        for number in set(plt.get_fignums()).difference(before):
            plt.close(number)
        raise


def quiet(ax: "Axes", grid: str | None = "y") -> None:
    """Draw a pale grid along an axis, below the data, and no frame at the top and right."""
    ax.grid(visible=False)
    if grid is not None:
        ax.grid(axis=grid, color=inks().grid, linewidth=0.8)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)


def title(ax: "Axes", finding: str) -> None:
    """Write what the picture shows above its left edge, and what its runs' names share."""
    text = "\n".join(filter(None, [finding, names.note()]))
    ax.set_title(text, fontsize=sizes()["title"])


def legend(ax: "Axes", place: str | bool | None = None) -> None:
    """Put the legend where it hides no data.

    Parameters
    ----------
    place
        "right" of the axes, "below" them, "inside" where there is most room; False: none. By
        default right where it is narrow in a figure of its own, else below.

    Raises
    ------
    DataError
        Another place.
    """
    if place is not None and not isinstance(place, bool) and place not in PLACES:
        raise DataError(
            f"found {place!r}", field="legend", allowed=f"one of {', '.join(PLACES)}, or False"
        )
    if place is False or not ax.get_legend_handles_labels()[0]:
        return
    if place == "inside":
        ax.legend(loc="best", frameon=True, framealpha=0.85, edgecolor=inks().grid,
                  facecolor=inks().ground, fontsize=sizes()["note"])  # fmt: skip
        return
    is_alone = place in (None, True) and is_new(ax) and len(ax.figure.axes) == 1
    # "wide" is to the right however little room that leaves
    ax.legend(frameon=False, fontsize=sizes()["note"]).set_gid(
        "wide" if place == "right" else "auto" if is_alone else "below"
    )


def finish(ax: "Axes", finding: str, grid: str | None, place: str | bool | None = None) -> "Axes":
    """Write the finding, draw the grid and put the legend; return the axes."""
    title(ax, finding)
    quiet(ax, grid)
    legend(ax, place)
    return ax


def label_ends(ax: "Axes", ends: Sequence[tuple[float, float, str, str]]) -> bool:
    """Write names beside the ends of lines instead of a legend; they never overlap.

    Parameters
    ----------
    ends
        x and y of an end, its text and its colour.

    Returns
    -------
    False where they would take too much of the width or the height, and none is written.
    """
    points, figure = sizes()["note"], ax.figure.get_figure(root=True)
    left, _, right, _ = room_of(ax)
    texts = [visible(names.shown(text)) for _, _, text, _ in ends]
    room = BESIDE * (right - left)
    height = 1.35 * points * len(ends) * figure.dpi / 72
    if max(widths(ax, texts, points), default=0) > room or height > ax.bbox.height * 0.9:
        return False
    for (x, y, _, colour), text in zip(ends, texts, strict=True):
        ax.annotate(
            text, (x, y), (8, 0), textcoords="offset points", va="center", ha="left",
            color=colour, fontsize=points, annotation_clip=False, gid=END,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0,
                        "shrinkB": 3},
        )  # fmt: skip
    return True


def widths(ax: "Axes", texts: Sequence[str], points: float) -> list[float]:
    """Return the width of each text in pixels, at this size of type."""
    renderer: Any = ax.figure.get_figure(root=True)._get_renderer()  # type: ignore[attr-defined]
    font = FontProperties(size=points)
    return [renderer.get_text_width_height_descent(text, font, False)[0] for text in texts]


def settle(axes: Sequence["Axes"]) -> None:
    """Fit names, legends and titles to their room, and the axes between them.

    What was drawn beside these axes before is fitted again: its room is another one now.
    """
    figure: Figure = axes[0].figure.get_figure(root=True)
    _drawn.update(axes)
    axes = [ax for ax in figure.axes if ax in _drawn]
    with suppress(RuntimeError):  # a colour bar that was made without it
        figure.set_layout_engine(figure.get_layout_engine() or "constrained")
    for ax in axes:
        _fit_names(ax)
        _wrap_texts(ax)
    lay_out(figure)
    for _ in range(3):  # what is wrapped for the room that is left takes room itself
        before = [_written(ax) for ax in axes]
        for ax in axes:
            _fit_names(ax, ax.get_window_extent().height)
            _turn_names(ax)
            _wrap_texts(ax)
            _place_legend(ax)
        missing = _own.get(figure, 0.0) - axes[0].get_window_extent().height / figure.dpi
        if missing > 0.02 and len(axes) == 1:
            figure.set_figheight(figure.get_figheight() + missing)
        elif before == [_written(ax) for ax in axes]:
            break
        lay_out(figure)
    for ax in axes:
        before = _written(ax)
        _wrap_texts(ax)
        if before != _written(ax):  # a legend below lies lower or higher
            _place_legend(ax)
            lay_out(figure)
        _spread_ends(ax)


def _written(ax: "Axes") -> list[Any]:
    """Return what takes room around the axes."""
    legend = ax.get_legend()
    return [
        *(text.get_text() for text in (ax.title, ax.xaxis.label, ax.yaxis.label)),
        *(text.get_text() for axis in (ax.xaxis, ax.yaxis) for text in named(axis)),
        legend and (legend.get_gid(), [one.get_text() for one in legend.get_texts()]),
    ]


def lay_out(figure: "Figure") -> None:
    """Place the axes of a figure as its layout engine does when it is drawn, without drawing."""
    if (engine := figure.get_layout_engine()) is not None:
        with suppress(ValueError), warnings.catch_warnings():  # as where a figure is drawn
            # said when it is drawn, if there is still no room
            warnings.filterwarnings("ignore", "constrained_layout not applied", UserWarning)
            engine.execute(figure)


def room_of(ax: "Axes") -> tuple[float, float, float, float]:
    """Return left, bottom, right and top of the place of axes in pixels, less its margin.

    Axes of one grid share its figure without gaps. Those in no grid have the whole figure.
    """
    figure: Any = ax.figure
    place, spec = figure.bbox, ax.get_subplotspec()
    for one in () if spec is None else dict.fromkeys([spec.get_topmost_subplotspec(), spec]):
        grid, rows, columns = one.get_gridspec(), one.rowspan, one.colspan
        cells = GridSpec(
            grid.nrows, grid.ncols, left=place.x0, bottom=place.y0, right=place.x1, top=place.y1,
            wspace=0, hspace=0, width_ratios=grid.get_width_ratios(),
            height_ratios=grid.get_height_ratios(),
        )  # fmt: skip
        place = cells[rows.start : rows.stop, columns.start : columns.stop].get_position(figure)
    bounds: tuple[float, float, float, float] = tuple(place.padded(-PAD * figure.dpi / 72).extents)
    return bounds


def named(axis: "Axis") -> list["Text"]:
    """Return the labels of an axis if they are names."""
    labels = axis.get_majorticklabels()
    is_named = isinstance(axis.get_major_formatter(), (FixedFormatter, FuncFormatter))
    return labels if is_named and any(one.get_text() for one in labels) else []


def _fit_names(ax: "Axes", height: float = 0.0) -> None:
    """Wrap the names beside the axes; where rows are low they are small, and cut in the middle.

    `height` is that of the axes, in pixels, where it is known.
    """
    labels = named(ax.yaxis)
    if not labels:
        return
    figure = ax.figure.get_figure(root=True)
    left, bottom, right, top = room_of(ax)
    points, size = figure.dpi / 72, float(labels[0].get_fontsize())
    beside = 1.6 * float(ax.yaxis.label.get_fontsize()) * bool(ax.yaxis.label.get_text())
    room = BESIDE * (right - left) - beside * points
    most = 3 if len(labels) < MANY else 2
    if figure not in _own:
        row = (height or 0.62 * (top - bottom)) / points / len(labels)  # points
        size = max(min(size, row / 1.25), SMALLEST)
        most = max(int(row / (1.2 * size)), 1)
    for label in labels:
        label.set_fontsize(size)
    lines = max(wrap_text(label, room, cut=most) for label in labels)
    # an axis writes its labels anew whenever it is drawn
    ax.set_yticklabels([label.get_text() for label in labels])
    if figure in _own:
        _own[figure] = max(_own[figure], 1.25 * size * lines * len(labels) / 72)


def _turn_names(ax: "Axes") -> None:
    """Wrap the names below the axes to their columns, or turn them where they are too long."""
    labels = named(ax.xaxis)
    if len(labels) < 2 or any(label.get_rotation() for label in labels):
        return
    size, points = float(labels[0].get_fontsize()), ax.figure.get_figure(root=True).dpi / 72
    (low, high), places = ax.get_xlim(), np.sort(ax.get_xticks())
    share = float(np.diff(places).min() / abs(high - low))
    room = 0.94 * ax.get_window_extent().width * share / points
    if max(label.get_window_extent().width for label in labels) / points <= room:
        return
    parts = {part for label in labels for part in _PARTS.split(label.get_text())}
    fits = max(widths(ax, list(parts), size)) / points <= room
    for label in labels if fits else []:
        wrap_text(label, room * points)
    ax.set_xticklabels([label.get_text() for label in labels])
    if fits and max(label.get_window_extent().width for label in labels) / points <= room:
        return
    _, bottom, _, top = room_of(ax)
    turned: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    if room < 4.5 * size:
        turned = {"rotation": 90, "fontsize": max(min(size, 0.75 * room), SMALLEST)}
    for label in labels:
        label.set(**turned)
        wrap_text(label, BESIDE * (top - bottom), cut=1)
    ax.set_xticklabels([label.get_text() for label in labels])


def _wrap_texts(ax: "Axes") -> None:
    """Wrap title and axis labels to the room that they have."""
    box = ax.get_window_extent()
    left, bottom, right, top = room_of(ax)
    # Beside long names the axes are narrow: the title then begins at the edge of the place.
    figure: Any = ax.figure.get_figure(root=True)
    is_narrow = right - box.x0 < 0.75 * (right - left)
    begin = left if is_narrow else box.x0
    room = right - begin - PAD * figure.dpi / 72  # axes may move a little when they are drawn
    across = figure.transFigure if is_narrow else ax.transAxes
    place: Any = blended_transform_factory(across, ax.transAxes)
    place += ax.titleOffsetTrans  # type: ignore[attr-defined]
    ax.title.set(x=left / figure.bbox.width if is_narrow else 0.0, ha="left", transform=place)
    if wrap_text(ax.title, room) > 3 and ax.figure not in _own:
        ax.title.set_fontsize(sizes()["note"])
        wrap_text(ax.title, room)
    # A label may be as wide as the place: it then stands in the middle of that.
    is_wide = box.width < 0.75 * (right - left)
    middle = (left + right) / 2 if is_wide else (box.x0 + box.x1) / 2
    across = figure.transFigure if is_wide else ax.transAxes
    ax.xaxis.label.set(
        x=middle / figure.bbox.width if is_wide else 0.5, ha="center",
        transform=blended_transform_factory(across, IdentityTransform()),
    )  # fmt: skip
    wrap_text(ax.xaxis.label, 2 * min(middle - left, right - middle))
    most = 2 if right - left < 4.5 * ax.figure.get_figure(root=True).dpi else 3
    wrap_text(ax.yaxis.label, min(box.height * 1.15, top - bottom), cut=most, is_upright=True)


def wrap_text(text: "Text", room: float, *, cut: int = 0, is_upright: bool = False) -> int:
    """Wrap a text that takes more pixels than there is room; return its lines.

    It may break at spaces and after marks such as underscores. With `cut`, it has at most so many
    lines: of more, the middle is left out.
    """
    shown, said = _said.get(text, ("", ""))
    if text.get_text() != shown:
        said = text.get_text()
    text.set_text(said)  # else lines that were wrapped for less room would stay apart
    for _ in range(4):
        box = text.get_window_extent()
        taken = box.height if is_upright or text.get_rotation() == 90 else box.width
        if text.get_rotation() not in (0, 90):
            taken = float(np.hypot(box.width, box.height))
        longest = max((len(line) for line in text.get_text().split("\n")), default=0)
        if taken <= room or longest < 6:
            break
        letters = max(int(longest * room / taken), 5)
        lines = [one for line in said.split("\n") for one in _lines(line, letters)]
        if cut and len(lines) > cut:
            kept = max(letters * cut - cut, 2)  # of its letters, at both ends
            ends = f"{said[: (kept + 1) // 2]}…{said[-(kept // 2) :]}"
            lines = _lines(ends if len(said) > kept + 1 else said, letters)[:cut]
        text.set_text("\n".join(lines))
    _said[text] = text.get_text(), said
    return text.get_text().count("\n") + 1


_MARKS = re.compile(r"([_\-/.:,+@])")
_PARTS = re.compile(r"\s|(?<=[_\-/.:,+@])")


def _lines(line: str, letters: int) -> list[str]:
    """Return the lines of a text: words that are too long break after marks, else anywhere."""
    words = [
        word if len(word) <= letters else _MARKS.sub("\\1\u200b ", word)
        for word in line.replace(" = ", "\u00a0=\u00a0").split(" ")
    ]
    found = wrap(" ".join(words), letters, break_on_hyphens=False) or [""]
    return [one.replace("\u200b ", "").strip("\u200b").replace("\u00a0", " ") for one in found]


def _place_legend(ax: "Axes") -> None:
    """Put a legend to the right if it is narrow, else below all that stands under the axes."""
    found = ax.get_legend()
    if found is None or (place := found.get_gid()) not in ("auto", "wide", "below"):
        return
    figure = ax.figure.get_figure(root=True)
    left, _, right, _ = room_of(ax)
    box, points = ax.get_window_extent(), figure.dpi / 72
    taken = found.get_window_extent().width + 6 * points
    if place == "wide" or (place == "auto" and box.width - taken >= 0.57 * (right - left)):
        found.set_gid("right")
        found.set_loc("upper left")
        found.set_bbox_to_anchor((1.01, 1), ax.transAxes)
        return
    # as they were before they were wrapped for less room
    texts = [_said.get(text, ("", text.get_text()))[1] for text in found.get_texts()]
    handles: Any = ax.get_legend_handles_labels()[0]
    if len(handles) != len(texts):
        handles = found.legend_handles  # of an error bar these lack the mark
    again = ax.legend(
        handles, texts, ncols=columns_of(ax, texts, 0.95 * box.width), loc="upper left",
        frameon=False, fontsize=sizes()["note"], columnspacing=1.2, borderaxespad=0.0,
        borderpad=0.0, handlelength=1.8,
    )  # fmt: skip
    for text in again.get_texts():
        text.set_parse_math(False)
        wrap_text(text, box.width - 36 * points, cut=2)
    again.set_gid("below")
    under = ax.xaxis.get_tightbbox()
    drop = (box.y0 - under.y0 if under is not None else 0.0) / points + PAD
    shift = ScaledTranslation(0, -drop / 72, figure.dpi_scale_trans)
    again.set_bbox_to_anchor((0, 0), ax.transAxes + shift)


def columns_of(ax: "Axes", texts: Sequence[str], room: float, most: int = 4) -> int:
    """Return in how many columns, at most, a legend of these texts takes so many pixels."""
    size = sizes()["note"]
    em = size * ax.figure.get_figure(root=True).dpi / 72
    taken = [2.6 * em + one for one in widths(ax, texts, size)]  # with the marks before them
    fitting = (
        n for n in range(min(most, len(texts)), 1, -1)
        if sum(map(max, np.array_split(taken, n))) + 1.2 * em * (n - 1) <= room
    )  # fmt: skip
    return next(fitting, 1)


def _spread_ends(ax: "Axes") -> None:
    """Move names at line ends apart, each as near to its end as the others leave room."""
    names: list[Annotation] = [
        text for text in ax.texts if isinstance(text, Annotation) and text.get_gid() == END
    ]
    places = np.array([ax.transData.transform(name.xy)[1] for name in names], dtype=float)
    # an annotation's own extent holds its line as well
    heights = np.array([Text.get_window_extent(name).height for name in names]) * 1.02
    bounds = ax.get_window_extent().intervaly
    for name, offset in zip(names, spread(places, heights, *bounds) - places, strict=True):
        points = offset * 72 / ax.figure.get_figure(root=True).dpi
        name.set_position((8 if abs(points) < 3 else 16, points))
        if name.arrow_patch is not None:
            name.arrow_patch.set_visible(abs(points) >= 3)


def spread(places: Any, heights: Any, low: float, high: float) -> Any:
    """Return the nearest places at which intervals of these heights don't overlap; [] of none.

    They are moved the least in the sum of squares (isotonic regression), and into low to high
    as far as they fit.
    """
    if not len(places):
        return np.zeros(0)
    order = np.argsort(places, kind="stable")
    y, size = np.asarray(places, float)[order], np.asarray(heights, float)[order]
    below = np.concatenate([[0.0], np.cumsum((size[1:] + size[:-1]) / 2)])
    # each is the highest of the lowest means around it; scipy.optimize has this, but takes longer
    # to import than a figure to draw
    sums = np.concatenate([[0.0], np.cumsum(y - below)]).tolist()
    rising = [
        max(
            min((sums[end] - sums[start]) / (end - start) for end in range(place + 1, len(sums)))
            for start in range(place + 1)
        )
        for place in range(len(y))
    ]
    # isotonic within bounds: clipping an isotonic fit keeps it the nearest
    bottom, top = low + size[0] / 2, high - size[-1] / 2 - below[-1]
    return (np.clip(rising, bottom, max(top, bottom)) + below)[np.argsort(order)]
