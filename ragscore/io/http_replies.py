"""How long a server asks its callers to wait.

It may ask for any time. `LONGEST_WAIT` is the most that anything here waits for one: a query that
would have to wait longer has failed.
"""

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

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
