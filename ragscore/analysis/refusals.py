"""Refusal as a decision: which queries a system answers or refuses, and how right it is.

In: scores and the golden set they were made with. Out: `Refusals`: one decision per run and query,
the 2 × 2 of answerable × refused, the quality of answers beside coverage, and refusal as a detector
of unanswerable queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pandas as pd

from ragscore.analysis.decisions import (
    ANSWERED,
    APART,
    RIGHT_FROM,
    by_system,
    check_higher,
    metric_applies,
    refusal_decisions,
    rows_with_queries,
    shares,
)
from ragscore.analysis.result_forms import FramesResult, shares_by_run
from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden
from ragscore.frames.errors import plural
from ragscore.frames.verbs import Accessor
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.stats import wilson_interval
from ragscore.stats.intervals import interval_from_moments

QUALITY = (
    *RIGHT_FROM, "exact_match", "token_f1", "rouge_l", "key_facts_literal", "judge_groundedness",
    "faithfulness",
)  # fmt: skip
QUALITY_COLUMNS = [
    "run_id", "metric", "coverage", "coverage_low", "coverage_high", "answered", "answered_low",
    "answered_high", "overall", "overall_low", "overall_high", "n_answered", "n_refused",
    "n_unmeasured", "n_failed",
]  # fmt: skip


@dataclass(frozen=True, repr=False, eq=False)
class Refusals(FramesResult):
    """What each run answers and what it refuses, rightly or wrongly.

    Attributes
    ----------
    decisions
        One row per row of the scores: run_id, query_id; `decision`, a category; `right`: 1 or 0 for
        an answer to an answerable query, NaN elsewhere. The decisions are

        - for answerable queries: right answer, wrong answer, unchecked answer (`right` has no
          value) and over-refusal
        - for queries that should be refused: right refusal and unsupported answer
        - apart from both: undecided (the system doesn't say, or only searched), unlabelled, failed,
          missing, extra (no golden query).
    table
        The 2 × 2 of answerable × refused and the rows apart from it. One row per run (repeats of a
        system are one: `n` counts the answers of all, intervals each query once) and
        `decision`: `n` queries of `n_total`; `share` = n / n_total, with its 95 % Wilson interval
        `low`, `high` (0 to 1; NaN where `n_total` is 0). The shares are of

        - answered and over-refusal: answerable queries that were decided; they add up to 1
        - right answer and wrong answer: answers that were checked; unchecked answer: all answers to
          answerable queries
        - right refusal and unsupported answer: queries that should be refused and were decided
        - undecided, unlabelled, failed, missing, extra: all rows of the run.

        `right_by` is the object's.
    quality
        The quality of the answers that a run gave, beside its coverage: a system that answers only
        easy queries has good answers. One row per run and metric, over answerable queries to which
        the metric applies. `coverage` = answered / (answered + refused), with its 95 % Wilson
        interval `coverage_low`, `coverage_high`; `answered`, the mean over the answers, with
        `answered_low`, `answered_high`; `overall`, the mean with refused queries as 0, with
        `overall_low`, `overall_high` (intervals as in a summary); NaN where there is no such query.
        `n_answered` (with a value), `n_refused`; apart from them `n_unmeasured` (answered, but
        without a value, such as a failed judgment) and `n_failed` (the query failed or is missing).
        Empty where no metric of answers has a value.
    detection
        Refusal as a detector of unanswerable queries. One row per run: `precision` (due refusals /
        refusals), `recall` (due refusals / queries that should be refused), `f1`, `accuracy`
        (rightly refused or answered / all), 0 to 1, higher is better, NaN where there is nothing to
        divide by; `n` responses that are decided, of them `n_refused_due`, `n_refused_answerable`,
        `n_answered_due`, `n_answered_answerable`; `n_undecided`: failed, or the system doesn't say,
        or the query is unlabelled.
    right_by
        What counts as a right answer, such as "answer_checks ≥ 1"; empty without a metric for it.
    """

    plot = Accessor("ragscore.plot.accessor:REFUSALS")

    FRAMES = ("quality", "detection")

    table: pd.DataFrame
    decisions: pd.DataFrame
    right_by: str
    _rows: pd.DataFrame = field(repr=False)
    _golden: Golden = field(repr=False)
    _metrics: dict[str, Metric] = field(repr=False)
    _n_runs: pd.Series = field(repr=False)

    @cached_property
    def quality(self) -> pd.DataFrame:
        """The quality of the answers that a run gave, beside its coverage."""
        parts = [_quality(self, name, described) for name, described in self._metrics.items()]
        # metric by metric, with the same runs in each: a stable sort keeps the metrics' order
        table = pd.concat(parts or [pd.DataFrame(columns=QUALITY_COLUMNS)], ignore_index=True)
        return table.sort_values("run_id", kind="stable", ignore_index=True)

    @cached_property
    def detection(self) -> pd.DataFrame:
        """Precision, recall and F1 of refusal as a detector of unanswerable queries."""
        asked = self._rows[self._rows["state"] != "missing"]
        by_run = asked.groupby("run_id", observed=False)[["refusal_correct", "false_refusal"]]
        counts, sums = by_run.count(), by_run.sum()
        due, wrong = sums["refusal_correct"], sums["false_refusal"]
        missed, answered = counts["refusal_correct"] - due, counts["false_refusal"] - wrong
        n = counts.sum(axis=1)
        ratios = {
            "precision": due / (due + wrong), "recall": due / (due + missed),
            "f1": 2 * due / (2 * due + wrong + missed), "accuracy": (due + answered) / n,
        }  # fmt: skip
        numbers = {
            "n": n, "n_refused_due": due, "n_refused_answerable": wrong, "n_answered_due": missed,
            "n_answered_answerable": answered, "n_undecided": by_run.size() - n,
        }  # fmt: skip
        return pd.DataFrame(ratios | numbers).astype(dict.fromkeys(numbers, "int64")).reset_index()

    def _heading(self) -> str:
        right = f"; right answer: {self.right_by}" if self.right_by else ""
        return f"Refusals of {plural(self.table['run_id'].nunique(), 'run')}{right}"

    def _shown(self) -> pd.DataFrame:
        return shares_by_run(self.table, "decision")


def refusals(
    scores: pd.DataFrame,
    golden: Golden,
    metrics: Sequence[str] | str | None = None,
    *,
    right: str | None = None,
    threshold: float | None = None,
    declared: MetricTable = TABLE,
    repeats: Mapping[str, list[str]] = MappingProxyType({}),
) -> Refusals:
    """Return each run's decisions to answer or refuse; see `Evaluation.refusals`.

    `repeats` are the runs of each system that has several.
    """
    rows = rows_with_queries(scores)
    names = [metrics] if isinstance(metrics, str) else list(dict.fromkeys(metrics or ()))
    check_higher(rows, names, "metrics", declared)
    names = names or [name for name in QUALITY if name in rows and rows[name].notna().any()]
    decisions, right_by = refusal_decisions(
        scores, golden, declared, right=right, threshold=threshold
    )
    rows, n_runs = by_system(rows, repeats)
    n = decisions.groupby([rows["run_id"], "decision"], observed=False).size().unstack()
    answered, checked = n[list(ANSWERED)].sum(axis=1), n[list(ANSWERED[:2])].sum(axis=1)
    answerable, to_refuse = answered + n["over-refusal"], n[["right refusal", "unsupported answer"]]
    totals = {
        "answered": answerable, "right answer": checked, "wrong answer": checked,
        "unchecked answer": answered, "over-refusal": answerable,
        **dict.fromkeys(to_refuse, to_refuse.sum(axis=1)),
        **dict.fromkeys(APART, n.sum(axis=1)),
    }  # fmt: skip
    table = shares(n.assign(answered=answered), totals, "decision", n_runs).assign(
        right_by=right_by
    )
    described = {name: declared.describe(name) for name in names}
    return Refusals(table, decisions, right_by, rows, golden, described, n_runs)


def _quality(found: Refusals, metric: str, described: Metric) -> pd.DataFrame:
    """Return the mean of a metric over answers, and with refused queries as 0, by run."""
    rows, golden, decision = found._rows, found._golden, found.decisions["decision"]
    values, applies = rows[metric].astype("float64"), metric_applies(rows, golden, metric)
    answered, refused = decision.isin(ANSWERED) & applies, decision.eq("over-refusal") & applies
    is_answerable = golden.queries["answerable"].fillna(False).astype(bool)
    answerable = is_among(rows["query_id"], golden.queries.loc[is_answerable, "query_id"])
    on_answers = values.where(answered)
    columns = rows[["run_id"]].assign(
        answered=on_answers, overall=on_answers.mask(refused, 0.0), n_refused=refused,
        n_unmeasured=answered & values.isna(),
        n_failed=decision.isin(["failed", "missing"]) & applies & answerable,
    )  # fmt: skip
    # by value: sums don't depend on the order of queries
    by_run = columns.sort_values("overall", kind="stable").groupby("run_id", observed=False)
    n = by_run[["answered", "overall"]].count()
    table = by_run[["n_refused", "n_unmeasured", "n_failed"]].sum().astype("int64")
    n_given = n["answered"] + table["n_unmeasured"]
    total = (n_given + table["n_refused"]).astype("float64")
    coverage = n_given / total.where(total > 0)
    n_runs = found._n_runs.reindex(table.index).to_numpy("float64")
    low, high = wilson_interval(np.asarray(coverage), np.asarray(total) / n_runs)
    table = table.assign(
        metric=metric, coverage=coverage, coverage_low=low, coverage_high=high,
        n_answered=n["answered"],
    )  # fmt: skip
    kind = described.tested_as
    least, most = described.bounds if kind == "bounded" else (0.0, 1.0)
    width = most - least
    for name in ("answered", "overall"):
        mean, std = (
            np.asarray(one, np.float64) for one in (by_run[name].mean(), by_run[name].std())
        )
        low, high = interval_from_moments(
            (mean - least) / width, std / width, np.asarray(n[name]) / n_runs, kind
        )
        ends = {f"{name}_low": least + width * low, f"{name}_high": least + width * high}
        table = table.assign(**{name: mean}, **ends)
    return table.reset_index()[QUALITY_COLUMNS]
