"""The one error that unusable input ends in."""

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
