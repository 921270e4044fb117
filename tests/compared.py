"""Two runs scored and compared without an evaluation."""

from typing import Any

from ragscore.analysis.comparison import compare
from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.data import Golden, Results, check_inputs, run_names
from ragscore.frames.errors import unsaid
from ragscore.scoring.policies import Policies
from ragscore.scoring.readings import find_reading
from ragscore.scoring.score import score


def compare_runs(
    results: Results, golden: Golden, baseline: str, candidate: str, *, scores: Any = None,
    metrics: Any = None, rule: Any = None, profile: Any = None, policies: Any = None,
    **how: Any,
) -> Comparison:  # fmt: skip
    """Compare two runs, their scores made by the policies among `how` if none are given."""
    check_inputs(results, golden)
    fields = {name: how.pop(name) for name in Policies.ALLOWED if name in how}
    policies = Policies.of(policies, fields, find_reading(profile).policies)
    if scores is None:
        pair = results.select(list(dict.fromkeys(run_names(results.runs, [baseline, candidate]))))
        with unsaid("golden queries without a row"):
            scores = score(pair, golden, metrics, rule=rule, profile=profile, policies=policies)
        metrics = None if metrics == "all" else metrics
    return compare.compare_runs(
        results, golden, baseline, candidate, scores=scores, metrics=metrics, rule=rule,
        profile=profile, policies=policies, **how,
    )  # fmt: skip
