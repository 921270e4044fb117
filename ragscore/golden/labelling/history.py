"""Taking clicks back: what one click did to the text, and the text without it."""

from dataclasses import dataclass

from ragscore.frames.data import DataError
from ragscore.golden.labelling.golden_text import GoldenText


@dataclass(frozen=True)
class Done:
    """One click.

    Rows as they stood before and after it (id, before, after), or the text of a row that it added.
    """

    told: str
    query_id: str
    rows: tuple[tuple[str, str, str], ...] = ()
    added: str = ""


def without(content: GoldenText, done: Done) -> GoldenText:
    """The text with the rows of one click as they were before it, to the byte.

    Raises
    ------
    DataError
        A row isn't as the click left it: someone else has changed it since.
    """
    if done.added:
        return _without_row(content, done)
    for query_id, before, after in reversed(done.rows):
        start, end = content.segment(query_id) if query_id in content.rows else (0, 0)
        if content.part(start, end) != after:
            raise DataError(
                f"{query_id} was changed by someone else since",
                file=content.path,
                allowed="change it by hand",
            )
        content = content.replaced(start, end, before)
    return content


def _without_row(content: GoldenText, done: Done) -> GoldenText:
    whole = content.part(0, len(content.text))
    if whole.count(done.added) != 1:
        raise DataError(
            f"{done.told}: the row was changed by someone else since",
            file=content.path,
            allowed="take it out by hand",
        )
    start = whole.index(done.added)
    return content.replaced(start, start + len(done.added), "")


def inserted(old: GoldenText, new: GoldenText) -> str:
    """What was put into a text."""
    before, after = old.text, new.text
    start = next(
        (
            place
            for place, (one, other) in enumerate(zip(before, after, strict=False))
            if one != other
        ),
        min(len(before), len(after)),
    )
    return after[start : len(after) - (len(before) - start)]
