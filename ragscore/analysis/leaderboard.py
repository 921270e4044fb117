"""Many runs side by side.

In: a frame of scores. Out: a `Leaderboard` with means and intervals, runs that can't be told apart,
and each run against a baseline. Its frames hold every number; its text forms round them.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align, expected_in
from ragscore.analysis.comparison.deltas import paired_deltas, row_verdict
from ragscore.analysis.result_forms import TableResult
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.render import decimals_for, dump, reload, shown_n, shown_number
from ragscore.frames.typing import Values
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import (
    BY_QUANTILES,
    Groups,
    intervals,
    quantile_intervals,
    query_clusters,
    shared_only,
)
from ragscore.scoring.metrics import describe
from ragscore.stats import holm, max_t_p, tied_sets

ALPHA = 0.05
ITERATIONS = 2_000
AGAINST = {
    "delta": "float64", "delta_low": "float64", "delta_high": "float64", "p": "float64",
    "p_holm": "float64", "mde": "float64", "n_better": "Int64", "n_worse": "Int64",
    "caution": "boolean", "verdict": "str", "sentence": "str",
}  # fmt: skip
"""Columns of `Leaderboard.table` that compare a run with the baseline -> their dtypes."""
MAX_NAMED = 5  # queries named in a note


@dataclass(frozen=True, repr=False)  # else the generated one replaces TableResult's
class Leaderboard(TableResult):
    """Runs × metrics, on the queries for which every run has a value.

    Attributes
    ----------
    table
        One row per metric and run. `rank`: 1 is best (of a column of your own, the highest); times
        and costs are ranked by their median. `mean` with its 95 % interval `low`, `high`; for times
        and costs also `p50` with `p50_low`, `p50_high`. `n` queries; `n_expected`, the queries for
        which the run should have a value (see `ev.explain`); `n_left_out`, the queries for which
        only some runs have a value. `sets`: runs that share a letter can't be told apart ("": not
        tested); `is_tied_with_best`.
        With a baseline also `delta` = run − baseline with its paired interval `delta_low`,
        `delta_high` (of medians for times and costs), `p`, `p_holm` (Holm over the candidates,
        metric by metric) and `mde`; `n_better`, `n_worse` queries; `caution` where a few queries
        carry the mean; the `verdict` by `p_holm` and its `sentence`. Nobody declared a direction
        for a column of your own: its verdict is higher or lower, not better or worse. These columns
        are NA for the baseline.
    pairs
        One row per metric and pair of runs (`run_baseline`, `run_candidate`): `delta` = candidate −
        baseline, `p` adjusted for all pairs (max-T), `is_tied`.
    left_out
        One row per metric and query for which only some runs have a value: `n_lacking` runs without
        one, named in `lacking`.
    sentences
        Metric -> the runs that lead and the runs that can't be told apart, in words.
    run_ids
        The runs, best first by the first metric.
    """

    plot = Accessor("ragscore.plot.accessor:LEADERBOARD")

    metrics: list[str]
    run_ids: list[str]
    baseline: str | None
    table: pd.DataFrame
    pairs: pd.DataFrame
    left_out: pd.DataFrame
    sentences: dict[str, str]
    aligned: AlignedScores = field(repr=False)

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
        shared = self.aligned.shared(metric)
        values = pd.DataFrame(
            self.aligned.of(metric)[shared],
            index=self.aligned.query_ids[shared],
            columns=pd.Index(self.aligned.run_ids, name="run_id"),
        )
        return values[self.run_ids]

    def shown(self) -> pd.DataFrame:
        """Return runs × metrics as text.

        Each cell holds the mean (median for times and costs), its interval and the letters of its
        tied sets. n / n_expected stands in the heading, or in the cells if runs differ in it.
        """
        columns: dict[str, list[str]] = {"run": self.run_ids}
        for metric in self.metrics:
            rows, heading = self._rows(metric), _heading(metric)
            name = "p50" if describe(metric).kind in BY_QUANTILES else "mean"
            values = rows[[name, *(("p50_low", "p50_high") if name == "p50" else ("low", "high"))]]
            cells = [
                f"{text} {letters}".rstrip()
                for text, letters in zip(_rounded(values), rows["sets"], strict=True)
            ]
            counts = [shown_n(*pair) for pair in zip(rows["n"], rows["n_expected"], strict=True)]
            if len(set(counts)) == 1:
                heading += f", n = {counts[0]}"
            else:
                cells = [f"{cell}, n = {n}" for cell, n in zip(cells, counts, strict=True)]
            columns[heading] = cells
        return pd.DataFrame(columns)

    def against_baseline(self) -> pd.DataFrame:
        """Return candidates × metrics as text: difference, interval, verdict.

        Empty without a baseline.
        """
        if not self.baseline:
            return pd.DataFrame()
        columns: dict[str, list[str]] = {"run": self.run_ids}
        for metric in self.metrics:
            rows = self._rows(metric)
            texts = _rounded(rows[["delta", "delta_low", "delta_high"]], signed=True)
            columns[_heading(metric)] = [
                f"{text} {'' if pd.isna(word) else word}".rstrip()
                for text, word in zip(texts, rows["verdict"], strict=True)
            ]
        return pd.DataFrame(columns).drop(index=[self.run_ids.index(self.baseline)])

    def notes(self) -> list[str]:
        """Return what a reader must know beside the tables."""
        notes = list(self.sentences.values())
        if len(self.run_ids) > 1:
            notes.insert(
                0, "Runs that share a letter can't be told apart (all pairs at once, 5 %)."
            )
        if self.baseline:
            notes.append(
                f"Against {self.baseline}: paired 95 % intervals; verdicts by p values corrected"
                f" for {len(self.run_ids) - 1} candidates (Holm)."
            )
            is_cautious = self.table["caution"].fillna(False).to_numpy(dtype=bool)
            cautious = self.table[is_cautious].groupby("metric", sort=False)["run_id"]
            notes += [
                f"Caution, a few queries carry the difference in {metric} of {runs}: look at the"
                " largest changes."
                for metric, runs in cautious.agg(", ".join).items()
                # a few queries can't carry a median
                if describe(str(metric)).kind not in BY_QUANTILES
            ]
        for metric, rows in self.left_out.groupby("metric", sort=False):
            lacking = rows["lacking"].str.split(", ").explode().value_counts()
            runs = ", ".join(f"{n} in {run_id}" for run_id, n in lacking.items())
            queries = rows["query_id"].tolist()
            named = ", ".join(queries[:MAX_NAMED]) + (", ..." if len(queries) > MAX_NAMED else "")
            notes.append(
                f"{metric} leaves out {_n_queries(len(queries))} that some runs have no value for"
                f" ({runs}): {named}."
            )
        return [note for note in notes if note]

    def to_json(self) -> str:
        """Return the leaderboard as JSON, NaN as null; `from_json` reloads it."""
        return dump(self, aligned=self.aligned.rows())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the leaderboard that `to_json` wrote."""
        return reload(cls, text, aligned=AlignedScores.from_rows)

    def _tables(self) -> dict[str, pd.DataFrame]:
        tables = {"Leaderboard": self.shown()}
        if self.baseline:
            tables[f"Against {self.baseline}"] = self.against_baseline()
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
    runs: list[str] | None = None,
    golden: Golden | None = None,
    results: Results | None = None,
    cluster: str | None = "group",
    iterations: int = ITERATIONS,
    seed: int = 0,
) -> Leaderboard:
    """Rank runs by every metric, and name the runs that so many queries can't tell apart.

    Each metric is compared on the queries for which all runs have a value; the other queries are
    counted and listed. Randomised Tukey HSD (max-T) tests all pairs of runs at once, metric by
    metric: if no runs differ, any letters differ in at most 5 % of cases. Against a baseline, every
    candidate has the paired test of `ev.compare`, corrected by Holm. Times and costs are
    ranked by their median and not tested.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`. Average the repeats of a system first
        (`ev.average_repeats()`).
    metrics
        Columns of the scores; by default the headline metrics and columns of your own that were
        measured.
    baseline
        The run to compare each other run with: a run id, or a system that only one run has.
    runs
        Only these; by default all.
    golden
        For `cluster`, and so that `n_expected` knows to which queries a metric applies.
    results
        As for `ev.summary`: with them `n_expected` also counts what was refused, not judged or
        not recorded.
    cluster
        With a golden set: the column of `golden.queries` whose equal values make queries depend on
        each other. None: every query stands alone.
    iterations, seed
        Of the test of all pairs.

    Raises
    ------
    DataError
        An unknown run or metric; fewer than one run; a query twice in a run; a `cluster` without a
        golden set.
    """
    check_type(golden, (Golden, type(None)), "golden", "a Golden, as rs.load_golden gives it")
    aligned = align(scores, metrics, runs)
    if not aligned.run_ids:
        raise DataError("found none", field="runs", allowed="at least one run")
    base = None if baseline is None else align(scores, aligned.metrics[:1], [baseline]).run_ids[0]
    if base is not None and base not in aligned.run_ids:
        raise DataError(
            f"{base!r} is not among the runs",
            field="baseline",
            allowed=nearest(base, aligned.run_ids),
        )
    groups = query_clusters(golden, aligned.query_ids, cluster)
    parts = [
        _metric_rows(aligned, metric, groups, base, iterations, seed) for metric in aligned.metrics
    ]
    tables, pairs, sentences = zip(*parts, strict=True)
    table = pd.concat(tables, ignore_index=True)
    n_expected = expected_in(aligned, scores, golden, results).sum(axis=0)  # runs × metrics
    table.insert(table.columns.tolist().index("n") + 1, "n_expected", n_expected.T.ravel())
    first = table[(table["metric"] == aligned.metrics[0]).to_numpy()]
    return Leaderboard(
        aligned.metrics,
        first.sort_values("rank", kind="stable")["run_id"].tolist(),
        base,
        table,
        pd.concat(pairs, ignore_index=True),
        _left_out(aligned),
        dict(zip(aligned.metrics, sentences, strict=True)),
        aligned,
    )


def _metric_rows(
    aligned: AlignedScores,
    metric: str,
    groups: Groups | None,
    baseline: str | None,
    iterations: int,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Return the rows of one metric, its pairs of runs, and the sentence on its ties."""
    run_ids, is_timed = aligned.run_ids, describe(metric).kind in BY_QUANTILES
    shared = aligned.shared(metric)
    values, names = aligned.of(metric)[shared], [metric] * len(run_ids)
    own_groups = shared_only(None if groups is None else groups[shared])
    low, high = intervals(values, names, own_groups)
    p50_low, p50_high = quantile_intervals(values, names, 0.5)
    unknown = np.full(len(run_ids), np.nan)
    mean = values.mean(axis=0) if len(values) else unknown
    p50 = np.median(values, axis=0) if is_timed and len(values) else unknown
    # higher is better from here on
    quality = (p50 if is_timed else mean) * (-1.0 if describe(metric).better == "lower" else 1.0)
    n_in_any = int((~np.isnan(aligned.of(metric))).any(axis=1).sum())
    if is_timed:
        p = np.full((len(run_ids), len(run_ids)), np.nan)
    else:
        p = max_t_p(values, groups=own_groups, iterations=iterations, seed=seed)
    sets = [] if is_timed or not len(values) else tied_sets(quality, p, ALPHA)
    letters = [
        "".join(_letter(number) for number, members in enumerate(sets) if place in members)
        for place in range(len(run_ids))
    ]
    with_best = [place in sets[0] if sets else pd.NA for place in range(len(run_ids))]
    table = pd.DataFrame(
        {
            "metric": metric,
            "run_id": run_ids,
            "rank": pd.Series(quality).rank(ascending=False, method="min").astype("Int64"),
            "mean": mean,
            "low": low,
            "high": high,
            "p50": p50,
            "p50_low": p50_low,
            "p50_high": p50_high,
            "n": len(values),
            "n_left_out": n_in_any - int(shared.sum()),
            "sets": letters,
            "is_tied_with_best": pd.array(with_best, dtype="boolean"),
        }
    )
    if baseline is not None:
        table = _with_baseline(table, aligned, metric, own_groups, baseline, seed)
    sentence = _sentence(
        metric,
        [[run_ids[place] for place in members] for members in sets],
        dict(zip(run_ids, quality, strict=True)),
        len(values),
    )
    return table, _pairs(run_ids, metric, mean, p), sentence


def _with_baseline(
    table: pd.DataFrame,
    aligned: AlignedScores,
    metric: str,
    groups: Groups | None,
    baseline: str,
    seed: int,
) -> pd.DataFrame:
    """Add every candidate's difference from the baseline; p is corrected for their number."""
    shared = aligned.shared(metric)
    first = aligned.frame(baseline).loc[shared, [metric]]
    candidates = [run_id for run_id in aligned.run_ids if run_id != baseline]
    rows = []
    for run_id in candidates:
        second = aligned.frame(run_id).loc[shared, [metric]]
        # Every shared query has a value in both runs: none is lost.
        deltas = paired_deltas(first, second, first * np.nan, groups=groups, seed=seed)
        rows.append(deltas.iloc[0].to_dict())
    if describe(metric).kind in BY_QUANTILES:
        rows = [
            row | {name: row[f"p50_{name}"] for name in ("delta", "low", "high")} for row in rows
        ]
    p_holm = holm([row["p"] for row in rows])
    verdicts = [row_verdict(row | {"p": p}) for row, p in zip(rows, p_holm, strict=True)]
    rows = [
        row
        | {"delta_low": row["low"], "delta_high": row["high"], "p_holm": p}
        | {"verdict": verdict.word, "sentence": verdict.sentence}
        for row, p, verdict in zip(rows, p_holm, verdicts, strict=True)
    ]
    against = pd.DataFrame(
        [[row[name] for name in AGAINST] for row in rows],
        index=pd.Index(candidates, dtype="str"),
        columns=list(AGAINST),
    )
    return table.join(against.astype(AGAINST), on="run_id")


def _pairs(run_ids: list[str], metric: str, mean: Values, p: Values) -> pd.DataFrame:
    first, second = np.triu_indices(len(run_ids), 1)
    names = np.array(run_ids, dtype=object)
    columns = {
        "metric": metric,
        "run_baseline": names[first],
        "run_candidate": names[second],
        "delta": mean[second] - mean[first],
        "p": p[first, second],
    }
    names_of = dict.fromkeys(("metric", "run_baseline", "run_candidate"), "str")
    table = pd.DataFrame(columns).astype(names_of)
    return table.assign(is_tied=(table["p"] > ALPHA).astype("boolean").mask(table["p"].isna()))


def _left_out(aligned: AlignedScores) -> pd.DataFrame:
    """One row per metric and query for which only some runs have a value."""
    names = np.array(aligned.run_ids, dtype=object)
    parts = []
    for metric in aligned.metrics:
        lacking = np.isnan(aligned.of(metric))
        places = np.flatnonzero(lacking.any(axis=1) & ~lacking.all(axis=1))
        columns = {
            "metric": metric,
            "query_id": aligned.query_ids[places],
            "n_lacking": lacking[places].sum(axis=1),
            "lacking": [", ".join(names[lacking[place]]) for place in places],
        }
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True)
    return table.astype({"metric": "str", "query_id": "str", "lacking": "str"})


def _letter(number: int) -> str:
    """Return a, b, ..., z, then a2, b2, ..."""
    return chr(ord("a") + number % 26) + ("" if number < 26 else str(number // 26 + 1))


def _sentence(metric: str, sets: list[list[str]], quality: dict[str, float], n: int) -> str:
    """Say who leads and who can't be told apart; `quality` is higher for better runs."""
    if not n:
        return f"{metric}: no query has a value in every run."
    queries, kind = _n_queries(n), describe(metric)
    if kind.kind in BY_QUANTILES:
        return f"{metric}: ordered by the median of {queries}; not tested."
    leaders = [name for name in sets[0] if quality[name] == quality[sets[0][0]]]
    if len(leaders) == len(quality):
        same = "one run" if len(quality) == 1 else f"all {len(quality)} runs have the same mean"
        return f"{metric}: {same} ({queries})."
    has_direction = kind.better in ("higher", "lower")
    verbs = ("leads", "lead") if has_direction else ("is highest", "are highest")
    lead = f"{_listed(leaders)} {verbs[len(leaders) > 1]}"
    if len(sets) == 1:
        return f"{metric}: {lead}, but {queries} can't tell any of the {len(quality)} runs apart."
    tied = [name for name in sets[0] if name not in leaders]
    if tied:
        parts = [f"{lead} and can't be told from {_listed(tied)}"]
    else:
        parts = [f"{lead}, {'ahead of' if has_direction else 'above'} every other run"]
    parts += [f"{_listed(members)} can't be told apart" for members in sets[1:] if len(members) > 1]
    if alone := [members[0] for members in sets[1:] if len(members) == 1]:
        verb = "differs" if len(alone) == 1 else "differ"
        parts.append(f"{_listed(alone)} {verb} from every other run")
    return f"{metric}: {'; '.join(parts)} ({queries})."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _n_queries(n: int) -> str:
    return f"{n} {'query' if n == 1 else 'queries'}"


def _heading(metric: str) -> str:
    return f"{metric} (p50)" if describe(metric).kind in BY_QUANTILES else metric


def _rounded(rows: pd.DataFrame, signed: bool = False) -> list[str]:
    """Return value, low and high as text, as precise as the interval makes worth showing."""
    texts = []
    for row in rows.astype("float64").itertuples(index=False):
        places = max(decimals_for((row[2] - row[1]) / 4), 2)
        value, low, high = (shown_number(number, places, signed) for number in row)
        texts.append(f"{value} ({low} to {high})" if "—" not in (low, high) else value)
    return texts
