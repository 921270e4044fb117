"""Collect runs: ask a system under test every golden query, and compare runs except for timing."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
