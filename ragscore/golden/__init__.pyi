from .labelling import LabelConflict, LabelSession

__all__ = ["LabelConflict", "LabelSession"]
