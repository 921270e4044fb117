"""A metric over runs, broken where what measures changed.

One row per run, with its interval, its segment, and whether it left the noise.

In: a store, or scores. Out: a frame to read, to print and to draw (`rs.plot.trend`).
"""

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from ragscore.analysis.trend.bridges import Bridge, bridges, scored_again
from ragscore.analysis.trend.history import History, Segment, history, segments
from ragscore.analysis.trend.noise import Reference, band_columns, band_width, reference_of
from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.render import shown_number
from ragscore.scoring.metrics import describe
from ragscore.scoring.summary import slices, summarize
from ragscore.store.store import RunStore

ALL = "(all)"
COLUMNS = [
    "position", "run_id", "system", "repeat", "created_at", "metric", "mean", "low", "high", "n",
    "n_expected", "segment", "break_reason",
    "bridge", "bridge_reason", "bridge_mean", "provenance_effect", "is_baseline",
    "band_low", "band_high", "band_from", "in_band", "first_out_of_control",
]  # fmt: skip


def trend(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    results: Results | None = None,
    golden: Golden | Sequence[Golden] = (),
    by: str | None = None,
    order: str | list[str] = "created_at",
    baseline: str | None = None,
    repeats: list[str] | None = None,
) -> pd.DataFrame:
    """One metric over runs in their order, with what may be compared along the line and what may not.

    A line may only be drawn along runs that one ruler measured. A new `segment` begins wherever a
    part of it changed: labels, match level and rule, policies, profile, chunker version, judge,
    version of the metric (as far as the runs state them). A bridge, a run that both rulers
    measured, says how much of the step is the ruler's.

    Parameters
    ----------
    source
        A store, or the frame of `rs.score` (then `results` says what the runs are).
    results
        The results that the scores were made of; not with a store.
    golden
        One golden set or several. By a run's golden set the last run before a relabelling is scored
        again, which bridges it; the first one is what `by` slices by.
    by
        As in `rs.summarize`: one row per run and slice. A golden set is then needed.
    order
        A column of the runs (`created_at`, `x_position`), or run ids in their order (then only
        these).
    baseline
        The run around which the band lies; where it is one of several repeats, the mean of all of
        them. By default the band lies around the last group of repeats.
    repeats
        Runs that are repeats of one system. By default those with a `repeat`, of the same system,
        config and ruler.

    Returns
    -------
    One row per run and slice, in order. `position` from 1; `mean` with its 95 % interval `low`,
    `high` over queries; `n` of `n_expected` queries; `segment`, and on its first row
    `break_reason`, what changed, `bridge`, the earlier run that joins it, `bridge_reason`,
    `bridge_mean`, that run's mean by the new ruler, and `provenance_effect`, how far the ruler
    moved it (bridge_mean − its own mean: what is left of a step is the system's). `is_baseline`;
    `band_low`, `band_high`: where a run of an unchanged system lands 95 times in 100, from the
    spread of repeats (`band_from`; NaN without repeats, or where the baseline was not measured by
    the segment's ruler); `in_band`; `first_out_of_control`: from this run on every run is outside,
    on one side.

    Raises
    ------
    DataError
        No such metric, run, column or slice; runs without scores; `by` without a golden set.
    """
    goldens = [golden] if isinstance(golden, Golden) else list(golden)
    found = history(source, metric, results=results, order=order, repeats=repeats)
    parted = segments(found.parts)
    joined = bridges(found, parted, goldens)
    means = _means(found, found.scores, goldens, by)
    table = _with_segments(means, found, parted)
    table = _with_bridges(table, found, parted, joined, goldens, by)
    table = _with_band(table, found, parted, joined, goldens, by, baseline)
    return table[[*COLUMNS[:6], *([by] if by else []), *COLUMNS[6:]]]


def _means(
    found: History, scores: pd.DataFrame, goldens: list[Golden], by: str | None
) -> pd.DataFrame:
    """Means of some scores.

    Run_id, slice (a column `slice`), mean, low, high, n, n_expected, in the order of the runs.
    """
    if by is not None and not goldens:
        raise DataError(
            "by= needs a golden set",
            field="golden",
            allowed="rs.trend(source, metric, golden=golden, by=...)",
        )
    known = [one.golden_hash for one in goldens]
    labels = scores["run_id"].map(
        {
            run_id: known.index(of["labels"]) if of.get("labels") in known else -1
            for run_id, of in found.parts.items()
        }
    )
    parts = [
        summarize(
            rows,
            goldens[0] if by is not None else goldens[int(number)] if number >= 0 else None,
            by=by,
            metrics=[found.metric],
        )
        for number, rows in scores.groupby(labels, sort=False)
    ]
    table = pd.concat(parts, ignore_index=True).astype({"run_id": "str"})
    table = table.assign(slice=table[by].astype("str") if by is not None else ALL)
    order = pd.Categorical(table["run_id"], categories=found.runs.index, ordered=True)
    table = table.assign(place=order.codes).sort_values(
        ["slice", "place"] if by else ["place"], kind="stable", ignore_index=True
    )
    return table.drop(columns="place")[
        ["run_id", "slice", *([by] if by else []), "mean", "low", "high", "n", "n_expected"]
    ]


def _with_segments(table: pd.DataFrame, found: History, parted: list[Segment]) -> pd.DataFrame:
    of_run = {run_id: segment for segment in parted for run_id in segment.run_ids}
    first = {segment.run_ids[0]: segment for segment in parted}
    about = found.runs.loc[table["run_id"]].reset_index(drop=True)
    return table.assign(
        position=found.runs.index.get_indexer(pd.Index(table["run_id"])) + 1,
        system=about["system"].astype("str"), repeat=about["repeat"].astype("Int64"),
        created_at=pd.to_datetime(about["created_at"], utc=True), metric=found.metric,
        segment=[of_run[run_id].number for run_id in table["run_id"]],
        break_reason=pd.array([first[run_id].break_reason or None if run_id in first else None for run_id in table["run_id"]], dtype="str"),
    )  # fmt: skip


def _with_bridges(
    table: pd.DataFrame,
    found: History,
    parted: list[Segment],
    joined: dict[int, Bridge],
    goldens: list[Golden],
    by: str | None,
) -> pd.DataFrame:
    """Bridges on the first row of each segment, by slice."""
    first = {
        segment.run_ids[0]: joined[segment.number] for segment in parted if segment.number in joined
    }
    here = [first.get(run_id) for run_id in table["run_id"]]
    there = {
        run_id: _means(found, one.scores, goldens, by).set_index("slice")["mean"]
        for run_id, one in first.items()
    }
    own = table.set_index(["run_id", "slice"])["mean"]
    mean = [
        there[run_id].get(name, np.nan) if run_id in there else np.nan
        for run_id, name in zip(table["run_id"], table["slice"], strict=True)
    ]
    before = [
        own.get((one.run_id, name), np.nan) if one else np.nan
        for one, name in zip(here, table["slice"], strict=True)
    ]
    return table.assign(
        bridge=pd.array([one.run_id if one else None for one in here], dtype="str"),
        bridge_reason=pd.array([one.how if one else None for one in here], dtype="str"),
        bridge_mean=np.array(mean, dtype=np.float64),
        provenance_effect=np.array(mean, dtype=np.float64) - np.array(before, dtype=np.float64),
    )  # fmt: skip


def _with_band(
    table: pd.DataFrame,
    found: History,
    parted: list[Segment],
    joined: dict[int, Bridge],
    goldens: list[Golden],
    by: str | None,
    baseline: str | None,
) -> pd.DataFrame:
    """The band of each segment around its reference, and where the line left it."""
    reference = reference_of(found, baseline)
    table = table.assign(
        is_baseline=table["run_id"].isin(reference.run_ids) & reference.is_baseline
    )
    has_band = bool(reference.groups and reference.run_ids)
    centres = (
        _centres(found, parted, joined, goldens, by, list(reference.run_ids)) if has_band else {}
    )
    parts = []
    for name, rows in table.groupby("slice", sort=False):
        half = _half_width(found, reference, goldens, by, str(name)) if has_band else np.nan
        centre = (
            rows["segment"]
            .map({number: values.get(name, np.nan) for number, values in centres.items()})
            .to_numpy("float64")
        )
        parts.append(
            band_columns(rows, reference, centre, half, describe(found.metric).range == "0 to 1")
        )
    return table.join(pd.concat(parts))


def _half_width(
    found: History, reference: Reference, goldens: list[Golden], by: str | None, slice_name: str
) -> float:
    groups, n_centre = reference.groups, len(reference.run_ids)
    if by is None:
        return band_width(found, groups, n_centre)
    sliced = slices(goldens[0], by)
    inside = sliced.loc[sliced[by].astype("str") == slice_name, "query_id"]
    return band_width(
        replace(found, scores=found.scores[found.scores["query_id"].isin(inside)]), groups, n_centre
    )


def _centres(
    found: History,
    parted: list[Segment],
    joined: dict[int, Bridge],
    goldens: list[Golden],
    by: str | None,
    reference: list[str],
) -> dict[int, pd.Series]:
    """The reference's mean by the ruler of each segment, by slice.

    Segments whose ruler hasn't measured it are left out.
    """
    home = next(segment for segment in parted if reference[0] in segment.run_ids)
    own = _means(found, found.of(reference), goldens, by).groupby("slice")["mean"].mean()
    centres = {segment.number: own for segment in parted if segment.like == home.like}
    for segment in parted[home.number :]:
        bridge = joined.get(segment.number)
        came_from = next((one for one in parted if bridge and bridge.run_id in one.run_ids), None)
        if segment.number in centres:
            continue
        if bridge and bridge.comparable and came_from and came_from.number in centres:
            centres[segment.number] = centres[came_from.number]
        elif len(reference) == 1:
            again = (
                bridge
                if bridge and bridge.run_id == reference[0]
                else scored_again(found, reference[0], segment, goldens)
            )
            if again is not None:
                centres[segment.number] = _means(found, again.scores, goldens, by).set_index(
                    "slice"
                )["mean"]
    return centres


def trend_text(table: pd.DataFrame) -> str:
    """The frame of `rs.trend` as text.

    The runs, then what broke the line, what joins it, and the noise.
    """
    by = [name for name in table.columns if name not in COLUMNS]
    marks = np.select(
        [
            table["first_out_of_control"],
            table["is_baseline"],
            table["in_band"].eq(False).fillna(False),
        ],
        ["left the band", "baseline", "outside"],
        "",
    )
    counts = table["n"].astype("str") + " of " + table["n_expected"].astype("str")
    shown = (
        table[["run_id", "system", *by]]
        .fillna("")
        .assign(
            **{name: table[name].map(shown_number) for name in ("mean", "low", "high")},
            n=counts,
            segment=table["segment"],
        )
    )
    lines = [shown.assign(**{"": marks}).to_string(index=False)]
    lines += break_texts(table)
    band = table[table["band_low"].notna()]
    if len(band) and not by:
        edges = "; ".join(
            f"{low:.3f} to {high:.3f}"
            for low, high in band[["band_low", "band_high"]].drop_duplicates().to_numpy()
        )
        lines.append(
            f"noise ({band['band_from'].iloc[0]}): 95 of 100 runs of an unchanged system land in"
            f" {edges}"
        )
    return "\n".join([lines[0], "", *lines[1:]]).rstrip()


def break_texts(table: pd.DataFrame) -> list[str]:
    """What broke the line of `rs.trend`, and what joins it: one sentence per break."""
    is_sliced = any(name not in COLUMNS for name in table.columns)
    return [
        _break_text(row, is_sliced=is_sliced)
        for row in table[table["break_reason"].notna()]
        .drop_duplicates("segment")
        .to_dict("records")
    ]


def _break_text(row: dict[Hashable, Any], is_sliced: bool) -> str:
    start = f"segment {row['segment']} from {row['run_id']}: {row['break_reason']}"
    if pd.isna(row["bridge"]):
        return f"{start}; nothing joins it to the one before"
    joined = f"{start}; joined by {row['bridge']}, {row['bridge_reason']}"
    return (
        joined
        if is_sliced or pd.isna(row["provenance_effect"])
        else f"{joined}: {row['provenance_effect']:+.3f} of the step is the ruler's"
    )
