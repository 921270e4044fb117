"""From which value an answer counts as good, and below which as bad, on any judge's scale.

In: the name of a metric. Out: two limits from its declared range. One rule for every scale, so that
flips, agreement and the audit of a judge mean the same by "good".
"""

import math
from collections.abc import Mapping

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt
from ragscore.scoring.metrics import NOTHING_DECLARED, Declarations

BAD_BELOW, GOOD_FROM = 0.6, 0.8  # of a scale: 3 and 4 of 0 to 5 points
# Width from which a scale is one of points. Judges give whole ones, so limits lie at whole points,
# rounded down: the middle of 0 to 4 and of 1 to 5 is then neither good nor bad, as 3 of 0 to 5 is,
# and one point more or less never turns good into bad.
POINTS_FROM = 3.0
Limits = tuple[float, float]
"""A value worse than the first is bad, one at least as good as the second is good."""


def limits_of(name: str, declared: Declarations = NOTHING_DECLARED) -> Limits | None:
    """Return (bad, good) of a metric; None where nothing says what is good.

    Known are 0/1 metrics, what judges measure, and columns of your own that were declared with a
    direction and a range. A value worse than `bad` is bad, one at least as good as `good` is good,
    what lies between is neither: bad below .6 and good from .8 of the scale, on scales of points
    (at least 3 wide) rounded down to whole points.

    0 to 5: bad below 3, good from 4. 0 to 4: 2 and 3. 1 to 5: 3 and 4. 0 to 10: 6 and 8. 0 to 1: .6
    and .8. Where lower is better, the same from the other end: on 0 to 5, good up to 1, bad above
    2.
    """
    metric = declared.describe(name)
    is_lower = metric.better == "lower"
    if metric.kind == "binary":
        return (0.0, 0.0) if is_lower else (1.0, 1.0)
    least, most = metric.bounds
    is_own = declared.find(name) is not None and metric.better in ("higher", "lower")
    if not (metric.criterion or is_own) or not math.isfinite(metric.width):
        return None
    bad, good = (_at(share, least, most) for share in (BAD_BELOW, GOOD_FROM))
    if is_lower:
        bad, good = (_tidy(least + most - one, most - least) for one in (bad, good))
    return bad, good


def _at(share: float, least: float, most: float) -> float:
    """Return the point at this share of a scale."""
    width = most - least
    exact = _tidy(least + share * width, width)
    return float(least + math.floor(exact - least)) if width >= POINTS_FROM else exact


def _tidy(value: float, width: float) -> float:
    """Return a value without the noise of its last bits: 9 decimals of a scale of 1, or finer."""
    return round(value, 9 - min(math.floor(math.log10(width)), 0))


def good_from(name: str, thresholds: Mapping[str, Limits] | None = None) -> float:
    """Return the lowest good value of what judges measure.

    Half of the judges' verdicts where they say yes or no, else as `limits_of`, or as given.
    """
    if thresholds and name in thresholds:
        return float(thresholds[name][1])
    found, criterion = limits_of(name), NOTHING_DECLARED.describe(name)
    assert found is not None  # every criterion has a range
    return sum(criterion.bounds) / 2 if criterion.kind == "binary" else found[1]


def check_limits(
    thresholds: Mapping[str, Limits] | None, declared: Declarations
) -> dict[str, Limits]:
    """Return limits as they were given, by metric.

    Raises
    ------
    DataError
        Anything but two numbers, of which `good` is at least as good as `bad`.
    """
    found = {}
    for name, given in (thresholds or {}).items():
        try:
            bad, good = (float(one) for one in given)
        except (TypeError, ValueError):
            raise DataError(
                f"found {excerpt(given)} for {name}",
                field="thresholds",
                allowed="{metric: (bad, good)}, such as {'judge_correctness': (2, 3)}",
            ) from None
        if not (good <= bad if declared.describe(name).better == "lower" else bad <= good):
            raise DataError(
                f"found {bad:g}, {good:g} for {name}",
                field="thresholds",
                allowed="(bad, good): worse than the first is bad, from the second on good",
            )
        found[name] = (bad, good)
    return found
