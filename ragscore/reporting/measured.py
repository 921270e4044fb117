"""What a page shows where the runs support it.

Leaderboard, gates, trends, refusals, faults, risk; and why a part is left out.

In: results, golden set, scores and comparisons. Out: frames, and a reason for every part that there
is nothing for.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from ragscore.analysis.comparison.gate import Gate, gate
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.failure_causes import (
    answer_faults,
    fault_changes,
    fault_table,
    fault_transitions,
)
from ragscore.analysis.leaderboard import leaderboard
from ragscore.analysis.refusals import answered_quality, refusal_table, right_by
from ragscore.analysis.risk_coverage import refusal_curve
from ragscore.analysis.trend.trend import trend
from ragscore.frames.data import DataError, Golden, Results
from ragscore.store.store import RunStore

TRACED = ("hit@5", "mrr@10", "passed")  # metrics whose trend is shown, as far as they were measured
FALLBACK = "hit@5"  # says whether an answer would have been right where nothing judges answers


@dataclass
class Measured:
    """Parts of a page by name, and for each that is left out why."""

    scores: pd.DataFrame
    golden: Golden
    results: Results
    parts: dict[str, Any] = field(default_factory=dict)
    reasons: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, title: str, reason: str, make: Callable[[], Any]) -> None:
        """Make a part unless there is a reason not to; what it can't be made from is a reason, too."""
        if not reason:
            try:
                self.parts[name] = make()
                return
            except DataError as error:
                reason = str(error)
        self.reasons.append((title, reason))

    @property
    def left_out(self) -> pd.DataFrame:
        """One row per part without data: `part`, `why`."""
        return pd.DataFrame(self.reasons, columns=["part", "why"], dtype="str")


def measure(
    results: Results, golden: Golden, scores: pd.DataFrame, compared: tuple[Comparison, ...], *,
    baseline: str | None, max_drop: Mapping[str, float] | None, rule: str, history: RunStore | None,
) -> Measured:  # fmt: skip
    """Every part of a page that there is data for."""
    found = Measured(scores, golden, results)
    alone = "" if len(results.runs) > 1 else "one run"
    found.add(
        "leaderboard",
        "Leaderboard",
        alone,
        lambda: leaderboard(scores, baseline, golden=golden, results=results),
    )
    if max_drop or not compared:
        found.add("gates", "Gate", alone, lambda: gates(compared, max_drop, rule))
    else:
        found.reasons.append(("Gate", "no largest loss was declared (gate=, --max-drop)"))
    found.add("trends", "Trend", _no_trend(results, history), lambda: _trends(found, history))
    decided = scores[["refusal_correct", "false_refusal"]].notna().any(axis=None)
    undecided = (
        ""
        if decided
        else "no run says whether it refused, or no question is labelled answerable or not"
    )
    found.add(
        "decisions", "Refusing as a decision", undecided, lambda: refusal_table(scores, golden)
    )
    found.add(
        "quality", "Quality beside coverage", undecided, lambda: answered_quality(scores, golden)
    )
    judged = right_by(scores.reset_index() if "query_id" not in scores else scores, None, None)
    unjudged = undecided or (
        ""
        if judged
        else (
            "no metric says which answers are right (judge_correctness, key_facts or answer_checks)"
        )
    )
    found.add(
        "faults",
        "Whose fault wrong answers are",
        unjudged,
        lambda: fault_table(scores, golden, results),
    )
    found.add(
        "transitions",
        "What became of each question",
        alone or unjudged,
        lambda: _transitions(found, compared),
    )
    found.add(
        "curve",
        "What if a threshold refused",
        undecided,
        lambda: _curve(found, None if judged else FALLBACK),
    )
    return found


def gates(
    compared: tuple[Comparison, ...], max_drop: Mapping[str, float] | None, rule: str
) -> tuple[Gate, ...]:
    """One gate per comparison."""
    return tuple(gate(cmp, max_drop, rule=rule) for cmp in compared) if max_drop else ()


def _no_trend(results: Results, history: RunStore | None) -> str:
    if history is not None:
        return ""
    runs = results.runs
    if "created_at" not in runs or runs["created_at"].isna().any():
        return "not every run says when it was made (created_at)"
    system = runs["system"].astype("str") if "system" in runs else pd.Series("", index=runs.index)
    return (
        ""
        if runs.groupby(system)["created_at"].nunique().max() > 1
        else "no system has runs of two times"
    )


def _trends(found: Measured, history: RunStore | None) -> pd.DataFrame:
    """`rs.trend` of the traced metrics, one below the other."""
    names = [name for name in TRACED if name in found.scores and found.scores[name].notna().any()]
    if not names:
        raise DataError(f"none of {', '.join(TRACED)} was measured")
    if history is not None:
        return pd.concat(
            [trend(history, name, golden=found.golden) for name in names], ignore_index=True
        )
    return pd.concat(
        [trend(found.scores, name, results=found.results) for name in names], ignore_index=True
    )


def _transitions(found: Measured, compared: tuple[Comparison, ...]) -> pd.DataFrame:
    """One row per comparison, class before and class after: `n` questions."""
    faults = answer_faults(found.scores, found.golden, found.results)
    parts = []
    for cmp in compared:
        table = fault_transitions(fault_changes(faults, cmp.baseline, cmp.candidate))
        long = (
            table.reset_index()
            .melt(id_vars="before", var_name="after", value_name="n")
            .astype({"before": "str", "after": "str", "n": "int64"})
        )
        parts.append(
            long.assign(baseline=cmp.baseline, candidate=cmp.candidate).astype(
                {"baseline": "str", "candidate": "str"}
            )
        )
    return pd.concat(parts, ignore_index=True)[["baseline", "candidate", "before", "after", "n"]]


def _curve(found: Measured, right: str | None) -> pd.DataFrame:
    """`rs.refusal_curve`; a run without one is named among what is left out."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        table = refusal_curve(found.scores, found.golden, found.results, right=right)
    reason = "; ".join(str(one.message) for one in said)
    if table["risk"].isna().all():
        raise DataError(reason or "nothing is answered at any threshold")
    if reason:
        found.reasons.append(("What if a threshold refused", reason))
    return table.assign(
        run_id=table["run_id"].astype("str"),
        right_by=right or right_by(found.scores.reset_index(), None, None),
    )
