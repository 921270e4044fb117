"""A report's sections as Markdown: sentences and tables, without figures and folded texts."""

from ragscore.frames.tables import markdown_line, markdown_lines, markdown_table
from ragscore.reporting.section import Section


def to_markdown(title: str, parts: list[Section]) -> str:
    """The whole page; a text can't open a tag, a table cell or a heading of its own."""
    return (
        "\n\n".join(
            [f"# {markdown_line(title)}", *(block for part in parts for block in _blocks(part))]
        )
        + "\n"
    )


def _blocks(part: Section) -> list[str]:
    table = (
        []
        if part.table is None
        else [markdown_table(markdown_lines(part.table.drop(columns=list(part.folded))))]
    )
    return [
        f"{'#' * part.depth} {markdown_line(part.title)}",
        *map(markdown_line, part.sentences),
        *table,
        *map(markdown_line, part.notes),
    ]
