"""Shared by all pictures: a style per run, scales, labels, order of slices, checks of frames."""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from ragscore.analysis import titles
from ragscore.analysis.titles import n_text
from ragscore.frames.data import DataError, Golden, check_type
from ragscore.frames.errors import check_known, name_list, names_of
from ragscore.plot.lettering import HELD, LONGEST
from ragscore.plot.names import held, name_runs
from ragscore.plot.theme import inks
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations
from ragscore.scoring.summary import Slicing, slice_names, slice_texts, summarize

# Okabe & Ito's hues, darkened to a contrast of 3 : 1 with white, and a wine instead of the yellow.
# Neighbours alternate between dark and light, so that grey prints tell them apart as well.
PALETTE = ("#1359B2", "#D97D00", "#6A405C", "#0AA867", "#BF4816", "#BC7C9A", "#000000", "#2684F9")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":")
MAX_SLICES = 30
SCORES = ({"run_id", "state", "level"}, "scores", "the frame of rs.score")  # what they have
ROW, TALLEST = 0.2, 7.0  # inches of the lowest row with a name, and of all rows
MAX_RUNS = 8  # runs that colours alone tell apart


@dataclass(frozen=True)
class RunStyle:
    """How one run is drawn in every picture.

    Attributes
    ----------
    label
        What a legend calls it; all runs that don't stand out share one label.
    is_muted
        Other runs stand out: this one is grey and thin.
    """

    colour: str
    marker: str
    line: str
    label: str
    is_muted: bool = False

    @property
    def width(self) -> float:
        """Points of its line."""
        return 0.9 if self.is_muted else 1.7

    @property
    def size(self) -> float:
        """Points of its mark."""
        return 4 if self.is_muted else 6


# All runs of what is being drawn, in its order, and its declared baseline
_known: ContextVar[tuple[list[str], str | None]] = ContextVar("known_runs", default=([], None))


def run_styles(
    runs: pd.DataFrame | pd.Series | Iterable[str],
    highlight: Iterable[str] | str | None = None,
    leading: Sequence[str] | None = None,
) -> dict[str, RunStyle]:
    """Return run id -> style: by its place among all runs of the evaluation, in any session.

    The order is that of the categories of `run_id`, so that a selection of runs keeps the looks of
    the whole; of other columns it is the order of appearance. A declared baseline is drawn in the
    colour of the axes.

    Parameters
    ----------
    runs
        A table with `run_id`, that column, or ids.
    highlight
        Ids of the runs that keep their style, the others turn grey and thin.
    leading
        Without `highlight`: of more than eight runs the first and the first three of these stand
        out; where it is empty, the first four.

    Raises
    ------
    DataError
        A run to highlight that isn't there.
    """
    column = runs["run_id"] if isinstance(runs, pd.DataFrame) else runs
    once = pd.Series(column if isinstance(column, pd.Series) else list(column)).drop_duplicates()
    whole = once.cat.categories if isinstance(once.dtype, pd.CategoricalDtype) else once
    present, seen = set(once.astype("str")), [str(run) for run in whole]
    known, baseline = _known.get()
    places = {run: place for place, run in enumerate(dict.fromkeys([*known, *seen]))}
    shown = bright = [run for run in seen if run in present]
    if highlight is not None:
        bright = names_of(highlight, "highlight", "run ids")
        check_known(bright, shown, "highlight", "run")
    elif leading is not None and len(shown) > MAX_RUNS:
        bright = [shown[0], *[run for run in leading or shown if run != shown[0]][:3]]
    name_runs(shown)
    others = [run for run in shown if run not in bright]
    found = {run: plain_style(places[run], run) for run in shown}
    found |= {run: replace(found[run], colour=inks().ink) for run in shown if run == baseline}
    counted = others[0] if len(others) == 1 else f"{len(others)} others"
    return found | {
        run: replace(
            found[run], colour=inks().muted, label="_" if number else counted, is_muted=True
        )
        for number, run in enumerate(others)
    }


def plain_style(number: int, label: str) -> RunStyle:
    """Return the n-th style; digits of n choose colour, marker and line.

    With eight colours the first 64 differ in colour and marker, the first 256 in the line as well.
    """
    colours = palette()
    more, ones = divmod(number, len(colours))
    marker, line = MARKERS[(ones + more) % 8], LINES[(ones + more // 8) % 4]
    return RunStyle(colours[ones], marker, line, label)


def palette() -> list[str]:
    """Return the colours of runs: the session's own cycle if it was changed, else ours."""
    cycle, usual = (
        params["axes.prop_cycle"].by_key().get("color", [])
        for params in (matplotlib.rcParams, matplotlib.rcParamsDefault)
    )
    if cycle and cycle != usual:
        return list(dict.fromkeys(map(to_hex, cycle)))
    return list(PALETTE)


def all_runs(run_ids: Iterable[str], baseline: str | None = None) -> AbstractContextManager[None]:
    """Draw within the order of these runs, and within that of whatever they are a part of."""
    known, usual = _known.get()
    return held(_known, (list(dict.fromkeys([*known, *run_ids])), baseline or usual))


def in_order(names: Iterable[str], order: Sequence[str] | None = None) -> list[str]:
    """Return categories in their own order: easy, medium, hard; low, medium, high.

    Parameters
    ----------
    names
        As they appear.
    order
        Which come first, and in which order; others follow.

    Raises
    ------
    DataError
        A name in `order` that isn't there.
    """
    given = list(dict.fromkeys(names))
    if order is not None:
        first = names_of(order, "order", "names of slices")
        check_known(first, given, "order", "slice")
        return [*first, *(name for name in given if name not in first)]
    scale = next((one for one in SCALES if sum(name.lower() in one for name in given) > 1), None)
    if scale is None:
        return given
    places = {name: place for place, name in enumerate(scale)}
    return sorted(given, key=lambda name: places.get(name.lower(), len(places)))


SCALES = (
    ("trivial", "very easy", "easy", "medium", "moderate", "hard", "very hard", "expert"),
    ("none", "very low", "low", "medium", "moderate", "high", "very high"),
    ("tiny", "short", "small", "medium", "long", "large", "huge"),
    ("never", "rarely", "sometimes", "often", "always"),
)
"""Words of a scale, from its lower end."""


def unit_scale(ax: "Axes", scale: str) -> None:
    """Start the upward axis at 0 and, for metrics of 0 to 1, end it at 1."""
    if scale != "any":
        ax.set_ylim(0, 1 if scale == "0 to 1" else None)


def error_lengths(rows: pd.DataFrame) -> Any:
    """Return the lengths of error bars below and above the mean; 0 without an interval."""
    lengths = np.vstack([rows["mean"] - rows["low"], rows["high"] - rows["mean"]]).astype("float64")
    return np.nan_to_num(np.maximum(lengths, 0))


def label_of(text: str, most: int = LONGEST) -> str:
    """Return a name as a label: one too long for any figure is cut.

    A label that begins with an underscore is held, so that legends show it.
    """
    text = text if len(text) <= most else text[: most - 1] + "…"
    return HELD + text if text.startswith("_") and text != "_" else text


def scale_of(summary: pd.DataFrame, metric: str, declared: Declarations = NOTHING_DECLARED) -> str:
    """Return a metric's range; for a column of your own 0 to 1 if its values are within."""
    told = declared.describe(metric).range
    values = summary.loc[summary["metric"] == metric, ["min", "max"]]
    return (
        "0 to 1"
        if told == "any" and values["min"].min() >= 0 and values["max"].max() <= 1
        else told
    )


def check_scales(table: pd.DataFrame, metrics: list[str], declared: Declarations) -> None:
    """Refuse metrics of different scales, which have no common axis."""
    scales = {name: scale_of(table, name, declared) for name in metrics}
    usual = "0 to 1" if "0 to 1" in scales.values() else scales[metrics[0]]
    other = [f"{name} ({scale})" for name, scale in scales.items() if scale != usual]
    if other:
        raise DataError(
            f"{', '.join(other)} beside metrics of scale {usual}",
            field="metrics",
            allowed="metrics of one scale a figure",
        )


def check_summary(summary: pd.DataFrame) -> None:
    """Refuse frames other than `ev.summary()` without slices: one row per run and metric."""
    needed = {"run_id", "metric", "mean", "low", "high", "n", "min", "max"}
    check_columns(summary, needed, "summary", "ev.summary()")
    if summary.duplicated(["run_id", "metric"]).any():
        by = summary.columns[1]
        raise DataError(
            f"several rows for a run and metric, sliced by {by}",
            field="summary",
            allowed="ev.summary(), or rs.plot.slices(summary, metric)",
        )
    if summary["mean"].isna().all():
        raise DataError("no metric has a value", field="summary", allowed="a summary with n > 0")


def check_columns(frame: pd.DataFrame, names: set[str], field: str, allowed: str) -> None:
    """Refuse a frame without these columns."""
    check_type(frame, pd.DataFrame, field, allowed)
    if not names <= set(frame.columns):
        what = f"a frame with the columns {name_list(frame.columns)}"
        kinds = {"a scores frame": {"state", "level"}, "a summary": {"metric", "min", "max"}}
        known = (kind for kind, marks in kinds.items() if marks <= set(frame.columns))
        raise DataError(f"found {next(known, what)}", field=field, allowed=allowed)


def rows_of(summary: pd.DataFrame, metrics: list[str]) -> pd.DataFrame:
    """Return the rows of these metrics, or refuse metrics that are missing."""
    check_known(metrics, summary["metric"].unique(), "metrics", "metric", "the summary has")
    return summary[summary["metric"].isin(metrics)]


def sliced(
    table: pd.DataFrame, metric: str | None, by: Slicing | None, golden: Golden | None,
    declared: Declarations, most: int, order: Sequence[str] | None,
) -> tuple[pd.DataFrame, str, dict[str, str], str, str]:  # fmt: skip
    """Return what is drawn by slice of scores, or of a summary by slices.

    That is: rows with a column `slice`; their metric; slice -> its number of queries as text, of
    at most so many slices, in order; the label of their axis; what the title says.

    Raises
    ------
    DataError
        Scores without `by` or a golden set, a summary that isn't sliced like this, several metrics
        and none is chosen, or no query with a value.
    """
    check_type(table, pd.DataFrame, "table", "the frame of rs.score, or ev.summary(by=...)")
    given = table
    if "metric" not in table:
        check_columns(table, *SCORES)
        if metric is None or by is None:
            field = "metric" if metric is None else "by"
            raise DataError(
                "found none", field=field, allowed="plot.slices(scores, metric, by, golden=golden)"
            )
        table = summarize(table, golden, by=by, metrics=[metric], declared=declared)
    names = [str(name) for name in table.columns[1 : list(table.columns).index("metric")]]
    asked = names if by is None else list(slice_names(by))
    if not names or asked != names:
        found = f"a summary by {' × '.join(names)}" if names else "a summary without slices"
        wanted = f"ev.summary(metric, by={asked or '...'}), or the frame of rs.score"
        raise DataError(f"found {found}", field="table", allowed=wanted)
    known = table["metric"].unique().tolist()
    if metric is None and len(known) != 1:
        raise DataError(
            f"found {len(known)} metrics", field="metric", allowed=f"one of {name_list(known)}"
        )
    chosen = metric or str(known[0])
    rows = rows_of(table, [chosen])
    rows = rows[rows["n"] > 0]
    if not len(rows):
        measured = name_list(table.loc[table["n"] > 0, "metric"].unique())
        raise DataError(
            f"no query has a value of {chosen}",
            field="metric",
            allowed=f"a metric with n > 0: {measured}",
        )
    rows, what = rows.assign(slice=slice_texts(rows, names)), " × ".join(names)
    n_of = rows.groupby("slice", sort=False)["n"]
    kept, cut = largest_slices(n_of.max(), most, order)
    worse = titles.worse_slices(given, golden, by, chosen, declared)
    finding = titles.of_slices(worse, chosen, what, rows["run_id"].nunique())
    n = {name: n_text(n_of.get_group(name)) for name in kept}
    return rows, chosen, n, f"{what} (queries){cut}", finding


def largest_slices(
    sizes: pd.Series, limit: int, order: Sequence[str] | None
) -> tuple[list[str], str]:
    """Return the slices to draw, in order, and words for how many others there are.

    `sizes` are the queries of each slice, of which the largest `limit` are drawn.
    """
    kept = set(sizes.sort_values(ascending=False, kind="stable").index[:limit])
    names = in_order([name for name in sizes.index if name in kept], order)
    return names, f", the {len(names)} largest of {len(sizes)}" if len(names) < len(sizes) else ""
