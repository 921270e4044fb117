from . import knowledge_gain
from .answer_behaviour import Behaviour, behaviour
from .chunk_lint import Lint, lint_chunks
from .document_versions import Freshness, freshness
from .event_log import write_event_log
from .needles import NeedleSet, needle_set
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

__all__ = [
    "Behaviour",
    "Freshness",
    "Lint",
    "NeedleSet",
    "behaviour",
    "calls",
    "check_reported",
    "config_effects",
    "conversations",
    "freshness",
    "knowledge_gain",
    "lint_chunks",
    "needle_set",
    "nuggets",
    "paraphrases",
    "retrievers",
    "score_diff",
    "write_event_log",
]
