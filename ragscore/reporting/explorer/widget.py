"""The selection of an explorer in a notebook, brought back to Python.

A widget that is never shown passes messages of the explorer's frame on. So the data stay in the
output, and none of it is in the notebook's widget state. Imported only where anywidget is there.
"""

from pathlib import Path
from typing import Any

import anywidget
import traitlets
from ipywidgets import Layout

_bridges: dict[str, "Bridge"] = {}


class Bridge(anywidget.AnyWidget):
    """The state of the explorers of this name: `query`, `outcome`, `run`, `hit`, `search`."""

    _esm = Path(__file__).with_name("widget.js").read_text(encoding="utf-8")
    name = traitlets.Unicode().tag(sync=True)
    state = traitlets.Dict().tag(sync=True)


def bridge(name: str) -> Any:
    """Return the one bridge of explorers of this name.

    The ids of its models come from the name, so that a notebook that runs again keeps its bytes.
    """
    if name not in _bridges:
        _bridges[name] = Bridge(model_id=name, name=name, layout=Layout(model_id=f"{name}-layout"))
    return _bridges[name]
