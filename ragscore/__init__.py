"""Score, compare and explore retrieval and RAG runs as pandas DataFrames.

`rs.evaluate(results, golden)` is the way in; everything else is asked of what it returns.
"""

import lazy_loader

__version__ = "0.1.0"

# The stub beside this file lists the public names, with their modules. A module is
# imported when one of its names is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
