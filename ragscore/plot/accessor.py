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

from ragscore.frames.errors import nearest
from ragscore.plot.curves import calls, metric_at_k, risk_coverage, tradeoff, turns
from ragscore.plot.grids import failure_transitions, heatmap, refusal_matrix
from ragscore.plot.pairs import forest, outcomes, ranks, scatter, slice_deltas
from ragscore.plot.runs import scores_by_rank, slices, summary
from ragscore.plot.style import all_runs
from ragscore.plot.trends import trend

Draw = Callable[..., "Axes"]
Given = Mapping[str, Callable[[Any], Any]]
"""Parameter of a picture -> what returns its value, given the object."""


def filled(draw: Draw, given: Given, holder: Any) -> Draw:
    """Return a function of `rs.plot` with what the object has, and only the rest to give."""
    whole = signature(draw)
    rest = [part for name, part in whole.parameters.items() if name not in given]
    asked = whole.replace(parameters=rest)

    @wraps(draw)
    def drawn(*args: Any, **options: Any) -> "Axes":
        arguments = asked.bind(*args, **options).arguments
        with all_runs(*getattr(holder, "_in_order", ((), None))):
            return draw(**{name: value(holder) for name, value in given.items()}, **arguments)

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

    def __call__(self, *args: Any, **options: Any) -> "Axes":
        """Draw the usual picture, the first that `repr` lists."""
        return self._usual(*args, **options)

    def __getattr__(self, name: str) -> Draw:
        if name.startswith("_") or name not in self._pictures:
            raise AttributeError(
                f"no picture {name!r}; {nearest(name, self.__dict__['_pictures'])}"
            )
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
        others = ", ".join(f"`.plot.{draw.__name__}`" for draw in pictures)
        text = f"Draw the usual picture; by name, any of {others}."
        self.__doc__ = f"{text}\n\nExamples\n--------\n>>> {example}"

    def __call__(self, holder: Any) -> Plots:
        """Return the pictures of one object."""
        return Plots(self.pictures, holder)


def _own(*names: str, **others: str) -> dict[str, Callable[[Any], Any]]:
    """Return what reads attributes of an object, for parameters of their or another name."""
    paths = {name: name for name in names} | others
    return {name: attrgetter(path) for name, path in paths.items()}


EVALUATION = Gallery(
    'ev.plot(["hit@5", "mrr@10"])',
    {
        summary: {"table": lambda ev: ev.summary(), **_own("declared")},
        slices: _own("golden", "declared", table="scores"),
        heatmap: _own("golden", "declared", table="scores"),
        metric_at_k: {"summary": lambda ev: ev.summary()},
        tradeoff: _own("scores", "declared"),
        scatter: _own("scores", "declared"),
        scores_by_rank: _own(table="results"),
        refusal_matrix: {"table": lambda ev: ev.refusals().table},
        risk_coverage: {"curve": lambda ev: ev.risk_coverage().curve},
    },
)  # fmt: skip
COMPARISON = Gallery(
    'ev.compare("dense", "hybrid").plot.ranks()',
    {
        forest: _own("deltas", "baseline", "candidate", "declared"),
        ranks: {"cmp": lambda cmp: cmp},
        outcomes: _own("counts", "baseline", "candidate"),
        scatter: {
            "scores": lambda cmp: cmp._evaluated[1], **_own("baseline", "candidate", "declared"),
        },
    },
)  # fmt: skip
SLICES = Gallery('cmp.slices("difficulty").plot()', {slice_deltas: {"found": lambda found: found}})
# bounds of the intervals stand for those of the values, which tell the scale of own columns
LEADERBOARD = Gallery(
    'ev.leaderboard("mrr@10").plot()',
    {
        summary: {
            "table": lambda board: board.table.assign(
                min=board.table["low"],
                max=board.table["high"],
                mean=board.table["value"],
                p50=board.table["value"],
                p50_low=board.table["low"],
                p50_high=board.table["high"],
            ),
            **_own("declared"),
        }
    },
)
TREND = Gallery('store.trend("mrr@10").plot()', {trend: {"table": lambda found: found}})
REFUSALS = Gallery("ev.refusals().plot()", {refusal_matrix: _own("table")})
FAILURES = Gallery(
    'ev.failures().plot("dense", "hybrid")', {failure_transitions: {"table": lambda found: found}}
)
CONVERSATIONS = Gallery("ev.conversations().plot()", {turns: _own("metric", table="turns")})
CALLS = Gallery("ev.calls().plot()", {calls: _own("after")})
RISK_COVERAGE = Gallery("ev.risk_coverage().plot()", {risk_coverage: _own("curve")})
