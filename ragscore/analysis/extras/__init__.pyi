from . import knowledge_gain
from .answer_behaviour import behaviour
from .chunk_lint import lint_chunks
from .document_versions import freshness
from .events import event_log
from .needles import needle_set
from .questions import (
    calls,
    check_reported,
    config_effects,
    conversations,
    nuggets,
    paraphrases,
    retrievers,
)
from .score_diff import score_diff
from .score_threshold import risk_coverage

__all__ = [
    "behaviour",
    "calls",
    "check_reported",
    "config_effects",
    "conversations",
    "event_log",
    "freshness",
    "knowledge_gain",
    "lint_chunks",
    "needle_set",
    "nuggets",
    "paraphrases",
    "retrievers",
    "risk_coverage",
    "score_diff",
]
