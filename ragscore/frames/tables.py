"""How objects are shown to people: `Table`, `Display` that shows some, and `ShownFrame`.

In: frames and sentences. Out: the same as HTML for a notebook or a page, Markdown, and text for a
terminal. Nothing is computed here but the number of decimals, and what fits.
"""

import math
import re
import shutil
import sys
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from textwrap import wrap
from typing import Any, ClassVar, ParamSpec

import numpy as np
import pandas as pd

from ragscore.frames.escaping import (
    html_lines,
    html_text,
    markdown_cell,
    markdown_line,
    markdown_paragraph,
    visible,
)
from ragscore.frames.render import decimals_for, shown_interval, shown_number
from ragscore.frames.typing import Values

P = ParamSpec("P")
SIGNS = {
    "better": "▲", "worse": "▼", "can't tell": "○", "mixed": "▲▼",
    "win": "▲", "loss": "▼", "regression": "▼!", "draw": "=", "both_miss": "○",
    "no_target": "–", "only_baseline": "◁", "only_candidate": "▷", "improvement": "▲",
    "pass": "✓", "fail": "✗", "not evaluated": "○",
}  # fmt: skip
"""Word of a verdict or an outcome -> the sign before it, in every table."""
TINTS = {
    "better": "good", "win": "good", "improvement": "good", "pass": "good",
    "loss": "poor", "mixed": "poor", "worse": "bad", "regression": "bad", "fail": "bad",
}  # fmt: skip
VERDICTS = ("verdict", "outcome", "candidate is")
"""Columns whose words get their sign and tint unless a table names others."""

WIDTH = 100  # characters of a line, in a terminal at most
MOST = 8  # columns of a table, unless all are asked for
FEW = 20  # characters that a text in a table is worth at least, before a column is left out
FIRST = 4  # columns that are shown although all their values are equal
ROWS = 60  # rows of a frame from which the first 20 are shown
SHOWN_ROWS = 20  # of a table on one screen
UNFOLDED = 3  # notes below a table
TALL = 25  # rows from which a table scrolls in itself
LONG = 90  # characters from which a text is folded to three lines
SHORT = 16  # characters up to which a text stays on one line
NAMED = 5  # of the columns that are left out
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
_NUMBER = r"[-+]?\d*\.?\d+"
_INTERVAL = re.compile(rf"({_NUMBER}) \[({_NUMBER}), ({_NUMBER})\]")
_POINT = re.compile(r"—|(?:p\d\d )?[^\d.]*[\d,]*")  # what stands before a decimal point
_BREAKS = re.compile(r"((?<!\d)\.+|\.+(?!\d)|[#/\\:]+)(?=[^\s.#/\\:])")
_NARROW = 20  # characters that need no break


@dataclass(frozen=True)
class Table:
    """One table for people, made of a frame without its index.

    `to_html`, `to_markdown` and `to_text` show the same cells. Text stands left and
    numbers on their decimal point; a column of floats has one number of decimals. A value with
    `low` and `high` behind it is one column in HTML and text, as precise as its interval, which
    HTML also draws. Missing values are `—`, and nothing is `-0.00`.

    HTML and text leave out columns beyond eight, text those beyond its width, and name them.
    The first column and verdicts stay; columns without a difference go first.

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
    is_wide
        True: every column, on lines of any length.
    shades
        Column of numbers -> the ground of each of its cells in HTML, such as "#0072B2 40%"; "":
        none.
    """

    frame: pd.DataFrame
    heading: str = ""
    verdicts: Sequence[str] = VERDICTS
    limit: int | None = None
    way: str = ""
    is_wide: bool = False
    shades: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def to_html(self, *, alone: bool = True) -> str:
        """Return the table as HTML in a box that scrolls.

        Every text is escaped. A page that shows many tables has `STYLE` once, and asks for each
        with `alone=False`.
        """
        columns = self._columns()
        shown = _fitting(columns, MOST, WIDTH, FEW) if not self.is_wide else columns
        head = "".join(f'<th scope="col"{_side(one)}>{breakable(one.name)}</th>' for one in shown)
        rows = "\n".join(
            f"<tr>{''.join(row)}</tr>" for row in zip(*map(_html_cells, shown), strict=True)
        )
        label = html_text(self.heading or "Table")
        tall = " rs-tall" if len(self._shown) > TALL else ""
        text = f'<p class="rs-heading"><b>{html_text(self.heading)}</b></p>' if self.heading else ""
        text += (
            f'<div class="rs-table{tall}" role="region" aria-label="{label}" tabindex="0"><table>'
            f"<thead><tr>{head}</tr></thead><tbody>\n{rows}\n</tbody></table></div>"
        )
        rest = " ".join(filter(None, [self.rest, _left_out(columns, shown)]))
        text += f'<p class="rs-note">{html_text(rest)}</p>' if rest else ""
        return f"{HEAD}{text}" if alone else text

    def to_markdown(self) -> str:
        """Return the table as Markdown; texts are shown, never followed."""
        columns = self._cells()
        header = [markdown_cell(name) for name in self._shown.columns]
        rule = ["---:" if _is_numbers(cells) else "---" for cells in columns]
        rows = [[markdown_cell(text) for text in row] for row in zip(*columns, strict=True)]
        table = "\n".join("| " + " | ".join(row) + " |" for row in [header, rule, *rows])
        return f"{table}\n\n{markdown_paragraph(self.rest)}" if self.rest else table

    def to_text(self, width: int | None = None) -> str:
        """Return the table for a terminal: no line is longer than its width, at most 100."""
        columns = self._columns()
        columns = [
            replace(one, name=visible(one.name), cells=[visible(text) for text in one.cells])
            for one in columns
        ]
        width = width or terminal_width()
        # rather an id on two lines than a column less
        found = [_fitting(columns, MOST, width, longest) for longest in (width, FEW)]
        shown, longest = (found[0], width) if len(found[0]) >= len(found[1]) else (found[1], FEW)
        if self.is_wide:
            shown, width = columns, sum(min(one.width, LONG) + 2 for one in columns)
        widths = _widths(shown, width, longest)
        is_number = [one.is_number for one in shown]
        lines = _text_rows([[one.name for one in shown]], widths, is_number, len(shown) + LINES)
        cells = [_aligned(one.cells, " ") if one.is_number else one.cells for one in shown]
        lines += _text_rows(list(zip(*cells, strict=True)), widths, is_number, LINES)
        told = filter(None, [self.rest, _left_out(columns, shown)])
        return "\n".join([*lines, *(line for text in told for line in wrap(text, width))])

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

    def _columns(self) -> list["_Column"]:
        """Return what HTML and text show: a value, `low` and `high` as one column."""
        shown, columns = self._shown, list[_Column]()
        names, is_float = [str(name) for name in shown.columns], list(map(_is_float, shown.dtypes))
        for place, (name, cells) in enumerate(zip(names, self._cells(), strict=True)):
            is_key = not place and not pd.api.types.is_numeric_dtype(shown.dtypes.iloc[0])
            # the key of the rows is text: an id may look like a number
            is_number = (is_float[place] or _is_numbers(cells)) and not is_key
            shades = self.shades.get(name, ())
            one = _Column(name, cells, name in self.verdicts, is_number, shades=shades)
            before = columns[-1] if columns else one
            if not before.is_number:
                columns.append(one)
            elif name == "95 % interval":
                texts = [f"{a} {b}" for a, b in zip(before.cells, cells, strict=True)]
                columns[-1] = replace(before, name=f"{before.name} [{name}]", cells=texts, of=2)
            elif (
                place > 1
                and (low := names[place - 1]).endswith("low")
                and name == f"{low.removesuffix('low')}high"
                and len(columns) > 1
                and columns[-2].is_number
            ):
                value = names[place - 2]
                texts = (
                    _with_intervals(shown.iloc[:, place - 2 : place + 1], "delta" in value)
                    if all(is_float[place - 2 : place + 1])
                    else _joined(columns[-2].cells, before.cells, cells)
                )
                columns[-2:] = [_Column(f"{value} [{low}, {name}]", texts, False, True, 3)]
            else:
                columns.append(one)
        return columns


@dataclass(frozen=True)
class _Column:
    """A column as HTML and text show it, `of` so many columns of the frame."""

    name: str
    cells: list[str]
    is_verdict: bool
    is_number: bool
    of: int = 1
    shades: Sequence[str] = ()

    @property
    def width(self) -> int:
        cells = _aligned(self.cells, " ") if self.is_number else self.cells
        lines = [line for text in (self.name, *cells) for line in text.split("\n")]
        return max(map(wide, lines), default=0)

    def least(self, longest: int) -> int:
        """Return the width that it needs: of its longest word, its numbers, a part of its texts."""
        words = max((wide(word) for word in self.name.split()), default=1)
        if self.is_number:
            return max(words, *map(wide, _aligned(self.cells, " ")), 1)
        words = max([words, *(wide(word) for text in self.cells for word in text.split())])
        return max(min(words, longest), min(FEW, self.width))

    @property
    def has_intervals(self) -> bool:
        return self.of > 1 and any(map(_INTERVAL.search, self.cells))

    @property
    def is_dull(self) -> bool:
        """Equal values, and what is read by machines: long texts, long words."""
        is_equal = len(self.cells) > 1 and len(set(self.cells)) == 1
        long = [
            text for text in self.cells if max(map(len, [text[LONG:], *text.split()])) > LONG // 2
        ]
        return is_equal or (not self.is_number and len(long) > len(self.cells) / 2)


def _fitting(columns: list[_Column], most: int, width: int, longest: int) -> list[_Column]:
    """Return the columns that are shown, in their order: the first, verdicts, what tells more."""
    dull = {at for at, one in enumerate(columns) if at >= FIRST and one.is_dull}
    drawn = [at for at, one in enumerate(columns) if one.has_intervals][:1]
    places = sorted(
        range(len(columns)),
        key=lambda at: (at > 0, not columns[at].is_verdict, at not in drawn, at in dull, at),
    )
    chosen, room = list[int](), width + 2
    for at in places:
        own = columns[at].least(longest) + 2
        if not chosen or (len(chosen) < most and own <= room):
            chosen.append(at)
            room -= own
    return [columns[at] for at in sorted(chosen)]


def _left_out(columns: list[_Column], shown: list[_Column]) -> str:
    """Count and name the columns that are not shown, and the way to them."""
    more = [one for one in columns if one not in shown]
    n = sum(one.of for one in more)
    end = ", …" if len(more) > NAMED else "."
    named = [one.name.replace("_\n", "_").replace("\n", " ") for one in more[:NAMED]]
    return (
        f"{n} more {'column' if n == 1 else 'columns'} in .wide(): {', '.join(named)}{end}"
        if n
        else ""
    )


def _with_intervals(rows: pd.DataFrame, is_signed: bool) -> list[str]:
    """Return value, low and high as "0.71 [0.65, 0.77]", each row as precise as its interval."""
    return [
        shown_interval(value, low, high, max(decimals_for((high - low) / 4), least), is_signed)
        for value, low, high in rows.astype("float64").itertuples(index=False)
        for least in [2 if abs(value) <= 1 else 0]
    ]


def _joined(values: list[str], lows: list[str], highs: list[str]) -> list[str]:
    return [
        value if "—" in (low, high) or not low else f"{value} [{low}, {high}]"
        for value, low, high in zip(values, lows, highs, strict=True)
    ]


def _aligned(cells: list[str], fill: str) -> list[str]:
    """Return numbers padded behind so that their decimal points stand in one line.

    In HTML by spaces as wide as a digit or a point, which no style sheet must hide.
    """
    parts = [(text, _POINT.match(text).end()) for text in cells]  # type: ignore[union-attr]
    tail = max((text[at:] for text, at in parts), key=len, default="")
    if fill == " ":
        return [f"{text}{fill * (len(tail) - len(text) + at)}" for text, at in parts]
    blank = "".join("\u2008" if one in ".,[]" else "\xa0" if one == " " else fill for one in tail)
    return [f"{text}{blank[len(text) - at :]}" for text, at in parts]


def _html_cells(column: _Column) -> list[str]:
    """Return the cells of a column as HTML; where all are intervals, with these drawn."""
    bars = [""] * len(column.cells) if column.is_verdict else _bars(column.cells)
    if column.is_number:
        grounds = map(_ground, column.shades or [""] * len(bars))
        shown = zip(_aligned(column.cells, "\u2007"), bars, grounds, strict=True)
        return [f'<td class="n"{ground}>{html_text(text)}{bar}</td>' for text, bar, ground in shown]
    cells = []
    for text, bar in zip(column.cells, bars, strict=True):
        found = _WORD.fullmatch(text) if column.is_verdict else None
        tint = TINTS.get(found["word"], "") if found else ""
        is_short = len(text) <= SHORT or bar
        inner, kind = breakable(text), f"rs-{tint}" if tint else "s" if is_short else ""
        if len(text) > LONG:
            title = html_text(text[:300])
            inner, kind = f'<details title="{title}"><summary>{inner}</summary></details>', ""
        cells.append(f"<td{_class(kind)}{LEFT}>{inner}{bar}</td>")
    return cells


def _ground(shade: str) -> str:
    mixed = f"color-mix(in srgb,{shade},transparent)"
    return f' style="background-image:linear-gradient({mixed} 0 0)"' if shade else ""


def _bars(cells: list[str]) -> list[str]:
    """Return intervals drawn on one scale; "" unless every number of a column has one.

    Times among shares stay without: they would press these to a point.
    """
    found = [_INTERVAL.search(text) for text in cells]
    n_blank = sum(text in ("—", "") for text in cells)
    if not any(found) or sum(map(bool, found)) + n_blank < len(cells):
        return [""] * len(cells)
    values = np.array([list(map(float, one.groups())) if one else [np.nan] * 3 for one in found])
    is_share = (np.abs(values) <= 1).all(axis=1)
    if is_share.any():
        values[~is_share] = np.nan
    is_signed = any(text[:1] in "+-" for text in cells)
    shares, _ = scaled(np.vstack([values, np.zeros(3)]) if is_signed else values)
    at = f"{100 * shares[-1][1]:.0f}%"
    zero = f'<line x1="{at}" x2="{at}" y1="0" y2="100%" stroke="currentColor" opacity=".4"/>'
    return [interval_bar(*one, zero * is_signed) or "<svg></svg>" for one in shares[: len(cells)]]


def scaled(bars: Values) -> tuple[tuple[tuple[float, float, float], ...], tuple[str, str]]:
    """Return value, low and high as shares (low, value, high) of one scale, and its ends."""
    known = bars[np.isfinite(bars)]
    if not len(known):
        return tuple((math.nan,) * 3 for _ in bars), ("", "")
    step = 10.0 ** math.floor(math.log10(max(float(np.ptp(known)), 1e-9)))
    step = step if np.ptp(known) > 4 * step else step / 2
    low, high = math.floor(known.min() / step) * step, math.ceil(known.max() / step) * step
    shares = (bars[:, [1, 0, 2]] - low) / ((high - low) or 1.0)
    return tuple((float(a), float(b), float(c)) for a, b, c in shares), (f"{low:g}", f"{high:.4g}")


def interval_bar(low: float, value: float, high: float, behind: str = "") -> str:
    """Return an interval with its dot as a picture that is as wide as its place."""
    if math.isnan(value):
        return ""
    line = (
        f'<line x1="{100 * low:.1f}%" x2="{100 * high:.1f}%" y1="50%" y2="50%"'
        ' stroke="currentColor" stroke-width="2" opacity=".55"/>'
        if high > low
        else ""
    )
    dot = (
        f'<circle cx="{100 * value:.1f}%" cy="50%" r="{3 if behind else 4.5}" fill="currentColor"/>'
    )
    return f'<svg aria-hidden="true">{behind}{line}{dot}</svg>'


class ShownFrame(pd.DataFrame):
    """DataFrame of ours: all its columns are there, and it is printed so that it fits a screen.

    What is made of it is such a frame, too. `wide` prints every column; `pd.DataFrame(frame)` is
    printed by pandas.
    """

    _metadata: ClassVar = ["_is_wide"]
    _is_wide = False

    @property
    def _constructor(self) -> type["ShownFrame"]:
        return ShownFrame

    def wide(self) -> "ShownFrame":
        """Return the same frame, printed with every column.

        Examples
        --------
        >>> ev.summary().wide()
        """
        found = self.copy(deep=False)
        found._is_wide = True
        return found

    def _table(self) -> Table | None:
        """Return what is printed; None if pandas has to: groups of columns, or equal names."""
        if self.columns.nlevels > 1 or not self.columns.is_unique or not len(self.columns):
            return None
        frame, index = pd.DataFrame(self), self.index
        if (
            index.nlevels > 1
            or index.name is not None
            or not pd.api.types.is_integer_dtype(index.dtype)
        ):
            names = [name if name is not None else "" for name in index.names]
            if {*names} & {*frame.columns} or len({*names}) < len(names):
                return None
            frame = frame.reset_index(names=names)
        limit = SHOWN_ROWS if len(frame) > ROWS else None
        return Table(frame, limit=limit, is_wide=self._is_wide)

    def __repr__(self) -> str:
        table = self._table()
        return super().__repr__() if table is None else table.to_text()

    def _repr_html_(self) -> str | None:
        table = self._table()
        if table is None:
            return super()._repr_html_()  # type: ignore[misc]
        return f"{HEAD}{table.to_html(alone=False)}"


def shown(make: Callable[P, pd.DataFrame]) -> Callable[P, ShownFrame]:
    """Return a function whose frame is a `ShownFrame`."""

    @wraps(make)
    def made(*args: P.args, **options: P.kwargs) -> ShownFrame:
        return ShownFrame(make(*args, **options))

    return made


class Notes(str):
    """Lines that are folded until they are asked for: by a click, or `.notes()`."""

    def __repr__(self) -> str:
        return visible(str(self))


class Display(ABC):
    """Object that is read as a title, sentences, tables and notes.

    A notebook and a terminal show as many rows as each table's limit, and eight columns; Markdown
    holds all.
    """

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if type(value) is pd.DataFrame:
                object.__setattr__(self, item.name, ShownFrame(value))

    def wide(self) -> "Display":
        """Return what prints the same with every column."""
        return _Wide(self)

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

    def _repr_html_(self) -> str:
        title, *rest = self._parts()
        tint = f'<p class="rs-{self._tint()}">' if self._tint() else "<p>"
        text = f'{HEAD}<div class="rs-display">{tint}<b>{html_text(title)}</b></p>'
        notes = list[str]()
        is_below = False
        for part in rest:
            if isinstance(part, Table):
                text += _html_notes(notes) + part.to_html(alone=False)
                notes, is_below = [], True
            elif isinstance(part, Notes):
                text += _html_notes(notes) + _folded(part.splitlines())
                notes = []
            elif is_below:
                notes += part.splitlines()
            else:
                text += f"<p>{html_lines(part)}</p>"
        return f"{text}{_html_notes(notes)}</div>"

    def __repr__(self) -> str:
        title, *rest = self._parts()
        blocks, is_open = [str(title)], True
        for part in rest:
            if isinstance(part, Table):
                blocks.append((f"{part.heading}\n" if part.heading else "") + part.to_text())
                is_open = False
            elif isinstance(part, Notes):
                n = len(part.splitlines())
                blocks.append(f"{n} {'note' if n == 1 else 'notes'}: .notes()")
            elif is_open:
                blocks[-1] += f"\n{part}"
            else:
                blocks.append(part)
                is_open = True
        return visible("\n\n".join(blocks))


@dataclass(frozen=True, repr=False)
class _Wide(Display):
    """A display whose tables have every column."""

    shown: Display

    def _parts(self) -> list[str | Table]:
        parts = self.shown._parts()
        return [replace(one, is_wide=True) if isinstance(one, Table) else one for one in parts]

    def _tint(self) -> str:
        return self.shown._tint()


def _html_notes(notes: list[str]) -> str:
    """Return notes below a table as a list; of more than three, all but the first are folded."""
    if not notes:
        return ""
    first = len(notes) if len(notes) <= UNFOLDED else 1
    items = "".join(f"<li>{html_text(line)}</li>" for line in notes[:first])
    return f"<ul>{items}</ul>{_folded(notes[first:])}"


def _folded(notes: list[str]) -> str:
    items = "".join(f"<li>{html_text(line)}</li>" for line in notes)
    words = f"{len(notes)} {'note' if len(notes) == 1 else 'notes'}"
    return f"<details><summary>{words}</summary><ul>{items}</ul></details>" if notes else ""


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


def terminal_width() -> int:
    """Return the characters of a line: a terminal's own, 100 at most and anywhere else."""
    is_terminal = getattr(sys.stdout, "isatty", lambda: False)()
    return min(WIDTH, shutil.get_terminal_size((WIDTH, 24)).columns) if is_terminal else WIDTH


LEFT = ' style="text-align:left"'  # a notebook that isn't trusted drops style sheets, and not this


def _side(column: _Column) -> str:
    return ' class="n"' if column.is_number else LEFT


def _is_float(dtype: object) -> bool:
    return pd.api.types.is_float_dtype(dtype)  # type: ignore[arg-type]


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


def _widths(columns: list[_Column], width: int, longest: int) -> list[int]:
    """Return the width of each column; texts give way, the widest first, headings too."""
    widths = [one.width for one in columns]
    least = [one.least(longest) for one in columns]
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
    lines = wrap(words, max(width, 1), break_long_words=True, break_on_hyphens=False) or [""]
    lines = [line.replace("\x00", " ") for line in lines]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"{lines[most - 1][: width - 2]} …"]


# Colours are those of the page: JupyterLab's and VS Code's variables, else the browser's own.
STYLE = """
.rs-display p { margin: .4em 0 } .rs-display ul { margin: .4em 0; padding-left: 1.4em }
.rs-display { max-width: 100%; overflow-wrap: anywhere } .rs-note { font-size: .92em; opacity: .8 }
.rs-display > details > summary { cursor: pointer; opacity: .8; margin: .4em 0 }
.rs-display p.rs-good { border-left: .3em solid #009E73; padding-left: .5em } .rs-display p.rs-poor { border-left: .3em solid #E69F00; padding-left: .5em } .rs-display p.rs-bad { border-left: .3em solid #D55E00; padding-left: .5em }
.rs-table { overflow-x: auto; max-width: 100%; margin: .5em 0 } .rs-tall { max-height: 36em; overflow-y: auto }
.rs-table table { border-collapse: collapse; border: 0; margin: 0; font-size: .92em; table-layout: auto; color: inherit }
.rs-table thead th, .rs-table tbody td { text-align: left; vertical-align: top; padding: .3em .7em; max-width: 26em; white-space: normal; overflow-wrap: break-word; border: 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); background: var(--jp-layout-color0, var(--vscode-editor-background, Canvas)) }
.rs-table thead th { position: sticky; top: 0; z-index: 1; font-weight: 600; vertical-align: bottom; border-bottom: 2px solid color-mix(in srgb, currentColor 40%, transparent) }
.rs-table thead th.n, .rs-table tbody td.n { text-align: right } .rs-table tbody td.n { font-variant-numeric: tabular-nums } .rs-table tbody td.n, .rs-table tbody td.s { white-space: nowrap }
.rs-table td svg { display: inline-block; width: 5.5em; height: 1em; margin: 0 .3em 0 .8em; vertical-align: -.15em; overflow: visible }
.rs-table thead th:first-child, .rs-table tbody td:first-child { position: sticky; left: 0; z-index: 1; max-width: min(22em, 38vw) }
.rs-table thead th:first-child { z-index: 2 }
.rs-table summary:focus-visible { outline: 2px solid currentColor; outline-offset: -2px }
.rs-table tbody tr:hover td { background-image: linear-gradient(color-mix(in srgb, currentColor 6%, transparent) 0 0) }
.rs-table td.rs-good, .rs-table td.rs-poor, .rs-table td.rs-bad { font-weight: 600; white-space: nowrap }
.rs-table tbody tr td.rs-good { background-image: linear-gradient(color-mix(in srgb, #009E73 22%, transparent) 0 0) }
.rs-table tbody tr td.rs-poor { background-image: linear-gradient(color-mix(in srgb, #E69F00 22%, transparent) 0 0) }
.rs-table tbody tr td.rs-bad { background-image: linear-gradient(color-mix(in srgb, #D55E00 24%, transparent) 0 0) }
.rs-table details { min-width: 14em } .rs-table summary { cursor: pointer; list-style: none; display: block }
.rs-table details:not([open]) summary { display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 3; overflow: hidden }
"""  # noqa: E501
HEAD = f"<style>{STYLE}</style>"
