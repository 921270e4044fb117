"""Unknown field names that look like slips of known ones: one warning for each name of a file."""

import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path

# `docid`, `answerabel` and `tag` are that close; `group_id` and `cost` are names of their own
ALIKE = 0.82
_MEANT = {"hits": "hits_top_k"}  # short for it, though not similar
# names that people give to fields of their own, similar or not
_OWN = {"model", "index_id", "content", "chunk_index"}


class Slips:
    """Where each suspicious name stands first, and in how many rows of the file."""

    def __init__(self, file: str | Path) -> None:
        self.file = str(file)
        self.found: dict[tuple[str, str], tuple[int, int, int]] = {}

    def look(self, names: Iterable[str], known: frozenset[str], line: int) -> None:
        """Take note of those names that resemble a known one."""
        for name in names:
            if (known_name := meant(str(name), known)) is not None:
                first, last, n_rows = self.found.get((name, known_name), (line, 0, 0))
                self.found[name, known_name] = (first, line, n_rows + (line != last))

    def warn(self, stacklevel: int) -> None:
        """One `UserWarning` per name."""
        for (name, meant), (first, _, n_rows) in self.found.items():
            rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
            warnings.warn(
                f"{self.file}:{first}: unknown field {name!r} in {rows}; did you mean {meant!r}?",
                UserWarning,
                stacklevel=stacklevel + 1,
            )


@lru_cache(maxsize=4096)
def meant(name: str, known: frozenset[str]) -> str | None:
    """The known name that this one resembles.

    None for a known name and for one that resembles none.
    """
    if name in known or name in _OWN:
        return None
    if _MEANT.get(name) in known:
        return _MEANT[name]
    close = get_close_matches(name.lower(), sorted(known), n=1, cutoff=ALIKE)
    return close[0] if close else None
