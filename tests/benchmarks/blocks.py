"""Blocks of a page that a benchmark fills, between `<!-- benchmark:NAME -->` and `<!--
/benchmark:NAME -->`.
"""


def rewritten(text: str, blocks: dict[str, str]) -> str:
    """The text with these blocks filled.

    Others stay as they are, and a block that the text doesn't have is left out.
    """
    for name, content in blocks.items():
        opening, closing = f"<!-- benchmark:{name} -->", f"<!-- /benchmark:{name} -->"
        if opening not in text:
            continue
        before, rest = text.split(opening)
        _, after = rest.split(closing)
        text = f"{before}{opening}\n{content}\n{closing}{after}"
    return text
