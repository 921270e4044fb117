"""Build the frames of a report from runs and a golden set, or from a comparison.

A part that the data don't support is left out, and its reason is a row of `left_out`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.gate import Gate, gate
from ragscore.analysis.comparison.invariants import flat_configs
from ragscore.analysis.comparison.model import Comparison
from ragscore.analysis.failure_causes import Failures, failures
from ragscore.analysis.leaderboard import leaderboard
from ragscore.analysis.refusals import Refusals, refusals, right_by
from ragscore.analysis.reported import reported_summary
from ragscore.analysis.risk_coverage import risk_coverage
from ragscore.analysis.trend.trend import trend
from ragscore.frames.codes import lookup
from ragscore.frames.data import (
    DataError,
    Golden,
    Results,
    categorical,
    check_inputs,
    check_type,
    run_names,
)
from ragscore.frames.errors import plural, unsaid
from ragscore.golden.coverage import answer_counts
from ragscore.plot.style import all_runs
from ragscore.reporting.explorer.explorer import Explorer, explore_comparison
from ragscore.reporting.model import Report
from ragscore.reporting.reading import worst_changes, worst_queries
from ragscore.reporting.sections import RESULTS
from ragscore.scoring.metrics import MetricTable
from ragscore.scoring.primary import headline_of
from ragscore.scoring.rows import Rows
from ragscore.scoring.summary import (
    Slicing,
    metric_columns,
    slice_names,
    slice_texts,
    summarize,
)
from ragscore.store.store import RunStore

EXPLORER = "Query by query"
MOST_COMPARED = 1  # of the newest runs: each comparison is a screen of its own
OLDER = "the verdicts of all pairs stand on top; ev.compare(baseline, candidate) gives the rest"
FALLBACK = "hit@5"  # says whether an answer would have been right where nothing judges answers


@dataclass
class Measured:
    """The parts of a page by name, and a reason for each part that is left out."""

    scores: pd.DataFrame
    golden: Golden
    results: Results
    declared: MetricTable
    parts: dict[str, Any] = field(default_factory=dict)
    reasons: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, title: str, reason: str, make: Callable[[], Any]) -> None:
        """Make a part, or note the reason why it can't be made."""
        if not reason:
            try:
                self.parts[name] = make()
                return
            except DataError as error:
                reason = str(error)
        self.reasons.append((title, reason))

    @cached_property
    def refused(self) -> Refusals:
        """Refusing as a decision, of every run."""
        return refusals(self.scores, self.golden, declared=self.declared)

    @cached_property
    def causes(self) -> Failures:
        """Why answers are wrong, of every run."""
        return failures(self.scores, self.golden, self.results, declared=self.declared)


def measure(
    results: Results, golden: Golden, scores: pd.DataFrame, compared: tuple[Comparison, ...], *,
    rows: Rows | None = None,
    baseline: str | None, max_drop: Mapping[str, float] | None, rule: str, history: RunStore | None,
    reported: Results | None = None, primary: Sequence[str] = (), declared: MetricTable,
) -> Measured:  # fmt: skip
    """Make every part of a page that the data support."""
    found = Measured(scores, golden, results, declared)
    alone = "" if len(results.runs) > 1 else "one run" if len(results.runs) else "no run with rows"
    found.add(
        "leaderboard",
        "Leaderboard",
        "" if reported is not None else alone,
        lambda: leaderboard(
            scores,
            baseline=baseline,
            primary=tuple(primary),
            golden=golden,
            rows=rows,
            reported=reported,
            declared=declared,
        ),
    )
    if max_drop or not compared:
        found.add("gates", "Gate", alone, lambda: gates(compared, max_drop, rule))
    else:
        found.reasons.append(("Gate", "no largest loss was declared (gate=, --max-drop)"))
    every = results if reported is None else Results.concat([results, reported])
    found.add(
        "trends", "Trend", _no_trend(every, history), lambda: _trends(found, history, reported)
    )
    decided = scores.reindex(columns=["refusal_correct", "false_refusal"]).notna().any(axis=None)
    undecided = (
        ""
        if decided
        else "no run says whether it refused, or no query is labelled answerable or not"
    )
    found.add("decisions", "Refusing as a decision", undecided, lambda: found.refused.table)
    found.add("quality", "Quality beside coverage", undecided, lambda: found.refused.quality)
    judged = right_by(
        scores.reset_index() if "query_id" not in scores else scores, None, None, declared
    )
    unjudged = undecided or (
        ""
        if judged
        else (
            "no metric says which answers are right (judge_correctness, key_facts or answer_checks)"
        )
    )
    found.add(
        "faults",
        "Failure causes of wrong answers",
        unjudged,
        lambda: found.causes.table,
    )
    found.add(
        "transitions",
        "How failure causes changed",
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
    """Return one gate per comparison, or none without declared losses."""
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


def _trends(
    found: Measured, history: RunStore | None, reported: Results | None = None
) -> pd.DataFrame:
    """Return `store.trend` of the traced metrics, one below the other.

    Where no run has rows, of the headline metrics that runs report.
    """
    names = [name for name in RESULTS if name in found.scores and found.scores[name].notna().any()]
    if not names and reported is not None:
        known = reported_summary(reported)["metric"].unique().tolist()
        names = [name for name in RESULTS if name in known] or headline_of(known)[:3]
    if not names:
        raise DataError(f"none of {', '.join(RESULTS)} was measured")
    traced = (
        trend(found.scores, name, results=found.results, reported=reported)
        if history is None
        else trend(history, name, golden=found.golden)
        for name in names
    )
    return pd.concat([one.table for one in traced], ignore_index=True)


def _transitions(found: Measured, compared: tuple[Comparison, ...]) -> pd.DataFrame:
    """One row per comparison, cause in the baseline and in the candidate, with `n` queries."""
    kinds = dict.fromkeys(("run_baseline", "run_candidate", "baseline", "candidate"), "str")
    parts = [
        found.causes.transitions(cmp.baseline, cmp.candidate)
        .reset_index()
        .melt(id_vars="baseline", var_name="candidate", value_name="n")
        .assign(run_baseline=cmp.baseline, run_candidate=cmp.candidate)
        for cmp in compared
    ]
    return pd.concat(parts, ignore_index=True).astype({**kinds, "n": "int64"})[[*kinds, "n"]]


def _curve(found: Measured, right: str | None) -> pd.DataFrame:
    """Return the curve of `risk_coverage`; runs without a curve are noted as left out."""
    with unsaid() as said:
        curve = risk_coverage(found.scores, found.golden, found.results, right=right)
    table = curve.curve
    reason = "; ".join(said)
    if table["risk"].isna().all():
        raise DataError(reason or "nothing is answered at any threshold")
    if reason:
        found.reasons.append(("What if a threshold refused", reason))
    return table.assign(run_id=table["run_id"].astype("str"), right_by=right or curve.right_by)


DESCRIBED = (
    "system",
    "created_at",
    "note",
    "suite",
    "commit",
    "k",
    "chunker_version",
    "golden_hash",
)
USUAL_SLICES = ("difficulty", "category", "lang")


def report_comparison(
    cmp: Comparison,
    path: str | Path | None = None,
    *,
    title: str | None = None,
    gate: Mapping[str, float] | None = None,
    rule: str = "threshold",
) -> Report:
    """Build a page about one comparison alone.

    Parameters
    ----------
    path
        Where to write it: .html, .md or .json.
    gate, rule
        Metric -> largest loss that is allowed, and how that is decided; see `cmp.gate`.

    Returns
    -------
    A `Report`: its frames, `to_html`, `to_markdown`, `to_json` and `write`.

    Raises
    ------
    DataError
        A metric of `gate` that wasn't compared; an ending that names no form.
    """
    explorer, reason = _packed(lambda: explore_comparison(cmp))
    made = Report(
        title or f"{cmp.candidate} against {cmp.baseline}",
        comparisons=(cmp,),
        left_out=_left_out([(EXPLORER, reason)] if reason else []),
        gates=gates((cmp,), gate, rule),
        read_first=worst_changes(cmp),
        primary=cmp.primary,
        declared=cmp.declared,
        explorer=explorer,
    )
    if path is not None:
        made.write(path)
    return made


def report_runs(
    results: Results, golden: Golden, scores: pd.DataFrame,
    compare: Callable[[str, str], Comparison], *,
    baseline: str | None, slices: Sequence[Slicing] | None, title: str | None,
    gate: Mapping[str, float] | None, rule: str, history: RunStore | None,
    reported: Results | None = None, primary: Sequence[str] = (), declared: MetricTable,
    explore: Callable[[str], Explorer], order: Sequence[str] = (), rows: Rows | None = None,
) -> Report:  # fmt: skip
    """Build a page about runs; see `Evaluation.report`.

    Parameters
    ----------
    compare
        Gives the comparison of two of the runs.
    explore
        Gives the explorer of a run alone.
    """
    check_inputs(results, golden)
    check_type(history, (RunStore, type(None)), "history", "a RunStore")
    chosen = _slices(golden, slices)
    results = _oldest_first(results)
    scores = _in_order(scores, results.runs["run_id"].astype("str").tolist())
    pairs = _pairs(results, baseline)
    kept = pairs if baseline is not None or gate else pairs[:MOST_COMPARED]
    older = len(pairs) - len(kept)
    compared = tuple(compare(a, b) for a, b in kept)
    headline = headline_of(name for name in metric_columns(scores) if scores[name].notna().any())
    names = [name for name in RESULTS if name in headline] or headline[:3]
    parts = [
        _sliced(
            summarize(scores, golden, by=one, metrics=names, rows=rows, table=declared),
            slice_names(one),
        )
        for one in chosen
    ]
    found = measure(
        results,
        golden,
        scores,
        compared,
        baseline=baseline,
        max_drop=gate,
        rule=rule,
        history=history,
        reported=reported,
        primary=primary,
        declared=declared,
        rows=rows,
    )
    parts_of_page: dict[str, Any] = {
        name: _plain(part) if isinstance(part, pd.DataFrame) else part
        for name, part in found.parts.items()
    }
    run_ids = results.runs["run_id"].astype("str").tolist()
    reason = ""
    if compared:
        parts_of_page["read_first"] = worst_changes(compared[0])
        with all_runs(run_ids):  # runs look as in the page's figures
            parts_of_page["explorer"], reason = _packed(lambda: explore_comparison(compared[0]))
    elif run_ids:
        newest = scores[(scores["run_id"] == run_ids[-1]).to_numpy()]
        known = ((name, declared.describe(name)) for name in primary)
        ranked = (name for name, told in known if told.is_unit and told.better == "higher")
        parts_of_page["read_first"] = worst_queries(newest, golden, next(ranked, None))
        parts_of_page["explorer"], reason = _packed(lambda: explore(run_ids[-1]))
    if reason:
        found.reasons.append((EXPLORER, reason))
    if older:
        found.reasons.append((f"{plural(older, 'older comparison')}", OLDER))
    n_all = len(run_ids) + (0 if reported is None else len(reported.runs))
    return Report(
        title=title or f"{plural(n_all, 'run')} on {len(golden.queries)} golden queries",
        runs=_runs(results, golden, reported), config=_config(results, run_ids),
        summary=_plain(summarize(scores, golden, rows=rows, table=declared)),
        reported=pd.DataFrame() if reported is None else reported_summary(reported),
        slices=_plain(pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()),
        comparisons=compared, primary=tuple(primary),
        left_out=_left_out(found.reasons), declared=declared,
        order=tuple(order),
        **parts_of_page,
    )  # fmt: skip


def _left_out(reasons: list[tuple[str, str]]) -> pd.DataFrame:
    """One row per part without data: `part`, `why`."""
    return pd.DataFrame(reasons, columns=["part", "why"], dtype="str")


def _packed(explore: Callable[[], Explorer]) -> tuple[str, str]:
    """Return the content of an explorer, or nothing and the reason."""
    try:
        return explore().packed, ""
    except DataError as error:
        return "", str(error)


def _in_order(scores: pd.DataFrame, run_ids: list[str]) -> pd.DataFrame:
    """Return the rows of these runs, in their order."""
    place = lookup(scores["run_id"], pd.Index(run_ids, dtype="str"))
    order = np.argsort(place, kind="stable")
    kept = order[place[order] >= 0]
    return scores.iloc[kept].assign(run_id=categorical(place[kept], run_ids))


def _sliced(table: pd.DataFrame, by: tuple[str, ...]) -> pd.DataFrame:
    """Return a summary with the columns `by` and `slice` for the names of its slices."""
    rest = table.drop(columns=["run_id", *by]).assign(by=" × ".join(by))
    return pd.concat([table[["run_id"]], slice_texts(table, by).rename("slice"), rest], axis=1)


def _slices(golden: Golden, slices: Sequence[Slicing] | None) -> list[Slicing]:
    if slices is None:
        return [
            name
            for name in USUAL_SLICES
            if name in golden.queries and golden.queries[name].notna().any()
        ]
    chosen = [slices] if isinstance(slices, str) else slices
    return list(dict.fromkeys(one if isinstance(one, str) else tuple(one) for one in chosen))


def _oldest_first(results: Results) -> Results:
    runs = results.runs
    if "created_at" not in runs or runs["created_at"].isna().any():
        return results
    return results.select(
        runs.sort_values("created_at", kind="stable")["run_id"].astype("str").tolist()
    )


def _pairs(results: Results, baseline: str | None) -> list[tuple[str, str]]:
    """Return baseline and candidate of every comparison, newest first."""
    names = results.runs["run_id"].astype("str").tolist()
    if baseline is None:
        return list(pairwise(names))[::-1]
    (first,) = run_names(results.runs, [baseline])
    return [(first, name) for name in names[::-1] if name != first]


def _runs(results: Results, golden: Golden, reported: Results | None) -> pd.DataFrame:
    """One row per run: its description, and how much of the golden set it answered.

    Of a run that only reports aggregates (`is_reported`) the latter isn't known.
    """
    if reported is not None:
        with_rows = _runs(results, golden, None) if len(results.runs) else pd.DataFrame()
        own = [name for name in DESCRIBED if name in reported.runs]
        alone = reported.runs[["run_id", *own]].astype({"run_id": "str"})
        parts = [with_rows.assign(is_reported=False), alone.assign(is_reported=True)]
        return pd.concat([part for part in parts if len(part)], ignore_index=True)
    known = [
        name for name in DESCRIBED if name in results.runs and results.runs[name].notna().any()
    ]
    counts = (
        answer_counts(results, golden)
        .rename_axis("run_id")
        .reset_index()
        .rename(columns={"n_rows": "n_queries"})
    )
    described = results.runs[["run_id", *known]].assign(run_id=results.runs["run_id"].astype("str"))
    return described.merge(
        counts.assign(run_id=counts["run_id"].astype("str")), on="run_id", how="left"
    )


def _config(results: Results, run_ids: list[str]) -> pd.DataFrame:
    """One row per config key and run that has it.

    `value` is JSON text; `differs` is true where not all runs have the same value.
    """
    rows = [
        (key, run_id, value)
        for run_id, config in flat_configs(results, run_ids).items()
        for key, value in config.items()
    ]
    table = pd.DataFrame(rows, columns=["key", "run_id", "value"], dtype="str")
    of_key = table.groupby("key", sort=False)["value"]
    return table.assign(
        differs=(
            (of_key.transform("nunique") > 1) | (of_key.transform("size") < len(run_ids))
        ).astype("bool")
    )


def _plain(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with run ids as text, so that a reloaded frame equals it."""
    return (
        frame.assign(run_id=frame["run_id"].astype("str")).reset_index(drop=True)
        if "run_id" in frame
        else frame
    )
