"""Refusing as a decision.

Which questions a system answered and refused, how right it was on those, and overall.

In: scores and the golden set they were made with. Out: one decision per run and query; per run the
2 × 2 of answerable × refused, and quality beside coverage.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import DataError, Golden, categorical, check_type
from ragscore.scoring.applicability import queries_of_metric
from ragscore.scoring.metrics import BY_NAME, RANKING, describe, parse_label
from ragscore.scoring.summary import metric_columns
from ragscore.stats import mean_interval, wilson_interval

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

ANSWERED = ("right answer", "wrong answer", "unchecked answer")  # of answerable questions
# no decision that could be right or wrong
APART = ("undecided", "unlabelled", "failed", "missing", "extra")
DECISIONS = (*ANSWERED, "over-refusal", "right refusal", "unsupported answer", *APART)
# Says that an answer is right, the first that is there, with the least value that does. A judge's 4
# of 5 is where LlamaIndex's correctness evaluator passes.
RIGHT_FROM = {"judge_correctness": 4.0, "key_facts": 1.0, "answer_checks": 1.0}
QUALITY = (
    *RIGHT_FROM,
    "exact_match",
    "token_f1",
    "rouge_l",
    "key_facts_literal",
    "judge_groundedness",
    "faithfulness",
)


def refusal_decisions(
    scores: pd.DataFrame,
    golden: Golden,
    *,
    right: str | None = None,
    threshold: float | None = None,
) -> pd.DataFrame:
    """What each run decided on each question: answer or refuse, and whether that was right.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`, with the columns refusal_correct and false_refusal
        (default metrics), and what `right` names.
    right
        A column that says whether an answer is right, higher being better. By default the first of
        judge_correctness (4 or more of 5), key_facts (all of them) and answer_checks that every run
        with any of them has.
    threshold
        The least value of `right` that counts as right; 1 for metrics that end there.

    Returns
    -------
    One row per row of the scores: run_id, query_id; `decision`, a category: of answerable questions
    right answer, wrong answer, unchecked answer (`right` says nothing of it) and over-refusal; of
    those that should be refused right refusal and unsupported answer; apart from both undecided
    (the system doesn't say, or only searched), unlabelled, failed, missing, extra (no golden
    query). `right`: 1 or 0 for an answer to an answerable question, NaN elsewhere.

    Raises
    ------
    DataError
        A column is missing; lower values of `right` are better, or it has no upper end at 1 and no
        threshold is given.
    """
    rows = score_rows(scores, golden)
    verdict = right_answers(rows, right, threshold)
    due, answerable = (
        rows[name].to_numpy("float64", na_value=np.nan)
        for name in ("refusal_correct", "false_refusal")
    )
    answered = answerable == 0
    unlabelled = golden.queries["answerable"].isna()
    state = rows["state"].astype("str").to_numpy()
    flags = {
        "extra": state == "extra", "missing": state == "missing", "failed": state == "failed",
        "over-refusal": answerable == 1, "right refusal": due == 1, "unsupported answer": due == 0,
        "right answer": answered & (verdict == 1), "wrong answer": answered & (verdict == 0),
        "unchecked answer": answered,
        "unlabelled": is_among(rows["query_id"], golden.queries.loc[unlabelled, "query_id"]),
    }  # fmt: skip
    codes = np.select(
        list(flags.values()),
        [DECISIONS.index(name) for name in flags],
        DECISIONS.index("undecided"),
    )
    judged = np.where(codes < len(ANSWERED), verdict, np.nan)
    return pd.DataFrame(
        {
            "run_id": rows["run_id"],
            "query_id": rows["query_id"],
            "decision": categorical(codes, DECISIONS),
            "right": judged,
        }
    )


def refusal_table(
    scores: pd.DataFrame,
    golden: Golden,
    *,
    right: str | None = None,
    threshold: float | None = None,
) -> pd.DataFrame:
    """The 2 × 2 of answerable × refused of each run, with what is apart from it.

    Parameters
    ----------
    scores, right, threshold
        As for `refusal_decisions`.

    Returns
    -------
    One row per run and `decision`: `n` questions; `of` how many; `share` = n / of, with its 95 %
    Wilson interval `low`, `high` (0 to 1; NaN where `of` is 0). The shares are of

    - answered and over-refusal: answerable questions that were decided; they add up to 1
    - right answer and wrong answer: answers that were checked; unchecked answer: all answers to
      answerable questions
    - right refusal and unsupported answer: questions that should be refused and were decided
    - undecided, unlabelled, failed, missing, extra: all rows of the run.

    `right_by` says what counts as right. Precision, recall and F1 of refusing are in
    `rs.refusal_report`.

    Raises
    ------
    DataError
        As for `refusal_decisions`.
    """
    decisions = refusal_decisions(scores, golden, right=right, threshold=threshold)
    n = decisions.groupby(["run_id", "decision"], observed=False).size().unstack()
    answered, checked = n[list(ANSWERED)].sum(axis=1), n[list(ANSWERED[:2])].sum(axis=1)
    answerable, due = answered + n["over-refusal"], n["right refusal"] + n["unsupported answer"]
    of = {
        "answered": answerable, "right answer": checked, "wrong answer": checked,
        "unchecked answer": answered, "over-refusal": answerable,
        "right refusal": due, "unsupported answer": due, **{name: n.sum(axis=1) for name in APART},
    }  # fmt: skip
    table = shares(n.assign(answered=answered), of, "decision")
    return table.assign(right_by=right_by(score_rows(scores, golden), right, threshold))


def answered_quality(
    scores: pd.DataFrame, golden: Golden, metrics: list[str] | str | None = None
) -> pd.DataFrame:
    """Quality of the answers a run gave, beside how much of what it should answer it did.

    A system that answers only what is easy has good answers; overall, a refused question counts as
    0.

    Parameters
    ----------
    metrics
        Columns where higher is better and 0 is worst; by default those of the answers that have
        values (judge_correctness, key_facts, answer_checks, exact_match, token_f1, rouge_l, ...).

    Returns
    -------
    One row per run and metric, over answerable questions to which the metric applies. `coverage` =
    answered / (answered + refused), with its 95 % Wilson interval `coverage_low`, `coverage_high`;
    `answered`, the mean over the answers, with `answered_low`, `answered_high`, and `overall`, the
    mean with refused questions as 0, with `overall_low`, `overall_high` (intervals as in
    `summarize`); NaN where there is no such question. `n_answered` (with a value), `n_refused`;
    apart `n_unmeasured` (answered, but without a value, such as a failed judgment) and `n_failed`
    (the query failed or is missing).

    Raises
    ------
    DataError
        No such column, or lower values of it are better.
    """
    rows = score_rows(scores, golden)
    decision = refusal_decisions(scores, golden)["decision"]
    chosen = _quality_columns(rows, metrics)
    table = pd.concat(
        [_quality(rows, golden, decision, name) for name in chosen], ignore_index=True
    )
    order = np.lexsort((lookup(table["metric"], pd.Index(chosen)), table["run_id"].cat.codes))
    return table.iloc[order].reset_index(drop=True)


def _quality(rows: pd.DataFrame, golden: Golden, decision: pd.Series, metric: str) -> pd.DataFrame:
    values, here = rows[metric].to_numpy("float64", na_value=np.nan), applies(rows, golden, metric)
    answered, refused = (
        is_among(decision, ANSWERED) & here,
        (decision == "over-refusal").to_numpy() & here,
    )
    answerable = is_among(
        rows["query_id"],
        golden.queries.loc[golden.queries["answerable"].fillna(False).astype(bool), "query_id"],
    )
    on_answers = np.where(answered, values, np.nan)
    columns = pd.DataFrame({
        "answered": on_answers, "overall": np.where(refused, 0.0, on_answers), "refused": refused,
        "unmeasured": answered & np.isnan(values),
        "failed": here & answerable & is_among(decision, ("failed", "missing")),
    })  # fmt: skip
    of_run = columns.groupby(rows["run_id"], observed=False)
    count, sums = (
        of_run[["answered", "overall"]].count(),
        of_run[["refused", "unmeasured", "failed"]].sum().astype("int64"),
    )
    n_answered = count["answered"].to_numpy() + sums["unmeasured"].to_numpy()
    of = (n_answered + sums["refused"].to_numpy()).astype("float64")
    coverage = np.divide(n_answered, of, out=np.full(len(of), np.nan), where=of > 0)
    low, high = wilson_interval(coverage, of)
    table = pd.DataFrame(
        {
            "run_id": count.index,
            "metric": metric,
            "coverage": coverage,
            "coverage_low": low,
            "coverage_high": high,
        }
    )
    for name in ("answered", "overall"):
        mean, std = (
            np.asarray(part, dtype=np.float64) for part in (of_run[name].mean(), of_run[name].std())
        )
        low, high = mean_interval(mean, std, count[name].to_numpy("float64"), describe(metric).kind)
        table = table.assign(**{name: mean, f"{name}_low": low, f"{name}_high": high})
    return table.assign(
        n_answered=count["answered"].to_numpy(),
        **{f"n_{name}": sums[name].to_numpy() for name in sums},
    )


def applies(rows: pd.DataFrame, golden: Golden, metric: str) -> Flags:
    """To which rows a metric applies, whatever the system answered.

    By the golden set; for columns of your own, where any run has a value.
    """
    if describe(metric).name not in BY_NAME:
        return is_among(rows["query_id"], rows.loc[rows[metric].notna(), "query_id"])
    name = parse_label(metric).name
    return (
        rows[metric].notna().to_numpy()
        if name in RANKING
        else is_among(rows["query_id"], queries_of_metric(golden, name))
    )


def right_answers(rows: pd.DataFrame, right: str | None, threshold: float | None) -> Values:
    """1 where the metric says that an answer is right, 0 where it is not, NaN where it says nothing."""
    chosen = right_metric(rows, right, threshold)
    if chosen is None:
        return np.full(len(rows), np.nan)
    values = rows[chosen[0]].to_numpy("float64", na_value=np.nan)
    return np.where(np.isnan(values), np.nan, values >= chosen[1])


def right_by(rows: pd.DataFrame, right: str | None, threshold: float | None) -> str:
    """What counts as a right answer, in words; empty where nothing says so."""
    chosen = right_metric(rows, right, threshold)
    return "" if chosen is None else f"{chosen[0]} ≥ {chosen[1]:g}"


def right_metric(
    rows: pd.DataFrame, right: str | None, threshold: float | None
) -> tuple[str, float] | None:
    """The metric that says what is right, and from which value; None where no metric does."""
    if right is None:
        runs_with = {
            name: set(rows.loc[rows[name].notna(), "run_id"])
            for name in RIGHT_FROM
            if name in rows and rows[name].notna().any()
        }
        if not runs_with:
            return None
        all_runs = set().union(*runs_with.values())
        right = next(
            (name for name, runs in runs_with.items() if runs == all_runs), next(iter(runs_with))
        )
    _check_higher(rows, [right], "right")
    if threshold is None and right not in RIGHT_FROM and describe(right).range != "0 to 1":
        raise DataError(
            f"{right} ranges {describe(right).range}",
            field="threshold",
            allowed="the least value that counts as right",
        )
    return right, RIGHT_FROM.get(right, 1.0) if threshold is None else threshold


def _quality_columns(rows: pd.DataFrame, metrics: list[str] | str | None) -> list[str]:
    chosen = (
        [name for name in QUALITY if name in rows and rows[name].notna().any()]
        if metrics is None
        else [metrics]
        if isinstance(metrics, str)
        else metrics
    )
    if not chosen:
        raise DataError(
            "no metric of the answers has a value",
            field="metrics",
            allowed=f"scores with one of {', '.join(QUALITY)}, or metrics=[...]",
        )
    _check_higher(rows, chosen, "metrics")
    return list(dict.fromkeys(chosen))


def _check_higher(rows: pd.DataFrame, names: list[str], field: str) -> None:
    known = metric_columns(rows)
    for name in names:
        if name not in known:
            raise DataError(
                f"no column {name!r}",
                field=field,
                allowed=(
                    f"scores has {', '.join(known)}; rs.score(..., metrics=[...]) brings others"
                ),
            )
        if describe(name).better == "lower":
            raise DataError(
                f"lower values of {name} are better",
                field=field,
                allowed="a metric of which higher values are better",
            )


def score_rows(
    scores: pd.DataFrame,
    golden: Golden,
    metrics: tuple[str, ...] = ("refusal_correct", "false_refusal"),
) -> pd.DataFrame:
    """The scores with query_id as a column, after a look at what they hold."""
    check_type(scores, pd.DataFrame, "scores")
    check_type(golden, Golden, "golden")
    rows = (scores if "query_id" in scores else scores.reset_index()).reset_index(drop=True)
    missing = [name for name in ("run_id", "query_id", "state", *metrics) if name not in rows]
    if missing:
        asked = f" with the metrics {' and '.join(metrics)}" if metrics else ""
        raise DataError(
            f"no {', '.join(missing)}", field="scores", allowed=f"a frame of rs.score{asked}"
        )
    is_coded = isinstance(rows["run_id"].dtype, pd.CategoricalDtype)
    return rows.assign(
        run_id=(
            rows["run_id"].cat.remove_unused_categories()
            if is_coded
            else rows["run_id"].astype("str").astype("category")
        )
    )


def shares(n: pd.DataFrame, of: dict[str, pd.Series], name: str) -> pd.DataFrame:
    """One row per run and class.

    `n` of `of`, their share and its 95 % Wilson interval, from counts with one column per class;
    `of` orders the classes.
    """
    run_ids, classes = n.index.repeat(len(of)), np.tile(list(of), len(n))
    count, total = (frame.to_numpy("float64").ravel() for frame in (n[list(of)], pd.DataFrame(of)))
    share = np.divide(count, total, out=np.full(len(total), np.nan), where=total > 0)
    low, high = wilson_interval(share, total)
    table = pd.DataFrame(
        {
            "run_id": run_ids,
            name: pd.Series(classes, dtype="str"),
            "n": count.astype("int64"),
            "of": total.astype("int64"),
        }
    )
    return table.assign(share=share, low=low, high=high)
