"""Many runs side by side.

Means with intervals, which runs can't be told apart, and each run against a baseline.

In: a frame of scores. Out: a `Leaderboard`; its frames hold every number, its text forms round
them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import Aligned, align, aligned_of, expected_in
from ragscore.analysis.comparison.deltas import paired_deltas, row_verdict
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.render import decimals_for, dump, markdown_table, reload, shown_n, shown_number
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

Values = npt.NDArray[np.float64]
ALPHA = 0.05
ITERATIONS = 2_000
AGAINST = (
    "delta",
    "delta_low",
    "delta_high",
    "p",
    "p_holm",
    "mde",
    "n_better",
    "n_worse",
    "caution",
    "verdict",
    "sentence",
)
LISTED = 5  # queries named in a note


@dataclass(frozen=True)
class Leaderboard:
    """Runs × metrics, on the queries for which every run has a value.

    Attributes
    ----------
    table
        One row per metric and run: `rank` (1 is best, of a column of your own the highest; by the
        median for times and costs), `mean` with its 95 % interval `low`, `high`; for times and
        costs `p50` with `p50_low`, `p50_high`; `n` queries, `n_expected`, those that the run should
        have a value for (see `rs.explain`), `n_left_out`, those that another run has no value for;
        `sets`, letters: runs that share one can't be told apart ("": not tested);
        `is_tied_with_best`. With a baseline also `delta` = run − baseline with its paired interval
        `delta_low`, `delta_high` (of medians for times and costs), `p`, `p_holm` (Holm over the
        candidates, metric by metric), `mde`, how many queries are better and worse (`n_better`,
        `n_worse`), `caution` where a few queries carry the mean, and the `verdict` with its
        `sentence`, which go by `p_holm`; of a column of your own, whose direction nobody declared,
        it says higher or lower and not better or worse. NA for the baseline.
    pairs
        One row per metric and pair of runs: `delta` = run_b − run_a, `p` adjusted for all pairs
        (max-T), `is_tied`.
    left_out
        One row per metric and query that some runs have a value for and others haven't: `n_lacking`
        runs, named in `lacking`.
    sentences
        Metric -> which runs lead, and which can't be told apart, in words.
    run_ids
        The runs, best first by the first metric.
    """

    metrics: list[str]
    run_ids: list[str]
    baseline: str | None
    table: pd.DataFrame
    pairs: pd.DataFrame
    left_out: pd.DataFrame
    sentences: dict[str, str]
    aligned: Aligned = field(repr=False)

    def matrix(self, metric: str) -> pd.DataFrame:
        """One row per query, one column per run, best first.

        The values that the means of a metric are made of.
        """
        if metric not in self.metrics:
            raise DataError(
                f"no metric {metric!r}", field="metric", allowed=f"one of {', '.join(self.metrics)}"
            )
        shared = self.aligned.shared(metric)
        values = pd.DataFrame(
            self.aligned.of(metric)[shared],
            index=self.aligned.query_ids[shared],
            columns=pd.Index(self.aligned.run_ids, name="run_id"),
        )
        return values[self.run_ids]

    def shown(self) -> pd.DataFrame:
        """Runs × metrics as text.

        Mean (median for times and costs), interval, the letters of its tied sets, n / n_expected.
        """
        return _as_text(self, _shown_mean)

    def against_baseline(self) -> pd.DataFrame:
        """Candidates × metrics as text: difference, interval, verdict. Empty without a baseline."""
        return (
            _as_text(self, _shown_delta).drop(index=[self.run_ids.index(self.baseline)])
            if self.baseline
            else pd.DataFrame()
        )

    def notes(self) -> list[str]:
        """What a reader must know beside the table."""
        return _notes(self)

    def to_markdown(self) -> str:
        """The leaderboard as Markdown."""
        parts = ["# Leaderboard", markdown_table(self.shown())]
        parts += (
            [f"## Against {self.baseline}", markdown_table(self.against_baseline())]
            if self.baseline
            else []
        )
        return "\n\n".join([*parts, "\n".join(f"- {note}" for note in self.notes())]) + "\n"

    def to_json(self) -> str:
        """The leaderboard as JSON, NaN as null; `from_json` reloads it."""
        return dump(self, aligned=self.aligned.rows())

    @classmethod
    def from_json(cls, text: str) -> "Leaderboard":
        """The leaderboard that `to_json` wrote."""
        return reload(cls, text, aligned=aligned_of)

    def _repr_html_(self) -> str:
        tables = self.shown().to_html(index=False, border=0)
        if self.baseline:
            tables += (
                f"<p><b>Against {escape(self.baseline)}</b></p>"
                + self.against_baseline().to_html(index=False, border=0)
            )
        return (
            tables + "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in self.notes()) + "</ul>"
        )

    def __repr__(self) -> str:
        parts = [self.shown().to_string(index=False)]
        parts += (
            [f"Against {self.baseline}\n{self.against_baseline().to_string(index=False)}"]
            if self.baseline
            else []
        )
        return "\n\n".join([*parts, "\n".join(self.notes())])


def leaderboard(
    scores: pd.DataFrame,
    baseline: str | None = None,
    metrics: list[str] | str | None = None,
    golden: Golden | None = None,
    *,
    runs: list[str] | None = None,
    results: Results | None = None,
    cluster: str | None = "group",
    iterations: int = ITERATIONS,
    seed: int = 0,
) -> Leaderboard:
    """Rank runs by every metric, and say which of them so many queries can't tell apart.

    Runs are compared on the queries for which all of them have a value, metric by metric; the
    others are counted and listed. All pairs of runs are tested at once by randomised Tukey HSD
    (max-T), metric by metric: if no runs differ, any letters differ in at most 5 % of cases.
    Against a baseline every candidate has the paired test of `rs.compare_runs`, corrected by Holm.
    Times and costs are ranked by their median, and not tested.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`. Repeats of a system are averaged first
        (`rs.average_repeats`).
    baseline
        The run, or a system that only one run has, that each other run is compared with.
    metrics
        Columns of the scores; by default those a table for reading starts with, as far as they were
        measured.
    golden
        For `cluster`, and so that `n_expected` knows to which queries a metric applies.
    runs
        Only these; by default all.
    results
        As for `rs.summarize`: with them `n_expected` also counts what was refused, not judged or
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
    found = align(scores, metrics, runs)
    if not found.run_ids:
        raise DataError("found none", field="runs", allowed="at least one run")
    base = align(scores, found.metrics[:1], [baseline]).run_ids[0] if baseline is not None else None
    if base is not None and base not in found.run_ids:
        raise DataError(
            f"{base!r} is not among the runs",
            field="baseline",
            allowed=f"one of {', '.join(found.run_ids)}",
        )
    groups = query_clusters(golden, found.query_ids, cluster)
    parts = [
        _metric_rows(found, metric, groups, base, iterations, seed) for metric in found.metrics
    ]
    n_expected = expected_in(found, scores, golden, results).sum(axis=0)  # runs × metrics
    table = pd.concat([part[0] for part in parts], ignore_index=True)
    table.insert(table.columns.tolist().index("n") + 1, "n_expected", n_expected.T.ravel())
    pairs = pd.concat([part[1] for part in parts], ignore_index=True)
    first = table[(table["metric"] == found.metrics[0]).to_numpy()]
    order = first.sort_values("rank", kind="stable")["run_id"].tolist()
    sentences = {metric: part[2] for metric, part in zip(found.metrics, parts, strict=True)}
    return Leaderboard(found.metrics, order, base, table, pairs, _left_out(found), sentences, found)


def _metric_rows(
    found: Aligned,
    metric: str,
    groups: Groups | None,
    baseline: str | None,
    iterations: int,
    seed: int,
) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """The rows of one metric, its pairs of runs, and the sentence on its ties."""
    shared = found.shared(metric)
    values, names = found.of(metric)[shared], [metric] * len(found.run_ids)
    own_groups = shared_only(None if groups is None else groups[shared])
    low, high = intervals(values, names, own_groups)
    p50_low, p50_high = quantile_intervals(values, names, 0.5)
    is_timed = describe(metric).kind in BY_QUANTILES
    mean = values.mean(axis=0) if len(values) else np.full(len(names), np.nan)
    p50 = np.median(values, axis=0) if is_timed and len(values) else np.full(len(names), np.nan)
    worth = (p50 if is_timed else mean) * (-1.0 if describe(metric).better == "lower" else 1.0)
    n_partly = int((~np.isnan(found.of(metric))).any(axis=1).sum() - shared.sum())
    table = pd.DataFrame({
        "metric": metric, "run_id": found.run_ids,
        "rank": pd.Series(worth).rank(ascending=False, method="min").astype("Int64"),
        "mean": mean, "low": low, "high": high, "p50": p50, "p50_low": p50_low,
        "p50_high": p50_high, "n": len(values), "n_left_out": n_partly,
    })  # fmt: skip
    p = (
        np.full((len(names),) * 2, np.nan)
        if is_timed
        else max_t_p(values, groups=own_groups, iterations=iterations, seed=seed)
    )
    sets = [] if is_timed or not len(values) else tied_sets(worth, p, ALPHA)
    of_run = [
        "".join(_letter(number) for number, members in enumerate(sets) if place in members)
        for place in range(len(names))
    ]
    with_best = [place in sets[0] if sets else pd.NA for place in range(len(names))]
    table = table.assign(sets=of_run, is_tied_with_best=pd.array(with_best, dtype="boolean"))
    if baseline is not None:
        table = _with_baseline(table, found, metric, own_groups, baseline, seed)
    names_of_sets = [[found.run_ids[place] for place in members] for members in sets]
    said = _in_words(
        metric, names_of_sets, dict(zip(found.run_ids, worth, strict=True)), len(values), is_timed
    )
    return table, _pairs(found.run_ids, metric, mean, p), said


def _with_baseline(
    table: pd.DataFrame,
    found: Aligned,
    metric: str,
    groups: Groups | None,
    baseline: str,
    seed: int,
) -> pd.DataFrame:
    """Every candidate's difference from the baseline; p corrected for their number."""
    shared = found.shared(metric)
    frames = {run_id: found.frame(run_id).loc[shared, [metric]] for run_id in found.run_ids}
    nothing_lost = frames[baseline] * np.nan
    candidates = [run_id for run_id in found.run_ids if run_id != baseline]
    rows = [
        paired_deltas(frames[baseline], frames[run_id], nothing_lost, groups=groups, seed=seed)
        .iloc[0]
        .to_dict()
        for run_id in candidates
    ]
    if describe(metric).kind in BY_QUANTILES:
        rows = [
            row | {"delta": row["p50_delta"], "low": row["p50_low"], "high": row["p50_high"]}
            for row in rows
        ]
    adjusted = holm([row["p"] for row in rows])
    verdicts = [row_verdict(row | {"p": p}) for row, p in zip(rows, adjusted, strict=True)]
    columns = {"delta": "delta", "delta_low": "low", "delta_high": "high", "p": "p", "mde": "mde"}
    deltas = pd.DataFrame(
        {name: [float(row[source]) for row in rows] for name, source in columns.items()},
        index=pd.Index(candidates, dtype="str"),
    )
    deltas = deltas.assign(
        p_holm=adjusted,
        verdict=[one.word for one in verdicts],
        sentence=[one.sentence for one in verdicts],
    )
    deltas = deltas.assign(
        **{name: [row[name] for row in rows] for name in ("n_better", "n_worse", "caution")}
    )
    types = {
        "n_better": "Int64",
        "n_worse": "Int64",
        "caution": "boolean",
        "verdict": "str",
        "sentence": "str",
    }
    return table.join(deltas.astype(types)[list(AGAINST)], on="run_id")


def _pairs(run_ids: list[str], metric: str, mean: Values, p: Values) -> pd.DataFrame:
    first, second = np.triu_indices(len(run_ids), 1)
    names = np.array(run_ids, dtype=object)
    columns = {
        "metric": metric,
        "run_a": names[first],
        "run_b": names[second],
        "delta": mean[second] - mean[first],
        "p": p[first, second],
    }
    table = pd.DataFrame(columns).astype({"metric": "str", "run_a": "str", "run_b": "str"})
    return table.assign(is_tied=(table["p"] > ALPHA).astype("boolean").mask(table["p"].isna()))


def _left_out(found: Aligned) -> pd.DataFrame:
    """Queries that only some runs have a value of a metric for."""
    parts = []
    names = np.array(found.run_ids, dtype=object)
    for metric in found.metrics:
        lacking = np.isnan(found.of(metric))
        partly = np.flatnonzero(lacking.any(axis=1) & ~lacking.all(axis=1))
        named = [", ".join(names[lacking[place]]) for place in partly]
        parts.append(
            pd.DataFrame(
                {
                    "metric": metric,
                    "query_id": found.query_ids[partly],
                    "n_lacking": lacking[partly].sum(axis=1),
                    "lacking": named,
                }
            )
        )
    return pd.concat(parts, ignore_index=True).astype(
        {"metric": "str", "query_id": "str", "lacking": "str"}
    )


def _letter(number: int) -> str:
    """a, b, ..., z, then a2, b2, ..."""
    return chr(ord("a") + number % 26) + ("" if number < 26 else str(number // 26 + 1))


def _in_words(
    metric: str, sets: list[list[str]], worth: dict[str, float], n: int, is_timed: bool
) -> str:
    """Who leads and who can't be told apart. `worth` is higher for better runs."""
    queries = f"{n} {'query' if n == 1 else 'queries'}"
    if not n:
        return f"{metric}: no query has a value in every run."
    if is_timed:
        return f"{metric}: ordered by the median of {queries}; not tested."
    leading = [name for name in sets[0] if worth[name] == worth[sets[0][0]]]
    if len(leading) == len(worth):
        return (
            f"{metric}:"
            f" {'one run' if len(worth) == 1 else f'all {len(worth)} runs have the same mean'}"
            f" ({queries})."
        )
    is_valued = describe(metric).better in ("higher", "lower")
    verb = ("leads", "lead") if is_valued else ("is highest", "are highest")
    lead = f"{_listed(leading)} {verb[len(leading) > 1]}"
    if len(sets) == 1:
        return f"{metric}: {lead}, but {queries} can't tell any of the {len(worth)} runs apart."
    others = [name for name in sets[0] if name not in leading]
    said = [
        (
            f"{lead} and can't be told from {_listed(others)}"
            if others
            else f"{lead}, {'ahead of' if is_valued else 'above'} every other run"
        )
    ]
    said += [f"{_listed(members)} can't be told apart" for members in sets[1:] if len(members) > 1]
    alone = [members[0] for members in sets[1:] if len(members) == 1]
    said += (
        [f"{_listed(alone)} {'differs' if len(alone) == 1 else 'differ'} from every other run"]
        if alone
        else []
    )
    return f"{metric}: {'; '.join(said)} ({queries})."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _as_text(board: Leaderboard, shown: Callable[[pd.DataFrame, str], list[str]]) -> pd.DataFrame:
    """Runs (rows, best first) × metrics."""
    columns: dict[str, list[str]] = {"run": board.run_ids}
    for metric in board.metrics:
        rows = (
            board.table[(board.table["metric"] == metric).to_numpy()]
            .set_index("run_id")
            .loc[board.run_ids]
        )
        title = f"{metric} (p50)" if describe(metric).kind in BY_QUANTILES else metric
        counts = _counts(rows)
        columns[
            f"{title}, n = {counts[0]}" if shown is _shown_mean and len(set(counts)) == 1 else title
        ] = shown(rows, metric)
    return pd.DataFrame(columns)


def _counts(rows: pd.DataFrame) -> list[str]:
    return [shown_n(*pair) for pair in zip(rows["n"], rows["n_expected"], strict=True)]


def _shown_mean(rows: pd.DataFrame, metric: str) -> list[str]:
    """Means with their letters.

    N / n_expected beside each where runs differ in it, else it stands in the heading.
    """
    names = (
        ("p50", "p50_low", "p50_high")
        if describe(metric).kind in BY_QUANTILES
        else ("mean", "low", "high")
    )
    texts = [
        f"{text} {letters}".rstrip()
        for text, letters in zip(_rounded(rows, names, signed=False), rows["sets"], strict=True)
    ]
    counts = _counts(rows)
    return (
        texts
        if len(set(counts)) == 1
        else [f"{text}, n = {count}" for text, count in zip(texts, counts, strict=True)]
    )


def _shown_delta(rows: pd.DataFrame, metric: str) -> list[str]:
    texts = _rounded(rows, ("delta", "delta_low", "delta_high"), signed=True)
    return [
        f"{text} {'' if pd.isna(word) else word}".rstrip()
        for text, word in zip(texts, rows["verdict"], strict=True)
    ]


def _rounded(rows: pd.DataFrame, names: tuple[str, str, str], signed: bool) -> list[str]:
    """A value with its interval, as precise as the interval makes worth showing."""
    found = []
    for value, low, high in rows[list(names)].astype("float64").itertuples(index=False):
        places = max(decimals_for((high - low) / 4), 2)
        value, low, high = (shown_number(number, places, signed) for number in (value, low, high))
        found.append(f"{value} ({low} to {high})" if "—" not in (low, high) else value)
    return found


def _notes(board: Leaderboard) -> list[str]:
    notes = [
        (
            "Runs that share a letter can't be told apart (all pairs at once, 5 %)."
            if len(board.run_ids) > 1
            else ""
        ),
        *board.sentences.values(),
    ]
    if board.baseline:
        notes.append(
            f"Against {board.baseline}: paired 95 % intervals; verdicts by p values corrected for"
            f" {len(board.run_ids) - 1} candidates (Holm)."
        )
        cautious = (
            board.table[board.table["caution"].fillna(False).to_numpy(dtype=bool)]
            .groupby("metric", sort=False)["run_id"]
            .agg(", ".join)
        )
        notes += [
            f"Caution, a few queries carry the difference in {metric} of {runs}: look at the"
            " largest movers."
            for metric, runs in cautious.items()
            # told by medians, which no few queries carry
            if describe(str(metric)).kind not in BY_QUANTILES
        ]
    counts = board.left_out.groupby("metric", sort=False)["query_id"].agg(list)
    for metric, queries in counts.items():
        lacking = (
            board.left_out.loc[board.left_out["metric"] == metric, "lacking"]
            .str.split(", ")
            .explode()
            .value_counts()
        )
        who = ", ".join(f"{n} in {run_id}" for run_id, n in lacking.items())
        named = ", ".join(queries[:LISTED]) + (", ..." if len(queries) > LISTED else "")
        notes.append(
            f"{metric} leaves out {len(queries)} {'query' if len(queries) == 1 else 'queries'} that"
            f" some runs have no value for ({who}): {named}."
        )
    return [note for note in notes if note]
