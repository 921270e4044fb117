"""Failure causes: whether retrieval or generation spoilt an answer (error attribution).

In: scores with a 0/1 ranking metric and an answer metric. Out: `Failures`: one cause per run and
query, their counts, and the transitions from run to run.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.decisions import (
    APART,
    DECISIONS,
    by_system,
    refusal_decisions,
    rows_with_queries,
    shares,
)
from ragscore.analysis.result_forms import FramesResult, shares_by_run
from ragscore.frames.data import DataError, Golden, categorical
from ragscore.frames.errors import check_known, plural
from ragscore.frames.verbs import Accessor
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import metric_columns

# hit/right, hit/wrong, miss/right, miss/wrong
FAULTS = ("right", "generation fault", "memory", "retrieval fault")
REFUSED = ("refused after hit", "refused after miss", "refused")
TO_REFUSE = ("right refusal", "unsupported answer")
CLASSES = (*FAULTS, *REFUSED, "unmeasured", *TO_REFUSE, *APART)
# causes of right and of wrong answers; others say neither
_RIGHT = ("right", "memory", "right refusal")
_WRONG = ("generation fault", "retrieval fault", *REFUSED, "unsupported answer")


@dataclass(frozen=True, repr=False, eq=False)
class Failures(FramesResult):
    """Failure causes: what spoilt each answer, retrieval or generation (error attribution).

    Attributes
    ----------
    per_query
        One row per row of the scores: run_id, query_id; `hit` and `right`, 1 or 0, NaN where they
        don't apply; `cause`, a category. The causes are

        - for answers to answerable queries: right (hit, right), generation fault (hit, wrong),
          memory (miss, right: from what the model knows, or from passages that nobody labelled),
          retrieval fault (miss, wrong), unmeasured (`hit` or `right` has no value)
        - for answerable queries that were refused: refused after hit, refused after miss, refused
          (`hit` has no value)
        - for all others: as `decision` of `Refusals.decisions`.
    table
        One row per run (repeats of a system are one: `n` counts the answers of all, intervals each
        query once) and `cause`: `n` of `n_total` queries; `share` = n / n_total, with its 95 %
        Wilson interval `low`, `high` (0 to 1; NaN where `n_total` is 0). For right, generation
        fault, memory and retrieval fault, `n_total` counts the answers in these four classes; for
        the three kinds of refused, all three together; for right refusal and unsupported answer,
        these two, as in `Refusals.table`; for all others, the run's rows. `hit_by`, `right_by`: as
        below.
    hit_by, right_by
        The metrics that decide, such as "hit@5" and "answer_checks ≥ 1".
    """

    METHODS = ("changes(baseline, candidate)", "transitions(baseline, candidate)")

    plot = Accessor("ragscore.plot.accessor:FAILURES")

    table: pd.DataFrame
    per_query: pd.DataFrame
    hit_by: str
    right_by: str

    def changes(self, baseline: str | None = None, candidate: str | None = None) -> pd.DataFrame:
        """Return the cause of each query in two runs, by default the only two.

        Returns
        -------
        One row per query_id, in the order of the scores: `baseline` and `candidate`, its causes in
        these runs; "missing" where a run has no row. `changes.query("baseline == 'right' and
        candidate == 'generation fault'")` are the queries of one cell of `transitions`.

        Raises
        ------
        DataError
            No such run; several pairs and none named.
        """
        first, second = self._pair(baseline, candidate)
        rows = self.per_query[self.per_query["run_id"].isin([first, second])]
        causes = rows.pivot(index="query_id", columns="run_id", values="cause")[[first, second]]
        return (
            causes.reindex(rows["query_id"].unique())
            .fillna("missing")
            .set_axis(["baseline", "candidate"], axis=1)
            .reset_index()
        )

    def _pair(self, baseline: str | None, candidate: str | None) -> tuple[str, str]:
        """Return two runs, by default the only two."""
        known = [str(run_id) for run_id in self.per_query["run_id"].unique()]
        if baseline is None and candidate is None and len(known) == 2:
            return known[0], known[1]
        check_known((baseline, candidate), known, "run", "run", "there are")
        return str(baseline), str(candidate)

    def transitions(
        self, baseline: str | None = None, candidate: str | None = None
    ) -> pd.DataFrame:
        """Count the queries that went from one cause to another in two runs, or the only two.

        Returns
        -------
        One row per cause in the baseline (index `baseline`), one column per cause in the candidate:
        numbers of queries. Causes that no query has are left out.

        Raises
        ------
        DataError
            No such run.
        """
        changes = self.changes(baseline, candidate)
        table = pd.crosstab(changes["baseline"], changes["candidate"])
        present = [name for name in CLASSES if name in table.index or name in table.columns]
        return table.reindex(index=present, columns=present, fill_value=0).rename_axis(
            index="baseline", columns="candidate"
        )

    def _heading(self) -> str:
        runs = plural(self.table["run_id"].nunique(), "run")
        return f"Failure causes of {runs}; hit: {self.hit_by}, right answer: {self.right_by}"

    def _shown(self) -> pd.DataFrame:
        return shares_by_run(self.table, "cause")


def failures(
    scores: pd.DataFrame,
    golden: Golden,
    *,
    hit: str = "hit@5",
    right: str | None = None,
    threshold: float | None = None,
    declared: MetricTable = TABLE,
    repeats: Mapping[str, list[str]] = MappingProxyType({}),
) -> Failures:
    """Return the failure cause of each answer; see `Evaluation.failures`.

    `repeats` are the runs of each system that has several.
    """
    rows = rows_with_queries(scores)
    check_known(hit, metric_columns(rows), "hit", "column", "scores has")
    if TABLE.describe(hit).kind != "binary" and not rows[hit].dropna().isin([0, 1]).all():
        raise DataError(
            f"{hit} is not 0 or 1", field="hit",
            allowed="a 0/1 metric, such as hit@5 or recall_all@5",
        )  # fmt: skip
    decisions, right_by = refusal_decisions(
        scores, golden, declared, right=right, threshold=threshold
    )
    if not right_by:
        raise DataError(
            "no metric says which answers are right", field="right",
            allowed="must_contain in the golden set, judged answers, or right='token_f1'",
        )  # fmt: skip
    decision, verdict = decisions["decision"], decisions["right"].to_numpy()
    is_hit = rows[hit].to_numpy("float64", na_value=np.nan)
    answered = decision.isin(["right answer", "wrong answer"]).to_numpy() & ~np.isnan(is_hit)
    refused = (decision == "over-refusal").to_numpy()
    flags = {  # the first that holds decides
        "right": answered & (is_hit == 1) & (verdict == 1),
        "generation fault": answered & (is_hit == 1),
        "memory": answered & (verdict == 1),
        "retrieval fault": answered,  # the rest: a miss, and wrong
        "refused after hit": refused & (is_hit == 1),
        "refused after miss": refused & (is_hit == 0),
        "refused": refused,
    }
    flags |= {name: (decision == name).to_numpy() for name in DECISIONS if name in CLASSES}
    codes = np.select(
        list(flags.values()), [CLASSES.index(name) for name in flags], CLASSES.index("unmeasured")
    )
    per_query = decisions[["run_id", "query_id"]].assign(
        hit=is_hit, right=verdict, cause=categorical(codes, CLASSES)
    )
    named, n_runs = by_system(per_query, repeats)
    n = named.groupby(["run_id", "cause"], observed=False).size().unstack()
    totals = {
        name: n[list(group)].sum(axis=1) for group in (FAULTS, REFUSED, TO_REFUSE) for name in group
    }
    totals |= {name: n.sum(axis=1) for name in CLASSES if name not in totals}
    table = shares(n, totals, "cause", n_runs).assign(hit_by=hit, right_by=right_by)
    return Failures(table, per_query, hit, right_by)


def turns(table: pd.DataFrame) -> npt.NDArray[np.int64]:
    """Return for each cell of transitions whether a query became right (1), wrong (-1), or not."""
    ends = ([str(name) for name in axis] for axis in (table.index, table.columns))
    was, now = ([np.isin(names, one) for one in (_WRONG, _RIGHT)] for names in ends)
    return np.outer(was[0], now[1]) * 1 - np.outer(was[1], now[0])


def default_hit(runs: pd.DataFrame, known: Collection[str]) -> str:
    """Return hit@k, k the smallest of the runs' own; hit@5 where none is known."""
    own = f"hit@{runs['k'].min()}" if "k" in runs else ""
    return own if own in known else "hit@5"
