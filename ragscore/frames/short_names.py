"""Names of runs where there is little room: what all share is left out, whole words at a time.

In: names of any length. Out: the shortest parts that still tell them apart.
"""

import re
from collections.abc import Collection, Iterable, Mapping

LONG = 20  # characters of a name from which on common parts are left out
GAIN = 6  # characters that this must save
_WORDS = re.compile(r"(?<=[\s_\-./:|,+@=])")


def short_names(runs: Iterable[str]) -> tuple[dict[str, str], str]:
    """Return name -> its own part, and the part that all share; nothing where names stay whole."""
    found = list(dict.fromkeys(runs))
    if len(found) < 2 or max(map(len, found)) <= LONG:
        return {}, ""
    first, last = _common(found)
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


def renamed(text: str, short: Mapping[str, str]) -> str:
    """Return a text with each name as it is shown."""
    if not short:
        return text
    known = sorted(short, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, known)), lambda found: short[found[0]], text)


def _common(runs: list[str]) -> tuple[str, str]:
    """Return the words that all begin and all end with; each name keeps a word of its own."""
    words = [_WORDS.split(run) for run in runs]
    shortest = min(map(len, words))
    n = next((n for n in range(shortest) if len({one[n] for one in words}) > 1), shortest - 1)
    rest = shortest - n - 1
    m = next((m for m in range(rest) if len({one[-1 - m] for one in words}) > 1), rest)
    return "".join(words[0][:n]), "".join(words[0][len(words[0]) - m :])
