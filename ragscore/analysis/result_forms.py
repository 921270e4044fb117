"""Text, HTML and JSON forms that the result objects of an analysis share.

In: an object whose fields are frames and plain values. Out: text. Computes nothing.
"""

from abc import ABC, abstractmethod
from html import escape
from typing import Self

import pandas as pd

from ragscore.frames.render import dump, markdown_table, reload


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
            parts += [f"{'##' if place else '#'} {heading}", markdown_table(table)]
        return "\n\n".join([*parts, "\n".join(f"- {note}" for note in self.notes())]) + "\n"

    def _repr_html_(self) -> str:
        text = ""
        for place, (heading, table) in enumerate(self._tables().items()):
            text += f"<p><b>{escape(heading)}</b></p>" if place else ""
            text += table.to_html(index=False, border=0)
        return (
            text + "<ul>" + "".join(f"<li>{escape(note)}</li>" for note in self.notes()) + "</ul>"
        )

    def __repr__(self) -> str:
        parts = [
            (f"{heading}\n" if place else "") + table.to_string(index=False)
            for place, (heading, table) in enumerate(self._tables().items())
        ]
        return "\n\n".join([*parts, "\n".join(self.notes())])


class TableResult(JsonResult, Tables):
    """Result that is read as tables, and written as JSON."""
