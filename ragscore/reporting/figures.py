"""Figures of a page: SVG in data addresses, the same bytes for the same frames."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ragscore.frames.data import DataError
from ragscore.frames.escaping import html_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NOT_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"  # with one of these no browser shows it
# Ids come from the salt, not from chance; texts stay texts, so that a font has every script. What a
# tag can do without: the long list of fonts that each text repeats, and hundredths of a point.
STYLE: dict[str, Any] = {"svg.hashsalt": "ragscore", "svg.fonttype": "none", "figure.dpi": 72}
FONT = "text{font-family:'DejaVu Sans',Verdana,sans-serif}"


def figure(title: str, draw: Callable[[], Axes]) -> str:
    """Return a figure as HTML; where the data can't be drawn, the reason."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    out = io.StringIO()
    try:
        with plt.style.context(["default", STYLE]), warnings.catch_warnings():
            for known in ("Glyph .* missing from", "constrained_layout not applied"):
                warnings.filterwarnings("ignore", known, UserWarning)
            drawn = cast("Figure", draw().figure)
            told, canvas = {"Date": None, "Creator": None}, cast("Any", FigureCanvasSVG(drawn))
            try:
                canvas.print_svg(out, metadata=told)  # `savefig` would draw twice
            finally:
                plt.close(drawn)
    except DataError as error:
        return f'<p class="rs-note">No picture: {html_text(error)}</p>'
    svg = re.sub(NOT_XML, "\ufffd", out.getvalue())
    svg = svg[svg.index("<svg") :].replace("</style>", f"{FONT}</style>", 1)
    svg = re.sub("<[^>]*>", lambda tag: _short(tag[0]), svg)
    data = quote(svg, safe=" =:/;,()!*@$+?.-_~[]{}|")  # a fifth smaller than base64
    return f'<figure><img alt="{html_text(title)}" src="data:image/svg+xml,{data}"></figure>'


def _short(tag: str) -> str:
    tag = re.sub('(?:; )?font-family: [^;"]*sans-serif(?=[;"])', "", " ".join(tag.split()))
    return re.sub(r"\d+\.\d{2,}", lambda number: f"{float(number[0]):.1f}", tag)
