"""Matching, step by step: the rules that join hits to targets, and what `rs.score` is made of.

A rule is any function `(hits, targets) -> matches`. `grade_hits` makes grades of matches,
`score_hits` and `score_answers` make metrics of them; `rank_hits`, `collapse_hits` and
`filter_hits` prepare lists of hits. Everything here is reached as `rs.match`.
"""

from ragscore.frames.ranking import collapse_hits, rank_hits
from ragscore.scoring.anchors import by_anchor
from ragscore.scoring.answers import score_answers
from ragscore.scoring.attribution import parse_citations
from ragscore.scoring.grading import grade_hits
from ragscore.scoring.metrics import score_hits
from ragscore.scoring.predicates import by_predicate, filter_hits
from ragscore.scoring.rules import Rule, by_chunk, by_doc, by_span, targets_at

__all__ = [
    "Rule", "by_anchor", "by_chunk", "by_doc", "by_predicate", "by_span", "collapse_hits",
    "filter_hits", "grade_hits", "parse_citations", "rank_hits", "score_answers", "score_hits",
    "targets_at",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
