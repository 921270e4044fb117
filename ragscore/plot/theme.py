"""One scale of type and lines for all pictures, and `rs.plot.theme` to choose it.

A picture is drawn under the theme's own rcParams, and the caller's are as before afterwards. So a
theme changes our pictures only, and no other figure of the session.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from ragscore.frames.errors import DataError, check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, NOTE_INK, GRID = "#222222", "#555555", "#E4E4E4"
PAPER_WIDTHS = (3.35, 6.9)  # inches of one and of both columns of a paper in two columns
SERIFS = ("Times New Roman", "Times", "Nimbus Roman", "STIXGeneral", "DejaVu Serif")
SLIDE_WIDTH = 10.0


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


class Chosen:
    """A theme that was chosen; as a context manager it lasts for the `with` block only."""

    def __init__(self, before: Theme, now: Theme) -> None:
        self._before, self._now = before, now

    def __enter__(self) -> None:
        """Keep the theme, which holds since the call."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _chosen[0] = self._before

    def __repr__(self) -> str:
        return f"{self._now}"


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
    found = {
        "notebook": Theme(None, width, 1.0, serif),
        "paper": Theme(8.0, width or PAPER_WIDTHS[columns - 1], 0.8, serif),
        "slides": Theme(16.0, width or SLIDE_WIDTH, 1.7, serif),
    }[name]
    before = _chosen[0]
    _chosen[0] = found
    return Chosen(before, found)


def sizes() -> dict[str, float]:
    """Return points of a `title`, `label`, `tick` and `note`."""
    import matplotlib

    base = _chosen[0].size or float(matplotlib.rcParams["font.size"])
    return {"title": 1.1 * base, "label": base, "tick": 0.9 * base, "note": 0.85 * base}


def scaled(points: float) -> float:
    """Return a width of a line or a size of a mark under the theme."""
    return points * _chosen[0].line


def figure_size(width: float, height: float) -> tuple[float, float]:
    """Return inches of a figure under the theme, given what suits the picture at 10 points."""
    import matplotlib

    now = _chosen[0]
    # rows keep room for their text: a height grows and shrinks with the type
    factor = (now.size or float(matplotlib.rcParams["font.size"])) / 10
    if now.width is None:
        return width * factor, height * factor
    return now.width, height * factor


@contextmanager
def themed() -> Iterator[None]:
    """Draw under the theme; rcParams are as before at the end."""
    import matplotlib
    import matplotlib.pyplot as plt

    # A notebook's backend sets parameters when it is first used: in here they would be undone, and
    # no later figure would be shown.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    points = sizes()
    changes: dict[str, Any] = {
        "font.size": points["label"],
        "axes.titlesize": points["title"],
        "axes.labelsize": points["label"],
        "xtick.labelsize": points["tick"],
        "ytick.labelsize": points["tick"],
        "legend.fontsize": points["note"],
        "legend.frameon": False,
        "lines.linewidth": scaled(1.6),
        "lines.markersize": scaled(6),
        "axes.linewidth": 0.8,
        "axes.edgecolor": NOTE_INK,
        "xtick.color": NOTE_INK,
        "ytick.color": NOTE_INK,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "hatch.linewidth": scaled(0.8),
    }
    if _chosen[0].serif:
        changes["font.family"] = serif_faces()
    with matplotlib.rc_context(cast("Any", changes)):
        yield


def serif_faces() -> list[str]:
    """Return the serif faces that are installed; matplotlib brings the last one."""
    from matplotlib.font_manager import fontManager

    known = {font.name for font in fontManager.ttflist}
    return [name for name in SERIFS if name in known]


def dress(ax: "Axes") -> None:
    """Give axes that were made elsewhere the type and the frame of our own."""
    points, family = sizes(), serif_faces() if _chosen[0].serif else None
    for text, name in ((ax.title, "title"), (ax.xaxis.label, "label"), (ax.yaxis.label, "label")):
        text.set_fontsize(points[name])
        if family:
            text.set_fontfamily(family)
    ticks: dict[str, Any] = {"labelsize": points["tick"], "color": NOTE_INK, "labelcolor": INK}
    ax.tick_params(**ticks | ({"labelfontfamily": family} if family else {}))
    for name, spine in ax.spines.items():
        spine.set_visible(spine.get_visible() and name not in ("top", "right"))
        spine.set(edgecolor=NOTE_INK, linewidth=0.8)
