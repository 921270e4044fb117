"""Two runs scored and compared without an evaluation, and what an evaluation was made by."""

from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pandas as pd

import ragscore as rs
from ragscore.analysis.comparison import compare
from ragscore.analysis.comparison.changes import flips, values_of
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import Golden, Results, check_inputs, run_names
from ragscore.frames.errors import unsaid
from ragscore.scoring.level import Level
from ragscore.scoring.policies import Policies
from ragscore.scoring.primary import primary_of
from ragscore.scoring.provenance import provenance_of, relevant
from ragscore.scoring.readings import find_reading
from ragscore.scoring.rows import Rows
from ragscore.scoring.score import score
from ragscore.scoring.summary import chosen_columns, metric_columns
from ragscore.scoring.turns import with_turns


def compare_runs(
    results: Results, golden: Golden, baseline: str, candidate: str, *, scores: Any = None,
    metrics: Any = None, rule: Any = None, profile: Any = None, policies: Any = None,
    **how: Any,
) -> Comparison:  # fmt: skip
    """Compare two runs, their scores made by the policies among `how` if none are given."""
    check_inputs(results, golden)
    fields = {name: how.pop(name) for name in Policies.ALLOWED if name in how}
    policies = Policies.of(fields, asdict(policies) if policies else find_reading(profile).policies)
    if scores is None:
        pair = results.select(list(dict.fromkeys(run_names(results.runs, [baseline, candidate]))))
        with unsaid("golden queries without a row"):
            scores = score(pair, golden, metrics, rule=rule, profile=profile, **asdict(policies))
        metrics = None if metrics == "all" else metrics
    asked = scores[scores["run_id"].isin([baseline, candidate])]
    primary = chosen_columns(asked, metrics) if metrics else primary_of(asked)
    how = {"primary": primary, **how}
    results, golden = with_turns(results, golden)
    pair = results.select(list(dict.fromkeys(run_names(results.runs, [baseline, candidate]))))
    reading, lists = find_reading(profile), policies.lists(pair)
    golden, of_hits = reading._golden(golden)
    level = Level.of(lists, of_hits, policies.match)
    rows = Rows(lists, golden, level, of_hits, rule, reading)
    return compare.compare_runs(
        rows, baseline, candidate, scores=scores, metrics=metrics, policies=policies, **how
    )


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
