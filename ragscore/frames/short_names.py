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
    if len(found) < 2 or max(map(len, found)) <= LONG:
        return {}, ""
    # words that all begin and all end with; each name keeps a word of its own
    words = [_WORDS.split(run) for run in found]
    begins = _shared([one[:-1] for one in words])
    ends = _shared([one[: len(begins) : -1] for one in words])
    first, last = "".join(begins), "".join(reversed(ends))
    short = {run: run[len(first) : len(run) - len(last)].strip("_-./:|,+@= ") for run in found}
    is_worth_it = len(first) + len(last) >= GAIN and all(short.values())
    if not is_worth_it or len(set(short.values())) < len(found):
        return {}, ""
    return short, f"{first}…{last}"


def fitting_names(runs: Collection[str], most: int) -> dict[str, str]:
    """Return name -> at most so many characters of it, what all share and a part left out.

    The part is left out where it tells no two names apart; without such a part names stay whole.
    """
    short = short_names(runs)[0] or {run: run for run in runs}
    for head in sorted(range(most), key=lambda n: abs(n - most // 2)):
        cut = {run: _cut(name, head, most) for run, name in short.items()}
        if len(set(cut.values())) == len(cut):
            return cut
    return short


def _cut(name: str, head: int, most: int) -> str:
    tail = len(name) - (most - head - 1)
    return name if len(name) <= most else f"{name[:head]}…{name[tail:]}"


def _shared(words: list[list[str]]) -> list[str]:
    """Return the words with which all begin."""
    places = zip(*words, strict=False)
    return [place[0] for place in takewhile(lambda place: len(set(place)) == 1, places)]
