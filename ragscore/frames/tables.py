"""How objects are shown to people: `Table`, `Display` that shows some; and how they leave as JSON.

In: frames and sentences. Out: the same cells as text of 100 columns, HTML and Markdown; LaTeX is
pandas' own. Nothing is computed here but the number of decimals, and what fits. Reports, which are
dataclasses of frames and values, are written as JSON with nothing rounded, and reload from it.
"""

import json
import math
import re
import shutil
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import zip_longest
from textwrap import wrap
from typing import Any, get_origin, get_type_hints

import numpy as np
import pandas as pd

from ragscore.frames.errors import DataError, plural
from ragscore.frames.escaping import (
    html_text,
    json_text,
    markdown_cell,
    markdown_line,
    markdown_paragraph,
    visible,
)
from ragscore.frames.kinds import records_of

# the word of a verdict or an outcome -> the sign before it
SIGNS = {
    "better": "▲", "worse": "▼", "can't tell": "○", "mixed": "▲▼",
    "win": "▲", "loss": "▼", "regression": "▼!", "draw": "=", "both_miss": "○",
    "no_target": "–", "only_baseline": "◁", "only_candidate": "▷", "improvement": "▲",
    "pass": "✓", "fail": "✗", "not evaluated": "○", "undecided": "○",
}  # fmt: skip
TINTS = {
    "better": "good", "win": "good", "improvement": "good", "pass": "good",
    "loss": "poor", "mixed": "poor", "worse": "bad", "regression": "bad", "fail": "bad",
}  # fmt: skip
VERDICTS = ("verdict", "outcome", "candidate is")  # columns with a sign, unless others are named

WIDTH = 100  # characters of a line, in a terminal at most
CUTS = (40, 24)  # characters of a text in a terminal; the second where columns would not fit
SHOWN_ROWS = 20  # of a table on one screen
LONG = 90  # characters from which a text is folded to three lines
ALPHA = 0.05  # p values below it decide
EXACT = 15  # decimals that a number needs at most
ALLOWED = "the JSON that to_json wrote"

_NUMBERS = re.compile(r"(?=.*\d)(?:[\W\d_]|\b(?:of|n|exact|p(?=\d\d )))+", re.DOTALL)
_WORD = re.compile(
    rf"[\W\d_]*(?P<word>{'|'.join(sorted(SIGNS, key=len, reverse=True))})(?: \(.*\))?"
)


@dataclass(frozen=True)
class Table:
    """One table for people, made of a frame without its index.

    A value with `low` and `high` behind it is one column, as precise as its interval. Numbers are
    right-aligned. Missing values are `—`, and nothing is `-0.00`.

    A terminal shows the first columns that fit 100 characters, cuts long texts, and names the other
    columns. HTML and Markdown have every column.

    Attributes
    ----------
    frame
        Values, or texts that are shown as they are.
    heading
        What is printed above the table.
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
        """Return the table as HTML in a box that scrolls.

        Every text is escaped. A page that shows many tables has `STYLE` once, and asks for each
        with `alone=False`.
        """
        columns = self._columns()
        head = "".join(
            f'<th scope="col"{_side("n" * one.is_number)}>{html_text(one.name)}</th>'
            for one in columns
        )
        rows = "\n".join(
            f"<tr>{''.join(row)}</tr>" for row in zip(*map(_html_cells, columns), strict=True)
        )
        below = "".join(f'<p class="rs-note">{html_text(text)}</p>' for text in self._rest())
        heading = html_text(self.heading)
        return HEAD * alone + (
            f"{f'<p><b>{heading}</b></p>' * bool(heading)}<div class='rs-table' role='region'"
            f' aria-label="{heading or "Table"}" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>\n{rows}\n</tbody></table></div>{below}"
        )

    def to_markdown(self) -> str:
        """Return the table as Markdown; texts are shown, never followed."""
        columns = self._columns()
        rows = zip(*([one.name, *one.cells] for one in columns), strict=True)
        lines = [f"| {' | '.join(map(markdown_cell, row))} |" for row in rows]
        lines.insert(1, "".join("| ---: " if one.is_number else "| --- " for one in columns) + "|")
        heading = [f"## {markdown_line(self.heading)}"] if self.heading else []
        return "\n\n".join([*heading, "\n".join(lines), *self._rest()])

    def to_text(self, width: int | None = None) -> str:
        """Return the table for a terminal: no line is longer than its width, at most 100."""
        if width is None:  # a notebook has no terminal
            is_terminal = getattr(sys.stdout, "isatty", bool)()
            width = min(WIDTH, shutil.get_terminal_size().columns) if is_terminal else WIDTH
        columns = self._columns()
        shown, widths = _fitting(columns, width)
        heads = [wrap(_breakable(one.name), own) for one, own in zip(shown, widths, strict=True)]
        heads = [[line.replace("_ ", "_").replace("\xa0", " ") for line in one] for one in heads]
        cells = zip(*(one.cells for one in shown), strict=True)
        rows = [*zip_longest(*heads, fillvalue=""), *cells]
        lines = ["  ".join(map(_padded, row, widths, shown)).rstrip() for row in rows]
        below = [line for text in self._rest(columns[len(shown) :]) for line in wrap(text, width)]
        return "\n".join([*([self.heading] if self.heading else []), *lines, *below])

    def _rest(self, left_out: Sequence["_Column"] = ()) -> list[str]:
        """Return sentences that count the rows and name the columns that are not shown."""
        n = 0 if self.limit is None else len(self.frame.iloc[self.limit :])
        rows = f"{plural(n, 'more row')}{f': {self.way}' * bool(self.way)}."
        names = ", ".join(one.name for one in left_out)
        columns = f"{plural(len(left_out), 'more column')} in the frame: {names}."
        return [rows] * bool(n) + [columns] * bool(left_out)

    def _columns(self) -> list["_Column"]:
        """Return what is shown: a value, `low` and `high` are one column."""
        rows, columns = self.frame.iloc[: self.limit], list[_Column]()
        names = [str(name) for name in rows.columns]
        is_float = [pd.api.types.is_float_dtype(dtype) for dtype in rows.dtypes]
        places = iter(range(len(names)))
        for at in places:
            name, ends = names[at], names[at + 1 : at + 3]
            if len(ends) == 2 and ends[0].endswith("low") and all(is_float[at : at + 3]):
                texts = shown_intervals(rows.iloc[:, at : at + 3], "delta" in name)
                name = f"{name} [{', '.join(ends)}]"
                next(places), next(places)
            else:
                texts = _texts(rows.iloc[:, at])
            known = [_NUMBERS.fullmatch(text) for text in texts if text not in ("—", "")]
            # the key of the rows is text: an id may look like a number
            may_be = at or pd.api.types.is_numeric_dtype(rows.dtypes.iloc[at])
            is_number = is_float[at] or (may_be and any(known) and all(known))
            is_verdict = name in self.verdicts
            cells = list(map(with_sign, texts)) if is_verdict else texts
            columns.append(_Column(name, cells, bool(is_number), is_verdict))
        return columns


@dataclass(frozen=True)
class _Column:
    name: str
    cells: list[str]
    is_number: bool
    is_verdict: bool = False


def _fitting(columns: list[_Column], width: int) -> tuple[list[_Column], list[int]]:
    """Return the first columns that fit, and their widths.

    Texts are cut at 40 characters, and at 24 where not every column fits then.
    """
    for cut in CUTS:
        widths = [_width(one, cut) for one in columns]
        fits = np.cumsum([own + 2 for own in widths]) <= width + 2
        if fits.all():
            break
    n = max(int(fits.sum()), 1)
    return columns[:n], [min(own, width) for own in widths[:n]]


def _width(column: _Column, cut: int) -> int:
    """Return the characters that a column takes; a heading breaks at spaces and `_`."""
    heading = max(map(wide, _breakable(column.name).split(" ")))
    cells = max(map(wide, map(_line, column.cells)), default=0)
    return max(min(heading, CUTS[0]), cells if column.is_number else min(cells, cut), 1)


def _line(text: str) -> str:
    return visible(text).replace("\n", " ").replace("\t", " ")


def _breakable(heading: str) -> str:
    return re.sub("_(?=[^_]{4})", "_ ", _line(heading))


def _padded(text: str, width: int, column: _Column) -> str:
    """Return a cell of a terminal; too long a sentence loses its end, an id its middle."""
    whole, n = _line(text), width - 1
    text, share = whole, 0 if len(whole.split()) > 3 else 1 / 3
    while wide(text) > width:
        tail = int(n * share)
        text, n = f"{whole[: n - tail]}…{whole[len(whole) - tail :]}", n - 1
    space = " " * (width - wide(text))
    return space + text if column.is_number else text + space


def _html_cells(column: _Column) -> Iterator[str]:
    """Yield the cells of a column as HTML; long texts are folded."""
    for text in column.cells:
        found = _WORD.fullmatch(text) if column.is_verdict else None
        tint = f"rs-{TINTS.get(found['word'], 'open')}" if found else ""
        inner = html_text(text)
        if len(text) > LONG:
            inner = f"<details><summary>{inner}</summary></details>"
        yield f"<td{_side('n' if column.is_number else tint)}>{inner}</td>"


def _side(kind: str) -> str:
    # a notebook that isn't trusted drops style sheets, and not this
    return ' class="n"' if kind == "n" else f' class="{kind}" style="text-align:left"'


class Notes(str):
    """Lines that are folded until they are asked for: by a click, or `.notes()`."""

    def __repr__(self) -> str:
        return visible(str(self))


class Display(ABC):
    """Object that is read as a title, sentences, tables and notes.

    A notebook and a terminal show as many rows as each table's limit, a terminal the columns that
    fit; Markdown holds all.
    """

    @abstractmethod
    def _parts(self) -> list[str | Table]:
        """Return the title, then sentences and tables as they are read."""

    def _tint(self) -> str:
        """Return good, poor or bad where the title states a verdict."""
        return ""

    def _repr_html_(self) -> str:
        title, *rest = self._parts()
        return (
            f'{HEAD}<div class="rs-display"><p class="rs-title rs-{self._tint()}">'
            f"<b>{html_text(title)}</b></p>{html_of(rest)}</div>"
        )

    def to_markdown(self) -> str:
        """Return what the object shows as Markdown."""
        title, *rest = self._parts()
        blocks = [f"# {markdown_line(title)}"]
        for part in rest:
            if isinstance(part, Table):
                blocks.append(replace(part, limit=None).to_markdown())
            else:
                blocks += map(markdown_paragraph, part.splitlines())
        return "\n\n".join(blocks) + "\n"

    def __repr__(self) -> str:
        title, *rest = self._parts()
        blocks = [str(title)]
        for part in rest:
            if isinstance(part, Table):
                blocks += ["", part.to_text(), ""]
            else:
                count = plural(len(part.splitlines()), "note")
                blocks += ["", f"{count}: .notes()"] if isinstance(part, Notes) else [part]
        return visible(re.sub("\n{3,}", "\n\n", "\n".join(blocks)).rstrip("\n"))


def html_of(parts: Sequence[str | Table]) -> str:
    """Return sentences and tables as HTML without a style sheet; notes are folded."""
    text = ""
    for part in parts:
        if isinstance(part, Table):
            text += part.to_html(alone=False)
        else:
            lines = f'<p style="white-space:pre-line">{html_text(part)}</p>'
            count = plural(len(part.splitlines()), "note")
            folded = f"<details><summary>{count}</summary>{lines}</details>"
            text += folded if isinstance(part, Notes) else lines
    return text


def with_sign(text: str) -> str:
    """Return a verdict or an outcome with its sign: "▲ better", "+0.02 ▲ better"."""
    found = _WORD.fullmatch(text)
    at = found.start("word") if found else 0
    return f"{text[:at]}{SIGNS[found['word']]} {text[at:]}" if found else text


def _texts(column: pd.Series) -> list[str]:
    """Return the cells of a column; floats have one number of decimals, by the largest."""
    if pd.api.types.is_float_dtype(column.dtype):
        values = column.to_numpy(dtype="float64", na_value=np.nan)
        known = np.abs(values[np.isfinite(values)])
        decimals = 0 if (known == np.round(known)).all() else _decimals_of_size(known.max())
        return [shown_number(one, decimals) for one in values]
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.strftime("%Y-%m-%d %H:%M")
    return [_text(value) for value in column.astype("object")]


def _text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if pd.isna(value) or isinstance(value, (float, np.floating)):
        return shown_number(value)
    return value if isinstance(value, str) else str(value)  # text that is Markdown stays so


def wide(text: str) -> int:
    """Return the number of columns that a text takes in a terminal."""
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def shown_number(value: Any, decimals: int = 3, signed: bool = False) -> str:
    """Return a number for a table: `—` for NaN, with a sign on request, but none for 0."""
    if pd.isna(value):
        return "—"
    text = f"{value:{'+' if signed else ''}.{decimals}f}"
    return text if text.strip("+-0.") else text.lstrip("+-")


def _decimals_of_size(value: float) -> int:
    """Return the decimals of a number without a standard error: 3 below 10, 0 from 1,000."""
    return 3 - sum(abs(value) >= limit for limit in (10, 100, 1000))


def decimals_within(low: float, high: float, least: int = 2) -> int:
    """Return the decimals of a value by its 95 % interval, and so many that a bound isn't 0.

    An interval that leaves out 0 is shown as one that does: its verdict is printed beside it.
    """
    error = (high - low) / 4  # .04 is worth 2 decimals, .004 3
    places = max(min(-math.floor(math.log10(error)), 4) if error > 0 else 3, least)
    return (
        decimals_beside(min(abs(low), abs(high)), 0.0, True, places) if low * high > 0 else places
    )


def decimals_beside(value: float, limit: float, is_beyond: bool, decimals: int) -> int:
    """Return how many decimals a value needs to be seen beyond a limit, or not beyond it."""
    shown = ((n, float(f"{value:.{n}f}")) for n in range(decimals, EXACT))
    return next((n for n, rounded in shown if (rounded > limit) == is_beyond), EXACT)


def shown_intervals(rows: pd.DataFrame, signed: bool = False) -> list[str]:
    """Return each row of value, low and high as text, `.85 [.79, .91]`.

    It is as precise as its interval is worth: shares have two decimals at least, numbers below 10
    one. A value without an interval is printed alone.
    """
    texts = []
    for value, low, high in rows.to_numpy("float64", na_value=np.nan):
        if math.isnan(low) or math.isnan(high):
            texts.append(shown_number(value, _decimals_of_size(value), signed))
        else:
            least = 2 if max(abs(low), abs(high)) <= 1 else int(abs(value) < 10)
            places = decimals_within(low, high, least)
            shown, *ends = (shown_number(one, places, signed) for one in (value, low, high))
            texts.append(f"{shown} [{', '.join(ends)}]")
    return texts


def shown_p(p: float) -> str:
    """Return a p value for a table, with so many decimals that it is seen below .05, or not."""
    if p < 0.001:
        return "< .001"
    return f"{p:.{decimals_beside(-p, -ALPHA, p < ALPHA, 3)}f}".removeprefix("0")


def shown_n(n: int, n_expected: int, other: int | None = None) -> str:
    """Return "n / expected" for a table; with `other`, the number expected of the candidate."""
    both = f"{n_expected} (baseline), {other} (candidate)"
    return f"{n} / {n_expected if other in (None, n_expected) else both}"


def dump(report: Any, **more: Any) -> str:
    """Return a report as JSON: its fields, and the fields of `more` beside or instead of them.

    A field's leading `_` is left out. Frames become rows, with their dtypes under the key `dtypes`:
    they restore NaN, NA and the columns of an empty frame. NaN becomes null.
    """
    return json_text(_plain(report, **more))


def reload(report: type[Any], text: str, allowed: str = ALLOWED) -> Any:
    """Return the report that `dump` wrote; `allowed` says what else is refused.

    Raises
    ------
    DataError
        No JSON, or none of such a report.
    """
    values: dict[str, Any] = {}
    try:
        content = json.loads(text)
        for field, kind in get_type_hints(report).items():
            name = field.removeprefix("_")
            value = content[name]
            if name in content["dtypes"]:
                dtypes = content["dtypes"][name]
                cells = [[row[one] for one in dtypes] for row in value]
                value = pd.DataFrame(cells, columns=[*dtypes], dtype=object).astype(dtypes)
            elif hasattr(kind, "from_plain"):
                value = kind.from_plain(value)
            values[field] = tuple(value) if get_origin(kind) is tuple else value
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(f"no JSON of a report: {error!r}", field="text", allowed=allowed) from error
    return report(**values)


def rows_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows as JSON writes them: None for missing values, times as ISO text."""
    values = frame.assign(**frame.select_dtypes("datetimetz").astype("str")).astype("object")
    return records_of(values.replace({math.inf: "Infinity", -math.inf: "-Infinity"}))


def _plain(value: Any, **more: Any) -> Any:
    """Return a report, or the value of a field, as JSON holds it."""
    if isinstance(value, pd.DataFrame):
        return rows_of(value)
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if is_dataclass(value):
        hints = get_type_hints(type(value))
        values = {name.removeprefix("_"): getattr(value, name) for name in hints} | more
        dtypes = {
            name: {str(of): str(one).replace("category", "str") for of, one in held.dtypes.items()}
            for name, held in values.items()
            if isinstance(held, pd.DataFrame)
        }
        return {name: _plain(one) for name, one in values.items()} | {"dtypes": dtypes}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and math.isnan(value) else value


# Colours come from the page: JupyterLab's and VS Code's variables, else the browser's own.
# JupyterLab lays tables out with equal columns unless they say otherwise.
STYLE = """
.rs-display { max-width: 100%; overflow-wrap: anywhere } .rs-display p, .rs-display details { margin: .4em 0 } .rs-note { font-size: .92em; opacity: .8 }
.rs-title.rs-good { border-left: .3em solid #009E73; padding-left: .5em } .rs-title.rs-poor { border-left: .3em solid #E69F00; padding-left: .5em } .rs-title.rs-bad { border-left: .3em solid #D55E00; padding-left: .5em }
.rs-table { overflow: auto; max-width: 100%; max-height: 48em; margin: .5em 0; overflow-wrap: normal }
.rs-table table { border-collapse: collapse; border: 0; margin: 0; font-size: .92em; table-layout: auto; color: inherit }
.rs-table thead th, .rs-table tbody td { text-align: left; vertical-align: top; padding: .3em .7em; white-space: normal; border: 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); background: var(--jp-layout-color0, var(--vscode-editor-background, Canvas)) }
.rs-table tbody td:not(.n) { max-width: 26em; overflow-wrap: break-word }
.rs-table thead th { position: sticky; top: 0; z-index: 1; font-weight: 600; vertical-align: bottom; border-bottom: 2px solid color-mix(in srgb, currentColor 40%, transparent) }
.rs-table thead th.n, .rs-table tbody td.n { text-align: right } .rs-table tbody td.n { font-variant-numeric: tabular-nums; white-space: nowrap }
.rs-table thead th:first-child, .rs-table tbody td:first-child { position: sticky; left: 0; z-index: 1; max-width: min(22em, 45vw) }
.rs-table thead th:first-child { z-index: 2 }
.rs-table tbody td:is(.rs-good, .rs-poor, .rs-bad) { font-weight: 600; white-space: nowrap; background-image: linear-gradient(color-mix(in srgb, var(--rs) 22%, transparent) 0 0) }
.rs-table .rs-good { --rs: #009E73 } .rs-table .rs-poor { --rs: #E69F00 } .rs-table .rs-bad { --rs: #D55E00 }
.rs-table details { min-width: 14em } .rs-table summary, .rs-display > details > summary { cursor: pointer } .rs-table summary { list-style: none; display: block }
.rs-table details:not([open]) summary { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden }
"""  # noqa: E501
HEAD = f"<style>{STYLE}</style>"
