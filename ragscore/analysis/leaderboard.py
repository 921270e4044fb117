"""Many runs side by side.

In: a frame of scores. Out: a `Leaderboard` with means and intervals, runs that can't be told apart,
and each run against a baseline. Its frames hold every number; its text forms round them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align, expected_in
from ragscore.analysis.comparison.deltas import paired_deltas
from ragscore.analysis.comparison.question import ITERATIONS, Question, questions_of
from ragscore.analysis.comparison.text import in_words
from ragscore.analysis.reported import refuse_without_rows, reported_summary
from ragscore.analysis.result_forms import JsonResult, TableResult
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import excerpt, names_of, nearest, plural
from ragscore.frames.render import shown_intervals, shown_n
from ragscore.frames.tables import SHOWN_ROWS, Table
from ragscore.frames.typing import Values
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import (
    BY_QUANTILES,
    Groups,
    are_timed,
    clusters_text,
    intervals,
    quantile_intervals,
    query_clusters,
    shared_only,
)
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, Metric, headline_of, table_kind
from ragscore.scoring.provenance import check_provenance, judges_by_criterion
from ragscore.stats import ALPHA, UNSURE, WORDS, Together, tied_sets
from ragscore.stats.multiple import OTHER_SHARE

COLUMNS = [
    "metric", "run_id", "is_reported", "rank", "mean", "low", "high", "p50", "p50_low", "p50_high",
    "n", "n_left_out", "sets", "is_tied_with_best",
]  # fmt: skip
AGAINST = {
    "delta": "float64", "delta_low": "float64", "delta_high": "float64", "p": "float64",
    "p_adjusted": "float64", "mde": "float64", "n_better": "Int64", "n_worse": "Int64",
    "caution": "boolean", "verdict": "str", "sentence": "str",
}  # fmt: skip
"""Columns of `Leaderboard.table` that compare a run with the baseline -> their dtypes."""
MAX_NAMED = 5  # queries named in a note


@dataclass(frozen=True, repr=False)  # else the generated one replaces TableResult's
class Leaderboard(JsonResult, TableResult):
    """Runs × metrics, on the queries for which every run has a value.

    Attributes
    ----------
    table
        One row per metric and run. `rank`: 1 is best (of a column of your own, the highest); times
        and costs are ranked by their median. `mean` with its 95 % interval `low`, `high`; for times
        and costs also `p50` with `p50_low`, `p50_high`. `n` queries; `n_expected`, the queries for
        which the run should have a value (see `ev.explain`); `n_left_out`, the queries for which
        only some runs have a value. `sets`: two runs share a letter if and only if they can't be
        told apart ("": not tested, as with a baseline); `is_tied_with_best`.
        `is_reported`: the run has no rows, and its mean (median) is what it reports, over whatever
        queries; it has no interval, rank, letter or test, and stands below the others.
        With a baseline also `delta` = run − baseline with its paired interval `delta_low`,
        `delta_high` (of medians for times and costs), `p` of this row alone, `p_adjusted` (for all
        pairs and metrics that are tested) and `mde` at the level that this leaves; `n_better`,
        `n_worse` queries; `caution` where a few queries carry the mean; the `verdict` by
        `p_adjusted` and its `sentence`. Nobody declared a direction for a column of your own: its
        verdict is higher or lower, not better or worse. These columns are NA for the baseline and
        for reported runs.
    pairs
        One row per metric and pair of runs (`run_baseline`, `run_candidate`): `delta` = candidate −
        baseline, `p` adjusted for all that is asked (see `Question`), `is_tied`. With a baseline,
        its pairs alone.
    left_out
        One row per metric and query for which only some runs have a value: `n_lacking` runs without
        one, named in `lacking`.
    sentences
        Metric -> the runs that lead and the runs that can't be told apart, in words.
    run_ids
        The runs, best first by the first metric; below them those that only report means.
    declared
        Direction and range of columns of your own, as the evaluation had them declared.
    aligned
        One row per query and run: the values that all of this is made of, one column per metric.
    clusters
        How many conversations intervals and tests allow for, in words; empty without any.
    question
        What is asked, and how many tests answer it, in words.
    """

    plot = Accessor("ragscore.plot.accessor:LEADERBOARD")

    metrics: list[str]
    run_ids: list[str]
    baseline: str | None
    table: pd.DataFrame
    pairs: pd.DataFrame
    left_out: pd.DataFrame
    sentences: dict[str, str]
    declared: Declarations = NOTHING_DECLARED
    aligned: pd.DataFrame = field(default_factory=pd.DataFrame)
    clusters: str = ""
    question: str = ""

    def matrix(self, metric: str) -> pd.DataFrame:
        """Return the values that the means of a metric are made of.

        One row per query, one column per run, best first.
        """
        if metric not in self.metrics:
            raise DataError(
                f"no metric {excerpt(metric)}",
                field="metric",
                allowed=nearest(metric, self.metrics),
            )
        values = self.aligned.pivot(index="query_id", columns="run_id", values=metric).dropna()
        return values[[run_id for run_id in self.run_ids if run_id in values]]

    def _shown(self) -> pd.DataFrame:
        """Return runs × metrics as text.

        Each cell holds the mean (median for times and costs), its interval and the letters of its
        tied sets. n / n_expected stands in the heading, or in the cells if runs differ in it.
        """
        alone = self.reported_ids
        names = [f"{name} (reported)" if name in alone else name for name in self.run_ids]
        columns: dict[str, list[str]] = {"run": names}
        for metric in self.metrics:
            rows, heading = self._rows(metric), in_words(metric)
            name = "p50" if table_kind(metric) in BY_QUANTILES else "mean"
            values = rows[[name, *(("p50_low", "p50_high") if name == "p50" else ("low", "high"))]]
            cells = [
                f"{text} {letters}".rstrip()
                for text, letters in zip(shown_intervals(values), rows["sets"], strict=True)
            ]
            counts = [
                "" if pd.isna(n) else shown_n(n, of)
                for n, of in zip(rows["n"], rows["n_expected"], strict=True)
            ]
            if len(told := set(counts) - {""}) == 1:
                heading += f", n = {told.pop()}"
            else:
                cells = [
                    f"{cell}, n = {n}" if n else cell for cell, n in zip(cells, counts, strict=True)
                ]
            columns[heading] = cells
        return pd.DataFrame(columns)

    def against_baseline(self) -> pd.DataFrame:
        """Return candidates × metrics as text: difference, interval, verdict.

        Empty without a baseline.
        """
        if not self.baseline:
            return pd.DataFrame()
        tested = [name for name in self.run_ids if name not in (self.baseline, *self.reported_ids)]
        columns: dict[str, list[str]] = {"run": tested}
        for metric in self.metrics:
            rows = self._rows(metric).loc[tested]
            texts = shown_intervals(rows[["delta", "delta_low", "delta_high"]], signed=True)
            columns[in_words(metric)] = [
                f"{text} {'' if pd.isna(word) else word}".rstrip()
                for text, word in zip(texts, rows["verdict"], strict=True)
            ]
        return pd.DataFrame(columns)

    @property
    def reported_ids(self) -> list[str]:
        """The runs without rows, of which only reported means are known."""
        is_reported = self.table["is_reported"].to_numpy(dtype=bool)
        return self.table.loc[is_reported, "run_id"].unique().tolist()

    def notes(self) -> list[str]:
        """Return what a reader must know beside the tables."""
        notes = list(self.sentences.values())
        alone = self.reported_ids
        n_runs = len(self.run_ids) - len(alone)
        if self.question and n_runs > 1:
            notes.insert(0, self.question)
        if self.metrics and self.metrics[0] in self.sentences and self.baseline is None:
            first = self.metrics[0]
            notes.append(_luck(self.matrix(first), first, self.declared.describe(first)))
        if self.baseline:
            notes.append(
                "Intervals are those of each difference alone; verdicts are corrected for all pairs"
                " and metrics shown. So an interval may leave out 0 where the verdict can't tell."
            )
            is_cautious = self.table["caution"].fillna(False).to_numpy(dtype=bool)
            cautious = self.table[is_cautious].groupby("metric", sort=False)["run_id"]
            notes += [
                f"Caution, a few queries carry the difference in {metric} of {runs}: look at the"
                " largest changes."
                for metric, runs in cautious.agg(", ".join).items()
                # a few queries can't carry a median
                if table_kind(str(metric)) not in BY_QUANTILES
            ]
        if alone:
            notes.append(
                f"Reported, not scored here (no rows): {', '.join(alone)}. Their means may be over"
                " other queries and by other labels: no rank, no test. —: not reported."
            )
        for metric, rows in self.left_out.groupby("metric", sort=False):
            lacking = rows["lacking"].str.split(", ").explode().value_counts()
            runs = ", ".join(f"{n} in {run_id}" for run_id, n in lacking.items())
            queries = rows["query_id"].tolist()
            named = ", ".join(queries[:MAX_NAMED]) + (", ..." if len(queries) > MAX_NAMED else "")
            notes.append(
                f"{metric} leaves out {plural(len(queries), 'query')} that some runs have no value"
                f" for ({runs}): {named}."
            )
        return [note for note in (*notes, self.clusters) if note]

    def _tables(self) -> list[Table]:
        tables = [Table(self._shown(), "Leaderboard", limit=SHOWN_ROWS, way=".table")]
        if self.baseline:
            against = self.against_baseline()
            heading = f"Against {self.baseline}"
            tables.append(Table(against, heading, against.columns.tolist(), SHOWN_ROWS, ".table"))
        return tables

    def _rows(self, metric: str) -> pd.DataFrame:
        """One row per run of the metric, best run first."""
        rows = self.table[(self.table["metric"] == metric).to_numpy()]
        return rows.set_index("run_id").loc[self.run_ids]


def leaderboard(
    scores: pd.DataFrame,
    metrics: list[str] | str | None = None,
    *,
    baseline: str | None = None,
    primary: tuple[str, ...] = (),
    runs: list[str] | None = None,
    golden: Golden | None = None,
    results: Results | None = None,
    reported: Results | None = None,
    cluster: str | None = "group",
    iterations: int = ITERATIONS,
    seed: int = 0,
    declared: Declarations = NOTHING_DECLARED,
    asked: list[Question] | None = None,
) -> Leaderboard:
    """Rank runs by every metric, and name the runs that so many queries can't tell apart.

    Each metric is compared on the queries for which all runs have a value; the other queries are
    counted and listed. All pairs of runs are tested at once, or with a baseline its pairs alone:
    in the metrics that decide (`Question`) at four fifths of the 5 %, in the others, if there are
    some, at a tenth. If no runs differ, any letters differ, or any word is another than "can't
    tell", in at most 5 % of cases. Times and costs are ranked by their median, and tested by the
    sign test.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`. Average the repeats of a system first
        (`ev.average_repeats()`).
    metrics
        Columns of the scores; by default the headline metrics and columns of your own that were
        measured.
    baseline
        The run to compare each other run with: a run id, or a system that only one run has. Then
        no other pairs are tested, and there are no letters.
    primary
        The metrics that decide; by default all that are shown.
    runs
        Only these; by default all.
    golden
        For `cluster`, and so that `n_expected` knows to which queries a metric applies.
    results
        As for `ev.summary`: with them `n_expected` also counts what was refused, not judged or
        not recorded.
    reported
        Results of runs without rows: the means that they report stand below the runs with rows.
    cluster
        With a golden set: the column of `golden.queries` whose equal values make queries depend on
        each other. None: every query stands alone.
    iterations, seed
        Of the test of all pairs.
    declared
        What is declared of columns of your own.
    asked
        `questions_of` all runs and metrics of `scores`, if that is known.

    Raises
    ------
    DataError
        An unknown run or metric; fewer than one run; a query twice in a run; a `cluster` without a
        golden set.

    Warns
    -----
    UserWarning
        Different judges measured a metric of two runs.
    """
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    chosen, told, runs = _reported_side(scores, metrics, runs, baseline, reported, declared)
    aligned = align(scores, chosen, runs, declared)
    if results is not None:
        judges = judges_by_criterion(results)
        parts = {name: {"judge_fingerprint": judges.get(name, {})} for name in aligned.run_ids}
        check_provenance(parts, aligned.metrics, True)  # warns of different judges
    if not aligned.run_ids and not len(told):
        raise DataError("found none", field="runs", allowed="at least one run")
    if not aligned.metrics and not len(told):
        raise DataError("no metric has a value", field="metrics", allowed="a run with scores")
    base = None if baseline is None else align(scores, aligned.metrics[:1], [baseline]).run_ids[0]
    if base is not None and base not in aligned.run_ids:
        raise DataError(
            f"{base!r} is not among the runs",
            field="baseline",
            allowed=nearest(base, aligned.run_ids),
        )
    groups = query_clusters(golden, aligned.query_ids, cluster)
    if asked is None or {name for one in asked for name in one.primary} != {*aligned.metrics}:
        asked = _questions(scores, aligned, primary, base, golden, cluster, iterations, seed)
    p = {name: one.matrix(name, aligned.run_ids) for one in asked for name in one.primary}
    measured = [
        _metric_rows(aligned, metric, groups, p[metric], base is None) for metric in aligned.metrics
    ]
    names = list(dict.fromkeys([*aligned.metrics, *told.get("metric", [])]))
    if metrics is not None:
        names.sort(key=names_of(metrics, "metrics").index)
    tables, middles, sentences = zip(*measured, strict=True) if measured else ((), (), ())
    table = pd.concat([*tables, told], ignore_index=True) if len(told) or tables else told
    n_expected = expected_in(aligned, scores, golden, results).sum(axis=0)  # runs × metrics
    of_reported = np.full(len(table) - n_expected.size, np.nan)
    table.insert(
        table.columns.tolist().index("n") + 1,
        "n_expected",
        pd.Series(np.concatenate([n_expected.T.ravel(), of_reported])).astype("Int64"),
    )
    if base is not None:
        table = table.join(
            _against(aligned, groups, base, asked, seed).set_index(["metric", "run_id"]),
            on=["metric", "run_id"],
        )
    said = dict(zip(aligned.metrics, sentences, strict=True))
    if base is not None:
        said = {name: _against_sentence(name, base, table) for name in aligned.metrics}
    first = table[(table["metric"] == names[0]).to_numpy()]
    order = first.sort_values(["is_reported", "rank"], kind="stable")["run_id"].tolist()
    return Leaderboard(
        names,
        order,
        base,
        table,
        _pairs(aligned, base, middles, p),
        _left_out(aligned),
        said,
        aligned.declared,
        aligned.rows(),
        clusters_text(golden, aligned.query_ids, cluster, talks=True),
        asked_text(asked, base),
    )


def asked_text(asked: list[Question], baseline: str | None) -> str:
    """Say what is asked, and what letters mean."""
    if not asked or len(asked[0].run_ids) < 2:
        return ""
    letters = " Runs that share a letter can't be told apart." if baseline is None else ""
    n_others = sum(len(one.primary) for one in asked[1:])
    told, level = plural(n_others, "other metric"), f"{100 * ALPHA * OTHER_SHARE:.3g}".lstrip("0")
    others = f" {told} at {level} %." if n_others else ""
    return f"{asked[0].text}{letters}{others}"


def _reported_side(
    scores: pd.DataFrame,
    metrics: list[str] | str | None,
    runs: list[str] | None,
    baseline: str | None,
    reported: Results | None,
    declared: Declarations,
) -> tuple[list[str] | str | None, pd.DataFrame, list[str] | None]:
    """Part metrics and runs that are asked for into those of the scores and those reported.

    Returns the metrics of the scores, a row per metric and reported run, the best of the first
    metric first, and the runs of the scores.
    """
    none = pd.DataFrame()
    if reported is None:
        return metrics, none, runs
    refuse_without_rows([] if baseline is None else [baseline], reported)
    own = reported.runs["run_id"].astype("str").tolist()
    alone = own if runs is None else [name for name in runs if name in own]
    runs = None if runs is None else [name for name in runs if name not in own]
    means = reported_summary(reported).set_index(["metric", "run_id"])
    known = means.index.unique("metric")
    has_scores = bool(scores["run_id"].notna().any()) and runs != []
    if metrics is None and not has_scores:
        metrics = headline_of(known.tolist())
    wanted = align(scores, None, runs).metrics if metrics is None else names_of(metrics, "metrics")
    scored = [name for name in wanted if name in scores or name not in known] if has_scores else []
    if not alone:
        return scored, none, runs
    rows = pd.MultiIndex.from_product([wanted, alone], names=["metric", "run_id"])
    told = means.reindex(rows)[["mean", "p50"]].reset_index()
    lead = told["p50"].where(are_timed(map(declared.describe, told["metric"])), told["mean"])
    is_lower = np.array(
        [declared.describe(name).better == "lower" for name in told["metric"]], bool
    )
    quality = lead.mask(is_lower, -lead)
    first = quality[told["metric"].eq(wanted[0])].sort_values(ascending=False, kind="stable")
    place = {told["run_id"][row]: number for number, row in enumerate(first.index)}
    told = told.assign(place=told["run_id"].map(place), number=told["metric"].map(wanted.index))
    told = told.sort_values(["number", "place"], kind="stable", ignore_index=True)
    names = ("low", "high", "p50_low", "p50_high", "rank", "n", "is_tied_with_best")
    table = told.assign(**dict.fromkeys(names, np.nan), sets="")
    table = table.assign(is_reported=True, n_left_out=0)[COLUMNS].astype(
        {"rank": "Int64", "n": "Int64", "is_tied_with_best": "boolean", "metric": "str"}
    )
    return scored, table, runs


def _questions(
    scores: pd.DataFrame, aligned: AlignedScores, primary: tuple[str, ...], baseline: str | None,
    golden: Golden | None, cluster: str | None, iterations: int, seed: int,
) -> list[Question]:  # fmt: skip
    """Return what is asked of the metrics that are shown; see `questions_of`."""
    rows = scores[scores["run_id"].astype("str").isin(aligned.run_ids).to_numpy()]
    return questions_of(
        rows, primary, aligned.metrics, baseline=baseline, golden=golden, cluster=cluster,
        declared=aligned.declared, iterations=iterations, seed=seed,
    )  # fmt: skip


def _metric_rows(
    aligned: AlignedScores, metric: str, groups: Groups | None, p: Values, has_letters: bool
) -> tuple[pd.DataFrame, Values, str]:
    """Return the rows of one metric, what its runs are ranked by, and the sentence on its ties."""
    run_ids, described = aligned.run_ids, aligned.declared.describe(metric)
    is_timed = described.kind in BY_QUANTILES
    shared = aligned.shared(metric)
    values, of_runs = aligned.of(metric)[shared], [described] * len(run_ids)
    own_groups = shared_only(None if groups is None else groups[shared])
    low, high = intervals(values, of_runs, own_groups)
    p50_low, p50_high = quantile_intervals(values, of_runs, 0.5)
    unknown = np.full(len(run_ids), np.nan)
    mean = values.mean(axis=0) if len(values) else unknown
    p50 = np.median(values, axis=0) if is_timed and len(values) else unknown
    quality = quality_of(aligned, metric)
    is_lettered = len(values) > 0 and has_letters
    letters, sets = set_letters(quality, p) if is_lettered else ([""] * len(run_ids), [])
    # the first of the first set is the best run
    with_best = (p[sets[0][0]] >= ALPHA) if sets else [pd.NA] * len(run_ids)
    table = pd.DataFrame(
        {
            "metric": metric,
            "run_id": run_ids,
            "is_reported": False,
            "rank": pd.Series(quality).rank(ascending=False, method="min").astype("Int64"),
            "mean": mean,
            "low": low,
            "high": high,
            "p50": p50,
            "p50_low": p50_low,
            "p50_high": p50_high,
            "n": pd.array([len(values)] * len(run_ids), dtype="Int64"),
            "n_left_out": int((~np.isnan(aligned.of(metric))).any(axis=1).sum() - shared.sum()),
            "sets": letters,
            "is_tied_with_best": pd.array(with_best, dtype="boolean"),
        }
    )
    sentence = _sentence(
        metric,
        described,
        [[run_ids[place] for place in members] for members in sets],
        dict(zip(run_ids, quality, strict=True)),
        len(values),
    )
    return table, p50 if is_timed else mean, sentence


def quality_of(aligned: AlignedScores, metric: str) -> Values:
    """Return each run's mean (of times and costs: median) where all have a value; high is good."""
    values, described = (
        aligned.of(metric)[aligned.shared(metric)],
        aligned.declared.describe(metric),
    )
    if not len(values):
        return np.full(len(aligned.run_ids), np.nan)
    middle = np.median if described.kind in BY_QUANTILES else np.mean
    return np.asarray(middle(values, axis=0) * (-1.0 if described.better == "lower" else 1.0))


def pareto_front(x: pd.Series, y: pd.Series, better_x: str, better_y: str) -> list[str]:
    """Return the runs that no other run beats, from left to right; x and y are indexed by run."""
    signs = [-1 if better == "lower" else 1 for better in (better_x, better_y)]
    gains = np.column_stack([x, y]) * signs
    own = gains[:, None]  # each run beside all
    is_beaten = np.any((own <= gains).all(axis=2) & (own < gains).any(axis=2), axis=1)
    return x[~is_beaten].sort_values(kind="stable").index.tolist()


def set_letters(quality: Values, p: Values) -> tuple[list[str], list[list[int]]]:
    """Return each run's letters, and the sets of runs that can't be told apart, best first."""
    sets = tied_sets(quality, p, ALPHA)
    # a, b, ..., z, then a2, b2, ...
    names = [chr(ord("a") + n % 26) + str(n // 26 + 1) * (n >= 26) for n in range(len(sets))]
    letters = [
        "".join(name for name, members in zip(names, sets, strict=True) if place in members)
        for place in range(len(quality))
    ]
    return letters, sets


def _against(
    aligned: AlignedScores, groups: Groups | None, baseline: str, asked: list[Question], seed: int
) -> pd.DataFrame:
    """One row per metric and candidate: its difference from the baseline, by the question's p."""
    candidates = [run_id for run_id in aligned.run_ids if run_id != baseline]
    rows = list[dict[Any, Any]]()
    for question in asked:
        for metric in question.primary:
            if metric not in aligned.metrics:
                continue
            shared = aligned.shared(metric)
            own_groups = shared_only(None if groups is None else groups[shared])
            first = aligned.frame(baseline).loc[shared, [metric]]
            for run_id in candidates:
                second = aligned.frame(run_id).loc[shared, [metric]]
                p = question.p_of(baseline, run_id)[metric]
                # Every shared query has a value in both runs: none is lost.
                row = paired_deltas(
                    first, second, first * np.nan, declared=aligned.declared, groups=own_groups,
                    seed=seed, together=Together(np.array([p]), np.array([question.level])),
                ).iloc[0].to_dict()  # fmt: skip
                if table_kind(metric) in BY_QUANTILES:
                    row |= {name: row[f"p50_{name}"] for name in ("delta", "low", "high")}
                    row["p_adjusted"] = p
                row |= {"delta_low": row["low"], "delta_high": row["high"], "run_id": run_id}
                rows.append(row)
    columns = ["metric", "run_id", *AGAINST]
    table = pd.DataFrame([[row[name] for name in columns] for row in rows], columns=columns)
    return table.astype({"metric": "str", "run_id": "str", **AGAINST})


def _pairs(
    aligned: AlignedScores, baseline: str | None, middles: Sequence[Values], p: dict[str, Values]
) -> pd.DataFrame:
    """One row per metric and pair of runs; with a baseline, its pairs alone."""
    runs, metrics = (pd.Index(names, dtype="str") for names in (aligned.run_ids, aligned.metrics))
    first, second = np.triu_indices(len(runs), 1)
    if baseline is not None:
        is_asked = (runs[first] == baseline) | (runs[second] == baseline)
        first, second = first[is_asked], second[is_asked]
    metric, pair = (axis.ravel() for axis in np.indices((len(metrics), len(first))))
    middle = np.reshape(middles, (len(metrics), len(runs)))
    found = np.reshape([p[name][first, second] for name in metrics], middle[:, first].shape).ravel()
    is_tied = pd.Series(found >= ALPHA, dtype="boolean").mask(np.isnan(found))
    return pd.DataFrame({
        "metric": metrics[metric], "run_baseline": runs[first[pair]],
        "run_candidate": runs[second[pair]],
        "delta": (middle[:, second] - middle[:, first]).ravel(), "p": found, "is_tied": is_tied,
    })  # fmt: skip


def _left_out(aligned: AlignedScores) -> pd.DataFrame:
    """One row per metric and query for which only some runs have a value."""
    names = np.array(aligned.run_ids, dtype=object)
    parts = []
    for metric in aligned.metrics:
        lacking = np.isnan(aligned.of(metric))
        places = np.flatnonzero(lacking.any(axis=1) & ~lacking.all(axis=1))
        of_metric = {
            "metric": metric,
            "query_id": aligned.query_ids[places],
            "n_lacking": lacking[places].sum(axis=1),
            "lacking": [", ".join(names[lacking[place]]) for place in places],
        }
        parts.append(pd.DataFrame(of_metric))
    columns = ["metric", "query_id", "n_lacking", "lacking"]
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=columns)
    return table.astype({"metric": "str", "query_id": "str", "lacking": "str"})


def _sentence(
    metric: str, described: Metric, sets: list[list[str]], quality: dict[str, float], n: int
) -> str:
    """Say who leads and who can't be told apart; `quality` is higher for better runs.

    "" where no letters are asked for.
    """
    if not n:
        return f"{metric}: no query has a value in every run."
    queries = plural(n, "query")
    if not sets:
        return ""
    leaders = [name for name in sets[0] if quality[name] == quality[sets[0][0]]]
    if len(leaders) == len(quality):
        same = "one run" if len(quality) == 1 else f"all {len(quality)} runs have the same mean"
        return f"{metric}: {same} ({queries})."
    if len(sets) == 1:
        return f"{metric}: none of the {len(quality)} runs can be told from another ({queries})."
    has_direction = described.better in ("higher", "lower")
    verbs = ("leads", "lead") if has_direction else ("is highest", "are highest")
    lead = f"{_listed(leaders)} {verbs[len(leaders) > 1]}"
    others = [members for members in sets if not set(members) & set(leaders)]
    beside = {name for members in sets if members not in others for name in members}
    tied = sorted(beside - set(leaders), key=lambda name: (-quality[name], name))
    if tied:
        parts = [f"{lead} and can't be told from {_listed(tied)}"]
    else:
        parts = [f"{lead}, {'ahead of' if has_direction else 'above'} every other run"]
    parts += [f"{_listed(members)} can't be told apart" for members in others if len(members) > 1]
    if alone := [members[0] for members in others if len(members) == 1]:
        verb = "differs" if len(alone) == 1 else "differ"
        parts.append(f"{_listed(alone)} {verb} from every other run")
    return f"{metric}: {'; '.join(parts)} ({queries})."


def _against_sentence(metric: str, baseline: str, table: pd.DataFrame) -> str:
    """Say which runs differ from the baseline, and which can't be told from it."""
    rows = table[table["metric"].eq(metric).to_numpy() & table["verdict"].notna().to_numpy()]
    n = 0 if not len(rows) else int(rows["n"].max())
    if not n:
        return f"{metric}: no query has a value in every run."
    parts = []
    for word in (*WORDS[:5], *WORDS[-2:], UNSURE):
        runs = rows.loc[rows["verdict"].eq(word).to_numpy(), "run_id"].tolist()
        if runs and word == UNSURE:
            parts.append(f"{_listed(runs)} can't be told from {baseline}")
        elif runs:
            verb = "is" if len(runs) == 1 else "are"
            parts.append(f"{_listed(runs)} {verb} {word} than {baseline}")
    return f"{metric}: {'; '.join(parts)} ({plural(n, 'query')})."


def _luck(matrix: pd.DataFrame, metric: str, described: Metric) -> str:
    """Say how far from the others the first of so many runs would lie if all were alike."""
    from scipy.special import ndtri

    values = matrix.to_numpy("float64")
    n, runs = values.shape
    if n < 2 or runs < 3 or described.kind in BY_QUANTILES:
        return ""
    own = values - values.mean(axis=1, keepdims=True)
    error = float(np.sqrt((own**2).sum() / (n - 1) / (runs - 1) / n))
    # the expected largest of so many normal values (Blom 1958)
    expected = error * float(ndtri((runs - 0.375) / (runs + 0.25)))
    if not expected > 0:
        return ""
    move = "lowers the lowest" if described.better == "lower" else "lifts the highest"
    return f"{metric}: of {runs} runs alike, luck alone {move} mean by about {expected:.2g}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
