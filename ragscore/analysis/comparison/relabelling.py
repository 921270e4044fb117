"""A difference between two runs that were judged by different golden sets, taken apart.

How much of it is labels, how much the system.

In: results, and both versions of the golden set. Out: per metric the whole difference and its two
parts, and the same runs on the queries that did not change.
"""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from html import escape

import pandas as pd

from ragscore.analysis.comparison.deltas import SAME
from ragscore.frames.codes import is_among
from ragscore.frames.data import Golden, Results, check_inputs, check_type, run_names
from ragscore.frames.golden_versions import counted, golden_changes, unchanged_queries
from ragscore.frames.render import dump, from_content, reload
from ragscore.scoring.level import choose_level
from ragscore.scoring.matching import LEVELS
from ragscore.scoring.metrics import describe
from ragscore.scoring.score import score
from ragscore.scoring.summary import metric_columns


@dataclass(frozen=True)
class GoldenComparison:
    """A candidate judged by a new golden set against a baseline judged by the old one.

    Attributes
    ----------
    deltas
        One row per metric: `a_old` (mean of the baseline by the old labels), `b_new` (of the
        candidate by the new ones), `delta` = b_new − a_old = `by_labels` (the baseline's change
        when only the labels change) + `by_system` (candidate − baseline, both by the new labels);
        `n_old`, `n_new` queries in the means; on the queries that did not change `a_unchanged`,
        `b_unchanged`, `delta_unchanged`, `n_unchanged`. NaN where a mean has no query.
    changes
        One row per query that changed; see `rs.golden_changes`.
    unchanged
        The golden set of the queries that did not change: `rs.compare_runs(results, it, ...)`
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

    def to_json(self) -> str:
        """The comparison as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> "GoldenComparison":
        """The comparison that `to_json` wrote."""
        return reload(cls, text, unchanged=partial(from_content, Golden))

    def __repr__(self) -> str:
        return (
            f"{self.candidate} (b) by the new golden set against {self.baseline} (a) by the old"
            f" one\n{self.verdict}\n\n{self._shown().to_string(index=False)}"
        )

    def _repr_html_(self) -> str:
        a, b, verdict = (escape(text) for text in (self.baseline, self.candidate, self.verdict))
        title = (
            f"<p><b>{b}</b> (b) by the new golden set against <b>{a}</b> (a) by the old"
            f" one<br>{verdict}</p>"
        )
        return title + self._shown().to_html(index=False, border=0)

    def _shown(self) -> pd.DataFrame:
        return self.deltas[self.deltas["delta"].notna()].round(3)


def compare_goldens(
    results: Results,
    old: Golden,
    new: Golden,
    baseline: str,
    candidate: str | None = None,
    *,
    metrics: list[str] | str | None = None,
    match: str = "auto",
) -> GoldenComparison:
    """Why a score differs from one that was measured by an older golden set.

    The labels, the system, or both.

    Parameters
    ----------
    old, new
        The golden sets that baseline and candidate were judged by.
    baseline, candidate
        Runs, as for `rs.compare_runs`; without a candidate the same run by both golden sets.
    metrics
        Labels, or one; by default all default metrics.
    match
        As for `rs.score`; "auto" takes the coarser of the levels that the two golden sets allow.

    Returns
    -------
    A `GoldenComparison`, over the queries that both runs were asked.

    Raises
    ------
    DataError
        An unknown run, metric or level; a level at which one of the golden sets has no target.
    """
    check_inputs(results, new)
    check_type(old, Golden, "old")
    a, b = run_names(results.runs, [baseline, candidate if candidate is not None else baseline])
    pair = results.select(list(dict.fromkeys([a, b])))
    level = _common_level(pair, old, new) if match == "auto" else match
    of_old, of_new = (_scores(pair, golden, metrics, level) for golden in (old, new))
    unchanged = unchanged_queries(old, new)
    shared = is_among(of_new.index, unchanged.queries["query_id"])
    deltas = _deltas(of_old, of_new, of_new[shared], a, b)
    changes = golden_changes(old, new)
    return GoldenComparison(
        a, b, deltas, changes, unchanged, _verdict(deltas, changes, len(old.queries), a == b)
    )


def _common_level(pair: Results, old: Golden, new: Golden) -> str:
    names = [choose_level(pair, golden).name for golden in (old, new)]
    return max(names, key=LEVELS.index)


def _scores(
    pair: Results, golden: Golden, metrics: list[str] | str | None, level: str
) -> pd.DataFrame:
    """Scores of the runs on the queries that all of them were asked."""
    asked = pair.responses.groupby("query_id")["run_id"].nunique()
    both = pd.Index(asked.index[asked == len(pair.runs)])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "golden queries without a row", UserWarning)
        scores = score(
            pair,
            replace(golden, queries=golden.queries[is_among(golden.queries["query_id"], both)]),
            metrics,
            match=level,
        )
    return scores[(scores["state"] != "extra").to_numpy()]


def _deltas(
    of_old: pd.DataFrame, of_new: pd.DataFrame, unchanged: pd.DataFrame, a: str, b: str
) -> pd.DataFrame:
    a_old, a_new, b_new = _of_run(of_old, a), _of_run(of_new, a), _of_run(of_new, b)
    a_same, b_same = _of_run(unchanged, a), _of_run(unchanged, b)
    table = pd.DataFrame({
        "a_old": a_old.mean(), "b_new": b_new.mean(), "delta": b_new.mean() - a_old.mean(),
        "by_labels": a_new.mean() - a_old.mean(),
        "by_system": b_new.mean() - a_new.mean(), "n_old": a_old.count(), "n_new": b_new.count(),
        "a_unchanged": a_same.mean(), "b_unchanged": b_same.mean(),
        "delta_unchanged": b_same.mean() - a_same.mean(),
        "n_unchanged": (a_same.notna() & b_same.notna()).sum(),
    })  # fmt: skip
    return table.rename_axis("metric").reset_index().astype({"metric": "str"})


def _of_run(scores: pd.DataFrame, run_id: str) -> pd.DataFrame:
    return scores.loc[(scores["run_id"] == run_id).to_numpy(dtype=bool), metric_columns(scores)]


def _verdict(deltas: pd.DataFrame, changes: pd.DataFrame, n: int, is_one_run: bool) -> str:
    """Whether labels or system changed. Times and costs are left out: they never repeat."""
    measured = deltas[[describe(name).kind not in ("time", "cost") for name in deltas["metric"]]]
    system = bool((measured["by_system"].abs() > SAME).any())
    real = changes[changes["change"] != "annotated"]
    labels = f"Of the golden set: {counted(real, n)}."
    if is_one_run:
        return f"One run, so no difference is the system's. {labels}"
    if len(real) and system:
        return (
            "Labels and system both changed: by_labels and by_system say how much each did."
            f" {labels}"
        )
    if len(real):
        return (
            "The labels changed, not the system: by the same labels both runs score alike."
            f" {labels}"
        )
    return "The system changed, not the labels." if system else "Neither labels nor system changed."
