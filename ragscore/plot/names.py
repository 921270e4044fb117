"""Names of runs within one picture: what all share is said once, below the title.

In: names of any length. Out: the shortest parts, whole words, that still tell them apart.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from ragscore.frames.short_names import renamed, short_names


@dataclass
class Names:
    """The names of the picture that is being drawn, and how they are shown."""

    short: dict[str, str] = field(default_factory=dict)
    note: str = ""


PLAIN = Names()  # of no picture
_shown: ContextVar[Names] = ContextVar("shown_names", default=PLAIN)


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
    names = _shown.get()
    if names is not PLAIN and not names.short:
        names.short, common = short_names(runs)
        names.note = f"runs: {common}" if common else ""


def shown(text: str) -> str:
    """Return a text with each name as it is shown in this picture."""
    return renamed(text, _shown.get().short)


def note() -> str:
    """Return what the names of this picture share; "" where they are shown whole."""
    return _shown.get().note
