"""The door through which every text enters a figure: names of files and models are texts there.

Matplotlib reads `$...$` as a formula, when it draws and not before, so that a name may break a
figure long after the call. A public function of `rs.plot` is `lettered`: what it wrote is made
literal, and then finds its place. Texts of the caller's own axes stay as they were.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.text import Text

from ragscore.frames.escaping import visible
from ragscore.plot import names
from ragscore.plot.layout import closing_figures, named, settle
from ragscore.plot.theme import themed

P = ParamSpec("P")
LONGEST = 160  # characters of a line: a longer one makes a figure that no memory holds
# Begins labels that begin with `_`, which a legend would leave out. It is not seen, and is taken
# away once the legend stands.
HELD = "\u2060"


def lettered(draw: Callable[P, "Axes"]) -> Callable[P, "Axes"]:
    """Return a function that draws the same, with each text shown as it is written."""

    @wraps(draw)
    @closing_figures()
    def drawn(*args: P.args, **options: P.kwargs) -> "Axes":
        given: Any = options.get("ax")
        place: Any = given or options.get("figure")
        before = {} if place is None else _content(place)
        earlier = set() if place is None else set(_axes(place)) - {given}
        with themed(), names.naming():
            ax = draw(*args, **options)
            place = place or ax.figure
            for one, content in _content(place).items():
                if before.get(one) != content:
                    _make_literal(one)
            settle([one for one in _axes(place) if one not in earlier])
        return ax

    return drawn


def literal(text: str) -> str:
    """Return a text as a figure shows it, line by line, with names as short as they may be."""
    lines = visible(names.shown(text.removeprefix(HELD))).replace("\t", " ").split("\n")
    return "\n".join(line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…" for line in lines)


def _make_literal(one: "Text | Axis") -> None:
    """Show a text as it is written; of an axis, its labels if they are names."""
    if isinstance(one, Text):
        one.set(text=literal(one.get_text()), parse_math=False, usetex=False)
    elif labels := [literal(label.get_text()) for label in named(one)]:
        one.set_ticklabels(labels, parse_math=False, usetex=False)


def _axes(place: Any) -> Iterable["Axes"]:
    """Return the axes of a figure, or the axes themselves."""
    return place.axes if hasattr(place, "subplots") else [place]


def _content(place: Any) -> dict[Any, Any]:
    """Return each text with its letters, and each axis with what writes the labels at its ticks."""
    axes = [axis for ax in _axes(place) for axis in (ax.xaxis, ax.yaxis)]
    at_ticks = {text for axis in axes for text in axis.findobj(Text) if text is not axis.label}
    texts = (text for text in place.findobj(Text) if text not in at_ticks)
    formatters = {axis: axis.get_major_formatter() for axis in axes}
    return formatters | {text: text.get_text() for text in texts}
