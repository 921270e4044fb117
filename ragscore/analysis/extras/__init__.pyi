from . import knowledge_gain
from .answer_behaviour import behaviour
from .call_report import calls
from .chunk_lint import lint_chunks
from .conversation_turns import conversations
from .document_versions import freshness
from .events import event_log
from .needles import needle_set
from .nugget_verdicts import nuggets
from .paraphrase_groups import paraphrases
from .recomputed import check_reported
from .retriever_report import retrievers
from .score_diff import score_diff
from .score_threshold import risk_coverage
from .varying_config import config_effects

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
