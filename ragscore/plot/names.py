"""Names of runs within one picture: what all share is said once, below the title.

In: names of any length. Out: the shortest parts, whole words, that still tell them apart.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

from ragscore.frames.short_names import renamed, short_names

# The names of the picture that is being drawn as they are shown, and what they share
UNNAMED = (dict[str, str](), "")
_shown: ContextVar[tuple[dict[str, str], str] | None] = ContextVar("shown_names", default=None)


@contextmanager
def held(variable: "ContextVar[Any]", value: Any) -> Iterator[None]:
    """Set a context variable for as long as the context lasts."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def naming() -> AbstractContextManager[None]:
    """Collect the names of one picture, in a context."""
    return held(_shown, UNNAMED)


def name_runs(runs: Iterable[str]) -> None:
    """Let these names be shown without what all of them begin and end with."""
    if _shown.get() == UNNAMED:
        short, common = short_names(runs)
        _shown.set((short, f"runs: {common}" if common else ""))


def shown(text: str) -> str:
    """Return a text with each name as it is shown in this picture."""
    return renamed(text, (_shown.get() or UNNAMED)[0])


def note() -> str:
    """Return what the names of this picture share; "" where they are shown whole."""
    return (_shown.get() or UNNAMED)[1]
