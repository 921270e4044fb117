"""A metric over runs, in segments within which the runs may be compared, and how much is noise.

In: a store, or scores. Out: a `Trend`, one row per run with its interval, its segment and the noise
band, to read, to print and to draw; the noise floor, one row per group of repeats.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.breaks import (
    Provenance,
    config_changes,
    contradictions,
    split_segments,
)
from ragscore.analysis.history import History, read_history
from ragscore.frames.data import DataError, run_names
from ragscore.frames.errors import name_list, plural
from ragscore.frames.tables import Display, Table, shown_intervals, shown_number
from ragscore.frames.verbs import Accessor
from ragscore.scoring.metrics import TABLE, MetricTable
from ragscore.stats.moments import t_quantile
from ragscore.store.store import RunStore

STATISTICS_SHOWN = (
    "mean", "low", "high", "p50", "p50_low", "p50_high", "p95", "n", "n_expected",
)  # fmt: skip
LED_BY = (("mean", "low", "high"), ("p50", "p50_low", "p50_high"))  # times and costs: the latter
COLUMNS = [
    "position", "run_id", "system", "repeat", "created_at", "metric",
    "mean", "low", "high", "p50", "p50_low", "p50_high", "p95", "n", "n_expected",
    "is_reported", "segment", "break_reason",
    "config_change",
    "is_baseline",
    "band_low", "band_high", "band_from", "in_band", "first_out_of_control",
]  # fmt: skip


@dataclass(frozen=True, repr=False)  # else the generated one replaces Display's
class Trend(Display):
    """A metric over runs, in segments of runs that may be compared.

    Attributes
    ----------
    table
        One row per run, in order.

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
    table: pd.DataFrame
    declared: MetricTable = TABLE

    plot = Accessor("ragscore.plot.accessor:TREND")

    def _shown(self) -> pd.DataFrame:
        """Return the table as text: runs, means, segments, and which run left the noise band."""
        table = self.table
        name, lower, upper = LED_BY[TABLE.describe(self.metric).is_timed]
        outside = table["in_band"].eq(False).fillna(False)
        known = table["in_band"].notna()
        no_band = np.logical_and(~known, known.any())
        marks = np.select(
            [table["first_out_of_control"], table["is_baseline"], outside, no_band],
            ["left the band", "baseline", "outside", "no band"],
            "",
        )
        shown = table[["run_id", "system"]].fillna("")
        counts = table["n"].astype("str") + " of " + table["n_expected"].astype("str")
        heading = self.metric if name == "mean" else f"{self.metric} ({name})"
        p95 = {} if name == "mean" else {"p95": table["p95"].map(shown_number)}
        marks = np.where(table["is_reported"], "reported", marks)
        return shown.assign(
            **{f"{heading} [low, high]": shown_intervals(table[[name, lower, upper]])},
            **p95,
            n=counts.where(table["n"].notna(), "unknown"),
            segment=table["segment"],
        ).assign(**{"": marks})

    def notes(self) -> list[str]:
        """Return where the line breaks and why, and the noise band."""
        broken = self.table[self.table["break_reason"].notna()].drop_duplicates("segment")
        notes = [
            f"segment {row['segment']} from {row['run_id']}: {row['break_reason']}"
            for row in broken.to_dict("records")
        ]
        if alone := self.table.loc[self.table["is_reported"], "run_id"].unique().tolist():
            notes.append(
                f"reported without rows, not scored here: {name_list(alone)}; only the hash of"
                " their golden set shows whether they may be compared"
            )
        band = self.table[self.table["band_low"].notna()]
        if len(band):
            low, high, source = band[["band_low", "band_high", "band_from"]].iloc[0]
            segments = ", ".join(map(str, band["segment"].unique()))
            notes.append(
                f"noise band (from {source}): 95 of 100 runs of an unchanged system land in"
                f" {low:.3f} to {high:.3f} (segment {segments})"
            )
        return notes

    def _parts(self) -> list[str | Table]:
        return [
            f"{self.metric} over {plural(len(self.table), 'run')}",
            Table(self._shown()),
            *self.notes(),
        ]


def stored_trend(
    store: RunStore,
    metric: str,
    *,
    order: str | list[str] = "created_at",
    baseline: str | None = None,
    repeats: list[str] | None = None,
) -> Trend:
    """Follow a metric over the means that runs have stored, in segments of runs to be compared.

    Means are only comparable over time if they
    were computed the same way. A new `segment` begins where a component of the provenance changes:
    labels, match level and rule, policies, profile, chunker version, judge, version of the metric
    (as far as the runs state them). Where other labels broke a line, score all runs
    again: `store.evaluate(golden).trend(metric)`.

    Runs of which only aggregates are known are shown beside the others, marked as reported: their
    breaks are where the hash of their eval set, their dataset version or their judge differs. What
    was relabelled under the same hash can't be seen.

    Parameters
    ----------
    order
        A column of the runs (`created_at`, `x_position`), or run ids in their order (then only
        these).
    baseline
        The run around which the noise band lies; where it is one of several repeats, the mean of
        all of them. By default the band lies around the last group of repeats.
    repeats
        Runs that are repeats of one system. By default those with a `repeat`, of the same system,
        config and provenance.

    Returns
    -------
    A `Trend`: its `table`, notes on every break, and `plot()`.

    Raises
    ------
    DataError
        No such metric, run or column; runs without scores.

    Examples
    --------
    >>> store.trend("mrr@10").plot()
    """
    found = trend_of(read_history(store, metric, order=order, repeats=repeats), baseline)
    # systems look as before when an earlier run is saved later
    object.__setattr__(found, "_in_order", store._by_saving("system"))
    return found


def trend_of(history: History, baseline: str | None = None) -> Trend:
    """Return the trend of a history; see `store.trend` and `ev.trend`."""
    segments, known = split_segments(history.provenance)
    runs, ids = history.runs.reset_index(), history.runs.index
    changes = config_changes(history.runs)
    counts = dict.fromkeys(("n", "n_expected"), "Int64")
    means = history.means[[*STATISTICS_SHOWN, "is_reported"]].reset_index(drop=True)
    table = means.astype(dict.fromkeys(STATISTICS_SHOWN, "float64") | counts).assign(
        position=np.arange(1, len(ids) + 1),
        run_id=runs["run_id"],
        system=runs["system"].astype("str"),
        repeat=runs["repeat"].astype("Int64"),
        created_at=pd.to_datetime(runs["created_at"], utc=True),
        metric=history.metric,
        segment=segments["segment"].to_numpy(),
        break_reason=segments["break_reason"].to_numpy(),
        config_change=pd.array([changes.get(run_id) for run_id in ids], dtype="str"),
    )
    table = _with_band(table, history, known, baseline)
    return Trend(history.metric, table[COLUMNS], history.declared)


def as_drawn(table: pd.DataFrame) -> pd.DataFrame:
    """Return a trend's table as a picture needs it; with `mean`, `low`, `high` of the lead.

    The lead of times and costs is the median, which has no noise band. Bands are kept in segments
    in which they say something: that a run left them, or where the newest run lies.
    """
    table = table.assign(system=table["system"].fillna("run").astype("str"))
    if TABLE.describe(str(table["metric"].iloc[0])).is_timed:
        table = table.assign(
            **{name: table[source] for name, source in zip(*LED_BY, strict=True)},
            band_low=np.nan, band_high=np.nan, in_band=None, first_out_of_control=False,
        )  # fmt: skip
    known = table[table["mean"].notna()]
    if not len(known):
        raise DataError("no run has a value", field="table", allowed="a trend with n > 0")
    left = table["first_out_of_control"].astype("bool")
    decides = left.groupby(table["segment"]).transform("any")
    if pd.notna(known["in_band"].iloc[-1]):
        decides |= table["segment"].eq(known["segment"].iloc[-1])
    return table.assign(**{name: table[name].where(decides) for name in ("band_low", "band_high")})


def _with_band(
    table: pd.DataFrame, history: History, known: list[Provenance], baseline: str | None
) -> pd.DataFrame:
    """Add the noise band, and the run that left it.

    It lies around the baseline with its repeats, else around the last group of repeats, in the
    segments that were measured in the same way. Only later runs can leave it. Its width is from
    the repeats of that system, else from all.
    """
    groups = repeat_groups(history)
    systems = history.runs["system"].astype("str").fillna("one system")
    around = groups[-1] if groups else []
    if baseline is not None:
        (name,) = run_names(history.runs.reset_index(), [baseline])
        around = next((group for group in groups if name in group), [name])
    own, home, half, centre, text = table["run_id"].isin(around), set[int](), np.nan, np.nan, ""
    if groups:
        of_system = [one for one in groups if systems[one[0]] == systems[around[0]]] or groups
        text = ", ".join(f"{len(one)} repeats of {systems[one[0]]}" for one in of_system)
        measured = known[table.loc[own, "segment"].iloc[0] - 1]
        home = {at for at, one in enumerate(known, 1) if not contradictions(one, measured)}
        half = noise_half_width(history.means["mean"], of_system, len(around))
        centre = table.loc[own, "mean"].mean()
    least, most = (0, 1) if history.declared.describe(history.metric).is_unit else (-np.inf, np.inf)
    # A band of every value that there is says nothing.
    has_band = table["segment"].isin(home) & (centre - half > least or centre + half < most)
    mean = table["mean"].to_numpy("float64")
    side = np.where(mean > centre + half + SLACK, 1, np.where(mean < centre - half - SLACK, -1, 0))
    is_known = has_band & table["mean"].notna()
    is_later = table["position"] > table.loc[own, "position"].max()
    index = table.index
    return table.assign(
        is_baseline=own & (baseline is not None),
        band_low=pd.Series(max(centre - half, least), index).where(has_band),
        band_high=pd.Series(min(centre + half, most), index).where(has_band),
        band_from=pd.Series(text, index, dtype="str").where(has_band),
        in_band=pd.Series(side == 0, index, dtype="boolean").where(is_known),
        first_out_of_control=first_outside(side, (is_known & is_later).to_numpy()),
    )


SLACK = 1e-12  # a mean beyond a limit by rounding alone is within it
CONSECUTIVE = 2  # runs outside, one after the other, that are out of control


def noise_floor(
    source: RunStore,
    metric: str,
    *,
    repeats: list[str] | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """One row per group of repeats: how far apart runs of one unchanged system are.

    A smaller difference between two runs may be noise.

    Parameters
    ----------
    metric, repeats
        As for `store.trend`.

    Returns
    -------
    `system`, `runs` (their ids), `n_repeats`; `mean` of their means; `sd`, the standard deviation
    of these; `low`, `high`, the limits within which one more run lands with probability
    `confidence`: mean ± t·sd·√(1 + 1/n_repeats). Few repeats estimate their spread badly: t is 12.7
    with two, 4.3 with three, 2.8 with five.

    Raises
    ------
    DataError
        No two runs are repeats of one system.
    """
    history = read_history(source, metric, repeats=repeats)
    rows = []
    for run_ids in repeat_groups(history):
        means = history.means.loc[run_ids, "mean"]
        half = noise_half_width(history.means["mean"], [run_ids], len(run_ids), confidence)
        rows.append({
            "system": history.runs["system"].get(run_ids[0]), "runs": ", ".join(run_ids),
            "n_repeats": len(run_ids), "mean": means.mean(), "sd": means.std(),
            "low": means.mean() - half, "high": means.mean() + half,
        })  # fmt: skip
    if not rows:
        raise DataError(
            "no two runs are repeats of one system",
            field="repeat",
            allowed=(
                "runs of one system and config with another `repeat` each, or repeats=[run ids]"
            ),
        )
    return pd.DataFrame(rows)


def repeat_groups(history: History) -> list[list[str]]:
    """Return the run ids of each group of repeats."""
    group = history.runs["group"]
    return [group.index[group == number].tolist() for number in sorted(set(group) - {-1})]


def noise_half_width(
    means: pd.Series, groups: list[list[str]], n_centre: int, confidence: float = 0.95
) -> float:
    """Return half the width of the noise band around the mean of `n_centre` runs.

    t·sd·√(1 + 1/n_centre), sd pooled over groups of repeats: one more run lands within the band
    with probability `confidence`. NaN without repeats.
    """
    known = [own for own in (means[group].dropna() for group in groups) if len(own) > 1]
    df = sum(len(own) - 1 for own in known)
    if not df:
        return float("nan")
    sd = np.sqrt(sum((len(own) - 1) * own.var() for own in known) / df)
    t = t_quantile(np.array([df], dtype=np.float64), confidence)[0]
    return float(t * sd * np.sqrt(1 + 1 / n_centre))


def first_outside(
    side: npt.NDArray[np.int64], counts: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Flag the first place from which all that count are outside on one side (1 above, -1 below).

    At most one is True, and none for a single run outside: of so many runs, one often is.
    """
    found = np.zeros(len(side), dtype=bool)
    places = np.flatnonzero(counts)
    if len(places) and side[places[-1]] != 0:
        other = np.flatnonzero(side[places] != side[places[-1]])
        first = other[-1] + 1 if len(other) else 0
        found[places[first]] = len(places) - first >= CONSECUTIVE
    return found
