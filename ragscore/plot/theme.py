"""One scale of type and lines for all pictures, and the colours of all that is no data.

A picture is drawn under rcParams of its own, and the caller's are as before afterwards. Type and
width are the session's: a column of a paper is `plt.rc_context({"figure.figsize": (3.35, 2.4),
"font.size": 8})`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import matplotlib
import matplotlib.pyplot as plt

LAST_RESORT = "Last Resort High-Efficiency"  # matplotlib's own: it has a box for every character


@dataclass(frozen=True)
class Inks:
    """The colours of all that is no data."""

    ground: str = "#ffffff"  # of marks
    ink: str = "#212121"
    note: str = "#545454"
    grid: str = "#dedede"
    muted: str = "#8c8c8c"  # runs that do not stand out


WHITE = Inks()


def inks() -> Inks:
    """Return the colours of axes, texts and grid; where the session has its own, by these."""
    params: Any = matplotlib.rcParams
    text = params["text.color"]
    if text in ("black", WHITE.ink):
        return WHITE
    return Inks(params["axes.facecolor"], text, text, "#8c8c8c66")


def sizes() -> dict[str, float]:
    """Return points of a `title`, `label`, `tick` and `note`."""
    base = float(matplotlib.rcParams["font.size"])
    return {"title": 1.1 * base, "label": base, "tick": 0.9 * base, "note": 0.85 * base}


def figure_size(width: float, height: float) -> tuple[float, float]:
    """Return inches of a figure, given what suits the picture at 10 points.

    Its width is the session's `figure.figsize` if it was changed.
    """
    # rows keep room for their text: a height grows and shrinks with the type
    factor = sizes()["label"] / 10
    known: Any = (matplotlib.rcParams, matplotlib.rcParamsDefault)
    own, usual = (params["figure.figsize"][0] for params in known)
    return width * factor if own == usual else own, height * factor


@contextmanager
def themed() -> Iterator[None]:
    """Draw under rcParams of our own; the session's stay as before."""
    # A notebook's backend sets parameters when it is first used: in here they would be undone, and
    # no later figure would be shown.
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    points, now = sizes(), inks()
    changes: dict[str, Any] = {
        "font.family": [*(one for one in _families() if one != LAST_RESORT), LAST_RESORT],
        "axes.titlesize": points["title"],
        "axes.labelsize": points["label"],
        "xtick.labelsize": points["tick"],
        "ytick.labelsize": points["tick"],
        "legend.fontsize": points["note"],
        "legend.frameon": False,
        "lines.linewidth": 1.6,
        "lines.markersize": 6,
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
        "hatch.linewidth": 0.8,
    }
    with matplotlib.rc_context(cast("Any", changes)):
        yield


def _families() -> list[str]:
    known: Any = matplotlib.rcParams["font.family"]
    return list(known)
