"""The direction and the range of what you declare yourself."""

from numbers import Real
from typing import Any

import numpy as np

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt
from ragscore.scoring.metrics.declaration import NO_BOUNDS, Bounds

SMALLEST, LARGEST = 1e-150, 1e150  # width of a range whose squares a float holds


def checked_direction(given: Any) -> str | None:
    """Return "higher", "lower" or None: neither is better. Anything else is a `DataError`."""
    if given not in (None, "higher", "lower"):
        raise DataError(f"found {excerpt(given)}", field="better", allowed="'higher' or 'lower'")
    return given


def checked_range(given: Any) -> Bounds | None:
    """Return (lowest, highest) as numbers, infinite for no bound; None for no range.

    Raises
    ------
    DataError
        Anything but two numbers, the lower one first, or None in the place of one.
    """
    if given is None:
        return None
    allowed = "(lowest, highest): two numbers, the lower one first; None for no bound"
    pair = list(given) if isinstance(given, (tuple, list, np.ndarray)) else []
    is_number = [
        one is None or (isinstance(one, Real) and not isinstance(one, (bool, np.bool_)))
        for one in pair
    ]
    if len(pair) != 2 or not all(is_number):
        raise DataError(f"found {excerpt(given)}", field="range", allowed=allowed)
    try:
        low, high = (
            end if one is None else float(one) for one, end in zip(pair, NO_BOUNDS, strict=True)
        )
    except OverflowError:
        low = high = np.nan
    if not low < high:  # NaN neither
        raise DataError(f"found {excerpt(given)}", field="range", allowed=allowed)
    if np.isfinite((low, high)).all() and not SMALLEST <= high - low <= LARGEST:
        allowed = f"a width from {SMALLEST:g} to {LARGEST:g}, or None for no bound"
        raise DataError(f"found {excerpt(given)}", field="range", allowed=allowed)
    return low, high
