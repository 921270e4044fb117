"""Score, compare and explore retrieval and RAG runs as pandas DataFrames.

load_golden, load_results -> coverage -> score -> summarize -> compare_runs -> RunStore, plot
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import lazy_loader

__version__ = "0.1.0"

# The public names, by stage, and their modules are in the stub beside this file. A module is
# imported when a name of it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Package(ModuleType):
    """Of a function and a module with one name (`rs.score` is in `score.py`), the function is what the package shows."""

    def __setattr__(self, name: str, value: Any) -> None:
        is_own_module = isinstance(value, ModuleType) and value.__name__ == f"{__name__}.{name}"
        if not is_own_module or name == "plot" or name not in __all__:
            super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # As other modules, by name: functions of a notebook that use it are sent to workers by
        # value.
        return import_module, (self.__name__,)


sys.modules[__name__].__class__ = _Package
