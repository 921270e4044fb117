"""Release gate: fail if what decides is worse, or if a metric drops by more than allowed.

In: a `Comparison`, and the largest loss allowed for each metric, if any. Out: a `Gate`, one verdict
and its reason per metric, also as Markdown for a pull request.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.deltas import FIGURES
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.comparison.text import MEDIANS_NOTE, RANKS, changed_queries
from ragscore.analysis.result_forms import JsonResult
from ragscore.frames.data import DataError, check_type, records_of
from ragscore.frames.errors import check_choice
from ragscore.frames.escaping import visible
from ragscore.frames.render import (
    EXACT,
    decimals_beside,
    decimals_within,
    dump,
    shown_n,
    shown_number,
)
from ragscore.frames.tables import SIGNS, VERDICTS, Display, Table
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import ROUNDING, Metric, table_kind
from ragscore.stats import UNSURE

RULES = ("threshold", "interval")
UNDECIDED = ("pass", "fail")
AT_WORST_NOTE = (
    "At their worst: queries that the candidate failed on, or was not asked, whatever hits they"
    " have."
)
LEFT_OUT_NOTE = (
    "Left out: queries that the baseline failed on, unless the candidate answered them worse."
)
SHOWN_REGRESSIONS = 10
SHOWN_QUERY = 60  # characters of a query in the text form
COUNTS = ("n", "n_expected_baseline", "n_expected_candidate", "n_lost", "n_left_out")
COLUMNS = ["metric", *FIGURES, "max_drop", *COUNTS, "verdict", "reason"]


@dataclass(frozen=True, repr=False)
class Gate(JsonResult, Display):
    """The verdicts of `cmp.gate`.

    Attributes
    ----------
    table
        One row per metric asked for: `baseline`, `candidate` and `delta` = candidate − baseline
        over the same `n` queries, its interval `low`, `high`, `max_drop`, `n_expected_baseline`,
        `n_expected_candidate`, `verdict` (pass, fail, not evaluated), the `reason`, and `better`,
        the metric's direction (higher, lower). Among the n
        are `n_lost` at the metric's worst value, which the candidate failed on or was not asked;
        `n_left_out` are left out, because the baseline failed on them.
    regressions
        The queries that lost most, worst first: query_id, query, outcome, ranks, targets lost.
    overall
        The comparison's word over its primary metrics: better, worse, mixed, no worse, can't tell.
    require
        Whether a metric that can't be evaluated stops the gate.
    undecided
        What *can't tell* over all counts as: "pass", "fail", or "" where nobody said so. Where no
        value of a primary metric changed, "pass".
    needed
        Primary metric -> how many queries would show a difference as large as the one seen (80 %
        power); those that can't be told so far.
    clusters
        How many conversations intervals and tests allow for, in words; empty without any.
    """

    baseline: str
    candidate: str
    rule: str
    table: pd.DataFrame
    regressions: pd.DataFrame
    overall: str
    require: bool = False
    clusters: str = ""
    undecided: str = ""
    needed: dict[str, int] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """True if no metric fails and, with `require`, every metric was evaluated."""
        return self.exit_status == 0

    @property
    def exit_status(self) -> int:
        """For a shell: 0 passed, 1 a metric fails, 2 undecided or not evaluated."""
        if (self.table["verdict"] == "fail").any():
            return 1
        if self.require and self._n_open:
            return 2
        return {"pass": 0, "fail": 1}.get(self.undecided, 2) if self._is_open else 0

    @property
    def answer(self) -> str:
        """The answer in words: passed, failed, undecided, or not evaluated (a required metric)."""
        is_open = self._is_open and not (self.require and self._n_open)
        return ("passed", "failed", "undecided" if is_open else "not evaluated")[self.exit_status]

    @property
    def _is_open(self) -> bool:
        """True if verdicts decide, none is against the candidate, and none is for it."""
        no_margin = bool(self.table["max_drop"].isna().all())
        return self.rule == "verdict" and self.overall == UNSURE and no_margin

    @property
    def _n_open(self) -> int:
        return int((self.table["verdict"] == "not evaluated").sum())

    def to_json(self) -> str:
        """Return the gate as JSON, NaN as null, with the answer (`passed`, `exit_status`).

        `from_json` reloads it.
        """
        return dump(self, passed=self.passed, exit_status=self.exit_status)

    def headline(self) -> str:
        """Return the answer in one line."""
        failed = ", ".join(self.table.loc[(self.table["verdict"] == "fail").to_numpy(), "metric"])
        reason = f" by {failed}" if failed else ""
        # Where that is the answer, it has been said.
        is_said = not self._n_open or self.exit_status == 2
        not_evaluated = "" if is_said else f", {self._n_open} not evaluated"
        # by verdicts, nothing seen to be worse is no proof
        is_open = self._is_open and self.exit_status != 1
        no_proof = "; a loss isn't ruled out" if is_open else ""
        return (
            f"Gate {self.answer}{reason}{not_evaluated}: {self.candidate} against {self.baseline}"
            f" (primary metrics: {self.overall}{no_proof})"
        )

    def shown(self) -> pd.DataFrame:
        """Return the table as text, with the interval where it decides.

        Numbers have as many decimals as it takes to see that what is allowed is kept, or isn't.
        """
        shown = pd.DataFrame([self._shown_row(row) for row in self.table.to_dict("records")])
        return shown.drop(columns="95 % interval") if self.rule == "threshold" else shown

    def _shown_row(self, row: dict[Any, Any]) -> dict[str, str]:
        label, allowed = row["metric"], row["max_drop"]
        places = decimals_within(row["low"], row["high"])
        sign = 1 if row["better"] == "lower" else -1
        decisive = ("delta",) if self.rule == "threshold" else ("delta", "low", "high")
        for loss in (sign * row[name] for name in decisive):
            if not (math.isnan(allowed) or math.isnan(loss)):
                beyond = loss > allowed + ROUNDING * min(abs(loss) + allowed, 1.0)
                places = decimals_beside(loss, float(_amount(allowed)), beyond, places)
        texts = {
            name: shown_number(row[name], places, signed=name not in ("baseline", "candidate"))
            for name in FIGURES
        }
        return {
            "metric": f"{label} (p50)" if _by_median(label, self.rule) else label,
            "verdict": row["verdict"],
            **{name: texts[name] for name in ("baseline", "candidate", "delta")},
            "95 % interval": f"[{texts['low']}, {texts['high']}]",
            "allowed": "not worse" if math.isnan(allowed) else _amount(allowed),
            "n / expected": shown_n(
                row["n"], row["n_expected_baseline"], row["n_expected_candidate"]
            ),
            "why": row["reason"],
        }

    def largest_regressions(self) -> pd.DataFrame:
        """Return `regressions` with long queries cut."""
        query = self.regressions["query"].astype("str")
        cut = query.str.slice(0, SHOWN_QUERY - 1) + "…"
        return self.regressions.assign(query=query.where(query.str.len() <= SHOWN_QUERY, cut))

    def _parts(self) -> list[str | Table]:
        sign = SIGNS[("pass", "fail", "not evaluated")[self.exit_status]]
        table = Table(self.shown(), verdicts=(*VERDICTS, "why"))
        parts: list[str | Table] = [f"{sign} {self.headline()}", table]
        if len(self.regressions):
            parts.append(Table(self.largest_regressions(), "Largest regressions"))
        return [*parts, *self.notes()]

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table."""
        table = self.table
        holds = {
            AT_WORST_NOTE: table["n_lost"].any(),
            LEFT_OUT_NOTE: table["n_left_out"].any(),
            MEDIANS_NOTE: any(_by_median(label, self.rule) for label in table["metric"]),
        }
        ways = (
            "Nothing can be told, so that the gate neither passes nor fails. Say what that counts"
            ' as (undecided="pass" or "fail", --undecided), or declare margins.'
        )
        queries = ", ".join(f"{n:,} for {name}" for name, n in self.needed.items())
        rate = self._false_rate()
        chance = (
            f"Two runs that don't differ fail this gate in about {100 * rate:.0f} % of cases, as so"
            " many queries vary. Margins decide by a test: margins={...}, --margin."
        )
        return [
            *([ways] if self.answer == "undecided" else []),
            *([chance] if rate >= 0.01 else []),
            *([f"Queries that would show a difference as large as the one seen: about {queries}."]
              if self._is_open and queries else []),
            *(note for note, is_needed in holds.items() if is_needed),
            *filter(None, [self.clusters]),
        ]  # fmt: skip

    def _false_rate(self) -> float:
        """Return how often runs alike lose more than is allowed, by the threshold rule."""
        if self.rule != "threshold":
            return 0.0
        from scipy.special import ndtr

        error = (self.table["high"] - self.table["low"]) / (2 * 1.96)
        with np.errstate(invalid="ignore", divide="ignore"):
            rates = ndtr(-(self.table["max_drop"] / error).to_numpy("float64"))
        return float(1 - np.prod(1 - np.nan_to_num(rates)))

    def to_junit(self) -> str:
        """Return JUnit XML: a test case per metric, failed or skipped as the gate has it."""
        root = Element("testsuite", name="ragscore gate")
        for row in self.table.to_dict("records"):
            case = SubElement(
                root, "testcase", classname=f"{self.candidate} against {self.baseline}",
                name=str(row["metric"]),
            )  # fmt: skip
            is_open = row["verdict"] == "not evaluated"
            kind = {"fail": "failure"}.get(row["verdict"], "skipped" if is_open else "")
            if kind:
                SubElement(case, kind, message=visible(str(row["reason"])))
        if self.exit_status == 2 or (self._is_open and self.exit_status == 1):
            case = SubElement(root, "testcase", classname="gate", name="answer")
            SubElement(
                case, "failure" if self.exit_status == 1 else "skipped",
                message=visible(self.headline()),
            )  # fmt: skip
        root.set("tests", str(len(root)))
        root.set("failures", str(len(root.findall("*/failure"))))
        root.set("skipped", str(len(root.findall("*/skipped"))))
        return tostring(root, encoding="unicode") + "\n"

    def to_markdown(self) -> str:
        """Return Markdown for a pull request: the answer, the reasons, the largest regressions."""
        return re.sub("^#", "##", super().to_markdown(), flags=re.MULTILINE)

    def _tint(self) -> str:
        return ("good", "bad", "poor")[self.exit_status]


def gate(
    cmp: Comparison,
    max_drop: Mapping[str, float] | None = None,
    *,
    rule: str = "threshold",
    require: bool = False,
    undecided: str | None = None,
) -> Gate:
    """Fail if a primary metric is worse, or if a metric drops by more than an allowed amount.

    Without `max_drop` the verdicts of the primary metrics decide, aspect by aspect: "worse" and
    "mixed" fail. Where a metric has a margin, "can't tell" stops the gate, since the margin isn't
    shown to hold. Where nothing at all can be told, the gate is undecided until `undecided` says
    what that counts as.

    With `max_drop`: a loss is a fall of metrics that should be high and a rise of those that should
    be low, in the metric's own units. Times are compared by the median of the differences.

    Errors never make a gate pass, whatever policy the scores have. A query that the candidate
    failed on, or was not asked, counts at the metric's worst value, even if it still has hits. A
    metric without a worst value (time, cost) fails if the baseline answered such a query. A query
    that the baseline failed on can only count against the candidate: if the candidate answered it
    worse than the baseline did in spite of failing. Else it is left out, and if none is left the
    gate doesn't pass. Metrics of failures themselves, such as `failed`, count them as they are.

    Parameters
    ----------
    max_drop
        Metric label -> largest loss that is allowed, 0 or above. None: go by the primary metrics.
    rule
        "threshold": the observed loss must not exceed it. "interval": the 95 % interval must
        exclude any loss beyond it (non-inferiority). With few queries the interval is wide, and
        this rule fails even if little was lost.
    require
        Don't pass if a metric can't be evaluated, because the comparison lacks it or no query has a
        value in both runs.
    undecided
        Without `max_drop`: "pass" or "fail" where no primary metric can be told.

    Raises
    ------
    DataError
        No metric, an unknown one, a loss that is no number or below 0, an unknown rule.
    """
    check_type(cmp, Comparison, "cmp", "what ev.compare returns")
    check_choice(rule, RULES, "rule")
    if undecided is not None:
        check_choice(undecided, UNDECIDED, "undecided")
    figures = _figures(cmp)
    if max_drop is None:
        made = _made(cmp, "verdict", _by_verdicts(cmp, figures), require)
        deciding = cmp.deltas[cmp.deltas["is_primary"].to_numpy(dtype=bool)]
        is_same = not (deciding["n_better"] + deciding["n_worse"]).any()  # nothing to tell
        said = undecided or ("pass" if is_same else "")
        return replace(made, undecided=said, needed=_needed(cmp))
    check_type(max_drop, Mapping, "max_drop", "metric -> loss, such as {'mrr@10': 0.02}")
    if not max_drop:
        raise DataError(
            "found no metric",
            field="max_drop",
            allowed="at least one metric and its largest loss, such as {'mrr@10': 0.02}; or None,"
            " for the verdicts on the primary metrics",
        )
    for label, allowed in max_drop.items():
        known = cmp.declared
        metric = known.describe(label) if label in figures else known.parse(label).metric
        if metric.better not in ("higher", "lower"):
            raise DataError(
                f"nobody said whether {label} is better higher or lower",
                field="max_drop",
                allowed="rs.metric(..., better='higher')"
                if metric.source
                else f"ev.with_columns(frame, better={{{label!r}: 'higher'}})",
            )
        if (
            isinstance(allowed, bool)
            or not isinstance(allowed, (int, float))
            or not 0 <= allowed < math.inf
        ):
            raise DataError(
                f"found {allowed!r} for {label}",
                field="max_drop",
                allowed="a number from 0: the largest loss that is allowed",
            )
    rows = [
        _row(cmp.declared.describe(label), label, float(allowed), figures.get(label), rule)
        for label, allowed in max_drop.items()
    ]
    return _made(cmp, rule, rows, require)


def _needed(cmp: Comparison) -> dict[str, int]:
    """Return primary metric -> the queries that would show the difference seen, where open."""
    found = {}
    for row in cmp.deltas[cmp.deltas["is_primary"].to_numpy(dtype=bool)].to_dict("records"):
        size = abs(row["delta"])
        if row["verdict"] == UNSURE and size > 0 and math.isfinite(row["mde"]):
            needed = row["n"] * (row["mde"] / size) ** 2
            found[row["metric"]] = round(needed, 1 - math.floor(math.log10(needed)))
    return {name: int(n) for name, n in found.items()}


def _made(cmp: Comparison, rule: str, rows: list[dict[str, Any]], require: bool) -> Gate:
    """Return the gate of these rows. Margins ask for proof, and so does a baseline that failed."""
    directions = [cmp.declared.describe(row["metric"]).better for row in rows]
    table = pd.DataFrame(rows, columns=COLUMNS).assign(better=directions)
    is_open = (table["verdict"] == "not evaluated").to_numpy()
    has_margin = rule == "verdict" and bool(table["max_drop"].notna().any())
    asks_proof = require or has_margin or bool((table["n_left_out"] > 0)[is_open].any())
    is_lost = cmp.per_query["outcome"].isin(["regression", "only_baseline", "loss"])
    lost = changed_queries(cmp.per_query[is_lost.to_numpy()]).head(SHOWN_REGRESSIONS)
    return Gate(
        cmp.baseline,
        cmp.candidate,
        rule,
        table,
        lost[["query_id", "query", "outcome", *RANKS, "lost"]],
        cmp.overall,
        asks_proof,
        cmp.clusters,
    )


def _figures(cmp: Comparison) -> dict[str, dict[str, Any]]:
    """Return the rows of `Comparison.deltas`, by metric, with failed queries at their worst."""
    table = cmp.deltas.assign(n_lost=0, n_uncounted=0, n_left_out=0)
    if len(cmp.at_worst):
        own = cmp.at_worst.set_index("metric").reindex(table["metric"])
        table = table.assign(**{str(name): own[name].to_numpy() for name in own})
    return {row["metric"]: row for row in records_of(table)}


def _by_verdicts(cmp: Comparison, figures: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of `Gate.table` by verdict: each primary metric with that of its aspect."""
    rows = []
    for aspect in records_of(cmp.aspects):
        for name in aspect["metrics"].split(", "):
            own = figures[name]
            row, margin = _numbers(name, own, "verdict"), own["margin"]
            row["max_drop"] = math.nan if margin is None else margin
            counted = _counted(row).replace(",", " with", 1)
            beside = f" (as scored; the numbers here{counted})" if counted else ""
            told = {"verdict": "pass", "reason": aspect["sentence"] + beside}
            if aspect["verdict"] in ("worse", "mixed"):
                told["verdict"] = "fail"
            elif undone := _unfit(name, own) or _undone(
                cmp.declared.describe(name), row, margin or 0.0
            ):
                told = undone
            elif aspect["verdict"] == UNSURE and (
                not row["n"]
                or (margin is not None and own["verdict"] == UNSURE and not own["holds_margin"])
            ):
                told["verdict"] = "not evaluated"
            rows.append(row | told)
    return rows


def _undone(metric: Metric, row: dict[str, Any], allowed: float) -> dict[str, str]:
    """Return verdict and reason where failed queries undo what the verdict says; else nothing."""
    if not (row["n_lost"] or row["n_left_out"]):
        return {}
    loss, *ends = (_loss(metric, row[name]) for name in ("delta", "low", "high"))
    slack = metric.rounding
    if loss > allowed + slack and (row["n_lost"] or min(ends) > 0):
        return {"verdict": "fail", "reason": f"{_change(slack, loss, allowed, '')}{_counted(row)}"}
    if not math.isnan(row["max_drop"]) and not max(ends) <= allowed + slack:
        reason = f"a loss beyond {_amount(allowed)} isn't ruled out{_counted(row)}"
        return {"verdict": "not evaluated", "reason": reason}
    return {}


def _row(
    metric: Metric, label: str, allowed: float, own: dict[str, Any] | None, rule: str
) -> dict[str, Any]:
    """One row of `Gate.table`, from its row of `_figures` (None: not compared)."""
    row: dict[str, Any] = _numbers(label, own, rule) | {"max_drop": allowed}
    if own is None:
        return row | {"verdict": "not evaluated", "reason": "the comparison lacks this metric"}
    if unfit := _unfit(label, own):
        return row | unfit
    if not row["n"]:
        return row | {"verdict": "not evaluated", "reason": "no query has a value in both runs"}
    largest_loss = max(_loss(metric, row["low"]), _loss(metric, row["high"]))
    loss = _loss(metric, row["delta"])
    average = "median" if _by_median(label, rule) else "mean"
    verdict, reason = _verdict(loss, largest_loss, allowed, rule, metric.rounding, average)
    return row | {"verdict": verdict, "reason": f"{reason}{_counted(row)}"}


def _unfit(label: str, own: dict[str, Any]) -> dict[str, str]:
    """Return verdict and reason where failures leave nothing to go by; else nothing."""
    if n := own["n_uncounted"]:
        reason = f"no {label} of {n} queries that the candidate failed on or was not asked"
        return {"verdict": "fail", "reason": reason}
    if own["n_left_out"] and not own["n"]:
        reason = "no query is left that the baseline didn't fail on"
        return {"verdict": "not evaluated", "reason": reason}
    return {}


def _counted(row: dict[str, Any]) -> str:
    """Say how many queries are at their worst, and how many are left out."""
    words = {"n_lost": "at their worst", "n_left_out": "left out"}
    return "".join(f", {row[name]} {told}" for name, told in words.items() if row[name])


def _numbers(label: str, own: dict[str, Any] | None, rule: str) -> dict[str, Any]:
    """Return the figures of a row: medians of times, else means."""
    row: dict[str, Any] = {"metric": label}
    row |= dict.fromkeys(FIGURES, math.nan) | dict.fromkeys(COUNTS, 0)
    if own is None:
        return row
    part = "p50_" if _by_median(label, rule) else ""
    for name in FIGURES:
        value = own[part + name]
        row[name] = math.nan if value is None else float(value)
    return row | {name: int(own[name]) for name in COUNTS}


def _by_median(label: str, rule: str) -> bool:
    """Return whether medians decide: of times, and of costs where their verdict is asked for."""
    return table_kind(label) in (BY_QUANTILES if rule == "verdict" else ("time",))


def _loss(metric: Metric, delta: float) -> float:
    return delta if metric.better == "lower" else -delta


def _verdict(
    loss: float,
    largest_loss: float,
    allowed: float,
    rule: str,
    slack: float = ROUNDING,
    average: str = "mean",
) -> tuple[str, str]:
    """Return verdict and reason, from the observed loss and the interval's bound for it."""
    change = _change(slack, loss, allowed, average)
    if loss > allowed + slack:
        return "fail", f"{change}, more than {_amount(allowed)}"
    if rule == "threshold":
        return "pass", change
    if math.isnan(largest_loss):
        return "not evaluated", f"{change}; too few queries for an interval"
    if largest_loss > allowed + slack:
        return (
            "fail",
            f"{change}, but a loss of {_beside(slack, largest_loss, allowed)} can't be ruled out",
        )
    return "pass", f"{change}, a loss beyond {_amount(allowed)} is ruled out"


def _change(slack: float, loss: float, allowed: float, average: str) -> str:
    """Return the observed change in words, which no test stands behind."""
    if abs(loss) <= slack:
        return f"{average} unchanged"
    return f"loss of {_beside(slack, loss, allowed)}" if loss > 0 else f"gain of {-loss:.3g}"


def _beside(slack: float, loss: float, allowed: float) -> str:
    """Return a loss with three digits, or as many as show if it is more than allowed."""
    is_beyond, limit = loss > allowed + slack, float(_amount(allowed))
    texts = (f"{loss:.{digits}g}" for digits in range(3, EXACT))
    return next((text for text in texts if (float(text) > limit) == is_beyond), f"{loss!r}")


def _amount(allowed: float) -> str:
    return f"{allowed:.12g}"
