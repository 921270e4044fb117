"""Names of runs where there is little room: what all share is left out, whole words at a time.

In: names of any length. Out: the shortest parts that still tell them apart.
"""

import re
from collections.abc import Collection, Iterable
from itertools import takewhile

LONG = 20  # characters of a name from which on common parts are left out
GAIN = 6  # characters that this must save
_WORDS = re.compile(r"(?<=[\s_\-./:|,+@=])")


def short_names(runs: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return name -> its own part, and the part that all share; nothing where names stay whole."""
    found = list(dict.fromkeys(runs))
    # words that all begin and all end with; each name keeps a word of its own
    words = [_WORDS.split(run) for run in found]
    begins = _shared([one[:-1] for one in words])
    ends = _shared([one[: len(begins) : -1] for one in words])
    first, last = "".join(begins), "".join(reversed(ends))
    short = {run: run[len(first) : len(run) - len(last)].strip("_-./:|,+@= ") for run in found}
    is_long = max(map(len, found), default=0) > LONG and len(first) + len(last) >= GAIN
    is_clear = all(short.values()) and 1 < len(set(short.values())) == len(found)
    return (short, f"{first}…{last}") if is_long and is_clear else ({}, "")


def fitting_names(runs: Collection[str], most: int) -> dict[str, str]:
    """Return name -> at most so many characters: without what all share, and without its middle.

    Where that makes two names alike, they stay whole.
    """
    short = short_names(runs)[0] or {run: run for run in runs}
    half = most // 2
    cut = {
        run: name if len(name) <= most else f"{name[:half]}…{name[half + 1 - most :]}"
        for run, name in short.items()
    }
    return cut if len(set(cut.values())) == len(cut) else short


def _shared(words: list[list[str]]) -> list[str]:
    """Return the words with which all begin."""
    same = takewhile(lambda place: len(set(place)) == 1, zip(*words, strict=False))
    return [place[0] for place in same]
