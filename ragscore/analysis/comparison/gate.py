"""May the candidate replace the baseline? A declared loss per metric, checked against a comparison, with the reason for every answer.

In: a `Comparison`. Out: a `Gate`, a table of verdicts that prints well in a pull request.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import DataError, check_type, records_of
from ragscore.frames.render import (
    decimals_for,
    dump,
    markdown_line,
    markdown_lines,
    markdown_table,
    reload,
    shown_n,
    shown_number,
)
from ragscore.scoring.metrics import parse_label

SLACK = 1e-9  # the last bit of a difference is no loss
RULES = ("threshold", "interval")
SHOWN_REGRESSIONS = 10
SHOWN_QUERY = 60  # characters of a question in the text form
COLUMNS = [
    "metric",
    "a",
    "b",
    "change",
    "low",
    "high",
    "max_drop",
    "n",
    "n_expected_a",
    "n_expected_b",
    "n_lost",
    "verdict",
    "reason",
]


@dataclass(frozen=True)
class Gate:
    """The answer of `rs.gate`.

    Attributes
    ----------
    table
        One row per metric asked for: `a`, `b`, `change` (b − a, queries that b failed on at their
        worst), the interval of the difference, `max_drop`, `n` of `n_expected_a`, `n_expected_b`
        values, `n_lost`, `verdict` (pass, fail, not evaluated) and the `reason`.
    regressions
        The queries that lost most, worst first: query_id, query, outcome, ranks, targets lost.
    overall
        better, same, regressed or mixed, over all metrics of the comparison that were tested.
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
        """No metric fails and, with `require`, none is left unevaluated."""
        return not (self.table["verdict"] == "fail").any() and not (self.require and self._is_open)

    @property
    def exit_status(self) -> int:
        """For a shell: 0 passed, 1 a metric fails, 2 a required metric could not be evaluated."""
        return (
            1
            if (self.table["verdict"] == "fail").any()
            else 2
            if self.require and self._is_open
            else 0
        )

    @property
    def answer(self) -> str:
        """passed, failed, or not evaluated (a required metric)."""
        return ("passed", "failed", "not evaluated")[self.exit_status]

    @property
    def _is_open(self) -> bool:
        return bool((self.table["verdict"] == "not evaluated").any())

    def to_markdown(self) -> str:
        """The gate as Markdown for a pull request.

        The answer first, then why, then the largest regressions.
        """
        parts = [
            f"## {markdown_line(self.headline())}",
            markdown_table(markdown_lines(self.shown())),
        ]
        if len(self.regressions):
            parts += [
                "### Largest regressions",
                markdown_table(markdown_lines(self.largest_regressions())),
            ]
        return "\n\n".join(parts) + "\n"

    def to_json(self) -> str:
        """The gate as JSON, NaN as null, with the answer (`passed`, `exit_status`).

        `from_json` reloads it.
        """
        return dump(self, passed=self.passed, exit_status=self.exit_status)

    @classmethod
    def from_json(cls, text: str) -> "Gate":
        """The gate that `to_json` wrote."""
        return reload(cls, text)

    def headline(self) -> str:
        """The answer in one line."""
        open_note = (
            f", {(self.table['verdict'] == 'not evaluated').sum()} not evaluated"
            if self._is_open
            else ""
        )
        failed = ", ".join(self.table.loc[(self.table["verdict"] == "fail").to_numpy(), "metric"])
        reason = f" by {failed}" if failed else ""
        return (
            f"Gate {self.answer}{reason}{open_note}: {self.candidate} against {self.baseline} (over"
            f" all metrics compared: {self.overall})"
        )

    def shown(self) -> pd.DataFrame:
        """The table as text, without the interval's bounds."""
        places = [
            max(decimals_for((high - low) / 4), 2)
            for low, high in zip(self.table["low"], self.table["high"], strict=True)
        ]
        numbers = {
            name: [
                shown_number(value, digits, name == "change")
                for value, digits in zip(self.table[name], places, strict=True)
            ]
            for name in ("a", "b", "change")
        }
        return pd.DataFrame({
            "metric": self.table["metric"], **numbers,
            "allowed": [f"{drop:g}" for drop in self.table["max_drop"]],
            "n / expected": [shown_n(*counts) for counts in zip(*(self.table[name] for name in ("n", "n_expected_a", "n_expected_b")), strict=True)],
            "verdict": self.table["verdict"], "why": self.table["reason"],
        })  # fmt: skip

    def largest_regressions(self) -> pd.DataFrame:
        """The queries that lost most, long questions cut."""
        query = self.regressions["query"].astype("str")
        return self.regressions.assign(
            query=query.where(
                query.str.len() <= SHOWN_QUERY, query.str.slice(0, SHOWN_QUERY - 1) + "…"
            )
        )

    def __repr__(self) -> str:
        lost = self.largest_regressions()
        regressions = f"\n\nlargest regressions\n{lost.to_string(index=False)}" if len(lost) else ""
        return f"{self.headline()}\n\n{self.shown().to_string(index=False)}{regressions}"

    def _repr_html_(self) -> str:
        regressions = (
            "<p>largest regressions</p>" + self.largest_regressions().to_html(index=False, border=0)
            if len(self.regressions)
            else ""
        )
        return (
            f"<p><b>{escape(self.headline())}</b></p>"
            + self.shown().to_html(index=False, border=0)
            + regressions
        )


def gate(
    cmp: Comparison,
    max_drop: Mapping[str, float],
    *,
    rule: str = "threshold",
    require: bool = False,
) -> Gate:
    """Whether the candidate loses no more than declared, metric by metric.

    A loss is a fall of metrics that should be high and a rise of those that should be low, in the
    metric's own units. Queries that the candidate failed on, or was not asked, count at the
    metric's worst value: errors never make a gate pass. A metric without a worst value (time, cost)
    fails if such queries are among those that the baseline answered. Times are compared by the
    median of the differences.

    Parameters
    ----------
    max_drop
        Metric label -> largest loss that is allowed, 0 or above.
    rule
        "threshold": the loss that was seen must not exceed it. "interval": the 95 % interval must
        exclude any loss beyond it (non-inferiority); with few queries that fails although little
        was lost, because little was shown.
    require
        A metric that can't be evaluated, because the comparison lacks it or no query has it in both
        runs, stops the gate.

    Raises
    ------
    DataError
        No metric, an unknown one, a negative or missing loss, an unknown rule, a comparison made
        with another harness's profile.
    """
    check_type(cmp, Comparison, "cmp", "what rs.compare_runs returns")
    if rule not in RULES:
        raise DataError(f"found {rule!r}", field="rule", allowed=f"one of {', '.join(RULES)}")
    if not max_drop:
        raise DataError(
            "found no metric",
            field="max_drop",
            allowed="at least one metric and the loss that is allowed, such as {'mrr@10': 0.02}",
        )
    for label, allowed in max_drop.items():
        parse_label(label)
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
    deltas = {row["metric"]: row for row in records_of(cmp.deltas)}
    rows = [
        _row(label, float(allowed), deltas.get(label), rule) for label, allowed in max_drop.items()
    ]
    return Gate(
        cmp.baseline,
        cmp.candidate,
        rule,
        pd.DataFrame(rows, columns=COLUMNS),
        _regressions(cmp),
        cmp.overall,
        require,
    )


def _row(label: str, allowed: float, delta: dict[str, Any] | None, rule: str) -> dict[str, Any]:
    metric = parse_label(label).metric
    row: dict[str, Any] = dict.fromkeys(("a", "b", "change", "low", "high"), math.nan)
    row |= {
        "metric": label,
        "max_drop": allowed,
        "n": 0,
        "n_expected_a": 0,
        "n_expected_b": 0,
        "n_lost": 0,
        "verdict": "not evaluated",
    }
    if delta is None:
        return row | {"reason": "the comparison lacks this metric"}
    row |= {name: delta[name] for name in ("n", "n_expected_a", "n_expected_b", "n_lost")}
    if not delta["n"] and not delta["n_lost"]:
        return row | {"reason": "no query has a value in both runs"}
    part = "p50_" if metric.kind == "time" else ""
    names = {
        "a": f"{part}a",
        "b": f"{part}b",
        "low": f"{part}low",
        "high": f"{part}high",
        "change": "p50_delta" if part else "delta",
    }
    row |= {
        name: math.nan if delta[source] is None else float(delta[source])
        for name, source in names.items()
    }
    if delta["n_lost"]:
        if delta["delta_worst"] is None:
            return row | {
                "verdict": "fail",
                "reason": (
                    f"the candidate failed on {delta['n_lost']} queries that have no {label} now"
                ),
            }
        worsening = float(delta["delta_worst"]) - row["change"]
        row |= {
            "change": row["change"] + worsening,
            "low": row["low"] + worsening,
            "high": row["high"] + worsening,
        }
        if not delta["n"]:
            row |= {"change": float(delta["delta_worst"])}
    loss, farthest = (
        (-row["change"], -row["low"]) if metric.better == "higher" else (row["change"], row["high"])
    )
    return row | _judged(loss, farthest, allowed, rule, delta["n_lost"])


def _judged(loss: float, farthest: float, allowed: float, rule: str, n_lost: int) -> dict[str, str]:
    counted = f", {n_lost} failed queries counted at their worst" if n_lost else ""
    seen = (
        f"worse by {_short(loss)}"
        if loss > SLACK
        else f"better by {_short(-loss)}"
        if loss < -SLACK
        else "nothing changed"
    )
    if loss > allowed + SLACK:
        return {"verdict": "fail", "reason": f"{seen}, more than {allowed:g}{counted}"}
    if rule == "threshold":
        return {"verdict": "pass", "reason": f"{seen}{counted}"}
    if math.isnan(farthest):
        return {
            "verdict": "not evaluated",
            "reason": f"{seen}; too few queries for an interval{counted}",
        }
    if farthest > allowed + SLACK:
        return {
            "verdict": "fail",
            "reason": f"{seen}, but a loss of {_short(farthest)} can't be ruled out{counted}",
        }
    return {"verdict": "pass", "reason": f"{seen}, a loss beyond {allowed:g} is ruled out{counted}"}


def _short(value: float) -> str:
    return f"{value:.3g}"


def _regressions(cmp: Comparison) -> pd.DataFrame:
    """The queries that lost a hit altogether, best former rank first, then those that fell furthest."""
    rows = cmp.per_query[cmp.per_query["outcome"].isin(["regression", "loss", "only_a"]).to_numpy()]
    order = rows["outcome"].map({"regression": 0, "only_a": 1, "loss": 2})
    fall = (rows["rank_b"].astype("float64") - rows["rank_a"].astype("float64")).fillna(
        -rows["rank_a"].astype("float64")
    )
    ordered = (
        rows.assign(order=order, fall=-fall)
        .sort_values(["order", "fall", "query_id"], kind="stable", ignore_index=True)
        .head(SHOWN_REGRESSIONS)
    )
    ranks = {
        name: ordered[name].astype("object").where(ordered[name].notna(), "—").map(str)
        for name in ("rank_a", "rank_b")
    }
    return ordered[["query_id", "query", "outcome", "rank_a", "rank_b", "lost"]].assign(**ranks)
