"""Noise of an unchanged system, from its repeats, and the band it gives a trend.

In: means of runs that differ in their `repeat` alone. Out: the spread of their means, and where one
more run lands.
"""

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.analysis.trend.history import History, read_history
from ragscore.frames.data import DataError
from ragscore.stats.moments import t_quantile
from ragscore.store.store import RunStore

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
