"""Means with intervals by run and slice, and the scores of retrievers.

Kinds of retriever scores have no common scale, so each kind has its own axes.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.analysis.rankings import QUANTILES, RELEVANCE, retriever_scores
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import nearest
from ragscore.plot.style import (
    COLOURS,
    ERROR_BAR,
    HATCHES,
    MARKERS,
    MAX_SLICES,
    check_columns,
    check_scales,
    check_scores,
    check_summary,
    error_lengths,
    legend,
    n_text,
    new_axes,
    new_figure,
    numbered_runs,
    rows_of,
    scale_of,
    unit_scale,
    wrapped,
)  # fmt: skip
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase


def bars(
    summary: pd.DataFrame, metrics: list[str] | None = None, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw metrics of one or several runs as bars, with their 95 % intervals.

    Parameters
    ----------
    summary
        From `rs.summarize` (not sliced).
    metrics
        Which, in this order, all of one scale; by default those of the summary whose scale is 0 to
        1, at most eight.

    Raises
    ------
    DataError
        Not a summary, or a sliced one; a metric that it doesn't have; metrics of different scales
        (ms beside 0 to 1).
    """
    check_summary(summary)
    chosen = (
        metrics
        or [name for name in summary["metric"].unique() if scale_of(summary, name) == "0 to 1"][:8]
        or summary["metric"].unique().tolist()
    )
    table = rows_of(summary, chosen)
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
        ax.bar(
            place,
            rows["mean"],
            width,
            label=wrapped(run),
            color=COLOURS[number % 8],
            hatch=HATCHES[number % 8],
            edgecolor="white",
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


def slices(
    scores: pd.DataFrame,
    golden: Golden | None = None,
    metric: str | None = None,
    *,
    by: str,
    limit: int = MAX_SLICES,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric by a column or tag of the golden set.

    There is a point with its 95 % interval per run and slice.

    Parameters
    ----------
    scores
        From `rs.summarize(scores, golden, by=...)`; or scores, of which that frame is then made by
        `golden`.
    metric
        Which; not needed where a summary has one only.
    limit
        At most so many slices are drawn, those with the most queries; the title says how many there
        are.

    Raises
    ------
    DataError
        A summary without these slices, or no scores frame; several metrics, or nothing to draw: no
        query of any slice has a value.
    """
    table, metric = _sliced(scores, golden, metric, by)
    table = table[table["n"] > 0]
    if not len(table):
        raise DataError(
            f"no query has a value of {metric}",
            field="metric",
            allowed="a metric with n > 0 in rs.summarize(scores)",
        )
    sizes = table.groupby(table[by].astype("str"), sort=False)["n"].max()
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
        rows = (
            table[table["run_id"] == run]
            .assign(name=lambda t: t[by].astype("str"))
            .set_index("name")
            .reindex(names)
        )
        place = np.arange(len(names)) + (side - (len(runs) - 1) / 2) * step
        ax.errorbar(
            rows["mean"],
            place,
            xerr=error_lengths(rows),
            fmt=MARKERS[number % 8],
            color=COLOURS[number % 8],
            label=wrapped(run),
            capsize=2,
            markersize=5,
            linewidth=1,
        )
    ax.set_yticks(
        np.arange(len(names)),
        [wrapped(f"{name} (n = {n_text(table, by, name)})", 34) for name in names],
    )
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"{metric}, mean with 95 % interval")
    ax.set_ylabel(by)
    if describe(metric).range == "0 to 1":
        ax.set_xlim(0, 1)
    ax.grid(axis="x", alpha=0.3)
    legend(ax)
    return ax


def _sliced(
    scores: pd.DataFrame, golden: Golden | None, metric: str | None, by: str
) -> tuple[pd.DataFrame, str]:
    """Return the rows to draw, from a sliced summary or from scores."""
    if "metric" not in scores:
        check_scores(scores)
        if metric is None:
            raise DataError("found none", field="metric", allowed="a column of the scores")
        return summarize(scores, golden, by=by, metrics=[metric]), metric
    if by not in scores:
        raise DataError(
            f"found a summary that isn't sliced by {by}",
            field="scores",
            allowed=f"rs.summarize(scores, golden, by={by!r}), or the frame of rs.score",
        )
    known = scores["metric"].unique().tolist()
    if metric is None and len(known) != 1:
        raise DataError(
            f"found {len(known)} metrics", field="metric", allowed=f"one of {', '.join(known)}"
        )
    metric = metric or str(known[0])
    return rows_of(scores, [metric]), metric


# relevant is plain
HATCHED = dict(zip(RELEVANCE, ("", "//", "..", "xx", "\\\\", "--"), strict=True))


def hit_scores(
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
        colour = COLOURS[number % 8]
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


def score_distribution(
    table: pd.DataFrame, *, score_kind: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw the scores of relevant hits beside those of other hits.

    The box holds the middle half of the hits with their median, the whiskers nine of ten hits.
    Relevant hits are plain, others hatched. Beside a box is n, and how often a relevant hit scores
    higher than one of its hits.

    Parameters
    ----------
    table
        From `ev.retriever_scores()`.
    score_kind
        Which kind; not needed where there is one only. `score_distributions` draws them all, side
        by side.

    Raises
    ------
    DataError
        Not that frame; several kinds and none is chosen; a kind that it doesn't have.
    """
    rows, kind = _of_kind(_drawn(table), score_kind)
    ax = new_axes(ax, width=7.6, height=0.42 * len(rows) + 1.2)
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
            facecolor=COLOURS[numbers[run] % 8],
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
    return ax


def score_distributions(table: pd.DataFrame, *, figure: "FigureBase | None" = None) -> "list[Axes]":
    """Draw `score_distribution` of every kind of score, one below the other.

    Parameters
    ----------
    figure
        Where they stand, an empty figure or part of one; by default a new one.

    Raises
    ------
    DataError
        Not that frame.
    """
    rows = _drawn(table)
    sizes = {str(kind): len(own) for kind, own in rows.groupby("score_kind", sort=False)}
    figure = new_figure(figure, 7.6, 0.42 * len(rows) + len(sizes))
    grid = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=list(sizes.values()))
    return [
        score_distribution(rows, score_kind=kind, ax=ax)
        for kind, ax in zip(sizes, grid.flat, strict=True)
    ]


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
