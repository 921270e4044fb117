"""Many runs side by side.

In: a frame of scores. Out: a `Leaderboard` with means and intervals, the best run of each metric
and those that show no sure difference from it, or each run against a baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align, clusters_text, expected_in
from ragscore.analysis.comparison.deltas import FIGURES, figures, level_together, verdicts
from ragscore.analysis.comparison.text import few_names, in_words
from ragscore.analysis.result_forms import JsonResult
from ragscore.frames.data import DataError, Golden
from ragscore.frames.errors import excerpt, nearest, plural
from ragscore.frames.tables import SHOWN_ROWS, SIGNS, Display, Table, shown_intervals
from ragscore.frames.typing import Codes, Values
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import (
    intervals,
    quantile_intervals,
    query_clusters,
    shared_only,
)
from ragscore.scoring.metrics import TABLE, Metric, MetricTable
from ragscore.scoring.provenance import check_provenance, judges_of_scores
from ragscore.scoring.rows import Rows
from ragscore.stats.multiple import ALPHA
from ragscore.stats.verdicts import UNSURE

COLUMNS = [
    "metric", "run_id", "rank", "statistic", "value", "low", "high", "n",
    "n_expected", "n_left_out", "mark",
]  # fmt: skip
PAIRS = ["metric", "run_baseline", "run_candidate", *FIGURES, "detectable", "n", "verdict"]
BEST, TIED = "★", "≈"
NARROW = "\u00a0"  # a heading breaks elsewhere
BLANK = "\u2007"  # as wide as a mark, about
DTYPES = dict.fromkeys(["metric", "run_baseline", "run_candidate"], "str")


@dataclass(frozen=True, repr=False)  # else the generated one replaces Display's
class Leaderboard(JsonResult, Display):
    """Runs × metrics, on the queries for which every run has a value.

    Attributes
    ----------
    table
        One row per metric and run. `rank`: 1 is best; `value`, the mean (of times and costs the
        median: `statistic`) with its 95 % interval `low`, `high`; `n` of `n_expected` queries,
        `n_left_out` without a value in every run. `mark`, without a baseline: ★ the best value, ≈
        no sure difference from it.
    pairs
        One row per metric and pair of runs, with a baseline its pairs: `baseline` and `candidate`,
        their values; `delta` = candidate − baseline with its interval `low`, `high`; `detectable`,
        `n`, and the `verdict` of the metrics that are asked about. Their intervals hold together
        in 95 % of cases.
    """

    plot = Accessor("ragscore.plot.accessor:LEADERBOARD")

    _metrics: list[str]
    _run_ids: list[str]
    _baseline: str | None
    table: pd.DataFrame
    pairs: pd.DataFrame
    _primary: list[str]
    _confidence: float
    _declared: MetricTable = TABLE
    # one row per query and run: the values that all of this is made of
    _aligned: pd.DataFrame = field(default_factory=pd.DataFrame)
    _clusters: str = ""

    def matrix(self, metric: str) -> pd.DataFrame:
        """Return the values of a metric: one row per query, one column per run, best first."""
        if metric not in self._metrics:
            raise DataError(
                f"no metric {excerpt(metric)}", field="metric",
                allowed=nearest(metric, self._metrics),
            )  # fmt: skip
        values = self._aligned.pivot(index="query_id", columns="run_id", values=metric).dropna()
        return values[[run_id for run_id in self._run_ids if run_id in values]]

    def _ranked(self, limit: int = SHOWN_ROWS) -> Table:
        """Return runs × metrics as text, with marks: the first with its interval, others without.

        So every metric fits a line. Marks are ★ and ≈, or signs of the words with a baseline.
        """
        columns: dict[str, list[str]] = {"run": self._run_ids}
        keys = self.table[["metric", "run_id"]].itertuples(index=False, name=None)
        row_of = dict(zip(keys, range(len(self.table)), strict=True))
        for place, metric in enumerate(self._metrics):
            rows = self.table.iloc[[row_of[metric, run_id] for run_id in self._run_ids]]
            cells = shown_intervals(rows[["value", "low", "high"]])
            name = in_words(metric)
            if place:
                cells = [text.partition(" ")[0] for text in cells]
            elif rows["low"].notna().any():
                name += f" [95{NARROW}%]"
            if len(counts := rows[["n", "n_expected"]].dropna()):
                n, few, most = counts["n"].iloc[0], *counts["n_expected"].agg(["min", "max"])
                of = (
                    "" if n == few == most else f"\u00a0/\u00a0{few}" + f" to {most}" * (few < most)
                )
                name += f", n\u00a0=\u00a0{n}{of}"
            signs = self._signs(metric)
            # a cell without a mark has its room, so that numbers are aligned
            columns[name] = [
                f"{cell} {sign or BLANK}" if any(signs) else cell
                for cell, sign in zip(cells, signs, strict=True)
            ]
        return Table(pd.DataFrame(columns), limit=limit, way=".table")

    def _headline(self) -> str:
        """Return in a sentence which run is best by the first metric, and if that is sure."""
        metric, first = in_words(self._metrics[0]), self._signs(self._metrics[0])
        of = {sign: [run for run, one in zip(self._run_ids, first, strict=True) if one == sign]
              for sign in first}  # fmt: skip
        if self._baseline is not None:
            parts = [f"{few_names(of[SIGNS[word]])} {word}" for word in ("better", "worse", UNSURE)
                    if SIGNS[word] in of]  # fmt: skip
            return f"Against {self._baseline} by {metric}: {'; '.join(parts)}"
        if BEST not in of:
            several = f"{plural(len(self._run_ids), 'run')} by {metric}"
            return several if self._run_ids[1:] else f"{self._run_ids[0]}, no run to compare with"
        tied = f", but not surely better than {few_names(of[TIED])}" if TIED in of else ", surely"
        return f"{of[BEST][0]} is best by {metric}{tied}"

    def _signs(self, metric: str) -> list[str]:
        """Return the mark of each run in a metric; with a baseline the sign of its word."""
        key, name = ("run_id", "mark") if self._baseline is None else ("run_candidate", "verdict")
        rows = self.table if self._baseline is None else self.pairs
        verdicts = zip(rows["metric"], rows[key], rows[name].fillna(""), strict=True)
        signs = {run: SIGNS.get(word, word) for own, run, word in verdicts if own == metric}
        return [signs.get(run, "") for run in self._run_ids]

    def notes(self) -> list[str]:
        """Return what a reader must know beside the tables."""
        notes, n_asked = [], int(self.pairs["verdict"].notna().sum())
        level = f"all {n_asked} differences together, 95 %" if n_asked > 1 else "95 %"
        if self._baseline and n_asked:
            signs = ", ".join(f"{SIGNS[word]} {word}" for word in ("better", "worse", UNSURE))
            notes.append(f"Against {self._baseline}: {signs} ({level}).")
        elif self.table["mark"].eq(BEST).any():
            notes.append(f"{BEST} best; {TIED} no sure difference from it ({level}).")
        n = self.table.groupby("metric", sort=False)["n_left_out"].max()
        if left_out := [f"{own} of {name}" for name, own in n[n > 0].items()]:
            notes.append(f"Queries without a value in every run: {few_names(left_out, 5)}.")
        return [*notes, *filter(None, [self._clusters])]

    def _parts(self) -> list[str | Table]:
        runs = [one for one in self._run_ids if one != self._baseline]
        columns: dict[str, list[str]] = {"run": runs}
        for metric in self._metrics if self._baseline and runs else ():
            rows = self.pairs[(self.pairs["metric"] == metric).to_numpy()]
            rows = rows.set_index("run_candidate").reindex(runs)
            texts = shown_intervals(rows[["delta", "low", "high"]], signed=True)
            cells = zip(texts, rows["verdict"].astype("object").fillna(""), strict=True)
            columns[in_words(metric)] = [f"{text} {word}".rstrip() for text, word in cells]
        # difference, interval and word of each candidate
        against = Table(
            pd.DataFrame(columns), f"Against {self._baseline}", [*columns], SHOWN_ROWS, ".pairs"
        )
        return [
            "Leaderboard", self._ranked(), *[against] * (len(columns) > 1), *self.notes()
        ]  # fmt: skip


def leaderboard(
    scores: pd.DataFrame,
    metrics: list[str] | str | None = None,
    *,
    baseline: str | None = None,
    primary: Sequence[str] | None = None,
    runs: list[str] | None = None,
    golden: Golden | None = None,
    rows: Rows | None = None,
    cluster: str | None = "group",
    declared: MetricTable = TABLE,
) -> Leaderboard:
    """Rank runs by every metric; see `Evaluation.leaderboard`.

    Each metric is compared on the queries for which all runs have a value; the others are counted.

    Parameters
    ----------
    primary
        The metrics that are asked about; by default all. Of none, no pair is compared.
    rows
        With them `n_expected` also counts what was refused, not judged or not recorded.
    """
    aligned = align(scores, metrics, runs, declared)
    if rows is not None:
        judges = judges_of_scores(rows.results)  # different ones are warned of
        parts = {name: {"judge_fingerprint": judges.get(name, {})} for name in aligned.run_ids}
        check_provenance(parts, aligned.metrics, True)
    if not (aligned.run_ids and aligned.metrics):
        raise DataError("found none", field="runs", allowed="at least one run with scores")
    base = None if baseline is None else align(scores, aligned.metrics[0], [baseline]).run_ids[0]
    if base is not None and base not in aligned.run_ids:
        raise DataError(
            f"{base!r} is not among the runs", field="baseline",
            allowed=nearest(base, aligned.run_ids),
        )  # fmt: skip
    groups = query_clusters(golden, aligned.query_ids, cluster)
    asked = [one for one in aligned.metrics if primary is None or one in primary]
    table = _rows_of(aligned, groups)
    # metrics × runs, as the rows are
    expected = expected_in(aligned, scores, rows).sum(axis=0).T.ravel()
    pairs, level = pd.DataFrame(columns=PAIRS), ALPHA
    if asked:
        pairs, level = _pairs_of(aligned.only(asked), base, groups)
    marks = _marks(table, pairs) if base is None else [None] * len(table)
    table = table.assign(n_expected=expected, mark=pd.array(marks, dtype="str"))
    table = table[COLUMNS].astype(dict.fromkeys(["rank", "n", "n_expected"], "Int64"))
    first = table.set_index("metric").loc[[aligned.metrics[0]]].sort_values("rank", kind="stable")
    return Leaderboard(
        list(aligned.metrics), first["run_id"].tolist(), base, table, pairs, asked, 1 - level,
        aligned.declared, aligned.rows(),
        clusters_text(golden, aligned.query_ids, cluster, talks=True),
    )  # fmt: skip


def level_of_all(aligned: AlignedScores, baseline: str | None, groups: Codes | None) -> float:
    """Return the level of each interval at which all pairs' and metrics' hold together."""
    return level_together(*_stacked(aligned, baseline), groups)


def _stacked(aligned: AlignedScores, baseline: str | None) -> tuple[Values, Values, list[Metric]]:
    """Return the values of both runs of each metric and pair, one column each, and its metric.

    NaN where a run has none.
    """
    values = aligned.values.transpose(0, 2, 1)  # queries × metrics × runs
    values = np.where(np.isnan(values).any(axis=2, keepdims=True), np.nan, values)
    pairs = _pairs(aligned.run_ids, baseline)
    n_columns = values.shape[1] * len(pairs[0])
    first, second = (values[:, :, side].reshape(len(values), n_columns) for side in pairs)
    return first, second, [one for one in aligned.described() for _ in pairs[0]]


def _pairs(run_ids: list[str], baseline: str | None) -> tuple[Codes, Codes]:
    """Return the places of both runs of each pair, in the order of names."""
    order = np.argsort(np.array(run_ids, dtype="U"), kind="stable")
    first, second = (order[side] for side in np.triu_indices(len(run_ids), 1))
    if baseline is None:
        return first, second
    base = run_ids.index(baseline)
    others = order[order != base]
    return np.full(len(others), base), others


def _rows_of(aligned: AlignedScores, groups: Codes | None) -> pd.DataFrame:
    """Return the rows of all metrics and runs: what each is, and its rank."""
    parts = []
    for name, metric in zip(aligned.metrics, aligned.described(), strict=True):
        every = aligned.of(name)
        shared = ~np.isnan(every).any(axis=1)
        values, of_runs = every[shared], [metric] * every.shape[1]
        is_timed, value = metric.is_timed, np.full(len(of_runs), np.nan)
        if len(values):
            value = np.asarray((np.median if is_timed else np.mean)(values, axis=0))
        own = None if is_timed or groups is None else shared_only(groups[shared])
        low, high = (
            quantile_intervals(values, of_runs, 0.5)
            if is_timed
            else intervals(values, of_runs, own)
        )
        rank = pd.Series(value).rank(ascending=metric.better == "lower", method="min")
        n_any = int((~np.isnan(every)).any(axis=1).sum())
        parts.append(
            pd.DataFrame(
                {
                    "metric": name, "run_id": aligned.run_ids, "rank": rank,
                    "statistic": "median" if is_timed else "mean", "value": value, "low": low,
                    "high": high, "n": len(values), "n_left_out": n_any - len(values),
                }
            )
        )  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def _pairs_of(
    aligned: AlignedScores, baseline: str | None, groups: Codes | None
) -> tuple[pd.DataFrame, float]:
    """Return the pairs of all metrics, and the level at which their intervals hold together."""
    first, second, metrics = _stacked(aligned, baseline)
    runs = np.array(aligned.run_ids, dtype=object)
    a, b = (runs[side] for side in _pairs(aligned.run_ids, baseline))
    level = level_together(first, second, metrics, groups)
    found = figures(first, second, metrics, np.full(len(metrics), level), groups)
    n, times = (~np.isnan(first)).sum(axis=0), len(aligned.metrics)
    table = pd.DataFrame(
        {
            "metric": np.repeat(np.array(aligned.metrics, dtype=object), len(a)),
            "run_baseline": np.tile(a, times), "run_candidate": np.tile(b, times),
            **found, "n": n, "verdict": verdicts(found, metrics, n > 0),
        }
    )  # fmt: skip
    return table[PAIRS].astype(DTYPES), level


def _marks(table: pd.DataFrame, pairs: pd.DataFrame) -> list[str | None]:
    """Return ★ for the best run of a metric, ≈ for those without a sure difference from it."""
    names = ["metric", "run_baseline", "run_candidate", "verdict"]
    decided = pairs.loc[pairs["verdict"].notna().to_numpy(), names].to_numpy().tolist()
    asked = {metric for metric, *_ in decided}
    unsure = {(metric, frozenset(runs)) for metric, *runs, word in decided if word == UNSURE}
    ranks = list(zip(table["metric"], table["run_id"], table["rank"], strict=True))
    # of equal ones the first, as the last that is written
    best = {metric: run for metric, run, rank in ranks[::-1] if rank == 1 and metric in asked}
    return [
        BEST
        if run == best.get(metric)
        else TIED
        if (metric, frozenset([best.get(metric), run])) in unsure
        else None
        for metric, run, _ in ranks
    ]


def pareto_front(x: pd.Series, y: pd.Series, better_x: str, better_y: str) -> list[str]:
    """Return the runs that no other run beats, from left to right; x and y are indexed by run."""
    signs = [-1 if better == "lower" else 1 for better in (better_x, better_y)]
    gains = np.column_stack([x, y]) * signs
    own = gains[:, None]  # each run beside all
    is_beaten = np.any((own <= gains).all(axis=2) & (own < gains).any(axis=2), axis=1)
    return x[~is_beaten].sort_values(kind="stable").index.tolist()
