"""What changed between two runs, metric by metric.

Means, paired intervals, tests, and what so many queries can show.

In: two frames of scores on the same queries. Out: one row per metric. Everything that is said about
a difference is said here.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError
from ragscore.scoring.intervals import BY_QUANTILES, kind_of, shared_only
from ragscore.scoring.intervals import bounds_of as bounds_of
from ragscore.scoring.intervals import query_clusters as query_clusters
from ragscore.scoring.metrics import Metric, describe, is_better
from ragscore.stats import (
    Verdict,
    count_moves,
    inflation,
    interval_of_differences,
    is_heavy_tailed,
    mde_of_differences,
    median_interval,
    median_verdict,
    moments,
    moves_by_noise,
    paired_p,
    quantile_difference_interval,
    skewness,
    verdict,
)  # fmt: skip

Values = npt.NDArray[np.float64]
SAME = 1e-9  # scores closer than this are the same
UNTESTED = BY_QUANTILES  # told by medians and ratios


def paired_deltas(
    first: pd.DataFrame, second: pd.DataFrame, lost: pd.DataFrame, *,
    groups: npt.NDArray[np.int64] | None = None, margins: dict[str, float] | None = None,
    ties: dict[str, float] | None = None, seed: int = 0,
) -> pd.DataFrame:  # fmt: skip
    """The table `Comparison.deltas`.

    Parameters
    ----------
    first, second
        Scores of runs a and b: one row per query both were asked (same index), one column per
        metric label.
    lost
        Values of a for queries that b failed on or was not asked, same columns; a lost query never
        improves a mean.
    groups
        Number of each query's group (paraphrases, source, conversation), -1: none. Groups count as
        one observation in tests.
    margins
        Label -> largest loss that doesn't matter.
    ties
        Label -> largest difference of a query that counts as the same.
    """
    names = list(first.columns)
    differences = second.to_numpy("float64") - first.to_numpy("float64")
    about = [describe(name) for name in names]
    mean, _, n = moments(differences)
    known = ~np.isnan(differences)
    mean_a, mean_b = (
        moments(np.where(known, side.to_numpy("float64"), np.nan))[0] for side in (first, second)
    )
    widths = np.array([(ties or {}).get(name, 0.0) + SAME for name in names])
    up, down, same = (moved.astype(np.int64) for moved in count_moves(differences / widths, 1.0))
    is_lower = np.array([metric.better == "lower" for metric in about], dtype=bool)
    with np.errstate(invalid="ignore", divide="ignore"):
        percent = np.where(mean_a != 0, 100 * mean / mean_a, np.nan)
    table = pd.DataFrame({
        "metric": names, "a": mean_a, "b": mean_b, "delta": mean, "delta_pct": percent,
        **_inference(differences, about, groups, seed),
        "better": pd.array([is_better(name, float(d)) for name, d in zip(names, mean, strict=True)],
        dtype="boolean"),
        "n_better": np.where(is_lower, down, up), "n_worse": np.where(is_lower, up, down),
        "n_same": same, "n": n.astype(np.int64),
        "n_by_noise": [moves_by_noise(size, moved / size if size else np.nan)[0] for size,
        moved in zip(n, up + down, strict=True)],
        "skewness": skewness(differences),
        **_medians(first.to_numpy("float64"), second.to_numpy("float64"), differences),
        **_lost(lost, mean, n, about),
    })  # fmt: skip
    verdicts = [
        row_verdict(row, (margins or {}).get(row["metric"])) for row in table.to_dict("records")
    ]
    # No difference is detectable where none can be named: infinite and unknown are one to a reader,
    # and to JSON.
    return table.assign(
        mde=table["mde"].where(np.isfinite(table["mde"])),
        verdict=[one.word for one in verdicts],
        sentence=[one.sentence for one in verdicts],
    )


def check_margins(margins: dict[str, float], field: str, names: list[str]) -> None:
    """Refuse a margin of a metric that isn't there, or one below 0.

    It would be left out without a word.

    Raises
    ------
    DataError
        The first such margin.
    """
    for name, margin in margins.items():
        if name not in names:
            raise DataError(
                f"found {name!r}",
                field=field,
                allowed=f"metrics that are compared: {', '.join(names)}",
            )
        if not margin >= 0:
            raise DataError(f"{name}: found {margin!r}", field=field, allowed="0 or more")


def _inference(
    differences: Values, metrics: list[Metric], groups: npt.NDArray[np.int64] | None, seed: int
) -> dict[str, npt.NDArray[np.generic]]:
    """Interval, p, minimum detectable difference and caution of every column, by kind and range of its metric."""
    size = differences.shape[1]
    low, high, p, mde, caution = (np.full(size, np.nan) for _ in range(5))
    families: dict[tuple[str, tuple[float, float], bool], list[int]] = {}
    for place, metric in enumerate(metrics):
        known = None if groups is None else groups[~np.isnan(differences[:, place])]
        families.setdefault(
            (kind_of(metric), bounds_of(metric), shared_only(known) is not None), []
        ).append(place)
    for (kind, bounds, is_grouped), places in families.items():
        part, together = differences[:, places], groups if is_grouped else None
        width = bounds[1] - bounds[0]
        low[places], high[places] = interval_of_differences(
            part, kind, bounds=bounds, groups=together
        )
        caution[places] = is_heavy_tailed(part, width if np.isfinite(width) else np.inf)
        if kind not in UNTESTED:
            p[places] = paired_p(part, kind, groups=together, seed=seed)
            mde[places] = mde_of_differences(part, kind, design_effect=inflation(part, together))
    return {"low": low, "high": high, "p": p, "mde": mde, "caution": caution == 1}


def _medians(first: Values, second: Values, differences: Values) -> dict[str, Values]:
    """Medians of both runs and of the differences with its interval.

    Of positive values also b / a as a geometric mean.
    """
    known = ~np.isnan(differences)
    sides = [np.where(known, side, np.nan) for side in (first, second)]
    intervals = np.array([median_interval(column) for column in differences.T]).reshape(-1, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where((first > 0) & (second > 0), np.log(second / first), np.nan)
        columns = {
            "p50_a": _median(sides[0]),
            "p50_b": _median(sides[1]),
            "p50_delta": _median(differences),
        }
        return columns | {
            "p50_low": intervals[:, 0],
            "p50_high": intervals[:, 1],
            "ratio": np.exp(moments(logs)[0]),
        }


def _median(columns: Values) -> Values:
    return pd.DataFrame(columns).median().to_numpy(dtype="float64")


def tail_columns(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """95th percentiles of times and costs, on the queries that both runs have.

    `p95_a`, `p95_b`, `p95_delta` with its interval by paired bootstrap.

    One row per column of the scores; NaN for other metrics, and the interval below 72 queries: no
    sample of fewer says how large a p95 may be.
    """
    names = ["p95_a", "p95_b", "p95_delta", "p95_low", "p95_high"]
    table = pd.DataFrame(np.nan, index=range(first.shape[1]), columns=names)
    for place, name in enumerate(first.columns):
        if describe(name).kind in UNTESTED:
            a, b = first[name].to_numpy("float64"), second[name].to_numpy("float64")
            known = ~np.isnan(a) & ~np.isnan(b)
            of_a, of_b = (
                float(np.quantile(side[known], 0.95)) if known.any() else np.nan for side in (a, b)
            )
            table.loc[place] = [of_a, of_b, of_b - of_a, *quantile_difference_interval(a, b, 0.95)]
    return table


def _lost(
    lost: pd.DataFrame, mean: Values, n: Values, metrics: list[Metric]
) -> dict[str, npt.NDArray[np.generic]]:
    """How many values of a have none in b, because b failed or wasn't asked, and the mean difference if b had the worst value there.

    NaN where there are such queries and the metric has no worst value.
    """
    values = lost.to_numpy("float64")
    total, _, n_lost = moments(values)
    total = np.where(n_lost > 0, total, 0.0) * n_lost
    worst = np.array(
        [bounds_of(metric)[1 if metric.better == "lower" else 0] for metric in metrics]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        at_worst = (np.where(n > 0, mean * n, 0.0) + worst * n_lost - total) / (n + n_lost)
    return {
        "n_lost": n_lost.astype(np.int64),
        "delta_worst": np.where(n_lost == 0, mean, np.where(np.isfinite(worst), at_worst, np.nan)),
    }


def row_verdict(row: dict[Any, Any], margin: float | None = None) -> Verdict:
    """What a row of `paired_deltas` allows to say.

    Times and costs go by the interval of the median difference.
    """
    metric = describe(row["metric"])
    numbers = {
        name: float(value)
        for name, value in row.items()
        if isinstance(value, (int, float, np.number))
    }
    if metric.kind not in UNTESTED:
        return verdict(
            numbers["delta"], numbers["low"], numbers["high"], numbers["p"], numbers["mde"],
            numbers["n"],
            margin=margin, better=metric.better, caution=bool(row["caution"]),
        )  # fmt: skip
    return median_verdict(
        numbers["p50_delta"],
        numbers["p50_low"],
        numbers["p50_high"],
        numbers["n"],
        margin=margin,
        better=metric.better,
    )
