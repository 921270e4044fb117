"""Each run's aggregate as another harness writes it.

What `profiles` says, worked out from the scores.

In: `Results`, `Golden` and a profile. Out: plain dicts, ready for JSON.
"""

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_inputs
from ragscore.scoring.profiles import DEFAULT_K, Profile, find_profile
from ragscore.scoring.score import score

Values = npt.NDArray[np.float64]


def aggregate(
    results: Results, golden: Golden, profile: str | Profile
) -> dict[str, dict[str, Any]]:
    """Aggregate each run as a profile's harness writes it.

    Returns
    -------
    {run_id: its JSON object}, round_half_away as that harness rounds; None where it writes null.

    Raises
    ------
    DataError
        An unknown profile, or what `rs.score` refuses.
    """
    check_inputs(results, golden)
    chosen = find_profile(profile)
    if chosen is None:
        raise DataError(
            "no profile given", field="profile", allowed="the name of a profile, or a Profile"
        )
    run_ks = k_of_runs(results)
    return {
        run_id: aggregate_rows(rows, chosen, run_ks[run_id])
        for run_id, rows in scores_by_run(results, golden, chosen).items()
    }


def scores_by_run(results: Results, golden: Golden, profile: Profile) -> dict[str, pd.DataFrame]:
    """The scores of each run from which a profile's aggregates are made.

    Rows of `rs.score`, missing ones where they count there.
    """
    scores = _quietly(results, golden, profile, sorted(set(k_of_runs(results).values())))
    by_run = {str(run_id): rows for run_id, rows in scores.groupby("run_id", observed=False)}
    return {
        run_id: (
            rows if profile.policies.get("missing") == "zero" else rows[rows["state"] != "missing"]
        )
        for run_id, rows in by_run.items()
    }


def k_of_runs(results: Results) -> dict[str, int]:
    """The k of each run, the default where it states none."""
    stated = (
        results.runs["k"] if "k" in results.runs else pd.Series(pd.NA, index=results.runs.index)
    )
    return {
        str(run_id): DEFAULT_K if pd.isna(k) else int(k)
        for run_id, k in zip(results.runs["run_id"], stated, strict=True)
    }


def _quietly(results: Results, golden: Golden, profile: Profile, run_ks: list[int]) -> pd.DataFrame:
    """Scores of a profile; missing rows are no news there, its harness leaves them out."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "golden queries without a row", UserWarning)
        return score(
            results,
            golden,
            list(dict.fromkeys([*profile.labels(run_ks), "failed"])),
            profile=profile,
        )


def aggregate_rows(rows: pd.DataFrame, profile: Profile, run_k: int) -> dict[str, Any]:
    """The aggregate of these rows of one run (see `scores_by_run`)."""
    found: dict[str, Any] = {}
    for key, expression in profile.aggregate.items():
        if "{k}" in expression:
            value: Any = {
                str(k): _value(rows, key, expression.format(k=k, run_k=run_k), profile)
                for k in profile.ks
            }
        else:
            value = _value(rows, key, expression.format(run_k=run_k), profile)
        if value is not None or key not in profile.omit_if_none:
            set_nested(found, key, value)
    counts = {
        "rows": len(rows),
        "asked": int(rows["state"].ne("extra").sum()),
        "failed": int(rows["failed"].sum()),
    }
    for key, what in profile.totals.items():
        set_nested(found, key, counts[what])
    return found


def set_nested(found: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a dotted key."""
    *parents, leaf = key.split(".")
    for parent in parents:
        found = found.setdefault(parent, {})
    found[leaf] = value


def get_nested(found: Any, key: str) -> Any:
    """The value at a dotted key; None where there is none."""
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _value(rows: pd.DataFrame, key: str, expression: str, profile: Profile) -> float | None:
    """One statistic of one column: `label` (its mean), or `p50(label)`, `p95(label)`, `sum(label)`."""
    statistic, label = re.fullmatch(r"(?:(\w+)\()?([^()]+)\)?", expression).groups()  # type: ignore[union-attr]
    column = rows[label].to_numpy("float64")
    is_asked = rows["state"].ne("extra").to_numpy()
    values = (
        np.nan_to_num(column[is_asked])
        if key in profile.over_all_rows
        else column[~np.isnan(column)]
    )
    if not len(values):
        return 0.0 if key in profile.zero_if_none else None
    return round_half_away(
        float(STATISTICS[statistic or "mean"](values, profile)), profile.decimals
    )


def _percentile(values: Values, share: float, profile: Profile) -> float:
    """Linear interpolation, or the value at position floor(share · n), as some harnesses take it."""
    if profile.percentile == "floor":
        return float(np.sort(values)[min(int(share * len(values)), len(values) - 1)])
    return float(np.quantile(values, share))


STATISTICS: dict[str, Callable[[Values, Profile], Any]] = {
    "mean": lambda values, profile: values.sum() / len(values),
    "sum": lambda values, profile: values.sum(),
    "p50": lambda values, profile: _percentile(values, 0.5, profile),
    "p95": lambda values, profile: _percentile(values, 0.95, profile),
}


def round_half_away(value: float, decimals: int | None) -> float:
    """Round half away from zero (Python's own rounds half to even).

    `None` leaves the value as it is.
    """
    if decimals is None or np.isnan(value):
        return value
    return float(np.copysign(np.floor(abs(value) * 10**decimals + 0.5) / 10**decimals, value))
