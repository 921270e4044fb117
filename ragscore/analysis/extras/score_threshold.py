"""Risk and coverage of refusing by the score of the top hit (selective prediction).

In: scores, golden set and the results with their hits. Out: `RiskCoverage`: one row per run and
threshold, and the area under that curve.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.decisions import (
    ANSWERED,
    DECIDED_BY,
    metric_applies,
    refusal_decisions,
    right_answers,
    rows_with_queries,
)
from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import check_choice, name_list, plural, warn
from ragscore.frames.typing import Flags
from ragscore.frames.verbs import Accessor
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.rows import Rows
from ragscore.stats import wilson_interval

CURVE = {
    "run_id": "str", "better": "str", "threshold": "float64", "n": "int64", "n_left_out": "int64",
    "n_answered": "int64", "n_wrong": "int64", "n_unsupported": "int64",
    "n_over_refusals": "int64", "coverage": "float64", "risk": "float64", "risk_low": "float64",
    "risk_high": "float64", "unsupported": "float64", "over_refusal": "float64",
}  # fmt: skip
"""Columns of the curve -> their dtypes."""


@dataclass(frozen=True, repr=False, eq=False)
class RiskCoverage(FramesResult):
    """Risk against coverage if each run refused by the score of its top hit.

    At each threshold the run refuses every query whose top hit scores worse. A run without answers
    answers every query for which it has a hit.

    Attributes
    ----------
    curve
        One row per run and threshold, the loosest first: run_id; `better`, whether higher or lower
        scores are good (lower where top hits score below the others); `threshold`, the worst score
        that is still answered. The first row (infinite) is without a threshold; at any other, a
        query without hits is refused.

        `n` queries: those that should be refused, and the answerable ones whose answer is known to
        be right or wrong; `n_left_out`, the decided queries of the run that are not among them
        (rightness unknown, top hit without a score). `n_answered`, of them `n_wrong` wrong answers
        and `n_unsupported` answers to queries that should be refused; `n_over_refusals`, answerable
        queries that are refused.

        `coverage` = n_answered / n; `risk` = (n_wrong + n_unsupported) / n_answered, with its 95 %
        Wilson interval `risk_low`, `risk_high` (lower is better; NaN where nothing is answered);
        `unsupported`, the share of queries that should be refused but are answered; `over_refusal`,
        the share of answerable ones that are refused.
    areas
        One row per run, lower is better. `aurc`, area under risk over coverage (Geifman et al.
        2019, arXiv:1805.08206): the mean risk when answers are given in the order of their scores,
        from one to all that the run gave; `aurc_best`, if every right answer scored above every
        wrong one; `risk`, without a threshold: `aurc` is near it if scores say nothing about
        rightness.
    right_by
        What counts as a right answer, such as "hit@5 ≥ 1".
    """

    plot = Accessor("ragscore.plot.accessor:RISK_COVERAGE")

    areas: pd.DataFrame
    curve: pd.DataFrame
    right_by: str

    def _heading(self) -> str:
        runs = plural(self.curve["run_id"].nunique(), "run")
        return f"Risk and coverage of {runs}; right answer: {self.right_by}"

    def _shown(self) -> pd.DataFrame:
        loosest = self.curve.drop_duplicates("run_id")[["run_id", "n", "coverage"]]
        return loosest.merge(self.areas, on="run_id").round(3)


def risk_coverage(
    ev: Any, *, right: str | None = None, threshold: float | None = None, refusals: str = "kept"
) -> RiskCoverage:
    """Return the risk and the coverage that a threshold on the top hit's score would give.

    Parameters
    ----------
    right, threshold
        The metric that says that an answer is right, as for `ev.refusals`; a ranking metric such as
        "hit@5" will do.
    refusals
        "kept": the threshold comes on top of the run's own refusals. "replaced": it takes their
        place. What the system would have answered there is unknown, so that only a ranking metric
        can say whether it would have been right.

    Returns
    -------
    `RiskCoverage`: frames `curve` and `areas`; its docstring has the columns. `plot()` draws risk
    over coverage.

    Raises
    ------
    DataError
        No metric says which answers are right; `refusals="replaced"` with a metric that reads the
        answer.

    Warns
    -----
    UserWarning
        A run has no curve: its top hits have no score, or scores of several kinds, or no query is
        known to be answered rightly or wrongly.

    Examples
    --------
    >>> curve = rs.extras.risk_coverage(ev, right="hit@5").curve
    >>> curve[curve["risk"] <= 0.3].drop_duplicates("run_id")[["run_id", "threshold"]]
    """
    right = None if right is None else ev._named(right)
    scores, _ = ev._scored([*DECIDED_BY, *([right] if right else [])])
    return ev._alike(curves_of(
        scores, ev.golden, ev.results, right=right, threshold=threshold, refusals=refusals,
        declared=ev._declared,
    ))  # fmt: skip


def curves_of(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results,
    *,
    right: str | None = None,
    threshold: float | None = None,
    refusals: str = "kept",
    declared: MetricTable = TABLE,
) -> RiskCoverage:
    """Return risk and coverage of thresholds; see `risk_coverage`."""
    check_choice(refusals, ("kept", "replaced"), "refusals")
    rows = rows_with_queries(scores)
    verdict, right_by = right_answers(rows, right, threshold, declared)
    metric = right_by.partition(" ")[0]
    if not right_by:
        raise DataError(
            "no metric says which answers are right", field="right",
            allowed="right='hit@5'; or must_contain in the golden set, or judged answers",
        )  # fmt: skip
    if refusals == "replaced" and not declared.label_of(metric).is_ranking:
        raise DataError(
            f"{metric} reads answers, and a refused query has none", field="right",
            allowed="a ranking metric, or refusals='kept'",
        )  # fmt: skip
    decisions, _ = refusal_decisions(scores, golden, declared, right=right, threshold=threshold)
    top, mixed = _top_scores(rows, results)
    has_hits = ~np.isneginf(top["score"].to_numpy())
    to_refuse, answerable, refused = _decided(rows, decisions["decision"], golden, has_hits)
    is_kept = refused & (refusals == "kept")
    # nobody needs to know how right the answer to a query would have been that stays refused
    is_known = ~np.isnan(verdict) | (is_kept & metric_applies(rows, golden, metric))
    top = top.assign(
        n_answered=~is_kept, n_wrong=~is_kept & answerable & (verdict == 0),
        n_unsupported=~is_kept & to_refuse, to_refuse=to_refuse,
    )  # fmt: skip
    counted = (to_refuse | (answerable & is_known)) & top["score"].notna()
    is_decided = to_refuse | answerable
    n = pd.DataFrame({
        "decided": is_decided, "counted": counted, "scored": counted & has_hits,
        "to_refuse": counted & to_refuse, "lower": top["sign"].eq(-1),
    }).groupby(top["run_id"], sort=False, observed=True).sum()  # fmt: skip
    n = n.set_axis(n.index.astype("str"))
    has_curve = (n["scored"] > 0) & ~n.index.isin(list(mixed))
    if without := n.index[~has_curve].tolist():
        warn(
            f"no curve for {name_list(without)}: their top hits have no score, or scores of several"
            " kinds, or no query is both labelled (answerable or not) and known to be answered"
            " right or wrong"
        )
    n = n[has_curve]
    curve = _curve(top[counted & top["run_id"].isin(n.index)], n)
    areas = [[run, *_areas(own)] for run, own in curve.groupby("run_id", sort=False)]
    names = ["run_id", "aurc", "aurc_best", "risk"]
    return RiskCoverage(pd.DataFrame(areas, columns=names), curve, right_by)


def _top_scores(rows: pd.DataFrame, results: Results) -> tuple[pd.DataFrame, set[str]]:
    """Return the score of each row's top hit, and the runs whose top hits have several kinds of it.

    One row per row: run_id, `score`, turned so that more is better (-inf without hits), and `sign`,
    -1 where it was turned: the list is sorted, so where its head is below the rest, less is better.
    """
    facts = Rows.of_responses(results)
    hits = results.hits.reindex(columns=["run_id", "rank", "score", "score_kind"])
    hits, row = hits.astype({"score": "float64"}), facts.row_of_hit
    is_top = hits["rank"].eq(hits["rank"].groupby(row).transform("min")).to_numpy()
    top = hits[is_top].set_index(row[is_top]).astype({"run_id": "str"})
    apart = top["score"] - hits["score"].groupby(row).mean().reindex(top.index)
    is_lower = apart.groupby(top["run_id"]).mean().lt(-1e-12)
    sign = rows["run_id"].map(1.0 - 2.0 * is_lower).astype("float64").fillna(1.0)
    score = top["score"].reindex(facts.places(rows), fill_value=-np.inf).to_numpy()
    score = np.where(np.isneginf(score), score, score * sign)
    n_kinds = top.groupby("run_id")["score_kind"].nunique()
    return rows[["run_id"]].assign(sign=sign, score=score), {*n_kinds.index[n_kinds > 1]}


def _decided(
    rows: pd.DataFrame, decision: pd.Series, golden: Golden, has_hits: Flags
) -> tuple[Flags, Flags, Flags]:
    """Return flags of rows that the golden set and the run decided: to_refuse, answerable, refused.

    A run that answers nothing returns hits: these are what it would answer with.
    """
    to_refuse = decision.isin(["right refusal", "unsupported answer"]).to_numpy()
    refused = decision.isin(["right refusal", "over-refusal"]).to_numpy()
    answerable = decision.isin([*ANSWERED, "over-refusal"]).to_numpy()
    has_decided = pd.Series(to_refuse | answerable).groupby(rows["run_id"].to_numpy())
    bare = decision.eq("undecided").to_numpy() & ~has_decided.transform("any").to_numpy(dtype=bool)
    is_due = is_among(rows["query_id"], golden._refusals)
    return to_refuse | (bare & is_due), answerable | (bare & ~is_due), refused | (bare & ~has_hits)


def _curve(rows: pd.DataFrame, of_runs: pd.DataFrame) -> pd.DataFrame:
    """One row per run without a threshold, then one per threshold that one more answer misses."""
    counted, runs = ["n_answered", "n_wrong", "n_unsupported"], of_runs.index
    loosest = pd.DataFrame({"run_id": runs, "score": -np.inf, **dict.fromkeys(counted, 0)})
    parts = pd.concat([loosest, rows[rows["n_answered"]]])[["run_id", "score", *counted]]
    order = pd.CategoricalDtype(runs)
    of_score = parts.astype({"run_id": order}).groupby(["run_id", "score"], observed=True).sum()
    # what each threshold leaves; the lowest score of all refuses nothing either
    table = of_score[::-1].groupby("run_id", observed=True).cumsum()[::-1].reset_index()
    table = table[~table.duplicated(["run_id", "n_answered"])].reset_index(drop=True)
    table = table.astype(dict.fromkeys(counted, "int64"))
    of = of_runs.iloc[table["run_id"].cat.codes].set_axis(table.index).astype("float64")
    is_lower, n, n_to_refuse = of["lower"] > 0, of["counted"], of["to_refuse"]
    n_answered, n_bad = table["n_answered"], table["n_wrong"] + table["n_unsupported"]
    n_answerable = n - n_to_refuse
    risk = n_bad / n_answered.where(n_answered > 0)
    low, high = wilson_interval(risk.to_numpy(), n_answered.to_numpy("float64"))
    n_over_refusals = n_answerable - (n_answered - table["n_unsupported"])
    return table.assign(
        better=is_lower.map({False: "higher", True: "lower"}), n=n, risk=risk,
        threshold=table["score"].mask(is_lower, -table["score"]),
        n_left_out=of["decided"] - n, n_over_refusals=n_over_refusals, coverage=n_answered / n,
        risk_low=low, risk_high=high,
        unsupported=table["n_unsupported"] / n_to_refuse.where(n_to_refuse > 0),
        over_refusal=n_over_refusals / n_answerable.where(n_answerable > 0),
    ).reindex(columns=list(CURVE)).astype(CURVE)  # fmt: skip


def _areas(curve: pd.DataFrame) -> tuple[float, float, float]:
    """Return aurc, aurc_best and the risk without a threshold of one curve.

    Tied answers are taken together, at the risk of all of them.
    """
    n, n_wrong, n_unsupported = curve[["n_answered", "n_wrong", "n_unsupported"]].iloc[0]
    if not n:
        return np.nan, np.nan, np.nan
    ranks = np.arange(1, n + 1)
    n_right = n - n_wrong - n_unsupported
    aurc = (curve["n_answered"].diff(-1).fillna(curve["n_answered"]) * curve["risk"]).sum() / n
    best = (np.maximum(ranks - n_right, 0) / ranks).mean()
    return float(aurc), float(best), float(curve["risk"].iloc[0])
