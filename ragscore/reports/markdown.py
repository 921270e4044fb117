"""A report's sections as Markdown: sentences and tables, without figures and folded texts."""

import pandas as pd

from ragscore.reports.section import Section
from ragscore.tables import markdown_table


def to_markdown(title: str, parts: list[Section]) -> str:
    """The whole page; a text can't open a tag, a table cell or a heading of its own."""
    return "\n\n".join([f"# {_line(title)}", *(block for part in parts for block in _blocks(part))]) + "\n"


def _blocks(part: Section) -> list[str]:
    table = [] if part.table is None else [markdown_table(_untagged(part.table.drop(columns=list(part.folded))))]
    return [f"{'#' * part.depth} {_line(part.title)}", *map(_line, part.sentences), *table, *map(_line, part.notes)]


def _untagged(table: pd.DataFrame) -> pd.DataFrame:
    texts = table.rename(columns=lambda name: _line(str(name)))
    return texts.map(lambda value: _line(value) if isinstance(value, str) else value)


def _line(text: str) -> str:
    return " ".join(text.replace("&", "&amp;").replace("<", "&lt;").split())
