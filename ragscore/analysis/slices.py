"""Means and differences by slice of the queries. All of it is exploratory.

In: a frame of scores, a golden set, and names of its columns or kinds of tag. Out: one row per
slice and metric of each run, or of two runs compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align, clusters_text, expected_in
from ragscore.analysis.comparison.deltas import paired_deltas
from ragscore.analysis.comparison.text import in_words, shown_figures
from ragscore.frames.codes import lookup
from ragscore.frames.data import Golden
from ragscore.frames.tables import SHOWN_ROWS, Display, Table, shown_n
from ragscore.frames.typing import Codes, Flags
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import (
    intervals,
    query_clusters,
    shared_only,
)
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.rows import Rows
from ragscore.scoring.summary import Slicing, naturally, slice_names, slices
from ragscore.stats.moments import moments
from ragscore.stats.paired import welch

MIN_N = 10  # queries: a slice of fewer is starred
MEANS = (
    "metric", "n", "mean", "low", "high", "n_rest", "mean_rest", "delta_rest", "delta_low",
    "delta_high", "p", "is_small",
)  # fmt: skip
DELTAS = (
    "metric", "n", "n_expected_baseline", "n_expected_candidate", "baseline", "candidate", "delta",
    "low", "high", "p", "detectable", "is_small",
)  # fmt: skip
RESERVED = {"run_id", "query_id", *MEANS, *DELTAS}  # a slice can't be called like a column


def slice_means(
    scores: pd.DataFrame,
    golden: Golden,
    by: Slicing,
    metrics: list[str] | str | None = None,
    *,
    runs: list[str] | None = None,
    rows: Rows | None = None,
    cluster: str | None = "group",
    min_n: int = MIN_N,
    declared: MetricTable = TABLE,
) -> pd.DataFrame:
    """Return means by slice beside the rest of the run; see `Evaluation.slices`."""
    aligned, groups = _prepared(scores, golden, by, metrics, runs, cluster, declared)
    results = None if rows is None else rows.results
    described = aligned.described()
    columns = ["run_id", *slice_names(by), *MEANS]
    runs, parts = aligned.run_ids, [pd.DataFrame(columns=columns)]
    # by the golden set all runs have the same slices, which then share their resamples
    of_all = slices(golden, by, results)
    apart = "run_id" in of_all or not runs
    for some in [[run] for run in runs] if apart else [runs]:
        sliced = _in_all(of_all, by, some)
        values = np.column_stack([aligned.frame(run) for run in some])
        stacked = described * len(some)
        scale = np.array([one.scale for one in stacked])
        scaled = np.where([one.is_timed for one in stacked], np.nan, values / scale)
        for labels, inside in _members(aligned, sliced, by):
            mean, _, n = moments(values[inside])
            mean_rest, _, n_rest = moments(values[~inside])
            own = shared_only(None if groups is None else groups[inside])
            low, high = intervals(values[inside], stacked, own)
            delta, *ends, p = welch(scaled, inside, groups=groups)
            table = pd.DataFrame(
                {
                    "run_id": np.repeat(some, len(described)),
                    "metric": aligned.metrics * len(some), "n": n.astype(int), "mean": mean,
                    "low": low, "high": high,
                    "n_rest": n_rest.astype(int), "mean_rest": mean_rest,
                    "delta_rest": delta * scale, "delta_low": ends[0] * scale,
                    "delta_high": ends[1] * scale, "p": p, "is_small": n < min_n,
                }
            )  # fmt: skip
            parts.append(table.assign(**labels))
    table = pd.concat(parts[1:] or parts, ignore_index=True)[columns]
    order = np.argsort(table["run_id"].map(runs.index), kind="stable")
    return table.iloc[order].reset_index(drop=True)


@dataclass(frozen=True, repr=False)  # else the generated one replaces Display's
class SliceComparison(Display):
    """Differences of the candidate from the baseline, slice by slice.

    Exploratory: it says where to look, and decides nothing.

    Attributes
    ----------
    table
        One row per slice and metric: `baseline` and `candidate` over the `n` queries where both
        have a value (of times and costs medians), `delta` with its 95 % interval `low`, `high`, and
        `p` of this row alone; `detectable`; `is_small`, fewer queries than `min_n`.
    overall
        One row per metric: the same over all queries.
    n_changed
        Queries that the two runs answered in different modes: slices by mode leave them out.
    """

    baseline: str
    candidate: str
    by: tuple[str, ...]
    min_n: int
    table: pd.DataFrame
    overall: pd.DataFrame
    n_changed: int = 0
    declared: MetricTable = TABLE
    clusters: str = ""

    plot = Accessor("ragscore.plot.accessor:SLICES")

    def _shown(self) -> pd.DataFrame:
        rows = self.table[self.table["n"] > 0]
        counts = rows[["n", "n_expected_baseline", "n_expected_candidate"]].to_numpy()
        labels = rows[list(self.by)].astype("str")
        stars = rows["is_small"].map({True: "*", False: ""})
        columns: dict[str, Any] = {
            self.by[-1]: labels[self.by[-1]] + stars,
            "metric": [in_words(name) for name in rows["metric"]],
            "n / expected": [shown_n(*row) for row in counts],
        }
        return labels.assign(**columns, **shown_figures(rows))

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table."""
        notes = ["Exploratory: by chance alone, one interval in 20 leaves out 0."]
        if self.n_changed:
            notes.append(f"Left out: {self.n_changed} queries answered in different modes.")
        if self.table["is_small"].any():
            notes.append(f"* fewer than {self.min_n} queries.")
        return [*notes, *filter(None, [self.clusters])]

    def _parts(self) -> list[str | Table]:
        title = f"{self.candidate} against {self.baseline} by {' × '.join(self.by)}"
        return [title, Table(self._shown(), limit=SHOWN_ROWS, way=".table"), *self.notes()]


def compare_slices(
    scores: pd.DataFrame,
    golden: Golden,
    by: Slicing,
    baseline: str,
    candidate: str,
    metrics: list[str] | str | None = None,
    *,
    rows: Rows | None = None,
    cluster: str | None = "group",
    min_n: int = MIN_N,
    declared: MetricTable = TABLE,
) -> SliceComparison:
    """Compare two runs slice by slice; see `Comparison.slices`."""
    aligned, groups = _prepared(
        scores, golden, by, metrics, [baseline, candidate], cluster, declared
    )
    expected = expected_in(aligned, scores, rows)
    results = None if rows is None else rows.results
    everything = np.ones(len(aligned.query_ids), dtype=bool)

    def deltas(inside: Flags) -> pd.DataFrame:
        first, second = (aligned.frame(run)[inside] for run in aligned.run_ids)
        own = shared_only(None if groups is None else groups[inside])
        table = paired_deltas(first, second, declared=aligned.declared, groups=own)
        of_baseline, of_candidate = expected[inside].sum(axis=0)
        return table.assign(
            n_expected_baseline=of_baseline, n_expected_candidate=of_candidate,
            is_small=table["n"] < min_n,
        )  # fmt: skip

    columns = slice_names(by)
    nothing = deltas(everything)[:0].assign(**dict.fromkeys(columns, ""))
    sliced = _in_all(slices(golden, by, results), by, aligned.run_ids)
    parts = [deltas(inside).assign(**labels) for labels, inside in _members(aligned, sliced, by)]
    n_sliced = sliced["query_id"].nunique()
    table = pd.concat(parts or [nothing], ignore_index=True)[[*columns, *DELTAS]]
    return SliceComparison(
        aligned.run_ids[0], aligned.run_ids[1], columns, min_n, table,
        deltas(everything)[list(DELTAS)],
        len(golden.queries) - n_sliced if "run_id" in sliced else 0,
        aligned.declared,
        clusters_text(golden, aligned.query_ids, cluster, talks=True),
    )  # fmt: skip


def _prepared(
    scores: pd.DataFrame, golden: Golden, by: Slicing, metrics: list[str] | str | None,
    runs: list[str] | None, cluster: str | None, declared: MetricTable,
) -> tuple[AlignedScores, Codes | None]:  # fmt: skip
    slice_names(by, RESERVED)
    aligned = align(scores, metrics, runs, declared)
    return aligned, query_clusters(golden, aligned.query_ids, cluster)


def _members(
    aligned: AlignedScores, rows: pd.DataFrame, by: Slicing
) -> Iterator[tuple[dict[str, str], Flags]]:
    """Give the labels of each slice, and a flag per query."""
    columns = list(slice_names(by))
    place = lookup(pd.Index(rows["query_id"]), aligned.query_ids.astype("str"))
    for labels, held in naturally(rows, columns).groupby(columns, observed=True).indices.items():
        # the last place: queries without a row
        inside = np.bincount(place[held], minlength=len(aligned.query_ids) + 1)[:-1] > 0
        texts = map(str, labels if isinstance(labels, tuple) else (labels,))
        yield dict(zip(columns, texts, strict=True)), inside


def _in_all(sliced: pd.DataFrame, by: Slicing, runs: list[str]) -> pd.DataFrame:
    """Return the slices of queries; by a column of responses, those alike in all runs."""
    if "run_id" not in sliced:
        return sliced
    rows = sliced[sliced["run_id"].isin(runs)]
    keys = ["query_id", *slice_names(by)]
    is_same = rows.groupby(keys)["run_id"].transform("nunique").eq(len(runs))
    return rows[is_same.to_numpy()].drop_duplicates(keys)
