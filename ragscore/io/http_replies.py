"""What HTTP replies say beside their content: how it is packed, and how long callers should wait.

Few bytes may hold thousands: content is unpacked up to a limit. A server may ask for any time to
wait. `LONGEST_WAIT` is the most that anything here waits for one: a query or judgment that would
have to wait longer has failed.
"""

import math
import zlib
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_WAIT = 60.0  # seconds
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


def unpacked(content: bytes, encoding: str, limit: int | None) -> bytes:
    """Return a reply's content as it was before it was packed; one byte over the limit at most.

    Raises
    ------
    ValueError
        It is packed in another way than gzip or deflate, damaged, or its end is missing.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity") or not content:
        return content
    if encoding not in ("gzip", "x-gzip", "deflate"):
        named = encoding if encoding in ("br", "compress", "zstd") else "something else"
        raise ValueError(f"is encoded as {named!r}; gzip or deflate")
    stream = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        whole = stream.decompress(content, 0 if limit is None else limit + 1)
    except zlib.error as error:
        raise ValueError(f"can't be unpacked: {error}") from error
    if not stream.eof and (limit is None or len(whole) <= limit):
        raise ValueError("can't be unpacked: its end is missing")
    return whole


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
