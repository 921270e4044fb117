from .data import conform

__all__ = ["conform"]
