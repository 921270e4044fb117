"""Tables as pictures: slices by run, answerable × refused, transitions between classes."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.analysis.failure_causes import Failures
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.render import shown_number
from ragscore.plot.lettering import LONGEST, lettered
from ragscore.plot.style import (
    MAX_SLICES,
    check_columns,
    new_axes,
    numbered_runs,
    sliced_rows,
    wrapped,
)
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import Slicing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# light and dark alike to colour-blind readers and in grey; a cell without queries is white
MEANS_MAP, COUNTS_MAP = "cividis", "Blues"
FEW = 10  # queries below which a slice says little
# decision -> row and column of its cell: answerable or not, answered or refused
_CELLS = {
    "answered": (0, 0),
    "over-refusal": (0, 1),
    "unsupported answer": (1, 0),
    "right refusal": (1, 1),
}
_GOOD, _BAD = "#CFE8DC", "#F5D6C6"


@lettered
def heatmap(
    table: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    golden: Golden | None = None,
    limit: int = MAX_SLICES,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric by slice and run: a cell per mean, and n beside the slice.

    Parameters
    ----------
    table, metric, by, golden
        As for `plot.slices`.
    limit
        At most so many slices are drawn, those with the most queries; the title says how many there
        are.

    Raises
    ------
    DataError
        Not a sliced summary or scores, no such metric, or no slice has a value.
    """
    rows, metric, name_of_slices = sliced_rows(table, metric, by, golden)
    runs = list(numbered_runs(rows))
    rows = rows.assign(run=rows["run_id"].astype("str"))
    sizes = rows.groupby("slice", sort=False)["n"].agg(["min", "max"])
    largest = np.sort((-sizes["max"].to_numpy()).argsort(kind="stable")[:limit])
    kept = sizes.index[largest]
    means = rows.pivot(index="slice", columns="run", values="mean").reindex(
        index=kept, columns=runs
    )
    is_unit = describe(metric).range == "0 to 1"
    labels = [
        _slice_label(name, *n)
        for name, n in zip(kept, sizes.loc[kept].itertuples(index=False), strict=True)
    ]
    lines = max(label.count("\n") + 1 for label in labels)
    ax = new_axes(
        ax, width=1.15 * len(runs) + 3.6, height=max(0.34, 0.16 * lines + 0.06) * len(means) + 1.5
    )
    image = _grid(ax, means.to_numpy("float64"), (0, 1) if is_unit else None, MEANS_MAP)
    _in_cells(
        ax,
        means.to_numpy("float64"),
        [[shown_number(float(value), 2) for value in line] for line in means.to_numpy()],
        image,
    )
    ax.set_xticks(np.arange(len(runs)), [wrapped(run, 14) for run in runs], fontsize=9)
    ax.set_yticks(np.arange(len(means)), labels, fontsize=9)
    ax.set_ylabel(name_of_slices)
    notes = [f"the {len(kept)} largest of {len(sizes)} slices"] * (len(kept) < len(sizes)) + [
        f"*: fewer than {FEW} queries"
    ] * bool((sizes["max"][kept] < FEW).any())
    ax.set_title("\n".join([f"{metric}, mean", *notes]), fontsize=10)
    return ax


def _slice_label(name: str, low: int, high: int) -> str:
    name = name if len(name) < LONGEST - 40 else name[: LONGEST - 40] + "…"
    return wrapped(
        f"{name}{'*' if high < FEW else ''} (n = {low if low == high else f'{low}–{high}'})", 34
    )


@lettered
def refusal_matrix(table: pd.DataFrame, *, ax: "Axes | None" = None) -> "Axes":
    """Draw the 2 × 2 of answerable × refused of every run.

    Cells show the number of queries and their share of the row, with its 95 % interval. Errors
    (over-refusals, unsupported answers) are hatched.

    Parameters
    ----------
    table
        `Refusals.table`.

    Raises
    ------
    DataError
        Not that frame.
    """
    check_columns(
        table,
        {"run_id", "decision", "n", "n_total", "share", "low", "high"},
        "table",
        "ev.refusals().table",
    )
    runs = numbered_runs(table)
    ax = new_axes(ax, width=3.1 * len(runs) + 1.6, height=2.7)
    for place, run in enumerate(runs):
        for row in table[(table["run_id"].astype("str") == run).to_numpy()].to_dict("records"):
            if row["decision"] in _CELLS:
                _cell(ax, place, row)
    lefts = np.arange(len(runs)) * 2.4
    ax.set_xlim(-0.6, lefts[-1] + 1.6 if len(runs) else 1)
    ax.set_ylim(1.55, -0.55)
    ax.set_xticks(
        np.concatenate([[left, left + 1] for left in lefts]),
        ["answered", "refused"] * len(runs),
        fontsize=9,
    )
    ax.set_yticks([0, 1], ["answerable", "should be\nrefused"])
    for left, run in zip(lefts, runs, strict=True):
        ax.text(left + 0.5, -0.62, wrapped(run, 26), ha="center", va="bottom", fontsize=10)
    _bare(ax)
    return ax


def _cell(ax: "Axes", place: int, row: dict[Any, Any]) -> None:
    """Draw one cell; errors are hatched."""
    down, right = _CELLS[row["decision"]]
    x, is_wrong = place * 2.4 + right, down != right
    ax.bar(
        x,
        0.96,
        width=0.96,
        bottom=down - 0.48,
        color=_BAD if is_wrong else _GOOD,
        hatch="//" if is_wrong else "",
        edgecolor="white",
        linewidth=0,
    )
    share = (
        "no such query"
        if np.isnan(row["share"])
        else f"{100 * row['share']:.0f} % ({100 * row['low']:.0f}–{100 * row['high']:.0f})"
    )
    box = {"facecolor": _BAD if is_wrong else _GOOD, "edgecolor": "none", "pad": 1.5}
    ax.text(
        x,
        down,
        f"{row['decision']}\n{row['n']} of {row['n_total']}\n{share}",
        ha="center",
        va="center",
        fontsize=8.5,
        bbox=box,
    )


@lettered
def failure_transitions(
    table: pd.DataFrame | Failures,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the number of queries that went from each class to each other between two runs.

    Framed cells on the diagonal hold queries that stayed in their class.

    Parameters
    ----------
    table
        From `Failures.transitions`: one row per cause in the baseline, one column per cause in the
        candidate. Or the `Failures` themselves, with two runs.
    baseline, candidate
        The runs; for `Failures` they are needed, for a frame they are names beside the axes.

    Raises
    ------
    DataError
        Not that frame, or one without queries.
    """
    source = "ev.failures().transitions(baseline, candidate)"
    if isinstance(table, Failures):
        if baseline is None or candidate is None:
            raise DataError("found no two runs", field="baseline, candidate", allowed=source)
        table = table.transitions(baseline, candidate)
    check_type(table, pd.DataFrame, "table", source)
    check_columns(table, set(table.index), "table", source)
    counts = table.to_numpy("float64")
    if not counts.sum():
        raise DataError("no query in it", field="table", allowed=source)
    size = len(table)
    ax = new_axes(ax, width=0.75 * size + 2.6, height=0.5 * size + 2.0)
    # colours by the root: one large cell doesn't hide the others
    image = _grid(ax, np.sqrt(counts), None, COUNTS_MAP)
    _in_cells(
        ax, np.sqrt(counts), [[f"{n:.0f}" if n else "" for n in line] for line in counts], image
    )
    for place in range(size):
        ax.bar(
            place,
            0.94,
            width=0.94,
            bottom=place - 0.47,
            fill=False,
            edgecolor="black",
            linewidth=1.6,
        )
    ax.set_xticks(
        np.arange(size),
        [wrapped(str(name), 20) for name in table.columns],
        rotation=35,
        ha="right",
        rotation_mode="anchor",
        fontsize=9,
    )
    ax.set_yticks(np.arange(size), [wrapped(str(name), 24) for name in table.index], fontsize=9)
    ax.set_xlabel("candidate" if candidate is None else f"candidate: {candidate}")
    ax.set_ylabel("baseline" if baseline is None else f"baseline: {baseline}")
    ax.set_title(f"{int(counts.sum())} queries", fontsize=10)
    return ax


def _grid(ax: "Axes", values: Any, limits: tuple[float, float] | None, colours: str) -> Any:
    low, high = limits or (np.nanmin(values), np.nanmax(values))
    image = ax.imshow(
        np.ma.masked_invalid(values),
        cmap=colours,
        vmin=low,
        vmax=high if high > low else low + 1,
        aspect="auto",
    )
    _bare(ax)
    return image


def _in_cells(ax: "Axes", values: Any, texts: list[list[str]], image: Any) -> None:
    """Write numbers into the cells, dark on light and light on dark."""
    light = image.cmap(image.norm(values))[..., :3] @ np.array([0.299, 0.587, 0.114]) > 0.5
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            ax.text(
                column,
                row,
                text,
                ha="center",
                va="center",
                fontsize=9,
                color="black" if light[row, column] or np.isnan(values[row, column]) else "white",
            )


def _bare(ax: "Axes") -> None:
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
