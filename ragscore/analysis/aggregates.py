"""Aggregates of runs as other harnesses write them: numbers to the bit, ready for JSON."""

import math
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results
from ragscore.frames.errors import excerpt, unsaid
from ragscore.scoring.readings import HARNESSES, Harness, Reading, find_reading, k_of_runs
from ragscore.scoring.score import score


def aggregate(
    results: Results, golden: Golden, profile: str | Reading, harness: Harness | None = None
) -> dict[str, dict[str, Any]]:
    """Aggregate each run as a harness writes it: run_id -> a dict, as `ev.save` writes.

    `harness` is the profile's by default.
    """
    harness, reading = harness or harness_of(profile), find_reading(profile)
    ks = k_of_runs(results.runs, harness.default_k)
    return {
        run_id: aggregate_rows(rows, harness, ks[run_id])
        for run_id, rows in rows_by_run(results, golden, reading, harness).items()
    }


def harness_of(profile: str | Reading | None) -> Harness:
    """Return what the harness of a reading writes; a reading of another name has none."""
    name = find_reading(profile).name
    if name not in HARNESSES:
        raise DataError(
            f"no harness is called {excerpt(name)}" if name else "no profile given",
            field="profile", allowed=f"a reading of the name {', '.join(HARNESSES)}",
        )  # fmt: skip
    return HARNESSES[name]


def rows_by_run(
    results: Results, golden: Golden, reading: Reading, harness: Harness
) -> dict[str, pd.DataFrame]:
    """Return the rows of scores per run that a harness counts, missing ones only if it does."""
    labels = harness.labels(dict.fromkeys(k_of_runs(results.runs, harness.default_k).values()))
    with unsaid("golden queries without a row"):  # what the harness counts, it says itself
        scores = score(results, golden, [*labels, "failed"], profile=reading)
    counts_missing = reading.policies.get("missing") == "zero"
    return {
        str(run_id): rows if counts_missing else rows[rows["state"] != "missing"]
        for run_id, rows in scores.groupby("run_id", observed=False)
    }


def aggregate_rows(rows: pd.DataFrame, harness: Harness, run_k: int | None) -> dict[str, Any]:
    """Return the aggregate of these rows of one run."""
    found: dict[str, Any] = {}
    for key, text in harness.keys.items():
        cuts = {f"{key}.{k}": k for k in harness.ks} if "{k}" in text else {key: 0}
        for name, k in cuts.items():
            value = _value(rows, key, harness.at(text, run_k, k), harness)
            if value is not None or key not in harness.omitted:
                set_nested(found, name, value)
    counts = {
        "rows": len(rows),
        "asked": int(rows["state"].ne("extra").sum()),
        "failed": int(rows["failed"].sum()),
    }
    for key, counted in harness.totals.items():
        set_nested(found, key, counts[counted])
    return found


def _value(rows: pd.DataFrame, key: str, expression: str, harness: Harness) -> float | None:
    """Return a statistic of a column: its mean for `label`, or such as `p50(label)`."""
    head, _, inner = expression.partition("(")
    statistic, label = (head, inner.removesuffix(")")) if inner else ("mean", head)
    values = rows[label].to_numpy("float64")
    if key in harness.over_all:
        values = np.nan_to_num(values[rows["state"].ne("extra").to_numpy()])
    else:
        values = values[~np.isnan(values)]
    if not len(values):
        return 0.0 if key in harness.zero else None
    if statistic in ("mean", "sum"):
        # exact sums: the order of queries changes no bit, and so no decimal that is rounded
        found = math.fsum(values) / (len(values) if statistic == "mean" else 1)
    else:
        share = int(statistic[1:]) / 100
        at = min(int(share * len(values)), len(values) - 1)
        found = float(np.sort(values)[at] if harness.floors else np.quantile(values, share))
    return round_half_away(found, harness.decimals_of.get(key, harness.decimals))


def round_half_away(value: float, decimals: int | None) -> float:
    """Round half away from zero (Python's own rounds half to even); None leaves the value."""
    if decimals is None or np.isnan(value):
        return value
    return float(np.copysign(np.floor(abs(value) * 10**decimals + 0.5) / 10**decimals, value))


def set_nested(found: dict[str, Any], key: str, value: Any) -> None:
    """Set a value at a dotted key."""
    *parents, leaf = key.split(".")
    for parent in parents:
        found = found.setdefault(parent, {})
    found[leaf] = value
