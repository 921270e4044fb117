from .detect import Format, Mark
from .formats.frames_for_tools import to_ir_measures, to_ranx
from .records import Record
from .registry import register
from .sidecars import load_documents
from .tools.ragas import to_ragas

__all__ = [
    "Format",
    "Mark",
    "Record",
    "load_documents",
    "register",
    "to_ir_measures",
    "to_ragas",
    "to_ranx",
]
