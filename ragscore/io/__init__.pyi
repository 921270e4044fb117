from .formats.documents import to_ir_measures, to_ragas, to_ranx
from .registry import register
from .run_file import load_documents, load_pieces

__all__ = [
    "load_documents",
    "load_pieces",
    "register",
    "to_ir_measures",
    "to_ragas",
    "to_ranx",
]
