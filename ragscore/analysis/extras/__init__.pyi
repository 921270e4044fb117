from . import knowledge_gain
from .answer_behaviour import behaviour, behaviour_checks
from .chunk_lint import Lint, lint_chunks
from .document_versions import (
    freshness,
    freshness_summary,
    stale_flag_rate,
    stale_hits,
    version_conflicts,
)

__all__ = [
    "Lint",
    "behaviour",
    "behaviour_checks",
    "freshness",
    "freshness_summary",
    "knowledge_gain",
    "lint_chunks",
    "stale_flag_rate",
    "stale_hits",
    "version_conflicts",
]
