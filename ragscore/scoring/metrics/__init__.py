"""Metrics: one declaration each, by family."""

from ragscore.scoring.metrics.columns import ranking_columns, score_hits
from ragscore.scoring.metrics.credit import WHOLE_LIST
from ragscore.scoring.metrics.declaration import ROUNDING, Bounds, Label, Metric
from ragscore.scoring.metrics.declared import (
    DECLARED,
    DEFAULT,
    LABELS,
    NOTHING_DECLARED,
    Asked,
    Declarations,
    asked_for,
    declared_by,
    headline_of,
    is_own,
    table_kind,
)
from ragscore.scoring.metrics.labels import (
    DEFAULT_METRICS,
    Card,
    default_metrics,
    is_better,
    is_label,
    metrics,
    parse_label,
)
from ragscore.scoring.metrics.needs import judges_irrelevant
from ragscore.scoring.metrics.own import metric
from ragscore.scoring.metrics.table import (
    ADDED,
    BY_NAME,
    CRITERIA,
    HEADLINE,
    OF_NUGGETS,
    OTHER_NAMES,
    RANKING,
    TABLE,
    spelling,
)

__all__ = [
    "ADDED",
    "BY_NAME",
    "CRITERIA",
    "HEADLINE",
    "OF_NUGGETS",
    "OTHER_NAMES",
    "RANKING",
    "TABLE",
    "DECLARED",
    "DEFAULT",
    "DEFAULT_METRICS",
    "LABELS",
    "NOTHING_DECLARED",
    "ROUNDING",
    "WHOLE_LIST",
    "Asked",
    "Bounds",
    "Card",
    "Declarations",
    "Label",
    "Metric",
    "asked_for",
    "declared_by",
    "default_metrics",
    "headline_of",
    "is_better",
    "is_label",
    "is_own",
    "judges_irrelevant",
    "metric",
    "metrics",
    "parse_label",
    "ranking_columns",
    "score_hits",
    "table_kind",
    "spelling",
]
