"""The declaration of a metric, and its label: everything that is known of it, in one place.

A table of metrics takes labels apart. The metrics of an evaluation are such a table: ours, and
beside them columns and metrics of your own.
"""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any, ClassVar

import numpy as np

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.escaping import visible
from ragscore.scoring.metrics.needs import Need
from ragscore.scoring.targets import LEVELS

DEFAULT_KS = (1, 3, 5, 10)
# Metrics that a table for readers starts with; the rest is in the frames.
HEADLINE = (
    "hit@1", "hit@5", "hit@10", "recall@5", "recall@10", "mrr@10", "ndcg@10", "set_recall",
    "set_precision", "passed", "answer_checks", "key_facts", "nugget_all", "nugget_vital",
    "faithfulness", "context_precision", "context_recall", "answer_relevance", "claim_precision",
    "claim_recall", "judge_groundedness", "judge_correctness", "citation_coverage",
    "refusal_correct", "answered_unanswerable", "false_refusal", "empty", "failed", "n_calls",
    "n_documents", "latency_ms",
)  # fmt: skip
Bounds = tuple[float, float]
ANY: Bounds = (-np.inf, np.inf)
ROUNDING = 1e-9  # of a scale of 1: values that differ by less are equal, or within a bound
Parameter = tuple[float | None, str, str]  # default, pattern of those allowed, in words


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

    name: str
    formula: str
    family: str = "own"
    compute: Any = field(default=None, compare=False)  # None: only what is stored is known
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
    source: str = ""

    def __repr__(self) -> str:
        rows = [
            ("formula", self.formula), ("range", f"{self.range}, {self.better} is better"),
            ("kind", self.kind), ("NaN when", self.nan_when), ("also", self.also),
        ]  # fmt: skip
        lines = [f"  {key:<10}{text}" for key, text in rows if text]
        return visible("\n".join([self.name, *lines]))

    @property
    def base(self) -> str:
        """Its name without a cut-off."""
        return re.sub("@[kr]$", "", self.name)

    @property
    def labels(self) -> list[str]:
        """Its labels at the usual cut-offs."""
        is_cut = self.name.endswith("@k") and self.name != "mrr@k"
        return [self.name.replace("@k", f"@{k}") for k in (DEFAULT_KS if is_cut else (10,))]

    @property
    def range(self) -> str:
        """Its bounds as text."""
        low, high = (f"{bound:.15g}" if np.isfinite(bound) else "" for bound in self.bounds)
        text = f"{low} to {high}" if low and high else "any"
        if bool(low) != bool(high):
            text = f"{low} and above" if low else f"{high} and below"
        return f"{text}, {self.unit}" if self.unit else text

    @property
    def is_timed(self) -> bool:
        """True for times and costs, of which quantiles are shown: a mean follows a few values."""
        return self.kind in ("time", "cost")

    @property
    def tested_as(self) -> str:
        """The kind that intervals and tests use; a scale with two ends is bounded."""
        return "bounded" if self.kind == "other" and np.isfinite(self.width) else self.kind

    @property
    def width(self) -> float:
        """The distance of its bounds; infinite without one."""
        return self.bounds[1] - self.bounds[0]

    @property
    def scale(self) -> float:
        """The power of two at or below its width; 1 without bounds.

        Values are divided by it before they are tested, which loses no bit: tolerances are then
        right for a scale of about 1.
        """
        return float(np.exp2(np.floor(np.log2(self.width)))) if np.isfinite(self.width) else 1.0

    @property
    def rounding(self) -> float:
        """The difference up to which two of its values or means are equal but for rounding."""
        return ROUNDING * min(self.scale, 1.0)

    def scaled(self) -> "Metric":
        """Return the metric of values that were divided by its scale."""
        return replace(self, bounds=(self.bounds[0] / self.scale, self.bounds[1] / self.scale))

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
        low, high = self.bounds
        known = np.asarray(values, dtype="float64")
        known = known[~np.isnan(known)]
        is_fit = np.isfinite(known) & (known >= low) & (known <= high)
        if self.kind == "binary":
            is_fit = np.isin(known, (0, 1))
        if not is_fit.all():
            raise DataError(
                f"{name} ranges from {known.min():g} to {known.max():g}", field="range",
                allowed=f"values that are {self.kind}, {self.range}; or another kind or range",
            )  # fmt: skip


# what a column of results records, where its name doesn't say so
_RECORDED = {
    "value": "judgment of it", "refused": "refusal", "elapsed_ms": "time", "cost_usd": "cost",
    "scope": "choice of folders",
}  # fmt: skip


def recorded_words(reads: str) -> str:
    """Return in words what a column of results records."""
    name = reads.rpartition(".")[2]
    return _RECORDED.get(name, name)


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
    """Metrics by name, and their labels.

    `TABLE` holds ours. Columns and metrics of your own are added by `with_metrics`: a table belongs
    to its evaluation, so two evaluations may mean different things by one name.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        super().__init__({one.name: one for one in metrics})
        ours = [one for one in self.values() if one not in self.own]
        # What differs from a name of ours in case or separators only is ours, whatever it means
        # elsewhere: two people who write ndcg and nDCG must not get two numbers.
        self.spelled = {
            spelling(name): one.base for one in ours for name in _names_elsewhere(one)
        } | {spelling(one.base): one.base for one in ours}

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))  # never changed, so fields of dataclasses may default to one

    def __reduce__(self) -> Any:
        return MetricTable, (list(self.values()),)

    # ours, and what `to_plain` wrote; `own` says what `rs.metric` takes
    from_plain: ClassVar[Callable[[Any], "MetricTable"]]

    @property
    def own(self) -> list[Metric]:
        """Metrics and columns of your own."""
        return [one for one in self.values() if one.family == "own" or one.source]

    def to_plain(self) -> dict[str, dict[str, Any]]:
        """Return metrics and columns of your own as JSON holds them."""
        return {
            one.name: {
                "better": one.better if one.better in ("higher", "lower") else None,
                "range": [bound if np.isfinite(bound) else None for bound in one.bounds],
                **({"formula": one.formula,
                    "of": "hits" if one.family == "ranking" else one.reads or "responses",
                    "kind": one.kind, "source": one.source} if one.source else {}),
            }
            for one in self.own
        }  # fmt: skip

    def headline(self, columns: Iterable[str]) -> list[str]:
        """Return the metrics that a table shows by default: headline ones, and your own.

        All columns if none is a headline metric.
        """
        known = [str(name) for name in columns]
        headline = [name for name in HEADLINE if name in known]
        metrics = {name: self.describe(name) for name in known if name not in headline}
        own = [name for name, one in metrics.items() if one.family == "own" or one.source]
        return [*headline, *own] if headline else known

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
                f"found {excerpt(text)}",
                field="metrics",
                allowed="labels, such as 'mrr@10'; what @rs.metric makes of a function",
            )
        if text in self and self[text].family == "own" and not text.endswith("@k"):
            return Label(text, self[text])
        if re.fullmatch(r"latency_\w+_ms", text):
            return Label(text, replace(
                self["latency_ms"], name=text, formula="elapsed time of this phase",
                reads=f"responses.{text}", compute=methodcaller("numbers", text),
            ))  # fmt: skip
        found = _LABEL.fullmatch(text)
        parts: dict[str, str | None] = found.groupdict() if found else {"name": text}
        name, given, at = parts["name"] or "", parts.get("given") or "", parts.get("at")
        if name not in self and f"{name}@k" not in self:
            name = self.spelled.get(spelling(name), name)
        if name == "ndcg" and (gain := _GAINS.get(given.replace(" ", "").replace('"', "'"))):
            name, given = gain, ""
        ends = ("@r", "@k") if at is not None else ("",)
        metric = next((self[name + end] for end in ends if name + end in self), None)
        if metric is None or "@" in name:
            base = re.sub("@[kr]$", "", name)
            ways = {
                f"{base}@r": f"a recall level, as in {base}@0.1",
                f"{base}@k": f"a cut-off, as in {base}@10", base: f"{base} without a cut-off",
            }  # fmt: skip
            elsewhere = [other for one in self.values() for other in _names_elsewhere(one)]
            near = nearest(text, [*self.labels(), *self, *elsewhere], "rs.metrics() has")
            allowed = next((way for known, way in ways.items() if known in self), near)
            raise DataError(f"unknown metric {excerpt(text)}", field="metrics", allowed=allowed)
        is_cut, level = metric.name.endswith("@k"), parts.get("level")
        if is_cut and (at is None or "." in at or int(at) < 1):
            raise DataError(f"found {text!r}", field="metrics", allowed="a cut-off k of at least 1")
        if level is not None and (level not in LEVELS or metric.family != "ranking"):
            raise DataError(
                f"found {text!r}", field="metrics",
                allowed=f"a ranking metric followed by one of :{', :'.join(LEVELS)}",
            )  # fmt: skip
        parameter = _parameter(text, metric, given if is_cut or at is None else f"{given},{at}")
        shown = name
        if metric.name.endswith("@r"):
            shown += f"@{parameter:.12g}"
        elif metric.parameter and parameter != metric.parameter[0]:
            shown += f"({parameter:.12g})"
        k = int(at or 0) if is_cut else None
        shown += (f"@{k}" if is_cut else "") + (f":{level}" if level else "")
        return Label(shown, metric, k, level, parameter)

    def label_of(self, column: str) -> Label:
        """Return the label behind a column of scores; an undeclared one is a column of your own."""
        own = Label(column, own_column(column))
        try:
            label = self.parse(column)
        except DataError:
            return own
        return label if label.text == column else own

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
                both = " and as ".join(
                    repr(f"{it.better} is better, {it.range} {it.source}".strip())
                    for it in (known, one)
                )
                raise DataError(
                    f"{one.name} is declared as {both}", field="better, range",
                    allowed="one declaration of a column, or another name",
                )  # fmt: skip
            found[one.name] = known if known.compute else one
        return MetricTable(found.values())

    def labels(self, names: Collection[str] | None = None) -> list[str]:
        """Return the labels of these metrics at the usual cut-offs; by default all metrics."""
        return [
            label for one in self.values()
            if (one.default if names is None else one.name in names) for label in one.labels
        ]  # fmt: skip


def own_column(name: str, better: str | None = None, bounds: Bounds = ANY) -> Metric:
    """Return the metric of a column of your own."""
    kind = "bounded" if np.isfinite(bounds[1] - bounds[0]) else "other"
    return Metric(
        name, "a column of your own", kind=kind, better=better or "not declared", bounds=bounds
    )


def _names_elsewhere(metric: Metric) -> list[str]:
    """Return its names in other tools whose labels are understood, without cut-off."""
    named = (text.partition(" ") for text in metric.also.split(", "))
    return [re.split(r"[@(]|_[kr]$", name)[0] for tool, _, name in named if tool in _TOOLS]


# What ir_measures may write in parentheses beside a parameter; what else these keys ask for is a
# step on frames.
_USUAL = ("", "rel=1", "judged_only=False")
_STEPS = {
    "rel": "golden.with_min_grade(grade), whose lower grades are 0",
    "judged_only": "judged hits alone, rs.match.judged_only(results, golden)",
}


def _parameter(text: str, metric: Metric, given: str) -> float | None:
    """Return the parameter of a label: what is given, or the usual one."""
    default, pattern, allowed = metric.parameter or (None, "(?!)", f"no parameter of {metric.base}")
    parts = [part for part in given.replace(" ", "").split(",") if part not in _USUAL]
    if not parts:
        return default
    key, _, value = parts[0].rpartition("=")
    if len(parts) > 1 or key in _STEPS or not re.fullmatch(pattern, value):
        raise DataError(f"found {text!r}", field="metrics", allowed=_STEPS.get(key, allowed))
    return float(value)
