"""From which value an answer counts as good, and below which as bad, on any judge's scale."""

from collections.abc import Mapping

import numpy as np

from ragscore.frames.data import DataError
from ragscore.frames.errors import excerpt
from ragscore.lean.metrics import TABLE, Table

BAD_BELOW, GOOD_FROM = 0.6, 0.8  # of a scale: 3 and 4 of 0 to 5 points
# Judges give whole points: on a scale at least 3 wide limits are rounded down to them.
POINTS_FROM = 3.0
Limits = tuple[float, float]  # a value worse than the first is bad, from the second on it is good


def limits_of(name: str, table: Table = TABLE) -> Limits | None:
    """Return (bad, good) of a metric; None where nothing says what is good.

    Known are 0/1 metrics, what judges measure, and columns of your own with a direction and a
    range: bad below .6 and good from .8 of the scale, 3 and 4 of 0 to 5 points; where lower is
    better, the same from the other end.
    """
    metric = table.describe(name)
    is_lower, (least, most) = metric.better == "lower", metric.bounds
    if metric.kind == "binary":
        return (0.0, 0.0) if is_lower else (1.0, 1.0)
    is_own = metric.family == "own" and metric.better in ("higher", "lower")
    if not (metric.family == "judged" or is_own) or not np.isfinite(metric.width):
        return None
    bad, good = (
        round(least + (np.floor(share * metric.width) if metric.width >= POINTS_FROM
                       else share * metric.width), 9)
        for share in (BAD_BELOW, GOOD_FROM)
    )  # fmt: skip
    if is_lower:
        return round(least + most - bad, 9), round(least + most - good, 9)
    return bad, good


def good_from(name: str, thresholds: Mapping[str, Limits] | None = None) -> float:
    """Return the lowest good value of what judges measure; half of verdicts of yes and no."""
    if thresholds and name in thresholds:
        return float(thresholds[name][1])
    metric, found = TABLE.describe(name), limits_of(name)
    assert found is not None  # every criterion has a range
    return sum(metric.bounds) / 2 if metric.kind == "binary" else found[1]


def check_limits(
    thresholds: Mapping[str, Limits] | None, table: Table = TABLE
) -> dict[str, Limits]:
    """Return limits as they were given, by metric; anything but (bad, good) is refused."""
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
        if not (good <= bad if table.describe(name).better == "lower" else bad <= good):
            raise DataError(
                f"found {bad:g}, {good:g} for {name}",
                field="thresholds",
                allowed="(bad, good): worse than the first is bad, from the second on good",
            )
        found[name] = (bad, good)
    return found
