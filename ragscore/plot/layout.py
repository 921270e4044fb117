"""Where texts stand: titles, legends, names at the ends of lines, axes within their place.

A caller's `plt.subplots(1, 2)` gives each picture a place and no layout engine. A picture keeps
all that it writes within that place: titles are wrapped, and axes shrink as far as their labels
need. Everything here is measured, since names are of any length.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from ragscore.frames.errors import DataError
from ragscore.plot.theme import GRID, figure_size, sizes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.text import Text

PLACES = ("right", "below", "inside")
BELOW, END = "ragscore:below", "ragscore:end"  # marks what is moved once its size is known
PAD = 4.0  # points between a picture and the edge of its place
# text -> as it is wrapped, and as it was written
_wrapped: "WeakKeyDictionary[Text, tuple[str, str]]" = WeakKeyDictionary()
SMALLEST = 0.2  # share of its place that axes keep, whatever their labels need


def new_axes(ax: "Axes | None", width: float = 6.4, height: float = 4.0) -> "Axes":
    """Return the given axes, or those of a new figure of this size in inches at 10 points."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figure_size(width, height), layout="constrained")[1]


@contextmanager
def closing_figures() -> Iterator[None]:
    """Close the figures that were opened meanwhile if this ends in an error."""
    import matplotlib.pyplot as plt

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
        ax.grid(axis=grid, color=GRID, linewidth=0.8)  # type: ignore[arg-type]
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def title(ax: "Axes", finding: str) -> None:
    """Write what the picture shows above its left edge; it is wrapped to the picture's place."""
    ax.set_title(finding, x=0.0, ha="left", fontsize=sizes()["title"])


def legend(ax: "Axes", place: str | bool | None = None) -> None:
    """Put the legend where it hides no data.

    Parameters
    ----------
    place
        "right" of the axes, "below" them, "inside" where there is most room; False: none. By
        default right in a figure of its own, below in one with other axes or without layout.

    Raises
    ------
    DataError
        Another place.
    """
    if place is not None and not isinstance(place, bool) and place not in PLACES:
        raise DataError(
            f"found {place!r}", field="legend", allowed=f"one of {', '.join(PLACES)}, or False"
        )
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if place is False or not ax.get_legend_handles_labels()[0]:
        return
    if place is None or place is True:
        figure = ax.figure.get_figure(root=True)
        is_alone = len(figure.axes) == 1 and figure.get_layout_engine() is not None
        place = "right" if is_alone else "below"
    options: dict[str, Any] = {"frameon": False, "fontsize": sizes()["note"]}
    if place == "right":
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0.2, **options)
    elif place == "inside":
        ax.legend(loc="best", **options | {"frameon": True, "framealpha": 0.85, "edgecolor": GRID})
    else:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), **options).set_gid(BELOW)


def finish(ax: "Axes", finding: str, grid: str | None, place: str | bool | None = None) -> "Axes":
    """Write the finding, draw the grid and put the legend; return the axes."""
    title(ax, finding)
    quiet(ax, grid)
    legend(ax, place)
    return ax


def label_ends(ax: "Axes", ends: Sequence[tuple[float, float, str, str]]) -> None:
    """Write names beside the ends of lines instead of a legend; they never overlap.

    Parameters
    ----------
    ends
        x and y of an end, its text and its colour.
    """
    for x, y, text, colour in ends:
        ax.annotate(
            text, (x, y), (8, 0), textcoords="offset points", va="center", ha="left",
            color=colour, fontsize=sizes()["note"], annotation_clip=False, gid=END,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0,
                        "shrinkB": 3},
        )  # fmt: skip


def unclipped(drawn: Any) -> None:
    """Show marks at the ends of a scale whole: errorbar containers, lines or points."""
    for artist in drawn.get_children() if hasattr(drawn, "get_children") else [drawn]:
        artist.set_clip_on(False)
    if hasattr(drawn, "set_clip_on"):
        drawn.set_clip_on(False)


def settle(axes: Sequence["Axes"]) -> None:
    """Wrap titles, place legends and names at ends, and keep each axes within its place."""
    if not axes:
        return
    figure: Figure = axes[0].figure.get_figure(root=True)
    has_engine = figure.get_layout_engine() is not None
    for ax in axes:  # a long line would leave a layout engine no room
        _wrap_texts(ax)
    lay_out(figure)
    for _ in range(1 if has_engine else 5):
        for ax in axes:
            _wrap_texts(ax)
            _place_below(ax)
            _spread_ends(ax)
        moved = [False if has_engine else _fit(ax) for ax in axes]
        if not any(moved):
            return
    for ax in axes:
        _place_below(ax)
        _spread_ends(ax)


def lay_out(figure: "Figure") -> None:
    """Place the axes of a figure as its layout engine does when it is drawn, without drawing."""
    if (engine := figure.get_layout_engine()) is not None:
        with suppress(ValueError):  # as where a figure is drawn
            engine.execute(figure)


def _slot(ax: "Axes") -> tuple[float, float, float, float] | None:
    """Return left, bottom, right and top of the place of axes, as shares of the figure.

    Neighbours share the gap between them. Axes that are in no grid have no place.
    """
    spec = ax.get_subplotspec()
    return None if spec is None else _place_of(spec, ax.figure)


def _place_of(spec: Any, figure: Any) -> tuple[float, float, float, float]:
    grid = spec.get_gridspec()
    outer = (0.0, 0.0, 1.0, 1.0)
    if (whole := spec.get_topmost_subplotspec()) is not spec:
        outer = _place_of(whole, figure)
    elif hasattr(figure, "bbox_relative"):  # a part of a figure
        part = figure.bbox.transformed(figure.get_figure(root=True).transFigure.inverted())
        outer = (part.x0, part.y0, part.x1, part.y1)
    bottoms, tops, lefts, rights = grid.get_grid_positions(figure)
    rows, columns = spec.rowspan, spec.colspan
    first, last = columns.start, columns.stop - 1
    left = outer[0] if first == 0 else (rights[first - 1] + lefts[first]) / 2
    right = outer[2] if last == grid.ncols - 1 else (rights[last] + lefts[last + 1]) / 2
    upper, lower = rows.start, rows.stop - 1
    top = outer[3] if upper == 0 else (bottoms[upper - 1] + tops[upper]) / 2
    bottom = outer[1] if lower == grid.nrows - 1 else (bottoms[lower] + tops[lower + 1]) / 2
    return left, bottom, right, top


def _wrap_texts(ax: "Axes") -> None:
    """Wrap title and axis labels to the room that they have."""
    figure = ax.figure.get_figure(root=True)
    box, slot = ax.get_window_extent(), _slot(ax)
    width, height = figure.bbox.width, figure.bbox.height
    pad = PAD * figure.dpi / 72
    left, bottom, right, top = (
        (slot[0] * width, slot[1] * height, slot[2] * width, slot[3] * height)
        if slot
        else (0.0, 0.0, width, height)
    )
    middle, half = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
    if ax.title.get_horizontalalignment() == "left":
        # Beside long names the axes are narrow: the title then begins above the names.
        begin = box.x0 if right - box.x0 > 0.6 * (right - left) or not slot else left + pad
        ax.title.set_x((begin - box.x0) / box.width)
        _wrap_text(ax.title, right - begin - pad)
    else:
        _wrap_text(ax.title, 2 * min(middle - left, right - middle) - 2 * pad)
    if slot and box.width < 0.6 * (right - left):  # beside long names: in the middle of the place
        middle = (left + right) / 2
        ax.xaxis.label.set_x((middle - box.x0) / box.width)
    _wrap_text(ax.xaxis.label, 2 * min(middle - left, right - middle) - 2 * pad)
    _wrap_text(ax.yaxis.label, 2 * min(half - bottom, top - half) - 2 * pad, is_upright=True)


def _wrap_text(text: "Text", room: float, *, is_upright: bool = False) -> None:
    """Wrap a text that takes more pixels than there is room, line by line."""
    shown, said = _wrapped.get(text, ("", ""))
    if text.get_text() != shown:
        said = text.get_text()
    text.set_text(said)  # else lines that were wrapped for less room would stay apart
    for _ in range(4):
        box = text.get_window_extent()
        taken = box.height if is_upright else box.width
        longest = max((len(line) for line in text.get_text().split("\n")), default=0)
        if taken <= room or longest < 12:
            break
        letters = max(int(longest * room / taken), 10)
        lines = [wrap(line.replace("_", "_ "), letters) or [""] for line in said.split("\n")]
        text.set_text("\n".join("\n".join(one) for one in lines).replace("_ ", "_"))
    _wrapped[text] = text.get_text(), said


def _place_below(ax: "Axes") -> None:
    """Put a legend below all that stands under the axes, in as many columns as fit."""
    found = ax.get_legend()
    if found is None or found.get_gid() != BELOW:
        return
    from matplotlib.transforms import ScaledTranslation

    figure = ax.figure.get_figure(root=True)
    box, under = ax.get_window_extent(), ax.xaxis.get_tightbbox()
    drop = (box.y0 - under.y0 if under is not None else 0.0) + PAD * figure.dpi / 72
    slot = _slot(ax)
    room = (slot[2] - slot[0]) * figure.bbox.width if slot else float(figure.bbox.width)
    found = _in_columns(ax, found, room - 2 * PAD * figure.dpi / 72)
    shift = ScaledTranslation(0, -drop / figure.dpi, figure.dpi_scale_trans)
    # The legend is as wide as the place, and may stand out on both sides of narrow axes.
    middle = 0.5
    if slot is not None:
        centre = (slot[0] + slot[2]) / 2 * figure.bbox.width
        middle = (centre - box.x0) / box.width
    found.set_bbox_to_anchor((middle, 0), ax.transAxes + shift)


def _in_columns(ax: "Axes", found: "Legend", room: float) -> "Legend":
    """Return the legend with the most columns that fit, at most four."""
    texts = [text.get_text() for text in found.get_texts()]
    handles: Any = ax.get_legend_handles_labels()[0]
    if len(handles) != len(texts):
        handles = found.legend_handles  # of an error bar these lack the mark
    options: dict[str, Any] = {
        "loc": "upper center", "frameon": False, "fontsize": sizes()["note"],
        "columnspacing": 1.2, "borderaxespad": 0.0, "handlelength": 1.8,
    }  # fmt: skip
    for columns in range(min(4, len(texts)), 0, -1):
        again = ax.legend(handles, texts, ncols=columns, **options)
        again.set_gid(BELOW)
        for text in again.get_texts():
            text.set_parse_math(False)
        if again.get_window_extent().width <= room:
            break
    return again


def _spread_ends(ax: "Axes") -> None:
    """Move names at line ends apart, each as near to its end as the others leave room."""
    from matplotlib.text import Annotation, Text

    names: list[Annotation] = [
        text for text in ax.texts if isinstance(text, Annotation) and text.get_gid() == END
    ]
    if not names:
        return
    dpi = ax.figure.get_figure(root=True).dpi
    places = np.array([ax.transData.transform(name.xy)[1] for name in names], dtype=float)
    # an annotation's own extent holds its line as well
    heights = np.array([Text.get_window_extent(name).height for name in names]) * 1.02
    box = ax.get_window_extent()
    for name, place, moved in zip(
        names, places, spread(places, heights, box.y0, box.y1), strict=True
    ):
        offset = (moved - place) * 72 / dpi
        name.set_position((8 if abs(offset) < 3 else 16, offset))
        if name.arrow_patch is not None:
            name.arrow_patch.set_visible(abs(offset) >= 3)


def spread(places: Any, heights: Any, low: float, high: float) -> Any:
    """Return the nearest places at which intervals of these heights don't overlap.

    They are moved the least in the sum of squares (pool adjacent violators), and into low to high
    as far as they fit.
    """
    order = np.argsort(places, kind="stable")
    y, size = np.asarray(places, float)[order], np.asarray(heights, float)[order]
    below = np.concatenate([[0.0], np.cumsum((size[1:] + size[:-1]) / 2)])
    blocks: list[list[float]] = []  # mean, weight: of y less what lies below
    for value in y - below:
        blocks.append([value, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            mean, weight = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + mean * weight) / (last[1] + weight)
            last[1] += weight
    flat = np.repeat([mean for mean, _ in blocks], [int(weight) for _, weight in blocks])
    found = np.empty(len(y))
    # isotonic within bounds: clipping an isotonic fit keeps it the nearest
    bottom, top = low + size[0] / 2, high - size[-1] / 2 - below[-1]
    found[order] = np.clip(flat, bottom, max(top, bottom)) + below
    return found


def _fit(ax: "Axes") -> bool:
    """Shrink axes until all that belongs to them is within their place; return if they moved."""
    from matplotlib.transforms import Bbox

    slot = _slot(ax)
    if slot is None:
        return False
    figure = ax.figure.get_figure(root=True)
    whole = ax.get_tightbbox()
    below = ax.get_legend()
    if below is None or below.get_gid() != BELOW:
        narrow = ax.get_tightbbox(for_layout_only=True)
    else:  # Titles and labels are wrapped to the room there is, and so is a legend below.
        below.set_in_layout(False)
        narrow = ax.get_tightbbox(for_layout_only=True)
        below.set_in_layout(True)
    if whole is None or narrow is None:
        return False
    whole = Bbox([[narrow.x0, whole.y0], [narrow.x1, whole.y1]])
    width, height = figure.bbox.width, figure.bbox.height
    pad = PAD * figure.dpi / 72
    box = ax.get_window_extent()
    left = max(box.x0, slot[0] * width + pad + box.x0 - min(whole.x0, box.x0))
    right = min(box.x1, slot[2] * width - pad - max(whole.x1 - box.x1, 0))
    bottom = max(box.y0, slot[1] * height + pad + box.y0 - min(whole.y0, box.y0))
    top = min(box.y1, slot[3] * height - pad - max(whole.y1 - box.y1, 0))
    # Labels take what they need, up to where axes would be too small: then towards the far edge.
    least = SMALLEST * (slot[2] - slot[0]) * width
    if right - left < least:
        right = max(right, min(left + least, slot[2] * width - pad - max(whole.x1 - box.x1, 0)))
        left = min(left, right - least)
    least = SMALLEST * (slot[3] - slot[1]) * height
    if top - bottom < least:
        top = max(top, min(bottom + least, slot[3] * height - pad - max(whole.y1 - box.y1, 0)))
        bottom = min(bottom, top - least)
    found = np.array([left, bottom, right, top])
    if np.abs(found - [box.x0, box.y0, box.x1, box.y1]).max() < 0.5:
        return False
    part = ax.figure.transSubfigure.inverted() if hasattr(ax.figure, "transSubfigure") else None
    corners = np.array([[left, bottom], [right, top]])
    (x0, y0), (x1, y1) = (part or figure.transFigure.inverted()).transform(corners)
    ax.set_position((x0, y0, x1 - x0, y1 - y0))
    return True
