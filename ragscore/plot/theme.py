"""One scale of type and lines for all pictures, and `rs.plot.theme` to choose it.

A picture is drawn under the theme's own rcParams, and the caller's are as before afterwards. So a
theme changes our pictures only, and no other figure of the session.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.font_manager import fontManager

from ragscore.frames.errors import DataError, check_choice
from ragscore.plot.names import held

PAPER_WIDTHS = (3.35, 6.9)  # inches of one and of both columns of a paper in two columns
SERIFS = ("Times New Roman", "Times", "Nimbus Roman", "STIXGeneral", "DejaVu Serif")
SLIDE_WIDTH = 10.0
LAST_RESORT = "Last Resort High-Efficiency"  # matplotlib's own: it has a box for every character


@dataclass(frozen=True)
class Theme:
    """What a theme sets.

    Attributes
    ----------
    size
        Points of an axis label; None: the caller's `font.size`. Titles are a tenth larger, ticks a
        tenth smaller.
    width
        Inches of a figure of our own; None: what suits the picture.
    line
        Factor of the widths of lines and the sizes of marks.
    """

    size: float | None = None
    width: float | None = None
    line: float = 1.0
    serif: bool = False


NAMES = ("notebook", "paper", "slides")
# Not a context variable: a notebook may run each cell in a context of its own.
_chosen = [Theme()]


@dataclass(frozen=True)
class Inks:
    """The colours of all that is no data, for the ground that a picture stands on."""

    ground: str = "#ffffff"  # of marks
    outer: str = "#ffffff"  # of texts
    ink: str = "#212121"
    note: str = "#545454"
    grid: str = "#dedede"
    muted: str = "#8c8c8c"  # runs that do not stand out

    @classmethod
    def on(cls, ground: str, outer: str, text: str) -> "Inks":
        """Return the inks for marks on `ground` and texts on `outer`, by the session's colour."""
        if contrast(text, outer) < READABLE:
            text = black_or_white(outer)
        ink, note = (mixed(text, outer, share) for share in (0.13, 0.33))
        grid, muted = (mixed(black_or_white(ground), ground, share) for share in (0.87, 0.55))
        return cls(ground, outer, ink, note, grid, muted)


READABLE, SEEN = 4.5, 3.0  # contrast of texts and of marks (WCAG 2.2, 1.4.3 and 1.4.11)
WHITE = Inks()
_inks: ContextVar[Inks] = ContextVar("inks", default=WHITE)


def inks() -> Inks:
    """Return the colours of axes, texts and grid under which a picture is being drawn."""
    return _inks.get()


def mixed(colour: str, other: str, share: float) -> str:
    """Return a colour with a share of another one."""
    mean: Any = np.average([to_rgb(colour), to_rgb(other)], axis=0, weights=[1 - share, share])
    return to_hex(mean)


@lru_cache(1000)
def contrast(colour: str, other: str) -> float:
    """Return the contrast of two colours, 1 to 21 (WCAG 2.2)."""
    rgb = np.array([to_rgb(colour), to_rgb(other)])
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    low, high = np.sort(linear @ [0.2126, 0.7152, 0.0722])  # relative luminances
    return float((high + 0.05) / (low + 0.05))


def black_or_white(ground: str) -> str:
    """Return which of the two stands out more from a ground."""
    return max("#000000", "#FFFFFF", key=lambda one: contrast(one, ground))


def legible(colour: str, least: float = SEEN, ground: str | None = None) -> str:
    """Return the colour, mixed with black or white until it stands out from the ground."""
    ground = ground or inks().ground
    end = black_or_white(ground)
    steps = (mixed(colour, end, share / 20) if share else colour for share in range(21))
    return next((one for one in steps if contrast(one, ground) >= least), end)


class Chosen(ExitStack):
    """A theme that was chosen; as a context manager it lasts for the `with` block only."""

    def __repr__(self) -> str:
        return f"{_chosen[0]}"


def theme(
    name: str = "notebook",
    *,
    columns: int = 1,
    serif: bool = False,
    width: float | None = None,
) -> Chosen:
    """Choose how pictures look: for the session, or in a `with` block.

    rcParams stay as they are: only pictures of `rs.plot` change. A figure of your own, given as
    `ax=`, keeps its size.

    Parameters
    ----------
    name
        "notebook" (the default), "paper" (a column's width, small type) or "slides" (large type).
    columns
        Of a paper in two columns: 1 is 3.35 inches wide, 2 is 6.9.
    serif
        Set names and numbers in a serif face.
    width
        Inches, if your column has another width.

    Raises
    ------
    DataError
        An unknown name, or another number of columns.

    Examples
    --------
    >>> with rs.plot.theme("paper", serif=True):
    ...     ev.plot("mrr@10").figure.savefig("means.pdf")
    """
    check_choice(name, NAMES, "name")
    if columns not in (1, 2):
        raise DataError(f"found {columns!r}", field="columns", allowed="1 or 2")
    chosen = Chosen()
    chosen.callback(_chosen.__setitem__, 0, _chosen[0])
    _chosen[0] = {
        "notebook": Theme(None, width, 1.0, serif),
        "paper": Theme(8.0, width or PAPER_WIDTHS[columns - 1], 0.8, serif),
        "slides": Theme(16.0, width or SLIDE_WIDTH, 1.7, serif),
    }[name]
    return chosen


def sizes() -> dict[str, float]:
    """Return points of a `title`, `label`, `tick` and `note`."""
    base = _chosen[0].size or float(matplotlib.rcParams["font.size"])
    return {"title": 1.1 * base, "label": base, "tick": 0.9 * base, "note": 0.85 * base}


def scaled(points: float) -> float:
    """Return a width of a line or a size of a mark under the theme."""
    return points * _chosen[0].line


def figure_size(width: float, height: float) -> tuple[float, float]:
    """Return inches of a figure under the theme, given what suits the picture at 10 points."""
    # rows keep room for their text: a height grows and shrinks with the type
    factor = sizes()["label"] / 10
    return _chosen[0].width or width * factor, height * factor


@contextmanager
def themed(place: Any = None) -> Iterator[None]:
    """Draw under the theme, on the ground of these axes or this figure; rcParams stay as before."""
    # A notebook's backend sets parameters when it is first used: in here they would be undone, and
    # no later figure would be shown.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    points = sizes()
    now = Inks.on(*_grounds(place), matplotlib.rcParams["text.color"])
    changes: dict[str, Any] = {
        "font.size": points["label"],
        "font.family": faces(),
        "axes.titlesize": points["title"],
        "axes.labelsize": points["label"],
        "xtick.labelsize": points["tick"],
        "ytick.labelsize": points["tick"],
        "legend.fontsize": points["note"],
        "legend.frameon": False,
        "lines.linewidth": scaled(1.6),
        "lines.markersize": scaled(6),
        "axes.linewidth": 0.8,
        "axes.edgecolor": now.note,
        "axes.labelcolor": now.ink,
        "axes.titlecolor": now.ink,
        "text.color": now.ink,
        "xtick.color": now.note,
        "ytick.color": now.note,
        "xtick.labelcolor": now.ink,
        "ytick.labelcolor": now.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.linewidth": scaled(0.8),
        # type that can be searched and edited; a journal refuses Type 3
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
    }
    with held(_inks, now), matplotlib.rc_context(cast("Any", changes)):
        yield


def _grounds(place: Any) -> tuple[str, str]:
    """Return the colours below marks and below texts: of given axes, else of the session."""
    params: Any = matplotlib.rcParams
    whole = params["figure.facecolor"]
    if place is not None:
        whole = place.figure.get_figure(root=True).get_facecolor()
    own = place.get_facecolor() if hasattr(place, "get_subplotspec") else params["axes.facecolor"]
    outer = to_hex(whole) if to_rgba(whole)[3] > 0.5 else "#FFFFFF"
    return (to_hex(own) if to_rgba(own)[3] > 0.5 else outer), outer


def faces(own: "list[str] | None" = None) -> list[str]:
    """Return the families of type under the theme, of a text that has its own or of any."""
    if _chosen[0].serif:
        own = [name for name in SERIFS if name in fontManager.get_font_names()]
    found = own or matplotlib.rcParams["font.family"]
    return [*(name for name in found if name != LAST_RESORT), LAST_RESORT]


def dress(ax: "Axes") -> None:
    """Give axes that were made elsewhere the type and the frame of our own."""
    points, now = sizes(), inks()
    for text, name in ((ax.title, "title"), (ax.xaxis.label, "label"), (ax.yaxis.label, "label")):
        text.set(fontsize=points[name], color=now.ink, family=faces(text.get_fontfamily()))
    label: Any = ax.xaxis.get_major_ticks(1)[0].label1
    ax.tick_params(labelsize=points["tick"], color=now.note, labelcolor=now.ink,
                   labelfontfamily=faces(label.get_fontfamily()))  # fmt: skip
    ax.spines[:].set(edgecolor=now.note, linewidth=0.8)
    ax.spines[["top", "right"]].set_visible(False)
