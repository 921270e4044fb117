"""Tables as pictures: slices by run, answerable × refused, transitions between classes."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from ragscore.analysis import titles
from ragscore.analysis.failure_causes import Failures, turns
from ragscore.analysis.titles import ERRORS, FEW, n_text
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.escaping import visible
from ragscore.frames.render import shown_number
from ragscore.frames.tables import SIGNS
from ragscore.plot.layout import (
    BESIDE,
    SMALLEST,
    finish,
    is_new,
    new_axes,
    room_of,
    rows_that_fit,
    widths,
)
from ragscore.plot.lettering import LONGEST, lettered
from ragscore.plot.names import name_runs, shown
from ragscore.plot.style import (
    MAX_SLICES,
    ROW,
    TALLEST,
    check_columns,
    label_of,
    run_styles,
    sliced,
)
from ragscore.plot.theme import inks, sizes
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.summary import Slicing

MEANS_MAP = "cividis"  # light and dark alike to colour-blind readers and in grey
# decision -> column of its cells, and of which queries it is a share
_COLUMNS = {
    "answered": (0.0, "answerable"),
    "over-refusal": (1.0, "answerable"),
    "right refusal": (2.15, "to refuse"),
    "unsupported answer": (3.15, "to refuse"),
}
_GOOD, _BAD, _PLAIN = "#8FCDB6", "#EDB08E", "#CCCCCC"


@lettered
def heatmap(
    table: pd.DataFrame,
    metric: str | None = None,
    by: Slicing | None = None,
    *,
    golden: Golden | None = None,
    limit: int = MAX_SLICES,
    order: list[str] | None = None,
    declared: Declarations = NOTHING_DECLARED,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw one metric by slice and run: a cell per mean, and the number of queries by the slice.

    Cells of fewer than ten queries are framed, and their slices marked with a star; cells without a
    value are hatched. Of runs and slices, the more numerous stand below each other. Numbers are
    left out where cells are too small for them.

    Parameters
    ----------
    table, metric, by, golden, declared
        As for `plot.slices`.
    limit
        At most so many slices are drawn, those with the most queries; the label says how many there
        are.
    order
        Slices that come first. By default words of a scale stand in its order (easy, medium, hard).

    Raises
    ------
    DataError
        Not a sliced summary or scores, no such metric or slice, or no slice has a value.
    """
    rows, metric, n_of, axis, finding = sliced(
        table, metric, by, golden, declared, rows_that_fit(ax, limit), order
    )
    rows, runs = rows.assign(run=rows["run_id"].astype("str")), list(run_styles(rows))
    means, n = (
        rows.pivot(index="slice", columns="run", values=column)
        .reindex(index=list(n_of), columns=runs)
        for column in ("mean", "n")
    )  # fmt: skip
    is_few = (n.fillna(0) < FEW) & means.notna()
    few = set(rows.loc[rows["n"] < FEW, "slice"])
    labels = [
        f"{label_of(name, LONGEST - 40)}{'*' * (name in few)} ({n})" for name, n in n_of.items()
    ]
    is_turned = len(runs) > len(labels)  # more runs than slices: a row per run
    if is_turned:
        means, is_few = means.T, is_few.T
    below, beside = (labels, runs) if is_turned else (runs, labels)
    high = min(0.36 * len(means), max(TALLEST, ROW * len(means)))
    ax = new_axes(ax, width=max(5.2, min(0.75 * len(below) + 2.6, 9.0)), height=high + 1.6)
    values = means.to_numpy("float64")
    is_unit = declared.describe(metric).is_unit
    low, high = (0.0, 1.0) if is_unit else (float(np.nanmin(values)), float(np.nanmax(values)))
    image = ax.imshow(
        np.ma.masked_invalid(values), cmap=MEANS_MAP, vmin=low,
        vmax=high if high > low else low + 1, aspect="auto",
    )  # fmt: skip
    _name_cells(ax, below, beside)
    colours = np.asarray(image.cmap(np.asarray(image.norm(np.nan_to_num(values)))))[..., :3]
    _framed(ax, np.isnan(values), hatch="////", edgecolor=inks().grid, linewidth=0)
    _framed(ax, is_few.to_numpy("bool"), edgecolor=inks().ground, linestyle=":", linewidth=1.4)
    texts = [["" if np.isnan(value) else shown_number(float(value), 2) for value in line]
             for line in values]  # fmt: skip
    is_told = _in_cells(ax, texts, colours, beside)
    ends = f"; dark {shown_number(low, 2)}, light {shown_number(high, 2)}" * (not is_told)
    notes = [
        f"{metric}, mean{ends}",
        f"framed, *: fewer than {FEW} queries" * bool(is_few.to_numpy().any()),
        "hatched: no value" * bool(np.isnan(values).any()),
    ]
    below, beside = ([axis, *notes], []) if is_turned else (notes, [axis])
    ax.set(xlabel="; ".join(filter(None, below)), ylabel="".join(beside))
    return finish(ax, finding, None, False)


@lettered
def refusal_matrix(
    table: pd.DataFrame, *, question: None = None, ax: "Axes | None" = None
) -> "Axes":
    """Draw how often every run answers and refuses, for queries to answer and to refuse.

    One row per run. A cell has the number of queries and their share, with its 95 % interval; its
    bar is as long as the share. Errors (over-refusals, unsupported answers) are hatched.

    Parameters
    ----------
    table
        `Refusals.table`.
    question
        What is decided (`ev.question`): the title says what its tests found of both errors.

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
    runs = list(run_styles(table))
    rows = table.assign(
        place=table["run_id"].astype("str").map(runs.index),
        decision=table["decision"].astype("str"),
    )
    rows = rows[rows["decision"].isin(list(_COLUMNS)).to_numpy()]
    ax = new_axes(ax, width=7.4, height=0.4 * len(runs) + 1.9)
    # Count, share and interval stand in one line where cells are wide, else in three where they are
    # high; where they are neither, the interval is left out, and then the count.
    wide, high = _cell_points(ax, 4.3, runs)
    size = max(min(sizes()["note"], high / 1.3), SMALLEST)
    are_counted = rows.groupby("decision")["n_total"].transform("nunique").gt(1)
    texts = [_cell_texts(*row) for row in zip(rows.to_dict("records"), are_counted, strict=True)]
    room, longest = wide / (0.56 * size), max(len(one[0]) for one in texts)  # letters
    form = 0 if room >= longest else 1 if high >= 4 * size else 2 if room >= longest - 9 else 3
    for name, (start, _) in _COLUMNS.items():
        own, is_wrong = rows[rows["decision"].eq(name).to_numpy()], name in ERRORS
        bars: dict[str, Any] = {"left": start, "height": 0.9, "linewidth": 0}
        ax.barh(own["place"], 0.97, color="#F4F4F4", gid="ground", **bars)
        ax.barh(
            own["place"], 0.97 * own["share"].fillna(0), color=_BAD if is_wrong else _GOOD,
            hatch="//" if is_wrong else "", edgecolor="#F4F4F4", gid=name, **bars,
        )  # fmt: skip
    for place, name, text in zip(rows["place"], rows["decision"], texts, strict=True):
        ax.text(
            _COLUMNS[name][0] + 0.485, place, text[form], ha="center", va="center", fontsize=size,
            color="#222222", bbox={"facecolor": "#F4F4F4", "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip
    ax.set(xlim=(-0.02, 4.17), ylim=(len(runs) - 0.5, -0.5))
    ax.set_yticks(np.arange(len(runs)), [label_of(run) for run in runs])
    ax.set_xticks(
        [left + 0.5 for left, _ in _COLUMNS.values()],
        [name.replace(" ", "\n").replace("-", "-\n") for name in _COLUMNS],
        fontsize=max(min(sizes()["tick"], wide / (0.6 * len("unsupported"))), SMALLEST),
    )
    kinds = rows["decision"].map({name: kind for name, (_, kind) in _COLUMNS.items()})
    n_of = rows.groupby(kinds)["n_total"].agg(n_text)
    right, left = (f"{n_of.get(kind, 'none')} {kind}" for kind in ("to refuse", "answerable"))
    ax.set_xlabel(
        f"left: of {left} queries, right: of {right}; share"
        f"{' with 95 % interval' if form < 2 else ''}; hatched: errors"
    )
    _bare(ax)
    return finish(ax, titles.of_refusals(rows, question), None, False)


def _cell_texts(row: dict[Any, Any], is_counted: bool) -> tuple[str, str, str, str]:
    """Return what a cell says: all in a line, or in three; without the interval; its share."""
    if np.isnan(row["share"]):
        return "no query", "no query", "no query", "–"
    count = f"{row['n']}" + f" of {row['n_total']}" * bool(is_counted)
    share, low, high = (f"{100 * row[name]:.0f}" for name in ("share", "low", "high"))
    share, interval = f"{share} %", f"({low}–{high})"
    return (
        f"{count}: {share} {interval}", f"{count}\n{share}\n{interval}", f"{count}: {share}", share,
    )  # fmt: skip


@lettered
def failure_transitions(
    table: pd.DataFrame | Failures,
    baseline: str | None = None,
    candidate: str | None = None,
    *,
    ax: "Axes | None" = None,
) -> "Axes":
    """Draw the number of queries that went from each class to each other between two runs.

    ▲ marks queries that became right, ▼ those that became wrong. Framed cells on the diagonal hold
    queries that stayed in their class. Cells without queries are blank.

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
    name_runs([baseline or "", candidate or ""])
    names, to = [str(name) for name in table.index], [str(name) for name in table.columns]
    kinds = turns(table)
    # colours by the root: one large cell doesn't hide the others
    depth = np.where(counts > 0, 0.3 + 0.7 * np.sqrt(counts / counts.max()), 0)[..., None]
    ground, tints = np.array(to_rgb(inks().ground)), np.array([*map(to_rgb, (_PLAIN, _GOOD, _BAD))])
    colours = ground + depth * (tints[kinds] - ground)
    ax.imshow(colours, aspect="auto")
    signs = ["", f" {SIGNS['better']}", f" {SIGNS['worse']}"]
    texts = [
        [f"{n:.0f}{signs[kind]}" if n else "" for n, kind in zip(line, own, strict=True)]
        for line, own in zip(counts, kinds, strict=True)
    ]
    _framed(ax, np.eye(size), edgecolor=inks().ink, linewidth=1.2)
    _name_cells(ax, to, names)
    _in_cells(ax, texts, colours, names)
    ax.set(xlabel=f"{candidate or 'candidate'}; framed: as before", ylabel=baseline or "baseline")
    better, worse, n = (int(one.sum()) for one in (counts[kinds == 1], counts[kinds == -1], counts))
    against = f"{candidate or 'candidate'} against {baseline or 'baseline'}"
    finding = f"{against}: {better} became right ▲, {worse} wrong ▼ (n = {n})"
    return finish(ax, finding, None, False)


def _in_cells(ax: "Axes", texts: list[list[str]], colours: Any, beside: list[str]) -> bool:
    """Write numbers into the cells, as large as these allow; False: they are too small for any."""
    wide, high = _cell_points(ax, len(texts[0]), beside)
    longest = max((len(text) for line in texts for text in line), default=1)
    size = min(sizes()["tick"], high / 1.25, wide / (0.62 * max(longest, 1)))
    for (row, column), text in np.ndenumerate(np.array(texts, dtype=object)):
        if text and size >= SMALLEST:
            is_dark = colours[row, column][:3] @ [0.21, 0.72, 0.07] < 0.46
            colour = "white" if is_dark else "black"
            ax.text(column, row, text, ha="center", va="center", fontsize=size, color=colour)
    return size >= SMALLEST


def _cell_points(ax: "Axes", columns: float, beside: list[str]) -> tuple[float, float]:
    """Return width and height in points that a cell will have beside these names."""
    points = 72 / ax.figure.get_figure(root=True).dpi
    left, _, right, _ = room_of(ax)
    longest = max(widths(ax, [visible(shown(name)) for name in beside], sizes()["tick"]))
    wide = (right - left) - min(longest, BESIDE * (right - left)) - 24 / points
    high = ax.get_window_extent().height * (0.95 if is_new(ax) else 0.62)
    return wide * points / columns, high * points / max(len(beside), 1)


def _framed(ax: "Axes", is_marked: Any, **how: Any) -> None:
    """Draw a frame or a hatch in each of the marked cells."""
    for row, column in np.argwhere(is_marked):
        ax.add_patch(Rectangle((column - 0.47, row - 0.47), 0.94, 0.94, fill=False, **how))


def _name_cells(ax: "Axes", below: list[str], beside: list[str]) -> None:
    """Name columns and rows."""
    ax.set_xticks(np.arange(len(below)), [label_of(name) for name in below])
    ax.set_yticks(np.arange(len(beside)), [label_of(name) for name in beside])
    _bare(ax)


def _bare(ax: "Axes") -> None:
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
