"""Scoring: hits and targets -> one column per metric, and what is known of every cell.

Other folders import from here, and from no module inside.
"""

from ragscore.lean.explain import explain
from ragscore.lean.harness import aggregate, aggregate_rows, rows_by_run
from ragscore.lean.intervals import (
    BY_QUANTILES,
    clusters_text,
    intervals,
    kind_of,
    quantile_intervals,
    query_clusters,
    shared_only,
)
from ragscore.lean.level import chunker_versions, resolve_spans
from ragscore.lean.metrics import TABLE, Label, Metric, Table
from ragscore.lean.own import from_plain, metric, to_plain
from ragscore.lean.policies import Policies, policies_of
from ragscore.lean.primary import aspects_of, headline_of, limits_of, primary_of
from ragscore.lean.provenance import check_provenance, judges_by_criterion, provenance_of
from ragscore.lean.readings import HARNESSES, Reading, find_reading
from ragscore.lean.rules import Rule
from ragscore.lean.score import Scored, score, scored
from ragscore.lean.stored import scored_and_stored, stored_values
from ragscore.lean.summary import add_columns, slices, summarize
from ragscore.lean.turns import with_turns

__all__ = [
    "BY_QUANTILES", "HARNESSES", "TABLE", "Label", "Metric", "Policies", "Reading", "Rule",
    "Scored", "Table", "add_columns", "aggregate", "aggregate_rows", "aspects_of",
    "check_provenance", "chunker_versions", "clusters_text", "explain", "find_reading",
    "from_plain", "headline_of", "intervals", "judges_by_criterion", "kind_of", "limits_of",
    "metric", "policies_of", "primary_of", "provenance_of", "quantile_intervals",
    "query_clusters", "resolve_spans", "rows_by_run", "score", "scored", "scored_and_stored",
    "shared_only", "slices", "stored_values", "summarize", "to_plain", "with_turns",
]  # fmt: skip
