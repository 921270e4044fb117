"""Language models as judges of answers: prompts, calls, judgments, and how far to trust them.

`rs.judge` asks them and returns `Judged`. `agreement` compares judges, people and labels, and
`corrected` corrects a judge by people.
"""

from ragscore.judging.agreement import agreement, spot_check
from ragscore.judging.corrected import corrected
from ragscore.judging.endpoint import Endpoint
from ragscore.judging.judges import Judge, available_judges, get_judge
from ragscore.judging.run import Judged

__all__ = [
    "Endpoint",
    "Judge",
    "Judged",
    "agreement",
    "available_judges",
    "corrected",
    "get_judge",
    "spot_check",
]


def __dir__() -> list[str]:
    return __all__
