"""Language models as judges of answers: what they are asked, whom it is asked, and what came of it."""

from ragscore.judge.endpoint import Endpoint
from ragscore.judge.judges import Judge, find_judge, judge_table
from ragscore.judge.run import Judged, judge

__all__ = ["Endpoint", "Judge", "Judged", "find_judge", "judge", "judge_table"]
