"""Waiting for servers: for how long, and a progress bar meanwhile.

A server may ask its callers to wait for any time. `LONGEST_WAIT` is the most that anything here
waits for one: a query that would have to wait longer has failed.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ragscore.frames.escaping import visible

LONGEST_WAIT = 60.0  # seconds


def retry_after(value: str | None) -> float | None:
    """Return the seconds to wait, from a number of seconds or a date; None if there are none.

    A date that has passed is 0. A negative number and NaN say nothing.
    """
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = max((parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds(), 0.0)
        except (ValueError, TypeError, OverflowError):
            return None
    return None if math.isnan(seconds) or seconds < 0 else seconds


def too_long(seconds: float) -> str:
    """Return why a wait of so many seconds is not waited for."""
    return f"it asks for a wait of {seconds:.0f} s, and {LONGEST_WAIT:g} s are the most"


class _NoBar:
    def __getattr__(self, name: str) -> Any:
        return lambda *given, **more: None


@contextmanager
def progress_bar(
    total: int, what: str, unit: str, shown: bool | None, **options: Any
) -> Iterator[Any]:
    """Yield a bar of tqdm's, with `update` and `set_postfix_str`.

    Without tqdm nothing is shown, and nothing fails. `shown=None` shows it on a terminal only.
    """
    try:
        if shown:
            from tqdm.auto import tqdm
        else:
            from tqdm import tqdm
    except ImportError:
        yield _NoBar()
        return

    class Bar(tqdm):  # type: ignore[misc]
        monitor_interval = 0  # its thread would outlive the bar

    disable = None if shown is None else not shown
    with Bar(
        total=total, desc=visible(what), unit=unit, disable=disable, miniters=1, **options
    ) as bar:
        yield bar
