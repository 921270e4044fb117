"""Failure causes: whether retrieval or generation spoilt an answer (error attribution).

In: scores with a 0/1 ranking metric and an answer metric. Out: one class per run and query, their
counts, and the transitions from run to run.
"""

import numpy as np
import pandas as pd

from ragscore.analysis.refusals import (
    APART,
    DECISIONS,
    refusal_decisions,
    right_by,
    right_metric,
    rows_with_queries,
    shares,
)
from ragscore.frames.data import DataError, Golden, Results, categorical, check_type
from ragscore.frames.errors import excerpt, name_list, nearest
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import metric_columns

DEFAULT_K = 5
# hit/right, hit/wrong, miss/right, miss/wrong
FAULTS = ("right", "generation fault", "memory", "retrieval fault")
REFUSED = ("refused after hit", "refused after miss", "refused")
CLASSES = (*FAULTS, *REFUSED, "unmeasured", "right refusal", "unsupported answer", *APART)


def answer_faults(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results | None = None,
    *,
    hit: str | None = None,
    right: str | None = None,
    threshold: float | None = None,
) -> pd.DataFrame:
    """Return the failure cause of each answer: retrieval, generation, or none.

    Parameters
    ----------
    scores
        As for `refusal_decisions`, with the column `hit` as well.
    results
        Tells how many hits the runs keep, for the default of `hit`.
    hit
        A 0/1 column that says whether retrieval found the right thing. By default hit@k, k the
        smallest of the runs' own, or 5 where that is unknown or not in the scores.
    right, threshold
        The metric that says that an answer is right, as for `refusal_decisions`.

    Returns
    -------
    One row per row of the scores: run_id, query_id; `hit` and `right`, 1 or 0, NaN where they don't
    apply; `fault`, a category. The classes are

    - for answers to answerable queries: right (hit, right), generation fault (hit, wrong), memory
      (miss, right: from what the model knows, or from passages that nobody labelled), retrieval
      fault (miss, wrong), unmeasured (`hit` or `right` has no value)
    - for answerable queries that were refused: refused after hit, refused after miss, refused
      (`hit` has no value)
    - for all others: as `decision` of `refusal_decisions`.

    Raises
    ------
    DataError
        No such column, `hit` is not 0/1, or no metric says which answers are right.
    """
    rows = rows_with_queries(scores, golden)
    hit = _hit_metric(rows, results, hit)
    if right_metric(rows, right, threshold) is None:
        raise DataError(
            "no metric says which answers are right",
            field="right",
            allowed="scores with judge_correctness, key_facts or answer_checks",
        )
    decisions = refusal_decisions(scores, golden, right=right, threshold=threshold)
    decision, verdict = decisions["decision"], decisions["right"].to_numpy()
    is_hit = rows[hit].to_numpy("float64", na_value=np.nan)
    answered = decision.isin(["right answer", "wrong answer"]).to_numpy() & ~np.isnan(is_hit)
    refused = (decision == "over-refusal").to_numpy()
    flags = {  # the first that holds decides
        "right": answered & (is_hit == 1) & (verdict == 1),
        "generation fault": answered & (is_hit == 1),
        "memory": answered & (verdict == 1),
        "retrieval fault": answered,
        "refused after hit": refused & (is_hit == 1),
        "refused after miss": refused & (is_hit == 0),
        "refused": refused,
    }
    flags |= {name: (decision == name).to_numpy() for name in DECISIONS if name in CLASSES}
    codes = np.select(
        list(flags.values()), [CLASSES.index(name) for name in flags], CLASSES.index("unmeasured")
    )
    return decisions[["run_id", "query_id"]].assign(
        hit=is_hit, right=verdict, fault=categorical(codes, CLASSES)
    )


def fault_table(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results | None = None,
    *,
    hit: str | None = None,
    right: str | None = None,
    threshold: float | None = None,
) -> pd.DataFrame:
    """Count the failure causes of each run.

    Parameters
    ----------
    scores, golden, results, hit, right, threshold
        As for `answer_faults`.

    Returns
    -------
    One row per run and `fault` (see `answer_faults`): `n` queries of `n_total`; `share` = n /
    n_total, with its 95 % Wilson interval `low`, `high` (0 to 1; NaN where `n_total` is 0). For
    right, generation fault, memory and retrieval fault, `n_total` counts the answers in these four
    classes; for the three kinds of refused, all three together; for all others, the run's rows.
    `hit_by`, `right_by`: the metrics that decide.

    Raises
    ------
    DataError
        As for `answer_faults`.
    """
    faults = answer_faults(scores, golden, results, hit=hit, right=right, threshold=threshold)
    n = faults.groupby(["run_id", "fault"], observed=False).size().unstack()
    totals = {name: n[list(group)].sum(axis=1) for group in (FAULTS, REFUSED) for name in group}
    totals |= {name: n.sum(axis=1) for name in CLASSES if name not in totals}
    rows = rows_with_queries(scores, golden)
    return shares(n, totals, "fault").assign(
        hit_by=_hit_metric(rows, results, hit), right_by=right_by(rows, right, threshold)
    )


def fault_changes(faults: pd.DataFrame, baseline: str, candidate: str) -> pd.DataFrame:
    """Return the failure cause of each query in two runs.

    Parameters
    ----------
    faults
        From `answer_faults`.
    baseline, candidate
        Run ids.

    Returns
    -------
    One row per query_id, in the order of the scores: its class in the `baseline` and in the
    `candidate`; "missing" where a run has no row. `changes.query("baseline == 'right' and candidate
    == 'generation fault'")` are the queries of one cell of `fault_transitions`.

    Raises
    ------
    DataError
        No such run.
    """
    check_type(faults, pd.DataFrame, "faults")
    known = [str(run_id) for run_id in faults["run_id"].unique()]
    unknown = [name for name in (baseline, candidate) if name not in known]
    if unknown:
        raise DataError(
            f"no run {name_list(unknown)}",
            field="run",
            allowed=nearest(unknown[0], known, "there are"),
        )
    rows = faults[faults["run_id"].isin([baseline, candidate])]
    query_ids = pd.Index(rows["query_id"].unique(), name="query_id")
    of_baseline, of_candidate = (
        rows[rows["run_id"] == name].set_index("query_id")["fault"].reindex(query_ids)
        for name in (baseline, candidate)
    )
    changes = pd.DataFrame({"baseline": of_baseline, "candidate": of_candidate})
    return changes.fillna("missing").reset_index()


def fault_transitions(changes: pd.DataFrame) -> pd.DataFrame:
    """Count the queries that went from one class to another.

    Parameters
    ----------
    changes
        From `fault_changes`.

    Returns
    -------
    One row per class in the baseline, one column per class in the candidate: numbers of queries.
    Classes that no query has are left out.
    """
    table = pd.crosstab(changes["baseline"], changes["candidate"])
    present = [name for name in CLASSES if name in table.index or name in table.columns]
    return table.reindex(index=present, columns=present, fill_value=0).rename_axis(
        index="baseline", columns="candidate"
    )


def _hit_metric(rows: pd.DataFrame, results: Results | None, hit: str | None) -> str:
    """Return the column that says whether retrieval found the right thing."""
    check_type(results, (Results, type(None)), "results", "Results, as rs.load_results gives it")
    if hit is None:
        k = results.runs["k"].min() if results is not None and "k" in results.runs else pd.NA
        own = "" if pd.isna(k) else f"hit@{k}"
        hit = own if own in rows else f"hit@{DEFAULT_K}"
    known = metric_columns(rows)
    if hit not in known:
        raise DataError(
            f"no column {excerpt(hit)}", field="hit", allowed=nearest(hit, known, "scores has")
        )
    if describe(hit).kind != "binary" and not rows[hit].dropna().isin([0, 1]).all():
        raise DataError(
            f"{hit} is not 0 or 1",
            field="hit",
            allowed="a 0/1 metric, such as hit@5 or recall_all@5",
        )
    return hit
