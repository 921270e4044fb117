from . import collecting, frames, golden, io, judging, plot, stats
from .analysis import extras
from .analysis.comparison.align import query_matrix
from .analysis.comparison.compare import compare_runs
from .analysis.comparison.model import Comparison
from .analysis.comparison.relabelling import label_effect
from .analysis.comparison.score_diff import diff_scores
from .analysis.config_effects import config_effects
from .analysis.harness_files import write_event_log, write_metrics_json
from .analysis.leaderboard import Leaderboard, leaderboard
from .analysis.query_view import show_query
from .analysis.slices import slice_means
from .collecting.reproducible import SameRun, same_run
from .collecting.run import collect
from .evaluation import Evaluation, evaluate
from .frames.data import DataError, Golden, Results, conform
from .frames.ranking import collapse_hits, rank_hits
from .golden.coverage import compare_suites, coverage, coverage_rows
from .golden.labelling import LabelConflict, LabelSession, label
from .golden.requirements import supported_metrics
from .golden.validate import validate
from .io.formats.beir import write_beir, write_qrels_jsonl
from .io.formats.chatbot import write_chatbot
from .io.formats.chatbot_golden import write_chatbot_golden
from .io.formats.frames_for_tools import to_ir_measures, to_ranx
from .io.formats.json_run import write_json_qrels, write_json_run
from .io.formats.metric_report import write_report
from .io.formats.predicates import write_predicates
from .io.formats.ragchecker import write_ragchecker
from .io.formats.retrievers import write_retriever_summary, write_retrievers
from .io.formats.trec import write_trec_qrels, write_trec_run
from .io.formats.trec_rag import write_trec_rag
from .io.golden_write import write_golden
from .io.load import load_golden, load_results
from .io.per_query_write import write_per_query
from .io.sidecars import load_documents, write_judgments
from .io.tools.ragas import to_ragas
from .judging.run import judge
from .reporting import Report, report
from .scoring import match
from .scoring.anchors import by_anchor
from .scoring.answers import score_answers
from .scoring.attribution import parse_citations
from .scoring.grading import grade_hits
from .scoring.metrics import metrics, score_hits
from .scoring.policies import Policies
from .scoring.predicates import by_predicate, filter_hits
from .scoring.profile_aggregates import aggregate
from .scoring.profiles import Profile
from .scoring.provenance import provenance
from .scoring.rules import Rule, by_chunk, by_doc, by_span, targets_at
from .scoring.score import score, scoring
from .scoring.summary import add_columns, summarize
from .scoring.value_states import explain
from .stats import bootstrap_mean, bootstrap_means
from .store.store import RunStore

__version__: str

__all__ = [
    # what everything is made of
    "DataError", "Golden", "Results", "conform",
    # load, write back
    "load_golden", "load_results", "load_documents", "write_golden",
    "write_per_query", "write_chatbot", "write_chatbot_golden",
    # to other tools
    "write_trec_run", "write_trec_qrels", "write_qrels_jsonl", "write_json_run", "write_json_qrels",
    "write_beir", "write_report",
    "write_trec_rag", "write_ragchecker", "to_ranx", "to_ir_measures", "to_ragas",
    # what other tools reported
    "diff_scores", "bootstrap_mean",
    "bootstrap_means",
    # the order of hits
    "rank_hits", "collapse_hits",
    # ask a system
    "collect", "same_run", "SameRun",
    # before any number
    "validate", "supported_metrics", "coverage", "coverage_rows",
    # match and score
    "Rule", "targets_at", "by_chunk", "by_doc", "by_anchor", "by_span", "grade_hits",
    "score_hits", "score_answers",
    "parse_citations",
    # reports per run
    "write_metrics_json",
    # what a golden set can tell
    "compare_suites",
    # the compute stage in one call
    "Evaluation", "evaluate", "score", "scoring", "aggregate", "Policies", "Profile",
    "metrics",
    # summarize, compare
    "summarize", "explain", "compare_runs", "Comparison",
    # what measures, and whether the labels changed
    "provenance", "label_effect",
    # many runs
    "leaderboard", "Leaderboard", "query_matrix", "config_effects",
    # by slice of the questions
    "slice_means",
    # values from elsewhere as metrics
    "add_columns",
    # ask judges
    "judge",
    "write_judgments",
    # metrics as events
    "write_event_log",
    # retrievers side by side, judged by predicates
    "by_predicate", "filter_hits",
    "write_predicates", "write_retrievers", "write_retriever_summary",
    # two rankings side by side
    "show_query",
    # label by hand
    "label", "LabelSession", "LabelConflict",
    # keep, draw, report
    "RunStore", "plot", "report", "Report",
    # namespaces
    "collecting", "extras", "frames", "golden", "io", "judging", "match", "stats",
]  # fmt: skip
