"""The words by which a passage is found again in any chunk that holds them.

Written as they stand in the text, never cut with an ellipsis.
"""

import re
from collections.abc import Iterable

from ragscore.scoring.anchors import ELLIPSES

LONGEST, SHORTEST = 100, 12  # characters
FEWEST = 3  # words: a name alone stands in many passages
_SENTENCE = re.compile(r"(?<=[.!?:;])\s+")


def snippet_of(text: str, others: Iterable[str] = ()) -> str | None:
    """A sentence of a text, or its first 100 characters cut between words.

    None where the text has none.

    The first sentence that none of the `others` (hits of the same place) holds, so that the label
    is not theirs too; a sentence lies within one line, for lines are what another chunker may join
    or cut. The longest there is, where none has three words.
    """
    found = [
        piece
        for line in text.split("\n")
        for piece in (_cut(one) for one in _SENTENCE.split(line.strip()))
        if re.search(r"\w", piece)
    ]
    if not found:
        return None
    elsewhere = [other.lower() for other in others]
    own = [
        piece for piece in found if not any(piece.lower() in other for other in elsewhere)
    ] or found
    return next(
        (piece for piece in own if len(piece) >= SHORTEST and len(piece.split()) >= FEWEST),
        max(own, key=len),
    )


def _cut(sentence: str) -> str:
    for mark in ELLIPSES:  # the end of a text that was cut when it was stored
        sentence = sentence.removesuffix(mark)
    if len(sentence) <= LONGEST:
        return sentence.strip()
    words = sentence[: LONGEST + 1].rsplit(None, 1)[0]
    return words[:LONGEST].strip()
