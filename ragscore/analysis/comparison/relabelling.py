"""Two runs judged by different golden sets: how much of the difference is labels, how much system.

In: results, and both versions of the golden set. Out: per metric the whole difference and its two
parts, and the same runs on the queries that did not change.
"""

from dataclasses import dataclass
from functools import partial
from typing import Self

import pandas as pd

from ragscore.analysis.comparison.deltas import SAME
from ragscore.analysis.result_forms import JsonResult
from ragscore.frames.data import (
    Golden,
    Results,
    check_inputs,
    check_type,
    golden_part,
    run_names,
)
from ragscore.frames.errors import unsaid
from ragscore.frames.golden_versions import counted, golden_changes, unchanged_queries
from ragscore.frames.render import from_content, reload
from ragscore.frames.tables import SHOWN_ROWS, Display, Table
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.level import choose_level
from ragscore.scoring.metrics import table_kind
from ragscore.scoring.rules import LEVELS
from ragscore.scoring.score import score
from ragscore.scoring.summary import metric_columns


@dataclass(frozen=True, repr=False)
class LabelEffect(JsonResult, Display):
    """A candidate judged by a new golden set against a baseline judged by the old one.

    Attributes
    ----------
    deltas
        One row per metric: `baseline` (its mean by the old labels), `candidate` (its mean by the
        new ones), and `delta` = candidate − baseline, the sum of `label_effect` (the baseline's
        change when only the labels change) and `system_effect` (candidate − baseline, both by the
        new labels); `n_baseline`, `n_candidate` queries in the means, and `n_moved`, whose value
        the system changed; on the `n_unchanged` queries that did not change, and have a value in
        both, `unchanged_baseline`, `unchanged_candidate`, `unchanged_delta`. NaN where a mean has
        no query.
    changes
        One row per query that changed; see `Golden.diff`.
    unchanged
        The golden set of the queries that did not change: `ev.compare(results, it, ...)`
        compares on them alone.
    verdict
        What changed, in words.
    """

    baseline: str
    candidate: str
    deltas: pd.DataFrame
    changes: pd.DataFrame
    unchanged: Golden
    verdict: str

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reload the comparison that `to_json` wrote."""
        return reload(cls, text, unchanged=partial(from_content, Golden))

    def _parts(self) -> list[str | Table]:
        title = f"{self.candidate} by the new golden set against {self.baseline} by the old one"
        return [
            title,
            self.verdict,
            Table(self.deltas[self.deltas["delta"].notna()], limit=SHOWN_ROWS, way=".deltas"),
        ]


def label_effect(
    results: Results,
    new: Golden,
    old: Golden,
    baseline: str,
    candidate: str | None = None,
    *,
    metrics: list[str] | str | None = None,
    match: str = "auto",
) -> LabelEffect:
    """Split the difference from a score by an older golden set into labels and system.

    Parameters
    ----------
    new, old
        The golden sets that candidate and baseline were judged by.
    baseline, candidate
        Runs, as for `ev.compare`; without a candidate the same run by both golden sets.
    metrics
        Metric labels, or one; by default all default metrics.
    match
        As for `rs.score`; "auto" takes the coarser of the levels that the two golden sets allow.

    Returns
    -------
    A `LabelEffect`, over the queries that both runs were asked.

    Raises
    ------
    DataError
        An unknown run, metric or level; a level at which one of the golden sets has no target.
    """
    check_inputs(results, new)
    check_type(old, Golden, "old")
    a, b = run_names(results.runs, [baseline, candidate if candidate is not None else baseline])
    pair = results.select(list(dict.fromkeys([a, b])))
    level = match
    if match == "auto":
        level = max((choose_level(pair, golden).name for golden in (old, new)), key=LEVELS.index)
    by_old, by_new = (_scores(pair, golden, metrics, level) for golden in (old, new))
    unchanged = unchanged_queries(new, old)
    deltas = _deltas(by_old, by_new, unchanged, a, b)
    changes = golden_changes(new, old)
    verdict = _verdict(deltas, changes, len(old.queries), is_one_run=a == b)
    return LabelEffect(a, b, deltas, changes, unchanged, verdict)


def _scores(
    pair: Results, golden: Golden, metrics: list[str] | str | None, level: str
) -> pd.DataFrame:
    """Scores of the runs on the queries that all of them were asked."""
    n_runs = pair.responses.groupby("query_id")["run_id"].nunique()
    in_all = golden.queries["query_id"].isin(n_runs.index[n_runs == len(pair.runs)])
    golden = golden_part(golden, golden.queries[in_all])
    with unsaid("golden queries without a row"):
        scores = score(pair, golden, metrics, match=level)
    return scores[(scores["state"] != "extra").to_numpy()]


def _deltas(
    by_old: pd.DataFrame, by_new: pd.DataFrame, unchanged: Golden, a: str, b: str
) -> pd.DataFrame:
    """One row per metric: the table `LabelEffect.deltas`.

    Each mean is over all queries that its golden set gives a value, so the means are not paired and
    `paired_deltas` doesn't apply: new labels add queries and take queries away.
    """
    a_old, a_new, b_new = (
        scores.loc[
            (scores["run_id"] == run_id).to_numpy(dtype=bool), metric_columns(scores)
        ].sort_index()  # by id: means don't depend on the order of queries
        for scores, run_id in ((by_old, a), (by_new, a), (by_new, b))
    )
    is_equal = ((b_new - a_new).abs() <= SAME) | (a_new.isna() & b_new.isna())
    a_same, b_same = (
        scores[scores.index.isin(unchanged.queries["query_id"])] for scores in (a_new, b_new)
    )
    a_same, b_same = a_same.where(b_same.notna()), b_same.where(a_same.notna())
    return (
        pd.DataFrame(
            {
                "baseline": a_old.mean(),
                "candidate": b_new.mean(),
                "delta": b_new.mean() - a_old.mean(),
                "label_effect": a_new.mean() - a_old.mean(),
                "system_effect": b_new.mean() - a_new.mean(),
                "n_baseline": a_old.count(),
                "n_candidate": b_new.count(),
                "n_moved": (~is_equal).sum(),
                "unchanged_baseline": a_same.mean(),
                "unchanged_candidate": b_same.mean(),
                "unchanged_delta": b_same.mean() - a_same.mean(),
                "n_unchanged": a_same.count(),
            }
        )
        .rename_axis("metric")
        .reset_index()
        .astype({"metric": "str"})
    )


def _verdict(deltas: pd.DataFrame, changes: pd.DataFrame, n: int, *, is_one_run: bool) -> str:
    """Return in words whether labels or system changed; times and costs never repeat exactly."""
    is_repeatable = [table_kind(name) not in BY_QUANTILES for name in deltas["metric"]]
    system_changed = bool((deltas.loc[is_repeatable, "n_moved"] > 0).any())
    relabelled = changes[changes["change"] != "annotated"]
    labels = f"Of the golden set: {counted(relabelled, n)}."
    if is_one_run:
        return f"One run, so no difference is the system's. {labels}"
    if len(relabelled) and system_changed:
        return (
            "Labels and system both changed: label_effect and system_effect say how much each did."
            f" {labels}"
        )
    if len(relabelled):
        return (
            "The labels changed, not the system: by the same labels both runs score alike."
            f" {labels}"
        )
    if system_changed:
        return "The system changed, not the labels."
    return "Neither labels nor system changed."
