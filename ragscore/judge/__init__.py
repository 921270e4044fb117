"""Language models as judges of answers.

What they are asked, whom it is asked, what came of it, and how far it can be trusted.
"""

from ragscore.judge.audit import JudgeAudit, judge_audit
from ragscore.judge.endpoint import Endpoint
from ragscore.judge.files import load_judge_ledger
from ragscore.judge.inputs import load_judge_inputs
from ragscore.judge.judges import Judge, find_judge, judge_table
from ragscore.judge.people import corrected_means, draw_answers
from ragscore.judge.reliability import Reliability, judge_reliability, spot_check
from ragscore.judge.run import Judged, judge

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
