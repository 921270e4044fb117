from .agents import calls, conversations
from .answers import behaviour, nuggets
from .corpora import lint_chunks, needle_set
from .document_versions import freshness
from .gains import knowledge_gain
from .harness_files import event_log
from .paraphrase_groups import paraphrases
from .retriever_report import retrievers
from .runs import config_effects
from .score_threshold import risk_coverage
from .stored_scores import check_reported, score_diff

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
