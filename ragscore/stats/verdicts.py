"""A comparison in words: better, worse, no worse than a declared margin, or can't tell.

"Can't tell" comes with the difference that so many queries could have shown.
"""

import math
from dataclasses import dataclass

from ragscore.frames.errors import DataError, check_choice

# Direction of better values -> the words for a gain and a loss. Without a declared direction only
# the movement is named.
DIRECTIONS = {
    "higher": ("better", "worse"),
    "lower": ("better", "worse"),
    "not declared": ("higher", "lower"),
}
CAUTION = (
    "caution: a few queries carry this difference, or too rare ones to be seen would undo it; look"
    " at the largest changes"
)


@dataclass(frozen=True)
class Verdict:
    """A word (better, worse, no worse than margin, can't tell, higher, lower) and its sentence."""

    word: str
    sentence: str


def verdict(
    delta: float, low: float, high: float, p: float, mde: float, n: float,
    *, margin: float | None = None, better: str = "higher", is_tied: bool = False,
    worth: float | None = None, caution: bool = False, alpha: float = 0.05,
) -> Verdict:  # fmt: skip
    """Return the verdict that a paired difference allows.

    Better or worse if p < alpha, the interval leaves out 0 and the runs aren't tied. Else, or if
    the loss is sure but small, "no worse than margin" if the interval excludes a loss of the
    declared margin or more. Else "can't tell", with the difference that n queries can show. "No
    difference" is never said: a difference that isn't seen at this n may still be there.

    Parameters
    ----------
    delta, low, high
        Mean difference, candidate − baseline, and its interval.
    p
        Corrected for the number of comparisons where there are several; NaN: not tested.
    mde
        Minimum detectable difference; infinite: not detectable at this n, NaN: unknown.
    n
        Queries that both runs have a value for.
    margin
        The largest loss that doesn't matter, above 0, in the metric's units.
    better
        "higher" or "lower", as in the metric table; "not declared", as for a column of one's own:
        the words are then "higher" and "lower", and no margin is heeded.
    is_tied
        Whether an all-pairs test can't tell the two runs apart.
    worth
        A difference worth finding, for the number of queries it would need; by default the margin.
    caution
        Whether a test of this mean is too eager (`is_heavy_tailed`); said behind the verdict.

    Raises
    ------
    DataError
        A margin that isn't above 0, another direction.
    """
    check_choice(better, DIRECTIONS, "better")
    if margin is not None and not margin > 0:
        raise DataError(
            f"found {margin!r}",
            field="margin",
            allowed="a number above 0, the largest loss that doesn't matter",
        )
    gain, least_gain = (delta, low) if better != "lower" else (-delta, -high)
    words, margin = DIRECTIONS[better], None if better == "not declared" else margin
    is_sure = p < alpha and not is_tied and gain != 0 and not low <= 0 <= high
    warned = f"; {CAUTION}" if caution else ""
    if math.isnan(delta) or not n > 0:
        return Verdict("can't tell", "can't tell: no query has a value in both runs")
    if is_sure and gain > 0:
        return Verdict(words[0], f"{words[0]}: {_shown_delta(delta, low, high)}, p {_p(p)}{warned}")
    if margin is not None and least_gain > -margin:
        return Verdict(
            "no worse than margin",
            f"no worse than {_short(margin)}: {_loss(gain, least_gain, is_sure)}{warned}",
        )
    if is_sure:
        return Verdict(words[1], f"{words[1]}: {_shown_delta(delta, low, high)}, p {_p(p)}{warned}")
    return Verdict(
        "can't tell",
        f"can't tell: {_what_n_sees(mde, n, worth or margin, p, max(-low, high))}{warned}",
    )


def median_verdict(
    delta: float,
    low: float,
    high: float,
    n: float,
    *,
    margin: float | None = None,
    better: str = "higher",
) -> Verdict:
    """Return the verdict that the interval of a median paired difference allows.

    For times and costs, whose means depend on a few large values. As `verdict`; an interval of a
    median is a sign test turned round, so what it leaves out is significant at its level.
    """
    p = 0.0 if low > 0 or high < 0 else math.nan if math.isnan(low) else 1.0
    found = verdict(delta, low, high, p, math.nan, n, margin=margin, better=better)
    if found.word in DIRECTIONS[better]:
        return Verdict(found.word, f"{found.word}: {_shown_delta(delta, low, high)} at the median")
    if found.word != "can't tell" or not n > 0:
        return found
    if math.isnan(low) or math.isnan(high):
        return Verdict(
            found.word,
            f"can't tell: {_queries(n)} {'is' if n == 1 else 'are'} too few for an interval of the"
            " median difference",
        )
    low_text, high_text = _shown_delta(delta, low, high).split("(")[1].rstrip(")").split(" to ")
    return Verdict(
        found.word,
        f"can't tell: the median difference may be anything from {low_text} to {high_text}"
        f" ({_queries(n)})",
    )


def _loss(gain: float, least_gain: float, is_sure: bool) -> str:
    if least_gain >= 0:
        return "the interval holds no loss"
    most = f"a loss is at most {_short(-least_gain)}"
    return (
        f"a loss of {_short(-gain)} is there, {most.replace('a loss is ', '')}" if is_sure else most
    )


def _what_n_sees(mde: float, n: float, worth: float | None, p: float, farthest: float) -> str:
    queries = _queries(n)
    if math.isnan(p):
        return f"not tested with {queries}"
    if not math.isfinite(mde):
        open_up_to = (
            f"; one up to {_short(farthest)} isn't ruled out" if math.isfinite(farthest) else ""
        )
        return f"a difference is not detectable at this n, too few of {queries} moved{open_up_to}"
    sees = f"{queries} see{'s' if n == 1 else ''} differences from {_short(mde)} up"
    if worth is None:
        return sees
    if worth >= mde:
        return f"{sees}, so that one of {_short(worth)} would probably have been found"
    return (
        f"{sees}; about {_short(n * (mde / worth) ** 2)} would be needed for a difference of"
        f" {_short(worth)}"
    )


def _queries(n: float) -> str:
    return f"{n:.0f} {'query' if n == 1 else 'queries'}"


def _shown_delta(delta: float, low: float, high: float) -> str:
    """The difference with as many decimals as its interval makes worth showing."""
    width = high - low
    decimals = (
        min(max(1 - math.floor(math.log10(width)), 0), 6)
        if width > 0 and math.isfinite(width)
        else 3
    )
    shown = [_without_zero(f"{value:+.{decimals}f}") for value in (delta, low, high)]
    return f"{shown[0]} ({shown[1]} to {shown[2]})" if not math.isnan(width) else shown[0]


def _short(value: float) -> str:
    """Two significant digits: .12, 1.5, 310."""
    digits = 1 - math.floor(math.log10(abs(value))) if value else 0
    return _without_zero(
        f"{round(value, digits):.{max(digits, 0)}f}".rstrip("0").rstrip(".")
        if digits > 0
        else f"{round(value, digits):.0f}"
    )


def _p(p: float) -> str:
    return "< .001" if p < 0.001 else f"= {_without_zero(f'{p:.3f}')}"


def _without_zero(text: str) -> str:
    """.05 for 0.05, with a minus sign for a hyphen."""
    sign = {"-": "−", "+": "+"}.get(text[0], "")
    digits = text.lstrip("+-")
    return sign + (digits[1:] if digits.startswith("0.") else digits)
