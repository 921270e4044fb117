"""Scoring: hits and targets -> one column per metric, and what is known of every cell.

Other folders import from here, and from no module inside.
"""

from ragscore.scoring import match
from ragscore.scoring.explain import explain
from ragscore.scoring.harness import aggregate, aggregate_rows, rows_by_run
from ragscore.scoring.intervals import (
    BY_QUANTILES,
    clusters_text,
    intervals,
    kind_of,
    quantile_intervals,
    query_clusters,
    shared_only,
)
from ragscore.scoring.level import chunker_versions, resolve_spans
from ragscore.scoring.metrics import TABLE, Label, Metric, MetricTable
from ragscore.scoring.own import from_plain, metric, to_plain
from ragscore.scoring.policies import Policies, policies_of
from ragscore.scoring.primary import aspects_of, headline_of, limits_of, primary_of
from ragscore.scoring.provenance import check_provenance, judges_by_criterion, provenance_of
from ragscore.scoring.readings import HARNESSES, Reading, find_reading
from ragscore.scoring.rules import Rule
from ragscore.scoring.score import Scored, score, scored
from ragscore.scoring.stored import scored_and_stored, stored_values
from ragscore.scoring.summary import add_columns, slices, summarize
from ragscore.scoring.turns import with_turns

__all__ = [
    "BY_QUANTILES", "HARNESSES", "TABLE", "Label", "Metric", "Policies", "Reading", "Rule",
    "Scored", "MetricTable", "add_columns", "aggregate", "aggregate_rows", "aspects_of",
    "check_provenance", "chunker_versions", "clusters_text", "explain", "find_reading",
    "from_plain", "headline_of", "intervals", "judges_by_criterion", "kind_of", "limits_of",
    "match", "metric", "policies_of", "primary_of", "provenance_of", "quantile_intervals",
    "query_clusters", "resolve_spans", "rows_by_run", "score", "scored", "scored_and_stored",
    "shared_only", "slices", "stored_values", "summarize", "to_plain", "with_turns",
]  # fmt: skip
