"""The text twin of a figure: what it shows, for readers who don't see it.

In: drawn axes. Out: title, axes, and each series with its numbers, read from what is drawn.
"""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.container import ErrorbarContainer
from matplotlib.dates import DateLocator, num2date

from ragscore.frames.render import shown_number
from ragscore.plot.layout import END, named, written

MOST = 24  # values of a series, and texts, that are read out


def text_of(ax: "Axes") -> str:
    """Return what axes show as lines of text."""
    series, rows = _series(ax), [written(text) for text in named(ax.yaxis)]
    heads = {"": ax.title, "Across: ": ax.xaxis.label, "Up: ": ax.yaxis.label}
    lines = [f"{head}{written(text)}" for head, text in heads.items() if written(text)]
    lines += [f"{name}: {_points(ax, *drawn)}" for name, *drawn in series]
    lines += [line for image in ax.images for line in _cells(ax, image)]
    if not ax.images and not series:
        more = {"Rows": rows, "Marks": ax.get_legend_handles_labels()[1]}
        lines += [f"{name}: {_listed(texts)}" for name, texts in more.items() if texts]
    notes = "" if ax.images else _listed(_notes(ax))
    return "\n".join(filter(None, [*lines, notes]))


def _notes(ax: "Axes") -> list[str]:
    """Return the texts within the axes, each with the names of its row and its column."""
    notes, has_legend = [], bool(ax.get_legend_handles_labels()[1])
    rows, columns = _places(ax.yaxis), _places(ax.xaxis)
    for one in ax.texts:
        x, y = getattr(one, "xy", one.get_position())
        told = [] if has_legend else [_at(rows, y), _at(columns, x)]
        if one.get_gid() != END and written(one):
            notes.append(", ".join(filter(None, [*told, written(one)])))
    return notes


def _places(axis: Any) -> list[tuple[float, str]]:
    """Return the names of an axis, each with its place."""
    return list(zip(axis.get_majorticklocs(), map(written, named(axis)), strict=False))


def _at(names: list[tuple[float, str]], place: float) -> str:
    """Return the name at a place of an axis; "" where it has none."""
    return next((name for at, name in names if abs(at - place) <= 0.5), "")


def _series(ax: "Axes") -> list[tuple[str, Any, Any]]:
    """Return name, points and the intervals across of all marks that have a name."""
    found = []
    drawn: list[Any] = [*ax.containers, *ax.lines, *ax.collections]
    for one in drawn:
        points: Any = []  # of bars and areas
        intervals = []
        if isinstance(one, ErrorbarContainer):
            points = one.lines[0].get_xydata()
            if one.has_xerr and one.lines[2]:
                intervals = [[x for x, _ in line] for line in one.lines[2][0].get_segments()]
        elif hasattr(one, "get_xydata"):
            marked = one.get_markevery()  # of a line with steps, its marks are the values
            is_marked = isinstance(marked, list) and len(marked) > 1
            points = one.get_xydata()[marked if is_marked else slice(None)]
        elif isinstance(one, PathCollection):
            points = np.ma.filled(one.get_offsets(), np.nan)
        if len(points) and not (name := str(one.get_label())).startswith("_"):
            found.append((name, np.asarray(points, dtype=float), intervals))
    return found


def _points(ax: "Axes", points: Any, intervals: Any) -> str:
    """Return points as text: beside a name its value with its interval, else both numbers.

    Of a long series some from one end to the other, as a line is read.
    """
    shown, is_dated = [], isinstance(ax.xaxis.get_major_locator(), DateLocator)
    places = np.flatnonzero(np.isfinite(points).all(axis=1))
    chosen = np.linspace(0, len(places) - 1, min(len(places), MOST)).astype(int)
    rows = _places(ax.yaxis)
    for at in places[chosen]:
        x, y = points[at]
        name = _at(rows, y)
        across = f"{num2date(x):%Y-%m-%d}" if is_dated else f"{x:.4g}"  # type: ignore[no-untyped-call]
        value = shown_number(x) if name else f"{across} → {shown_number(y)}"
        ends: Any = intervals[at] if name and len(intervals) == len(points) else []
        if len(ends) > 1 and ends[0] != ends[-1]:
            value += f" ({shown_number(ends[0])} to {shown_number(ends[-1])})"
        shown.append(f"{name} {value}".strip())
    return _listed(shown) + (f" ({MOST} of {len(places)})" if len(places) > MOST else "")


def _cells(ax: "Axes", image: Any) -> list[str]:
    """Return a line for each row of a table that is drawn."""
    values = np.ma.filled(image.get_array(), np.nan)
    across, up = ([written(text) for text in named(axis)] for axis in (ax.xaxis, ax.yaxis))
    texts = {text.get_position()[::-1]: text.get_text() for text in ax.texts}
    if values.ndim > 2:  # colours: the numbers are the texts
        values = np.full(values.shape[:2], np.nan)
    lines = []
    for row, (name, line) in enumerate(zip(up, values, strict=False)):
        own = [texts.get((row, place)) or shown_number(value) for place, value in enumerate(line)]
        cells = [f"{column} {text}" for column, text in zip(across, own, strict=False) if text]
        lines.append(f"{name}: {_listed(cells)}")
    return lines


def _listed(texts: list[str]) -> str:
    more = f"; {len(texts) - MOST} more" if len(texts) > MOST else ""
    return "; ".join(" ".join(text.split()) for text in texts[:MOST]) + more
