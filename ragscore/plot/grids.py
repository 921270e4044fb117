"""Tables as pictures: slices by run, answerable × refused, transitions between classes."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ragscore.analysis.comparison.question import Question
from ragscore.analysis.failure_causes import REFUSED, Failures
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.render import shown_number
from ragscore.frames.tables import SIGNS
from ragscore.plot.layout import new_axes, quiet, title
from ragscore.plot.lettering import LONGEST, lettered
from ragscore.plot.runs import FEW, hardest, told_apart, told_slices
from ragscore.plot.style import (
    MAX_SLICES,
    check_columns,
    few_names,
    largest_slices,
    n_text,
    run_styles,
    sliced_rows,
    wrapped,
)
from ragscore.plot.theme import sizes
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.metrics.table import by_aspect
from ragscore.scoring.primary import REFUSALS
from ragscore.scoring.summary import Slicing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEANS_MAP = "cividis"  # light and dark alike to colour-blind readers and in grey
FADED = 0.35  # opacity of cells of few queries
# decision -> column of its cells, and of which queries it is a share
_COLUMNS = {
    "answered": (0.0, "answerable"),
    "over-refusal": (1.0, "answerable"),
    "right refusal": (2.15, "to refuse"),
    "unsupported answer": (3.15, "to refuse"),
}
_ERRORS = ("over-refusal", "unsupported answer")
_GOOD, _BAD, _PLAIN = "#8FCDB6", "#EDB08E", "#CCCCCC"
# causes of right and of wrong answers; others say neither
_RIGHT = ("right", "memory", "right refusal")
_WRONG = ("generation fault", "retrieval fault", *REFUSED, "unsupported answer")


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

    Cells of fewer than ten queries are faded, and their slices marked with a star. Of runs and
    slices, the more numerous stand below each other.

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
    rows, metric, name_of_slices = sliced_rows(table, metric, by, golden, declared)
    runs = list(run_styles(rows))
    rows = rows.assign(run=rows["run_id"].astype("str"))
    n_of = rows.groupby("slice", sort=False)["n"].agg(["min", "max"])
    names, cut = largest_slices(n_of["max"], limit, order)
    means, n = (
        rows.pivot(index="slice", columns="run", values=column).reindex(index=names, columns=runs)
        for column in ("mean", "n")
    )
    is_few = (n.fillna(0) < FEW) & means.notna()
    few, many = n_of["min"].to_dict(), n_of["max"].to_dict()
    labels = [
        wrapped(
            f"{name if len(name) < LONGEST - 40 else name[: LONGEST - 40] + '…'}"
            f"{'*' if few[name] < FEW else ''} ({n_text(pd.Series([few[name], many[name]]))})",
            26,
        )
        for name in names
    ]
    run_labels = [wrapped(run, 20) for run in runs]
    told = f"{name_of_slices} (queries){cut}"
    is_turned = len(runs) > len(names)  # more runs than slices: a row per run
    if is_turned:
        means, is_few = means.T, is_few.T
    below, beside = (labels, run_labels) if is_turned else (run_labels, labels)
    lines = max(label.count("\n") + 1 for label in beside)
    ax = new_axes(
        ax, width=max(5.2, 0.75 * len(below) + 2.6),
        height=max(0.34, 0.16 * lines + 0.08) * len(means) + 1.6,
    )  # fmt: skip
    values = means.to_numpy("float64")
    described = declared.describe(metric)
    is_unit = described.is_unit
    low, high = (0.0, 1.0) if is_unit else (float(np.nanmin(values)), float(np.nanmax(values)))
    opacity = np.where(is_few.to_numpy("bool"), FADED, 1.0)
    image = ax.imshow(
        np.ma.masked_invalid(values), cmap=MEANS_MAP, vmin=low,
        vmax=high if high > low else low + 1, aspect="auto", alpha=opacity,
    )  # fmt: skip
    colours = np.asarray(image.cmap(np.asarray(image.norm(np.nan_to_num(values)))))[..., :3]
    colours = colours * opacity[..., None] + 1 - opacity[..., None]
    colours[np.isnan(values)] = 1
    texts = [[shown_number(float(value), 2) for value in line] for line in values]
    _in_cells(ax, texts, colours)
    _name_cells(ax, below, beside)
    notes = f"{metric}, mean" + f"; faded, *: fewer than {FEW} queries" * bool(is_few.any().any())
    ax.set(xlabel=f"{told}; {notes}" if is_turned else notes, ylabel="" if is_turned else told)
    found = told_slices(table, golden, by, metric, declared)
    finding = hardest(found, metric, name_of_slices, len(runs))
    title(ax, finding if len(finding) <= LONGEST else finding[: LONGEST - 1] + "…")
    return ax


@lettered
def refusal_matrix(
    table: pd.DataFrame, *, question: Question | None = None, ax: "Axes | None" = None
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
    rows = table.assign(run=table["run_id"].astype("str"))
    rows = rows[rows["decision"].astype("str").isin(list(_COLUMNS)).to_numpy()]
    rows = rows.assign(decision=rows["decision"].astype("str"))
    is_new = ax is None
    ax = new_axes(ax, width=7.4, height=0.4 * len(runs) + 1.9)
    width, height = _inches(ax)
    # Count, share and interval stand in one line where cells are wide, else in three where they are
    # high; where they are neither, the interval is left out.
    is_wide = is_new or width / 5 > 1.15
    is_low = not is_wide and 72 * height / max(len(runs), 1) < 5 * sizes()["note"]
    totals = rows.groupby("decision")["n_total"].agg(["min", "max"])
    for row in rows.to_dict("records"):
        total = totals.loc[row["decision"]]
        _cell(ax, runs.index(row["run"]), row, total["min"] == total["max"], is_wide, is_low)
    ax.set(xlim=(-0.02, 4.17), ylim=(len(runs) - 0.5, -0.5))
    ax.set_yticks(np.arange(len(runs)), [wrapped(run, 20) for run in runs])
    ax.set_xticks(
        [left + 0.5 for left, _ in _COLUMNS.values()],
        [name.replace(" ", "\n").replace("-", "-\n") for name in _COLUMNS],
        fontsize=sizes()["tick"] if width > 3 else sizes()["note"] * 0.8,
    )
    heads = []
    for kind in ("answerable", "to refuse"):
        names = [name for name, (_, of) in _COLUMNS.items() if of == kind and name in totals.index]
        low, high = (totals.loc[names, "min"].min(), totals.loc[names, "max"].max())
        heads.append(f"{'none' if not names else low if low == high else f'{low}–{high}'} {kind}")
    ax.set_xlabel(
        f"left: of {heads[0]} queries, right: of {heads[1]}; share"
        f"{'' if is_low else ' with 95 % interval'}; hatched: errors"
    )
    title(ax, _errors(rows, runs, question))
    _bare(ax)
    return ax


def _cell(
    ax: "Axes", place: int, row: dict[Any, Any], is_said: bool, is_wide: bool, is_low: bool
) -> None:
    """Draw one cell with a bar of its share; errors are hatched."""
    left, _ = _COLUMNS[row["decision"]]
    is_wrong = row["decision"] in _ERRORS
    ax.barh(place, 0.97, left=left, height=0.9, color="#F4F4F4", linewidth=0, gid="ground")
    share = 0.0 if np.isnan(row["share"]) else float(row["share"])
    ax.barh(
        place, 0.97 * share, left=left, height=0.9, color=_BAD if is_wrong else _GOOD,
        hatch="//" if is_wrong else "", edgecolor="white", linewidth=0, gid=row["decision"],
    )  # fmt: skip
    count = f"{row['n']}" if is_said else f"{row['n']} of {row['n_total']}"
    share_text = f"{100 * row['share']:.0f} %"
    interval = f"({100 * row['low']:.0f}–{100 * row['high']:.0f})"
    if np.isnan(row["share"]):
        text = "no query"
    elif is_low:
        text = f"{count}: {share_text}"
    else:
        text = (
            f"{count}: {share_text} {interval}" if is_wide else f"{count}\n{share_text}\n{interval}"
        )
    ax.text(
        left + 0.485, place, text,
        ha="center", va="center", fontsize=sizes()["note"],
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.6},
    )  # fmt: skip


def _errors(rows: pd.DataFrame, runs: list[str], question: Question | None) -> str:
    """Return how often one run errs; of several, which can be told apart by what errors."""
    wrong = rows[rows["decision"].isin(list(_ERRORS)).to_numpy()]
    found = wrong.groupby("run")[["n", "n_total"]].sum().reindex(runs)
    found = found[found["n_total"] > 0]
    if not len(found):
        return "No query to answer or to refuse was decided"
    if len(found) == 1:
        n, total = found.iloc[0].tolist()
        return f"{found.index[0]} errs in {n} of {total} decisions"
    drawn = f"Answers and refusals of {len(runs)} runs"
    judged = (*REFUSALS, *by_aspect()["answers"])  # both errors, and what is said at all
    asked = () if question is None else [name for name in judged if name in question.primary]
    if question is None or not asked:
        return drawn
    told = {name: text for name in asked if (text := told_apart(question, name))}
    if not told:
        return f"{drawn}: none can be told from another by {few_names(asked)}"
    rest = [name for name in asked if name not in told]
    parts = [f"{name}: {text}" for name, text in told.items()]
    return "; ".join(parts) + (f"; none by {few_names(rest)}" if rest else "")


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
    names, to = [str(name) for name in table.index], [str(name) for name in table.columns]
    words = [[_change(one, other) for other in to] for one in names]
    tints = {"better": _GOOD, "worse": _BAD, "": _PLAIN}
    from matplotlib.colors import to_rgb

    # colours by the root: one large cell doesn't hide the others
    depth = np.sqrt(counts / counts.max())[..., None]
    depth = np.where(counts[..., None] > 0, 0.3 + 0.7 * depth, 0)
    colours = 1 - depth * (1 - np.array([[to_rgb(tints[word]) for word in line] for line in words]))
    ax.imshow(colours, aspect="auto")
    texts = [
        [
            f"{n:.0f}{f' {SIGNS[word]}' if word else ''}" if n else ""
            for n, word in zip(line, own, strict=True)
        ]
        for line, own in zip(counts, words, strict=True)
    ]
    _in_cells(ax, texts, colours)
    for place in range(size):
        ax.bar(
            place, 0.94, width=0.94, bottom=place - 0.47, fill=False, edgecolor="black",
            linewidth=1.2,
        )  # fmt: skip
    _name_cells(ax, [wrapped(name, 24) for name in to], [wrapped(name, 24) for name in names])
    ax.set(xlabel=f"{candidate or 'candidate'}; framed: as before", ylabel=baseline or "baseline")
    n_of = {
        word: int(sum(n for line, own in zip(counts, words, strict=True)
                      for n, one in zip(line, own, strict=True) if one == word))
        for word in ("better", "worse")
    }  # fmt: skip
    title(
        ax,
        f"{candidate or 'candidate'} against {baseline or 'baseline'}: {n_of['better']} became"
        f" right ▲, {n_of['worse']} wrong ▼ (n = {int(counts.sum())})",
    )
    return ax


def _change(before: str, after: str) -> str:
    """Return "better" where a wrong answer became right, "worse" for the opposite."""
    if before in _WRONG and after in _RIGHT:
        return "better"
    return "worse" if before in _RIGHT and after in _WRONG else ""


def _in_cells(ax: "Axes", texts: list[list[str]], colours: Any) -> None:
    """Write numbers into the cells, dark on light and light on dark, as large as rows allow."""
    is_light = colours @ np.array([0.299, 0.587, 0.114]) > 0.5
    width, height = _inches(ax)
    longest = max((len(text) for line in texts for text in line), default=1)
    # Letters are 0.6 of their size wide; names take up to a third of the place.
    by_width = 72 * 0.66 * width / len(texts[0]) / (0.62 * max(longest, 1))
    points = min(sizes()["tick"], 72 * 0.6 * height / len(texts), by_width)
    for row, line in enumerate(texts):
        for column, text in enumerate(line):
            if text:
                ax.text(
                    column, row, text, ha="center", va="center", fontsize=max(points, 6.0),
                    color="black" if is_light[row, column] else "white",
                )  # fmt: skip


def _name_cells(ax: "Axes", below: list[str], beside: list[str]) -> None:
    """Name columns and rows; names wider than their column are turned."""
    points = sizes()["tick"]
    room = 72 * 0.62 * _inches(ax)[0] / len(below)
    longest = max(len(line) for name in below for line in name.split("\n"))
    turned: dict[str, Any] = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    if room < 4.5 * points:
        turned = {"rotation": 90, "fontsize": max(min(points, 0.55 * room), 6.0)}
    is_wide = 0.62 * points * longest > room
    ax.set_xticks(np.arange(len(below)), below, **(turned if is_wide else {}))
    ax.set_yticks(np.arange(len(beside)), beside)
    _bare(ax)


def _inches(ax: "Axes") -> tuple[float, float]:
    """Return width and height of axes before names have taken their room."""
    box, dpi = ax.get_window_extent(), ax.figure.get_figure(root=True).dpi
    return float(box.width / dpi), float(box.height / dpi)


def _bare(ax: "Axes") -> None:
    quiet(ax, None)
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
