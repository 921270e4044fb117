"""The one error that unusable input ends in, and the one way to warn."""

import sys
import warnings
from pathlib import Path


class DataError(ValueError):
    """Input that can't be used: where it is, what was found there and what is allowed.

    Attributes
    ----------
    file, line, field, found, allowed
        Parts of the message; None where they don't apply. `line` counts from 1.
    """

    __module__ = "ragscore"  # pickles name the public class, wherever it is defined

    def __init__(
        self,
        found: str,
        *,
        file: str | Path | None = None,
        line: int | None = None,
        field: str | None = None,
        allowed: str | None = None,
    ) -> None:
        self.file = None if file is None else str(file)
        self.line, self.field, self.found, self.allowed = line, field, found, allowed
        place = ":".join(str(part) for part in (self.file, line) if part is not None)
        text = ": ".join(part for part in (place, field, found) if part)
        super().__init__(f"{text}; {allowed}" if allowed else text)


def warn(text: str) -> None:
    """Warn at the line outside this package that led here.

    That is where the caller can change something, however deep the reason was found. Only the
    thread of the public call may warn; threads and workers return what is to be said.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "ragscore":
        frame, level = frame.f_back, level + 1
    warnings.warn(text, UserWarning, stacklevel=level)
