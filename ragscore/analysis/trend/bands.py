"""Control limits from repeats.

Which runs the band lies around, where its edges are, and where a line left it for good.

In: a history and means over runs. Out: columns of the trend's frame.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.trend.history import History
from ragscore.analysis.trend.noise import groups_of
from ragscore.frames.data import run_names

SLACK = 1e-12  # the last bit of a mean is not outside


@dataclass(frozen=True)
class Reference:
    """What the band lies around, and the repeats that its width is from.

    Attributes
    ----------
    run_ids
        The baseline, with its repeats; without a baseline the last group of repeats; empty if there
        is neither.
    is_baseline
        Whether a baseline was named.
    groups
        The repeats that say how wide the band is: those of the reference's system, else all.
    """

    run_ids: tuple[str, ...]
    is_baseline: bool
    groups: list[list[str]]
    said: str


def reference_of(found: History, baseline: str | None) -> Reference:
    """The reference of a history; see `rs.trend`."""
    groups, systems = groups_of(found), found.runs["system"].astype(object)
    if baseline is not None:
        (name,) = run_names(found.runs.reset_index(), [baseline])
        run_ids = next((group for group in groups if name in group), [name])
    else:
        run_ids = groups[-1] if groups else []
    own = [
        group for group in groups if run_ids and str(systems[group[0]]) == str(systems[run_ids[0]])
    ] or groups
    said = ", ".join(
        f"{len(group)} repeats"
        + (f" of {systems[group[0]]}" if pd.notna(systems[group[0]]) else "")
        for group in own
    )
    return Reference(tuple(run_ids), baseline is not None, own, said)


def band_columns(
    rows: pd.DataFrame,
    reference: Reference,
    centre: npt.NDArray[np.float64],
    half: float,
    is_unit: bool,
) -> pd.DataFrame:
    """band_low, band_high, band_from, in_band and left_band of one slice's rows, which are in order; NaN and NA where there is no band."""
    low, high = centre - half, centre + half
    mean = rows["mean"].to_numpy("float64")
    side = np.where(mean > high + SLACK, 1, np.where(mean < low - SLACK, -1, 0))
    is_known = ~np.isnan(low) & ~np.isnan(mean)
    last = rows.loc[rows["run_id"].isin(reference.run_ids), "position"].max()
    in_band = pd.Series(side == 0, index=rows.index, dtype="boolean").mask(~is_known)
    return pd.DataFrame(
        {
            "band_low": np.maximum(low, 0) if is_unit else low,
            "band_high": np.minimum(high, 1) if is_unit else high,
            "band_from": pd.Series(reference.said, index=rows.index,
            dtype="str").mask(np.isnan(low)),
            "in_band": in_band,
            "left_band": first_outside(side, is_known & (rows["position"] > last).to_numpy()),
        },
        index=rows.index,
    )  # fmt: skip


def first_outside(
    side: npt.NDArray[np.int64], counts: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """The first place from which all that count are outside on one side (1 above, -1 below).

    At most one is True.
    """
    found = np.zeros(len(side), dtype=bool)
    places = np.flatnonzero(counts)
    if len(places) and side[places[-1]] != 0:
        other = np.flatnonzero(side[places] != side[places[-1]])
        found[places[other[-1] + 1 if len(other) else 0]] = True
    return found
