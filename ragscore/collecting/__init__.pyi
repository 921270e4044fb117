from .reproducible import same_run

__all__ = ["same_run"]
