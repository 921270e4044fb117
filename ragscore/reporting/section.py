"""A section of a page: what HTML and Markdown are written from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from ragscore.analysis.comparison.model import Comparison
from ragscore.scoring.metrics import HEADLINE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VERDICTS = ("better", "no worse than margin", "worse", "can't tell")
# what it shows, for those who can't see it, and how to draw it
Figure = tuple[str, Callable[[], "Axes"]]


@dataclass(frozen=True)
class Section:
    """A heading with what stands below it, in this order: sentences, figures, a table, notes to it.

    `folded` are columns of the table whose long texts are opened on request; Markdown leaves them
    out.
    """

    title: str
    depth: int = 2
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    table: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    folded: tuple[str, ...] = field(default=())


def each(rows: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Rows of some columns."""
    return list(zip(*(rows[name] for name in names), strict=True))


def by_verdict(cmp: Comparison) -> dict[str, str]:
    """Verdict -> the headline metrics that it is said of."""
    measured = cmp.deltas[cmp.deltas["n"] > 0].set_index("metric")["verdict"]
    names = [name for name in HEADLINE if name in measured.index] or list(measured.index)
    return {
        verdict: ", ".join(name for name in names if measured[name] == verdict)
        for verdict in VERDICTS
    }
