"""Paired differences between two runs, metric by metric.

In: two frames of scores on the same queries. Out: one row per metric with means, intervals, tests,
the minimum detectable difference and a verdict. Every table of differences is computed here.
"""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, check_type
from ragscore.frames.errors import excerpt, nearest
from ragscore.frames.typing import Values
from ragscore.scoring.intervals import BY_QUANTILES, bounds_of, kind_of, shared_only
from ragscore.scoring.metrics import Metric, describe, is_better
from ragscore.stats import (
    ALPHA,
    Together,
    Verdict,
    inflation,
    interval_of_differences,
    is_heavy_tailed,
    joint_test,
    mcnemar_p,
    mde_of_differences,
    median_interval,
    median_verdict,
    paired_p,
    quantile_difference_interval,
    skewness,
    verdict,
)
from ragscore.stats.intervals import interval_for_margin
from ragscore.stats.moments import means

Groups = npt.NDArray[np.int64]
FEW_MOVES = 25  # moved queries: below, the exact p stands beside mid-p, and both must agree
SAME = 1e-9  # scores closer than this are equal but for rounding


def paired_deltas(
    first: pd.DataFrame,
    second: pd.DataFrame,
    lost: pd.DataFrame,
    *,
    groups: Groups | None = None,
    margins: dict[str, float] | None = None,
    ties: dict[str, float] | None = None,
    together: Together | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """One row per metric: the table `Comparison.deltas`.

    Parameters
    ----------
    first, second
        Scores of baseline and candidate: one row per query both were asked (same index), one column
        per metric label.
    lost
        Values of the baseline for queries that the candidate failed on or was not asked, same
        columns; a lost query never improves a mean.
    groups
        Number of each query's group (paraphrases, source, conversation), -1: none. Groups count as
        one observation in tests.
    margins
        Label -> largest loss that doesn't matter.
    ties
        Label -> largest difference of a query that counts as the same.
    together
        The joint test of these metrics (`jointly_tested`): verdicts then go by its p, in the
        column `p_adjusted`. None: each metric stands alone; a caller that shows several corrects
        them.
    """
    names = list(first.columns)
    metrics = [describe(name) for name in names]
    widths = np.array([(ties or {}).get(name, 0.0) + SAME for name in names])
    table = paired_means(first, second, widths)
    values = first.to_numpy("float64"), second.to_numpy("float64")
    differences = values[1] - values[0]
    mean, n = table["delta"].to_numpy(), table["n"].to_numpy("float64")
    n_moved = (table["n_better"] + table["n_worse"]).to_numpy()
    with np.errstate(invalid="ignore", divide="ignore"):
        percent = np.where(table["baseline"] != 0, 100 * mean / table["baseline"], np.nan)
        share_moved = n_moved / n
    improved = [is_better(name, float(delta)) for name, delta in zip(names, mean, strict=True)]
    margins = margins or {}
    inference = _inference(differences, metrics, groups, seed, together)
    inference["p_exact"] = _exact(table, differences, metrics, groups)
    if together is not None:  # a correction never makes p smaller than it is alone
        alone = decisive_p(inference["p"], inference["p_exact"])
        inference["p_adjusted"] = np.fmax(together.p[: len(names)], alone)
    table = pd.DataFrame(
        {
            **table[["metric", "baseline", "candidate", "delta"]],
            "delta_pct": percent,
            **inference,
            "margin": [float(margins.get(name, np.nan)) for name in names],
            "better": pd.array(improved, dtype="boolean"),
            **table[["n_better", "n_worse", "n_same", "n"]],
            "n_expected_by_chance": n * share_moved / 2,
            "skewness": skewness(differences),
            **_medians(*values, differences),
            **_lost(lost.to_numpy("float64"), mean, n, metrics),
        }
    )
    held = _held(names, differences, groups, margins)
    verdicts = [
        row_verdict(row, margins.get(row["metric"]), held.get(row["metric"]))
        for row in table.to_dict("records")
    ]
    # An infinite difference is detectable by nobody: to a reader, and to JSON, it is unknown.
    return table.assign(
        mde=table["mde"].where(np.isfinite(table["mde"])),
        verdict=[found.word for found in verdicts],
        sentence=[found.sentence for found in verdicts],
    )


def paired_means(first: pd.DataFrame, second: pd.DataFrame, widths: Values) -> pd.DataFrame:
    """One row per metric: means over the queries with both values, and how many queries changed.

    Parameters
    ----------
    first, second
        As for `paired_deltas`.
    widths
        Largest difference of a query that counts as the same, one per metric.

    Returns
    -------
    `metric`, means `baseline` and `candidate`, `delta` = mean of candidate − baseline; `n_better`,
    `n_worse` (as the metric counts better), `n_same`, and `n`, their sum. Means are NaN where n is
    0.
    """
    values = first.to_numpy("float64"), second.to_numpy("float64")
    differences = values[1] - values[0]
    is_paired = ~np.isnan(differences)
    mean_of_first, mean_of_second = (means(np.where(is_paired, side, np.nan))[0] for side in values)
    n = is_paired.sum(axis=0)
    up, down = (differences > widths).sum(axis=0), (differences < -widths).sum(axis=0)
    is_lower = np.array([describe(name).better == "lower" for name in first.columns], dtype=bool)
    return pd.DataFrame(
        {
            "metric": list(first.columns),
            "baseline": mean_of_first,
            "candidate": mean_of_second,
            "delta": means(differences)[0],
            "n_better": np.where(is_lower, down, up),
            "n_worse": np.where(is_lower, up, down),
            "n_same": n - up - down,
            "n": n,
        }
    )


def tail_columns(first: pd.DataFrame, second: pd.DataFrame) -> pd.DataFrame:
    """One row per metric: 95th percentiles of times and costs, on the queries that both runs have.

    `p95_baseline`, `p95_candidate`, and `p95_delta` with its interval `p95_low`, `p95_high` by
    paired bootstrap. NaN for other metrics. The interval is NaN below 72 queries: resamples can't
    reach beyond the values seen.
    """
    names = ["p95_baseline", "p95_candidate", "p95_delta", "p95_low", "p95_high"]
    table = pd.DataFrame(np.nan, index=range(first.shape[1]), columns=names)
    for place, name in enumerate(first.columns):
        if describe(name).kind in BY_QUANTILES:
            a, b = first[name].to_numpy("float64"), second[name].to_numpy("float64")
            known = ~np.isnan(a) & ~np.isnan(b)
            of_a, of_b = (
                float(np.quantile(side[known], 0.95)) if known.any() else np.nan for side in (a, b)
            )
            table.loc[place] = [of_a, of_b, of_b - of_a, *quantile_difference_interval(a, b, 0.95)]
    return table


def row_verdict(
    row: dict[Any, Any],
    margin: float | None = None,
    held: tuple[float, float] | None = None,
) -> Verdict:
    """Return the verdict on one row of `paired_deltas`.

    Times and costs go by the interval of the median difference, all else by that of the mean. It
    goes by `p_adjusted` where the row has it, else by p. Where few queries moved, `p_exact` must
    agree.

    Parameters
    ----------
    held
        The interval that the margin is held against; by default that of the difference.
    """
    metric = describe(row["metric"])
    part = "p50_" if metric.kind in BY_QUANTILES else ""
    delta, low, high, n = (
        float(row[name]) for name in (f"{part}delta", f"{part}low", f"{part}high", "n")
    )
    if part:
        adjusted = float(row.get("p_adjusted", np.nan))
        return median_verdict(
            delta, low, high, n, margin=margin, better=metric.better, p=adjusted, held=held
        )
    alone = decisive_p(row["p"], row["p_exact"])
    p = float(row["p_adjusted"]) if "p_adjusted" in row else float(alone)
    return verdict(
        delta, low, high, p, float(row["mde"]), n, margin=margin, better=metric.better,
        caution=bool(row["caution"]), p_alone=float(row["p"]), held=held,
    )  # fmt: skip


def decisive_p(p: Any, p_exact: Any) -> Any:
    """Return the larger of p and the exact p, where there is one: both must be small."""
    return np.fmax(np.where(np.isnan(p), np.nan, p), np.where(np.isnan(p), np.nan, p_exact))


def jointly_tested(
    first: pd.DataFrame,
    second: pd.DataFrame,
    primary: Collection[str],
    *,
    groups: Groups | None = None,
    also: pd.DataFrame | None = None,
    seed: int = 0,
) -> Together:
    """Test all metrics of two runs at once: means, and medians of times and costs.

    Parameters
    ----------
    first, second, groups
        As for `paired_deltas`.
    primary
        The metrics that decide; they are tested first.
    also
        Differences that are tested along with the other metrics, such as flips: same index.

    Returns
    -------
    `Together`, one value per metric, then one per column of `also`.
    """
    differences = second.to_numpy("float64") - first.to_numpy("float64")
    is_timed = [describe(name).kind in BY_QUANTILES for name in first.columns]
    # The sign test is a sign flip of signs: times are tested by their median.
    differences[:, is_timed] = np.sign(differences[:, is_timed])
    is_primary = [name in primary for name in first.columns]
    if also is not None:
        differences = np.column_stack([differences, also.to_numpy("float64")])
        is_primary += [False] * also.shape[1]
    return joint_test(differences, is_primary, groups=groups, seed=seed)


def check_margins(margins: dict[str, float], field: str, names: list[str]) -> None:
    """Refuse a margin below 0, or of a metric that isn't compared: it would go unnoticed.

    Raises
    ------
    DataError
        The first such margin.
    """
    check_type(margins, Mapping, field, "metric -> number, such as {'mrr@10': 0.02}")
    for name, margin in margins.items():
        if name not in names:
            raise DataError(
                f"found {excerpt(name)}",
                field=field,
                allowed=nearest(name, names, "metrics that are compared:"),
            )
        if not margin >= 0:
            raise DataError(f"{name}: found {margin!r}", field=field, allowed="0 or more")


def _inference(
    differences: Values,
    metrics: list[Metric],
    groups: Groups | None,
    seed: int,
    together: Together | None,
) -> dict[str, npt.NDArray[np.generic]]:
    """Return interval, p, minimum detectable difference and caution of every column.

    Columns whose metrics have one kind, range and level of their test are computed together.
    """
    level = np.full(len(metrics), ALPHA) if together is None else together.level[: len(metrics)]
    low, high, p, mde, caution = (np.full(len(metrics), np.nan) for _ in range(5))
    families: dict[tuple[str, tuple[float, float], bool, float], list[int]] = {}
    for place, metric in enumerate(metrics):
        known = None if groups is None else groups[~np.isnan(differences[:, place])]
        is_grouped = shared_only(known) is not None
        # Rounded, so that levels which differ by chance alone share a table of exact powers.
        own = ALPHA if np.isnan(level[place]) else float(f"{level[place]:.2g}")
        family = kind_of(metric), bounds_of(metric), is_grouped, own
        families.setdefault(family, []).append(place)
    for (kind, bounds, is_grouped, own), places in families.items():
        part, codes = differences[:, places], groups if is_grouped else None
        width = bounds[1] - bounds[0]
        low[places], high[places] = interval_of_differences(part, kind, bounds=bounds, groups=codes)
        caution[places] = is_heavy_tailed(part, width if np.isfinite(width) else np.inf)
        if kind not in BY_QUANTILES:
            p[places] = paired_p(part, kind, groups=codes, seed=seed)
            found = mde_of_differences(
                part, kind, design_effect=inflation(part, codes), confidence=1 - own
            )
            mde[places] = np.where(found > width, np.inf, found)  # no difference is that large
    return {"low": low, "high": high, "p": p, "mde": mde, "caution": caution == 1}


def _exact(
    moves: pd.DataFrame, differences: Values, metrics: list[Metric], groups: Groups | None
) -> Values:
    """Return the exact p of McNemar's test where fewer than 25 queries of a 0/1 metric moved."""
    wins, losses = moves["n_better"].to_numpy("float64"), moves["n_worse"].to_numpy("float64")
    is_whole = (np.isnan(differences) | np.isin(differences, (-1, 0, 1))).all(axis=0)
    is_few = (wins + losses < FEW_MOVES) & (moves["n"].to_numpy() > 0)
    has = np.array([metric.kind == "binary" for metric in metrics], dtype=bool) & is_whole & is_few
    if groups is not None:
        for place in np.flatnonzero(has):
            has[place] = shared_only(groups[~np.isnan(differences[:, place])]) is None
    return np.where(has, mcnemar_p(wins, losses, is_exact=True), np.nan)


def _held(
    names: list[str], differences: Values, groups: Groups | None, margins: dict[str, float]
) -> dict[str, tuple[float, float]]:
    """Return the intervals that margins are held against, each as wide as all of them need."""
    held: dict[str, tuple[float, float]] = {}
    confidence = 1 - ALPHA / max(len(margins), 1)
    for place, name in enumerate(names):
        if name not in margins:
            continue
        metric, values = describe(name), differences[:, [place]]
        if metric.kind in BY_QUANTILES:
            held[name] = median_interval(values[:, 0], confidence)
            continue
        known = None if groups is None else groups[~np.isnan(values[:, 0])]
        low, high = interval_for_margin(
            values,
            kind_of(metric),
            bounds=bounds_of(metric),
            groups=None if shared_only(known) is None else groups,
            confidence=confidence,
        )
        held[name] = float(low[0]), float(high[0])
    return held


def _medians(first: Values, second: Values, differences: Values) -> dict[str, Values]:
    """Return medians of both runs, of the differences with their interval, and the ratio.

    The ratio is the geometric mean of candidate / baseline where both are positive.
    """
    is_paired = ~np.isnan(differences)
    of_first, of_second, of_differences = (
        np.array(
            [
                np.median(column[known], overwrite_input=True) if known.any() else np.nan
                for column, known in zip(columns.T, is_paired.T, strict=True)
            ]
        )
        for columns in (first, second, differences)
    )
    intervals = np.array([median_interval(column) for column in differences.T]).reshape(-1, 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = np.where((first > 0) & (second > 0), np.log(second / first), np.nan)
        ratio = np.exp(means(logs)[0])
    return {
        "p50_baseline": of_first,
        "p50_candidate": of_second,
        "p50_delta": of_differences,
        "p50_low": intervals[:, 0],
        "p50_high": intervals[:, 1],
        "ratio": ratio,
    }


def _lost(
    lost: Values, mean: Values, n: Values, metrics: list[Metric]
) -> dict[str, npt.NDArray[np.generic]]:
    """Return `n_lost` and `delta_worst`.

    That is the mean difference if the candidate had the worst value where values are lost.
    `delta_worst` is NaN where values are lost and the metric has no worst value (times, costs).
    """
    mean_lost, n_lost = means(lost)
    total = np.where(n_lost > 0, mean_lost, 0.0) * n_lost
    worst = np.array(
        [bounds_of(metric)[1 if metric.better == "lower" else 0] for metric in metrics]
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        at_worst = (np.where(n > 0, mean * n, 0.0) + worst * n_lost - total) / (n + n_lost)
    at_worst = np.where(np.isfinite(worst), at_worst, np.nan)
    return {
        "n_lost": n_lost.astype(np.int64),
        "delta_worst": np.where(n_lost == 0, mean, at_worst),
    }
