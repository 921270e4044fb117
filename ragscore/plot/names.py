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
    names = _shown.get()
    if names is not None and not names.short:
        names.short, common = short_names(runs)
        names.note = f"runs: {common}" if common else ""


def shown(text: str) -> str:
    """Return a text with each name as it is shown in this picture."""
    names = _shown.get()
    return text if names is None else renamed(text, names.short)


def note() -> str:
    """Return what the names of this picture share; "" where they are shown whole."""
    names = _shown.get()
    return "" if names is None else names.note
