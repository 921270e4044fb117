"""Metrics and columns of your own, declared by the evaluation that has them."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import excerpt
from ragscore.scoring.metrics.declaration import NO_BOUNDS, Bounds, Label, Metric
from ragscore.scoring.metrics.labels import DEFAULT_KS, parse_label
from ragscore.scoring.metrics.own import of_plain, plain
from ragscore.scoring.metrics.ranges import checked_direction, checked_range
from ragscore.scoring.metrics.table import ADDED, HEADLINE
from ragscore.scoring.rules import LEVELS

LABELS = "labels, such as 'mrr@10'"
DEFAULT = "default"  # stands for the default metrics in a list of labels
_LABEL = re.compile(r"(?P<base>[^@:]+)(@(?P<k>[1-9]\d*))?(:(?P<level>\w+))?")
Asked = Sequence[str | Metric | Label] | str | Metric | Label | None


def asked_for(metrics: Asked) -> tuple[list[str] | str | None, "Declarations"]:
    """Return metrics that were asked for as labels, and what is declared of your own among them.

    One that takes a cut-off, given without, is meant at 1, 3, 5 and 10.
    """
    given = [metrics] if isinstance(metrics, (Metric, Label)) or callable(metrics) else metrics
    if isinstance(given, str) or not isinstance(given, Sequence):
        return given, NOTHING_DECLARED
    labels: list[Any] = []
    declared = NOTHING_DECLARED
    for one in given:
        if callable(one):
            raise DataError(
                f"found the function {getattr(one, '__name__', type(one).__name__)}",
                field="metrics",
                allowed="a metric, which @rs.metric(name, formula) above a function makes of it",
            )
        found = [one]
        if isinstance(one, Metric):
            found = [one.label(k) for k in (DEFAULT_KS if one.name.endswith("@k") else (None,))]
        own = [one.metric for one in found if isinstance(one, Label) and one.metric.source]
        declared = declared.joined(Declarations(tuple(own[:1])))
        labels += [one.text if isinstance(one, Label) else one for one in found]
    return labels, declared


@dataclass(frozen=True)
class Declarations:
    """The metrics that an evaluation has beside those of the table.

    They belong to it: they are handed to whatever is made of it, pickled and stored with it. What
    a name means is nowhere state of the process, so two evaluations may mean different things by
    it.
    """

    metrics: tuple[Metric, ...] = ()

    def find(self, text: str) -> Label | None:
        """Return the label of a metric or column that is declared; None for another."""
        parts = _LABEL.fullmatch(text)
        for own in self.metrics:
            if not own.source and own.name == text:
                return own.label()
            if own.source and parts is not None and own.base == parts["base"]:
                k, level = parts["k"], parts["level"]
                is_known = level is None or (level in LEVELS and own.family == "ranking")
                if is_known and own.name.endswith("@k") == (k is not None):
                    return own.label(int(k) if k else None, level)
        return None

    def parse(self, text: str) -> Label:
        """Take a label apart, one of your own metrics or of ours.

        Raises
        ------
        DataError
            See `parse_label`; a cut-off or level that a metric of your own can't have.
        """
        if isinstance(text, str) and (label := self.find(text)) is not None:
            return label
        base = re.split("[@:]", str(text))[0]
        if named := [own for own in self.metrics if own.source and own.base == base]:
            allowed = named[0].label_at(5)
            raise DataError(f"found {excerpt(text)}", field="metrics", allowed=allowed)
        return parse_label(text)

    def label_of(self, column: str) -> Label:
        """Return the label behind a column of scores; a column of your own is its own name."""
        if (label := self.find(column)) is not None and label.metric.source:
            return label
        return Label(column, column) if is_own(column) else parse_label(column)

    def describe(self, column: str) -> Metric:
        """Return the metric behind a column of scores.

        A column of your own has the direction and the range that were declared, if any.
        """
        if (label := self.find(column)) is not None:
            return label.metric
        if not is_own(column):
            return parse_label(column).metric
        return ADDED.get(column.partition("@")[0]) or _own(column, None, None)

    def with_own(self, name: str, better: Any, range: Any) -> "Declarations":
        """Return these and one more: a column of your own.

        Parameters
        ----------
        better
            "higher", "lower", or None: neither is better.
        range
            (lowest, highest) value, None for no bound; or None for neither.

        Raises
        ------
        DataError
            Direction or range of a metric of the table; a direction other than "higher" or
            "lower"; a range that isn't two numbers, the lower one first; a name that was declared
            otherwise.
        """
        if (known := self.find(name)) is not None and known.metric.source:
            raise DataError(
                f"{name} is a metric of your own", field="columns", allowed="another name"
            )
        if better is None and range is None:
            return self
        if name.partition("@")[0] in ADDED or not is_own(name):
            raise DataError(
                f"{name} is a metric of the table", field="better, range", allowed="another name"
            )
        own = _own(name, checked_direction(better), checked_range(range))
        return self.joined(Declarations((own,)))

    def joined(self, other: "Declarations") -> "Declarations":
        """Return the declarations of both.

        Raises
        ------
        DataError
            They declare a name differently.
        """
        known = {own.base: own for own in self.metrics}
        for metric in other.metrics:
            if known.setdefault(metric.base, metric) != metric:
                raise _contradiction(known[metric.base], metric)
            if known[metric.base].compute is None:  # of a stored one the function isn't known
                known[metric.base] = metric
        return Declarations(tuple(known.values()))

    def of(self, names: Collection[str]) -> "Declarations":
        """Return the declarations of these columns alone."""
        found = {label.metric for name in names if (label := self.find(name)) is not None}
        return Declarations(tuple(own for own in self.metrics if own in found))

    def replaces(self, column: str, stored: Mapping[str, Any]) -> bool:
        """Tell if a stored column is of a metric that is another function here."""
        own = self.find(column)
        return own is not None and own.metric.source != stored[column].get("source", "")

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """Return them as JSON holds them: {name: {"better": ..., "range": [lowest, highest]}}.

        null for no direction and for no bound; of a metric all else that `rs.metric` was given.
        """
        return {
            own.name: {
                "better": own.better if own.better in ("higher", "lower") else None,
                "range": [bound if np.isfinite(bound) else None for bound in own.bounds],
                **(plain(own) if own.source else {}),
            }
            for own in self.metrics
        }

    @classmethod
    def from_plain(cls, content: Any) -> "Declarations":
        """Return the declarations that `to_plain` wrote; metrics of your own have no function.

        Raises
        ------
        DataError
            Anything else.
        """
        found = cls()
        check_type(content, Mapping, "declared", "name -> {better, range}")
        for name, told in content.items():
            check_type(told, Mapping, f"declared.{name}", "{better, range}")
            if "source" in told:
                found = found.joined(cls((of_plain(told),)))
            else:
                found = found.with_own(str(name), told.get("better"), told.get("range"))
        return found


NOTHING_DECLARED = Declarations()
DECLARED = "declared"  # the field of run.json that holds them


def declared_by(scorings: Mapping[str, Mapping[str, Any]], names: Collection[str]) -> Declarations:
    """Return what stored runs declare of these columns, from what run.json says of their scoring.

    Raises
    ------
    DataError
        Two runs declare a column differently.
    """
    known: dict[str, tuple[str, Metric]] = {}
    for run_id, scoring in scorings.items():
        for metric in Declarations.from_plain(scoring.get(DECLARED, {})).of(names).metrics:
            other, first = known.setdefault(metric.base, (run_id, metric))
            if first != metric:
                raise _contradiction(first, metric, f" by {other}", f" by {run_id}")
    return Declarations(tuple(metric for _, metric in known.values()))


def _contradiction(first: Metric, second: Metric, by: str = "", other: str = "") -> DataError:
    told = [
        f"{one.better} is better, {one.range}" + f", function {one.source}" * bool(one.source)
        for one in (first, second)
    ]
    return DataError(
        f"{first.name} is declared as {told[0]!r}{by} and as {told[1]!r}{other}",
        field="better, range",
        allowed="one declaration of a column, or another name"
        + "; metrics=[the rs.Metric], which scores all runs by it" * bool(first.source and other),
    )


def table_kind(name: str) -> str:
    """Return the kind of a metric as the table has it: a declaration says nothing of time or cost.

    "other" for a column of your own.
    """
    return NOTHING_DECLARED.describe(name).kind


def _own(name: str, better: str | None, bounds: Bounds | None) -> Metric:
    """Return the metric of a column of your own."""
    found = Metric(
        name,
        "a column of your own",
        "as you computed it",
        kind="other",
        bounds=bounds or NO_BOUNDS,
        better=better or "not declared",
    )
    return replace(found, kind="bounded") if np.isfinite(found.width) else found


def headline_of(columns: Iterable[str]) -> list[str]:
    """Return the metrics that a table shows by default: the headline ones and columns of your own.

    All columns if none is a headline metric.
    """
    known = [str(name) for name in columns]
    headline = [name for name in HEADLINE if name in known]
    own = [name for name in known if is_own(name)]
    return [*headline, *own] if headline else known


def is_own(column: str) -> bool:
    """Tell if a column of scores is one of your own: the table has no metric of just this name."""
    try:
        return parse_label(column).text != column  # another tool's name is a column of your own
    except DataError:
        return True
