"""Figures of a page: SVG in data addresses, small, and the same bytes for the same frames."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from ragscore.frames.escaping import html_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

# what it shows, for those who can't see it, and how to draw it
Figure = tuple[str, Callable[[], "Axes"]]

PIXELS = 1.2  # of the page for a point of the figure: its small letters have 10 pixels and more
NOT_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
# Ids inside the SVG come from the salt, not from chance; texts stay texts, so that every script is
# shown in a font that has it. An SVG has 72 dots an inch: laid out so, a figure stands as it is.
_STYLE: dict[str, Any] = {"svg.hashsalt": "ragscore", "svg.fonttype": "none", "figure.dpi": 72}
_FONT = "text{font-family:'DejaVu Sans',Verdana,sans-serif}"
_HEAD = re.compile(r"<\?xml.*?\?>|<!DOCTYPE[^>]*>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
_TAG = re.compile("<[^>]*>")
# What a tag can do without: names of groups that nothing refers to, the long list of fonts that
# every text repeats, and turns by nothing.
_SPARE = re.compile(
    r' id="[a-zA-Z][\w.]*_\d+"|(?:; )?font-family: [^;"]*sans-serif(?=[;"])'
    r'| transform="rotate\(-?0 [^)]*\)"'
)
_LONG_NUMBER = re.compile(r"\d+\.\d{2,}")


def image(alt: str, draw: Callable[[], Axes]) -> str:
    """Return an `<img>` element with the figure in it."""
    svg = compact_svg(_svg(draw))
    size = re.search(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    # its size beforehand, so that nothing moves when it is shown
    sized = (
        f' width="{float(size[1]) * PIXELS:.0f}" height="{float(size[2]) * PIXELS:.0f}"'
        if size
        else ""
    )
    # A fifth smaller than base64. Quotes, signs of tags and line ends are among what is quoted.
    data = quote(svg, safe=" =:/;,()!*@$+?.-_~[]{}|")
    return f'<img alt="{html_text(alt)}"{sized} src="data:image/svg+xml,{data}">'


def compact_svg(svg: str) -> str:
    """Return an SVG of matplotlib at about half its size, which looks the same.

    Coordinates keep a tenth of a point. Texts are left alone: only tags are touched.
    """
    kept = _HEAD.sub("", svg).replace("</style>", f"{_FONT}</style>", 1)
    kept = _TAG.sub(
        lambda tag: _LONG_NUMBER.sub(
            lambda number: f"{float(number[0]):.1f}".removesuffix(".0"),
            _SPARE.sub("", " ".join(tag[0].split())),
        ),
        kept,
    )
    return re.sub(r">\s+<", "><", kept).strip()


def _svg(draw: Callable[[], Axes]) -> str:
    """Return the figure as SVG."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # a backend is set up before, not within (see `plot.style`)
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    out = io.StringIO()
    with plt.style.context(["default", _STYLE]), warnings.catch_warnings():
        # measured in a font that lacks it, shown in one that has it
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = cast("MatplotlibFigure", draw().figure)
        try:
            told = {"Date": None, "Creator": None}
            FigureCanvasSVG(figure).print_figure(out, format="svg", metadata=told)
        finally:
            plt.close(figure)
    # one such character in a name, and no browser shows the figure
    return re.sub(NOT_XML, "\ufffd", out.getvalue())
