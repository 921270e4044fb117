"""Figures of a page: SVG in data addresses, small, and the same bytes for the same frames."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote
from zlib import crc32

from ragscore.frames.escaping import html_text
from ragscore.plot.layout import closing_figures
from ragscore.plot.marks import WHOLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

# what it shows, for those who can't see it, and how to draw it
Figure = tuple[str, Callable[[], "Axes"]]

NEAR = 6  # pixels to each side of a line, and half of those above it
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
    """Return an `<img>` element with the figure in it, and its text twin below `alt`.

    An image map says in full what a vertical line of a trend marks, where a pointer rests on it.
    """
    drawn, text, areas = _svg(draw)
    svg = compact_svg(drawn)
    size = re.search(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    # its size beforehand, so that nothing moves when it is shown
    sized = (
        f' width="{float(size[1]) * PIXELS:.0f}" height="{float(size[2]) * PIXELS:.0f}"'
        if size
        else ""
    )
    # A fifth smaller than base64. Quotes, signs of tags and line ends are among what is quoted.
    data = quote(svg, safe=" =:/;,()!*@$+?.-_~[]{}|")
    told = html_text(". ".join(filter(None, (alt, text))))
    name = f"marks-{crc32(svg.encode()):08x}"
    used, areas = (f' usemap="#{name}"', f'<map name="{name}">{areas}</map>') if areas else ("", "")
    return f'<img alt="{told}"{sized}{used} src="data:image/svg+xml,{data}">{areas}'


def _areas(figure: MatplotlibFigure, whole: Any) -> str:
    """Return the areas of vertical lines, as far to each side as a pointer needs."""
    boxes = [
        (line.get_window_extent(), str(line.get_label()).removeprefix(WHOLE).strip())
        for ax in figure.axes
        for line in ax.lines
        if str(line.get_label()).startswith(WHOLE)
    ]
    left, top = 72 * whole.x0, 72 * whole.y1
    return "".join(
        f'<area shape="rect" title="{html_text(text)}" coords="'
        f"{PIXELS * (box.x0 - left) - NEAR:.0f},{PIXELS * (top - box.y1) - 2 * NEAR:.0f},"
        f'{PIXELS * (box.x1 - left) + NEAR:.0f},{PIXELS * (top - box.y0):.0f}">'
        for box, text in boxes
    )


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


def _svg(draw: Callable[[], Axes]) -> tuple[str, str, str]:
    """Return the figure as SVG, as text, and its areas that say more."""
    import matplotlib
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # a backend is set up before, not within (see `plot.theme`)
    plt.draw_if_interactive()  # type: ignore[no-untyped-call]
    with closing_figures(), plt.style.context(["default", _STYLE]), warnings.catch_warnings():
        # measured in a font that lacks it, shown in one that has it
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = cast("MatplotlibFigure", draw().figure)
        canvas = FigureCanvasSVG(figure)
        # `bbox_inches="tight"` would draw the figure once more to lay it out and measure it
        whole = figure.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"])
        areas = _areas(figure, whole)
        figure.set_layout_engine(None)
        out = io.StringIO()
        canvas.print_figure(
            out, format="svg", bbox_inches=whole, metadata={"Date": None, "Creator": None}
        )
        plt.close(figure)
    # one such character in a name, and no browser shows the figure
    text = " | ".join(getattr(figure, "ragscore_text", "").split("\n"))
    return re.sub(NOT_XML, "\ufffd", out.getvalue()), text, re.sub(NOT_XML, "\ufffd", areas)
