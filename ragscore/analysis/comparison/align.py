"""Scores of several runs side by side, aligned query by query.

In: a frame of scores. Out: one row per query, one column per run; or all metrics at once, as an
array.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import DataError, Golden, Results, check_type, run_names
from ragscore.scoring.metrics import HEADLINE
from ragscore.scoring.summary import metric_columns
from ragscore.scoring.value_states import ValueStates, score_rows

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Aligned:
    """Values of queries (first axis), runs (second) and metrics (third).

    NaN where a metric doesn't apply or a run has no row.
    """

    query_ids: pd.Index
    run_ids: list[str]
    metrics: list[str]
    values: Values

    def of(self, metric: str) -> Values:
        """Queries × runs of one metric."""
        return self.values[:, :, self.metrics.index(metric)]

    def shared(self, metric: str) -> npt.NDArray[np.bool_]:
        """The queries for which every run has a value of the metric."""
        return np.logical_not(np.isnan(self.of(metric)).any(axis=1))

    def frame(self, run_id: str) -> pd.DataFrame:
        """One run's values: one row per query, one column per metric."""
        return pd.DataFrame(
            self.values[:, self.run_ids.index(run_id)], index=self.query_ids, columns=self.metrics
        )

    def rows(self) -> pd.DataFrame:
        """One row per query and run, one column per metric."""
        query, run = (axis.ravel() for axis in np.indices(self.values.shape[:2]))
        columns = {
            "query_id": self.query_ids.astype("str")[query],
            "run_id": pd.Index(self.run_ids, dtype="str")[run],
        }
        return pd.DataFrame(columns | {name: self.of(name).ravel() for name in self.metrics})


def aligned_of(rows: pd.DataFrame) -> Aligned:
    """What `Aligned.rows` was made from."""
    query_ids, run_ids, metrics = (
        rows["query_id"].unique(),
        rows["run_id"].unique().tolist(),
        rows.columns[2:].tolist(),
    )
    return Aligned(
        pd.Index(query_ids, name="query_id"),
        run_ids,
        metrics,
        rows[metrics].to_numpy("float64").reshape(len(query_ids), len(run_ids), len(metrics)),
    )


def query_matrix(scores: pd.DataFrame, metric: str, runs: list[str] | None = None) -> pd.DataFrame:
    """One metric, query by query: one row per query (index query_id), one column per run.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    runs
        Run ids, or systems that only one run has; by default all runs, in their order.

    Returns
    -------
    Values; NaN where the metric doesn't apply, or the run wasn't asked. Answers to queries that the
    golden set doesn't have are left out.

    Raises
    ------
    DataError
        An unknown metric or run; two rows of one run for a query.
    """
    found = align(scores, [metric], runs)
    return pd.DataFrame(
        found.of(metric), index=found.query_ids, columns=pd.Index(found.run_ids, name="run_id")
    )


def align(
    scores: pd.DataFrame, metrics: list[str] | str | None = None, runs: list[str] | None = None
) -> Aligned:
    """Scores as an array, aligned by query.

    Arguments as in `query_matrix`, metrics as in `shown_metrics`.
    """
    check_type(scores, pd.DataFrame, "scores")
    names = shown_metrics(scores, metrics)
    rows = scores if "query_id" in scores else scores.reset_index()
    if missing := [name for name in ("run_id", "query_id") if name not in rows]:
        raise DataError(f"no {', '.join(missing)}", field="scores", allowed="a frame of rs.score")
    rows = rows[rows["state"].ne("extra").to_numpy()] if "state" in rows else rows
    about = rows[[name for name in ("run_id", "system") if name in rows]].drop_duplicates("run_id")
    chosen = run_names(about, about["run_id"].astype("str").tolist() if runs is None else runs)
    chosen = list(dict.fromkeys(chosen))
    run = lookup(rows["run_id"], pd.Index(chosen, dtype="str"))
    rows, run = rows[run >= 0], run[run >= 0]
    query, query_ids = pd.factorize(rows["query_id"])
    if pd.Series(run * len(query_ids) + query).duplicated().any():
        raise DataError(
            "a query stands twice in one run", field="scores", allowed="one row per run and query"
        )
    values = np.full((len(query_ids), len(chosen), len(names)), np.nan)
    values[query, run] = rows[names].to_numpy("float64", na_value=np.nan)
    return Aligned(pd.Index(query_ids, name="query_id"), chosen, names, values)


def expected_in(
    found: Aligned,
    scores: pd.DataFrame,
    golden: Golden | None = None,
    results: Results | None = None,
) -> npt.NDArray[np.bool_]:
    """Where a value was expected (see `rs.explain`): queries × runs × metrics as in `found`.

    Where there is one, if the scores don't say what became of queries.
    """
    rows = scores if "query_id" in scores else scores.reset_index()
    if not {"state", "level"} <= set(rows):
        return np.logical_not(np.isnan(found.values))
    rows = score_rows(
        rows[
            (lookup(rows["run_id"], pd.Index(found.run_ids, dtype="str")) >= 0)
            & rows["state"].ne("extra").to_numpy()
        ],
        found.metrics,
    )
    ledger = ValueStates(rows, golden, results)
    query, run = (
        lookup(rows["query_id"], found.query_ids),
        lookup(rows["run_id"], pd.Index(found.run_ids, dtype="str")),
    )
    flags = np.zeros(found.values.shape, dtype=bool)
    for place, name in enumerate(found.metrics):
        flags[query, run, place] = ledger.is_expected(name)
    return flags


def shown_metrics(scores: pd.DataFrame, metrics: list[str] | str | None = None) -> list[str]:
    """The metrics asked for.

    By default those a table for reading starts with, as far as any query has a value, else all that
    have one.

    Raises
    ------
    DataError
        A column that isn't there or holds no numbers.
    """
    known = metric_columns(scores)
    if metrics is None:
        measured = [name for name in known if scores[name].notna().any()]
        return [name for name in HEADLINE if name in measured] or measured
    chosen = list(dict.fromkeys([metrics] if isinstance(metrics, str) else metrics))
    if unknown := [name for name in chosen if name not in known]:
        raise DataError(
            f"no metric column {', '.join(unknown)}",
            field="metrics",
            allowed=f"scores has {', '.join(known)}",
        )
    return chosen
