"""Means with intervals by run and slice, and the scores of retrievers.

Kinds of retriever scores have no common scale, so each kind has its own axes.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.analysis.rankings import QUANTILES, RELEVANCE, retriever_scores
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import nearest
from ragscore.plot.lettering import lettered
from ragscore.plot.style import (
    ERROR_BAR,
    HATCHES,
    MARKERS,
    MAX_SLICES,
    PALETTE,
    check_columns,
    check_scales,
    check_summary,
    error_lengths,
    legend,
    n_text,
    new_axes,
    new_figure,
    numbered_runs,
    rows_of,
    scale_of,
    sliced_rows,
    unit_scale,
    wrapped,
)  # fmt: skip
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import Slicing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


@lettered
def summary(
    table: pd.DataFrame, metrics: list[str] | str | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw metrics of one or several runs as bars, with their 95 % intervals.

    Parameters
    ----------
    table
        From `ev.summary()` (not sliced).
    metrics
        Which, in this order, all of one scale; by default those of the summary whose scale is 0 to
        1, at most eight.

    Raises
    ------
    DataError
        Not a summary, or a sliced one; a metric that it doesn't have; metrics of different scales
        (ms beside 0 to 1).
    """
    check_summary(table)
    known = table["metric"].unique().tolist()
    chosen = [metrics] if isinstance(metrics, str) else metrics
    chosen = chosen or [name for name in known if scale_of(table, name) == "0 to 1"][:8] or known
    table = rows_of(table, chosen)
    check_scales(table, chosen)
    runs = numbered_runs(table)
    labels = [f"{wrapped(name, 12)}\nn = {n_text(table, 'metric', name)}" for name in chosen]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    ax = new_axes(
        ax, width=max(6.0, max(0.32 * len(runs), 0.09 * longest + 0.1) * len(chosen) + 2.5)
    )
    width = 0.8 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = table[table["run_id"] == run].set_index("metric").reindex(chosen)
        place = np.arange(len(chosen)) + (side - (len(runs) - 1) / 2) * width
        # what a run only reports is hollow
        is_reported = "is_reported" in rows and bool(rows["is_reported"].eq(True).any())
        colour = PALETTE[number % 8]
        ax.bar(
            place,
            rows["mean"],
            width,
            label=wrapped(f"{run} (reported)" if is_reported else run),
            color="white" if is_reported else colour,
            hatch=None if is_reported else HATCHES[number % 8],
            edgecolor=colour if is_reported else "white",
            yerr=error_lengths(rows),
            error_kw=ERROR_BAR,
        )
    ax.set_xticks(np.arange(len(chosen)), labels)
    scale = scale_of(table, chosen[0])
    unit_scale(ax, scale)
    ax.set_ylabel(
        "mean with 95 % interval" + (f" ({scale})" if scale not in ("0 to 1", "any") else "")
    )
    legend(ax)
    return ax


@lettered
def slices(
    table: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    golden: Golden | None = None,
    limit: int = MAX_SLICES,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric by columns or tags of the golden set.

    There is a point with its 95 % interval per run and slice.

    Parameters
    ----------
    table
        From `ev.summary(metric, by=...)`; or scores, of which that frame is then made by `by` and
        `golden`.
    metric
        Which; not needed where a summary has one only.
    by
        As for `golden.slices`; not needed for a summary.
    limit
        At most so many slices are drawn, those with the most queries; the title says how many there
        are.

    Raises
    ------
    DataError
        A summary without these slices, or no scores frame; several metrics, or nothing to draw: no
        query of any slice has a value.
    """
    table, metric, name_of_slices = sliced_rows(table, metric, by, golden)
    sizes = table.groupby("slice", sort=False)["n"].max()
    kept = set(sizes.sort_values(ascending=False, kind="stable").index[:limit])
    names = [name for name in sizes.index if name in kept]
    runs = numbered_runs(table)
    ax = new_axes(
        ax, width=6.5, height=max(2.5, max(0.25, 0.15 * len(runs) + 0.05) * len(names) + 1.2)
    )
    if len(names) < len(sizes):
        ax.set_title(f"the {len(names)} largest of {len(sizes)} slices", fontsize=10)
    step = 0.7 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = table[table["run_id"] == run].set_index("slice").reindex(names)
        place = np.arange(len(names)) + (side - (len(runs) - 1) / 2) * step
        ax.errorbar(
            rows["mean"],
            place,
            xerr=error_lengths(rows),
            fmt=MARKERS[number % 8],
            color=PALETTE[number % 8],
            label=wrapped(run),
            capsize=2,
            markersize=5,
            linewidth=1,
        )
    ax.set_yticks(
        np.arange(len(names)),
        [wrapped(f"{name} (n = {n_text(table, 'slice', name)})", 34) for name in names],
    )
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"{metric}, mean with 95 % interval")
    ax.set_ylabel(name_of_slices)
    if describe(metric).range == "0 to 1":
        ax.set_xlim(0, 1)
    ax.grid(axis="x", alpha=0.3)
    legend(ax)
    return ax


# relevant is plain
HATCHED = dict(zip(RELEVANCE, ("", "//", "..", "xx", "\\\\", "--"), strict=True))


@lettered
def scores_by_rank(
    table: pd.DataFrame | Results, *, score_kind: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the retrievers' own scores by rank.

    The line is the median of each rank, the band the middle half of the queries. Kinds of scores
    (`score_kind`: rrf, bm25, cosine, ...) have no common scale, so one kind is drawn and names the
    axis.

    Parameters
    ----------
    table
        From `results.retriever_scores()`, or the results it is made of.
    score_kind
        Which kind; not needed where the hits have one only. Hits that don't state theirs are of the
        kind "score".

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
    ax = new_axes(ax)
    for run, number in numbered_runs(rows).items():
        own = rows[(rows["run_id"].astype("str") == run).to_numpy()].sort_values("rank")
        colour = PALETTE[number % 8]
        ax.plot(
            own["rank"],
            own["p50"],
            marker=MARKERS[number % 8],
            color=colour,
            label=wrapped(f"{run} (n = {own['n'].max()})"),
        )
        ax.fill_between(own["rank"], own["p25"], own["p75"], color=colour, alpha=0.15, linewidth=0)
    ax.set_xlabel("rank")
    ax.set_ylabel(f"{kind}: median and middle half of the queries")
    ax.grid(axis="y", alpha=0.3)
    legend(ax)
    return ax


@lettered
def score_distribution(
    table: pd.DataFrame,
    *,
    score_kind: str | None = None,
    ax: "Axes | None" = None,
    figure: "FigureBase | None" = None,
) -> "Axes":
    """Draw the scores of relevant hits beside those of other hits, a panel per kind of score.

    The box holds the middle half of the hits with their median, the whiskers nine of ten hits.
    Relevant hits are plain, others hatched. Beside a box is n, and how often a relevant hit scores
    higher than one of its hits.

    Parameters
    ----------
    table
        From `ev.retriever_scores()`.
    score_kind
        Draw only this kind, in `ax` if that is given.
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
    rows = _drawn(table)
    if score_kind is not None or ax is not None:
        rows, kind = _of_kind(rows, score_kind)
        ax = new_axes(ax, width=7.6, height=0.42 * len(rows) + 1.2)
        _draw_boxes(ax, rows, kind)
        return ax
    sizes = {str(kind): len(own) for kind, own in rows.groupby("score_kind", sort=False)}
    figure = new_figure(figure, 7.6, 0.42 * len(rows) + len(sizes))
    grid = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=list(sizes.values()))
    for kind, panel in zip(sizes, grid.flat, strict=True):
        _draw_boxes(panel, *_of_kind(rows, kind))
    first: Axes = grid[0, 0]
    return first


def _draw_boxes(ax: "Axes", rows: pd.DataFrame, kind: str) -> None:
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
        medianprops={"color": "black", "linewidth": 2},
    )
    numbers = numbered_runs(rows)
    for box, run, relevance in zip(
        drawn["boxes"], rows["run_id"].astype("str"), rows["relevance"], strict=True
    ):
        box.set(
            facecolor=PALETTE[numbers[run] % 8],
            hatch=HATCHED.get(relevance, ""),
            edgecolor="white" if relevance != RELEVANCE[0] else "black",
        )
    ax.set_yticks(
        np.arange(len(rows)),
        [
            _label(*row)
            for row in rows[["run_id", "relevance", "n_hits", "above"]].itertuples(index=False)
        ],
        fontsize=9,
    )
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.set_xlabel(f"{kind}: median, middle half, nine hits in ten")
    ax.grid(axis="x", alpha=0.3)
    legend(ax)


def _drawn(table: pd.DataFrame) -> pd.DataFrame:
    check_columns(
        table,
        {"run_id", "score_kind", "relevance", "n_hits", "above", *QUANTILES},
        "table",
        "ev.retriever_scores()",
    )
    return table[(table["n_hits"] > 0).to_numpy()]


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


def _label(run: str, relevance: str, n_hits: int, above: float) -> str:
    told = "" if np.isnan(above) else f"; below a relevant one: {100 * above:.0f} %"
    return f"{wrapped(str(run), 40)}: {relevance}\n(n = {n_hits}{told})"
