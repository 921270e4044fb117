"""The builders of the demo's data, `data/demo/build.py` and `history.py`, as modules."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def _loaded(name: str) -> ModuleType:
    place = Path(__file__).parents[2] / "data" / "demo" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, place)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


build, history = _loaded("build"), _loaded("history")
