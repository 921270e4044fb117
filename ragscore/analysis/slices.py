"""Means and differences by slice of the queries. All of it is exploratory.

In: a frame of scores, a golden set, and names of its columns or kinds of tag. Out: one row per
slice and metric of each run, or of two runs compared; reversals (Simpson's paradox) in words.
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
    decimals_beside,
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
from ragscore.stats import UNSURE, benjamini_hochberg, moments, two_sample_test

SAME = 1e-9  # differences closer to 0 have no direction
SAME_QUERIES, OWN_QUERIES = "same queries", "own queries"
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
REVERSALS = ("metric", "means", "delta", "n_slices", "n_opposite", "reversal", "sentence")
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
    reversals
        One row per metric and kind of mean ("same queries", "own queries") whose direction over all
        queries is opposite to that of every slice, or of most, with a `sentence` (Simpson's
        paradox). It states means, and how many of the opposite slices have a verdict. On the
        queries of both runs only *most* is possible unless queries are in several slices; the mean
        of each run's own queries can turn round altogether.
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
    reversals: pd.DataFrame
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
        return [*notes, *filter(None, [self.clusters]), *self.reversals["sentence"]]

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

    The result holds differences with intervals, q values, the minimum detectable differences, and
    reversals (Simpson's paradox).

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
    deltas, own = [], []
    for labels, inside in members:
        deltas.append(_deltas(aligned, inside, expected, groups, seed).assign(**labels))
        own.append(_own_means(aligned, inside).assign(**labels))
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
    names = [" × ".join(map(str, labels.values())) for labels, _ in members]
    return SliceComparison(
        aligned.run_ids[0],
        aligned.run_ids[1],
        columns,
        min_n,
        table[[*columns, *DELTAS]],
        overall,
        _reversals(
            aligned.run_ids,
            " × ".join(columns),
            names,
            (overall, table),
            (_own_means(aligned, everything), pd.concat(own, ignore_index=True)),
            min_n,
            aligned.declared,
        ),
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


def _own_means(aligned: AlignedScores, inside: Flags) -> pd.DataFrame:
    """Return means of both runs (medians of times), each over its own queries, by metric."""
    sides = [aligned.values[inside, place] for place in (0, 1)]
    (a, _, n_a), (b, _, n_b) = map(moments, sides)
    is_timed = are_timed(aligned.described())
    if is_timed.any():
        medians = [pd.DataFrame(side).median().to_numpy("float64") for side in sides]
        a, b = (np.where(is_timed, p50, mean) for p50, mean in zip(medians, (a, b), strict=True))
    return pd.DataFrame(
        {
            "metric": aligned.metrics,
            "delta": b - a,
            "n": np.minimum(n_a, n_b),
            "n_a": n_a,
            "n_b": n_b,
        }
    )


def _reversals(
    run_ids: list[str],
    by: str,
    names: list[str],
    shared: tuple[pd.DataFrame, pd.DataFrame],
    own: tuple[pd.DataFrame, pd.DataFrame],
    min_n: int,
    declared: Declarations,
) -> pd.DataFrame:
    """Find metrics whose difference over all queries has the opposite sign in most slices.

    Parameters
    ----------
    names
        The slices' names, in the order of the rows of each metric.
    shared
        Differences over all queries and by slice (metric, delta, n), on the queries for which both
        runs have a value.
    own
        The same for the means of each run over its own queries. They differ from `shared` only
        where the runs have values for different queries.
    min_n
        Slices of fewer queries don't count, nor do slices without a difference.

    Returns
    -------
    One row per reversal: `metric`, `means` (same queries, own queries), `delta` over all queries,
    `n_slices` that count, of which `n_opposite`; `reversal` ("every", "most"), `sentence`.
    """
    n_shared = shared[0].set_index("metric")["n"]
    n_own = own[0].set_index("metric")
    is_same = n_own["n_a"].eq(n_shared) & n_own["n_b"].eq(n_shared)  # both kinds of mean are one
    reversals = []
    for kind, (overall, parts) in ((SAME_QUERIES, shared), (OWN_QUERIES, own)):
        for metric, delta, n in zip(overall["metric"], overall["delta"], overall["n"], strict=True):
            if not n or abs(delta) <= SAME or (kind == OWN_QUERIES and is_same[metric]):
                continue
            rows = parts[(parts["metric"] == metric).to_numpy()].assign(slice=names)
            rows = rows[(rows["n"] >= min_n) & (rows["delta"].abs() > SAME)]
            opposite = rows[rows["delta"] * delta < 0]
            if len(rows) < 2 or 2 * len(opposite) <= len(rows):
                continue
            word = "every" if len(opposite) == len(rows) else "most"
            sentence = _sentence(run_ids, by, metric, float(delta), len(rows), opposite, kind)
            reversals.append([metric, kind, float(delta), len(rows), len(opposite), word, sentence])
    return pd.DataFrame(reversals, columns=list(REVERSALS)).astype(
        {"metric": "str", "means": "str", "reversal": "str", "sentence": "str"}
    )


def _sentence(
    run_ids: list[str],
    by: str,
    metric: str,
    delta: float,
    n_slices: int,
    opposite: pd.DataFrame,
    kind: str,
) -> str:
    """State one reversal in means; words of verdicts are left to what a test stands behind."""
    above, below = ("higher", "lower") if delta > 0 else ("lower", "higher")
    share = "every one" if len(opposite) == n_slices else str(len(opposite))
    changes = [delta, *opposite["delta"]]
    texts = [
        shown_number(change, decimals_beside(abs(change), 0.0, True, 3), True) for change in changes
    ]
    named = ", ".join(
        f"{name} {text}" for name, text in zip(opposite["slice"], texts[1:], strict=True)
    )
    if kind == OWN_QUERIES:
        over, why = ", each over its own queries", "the runs were asked different mixes of it"
    else:
        n_sure = int((~opposite["verdict"].isin([UNSURE, TOO_FEW])).sum())
        over, why = " over all queries", f"{n_sure} of these {len(opposite)} for sure"
        if not n_sure:
            why = "none of these for sure, so it may be chance"
    average = "median" if table_kind(metric) in BY_QUANTILES else "mean"
    return (
        f"{metric}: {run_ids[1]} has a {above} {average} than {run_ids[0]}{over} ({texts[0]}), but"
        f" a {below} one in {share} of {n_slices} slices of {by} ({named}): {why}."
    )
