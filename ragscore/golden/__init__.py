"""Golden sets: checks, coverage by runs, health, and labelling by hand."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
