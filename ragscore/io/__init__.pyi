from .formats.documents import to_ir_measures, to_ragas, to_ranx
from .per_query import load_pieces
from .registry import register
from .sidecars import load_documents

__all__ = [
    "load_documents",
    "load_pieces",
    "register",
    "to_ir_measures",
    "to_ragas",
    "to_ranx",
]
