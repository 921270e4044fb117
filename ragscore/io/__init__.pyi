from .detect import Format, Mark
from .formats.beir import write_beir, write_qrels_jsonl
from .formats.chatbot import write_chatbot
from .formats.chatbot_golden import write_chatbot_golden
from .formats.frames_for_tools import to_ir_measures, to_ranx
from .formats.json_run import write_json_qrels, write_json_run
from .formats.metric_report import write_report
from .formats.predicates import write_predicates
from .formats.retrievers import write_retriever_summary, write_retrievers
from .formats.trec import write_trec_qrels, write_trec_run
from .formats.trec_rag import write_trec_rag
from .golden_write import write_golden
from .per_query import load_pieces
from .per_query_write import write_per_query
from .records import Record
from .registry import register
from .sidecars import load_documents, write_judgments
from .tools.ragas import to_ragas

__all__ = [
    "Format",
    "Mark",
    "Record",
    "load_documents",
    "load_pieces",
    "register",
    "to_ir_measures",
    "to_ragas",
    "to_ranx",
    "write_beir",
    "write_chatbot",
    "write_chatbot_golden",
    "write_golden",
    "write_json_qrels",
    "write_json_run",
    "write_judgments",
    "write_per_query",
    "write_predicates",
    "write_qrels_jsonl",
    "write_report",
    "write_retriever_summary",
    "write_retrievers",
    "write_trec_qrels",
    "write_trec_rag",
    "write_trec_run",
]
