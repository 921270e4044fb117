"""A comparison in words: better, worse, the same or no worse within a declared margin, can't tell.

"Can't tell" comes with the difference that so many queries can detect.
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
OPPOSITE = dict(word for pair in set(DIRECTIONS.values()) for word in (pair, pair[::-1]))
UNSURE, MIXED = "can't tell", "mixed"
SAME, NO_WORSE = "same within margin", "no worse than margin"
# Verdict words, the best first; those of metrics without a declared direction come last.
WORDS = ("better", SAME, NO_WORSE, MIXED, "worse", UNSURE, "higher", "lower")
CAUTION = (
    "caution: a few queries carry this difference, or too rare ones to be seen would undo it; look"
    " at the largest changes"
)


@dataclass(frozen=True)
class Verdict:
    """One of `WORDS`, and its sentence."""

    word: str
    sentence: str


def verdict(
    delta: float, low: float, high: float, p: float, mde: float, n: float,
    *, margin: float | None = None, better: str = "higher",
    caution: bool = False, alpha: float = 0.05,
    p_alone: float = math.nan, held: tuple[float, float] | None = None,
    n_moved: float = math.nan, clusters: tuple[float, float] | None = None,
) -> Verdict:  # fmt: skip
    """Return the verdict that a paired difference allows.

    Better or worse if p < alpha and the interval leaves out 0. With a margin,
    and unless it is better: "same within margin" if the interval lies between −margin and +margin,
    "no worse than margin" if it excludes a loss of the margin or more. These two hold where a loss
    is sure but small, too. Else "can't tell", with the difference that n queries can show. "No
    difference" is never said: one that isn't seen at this n may still be there.

    Parameters
    ----------
    delta, low, high
        Mean difference, candidate − baseline, and its interval.
    p
        Corrected for all verdicts shown together; NaN: not tested.
    mde
        Minimum detectable difference; infinite or NaN: none is detectable.
    n
        Queries that both runs have a value for.
    margin
        The largest loss that doesn't matter, above 0, in the metric's units.
    better
        "higher" or "lower", as in the metric table; "not declared", as for a column of one's own:
        the words are then "higher" and "lower", and no margin is heeded.
    caution
        Whether a test of this mean is too eager (`is_heavy_tailed`); said behind the verdict.
    p_alone
        p without the correction: where it is below alpha and p isn't, the sentence says so.
    held
        The interval that a margin is held against (`interval_for_margin`; wider where several
        margins are declared); by default that of the difference.
    n_moved
        Queries that changed; NaN: unknown.
    clusters
        How many clusters of queries changed, and how many there are; None: queries stand alone.

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
    sign = -1.0 if better == "lower" else 1.0
    gain, words = sign * delta, DIRECTIONS[better]
    margin = None if better == "not declared" else margin
    excludes_zero = not low <= 0 <= high
    is_sure = p < alpha and gain != 0 and excludes_zero
    warned = f"; {CAUTION}" if caution else ""
    if math.isnan(delta) or not n > 0:
        return Verdict(UNSURE, f"{UNSURE}: no query has a value in both runs")
    if is_sure and gain > 0:
        return Verdict(words[0], f"{words[0]}: {_shown_delta(delta, low, high)}, p {_p(p)}{warned}")
    if margin is not None:
        ends = sorted(sign * end for end in held or (low, high))
        if ends[0] > -margin:
            word = SAME if ends[1] < margin else NO_WORSE
            said = word.replace("margin", ("±" if word == SAME else "") + _short(margin))
            return Verdict(word, f"{said}: {_loss(gain, ends[0], is_sure)}{warned}")
    if is_sure:
        return Verdict(words[1], f"{words[1]}: {_shown_delta(delta, low, high)}, p {_p(p)}{warned}")
    alone = ""
    if p_alone < alpha <= p and excludes_zero:
        alone = f"p {_p(p_alone)} alone, but {_p(p).removeprefix('= ')} among all that is shown; "
    if math.isnan(p) or math.isfinite(mde):
        sees = _what_n_sees(mde, n, margin, p)
    else:
        moved, of = (n_moved, n) if clusters is None else clusters
        sees = _too_few(moved, _queries(of) if clusters is None else f"{of:.0f} clusters", of)
        if math.isfinite(farthest := max(-low, high)):
            sees += f"; a true difference of up to {_short(farthest)} is possible"
    return Verdict(UNSURE, f"{UNSURE}: {alone}{sees}{warned}")


def median_verdict(
    delta: float,
    low: float,
    high: float,
    n: float,
    *,
    margin: float | None = None,
    better: str = "higher",
    p: float = math.nan,
    held: tuple[float, float] | None = None,
) -> Verdict:
    """Return the verdict that the interval of a median paired difference allows.

    For times and costs, whose means depend on a few large values. As `verdict`; an interval of a
    median is a sign test turned round, so what it leaves out is significant at its level. `p` is
    that of the sign test, corrected for all verdicts shown together; NaN: not corrected.
    """
    alone = 0.0 if low > 0 or high < 0 else math.nan if math.isnan(low) else 1.0
    found = verdict(
        delta, low, high, alone if math.isnan(p) else max(alone, p), math.nan, n, margin=margin,
        better=better, held=held,
    )  # fmt: skip
    if found.word in DIRECTIONS[better]:
        return Verdict(found.word, f"{found.word}: {_shown_delta(delta, low, high)} at the median")
    if found.word != UNSURE or not n > 0:
        return found
    if math.isnan(low) or math.isnan(high):
        return Verdict(
            found.word,
            f"{UNSURE}: {_queries(n)} {'is' if n == 1 else 'are'} too few for an interval of the"
            " median difference",
        )
    low_text, high_text = _shown_delta(delta, low, high).split("[")[1].rstrip("]").split(", ")
    sentence = (
        f"{UNSURE}: the median difference may be anything from {low_text} to {high_text}"
        f" ({_queries(n)})"
    )
    if alone == 0:
        sentence += f"; 0 is left out, but p is {_p(p).removeprefix('= ')} among all that is shown"
    return Verdict(found.word, sentence)


def joint_verdict(parts: dict[str, tuple[str, float]], margins: dict[str, float]) -> Verdict:
    """Return one verdict for metrics that trade against each other, such as those of refusals.

    Better only if one of them is better, and none of the others is seen to be worse. Where an
    other one has a margin, "same" or "no worse" is asked of it; where it has none, its mean must
    not have fallen at all. Worse if one is worse and none better; mixed if both occur.

    Parameters
    ----------
    parts
        Metric -> its own verdict's word, and its gain (difference, above 0 where better).
    margins
        Metric -> margin, where one was declared.
    """
    words = {name: word for name, (word, _) in parts.items()}
    better = [name for name, word in words.items() if word == "better"]
    worse = [name for name, word in words.items() if word == "worse"]
    if better and worse:
        return Verdict(MIXED, f"{MIXED}: {better[0]} is better and {worse[0]} worse, a trade")
    if worse:
        return Verdict("worse", f"worse: {worse[0]} is, and nothing is sure to make up for it")
    if better:
        paid = [
            name
            for name, (word, gain) in parts.items()
            if word not in ("better", SAME, NO_WORSE) and (name in margins or gain < 0)
        ]
        if not paid:
            return Verdict(
                "better", f"better: {' and '.join(better)}; no loss of the other is seen"
            )
        cost = "isn't shown to be within its margin" if paid[0] in margins else "is perhaps worse"
        return Verdict(
            UNSURE, f"{UNSURE}: {better[0]} is better, but {paid[0]} {cost}: it may be a trade"
        )
    if parts and all(word in (SAME, NO_WORSE) for word in words.values()):
        word = SAME if set(words.values()) == {SAME} else NO_WORSE
        return Verdict(word, f"{word}: {' and '.join(words)}")
    return Verdict(UNSURE, f"{UNSURE}: neither {' nor '.join(words)} is sure to have changed")


def overall_word(words: list[str]) -> str:
    """Return the word over several verdicts.

    Better or worse if one is and none is the opposite, mixed if both occur or one is mixed. Else
    "no worse" if each one is the same or no worse within its margin, and else "can't tell".
    Metrics without a declared direction give "higher" and "lower".
    """
    found = set(words)
    if MIXED in found or {"better", "worse"} <= found or {"higher", "lower"} <= found:
        return MIXED
    for word in ("better", "worse", "higher", "lower"):
        if word in found:
            return word
    return "no worse" if found and found <= {SAME, NO_WORSE} else UNSURE


def _loss(gain: float, least_gain: float, is_sure: bool) -> str:
    if least_gain >= 0:
        return "the interval holds no loss"
    most = f"a loss is at most {_short(-least_gain)}"
    return (
        f"a loss of {_short(-gain)} is there, {most.replace('a loss is ', '')}" if is_sure else most
    )


def _what_n_sees(mde: float, n: float, margin: float | None, p: float) -> str:
    queries = _queries(n)
    if math.isnan(p):
        return f"not tested with {queries}"
    sees = f"{queries} can detect a difference of {_short(mde)} or more"
    if margin is None:
        return sees
    if margin >= mde:
        return f"{sees}, so that one of {_short(margin)} would probably have been found"
    return (
        f"{sees}; about {_short(n * (mde / margin) ** 2)} would be needed for a difference of"
        f" {_short(margin)}"
    )


def _too_few(moved: float, units: str, n: float) -> str:
    """Say that no difference can be detected; `units` says how many queries or clusters."""
    if not moved < n:
        return f"{units} {'is' if n == 1 else 'are'} too few to detect any difference"
    return f"only {moved:.0f} of {units} changed, too few to detect any difference"


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
    nearest = min(abs(low), abs(high)) if low * high > 0 else math.inf
    while round(nearest, decimals) == 0:  # an interval that leaves out 0 is shown as one that does
        decimals += 1
    shown = [_without_zero(f"{value:+.{decimals}f}") for value in (delta, low, high)]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]" if not math.isnan(width) else shown[0]


def _short(value: float) -> str:
    """Two significant digits: .12, 1.5, 310."""
    digits = 1 - math.floor(math.log10(abs(value))) if value else 0
    return _without_zero(
        f"{round(value, digits):.{max(digits, 0)}f}".rstrip("0").rstrip(".")
        if digits > 0
        else f"{round(value, digits):.0f}"
    )


def _p(p: float) -> str:
    if p < 0.001:
        return "< .001"
    places = next(n for n in range(3, 18) if (float(f"{p:.{n}f}") < 0.05) == (p < 0.05))
    return f"= {_without_zero(f'{p:.{places}f}')}"


def _without_zero(text: str) -> str:
    """.05 for 0.05, with a minus sign for a hyphen."""
    sign = {"-": "−", "+": "+"}.get(text[0], "")
    digits = text.lstrip("+-")
    return sign + (digits[1:] if digits.startswith("0.") else digits)
