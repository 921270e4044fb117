"""Noise of an unchanged system, from its repeats, and the control limits it gives a trend.

In: scores of runs that differ in their `repeat` alone. Out: the spread of their means, and the
columns of the trend's frame that show the noise band.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.comparison.align import query_matrix
from ragscore.analysis.trend.history import History, read_history
from ragscore.frames.data import DataError, Results, run_names
from ragscore.frames.typing import Values
from ragscore.stats.moments import t_quantile
from ragscore.store.store import RunStore

SLACK = 1e-12  # a mean beyond a limit by rounding alone is within it
CONSECUTIVE = 2  # runs outside, one after the other, that are out of control


def noise_floor(
    source: RunStore | pd.DataFrame,
    metric: str,
    *,
    results: Results | None = None,
    repeats: list[str] | None = None,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """One row per group of repeats: how far apart runs of one unchanged system are.

    A smaller difference between two runs may be noise.

    Parameters
    ----------
    source, results, repeats
        As for `store.trend`.

    Returns
    -------
    `system`, `runs` (their ids), `n_repeats`; `n`, the queries with a value in each of them, and
    `n_left_out`, those with a value in some; `mean`; `sd`, the standard deviation of the repeats'
    means (`df` = n_repeats − 1); `low`, `high`, the limits within which one more run lands with
    probability `confidence`: mean ± t·sd·√(1 + 1/n_repeats); `flip_rate`, the share of queries
    on which two repeats differ. Few repeats estimate their spread badly: t is 12.7 with two, 4.3
    with three, 2.8 with five.

    Raises
    ------
    DataError
        No two runs are repeats of one system; no query has a value in all of them.
    """
    history = read_history(source, metric, results=results, repeats=repeats)
    rows = [_noise_row(history, run_ids, confidence) for run_ids in repeat_groups(history)]
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
    history: History, groups: list[list[str]], n_centre: int, confidence: float = 0.95
) -> float:
    """Return half the width of the noise band around the mean of `n_centre` runs.

    t·sd·√(1 + 1/n_centre), sd pooled over groups of repeats: one more run lands within the band
    with probability `confidence`. NaN without repeats.
    """
    tables = [_complete_values(history, group)[0].to_numpy() for group in groups]
    means = [table.mean(axis=0) for table in tables if len(table)]
    df = sum(len(found) - 1 for found in means)
    if not df:
        return float("nan")
    sd = np.sqrt(sum((len(found) - 1) * found.var(ddof=1) for found in means) / df)
    t = t_quantile(np.array([df], dtype=np.float64), confidence)[0]
    return float(t * sd * np.sqrt(1 + 1 / n_centre))


def _complete_values(history: History, run_ids: list[str]) -> tuple[pd.DataFrame, int]:
    """Return values, queries × repeats, of complete queries, and the number of incomplete ones.

    A complete query has a value in every repeat, an incomplete one in some.
    """
    table = query_matrix(history.scores_of(run_ids), history.metric, run_ids).sort_index()
    complete = table.dropna()
    return complete, int(table.notna().any(axis=1).sum()) - len(complete)


def _noise_row(history: History, run_ids: list[str], confidence: float) -> dict[str, object]:
    """One row of `noise_floor`."""
    table, n_left_out = _complete_values(history, run_ids)
    if not len(table):
        raise DataError(
            f"no query has a value of {history.metric} in all of {', '.join(run_ids)}",
            field="metric",
            allowed="a metric that applies",
        )
    means = table.to_numpy().mean(axis=0)
    mean, n_repeats = means.mean(), len(means)
    half = noise_half_width(history, [run_ids], n_repeats, confidence)
    are_unlike = [table[one].ne(table[other]) for one, other in combinations(table, 2)]
    return {
        "system": history.runs["system"].get(run_ids[0]),
        "runs": ", ".join(run_ids),
        "n_repeats": n_repeats,
        "n": len(table),
        "n_left_out": n_left_out,
        "mean": mean,
        "sd": float(means.std(ddof=1)),
        "df": n_repeats - 1,
        "low": mean - half,
        "high": mean + half,
        "flip_rate": float(np.mean(are_unlike)),
    }


@dataclass(frozen=True)
class Reference:
    """The runs around which the noise band lies, and the repeats that give its width.

    Attributes
    ----------
    run_ids
        The baseline, with its repeats; without a baseline the last group of repeats; empty if there
        is neither.
    is_baseline
        True if a baseline was named.
    groups
        The repeats that give the width: those of the reference's system, else all.
    description
        The number of repeats and their system, in words.
    """

    run_ids: tuple[str, ...]
    is_baseline: bool
    groups: list[list[str]]
    description: str


def find_reference(history: History, baseline: str | None) -> Reference:
    """Return the reference of a history; see `store.trend`."""
    groups, systems = repeat_groups(history), history.runs["system"].astype(object)
    if baseline is not None:
        (name,) = run_names(history.runs.reset_index(), [baseline])
        run_ids = next((group for group in groups if name in group), [name])
    else:
        run_ids = groups[-1] if groups else []
    own = [
        group for group in groups if run_ids and str(systems[group[0]]) == str(systems[run_ids[0]])
    ]
    texts = []
    for group in own or groups:
        system = systems[group[0]]
        texts.append(f"{len(group)} repeats" + (f" of {system}" if pd.notna(system) else ""))
    return Reference(tuple(run_ids), baseline is not None, own or groups, ", ".join(texts))


def band_columns(
    rows: pd.DataFrame, reference: Reference, centre: Values, half: float, is_unit: bool
) -> pd.DataFrame:
    """Return the columns of the noise band for one slice's rows, which are in order.

    band_low, band_high, band_from, in_band, first_out_of_control; NaN and NA without a band.
    """
    low, high = centre - half, centre + half
    mean = rows["mean"].to_numpy("float64")
    side = np.where(mean > high + SLACK, 1, np.where(mean < low - SLACK, -1, 0))
    has_band = ~np.isnan(low)
    is_known = has_band & ~np.isnan(mean)
    # the reference defines the band: only later runs can leave it
    last = rows.loc[rows["run_id"].isin(reference.run_ids), "position"].max()
    is_later = (rows["position"] > last).to_numpy()
    source = pd.Series(reference.description, index=rows.index, dtype="str")
    in_band = pd.Series(side == 0, index=rows.index, dtype="boolean")
    return pd.DataFrame(
        {
            "band_low": np.maximum(low, 0) if is_unit else low,
            "band_high": np.minimum(high, 1) if is_unit else high,
            "band_from": source.where(has_band),
            "in_band": in_band.where(is_known),
            "first_out_of_control": first_outside(side, is_known & is_later),
        },
        index=rows.index,
    )


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
