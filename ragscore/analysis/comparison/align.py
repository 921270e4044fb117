"""Scores of several runs side by side: values by query, run and metric.

In: a frame of scores. Out: `query_matrix`, one metric as a frame, and `AlignedScores`, the array
from which comparisons, leaderboards and slices are computed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import DataError, Golden, run_names
from ragscore.frames.errors import check_known, plural
from ragscore.frames.typing import Values
from ragscore.scoring.explain import expected
from ragscore.scoring.intervals import query_clusters
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.rows import Rows
from ragscore.scoring.summary import chosen_columns, score_rows


@dataclass(frozen=True)
class AlignedScores:
    """Values of queries (first axis), runs (second) and metrics (third).

    Queries come in the order of their ids. NaN where a metric doesn't apply or a run has no row.
    `declared` is what is declared of columns of your own among the metrics.
    """

    query_ids: pd.Index
    run_ids: list[str]
    metrics: list[str]
    values: Values
    declared: MetricTable = TABLE

    def described(self) -> list[Metric]:
        """Return every metric as the table or its declaration has it."""
        return [self.declared.describe(name) for name in self.metrics]

    def only(self, metrics: Sequence[str]) -> "AlignedScores":
        """Return the scores of these metrics alone."""
        places = [self.metrics.index(name) for name in metrics]
        return replace(self, metrics=list(metrics), values=self.values[:, :, places])

    def of(self, metric: str) -> Values:
        """Return one metric as an array, queries × runs."""
        return self.values[:, :, self.metrics.index(metric)]

    def frame(self, run_id: str) -> pd.DataFrame:
        """One row per query with one run's values, one column per metric."""
        return pd.DataFrame(
            self.values[:, self.run_ids.index(run_id)], index=self.query_ids, columns=self.metrics
        )

    def rows(self) -> pd.DataFrame:
        """One row per query and run, one column per metric."""
        query, run = (axis.ravel() for axis in np.indices(self.values.shape[:2]))
        keys = {
            "query_id": self.query_ids.astype("str")[query],
            "run_id": pd.Index(self.run_ids, dtype="str")[run],
        }
        return pd.DataFrame(keys | {name: self.of(name).ravel() for name in self.metrics})


def query_matrix(scores: pd.DataFrame, metric: str, runs: list[str] | None = None) -> pd.DataFrame:
    """Return one row per query and one column per run of a metric; see `Evaluation.pivot`."""
    aligned = align(scores, [metric], runs)
    table = pd.DataFrame(
        aligned.of(metric),
        index=aligned.query_ids,
        columns=pd.Index(aligned.run_ids, name="run_id"),
    )
    # in the order of the scores
    shown = pd.Index(scores.get("query_id", scores.index).unique(), name="query_id")
    return table.reindex(shown[shown.isin(table.index)])


def align(
    scores: pd.DataFrame,
    metrics: list[str] | str | None = None,
    runs: list[str] | None = None,
    declared: MetricTable = TABLE,
) -> AlignedScores:
    """Align scores by query, as an array.

    Parameters
    ----------
    metrics
        Columns of the scores; by default the headline metrics and columns of your own that have a
        value, or all metrics that have one if no headline metric does.
    declared
        What is declared of columns of your own.
    scores, runs
        As for `query_matrix`, which raises the same errors.
    """
    names = chosen_columns(scores, metrics)
    if metrics is None:
        names = TABLE.headline(name for name in names if scores[name].notna().any())
    rows = scores if "query_id" in scores else scores.reset_index()
    check_known(("run_id", "query_id"), rows, "scores", "column", "a frame of rs.score, not of")
    if "state" in rows:
        rows = rows[rows["state"].ne("extra").to_numpy()]
    if runs is None:
        chosen = rows["run_id"].drop_duplicates().astype("str").tolist()
    else:
        known = rows[[name for name in ("run_id", "system") if name in rows]]
        chosen = list(dict.fromkeys(run_names(known.drop_duplicates("run_id"), runs)))
        rows = rows[rows["run_id"].isin(chosen).to_numpy()]
    # in the order of ids, so that no sum and no draw depends on the order of rows
    query, query_ids = pd.factorize(rows["query_id"], sort=True)
    run = lookup(rows["run_id"], pd.Index(chosen, dtype="str"))
    if np.bincount(query * len(chosen) + run).max(initial=0) > 1:
        raise DataError(
            "a query occurs twice in one run", field="scores", allowed="one row per run and query"
        )
    # values of a run and metric lie together
    values = np.full((len(chosen), len(names), len(query_ids)), np.nan).transpose(2, 0, 1)
    for place, name in enumerate(names):
        values[query, run, place] = rows[name].to_numpy("float64", na_value=np.nan)
    return AlignedScores(pd.Index(query_ids, name="query_id"), chosen, names, values, declared)


def expected_in(
    aligned: AlignedScores,
    scores: pd.DataFrame,
    facts: Rows | None = None,
) -> npt.NDArray[np.bool_]:
    """Flag where a value was expected (see `ev.explain`), in the shape of `aligned.values`.

    Scores without `state` and `level` don't say; every value they have was then expected.
    """
    if not {"state", "level"} <= set(scores):
        return np.logical_not(np.isnan(aligned.values))
    is_aligned = scores["run_id"].isin(aligned.run_ids) & scores["state"].ne("extra")
    rows = score_rows(scores[is_aligned.to_numpy()], aligned.metrics)
    query = lookup(rows["query_id"], aligned.query_ids)
    run = lookup(rows["run_id"], pd.Index(aligned.run_ids, dtype="str"))
    flags = np.zeros(aligned.values.shape[::-1], dtype=bool)  # a metric's together: quickly summed
    known = expected(rows, aligned.metrics, aligned.declared, facts)
    for of_metric, is_expected in zip(flags, known, strict=True):
        of_metric[run, query] = is_expected
    return flags.T


def clusters_text(
    golden: Golden | None, query_ids: pd.Index, cluster: str | None, *, talks: bool = False
) -> str:
    """Say how many clusters of queries intervals account for; "" without any.

    With `talks`, clusters count that are conversations, and no others.
    """
    shared, is_talk = query_clusters(golden, query_ids, cluster), cluster == "conversation"
    if shared is not None and golden is not None and cluster == "group":
        is_talk = bool(golden.queries.reindex(columns=["conversation"]).notna().any(axis=None))
    if shared is None or (talks and not is_talk):
        return ""
    n, of = len(set(shared[shared >= 0])), int((shared >= 0).sum())
    what = plural(n, "conversation") if is_talk else f"{plural(n, 'group')} of queries ({cluster})"
    return f"Intervals account for {what}: {of} queries depend on each other."
