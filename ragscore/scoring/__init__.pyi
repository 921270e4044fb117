from . import match

__all__ = ["match"]
