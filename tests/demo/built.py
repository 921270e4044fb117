"""The demo's builder, `data/demo/build.py`, as a module."""

import importlib.util
import sys
from pathlib import Path

_place = Path(__file__).parents[2] / "data" / "demo" / "build.py"
_spec = importlib.util.spec_from_file_location("demo_build", _place)
build = importlib.util.module_from_spec(_spec)
sys.modules["demo_build"] = build  # dataclasses look it up
_spec.loader.exec_module(build)
