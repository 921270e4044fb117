"""`Section`, and a report's summary, explorer and sections as one HTML page or as Markdown.

In the HTML page style, scripts and figures are inside, nothing is loaded, and every text is
escaped. Equal sections give equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd

from ragscore.analysis.comparison.model import Comparison
from ragscore.frames import tables
from ragscore.frames.escaping import html_text, markdown_line, markdown_paragraph
from ragscore.frames.short_names import fitting_names, renamed
from ragscore.frames.tables import SIGNS, TINTS, VERDICTS, Table
from ragscore.plot.style import all_runs
from ragscore.reporting.explorer.element import Mounted, digest
from ragscore.reporting.figures import Figure, image
from ragscore.reporting.summary import Card, Summary
from ragscore.stats.verdicts import WORDS

OPEN = 3  # sections that are unfolded at first, where at most two runs are compared
QUERIES, NAME = "queries", 28  # id of the explorer's section
READ_FIRST, UNTOLD = "Read these queries first", "What can't be told"


@dataclass(frozen=True)
class Section:
    """A heading, and below it sentences, figures, a table and its notes, in this order.

    The page shows `limit` rows of the table and says where the others are (`way`); Markdown has all
    of them. Words in the columns `verdicts` get their sign and tint.
    """

    title: str
    depth: int = 2
    sentences: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    table: pd.DataFrame | None = None
    notes: tuple[str, ...] = ()
    limit: int | None = None
    way: str = ""
    verdicts: tuple[str, ...] = VERDICTS


def each(rows: pd.DataFrame, *names: str) -> list[tuple[Any, ...]]:
    """Return rows as tuples of these columns."""
    return list(zip(*(rows[name] for name in names), strict=True))


def by_verdict(cmp: Comparison) -> dict[str, str]:
    """Return verdict -> the aspects with this verdict, as text."""
    own = cmp.aspects.set_index("aspect")["verdict"]
    return {verdict: ", ".join(own.index[own == verdict]) for verdict in WORDS}


def to_html(
    title: str,
    parts: list[Section],
    summary: Summary | None = None,
    explorer: Mounted | None = None,
    about: Sequence[str] = (),
    run_ids: Sequence[str] = (),
) -> str:
    """Return the whole page; its policy forbids all addresses and other scripts.

    Parameters
    ----------
    explorer
        The element that shows single queries, with the sentences `about` above it.
    run_ids
        All runs, so that each looks alike in every figure.
    """
    scripts = [_file("page.js"), *([explorer.script] if explorer else [])]
    styles = [tables.STYLE, *([explorer.style] if explorer else []), _file("page.css")]
    policy = (
        "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src"
        f" {' '.join(map(digest, scripts))}; base-uri 'none'; form-action 'none'"
    )
    names, short = _names(parts), fitting_names(run_ids, NAME)
    titles = {part.title: name for part, name in zip(parts, names, strict=True)}
    is_many = len(run_ids) > 2
    links = [(QUERIES, "Query by query")] if explorer else []
    links += [(titles[part.title], part.title) for part in parts if part.depth == 2]
    contents = "".join(
        f'<li><a href="#{name}" title="{html_text(text)}">{html_text(renamed(text, short))}</a></li>'
        for name, text in links
    )
    with all_runs(run_ids):
        folds = "\n".join(_folds(parts, names, 0 if is_many else OPEN))
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}"><meta'
        ' name="viewport" content="width=device-width, initial-scale=1"><link rel="icon"'
        f' href="data:,"><title>{html_text(title)}</title><style>{"".join(styles)}</style>'
    )
    sentences = "".join(f'<p class="note">{html_text(text)}</p>' for text in about)
    top = _summary(summary, explorer is not None, True) if summary else ""
    body = [
        f'<a class="skip" href="#main">Skip to the content</a>\n<header><h1>{html_text(title)}</h1>'
        "\n<nav><details><summary>Contents</summary>"
        f'<ul>{contents}</ul></details></nav></header>\n<main id="main" tabindex="-1">',
        _fold("newest", "The newest comparison", top, False) if is_many and top else top,
        _fold(QUERIES, "Query by query", f"{sentences}\n{explorer.html}", not is_many)
        if explorer
        else "",
        f"{folds}\n</main>",
        *(f"<script>{script}</script>" for script in scripts),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n'
        + "\n".join(filter(None, body))
        + "\n</body>\n</html>\n"
    )


def _fold(name: str, title: str, inner: str, is_open: bool) -> str:
    """Return a section that folds."""
    return (
        f'<details class="part" id="{name}"{" open" if is_open else ""}><summary><h2>'
        f"{html_text(title)}</h2></summary>{inner}</details>"
    )


def _file(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _names(parts: list[Section]) -> list[str]:
    """Return an id for every section: its title in plain letters, so that links outlive changes."""
    found: dict[str, None] = dict.fromkeys(("main", QUERIES, "newest"))
    for part in parts:
        name = re.sub("[^a-z0-9]+", "-", part.title.lower())[:50].strip("-") or "section"
        again = 2
        own = name
        while own in found:
            own, again = f"{name}-{again}", again + 1
        found[own] = None
    return list(found)[3:]


def _summary(summary: Summary, has_links: bool, is_titled: bool) -> str:
    right, below = "", ""
    if len(summary.reading):
        items = "".join(
            f"<li>{_read_first(row, has_links)}</li>" for row in summary.reading.to_dict("records")
        )
        right = f"<h3>{READ_FIRST}</h3><ol>{items}</ol>"
    if summary.untold:
        items = "".join(f"<li>{html_text(text)}</li>" for text in summary.untold)
        below = f"<div><h3>{UNTOLD}</h3><ul>{items}</ul></div>"
    title = _card_title(summary.card) if is_titled else ""
    return (
        '<section class="summary" aria-label="Summary">'
        f"<div>{title}{''.join(_card_body(summary.card))}</div>"
        f'<div class="reading">{right}</div>{below}</section>'
    )


def _card_title(card: Card) -> str:
    sign = f'<span class="sign">{SIGNS[card.verdict]}</span> ' if card.verdict in SIGNS else ""
    tint = f' class="{TINTS[card.verdict]}"' if card.verdict in TINTS else ""
    return f"<h2><span{tint}>{sign}{html_text(card.title)}</span></h2>"


def _card_body(card: Card) -> list[str]:
    found = [f"<p>{html_text(text)}</p>" for text in card.sentences]
    if len(card.primaries):
        found.append(Table(card.primaries, is_wide=True).to_html(alone=False))
    return found


def _read_first(row: dict[Any, Any], has_link: bool) -> str:
    """Return a query as a link into the explorer, what became of it, and its text."""
    name = html_text(row["query_id"])
    link = f"#x.q={quote(row['query_id'], safe='')}"
    shown = f'<a href="{link}">{name}</a>' if has_link else f"<b>{name}</b>"
    outcome = row["outcome"]
    tint = TINTS.get(outcome, "")
    words = f'<span class="{tint}">{SIGNS[outcome]} {html_text(outcome)}</span> ' if tint else ""
    return (
        f'<div class="clamp">{shown} {words}{html_text(row["why"])}</div><div class="clamp note">'
        f"{html_text(row['query'])}</div>"
    )


def _folds(parts: list[Section], names: list[str], n_open: int) -> list[str]:
    """Return the sections; each with those below it folds, and the first ones are open."""
    lines: list[str] = []
    n = 0
    for name, part in zip(names, parts, strict=True):
        title = html_text(part.title)
        if part.depth == 2:
            lines += ["</details>"] if n else []
            lines.append(
                f'<details class="part" id="{name}"{" open" if n < n_open else ""}><summary>'
                f"<h2>{title}</h2></summary>"
            )
            n += 1
        else:
            lines.append(f'<h{part.depth} id="{name}">{title}</h{part.depth}>')
        lines.append(_content(part))
    return [*lines, "</details>"] if n else lines


def _content(part: Section) -> str:
    lines = [f"<p>{html_text(text)}</p>" for text in part.sentences]
    figures = "\n".join(
        f'<figure tabindex="0">{image(alt, draw)}</figure>' for alt, draw in part.figures
    )
    lines += [f'<div class="figures">{figures}</div>'] if figures else []
    if part.table is not None:
        shown = Table(part.table, "", part.verdicts, part.limit, part.way, is_wide=True)
        # the heading above names the table for those who can't see that it stands there
        lines.append(
            shown.to_html(alone=False).replace(
                'aria-label="Table"', f'aria-label="{html_text(part.title)}"', 1
            )
        )
    return "\n".join([*lines, *(f'<p class="note">{html_text(text)}</p>' for text in part.notes)])


def to_markdown(
    title: str,
    parts: list[Section],
    summary: Summary | None = None,
) -> str:
    """Return the whole page; a text can't open a tag, a link, a table cell or a heading."""
    top = _summary_blocks(summary) if summary else []
    blocks = [f"# {markdown_line(title)}", *top]
    for part in parts:
        table = part.table
        blocks += [
            f"{'#' * part.depth} {markdown_line(part.title)}",
            *map(markdown_paragraph, part.sentences),
            *([] if table is None else [Table(table, verdicts=part.verdicts).to_markdown()]),
            *map(markdown_paragraph, part.notes),
        ]
    return "\n\n".join(blocks) + "\n"


def _summary_blocks(summary: Summary) -> list[str]:
    card = summary.card
    sign = f"{SIGNS[card.verdict]} " if card.verdict in SIGNS else ""
    blocks = [f"## {sign}{markdown_line(card.title)}", *map(markdown_paragraph, card.sentences)]
    blocks += [Table(card.primaries).to_markdown()] if len(card.primaries) else []
    if len(summary.reading):
        blocks += [f"### {READ_FIRST}", Table(summary.reading).to_markdown()]
    if summary.untold:
        blocks += [
            f"### {UNTOLD}",
            "\n".join(f"- {markdown_paragraph(one)}" for one in summary.untold),
        ]
    return blocks
