# Methods of the objects that a lower layer defines: each a function of a higher one, whose first
# argument is the object. Editors and type checkers read this file, and `verbs.py` makes the classes
# from it, so that each method is named here alone.
from collections.abc import Callable, Iterable
from inspect import Parameter
from typing import TYPE_CHECKING, Any, TypeVar, overload

# not at once: mypy reads the layers in their order
if TYPE_CHECKING:
    from ragscore.analysis.comparison.gate import gate
    from ragscore.analysis.extras.harness_files import save_means
    from ragscore.analysis.query_view import show_compared
    from ragscore.analysis.trend import noise_floor, stored_trend
    from ragscore.collecting.reproducible import same_run
    from ragscore.evaluation import evaluate_stored
    from ragscore.frames.golden_versions import golden_changes
    from ragscore.golden.health import health, near_duplicates
    from ragscore.golden.labels import with_labels
    from ragscore.golden.validate import validate
    from ragscore.io.registry import save
    from ragscore.judging.agreement import spot_check
    from ragscore.judging.corrected import corrected
    from ragscore.plot.accessor import Gallery, Plots
    from ragscore.reporting.explorer.explorer import explore_comparison, explore_runs
    from ragscore.reporting.report import report_comparison, report_runs
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
    health = health
    save = save

class ResultsVerbs:
    save = save
    same_run = same_run
    with_refusals_in_words = with_refusals_in_words
    with_judged_refusals = with_judged_refusals

class EvaluationVerbs:
    explore = explore_runs
    report = report_runs
    save = save_means

class RunStoreVerbs:
    evaluate = evaluate_stored
    trend = stored_trend
    noise = noise_floor

class ComparisonVerbs:
    gate = gate
    report = report_comparison
    explore = explore_comparison
    query = show_compared

class JudgedVerbs:
    corrected = corrected
    spot_check = spot_check

class Accessor:
    def __init__(self, path: str) -> None: ...
    @overload
    def __get__(self, holder: None, owner: type | None = None) -> Gallery: ...
    @overload
    def __get__(self, holder: object, owner: type | None = None) -> Plots: ...

F = TypeVar("F", bound=Callable[..., Any])

def takes(*others: Callable[..., Any] | Iterable[Parameter]) -> Callable[[F], F]: ...
