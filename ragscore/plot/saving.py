"""Write a picture to a file at the width of a column, with its type embedded."""

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from ragscore.frames.errors import DataError
from ragscore.plot.lettering import drawn_by
from ragscore.plot.theme import theme

TYPE = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}


def save(ax: "Axes", file: str | Path, width: float | None = None) -> Path:
    """Write a picture of `rs.plot`; with a width it is drawn anew to fit it.

    Type in PDF and PostScript is embedded as TrueType (no Type 3), in SVG it stays text.

    Parameters
    ----------
    ax
        What drew it returned.
    file
        A name that ends in .pdf, .svg, .eps, .png or another format of matplotlib.
    width
        Inches, such as 3.35 of a column; texts are then of 8 points. By default as it is.

    Raises
    ------
    DataError
        A format that matplotlib doesn't write; a width for axes that you made yourself.

    Examples
    --------
    >>> rs.plot.save(ev.plot("mrr@10"), "means.pdf", width=3.35)
    """
    path, figure = Path(file), ax.figure.get_figure(root=True)
    known = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in known:
        raise DataError(f"found {path.name!r}", field="file", allowed=f".{', .'.join(known)}")
    drawn = figure
    if width is not None:
        again = drawn_by.get(ax)
        if again is None:
            raise DataError(
                "the axes were made before", field="width",
                allowed="a figure of its own, or figsize= of yours",
            )  # fmt: skip
        with theme("paper", width=width):
            drawn = again().figure.get_figure(root=True)
    with matplotlib.rc_context(TYPE):  # type: ignore[arg-type]
        drawn.savefig(path)
    if drawn is not figure:
        plt.close(drawn)
    return path
