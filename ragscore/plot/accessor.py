"""Pictures as methods of what they show: `cmp.plot()` the usual one, `cmp.plot.ranks()` another.

In: an object of the analysis. Out: `Plots`, which draws with the functions of `rs.plot` and fills
in what the object knows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import signature
from typing import Any

from matplotlib.axes import Axes

from ragscore.frames.errors import nearest
from ragscore.plot.curves import calls, metric_at_k, risk_coverage, tradeoff, turns
from ragscore.plot.grids import failure_transitions, heatmap, refusal_matrix
from ragscore.plot.pairs import forest, outcomes, ranks, scatter, slice_deltas
from ragscore.plot.runs import scores_by_rank, slices, summary
from ragscore.plot.style import all_runs
from ragscore.plot.trends import trend


@dataclass(frozen=True)
class Picture:
    """A function of `rs.plot`, and its arguments that an object has.

    Attributes
    ----------
    given
        Parameter -> what returns its value, given the object.
    """

    draw: Callable[..., "Axes"]
    given: Mapping[str, Callable[[Any], Any]]

    def of(self, holder: Any) -> Callable[..., "Axes"]:
        """Return the function with these arguments filled in, and only the others to give."""
        whole = signature(self.draw)
        rest = [part for name, part in whole.parameters.items() if name not in self.given]
        asked = whole.replace(parameters=rest)

        @wraps(self.draw)
        def drawn(*args: Any, **options: Any) -> "Axes":
            arguments = asked.bind(*args, **options).arguments
            with all_runs(*getattr(holder, "_in_order", ((), None))):
                return self.draw(
                    **{name: value(holder) for name, value in self.given.items()}, **arguments
                )

        drawn.__signature__ = asked  # type: ignore[attr-defined]
        return drawn


class Plots:
    """The pictures of one object: called, it draws the usual one; the others are its methods."""

    def __init__(self, pictures: Mapping[str, Picture], holder: Any) -> None:
        self._pictures, self._holder = pictures, holder
        self.__signature__ = signature(next(iter(pictures.values())).of(holder))

    def __call__(self, *args: Any, **options: Any) -> "Axes":
        """Draw the usual picture, the first that `repr` lists."""
        return next(iter(self._pictures.values())).of(self._holder)(*args, **options)

    def __getattr__(self, name: str) -> Callable[..., "Axes"]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._pictures:
            raise AttributeError(f"no picture {name!r}; {nearest(name, self._pictures)}")
        return self._pictures[name].of(self._holder)

    def __dir__(self) -> list[str]:
        return list(self._pictures)

    def __repr__(self) -> str:
        lines = []
        for name, picture in self._pictures.items():
            said = (picture.draw.__doc__ or "").partition("\n")[0]
            lines.append(f".plot.{name}{signature(picture.of(self._holder))}: {said}")
        return "\n".join([".plot() draws the first of these pictures.", *lines])


class Gallery:
    """The pictures of a class: called with one of its objects, it returns the object's `Plots`."""

    def __init__(self, example: str, *pictures: Picture) -> None:
        self.pictures = {picture.draw.__name__: picture for picture in pictures}
        others = ", ".join(f"`.plot.{name}`" for name in self.pictures)
        text = f"Draw the usual picture; by name, any of {others}."
        self.__doc__ = f"{text}\n\nExamples\n--------\n>>> {example}"

    def __call__(self, holder: Any) -> Plots:
        """Return the pictures of one object."""
        return Plots(self.pictures, holder)


# what columns of your own mean: part of each object that may show them
_DECLARED: dict[str, Callable[[Any], Any]] = {"declared": lambda holder: holder.declared}
_QUESTION: dict[str, Callable[[Any], Any]] = {"question": lambda ev: ev.question}
EVALUATION = Gallery(
    'ev.plot(["hit@5", "mrr@10"])',
    Picture(
        summary,
        {
            "table": lambda ev: ev.summary(),
            "scores": lambda ev: ev.scores,
            "golden": lambda ev: ev.golden,
            **_DECLARED,
            **_QUESTION,
        },
    ),
    Picture(slices, {"table": lambda ev: ev.scores, "golden": lambda ev: ev.golden, **_DECLARED}),
    Picture(heatmap, {"table": lambda ev: ev.scores, "golden": lambda ev: ev.golden, **_DECLARED}),
    Picture(metric_at_k, {"summary": lambda ev: ev.summary(), **_QUESTION}),
    Picture(
        tradeoff,
        {"scores": lambda ev: ev.scores, "results": lambda ev: ev.results, **_DECLARED},
    ),
    Picture(scatter, {"scores": lambda ev: ev.scores, **_DECLARED}),
    Picture(scores_by_rank, {"table": lambda ev: ev.results}),
    Picture(refusal_matrix, {"table": lambda ev: ev.refusals().table, **_QUESTION}),
    Picture(risk_coverage, {"curve": lambda ev: ev.risk_coverage().curve}),
)
_RUNS: dict[str, Callable[[Any], Any]] = {
    "baseline": lambda cmp: cmp.baseline,
    "candidate": lambda cmp: cmp.candidate,
}
COMPARISON = Gallery(
    'ev.compare("dense", "hybrid").plot.ranks()',
    Picture(forest, {"deltas": lambda cmp: cmp.deltas, **_RUNS, **_DECLARED}),
    Picture(ranks, {"cmp": lambda cmp: cmp}),
    Picture(outcomes, {"counts": lambda cmp: cmp.counts, **_RUNS}),
    Picture(scatter, {"scores": lambda cmp: cmp._evaluated[1], **_RUNS, **_DECLARED}),
)
SLICES = Gallery(
    'cmp.slices("difficulty").plot()',
    Picture(slice_deltas, {"found": lambda found: found}),
)
LEADERBOARD = Gallery(
    'ev.leaderboard("mrr@10").plot()',
    # bounds of the intervals stand for those of the values, which tell the scale of own columns
    Picture(
        summary,
        {
            "table": lambda board: board.table.assign(
                min=board.table["low"], max=board.table["high"]
            ),
            "scores": lambda board: None,
            "golden": lambda board: None,
            "question": lambda board: None,
            **_DECLARED,
        },
    ),
)
TREND = Gallery('store.trend("mrr@10").plot()', Picture(trend, {"table": lambda found: found}))
REFUSALS = Gallery(
    "ev.refusals().plot()", Picture(refusal_matrix, {"table": lambda found: found.table})
)
FAILURES = Gallery(
    'ev.failures().plot("dense", "hybrid")',
    Picture(failure_transitions, {"table": lambda found: found}),
)
CONVERSATIONS = Gallery(
    "ev.conversations().plot()",
    Picture(turns, {"table": lambda found: found.turns, "metric": lambda found: found.metric}),
)
CALLS = Gallery("ev.calls().plot()", Picture(calls, {"after": lambda found: found.after}))
RISK_COVERAGE = Gallery(
    "ev.risk_coverage().plot()", Picture(risk_coverage, {"curve": lambda found: found.curve})
)
