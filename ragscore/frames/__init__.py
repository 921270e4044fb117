"""The data model: kinds of frames, Golden, Results, DataError, ranking, codes, JSON and text."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
