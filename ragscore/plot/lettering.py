"""The door through which every text enters a figure: names of files and models are texts there.

Matplotlib reads `$...$` as a formula, when it draws and not before, so that a name may break a
figure long after the call. A public function of `rs.plot` is `lettered`: it draws under the theme,
what it wrote is made literal, and then finds its place. Texts of the caller's own axes stay as they
were.
"""

from collections.abc import Callable, Iterable, Iterator
from contextvars import copy_context
from functools import lru_cache, partial, wraps
from typing import TYPE_CHECKING, Any, ParamSpec
from weakref import WeakKeyDictionary

from ragscore.frames.escaping import visible
from ragscore.plot import names
from ragscore.plot.layout import closing_figures, settle
from ragscore.plot.theme import dress, themed
from ragscore.plot.twin import text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.font_manager import FontProperties
    from matplotlib.text import Text

P = ParamSpec("P")
# axes of our own -> what draws them anew, for another width
_drawn_by: "WeakKeyDictionary[Axes, Callable[[], Axes]]" = WeakKeyDictionary()
LONGEST = 160  # characters of a line: a longer one makes a figure that no memory holds
# Begins labels that begin with `_`, which a legend would leave out. It is not seen, and is taken
# away once the legend stands.
HELD = "\u2060"
# Matplotlib's own font that has a box for every character; releases before 3.11 have none
LAST_RESORT = "Last Resort High-Efficiency"


def lettered(draw: Callable[P, "Axes"]) -> Callable[P, "Axes"]:
    """Return a function that draws the same, with each text shown as it is written."""

    @wraps(draw)
    @closing_figures()
    def drawn(*args: P.args, **options: P.kwargs) -> "Axes":
        given: Any = options.get("ax")
        place: Any = given or options.get("figure")
        before = {} if place is None else {text: text.get_text() for text in _texts(place)}
        formatters = {} if place is None else _formatters(place)
        earlier = set() if place is None else set(_axes(place)) - {given}
        with themed(place), names.naming():
            if given is not None:
                dress(given)
            ax = draw(*args, **options)
            place = place or ax.figure
            for text in _texts(place):
                if text.get_text() and before.get(text) != text.get_text():
                    if (shown := literal(text.get_text())) != text.get_text():
                        text.set_text(shown)
                    _show_as_written(text)
            for axis, formatter in _formatters(place).items():
                if formatter is not formatters.get(axis):
                    _make_labels_literal(axis)
            whole: Any = ax.figure.get_figure(root=True)
            fitted = settle([one for one in _axes(place) if one not in earlier])
            whole.ragscore_text = "\n\n".join(map(text_of, fitted))
        if options.get("ax") is None and options.get("figure") is None:
            # the context knows the order of runs, which gives each its look
            _drawn_by[ax] = partial(copy_context().run, drawn, *args, **options)
        return ax

    return drawn


def drawn_by(ax: "Axes") -> Callable[[], "Axes"] | None:
    """Return what draws the same picture anew; None for axes that were given."""
    return _drawn_by.get(ax)


def literal(text: str) -> str:
    """Return a text as a figure shows it, line by line, with names as short as they may be."""
    lines = visible(names.shown(text.removeprefix(HELD))).replace("\t", " ").split("\n")
    return "\n".join(line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…" for line in lines)


def _make_labels_literal(axis: "Axis") -> None:
    """Make the labels of an axis literal if they are names; numbers keep matplotlib's own form."""
    labels = axis.get_majorticklabels()
    texts = [label.get_text() for label in labels]
    if (shown := [literal(text) for text in texts]) != texts:
        axis.set_ticklabels(shown)
    for label in axis.get_majorticklabels():
        _show_as_written(label)


def _show_as_written(text: "Text") -> None:
    from matplotlib.font_manager import fontManager

    text.set_parse_math(False)
    text.set_usetex(False)
    own = text.get_fontproperties()
    has_last_resort = any(font.name == LAST_RESORT for font in fontManager.ttflist)
    if has_last_resort and not set(text.get_text()) - {"\n"} <= _characters(own):
        text.set_fontfamily([*own.get_family(), LAST_RESORT])


def _characters(font: "FontProperties") -> set[str]:
    """Return what the fonts of a text can draw."""
    from matplotlib.font_manager import findfont

    files = []
    for family in font.get_family():
        one = font.copy()
        one.set_family(family)
        files.append(str(findfont(one)))
    return set().union(*map(_characters_of, files))


@lru_cache(16)
def _characters_of(file: str) -> frozenset[str]:
    from matplotlib.font_manager import get_font

    return frozenset(map(chr, get_font(file).get_charmap()))


def _axes(place: Any) -> Iterable["Axes"]:
    """Return the axes of a figure, or the axes themselves."""
    return place.axes if hasattr(place, "subplots") else [place]


def _formatters(place: Any) -> dict["Axis", Any]:
    """Return each axis whose labels are names, with what writes them."""
    from matplotlib.ticker import FixedFormatter, FuncFormatter

    axes = [axis for ax in _axes(place) for axis in (ax.xaxis, ax.yaxis)]
    found = {axis: axis.get_major_formatter() for axis in axes}
    return {
        axis: one for axis, one in found.items() if isinstance(one, (FixedFormatter, FuncFormatter))
    }


def _texts(place: Any) -> Iterator["Text"]:
    """Yield titles, labels, notes and legends: every text but those at the ticks."""
    from matplotlib.text import Text

    at_ticks: set[Text] = set()
    for ax in _axes(place):
        for axis in (ax.xaxis, ax.yaxis):
            at_ticks |= {axis.get_offset_text()}
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                at_ticks |= {tick.label1, tick.label2}
    for text in place.findobj(Text):
        if text not in at_ticks:
            yield text
