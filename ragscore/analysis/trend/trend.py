"""A metric over runs, in segments within which the runs may be compared.

In: a store, or scores. Out: a `Trend`, one row per run with its interval, its segment and the noise
band, to read, to print and to draw.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from ragscore.analysis.reported import aggregates
from ragscore.analysis.result_forms import TableResult
from ragscore.analysis.trend.history import (
    SCORE_KEYS,
    History,
    Segment,
    config_changes,
    read_history,
    split_segments,
)
from ragscore.analysis.trend.noise import band_columns, find_reference, noise_half_width
from ragscore.frames.data import DataError, Golden, Results, check_type
from ragscore.frames.errors import name_list, plural, warn
from ragscore.frames.render import shown_intervals, shown_number
from ragscore.frames.tables import Table
from ragscore.frames.verbs import Accessor
from ragscore.io.load import load_golden
from ragscore.scoring.intervals import BY_QUANTILES
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.scoring.summary import (
    Slicing,
    slice_names,
    slice_texts,
    slices,
    summarize,
)
from ragscore.store.store import RunStore

STATISTICS_SHOWN = (
    "mean", "low", "high", "p50", "p50_low", "p50_high", "p95", "n", "n_expected",
)  # fmt: skip
LED_BY = (("mean", "low", "high"), ("p50", "p50_low", "p50_high"))  # times and costs: the latter
ALL = "(all)"  # name of the one slice of a trend that isn't sliced
BEFORE_SLICES = ["position", "run_id", "system", "repeat", "created_at", "metric"]
COLUMNS = [
    *BEFORE_SLICES, "mean", "low", "high", "p50", "p50_low", "p50_high", "p95", "n", "n_expected",
    "is_reported", "segment", "break_reason",
    "config_change",
    "is_baseline",
    "band_low", "band_high", "band_from", "in_band", "first_out_of_control",
]  # fmt: skip
Means = Callable[[list[str]], pd.DataFrame]
"""Run ids -> one row per run and slice: the function `_means` for one history and slicing."""


@dataclass(frozen=True, repr=False)  # else the generated one replaces TableResult's
class Trend(TableResult):
    """A metric over runs, in segments of runs that may be compared.

    Attributes
    ----------
    by
        The columns of the slices; empty without slices.
    table
        One row per run and slice, in order.

        - `position` from 1; `mean` with its 95 % interval `low`, `high` over queries; `p50` (with
          `p50_low`, `p50_high`) and `p95`, by which times and costs are shown; `n` of `n_expected`
          queries; `is_reported`, True for a run without rows, of which only these statistics are
          known (NaN: not reported); `segment`.
        - `config_change`: what differs from the config of the same system's run before.
        - `break_reason`, on the first row of a segment: what changed.
        - `is_baseline`; `band_low`, `band_high`, the limits within which a run of an unchanged
          system lands 95 times in 100, by the spread of repeats (`band_from`; NaN without repeats,
          or where the segment's provenance isn't the baseline's); `in_band`;
          `first_out_of_control`, True for the run from which on all are outside, on one side, two
          or more: one run in 18 of an unchanged series often is.
    declared
        Direction and range of columns of your own, as the evaluation had them declared.
    """

    metric: str
    by: tuple[str, ...]
    table: pd.DataFrame
    declared: MetricTable = TABLE

    plot = Accessor("ragscore.plot.accessor:TREND")

    def _shown(self) -> pd.DataFrame:
        """Return the table as text: runs, means, segments, and which run left the noise band."""
        table = self.table
        name, lower, upper = LED_BY[TABLE.describe(self.metric).kind in BY_QUANTILES]
        outside = table["in_band"].eq(False).fillna(False)
        known = table["in_band"].notna()
        no_band = np.logical_and(~known, known.any())
        marks = np.select(
            [table["first_out_of_control"], table["is_baseline"], outside, no_band],
            ["left the band", "baseline", "outside", "no band"],
            "",
        )
        shown = table[["run_id", "system", *self.by]].fillna("")
        counts = table["n"].astype("str") + " of " + table["n_expected"].astype("str")
        heading = self.metric if name == "mean" else f"{self.metric} ({name})"
        p95 = {} if name == "mean" else {"p95": table["p95"].map(shown_number)}
        marks = np.where(table["is_reported"], "reported", marks)
        return shown.assign(
            **{f"{heading} [low, high]": shown_intervals(table[[name, lower, upper]])},
            **p95,
            n=counts.where(table["n"].notna(), "not told"),
            segment=table["segment"],
        ).assign(**{"": marks})

    def notes(self) -> list[str]:
        """Return where the line breaks and why, and the noise band."""
        notes = break_texts(self.table)
        if alone := self.table.loc[self.table["is_reported"], "run_id"].unique().tolist():
            notes.append(
                f"reported, not scored here (no rows): {name_list(alone)}; a break between them is"
                " only as good as the hash that names their eval set"
            )
        band = self.table[self.table["band_low"].notna()]
        if len(band) and not self.by:
            limits = band.groupby(["band_low", "band_high"], sort=False)["segment"].unique()
            ranges = "; ".join(
                f"{row['band_low']:.3f} to {row['band_high']:.3f}"
                f" (segment {', '.join(map(str, row['segment']))})"
                for row in limits.reset_index().to_dict("records")
            )
            notes.append(
                f"noise band (from {band['band_from'].iloc[0]}): 95 of 100 runs of an unchanged"
                f" system land in {ranges}"
            )
        return notes

    def _tables(self) -> list[Table]:
        by = f" by {' × '.join(self.by)}" if self.by else ""
        n = plural(self.table["run_id"].nunique(), "run")
        return [Table(self._shown(), f"{self.metric} over {n}{by}")]


def trend(
    source: RunStore | pd.DataFrame,
    metric: str,
    by: Slicing | None = None,
    *,
    golden: Golden | str | os.PathLike[str] | None = None,
    results: Results | None = None,
    reported: Results | None = None,
    order: str | list[str] = "created_at",
    baseline: str | None = None,
    repeats: list[str] | None = None,
    declared: MetricTable = TABLE,
) -> Trend:
    """Follow a metric over runs, in segments of runs that may be compared.

    A store's trend is of the means that its runs have stored, a metric of theirs. Scores are only
    comparable over time if they were computed the same way. A new `segment` begins
    where a component of the provenance changes: labels, match level and rule, policies, profile,
    chunker version, judge, version of the metric (as far as the runs state them). What other
    labels broke is one line where all runs are scored anew: `store.evaluate(golden).trend(metric)`.

    Runs of which only aggregates are known stand beside the others, marked as reported: their
    breaks are where the hash of their eval set, their dataset version or their judge differs. What
    was relabelled under the same hash can't be seen.

    Parameters
    ----------
    source
        A store, or the frame of `rs.score` (then `results` has the runs' systems and times).
    by
        As `by` of `ev.summary`: one row per run and slice. Needs a golden set.
    golden
        The golden set that `by` slices by, or its file.
    results
        The results that the scores were made of; not with a store.
    reported
        Results of runs without rows, which report aggregates; not with a store, which knows its
        own.
    order
        A column of the runs (`created_at`, `x_position`), or run ids in their order (then only
        these).
    baseline
        The run around which the noise band lies; where it is one of several repeats, the mean of
        all of them. By default the band lies around the last group of repeats.
    repeats
        Runs that are repeats of one system. By default those with a `repeat`, of the same system,
        config and provenance.
    declared
        What is declared of columns of your own in a frame of scores; a store knows it.

    Returns
    -------
    A `Trend`: its `table`, notes on every break, and `plot()`.

    Raises
    ------
    DataError
        No such metric, run, column or slice; runs without scores; `by` without a golden set.

    Examples
    --------
    >>> store.trend("mrr@10").plot()
    """
    if golden is not None and not isinstance(golden, Golden):
        golden = load_golden(golden)
    if by is not None and golden is None:
        raise DataError(
            "by= needs a golden set",
            field="golden",
            allowed="store.trend(metric, by, golden=golden)",
        )
    history = read_history(
        source, metric, results=results, reported=reported, order=order, repeats=repeats,
        declared=declared, with_rows=by is not None,
    )  # fmt: skip
    if by is not None and (left_out := history.reported):
        kept = history.scored(history.runs.index.tolist())
        history = replace(
            history,
            reported=[],
            runs=history.runs.loc[kept],
            provenance={run_id: history.provenance[run_id] for run_id in kept},
        )
        if not len(history.runs):
            raise DataError(
                f"{name_list(left_out)} report means over all queries alone",
                field="by",
                allowed="no by=, or runs with rows",
            )
        warn(f"left out, reporting no slices: {', '.join(left_out)}")
    segments = split_segments(history.provenance)
    names = () if by is None else slice_names(by)
    means: Means = partial(_means, history, golden, names)
    table = means(history.runs.index.tolist())
    table = table.assign(is_reported=table["run_id"].isin(history.reported))
    # Add the runs' facts, their segments, and the reason of a break on a segment's first
    # run.
    number = {run_id: segment.number for segment in segments for run_id in segment.run_ids}
    reason = {segment.run_ids[0]: segment.break_reason or None for segment in segments}
    runs = history.runs.loc[table["run_id"]].reset_index(drop=True)
    changes = config_changes(history.runs)
    table = table.assign(
        position=history.runs.index.get_indexer(pd.Index(table["run_id"])) + 1,
        system=runs["system"].astype("str"),
        repeat=runs["repeat"].astype("Int64"),
        created_at=pd.to_datetime(runs["created_at"], utc=True),
        metric=history.metric,
        segment=[number[run_id] for run_id in table["run_id"]],
        break_reason=pd.array([reason.get(run_id) for run_id in table["run_id"]], dtype="str"),
        config_change=pd.array([changes.get(run_id) for run_id in table["run_id"]], dtype="str"),
    )
    table = _with_band(table, history, segments, means, golden, names, baseline)
    columns = dict.fromkeys([*BEFORE_SLICES, *names, *COLUMNS])
    found = Trend(metric, names, table[list(columns)], history.declared)
    if isinstance(source, RunStore):  # systems look as before when an earlier run is saved later
        object.__setattr__(found, "_in_order", source._by_saving("system"))
    return found


def reported_trend(
    results: Results, metric: str, *, order: str | list[str] = "created_at"
) -> Trend:
    """Follow what runs report of a metric themselves; no golden set is needed.

    Reported are the aggregates of a whole run, as a harness wrote them beside its rows or without
    any. See `ev.trend` for runs that are scored here.

    Parameters
    ----------
    metric
        As `results.reported_summary()` calls it: our label where the definition is the same.
    order
        A column of the runs, or run ids in their order (then only these).

    Returns
    -------
    A `Trend`. A new segment begins where runs state another eval set (`eval_set_commit_hash`,
    `dataset_version`, `golden_hash`), another chunker, or, for a judge's score, another judge. A
    break is only as good as the hash: labels that were changed under the same one can't be seen.

    Raises
    ------
    DataError
        No run reports the metric; an unknown run or column.

    Examples
    --------
    >>> rs.load_results("results").trend("hit@5").plot()
    """
    check_type(results, Results, "results")
    reports = set(aggregates(results)["run_id"])
    runs = [run_id for run_id in results.runs["run_id"].astype("str") if run_id in reports]
    none = pd.DataFrame({name: pd.Series(dtype="str") for name in SCORE_KEYS})
    return trend(none, metric, reported=results.select(runs), order=order)


def break_texts(table: pd.DataFrame) -> list[str]:
    """Return what changed at each break in `Trend.table`."""
    broken = table[table["break_reason"].notna()].drop_duplicates("segment")
    return [
        f"segment {row['segment']} from {row['run_id']}: {row['break_reason']}"
        for row in broken.to_dict("records")
    ]


def as_drawn(table: pd.DataFrame) -> pd.DataFrame:
    """Return a trend's table as a picture needs it; `mean`, `low`, `high` are those of the lead.

    The lead of times and costs is the median, which has no noise band. Bands are kept in segments
    in which they say something: that a run left them, or where the newest run lies.
    """
    table = table.assign(system=table["system"].fillna("run").astype("str"))
    if TABLE.describe(str(table["metric"].iloc[0])).kind in BY_QUANTILES:
        table = table.assign(
            **{name: table[source] for name, source in zip(*LED_BY, strict=True)},
            band_low=np.nan, band_high=np.nan, in_band=None, first_out_of_control=False,
        )  # fmt: skip
    known = table[table["mean"].notna()]
    if not len(known):
        raise DataError("no run has a value", field="table", allowed="a trend with n > 0")
    by = [name for name in table.columns if name not in COLUMNS]
    keys = [table[name] for name in ("segment", *by)]
    left = table["first_out_of_control"].astype("bool")
    decides = left.groupby(keys, dropna=False).transform("any")
    if not by and pd.notna(known["in_band"].iloc[-1]):
        decides |= table["segment"].eq(known["segment"].iloc[-1])
    return table.assign(**{name: table[name].where(decides) for name in ("band_low", "band_high")})


def _means(
    history: History, golden: Golden | None, by: tuple[str, ...], run_ids: list[str]
) -> pd.DataFrame:
    """One row per run, in order, and slice (a column `slice`): mean, low, high, n, n_expected.

    Without slices those that runs have stored, else those of their scores.
    """
    columns = ["run_id", "slice", *by, *STATISTICS_SHOWN]
    told = [run_id for run_id in run_ids if not by and run_id in history.told.index]
    tables = [history.told.loc[told].reset_index(names="run_id").assign(slice=ALL)]
    rows = history.scores_of([run_id for run_id in run_ids if run_id not in told])
    if len(rows):
        # Intervals count queries that depend on each other as one: the golden set of a run's own
        # labels says which do.
        labels = rows["run_id"].map(lambda one: history.provenance[one].get("labels"))
        is_own = labels.eq("" if golden is None else golden.golden_hash).to_numpy(bool)
        for own, held in ((golden, rows[is_own]), (golden if by else None, rows[~is_own])):
            if len(held):
                found = summarize(
                    held, own, by=by or None, metrics=[history.metric], table=history.declared
                ).astype({"run_id": "str"})
                tables.append(found.assign(slice=_joined(found, by)))
    counts = dict.fromkeys(("n", "n_expected"), "Int64")
    dtypes = dict.fromkeys(STATISTICS_SHOWN, "float64") | counts
    parts = [one[columns].astype(dtypes) for one in tables if len(one)]
    if not parts:
        return pd.DataFrame({name: pd.Series(dtype="object") for name in columns})
    table = pd.concat(parts, ignore_index=True)
    table = table.assign(place=history.runs.index.get_indexer(pd.Index(table["run_id"])))
    order = ["slice", "place"] if by else ["place"]
    return table.sort_values(order, kind="stable", ignore_index=True)[columns]


def _joined(rows: pd.DataFrame, by: tuple[str, ...]) -> pd.Series:
    """Return the names of the slices of these rows, values joined by ×."""
    if not by:
        return pd.Series(ALL, index=rows.index, dtype="str")
    return slice_texts(rows, by)


def _with_band(
    table: pd.DataFrame,
    history: History,
    segments: list[Segment],
    means: Means,
    golden: Golden | None,
    by: tuple[str, ...],
    baseline: str | None,
) -> pd.DataFrame:
    """Add the noise band around its reference, and the run that left it.

    It is in the segments that were measured in the same way as the reference.
    """
    reference = find_reference(history, baseline)
    run_ids = list(reference.run_ids)
    is_baseline = table["run_id"].isin(run_ids) & reference.is_baseline
    table = table.assign(is_baseline=is_baseline)
    centres: dict[int, pd.Series] = {}
    if reference.groups and history.scored(run_ids):
        home = next(segment for segment in segments if run_ids[0] in segment.run_ids)
        own = means(run_ids).groupby("slice")["mean"].mean()
        centres = {one.number: own for one in segments if one.same_as == home.same_as}
    is_unit = history.declared.describe(history.metric).is_unit
    parts = []
    members = slices(golden, by) if golden is not None and by else pd.DataFrame()
    names = _joined(members, by)
    for name, rows in table.groupby("slice", sort=False):
        part = history
        if by:
            inside = members.loc[names == name, "query_id"]
            is_inside = history.scores["query_id"].isin(inside)
            part = replace(history, scores=history.scores[is_inside])
        half = noise_half_width(part, reference.groups, len(run_ids))
        centre = {number: values.get(name, np.nan) for number, values in centres.items()}
        of_rows = rows["segment"].map(centre).to_numpy("float64")
        parts.append(band_columns(rows, reference, of_rows, half, is_unit))
    return table.join(pd.concat(parts))
