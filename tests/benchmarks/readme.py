"""Blocks of the README that a benchmark fills, between `<!-- benchmark:NAME -->` and `<!-- /benchmark:NAME -->`."""

from tests.benchmarks.table import Table


def rewritten(text: str, found: dict[str, list[Table]], machine: str) -> str:
    """The text with the blocks of these parts filled; blocks of parts that weren't measured stay.

    Raises
    ------
    ValueError
        A part was measured and has no block.
    """
    blocks = {name: "\n\n".join(table.markdown() for table in tables) for name, tables in found.items()}
    if "scoring" in blocks:
        blocks["machine"] = machine
    for name, content in blocks.items():
        opening, closing = f"<!-- benchmark:{name} -->", f"<!-- /benchmark:{name} -->"
        if text.count(opening) != 1 or text.count(closing) != 1:
            raise ValueError(f"one block {opening} … {closing} is expected")
        before, rest = text.split(opening)
        after = rest.split(closing)[1]
        text = f"{before}{opening}\n{content}\n{closing}{after}"
    return text
