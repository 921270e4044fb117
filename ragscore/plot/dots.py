"""Values with intervals, one row below the other: means, slices, differences, decisions."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ragscore.analysis.comparison.model import OUTCOMES
from ragscore.analysis.slices import SliceComparison
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.errors import check_known, names_of
from ragscore.frames.tables import SIGNS
from ragscore.plot.style import (
    BETTER,
    GREY,
    MAX_SLICES,
    WORSE,
    check_columns,
    chosen_of,
    drawn,
    finish,
    label_of,
    largest,
    n_text,
    new_axes,
    run_styles,
    runs_text,
)
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import (
    Slicing,
    slice_names,
    slice_texts,
    summarize,
)

MEANS = ("run_id", "metric", "mean", "low", "high", "n")
OUTCOME_COLOURS = {"win": BETTER, "loss": "#E69F00", "regression": WORSE}
VERDICTS = {"better": (BETTER, "^"), "worse": (WORSE, "v")}
DECISIONS = ("answered", "over-refusal", "right refusal", "unsupported answer")


@drawn
def summary(
    table: pd.DataFrame,
    metrics: Sequence[str] | str | None = None,
    *,
    primary: Sequence[str] = (),
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    declared: MetricTable = TABLE,
    ax: Axes | None = None,
) -> Axes:
    """Draw metrics of runs as dots with the 95 % intervals of their means.

    Intervals of two means say less about their difference than they seem to: `cmp.plot()` has that.

    Parameters
    ----------
    table
        From `ev.summary()`, not sliced.
    metrics
        Which, in this order, all of one scale; by default the `primary` ones of 0 to 1, else the
        first twelve that have values.
    highlight
        Runs in colour; the others are grey.
    declared
        What is declared of columns of your own; `ev.plot` gives it, and `primary`.

    Raises
    ------
    DataError
        Not a summary, or a sliced one; no such metric, or no value; metrics of different scales.
    """
    check_means(table)
    known = table.loc[table["n"].gt(0), "metric"].unique().tolist()
    chosen = _of_one_scale(known, metrics, [one for one in primary if one in known], declared)
    rows = table[table["metric"].isin(chosen)]
    n_of = rows.groupby("metric", observed=True)["n"].agg(n_text)
    labels = {name: f"{label_of(name)} ({n_of[name]})" for name in chosen}
    return _means(
        rows.assign(row=rows["metric"].astype("str")), labels, highlight, legend, ax,
        chosen[0] if len(chosen) == 1 else f"{len(chosen)} metrics",
        xlabel="mean with 95 % interval (queries in brackets)",
        xlim=finite(declared.describe(chosen[0]).bounds),
    )  # fmt: skip


def check_means(table: pd.DataFrame, *more: str) -> None:
    """Refuse what isn't `ev.summary()`, without slices."""
    check_columns(table, [*MEANS, *more], "table", "ev.summary()")
    if table.duplicated(["run_id", "metric"]).any():
        raise DataError("found slices", field="table", allowed="rs.plot.slices(table, metric)")


def _of_one_scale(
    known: list[str],
    metrics: Sequence[str] | str | None,
    first: Sequence[str],
    declared: MetricTable,
) -> list[str]:
    """Return the metrics asked for, else the first ones and others of 0 to 1; all of one scale."""
    unit = [name for name in first or known if declared.describe(name).is_unit]
    chosen = names_of(metrics, "metrics") if metrics is not None else unit[:12] or known[:1]
    check_known(chosen, known, "metrics", "scored metric", "with values there are")
    scales = {name: declared.describe(name).range for name in chosen}
    if len(set(scales.values())) != 1:
        found = ", ".join(f"{name} ({scale})" for name, scale in scales.items())
        allowed = "metrics of one scale; ev.with_columns(..., range=) declares your own"
        raise DataError(found or "no metric has a value", field="metrics", allowed=allowed)
    return chosen


def finite(bounds: tuple[float, float]) -> tuple[float | None, float | None]:
    """Return a metric's bounds as limits of an axis, None where there is none."""
    return tuple(end if np.isfinite(end) else None for end in bounds)  # type: ignore[return-value]


def _means(
    rows: pd.DataFrame,
    labels: Mapping[str, str],
    highlight: Sequence[str] | str | None,
    legend: bool,
    ax: Axes | None,
    what: str,
    **options: Any,
) -> Axes:
    """Draw `mean`, `low`, `high` of each `row` and run, runs beside each other.

    What a run only reports is hollow.
    """
    styles = run_styles(rows, highlight)
    step = min(0.15 * len(styles) + 0.15, 1.5)  # inches
    ax = new_axes(ax, min(step * len(labels), 9), len(styles))
    for side, (run, style) in enumerate(styles.items()):
        own = (
            rows[rows["run_id"].astype("str").eq(run).to_numpy()]
            .set_index("row")
            .reindex([*labels])
        )
        is_hollow = "is_reported" in own and own["is_reported"].eq(True).any()
        place = np.arange(len(labels)) + (side - (len(styles) - 1) / 2) * 0.75 / len(styles)
        _points(ax, own, place, fillstyle="none" if is_hollow else "full", **style.look)
    _name_rows(ax, labels.values())
    ax.set(**options)
    return finish(ax, f"{what} of {runs_text([*styles])}", "x", legend and len(styles) > 1)


def _points(ax: Axes, rows: pd.DataFrame, place: Any, **look: Any) -> None:
    look |= {"linestyle": "none", "elinewidth": look.get("linewidth", 1.4)}
    ax.errorbar(rows["mean"].astype("float64"), place, xerr=lengths(rows), **look)


def lengths(rows: pd.DataFrame) -> Any:
    """Return the lengths of error bars below and above the mean; 0 without an interval."""
    ends = [rows["mean"] - rows["low"], rows["high"] - rows["mean"]]
    return np.nan_to_num(np.array(ends, dtype="float64")).clip(0)


def _name_rows(ax: Axes, labels: Any) -> None:
    ax.set_yticks(range(len(labels)), labels, parse_math=False)
    ax.set_ylim(len(labels) - 0.5, -0.5)


def sliced(
    table: pd.DataFrame, metric: str | None, by: Slicing | None, golden: Golden | None,
    declared: MetricTable, limit: int, order: Sequence[str] | None,
) -> tuple[pd.DataFrame, str, dict[str, str], str]:  # fmt: skip
    """Return rows with their `slice`, the metric, slice -> label, and the name of the axis."""
    check_type(table, pd.DataFrame, "table", "ev.summary(metric, by=...), or ev.scores")
    if "metric" not in table:
        check_columns(table, {"run_id", "state"}, "table", "ev.summary(metric, by=...)")
        table = summarize(table, golden, by=by, metrics=metric, table=declared)
    between = [str(name) for name in table.columns[1 : list(table.columns).index("metric")]]
    names = between if by is None else list(slice_names(by))
    if not names or not set(names) <= set(between):
        found = f"found a summary by {' × '.join(between)}" if between else "found no slices"
        raise DataError(found, field="table", allowed=f"ev.summary(metric, by={names or '...'})")
    check_columns(table, MEANS, "table", "ev.summary(metric, by=...)")
    rows = table[table["n"].gt(0).to_numpy()]
    known = rows["metric"].unique().tolist()
    chosen = chosen_of(metric, known, "metric", f"found {len(known)} metrics with a value")
    rows = rows[rows["metric"].eq(chosen).to_numpy()]
    rows = rows.assign(slice=slice_texts(rows, names))
    n = rows.groupby("slice", sort=False)["n"]
    kept, cut = largest(n.max(), limit, order)
    labels = {name: f"{label_of(name)} ({n_text(n.get_group(name))})" for name in kept}
    rows = rows[rows["slice"].isin(kept).to_numpy()]
    return rows, chosen, labels, f"{' × '.join(names)} (queries){cut}"


@drawn
def slices(
    table: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    golden: Golden | None = None,
    limit: int = MAX_SLICES,
    order: Sequence[str] | None = None,
    highlight: Sequence[str] | str | None = None,
    legend: bool = True,
    declared: MetricTable = TABLE,
    ax: Axes | None = None,
) -> Axes:
    """Draw one metric by columns or tags of the golden set: a mean per run and slice.

    Each with its 95 % interval; `cmp.slices(by).plot()` has differences.

    Parameters
    ----------
    table
        `ev.summary(metric, by=...)`; or scores, of which that frame is then made by `by` and
        `golden`.
    metric, by
        Not needed where the summary has one metric, and one slicing.
    limit
        At most so many slices are drawn, those with the most queries.
    order
        Slices that come first. By default words of a scale are in its order (easy, medium, hard).
    highlight
        Runs in colour; the others are grey.
    declared
        What is declared of columns of your own; `ev.plot` gives it, and `golden`.

    Raises
    ------
    DataError
        A frame without these slices; no such metric, or no query of any slice has a value.
    """
    rows, metric, labels, axis = sliced(table, metric, by, golden, declared, limit, order)
    return _means(
        rows.assign(row=rows["slice"]), labels, highlight, legend, ax,
        f"{metric} by {axis.partition(' (')[0]}", ylabel=axis,
        xlabel=f"{metric}, mean with 95 % interval", xlim=finite(declared.describe(metric).bounds),
    )  # fmt: skip


@drawn
def refusals(table: pd.DataFrame, *, legend: bool = True, ax: Axes | None = None) -> Axes:
    """Draw how often each run answers and refuses, of queries to answer and of those to refuse.

    Bars are the 95 % intervals of these shares. `table` is `ev.refusals().table`.

    Raises
    ------
    DataError
        Not that frame.
    """
    needed = {"run_id", "decision", "n_total", "share", "low", "high"}
    check_columns(table, needed, "table", "ev.refusals().table")
    rows = table.assign(row=table["decision"].astype("str"), mean=table["share"])
    n_of = rows.groupby("row")["n_total"].agg(n_text)
    labels = {name: f"{name} ({n_of[name]})" for name in DECISIONS if name in n_of}
    return _means(
        rows, labels, None, legend, ax, "Answers and refusals", xlim=(0, 1),
        xlabel="share of the queries in brackets, with 95 % interval",
    )  # fmt: skip


@drawn
def forest(
    deltas: pd.DataFrame,
    metrics: Sequence[str] | str | None = None,
    baseline: str = "baseline",
    candidate: str = "candidate",
    *,
    legend: bool = True,
    declared: MetricTable = TABLE,
    ax: Axes | None = None,
) -> Axes:
    """Draw the differences of two runs, metric by metric, with their paired 95 % intervals.

    ▲ marks a row whose `verdict` is better, ▼ one that is worse; a row without such a word has a
    grey dot.

    Parameters
    ----------
    deltas
        `cmp.deltas`.
    metrics
        Which, in this order, all of one scale; by default the primary and headline ones of 0 to 1.
    baseline, candidate
        What the runs are called; `cmp.plot` gives them, and `declared`.

    Raises
    ------
    DataError
        Not that frame; no such metric, or no value; metrics of different scales.
    """
    check_columns(deltas, {"metric", "delta", "low", "high", "n"}, "deltas", "cmp.deltas")
    known = deltas[deltas["n"].gt(0).to_numpy()].set_index("metric", drop=False)
    unit = [name for name in known.index if declared.describe(name).is_unit]
    is_primary = known.get("is_primary", pd.Series(False, known.index))
    primary = [name for name in unit if is_primary[name]]
    first = dict.fromkeys([*primary, *TABLE.headline(unit)])
    rows = known.loc[_of_one_scale([*known.index], metrics, [*first], declared)]
    lower = [declared.describe(name).better == "lower" for name in rows.index]
    labels = [
        f"{label_of(name)}{' ↓' * down} ({n})"
        for name, down, n in zip(rows.index, lower, rows["n"], strict=True)
    ]
    more = "; ↓: lower is better" if any(lower) else ""
    joint = "; primary metrics jointly" if is_primary.sum() > 1 else ""
    xlabel = f"difference (95 % interval{joint}; queries in brackets{more})"
    return _differences(rows, labels, legend, ax, f"{candidate} − {baseline}", xlabel=xlabel)


@drawn
def slice_deltas(
    found: SliceComparison,
    metric: str | None = None,
    *,
    limit: int = MAX_SLICES,
    order: Sequence[str] | None = None,
    legend: bool = True,
    ax: Axes | None = None,
) -> Axes:
    """Draw the differences of two runs, slice by slice, with their paired 95 % intervals.

    Marks are as in `forest`; slices with few queries are starred.

    Parameters
    ----------
    found
        What `cmp.slices` returns.
    metric
        Which; by default the first.
    limit, order
        As for `slices`.

    Raises
    ------
    DataError
        Not that object; no such metric, or no query has a value of it in both runs.
    """
    check_type(found, SliceComparison, "found", "what cmp.slices returns")
    rows = found.table[found.table["n"].gt(0).to_numpy()]
    known = rows["metric"].unique().tolist()
    first = metric or next(iter(known), None)
    chosen = chosen_of(first, known, "metric", "no slice has a value in both runs")
    rows = rows[rows["metric"].eq(chosen).to_numpy()]
    rows = rows.assign(slice=slice_texts(rows, found.by)).set_index("slice")
    names, cut = largest(rows["n"], limit, order)
    rows = rows.loc[names]
    labels = [
        f"{label_of(str(name))}{'*' * bool(few)} ({n})"
        for name, few, n in rows[["is_small", "n"]].itertuples(name=None)
    ]
    lower = "; lower is better" if found.declared.describe(chosen).better == "lower" else ""
    few = f"; *: fewer than {found.min_n} queries" if rows["is_small"].any() else ""
    return _differences(
        rows, labels, legend, ax, f"{chosen}: {found.candidate} − {found.baseline}",
        xlabel=f"{chosen}, difference with paired 95 % interval{lower}{few}",
        ylabel=f"{' × '.join(found.by)} (queries){cut}",
    )  # fmt: skip


def _differences(
    rows: pd.DataFrame, labels: list[str], legend: bool, ax: Axes | None, title: str, **options: Any
) -> Axes:
    """Draw `delta`, `low`, `high` with the mark of their `verdict`, if there is one."""
    ax = new_axes(ax, min(0.28 * len(rows), 9))
    ax.axvline(0, color=GREY, linewidth=1)
    words = rows["verdict"].astype("str") if "verdict" in rows else pd.Series("", rows.index)
    words = words.where(words.isin(list(VERDICTS)), "_")
    rows = rows.assign(mean=rows["delta"], place=np.arange(len(rows)))
    for word, own in rows.groupby(words.to_numpy(), sort=False):
        colour, marker = VERDICTS.get(str(word), (GREY, "o"))
        _points(ax, own, own["place"], color=colour, marker=marker, label=str(word), capsize=3)
    _name_rows(ax, labels)
    ax.set(**options)
    return finish(ax, title, "x", legend)


@drawn
def outcomes(
    counts: Mapping[str, int],
    baseline: str = "baseline",
    candidate: str = "candidate",
    *,
    ax: Axes | None = None,
) -> Axes:
    """Draw the number of queries with each outcome of a comparison, one bar each.

    Parameters
    ----------
    counts
        `cmp.counts`; its words may be another harness's.
    baseline, candidate
        What the runs are called; `cmp.plot` gives them.
    """
    check_type(counts, Mapping, "counts", "cmp.counts")
    names = [*(one for one in OUTCOMES if one in counts), *(set(counts) - set(OUTCOMES))]
    ax = new_axes(ax, 0.28 * max(len(names), 1))
    colours = [OUTCOME_COLOURS.get(name, "#BBBBBB") for name in names]
    bars = ax.barh(range(len(names)), [counts[name] for name in names], color=colours)
    ax.bar_label(bars, padding=3, fontsize="small")
    _name_rows(ax, [f"{label_of(name.replace('_', ' '))} {SIGNS.get(name, '')}" for name in names])
    ax.margins(x=0.12)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.set_xlabel(f"queries (n = {sum(counts.values())})")
    return finish(ax, f"{candidate} against {baseline}", "x", legend=False)
