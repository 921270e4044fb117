from .reproducible import SameRun, same_run

__all__ = ["SameRun", "same_run"]
