"""The retrievers' own scores: by rank, and of relevant hits beside the others.

Kinds of scores have no common scale, so each has axes of its own.
"""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.analysis.rankings import QUANTILES, RELEVANCE, scores_by_rank
from ragscore.frames.data import DataError, Results
from ragscore.plot.style import (
    COLOURS,
    MARKERS,
    check_columns,
    legend,
    new_axes,
    new_figure,
    numbered_runs,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

# relevant is plain
HATCHED = dict(zip(RELEVANCE, ("", "//", "..", "xx", "\\\\", "--"), strict=True))


def hit_scores(
    table: pd.DataFrame | Results, *, score_kind: str | None = None, ax: "Axes | None" = None
) -> "Axes":
    """How the retrievers' own scores fall with the rank.

    The median of each rank as a line, the middle half of the queries as a band.

    Scores of different kinds (`score_kind`: rrf, bm25, cosine, ...) have no common scale, so that
    one kind is drawn at a time and names the axis.

    Parameters
    ----------
    table
        From `rs.scores_by_rank`, or the results it is made of.
    score_kind
        Which kind; not needed where the hits have one only. Hits that don't state theirs are of the
        kind "score".

    Raises
    ------
    DataError
        No hit has a score; hits of several kinds and none is chosen; a kind that no hit has.
    """
    rows = scores_by_rank(table) if isinstance(table, Results) else table
    check_columns(
        rows,
        {"run_id", "score_kind", "rank", "n", "p25", "p50", "p75"},
        "table",
        "rs.scores_by_rank(results)",
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
    """Scores of relevant hits beside those of the others.

    The middle half as a box, its median, and from where to where nine of ten hits lie.

    Relevant is plain, everything else hatched. Beside it n hits, and how often a relevant hit
    scores higher than one of these.

    Parameters
    ----------
    table
        From `rs.score_distribution`.
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
    """`score_distribution` of every kind of score, one under the other, each on its own scale.

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
        "rs.score_distribution(results, golden)",
    )
    return table[(table["n_hits"] > 0).to_numpy()]


def _of_kind(rows: pd.DataFrame, score_kind: str | None) -> tuple[pd.DataFrame, str]:
    """The rows of the kind that is asked for, or of the only one."""
    known = rows["score_kind"].unique().tolist()
    chosen = known[0] if score_kind is None and len(known) == 1 else score_kind
    if chosen not in known:
        found = (
            f"found {score_kind!r}"
            if score_kind is not None
            else f"scores of {len(known)} kinds, which have no common scale"
        )
        raise DataError(found, field="score_kind", allowed=f"one of {', '.join(known)}")
    return rows[(rows["score_kind"] == chosen).to_numpy()], str(chosen)


def _label(run: str, relevance: str, n_hits: int, above: float) -> str:
    told = "" if np.isnan(above) else f"; below a relevant one: {100 * above:.0f} %"
    return f"{wrapped(str(run), 40)}: {relevance}\n(n = {n_hits}{told})"
