"""Language models as judges of answers: prompts, calls, judgments, and how far to trust them.

`rs.judge` asks them. What it returns, `Judged`, has the methods that check and correct them.
"""

from ragscore.judging.endpoint import Endpoint
from ragscore.judging.judges import Judge, available_judges, get_judge
from ragscore.judging.relevance import label_agreement
from ragscore.judging.reliability import JudgeAgreement, agreement
from ragscore.judging.run import Judged, load_ledger

__all__ = [
    "Endpoint",
    "Judge",
    "JudgeAgreement",
    "Judged",
    "agreement",
    "available_judges",
    "get_judge",
    "label_agreement",
    "load_ledger",
]


def __dir__() -> list[str]:
    return __all__
