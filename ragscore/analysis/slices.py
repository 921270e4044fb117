"""By slice of the queries.

How good a run is, whether a slice differs from the rest, and where two runs differ. All of it is
exploratory.

In: a frame of scores, a golden set, and one or two of its columns or kinds of tag. Out: one row per
slice and metric.

Simpson's paradox.

A direction over all queries that is opposite to that of the slices, said in words. Computes no
mean.

In: differences over all queries and by slice. Out: one row per reversal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import Aligned, align, expected_in
from ragscore.analysis.comparison.deltas import paired_deltas, row_verdict
from ragscore.frames.codes import is_among
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.render import (
    decimals_for,
    dump,
    markdown_table,
    reload,
    shown_detectable,
    shown_n,
    shown_number,
)
from ragscore.scoring.intervals import BY_QUANTILES, Groups, intervals, query_clusters, shared_only
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import slices
from ragscore.stats import DIRECTIONS, benjamini_hochberg, moments, two_sample_p

SAME = 1e-9  # differences closer to 0 have no direction
KINDS = ("same queries", "own queries")
COLUMNS = ["metric", "means", "delta", "n_slices", "n_opposite", "reversal", "sentence"]


def reversals(
    run_ids: list[str],
    by: str,
    names: list[str],
    overall: pd.DataFrame,
    slices: pd.DataFrame,
    own_overall: pd.DataFrame,
    own: pd.DataFrame,
    *,
    least: int,
) -> pd.DataFrame:
    """Metrics whose difference over all queries points the other way than that of every slice, or of more than half.

    Parameters
    ----------
    run_ids
        Runs a and b.
    names
        The slices' names, in the order in which `slices` and `own` have them, each with all
        metrics.
    overall, slices
        Rows with metric, delta and n, on the queries that both runs have a value for.
    own_overall, own
        The same, with the mean of each run over its own queries; different only where the runs were
        asked different queries.
    least
        Slices of fewer queries have no say, nor have those without a difference.

    Returns
    -------
    One row per reversal: `metric`, `means` (same queries, own queries), `delta` over all queries,
    `n_slices` with a say, of which `n_opposite`; `reversal` ("every", "most"), `sentence`.
    """
    found = []
    for kind, whole, parts in ((KINDS[0], overall, slices), (KINDS[1], own_overall, own)):
        for metric, delta, n in zip(whole["metric"], whole["delta"], whole["n"], strict=True):
            rows = parts[(parts["metric"] == metric).to_numpy()].assign(slice=names)
            rows = rows[(rows["n"] >= least) & (rows["delta"].abs() > SAME)]
            opposite = rows[rows["delta"] * delta < 0]
            alike = kind == KINDS[1] and _asked_alike(own_overall, overall, metric)
            if (
                not n
                or abs(delta) <= SAME
                or len(rows) < 2
                or 2 * len(opposite) <= len(rows)
                or alike
            ):
                continue
            word = "every" if len(opposite) == len(rows) else "most"
            sentence = _in_words(run_ids, by, metric, float(delta), rows, opposite, kind)
            found.append([metric, kind, float(delta), len(rows), len(opposite), word, sentence])
    return pd.DataFrame(found, columns=COLUMNS).astype(
        {"metric": "str", "means": "str", "reversal": "str", "sentence": "str"}
    )


def _asked_alike(own: pd.DataFrame, overall: pd.DataFrame, metric: str) -> bool:
    """Whether both runs have values for the same queries, so that the two kinds of mean are one."""
    counts = own.set_index("metric").loc[metric, ["n_a", "n_b"]]
    return bool((counts == overall.set_index("metric").loc[metric, "n"]).all())


def _in_words(
    run_ids: list[str],
    by: str,
    metric: str,
    delta: float,
    rows: pd.DataFrame,
    opposite: pd.DataFrame,
    kind: str,
) -> str:
    better = describe(metric).better
    words = DIRECTIONS[better]
    ahead, behind = words if (delta > 0) == (better != "lower") else words[::-1]
    share = (
        f"every one of {len(rows)}"
        if len(opposite) == len(rows)
        else f"{len(opposite)} of {len(rows)}"
    )
    named = ", ".join(
        f"{name} {shown_number(change, 3, True)}"
        for name, change in zip(opposite["slice"], opposite["delta"], strict=True)
    )
    why = (
        "they were asked different mixes of it"
        if kind == KINDS[1]
        else "a few slices, or the largest, decide the mean"
    )
    over = ", each over its own queries" if kind == KINDS[1] else " over all queries"
    return (
        f"{metric}: {run_ids[1]} is {ahead} than {run_ids[0]}{over}"
        f" ({shown_number(delta, 3, True)}), but {behind} in {share} slices of {by} ({named}):"
        f" {why}."
    )


Flags = npt.NDArray[np.bool_]
LEAST = 10  # queries: below, a slice is shown and not tested
TAKEN = (
    "run_id",
    "query_id",
    "metric",
    "n",
    "n_expected_a",
    "n_expected_b",
    "mean",
    "low",
    "high",
    "a",
    "b",
    "delta",
    "p",
    "q",
    "mde",
    "is_small",
)
TOO_FEW = "too few queries"


def slice_means(
    scores: pd.DataFrame,
    golden: Golden,
    by: str | Sequence[str],
    metrics: list[str] | str | None = None,
    *,
    runs: list[str] | None = None,
    cluster: str | None = "group",
    least: int = LEAST,
    seed: int = 0,
) -> pd.DataFrame:
    """Means by slice, and whether a slice is different from the rest of the run's queries.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`.
    by
        As for `rs.slices`: a column of `golden.queries`, a kind of tag, "doc_type"; or two of them,
        for slices such as hard × pandas.
    metrics
        Columns of the scores; by default those a table for reading starts with, as far as they were
        measured.
    runs
        Only these; by default all.
    cluster
        The column of `golden.queries` whose equal values make queries depend on each other. None:
        every query stands alone.
    least
        Slices, or rests, of fewer queries are not tested.

    Returns
    -------
    One row per run, slice and metric: the column or columns of `by`; `n` queries with a value,
    `mean` with its 95 % interval `low`, `high`; `n_rest`, `mean_rest` of the run's other queries,
    `delta_rest` = mean − mean_rest, `p` of a permutation test of slice against rest (NaN: not
    tested, as times and costs), `q`, corrected by Benjamini and Hochberg for every test of this
    frame: of what has q ≤ .05 about 5 % is expected to be chance; `is_small`, fewer than `least`
    queries.

    Raises
    ------
    DataError
        No such column or kind of tag, more than two; an unknown metric or run.
    """
    found, members, groups = _prepared(scores, golden, by, metrics, runs, cluster)
    names = found.metrics * len(found.run_ids)  # run by run
    values = found.values.reshape(len(found.query_ids), -1)
    parts = [
        _slice_rows(found, values, names, inside, groups, least, seed).assign(**labels)
        for labels, inside in members
    ]
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(q=benjamini_hochberg(table["p"]))
    order = {run_id: place for place, run_id in enumerate(found.run_ids)}
    table = table.sort_values(
        "run_id", key=lambda column: column.map(order), kind="stable", ignore_index=True
    )
    return table[
        [
            "run_id",
            *_columns(by),
            "metric",
            "n",
            "mean",
            "low",
            "high",
            "n_rest",
            "mean_rest",
            "delta_rest",
            "p",
            "q",
            "is_small",
        ]
    ]


@dataclass(frozen=True)
class SliceComparison:
    """Where run b (candidate) differs from run a (baseline), slice by slice.

    Exploratory: it says where to look, and proves nothing by itself.

    Attributes
    ----------
    by
        The columns of the slices.
    table
        One row per slice and metric: means `a` and `b` over the `n` queries where both have a
        value, of `n_expected_a`, `n_expected_b` (see `rs.explain`), `delta` = b − a with its paired
        95 % interval `low`, `high`, `p`, `q` (Benjamini and Hochberg over all tests of the table),
        `mde` (the least difference that n queries find with 80 % power; NaN: none at this n),
        `verdict` by q, `is_small`. Slices of fewer queries than `least` have an interval, and
        neither p, q nor mde.
    overall
        One row per metric: the same over all queries (p uncorrected).
    reversals
        One row per metric and kind of mean ("same queries", "own queries") whose direction over all
        queries is opposite to that of every slice, or of most, with a `sentence` (Simpson's
        paradox). On the queries of both runs only *most* is possible unless queries are in several
        slices; the mean of each run's own queries can turn round altogether.
    """

    baseline: str
    candidate: str
    by: tuple[str, ...]
    least: int
    table: pd.DataFrame
    overall: pd.DataFrame
    reversals: pd.DataFrame

    def shown(self) -> pd.DataFrame:
        """The table as text.

        One row per slice and metric that has a value; `*` marks slices with too few queries.
        """
        return _as_text(self)

    def notes(self) -> list[str]:
        """What a reader must know beside the table."""
        tested = int(self.table["p"].notna().sum())
        notes = [
            f"Exploratory: {tested} {'test' if tested == 1 else 'tests'}, q by Benjamini and"
            f" Hochberg. a is {self.baseline}, b is {self.candidate}."
        ]
        if (self.table["is_small"] & (self.table["n"] > 0)).any():
            notes.append(f"* fewer than {self.least} queries: not tested, interval only.")
        return [*notes, *self.reversals["sentence"]]

    def to_markdown(self) -> str:
        """The comparison as Markdown."""
        title = f"# {self.candidate} against {self.baseline} by {' × '.join(self.by)}"
        return (
            "\n\n".join(
                [
                    title,
                    markdown_table(self.shown()),
                    "\n".join(f"- {note}" for note in self.notes()),
                ]
            )
            + "\n"
        )

    def to_json(self) -> str:
        """The comparison as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> "SliceComparison":
        """The comparison that `to_json` wrote."""
        return reload(cls, text)

    def _repr_html_(self) -> str:
        return (
            self.shown().to_html(index=False, border=0)
            + "<ul>"
            + "".join(f"<li>{escape(note)}</li>" for note in self.notes())
            + "</ul>"
        )

    def __repr__(self) -> str:
        return "\n\n".join([self.shown().to_string(index=False), "\n".join(self.notes())])


def compare_slices(
    scores: pd.DataFrame,
    golden: Golden,
    by: str | Sequence[str],
    baseline: str,
    candidate: str,
    metrics: list[str] | str | None = None,
    *,
    cluster: str | None = "group",
    least: int = LEAST,
    seed: int = 0,
) -> SliceComparison:
    """Two runs slice by slice.

    Differences with intervals, q values, what so many queries can show, and Simpson's paradox.

    Parameters
    ----------
    baseline, candidate
        Run ids, or systems that only one run has. The other parameters are those of
        `rs.slice_means`.

    Raises
    ------
    DataError
        As `rs.slice_means`; the same run twice.
    """
    found, members, groups = _prepared(scores, golden, by, metrics, [baseline, candidate], cluster)
    if len(found.run_ids) < 2:
        raise DataError(
            f"{found.run_ids[0]!r} is both baseline and candidate",
            field="candidate",
            allowed="two different runs",
        )
    everything = np.ones(len(found.query_ids), dtype=bool)
    expected = expected_in(found, scores, golden)
    parts = [
        _with_expected(_deltas(found, inside, groups, seed), expected[inside]).assign(**labels)
        for labels, inside in members
    ]
    columns = _columns(by)
    table = _explored(pd.concat(parts, ignore_index=True), least)
    shown = [
        "metric",
        "n",
        "n_expected_a",
        "n_expected_b",
        "a",
        "b",
        "delta",
        "low",
        "high",
        "p",
        "q",
        "mde",
        "verdict",
        "is_small",
    ]
    overall = _with_expected(_deltas(found, everything, groups, seed), expected)[
        [
            "metric",
            "n",
            "n_expected_a",
            "n_expected_b",
            "a",
            "b",
            "delta",
            "low",
            "high",
            "p",
            "mde",
            "verdict",
            "sentence",
        ]
    ]
    own = pd.concat(
        [_own_means(found, inside).assign(**labels) for labels, inside in members],
        ignore_index=True,
    )
    names = [" × ".join(map(str, labels.values())) for labels, _ in members]
    turned = reversals(
        found.run_ids,
        " × ".join(columns),
        names,
        overall,
        table,
        _own_means(found, everything),
        own,
        least=least,
    )
    return SliceComparison(
        found.run_ids[0],
        found.run_ids[1],
        columns,
        least,
        table[[*columns, *shown]],
        overall,
        turned,
    )


def _columns(by: str | Sequence[str]) -> tuple[str, ...]:
    columns = (by,) if isinstance(by, str) else tuple(by)
    if not 1 <= len(set(columns)) == len(columns) <= 2:
        raise DataError(
            f"found {columns}",
            field="by",
            allowed="one column or kind of tag, or two different ones",
        )
    return columns


def _prepared(
    scores: pd.DataFrame,
    golden: Golden,
    by: str | Sequence[str],
    metrics: list[str] | str | None,
    runs: list[str] | None,
    cluster: str | None,
) -> tuple[Aligned, list[tuple[dict[str, str], Flags]], Groups | None]:
    """Aligned scores; every slice's labels with a flag per query; groups."""
    check_type(golden, Golden, "golden", "a Golden, as rs.load_golden gives it")
    columns = _columns(by)
    if taken := [name for name in columns if name in TAKEN]:
        raise DataError(
            f"a slice can't be called {taken[0]!r}",
            field="by",
            allowed="a name that no column of the result has",
        )
    found = align(scores, metrics, runs)
    rows = slices(golden, columns[0])
    rows = rows.merge(slices(golden, columns[1]), on="query_id") if len(columns) > 1 else rows
    members = []
    for labels, part in rows.groupby(list(columns), sort=True):
        inside = is_among(found.query_ids.to_series(), part["query_id"])
        members.append((dict(zip(columns, map(str, labels), strict=True)), inside))
    return found, members, query_clusters(golden, found.query_ids, cluster)


def _slice_rows(
    found: Aligned,
    values: npt.NDArray[np.float64],
    names: list[str],
    inside: Flags,
    groups: Groups | None,
    least: int,
    seed: int,
) -> pd.DataFrame:
    """One slice: one row per run and metric."""
    low, high = intervals(
        values[inside], names, shared_only(None if groups is None else groups[inside])
    )
    (mean, _, n), (mean_rest, _, n_rest) = moments(values[inside]), moments(values[~inside])
    is_tested = (
        (n >= least)
        & (n_rest >= least)
        & np.array([describe(name).kind not in BY_QUANTILES for name in names])
    )
    p = np.full(len(names), np.nan)
    p[is_tested] = two_sample_p(values[:, is_tested], inside, groups=groups, seed=seed)
    return pd.DataFrame({
        "run_id": np.repeat(np.array(found.run_ids, dtype=object), len(found.metrics)),
        "metric": names, "n": n.astype(np.int64), "mean": mean, "low": low,
        "high": high, "n_rest": n_rest.astype(np.int64), "mean_rest": mean_rest,
        "delta_rest": mean - mean_rest, "p": p, "is_small": n < least,
    }).astype({"run_id": "str", "metric": "str"})  # fmt: skip


def _deltas(found: Aligned, inside: Flags, groups: Groups | None, seed: int) -> pd.DataFrame:
    """Run b against run a on some queries."""
    first, second = (found.frame(run_id)[inside] for run_id in found.run_ids)
    return paired_deltas(
        first,
        second,
        first * np.nan,
        groups=shared_only(None if groups is None else groups[inside]),
        seed=seed,
    )


def _with_expected(table: pd.DataFrame, expected: Flags) -> pd.DataFrame:
    n_expected_a, n_expected_b = expected.sum(axis=0)
    return table.assign(n_expected_a=n_expected_a, n_expected_b=n_expected_b)


def _explored(table: pd.DataFrame, least: int) -> pd.DataFrame:
    """Small slices untested; q values, and verdicts that go by them."""
    is_small = table["n"] < least
    table = table.assign(
        is_small=is_small, p=table["p"].mask(is_small), mde=table["mde"].mask(is_small)
    )
    table = table.assign(q=benjamini_hochberg(table["p"]))
    words = [
        TOO_FEW if row["is_small"] else row_verdict(row | {"p": row["q"]}).word
        for row in table.to_dict("records")
    ]
    return table.assign(verdict=words)


def _own_means(found: Aligned, inside: Flags) -> pd.DataFrame:
    """Means of both runs, each over its own queries: one row per metric."""
    sides = [moments(found.values[inside, place, :]) for place in (0, 1)]
    (a, _, n_a), (b, _, n_b) = sides
    return pd.DataFrame(
        {
            "metric": found.metrics,
            "a": a,
            "b": b,
            "delta": b - a,
            "n": np.minimum(n_a, n_b),
            "n_a": n_a,
            "n_b": n_b,
        }
    )


def _as_text(compared: SliceComparison) -> pd.DataFrame:
    rows = compared.table[compared.table["n"] > 0]
    places = [
        max(decimals_for((high - low) / 4), 2)
        for low, high in zip(rows["low"], rows["high"], strict=True)
    ]
    texts = {
        name: [
            shown_number(value, digits, name in ("delta", "low", "high"))
            for value, digits in zip(rows[name], places, strict=True)
        ]
        for name in ("a", "b", "delta", "low", "high", "mde")
    }
    marks = ["*" if small else "" for small in rows["is_small"]]
    last = compared.by[-1]
    labels = {name: rows[name].astype("str").tolist() for name in compared.by}
    labels[last] = [f"{label}{mark}" for label, mark in zip(labels[last], marks, strict=True)]
    return pd.DataFrame(labels | {
        "metric": rows["metric"].tolist(),
        "n / expected": [shown_n(*row) for row in zip(*(rows[name] for name in ("n", "n_expected_a", "n_expected_b")), strict=True)],
        "a": texts["a"], "b": texts["b"], "delta": texts["delta"],
        "95 % interval": [f"{low} to {high}" for low,
        high in zip(texts["low"], texts["high"], strict=True)],
        "q": ["—" if np.isnan(q) else f"{q:.3f}" for q in rows["q"]],
        "b is": rows["verdict"].tolist(),
        "detectable": [shown_detectable(*row) for row in zip(rows["verdict"], rows["p"], rows["mde"], texts["mde"], strict=True)],
    })  # fmt: skip
