"""Extras that only some systems need: behaviour, chunk lint, event log, freshness, gain."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
