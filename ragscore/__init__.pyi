# each name "as" itself: that is how a stub exports to editors, too
# ruff: noqa: I001
from . import (
    io as io,
    judging as judging,
    plot as plot,
    stats as stats,
)
from .analysis import extras as extras
from .analysis.comparison.model import Comparison as Comparison
from .analysis.leaderboard import Leaderboard as Leaderboard
from .collecting.run import collect as collect
from .evaluation import Evaluation as Evaluation, compare as compare, evaluate as evaluate
from .frames.data import DataError as DataError, Golden as Golden, Results as Results
from .golden.requirements import supported_metrics as supported_metrics
from .golden.labels import add_labels as add_labels
from .golden.sheet import label_sheet as label_sheet
from .golden.validate import validate as validate
from .io.load import load_golden as load_golden, load_results as load_results
from .judging.run import judge as judge
from .reporting.report import Report as Report
from .scoring import match as match
from .scoring.metrics import metrics as metrics
from .scoring.own import metric as metric
from .scoring.readings import Reading as Reading
from .scoring.score import score as score
from .store.store import RunStore as RunStore

__version__: str

__all__ = [
    # objects
    "Golden", "Results", "Evaluation", "Comparison", "Leaderboard", "Report", "RunStore",
    "Reading", "DataError",
    # verbs
    "load_golden", "load_results", "evaluate", "compare", "score", "validate", "supported_metrics",
    "metric", "metrics", "collect", "judge", "label_sheet", "add_labels",
    # namespaces
    "io", "match", "stats", "plot", "judging", "extras",
]  # fmt: skip
