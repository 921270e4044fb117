"""`Section`, and the sections of a report as one HTML page or as Markdown.

In the HTML page style, script and figures are inside, nothing is loaded, and every text is escaped.
Figures are SVG in data addresses, the same bytes for the same frames.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from ragscore.analysis.comparison.model import Comparison
from ragscore.frames.escaping import html_text, markdown_line, markdown_paragraph
from ragscore.frames.render import markdown_table, shown_number
from ragscore.scoring.metrics import headline_of
from ragscore.stats import UNSURE, WORDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

PIXELS = 1.2  # of the page for a point of the figure: two stand side by side
NOT_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
# Ids inside the SVG come from the salt, not from chance; texts stay texts, so that every script is
# shown in a font that has it.
_STYLE: dict[str, Any] = {"svg.hashsalt": "ragscore", "svg.fonttype": "none", "figure.dpi": 100}


def image(alt: str, draw: Callable[[], Axes]) -> str:
    """Return an `<img>` element with the figure in it; `alt` is escaped already."""
    svg = _svg(draw)
    size = re.search(r'<svg [^>]*?viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    width = f' width="{float(size[1]) * PIXELS:.0f}"' if size else ""
    return (
        f'<img alt="{alt}"{width}'
        f' src="data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}">'
    )


def _svg(draw: Callable[[], Axes]) -> str:
    import matplotlib.pyplot as plt

    with plt.style.context(["default", _STYLE]), warnings.catch_warnings():
        # measured in a font that lacks it, shown in one that has it
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        figure = cast("MatplotlibFigure", draw().figure)
        out = io.StringIO()
        figure.savefig(
            out, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None}
        )
        plt.close(figure)
    # one such character in a name, and no browser shows the figure
    return re.sub(NOT_XML, "\ufffd", out.getvalue())


# what it shows, for those who can't see it, and how to draw it
Figure = tuple[str, Callable[[], "Axes"]]


@dataclass(frozen=True)
class Section:
    """A heading, and below it sentences, figures, a table and its notes, in this order.

    `folded` are columns of long texts that open on a click; Markdown leaves them out.
    """

    title: str
    depth: int = 2
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    table: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    folded: tuple[str, ...] = field(default=())


def each(rows: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Return rows as tuples of these columns."""
    return list(zip(*(rows[name] for name in names), strict=True))


def by_verdict(cmp: Comparison) -> dict[str, str]:
    """Return verdict -> the aspects with this verdict, as text."""
    own = cmp.aspects.set_index("aspect")["verdict"]
    return {verdict: ", ".join(own.index[own == verdict]) for verdict in WORDS}


def exploratory(cmp: Comparison) -> str:
    """Return what headline metrics say beyond the primary ones, as text: verdict: metrics."""
    rows = cmp.deltas[(cmp.deltas["n"] > 0).to_numpy() & ~cmp.deltas["is_primary"].to_numpy()]
    own = rows.set_index("metric")["verdict"]
    own = own[own.index.isin(headline_of(own.index))]
    told = {word: ", ".join(own.index[own == word]) for word in WORDS if word != UNSURE}
    return "; ".join(f"{word}: {names}" for word, names in told.items() if names)


STYLE = """
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 1400px; margin: 2em auto; padding: 0 1.5em }
h1 { font-size: 1.6em } h2 { font-size: 1.3em; margin-top: 2.2em; border-top: 1px solid #ccc; padding-top: .8em } h3 { font-size: 1.05em; margin-top: 1.6em }
h1, h2, h3, p, li { overflow-wrap: anywhere; max-height: 12em; overflow-y: auto }
nav { font-size: .92em } nav a { display: inline-block; vertical-align: bottom; margin-right: 1.1em }
nav a, th button { max-width: 24em; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.scroll { overflow-x: auto; border: 1px solid #ddd; margin: .8em 0 } .long { max-height: 34em; overflow-y: auto }
table { border-collapse: collapse; font-size: .87em; min-width: 100% }
th, td { text-align: left; vertical-align: top; padding: .25em .7em; border-bottom: 1px solid #eee }
td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
th { position: sticky; top: 0; background: #f3f3f3; padding: 0 }
th button { font: inherit; font-weight: 600; border: 0; background: none; padding: .3em .7em; cursor: pointer; text-align: left; width: 100% }
th[aria-sort=ascending] button::after { content: " ▲" } th[aria-sort=descending] button::after { content: " ▼" }
td > div { max-width: 30em; max-height: 9em; overflow: auto; overflow-wrap: break-word } td > div.s { white-space: nowrap }
td > div:not(.s) { min-width: 10em } td > div.t { min-width: 13em }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; max-width: 46em; max-height: 22em; overflow: auto; margin: .3em 0 }
.figures { display: flex; flex-wrap: wrap; gap: .8em 1em; align-items: flex-start } figure { margin: .3em 0 } img { max-width: 100%; height: auto }
.better, .win { color: #00694c; font-weight: 600 } .worse, .regression { color: #a63f00; font-weight: 600 } .note { color: #555; font-size: .9em }
"""
# A click on a heading sorts by it: numbers by size, texts by the alphabet, missing values last; a
# second click turns the order round.
SCRIPT = """
function key(row, at) {
  const text = row.cells[at].textContent.trim(), found = text.replace(/\\u2212/g, '-').match(/^[<\\s]*([+-]?(?:\\d+\\.?\\d*|\\.\\d+))(?![\\w-])/);
  return text === '' || text === '\\u2014' ? null : found ? Number(found[1]) : text;
}
function compare(a, b) {
  if (typeof a === typeof b) return typeof a === 'number' ? a - b : a.localeCompare(b);
  return typeof a === 'number' ? -1 : 1;
}
for (const button of document.querySelectorAll('th button')) button.addEventListener('click', () => {
  const head = button.parentElement, at = head.cellIndex, body = head.closest('table').tBodies[0];
  const turn = head.getAttribute('aria-sort') === 'ascending' ? -1 : 1;
  for (const other of head.parentElement.cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', turn === 1 ? 'ascending' : 'descending');
  const rows = Array.from(body.rows, row => [key(row, at), row]);
  rows.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : turn * compare(a, b));
  body.append(...rows.map(([, row]) => row));
});
"""
LONG = 25  # rows from which a table scrolls in itself
SHORT, WIDE = 22, 45  # characters up to which a text stays on one line, and from which it gets room
NUMBER = r"(< )?[-+−]?\d*\.?\d+"
MARKED = ("better", "worse", "win", "regression")


def to_html(title: str, parts: list[Section]) -> str:
    """Return the whole page; its policy forbids all addresses and other scripts."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
        f" 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )
    links = "".join(
        f'<a href="#s{place}">{html_text(part.title)}</a>'
        for place, part in enumerate(parts)
        if part.depth == 2
    )
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}"><meta'
        ' name="viewport" content="width=device-width">'
    )
    body = "\n".join(_section(place, part) for place, part in enumerate(parts))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}<link rel="icon"'
        f' href="data:,"><title>{html_text(title)}</title><style>{STYLE}</style></head>\n<body>\n'
        f"<h1>{html_text(title)}</h1>\n<nav>{links}</nav>\n{body}\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _section(place: int, part: Section) -> str:
    lines = [
        f'<h{part.depth} id="s{place}">{html_text(part.title)}</h{part.depth}>',
        *(f"<p>{html_text(text)}</p>" for text in part.sentences),
    ]
    figures = "\n".join(
        f"<figure>{image(html_text(alt), draw)}</figure>" for alt, draw in part.figures
    )
    lines += [f'<div class="figures">{figures}</div>'] if figures else []
    lines += [] if part.table is None else [_table(part.table, part.folded)]
    return "\n".join([*lines, *(f'<p class="note">{html_text(text)}</p>' for text in part.notes)])


def _table(table: pd.DataFrame, folded: tuple[str, ...]) -> str:
    names = [str(name) for name in table.columns]
    head = "".join(
        f'<th scope="col"><button type="button">{html_text(name)}</button></th>' for name in names
    )
    columns = [
        _cells([_text(value) for value in table.iloc[:, place]], name in folded)
        for place, name in enumerate(names)
    ]
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*columns, strict=True))
    return (
        "<div"
        f' class="scroll{" long" if len(table) > LONG else ""}"><table><thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'
    )


def _cells(texts: list[str], is_folded: bool) -> list[str]:
    """Return the cells of one column; a column of numbers is aligned right."""
    if is_folded:
        return [
            f"<td><details><summary>show</summary><pre>{html_text(text)}</pre></details></td>"
            for text in texts
        ]
    if any(text != "—" for text in texts) and all(
        text == "—" or re.fullmatch(NUMBER, text) for text in texts
    ):
        return [f'<td class="n">{html_text(text)}</td>' for text in texts]
    return [
        (
            f'<td class="{text}">{text}</td>'
            if text in MARKED
            else f"<td><div{_width(text)}>{html_text(text)}</div></td>"
        )
        for text in texts
    ]


def _width(text: str) -> str:
    return ' class="s"' if len(text) <= SHORT else ' class="t"' if len(text) >= WIDE else ""


def _text(value: object) -> str:
    return (
        "—"
        if value is None or value is pd.NA
        else shown_number(value)
        if isinstance(value, float)
        else str(value)
    )


def to_markdown(title: str, parts: list[Section]) -> str:
    """Return the whole page; a text can't open a tag, a link, a table cell or a heading."""
    return (
        "\n\n".join(
            [f"# {markdown_line(title)}", *(block for part in parts for block in _blocks(part))]
        )
        + "\n"
    )


def _blocks(part: Section) -> list[str]:
    table = (
        [] if part.table is None else [markdown_table(part.table.drop(columns=list(part.folded)))]
    )
    return [
        f"{'#' * part.depth} {markdown_line(part.title)}",
        *map(markdown_paragraph, part.sentences),
        *table,
        *map(markdown_paragraph, part.notes),
    ]
