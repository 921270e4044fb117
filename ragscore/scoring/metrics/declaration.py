"""The declaration of a metric: everything that is known of it, in one place.

Applicability, reasons for a missing value, `supported_metrics`, policies and primaries read these
fields; none of them knows a metric by its name.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragscore.frames.data import DataError
from ragscore.frames.escaping import visible
from ragscore.frames.typing import Values
from ragscore.scoring.metrics.needs import Gap, Need, RunNeed

TOOLS = ("trec_eval", "ir_measures", "ranx")
Bounds = tuple[float, float]
NO_BOUNDS = (-np.inf, np.inf)
ROUNDING = 1e-9  # of a scale of 1: values that differ by less are equal, or within a bound


@dataclass(frozen=True, repr=False)
class Metric:
    """One metric: ours, or your own by `rs.metric`.

    Attributes
    ----------
    name
        Holds a `k` where the label takes a cut-off, and an `r` where it takes a recall level.
    formula
        What it measures, in words.
    compute
        Ranking metrics: (credit, label) -> a value per row. Metrics of responses: facts of the
        responses -> a value per response. NaN for rows without what it needs is set for it.
    needs
        Of the golden set and the run. Requirements, applicability and reasons follow.
    where
        Which responses it is measured over: asked, finished, answered, due, given, grounded, ...
    on_failure
        Of a failed query: "lost" (its value is missing), "left_out" or "measured".
    ends_at_refusal
        True if a refusal leaves nothing to measure.
    excuses
        True if it doesn't apply to queries that should be refused.
    gaps, otherwise
        Why a row that has everything has no value; why none other is known.
    vacuous
        Its value where nothing is relevant and policies want one; None: it stays NaN.
    aspect, priority
        What it stands for among primary metrics; the first that has values does.
    bounds, unit
        Its least and largest value, infinite where nothing bounds it. Text for readers is made of
        them (`range`), never the other way round.
    partly
        What some rows alone are read from.
    fields
        Fields of results without which it is measured otherwise.
    version
        Counts the meanings that its formula has had: stored values of different versions are not
        compared. It is written by hand: a hash of the source would change with every rename and
        comment, but not with the functions that the formula calls. A test holds every metric's
        values on a fixed example, and fails if they change and the version doesn't.
    of_calls
        What it is of all calls of a query together: a "set" metric, a "share" of the places within
        k of each call, or none ("": it goes by an order, which they don't have).
    reads
        Columns that its formula reads from lists: see `scoring.metrics.lists`.
    source
        Of one of your own: a hash of its function, which is its version.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    name: str
    formula: str
    nan_when: str = ""
    kind: str = "bounded"  # binary, bounded, time, cost, other
    better: str = "higher"
    bounds: Bounds = (0.0, 1.0)
    unit: str = ""  # of its values
    also: str = ""  # its name in other tools
    default: bool = True
    version: int = 1
    compute: Callable[..., Values] | None = field(default=None, compare=False)
    family: str = ""
    needs: tuple[Need | RunNeed, ...] = ()
    where: str = "asked"
    on_failure: str = "lost"
    ends_at_refusal: bool = False
    excuses: bool = True
    gaps: tuple[Gap, ...] = ()
    otherwise: str = ""
    nothing: str = ""  # what a judge of it may find none of
    reads_matches: bool = False
    vacuous: float | None = 1.0
    of_calls: str = ""
    aspect: str = ""
    priority: int = 0
    spelled: tuple[str, ...] = ()
    parameter: tuple[float | None, Callable[[float], bool], str] | None = None
    fields: tuple[str, ...] = ()  # without which it is measured otherwise
    partly: tuple[RunNeed, ...] = ()
    source: str = ""
    reads: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return visible(self.card(self.name))

    def card(self, name: str) -> str:
        """Return what there is to know of it as text, under this name."""
        rows = [
            ("formula", self.formula), ("range", f"{self.range}, {self.better} is better"),
            ("kind", self.kind), ("NaN when", self.nan_when), ("also", self.also),
        ]  # fmt: skip
        return "\n".join([name, *(f"  {key:<10}{text}" for key, text in rows if text)])

    def label(self, k: int | None = None, level: str | None = None) -> "Label":
        """Return its label at a cut-off and a match level."""
        text = self.label_at(k) if k is not None else self.name
        return Label(text + (f":{level}" if level else ""), self.base, k, level, None, self)

    def refuse_outside(self, values: Any, name: str) -> None:
        """Refuse values outside of its bounds, infinite ones, and others than 0 and 1 if binary."""
        known = np.asarray(values, dtype="float64")
        known = known[~np.isnan(known)]
        low, high = self.bounds
        is_fit = np.isfinite(known) & (known >= low) & (known <= high)
        if self.kind == "binary":
            is_fit &= np.isin(known, (0, 1))
        if not is_fit.all():
            raise DataError(
                f"{name} ranges from {known.min():g} to {known.max():g}",
                field="range",
                allowed="0 or 1, or another kind"
                if self.kind == "binary"
                else f"values of the range {self.range}, or another range",
            )

    @property
    def range(self) -> str:
        """Its bounds as text."""
        low, high = (f"{bound:.15g}" for bound in self.bounds)
        has_low, has_high = np.isfinite(self.bounds)
        text = f"{low} to {high}" if has_low and has_high else "any"
        if has_low != has_high:
            text = f"{low} and above" if has_low else f"{high} and below"
        return f"{text}, {self.unit}" if self.unit else text

    @property
    def width(self) -> float:
        """The distance of its bounds; infinite without one, or where no float holds it."""
        return self.bounds[1] - self.bounds[0]

    @property
    def scale(self) -> float:
        """The power of two at or below its width; 1 without bounds.

        What is computed is divided by it, which loses no bit: tests and tolerances are then those
        of a scale of about 1, whether a range ends at 1e-5 or at 1e6.
        """
        return float(np.exp2(np.floor(np.log2(self.width)))) if np.isfinite(self.width) else 1.0

    @property
    def rounding(self) -> float:
        """The difference up to which two of its values or means are equal but for rounding."""
        return ROUNDING * min(self.scale, 1.0)

    def scaled(self) -> "Metric":
        """Return the metric of values that were divided by its scale."""
        low, high = self.bounds
        return replace(self, bounds=(low / self.scale, high / self.scale))

    @property
    def is_unit(self) -> bool:
        """True if it ranges from 0 to 1."""
        return self.bounds == (0.0, 1.0)

    @property
    def base(self) -> str:
        """Its name without a cut-off."""
        return re.sub("@[kr]$", "", self.name)

    @property
    def golden_needs(self) -> tuple[Need, ...]:
        """What it needs of the golden set."""
        return tuple(need for need in self.needs if isinstance(need, Need))

    @property
    def run_needs(self) -> tuple[RunNeed, ...]:
        """What it needs of a run."""
        return tuple(need for need in self.needs if not isinstance(need, Need))

    @property
    def recorded(self) -> RunNeed | None:
        """What it is read from, of a response."""
        found = (one for one in self.run_needs if one.here)
        return next(found, None)

    @property
    def criterion(self) -> str | None:
        """What a judge measures; "" for any; None if it isn't judged."""
        return self.recorded.criterion if self.family == "judged" and self.recorded else None

    def is_unlike_without(self, field: str) -> bool:
        """Tell if it is measured otherwise where results lack this field."""
        of_refusals = self.where in ("given", "grounded", "decided")
        return field in self.fields or (field == "responses.refused" and of_refusals)

    def other_names(self) -> dict[str, str]:
        """Return the names of other tools, without cut-off and parameters."""
        texts = [text.split(" ", 1) for text in self.also.split(", ") if " " in text]
        named = [re.split(r"[@(]|_[kr]$", name)[0] for tool, name in texts if tool in TOOLS]
        return dict.fromkeys([*named, *self.spelled], self.base)

    def label_at(self, k: int) -> str:
        """Return its label at a cut-off, if it takes one."""
        return self.name.replace("@k", f"@{k}")


OWN_COLUMN = Metric(
    "",
    "a column of your own",
    "as you computed it",
    kind="other",
    better="not declared",
    bounds=NO_BOUNDS,
    family="own",
    excuses=False,
)


@dataclass(frozen=True)
class Label:
    """A metric label taken apart: `recall@5:doc` is recall, k = 5, at level doc.

    `text` is the label as we write it, also where it was given under another tool's name.
    `parameter` is p of `rbp(p)`, the highest grade of `err(grade)@k`, or r of `iprec@r`.
    """

    text: str
    name: str
    k: int | None = None
    level: str | None = None
    parameter: float | None = None
    metric: Metric = field(default=OWN_COLUMN, compare=False, repr=False)

    @property
    def is_ranking(self) -> bool:
        """True for metrics computed from hits and targets."""
        return self.metric.family == "ranking"


def nan_text(metric: Metric) -> str:
    """Return in words when a metric is NaN, from what it needs."""
    parts = [metric.nothing] * bool(metric.nothing) + [gap.text for gap in metric.gaps]
    parts += [need.absent or f"no {need.lacking}" for need in metric.golden_needs]
    if (needed := metric.recorded) is not None:
        parts.append(needed.absent or f"no {needed.what}")
    if metric.on_failure != "measured" and metric.family not in ("ranking", "success"):
        parts.append("the query failed")
    if metric.ends_at_refusal and metric.where in ("given", "grounded"):
        parts.append("the system refused")
    if metric.excuses and metric.golden_needs:
        parts.append("the query should be refused")
    if metric.otherwise:
        parts.append(metric.otherwise)
    return "; ".join(parts) or "never, for a query that was asked"
