"""Two runs compared on their scores alone, and the queries that changed most.

In: a frame of scores, or the values that a report stored (`reported_scores`); no hits and no golden
set are needed. Out: `ScoreDiff`, queries that went from good to bad or back, and the largest
changes.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.deltas import SAME, paired_means
from ragscore.analysis.comparison.invariants import check_fingerprints, check_judges
from ragscore.analysis.reported import FINGERPRINT, reported_scores
from ragscore.analysis.result_forms import FramesResult
from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Results, records_of, run_names
from ragscore.frames.errors import check_known
from ragscore.frames.escaping import json_text
from ragscore.frames.render import decimals_beside, shown_number
from ragscore.frames.typing import Flags
from ragscore.scoring.intervals import scales_of
from ragscore.scoring.limits import check_limits, limits_of
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, Metric
from ragscore.scoring.value_states import metric_columns

METRIC_DTYPES = {
    "metric": "str",
    "baseline": "float64",
    "candidate": "float64",
    "delta": "float64",
    "n": "int64",
    "n_better": "int64",
    "n_worse": "int64",
    "n_same": "int64",
    "n_only_baseline": "int64",
    "n_only_candidate": "int64",
}
# the words of the JSON, which another harness reads too -> ours
JSON_COUNTS = {"winners": "n_better", "losers": "n_worse", "unchanged": "n_same"}
LARGEST = 3  # queries that are listed in each direction


@dataclass(frozen=True, repr=False)  # else the generated one replaces FramesResult's
class ScoreDiff(FramesResult):
    """The candidate's scores against the baseline's.

    Attributes
    ----------
    metrics
        One row per metric: means `baseline` and `candidate` over the `n` queries where both have a
        value, `delta` = candidate − baseline; `n_better` queries (as the metric counts better),
        `n_worse`, `n_same` (but for rounding); `n_only_baseline`, `n_only_candidate` queries where
        only one side has a value. Where n is 0, `delta` is NaN and each mean is over that
        side's own queries.
    largest_changes
        One row per metric and query that both have: `baseline`, `candidate`, `delta`; the largest
        change first, equal ones by id.
    """

    FRAMES = ("metrics", "largest_changes")
    METHODS = ("flips", "to_json")

    metrics: pd.DataFrame
    largest_changes: pd.DataFrame
    declared: Declarations = NOTHING_DECLARED

    def _heading(self) -> str:
        return "The candidate's scores against the baseline's, metric by metric"

    def _shown(self) -> pd.DataFrame:
        """Return the metrics in which some query moved, with the largest change of each."""
        rows = self.metrics[(self.metrics["n_better"] + self.metrics["n_worse"] > 0).to_numpy()]
        first = self.largest_changes.drop_duplicates("metric").set_index("metric")["query_id"]
        counts = zip(rows["n_better"], rows["n_worse"], rows["n_same"], strict=True)
        places = [decimals_beside(change, 0.0, change > SAME, 3) for change in rows["delta"].abs()]
        return pd.DataFrame(
            {
                "metric": rows["metric"],
                **{
                    name: [
                        shown_number(value, digits, signed=name == "delta")
                        for value, digits in zip(rows[name], places, strict=True)
                    ]
                    for name in ("baseline", "candidate", "delta")
                },
                "better / worse / same": [f"{b} / {w} / {s}" for b, w, s in counts],
                "n": rows["n"],
                "largest change": rows["metric"].astype("str").map(first),
            }
        )

    def flips(self, thresholds: dict[str, tuple[float, float]] | None = None) -> pd.DataFrame:
        """One row per metric and query that went from good to bad, or from bad to good.

        Parameters
        ----------
        thresholds
            {metric: (bad, good)} beside, or instead of, those known: a value worse than `bad` is
            bad, one at least as good as `good` is good, what lies between is neither. Known are
            binary metrics (0 and 1), and what judges measure by its scale: bad below .6 and good
            from .8 of it, in whole points (0 to 5: 3 and 4; 0 to 4: 2 and 3; 1 to 5: 3 and 4).
            Columns of your own with a declared direction and range go by theirs.

        Returns
        -------
        `metric`, `query_id`, `baseline`, `candidate` (the values), `kind` (regression,
        improvement), and the limits `bad`, `good`; the largest change of a metric first. A query
        that lacks a value in one of the runs has not flipped.

        Raises
        ------
        DataError
            A threshold for a metric that isn't there, or that isn't (bad, good).
        """
        names = [str(name) for name in self.metrics["metric"]]
        given = check_limits(thresholds, self.declared)
        check_known(given, names, "thresholds", "column", "scores has")
        known = {name: given.get(name) or limits_of(name, self.declared) for name in names}
        limits = {name: found for name, found in known.items() if found}
        changes = self.largest_changes
        changes = changes[changes["metric"].isin(list(limits)).to_numpy()]
        sides = pd.DataFrame(list(limits.values()), index=list(limits), columns=["bad", "good"])
        bad, good = sides.astype("float64").reindex(changes["metric"]).to_numpy().reshape(-1, 2).T
        sign = np.where(_is_lower(changes, self.declared), -1.0, 1.0)
        before, after = sign * changes["baseline"], sign * changes["candidate"]
        is_regression = (before >= sign * good) & (after < sign * bad)
        is_improvement = (before < sign * bad) & (after >= sign * good)
        kind = np.select([is_regression, is_improvement], ["regression", "improvement"], "")
        rows = changes.drop(columns="delta").assign(kind=kind, bad=bad, good=good)
        return rows[kind != ""].reset_index(drop=True)

    def to_json(self) -> str:
        """Return the diff as JSON, NaN as null.

        `rows` with a metric, its means (baseline, current), delta, counts and `query_changes`.
        """
        changes = self.largest_changes.rename(columns={"candidate": "current"})
        by_metric = dict(iter(changes.groupby("metric", sort=False)))
        rows = [_json_row(row, by_metric.get(row["metric"])) for row in records_of(self.metrics)]
        return json_text({"rows": rows})

    @classmethod
    def from_json(cls, source: str | Path) -> "ScoreDiff":
        """Read a diff from its JSON, given as text or as the path of a file.

        Raises
        ------
        DataError
            Not a diff: no `rows`, a row without a metric, a value that is neither a number nor
            null.
        """
        is_text = isinstance(source, str) and source.lstrip().startswith("{")
        try:
            text = str(source) if is_text else Path(source).read_text(encoding="utf-8")
            rows = json.loads(text)["rows"]
            metrics = pd.DataFrame([_metric_row(row) for row in rows], columns=list(METRIC_DTYPES))
            changes = pd.DataFrame(
                [{"metric": row["metric"], **one} for row in rows for one in row["query_changes"]],
                columns=["metric", "query_id", "baseline", "current", "delta"],
            ).rename(columns={"current": "candidate"})
            dtypes = dict.fromkeys(changes, "float64") | {"metric": "str", "query_id": "str"}
            return cls(metrics.astype(METRIC_DTYPES), changes.astype(dtypes))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"not a diff ({type(error).__name__}: {error})",
                file=None if is_text else Path(source),
                allowed=(
                    "an object with `rows`, each with metric, current_mean, baseline_mean, delta,"
                    " winners, losers, unchanged, query_changes"
                ),
            ) from error


def diff_scores(
    scores: pd.DataFrame,
    baseline: str,
    candidate: str,
    *,
    results: Results | None = None,
    allow_different: bool | str | list[str] = False,
    declared: Declarations = NOTHING_DECLARED,
) -> ScoreDiff:
    """Compare two runs of a scores frame, metric by metric.

    Parameters
    ----------
    scores
        From `rs.score`, `store.scores` or `results.reported_scores()`.
    baseline, candidate
        Run ids, or systems that only one run has.
    results
        The results behind the scores, which tell who judged. Reported scores tell it themselves
        (column `judge_fingerprint`).
    allow_different
        True or "judge_fingerprint": go on where the judges of both runs differ.
    declared
        What is declared of columns of your own.

    Raises
    ------
    DataError
        An unknown or ambiguous run, the same run twice; different judges.

    Warns
    -----
    UserWarning
        Judges differ and that is allowed, or only one run states its judges.
    """
    runs = scores[[name for name in ("run_id", "system") if name in scores]]
    a, b = run_names(runs.drop_duplicates("run_id"), [baseline, candidate])
    if a == b:
        raise DataError(
            f"{a!r} is both baseline and candidate", field="candidate", allowed="two different runs"
        )
    metrics, first, second = _sides(scores, a, b, declared)
    if FINGERPRINT in scores:
        told = {
            run_id: str(scores.loc[(scores["run_id"] == run_id).to_numpy(), FINGERPRINT].iloc[0])
            for run_id in (a, b)
        }
        check_fingerprints(told, allow_different)
    if results is not None:
        shared = metrics.loc[(metrics["n"] > 0).to_numpy(), "metric"].tolist()
        check_judges(results, a, b, shared, allow_different)
    return ScoreDiff(metrics, _changes(first, second, declared), declared)


def _sides(
    scores: pd.DataFrame, a: str, b: str, declared: Declarations
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return `ScoreDiff.metrics`, and both runs' values of the queries that both have."""
    names = metric_columns(scores)
    of_a, of_b = (_of_run(scores, run_id, names) for run_id in (a, b))
    first, second = _shared(of_a, of_b)
    described = [declared.describe(name) for name in names]
    means = paired_means(
        first, second, SAME * np.fmin(scales_of(described), 1.0), described
    ).set_index("metric")
    is_empty = means["n"] == 0
    metrics = pd.DataFrame(
        {
            "baseline": means["baseline"].where(~is_empty, of_a.mean()),
            "candidate": means["candidate"].where(~is_empty, of_b.mean()),
            "delta": means["delta"],
            "n": means["n"],
            **means[["n_better", "n_worse", "n_same"]],
            "n_only_baseline": of_a.notna().sum() - means["n"],
            "n_only_candidate": of_b.notna().sum() - means["n"],
        },
        index=names,
    )
    metrics = metrics.rename_axis("metric").reset_index().astype(METRIC_DTYPES)
    return metrics, first, second


def _of_run(scores: pd.DataFrame, run_id: str, names: list[str]) -> pd.DataFrame:
    """Return a run's values by id: neither means nor ties depend on the order of rows."""
    return scores.loc[(scores["run_id"] == run_id).to_numpy(), names].astype("float64").sort_index()


def _shared(of_a: pd.DataFrame, of_b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return both runs' values of the queries that both have."""
    if of_a.index.equals(of_b.index):
        return of_a, of_b
    both = of_b.index[is_among(of_b.index, of_a.index)]
    return of_a.loc[both], of_b.loc[both]


def diff_reported(
    results: Results,
    baseline: str,
    candidate: str,
    *,
    allow_different: bool | str | list[str] = False,
) -> ScoreDiff:
    """Compare what two reports say of their queries, metric by metric: a `ScoreDiff`.

    Neither hits nor a golden set are needed. Reports of different judges are not subtracted unless
    told to.

    Parameters
    ----------
    baseline, candidate
        Run ids, or systems that only one run has.
    allow_different
        True or "judge_fingerprint": go on where the judges differ.

    Raises
    ------
    DataError
        No reported values; unknown or equal runs; different judges.

    Warns
    -----
    UserWarning
        Judges differ and that is allowed, or only one report states its judges.

    Examples
    --------
    >>> from dataclasses import replace
    >>> values = results.responses[["run_id", "query_id"]].assign(metric="mrr", value=1.0)
    >>> replace(results, reported=values).score_diff("dense", "hybrid")
    """
    a, b = run_names(results.runs, [baseline, candidate])
    return diff_scores(reported_scores(results), a, b, allow_different=allow_different)


def _changes(first: pd.DataFrame, second: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """One row per metric and query with both values, the largest change of a metric first."""
    before, after = (side.to_numpy().ravel(order="F") for side in (first, second))
    delta = after - before
    known = np.flatnonzero(~np.isnan(delta))
    metric, query = np.divmod(known, max(len(first), 1))
    # Sizes that differ in their last bits only are ties: they keep the order of ids.
    scales = scales_of(declared.describe(name) for name in first.columns)
    by_size = np.lexsort((-np.round(np.abs(delta[known]) / scales[metric], 12), metric))
    metric, query, order = metric[by_size], query[by_size], known[by_size]
    return pd.DataFrame(
        {
            "metric": first.columns.astype("str")[metric],
            "query_id": first.index.astype("str")[query],
            "baseline": before[order],
            "candidate": after[order],
            "delta": delta[order],
        }
    )


def answer_flips(
    scores: pd.DataFrame, a: str, b: str, declared: Declarations = NOTHING_DECLARED
) -> pd.DataFrame:
    """One row per answer metric and query that went from good to bad, or from bad to good.

    Ranking metrics are left out: the outcomes of a comparison show how their hits changed.

    Returns
    -------
    `metric`, `query_id`, values `baseline` and `candidate`, `kind` (regression, improvement), and
    the limits `bad` and `good`; see `ScoreDiff.flips`.
    """
    chosen = [name for name in metric_columns(scores) if not declared.label_of(name).is_ranking]
    metrics, first, second = _sides(scores[["run_id", *chosen]], a, b, declared)
    has_moved = (first != second).to_numpy()
    return ScoreDiff(metrics, _changes(first, second.where(has_moved), declared), declared).flips()


def largest_changes(scores: pd.DataFrame, a: str, b: str, declared: Declarations) -> pd.DataFrame:
    """The three queries that lost most and the three that gained most in each metric.

    Binary metrics are left out: all their changes have the size 1.

    Returns
    -------
    One row per metric and query, the largest change of a metric first: `metric`, `query_id`,
    values `baseline` and `candidate`, `delta` = candidate − baseline, `kind` (regression,
    improvement, as the metric counts better).
    """
    chosen = [name for name in metric_columns(scores) if declared.describe(name).kind != "binary"]
    first, second = _shared(*(_of_run(scores, run_id, chosen) for run_id in (a, b)))
    metrics = [declared.describe(name) for name in chosen]
    changes = _changes(first, second.where(_are_largest(first, second, metrics)), declared)
    rounding = {name: one.rounding for name, one in zip(chosen, metrics, strict=True)}
    least = changes["metric"].map(rounding).astype("float64")
    changes = changes[(changes["delta"].abs() > least).to_numpy()]
    is_worse = (changes["delta"] > 0).to_numpy() == _is_lower(changes, declared)
    kind = pd.array(np.where(is_worse, "regression", "improvement"), dtype="str")
    changes = changes.assign(kind=kind)
    is_large = changes.groupby(["metric", "kind"]).cumcount() < LARGEST
    return changes[is_large.to_numpy()].reset_index(drop=True)


def _are_largest(first: pd.DataFrame, second: pd.DataFrame, metrics: list[Metric]) -> Flags:
    """Flag the values that are among the largest changes of their column, upwards or downwards."""
    delta = second.to_numpy("float64") - first.to_numpy("float64")
    size = np.round(np.abs(delta) / scales_of(metrics), 12)  # as `_changes` orders them
    found = np.zeros(delta.shape, dtype=bool)
    for is_way in (delta > 0, delta < 0):
        own = np.where(is_way, size, -1.0)
        least = own.max(axis=0, initial=-1.0)
        # of most metrics many changes are as large as the largest
        few = (own >= least).sum(axis=0) < min(LARGEST, len(own))
        if len(own) > LARGEST:
            least[few] = np.partition(own[:, few], -LARGEST, axis=0)[-LARGEST]
        else:
            least[few] = -1.0
        found |= is_way & (own >= least)
    return found


def _is_lower(changes: pd.DataFrame, declared: Declarations) -> npt.NDArray[np.bool_]:
    """Flag the rows whose metric is better when lower."""
    names = changes["metric"].unique()
    lower = [name for name in names if declared.describe(name).better == "lower"]
    return changes["metric"].isin(lower).to_numpy()


def _json_row(row: dict[str, Any], changes: pd.DataFrame | None) -> dict[str, Any]:
    only = ("n_only_baseline", "n_only_candidate")
    columns = ["query_id", "current", "baseline", "delta"]
    return {
        "metric": row["metric"],
        "current_mean": row["candidate"],
        "baseline_mean": row["baseline"],
        "delta": row["delta"],
        **{theirs: int(row[ours]) for theirs, ours in JSON_COUNTS.items()},
        **{name: int(row[name]) for name in only},
        "query_changes": [] if changes is None else changes[columns].to_dict("records"),
    }


def _metric_row(row: dict[str, Any]) -> dict[str, Any]:
    counts = {ours: row[theirs] for theirs, ours in JSON_COUNTS.items()}
    return {
        "metric": row["metric"],
        "baseline": row["baseline_mean"],
        "candidate": row["current_mean"],
        "delta": row["delta"],
        "n": sum(counts.values()),
        **counts,
        "n_only_baseline": row.get("n_only_baseline", 0),
        "n_only_candidate": row.get("n_only_candidate", 0),
    }
