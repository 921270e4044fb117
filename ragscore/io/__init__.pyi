from .formats.frames_for_tools import to_ir_measures, to_ragas, to_ranx
from .registry import register
from .sidecars import load_documents

__all__ = [
    "load_documents",
    "register",
    "to_ir_measures",
    "to_ragas",
    "to_ranx",
]
