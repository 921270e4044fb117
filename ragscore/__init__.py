"""Score, compare and explore retrieval and RAG runs as pandas DataFrames.

load_golden, load_results -> coverage -> score -> summarize -> compare_runs -> RunStore, plot
"""

from ragscore.aggregates import aggregate
from ragscore.anchors import by_anchor
from ragscore.answers import refusal_reasons, score_answers
from ragscore.attribution import parse_citations
from ragscore.behaviour import behaviour, behaviour_checks
from ragscore.collect import SameRun, collect, same_run
from ragscore.columns import add_columns
from ragscore.compare import compare_runs
from ragscore.comparison import Comparison
from ragscore.differences import diff_config
from ragscore.diffs import ScoreDiff, diff_scores, flips
from ragscore.doctor import doctor
from ragscore.events import write_event_log
from ragscore.exchange import to_ir_measures, to_ranx
from ragscore.faults import answer_faults, fault_changes, fault_table, fault_transitions
from ragscore.fingerprint import judge_fingerprint, same_judges
from ragscore.frames import DataError, Golden, Results, concat_results, conform
from ragscore.freshness import freshness, freshness_summary, stale_flag_rate, stale_hits, version_conflicts
from ragscore.gain import Gain, candidate_documents, cosine, knowledge_gain, knowledge_gain_documented, lexical_novelty, novelty_all_pairs, novelty_per_chunk
from ragscore.gate import Gate, gate
from ragscore.golden_health import GoldenHealth, golden_health
from ragscore.golden_versions import golden_changes, unchanged_queries
from ragscore.grades import grade_hits
from ragscore.groups import paraphrase_groups, paraphrase_kinds, paraphrase_summary, paraphrases
from ragscore.health import coverage, coverage_rows
from ragscore.hit_scores import score_distribution, scores_by_rank
from ragscore.hops import hop_latency, hop_report, query_hops, verification_report
from ragscore.impact import Impact, impact
from ragscore.judge import (
    Endpoint,
    Judge,
    JudgeAudit,
    Judged,
    Reliability,
    corrected_means,
    draw_answers,
    find_judge,
    judge,
    judge_audit,
    judge_reliability,
    judge_table,
    load_judge_inputs,
    load_judge_ledger,
    spot_check,
)
from ragscore.judgments import judge_counts, with_judged_refusals
from ragscore.label import LabelConflict, LabelSession, label
from ragscore.leaderboard import Leaderboard, leaderboard
from ragscore.lint import Lint, lint_chunks
from ragscore.load import (
    import_results,
    load_documents,
    load_golden,
    load_results,
    load_table,
    to_ragas,
    write_beir,
    write_chatbot,
    write_chatbot_golden,
    write_golden,
    write_json_qrels,
    write_json_run,
    write_judgments,
    write_per_query,
    write_predicates,
    write_qrels_jsonl,
    write_ragchecker,
    write_report,
    write_retriever_summary,
    write_retrievers,
    write_trec_qrels,
    write_trec_rag,
    write_trec_run,
)
from ragscore.match import Rule, at_level, by_chunk, by_doc, by_span
from ragscore.matrix import query_matrix
from ragscore.metrics import metric_card, metrics, score_hits
from ragscore.metrics_json import write_metrics_json
from ragscore.near_duplicates import near_duplicates
from ragscore.noise import noise_components, noise_floor
from ragscore.operations import error_report, indexing_report, latency_report, refusal_report
from ragscore.outcomes import explain
from ragscore.overlap import rank_overlap
from ragscore.predicate_report import predicate_markdown, predicate_matrix, predicate_report, predicate_rows
from ragscore.predicates import by_predicate, filter_hits
from ragscore.profiles import Profile
from ragscore.ranks import collapse_hits, rank_hits
from ragscore.refusals import answered_quality, refusal_decisions, refusal_table
from ragscore.relabelling import GoldenComparison, compare_goldens
from ragscore.reported import check_reported, reported_scores
from ragscore.reports import Report, report
from ragscore.resolve import resolve_spans
from ragscore.rulers import ruler
from ragscore.score import score, scoring
from ragscore.selective import refusal_curve, refusal_thresholds
from ragscore.show import QueryView, show_query
from ragscore.sliced import SliceComparison, compare_slices, slice_means
from ragscore.stats import bootstrap_mean
from ragscore.store import RunStore
from ragscore.suites import compare_suites
from ragscore.summary import slices, summarize
from ragscore.synthetic import NeedleSet, needle_set
from ragscore.ties import tie_sensitivity
from ragscore.trend import trend
from ragscore.trials import average_repeats, trial_summary, trials
from ragscore.validate import validate

from ragscore import plot  # isort: skip

__version__ = "0.1.0"

__all__ = [
    # what everything is made of
    "DataError", "Golden", "Results", "concat_results", "conform",
    # load, write back
    "load_golden", "load_results", "load_table", "import_results", "load_documents", "write_golden", "write_per_query", "write_chatbot", "write_chatbot_golden",
    # to other tools
    "write_trec_run", "write_trec_qrels", "write_qrels_jsonl", "write_json_run", "write_json_qrels", "write_beir", "write_report",
    "write_trec_rag", "write_ragchecker", "to_ranx", "to_ir_measures", "to_ragas",
    # what other tools reported
    "reported_scores", "check_reported", "diff_scores", "flips", "ScoreDiff", "bootstrap_mean",
    # the order of hits
    "rank_hits", "collapse_hits",
    # ask a system
    "collect", "same_run", "SameRun",
    # before any number
    "validate", "doctor", "coverage", "coverage_rows",
    # match and score
    "Rule", "at_level", "by_chunk", "by_doc", "by_anchor", "by_span", "grade_hits", "resolve_spans", "score_hits", "score_answers", "refusal_reasons",
    "judge_counts", "parse_citations",
    # reports per run
    "refusal_report", "latency_report", "error_report", "indexing_report", "write_metrics_json",
    # what a golden set can tell
    "golden_health", "GoldenHealth", "near_duplicates", "tie_sensitivity", "compare_suites",
    # the retrievers' own scores
    "scores_by_rank", "score_distribution",
    # refusing as a decision; whose fault a wrong answer is
    "refusal_decisions", "refusal_table", "answered_quality", "refusal_curve", "refusal_thresholds",
    "answer_faults", "fault_table", "fault_changes", "fault_transitions",
    # the compute stage in one call
    "score", "scoring", "aggregate", "Profile", "metrics", "metric_card",
    # summarize, compare
    "summarize", "explain", "slices", "compare_runs", "Comparison", "diff_config", "gate", "Gate",
    # what measures, and whether the labels changed
    "ruler", "golden_changes", "unchanged_queries", "compare_goldens", "GoldenComparison",
    # many runs
    "leaderboard", "Leaderboard", "query_matrix", "impact", "Impact",
    # by slice of the questions
    "slice_means", "compare_slices", "SliceComparison",
    # paraphrases of one intent
    "paraphrases", "paraphrase_groups", "paraphrase_kinds", "paraphrase_summary",
    # steps of multi-hop answers
    "query_hops", "hop_report", "hop_latency", "verification_report",
    # repeated trials of one system
    "trials", "trial_summary", "average_repeats",
    # runs over time, and how much of it is noise
    "trend", "noise_floor", "noise_components",
    # values from elsewhere as metrics
    "add_columns",
    # stale hits and conflicts between versions
    "freshness", "freshness_summary", "stale_hits", "version_conflicts", "stale_flag_rate",
    # what more knowledge brings
    "knowledge_gain", "knowledge_gain_documented", "Gain", "candidate_documents", "cosine", "novelty_per_chunk", "novelty_all_pairs", "lexical_novelty",
    # corpora: made up, and looked through
    "needle_set", "NeedleSet", "lint_chunks", "Lint",
    # behaviour of answers
    "behaviour", "behaviour_checks",
    # ask judges
    "judge", "Judge", "Judged", "Endpoint", "judge_table", "find_judge", "with_judged_refusals", "write_judgments",
    "load_judge_inputs", "load_judge_ledger",
    # whether judges can be trusted
    "judge_reliability", "Reliability", "spot_check", "judge_audit", "JudgeAudit", "draw_answers", "corrected_means",
    # who judged
    "judge_fingerprint", "same_judges",
    # metrics as events
    "write_event_log",
    # retrievers side by side, judged by predicates
    "by_predicate", "filter_hits", "predicate_rows", "predicate_report", "predicate_matrix", "predicate_markdown",
    "write_predicates", "write_retrievers", "write_retriever_summary",
    # two rankings side by side
    "rank_overlap", "show_query", "QueryView",
    # label by hand
    "label", "LabelSession", "LabelConflict",
    # keep, draw, report
    "RunStore", "plot", "report", "Report",
]  # fmt: skip
