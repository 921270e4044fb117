"""Names of runs within one picture: what all share is said once, below the title.

In: names of any length. Out: the shortest parts, whole words, that still tell them apart.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

LONG = 20  # characters of a name from which on common parts are left out
GAIN = 6  # characters that this must save
_WORDS = re.compile(r"(?<=[\s_\-./:|,+@=])")


@dataclass
class Names:
    """The names of the picture that is being drawn, and how they are shown."""

    short: dict[str, str] = field(default_factory=dict)
    note: str = ""


_shown: ContextVar[Names | None] = ContextVar("shown_names", default=None)


@contextmanager
def naming() -> Iterator[Names]:
    """Collect the names of one picture."""
    names = Names()
    before = _shown.set(names)
    try:
        yield names
    finally:
        _shown.reset(before)


def name_runs(runs: Iterable[str]) -> None:
    """Let these names be shown without what all of them begin and end with."""
    names, found = _shown.get(), list(dict.fromkeys(runs))
    if names is None or names.short or len(found) < 2 or max(map(len, found)) <= LONG:
        return
    first, last = _common(found)
    short = {run: run[len(first) : len(run) - len(last)].strip("_-./:|,+@= ") for run in found}
    if len(first) + len(last) < GAIN or not all(short.values()):
        return
    if len(set(short.values())) == len(found):
        names.short = short
        names.note = f"runs: {first}…{last}"


def shown(text: str) -> str:
    """Return a text with each name as it is shown in this picture."""
    names = _shown.get()
    if names is None or not names.short:
        return text
    known = sorted(names.short, key=len, reverse=True)
    return re.sub("|".join(map(re.escape, known)), lambda found: names.short[found[0]], text)


def note() -> str:
    """Return what the names of this picture share; "" where they are shown whole."""
    names = _shown.get()
    return "" if names is None else names.note


def _common(runs: list[str]) -> tuple[str, str]:
    """Return the words that all begin and all end with; each name keeps a word of its own."""
    words = [_WORDS.split(run) for run in runs]
    shortest = min(map(len, words))
    n = next((n for n in range(shortest) if len({one[n] for one in words}) > 1), shortest - 1)
    rest = shortest - n - 1
    m = next((m for m in range(rest) if len({one[-1 - m] for one in words}) > 1), rest)
    return "".join(words[0][:n]), "".join(words[0][len(words[0]) - m :])
