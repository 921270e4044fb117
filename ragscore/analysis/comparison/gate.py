"""Release gate: fail if a primary metric is worse, or if a metric loses more than allowed.

In: a `Comparison`, and the largest loss allowed for each metric, if any. Out: a `Gate`, one verdict
and its reason per metric, also as Markdown for a pull request and as JUnit XML.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, tostring

import pandas as pd

from ragscore.analysis.comparison.deltas import FIGURES
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.comparison.text import RANKS, changed_queries, in_words, shown_figures
from ragscore.analysis.result_forms import JsonResult
from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import check_choice, excerpt
from ragscore.frames.escaping import visible
from ragscore.frames.tables import SIGNS, Display, Table, decimals_beside, decimals_within, dump
from ragscore.scoring.metrics.declaration import ROUNDING
from ragscore.stats.verdicts import UNSURE

RULES = ("threshold", "interval")
UNDECIDED = ("pass", "fail")
FAILURES = "failed queries"
P95 = re.compile(r"p95\((.+)\)")
COLUMNS = ["metric", *FIGURES, "max_drop", "n", "verdict", "reason", "better"]
LEVELS = ("pass", "undecided", "fail")
BY_WORD = {
    "better": ("pass", "surely better"),
    "worse": ("fail", "surely worse"),
    UNSURE: ("undecided", UNSURE),
}
BY_RULE = {
    "threshold": ("loss ≤ {:.12g}", "", "loss > {:.12g}"),
    "interval": ("loss surely ≤ {:.12g}", "loss maybe > {:.12g}", "loss surely > {:.12g}"),
}


@dataclass(frozen=True, repr=False)
class Gate(JsonResult, Display):
    """The verdicts of `cmp.gate`.

    Attributes
    ----------
    table
        One row per metric: `baseline`, `candidate`, `delta` and its interval `low`, `high` (by
        words: all hold together in 95 %; beside amounts: each its own), `max_drop`, `n`, the
        `verdict` (pass, fail, undecided, not evaluated), its `reason`, and `better`, the metric's
        direction. The last row counts queries that the candidate failed on, or was not asked,
        of the `n` that the baseline answered.
    regressions
        The queries that lost most, worst first.
    rule
        What decides: "verdict" (without amounts), "threshold" or "interval".
    require
        Whether a single metric that can't be evaluated stops the gate.
    undecided
        What counts where a metric is undecided and none fails: "pass", "fail", or "" for neither.
    """

    baseline: str
    candidate: str
    rule: str
    table: pd.DataFrame
    regressions: pd.DataFrame
    require: bool = False
    clusters: str = ""
    undecided: str = ""

    @property
    def answer(self) -> str:
        """The answer in words: passed, failed, undecided, not evaluated."""
        if self._named("fail"):
            return "failed"
        n_lacking, n_metrics = len(self._named("not evaluated")), len(self.table) - 1
        if n_lacking == n_metrics or (self.require and n_lacking):
            return "not evaluated"
        said = {"pass": "passed", "fail": "failed"}.get(self.undecided, "undecided")
        return said if self._named("undecided") else "passed"

    @property
    def exit_status(self) -> int:
        """For a shell: 0 passed, 1 failed, 2 undecided or not evaluated."""
        return {"passed": 0, "failed": 1}.get(self.answer, 2)

    @property
    def passed(self) -> bool:
        """True if the answer is passed."""
        return self.exit_status == 0

    def _named(self, verdict: str) -> list[str]:
        """Return the metrics of a verdict."""
        return self.table.loc[self.table["verdict"].eq(verdict).to_numpy(), "metric"].tolist()

    def to_json(self) -> str:
        """Return the gate as JSON with the answer (`passed`, `exit_status`)."""
        return dump(self, passed=self.passed, exit_status=self.exit_status)

    def headline(self) -> str:
        """Return the answer in one line."""
        failed = ", ".join(self._named("fail"))
        reason = f" by {failed}" if failed else ""
        for word in ("undecided", "not evaluated"):
            if (names := self._named(word)) and word != self.answer:
                reason += f", {len(names)} {word}"
        return f"Gate {self.answer}{reason}: {self.candidate} against {self.baseline}"

    def shown(self) -> pd.DataFrame:
        """Return the table as text."""
        decimals = [_decimals(row, self.rule) for row in self.table.to_dict("records")]
        return pd.DataFrame(
            {
                "metric": self.table["metric"].map(in_words),
                "verdict": self.table["verdict"],
                **shown_figures(self.table, decimals, is_joint=self._is_joint),
                "why": self.table["reason"],
            }
        )

    @property
    def _is_joint(self) -> bool:
        """True if the intervals of several metrics hold together."""
        return self.rule == "verdict" and len(self.table) > 2

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table."""
        notes = {
            "All intervals together hold in 95 % of cases.": self._is_joint,
            'Say what undecided counts as: undecided="pass" or "fail" (--undecided).': (
                self.answer == "undecided"
            ),
            self.clusters: bool(self.clusters),
        }
        return [text for text, is_so in notes.items() if is_so]

    def _parts(self) -> list[str | Table]:
        sign = SIGNS[("pass", "fail", "undecided")[self.exit_status]]
        lost = Table(self.regressions.drop(columns="query"), "Largest regressions")
        more = [lost] if len(lost.frame) else []
        return [f"{sign} {self.headline()}", Table(self.shown()), *more, *self.notes()]

    def to_junit(self) -> str:
        """Return JUnit XML: a test case per metric, failed or skipped as the gate has it."""
        counts_as = {"pass": "", "fail": "failure"}.get(self.undecided, "skipped")
        kinds = {"fail": "failure", "undecided": counts_as, "not evaluated": "skipped"}
        found = [kinds.get(word, "") for word in self.table["verdict"]]
        root = Element(
            "testsuite", name="ragscore gate", tests=str(len(found)),
            failures=str(found.count("failure")), skipped=str(found.count("skipped")),
        )  # fmt: skip
        about = f"{self.candidate} against {self.baseline}"
        shown = self.table["metric"], self.table["reason"], self.shown()["delta"]
        for metric, reason, delta, kind in zip(*shown, found, strict=True):
            case = SubElement(root, "testcase", classname=about, name=metric)
            if kind:
                SubElement(case, kind, message=visible(f"{reason} ({delta})"))
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
    max_failed: int = 0,
) -> Gate:
    """Fail if a primary metric is worse, or if a metric loses more than an allowed amount.

    Without `max_drop` the gate fails if a primary metric is worse, and is undecided if nothing is
    certain. Either way it fails if there are more than `max_failed` queries that the candidate
    failed on or was not asked, and the baseline answered.

    Parameters
    ----------
    max_drop
        Metric -> largest loss that is allowed, in the metric's units. A loss is a fall of metrics
        that should be high and a rise of those that should be low. Means are compared; of times and
        costs medians, or the 95th percentiles as `p95(latency_ms)`.
    rule
        "threshold": the loss seen decides. "interval": each metric's own 95 % interval. It passes
        if a larger loss is ruled out, fails if one is sure, and is undecided in between. 95th
        percentiles are judged by their value.
    require
        Don't pass if a metric can't be evaluated.
    undecided
        "pass" or "fail": what counts where a metric is undecided and none fails.
    max_failed
        Queries that the candidate alone may fail on, or not be asked.

    Raises
    ------
    DataError
        No metric, one without a direction, a loss that is no number or below 0, an unknown rule.

    Examples
    --------
    >>> cmp.gate({"mrr@10": 0.02, "p95(latency_ms)": 50}).passed
    """
    check_choice(rule, RULES, "rule")
    check_choice(undecided or "pass", UNDECIDED, "undecided")
    check_type(max_failed, int, "max_failed", "a number of queries")
    rows = {
        row["metric"]: row | {"better": cmp._declared.describe(row["metric"]).better}
        for row in cmp.deltas.to_dict("records")
    }
    if max_drop is None:
        asked, rule = [row for row in rows.values() if row["is_primary"]], "verdict"
        found = [_by_word(row, cmp.overall) for row in asked]
    else:
        _check(cmp, max_drop, rows)
        found = [
            _by_loss(cmp, name, float(allowed), rows.get(scored_by(name)), rule)
            for name, allowed in max_drop.items()
        ]
    table = pd.DataFrame([*found, _failures(cmp, max_failed)]).reindex(columns=COLUMNS)
    table = table.astype(dict.fromkeys([*FIGURES, "max_drop"], "float64"))
    lost = cmp.per_query["outcome"].isin(["regression", "only_baseline", "loss"]).to_numpy()
    worst = changed_queries(cmp.per_query[lost])[["query_id", "outcome", *RANKS, "query"]].head()
    return Gate(
        cmp.baseline, cmp.candidate, rule, table, worst, require, cmp._clusters, undecided or ""
    )


def scored_by(name: str) -> str:
    """Return the metric that a gate's name is about: of `p95(latency_ms)` latency_ms."""
    return P95.sub(r"\1", name)


def _check(cmp: Comparison, max_drop: object, known: Mapping[str, Any]) -> None:
    if not isinstance(max_drop, Mapping) or not max_drop:
        raise DataError(
            f"found {excerpt(max_drop)}", field="max_drop",
            allowed="metric -> loss, such as {'mrr@10': 0.02}",
        )  # fmt: skip
    for name, allowed in max_drop.items():
        declared, label = cmp._declared, scored_by(name)
        metric = declared.describe(label) if label in known else declared.parse(label).metric
        if metric.better not in ("higher", "lower"):
            raise DataError(
                f"it is not declared whether {label} is better higher or lower", field="max_drop",
                allowed=f"ev.with_columns(frame, {label!r}, better='higher')",
            )  # fmt: skip
        if label != name and not metric.is_timed:
            raise DataError(f"found {name}", field="max_drop", allowed="p95 of a time or a cost")
        is_number = isinstance(allowed, (int, float)) and not isinstance(allowed, bool)
        if not (is_number and 0 <= allowed < math.inf):
            raise DataError(
                f"found {allowed!r} for {name}", field="max_drop",
                allowed="a number from 0: the largest loss that is allowed",
            )  # fmt: skip


def _by_word(row: dict[Any, Any], overall: str) -> dict[Any, Any]:
    """Return the row of a primary metric, which fails if it is worse."""
    verdict, reason = BY_WORD.get(row["verdict"], ("not evaluated", "nothing to judge by"))
    has_moved = row["n_better"] + row["n_worse"] > 0
    if verdict == "undecided" and (overall == "better" or not has_moved):
        verdict, reason = "pass", reason if has_moved else "no query changed"
    return row | {"verdict": verdict, "reason": reason}


def _by_loss(
    cmp: Comparison, name: str, allowed: float, row: dict[Any, Any] | None, rule: str
) -> dict[Any, Any]:
    """Return the row of a metric that may lose so much."""
    asked = {"metric": name, "max_drop": allowed}
    if row is None or not row["n"]:
        return asked | {
            "n": 0, "verdict": "not evaluated", "reason": "not compared", "better": "",
        }  # fmt: skip
    row = row | asked | {"low": row["low_95"], "high": row["high_95"]}
    if name != scored_by(name):
        tail, rule = cmp._tails.set_index("metric").loc[scored_by(name)], "threshold"
        a, b = tail["p95_baseline"], tail["p95_candidate"]
        row |= {"baseline": a, "candidate": b, "delta": b - a, "low": math.nan, "high": math.nan}
    ends = _losses(row, rule)
    place = 1 if math.isnan(ends[0]) else sum(_is_beyond(end, allowed) for end in ends)
    return row | {"verdict": LEVELS[place], "reason": BY_RULE[rule][place].format(allowed)}


def _failures(cmp: Comparison, allowed: int) -> dict[str, Any]:
    """Return the row of the queries that the candidate alone failed on, or was not asked."""
    a, b = (cmp.per_query[f"state_{side}"].eq("scored") for side in FIGURES[:2])
    n, of = int((a & ~b).sum()), int(a.sum())
    return {
        "metric": FAILURES, "candidate": n, "delta": n, "max_drop": allowed, "n": of,
        "verdict": "fail" if n > allowed else "pass" if of else "undecided", "better": "lower",
        "reason": f"{n} of {of}" if of else "no baseline answers",
    }  # fmt: skip


def _losses(row: Mapping[Any, Any], rule: str) -> list[float]:
    """Return both ends of what a row lost; by the threshold the loss seen, twice."""
    sign = 1 if row["better"] == "lower" else -1
    ends = ("delta", "delta") if rule == "threshold" else ("low", "high")
    return [float(sign * row[end]) for end in ends]


def _is_beyond(loss: float, allowed: float) -> bool:
    """Return whether a loss is more than is allowed, and not by rounding alone."""
    return loss > allowed + ROUNDING * min(abs(loss) + allowed, 1.0)


def _decimals(row: Mapping[Any, Any], rule: str) -> int:
    """Return how many decimals show on which side of 0, or of the amount, the row lies."""
    places, allowed = decimals_within(row["low"], row["high"]), row["max_drop"]
    for loss in _losses(row, rule):
        if not math.isnan(loss + allowed):
            places = decimals_beside(loss, allowed, _is_beyond(loss, allowed), places)
    return 0 if row["metric"] == FAILURES else places
