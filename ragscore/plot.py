"""Pictures: a frame in, matplotlib Axes out. Each draws one idea, says n, and computes nothing a table couldn't give."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.compare import Comparison
from ragscore.frames import DataError, Golden
from ragscore.metrics import describe
from ragscore.summary import summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe & Ito's colours: told apart by colour-blind readers, and in grey together with the hatches and markers.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo", "--")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
OUTCOME_COLOURS = {"win": "#009E73", "loss": "#E69F00", "regression": "#D55E00", "draw": "#BBBBBB"}


def bars(summary: pd.DataFrame, metrics: list[str] | None = None, *, ax: "Axes | None" = None) -> "Axes":
    """Metric bars of one or several runs, with their 95 % intervals.

    Parameters
    ----------
    summary
        From `rs.summarize` (not sliced).
    metrics
        Which, in this order; by default those of the summary whose scale is 0 to 1, at most eight.
    """
    chosen = metrics or [name for name in summary["metric"].unique() if describe(name).range == "0 to 1"][:8]
    table = _rows_of(summary, chosen)
    runs = _numbered_runs(table)
    ax = _axes(ax, width=max(6.0, 0.32 * len(chosen) * len(runs) + 2.5))
    width = 0.8 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = table[table["run_id"] == run].set_index("metric").reindex(chosen)
        place = np.arange(len(chosen)) + (side - (len(runs) - 1) / 2) * width
        ax.bar(
            place,
            rows["mean"],
            width,
            label=run,
            color=COLOURS[number % 8],
            hatch=HATCHES[number % 8],
            edgecolor="white",
            yerr=_errors(rows),
            error_kw=_ERROR_BAR,
        )
    ax.set_xticks(np.arange(len(chosen)), [f"{name}\nn = {_n_text(table, 'metric', name)}" for name in chosen])
    _unit_scale(ax, chosen)
    ax.set_ylabel("mean with 95 % interval")
    _legend(ax)
    return ax


def slices(scores: pd.DataFrame, golden: Golden, metric: str, *, by: str, ax: "Axes | None" = None) -> "Axes":
    """One metric by a column or tag of the golden set, a point with its 95 % interval per run and slice."""
    table = summarize(scores, golden, by=by, metrics=[metric])
    table = table[table["n"] > 0]
    names = list(dict.fromkeys(table[by].astype("str")))
    runs = _numbered_runs(table)
    ax = _axes(ax, width=6.5, height=max(2.5, 0.2 * len(names) * len(runs) + 1.2))
    step = 0.7 / len(runs)
    for side, (run, number) in enumerate(runs.items()):
        rows = table[table["run_id"] == run].assign(name=lambda t: t[by].astype("str")).set_index("name").reindex(names)
        place = np.arange(len(names)) + (side - (len(runs) - 1) / 2) * step
        ax.errorbar(
            rows["mean"], place, xerr=_errors(rows), fmt=MARKERS[number % 8], color=COLOURS[number % 8], label=run, capsize=2, markersize=5, linewidth=1
        )
    ax.set_yticks(np.arange(len(names)), [f"{name} (n = {_n_text(table, by, name)})" for name in names])
    ax.invert_yaxis()
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
    ax.set_xticks([0, 1], [f"a: {cmp.baseline}", f"b: {cmp.candidate}"])
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
    ax = _axes(ax, width=7.0, height=3.6)
    # Runs minutes apart and runs months apart are both read in order: one place per run, its time below.
    place = pd.Series(np.arange(len(table)), index=table["run_id"].astype("str"))
    for number, (system, rows) in enumerate(table.groupby("system", sort=False)):
        x = place[rows["run_id"].astype("str")].to_numpy()
        ax.errorbar(x, rows["mean"], yerr=_errors(rows), marker=MARKERS[number % 8], color=COLOURS[number % 8], label=system, capsize=3, linewidth=1.2)
    times = pd.to_datetime(table["created_at"]).dt.strftime("%Y-%m-%d %H:%M")
    ax.set_xticks(np.arange(len(table)), [f"{run}\n{time}" for run, time in zip(table["run_id"], times, strict=True)], rotation=30, ha="right", fontsize=8)
    ax.set_ylabel(f"{metric}, mean with 95 % interval")
    ax.set_title(f"n = {_n_text(table, 'metric', metric)} queries a run", fontsize=10)
    _unit_scale(ax, [metric])
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


def _unit_scale(ax: "Axes", metrics: list[str]) -> None:
    ax.set_ylim(0, 1 if all(describe(name).range == "0 to 1" for name in metrics) else None)
    ax.grid(axis="y", alpha=0.3)
    ax.set_axisbelow(True)


def _errors(rows: pd.DataFrame) -> Any:
    """Lengths of the error bars below and above the mean; 0 where there is no interval."""
    lengths = np.vstack([rows["mean"] - rows["low"], rows["high"] - rows["mean"]]).astype("float64")
    return np.nan_to_num(np.maximum(lengths, 0))


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
