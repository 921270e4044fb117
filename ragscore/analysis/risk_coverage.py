"""What if a system refused by the score of its top hit: risk against coverage at every threshold.

In: scores, golden set and the results with their hits. Out: one row per run and threshold; the area
under that curve and the threshold for a wanted risk.
"""

import warnings

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.refusals import (
    ANSWERED,
    applies,
    refusal_decisions,
    right_answers,
    right_metric,
    score_rows,
)
from ragscore.frames.codes import is_among, lookup
from ragscore.frames.data import DataError, Golden, Results, check_inputs
from ragscore.scoring.matching import response_of
from ragscore.scoring.metrics import RANKING, describe, parse_label
from ragscore.stats import wilson_interval

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

REFUSALS = ("kept", "replaced")
NO_KIND = "(none)"  # of hits that don't say what kind of score they have


def refusal_curve(
    scores: pd.DataFrame,
    golden: Golden,
    results: Results,
    *,
    right: str | None = None,
    threshold: float | None = None,
    refusals: str = "kept",
) -> pd.DataFrame:
    """Risk against coverage if a run refused every question whose top hit scores below a threshold.

    Parameters
    ----------
    scores, golden, results
        Of the same runs; `results` for the scores of the hits of rank 1.
    right, threshold
        What says that an answer is right, as for `refusal_decisions`; a ranking metric such as
        "hit@5" will do.
    refusals
        "kept": the threshold comes on top of the run's own refusals. "replaced": it takes their
        place; what the system would have answered is not known there, so that only a ranking metric
        can say whether it would have been right.

    Returns
    -------
    One row per run, kind of score and threshold, the loosest first: run_id, `score_kind`; `better`,
    which scores are good (told from how they go down the ranks); `threshold`: refused is what
    scores worse, and the first row (infinite) is without one. A question without hits is refused at
    any other. `n` questions: the decided ones that should be refused, and the answerable ones of
    which it is known whether the answer is right; `n_left_out`, those of the run that are not among
    them (unknown, or top hits without a score or with one of another kind). `n_answered`, of them
    `n_wrong` wrong answers and `n_unsupported` answers to what should be refused;
    `n_over_refusals`, answerable questions refused. `coverage` = n_answered / n; `risk` = (n_wrong
    + n_unsupported) / n_answered, with its 95 % Wilson interval `risk_low`, `risk_high` (lower is
    better; NaN where nothing is answered); `unsupported`, the share of questions that should be
    refused but are answered; `over_refusal`, the share of answerable ones that are refused.
    Thresholds of different kinds of scores can't be compared, and are never in one curve.

    Raises
    ------
    DataError
        Nothing says which answers are right; `refusals="replaced"` with a metric that reads the
        answer.

    Warns
    -----
    UserWarning
        A run has no curve: its top hits have no score, or there is no question of known rightness.
    """
    check_inputs(results, golden)
    rows = _rows(scores, golden, right, threshold, refusals).assign(
        **_top_scores(score_rows(scores, golden), results)
    )
    parts = [
        _of_run(str(run_id), part)
        for run_id, part in rows.groupby("run_id", observed=False, sort=True)
    ]
    without = [
        str(run_id)
        for run_id, part in zip(rows["run_id"].cat.categories, parts, strict=True)
        if not len(part)
    ]
    if without:
        text = (
            f"no curve for {', '.join(without)}: no score in their top hits, or no question of"
            " known rightness"
        )
        warnings.warn(text, UserWarning, stacklevel=2)
    table = pd.concat(parts, ignore_index=True)
    return table.assign(run_id=table["run_id"].astype(rows["run_id"].dtype))


def refusal_thresholds(curve: pd.DataFrame, max_risk: float, *, by: str = "risk") -> pd.DataFrame:
    """How well the top score tells right answers from wrong ones, and the threshold that keeps the risk low enough.

    Parameters
    ----------
    curve
        From `refusal_curve`.
    max_risk
        The risk that is still acceptable, from 0 to 1.
    by
        "risk", as it was seen, or "risk_high": the upper end of its interval has to be low enough,
        which asks for more questions.

    Returns
    -------
    One row per run and kind of score. `aurc`, area under risk over coverage (Geifman et al. 2019,
    arXiv:1805.08206): the mean risk when answers are given in the order of their scores, from one
    to all that the run gave; `aurc_best`, if every right answer scored above every wrong one;
    `risk`, without a threshold: what `aurc` is near if scores tell nothing. Lower is better. Then
    the threshold with the largest coverage whose risk (or `by`) is at most `max_risk`: `threshold`,
    its `coverage`, `threshold_risk` with `risk_low`, `risk_high`, `n_answered`, `n_unsupported`,
    `n_over_refusals`; NaN (counts NA) where none is low enough. The threshold was chosen on these
    questions, so its risk on others will be higher: check it on those that it was not chosen on.

    Raises
    ------
    DataError
        `max_risk` is not from 0 to 1; an unknown `by`.
    """
    if by not in ("risk", "risk_high"):
        raise DataError(f"found {by!r}", field="by", allowed="'risk' or 'risk_high'")
    if not 0 <= max_risk <= 1:
        raise DataError(f"found {max_risk!r}", field="max_risk", allowed="a share from 0 to 1")
    groups = curve.groupby(["run_id", "score_kind"], observed=True, sort=False)
    records = [
        {"run_id": run_id, "score_kind": kind, **_areas(part)} for (run_id, kind), part in groups
    ]
    areas = pd.DataFrame(
        records, columns=["run_id", "score_kind", "aurc", "aurc_best", "risk"]
    ).astype(dict(curve[["run_id", "score_kind"]].dtypes))
    low_enough = curve[curve[by].to_numpy() <= max_risk].sort_values(
        "coverage", ascending=False, kind="stable"
    )
    found = low_enough.drop_duplicates(["run_id", "score_kind"]).rename(
        columns={"risk": "threshold_risk"}
    )
    counts = ["n_answered", "n_unsupported", "n_over_refusals"]
    kept = [
        "run_id",
        "score_kind",
        "threshold",
        "coverage",
        "threshold_risk",
        "risk_low",
        "risk_high",
        *counts,
    ]
    return areas.merge(
        found[kept].astype(dict.fromkeys(counts, "Int64")), on=["run_id", "score_kind"], how="left"
    )


def _rows(
    scores: pd.DataFrame, golden: Golden, right: str | None, threshold: float | None, refusals: str
) -> pd.DataFrame:
    """What the curve is made of, one row per row of the scores.

    Due, answerable, answers (without a threshold), wrong, known.
    """
    if refusals not in REFUSALS:
        raise DataError(
            f"found {refusals!r}", field="refusals", allowed=f"one of {', '.join(REFUSALS)}"
        )
    rows = score_rows(scores, golden)
    chosen = right_metric(rows, right, threshold)
    if chosen is None:
        raise DataError(
            "no metric says which answers are right",
            field="right",
            allowed="scores with answer_checks, or right='hit@5'",
        )
    metric = chosen[0]
    is_ranking = (
        describe(metric).name.partition("@")[0] in RANKING and parse_label(metric).is_ranking
    )
    if refusals == "replaced" and not is_ranking:
        raise DataError(
            f"{metric} reads answers, and a refused question has none",
            field="right",
            allowed="a ranking metric, or refusals='kept'",
        )
    decision = refusal_decisions(scores, golden, right=right, threshold=threshold)["decision"]
    due, refused = (
        is_among(decision, ("right refusal", "unsupported answer")),
        is_among(decision, ("right refusal", "over-refusal")),
    )
    answerable = is_among(decision, (*ANSWERED, "over-refusal"))
    verdict = right_answers(rows, right, threshold)
    # Of a question that stays refused nobody needs to know how right its answer would have been.
    known = ~np.isnan(verdict) | (refused & applies(rows, golden, metric) & (refusals == "kept"))
    return pd.DataFrame({
        "run_id": rows["run_id"], "query_id": rows["query_id"], "due": due,
        "decided": due | answerable, "known": due | (answerable & known),
        "answers": ~refused if refusals == "kept" else True, "wrong": answerable & (verdict == 0),
    })  # fmt: skip


def _top_scores(rows: pd.DataFrame, results: Results) -> dict[str, npt.NDArray[np.generic]]:
    """The score of each row's top hit so that more is better (-inf without hits), its kind ("" without hits), and 1 or -1: which way it was turned."""
    hits, responses = results.hits, results.responses
    place, value = (
        response_of(hits, responses),
        (
            hits["score"].to_numpy("float64", na_value=np.nan)
            if "score" in hits
            else np.full(len(hits), np.nan)
        ),
    )
    named = (
        hits["score_kind"].astype("str").fillna(NO_KIND)
        if "score_kind" in hits
        else pd.Series(NO_KIND, index=hits.index)
    )
    kinds = pd.Index(named.unique())
    kind = lookup(named, kinds)
    order = np.lexsort((hits["rank"].to_numpy(), place))
    order = order[place[order] >= 0]
    run_kind = np.append(responses["run_id"].cat.codes.to_numpy(), -1)[place] * len(kinds) + kind
    is_first = np.diff(place[order], prepend=-1) != 0
    # Distances rise down the ranks, other scores fall: what most neighbours in the lists do tells
    # which of the two they are.
    change = np.where(
        is_first | (np.diff(kind[order], prepend=-1) != 0),
        0.0,
        np.sign(np.diff(value[order], prepend=np.nan)),
    )
    n_rises = np.bincount(
        run_kind[order], np.nan_to_num(change), len(kinds) * max(len(results.runs), 1)
    )
    sign = np.where(n_rises > 0, -1.0, 1.0)
    top = order[is_first]
    of_response = {
        name: np.full(len(responses) + 1, empty)
        for name, empty in (("gate", -np.inf), ("kind", -1.0), ("sign", 1.0))
    }
    for name, values in (
        ("gate", value[top] * sign[run_kind[top]]),
        ("kind", kind[top]),
        ("sign", sign[run_kind[top]]),
    ):
        of_response[name][place[top]] = values
    found = {name: values[response_of(rows, responses)] for name, values in of_response.items()}
    return found | {
        "kind": np.append(kinds.to_numpy(dtype=object), "")[found["kind"].astype(np.int64)]
    }


def _of_run(run_id: str, rows: pd.DataFrame) -> pd.DataFrame:
    """The curves of one run, one per kind of score; no rows where there is nothing to draw."""
    decided = rows[rows["decided"]]
    kinds = sorted(set(decided.loc[decided["gate"].notna(), "kind"]) - {""})
    parts = [_CURVE]
    for kind in kinds:
        # A question without hits has no kind of score: it belongs to the run's only curve, or to
        # none.
        here = decided[
            decided["known"]
            & decided["gate"].notna()
            & (decided["kind"].eq(kind) | (decided["kind"].eq("") & (len(kinds) == 1)))
        ]
        if len(here):
            sign = float(rows.loc[rows["kind"].eq(kind), "sign"].iloc[0])
            parts.append(
                _curve(here, sign).assign(
                    run_id=run_id, score_kind=kind, n_left_out=len(decided) - len(here)
                )
            )
    return pd.concat([part for part in parts if len(part)] or parts, ignore_index=True)[
        list(_CURVE)
    ]


def _curve(rows: pd.DataFrame, sign: float) -> pd.DataFrame:
    """One row per threshold at which one more answer is refused, after one without a threshold."""
    gate, answers, due = (rows[name].to_numpy() for name in ("gate", "answers", "due"))
    cuts = np.unique(gate[answers])
    cuts = np.append(-np.inf, cuts[1:])  # the lowest refuses nothing

    def n_kept(flags: Flags) -> npt.NDArray[np.int64]:
        kept = np.sort(gate[answers & flags])
        return len(kept) - np.searchsorted(kept, cuts, "left")

    n_answered, n_wrong, n_unsupported = (
        n_kept(np.ones(len(rows), dtype=bool)),
        n_kept(rows["wrong"].to_numpy()),
        n_kept(due),
    )
    n_answerable, n_due = int((~due).sum()), int(due.sum())
    n_over_refusals = n_answerable - (n_answered - n_unsupported)
    risk = _share(n_wrong + n_unsupported, n_answered)
    low, high = wilson_interval(risk, n_answered.astype("float64"))
    return pd.DataFrame({
        "better": "higher" if sign > 0 else "lower", "threshold": cuts * sign, "n": len(rows),
        "n_answered": n_answered, "n_wrong": n_wrong,
        "n_unsupported": n_unsupported, "n_over_refusals": n_over_refusals,
        "coverage": n_answered / len(rows), "risk": risk, "risk_low": low, "risk_high": high,
        "unsupported": _share(n_unsupported, n_due),
        "over_refusal": _share(n_over_refusals, n_answerable),
    })  # fmt: skip


def _share(n: npt.NDArray[np.int64], of: npt.NDArray[np.int64] | int) -> Values:
    return np.divide(n, of, out=np.full(len(n), np.nan), where=np.asarray(of) > 0)


def _areas(curve: pd.DataFrame) -> dict[str, float]:
    """Areas under one curve; tied answers are taken together, at the risk of all of them."""
    strictest_first = curve.iloc[::-1]
    n_answered, risk = strictest_first["n_answered"].to_numpy(), strictest_first["risk"].to_numpy()
    n = int(n_answered[-1])
    if not n:
        return {"aurc": np.nan, "aurc_best": np.nan, "risk": np.nan}
    n_right = n - int(strictest_first[["n_wrong", "n_unsupported"]].iloc[-1].sum())
    given = np.arange(1, n + 1)
    steps = np.diff(n_answered, prepend=0)
    return {
        "aurc": float((steps * np.nan_to_num(risk)).sum() / n),
        "aurc_best": float((np.maximum(given - n_right, 0) / given).mean()),
        "risk": float(risk[-1]),
    }


_DTYPES = {
    "run_id": "str", "score_kind": "str", "better": "str", "threshold": "float64", "n": "int64",
    "n_left_out": "int64", "n_answered": "int64", "n_wrong": "int64",
    "n_unsupported": "int64", "n_over_refusals": "int64", "coverage": "float64", "risk": "float64",
    "risk_low": "float64", "risk_high": "float64",
    "unsupported": "float64", "over_refusal": "float64",
}  # fmt: skip
_CURVE = pd.DataFrame({name: pd.Series([], dtype=dtype) for name, dtype in _DTYPES.items()})
