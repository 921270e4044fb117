"""Language models as judges of answers: prompts, calls, judgments, and how far to trust them."""

from ragscore.judging.agreement import Reliability, judge_reliability, spot_check
from ragscore.judging.audit import JudgeAudit, corrected_means, draw_answers, judge_audit
from ragscore.judging.cases import load_judge_inputs
from ragscore.judging.endpoint import Endpoint
from ragscore.judging.judges import Judge, find_judge, judge_table
from ragscore.judging.run import Judged, judge, load_judge_ledger

__all__ = [
    "Endpoint",
    "Judge",
    "JudgeAudit",
    "Judged",
    "Reliability",
    "corrected_means",
    "draw_answers",
    "find_judge",
    "judge",
    "judge_audit",
    "judge_reliability",
    "judge_table",
    "load_judge_inputs",
    "load_judge_ledger",
    "spot_check",
]
