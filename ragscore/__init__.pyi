from . import collecting, frames, golden, io, judging, plot, stats
from .analysis import extras
from .analysis.comparison.model import Comparison
from .analysis.leaderboard import Leaderboard
from .collecting.run import collect
from .evaluation import Evaluation, evaluate
from .frames.data import DataError, Golden, Results
from .golden.labelling import label
from .golden.requirements import supported_metrics
from .golden.validate import validate
from .io.load import load_golden, load_results
from .judging.run import judge
from .reporting.model import Report
from .scoring import match
from .scoring.metrics import metrics
from .scoring.policies import Policies
from .scoring.profiles import Profile
from .scoring.score import score
from .store.store import RunStore

__version__: str

__all__ = [
    # objects
    "Golden", "Results", "Evaluation", "Comparison", "Leaderboard", "Report", "RunStore",
    "Policies", "Profile", "DataError",
    # verbs
    "load_golden", "load_results", "evaluate", "score", "validate", "supported_metrics", "metrics",
    "collect", "judge", "label",
    # namespaces
    "io", "match", "frames", "golden", "stats", "plot", "judging", "collecting", "extras",
]  # fmt: skip
