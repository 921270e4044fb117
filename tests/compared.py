"""Two runs scored and compared in one call, and what an evaluation was made by."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pandas as pd

import ragscore as rs
from ragscore.analysis.comparison.changes import flips, values_of
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import unsaid
from ragscore.scoring.policies import Policies
from ragscore.scoring.provenance import provenance_of, relevant
from ragscore.scoring.readings import find_reading
from ragscore.scoring.summary import metric_columns


def compare_runs(
    results: Results, golden: Golden, baseline: str, candidate: str, *, scores: Any = None,
    metrics: Any = None, primary: Any = None, rule: Any = None, profile: Any = None, **how: Any,
) -> Comparison:  # fmt: skip
    """Compare two runs, scored by the policies among `how`; `scores` stand in for their own."""
    policies = {name: how.pop(name) for name in Policies.ALLOWED if name in how}
    with unsaid("golden queries without a row"):
        ev = rs.evaluate(
            results, golden, metrics, primary=primary, rule=rule, profile=profile, **policies
        )
    ev = ev if scores is None else replace(ev, scores=scores)
    return ev.compare(baseline, candidate, **how)


def flips_of(scores: pd.DataFrame, *args: Any, **how: Any) -> pd.DataFrame:
    """Return the answers that flipped between the runs a and b of these scores."""
    numbers = metric_columns(scores)
    return flips(*(values_of(scores, run, numbers) for run in "ab"), *args, **how)


def check_reported(
    results: Results, golden: Golden, reported: Any = None, *, profile: Any = None, **fields: Any
) -> Any:
    """Check reported values against these results, without an evaluation of them."""
    ev = SimpleNamespace(
        results=results, golden=golden, _profile=None, _level="auto",
        _policies=Policies.of(fields, find_reading(profile).policies),
    )  # fmt: skip
    return rs.extras.check_reported(ev, reported, profile=profile)


def extra(name: str) -> Any:
    """Return a function of `rs.extras` that asks results and a golden set."""

    def asked(results: Results, golden: Golden, *args: Any, **how: Any) -> Any:
        ev = SimpleNamespace(results=results, golden=golden)
        return getattr(rs.extras, name)(ev, *args, **how)

    return asked


def provenance(ev: Any, metrics: Any = None) -> dict[str, dict[str, Any]]:
    """Return the provenance of each run's scores, as far as these metrics depend on it."""
    names = metrics or metric_columns(ev.scores)
    parts = provenance_of(ev._rows, ev._policies, names, ev._declared)
    return {run: relevant(of_run, names, ev._declared) for run, of_run in parts.items()}
