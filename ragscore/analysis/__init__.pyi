from . import extras

__all__ = ["extras"]
