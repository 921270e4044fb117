"""Decisions of a run on each query: answered or refused, rightly or wrongly.

In: scores and the golden set they were made with. Out: one decision per run and query, flags of
right answers, and shares of classes. Refusals, failure causes and risk are computed from them.
"""

from collections.abc import Mapping
from numbers import Real

import numpy as np
import pandas as pd

from ragscore.frames.codes import codes_of, is_among
from ragscore.frames.data import DataError, Golden, categorical, check_type
from ragscore.frames.errors import check_known
from ragscore.frames.typing import Flags, Values
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import metric_columns
from ragscore.stats import wilson_interval

ANSWERED = ("right answer", "wrong answer", "unchecked answer")  # of answerable queries
# no decision that could be right or wrong
APART = ("undecided", "unlabelled", "failed", "missing", "extra")
DECISIONS = (*ANSWERED, "over-refusal", "right refusal", "unsupported answer", *APART)
# Metrics that say that an answer is right, in order of preference, each with its threshold. A
# judge's 4 of 5 is where LlamaIndex's correctness evaluator passes.
RIGHT_FROM = {"judge_correctness": 4.0, "key_facts": 1.0, "answer_checks": 1.0}
# The metrics that separate answers from refusals, and right answers from wrong ones.
DECIDED_BY = ("refusal_correct", "false_refusal", "answer_checks")


def refusal_decisions(
    scores: pd.DataFrame,
    golden: Golden,
    declared: MetricTable = TABLE,
    *,
    right: str | None = None,
    threshold: float | None = None,
) -> tuple[pd.DataFrame, str]:
    """Return `Refusals.decisions`, and in words what a right answer is; parameters as there."""
    rows = rows_with_queries(scores)
    verdict, right_by = right_answers(rows, right, threshold, declared)
    correct_refusal, false_refusal = (
        rows[name].to_numpy("float64", na_value=np.nan)
        for name in ("refusal_correct", "false_refusal")
    )
    answered = false_refusal == 0
    unlabelled = golden.queries.loc[golden.queries["answerable"].isna(), "query_id"]
    state = rows["state"].astype("str").to_numpy()
    flags = {  # the first that holds decides
        "extra": state == "extra",
        "missing": state == "missing",
        "failed": state == "failed",
        "over-refusal": false_refusal == 1,  # the metric false_refusal
        "right refusal": correct_refusal == 1,
        "unsupported answer": correct_refusal == 0,
        "right answer": answered & (verdict == 1),
        "wrong answer": answered & (verdict == 0),
        "unchecked answer": answered,
        "unlabelled": is_among(rows["query_id"], unlabelled),
    }
    codes = np.select(
        list(flags.values()), [*map(DECISIONS.index, flags)], DECISIONS.index("undecided")
    )
    found = rows[["run_id", "query_id"]].assign(
        decision=categorical(codes, DECISIONS),
        right=np.where(codes < len(ANSWERED), verdict, np.nan),
    )
    return found, right_by


def metric_applies(rows: pd.DataFrame, golden: Golden, metric: str) -> Flags:
    """Return a flag per row: the metric applies, whatever the system answered.

    The golden set decides for answer metrics. A ranking metric applies where the row has a value; a
    column of your own, where any run has a value for the query.
    """
    if TABLE.is_own(metric):
        return is_among(rows["query_id"], rows.loc[rows[metric].notna(), "query_id"])
    described = TABLE.describe(metric)
    if described.family == "ranking":
        return rows[metric].notna().to_numpy()
    every = np.ones(len(golden.queries), dtype=bool)
    has_all = np.all([every, *(need.anywhere(golden) for need in described.needs)], axis=0)
    applies = golden.queries.loc[has_all, "query_id"]
    if described.family not in ("success", "refusals", "operations"):
        applies = applies[~is_among(applies, golden._refusals)]
    return is_among(rows["query_id"], applies)


def right_answers(
    rows: pd.DataFrame, right: str | None, threshold: float | None, declared: MetricTable
) -> tuple[Values, str]:
    """Return 1 for a right answer, 0 for a wrong one, NaN where the metric has no value.

    And the metric with its threshold in words; empty without a metric for it. By default it is the
    first of those that most runs have.
    """
    check_type(threshold, (Real, type(None)), "threshold", "a number")
    if right is None:
        known = rows[[name for name in RIGHT_FROM if name in rows]].notna()
        n_runs = known.groupby(rows["run_id"], observed=True).any().sum()
        if not n_runs.gt(0).any():
            return np.full(len(rows), np.nan), ""
        right = str(n_runs.idxmax())
    check_higher(rows, [right], "right", declared)
    if threshold is None and right not in RIGHT_FROM and not declared.describe(right).is_unit:
        raise DataError(
            f"{right} ranges {declared.describe(right).range}", field="threshold",
            allowed="the least value that counts as right",
        )  # fmt: skip
    least = RIGHT_FROM.get(right, 1.0) if threshold is None else threshold
    values = rows[right].to_numpy("float64", na_value=np.nan)
    return np.where(np.isnan(values), np.nan, values >= least), f"{right} ≥ {least:g}"


def check_higher(rows: pd.DataFrame, names: list[str], field: str, declared: MetricTable) -> None:
    """Refuse a metric that the scores lack, or of which lower values are better."""
    check_known(names, metric_columns(rows), field, "column", "scores has")
    for name in names:
        if declared.describe(name).better == "lower":
            raise DataError(
                f"lower values of {name} are better", field=field,
                allowed="a metric of which higher values are better",
            )  # fmt: skip


def rows_with_queries(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores with query_id as a column and run_id as a category."""
    rows = (scores if "query_id" in scores else scores.reset_index()).reset_index(drop=True)
    needed = ("run_id", "query_id", "state", "refusal_correct", "false_refusal")
    check_known(needed, rows, "scores", "column", "a frame of rs.score, not of")
    if isinstance(rows["run_id"].dtype, pd.CategoricalDtype):
        return rows.assign(run_id=rows["run_id"].cat.remove_unused_categories())
    return rows.assign(run_id=rows["run_id"].astype("str").astype("category"))


def by_system(
    rows: pd.DataFrame, repeats: Mapping[str, list[str]]
) -> tuple[pd.DataFrame, pd.Series]:
    """Return the rows with repeats as runs of one name, and how many runs have each name."""
    system = {run: name for name, runs in repeats.items() for run in runs}
    names = pd.Series([system.get(str(one), str(one)) for one in rows["run_id"].cat.categories])
    run_id = pd.Categorical(names[codes_of(rows["run_id"])], categories=names.unique())
    return rows.assign(run_id=run_id), names.value_counts().sort_index()


def shares(
    n: pd.DataFrame, totals: dict[str, pd.Series], name: str, n_runs: pd.Series
) -> pd.DataFrame:
    """One row per run and class: its count, the total, and their share.

    Parameters
    ----------
    n
        Counts, one row per run and one column per class.
    totals
        Class -> the number per run that the class is a share of. It orders the classes.
    name
        The column of the classes.
    n_runs
        The repeats of each run: intervals count queries, and not repeats.

    Returns
    -------
    run_id, the class, `n` of `n_total`, `share` with its 95 % Wilson interval `low`, `high`.
    """
    count = n[list(totals)].to_numpy("float64").ravel()
    total = pd.DataFrame(totals).to_numpy("float64").ravel()
    share = np.divide(count, total, out=np.full(len(total), np.nan), where=total > 0)
    low, high = wilson_interval(share, total / n_runs[n.index].to_numpy().repeat(len(totals)))
    return pd.DataFrame(
        {
            "run_id": n.index.repeat(len(totals)),
            name: pd.Series(np.tile(list(totals), len(n)), dtype="str"),
            "n": count.astype("int64"),
            "n_total": total.astype("int64"),
            "share": share,
            "low": low,
            "high": high,
        }
    )
