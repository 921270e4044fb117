"""Risk and coverage of refusing by the score of the top hit (selective prediction).

In: scores, golden set and the results with their hits. Out: `RiskCoverage`: one row per run and
threshold; the area under that curve, and the threshold for an acceptable risk.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.rankings import score_kinds
from ragscore.analysis.refusals import (
    ANSWERED,
    metric_applies,
    refusal_decisions,
    right_answers,
    right_by,
    right_metric,
    rows_with_queries,
)
from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.codes import codes_of, is_among
from ragscore.frames.data import DataError, Golden, Results, check_inputs
from ragscore.frames.errors import check_choice, plural, warn
from ragscore.frames.typing import Flags, Values
from ragscore.frames.verbs import Accessor
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.rows import response_of
from ragscore.stats import wilson_interval

KEYS = ["run_id", "score_kind"]
REFUSALS = ("kept", "replaced")
NO_KIND = "(none)"  # of hits that don't say what kind of score they have
CURVE = {
    "run_id": "str", "score_kind": "str", "better": "str", "threshold": "float64", "n": "int64",
    "n_left_out": "int64", "n_answered": "int64", "n_wrong": "int64", "n_unsupported": "int64",
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
        One row per run, kind of score and threshold, the loosest first: run_id, `score_kind`;
        `better`, whether higher or lower scores are good (told from how they change down the
        ranks); `threshold`, the worst score that is still answered. The first row (infinite) is
        without a threshold; at any other, a query without hits is refused. Thresholds of different
        kinds of scores can't be compared, and are never in one curve.

        `n` queries: those that should be refused, and the answerable ones whose answer is known to
        be right or wrong; `n_left_out`, the decided queries of the run that are not among them
        (rightness unknown, top hit without a score or with one of another kind). `n_answered`, of
        them `n_wrong` wrong answers and `n_unsupported` answers to queries that should be refused;
        `n_over_refusals`, answerable queries that are refused.

        `coverage` = n_answered / n; `risk` = (n_wrong + n_unsupported) / n_answered, with its 95 %
        Wilson interval `risk_low`, `risk_high` (lower is better; NaN where nothing is answered);
        `unsupported`, the share of queries that should be refused but are answered; `over_refusal`,
        the share of answerable ones that are refused.
    areas
        One row per run and kind of score, lower is better. `aurc`, area under risk over coverage
        (Geifman et al. 2019, arXiv:1805.08206): the mean risk when answers are given in the order
        of their scores, from one to all that the run gave; `aurc_best`, if every right answer
        scored above every wrong one; `risk`, without a threshold: `aurc` is near it if scores say
        nothing about rightness.
    right_by
        What counts as a right answer, such as "hit@5 ≥ 1".
    """

    FRAMES = ("areas", "curve")
    METHODS = ("at_risk(max_risk)", "plot()")

    plot = Accessor("ragscore.plot.accessor:RISK_COVERAGE")

    curve: pd.DataFrame
    right_by: str

    @cached_property
    def areas(self) -> pd.DataFrame:
        """The area under each curve."""
        groups = self.curve.groupby(KEYS, observed=True, sort=False)
        return pd.DataFrame(
            [[*key, *_areas(rows)] for key, rows in groups],
            columns=[*KEYS, "aurc", "aurc_best", "risk"],
        ).astype(dict(self.curve[KEYS].dtypes))

    def at_risk(self, max_risk: float, *, upper: bool = False) -> pd.DataFrame:
        """Return the loosest threshold of an acceptable risk, beside the area under the curve.

        Parameters
        ----------
        max_risk
            The risk that is still acceptable, from 0 to 1.
        upper
            The upper end of the risk's interval has to be acceptable, not just the observed risk;
            this asks for more queries.

        Returns
        -------
        One row per run and kind of score: the columns of `areas`, then the threshold with the
        largest coverage whose risk is acceptable: `threshold`, its `coverage`, `threshold_risk`
        with `risk_low`, `risk_high`, `n_answered`, `n_unsupported`, `n_over_refusals`; NaN (counts
        NA) where no threshold qualifies. The threshold was chosen on these queries, so its risk on
        others will be higher: check it on other queries.

        Raises
        ------
        DataError
            `max_risk` is not from 0 to 1.
        """
        if not 0 <= max_risk <= 1:
            raise DataError(f"found {max_risk!r}", field="max_risk", allowed="a share from 0 to 1")
        counts = ["n_answered", "n_unsupported", "n_over_refusals"]
        acceptable = self.curve[self.curve["risk_high" if upper else "risk"].to_numpy() <= max_risk]
        best = acceptable.sort_values("coverage", ascending=False, kind="stable")
        best = best.drop_duplicates(KEYS).rename(columns={"risk": "threshold_risk"})
        columns = ["threshold", "coverage", "threshold_risk", "risk_low", "risk_high", *counts]
        chosen = best[[*KEYS, *columns]].astype(dict.fromkeys(counts, "Int64"))
        return self.areas.merge(chosen, on=KEYS, how="left")

    def _heading(self) -> str:
        runs = plural(self.curve["run_id"].nunique(), "run")
        return f"Risk and coverage of {runs}; right answer: {self.right_by}"

    def _shown(self) -> pd.DataFrame:
        loosest = self.curve.drop_duplicates(KEYS)[[*KEYS, "n", "coverage"]]
        return loosest.merge(self.areas, on=KEYS).round(3)


def risk_coverage(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results,
    *,
    right: str | None = None,
    threshold: float | None = None,
    refusals: str = "kept",
    declared: MetricTable = TABLE,
) -> RiskCoverage:
    """Return risk and coverage of thresholds; see `Evaluation.risk_coverage`."""
    check_inputs(results, golden)
    top = _top_hits(rows_with_queries(scores, golden), results)
    has_hits = top["kind"].ne("").to_numpy(dtype=bool)
    own = _queries(scores, golden, right, threshold, refusals, declared, has_hits)
    rows = pd.concat([own, top], axis=1)
    parts, without = [], dict[str, list[str]]()
    for run_id, of_run in rows.groupby("run_id", observed=False, sort=True):
        parts.append(_run_curves(str(run_id), of_run))
        if not len(parts[-1]):
            without.setdefault(_lack(of_run), []).append(str(run_id))
    for lack, run_ids in without.items():
        warn(f"no curve for {', '.join(run_ids)}: {lack}")
    curve = pd.concat(parts, ignore_index=True)
    return RiskCoverage(
        curve.assign(run_id=curve["run_id"].astype(rows["run_id"].dtype)),
        right_by(rows_with_queries(scores, golden), right, threshold, declared),
    )


def _lack(rows: pd.DataFrame) -> str:
    """Return what runs without a curve lack."""
    decided = rows[rows["is_decided"]]
    if not len(decided):
        return "no query that they answered or refused is labelled as answerable or not"
    if not (decided["score"].notna() & decided["kind"].ne("")).any():
        return "no score in their top hits"
    return "no query with a score is known to be answered right or wrong"


def _queries(
    scores: pd.DataFrame,
    golden: Golden,
    right: str | None,
    threshold: float | None,
    refusals: str,
    declared: MetricTable,
    has_hits: Flags,
) -> pd.DataFrame:
    """One row per row of the scores, with the flags that the curve counts.

    `to_refuse`: should be refused. `is_decided`: the run decided and the golden set says what is
    right. `is_known`: counts in the curve. `is_answered`: without a threshold. `is_wrong`: its
    answer is wrong.
    """
    check_choice(refusals, REFUSALS, "refusals")
    rows = rows_with_queries(scores, golden)
    criterion = right_metric(rows, right, threshold, declared)
    if criterion is None:
        raise DataError(
            "no metric says which answers are right",
            field="right",
            allowed="scores with answer_checks, or right='hit@5'",
        )
    metric = criterion[0]
    if refusals == "replaced" and not declared.label_of(metric).is_ranking:
        raise DataError(
            f"{metric} reads answers, and a refused query has none",
            field="right",
            allowed="a ranking metric, or refusals='kept'",
        )
    decision = refusal_decisions(scores, golden, declared, right=right, threshold=threshold)[
        "decision"
    ]
    to_refuse = decision.isin(["right refusal", "unsupported answer"]).to_numpy()
    refused = decision.isin(["right refusal", "over-refusal"]).to_numpy()
    answerable = decision.isin([*ANSWERED, "over-refusal"]).to_numpy()
    has_decided = pd.Series(to_refuse | answerable).groupby(rows["run_id"].to_numpy())
    # A run that answers nothing returns hits: these are what it would answer with.
    bare = decision.eq("undecided").to_numpy() & ~has_decided.transform("any").to_numpy(dtype=bool)
    if bare.any():
        to_refuse = to_refuse | bare & is_among(rows["query_id"], golden.refusals)
        answerable = answerable | bare & ~to_refuse
        refused = refused | bare & ~has_hits
    verdict = right_answers(rows, right, threshold, declared)
    # Nobody needs to know how right the answer to a query would have been that stays refused.
    stays_refused = refused & metric_applies(rows, golden, metric) & (refusals == "kept")
    return pd.DataFrame(
        {
            "run_id": rows["run_id"],
            "query_id": rows["query_id"],
            "to_refuse": to_refuse,
            "is_decided": to_refuse | answerable,
            "is_known": to_refuse | (answerable & (~np.isnan(verdict) | stays_refused)),
            "is_answered": ~refused if refusals == "kept" else True,
            "is_wrong": answerable & (verdict == 0),
        }
    )


def _top_hits(rows: pd.DataFrame, results: Results) -> pd.DataFrame:
    """One row per row of the queries: `score`, `kind` and `sign` of its top hit.

    The score is turned so that more is better (-inf without hits); `sign` is 1, or -1 where it was
    turned; `kind` is "" without hits.
    """
    hits, responses = results.hits, results.responses
    kind, kinds = score_kinds(hits, NO_KIND)
    place, rank = response_of(hits, responses), hits["rank"].to_numpy()
    score = (
        hits["score"].to_numpy("float64", na_value=np.nan)
        if "score" in hits
        else np.full(len(hits), np.nan)
    )
    step = np.diff(place, prepend=-1)
    if not ((step > 0) | ((step == 0) & (place >= 0) & (np.diff(rank, prepend=0) >= 0))).all():
        order = np.lexsort((rank, place))
        order = order[place[order] >= 0]
        place, kind, score = place[order], kind[order], score[order]
        step = np.diff(place, prepend=-1)
    # Distances rise down the ranks, other scores fall: what most neighbours in the lists of a run
    # do tells which of the two they are.
    is_neighbour = (step[1:] == 0) & (kind[1:] == kind[:-1])
    group = codes_of(responses["run_id"])[place].astype(np.int64) * len(kinds) + kind
    n_rises, n_falls = (
        np.bincount(group[1:][is_neighbour & moves], minlength=group.max(initial=0) + 1)
        for moves in (score[1:] > score[:-1], score[1:] < score[:-1])
    )
    # the last row: without hits
    n = len(responses)
    found = {
        "score": np.full(n + 1, -np.inf), "kind": np.full(n + 1, len(kinds)),
        "sign": np.ones(n + 1),
    }  # fmt: skip
    top = np.flatnonzero(step)
    sign = np.where((n_rises > n_falls)[group[top]], -1.0, 1.0)
    found["score"][place[top]] = score[top] * sign
    found["kind"][place[top]] = kind[top]
    found["sign"][place[top]] = sign
    of_row = response_of(rows, responses)
    return pd.DataFrame(
        {
            "score": found["score"][of_row],
            "kind": np.array([*kinds, ""], dtype=object)[found["kind"][of_row]],
            "sign": found["sign"][of_row],
        }
    )


def _run_curves(run_id: str, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the curves of one run, one per kind of score; no rows where there is no curve."""
    decided = rows[rows["is_decided"]]
    has_score = decided["score"].notna()
    kinds = sorted(set(decided.loc[has_score, "kind"].unique()) - {""})
    parts = []
    for kind in kinds:
        # A query without hits has no kind of score: it belongs to the run's only curve, or to none.
        is_kind = decided["kind"].isin([kind, ""] if len(kinds) == 1 else [kind])
        counted = decided[decided["is_known"] & has_score & is_kind]
        if len(counted):
            sign = float(rows.loc[rows["kind"].eq(kind), "sign"].iloc[0])
            parts.append(
                _curve(counted, sign).assign(
                    run_id=run_id, score_kind=kind, n_left_out=len(decided) - len(counted)
                )
            )
    if parts:
        return pd.concat(parts, ignore_index=True)[list(CURVE)]
    return pd.DataFrame({name: pd.Series([], dtype=dtype) for name, dtype in CURVE.items()})


def _curve(rows: pd.DataFrame, sign: float) -> pd.DataFrame:
    """One row without a threshold, then one per threshold at which one more answer is refused."""
    score, is_answered, to_refuse = (
        rows[name].to_numpy() for name in ("score", "is_answered", "to_refuse")
    )
    cuts = np.unique(score[is_answered])
    cuts = np.append(-np.inf, cuts[1:])  # the lowest refuses nothing

    def n_above(flags: Flags) -> npt.NDArray[np.int64]:
        """Count the flagged answers that each cut leaves."""
        answered = np.sort(score[is_answered & flags])
        return len(answered) - np.searchsorted(answered, cuts, "left")

    n_answered = n_above(np.ones(len(rows), dtype=bool))
    n_wrong, n_unsupported = n_above(rows["is_wrong"].to_numpy()), n_above(to_refuse)
    n_answerable, n_to_refuse = int((~to_refuse).sum()), int(to_refuse.sum())
    n_over_refusals = n_answerable - (n_answered - n_unsupported)
    risk = _share(n_wrong + n_unsupported, n_answered)
    low, high = wilson_interval(risk, n_answered.astype("float64"))
    return pd.DataFrame(
        {
            "better": "higher" if sign > 0 else "lower",
            "threshold": cuts * sign,
            "n": len(rows),
            "n_answered": n_answered,
            "n_wrong": n_wrong,
            "n_unsupported": n_unsupported,
            "n_over_refusals": n_over_refusals,
            "coverage": n_answered / len(rows),
            "risk": risk,
            "risk_low": low,
            "risk_high": high,
            "unsupported": _share(n_unsupported, n_to_refuse),
            "over_refusal": _share(n_over_refusals, n_answerable),
        }
    )


def _share(n: npt.NDArray[np.int64], total: npt.NDArray[np.int64] | int) -> Values:
    return np.divide(n, total, out=np.full(len(n), np.nan), where=np.asarray(total) > 0)


def _areas(curve: pd.DataFrame) -> tuple[float, float, float]:
    """Return aurc, aurc_best and the risk without a threshold of one curve.

    Tied answers are taken together, at the risk of all of them.
    """
    strictest_first = curve.iloc[::-1]
    n_answered, risk = strictest_first["n_answered"].to_numpy(), strictest_first["risk"].to_numpy()
    n = int(n_answered[-1])
    if not n:
        return np.nan, np.nan, np.nan
    n_right = n - int(strictest_first[["n_wrong", "n_unsupported"]].iloc[-1].sum())
    ranks = np.arange(1, n + 1)
    steps = np.diff(n_answered, prepend=0)
    aurc = (steps * np.nan_to_num(risk)).sum() / n
    aurc_best = (np.maximum(ranks - n_right, 0) / ranks).mean()
    return float(aurc), float(aurc_best), float(risk[-1])
