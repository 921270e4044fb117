"""Metrics: one declaration each beside its formula, one module a family."""

from ragscore.lean.metrics import answers, citations, judged, operations, ranking
from ragscore.lean.metrics.declaration import (
    DEFAULT_KS,
    Label,
    Metric,
    Table,
    is_better,
    own_column,
)

_ORDER = (
    ranking.metric, ranking.whole, operations.success, answers.metric, citations.metric,
    judged.metric, operations.refusals, citations.named, citations.scope, answers.literal,
    operations.operation,
)  # fmt: skip
TABLE = Table([one for family in _ORDER for one in family])
__all__ = ["DEFAULT_KS", "TABLE", "Label", "Metric", "Table", "is_better", "own_column"]
