"""What all pictures share: a look per run, axes with title and legend, order and labels.

A picture sets no state: it draws under parameters of its own over the session's. So a paper's
column is `plt.rc_context({"figure.figsize": (3.35, 2.4), "font.size": 8})`, and a dark style works.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import wraps
from textwrap import fill
from typing import Any, Literal, ParamSpec, cast

import matplotlib
import matplotlib.pyplot as plt
import pandas as pd
from cycler import cycler
from matplotlib.axes import Axes

from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_known, name_list, names_of, nearest
from ragscore.frames.escaping import visible

P = ParamSpec("P")
# Okabe & Ito's hues, darkened to a contrast of 3 : 1 with white, and a wine instead of the yellow.
# Neighbours alternate between dark and light, so that grey prints distinguish them as well.
PALETTE = ("#1359B2", "#D97D00", "#6A405C", "#0AA867", "#BF4816", "#BC7C9A", "#000000", "#2684F9")
MARKERS, LINES = ("o", "s", "^", "D", "v", "P", "X", "*"), ("-", "--", "-.", ":")
GREY, BETTER, WORSE = "#888888", "#009E73", "#D55E00"
MAX_SLICES, LONGEST = 30, 40  # slices of a picture; characters of a name in it
LETTER = 0.6  # its width in font sizes, on average
PARAMETERS: dict[str, Any] = {
    "text.parse_math": False, "text.usetex": False,  # a name with dollars is no formula
    "axes.titlesize": "medium", "axes.labelsize": "small",
    "xtick.labelsize": "small", "ytick.labelsize": "small", "legend.fontsize": "small",
    "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True,
    "grid.color": "#88888840", "legend.frameon": False,
    "pdf.fonttype": 42, "ps.fonttype": 42,  # journals refuse Type 3
}  # fmt: skip
theme: dict[str, Any] = {**PARAMETERS, "axes.prop_cycle": cycler(color=PALETTE)}
_known: ContextVar[tuple[str, ...]] = ContextVar("known_runs", default=())


def drawn(draw: Callable[P, Axes]) -> Callable[P, Axes]:
    """Return a function that draws under `PARAMETERS`, and leaves no figure behind if it fails."""

    @wraps(draw)
    def done(*args: P.args, **options: P.kwargs) -> Axes:
        # a notebook's backend sets parameters when it is first used: in a context they were undone
        plt.draw_if_interactive()  # type: ignore[no-untyped-call]
        # the last is matplotlib's own, which has a box for every character
        families = [*cast("list[str]", plt.rcParams["font.family"]), "Last Resort High-Efficiency"]
        own = PARAMETERS | {"font.family": list(dict.fromkeys(families))}
        before = plt.get_fignums()
        try:
            with matplotlib.rc_context(cast("Any", own)):
                return draw(*args, **options)
        except BaseException:
            for number in set(plt.get_fignums()).difference(before):
                plt.close(number)
            raise

    return done


def new_axes(ax: Axes | None, rows: float = 0, entries: int = 0) -> Axes:
    """Return the given axes, or the axes of a new figure of the session's width.

    It is high enough for `rows` inches at 10 points, else as the session's are, and for the
    `entries` of a legend.
    """
    if ax is not None:
        return ax
    width, usual = plt.rcParams["figure.figsize"]
    size = plt.rcParams["font.size"] / 10
    high = max((rows + 1.1) * size if rows else usual, (0.18 * entries + 0.6) * size)
    return plt.subplots(figsize=(width, high), layout="constrained")[1]


def room_of(ax: Axes) -> tuple[float, float]:
    """Return the points across and up that axes and all their texts may take."""
    box, points = ax.get_window_extent(), 72 / ax.figure.get_figure(root=True).dpi
    return box.width * points / 0.775, box.height * points / 0.77  # by matplotlib's usual margins


def finish(
    ax: Axes,
    title: str,
    grid: Literal["x", "y", "both"] | None = "x",
    legend: bool = True,
) -> Axes:
    """Write the title, wrap labels, put the legend to the right."""
    wide, high = room_of(ax)
    letter = LETTER * plt.rcParams["font.size"]
    handles = ax.get_legend_handles_labels()[1] if legend else []
    left = letter * (0.83 * max((len(one.get_text()) for one in ax.get_yticklabels()), default=0))
    right = 30 + 0.83 * letter * max(map(len, handles)) if handles else 0
    within = wide - left - right - 30 + 2 * min(left, right)
    ax.set_title(_wrapped(title, within / letter), parse_math=False)
    small = 0.83 * letter
    ax.set_xlabel(_wrapped(ax.get_xlabel(), within / small), parse_math=False)
    ax.set_ylabel(_wrapped(ax.get_ylabel(), 0.7 * high / small), parse_math=False)
    ax.grid(visible=False)
    if grid:
        ax.grid(axis=grid)
    if handles:
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), borderaxespad=0)
    return ax


def _wrapped(text: str, letters: float) -> str:
    whole = visible(text).replace("n = ", "n\u00a0=\u00a0").replace(" %", "\u00a0%")
    return fill(whole, max(int(letters), 12))


@dataclass(frozen=True)
class RunStyle:
    """How one run is drawn in every picture; muted ones are grey and share one label."""

    colour: str
    marker: str
    line: str
    label: str
    is_muted: bool = False

    @property
    def look(self) -> dict[str, Any]:
        """Arguments of `plot` and `errorbar`."""
        return {
            "color": self.colour, "marker": self.marker, "label": self.label, "clip_on": False,
            "linewidth": 0.9 if self.is_muted else 1.7, "zorder": 3 - self.is_muted,
            "markersize": 0.55 * plt.rcParams["font.size"],
        }  # fmt: skip


@contextmanager
def all_runs(run_ids: Iterable[str]) -> Iterator[None]:
    """Draw with the looks that these runs have among each other: a selection keeps its colours."""
    token = _known.set(tuple(dict.fromkeys([*_known.get(), *run_ids])))
    try:
        yield
    finally:
        _known.reset(token)


def run_styles(
    runs: pd.DataFrame | pd.Series | Iterable[str], highlight: Iterable[str] | str | None = None
) -> dict[str, RunStyle]:
    """Return run id -> style, by its place among all runs; those not highlighted are grey.

    Categories of `run_id` keep their order; without them, known runs come first.

    Raises
    ------
    DataError
        A run to highlight that isn't there.
    """
    column = runs["run_id"] if isinstance(runs, pd.DataFrame) else pd.Series(runs)
    present = column.drop_duplicates().astype("str").tolist()
    own = (
        [*map(str, column.cat.categories)]
        if isinstance(column.dtype, pd.CategoricalDtype)
        else sorted(present, key=[*_known.get(), *present].index)
    )
    # runs are ordered by date; when they were first saved decides their looks alone
    places = {run: at for at, run in enumerate(dict.fromkeys([*_known.get(), *own]))}
    shown = sorted(present, key=own.index)
    bright = shown if highlight is None else names_of(highlight, "highlight", "run ids")
    check_known(bright, shown, "highlight", "run")
    labels = run_labels(shown)
    found = {run: _style(places[run], labels[run]) for run in shown}
    others = [run for run in shown if run not in bright]
    label = labels[others[0]] if len(others) == 1 else f"{len(others)} others"
    return found | {
        run: replace(found[run], colour=GREY, label="_" if n else label, is_muted=True)
        for n, run in enumerate(others)
    }


def _style(place: int, label: str) -> RunStyle:
    """Return the n-th style; the first 64 differ in colour and marker, 256 in the line as well."""
    cycle, usual = (
        one["axes.prop_cycle"].by_key().get("color", [])
        for one in (plt.rcParams, matplotlib.rcParamsDefault)
    )
    colours = PALETTE if cycle == usual or not cycle else cycle  # the session's own, if it set them
    more, ones = divmod(place, len(colours))
    marker, line = MARKERS[(ones + more) % 8], LINES[(ones + more // 8) % 4]
    return RunStyle(colours[ones], marker, line, label)


def run_labels(runs: Sequence[str]) -> dict[str, str]:
    """Return run id -> label: cut if it is too long, unless two runs would be alike then."""
    are_apart = len(set(map(label_of, runs))) == len(set(runs))
    return {run: label_of(run, LONGEST if are_apart else len(visible(run))) for run in runs}


def label_of(name: str, most: int = LONGEST) -> str:
    """Return a name as a label: a long one without its middle; matplotlib hides those with `_`."""
    name, half = visible(name), most // 2
    name = name if len(name) <= most else f"{name[: most - half - 1]}…{name[len(name) - half :]}"
    return f" {name}" if name.startswith("_") else name


def runs_text(runs: Sequence[str]) -> str:
    """Return how many runs there are; the name of one alone."""
    return runs[0] if len(runs) == 1 else f"{len(runs)} runs"


SCALES = (
    ("trivial", "very easy", "easy", "medium", "moderate", "hard", "very hard", "expert"),
    ("none", "very low", "low", "medium", "moderate", "high", "very high"),
    ("tiny", "short", "small", "medium", "long", "large", "huge"),
)


def in_order(names: Iterable[str], order: Sequence[str] | None = None) -> list[str]:
    """Return categories in their own order (easy, medium, hard), after those in `order`.

    Raises
    ------
    DataError
        A name in `order` that isn't there.
    """
    given = list(dict.fromkeys(names))
    scale = next((one for one in SCALES if sum(name.lower() in one for name in given) > 1), ())
    first = names_of(order, "order", "names of slices") if order is not None else scale
    check_known(first if order is not None else [], given, "order", "slice")
    places = {name: at for at, name in enumerate(first)}
    return sorted(given, key=lambda one: places.get(one if order else one.lower(), len(places)))


def largest(sizes: pd.Series, limit: int, order: Sequence[str] | None) -> tuple[list[str], str]:
    """Return the slices with most queries, to draw, and words for how many others there are."""
    kept = set(sizes.sort_values(ascending=False, kind="stable").index[:limit])
    names = in_order([name for name in sizes.index if name in kept], order)
    return names, f", the {len(names)} largest of {len(sizes)}" if len(names) < len(sizes) else ""


def n_text(n: pd.Series) -> str:
    """Return how many queries: a number or a range."""
    low, high = n.min(), n.max()
    return "unknown" if pd.isna(low) else f"{low}" if low == high else f"{low}–{high}"


def check_columns(frame: Any, names: Iterable[str], field: str, allowed: str) -> None:
    """Refuse what isn't a frame with these columns."""
    check_type(frame, pd.DataFrame, field, allowed)
    if not set(names) <= set(frame.columns):
        found = f"found a frame with the columns {name_list(frame.columns)}"
        raise DataError(found, field=field, allowed=allowed)


def chosen_of(name: str | None, known: Sequence[str], field: str, found: str) -> str:
    """Return the name, or the only one there is; refuse another, and a choice of several."""
    chosen = known[0] if name is None and len(known) == 1 else name
    if chosen not in known or chosen is None:
        text = found if name is None else f"no value of {name}"
        raise DataError(text, field=field, allowed=nearest(name or "", known))
    return chosen
