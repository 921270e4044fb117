"""Two runs: differences by metric, and changes by query."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.model import OUTCOMES, Comparison
from ragscore.frames.data import DataError, check_type, run_names
from ragscore.frames.errors import name_list, nearest
from ragscore.plot.lettering import lettered
from ragscore.plot.style import check_columns, check_scores, legend, new_axes, wrapped
from ragscore.scoring.intervals import bounds_of
from ragscore.scoring.metrics import describe, headline_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OUTCOME_COLOURS = {"win": "#009E73", "loss": "#E69F00", "regression": "#D55E00", "draw": "#BBBBBB"}
_OUTCOME_HATCHES = {
    "win": "",
    "loss": "//",
    "regression": "xx",
    "draw": "..",
    "both_miss": "\\\\",
    "only_baseline": "--",
    "only_candidate": "++",
}
_LINES = {"draw": "-", "win": "-", "loss": "--", "regression": ":"}
GREY = "#777777"
# verdict -> colour, marker, filled
_VERDICTS = {
    "better": ("#009E73", "^", True),
    "same within margin": ("#0072B2", "s", True),
    "no worse than margin": ("#0072B2", "D", True),
    "worse": ("#D55E00", "v", True),
}
# of columns without a declared direction
_VERDICTS |= {"higher": ("#000000", "^", True), "lower": ("#000000", "v", True)}
_OPEN = (GREY, "o", False)  # everything else: can't tell


@lettered
def ranks(cmp: Comparison, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the rank of every query's first hit in both runs, joined by a line.

    The line is thicker where more queries share it. The lowest place is "miss". Only queries with a
    target and a row in both runs are drawn.
    """
    check_type(cmp, Comparison, "cmp", "what ev.compare returns")
    rows = cmp.per_query[
        cmp.per_query["outcome"].isin(["win", "loss", "regression", "draw", "both_miss"])
    ]
    both = rows[["rank_baseline", "rank_candidate"]]
    miss = int(max(both.max().max(), 1)) + 1 if both.notna().any().any() else 2
    lines = both.fillna(miss).assign(
        kind=rows["outcome"].replace("both_miss", "draw"),
    )
    counts = lines.groupby(["kind", *both]).size()
    ax = new_axes(ax, width=5.0, height=5.0)
    for kind in ("draw", "win", "loss", "regression"):
        drawn = counts[counts.index.get_level_values("kind") == kind]
        places = drawn.index.to_frame()
        ends = zip(places["rank_baseline"], places["rank_candidate"], drawn, strict=True)
        for before, after, n in ends:
            ax.plot(
                [0, 1],
                [before, after],
                color=OUTCOME_COLOURS[kind],
                linewidth=0.8 + 0.9 * np.sqrt(n),
                alpha=0.8,
                solid_capstyle="round",
                linestyle=_LINES[kind],
            )
        if len(drawn):
            ax.plot(
                [],
                [],
                color=OUTCOME_COLOURS[kind],
                linewidth=2.5,
                linestyle=_LINES[kind],
                label=f"{kind if kind != 'draw' else 'same'} ({int(drawn.sum())})",
            )
    ticks = [1, *range(5, miss, 5)]
    ax.set_yticks([*ticks, miss], [*map(str, ticks), "miss"])
    ax.set_ylim(miss + 0.5, 0.5)
    ax.set_xlim(-0.05, 1.05)
    ax.set_xticks([0, 1], [wrapped(name, 20) for name in (cmp.baseline, cmp.candidate)])
    ax.set_ylabel("rank of the first hit")
    ax.set_title(f"{len(rows)} queries, matched by {cmp.level.name.replace('_', ' ')}", fontsize=10)
    legend(ax)
    return ax


@lettered
def forest(
    deltas: pd.DataFrame,
    metrics: list[str] | None = None,
    baseline: str = "baseline",
    candidate: str = "candidate",
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the differences of two runs, metric by metric, with their verdicts.

    Each is a point with its paired 95 % interval, primary metrics first and in bold. Filled marks
    are verdicts (▲ better, ▼ worse, ■ the same and ◆ no worse within the margin); open circles
    can't be told. A blue band is the declared margin. Grey ticks mark the minimum detectable
    difference (80 % power); without them no difference is detectable.

    Parameters
    ----------
    deltas
        `Comparison.deltas`.
    metrics
        Which, in this order; by default the primary and headline metrics of 0 to 1 that have
        values, else all of that scale.
    baseline, candidate
        What the runs are called.

    Raises
    ------
    DataError
        Not that frame, a metric that it doesn't have, or none of one scale with values.
    """
    check_columns(
        deltas, {"metric", "delta", "low", "high", "mde", "verdict", "n"}, "deltas", "cmp.deltas"
    )
    rows = _drawn_deltas(deltas, metrics)
    ax = new_axes(ax, width=7.2, height=0.3 * len(rows) + 1.5)
    ax.axvline(0, color="black", linewidth=0.8)
    for verdict, part in rows.groupby("verdict", sort=False):
        colour, marker, is_filled = _VERDICTS.get(str(verdict), _OPEN)
        errors = np.nan_to_num(
            np.vstack([part["delta"] - part["low"], part["high"] - part["delta"]]).clip(0)
        )
        ax.errorbar(
            part["delta"], part["place"], xerr=errors, fmt=marker, color=colour,
            markerfacecolor=colour if is_filled else "white", markersize=7, capsize=3,
            linewidth=1.4, label=f"{verdict} ({len(part)})",
        )  # fmt: skip
    margins = rows[rows["margin"].notna()] if "margin" in rows else rows.head(0)
    if len(margins):
        ax.barh(
            margins["place"], 2 * margins["margin"], left=-margins["margin"], height=0.8,
            color="#0072B2", alpha=0.15, linewidth=0, label="margin", zorder=0,
        )  # fmt: skip
    known = rows[rows["mde"].notna()]
    if len(known):
        ends = np.concatenate([-known["mde"], known["mde"]])
        ax.plot(
            ends,
            np.tile(known["place"], 2),
            linestyle="none",
            marker="|",
            markersize=11,
            color="#999999",
            label="detectable from",
        )
    ax.set_yticks(
        rows["place"], [_delta_label(*row) for row in zip(rows["metric"], rows["n"], strict=True)]
    )
    if "is_primary" in rows:
        for text, is_primary in zip(ax.get_yticklabels(), rows["is_primary"], strict=True):
            text.set_fontweight("bold" if is_primary else "normal")
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlabel(f"{candidate} − {baseline},\nwith paired 95 % interval (↓: lower is better)")
    ax.grid(axis="x", alpha=0.3)
    legend(ax)
    return ax


def _drawn_deltas(deltas: pd.DataFrame, metrics: list[str] | None) -> pd.DataFrame:
    known = deltas.set_index("metric", drop=False)
    usable = [
        name
        for name, n in zip(deltas["metric"], deltas["n"], strict=True)
        if n and np.isfinite(bounds_of(describe(name))).all()
    ]
    unit = [name for name in usable if bounds_of(describe(name)) == (0, 1)]
    primary = set(deltas.loc[deltas["is_primary"], "metric"]) if "is_primary" in deltas else set()
    chosen = metrics or list(
        dict.fromkeys([*(name for name in unit if name in primary), *headline_of(unit)])
    )
    missing = [name for name in chosen if name not in known.index]
    if missing or not chosen:
        found = f"no metric {name_list(missing)}" if missing else "no metric of 0 to 1 has values"
        raise DataError(
            found,
            field="metrics",
            allowed=nearest((missing or [""])[0], deltas["metric"], "the comparison has"),
        )
    scales = {name: describe(name).range for name in chosen}
    if len(set(scales.values())) > 1:
        raise DataError(
            ", ".join(f"{name} ({scale})" for name, scale in scales.items()),
            field="metrics",
            allowed="metrics of one scale a figure",
        )
    return known.loc[chosen].assign(place=np.arange(len(chosen))).reset_index(drop=True)


def _delta_label(metric: str, n: int) -> str:
    return wrapped(f"{metric}{' ↓' if describe(metric).better == 'lower' else ''} (n = {n})", 40)


@lettered
def outcomes(
    counts: Mapping[str, int],
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the number of queries with each outcome of a comparison, one bar each.

    Parameters
    ----------
    counts
        `Comparison.counts`; its words may be those of another harness.
    baseline, candidate
        What the runs are called, for the title.
    """
    check_type(counts, Mapping, "counts", "cmp.counts")
    names = [name for name in OUTCOMES if name in counts] + [
        name for name in counts if name not in OUTCOMES
    ]
    ax = new_axes(ax, width=6.0, height=0.32 * max(len(names), 1) + 1.0)
    drawn = ax.barh(
        np.arange(len(names)), [counts[name] for name in names],
        color=[OUTCOME_COLOURS.get(name, "#DDDDDD") for name in names],
        hatch=[_OUTCOME_HATCHES.get(name, "") for name in names], edgecolor="white", height=0.75,
    )  # fmt: skip
    ax.bar_label(drawn, padding=3, fontsize=9)
    ax.set_yticks(np.arange(len(names)), [wrapped(name.replace("_", " ")) for name in names])
    ax.invert_yaxis()
    ax.margins(x=0.1)
    ax.set_xlabel(f"queries (n = {sum(counts.values())})")
    if baseline is not None and candidate is not None:
        ax.set_title(f"{candidate} against {baseline}", fontsize=10)
    legend(ax)
    return ax


@lettered
def scatter(
    scores: pd.DataFrame, metric: str, baseline: str, candidate: str, *, ax: "Axes | None" = None
) -> "Axes":
    """Draw one metric of every query in both runs; above the line the candidate is higher.

    Points are larger where more queries share them.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`; queries with a value in both runs are drawn.
    baseline, candidate
        Run ids.

    Raises
    ------
    DataError
        No such run or metric, or no query has a value in both.
    """
    check_scores(scores)
    names = run_names(
        pd.DataFrame({"run_id": scores["run_id"].astype("str").unique()}), [baseline, candidate]
    )
    check_columns(scores, {metric}, "metric", "a metric column of the scores")
    first, second = (
        scores.loc[
            (scores["run_id"] == name).to_numpy() & (scores["state"] != "extra").to_numpy(), metric
        ]
        for name in names
    )
    points = pd.DataFrame({"baseline": first, "candidate": second}).dropna()
    if not len(points):
        raise DataError(
            f"no query has a value of {metric} in both runs",
            field="metric",
            allowed="a metric with n > 0 in ev.summary()",
        )
    places = points.groupby(["baseline", "candidate"]).size().rename("n").reset_index()
    from matplotlib.collections import PathCollection

    ax = new_axes(ax, width=5.8, height=4.6)
    side = np.sign(places["candidate"] - places["baseline"])
    side *= -1 if describe(metric).better == "lower" else 1
    for value, word, colour, marker in (
        (1, "better", "#009E73", "^"),
        (0, "same", "#999999", "o"),
        (-1, "worse", "#D55E00", "v"),
    ):
        part = places[side == value]
        label = f"{word} ({int(part['n'].sum())})"
        ax.scatter(
            part["baseline"],
            part["candidate"],
            s=14 + 14 * part["n"],
            color=colour,
            marker=marker,
            alpha=0.75,
            edgecolor="white",
            linewidth=0.6,
            label=label,
        )
    ends = [float(points.min().min()), float(points.max().max())]
    ends = [0.0, 1.0] if describe(metric).range == "0 to 1" else ends
    ax.plot(ends, ends, color="black", linewidth=0.8, zorder=0)
    ax.set_xlabel(wrapped(f"{names[0]} (baseline)", 50))
    ax.set_ylabel(wrapped(f"{names[1]} (candidate)", 40))
    ax.set_title(f"{metric} of {len(points)} queries (larger: more of them)", fontsize=10)
    ax.margins(0.06)
    ax.grid(alpha=0.3)
    # Marks of a legend all of one size: their area means a count in the figure.
    names_of = ax.legend(
        loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9, scatterpoints=1
    )
    for mark in names_of.findobj(PathCollection):
        mark.set_sizes([40])
    return ax
