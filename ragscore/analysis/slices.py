"""Means and differences by slice of the queries. All of it is exploratory.

In: a frame of scores, a golden set, and names of its columns or kinds of tag. Out: one row per
slice and metric of each run, or of two runs compared.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.align import AlignedScores, align, expected_in
from ragscore.analysis.comparison.deltas import (
    paired_deltas,
    read_by_medians,
    row_verdict,
)
from ragscore.analysis.comparison.text import MEDIANS_NOTE, in_words
from ragscore.analysis.result_forms import TableResult
from ragscore.frames.codes import lookup
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.render import (
    decimals_within,
    shown_detectable,
    shown_n,
    shown_number,
    shown_p,
)
from ragscore.frames.tables import SHOWN_ROWS, Table
from ragscore.frames.typing import Flags
from ragscore.frames.verbs import Accessor
from ragscore.scoring.intervals import (
    BY_QUANTILES,
    Groups,
    are_timed,
    clusters_text,
    intervals,
    query_clusters,
    scales_of,
    shared_only,
)
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, table_kind
from ragscore.scoring.modes import is_by_mode, response_modes, shared_modes, with_modes
from ragscore.scoring.summary import Slicing, naturally, slice_names, slices
from ragscore.stats import benjamini_hochberg, moments, two_sample_test

MIN_N = 10  # queries: a slice of fewer is shown and not tested
TOO_FEW = "too few queries"
PERMUTATION, WELCH = "permutation", "Welch"  # the test of a slice against the rest
MEANS = (
    "metric", "n", "mean", "low", "high", "n_rest", "mean_rest", "delta_rest", "p", "test", "q",
    "is_small",
)  # fmt: skip
DELTAS = (
    "metric", "n", "n_expected_baseline", "n_expected_candidate", "baseline", "candidate", "delta",
    "low", "high", "p", "q", "mde", "verdict", "is_small",
)  # fmt: skip
OVERALL = (*[name for name in DELTAS if name not in ("q", "is_small")], "sentence")
# a slice can't be called like a column of a result
RESERVED = (
    "run_id", "query_id", "metric", "n", "n_expected_baseline", "n_expected_candidate", "mean",
    "low", "high", "baseline", "candidate", "delta", "p", "test", "q", "mde", "is_small",
)  # fmt: skip


def slice_means(
    scores: pd.DataFrame,
    golden: Golden,
    by: Slicing,
    metrics: list[str] | str | None = None,
    *,
    runs: list[str] | None = None,
    results: Results | None = None,
    cluster: str | None = "group",
    min_n: int = MIN_N,
    seed: int = 0,
    declared: Declarations = NOTHING_DECLARED,
) -> pd.DataFrame:
    """Return means by slice, tested against the rest of the run; see `Evaluation.slices`.

    `results` are needed for slices by mode; `declared` tells of columns of your own.
    """
    if is_by_mode(by, golden):
        run_ids = align(scores, metrics, runs).run_ids
        by_run = [
            slice_means(
                scores, with_modes(golden, results, run_id), by, metrics, runs=[run_id],
                cluster=cluster, min_n=min_n, seed=seed, declared=declared,
            )
            for run_id in run_ids
        ]  # fmt: skip
        table = pd.concat(by_run, ignore_index=True)
        return table.assign(q=benjamini_hochberg(table["p"]))
    aligned, members, groups = _prepare(scores, golden, by, metrics, runs, cluster, declared)
    parts = [
        _slice_rows(aligned, inside, groups, min_n, seed).assign(**labels)
        for labels, inside in members
    ]
    if not parts:
        raise DataError("no query in any slice", field="by", allowed="a golden set with queries")
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(q=benjamini_hochberg(table["p"]))
    order = {run_id: place for place, run_id in enumerate(aligned.run_ids)}
    table = table.sort_values(
        "run_id", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )
    return table[["run_id", *slice_names(by), *MEANS]]


@dataclass(frozen=True, repr=False)  # else the generated one replaces TableResult's
class SliceComparison(TableResult):
    """Differences of the candidate from the baseline, slice by slice.

    Exploratory: it says where to look, and proves nothing by itself.

    Attributes
    ----------
    by
        The columns of the slices.
    table
        One row per slice and metric: means `baseline` and `candidate` over the `n` queries where
        both have a value, of `n_expected_baseline`, `n_expected_candidate` (see `ev.explain`);
        `delta` = candidate − baseline with its paired 95 % interval `low`, `high`. Times and costs
        have medians of these, and of the differences. `p` (of times: sign test); `q`
        (Benjamini and Hochberg over all tests of the table);
        `mde`, the minimum detectable difference (80 % power; NaN: none at this n); `verdict` by q;
        `is_small`. Slices of fewer queries than `min_n` have an interval, but no p, q or mde.
    overall
        One row per metric: the same over all queries (p uncorrected).
    n_changed
        Queries that the two runs answered in different modes: slices by mode leave them out.
    declared
        Direction and range of columns of your own, as the evaluation had them declared.
    clusters
        How many conversations intervals and tests allow for, in words; empty without any.
    """

    baseline: str
    candidate: str
    by: tuple[str, ...]
    min_n: int
    table: pd.DataFrame
    overall: pd.DataFrame
    n_changed: int = 0
    declared: Declarations = NOTHING_DECLARED
    clusters: str = ""

    plot = Accessor("ragscore.plot.accessor:SLICES")

    def _shown(self) -> pd.DataFrame:
        """Return the table as text.

        One row per slice and metric that has a value; `*` marks slices with too few queries.
        """
        rows = self.table[self.table["n"] > 0]
        places = [
            decimals_within(*bounds) for bounds in zip(rows["low"], rows["high"], strict=True)
        ]
        texts = {
            name: [
                shown_number(value, digits, name in ("delta", "low", "high"))
                for value, digits in zip(rows[name], places, strict=True)
            ]
            for name in ("baseline", "candidate", "delta", "low", "high", "mde")
        }
        labels = {name: rows[name].astype("str").tolist() for name in self.by}
        labels[self.by[-1]] = [
            f"{label}{'*' if is_small else ''}"
            for label, is_small in zip(labels[self.by[-1]], rows["is_small"], strict=True)
        ]
        counts = zip(
            rows["n"], rows["n_expected_baseline"], rows["n_expected_candidate"], strict=True
        )
        bounds = zip(texts["low"], texts["high"], strict=True)
        tests = zip(rows["verdict"], rows["p"], rows["mde"], texts["mde"], strict=True)
        return pd.DataFrame(
            labels
            | {
                "metric": [in_words(name) for name in rows["metric"]],
                "n / expected": [shown_n(*row) for row in counts],
                "baseline": texts["baseline"],
                "candidate": texts["candidate"],
                "delta": texts["delta"],
                "95 % interval": [f"[{low}, {high}]" for low, high in bounds],
                "q": [shown_p(q) for q in rows["q"]],
                "candidate is": rows["verdict"].tolist(),
                "detectable": [shown_detectable(*row) for row in tests],
            }
        )

    def notes(self) -> list[str]:
        """Return what a reader must know beside the table."""
        n_tests = int(self.table["p"].notna().sum())
        notes = [
            f"Exploratory: {n_tests} {'test' if n_tests == 1 else 'tests'}, q by Benjamini and"
            f" Hochberg. The candidate is {self.candidate}, the baseline {self.baseline}."
        ]
        if self.n_changed:
            notes.append(
                f"Left out: {self.n_changed} queries that the two runs answered in different modes."
            )
        if (self.table["is_small"] & (self.table["n"] > 0)).any():
            notes.append(f"* fewer than {self.min_n} queries: not tested, interval only.")
        if any(table_kind(name) in BY_QUANTILES for name in self.table["metric"]):
            notes.append(MEDIANS_NOTE)
        return [*notes, *filter(None, [self.clusters])]

    def _tables(self) -> list[Table]:
        title = f"{self.candidate} against {self.baseline} by {' × '.join(self.by)}"
        return [Table(self._shown(), title, limit=SHOWN_ROWS, way=".table")]


def compare_slices(
    scores: pd.DataFrame,
    golden: Golden,
    by: Slicing,
    baseline: str,
    candidate: str,
    metrics: list[str] | str | None = None,
    *,
    results: Results | None = None,
    cluster: str | None = "group",
    min_n: int = MIN_N,
    seed: int = 0,
    declared: Declarations = NOTHING_DECLARED,
) -> SliceComparison:
    """Compare two runs slice by slice.

    The result holds differences with intervals, q values, and the minimum detectable differences.

    Parameters
    ----------
    baseline, candidate
        Run ids, or systems that only one run has. The other parameters are those of
        `ev.slices`.
    results
        The results of both runs, for slices by the modes of their responses.
    declared
        What is declared of columns of your own.

    Raises
    ------
    DataError
        As `ev.slices`; the same run twice; no query that both runs answered in the same mode.
    """
    runs, n_changed = [baseline, candidate], 0
    if results is not None and is_by_mode(by, golden):
        a, b = align(scores, metrics, runs).run_ids
        golden, n_changed = shared_modes(golden, response_modes(results), (a, b))
        rows = scores if scores.index.name == "query_id" else scores.set_index("query_id")
        scores = rows[rows.index.isin(golden.queries["query_id"])]
    aligned, members, groups = _prepare(scores, golden, by, metrics, runs, cluster, declared)
    if len(aligned.run_ids) < 2:
        raise DataError(
            f"{aligned.run_ids[0]!r} is both baseline and candidate",
            field="candidate",
            allowed="two different runs",
        )
    expected = expected_in(aligned, scores, golden)
    deltas = [
        _deltas(aligned, inside, expected, groups, seed).assign(**labels)
        for labels, inside in members
    ]
    table = pd.concat(deltas, ignore_index=True)
    is_small = table["n"] < min_n
    table = table.assign(
        is_small=is_small, p=table["p"].mask(is_small), mde=table["mde"].mask(is_small)
    )
    table = table.assign(q=benjamini_hochberg(table["p"]))
    table["verdict"] = [
        TOO_FEW
        if row["is_small"]
        else row_verdict(row | {"p_adjusted": row["q"]}, declared.describe(row["metric"])).word
        for row in table.to_dict("records")
    ]
    everything = np.ones(len(aligned.query_ids), dtype=bool)
    overall = _deltas(aligned, everything, expected, groups, seed)[list(OVERALL)]
    columns = slice_names(by)
    return SliceComparison(
        aligned.run_ids[0],
        aligned.run_ids[1],
        columns,
        min_n,
        table[[*columns, *DELTAS]],
        overall,
        n_changed,
        aligned.declared,
        clusters_text(golden, aligned.query_ids, cluster, talks=True),
    )


def _prepare(
    scores: pd.DataFrame,
    golden: Golden,
    by: Slicing,
    metrics: list[str] | str | None,
    runs: list[str] | None,
    cluster: str | None,
    declared: Declarations,
) -> tuple[AlignedScores, list[tuple[dict[str, str], Flags]], Groups | None]:
    """Return aligned scores, the slices (labels, a flag per query) and groups of queries."""
    check_type(golden, Golden, "golden", "a Golden, as rs.load_golden gives it")
    columns = slice_names(by)
    if reserved := [name for name in columns if name in RESERVED]:
        raise DataError(
            f"a slice can't be called {reserved[0]!r}",
            field="by",
            allowed="a name that no column of the result has",
        )
    aligned = align(scores, metrics, runs, declared)
    rows = slices(golden, columns)
    place = lookup(pd.Index(rows["query_id"]), aligned.query_ids.astype("str"))
    members = []
    in_order = naturally(rows, columns).groupby(list(columns), observed=True)
    for labels, held in in_order.indices.items():
        inside = np.zeros(len(aligned.query_ids) + 1, dtype=bool)  # the last: queries without a row
        inside[place[held]] = True
        texts = map(str, labels if isinstance(labels, tuple) else (labels,))
        members.append((dict(zip(columns, texts, strict=True)), inside[:-1]))
    return aligned, members, query_clusters(golden, aligned.query_ids, cluster)


def _slice_rows(
    aligned: AlignedScores, inside: Flags, groups: Groups | None, min_n: int, seed: int
) -> pd.DataFrame:
    """One row per run and metric of one slice."""
    names = aligned.metrics * len(aligned.run_ids)  # run by run
    values = aligned.values.reshape(len(aligned.query_ids), -1)
    own_groups = shared_only(None if groups is None else groups[inside])
    described = aligned.described() * len(aligned.run_ids)
    low, high = intervals(values[inside], described, own_groups)
    (mean, _, n), (mean_rest, _, n_rest) = moments(values[inside]), moments(values[~inside])
    is_tested = (n >= min_n) & (n_rest >= min_n) & ~are_timed(described)
    p, by_limit = np.full(len(names), np.nan), np.zeros(len(names), dtype=bool)
    # by the names of runs: draws are shared by all columns, and depend on which comes first
    by_name = np.argsort(np.repeat(aligned.run_ids, len(aligned.metrics)), kind="stable")
    tested = by_name[is_tested[by_name]]
    p[tested], by_limit[tested] = two_sample_test(
        values[:, tested] / scales_of(described)[tested], inside, groups=groups, seed=seed
    )
    test = pd.Series(np.where(by_limit, WELCH, PERMUTATION), dtype="str").where(is_tested)
    return pd.DataFrame(
        {
            "run_id": np.repeat(np.array(aligned.run_ids, dtype=object), len(aligned.metrics)),
            "metric": names,
            "n": n.astype(np.int64),
            "mean": mean,
            "low": low,
            "high": high,
            "n_rest": n_rest.astype(np.int64),
            "mean_rest": mean_rest,
            "delta_rest": mean - mean_rest,
            "p": p,
            "test": test,
            "is_small": n < min_n,
        }
    ).astype({"run_id": "str", "metric": "str"})


def _deltas(
    aligned: AlignedScores, inside: Flags, expected: Flags, groups: Groups | None, seed: int
) -> pd.DataFrame:
    """Compare candidate with baseline on some queries: one row per metric."""
    first, second = (aligned.frame(run_id)[inside] for run_id in aligned.run_ids)
    own_groups = shared_only(None if groups is None else groups[inside])
    table = paired_deltas(
        first, second, first * np.nan, declared=aligned.declared, groups=own_groups, seed=seed
    )
    of_baseline, of_candidate = expected[inside].sum(axis=0)
    return read_by_medians(table, aligned.declared).assign(
        n_expected_baseline=of_baseline, n_expected_candidate=of_candidate
    )
