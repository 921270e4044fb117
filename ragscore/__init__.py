"""Score, compare and explore retrieval and RAG runs as pandas DataFrames.

load_golden, load_results -> coverage -> score -> summarize -> compare_runs -> RunStore, plot
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import lazy_loader

__version__ = "0.1.0"

# The stub beside this file lists the public names by stage, with their modules. A module is
# imported when one of its names is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Package(ModuleType):
    """Keep the function `rs.scoring` visible when the folder `scoring/` is imported."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "scoring" and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled by name, as other modules are: notebook functions that use it go to workers.
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
