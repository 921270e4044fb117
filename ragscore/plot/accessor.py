"""Pictures as methods of what they show: `cmp.plot()` the usual one, `cmp.plot.ranks()` another.

In: an object of the analysis. Out: `Plots`, which draws with the functions of `rs.plot` and fills
in what the object knows.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import signature
from operator import attrgetter
from typing import Any

from matplotlib.axes import Axes

from ragscore.analysis.extras.score_threshold import risk_coverage
from ragscore.frames.errors import nearest
from ragscore.plot import dots, grids, lines
from ragscore.plot.style import all_runs

Draw = Callable[..., Axes]
# parameter of a picture -> the object's attribute for it, or what returns it
Given = Mapping[str, str | Callable[[Any], Any]]


def filled(draw: Draw, given: Given, holder: Any) -> Draw:
    """Return a function of `rs.plot` with what the object has, and only the rest to give."""
    whole = signature(draw)
    rest = [part for name, part in whole.parameters.items() if name not in given]
    asked = whole.replace(parameters=rest)

    @wraps(draw)
    def drawn(*args: Any, **options: Any) -> Axes:
        arguments = asked.bind(*args, **options).arguments
        known = {
            name: attrgetter(value)(holder) if isinstance(value, str) else value(holder)
            for name, value in given.items()
        }
        with all_runs(getattr(holder, "_in_order", ())):
            return draw(**known, **arguments)

    drawn.__signature__ = asked  # type: ignore[attr-defined]
    return drawn


class Plots:
    """The pictures of one object: called, it draws the usual one; the others are its methods."""

    def __init__(self, pictures: Mapping[Draw, Given], holder: Any) -> None:
        self._pictures = {
            draw.__name__: filled(draw, given, holder) for draw, given in pictures.items()
        }
        self._usual = next(iter(self._pictures.values()))
        self.__signature__ = signature(self._usual)

    def __call__(self, *args: Any, **options: Any) -> Axes:
        """Draw the usual picture, the first that `repr` lists."""
        return self._usual(*args, **options)

    def __getattr__(self, name: str) -> Draw:
        known = self.__dict__["_pictures"]
        if name not in known:
            raise AttributeError(f"no picture {name!r}; {nearest(name, known)}")
        return self._pictures[name]

    def __dir__(self) -> list[str]:
        return list(self._pictures)

    def __repr__(self) -> str:
        lines = [
            f".plot.{name}{signature(draw)}: {(draw.__doc__ or '').partition(chr(10))[0]}"
            for name, draw in self._pictures.items()
        ]
        return "\n".join([".plot() draws the first of these pictures.", *lines])


class Gallery:
    """The pictures of a class: called with one of its objects, it returns the object's `Plots`."""

    def __init__(self, example: str, pictures: Mapping[Draw, Given]) -> None:
        self.pictures = pictures
        self.__doc__ = (
            "Draw the usual picture; by name, any of "
            + ", ".join(f"`.plot.{draw.__name__}`" for draw in pictures)
            + f".\n\nExamples\n--------\n>>> {example}"
        )

    def __call__(self, holder: Any) -> Plots:
        """Return the pictures of one object."""
        return Plots(self.pictures, holder)


SCORED = {"table": "scores", "golden": "golden", "declared": "_declared"}
PAIR = {"baseline": "baseline", "candidate": "candidate"}
EVALUATION = Gallery(
    'ev.plot(["hit@5", "mrr@10"])',
    {
        dots.summary: {
            "table": lambda ev: ev._of_systems.summary(),
            "primary": "primary",
            "declared": "_declared",
        },
        dots.slices: SCORED,
        grids.heatmap: SCORED,
        lines.metric_at_k: {"table": lambda ev: ev._of_systems.summary("all")},
        grids.tradeoff: {"table": lambda ev: ev._of_systems.summary(), "declared": "_declared"},
        grids.scatter: {"scores": "scores", "declared": "_declared"},
        dots.refusals: {"table": lambda ev: ev.refusals().table},
        lines.risk_coverage: {"curve": lambda ev: risk_coverage(ev).curve},
    },
)
COMPARISON = Gallery(
    'ev.compare("dense", "hybrid").plot.ranks()',
    {
        dots.forest: {"deltas": "deltas", **PAIR, "declared": "_declared"},
        grids.ranks: {"cmp": lambda cmp: cmp},
        dots.outcomes: {"counts": "counts", **PAIR},
        grids.scatter: {"scores": lambda cmp: cmp._evaluated[1], **PAIR, "declared": "_declared"},
    },
)
SLICES = Gallery(
    'cmp.slices("difficulty").plot()', {dots.slice_deltas: {"found": lambda found: found}}
)
LEADERBOARD = Gallery(
    'ev.leaderboard("mrr@10").plot()',
    {
        dots.summary: {
            "table": lambda board: board.table.rename(columns={"value": "mean"}),
            "declared": "_declared",
        }
    },
)
TREND = Gallery('store.trend("mrr@10").plot()', {lines.trend: {"table": lambda found: found}})
REFUSALS = Gallery("ev.refusals().plot()", {dots.refusals: {"table": "table"}})
FAILURES = Gallery(
    'ev.failures().plot("dense", "hybrid")', {grids.failures: {"found": lambda found: found}}
)
CONVERSATIONS = Gallery(
    "rs.extras.conversations(ev).plot()", {lines.turns: {"table": "turns", "metric": "metric"}}
)
CALLS = Gallery("rs.extras.calls(ev).plot()", {lines.calls: {"after": "after"}})
RISK_COVERAGE = Gallery(
    "rs.extras.risk_coverage(ev).plot()", {lines.risk_coverage: {"curve": "curve"}}
)
