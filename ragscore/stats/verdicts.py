"""A comparison in words: better, worse, can't tell. The interval of a difference alone decides."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

UNSURE, MIXED = "can't tell", "mixed"
SLACK = 1e-12  # a mean that moved by less went no way


def words(
    low: npt.ArrayLike, high: npt.ArrayLike, is_lower: npt.ArrayLike = False
) -> npt.NDArray[np.str_]:
    """Return better or worse where the interval leaves out 0, else can't tell.

    `is_lower`: lower values are better.
    """
    up, down = np.asarray(low) > 0, np.asarray(high) < 0
    is_better, is_worse = np.where(is_lower, (down, up), (up, down))
    return np.select([is_better, is_worse], ["better", "worse"], UNSURE)


def joint_word(words: Mapping[str, str], gains: Mapping[str, float]) -> tuple[str, str]:
    """Return the word of metrics that trade against each other, as refusal metrics do, and why.

    Better (worse) only where one is, and no other's mean went the other way. So it is the same
    whichever run is the baseline. `gains` are differences, above 0 where the candidate is better.
    """
    reason = "; ".join(f"{name} {own}" for name, own in words.items())
    ways = {1 if own == "better" else -1 for own in words.values() if own != UNSURE}
    if not ways:
        return UNSURE, reason
    way = ways.pop()
    opposed = [name for name, gain in gains.items() if way * gain < -SLACK]
    if ways or opposed:
        other = opposed[0] if opposed else "the other"
        return UNSURE, f"{reason}, but {other} went the other way: a trade?"
    return ("better" if way > 0 else "worse"), reason


def overall_word(words: Sequence[str]) -> str:
    """Return the word over aspects: the one that some have; mixed where both occur."""
    sure = {word for word in words if word != UNSURE}
    return MIXED if len(sure) > 1 else next(iter(sure), UNSURE)
