from .coverage import compare_suites
from .labelling import LabelConflict, LabelSession

__all__ = ["LabelConflict", "LabelSession", "compare_suites"]
