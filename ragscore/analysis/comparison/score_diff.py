"""Scores of two runs, metric by metric: means, winners and losers, and the queries that moved most.

Needs no hits and no golden set: it works on scores, and on the values that a report stored
(`reported_scores`).

Which questions moved between two runs.

0/1 answer metrics and judges' points that flipped, and the largest moves of the others.

In: the scores of two runs. Out: one row per metric and question, for a comparison to show beside
its differences.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, records_of, run_names
from ragscore.frames.render import markdown_table, shown_number
from ragscore.scoring.metrics import describe, parse_label
from ragscore.scoring.summary import metric_columns

METRIC_COLUMNS = (
    "metric",
    "baseline",
    "candidate",
    "delta",
    "n",
    "winners",
    "losers",
    "unchanged",
    "n_only_baseline",
    "n_only_candidate",
)
# bad below the first, good from the second
POINTS = {"judge_groundedness": (3.0, 4.0), "judge_correctness": (3.0, 4.0)}
MOVER_COLUMNS = ("metric", "query_id", "baseline", "candidate", "delta")


@dataclass(frozen=True)
class ScoreDiff:
    """The candidate's scores against the baseline's.

    Attributes
    ----------
    metrics
        One row per metric: means `baseline` and `candidate` over the `n` queries where both have a
        value, `delta` = candidate − baseline; `winners` (better by more than eps, as the metric
        counts better), `losers`, `unchanged` queries; `n_only_baseline`, `n_only_candidate` queries
        where only one side has a value. Where n is 0, `delta` is NaN and each mean is over that
        side's own queries.
    movers
        One row per metric and query that both have: `baseline`, `candidate`, `delta`; the largest
        |delta| first, equal ones in the candidate's order.
    """

    metrics: pd.DataFrame
    movers: pd.DataFrame

    def to_markdown(self) -> str:
        """One line per metric: both means, the difference, and how many queries win, lose and stay."""
        shown = pd.DataFrame({
            "metric": self.metrics["metric"],
            **{name: [shown_number(value, 4) for value in self.metrics[name]] for name in ("baseline", "candidate")},
            "Δ": [shown_number(value, 4, signed=True) for value in self.metrics["delta"]],
            "win": self.metrics["winners"], "lose": self.metrics["losers"],
            "same": self.metrics["unchanged"],
        })  # fmt: skip
        return markdown_table(shown) + "\n"

    def to_json(self) -> str:
        """The diff as JSON.

        `rows` of current and baseline means, delta, counts and `query_changes`; NaN is null.
        """
        by_metric = dict(iter(self.movers.groupby("metric", sort=False)))
        rows = [_json_row(row, by_metric.get(row["metric"])) for row in records_of(self.metrics)]
        return json.dumps({"rows": rows}, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, source: str | Path) -> "ScoreDiff":
        """A diff from its JSON, as text or as the path of a file.

        Raises
        ------
        DataError
            Not a diff: no `rows`, a row without a metric, a value that is neither a number nor
            null.
        """
        is_text = isinstance(source, str) and source.lstrip().startswith("{")
        name = None if is_text else Path(source)
        try:
            rows = json.loads(str(source) if is_text else Path(source).read_text(encoding="utf-8"))[
                "rows"
            ]
            changes = [
                {"metric": row["metric"], **change}
                for row in rows
                for change in row["query_changes"]
            ]
            metrics = pd.DataFrame([_metric_row(row) for row in rows], columns=METRIC_COLUMNS)
            movers = pd.DataFrame(
                changes, columns=["metric", "query_id", "baseline", "current", "delta"]
            ).rename(columns={"current": "candidate"})
            return cls(
                _typed(metrics, ("metric",), METRIC_COLUMNS[4:]),
                _typed(movers, ("metric", "query_id")),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            allowed = (
                "an object with `rows`, each with metric, current_mean, baseline_mean, delta,"
                " winners, losers, unchanged, query_changes"
            )
            raise DataError(
                f"not a diff ({type(error).__name__}: {error})", file=name, allowed=allowed
            ) from error


def diff_scores(
    scores: pd.DataFrame, baseline: str, candidate: str, eps: float = 1e-9
) -> ScoreDiff:
    """Two runs of a scores frame, metric by metric.

    Parameters
    ----------
    scores
        From `rs.score`, `store.scores` or `rs.reported_scores`.
    baseline, candidate
        Run ids, or systems that only one run has.
    eps
        Differences up to this size are no change.

    Raises
    ------
    DataError
        An unknown or ambiguous run, the same run twice, a negative eps.
    """
    if not eps >= 0:
        raise DataError(f"found {eps!r}", field="eps", allowed="0 or more")
    a, b = run_names(_runs_of(scores), [baseline, candidate])
    if a == b:
        raise DataError(
            f"{a!r} is both baseline and candidate", field="candidate", allowed="two different runs"
        )
    names = metric_columns(scores)
    of_a, of_b = (
        scores.loc[scores["run_id"].astype("str") == run_id, names].astype("float64")
        for run_id in (a, b)
    )
    both = of_b.index[of_b.index.isin(of_a.index)]
    first, second = of_a.loc[both], of_b.loc[both]
    change = second - first
    return ScoreDiff(
        _metrics(of_a, of_b, first, second, change, eps), _movers(first, second, change)
    )


def flips(
    scores: pd.DataFrame,
    baseline: str,
    candidate: str,
    thresholds: dict[str, tuple[float, float]] | None = None,
) -> pd.DataFrame:
    """The queries that went from good to bad, or from bad to good.

    Parameters
    ----------
    scores
        From `rs.score`, `store.scores` or `rs.reported_scores`.
    baseline, candidate
        Run ids, or systems that only one run has.
    thresholds
        {metric: (bad, good)} beside, or instead of, those known: a value worse than `bad` is bad,
        one at least as good as `good` is good, what lies between is neither. Known are binary
        metrics (0 and 1) and judges' points (bad below 3, good from 4).

    Returns
    -------
    One row per metric and query that flipped: `metric`, `query_id`, `baseline`, `candidate` (the
    values), `kind` (regression, improvement); metrics in the order of the columns, the largest
    change first. A query that lacks a value in one of the runs has not flipped.

    Raises
    ------
    DataError
        An unknown or ambiguous run, the same run twice, a threshold for a column that isn't there.
    """
    names = [str(name) for name in metric_columns(scores)]
    given = thresholds or {}
    if unknown := sorted(set(given) - set(names)):
        raise DataError(
            f"no column {', '.join(unknown)}",
            field="thresholds",
            allowed=f"metrics of the scores: {', '.join(names)}",
        )
    limits = {name: found for name in names if (found := given.get(name) or _limits(name))}
    movers = diff_scores(
        scores.drop(columns=[name for name in names if name not in limits]), baseline, candidate
    ).movers
    kind = _kinds(movers, limits)
    return movers.drop(columns="delta").assign(kind=kind)[kind != ""].reset_index(drop=True)


def _kinds(movers: pd.DataFrame, limits: dict[str, tuple[float, float]]) -> npt.NDArray[np.str_]:
    """What each change is: regression, improvement, or neither ("")."""
    sides = pd.DataFrame(
        [
            (*pair, -1.0 if describe(name).better == "lower" else 1.0)
            for name, pair in limits.items()
        ],
        index=list(limits),
        dtype="float64",
    )
    bad, good, sign = sides.reindex(movers["metric"]).to_numpy().reshape(-1, 3).T
    before, after = (sign * movers[name].to_numpy("float64") for name in ("baseline", "candidate"))
    was_good, is_good, was_bad, is_bad = (
        before >= sign * good,
        after >= sign * good,
        before < sign * bad,
        after < sign * bad,
    )
    return np.select([was_good & is_bad, was_bad & is_good], ["regression", "improvement"], "")


def _limits(name: str) -> tuple[float, float] | None:
    """From where a value is bad and good, where that is known."""
    metric = describe(name)
    if metric.kind == "binary":
        return (0.0, 0.0) if metric.better == "lower" else (1.0, 1.0)
    return POINTS.get(name)


def _runs_of(scores: pd.DataFrame) -> pd.DataFrame:
    return scores[[name for name in ("run_id", "system") if name in scores]].drop_duplicates(
        "run_id"
    )


def _metrics(
    of_a: pd.DataFrame,
    of_b: pd.DataFrame,
    first: pd.DataFrame,
    second: pd.DataFrame,
    change: pd.DataFrame,
    eps: float,
) -> pd.DataFrame:
    paired = change.notna()
    n = paired.sum()
    alone = n == 0
    up, down = (change > eps).sum(), (change < -eps).sum()
    lower = pd.Series(
        [describe(str(name)).better == "lower" for name in change.columns],
        index=change.columns,
        dtype=bool,
    )
    columns = {
        "baseline": first.where(paired).mean().where(~alone, of_a.mean()),
        "candidate": second.where(paired).mean().where(~alone, of_b.mean()),
        "delta": change.mean(), "n": n, "winners": up.where(~lower, down),
        "losers": down.where(~lower, up), "unchanged": n - up - down,
        "n_only_baseline": of_a.notna().sum() - n, "n_only_candidate": of_b.notna().sum() - n,
    }  # fmt: skip
    return (
        pd.DataFrame(columns)
        .rename_axis("metric")
        .reset_index()
        .astype({"metric": "str"})[list(METRIC_COLUMNS)]
    )


def _movers(first: pd.DataFrame, second: pd.DataFrame, change: pd.DataFrame) -> pd.DataFrame:
    n_queries, n_metrics = change.shape
    delta = change.to_numpy().T.ravel()
    metric, query = (
        np.repeat(np.arange(n_metrics), n_queries),
        np.tile(np.arange(n_queries), n_metrics),
    )
    # Sizes that differ in their last bits only are ties: they keep the candidate's order.
    order = np.lexsort((query, -np.round(np.abs(delta), 12), metric))
    order = order[~np.isnan(delta[order])]
    texts = {
        "metric": change.columns.astype("str")[metric[order]],
        "query_id": change.index.astype("str")[query[order]],
    }
    numbers = {
        name: frame.to_numpy().T.ravel()[order]
        for name, frame in (("baseline", first), ("candidate", second))
    }
    return pd.DataFrame({**texts, **numbers, "delta": delta[order]})


def _json_row(row: dict[str, Any], movers: pd.DataFrame | None) -> dict[str, Any]:
    numbers = {
        key: row[name]
        for key, name in (
            ("current_mean", "candidate"),
            ("baseline_mean", "baseline"),
            ("delta", "delta"),
        )
    }
    counts = {
        name: int(row[name])
        for name in ("winners", "losers", "unchanged", "n_only_baseline", "n_only_candidate")
    }
    moved = (
        []
        if movers is None
        else movers[["query_id", "candidate", "baseline", "delta"]]
        .rename(columns={"candidate": "current"})
        .to_dict("records")
    )
    return {"metric": row["metric"], **numbers, **counts, "query_changes": moved}


def _metric_row(row: dict[str, Any]) -> dict[str, Any]:
    counts = {name: row[name] for name in ("winners", "losers", "unchanged")}
    alone = {name: row.get(name, 0) for name in ("n_only_baseline", "n_only_candidate")}
    means = {
        "baseline": row["baseline_mean"],
        "candidate": row["current_mean"],
        "delta": row["delta"],
    }
    return {"metric": row["metric"], **means, "n": sum(counts.values()), **counts, **alone}


def _typed(
    frame: pd.DataFrame, texts: tuple[str, ...], counts: tuple[str, ...] = ()
) -> pd.DataFrame:
    kinds = (
        dict.fromkeys(frame.columns, "float64")
        | dict.fromkeys(counts, "int64")
        | dict.fromkeys(texts, "str")
    )
    return frame.astype(kinds)


LARGEST = 3  # moves of each direction that are kept


def answer_flips(scores: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """Questions at which a 0/1 answer metric, or a judge's points, went from good to bad or back.

    Those of hits are the outcomes of a comparison.

    Returns
    -------
    One row per metric and question: `metric`, `query_id`, values `a` and `b`, `kind` (regression,
    improvement); see `rs.flips` for the limits.
    """
    chosen = [name for name in metric_columns(scores) if not _is_ranking(name)]
    found = flips(scores[["run_id", *chosen]], a, b)
    return found.rename(columns={"baseline": "a", "candidate": "b"})


def largest_moves(scores: pd.DataFrame, a: str, b: str) -> pd.DataFrame:
    """The three questions that lost most and the three that gained most, for every metric of more than two values.

    Returns
    -------
    One row per metric and question, the largest |delta| of a metric first: `metric`, `query_id`,
    values `a` and `b`, `delta` = b − a, `kind` (regression, improvement, as the metric counts
    better). A 0/1 metric has no largest move: all are 1.
    """
    chosen = [name for name in metric_columns(scores) if describe(name).kind != "binary"]
    moved = diff_scores(scores[["run_id", *chosen]], a, b).movers.rename(
        columns={"baseline": "a", "candidate": "b"}
    )
    moved = moved[(moved["delta"].abs() > 1e-9).to_numpy()]
    lower = (
        moved["metric"]
        .map({name: describe(name).better == "lower" for name in chosen})
        .to_numpy(dtype=bool)
    )
    moved = moved.assign(
        kind=pd.array(
            np.where((moved["delta"] > 0) == lower, "regression", "improvement"), dtype="str"
        )
    )
    return moved[(moved.groupby(["metric", "kind"]).cumcount() < LARGEST).to_numpy()].reset_index(
        drop=True
    )


def _is_ranking(name: str) -> bool:
    return describe(name).formula != "a column of your own" and parse_label(name).is_ranking
