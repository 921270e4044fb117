"""Aggregates of runs as another harness writes them.

In: `Results`, `Golden` and a profile. Out: per run a plain dict, ready for JSON.
"""

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.data import DataError, Golden, Results, check_inputs
from ragscore.frames.errors import unsaid
from ragscore.frames.typing import Values
from ragscore.scoring.metrics import parse_label
from ragscore.scoring.profiles import DEFAULT_K, Profile, find_profile
from ragscore.scoring.score import score


def aggregate(
    results: Results, golden: Golden, profile: str | Profile
) -> dict[str, dict[str, Any]]:
    """Aggregate each run as a profile's harness writes it; see `Evaluation.to_profile`."""
    check_inputs(results, golden)
    chosen = find_profile(profile)
    if chosen is None:
        raise DataError(
            "no profile given", field="profile", allowed="the name of a profile, or a Profile"
        )
    run_ks = k_of_runs(results, chosen)
    return {
        run_id: aggregate_rows(rows, chosen, run_ks[run_id])
        for run_id, rows in scores_by_run(results, golden, chosen).items()
    }


def scores_by_run(results: Results, golden: Golden, profile: Profile) -> dict[str, pd.DataFrame]:
    """Return the rows of `rs.score` per run that a profile's aggregates count.

    Missing rows are among them only if the profile counts them.
    """
    labels = profile.labels(dict.fromkeys(k_of_runs(results, profile).values()))
    # no news: the other harness leaves missing rows out, and reads one run's own k for it alone
    has_own_k = any("{run_k}" in one for one in profile.aggregate.values())
    with unsaid("golden queries without a row" + "|cut-offs above the run's own k" * has_own_k):
        scores = score(results, golden, list(dict.fromkeys([*labels, "failed"])), profile=profile)
    scores = _with_outcomes(scores, results)
    counts_missing = profile.policies.get("missing") == "zero"
    return {
        str(run_id): rows if counts_missing else rows[rows["state"] != "missing"]
        for run_id, rows in scores.groupby("run_id", observed=False)
    }


def _with_outcomes(scores: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Return scores in which queries whose outcome alone is known have the values that it gives.

    That is: n_hits says that there were hits, and none is among the results. The outcome is
    `passed`, and `rank_first_match`, which is absent where nothing matched.
    """
    if results.reported is None or "found" not in scores:
        return scores
    told = results.reported.pivot_table("value", ["run_id", "query_id"], "metric", observed=True)
    told = told.reindex(columns=["n_hits", "passed", "rank_first_match"])
    cells = pd.MultiIndex.from_arrays([scores["run_id"].astype("str"), scores.index.astype("str")])
    hits = pd.MultiIndex.from_frame(results.hits[["run_id", "query_id"]].astype("str"))
    told.index = pd.MultiIndex.from_tuples([(str(run), str(query)) for run, query in told.index])
    outcome = told.reindex(cells).set_axis(scores.index)
    is_told = ((outcome["n_hits"] > 0) & outcome["passed"].notna() & ~cells.isin(hits)).to_numpy()
    rank = outcome["rank_first_match"].fillna(np.inf).to_numpy()
    changed = {"found": outcome["passed"].to_numpy()}
    for text in [str(one) for one in scores if str(one).startswith(("hit@", "mrr"))]:
        value = 1.0 if text.startswith("hit") else 1 / rank
        changed[text] = np.where(rank <= (parse_label(text).k or np.inf), value, 0.0)
    return scores.assign(
        **{text: np.where(is_told, values, scores[text]) for text, values in changed.items()}
    )


def k_of_runs(results: Results, profile: Profile | None = None) -> dict[str, int | None]:
    """Return the k of each run, the profile's default where it states none."""
    runs, default = results.runs, profile.default_k if profile else DEFAULT_K
    stated = runs["k"] if "k" in runs else pd.Series(pd.NA, index=runs.index)
    return {
        str(run_id): default if pd.isna(k) else int(k)
        for run_id, k in zip(runs["run_id"], stated, strict=True)
    }


def aggregate_rows(rows: pd.DataFrame, profile: Profile, run_k: int | None) -> dict[str, Any]:
    """Return the aggregate of these rows of one run (see `scores_by_run`)."""
    found: dict[str, Any] = {}
    for key, expression in profile.aggregate.items():
        if "{k}" in expression:
            value: Any = {
                str(k): _value(rows, key, profile.at(expression, run_k, k), profile)
                for k in profile.ks
            }
        else:
            value = _value(rows, key, profile.at(expression, run_k), profile)
        if value is not None or key not in profile.omit_if_none:
            set_nested(found, key, value)
    counts = {
        "rows": len(rows),
        "asked": int(rows["state"].ne("extra").sum()),
        "failed": int(rows["failed"].sum()),
    }
    for key, counted in profile.totals.items():
        set_nested(found, key, counts[counted])
    return found


def set_nested(found: dict[str, Any], key: str, value: Any) -> None:
    """Put a value at a dotted key."""
    *parents, leaf = key.split(".")
    for parent in parents:
        found = found.setdefault(parent, {})
    found[leaf] = value


def get_nested(found: Any, key: str) -> Any:
    """Return the value at a dotted key, None where there is none."""
    for name in key.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _value(rows: pd.DataFrame, key: str, expression: str, profile: Profile) -> float | None:
    """Return a statistic of a column: its mean for `label`, or such as `p50(label)`."""
    statistic, label = re.fullmatch(r"(?:(\w+)\()?([^()]+)\)?", expression).groups()  # type: ignore[union-attr]
    values = rows[label].to_numpy("float64")
    if key in profile.over_all_rows:
        values = np.nan_to_num(values[rows["state"].ne("extra").to_numpy()])
    else:
        values = values[~np.isnan(values)]
    if not len(values):
        return 0.0 if key in profile.zero_if_none else None
    found = float(STATISTICS[statistic or "mean"](values, profile))
    return round_half_away(found, profile.decimals_of.get(key, profile.decimals))


def _percentile(values: Values, share: float, profile: Profile) -> float:
    """Interpolate linearly, or take the value at position floor(share · n), as the profile says."""
    if profile.percentile == "floor":
        return float(np.sort(values)[min(int(share * len(values)), len(values) - 1)])
    return float(np.quantile(values, share))


STATISTICS: dict[str, Callable[[Values, Profile], Any]] = {
    # exact sums: the order of queries changes no bit, and so no decimal that is rounded
    "mean": lambda values, profile: math.fsum(values) / len(values),
    "sum": lambda values, profile: math.fsum(values),
    "p50": lambda values, profile: _percentile(values, 0.5, profile),
    "p95": lambda values, profile: _percentile(values, 0.95, profile),
}


def round_half_away(value: float, decimals: int | None) -> float:
    """Round half away from zero (Python's own rounds half to even); None leaves the value."""
    if decimals is None or np.isnan(value):
        return value
    return float(np.copysign(np.floor(abs(value) * 10**decimals + 0.5) / 10**decimals, value))
