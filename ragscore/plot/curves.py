"""One metric against another figure: quality against what it takes, over k, over coverage; the retrievers' scores over the ranks."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.frames import DataError, Results, check_type
from ragscore.metrics import describe
from ragscore.plot.style import COLOURS, MARKERS, check_scores, error_lengths, legend, new_axes, numbered_runs, scale_of, unit_scale, wrapped
from ragscore.summary import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def tradeoff(scores: pd.DataFrame, metric: str, *, against: str = "latency_ms", ax: "Axes | None" = None) -> "Axes":
    """Quality against what it takes: one point per run, with the 95 % intervals of both means.

    Parameters
    ----------
    metric
        What stands on the upward axis, such as `hit@5`.
    against
        What stands on the other: `latency_ms`, `cost_usd` or any other metric column.

    Raises
    ------
    DataError
        Not a scores frame, or no run has values of both.
    """
    check_scores(scores)
    table = summarize(scores, metrics=[metric, against])
    rows = {name: table[table["metric"] == name].set_index("run_id") for name in (metric, against)}
    both = (rows[metric]["n"] > 0) & (rows[against]["n"] > 0)
    if not both.any():
        raise DataError(f"no run has values of both {metric} and {against}", field="scores", allowed="runs with n > 0 for both in rs.summarize(scores)")
    y, x = (rows[name][both] for name in (metric, against))
    ax = new_axes(ax, width=6.4)
    for run, number in numbered_runs(y.reset_index()).items():
        place, height = x.loc[[run]], y.loc[[run]]
        ax.errorbar(
            place["mean"], height["mean"], xerr=error_lengths(place), yerr=error_lengths(height), fmt=MARKERS[number % 8], color=COLOURS[number % 8],
            label=wrapped(f"{run} (n = {height['n'].iloc[0]})"), capsize=2, markersize=7, linewidth=1,
        )  # fmt: skip
    ax.set_xlabel(f"{against}, mean with 95 % interval ({describe(against).better} is better)")
    ax.set_ylabel(f"{metric}, mean with 95 % interval")
    ax.set_xlim(left=0)
    unit_scale(ax, scale_of(table, metric))
    legend(ax)
    return ax


def hit_scores(results: Results, *, score_kind: str | None = None, ax: "Axes | None" = None) -> "Axes":
    """How the retrievers' own scores fall with the rank: the median of each rank as a line, the middle half of the queries as a band.

    Scores of different kinds (`score_kind`: rrf, bm25, cosine, ...) have no common scale, so that one kind is drawn at a time and names the axis.

    Parameters
    ----------
    score_kind
        Which kind; not needed where the hits have one only. Hits that don't state theirs are of the kind "score".

    Raises
    ------
    DataError
        No hit has a score; hits of several kinds and none is chosen; a kind that no hit has.
    """
    check_type(results, Results, "results")
    hits = results.hits[results.hits["score"].notna()] if "score" in results.hits else results.hits.iloc[:0]
    kinds = hits["score_kind"].fillna("score") if "score_kind" in hits else pd.Series("score", index=hits.index)
    known = kinds.unique().tolist()
    chosen = known[0] if score_kind is None and len(known) == 1 else score_kind
    if not known:
        raise DataError("no hit has a score", field="results.hits.score", allowed="hits with scores")
    if chosen not in known:
        found = f"found {score_kind!r}" if score_kind is not None else f"scores of {len(known)} kinds, which have no common scale"
        raise DataError(found, field="score_kind", allowed=f"one of {', '.join(known)}")
    rows = hits[kinds == chosen]
    ax = new_axes(ax)
    for run, number in numbered_runs(rows).items():
        own = rows[rows["run_id"] == run]
        spread = own.groupby("rank")["score"].quantile(np.array([0.25, 0.5, 0.75])).unstack()
        ax.plot(spread.index, spread[0.5], marker=MARKERS[number % 8], color=COLOURS[number % 8], label=wrapped(f"{run} (n = {own['query_id'].nunique()})"))
        ax.fill_between(spread.index, spread[0.25], spread[0.75], color=COLOURS[number % 8], alpha=0.15, linewidth=0)
    ax.set_xlabel("rank")
    ax.set_ylabel(f"{chosen}: median and middle half of the queries")
    ax.grid(axis="y", alpha=0.3)
    legend(ax)
    return ax
