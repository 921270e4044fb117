"""Two runs: differences by metric, and changes by query."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from ragscore.analysis import titles
from ragscore.analysis.comparison.model import OUTCOMES, Comparison
from ragscore.analysis.slices import SliceComparison
from ragscore.frames.data import DataError, check_type, run_names
from ragscore.frames.errors import check_known, name_list, nearest
from ragscore.frames.tables import SIGNS
from ragscore.plot.layout import (
    finish,
    is_new,
    new_axes,
    rows_that_fit,
    spread,
)
from ragscore.plot.lettering import lettered
from ragscore.plot.names import name_runs
from ragscore.plot.style import (
    MAX_SLICES,
    ROW,
    SCORES,
    TALLEST,
    check_columns,
    check_scales,
    error_lengths,
    label_of,
    largest_slices,
)
from ragscore.plot.theme import inks, sizes
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations, headline_of
from ragscore.scoring.summary import slice_texts
from ragscore.stats.verdicts import UNSURE

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
# outcome -> colour of its bands, from the top of each bundle
_BANDS = {**OUTCOME_COLOURS, "both_miss": "#DDDDDD"}
MOVES = (("win",), ("loss", "regression"))
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


BINS = ("1", "2–3", "4–5", "6–10", "11+", "miss")
"""Places of a first hit that `ranks` bundles."""
EDGES = (0, 1, 3, 5, 10, np.inf)


@lettered
def ranks(cmp: Comparison, *, legend: str | bool | None = None, ax: "Axes | None" = None) -> "Axes":
    """Draw where every query's first hit stands in both runs, bundled by rank and outcome.

    A band's width is its number of queries, which is written on it where there is room. The lowest
    place is "miss". Only queries with a target and a row in both runs are drawn.

    Parameters
    ----------
    legend
        "right", "below", "inside" or False.
    """
    check_type(cmp, Comparison, "cmp", "what ev.compare returns")
    name_runs([cmp.baseline, cmp.candidate])
    rows = cmp.per_query[cmp.per_query["outcome"].isin(list(_BANDS))]
    ends = pd.DataFrame({
        side: pd.cut(rows[f"rank_{side}"].astype("float64"), EDGES, labels=False)
        for side in ("baseline", "candidate")
    }).fillna(len(BINS) - 1).astype("int64")  # fmt: skip
    bands = (
        ends.assign(kind=rows["outcome"].astype("str").map(list(_BANDS).index))
        .groupby(["baseline", "candidate", "kind"])
        .size()
        .rename("n")
        .reset_index()
    )
    ax = new_axes(ax, width=6.6, height=4.6)
    total = max(len(rows), 1)
    gap = 0.06 * total
    shares = 0.85 if is_new(ax) else 0.5  # of the figure's height, the axes'
    line = 1.35 * sizes()["note"] / (72 * shares * ax.bbox.height / ax.figure.dpi) * 1.4 * total
    starts = {}
    for side, other in (("baseline", "candidate"), ("candidate", "baseline")):
        ordered = bands.sort_values([side, other, "kind"])
        starts[side] = ordered["n"].cumsum() - ordered["n"] + gap * ordered[side]
    x = np.linspace(0, 1, 41)
    bend = (1 - np.cos(np.pi * x)) / 2
    for place, band in zip(bands.index, bands.to_dict("records"), strict=True):
        kind = list(_BANDS)[band["kind"]]
        top = starts["baseline"][place] * (1 - bend) + starts["candidate"][place] * bend
        ax.fill_between(
            x, top, top + band["n"], facecolor=_BANDS[kind], hatch=_OUTCOME_HATCHES[kind],
            edgecolor=inks().ground, linewidth=0.4, gid=f"{kind} {band['n']}",
        )  # fmt: skip
        if band["n"] >= line:
            ax.text(
                0.03, starts["baseline"][place] + band["n"] / 2, str(band["n"]), va="center",
                fontsize=sizes()["note"], bbox={"facecolor": inks().ground, "edgecolor": "none",
                "pad": 0.6},
            )  # fmt: skip
    for side, edge, align in (("baseline", -0.02, "right"), ("candidate", 1.02, "left")):
        places = [
            (int(str(place)), starts[side][own.index].min() + own["n"].sum() / 2, own["n"].sum())
            for place, own in bands.groupby(side)
        ]
        middles = spread([one[1] for one in places], np.full(len(places), line), 0, np.inf)
        for (place, _, n), middle in zip(places, middles, strict=True):
            ax.text(
                edge, middle, f"{BINS[place]}: {n}", ha=align, va="center",
                fontsize=sizes()["note"],
            )  # fmt: skip
    told = rows["outcome"].astype("str").value_counts()
    for kind, colour in _BANDS.items():
        if kind in told:
            label = f"{SIGNS[kind]} {kind.replace('_', ' ')} ({told[kind]})"
            ax.fill_between(
                [], [], facecolor=colour, hatch=_OUTCOME_HATCHES[kind], edgecolor=inks().ground,
                label=label,
            )  # fmt: skip
    level = cmp.level.name.replace("_", " ")
    ax.set(
        xlim=(-0.22, 1.22),
        ylim=(total + gap * (len(BINS) - 1) + 0.01, -0.01),
        yticks=[],
        xlabel=f"rank of the first hit: number of queries (n = {len(rows)}, matched by {level});"
        " a band's width is its number",
    )
    ax.set_xticks([0, 1], [label_of(name) for name in (cmp.baseline, cmp.candidate)])
    better, worse = int(told.get("win", 0)), int(told.reindex(["loss", "regression"]).sum())
    ax.spines[:].set_visible(False)
    against = f"First hit in {cmp.candidate} against {cmp.baseline}"
    return finish(ax, f"{against}: earlier {better}, later or lost {worse}", None, legend)


@lettered
def forest(
    deltas: pd.DataFrame,
    metrics: list[str] | None = None,
    baseline: str = "baseline",
    candidate: str = "candidate",
    *,
    legend: str | bool | None = None,
    declared: Declarations = NOTHING_DECLARED,
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
        values, else the primary ones of one scale. The axis names primary ones that aren't drawn.
    baseline, candidate
        What the runs are called.
    legend
        "right", "below", "inside" or False.
    declared
        What is declared of columns of your own; `cmp.plot` gives it.

    Raises
    ------
    DataError
        Not that frame, a metric that it doesn't have, or none of one scale with values.
    """
    needed = {"metric", "delta", "low", "high", "mde", "verdict", "n"}
    check_columns(deltas, needed, "deltas", "cmp.deltas")
    plain = {"is_primary": False, "margin": np.nan}
    deltas = deltas.assign(**{name: own for name, own in plain.items() if name not in deltas})
    name_runs([baseline, candidate])
    rows, others = _drawn_deltas(deltas, metrics, declared)
    usual = int(rows["n"].mode().iloc[0])
    lower = {name for name in rows["metric"] if declared.describe(name).better == "lower"}
    labels = [
        f"{name}{' ↓' * (name in lower)}{f' ({n})' if n != usual else ''}"
        for name, n in zip(rows["metric"], rows["n"], strict=True)
    ]
    ax = new_axes(ax, width=7.2, height=0.3 * len(rows) + 1.5)
    verdicts = rows["verdict"].astype("str")
    counted = verdicts.map(lambda word: f"{word} ({verdicts.eq(word).sum()})")
    is_bold = rows["is_primary"].astype("bool") & rows["metric"].map(str.isascii)
    _points(ax, rows, labels, counted, is_bold)
    if len(margins := rows[rows["margin"].notna()]):
        ax.barh(
            margins["place"], 2 * margins["margin"], left=-margins["margin"], height=0.8,
            color="#0072B2", alpha=0.15, linewidth=0, label="margin", zorder=0,
        )  # fmt: skip
    if len(known := rows[rows["mde"].notna()]):
        ax.plot(
            np.concatenate([-known["mde"], known["mde"]]), np.tile(known["place"], 2),
            linestyle="none", marker="|", markersize=11, color=inks().muted,
            label="detectable from", clip_on=False,
        )  # fmt: skip
    told = f"n = {usual}" + ", else in brackets" * bool((rows["n"] != usual).any())
    ax.set_xlabel(
        f"{candidate} − {baseline}, with paired 95 % interval"
        f" ({told}{'; ↓: lower is better' if lower else ''})"
        + (f"\nof another scale, not drawn: {name_list(others)}" if others else "")
    )
    return finish(ax, f"{candidate} against {baseline}: {titles.of_deltas(rows)}", "x", legend)


@lettered
def slice_deltas(
    found: SliceComparison,
    metric: str | None = None,
    *,
    limit: int = MAX_SLICES,
    order: list[str] | None = None,
    legend: str | bool | None = None,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the differences of two runs, slice by slice, below the difference over all queries.

    Each is a point with its paired 95 % interval; the marks are those of `forest`. Slices with too
    few queries for a verdict are starred.

    Parameters
    ----------
    found
        What `cmp.slices` returns.
    metric
        Which; by default the first.
    limit
        At most so many slices are drawn, those with the most queries; the label says how many there
        are.
    order
        Slices that come first. By default words of a scale stand in its order (easy, medium, hard).
    legend
        "right", "below", "inside" or False.

    Raises
    ------
    DataError
        Not that object, a metric that it doesn't have or that no query has a value of.
    """
    check_type(found, SliceComparison, "found", "what cmp.slices returns")
    name_runs([found.baseline, found.candidate])
    known = found.table["metric"].unique().tolist()
    chosen = metric or (known[0] if known else "")
    rows = found.table[(found.table["metric"].eq(chosen) & found.table["n"].gt(0)).to_numpy()]
    if not len(rows):
        raise DataError(
            f"no slice has a value of {chosen} in both runs",
            field="metric",
            allowed=nearest(chosen, known) if chosen not in known else "a metric with n > 0",
        )
    rows = rows.assign(slice=slice_texts(rows, found.by)).set_index("slice")
    names, cut = largest_slices(rows["n"], rows_that_fit(ax, limit), order)
    rows = rows.loc[names]
    overall = found.overall[found.overall["metric"].eq(chosen).to_numpy()]
    rows = pd.concat([overall.assign(is_small=False).set_axis(["all"], axis=0), rows])
    ax = new_axes(ax, width=7.2, height=min(0.32 * len(rows), max(TALLEST, ROW * len(rows))) + 1.5)
    ax.axhline(0.5, color=inks().grid, linewidth=0.8)
    labels = [
        f"{name}{'*' if is_small else ''} ({n})"
        for name, is_small, n in rows[["is_small", "n"]].itertuples(name=None)
    ]
    verdicts = rows["verdict"].astype("str")
    told = verdicts.where(verdicts.isin(list(_VERDICTS)), UNSURE)
    _points(ax, rows, labels, told, np.arange(len(rows)) == 0)
    note = f"; *: fewer than {found.min_n} queries" if rows["is_small"].any() else ""
    lower = "; lower is better" if found.declared.describe(chosen).better == "lower" else ""
    difference = f"{chosen}: {found.candidate} − {found.baseline}, with paired 95 % interval"
    ax.set(xlabel=f"{difference}{lower}{note}", ylabel=f"{' × '.join(found.by)} (queries){cut}")
    finding = titles.of_slice_deltas(rows.iloc[1:])
    return finish(ax, f"{found.candidate} against {found.baseline}: {finding}", "x", legend)


def _points(
    ax: "Axes", rows: pd.DataFrame, names: list[str], words: pd.Series, is_bold: Any
) -> None:
    """Draw differences below each other with their intervals; a legend has the words of each."""
    ax.axvline(0, color=inks().ink, linewidth=0.8)
    rows = rows.assign(place=np.arange(len(rows)), mean=rows["delta"])
    for word, part in rows.groupby(words.to_numpy(), sort=False):
        colour, marker, is_filled = _VERDICTS.get(str(part["verdict"].iloc[0]), _OPEN)
        ax.errorbar(
            part["delta"], part["place"], xerr=error_lengths(part), fmt=marker, color=colour,
            markerfacecolor=colour if is_filled else inks().ground, markersize=7,
            capsize=3, elinewidth=1.4, label=str(word), clip_on=False,
        )  # fmt: skip
    ax.set_yticks(rows["place"], [label_of(name) for name in names])
    ax.set_ylim(len(rows) - 0.5, -0.5)
    for label in np.array(ax.get_yticklabels())[np.asarray(is_bold)]:
        # the last family has no bold letters
        label.set(fontweight="bold", family=matplotlib.rcParams["font.family"][:-1])


def _drawn_deltas(
    deltas: pd.DataFrame, metrics: list[str] | None, declared: Declarations
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that are drawn, and the primary metrics that are of another scale."""
    known = deltas.set_index("metric", drop=False)
    valued = deltas.loc[deltas["n"].gt(0), "metric"].tolist()
    unit = [name for name in valued if declared.describe(name).is_unit]
    is_primary = deltas["is_primary"].to_numpy("bool")
    primary = [name for name in deltas.loc[is_primary, "metric"] if name in valued]
    chosen = metrics or list(
        dict.fromkeys([*(name for name in unit if name in primary), *headline_of(unit)])
    )
    if not chosen:  # nothing of 0 to 1: what decides, as far as it has one scale
        chosen = [
            name
            for name in primary or valued
            if declared.describe(name).bounds == declared.describe((primary or valued)[0]).bounds
        ]
    check_known(chosen, known.index, "metrics", "metric", "the comparison has")
    if not chosen:
        raise DataError("no metric has values", field="metrics", allowed="a metric with n > 0")
    check_scales(deltas.assign(min=np.nan, max=np.nan), chosen, declared)
    others = [] if metrics else [name for name in primary if name not in chosen]
    rows = known.loc[chosen].assign(place=np.arange(len(chosen))).reset_index(drop=True)
    return rows, others


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
    name_runs([baseline or "", candidate or ""])
    names = [name for name in OUTCOMES if name in counts] + [
        name for name in counts if name not in OUTCOMES
    ]
    ax = new_axes(ax, width=6.0, height=0.32 * max(len(names), 1) + 1.0)
    drawn = ax.barh(
        np.arange(len(names)), [counts[name] for name in names],
        color=[OUTCOME_COLOURS.get(name, "#DDDDDD") for name in names],
        hatch=[_OUTCOME_HATCHES.get(name, "") for name in names], edgecolor=inks().ground,
        height=0.75,
    )  # fmt: skip
    ax.bar_label(drawn, padding=3, fontsize=9)
    sides = {"only_baseline": baseline, "only_candidate": candidate}
    words = [f"only {sides[name]}" if sides.get(name) else name.replace("_", " ") for name in names]
    signs = [f" {SIGNS[name]}" if name in OUTCOMES else "" for name in names]
    ax.set_yticks(
        np.arange(len(names)),
        [label_of(word) + sign for word, sign in zip(words, signs, strict=True)],
    )
    ax.invert_yaxis()
    ax.margins(x=0.1)
    ax.set_xlabel(f"queries (n = {sum(counts.values())})")
    if baseline is None or candidate is None:
        return finish(ax, "", "x", False)
    n_better, n_worse = (sum(counts.get(name, 0) for name in names) for names in MOVES)
    finding = f"better in {n_better} queries, worse in {n_worse}"
    return finish(ax, f"{candidate} against {baseline}: {finding}", "x", False)


@lettered
def scatter(
    scores: pd.DataFrame,
    metric: str,
    baseline: str,
    candidate: str,
    *,
    legend: str | bool | None = None,
    declared: Declarations = NOTHING_DECLARED,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric of every query in both runs; above the line the candidate is higher.

    Points are larger where more queries share them.

    Parameters
    ----------
    scores
        From `rs.score` or `store.scores`; queries with a value in both runs are drawn.
    baseline, candidate
        Run ids.
    legend
        "right", "below", "inside" or False.
    declared
        What is declared of columns of your own; `ev.plot` gives it.

    Raises
    ------
    DataError
        No such run or metric, or no query has a value in both.
    """
    check_columns(scores, *SCORES)
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
    name_runs(names)
    ax = new_axes(ax, width=5.8, height=4.6)
    described = declared.describe(metric)
    side = np.sign(places["candidate"] - places["baseline"])
    side *= -1 if described.better == "lower" else 1
    n_of = places.groupby(side)["n"].sum().reindex([1, 0, -1], fill_value=0)
    looks = ("better", "#009E73", "^"), ("same", "#999999", "o"), ("worse", "#D55E00", "v")
    for (value, n), (word, colour, marker) in zip(n_of.items(), looks, strict=True):
        part = places[side == value]
        ax.scatter(
            part["baseline"], part["candidate"], s=14 + 14 * part["n"], color=colour,
            marker=marker, edgecolor=inks().ground, linewidth=0.6, label=f"{word} ({n})",
            clip_on=False,
        )  # fmt: skip
    ends = [0.0, 1.0] if described.is_unit else [points.min().min(), points.max().max()]
    ax.plot(ends, ends, color=inks().ink, linewidth=0.8, zorder=0)
    ax.set(
        xlabel=f"{names[0]}: {metric} (n = {len(points)}; larger marks: more queries)",
        ylabel=f"{names[1]}: {metric}",
    )
    ax.margins(0.06)
    moved = f"{metric} better in {n_of[1]} queries, worse in {n_of[-1]}"
    finish(ax, f"{names[1]} against {names[0]}: {moved}", "both", legend)
    # Marks of a legend all of one size: their area means a count in the figure.
    if (names_of := ax.get_legend()) is not None:
        for mark in names_of.findobj(PathCollection):
            mark.set_sizes([40])
    return ax
