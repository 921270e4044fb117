"""Language models as judges of answers: prompts, calls, judgments, and how far to trust them."""

from ragscore.judging.audit import JudgeAudit, corrected_means, draw_answers, judge_audit
from ragscore.judging.cases import load_inputs
from ragscore.judging.endpoint import Endpoint
from ragscore.judging.judges import Judge, available_judges, get_judge
from ragscore.judging.reliability import JudgeAgreement, agreement, spot_check
from ragscore.judging.run import Judged, judge, load_ledger

__all__ = [
    "Endpoint",
    "Judge",
    "JudgeAudit",
    "Judged",
    "JudgeAgreement",
    "corrected_means",
    "draw_answers",
    "get_judge",
    "judge",
    "judge_audit",
    "agreement",
    "available_judges",
    "load_inputs",
    "load_ledger",
    "spot_check",
]
