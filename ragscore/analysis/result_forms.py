"""Text, HTML and JSON forms that the result objects of an analysis share.

In: an object whose fields are frames and plain values. Out: text. Computes nothing.
"""

from abc import ABC, abstractmethod
from typing import Self

import pandas as pd

from ragscore.frames.escaping import (
    html_table,
    html_text,
    markdown_line,
    markdown_paragraph,
    visible,
)
from ragscore.frames.render import dump, markdown_table, reload

NO_ROWS = "(no rows)"


class JsonResult:
    """Result whose fields are written as JSON and read back."""

    def to_json(self) -> str:
        """Return the result as JSON, NaN as null; `from_json` reloads it."""
        return dump(self)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the result that `to_json` wrote."""
        return reload(cls, text)


class Tables(ABC):
    """Object that is read as one or more tables of text with notes below them."""

    @abstractmethod
    def _tables(self) -> dict[str, pd.DataFrame]:
        """Return the tables of text by heading; the first heading is the title of all."""

    @abstractmethod
    def notes(self) -> list[str]:
        """Return what a reader must know beside the tables."""

    def to_markdown(self) -> str:
        """Return the tables and the notes as Markdown."""
        parts = []
        for place, (heading, table) in enumerate(self._tables().items()):
            parts += [f"{'##' if place else '#'} {markdown_line(heading)}", markdown_table(table)]
        notes = "\n".join(f"- {markdown_paragraph(note)}" for note in self.notes())
        return "\n\n".join([*parts, notes]) + "\n"

    def _repr_html_(self) -> str:
        text = ""
        for place, (heading, table) in enumerate(self._tables().items()):
            text += f"<p><b>{html_text(heading)}</b></p>" if place else ""
            text += html_table(table)
        notes = "".join(f"<li>{html_text(note)}</li>" for note in self.notes())
        return f"{text}<ul>{notes}</ul>"

    def __repr__(self) -> str:
        parts = [
            (f"{heading}\n" if place else "") + table.to_string(index=False)
            for place, (heading, table) in enumerate(self._tables().items())
        ]
        return visible("\n\n".join([*parts, "\n".join(self.notes())]))


class TableResult(JsonResult, Tables):
    """Result that is read as tables, and written as JSON."""


class FramesResult(ABC):
    """Result made of frames that are its attributes; made by a method, never by hand.

    One table is shown, and the frames are named below it. A frame is computed when it is first
    asked for, unless it is a field.
    """

    # In the order in which they are best read; without an annotation, they are no fields.
    FRAMES = tuple[str, ...]()
    METHODS = tuple[str, ...]()

    @abstractmethod
    def _heading(self) -> str:
        """Return in one line what the result is about."""

    @abstractmethod
    def _shown(self) -> pd.DataFrame:
        """Return the table to read first, rounded."""

    def _frames_line(self) -> str:
        more = (
            f"; methods: {', '.join(f'.{name}' for name in self.METHODS)}" if self.METHODS else ""
        )
        return f"Frames: {', '.join(f'.{name}' for name in self.FRAMES)}{more}"

    def __repr__(self) -> str:
        shown = self._shown()
        table = shown.to_string(index=False) if len(shown) else NO_ROWS
        return visible(f"{self._heading()}\n{table}\n{self._frames_line()}")

    def _repr_html_(self) -> str:
        shown = self._shown()
        table = html_table(shown) if len(shown) else f"<p>{NO_ROWS}</p>"
        return f"<p>{html_text(self._heading())}</p>{table}<p>{html_text(self._frames_line())}</p>"


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 run", "2 runs"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def shares_by_run(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return classes × runs as text, "n of total (share)"; classes without a query are left out.

    `table` has one row per run and class (column `name`), with n, n_total and share.
    """
    rows = table[table.groupby(name, sort=False)["n"].transform("sum") > 0]
    counts = zip(rows["n"], rows["n_total"], rows["share"], strict=True)
    texts = [f"{n} of {total} ({share:.0%})" if total else "—" for n, total, share in counts]
    wide = rows.assign(text=texts, run_id=rows["run_id"].astype("str")).pivot(
        index=name, columns="run_id", values="text"
    )
    wide = wide.reindex(index=rows[name].unique(), columns=rows["run_id"].astype("str").unique())
    return wide.reset_index().rename_axis(columns=None)
