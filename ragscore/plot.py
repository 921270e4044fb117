"""Pictures: a frame in, matplotlib Axes out. Each draws one idea, says n, and computes nothing a table couldn't give."""

from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.compare import Comparison
from ragscore.frames import DataError, Golden, Results, check_type
from ragscore.metrics import describe
from ragscore.summary import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's colours: told apart by colour-blind readers, and in grey together with the hatches and markers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
MAX_SLICES = 30
OUTCOME_COLOURS = {"win": "#009E73", "loss": "#E69F00", "regression": "#D55E00", "draw": "#BBBBBB"}


def bars(summary: pd.DataFrame, metrics: list[str] | None = None, *, ax: "Axes | None" = None) -> "Axes":
    """Metric bars of one or several runs, with their 95 % intervals.

    Parameters
    ----------
    summary
        From `rs.summarize` (not sliced).
    metrics
        Which, in this order, all of one scale; by default those of the summary whose scale is 0 to 1, at most eight.

    Raises
    ------
    DataError
        Not a summary, or a sliced one; a metric that it doesn't have; metrics of different scales (ms beside 0 to 1).
    """
    _check_summary(summary)
    chosen = metrics or [name for name in summary["metric"].unique() if _scale(summary, name) == "0 to 1"][:8] or summary["metric"].unique().tolist()
    table = _rows_of(summary, chosen)
    _check_scales(table, chosen)
    runs = _numbered_runs(table)
    labels = [f"{_wrapped(name, 12)}\nn = {_n_text(table, 'metric', name)}" for name in chosen]
    longest = max(len(line) for label in labels for line in label.split("\n"))
    ax = _axes(ax, width=max(6.0, max(0.32 * len(runs), 0.09 * longest + 0.1) * len(chosen) + 2.5))
    width = 0.8 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = table[table["run_id"] == run].set_index("metric").reindex(chosen)
        place = np.arange(len(chosen)) + (side - (len(runs) - 1) / 2) * width
        ax.bar(
            place,
            rows["mean"],
            width,
            label=_wrapped(run),
            color=COLOURS[number % 8],
            hatch=HATCHES[number % 8],
            edgecolor="white",
            yerr=_errors(rows),
            error_kw=_ERROR_BAR,
        )
    ax.set_xticks(np.arange(len(chosen)), labels)
    scale = _scale(table, chosen[0])
    _unit_scale(ax, scale)
    ax.set_ylabel("mean with 95 % interval" + (f" ({scale})" if scale not in ("0 to 1", "any") else ""))
    _legend(ax)
    return ax


def slices(scores: pd.DataFrame, golden: Golden, metric: str, *, by: str, limit: int = MAX_SLICES, ax: "Axes | None" = None) -> "Axes":
    """One metric by a column or tag of the golden set, a point with its 95 % interval per run and slice.

    Parameters
    ----------
    limit
        At most so many slices are drawn, those with the most queries; the title says how many there are.

    Raises
    ------
    DataError
        Not a scores frame, or nothing to draw: no query of any slice has a value.
    """
    _check_scores(scores)
    table = summarize(scores, golden, by=by, metrics=[metric])
    table = table[table["n"] > 0]
    if not len(table):
        raise DataError(f"no query has a value of {metric}", field="metric", allowed="a metric with n > 0 in rs.summarize(scores)")
    sizes = table.groupby(table[by].astype("str"), sort=False)["n"].max()
    kept = set(sizes.sort_values(ascending=False, kind="stable").index[:limit])
    names = [name for name in sizes.index if name in kept]
    runs = _numbered_runs(table)
    ax = _axes(ax, width=6.5, height=max(2.5, max(0.25, 0.15 * len(runs) + 0.05) * len(names) + 1.2))
    if len(names) < len(sizes):
        ax.set_title(f"the {len(names)} largest of {len(sizes)} slices", fontsize=10)
    step = 0.7 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = table[table["run_id"] == run].assign(name=lambda t: t[by].astype("str")).set_index("name").reindex(names)
        place = np.arange(len(names)) + (side - (len(runs) - 1) / 2) * step
        ax.errorbar(
            rows["mean"],
            place,
            xerr=_errors(rows),
            fmt=MARKERS[number % 8],
            color=COLOURS[number % 8],
            label=_wrapped(run),
            capsize=2,
            markersize=5,
            linewidth=1,
        )
    ax.set_yticks(np.arange(len(names)), [_wrapped(f"{name} (n = {_n_text(table, by, name)})", 34) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set_xlabel(f"{metric}, mean with 95 % interval")
    ax.set_ylabel(by)
    if describe(metric).range == "0 to 1":
        ax.set_xlim(0, 1)
    ax.grid(axis="x", alpha=0.3)
    _legend(ax)
    return ax


def compare(cmp: Comparison, *, ax: "Axes | None" = None) -> "Axes":
    """First-hit rank of every query in run a and run b, joined by a line; thicker where more queries share it.

    The lowest place is "miss". Only queries with a target and a row in both runs are drawn.
    """
    rows = cmp.per_query[cmp.per_query["outcome"].isin(["win", "loss", "regression", "draw", "both_miss"])]
    miss = int(max(rows[["rank_a", "rank_b"]].max().max(), 1)) + 1 if rows[["rank_a", "rank_b"]].notna().any().any() else 2
    lines = rows.assign(a=rows["rank_a"].fillna(miss), b=rows["rank_b"].fillna(miss), kind=rows["outcome"].replace("both_miss", "draw"))
    counts = lines.groupby(["kind", "a", "b"]).size()
    ax = _axes(ax, width=5.0, height=5.0)
    for kind in ("draw", "win", "loss", "regression"):
        drawn = counts[counts.index.get_level_values("kind") == kind]
        places = drawn.index.to_frame()
        for a, b, n in zip(places["a"], places["b"], drawn, strict=True):
            ax.plot([0, 1], [a, b], color=OUTCOME_COLOURS[kind], linewidth=0.8 + 0.9 * np.sqrt(n), alpha=0.8, solid_capstyle="round", linestyle=_LINES[kind])
        if len(drawn):
            ax.plot(
                [], [], color=OUTCOME_COLOURS[kind], linewidth=2.5, linestyle=_LINES[kind], label=f"{kind if kind != 'draw' else 'same'} ({int(drawn.sum())})"
            )
    ticks = [1, *range(5, miss, 5)]
    ax.set_yticks([*ticks, miss], [*map(str, ticks), "miss"])
    ax.set_ylim(miss + 0.5, 0.5)
    ax.set_xlim(-0.05, 1.05)
    ax.set_xticks([0, 1], [_wrapped(f"a: {cmp.baseline}", 20), _wrapped(f"b: {cmp.candidate}", 20)])
    ax.set_ylabel("rank of the first hit")
    ax.set_title(f"{len(rows)} queries, matched by {cmp.level.name.replace('_', ' ')}", fontsize=10)
    _legend(ax)
    return ax


def trend(scores: pd.DataFrame, metric: str, *, ax: "Axes | None" = None) -> "Axes":
    """One metric over runs in order of `created_at`, one line per system, with 95 % intervals.

    Parameters
    ----------
    scores
        From `store.scores()`, which knows `created_at` and `system`.

    Raises
    ------
    DataError
        The scores have no `created_at`.
    """
    if "created_at" not in scores:
        raise DataError("no column created_at", field="scores", allowed="store.scores(), or scores.assign(created_at=...)")
    about = scores.groupby("run_id", observed=True)[[name for name in ("created_at", "system") if name in scores]].first()
    table = summarize(scores, metrics=[metric]).join(about, on="run_id").dropna(subset=["created_at"]).sort_values("created_at", kind="stable")
    table["system"] = table["system"].fillna("run") if "system" in table else "run"
    times = pd.to_datetime(table["created_at"]).dt.strftime("%Y-%m-%d %H:%M")
    labels = [f"{_wrapped(str(run), 24)}\n{time}" for run, time in zip(table["run_id"], times, strict=True)]
    # A slanted line of 8 points takes 0.28 inches of the axis, an upright one half of that.
    lines = max((label.count("\n") + 1 for label in labels), default=1)
    slanted = 0.28 * lines * len(table) <= 6
    ax = _axes(ax, width=7.0 if slanted else max(7.0, 0.15 * lines * len(table) + 2), height=3.6 if slanted else 4.4)
    # Runs minutes apart and runs months apart are both read in order: one place per run, its time below.
    place = pd.Series(np.arange(len(table)), index=table["run_id"].astype("str"))
    for number, (system, rows) in enumerate(table.groupby("system", sort=False)):
        x = place[rows["run_id"].astype("str")].to_numpy()
        ax.errorbar(
            x, rows["mean"], yerr=_errors(rows), marker=MARKERS[number % 8], color=COLOURS[number % 8], label=_wrapped(str(system)), capsize=3, linewidth=1.2
        )
    ax.set_xticks(np.arange(len(table)), labels, rotation=30 if slanted else 90, ha="right" if slanted else "center", fontsize=8)
    ax.set_ylabel(f"{metric}, mean with 95 % interval")
    ax.set_title(f"n = {_n_text(table, 'metric', metric)} queries a run", fontsize=10)
    _unit_scale(ax, _scale(table, metric))
    _legend(ax)
    return ax


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
    _check_scores(scores)
    table = summarize(scores, metrics=[metric, against])
    rows = {name: table[table["metric"] == name].set_index("run_id") for name in (metric, against)}
    both = (rows[metric]["n"] > 0) & (rows[against]["n"] > 0)
    if not both.any():
        raise DataError(f"no run has values of both {metric} and {against}", field="scores", allowed="runs with n > 0 for both in rs.summarize(scores)")
    y, x = (rows[name][both] for name in (metric, against))
    ax = _axes(ax, width=6.4)
    for run, number in _numbered_runs(y.reset_index()).items():
        place, height = x.loc[[run]], y.loc[[run]]
        ax.errorbar(
            place["mean"], height["mean"], xerr=_errors(place), yerr=_errors(height), fmt=MARKERS[number % 8], color=COLOURS[number % 8],
            label=_wrapped(f"{run} (n = {height['n'].iloc[0]})"), capsize=2, markersize=7, linewidth=1,
        )  # fmt: skip
    ax.set_xlabel(f"{against}, mean with 95 % interval ({describe(against).better} is better)")
    ax.set_ylabel(f"{metric}, mean with 95 % interval")
    ax.set_xlim(left=0)
    _unit_scale(ax, _scale(table, metric))
    _legend(ax)
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
    ax = _axes(ax)
    for run, number in _numbered_runs(rows).items():
        own = rows[rows["run_id"] == run]
        spread = own.groupby("rank")["score"].quantile(np.array([0.25, 0.5, 0.75])).unstack()
        ax.plot(spread.index, spread[0.5], marker=MARKERS[number % 8], color=COLOURS[number % 8], label=_wrapped(f"{run} (n = {own['query_id'].nunique()})"))
        ax.fill_between(spread.index, spread[0.25], spread[0.75], color=COLOURS[number % 8], alpha=0.15, linewidth=0)
    ax.set_xlabel("rank")
    ax.set_ylabel(f"{chosen}: median and middle half of the queries")
    ax.grid(axis="y", alpha=0.3)
    _legend(ax)
    return ax


_ERROR_BAR = {"capsize": 2, "linewidth": 1, "ecolor": "#333333"}
_LINES = {"draw": "-", "win": "-", "loss": "--", "regression": ":"}


def _axes(ax: "Axes | None", width: float = 6.4, height: float = 4.0) -> "Axes":
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _legend(ax: "Axes") -> None:
    """Beside the data, never over it."""
    if len(ax.get_legend_handles_labels()[0]):
        ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1), frameon=False, fontsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _unit_scale(ax: "Axes", scale: str) -> None:
    if scale != "any":
        ax.set_ylim(0, 1 if scale == "0 to 1" else None)
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)


def _errors(rows: pd.DataFrame) -> Any:
    """Lengths of the error bars below and above the mean; 0 where there is no interval."""
    lengths = np.vstack([rows["mean"] - rows["low"], rows["high"] - rows["mean"]]).astype("float64")
    return np.nan_to_num(np.maximum(lengths, 0))


def _wrapped(text: str, width: int = 28) -> str:
    """Text on several lines of at most `width` characters; names may break after an underscore too."""
    return "\n".join(wrap(text.replace("_", "_ "), width)).replace("_ ", "_") if len(text) > width else text


def _scale(summary: pd.DataFrame, metric: str) -> str:
    """A metric's range; a column of your own whose values are within 0 to 1 has that one."""
    declared = describe(metric).range
    values = summary.loc[summary["metric"] == metric, ["min", "max"]]
    return "0 to 1" if declared == "any" and values["min"].min() >= 0 and values["max"].max() <= 1 else declared


def _check_scales(table: pd.DataFrame, metrics: list[str]) -> None:
    scales = {name: _scale(table, name) for name in metrics}
    usual = "0 to 1" if "0 to 1" in scales.values() else scales[metrics[0]]
    other = [f"{name} ({scale})" for name, scale in scales.items() if scale != usual]
    if other:
        raise DataError(f"{', '.join(other)} beside metrics of scale {usual}", field="metrics", allowed="metrics of one scale a figure")


def _check_summary(summary: pd.DataFrame) -> None:
    """Only the frame of `rs.summarize` without slices has one bar per run and metric."""
    if not {"run_id", "metric", "mean", "low", "high", "n", "min", "max"} <= set(summary.columns):
        what = "a scores frame" if "state" in summary.columns else f"a frame with the columns {', '.join(map(str, summary.columns))}"
        raise DataError(f"found {what}", field="summary", allowed="rs.summarize(scores)")
    if summary.duplicated(["run_id", "metric"]).any():
        by = summary.columns[1]
        raise DataError(
            f"several rows for a run and metric, sliced by {by}",
            field="summary",
            allowed=f"rs.summarize(scores), or rs.plot.slices(scores, golden, metric, by={by!r})",
        )
    if not summary["n"].any():
        raise DataError("no metric has a value", field="summary", allowed="a summary with n > 0")


def _check_scores(scores: pd.DataFrame) -> None:
    if not {"run_id", "state", "level"} <= set(scores.columns):
        what = "a summary" if "metric" in scores.columns else f"a frame with the columns {', '.join(map(str, scores.columns))}"
        raise DataError(f"found {what}", field="scores", allowed="the frame of rs.score")


def _rows_of(summary: pd.DataFrame, metrics: list[str]) -> pd.DataFrame:
    missing = [name for name in metrics if name not in set(summary["metric"])]
    if missing:
        raise DataError(f"no metric {', '.join(missing)} in the summary", field="metrics", allowed=f"it has {', '.join(summary['metric'].unique())}")
    return summary[summary["metric"].isin(metrics)]


def _numbered_runs(table: pd.DataFrame) -> dict[str, int]:
    """The runs drawn and their place among all runs of the scores: a run keeps its colour in every figure made from them."""
    column = table["run_id"]
    present = set(column.astype("str"))
    order = column.cat.categories.astype("str") if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("str").unique()
    return {run: number for number, run in enumerate(order) if run in present}


def _n_text(table: pd.DataFrame, column: str, value: str) -> str:
    n = table.loc[table[column].astype("str") == value, "n"]
    return str(n.min()) if n.min() == n.max() else f"{n.min()}–{n.max()}"
