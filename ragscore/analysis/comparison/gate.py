"""Release gate: fail if what decides is worse, or if a metric drops by more than allowed.

In: a `Comparison`, and the largest loss allowed for each metric, if any. Out: a `Gate`, one verdict
and its reason per metric, also as Markdown for a pull request.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.result_forms import JsonResult
from ragscore.frames.data import DataError, check_type, records_of
from ragscore.frames.errors import check_choice
from ragscore.frames.render import decimals_for, dump, shown_n, shown_number
from ragscore.frames.tables import SIGNS, Display, Table
from ragscore.scoring.metrics import describe, parse_label
from ragscore.stats import UNSURE

SLACK = 1e-9  # rounding of a difference is no loss
RULES = ("threshold", "interval")
SHOWN_REGRESSIONS = 10
SHOWN_QUERY = 60  # characters of a query in the text form
NUMBERS = ("baseline", "candidate", "delta", "low", "high")
COUNTS = ("n", "n_expected_baseline", "n_expected_candidate", "n_lost")
RANKS = ("rank_baseline", "rank_candidate")
COLUMNS = ["metric", *NUMBERS, "max_drop", *COUNTS, "verdict", "reason"]


@dataclass(frozen=True, repr=False)
class Gate(JsonResult, Display):
    """The verdicts of `cmp.gate`.

    Attributes
    ----------
    table
        One row per metric asked for: `baseline`, `candidate`, `delta` (candidate − baseline,
        queries that the candidate failed on at their worst), its interval `low`, `high`,
        `max_drop`, `n` of `n_expected_baseline`, `n_expected_candidate` values, `n_lost`, `verdict`
        (pass, fail, not evaluated) and the `reason`.
    regressions
        The queries that lost most, worst first: query_id, query, outcome, ranks, targets lost.
    overall
        The comparison's word over its primary metrics: better, worse, mixed, no worse, can't tell.
    require
        Whether a metric that can't be evaluated stops the gate.
    """

    baseline: str
    candidate: str
    rule: str
    table: pd.DataFrame
    regressions: pd.DataFrame
    overall: str
    require: bool = False

    @property
    def passed(self) -> bool:
        """True if no metric fails and, with `require`, every metric was evaluated."""
        return self.exit_status == 0

    @property
    def exit_status(self) -> int:
        """For a shell: 0 passed, 1 a metric fails, 2 a required metric could not be evaluated."""
        if (self.table["verdict"] == "fail").any():
            return 1
        return 2 if self.require and self._n_open else 0

    @property
    def answer(self) -> str:
        """The answer in words: passed, failed, or not evaluated (a required metric)."""
        return ("passed", "failed", "not evaluated")[self.exit_status]

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
        return (
            f"Gate {self.answer}{reason}{not_evaluated}: {self.candidate} against {self.baseline}"
            f" (primary metrics: {self.overall}{self._open_loss()})"
        )

    def _open_loss(self) -> str:
        """Say of a gate by verdicts that nothing seen to be worse is no proof."""
        is_open = self.rule == "verdict" and self.overall == UNSURE and self.passed
        return "; without margins a loss isn't ruled out" if is_open else ""

    def shown(self) -> pd.DataFrame:
        """Return the table as text, without the interval's bounds."""
        table = self.table
        digits = [max(decimals_for(e), 2) for e in (table["high"] - table["low"]) / 4]
        numbers = {
            name: [
                shown_number(value, places, signed=name == "delta")
                for value, places in zip(table[name], digits, strict=True)
            ]
            for name in ("baseline", "candidate", "delta")
        }
        counts = (table[name] for name in ("n", "n_expected_baseline", "n_expected_candidate"))
        return pd.DataFrame(
            {
                "metric": table["metric"],
                "verdict": table["verdict"],
                **numbers,
                "allowed": [
                    "not worse" if math.isnan(drop) else f"{drop:g}" for drop in table["max_drop"]
                ],
                "n / expected": [shown_n(*row) for row in zip(*counts, strict=True)],
                "why": table["reason"],
            }
        )

    def largest_regressions(self) -> pd.DataFrame:
        """Return `regressions` with long queries cut."""
        query = self.regressions["query"].astype("str")
        cut = query.str.slice(0, SHOWN_QUERY - 1) + "…"
        return self.regressions.assign(query=query.where(query.str.len() <= SHOWN_QUERY, cut))

    def _parts(self) -> list[str | Table]:
        sign = SIGNS[("pass", "fail", "not evaluated")[self.exit_status]]
        parts: list[str | Table] = [f"{sign} {self.headline()}", Table(self.shown())]
        if len(self.regressions):
            parts.append(Table(self.largest_regressions(), "Largest regressions"))
        return parts

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
) -> Gate:
    """Fail if a primary metric is worse, or if a metric drops by more than an allowed amount.

    Without `max_drop` the verdicts of the primary metrics decide, aspect by aspect: "worse" and
    "mixed" fail. Where the comparison has a margin for all metrics of an aspect, "can't tell"
    stops the gate, since the margin isn't shown to hold; without one it passes.

    With `max_drop`: a loss is a fall of metrics that should be high and a rise of those that should
    be low, in the metric's own units. Queries that the candidate failed on, or was not asked, count
    at the metric's worst value: errors never make a gate pass. A metric without a worst value
    (time, cost) fails if the baseline answered such a query. Times are compared by the median of
    the differences.

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

    Raises
    ------
    DataError
        No metric, an unknown one, a loss that is no number or below 0, an unknown rule.
    """
    check_type(cmp, Comparison, "cmp", "what ev.compare returns")
    check_choice(rule, RULES, "rule")
    if max_drop is None:
        table = pd.DataFrame(_by_verdicts(cmp), columns=COLUMNS)
        asks_proof = require or bool(table["max_drop"].notna().any())
        return Gate(
            cmp.baseline, cmp.candidate, "verdict", table, _regressions(cmp), cmp.overall,
            asks_proof,
        )  # fmt: skip
    check_type(max_drop, Mapping, "max_drop", "metric -> loss, such as {'mrr@10': 0.02}")
    if not max_drop:
        raise DataError(
            "found no metric",
            field="max_drop",
            allowed="at least one metric and its largest loss, such as {'mrr@10': 0.02}; or None,"
            " for the verdicts on the primary metrics",
        )
    deltas = {row["metric"]: row for row in records_of(cmp.deltas)}
    for label, allowed in max_drop.items():
        if (describe(label) if label in deltas else parse_label(label).metric).better not in (
            "higher",
            "lower",
        ):
            raise DataError(
                f"nobody said whether {label} is better higher or lower",
                field="max_drop",
                allowed=f"ev.with_columns(frame, better={{{label!r}: 'higher'}})",
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
        _row(label, float(allowed), deltas.get(label), rule) for label, allowed in max_drop.items()
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    return Gate(cmp.baseline, cmp.candidate, rule, table, _regressions(cmp), cmp.overall, require)


def _by_verdicts(cmp: Comparison) -> list[dict[str, Any]]:
    """Return the rows of `Gate.table` by verdict: each primary metric with that of its aspect."""
    deltas = {row["metric"]: row for row in records_of(cmp.deltas)}
    rows = []
    for aspect in records_of(cmp.aspects):
        names = aspect["metrics"].split(", ")
        has_margins = all(deltas[name]["margin"] is not None for name in names)
        for name in names:
            delta = deltas[name]
            row = _at_worst(_numbers(name, delta), delta)
            row["max_drop"] = math.nan if delta["margin"] is None else delta["margin"]
            row |= {"verdict": "pass", "reason": aspect["sentence"]}
            if aspect["verdict"] in ("worse", "mixed"):
                row["verdict"] = "fail"
            elif row["n_lost"] and not _loss(name, row["delta"]) <= SLACK:
                n_lost = row["n_lost"]
                row["verdict"] = "fail"
                row["reason"] = f"the candidate has no value for {n_lost} of the baseline's queries"
            elif aspect["verdict"] == UNSURE and (has_margins or not row["n"]):
                row["verdict"] = "not evaluated"
            rows.append(row)
    return rows


def _row(label: str, allowed: float, delta: dict[str, Any] | None, rule: str) -> dict[str, Any]:
    """One row of `Gate.table`, from a row of `Comparison.deltas` (None: not compared)."""
    row: dict[str, Any] = _numbers(label, delta) | {"max_drop": allowed, "verdict": "not evaluated"}
    if delta is None:
        return row | {"reason": "the comparison lacks this metric"}
    if not delta["n"] and not delta["n_lost"]:
        return row | {"reason": "no query has a value in both runs"}
    if delta["n_lost"] and delta["delta_worst"] is None:
        reason = f"the candidate failed on {delta['n_lost']} queries that have no {label} now"
        return row | {"verdict": "fail", "reason": reason}
    row = _at_worst(row, delta)
    largest_loss = max(_loss(label, row["low"]), _loss(label, row["high"]))
    verdict, reason = _verdict(_loss(label, row["delta"]), largest_loss, allowed, rule)
    n_lost = delta["n_lost"]
    counted = f", {n_lost} failed queries counted at their worst" if n_lost else ""
    return row | {"verdict": verdict, "reason": f"{reason}{counted}"}


def _numbers(label: str, delta: dict[str, Any] | None) -> dict[str, Any]:
    """Return the figures of a row: medians of times, else means."""
    row: dict[str, Any] = {"metric": label}
    row |= dict.fromkeys(NUMBERS, math.nan) | dict.fromkeys(COUNTS, 0)
    if delta is None:
        return row
    part = "p50_" if describe(label).kind == "time" else ""
    for name in NUMBERS:
        value = delta[part + name]
        row[name] = math.nan if value is None else float(value)
    return row | {name: delta[name] for name in COUNTS}


def _at_worst(row: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """Return the figures with lost queries at the metric's worst; NaN where it has none."""
    if not delta["n_lost"]:
        return row
    at_worst = math.nan if delta["delta_worst"] is None else float(delta["delta_worst"])
    worsening = at_worst - row["delta"]
    moved = {name: row[name] + worsening for name in ("delta", "low", "high")}
    return row | moved | ({} if delta["n"] else {"delta": at_worst})


def _loss(label: str, delta: float) -> float:
    return delta if describe(label).better == "lower" else -delta


def _verdict(loss: float, largest_loss: float, allowed: float, rule: str) -> tuple[str, str]:
    """Return verdict and reason, from the observed loss and the interval's bound for it."""
    change = "nothing changed"
    if abs(loss) > SLACK:
        change = f"{'worse' if loss > 0 else 'better'} by {abs(loss):.3g}"
    if loss > allowed + SLACK:
        return "fail", f"{change}, more than {allowed:g}"
    if rule == "threshold":
        return "pass", change
    if math.isnan(largest_loss):
        return "not evaluated", f"{change}; too few queries for an interval"
    if largest_loss > allowed + SLACK:
        return "fail", f"{change}, but a loss of {largest_loss:.3g} can't be ruled out"
    return "pass", f"{change}, a loss beyond {allowed:g} is ruled out"


def _regressions(cmp: Comparison) -> pd.DataFrame:
    """One row per query that lost: first lost hits, best former rank first, then largest falls."""
    order = {"regression": 0, "only_baseline": 1, "loss": 2}
    rows = cmp.per_query[cmp.per_query["outcome"].isin(list(order)).to_numpy()]
    before, after = (rows[name].astype("float64") for name in RANKS)
    ordered = (
        rows.assign(
            order=rows["outcome"].map(order),
            fall=-(after - before).fillna(-before),
        )
        .sort_values(["order", "fall", "query_id"], kind="stable", ignore_index=True)
        .head(SHOWN_REGRESSIONS)
    )
    ranks = {
        name: ordered[name].astype("object").where(ordered[name].notna(), "—").map(str)
        for name in RANKS
    }
    return ordered[["query_id", "query", "outcome", *RANKS, "lost"]].assign(**ranks)
