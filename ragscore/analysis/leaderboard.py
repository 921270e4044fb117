"""Many runs side by side.

In: a frame of scores. Out: a `Leaderboard` with means and intervals, the best run of each metric
and those that show no sure difference from it, or each run against a baseline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align, expected_in
from ragscore.analysis.comparison.deltas import FIGURES, figures, level_together, verdicts
from ragscore.analysis.comparison.text import few_names, in_words
from ragscore.analysis.reported import refuse_without_rows, reported_summary
from ragscore.analysis.result_forms import JsonResult, TableResult
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import excerpt, names_of, nearest, plural
from ragscore.frames.render import decimals_within, shown_interval
from ragscore.frames.tables import SHOWN_ROWS, SIGNS, Table
from ragscore.frames.typing import Flags, Values
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import (
    Groups,
    are_timed,
    clusters_text,
    intervals,
    quantile_intervals,
    query_clusters,
    shared_only,
)
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, headline_of
from ragscore.scoring.provenance import check_provenance, judges_by_criterion
from ragscore.stats.multiple import ALPHA
from ragscore.stats.verdicts import UNSURE

COLUMNS = [
    "metric", "run_id", "is_reported", "rank", "statistic", "value", "low", "high", "n",
    "n_expected", "n_left_out", "mark",
]  # fmt: skip
PAIRS = ["metric", "run_baseline", "run_candidate", *FIGURES, "detectable", "n", "verdict"]
BEST, TIED = "★", "≈"
NARROW = "\u00a0"  # a heading breaks elsewhere
BLANK = "\u2007"  # as wide as a mark, about
CELLS = 2_000_000  # values of differences held at a time


@dataclass(frozen=True, repr=False)  # else the generated one replaces TableResult's
class Leaderboard(JsonResult, TableResult):
    """Runs × metrics, on the queries for which every run has a value.

    Attributes
    ----------
    table
        One row per metric and run. `rank`: 1 is best; `value`, the mean (of times and costs the
        median: `statistic`) with its 95 % interval `low`, `high`; `n` of `n_expected` queries,
        `n_left_out` without a value in every run. `mark`, without a baseline: ★ the best value, ≈
        no sure difference from it. `is_reported`: the run has no rows, and its value is what it
        reports.
    pairs
        One row per metric and pair of runs, with a baseline its pairs: `baseline` and `candidate`,
        their values; `delta` = candidate − baseline with its interval `low`, `high`; `detectable`,
        `n`, and the `verdict` of the metrics that are asked about. Their intervals hold together
        in 95 % of cases.
    run_ids
        The runs, best first by the first metric; below them those that only report means.
    primary
        The metrics that are asked about.
    confidence
        Of each interval of `pairs`.
    aligned
        One row per query and run: the values that all of this is made of.
    """

    plot = Accessor("ragscore.plot.accessor:LEADERBOARD")

    metrics: list[str]
    run_ids: list[str]
    baseline: str | None
    table: pd.DataFrame
    pairs: pd.DataFrame
    primary: list[str]
    confidence: float
    declared: Declarations = NOTHING_DECLARED
    aligned: pd.DataFrame = field(default_factory=pd.DataFrame)
    clusters: str = ""

    def matrix(self, metric: str) -> pd.DataFrame:
        """Return the values of a metric: one row per query, one column per run, best first."""
        if metric not in self.metrics:
            allowed = nearest(metric, self.metrics)
            raise DataError(f"no metric {excerpt(metric)}", field="metric", allowed=allowed)
        values = self.aligned.pivot(index="query_id", columns="run_id", values=metric).dropna()
        return values[[run_id for run_id in self.run_ids if run_id in values]]

    @property
    def _reported_ids(self) -> list[str]:
        """The runs without rows, of which only reported means are known."""
        is_reported = self.table["is_reported"].to_numpy(dtype=bool)
        return self.table.loc[is_reported, "run_id"].unique().tolist()

    def _standings(self, limit: int = SHOWN_ROWS) -> Table:
        """Return runs × metrics as text, with marks: the first with its interval, others without.

        So every metric fits a line. Marks are ★ and ≈, or signs of the words with a baseline.
        """
        alone = self._reported_ids
        names = [f"{one} (reported)" if one in alone else one for one in self.run_ids]
        columns: dict[str, list[str]] = {"run": names}
        for place, metric in enumerate(self.metrics):
            rows = self.table[(self.table["metric"] == metric).to_numpy()]
            rows = rows.set_index("run_id").reindex(self.run_ids)
            cells = [shown_interval(*row) for row in rows[["value", "low", "high"]].to_numpy()]
            name = in_words(metric)
            if place:
                cells = [text.partition(" ")[0] for text in cells]
            elif rows["low"].notna().any():
                name += f" [95{NARROW}%]"
            if len(counts := rows[["n", "n_expected"]].dropna()):
                ends = counts.agg(["min", "max"]).T.itertuples(index=False)
                n, of = (f"{few}" if few == most else f"{few} to {most}" for few, most in ends)
                name += (
                    f", n\u00a0=\u00a0{n}" if n == of else f", n\u00a0=\u00a0{n}\u00a0/\u00a0{of}"
                )
            signs = self._signs(metric)
            # a cell without a mark has its room, so that numbers stand one below another
            columns[name] = [
                f"{cell} {sign or BLANK}" if any(signs) else cell
                for cell, sign in zip(cells, signs, strict=True)
            ]
        return Table(pd.DataFrame(columns), limit=limit, way=".table")

    def _headline(self) -> str:
        """Return in a sentence which run is best by the first metric, and if that is sure."""
        metric, first = in_words(self.metrics[0]), self._signs(self.metrics[0])
        of = {sign: [run for run, one in zip(self.run_ids, first, strict=True) if one == sign]
              for sign in first}  # fmt: skip
        if self.baseline is not None:
            told = [f"{few_names(of[SIGNS[word]])} {word}" for word in ("better", "worse", UNSURE)
                    if SIGNS[word] in of]  # fmt: skip
            return f"Against {self.baseline} by {metric}: {'; '.join(told)}"
        if BEST not in of:
            several = f"{plural(len(self.run_ids), 'run')} by {metric}"
            return several if self.run_ids[1:] else f"{self.run_ids[0]}, no run to compare with"
        tied = f", but not surely better than {few_names(of[TIED])}" if TIED in of else ", surely"
        return f"{of[BEST][0]} is best by {metric}{tied}"

    def _signs(self, metric: str) -> list[str]:
        """Return the mark of each run in a metric; with a baseline the sign of its word."""
        key, name = ("run_id", "mark") if self.baseline is None else ("run_candidate", "verdict")
        rows = self.table if self.baseline is None else self.pairs
        own = rows[(rows["metric"] == metric).to_numpy()].set_index(key)[name].dropna()
        signs = own.astype("str").replace(SIGNS).to_dict()
        return [signs.get(run, "") for run in self.run_ids]

    def _against(self) -> pd.DataFrame:
        """Return candidates × metrics as text: difference, interval, word."""
        if not self.baseline:
            return pd.DataFrame()
        runs = [one for one in self.run_ids if one not in (self.baseline, *self._reported_ids)]
        columns: dict[str, list[str]] = {"run": runs}
        for metric in self.metrics:
            rows = self.pairs[(self.pairs["metric"] == metric).to_numpy()]
            rows = rows.set_index("run_candidate").reindex(runs)
            told = zip(rows["delta"], rows["low"], rows["high"], rows["verdict"], strict=True)
            columns[in_words(metric)] = [
                f"{shown_interval(*row, decimals_within(*row[1:]), True)}"
                f" {'' if pd.isna(word) else word}".rstrip()
                for *row, word in told
            ]
        return pd.DataFrame(columns)

    def notes(self) -> list[str]:
        """Return what a reader must know beside the tables."""
        notes, n_asked = [], int(self.pairs["verdict"].notna().sum())
        level = f"all {n_asked} differences together, 95 %" if n_asked > 1 else "95 %"
        if self.baseline and n_asked:
            signs = ", ".join(f"{SIGNS[word]} {word}" for word in ("better", "worse", UNSURE))
            notes.append(f"Against {self.baseline}: {signs} ({level}).")
        elif self.table["mark"].eq(BEST).any():
            notes.append(f"{BEST} best; {TIED} no sure difference from it ({level}).")
        if self._reported_ids:
            notes.append(
                f"Reported, not scored here (no rows): {', '.join(self._reported_ids)}. Their means"
                " may be over other queries and by other labels: no rank, no mark."
            )
        n = self.table.groupby("metric", sort=False)["n_left_out"].max()
        if left_out := [f"{own} of {name}" for name, own in n[n > 0].items()]:
            notes.append(f"Queries without a value in every run: {few_names(left_out, 5)}.")
        return [*notes, *filter(None, [self.clusters])]

    def _tables(self) -> list[Table]:
        against = self._against()
        tables = [replace(self._standings(), heading="Leaderboard")]
        if len(against):
            heading = f"Against {self.baseline}"
            tables.append(Table(against, heading, against.columns.tolist(), SHOWN_ROWS, ".pairs"))
        return tables


def leaderboard(
    scores: pd.DataFrame,
    metrics: list[str] | str | None = None,
    *,
    baseline: str | None = None,
    primary: Sequence[str] | None = None,
    runs: list[str] | None = None,
    golden: Golden | None = None,
    results: Results | None = None,
    reported: Results | None = None,
    cluster: str | None = "group",
    declared: Declarations = NOTHING_DECLARED,
) -> Leaderboard:
    """Rank runs by every metric; see `Evaluation.leaderboard`.

    Each metric is compared on the queries for which all runs have a value; the others are counted.

    Parameters
    ----------
    primary
        The metrics that are asked about; by default all.
    results
        With them `n_expected` also counts what was refused, not judged or not recorded.
    reported
        Results of runs without rows: the means that they report stand below the runs with rows.
    """
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    refuse_without_rows([] if baseline is None else [baseline], reported)
    told = _told(reported, runs, declared)
    own = set() if reported is None else {*reported.runs["run_id"].astype("str")}
    with_rows = None if runs is None else [one for one in runs if one not in own]
    wanted = None if metrics is None else names_of(metrics, "metrics")
    known = {*told["metric"]}
    has_rows = bool(scores["run_id"].notna().any()) and with_rows != []
    if wanted is None and not has_rows:
        wanted = headline_of(told["metric"].unique().tolist())
    scored = wanted and [one for one in wanted if one in scores or one not in known]
    aligned = align(scores, scored if has_rows else [], with_rows, declared)
    if results is not None:
        judges = judges_by_criterion(results)
        parts = {name: {"judge_fingerprint": judges.get(name, {})} for name in aligned.run_ids}
        check_provenance(parts, aligned.metrics, True)  # warns of different judges
    if not (aligned.run_ids and aligned.metrics) and not len(told):
        raise DataError("found none", field="runs", allowed="at least one run with scores")
    base = None if baseline is None else align(scores, aligned.metrics[:1], [baseline]).run_ids[0]
    if base is not None and base not in aligned.run_ids:
        allowed = nearest(base, aligned.run_ids)
        raise DataError(f"{base!r} is not among the runs", field="baseline", allowed=allowed)
    groups = query_clusters(golden, aligned.query_ids, cluster)
    asked = [one for one in aligned.metrics if primary is None or one in primary]
    level = level_of_all(aligned.only(asked), base, groups)
    expected = expected_in(aligned, scores, golden, results).sum(axis=0)  # runs × metrics
    parts, pairs = [told], [pd.DataFrame(columns=PAIRS)]
    for place, name in enumerate(aligned.metrics):
        rows, quality = _rows_of(aligned, name, groups)
        if name in asked:
            of_pairs = _pairs_of(aligned, name, base, groups, level)
            if base is None:
                rows["mark"] = _marks(rows["run_id"], quality, of_pairs)
            pairs.append(of_pairs)
        parts.append(rows.assign(n_expected=expected[:, place]))
    names = wanted or aligned.metrics
    table = pd.concat([one for one in parts[1:] + parts[:1] if len(one)], ignore_index=True)
    table = table[table["metric"].isin(names).to_numpy()].reindex(columns=COLUMNS)
    table = table.astype({**dict.fromkeys(["rank", "n", "n_expected"], "Int64"), "mark": "str"})
    order = table.assign(place=table["metric"].map(names.index)).sort_values(
        ["place", "is_reported"], kind="stable", ignore_index=True
    )
    first = order[order["metric"].eq(names[0]).to_numpy()]
    runs_in_order = first.sort_values(["is_reported", "rank"], kind="stable")["run_id"].tolist()
    return Leaderboard(
        list(names), runs_in_order, base, order.drop(columns="place"),
        pd.concat([one for one in pairs if len(one)] or pairs, ignore_index=True), asked, 1 - level,
        aligned.declared, aligned.rows(),
        clusters_text(golden, aligned.query_ids, cluster, talks=True),
    )  # fmt: skip


def bare_leaderboard(
    summary: pd.DataFrame, metrics: list[str], declared: Declarations = NOTHING_DECLARED
) -> Leaderboard:
    """Return runs by their own means of `ev.summary()`: no pairs, no words, no marks."""
    is_timed = are_timed(map(declared.describe, summary["metric"]))
    parts = {"value": ("p50", "mean"), "low": ("p50_low", "low"), "high": ("p50_high", "high")}
    values = {
        name: summary[timed].where(is_timed, summary[other])
        for name, (timed, other) in parts.items()
    }
    table = summary[["metric", "run_id", "n", "n_expected"]].assign(
        **values, is_reported=False, n_left_out=0
    )
    table = table.astype({"run_id": "str"}).reindex(columns=COLUMNS)
    first = table[table["metric"].eq(metrics[0]).to_numpy()]
    is_up = declared.describe(metrics[0]).better == "lower"
    order = first.sort_values("value", ascending=is_up, kind="stable")["run_id"].tolist()
    return Leaderboard(
        metrics, order, None, table, pd.DataFrame(columns=PAIRS), [], 1 - ALPHA, declared
    )


def level_of_all(aligned: AlignedScores, baseline: str | None, groups: Groups | None) -> float:
    """Return the level of each interval, at which those of all pairs and metrics hold together."""
    columns: list[tuple[Values, Values]] = []
    pairs, described = _pairs(aligned.run_ids, baseline), aligned.described()
    for name in aligned.metrics:
        values = np.where(aligned.shared(name)[:, None], aligned.of(name), np.nan)
        columns += [(values[:, pairs[0]], values[:, pairs[1]])]
    if not columns or not len(pairs[0]):
        return ALPHA
    first, second = (np.concatenate(sides, axis=1) for sides in zip(*columns, strict=True))
    of_pairs = [metric for metric in described for _ in pairs[0]]
    return level_together(first, second, of_pairs, groups)


def _pairs(run_ids: list[str], baseline: str | None) -> tuple[Values, Values]:
    """Return the places of both runs of each pair, in the order of names."""
    order = np.argsort(np.array(run_ids, dtype="U"), kind="stable")
    first, second = (order[side] for side in np.triu_indices(len(run_ids), 1))
    if baseline is None:
        return first, second
    base = run_ids.index(baseline)
    others = order[order != base]
    return np.full(len(others), base), others


def _rows_of(
    aligned: AlignedScores, metric: str, groups: Groups | None
) -> tuple[pd.DataFrame, Values]:
    """Return the rows of one metric, and what its runs are ranked by: high is good."""
    described, shared = aligned.declared.describe(metric), aligned.shared(metric)
    values = aligned.of(metric)[shared]
    of_runs, is_timed = [described] * values.shape[1], bool(are_timed([described])[0])
    if is_timed:
        low, high = quantile_intervals(values, of_runs, 0.5)
    else:
        own = shared_only(None if groups is None else groups[shared])
        low, high = intervals(values, of_runs, own)
    value = np.full(values.shape[1], np.nan)
    if len(values):
        value = np.asarray(np.median(values, axis=0) if is_timed else values.mean(axis=0))
    quality = -value if described.better == "lower" else value
    n_any = int((~np.isnan(aligned.of(metric))).any(axis=1).sum())
    table = pd.DataFrame(
        {
            "metric": metric, "run_id": aligned.run_ids, "is_reported": False,
            "rank": pd.Series(quality).rank(ascending=False, method="min"),
            "statistic": "median" if is_timed else "mean", "value": value, "low": low, "high": high,
            "n": len(values), "n_left_out": n_any - len(values), "mark": None,
        }
    )  # fmt: skip
    return table, quality


def _pairs_of(
    aligned: AlignedScores, metric: str, baseline: str | None, groups: Groups | None, level: float
) -> pd.DataFrame:
    """Return the pairs of one metric, with intervals of this level."""
    described, shared = aligned.declared.describe(metric), aligned.shared(metric)
    values, runs = aligned.of(metric)[shared], np.array(aligned.run_ids, dtype=object)
    own = shared_only(None if groups is None else groups[shared])
    first, second = _pairs(aligned.run_ids, baseline)
    parts, step = [pd.DataFrame(columns=PAIRS)], max(CELLS // max(len(values), 1), 1)
    for start in range(0, len(first), step):
        a, b = first[start : start + step], second[start : start + step]
        of_pairs = [described] * len(a)
        levels, is_asked = np.full(len(a), level), np.full(len(a), len(values) > 0)
        found = figures(values[:, a], values[:, b], of_pairs, levels, own)
        found.pop("p")
        parts.append(
            pd.DataFrame(
                {
                    "metric": metric, "run_baseline": runs[a], "run_candidate": runs[b], **found,
                    "n": len(values), "verdict": verdicts(found, of_pairs, is_asked),
                }
            )
        )  # fmt: skip
    return pd.concat(parts[1:] or parts, ignore_index=True)


def _marks(runs: pd.Series, quality: Values, pairs: pd.DataFrame) -> list[str | None]:
    """Return ★ for the best run, ≈ for those without a sure difference from it, None for others."""
    if len(runs) < 2 or np.isnan(quality).all() or pairs["verdict"].isna().all():
        return [None] * len(runs)
    best = runs.iloc[int(np.nanargmax(quality))]
    is_open = pairs["verdict"].eq(UNSURE)
    sides = pairs["run_baseline"], pairs["run_candidate"]
    tied = {*sides[1][is_open & sides[0].eq(best)], *sides[0][is_open & sides[1].eq(best)]}
    return [BEST if run == best else TIED if run in tied else None for run in runs]


def _told(reported: Results | None, runs: list[str] | None, declared: Declarations) -> pd.DataFrame:
    """Return what runs without rows report as rows of the table, the best of a metric first."""
    if reported is None:
        return pd.DataFrame({"metric": pd.Series(dtype="str")})
    rows = reported_summary(reported)
    rows = rows if runs is None else rows[rows["run_id"].isin(runs).to_numpy()]
    timed = are_timed(map(declared.describe, rows["metric"]))
    value = rows["p50"].where(timed, rows["mean"])
    lower = [declared.describe(name).better == "lower" for name in rows["metric"]]
    quality = value.mask(np.array(lower, dtype=bool), -value)
    table = rows[["metric", "run_id"]].assign(
        is_reported=True, statistic=np.where(timed, "median", "mean"), value=value, n_left_out=0
    )
    return table.iloc[np.argsort(-quality.to_numpy("float64"), kind="stable")]


def is_beaten(gains: Values) -> Flags:
    """Flag the rows that another row beats: nowhere worse, and somewhere better."""
    own = gains[:, None]  # each beside all
    return np.asarray(np.any((own <= gains).all(axis=2) & (own < gains).any(axis=2), axis=1))


def pareto_front(x: pd.Series, y: pd.Series, better_x: str, better_y: str) -> list[str]:
    """Return the runs that no other run beats, from left to right; x and y are indexed by run."""
    signs = [-1 if better == "lower" else 1 for better in (better_x, better_y)]
    beaten = is_beaten(np.column_stack([x, y]) * signs)
    return x[~beaten].sort_values(kind="stable").index.tolist()
