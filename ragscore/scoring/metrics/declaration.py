"""The declaration of a metric, and its label: everything that is known of it, in one place.

A table of metrics takes labels apart. The metrics of an evaluation are such a table: ours, and
beside them columns and metrics of your own.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.escaping import visible
from ragscore.frames.typing import Values
from ragscore.scoring.metrics.needs import Need
from ragscore.scoring.targets import LEVELS

DEFAULT_KS = (1, 3, 5, 10)
Bounds = tuple[float, float]
ANY: Bounds = (-np.inf, np.inf)
ROUNDING = 1e-9  # of a scale of 1: values that differ by less are equal, or within a bound
Parameter = tuple[float | None, Callable[[float], bool], str]  # default, which are allowed, words


@dataclass(frozen=True, repr=False)
class Metric:
    """One metric: ours, or your own by `rs.metric`.

    Attributes
    ----------
    name
        Ends in `@k` where the label takes a cut-off, and in `@r` where it takes a recall level.
    formula
        What it measures, in words.
    compute
        Ranking metrics: (matched hits, label) -> a value per row of `Rows`; others: rows -> values.
        Rows outside of `where`, and of queries that lack one of `needs`, are NaN afterwards.
    kind
        binary, bounded, time, cost or other.
    reads
        The column of results without which nothing is known.
    where
        The rows it is measured over: a name of flags of `Rows`.
    parameter
        Default of its parameter, which values are allowed, and that in words.
    version
        Counts the meanings that its formula has had: values of different versions aren't compared.
        It is written by hand; a test of values on a fixed example fails if it is forgotten.
    source
        Of one of your own: a hash of its function, which is its version.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    name: str
    formula: str
    family: str = "own"
    compute: Callable[..., Any] | None = field(default=None, compare=False)
    kind: str = "other"
    better: str = "not declared"
    bounds: Bounds = ANY
    unit: str = ""
    also: str = ""  # its names in other tools
    default: bool = False  # part of `metrics="all"`
    version: int = 1
    needs: tuple[Need, ...] = ()
    reads: str = ""
    where: str = "asked"
    parameter: Parameter | None = None
    aspect: str = ""  # of your own: what it stands for among primary metrics
    source: str = ""

    def __repr__(self) -> str:
        return visible(self.card(self.name))

    def card(self, name: str) -> str:
        """Return what there is to know of it as text, under this name."""
        rows = [
            ("formula", self.formula), ("range", f"{self.range}, {self.better} is better"),
            ("kind", self.kind), ("NaN when", self.nan_when), ("also", self.also),
        ]  # fmt: skip
        return "\n".join([name, *(f"  {key:<10}{text}" for key, text in rows if text)])

    @property
    def base(self) -> str:
        """Its name without a cut-off."""
        return re.sub("@[kr]$", "", self.name)

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
        """The distance of its bounds; infinite without one."""
        return self.bounds[1] - self.bounds[0]

    @property
    def scale(self) -> float:
        """The power of two at or below its width; 1 without bounds.

        Values are divided by it before they are tested, which loses no bit: tolerances are then
        those of a scale of about 1.
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
    def nan_when(self) -> str:
        """When it is NaN, in words: from what it needs."""
        if self.family == "own" and self.compute is None:
            return "as you computed it"
        parts = [f"no {need.lacking}" for need in self.needs]
        parts += [f"the run records no {recorded_words(self.reads)}"] if self.reads else []
        parts += ["the query failed"] if self.where not in ("asked", "rows") else []
        parts += ["the system refused"] if self.where in ("given", "grounded") else []
        return "; ".join(parts) or "never, for a query that was asked"

    def refuse_outside(self, values: Any, name: str) -> None:
        """Refuse values outside of its bounds, infinite ones, and others than 0 and 1 if binary."""
        known = np.asarray(values, dtype="float64")
        known = known[~np.isnan(known)]
        is_fit = np.isfinite(known) & (known >= self.bounds[0]) & (known <= self.bounds[1])
        is_fit &= np.isin(known, (0, 1)) | (self.kind != "binary")
        if not is_fit.all():
            raise DataError(
                f"{name} ranges from {known.min():g} to {known.max():g}",
                field="range",
                allowed="0 or 1, or another kind"
                if self.kind == "binary"
                else f"values of the range {self.range}, or another range",
            )


def recorded_words(reads: str) -> str:
    """Return in words what a column of results records."""
    frame, _, column = reads.partition(".")
    words = {"value": "judgment of it", "refused": "refusal", "elapsed_ms": "time"}
    words |= {"cost_usd": "cost", "scope": "choice of folders"}
    return words.get(column, column or frame)


class Family(list[Metric]):
    """The metrics of one file; calling it declares one, as a decorator of its formula."""

    def __init__(self, family: str, **common: Any) -> None:
        ours = {"kind": "bounded", "better": "higher", "bounds": (0.0, 1.0), "default": True}
        self.common = {"family": family, **ours, **common}

    def __call__(self, name: str, formula: str, **fields: Any) -> Callable[[Any], Any]:
        """Declare a metric; `fields` go before what all of the family have in common."""

        def declared(compute: Any) -> Any:
            self.append(Metric(name, formula, **{**self.common, "compute": compute, **fields}))
            return compute

        return declared


@dataclass(frozen=True)
class Label:
    """A metric with its cut-off, level and parameter: `recall@5:doc` is recall, k = 5, by document.

    `text` is the label as we write it, also where it was given under another tool's name.
    """

    text: str
    metric: Metric = field(compare=False, repr=False)
    k: int | None = None
    level: str | None = None
    parameter: float | None = None

    @property
    def name(self) -> str:
        """The name of the metric without its cut-off."""
        return self.metric.base

    @property
    def is_ranking(self) -> bool:
        """True for metrics computed from hits and targets."""
        return self.metric.family == "ranking"


_LABEL = re.compile(
    r"(?P<name>.+?)(?:\((?P<given>[^()]*)\))?(?:[@_.](?P<at>\d+(?:\.\d+)?))?(?::(?P<level>[a-z]+))?"
)
_TOOLS = ("trec_eval", "ir_measures", "ranx")
# How ir_measures writes the gain of its nDCG
_GAINS = {"dcg='exp-log2'": "ndcg", "dcg='log2'": "ndcg_linear"}


def spelling(name: str) -> str:
    """Return a name without case and separators."""
    return re.sub(r"[\s_.-]+", "", name.casefold())


class MetricTable(dict[str, Metric]):
    """Metrics by name, and the labels that stand for them.

    `TABLE` holds ours. Columns and metrics of your own are added by `with_metrics`: a table belongs
    to its evaluation, so two evaluations may mean different things by one name.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        super().__init__({one.name: one for one in metrics})
        ours = [one for one in self.values() if one.family != "own" and not one.source]
        names = {spelling(one.base): one.base for one in ours}
        # What differs from a name of ours in case or separators only is ours, whatever it means
        # elsewhere: two people who write ndcg and nDCG must not get two numbers.
        self.spelled = {
            spelling(other): base for one in ours for other, base in _other_names(one)
        } | names

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))  # a table is never changed

    def __reduce__(self) -> Any:
        return MetricTable, (list(self.values()),)

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """Return metrics and columns of your own as JSON holds them."""
        from ragscore.scoring.own import to_plain

        return to_plain(self.own)

    @classmethod
    def from_plain(cls, content: Any) -> "MetricTable":
        """Return our metrics, and those that `to_plain` wrote."""
        from ragscore.scoring.metrics import TABLE
        from ragscore.scoring.own import from_plain

        return TABLE.with_metrics(from_plain(content))

    @property
    def own(self) -> list[Metric]:
        """Metrics and columns of your own."""
        return [one for one in self.values() if one.family == "own" or one.source]

    def parse(self, text: str) -> Label:
        """Take a label apart.

        Names of trec_eval, ir_measures and ranx are understood where they mean the same: `P_10` is
        `precision@10`. Letter case and separators don't matter.

        Raises
        ------
        DataError
            Not a known metric (near misses are named), a cut-off below 1, a parameter out of range,
            or an unknown level.
        """
        if not isinstance(text, str):
            raise DataError(
                f"found {excerpt(text)}", field="metrics", allowed="labels, such as 'mrr@10'"
            )
        if text in self and self[text].family == "own" and not text.endswith("@k"):
            return Label(text, self[text])
        found = _LABEL.fullmatch(text)
        parts: dict[str, str | None] = found.groupdict() if found else {"name": text}
        written, given, at = parts["name"] or "", parts.get("given") or "", parts.get("at")
        is_own = written in self or f"{written}@k" in self
        name = written if is_own else self.spelled.get(spelling(written), written)
        if name == "ndcg" and (gain := _GAINS.get(given.replace(" ", "").replace('"', "'"))):
            name, given = gain, ""
        line = f"{name}@r" if f"{name}@r" in self else f"{name}@k" if at is not None else name
        metric = self.get(line)
        if metric is None or "@" in name or (line.endswith("@r") and at is None):
            raise self._unknown(text, name)
        is_cut, level = line.endswith("@k"), parts.get("level")
        if is_cut and (at is None or "." in at or int(at) < 1):
            raise DataError(f"found {text!r}", field="metrics", allowed="a cut-off k of at least 1")
        if level is not None and (level not in LEVELS or metric.family != "ranking"):
            raise DataError(
                f"found {text!r}",
                field="metrics",
                allowed=f"a ranking metric followed by one of :{', :'.join(LEVELS)}",
            )
        parameter = _parameter(text, metric, given, at)
        shown = name
        if line.endswith("@r"):
            shown += f"@{parameter:.12g}"
        elif metric.parameter and parameter != metric.parameter[0]:
            shown += f"({parameter:.12g})"
        k = int(at or 0) if is_cut else None
        shown += (f"@{k}" if is_cut else "") + (f":{level}" if level else "")
        return Label(shown, metric, k, level, parameter)

    def _unknown(self, text: str, name: str) -> DataError:
        """Return the error of a label that names no metric."""
        name = re.sub("@[kr]$", "", name)
        allowed = nearest(text, [*self.labels(), *self, *self.spelled], "rs.metrics() has")
        if f"{name}@r" in self:
            allowed = f"a recall level, as in {name}@0.1"
        elif f"{name}@k" in self:
            allowed = f"a cut-off, as in {name}@10"
        elif name in self:
            allowed = f"{name} without a cut-off"
        return DataError(f"unknown metric {excerpt(text)}", field="metrics", allowed=allowed)

    def find(self, text: str) -> Label | None:
        """Return the label of this very text; None if no metric is called so."""
        try:
            label = self.parse(text)
        except DataError:
            return None
        return label if label.text == text else None

    def label_of(self, column: str) -> Label:
        """Return the label behind a column of scores; an undeclared one is a column of your own."""
        return self.find(column) or Label(column, own_column(column))

    def describe(self, column: str) -> Metric:
        """Return the metric behind a column of scores."""
        return self.label_of(column).metric

    def is_own(self, column: str) -> bool:
        """Return whether a column of scores is one of your own."""
        metric = self.describe(column)
        return metric.family == "own" and metric.compute is None

    def with_metrics(self, metrics: Iterable[Metric]) -> "MetricTable":
        """Return this table and more metrics.

        Raises
        ------
        DataError
            A name that is declared differently.
        """
        found = dict(self)
        for one in metrics:
            known = found.setdefault(one.name, one)
            if known != one:
                told = [f"{it.better} is better, {it.range}" for it in (known, one)]
                told = [f"{text}, function {it.source}" if it.source else text
                        for text, it in zip(told, (known, one), strict=True)]  # fmt: skip
                raise DataError(
                    f"{one.name} is declared as {told[0]!r} and as {told[1]!r}",
                    field="better, range",
                    allowed="one declaration of a column, or another name",
                )
            if known.compute is None:
                found[one.name] = one
        return MetricTable(found.values())

    def labels(self, names: Collection[str] | None = None) -> list[str]:
        """Return the labels of these metrics at the usual cut-offs; by default those of "all"."""
        return [
            one.name.replace("@k", f"@{k}")
            for one in self.values()
            if (one.default if names is None else one.name in names)
            for k in (DEFAULT_KS if one.name.endswith("@k") and one.name != "mrr@k" else (10,))
        ]


def own_column(name: str, better: str | None = None, bounds: Bounds = ANY) -> Metric:
    """Return the metric of a column of your own."""
    kind = "bounded" if np.isfinite(bounds[1] - bounds[0]) else "other"
    return Metric(
        name, "a column of your own", kind=kind, better=better or "not declared", bounds=bounds
    )


def _other_names(metric: Metric) -> list[tuple[str, str]]:
    """Return the names of other tools, without cut-off and parameters, and the name of ours."""
    texts = [text.split(" ", 1) for text in metric.also.split(", ") if " " in text]
    named = [re.split(r"[@(]|_[kr]$", name)[0] for tool, name in texts if tool in _TOOLS]
    return [(name, metric.base) for name in named]


def _parameter(text: str, metric: Metric, given: str, at: str | None) -> float | None:
    """Return the parameter of a label, with the parts that ir_measures may write in parentheses."""
    parts = [part.strip().rpartition("=") for part in given.split(",") if part.strip()]
    stated = {key: value for key, _, value in parts}
    for key, usual, allowed in (
        ("rel", "1", "a golden set whose lower grades are 0"),
        ("judged_only", "False", "results with judged hits alone"),
    ):
        if stated.pop(key, usual) != usual:
            raise DataError(f"found {text!r}", field="metrics", allowed=allowed)
    if metric.name.endswith("@r"):
        stated["r"] = at or ""
    default, is_allowed, allowed = metric.parameter or (
        None, lambda number: False, f"no parameter of {metric.base}",
    )  # fmt: skip
    if not stated:
        return default
    try:
        number = float(stated.popitem()[1])
    except ValueError:
        number = np.nan
    if stated or not is_allowed(number):
        raise DataError(f"found {text!r}", field="metrics", allowed=allowed)
    return number


def is_better(metric: Metric, delta: float) -> bool | None:
    """Return whether a change is an improvement; None without a change or a direction."""
    if not delta or np.isnan(delta) or metric.better not in ("higher", "lower"):
        return None
    return (delta > 0) == (metric.better == "higher")


def as_values(found: Any) -> Values:
    """Return what a formula gave as numbers."""
    return np.asarray(found, dtype=np.float64)
