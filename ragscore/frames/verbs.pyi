# Methods of the objects that a lower layer defines: each a function of a higher one, whose first
# argument is the object. Editors and type checkers read this file, and `verbs.py` makes the classes
# from it, so that each method is named here alone.
from typing import TYPE_CHECKING, overload

# not at once: mypy reads the layers in their order
if TYPE_CHECKING:
    from ragscore.analysis.comparison.gate import gate
    from ragscore.analysis.comparison.invariants import config_diff
    from ragscore.analysis.operations import (
        errors,
        hops_summary,
        indexing,
        traces,
    )
    from ragscore.analysis.reported import reported_scores, reported_summary
    from ragscore.analysis.trend.noise import noise_floor
    from ragscore.analysis.trend.trend import trend
    from ragscore.collecting.reproducible import same_run
    from ragscore.evaluation import evaluate_stored
    from ragscore.frames.golden_versions import golden_changes
    from ragscore.golden.duplicates import near_duplicates
    from ragscore.golden.sheet import with_labels
    from ragscore.golden.validate import validate
    from ragscore.io.save import save_golden, save_results
    from ragscore.judging.agreement import spot_check
    from ragscore.judging.corrected import corrected
    from ragscore.plot.accessor import Gallery, Plots
    from ragscore.reporting.explorer.explorer import explore_comparison
    from ragscore.reporting.report import report_comparison
    from ragscore.scoring.level import resolve_spans
    from ragscore.scoring.policies import with_min_grade
    from ragscore.scoring.refusals import with_judged_refusals, with_refusals_in_words

class GoldenVerbs:
    validate = validate
    duplicates = near_duplicates
    resolve_spans = resolve_spans
    with_labels = with_labels
    with_min_grade = with_min_grade
    diff = golden_changes
    save = save_golden

class ResultsVerbs:
    save = save_results
    config_diff = config_diff
    same_run = same_run
    errors = errors
    indexing = indexing
    hops_summary = hops_summary
    traces = traces
    reported_scores = reported_scores
    reported_summary = reported_summary
    with_refusals_in_words = with_refusals_in_words
    with_judged_refusals = with_judged_refusals

class RunStoreVerbs:
    evaluate = evaluate_stored
    trend = trend
    noise = noise_floor

class ComparisonVerbs:
    gate = gate
    report = report_comparison
    explore = explore_comparison

class JudgedVerbs:
    corrected = corrected
    spot_check = spot_check

class Accessor:
    def __init__(self, path: str) -> None: ...
    @overload
    def __get__(self, holder: None, owner: type | None = None) -> Gallery: ...
    @overload
    def __get__(self, holder: object, owner: type | None = None) -> Plots: ...
