"""Figures as images inside a page: SVG as a data address, the same bytes for the same frames."""

import base64
import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PIXELS = 1.2  # of the page for a point of the figure: two stand side by side
NOT_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
# Ids inside the SVG come from the salt, not from chance; texts stay texts, so that every script is
# shown in a font that has it.
_STYLE: dict[str, Any] = {"svg.hashsalt": "ragscore", "svg.fonttype": "none", "figure.dpi": 100}


def image(alt: str, draw: Callable[[], "Axes"]) -> str:
    """An `<img>` element with the figure in it; `alt` is escaped already."""
    svg = _svg(draw)
    size = re.search(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    width = f' width="{float(size[1]) * PIXELS:.0f}"' if size else ""
    return (
        f'<img alt="{alt}"{width}'
        f' src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}">'
    )


def _svg(draw: Callable[[], "Axes"]) -> str:
    import matplotlib.pyplot as plt

    with plt.style.context(["default", _STYLE]), warnings.catch_warnings():
        # measured in a font that lacks it, shown in one that has it
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = cast("Figure", draw().figure)
        out = io.StringIO()
        figure.savefig(
            out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None}
        )
        plt.close(figure)
    # one such character in a name, and no browser shows the figure
    return re.sub(NOT_XML, "\ufffd", out.getvalue())
