"""Scoring: hits and targets -> one column per metric, and what is known of every cell."""

from ragscore.scoring import match as match
from ragscore.scoring import own as own

# The names that other folders import, by module; all else is free to change. Users reach scoring by
# `rs.score`, `rs.metric`, `rs.metrics` and `rs.match`.
FACE = {
    "score": "Asked Scored asked_of score scored scores_later table_of",
    "rows": "Rows STATES",
    "level": "Level chunker_versions",
    "targets": "LEVELS RANKLESS targets_at",
    "rules": "ELLIPSES READS_TEXT Rule by_anchor by_chunk by_doc by_predicate"
    " matched_pairs pairs_with_equal rule_name rule_of",
    "metrics": "CRITERIA Metric MetricTable TABLE",
    "metrics.declaration": "ROUNDING spelling",
    "own": "with_own",
    "policies": "Policies",
    "readings": "HARNESSES Harness READINGS Reading find_reading k_of_runs",
    "summary": "NO_VALUE STATISTICS Slicing add_columns chosen_columns metric_columns naturally"
    " score_rows slice_names slice_texts slices summarize with_saved",
    "intervals": "intervals quantile_intervals query_clusters shared_only",
    "explain": "expected explain",
    "primary": "REFUSALS aspects_of primary_of",
    "provenance": "COMPONENTS SETTINGS agree check_ignored check_provenance judge_fingerprint"
    " judges_of_scores provenance_of recorded_parts relevant settings_text",
    "stored": "deciding_of golden_of scored_and_stored",
    "ids": "COLUMN",
    "refusals": "unstated_text",
    "turns": "ASKED renamed with_stated_turns with_turns",
}
