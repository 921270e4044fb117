"""How objects are shown to people: `Table`, and `Display`, the form of everything that shows some.

In: frames and sentences. Out: the same as HTML for a notebook or a page, Markdown, LaTeX, and text
for a terminal. Nothing is computed here but the number of decimals.
"""

import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.escaping import (
    html_lines,
    html_text,
    latex_text,
    markdown_cell,
    markdown_line,
    markdown_paragraph,
    visible,
)
from ragscore.frames.render import decimals_for, shown_number

SIGNS = {
    "better": "▲", "worse": "▼", "can't tell": "○", "same within margin": "=",
    "no worse than margin": "◆", "no worse": "◆", "mixed": "▲▼",
    "win": "▲", "loss": "▼", "regression": "▼!", "draw": "=", "both_miss": "○",
    "no_target": "–", "only_baseline": "◁", "only_candidate": "▷", "improvement": "▲",
    "pass": "✓", "fail": "✗", "not evaluated": "○",
}  # fmt: skip
"""Word of a verdict or an outcome -> the sign before it, in every table."""
TINTS = {
    "better": "good", "win": "good", "improvement": "good", "pass": "good",
    "no worse than margin": "good", "no worse": "good", "loss": "poor", "mixed": "poor",
    "worse": "bad", "regression": "bad", "fail": "bad",
}  # fmt: skip
VERDICTS = ("verdict", "outcome", "candidate is")
"""Columns whose words get their sign and tint unless a table names others."""

WIDTH = 100  # columns of a terminal
TALL = 25  # rows from which a table scrolls in itself
LONG = 90  # characters from which a text is folded to three lines
SHORT = 16  # characters up to which a text stays on one line
NARROW = 16  # characters that a wrapped column keeps in a terminal
LINES = 3  # of a text in a terminal

# "0.81", "+0.02 [-0.01, 0.05]", "12 / 180, n = 9 / 9", "< .001", "3 of 5 (60%)", but no date and
# no version
_ONE = r"[<≤≥>]?\s?[-+−]?(?:\d[\d,]*)?\.?\d+%?"
_NUMBERS = re.compile(rf"[\[(]?{_ONE}(?:(?:[\s,/()\[\]%]|of |n = |exact |p50 |p95 )+(?:{_ONE})?)*")
_WORD = re.compile(
    rf"(?P<before>.*?)(?P<word>{'|'.join(sorted(SIGNS, key=len, reverse=True))})"
    r"(?P<after>(?: \(.*\))?)"
)
# what a line of a terminal keeps together: "n = 150 / 150", "○ can't tell"
_TOGETHER = re.compile(
    "|".join(
        [
            r"\bn = [\d,]+(?: / [\d,]+)?",
            *(
                re.escape(f"{sign} {word}")
                for word, sign in sorted(SIGNS.items(), key=lambda one: -len(one[0]))
            ),
        ]
    )
)
_BREAKS = re.compile(r"((?<!\d)\.+|\.+(?!\d)|[#/\\:]+)(?=[^\s.#/\\:])")
_NARROW = 20  # characters that need no break


@dataclass(frozen=True)
class Table:
    """One table for people, made of a frame without its index.

    `to_html`, `to_markdown`, `to_latex` and `to_text` show the same cells. Text stands left and
    numbers right; a column of floats has one number of decimals, by its standard error where
    `low` and `high` stand beside it. Missing values are `—`, and nothing is `-0.00`.

    Attributes
    ----------
    frame
        Values, or texts that are shown as they are.
    heading
        What stands above the table.
    verdicts
        The columns whose words get a sign and a tint (`SIGNS`): better, worse, win, loss, pass, …
        alone, after a number, or before a remark in brackets.
    limit
        The number of rows to show; a sentence counts the rest and names `way`.
    way
        Where the rest is, such as ".table".
    """

    frame: pd.DataFrame
    heading: str = ""
    verdicts: Sequence[str] = VERDICTS
    limit: int | None = None
    way: str = ""

    def to_html(self, *, alone: bool = True) -> str:
        """Return the table as HTML in a box that scrolls; a click on a heading sorts.

        Every text is escaped. A page that shows many tables has `STYLE` and `SCRIPT` once, and asks
        for each with `alone=False`.
        """
        names = [str(name) for name in self._shown.columns]
        columns = self._cells()
        is_number = [_is_numbers(cells) for cells in columns]
        if columns and not pd.api.types.is_numeric_dtype(self.frame.dtypes.iloc[0]):
            is_number[0] = False  # the key of the rows: an id may look like a number
        head = "".join(
            f'<th scope="col" aria-sort="none"{_class("n" * right)}>'
            f'<button type="button">{breakable(name)}</button></th>'
            for name, right in zip(names, is_number, strict=True)
        )
        rows = "\n".join(
            "<tr>"
            + "".join(
                self._html_cell(name, text, right)
                for name, text, right in zip(names, row, is_number, strict=True)
            )
            + "</tr>"
            for row in zip(*columns, strict=True)
        )
        label = html_text(self.heading or "Table")
        tall = " rs-tall" if len(self._shown) > TALL else ""
        text = f'<p class="rs-heading"><b>{html_text(self.heading)}</b></p>' if self.heading else ""
        text += (
            f'<div class="rs-table{tall}" role="region" aria-label="{label}" tabindex="0"><table>'
            f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>"
        )
        text += f'<p class="rs-note">{html_text(self.rest)}</p>' if self.rest else ""
        return f"{HEAD}{text}" if alone else text

    def to_markdown(self) -> str:
        """Return the table as Markdown; texts are shown, never followed."""
        columns = self._cells()
        header = [markdown_cell(name) for name in self._shown.columns]
        rule = ["---:" if _is_numbers(cells) else "---" for cells in columns]
        rows = [[markdown_cell(text) for text in row] for row in zip(*columns, strict=True)]
        table = "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])
        return f"{table}\n\n{markdown_paragraph(self.rest)}" if self.rest else table

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        r"""Return the table as LaTeX for a paper that loads `booktabs`.

        A bare `tabular`; with a caption or a label inside a `table`. Every text is escaped. Scripts
        other than Latin need XeLaTeX or LuaLaTeX.
        """
        columns = self._cells()
        align = "".join("r" if _is_numbers(cells) else "l" for cells in columns)
        header = [latex_text(name) for name in self._shown.columns]
        rows = [[latex_text(text) for text in row] for row in zip(*columns, strict=True)]
        lines = [f"{' & '.join(row)} \\\\" for row in [header, *rows]]
        body = "\n".join(
            [f"\\begin{{tabular}}{{{align}}}", "\\toprule", lines[0], "\\midrule", *lines[1:],
             "\\bottomrule", "\\end{tabular}"]
        )  # fmt: skip
        if caption is None and label is None:
            return body + "\n"
        told = [] if caption is None else [f"\\caption{{{latex_text(caption)}}}"]
        if label is not None:  # without what LaTeX would read in it
            told.append("\\label{" + re.sub(r"[^\w:.+/-]", "-", label, flags=re.ASCII) + "}")
        return (
            "\n".join(["\\begin{table}[htbp]", "\\centering", *told, body, "\\end{table}"]) + "\n"
        )

    def to_text(self, width: int = WIDTH) -> str:
        """Return the table for a terminal; long texts wrap so that it fits a width, if they can."""
        names = [visible(str(name)) for name in self._shown.columns]
        columns = [[visible(text) for text in cells] for cells in self._cells()]
        is_number = [_is_numbers(cells) for cells in columns]
        widths = _widths(names, columns, is_number, width)
        lines = _text_rows([names], widths, is_number, len(names))
        lines += _text_rows(list(zip(*columns, strict=True)), widths, is_number, LINES)
        return "\n".join([*lines, self.rest] if self.rest else lines)

    @property
    def rest(self) -> str:
        """A sentence that counts the rows beyond the limit and names the way to them."""
        n = len(self.frame) - len(self._shown)
        return (
            f"{n:,} more {'row' if n == 1 else 'rows'}{f': {self.way}' * bool(self.way)}."
            if n
            else ""
        )

    @property
    def _shown(self) -> pd.DataFrame:
        return self.frame if self.limit is None else self.frame.head(self.limit)

    def _cells(self) -> list[list[str]]:
        """Return the texts of each column, verdicts with their signs."""
        shown = self._shown
        columns = []
        for place, name in enumerate(shown.columns):
            texts = _texts(shown, place)
            columns.append([with_sign(text) for text in texts] if name in self.verdicts else texts)
        return columns

    def _html_cell(self, name: str, text: str, right: bool) -> str:
        if right:
            return f'<td class="n">{html_text(text)}</td>'
        found = _WORD.fullmatch(text) if name in self.verdicts else None
        tint = TINTS.get(found["word"], "") if found else ""
        if len(text) > LONG:
            inner = (
                f'<details title="{html_text(text[:300])}"><summary>{breakable(text)}</summary>'
                "</details>"
            )
            return f"<td>{inner}</td>"
        kind = f"rs-{tint}" if tint else "s" if len(text) <= SHORT else ""
        return f"<td{_class(kind)}>{breakable(text)}</td>"


class Display(ABC):
    """Object that is read as a title, sentences, tables and notes.

    A notebook and a terminal show as many rows as each table's limit; Markdown and LaTeX hold all.
    """

    @abstractmethod
    def _parts(self) -> list[str | Table]:
        """Return the title, then sentences and tables as they are read."""

    def _tint(self) -> str:
        """Return good, poor or bad where the title states a verdict."""
        return ""

    def to_markdown(self) -> str:
        """Return what the object shows as Markdown."""
        title, *rest = self._parts()
        blocks, is_below = [f"# {markdown_line(title)}"], False
        for part in rest:
            if isinstance(part, Table):
                blocks += [f"## {markdown_line(part.heading)}"] if part.heading else []
                blocks.append(replace(part, limit=None).to_markdown())
                is_below = True
            elif is_below:
                item = "\n".join(f"- {markdown_paragraph(line)}" for line in part.splitlines())
                blocks[-1:] = (
                    [f"{blocks[-1]}\n{item}"] if blocks[-1].startswith("- ") else [blocks[-1], item]
                )
            else:
                blocks += map(markdown_paragraph, part.splitlines())
        return "\n\n".join(blocks) + "\n"

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        r"""Return the tables as LaTeX for a paper that loads `booktabs`.

        Notes stand below as comments. Scripts other than Latin need XeLaTeX or LuaLaTeX.

        Parameters
        ----------
        caption
            Of the first table; by default the title. Further tables have their headings.
        label
            For `\ref`; further tables add -2, -3, … to it.
        """
        title, *rest = self._parts()
        tables = [replace(part, limit=None) for part in rest if isinstance(part, Table)]
        texts = []
        for place, table in enumerate(tables, 1):
            told = (title if caption is None else caption) if place == 1 else table.heading or title
            own = None if label is None else label if place == 1 else f"{label}-{place}"
            texts.append(table.to_latex(str(told), own))
        notes = [line for part in rest if isinstance(part, str) for line in part.splitlines()]
        texts += ["".join(f"% {visible(' '.join(note.split()))}\n" for note in notes)]
        return "\n".join(text for text in texts if text)

    def _repr_html_(self) -> str:
        title, *rest = self._parts()
        tint = f'<p class="rs-{self._tint()}">' if self._tint() else "<p>"
        text, notes = f'{HEAD}<div class="rs-display">{tint}<b>{html_text(title)}</b></p>', ""
        is_below = False
        for part in rest:
            if isinstance(part, Table):
                text += f"<ul>{notes}</ul>" if notes else ""
                text, notes, is_below = text + part.to_html(alone=False), "", True
            elif is_below:
                notes += "".join(f"<li>{html_text(line)}</li>" for line in part.splitlines())
            else:
                text += f"<p>{html_lines(part)}</p>"
        return f"{text}{f'<ul>{notes}</ul>' if notes else ''}</div>"

    def __repr__(self) -> str:
        title, *rest = self._parts()
        blocks, is_open = [str(title)], True
        for part in rest:
            if isinstance(part, Table):
                blocks.append((f"{part.heading}\n" if part.heading else "") + part.to_text())
                is_open = False
            elif is_open:
                blocks[-1] += f"\n{part}"
            else:
                blocks.append(part)
                is_open = True
        return visible("\n\n".join(blocks))


def with_sign(text: str) -> str:
    """Return a verdict or an outcome with its sign: "▲ better", "+0.02 ▲ better"."""
    found = _WORD.fullmatch(text)
    if not found or not (found["before"] == "" or _NUMBERS.fullmatch(found["before"].strip())):
        return text
    return f"{found['before']}{SIGNS[found['word']]} {found['word']}{found['after']}"


def column_decimals(errors: Any, least: int = 2, most: int = 3) -> int:
    """Return the number of decimals that a column shows: that of its median standard error."""
    known = np.asarray(errors, dtype="float64")
    known = known[np.isfinite(known) & (known > 0)]
    return min(max(decimals_for(float(np.median(known))), least), most) if len(known) else most


def _texts(frame: pd.DataFrame, place: int) -> list[str]:
    column = frame.iloc[:, place]
    if pd.api.types.is_float_dtype(column.dtype):
        decimals = _decimals(frame, place)
        return [shown_number(value, decimals) for value in column]
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.strftime("%Y-%m-%d %H:%M")
    return [_text(value) for value in column.astype("object")]


def _text(value: Any) -> str:
    if value is None or value is pd.NA or value is pd.NaT:
        return "—"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return shown_number(float(value))
    return value if isinstance(value, str) else str(value)


def _decimals(frame: pd.DataFrame, place: int) -> int:
    """Return the number of decimals of a column of floats: by its interval, else by its size."""
    name = str(frame.columns[place])
    values = frame.iloc[:, place].to_numpy(dtype="float64", na_value=np.nan)
    known = values[np.isfinite(values)]
    if not len(known) or (known == np.round(known)).all():
        return 0
    stem = name.removesuffix("low").removesuffix("high")
    if f"{stem}low" in frame and f"{stem}high" in frame and stem != name:
        return column_decimals((frame[f"{stem}high"] - frame[f"{stem}low"]) / 4, 0)
    if name in ("mean", "value", "delta", "rate", "share") and {"low", "high"} <= set(frame):
        return column_decimals((frame["high"] - frame["low"]) / 4, 0)
    largest = float(np.abs(known).max())
    return 3 if largest < 10 else 2 if largest < 100 else 1 if largest < 1000 else 0


def _is_numbers(texts: list[str]) -> bool:
    known = [text for text in texts if text not in ("—", "")]
    return bool(known) and all(_NUMBERS.fullmatch(text) for text in known)


def breakable(text: str) -> str:
    """Return a text for HTML that may break after the joints of an id, which is never cut."""
    if len(text) <= _NARROW:
        return html_text(text)
    return "<wbr>".join(map(html_text, _BREAKS.sub("\\1\x00", visible(text)).split("\x00")))


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def wide(text: str) -> int:
    """Return the number of columns that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def _widths(
    names: list[str], columns: list[list[str]], is_number: list[bool], width: int
) -> list[int]:
    """Return the width of each column; texts give way, the widest first, headings too."""
    widths = [
        max((wide(line) for text in (name, *cells) for line in text.split("\n")), default=0)
        for name, cells in zip(names, columns, strict=True)
    ]
    # no column is narrower than its longest word, or its numbers
    least = [
        max(
            max((wide(word) for word in name.split()), default=1),
            max(
                (
                    wide(text) if right else max(map(wide, text.split()), default=1)
                    for text in cells
                ),
                default=1,
            ),
            min(NARROW, own) * (not right),
        )
        for name, cells, own, right in zip(names, columns, widths, is_number, strict=True)
    ]
    while sum(widths) + 2 * (len(widths) - 1) > width:
        spare = [own - few for own, few in zip(widths, least, strict=True)]
        if max(spare, default=0) <= 0:
            break
        place = max(range(len(widths)), key=lambda at: (spare[at] > 0) * widths[at])
        widths[place] -= 1
    return widths


def _text_rows(
    rows: Sequence[Sequence[str]], widths: list[int], is_number: list[bool], most: int
) -> list[str]:
    lines = []
    for row in rows:
        cells = [_wrapped(text, own, most) for text, own in zip(row, widths, strict=True)]
        for at in range(max(map(len, cells), default=0)):
            parts = []
            for cell, own, right in zip(cells, widths, is_number, strict=True):
                text = cell[at] if at < len(cell) else ""
                space = " " * (own - wide(text))
                parts.append(space + text if right else text + space)
            lines.append("  ".join(parts).rstrip())
    return lines


def _wrapped(text: str, width: int, most: int) -> list[str]:
    if wide(text) <= width and "\n" not in text:
        return [text]
    words = " ".join(text.split())
    kept = _TOGETHER.sub(lambda found: found[0].replace(" ", "\x00"), words)
    if all(wide(part) <= width for part in kept.split(" ")):
        words = kept
    lines = wrap(words, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
    lines = [line.replace("\x00", " ") for line in lines]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"{lines[most - 1][: width - 2]} …"]


# Colours are those of the page: JupyterLab's and VS Code's variables, else the browser's own.
STYLE = """
.rs-display p { margin: .4em 0 } .rs-display ul { margin: .4em 0; padding-left: 1.4em }
.rs-display { max-width: 100%; overflow-wrap: anywhere } .rs-note { font-size: .92em; opacity: .8 }
.rs-display p.rs-good { border-left: .3em solid #009E73; padding-left: .5em } .rs-display p.rs-poor { border-left: .3em solid #E69F00; padding-left: .5em } .rs-display p.rs-bad { border-left: .3em solid #D55E00; padding-left: .5em }
.rs-table { overflow-x: auto; max-width: 100%; margin: .5em 0 } .rs-tall { max-height: 36em; overflow-y: auto }
.rs-table table { border-collapse: collapse; border: 0; margin: 0; font-size: .92em; table-layout: auto; color: inherit }
.rs-table thead th, .rs-table tbody td { text-align: left; vertical-align: top; padding: .3em .7em; max-width: 26em; white-space: normal; overflow-wrap: break-word; border: 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); background: var(--jp-layout-color0, var(--vscode-editor-background, Canvas)) }
.rs-table thead th { position: sticky; top: 0; z-index: 1; padding: 0; vertical-align: bottom; border-bottom: 2px solid color-mix(in srgb, currentColor 40%, transparent) }
.rs-table thead th.n, .rs-table tbody td.n { text-align: right } .rs-table tbody td.n { font-variant-numeric: tabular-nums } .rs-table tbody td.n, .rs-table tbody td.s { white-space: nowrap }
.rs-table thead th:first-child, .rs-table tbody td:first-child { position: sticky; left: 0; z-index: 1; max-width: min(22em, 38vw) }
.rs-table thead th:first-child { z-index: 2 }
.rs-table th button { all: unset; box-sizing: border-box; width: 100%; padding: .3em .7em; font: inherit; font-weight: 600; text-align: inherit; cursor: pointer }
.rs-table th button::after { content: "\\A0↕"; opacity: .45 }
.rs-table th[aria-sort=ascending] button::after { content: "\\A0▲"; opacity: 1 } .rs-table th[aria-sort=descending] button::after { content: "\\A0▼"; opacity: 1 }
.rs-table th button:focus-visible, .rs-table summary:focus-visible { outline: 2px solid currentColor; outline-offset: -2px }
.rs-table tbody tr:hover td { background-image: linear-gradient(color-mix(in srgb, currentColor 6%, transparent) 0 0) }
.rs-table td.rs-good, .rs-table td.rs-poor, .rs-table td.rs-bad { font-weight: 600; white-space: nowrap }
.rs-table tbody tr td.rs-good { background-image: linear-gradient(color-mix(in srgb, #009E73 22%, transparent) 0 0) }
.rs-table tbody tr td.rs-poor { background-image: linear-gradient(color-mix(in srgb, #E69F00 22%, transparent) 0 0) }
.rs-table tbody tr td.rs-bad { background-image: linear-gradient(color-mix(in srgb, #D55E00 24%, transparent) 0 0) }
.rs-table details { min-width: 14em } .rs-table summary { cursor: pointer; list-style: none; display: block }
.rs-table details:not([open]) summary { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden }
"""  # noqa: E501
# A click on a heading sorts by it: first up, then down, then as it was; missing values stay last.
# One listener for all tables, which also finds those inside a shadow root, as some editors make.
SCRIPT = """
if (!window.ragscoreTables) {
  window.ragscoreTables = new WeakMap();
  const key = (row, at) => {
    const cell = row.cells[at], text = cell.textContent.trim();
    if (text === '' || text === '\\u2014') return null;
    const found = text.replace(/\\u2212/g, '-').match(/[-+]?(?:\\d[\\d,]*\\.?\\d*|\\.\\d+)/);
    return cell.className === 'n' && found ? Number(found[0].replace(/,/g, '')) : text;
  };
  const order = (a, b) => typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b), undefined, {numeric: true});
  document.addEventListener('click', event => {
    const head = event.composedPath().find(one => one.matches && one.matches('.rs-table thead th'));
    if (!head) return;
    const body = head.closest('table').tBodies[0], rows = Array.from(body.rows), at = head.cellIndex;
    if (!window.ragscoreTables.has(body)) window.ragscoreTables.set(body, rows.slice());
    const next = {none: 'ascending', ascending: 'descending', descending: 'none'}[head.getAttribute('aria-sort') || 'none'];
    for (const other of head.parentElement.cells) other.setAttribute('aria-sort', 'none');
    head.setAttribute('aria-sort', next);
    const first = window.ragscoreTables.get(body), turn = next === 'ascending' ? 1 : -1;
    const sorted = first.map(row => [key(row, at), row]);
    if (next !== 'none') sorted.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : turn * order(a, b));
    body.append(...sorted.map(([, row]) => row));
  });
}
"""  # noqa: E501
HEAD = f"<style>{STYLE}</style><script>{SCRIPT}</script>"
