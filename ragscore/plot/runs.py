"""Means with intervals by run and slice, and the scores of retrievers.

Kinds of retriever scores have no common scale, so each kind has its own axes.
"""

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase
from matplotlib.ticker import MaxNLocator

from ragscore.analysis.comparison.question import Question
from ragscore.analysis.leaderboard import leaderboard
from ragscore.analysis.rankings import QUANTILES, RELEVANCE, retriever_scores
from ragscore.analysis.slices import compare_slices, slice_means
from ragscore.frames.data import DataError, Golden, Results, run_names
from ragscore.frames.errors import nearest, plural
from ragscore.frames.short_names import LONG
from ragscore.plot.layout import (
    finish,
    label_ends,
    new_axes,
    quiet,
    rows_that_fit,
    title,
)
from ragscore.plot.layout import legend as put_legend
from ragscore.plot.lettering import lettered
from ragscore.plot.names import shown
from ragscore.plot.style import (
    MAX_RUNS,
    MAX_SLICES,
    ROW,
    TALLEST,
    RunStyle,
    check_columns,
    check_scales,
    check_summary,
    error_lengths,
    few_names,
    label_of,
    largest_slices,
    n_text,
    new_figure,
    percent,
    rows_of,
    run_styles,
    scale_of,
    sliced_rows,
)
from ragscore.plot.theme import inks, scaled
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.modes import is_by_mode
from ragscore.scoring.summary import Slicing, slice_names, slice_texts
from ragscore.stats import UNSURE

FEW = 10  # queries below which a slice says little
TOLD = 0.0025  # q of a slice that a title names: four pictures by slices share one per cent


@lettered
def summary(
    table: pd.DataFrame,
    metrics: list[str] | str | None = None,
    *,
    scores: pd.DataFrame | None = None,
    golden: Golden | None = None,
    baseline: str | None = None,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    declared: Declarations = NOTHING_DECLARED,
    question: Question | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw metrics of one or several runs as dots with 95 % intervals.

    With `scores`, runs are compared as pairs: a bar is the interval of the difference to the
    baseline. Where it leaves the baseline's line out, the run differs. Without, a bar is the
    interval of the mean alone, which says less about differences than it seems to.

    Parameters
    ----------
    table
        From `ev.summary()` (not sliced), or `ev.leaderboard(...).table`.
    metrics
        Which, in this order, all of one scale; by default those whose scale is 0 to 1, what decides
        first, at most eight.
    scores, golden
        Of the same runs, for differences; `ev.plot` gives them.
    baseline
        The run that others are compared with; by default the first.
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False.
    declared
        What is declared of columns of your own; `ev.plot` gives it.
    question
        What is decided (`ev.question`): the title says what its tests found of the metrics drawn.

    Raises
    ------
    DataError
        Not a summary, or a sliced one; a metric or run that it doesn't have; metrics of different
        scales (ms beside 0 to 1).
    """
    check_summary(table)
    known = table["metric"].unique().tolist()
    deciding = () if question is None else question.primary
    known.sort(key=lambda name: name not in deciding)  # what decides comes first
    chosen = [metrics] if isinstance(metrics, str) else metrics
    chosen = (
        chosen
        or [name for name in known if scale_of(table, name, declared) == "0 to 1"][:8]
        or known
    )
    table = rows_of(table, chosen)
    check_scales(table, chosen, declared)
    scale = scale_of(table, chosen[0], declared)
    ordered = table[table["metric"].eq(chosen[0]).to_numpy()].sort_values(
        "mean", ascending=declared.describe(chosen[0]).better == "lower"
    )
    styles = run_styles(table, highlight, ordered["run_id"].astype("str").tolist())
    rows, first = _paired(table, chosen, scores, golden, baseline, list(styles), declared)
    ax = _dots(rows.set_index("metric"), chosen, chosen, styles, first, 0.76, ax)
    if scale == "0 to 1":
        ax.set_xlim(0, 1)
    unit = f" ({scale})" if scale not in ("0 to 1", "any") else ""
    told = rows if first is None else rows[rows["run_id"].astype("str") != first]
    ax.set_xlabel(f"{_interval_words(first, len(styles))}{unit}; {_counted(told, chosen)}")
    return finish(ax, _lead(rows, chosen, first, question), "x", legend)


def _paired(
    table: pd.DataFrame, metrics: list[str], scores: pd.DataFrame | None, golden: Golden | None,
    baseline: str | None, runs: list[str], declared: Declarations,
) -> tuple[pd.DataFrame, str | None]:  # fmt: skip
    """Return rows whose low and high are of the difference to a baseline, and its name.

    None, and the rows as they are, where nothing is paired.
    """
    if "delta" in table:
        own = table[table["delta"].isna().to_numpy() & table["n"].gt(0).to_numpy()]
        names = own["run_id"].astype("str").unique().tolist()
        first = names[0] if len(names) == 1 and len(runs) > 1 else None
        return (_shifted(table, first, declared), first) if first else (table, None)
    if scores is None or len(runs) < 2:
        return table, None
    present = [run for run in runs if scores["run_id"].astype("str").eq(run).any()]
    if len(present) < 2:
        return table, None
    (first,) = run_names(pd.DataFrame({"run_id": present}), [baseline or present[0]])
    values = [name for name in metrics if name in scores and scores[name].notna().any()]
    board = leaderboard(
        scores, values, baseline=first, runs=present, golden=golden, declared=declared
    ).table
    if (board["n"] == 0).all():  # no query that all runs have
        return table, None
    return _shifted(board, first, declared), first


def _shifted(board: pd.DataFrame, baseline: str, declared: Declarations) -> pd.DataFrame:
    """Return the rows of a leaderboard with intervals of differences, set at the run's mean."""
    is_first = board["run_id"].astype("str").eq(baseline)
    base = board["metric"].map(board[is_first.to_numpy()].set_index("metric")["mean"])
    rows = board.assign(
        low=(base + board["delta_low"]).where(~is_first), high=base + board["delta_high"]
    )
    # times are compared by their medians: no interval of a difference of means
    timed = rows["p50"].notna() if "p50" in rows else pd.Series(False, index=rows.index)
    rows = rows.assign(low=rows["low"].mask(timed), high=rows["high"].mask(timed | is_first))
    return _within(rows, declared)


def _within(rows: pd.DataFrame, declared: Declarations) -> pd.DataFrame:
    """Return rows whose bars end where the metric's values do: beyond, no mean can be."""
    bounds = {name: declared.describe(name).bounds for name in rows["metric"].unique()}
    least, most = (rows["metric"].map({name: one[end] for name, one in bounds.items()})
                   for end in (0, 1))  # fmt: skip
    return rows.assign(low=rows["low"].clip(lower=least), high=rows["high"].clip(upper=most))


def _interval_words(baseline: str | None, n_runs: int) -> str:
    if baseline is not None:
        return f"mean; bar: 95 % interval of the difference to {baseline} (dashed)"
    return "mean with 95 % interval" + (" of each run alone" if n_runs > 1 else "")


def _counted(rows: pd.DataFrame, metrics: list[str]) -> str:
    """Return n once where all metrics have the same, else metric by metric."""
    counts = {name: n_text(rows.loc[rows["metric"].eq(name), "n"]) for name in metrics}
    ((usual, _),) = Counter(counts.values()).most_common(1)
    others = [f"{n} for {name}" for name, n in counts.items() if n != usual]
    return f"n = {usual}" + (f" ({', '.join(others)})" if others else "")


def _lead(
    rows: pd.DataFrame, metrics: list[str], baseline: str | None, question: Question | None
) -> str:
    """Return what was tested of these metrics; where nothing was, what is drawn."""
    runs = rows["run_id"].astype("str")
    what = metrics[0] if len(metrics) == 1 else f"{len(metrics)} metrics"
    if runs.nunique() == 1:
        return f"{runs.iloc[0]}: {what}" + f" {rows['mean'].iloc[0]:.2f}" * (len(metrics) == 1)
    if "sets" in rows and rows["sets"].ne("").any():
        found = {name: _by_letters(rows[rows["metric"].eq(name).to_numpy()]) for name in metrics}
    elif question is not None:
        found = {name: told_apart(question, name) for name in metrics if name in question.primary}
    elif "verdict" in rows and baseline is not None:
        return _against_words(rows, metrics, baseline)
    else:
        found = {}
    if not found:
        return f"{what} of {plural(runs.nunique(), 'run')}"
    if len(found) == 1:
        ((metric, told),) = found.items()
        return f"{metric}: {told or 'no run can be told from another'}"
    differing = [name for name, told in found.items() if told]
    if not differing:
        return f"No run can be told from another by {few_names(list(found))}"
    return f"Runs can be told apart by {few_names(differing)}" + (
        f", not by {few_names([name for name in found if name not in differing])}"
        if len(differing) < len(found) else ""
    )  # fmt: skip


def told_apart(question: Question, metric: str) -> str:
    """Return which runs differ by the question's tests; "" where none does."""
    if question.baseline is not None:
        words = question.words(metric, question.baseline)
        parts = [
            f"{few_names(named)} {word} than {question.baseline}"
            for word in ("better", "worse", "higher", "lower")
            if (named := [run for run, own in words.items() if own == word])
        ]
        return "; ".join(parts)
    ahead, tied, behind = question.leading(metric)
    return _sides(ahead, tied, behind)


def _by_letters(rows: pd.DataFrame) -> str:
    """Return which runs differ by the letters of a leaderboard; "" where none does."""
    ranked = rows[rows["sets"].ne("").to_numpy()].sort_values("rank", kind="stable")
    if not len(ranked) or (~ranked["is_tied_with_best"].astype("boolean").fillna(True)).sum() == 0:
        return ""
    names = ranked["run_id"].astype("str").tolist()
    is_tied = ranked["is_tied_with_best"].fillna(False).astype(bool).tolist()
    return _sides(
        names[0],
        [name for name, tied in zip(names[1:], is_tied[1:], strict=True) if tied],
        [name for name, tied in zip(names[1:], is_tied[1:], strict=True) if not tied],
    )


def _sides(ahead: str, tied: list[str], behind: list[str]) -> str:
    if not behind:
        return ""
    beside = f", not from {few_names(tied)}" if tied else ""
    return f"{ahead} leads, told from {few_names(behind)}{beside}"


def _against_words(rows: pd.DataFrame, metrics: list[str], baseline: str) -> str:
    """Return the verdicts against a baseline."""
    parts = []
    runs = rows["run_id"].astype("str")
    for word in ("better", "worse", "higher", "lower"):
        own = rows[rows["verdict"].eq(word).to_numpy()]
        counts = own.groupby(own["run_id"].astype("str"), sort=False).size()
        if len(counts):
            of = f" on {{}} of {len(metrics)}" if len(metrics) > 1 else ""
            named = [f"{run}{of.format(n)}" for run, n in counts.items()]
            parts.append(f"{word}: {few_names(named)}")
    n_open = int(rows.loc[runs.ne(baseline).to_numpy(), "verdict"].eq(UNSURE).sum())
    if not parts:
        return f"No run can be told from {baseline}"
    return f"Against {baseline}, {'; '.join(parts)}" + ("; others can't be told" * bool(n_open))


def _dots(
    rows: pd.DataFrame, names: list[str], labels: list[str], styles: dict[str, RunStyle],
    baseline: str | None, room: float, ax: "Axes | None",
) -> "Axes":  # fmt: skip
    """Draw the means of runs beside each other as marks with bars, whole at the ends of a scale.

    `rows` are indexed by `names`, one below the other; runs share `room` there. A dashed line is
    the baseline's mean. What a run only reports is hollow.
    """
    row = 0.17 * min(len(styles), MAX_RUNS) + 0.15  # inches; marks may touch
    high = min(row * len(names), max(TALLEST, ROW * len(names)))
    ax = new_axes(ax, width=6.5, height=max(2.4, high + 1.2))
    middle, half = np.arange(len(names)), room / 2 + 0.08
    for side, (run, style) in enumerate(styles.items()):
        own = rows[(rows["run_id"].astype("str") == run).to_numpy()].reindex(names)
        if run == baseline:
            ax.vlines(
                own["mean"], middle - half, middle + half, color=style.colour,
                linewidth=scaled(0.9), linestyle="--", zorder=1,
            )  # fmt: skip
        is_hollow = "is_reported" in own and bool(own["is_reported"].eq(True).any())
        place = middle + (side - (len(styles) - 1) / 2) * room / len(styles)
        ax.errorbar(
            own["mean"], place, xerr=error_lengths(own), fmt=style.marker, color=style.colour,
            markerfacecolor=inks().ground if is_hollow else style.colour,
            label=label_of(f"{style.label} (reported)" if is_hollow else style.label),
            markersize=style.size, elinewidth=style.width, capsize=0,
            zorder=2 if style.is_muted else 3, clip_on=False,
        )  # fmt: skip
    ax.set_yticks(middle, [label_of(label) for label in labels])
    ax.set_ylim(len(names) - 0.5, -0.5)
    return ax


@lettered
def slices(
    table: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    golden: Golden | None = None,
    baseline: str | None = None,
    limit: int = MAX_SLICES,
    order: list[str] | None = None,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    declared: Declarations = NOTHING_DECLARED,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric by columns or tags of the golden set: a dot per run and slice.

    From scores, runs are compared as pairs: a bar is the 95 % interval of the difference to the
    baseline, whose mean is the dashed line. From a summary, a bar is the interval of the mean.

    Parameters
    ----------
    table
        From `ev.summary(metric, by=...)`; or scores, of which that frame is then made by `by` and
        `golden`.
    metric
        Which; not needed where a summary has one only.
    by
        As for `golden.slices`; not needed for a summary.
    baseline
        The run that others are compared with; by default the first.
    limit
        At most so many slices are drawn, those with the most queries; the label says how many there
        are.
    order
        Slices that come first. By default words of a scale stand in its order (easy, medium, hard).
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False.
    declared
        What is declared of columns of your own; `ev.plot` gives it.

    Raises
    ------
    DataError
        A summary without these slices, or no scores frame; several metrics, or nothing to draw: no
        query of any slice has a value.
    """
    given = table
    table, metric, name_of_slices = sliced_rows(table, metric, by, golden, declared)
    found = told_slices(given, golden, by, metric, declared)
    sizes = table.groupby("slice", sort=False)["n"].max()
    names, cut = largest_slices(sizes, rows_that_fit(ax, limit), order)
    styles = run_styles(table, highlight, [])
    first = None
    if "metric" not in given and golden is not None and by is not None and len(styles) > 1:
        (first,) = run_names(
            pd.DataFrame({"run_id": list(styles)}), [baseline or next(iter(styles))]
        )
        table = _paired_slices(table, given, golden, metric, by, first, list(styles), declared)
    labels = [f"{name} ({n_text(table.loc[table['slice'].eq(name), 'n'])})" for name in names]
    ax = _dots(table.set_index("slice"), names, labels, styles, first, 0.7, ax)
    ax.set(
        xlabel=f"{metric}, {_interval_words(first, len(styles))}",
        ylabel=f"{name_of_slices} (queries){cut}",
    )
    if declared.describe(metric).is_unit:
        ax.set_xlim(0, 1)
    return finish(ax, hardest(found, metric, name_of_slices, len(styles)), "x", legend)


def _paired_slices(
    table: pd.DataFrame, scores: pd.DataFrame, golden: Golden, metric: str, by: Slicing,
    baseline: str, runs: list[str], declared: Declarations,
) -> pd.DataFrame:  # fmt: skip
    """Return the rows with intervals of the difference to the baseline, set at the run's mean."""
    means = table[table["run_id"].eq(baseline).to_numpy()].set_index("slice")["mean"]
    parts = [table[table["run_id"].eq(baseline).to_numpy()].assign(low=np.nan, high=np.nan)]
    names = list(slice_names(by))
    for run in runs:
        if run == baseline:
            continue
        own = table[table["run_id"].eq(run).to_numpy()]
        found = compare_slices(scores, golden, by, baseline, run, [metric], declared=declared).table
        found = found.set_index(slice_texts(found, names).to_numpy())
        base = own["slice"].map(means)
        parts.append(
            own.assign(
                low=base + own["slice"].map(found["low"]),
                high=base + own["slice"].map(found["high"]),
            )
        )
    return _within(pd.concat(parts), declared)


def told_slices(
    table: pd.DataFrame, golden: Golden | None, by: Slicing | None, metric: str,
    declared: Declarations,
) -> pd.DataFrame | None:  # fmt: skip
    """Return the slices that are worse than the rest of their run, each run's worst first.

    Of a frame of scores; None: nothing was tested. One row per run and slice.
    """
    if "metric" in table or golden is None or by is None or is_by_mode(by, golden):
        return None
    rows = slice_means(table, golden, by, [metric], declared=declared)
    rows = rows.assign(slice=slice_texts(rows, slice_names(by)).to_numpy())
    fall = rows["delta_rest"] * (1 if declared.describe(metric).better == "lower" else -1)
    is_told = rows["q"].lt(TOLD) & fall.gt(0)
    if declared.describe(metric).better not in ("higher", "lower"):
        is_told &= False
    return rows.assign(fall=fall)[is_told.to_numpy()].sort_values("fall", ascending=False)


def hardest(found: pd.DataFrame | None, metric: str, by: str, n_runs: int) -> str:
    """Return which slice is worse than the rest, for how many runs; else what is drawn."""
    if found is None:
        return f"{metric} by {by}"
    if not len(found):
        return f"{metric} by {by}: no slice can be told from the rest"
    counts = found["slice"].value_counts()
    name, n = counts.index[0], int(counts.iloc[0])
    every = "every run" if n == n_runs else f"{n} of {n_runs} runs"
    return f"{metric} is worse on {name} than on the rest" + (f" for {every}" if n_runs > 1 else "")


DETAILED, HIGH, WIDE = 12, 20, 250  # rows, points of one and of axes, with labels of two lines
# relevant is plain
HATCHED = dict(zip(RELEVANCE, ("", "//", "..", "xx", "\\\\", "--"), strict=True))


@lettered
def scores_by_rank(
    table: pd.DataFrame | Results,
    *,
    score_kind: str | None = None,
    highlight: list[str] | str | None = None,
    legend: str | bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the retrievers' own scores by rank.

    The line is the median of each rank, the band the middle half of the queries (up to four runs).
    Beyond eight runs the first four are in colour. Kinds of scores (`score_kind`: rrf, bm25,
    cosine, ...) have no common scale, so one kind is drawn and names the axis.

    Parameters
    ----------
    table
        From `results.retriever_scores()`, or the results it is made of.
    score_kind
        Which kind; not needed where the hits have one only. Hits that don't state theirs are of the
        kind "score".
    highlight
        Runs in colour; the others are grey.
    legend
        "right", "below", "inside" or False; by default names stand at the ends of lines.

    Raises
    ------
    DataError
        No hit has a score; hits of several kinds and none is chosen; a kind that no hit has.
    """
    rows = retriever_scores(table) if isinstance(table, Results) else table
    check_columns(
        rows,
        {"run_id", "score_kind", "rank", "n", "p25", "p50", "p75"},
        "table",
        "results.retriever_scores()",
    )
    rows, kind = _of_kind(rows, score_kind)
    styles = run_styles(rows, highlight, rows["run_id"].astype("str").unique().tolist())
    has_bands = len(styles) <= MAX_BANDS
    banded = [run for run, style in styles.items() if has_bands and not style.is_muted]
    return draw_lines(
        rows, styles, ["rank", "p50", "p25", "p75"], banded, _fall(rows, kind), legend, ax,
        xlabel=f"rank (n = {rows['n'].max()} queries)",
        ylabel=f"{kind} score: median{' and middle half' if has_bands else ''}",
    )  # fmt: skip


def draw_lines(
    rows: pd.DataFrame, styles: dict[str, RunStyle], columns: list[str], banded: list[str],
    finding: str, legend: str | bool | None, ax: "Axes | None", **options: Any,
) -> "Axes":  # fmt: skip
    """Draw a line per run and bands of some.

    `columns` are x, y, and the lower and upper side of a band. Names stand at the ends of lines; in
    a legend if one is asked for, or where they are too long.
    """
    ax, ends = new_axes(ax), []
    for run, style in styles.items():
        own = rows[rows["run_id"].astype("str").eq(run).to_numpy()].sort_values(columns[0])
        x, y, low, high = (own[name] for name in columns)
        ax.plot(
            x, y, marker=style.marker, color=style.colour, linestyle=style.line, clip_on=False,
            linewidth=style.width, markersize=style.size, label=label_of(style.label),
        )  # fmt: skip
        if run in banded:
            ax.fill_between(x, low, high, color=style.colour, alpha=0.13, linewidth=0)
        if not style.is_muted:
            ends.append((float(x.iloc[-1]), float(y.iloc[-1]), label_of(run), style.colour))
    ax.set(**options)
    n_lines = len(ax.get_legend_handles_labels()[1])
    if legend is None and len(ends) == n_lines and label_ends(ax, ends):
        legend = False
    return finish(ax, finding, "y", legend)


MAX_BANDS = 4  # lines whose bands can be told apart


def _fall(rows: pd.DataFrame, kind: str) -> str:
    """Return at which rank scores have fallen to half of the first."""
    halves = {}
    for run, own in rows.groupby(rows["run_id"].astype("str"), sort=False):
        own = own.sort_values("rank")
        low = own[(own["p50"] <= own["p50"].iloc[0] / 2).to_numpy()]
        if own["p50"].iloc[0] > 0 and len(low):
            halves[str(run)] = int(low["rank"].iloc[0])
    if not halves:
        return f"{kind} scores stay above half of the first"
    first, last = min(halves, key=lambda run: halves[run]), max(halves, key=lambda run: halves[run])
    if halves[first] == halves[last]:
        return f"{kind} scores have halved by rank {halves[first]}"
    return f"{kind} scores have halved by rank {halves[first]} ({first}) to {halves[last]} ({last})"


@lettered
def score_distribution(
    table: pd.DataFrame,
    *,
    score_kind: str | None = None,
    highlight: list[str] | str | None = None,
    ax: "Axes | None" = None,
    figure: "FigureBase | None" = None,
) -> "Axes":
    """Draw the scores of relevant hits beside those of other hits, a panel per kind of score.

    The box holds the middle half of the hits with their median, the whiskers nine of ten hits.
    Relevant hits are plain, others hatched. Beside a box is the number of hits, and how often a
    relevant hit scores higher than one of them.

    Parameters
    ----------
    table
        From `ev.retriever_scores()`.
    score_kind
        Draw only this kind, in `ax` if that is given.
    highlight
        Runs in colour; the others are grey.
    figure
        Where several panels stand, an empty figure or part of one; by default a new one.

    Returns
    -------
    The axes; of several panels the first, and `ax.figure.axes` has all.

    Raises
    ------
    DataError
        Not that frame; several kinds for one `ax`; a kind that it doesn't have.
    """
    check_columns(
        table,
        {"run_id", "score_kind", "relevance", "n_hits", "above", *QUANTILES},
        "table",
        "ev.retriever_scores()",
    )
    rows = table[(table["n_hits"] > 0).to_numpy()]
    if score_kind is not None or ax is not None:
        rows, kind = _of_kind(rows, score_kind)
        ax = new_axes(ax, width=7.6, height=_boxes_high(rows) + 1.2)
        _draw_boxes(ax, rows, kind, highlight)
        return ax
    sizes = {str(kind): len(own) for kind, own in rows.groupby("score_kind", sort=False)}
    figure = new_figure(figure, 7.6, _boxes_high(rows) + len(sizes))
    grid = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=list(sizes.values()))
    for kind, panel in zip(sizes, grid.flat, strict=True):
        _draw_boxes(panel, *_of_kind(rows, kind), highlight)
    return grid[0, 0]


def _boxes_high(rows: pd.DataFrame) -> float:
    """Return the inches of so many boxes."""
    return 0.42 * len(rows) if len(rows) <= DETAILED else min(0.2 * len(rows), TALLEST)


def _draw_boxes(
    ax: "Axes", rows: pd.DataFrame, kind: str, highlight: list[str] | str | None
) -> None:
    """Draw the boxes of one kind of score."""
    boxes = [
        {
            "med": row["p50"],
            "q1": row["p25"],
            "q3": row["p75"],
            "whislo": row["p5"],
            "whishi": row["p95"],
            "fliers": [],
        }
        for row in rows.to_dict("records")
    ]
    drawn = ax.bxp(
        boxes,
        positions=np.arange(len(rows)),
        widths=0.6,
        orientation="horizontal",
        patch_artist=True,
        showfliers=False,
        medianprops={"color": inks().ink, "linewidth": 2},
    )
    styles = run_styles(rows, highlight)
    for box, run, relevance in zip(
        drawn["boxes"], rows["run_id"].astype("str"), rows["relevance"], strict=True
    ):
        box.set(
            facecolor=styles[run].colour,
            hatch=HATCHED.get(relevance, ""),
            edgecolor=inks().ground if relevance != RELEVANCE[0] else inks().ink,
        )
    points, box = 72 / ax.figure.get_figure(root=True).dpi, ax.get_window_extent()
    longest = max(len(shown(run)) for run in rows["run_id"].astype("str"))
    has_room = box.height * points / len(rows) >= HIGH and box.width * points >= WIDE
    if has_room and len(rows) <= DETAILED and longest <= LONG:
        columns = rows[["run_id", "relevance", "n_hits", "above"]]
        labels = [
            f"{label_of(str(run))}: {relevance}\n{plural(n_hits, 'hit')}"
            + ("" if np.isnan(above) else f", {percent(above)} below a relevant one")
            for run, relevance, n_hits, above in columns.itertuples(index=False)
        ]
        ax.set_yticks(np.arange(len(rows)), labels)
    else:  # one name per run; hatches are told in the legend
        places = pd.Series(np.arange(len(rows))).groupby(rows["run_id"].astype("str").to_numpy())
        middles = places.mean().sort_values()
        ax.set_yticks(middles.to_numpy(), [label_of(str(run)) for run in middles.index])
        for relevance in rows["relevance"].unique():
            ax.barh(
                0, 0, color=inks().ground, edgecolor=inks().ink, hatch=HATCHED.get(relevance, ""),
                label=str(relevance),
            )  # fmt: skip
        put_legend(ax)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(f"{kind} score: median, middle half, nine hits in ten")
    title(ax, _separation(rows, kind))
    quiet(ax, "x")


def _separation(rows: pd.DataFrame, kind: str) -> str:
    """Return how often relevant hits score higher than others, over all runs."""
    known = rows.loc[rows["above"].notna().to_numpy(), "above"]
    if not len(known):
        return f"{kind} scores of hits"
    low, high = percent(known.min()), percent(known.max())
    share = low if low == high else f"{low} to {high}"
    return f"A relevant hit has the higher {kind} score in {share} of pairs"


def _of_kind(rows: pd.DataFrame, score_kind: str | None) -> tuple[pd.DataFrame, str]:
    """Return the rows of the chosen kind, or of the only one."""
    known = rows["score_kind"].unique().tolist()
    chosen = known[0] if score_kind is None and len(known) == 1 else score_kind
    if chosen not in known:
        found = (
            f"found {score_kind!r}"
            if score_kind is not None
            else f"scores of {len(known)} kinds, which have no common scale"
        )
        raise DataError(found, field="score_kind", allowed=nearest(score_kind, known))
    return rows[(rows["score_kind"] == chosen).to_numpy()], str(chosen)
