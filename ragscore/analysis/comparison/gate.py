"""Release gate: fail if what decides is worse, or if a metric drops by more than allowed.

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
from ragscore.analysis.comparison.text import RANKS, changed_queries, in_words
from ragscore.analysis.result_forms import JsonResult
from ragscore.frames.data import DataError, check_type, records_of
from ragscore.frames.errors import check_choice
from ragscore.frames.escaping import visible
from ragscore.frames.render import decimals_within, dump, shown_number
from ragscore.frames.tables import SIGNS, VERDICTS, Display, Table
from ragscore.scoring.metrics import ROUNDING
from ragscore.stats import UNSURE

RULES = ("threshold", "interval")
UNDECIDED = ("pass", "fail")
FAILURES = "failed queries"
SHOWN_REGRESSIONS, SHOWN_QUERY = 10, 60
COLUMNS = ["metric", *FIGURES, "max_drop", "n", "verdict", "reason", "better"]


@dataclass(frozen=True, repr=False)
class Gate(JsonResult, Display):
    """The verdicts of `cmp.gate`.

    Attributes
    ----------
    table
        One row per metric asked for: `baseline`, `candidate`, `delta` with its interval `low`,
        `high`, `max_drop`, `n`, `verdict` (pass, fail, not evaluated), the `reason`, and `better`,
        the metric's direction. The last row counts the queries that the candidate failed on or was
        not asked, and the baseline answered: more than allowed fail the gate.
    regressions
        The queries that lost most, worst first.
    overall
        The comparison's word over its primary metrics.
    require
        Whether a metric that can't be evaluated stops the gate.
    undecided
        What *can't tell* over all counts as: "pass", "fail", or "" where nobody said so.
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

    @property
    def passed(self) -> bool:
        """True if no metric fails and, with `require`, every metric was evaluated."""
        return self.exit_status == 0

    @property
    def exit_status(self) -> int:
        """For a shell: 0 passed, 1 a metric fails, 2 undecided or not evaluated."""
        if self.table["verdict"].eq("fail").any():
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
        margins = self.table.loc[self.table["metric"].ne(FAILURES).to_numpy(), "max_drop"]
        return self.rule == "verdict" and self.overall == UNSURE and bool(margins.isna().all())

    @property
    def _n_open(self) -> int:
        return int(self.table["verdict"].eq("not evaluated").sum())

    def to_json(self) -> str:
        """Return the gate as JSON with the answer (`passed`, `exit_status`)."""
        return dump(self, passed=self.passed, exit_status=self.exit_status)

    def headline(self) -> str:
        """Return the answer in one line."""
        failed = ", ".join(self.table.loc[self.table["verdict"].eq("fail").to_numpy(), "metric"])
        more = f", {self._n_open} not evaluated" if self._n_open and self.exit_status != 2 else ""
        return (
            f"Gate {self.answer}{f' by {failed}' if failed else ''}{more}: {self.candidate} against"
            f" {self.baseline} (primary metrics: {self.overall})"
        )

    def shown(self) -> pd.DataFrame:
        """Return the table as text."""
        rows = self.table
        places = [decimals_within(*ends, 3) for ends in zip(rows["low"], rows["high"], strict=True)]
        texts = {
            name: [
                shown_number(value, digits, signed=name not in FIGURES[:2])
                for value, digits in zip(rows[name], places, strict=True)
            ]
            for name in FIGURES
        }
        return pd.DataFrame(
            {
                "metric": [in_words(name) for name in rows["metric"]],
                "verdict": rows["verdict"],
                **{name: texts[name] for name in ("baseline", "candidate", "delta")},
                "95 % interval": [
                    f"[{a}, {b}]" for a, b in zip(texts["low"], texts["high"], strict=True)
                ],
                "allowed": [
                    "not worse" if math.isnan(one) else f"{one:g}" for one in rows["max_drop"]
                ],
                "n": rows["n"],
                "why": rows["reason"],
            }
        )

    def largest_regressions(self) -> pd.DataFrame:
        """Return `regressions` with long queries cut."""
        query = self.regressions["query"].astype("str")
        cut = query.str.slice(0, SHOWN_QUERY - 1) + "…"
        return self.regressions.assign(query=query.where(query.str.len() <= SHOWN_QUERY, cut))

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table."""
        ways = (
            "Nothing can be told, so that the gate neither passes nor fails. Say what that counts"
            ' as (undecided="pass" or "fail", --undecided), or declare margins.'
        )
        return [ways] * (self.answer == "undecided") + [*filter(None, [self.clusters])]

    def _parts(self) -> list[str | Table]:
        sign = SIGNS[("pass", "fail", "not evaluated")[self.exit_status]]
        table = Table(self.shown(), verdicts=(*VERDICTS, "why"))
        lost = Table(self.largest_regressions(), "Largest regressions")
        return [
            f"{sign} {self.headline()}",
            table,
            *([lost] * bool(len(lost.frame))),
            *self.notes(),
        ]

    def to_junit(self) -> str:
        """Return JUnit XML: a test case per metric, failed or skipped as the gate has it."""
        cases = [(row["metric"], row["verdict"], row["reason"]) for row in records_of(self.table)]
        if self.exit_status and "fail" not in {verdict for _, verdict, _ in cases}:
            cases.append(("answer", ("", "fail", "skipped")[self.exit_status], self.headline()))
        root, kinds = Element("testsuite", name="ragscore gate", tests=str(len(cases))), list[str]()
        for name, verdict, reason in cases:
            about = f"{self.candidate} against {self.baseline}"
            case = SubElement(root, "testcase", classname=about, name=str(name))
            if verdict != "pass":
                kinds.append("failure" if verdict == "fail" else "skipped")
                SubElement(case, kinds[-1], message=visible(str(reason)))
        root.set("failures", str(kinds.count("failure")))
        root.set("skipped", str(kinds.count("skipped")))
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
    """Fail if a primary metric is worse, or if a metric drops by more than an allowed amount.

    Without `max_drop` the verdicts of the primary metrics decide, aspect by aspect: "worse" and
    "mixed" fail. Where nothing at all can be told, the gate is undecided until `undecided` says
    what that counts as. Errors never make a gate pass: it fails if the candidate failed on, or was
    not asked, more than `max_failed` queries that the baseline answered.

    Parameters
    ----------
    max_drop
        Metric label -> largest loss that is allowed, 0 or above, in the metric's units. A loss is a
        fall of metrics that should be high and a rise of those that should be low.
    rule
        "threshold": the observed loss must not exceed it. "interval": the 95 % interval must
        exclude any loss beyond it (non-inferiority).
    require
        Don't pass if a metric can't be evaluated.
    undecided
        Without `max_drop`: "pass" or "fail" where no primary metric can be told.

    Raises
    ------
    DataError
        No metric, one without a direction, a loss that is no number or below 0, an unknown rule.
    """
    check_type(cmp, Comparison, "cmp", "what ev.compare returns")
    check_choice(rule, RULES, "rule")
    if undecided is not None:
        check_choice(undecided, UNDECIDED, "undecided")
    rows = {row["metric"]: row for row in records_of(cmp.deltas)}
    if max_drop is None:
        primary = [row for row in rows.values() if row["is_primary"]]
        told = {name: one for one in records_of(cmp.aspects) for name in one["metrics"].split(", ")}
        found, rule = [_by_verdict(row, told.get(row["metric"])) for row in primary], "verdict"
        is_same = not any(row["n_better"] + row["n_worse"] for row in primary)
        undecided = undecided or ("pass" if is_same else "")
    else:
        check_type(max_drop, Mapping, "max_drop", "metric -> loss, such as {'mrr@10': 0.02}")
        _check(cmp, max_drop, rows)
        found = [
            _by_loss(cmp, name, float(allowed), rows.get(name), rule)
            for name, allowed in max_drop.items()
        ]
    table = pd.DataFrame([*found, _failures(cmp, max_failed)]).reindex(columns=COLUMNS)
    table = table.astype(dict.fromkeys([*FIGURES, "max_drop"], "float64"))
    lost = cmp.per_query["outcome"].isin(["regression", "only_baseline", "loss"]).to_numpy()
    worst = changed_queries(cmp.per_query[lost]).head(SHOWN_REGRESSIONS)
    return Gate(
        cmp.baseline, cmp.candidate, rule, table,
        worst[["query_id", "query", "outcome", *RANKS, "lost"]], cmp.overall, require, cmp.clusters,
        undecided or "",
    )  # fmt: skip


def _check(cmp: Comparison, max_drop: Mapping[str, float], known: Mapping[str, Any]) -> None:
    if not max_drop:
        raise DataError("found no metric", field="max_drop", allowed="metric -> its largest loss")
    for name, allowed in max_drop.items():
        declared = cmp.declared
        metric = declared.describe(name) if name in known else declared.parse(name).metric
        if metric.better not in ("higher", "lower"):
            raise DataError(
                f"nobody said whether {name} is better higher or lower",
                field="max_drop",
                allowed=f"ev.with_columns(frame, better={{{name!r}: 'higher'}})",
            )
        is_number = isinstance(allowed, (int, float)) and not isinstance(allowed, bool)
        if not is_number or not 0 <= allowed < math.inf:
            allowed_text = "a number from 0: the largest loss that is allowed"
            raise DataError(f"found {allowed!r} for {name}", field="max_drop", allowed=allowed_text)


def _by_verdict(row: dict[str, Any], told: dict[str, Any] | None) -> dict[str, Any]:
    """Return the row of a primary metric, by the verdict of its aspect."""
    if told is None:
        return row | {"verdict": "not evaluated", "reason": "no word: one run has no values"}
    word = "fail" if told["verdict"] in ("worse", "mixed") else "pass"
    return row | {"verdict": word, "reason": f"{told['verdict']}: {told['sentence']}"}


def _by_loss(
    cmp: Comparison, name: str, allowed: float, row: dict[str, Any] | None, rule: str
) -> dict[str, Any]:
    better = cmp.declared.describe(name).better
    told = {"metric": name, "max_drop": allowed, "better": better, "n": 0}
    if row is None or not row["n"]:
        lacks = "the comparison lacks this metric" if row is None else "no query has both values"
        return told | {"verdict": "not evaluated", "reason": lacks}
    sign = 1 if better == "lower" else -1
    loss, *ends = (
        sign * (math.nan if row[one] is None else row[one]) for one in ("delta", "low", "high")
    )
    slack = ROUNDING * min(abs(loss) + allowed, 1.0) if loss == loss else ROUNDING
    reason = (
        f"loss of {loss:.3g}"
        if loss > slack
        else f"gain of {-loss:.3g}"
        if loss < -slack
        else "unchanged"
    )
    word = "pass"
    if loss > allowed + slack:
        word, reason = "fail", f"{reason}, more than {allowed:g}"
    elif rule == "interval" and not max(ends) <= allowed + slack:
        is_known = not math.isnan(max(ends))
        word = "fail" if is_known else "not evaluated"
        most = f"a loss of {max(ends):.3g} can't be ruled out" if is_known else "too few queries"
        reason = f"{reason}, but {most}"
    return row | told | {"n": row["n"], "verdict": word, "reason": reason}


def _failures(cmp: Comparison, allowed: int) -> dict[str, Any]:
    """Return the row of the queries that the candidate alone failed on, or was not asked."""
    states = [
        cmp.per_query.get(f"state_{side}", pd.Series(dtype="str"))
        for side in ("baseline", "candidate")
    ]
    n = int((states[0].eq("scored") & states[1].ne("scored")).sum())
    word = "fail" if n > allowed else "pass"
    reason = f"{n} that the candidate failed on or was not asked, and the baseline answered"
    return {
        "metric": FAILURES, "candidate": n, "delta": n, "max_drop": allowed, "better": "lower",
        "n": len(states[0]), "verdict": word, "reason": reason,
    }  # fmt: skip
