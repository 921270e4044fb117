"""Power: the difference that so many queries can detect, and how many a difference needs."""

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Values

POWER = 0.8


def minimum_detectable(
    error: npt.ArrayLike, units: npt.ArrayLike, level: npt.ArrayLike = 0.05, power: float = POWER
) -> Values:
    """Return about the difference that is found with this power: (t_{1−level/2} + t_power)·error.

    `error` is the standard error of the mean difference, `units` the number of queries or clusters.
    NaN where no test can reject (2·2⁻ⁿ > level), and where nothing differed.
    """
    from scipy.special import stdtrit

    spread, n = (np.asarray(one, dtype=np.float64) for one in (error, units))
    with np.errstate(invalid="ignore", over="ignore"):
        can_reject = (2 * 2.0**-n <= np.asarray(level)) & (spread > 0) & (n > 1)
        df = np.maximum(n - 1, 1)
        reach = stdtrit(df, 1 - np.asarray(level) / 2) + stdtrit(df, power)
    return np.where(can_reject, reach * spread, np.nan)


def queries_needed(
    difference: npt.ArrayLike, std: npt.ArrayLike, level: float = 0.05, power: float = POWER
) -> Values:
    """Return about how many paired queries find a mean difference with this power.

    Of two rates std² = discordance − difference². Infinite for a difference of 0, NaN where nothing
    differed.
    """
    from scipy.special import ndtri

    delta, spread = np.abs(np.asarray(difference, float)), np.asarray(std, dtype=np.float64)
    reach = ndtri(1 - level / 2) + ndtri(power)
    with np.errstate(divide="ignore", invalid="ignore"):
        # t needs a few more than z
        found = np.ceil((reach * spread / delta) ** 2 + ndtri(1 - level / 2) ** 2 / 2)
    return np.where(spread > 0, np.where(delta == 0, np.inf, found), np.nan)
