"""Agreement of raters beyond chance: Cohen's kappa, Gwet's AC1, Krippendorff's alpha.

Every coefficient is 1 − observed / expected disagreement: 1 where raters always agree, 0 where they
agree as often as chance would make them, below 0 where less. Ratings are numbers, flags or texts
(texts for nominal scales only); NaN or None: not rated.

The interval is a jackknife's (Tukey 1958): each item is left out once or, where items come in
groups (several answers to one query, paraphrases), each group. Ranks are those among all items.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.errors import DataError, check_choice
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.stats.intervals import wilson_interval
from ragscore.stats.moments import check_share, group_sums, own_groups, t_quantile

NO_CHANCE = 1e-12  # expected disagreement below this is rounding
SCALES = ("nominal", "ordinal", "interval")


@dataclass(frozen=True)
class Agreement:
    """A coefficient of agreement: its `value`, at most 1, and the bounds of its interval.

    `n` is the number of items that at least two raters rated, `n_groups` the number of their
    groups; without groups every item is one.
    """

    value: float
    low: float
    high: float
    n: int
    n_groups: int


def cohen_kappa(
    first: npt.ArrayLike, second: npt.ArrayLike, *, groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:  # fmt: skip
    """Return Cohen's kappa of two raters who put the same items into classes.

    Cohen 1960, doi:10.1177/001316446002000104. κ = (p_o − p_e) / (1 − p_e), p_o the share of items
    with the same class, p_e that share if both raters, each with its own shares of classes, rated
    at random. Items that either didn't rate are left out. It falls where one class is rare, however
    often raters agree: look at `gwet_ac1` beside.

    NaN where both raters put all items into one class: chance agrees always, so nothing can exceed
    it. If only one of them does, κ is 0 by its formula and has no interval.

    Each of G items is left out once; the spread of the values gives the error, with t for G items,
    on Fisher's scale artanh κ. The interval is NaN below two items, and where κ is undefined
    without one of them. Raters who never disagree are no certainty: the lower bound is then
    1 − u/(1 − p_e), u = z²/(G + z²) the share of disagreements that G items leave open (Wilson).

    With `groups` (whole number of every item's group, -1: none) items of a group are no independent
    evidence: groups are left out, and G counts them.

    Raises
    ------
    DataError
        Unequal numbers of ratings; a bad `confidence`.
    """
    return _of_two(
        first, second, groups, confidence, lambda rows, cols, _: 1 - (rows * cols).sum(axis=1)
    )


def weighted_kappa(
    first: npt.ArrayLike, second: npt.ArrayLike, *, groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:  # fmt: skip
    """Return Cohen's kappa with quadratic weights, for points on a scale.

    Cohen 1968, doi:10.1037/h0026256. κ_w = 1 − Σ(x_i − y_i)² / [Σ_iΣ_j(x_i − y_j)² / n]. Distances
    are between the points, not between their places among the points given: a scale of 0 to 5 keeps
    its distances if nobody gave a 3. It equals Lin's concordance correlation (1989)
    with variances over n. NaN, interval and errors as in `cohen_kappa`.
    """
    return _of_two(
        first, second, groups, confidence,
        lambda rows, cols, points: (
            rows @ points**2 - 2 * (rows @ points) * (cols @ points) + cols @ points**2
        ),
        is_numeric=True,
    )  # fmt: skip


def gwet_ac1(
    first: npt.ArrayLike, second: npt.ArrayLike, *, groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:  # fmt: skip
    """Return Gwet's AC1 of two raters who put the same items into classes.

    Gwet 2008, doi:10.1348/000711006X126600. It holds up where one class is rare.

    (p_o − p_e) / (1 − p_e) with p_e = Σ_k π_k(1 − π_k) / (q − 1), π_k the share of class k in the
    ratings of both, q the number of classes seen, at least 2. NaN without an item; 1 where all
    items are in one class. Interval and errors as in `cohen_kappa`.
    """

    def expected(rows: Values, cols: Values, points: Values) -> Values:
        share = (rows + cols) / 2
        return 1 - (share * (1 - share)).sum(axis=1) / (max(len(points), 2) - 1)

    return _of_two(first, second, groups, confidence, expected)


def krippendorff_alpha(
    ratings: npt.ArrayLike, scale: str = "nominal", *, groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:  # fmt: skip
    """Return Krippendorff's alpha of two or more raters; ratings may be missing.

    Krippendorff 2019, Content Analysis, 4th ed., 12.3. α = 1 − D_o/D_e: the mean squared distance
    of two ratings of one item, over the same of two ratings of any items. An item of m ratings
    counts with each of its pairs 1/(m − 1) times; items with fewer than two ratings are left out.
    The squared distance of two values is 0 or 1 ("nominal"), between their numbers ("interval"), or
    between their mean ranks among all ratings ("ordinal").

    NaN where no item has two ratings, or all ratings that count are equal. A rater who always says
    the same is one among others. Interval as in `cohen_kappa`.

    Parameters
    ----------
    ratings
        One row per item, one column per rater; NaN or None: not rated.
    scale
        "nominal", "ordinal" or "interval".

    Raises
    ------
    DataError
        Another scale, ratings without rows and columns; a bad `confidence`.
    """
    check_choice(scale, SCALES, "scale")
    codes, points = _codes(_array(ratings), is_numeric=scale != "nominal")
    if codes.ndim != 2:
        raise DataError(
            f"found {codes.ndim} dimensions",
            field="ratings",
            allowed="one row per item, one column per rater",
        )
    is_rated, size = (codes >= 0).sum(axis=1) > 1, len(points)
    counts = np.zeros((is_rated.sum(), size + 1))
    np.add.at(counts, (np.arange(len(counts))[:, None], codes[is_rated]), 1.0)  # -1: the last
    counts = counts[:, :size]
    n, given = counts.sum(axis=1), counts.sum(axis=0)
    if scale == "ordinal":
        points = (np.cumsum(given) - given / 2) / max(given.sum(), 1)

    def apart(counts: Values, n: Values | float) -> Values:
        """Return the sum of squared distances over all pairs of n values, counted both ways."""
        if scale == "nominal":
            return np.asarray(n**2 - (counts**2).sum(axis=1), dtype=np.float64)
        return np.asarray(2 * (n * (counts @ points**2) - (counts @ points) ** 2), np.float64)

    return _beyond_chance(
        [counts], apart(counts, n) / (n - 1),
        lambda n, share: apart(share, 1.0) * n / (n - 1), is_rated, groups, confidence,
    )  # fmt: skip


def rank_correlation(
    first: npt.ArrayLike, second: npt.ArrayLike, *, groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:  # fmt: skip
    """Return Spearman's rank correlation (1904) of numbers without NaN.

    NaN where a side is constant. Interval as in `cohen_kappa`, ranks kept; none at ±1.
    """
    x, y = (pd.Series(side, dtype="float64").rank().to_numpy() for side in (first, second))

    def pearson(sums: Values) -> Values:
        n, x, y, xx, yy, xy = sums.T
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.sqrt((n * xx - x**2) * (n * yy - y**2))
            return np.where(spread > NO_CHANCE * n**4, (n * xy - x * y) / spread, np.nan)

    x, y = x - x.mean(), y - y.mean()
    parts = np.column_stack([np.ones(len(x)), x, y, x * x, y * y, x * y])
    return _jackknifed(pearson, parts, 0, groups, confidence)


def _of_two(
    first: npt.ArrayLike, second: npt.ArrayLike, groups: npt.ArrayLike | None, confidence: float,
    expected: Callable[[Values, Values, Values], Values], *, is_numeric: bool = False,
) -> Agreement:  # fmt: skip
    """Return a coefficient of two raters from the disagreement expected by chance.

    `expected` takes each rater's shares of the classes, and the points of the classes.
    """
    sides = [_array(side) for side in (first, second)]
    if sides[0].ndim != 1 or sides[0].shape != sides[1].shape:
        raise DataError(
            f"found shapes {sides[0].shape} and {sides[1].shape}",
            field="ratings",
            allowed="two lists with one rating per item each",
        )
    codes, points = _codes(np.column_stack(sides), is_numeric=is_numeric)
    is_rated, size = np.all(codes >= 0, axis=1), len(points)
    one, two = codes[is_rated].T
    apart = (points[one] - points[two]) ** 2 if is_numeric else one != two
    return _beyond_chance(
        [np.eye(size)[one], np.eye(size)[two]], apart,
        lambda _, rows, cols: expected(rows, cols, points), is_rated, groups, confidence,
    )  # fmt: skip


def _beyond_chance(
    counts: list[Values], apart: Values, expected: Callable[..., Values], is_rated: Flags,
    groups: npt.ArrayLike | None, confidence: float,
) -> Agreement:  # fmt: skip
    """Return 1 − observed / expected disagreement, with its interval.

    `counts` say which values each item was given, by either rater or by all, and `apart` is the
    disagreement about it. `expected` takes the number of ratings and the shares of the values.
    `groups` has every item's group, rated or not.
    """
    size = counts[0].shape[1]

    def coefficient(sums: Values) -> Values:
        n = sums[:, :size].sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.split(sums[:, :-1] / n[:, None], len(counts), axis=1)
            by_chance = expected(n, *shares)
            return np.where(by_chance > NO_CHANCE, 1 - sums[:, -1] / n / by_chance, np.nan)

    own = None if groups is None else own_groups(groups, len(is_rated))[is_rated]
    return _jackknifed(coefficient, np.column_stack([*counts, apart]), size, own, confidence)


def _jackknifed(
    coefficient: Callable[[Values], Values], parts: Values, n_values: int,
    groups: npt.ArrayLike | None, confidence: float,
) -> Agreement:  # fmt: skip
    """Return a coefficient of the sums of parts, one row per item, with its interval.

    se² = (G − 1)/G · Σ(v_g − v̄)²; tanh(artanh v ± t_{G−1} · se/(1 − v²)). The first `n_values`
    columns of `parts` count the values that were given.
    """
    check_share(confidence, "confidence")
    of_groups, n = group_sums(parts, groups), len(parts)
    total, n_groups = of_groups.sum(axis=0), len(of_groups)
    value = float(coefficient(total[None, :])[0]) if n else np.nan
    low = high = np.nan
    if n_values and value >= 1 - NO_CHANCE:
        unseen = wilson_interval(np.zeros(1), np.array([float(n_groups)]), confidence)[1][0]
        # disagreements, if ratings were drawn at random
        by_chance = 1 - ((total[:n_values] / total[:n_values].sum()) ** 2).sum()
        low = max(1 - unseen / by_chance, -1.0) if by_chance > NO_CHANCE else 1 - unseen
        value = high = 1.0
    elif n_groups > 1 and abs(value) < 1:
        left_out = coefficient(total - of_groups)
        error = np.sqrt((n_groups - 1) / n_groups * ((left_out - left_out.mean()) ** 2).sum())
        t = t_quantile(np.array([n_groups - 1.0]), confidence)[0]
        if error > NO_CHANCE:
            half = t * error / (1 - value**2)
            low, high = np.tanh([np.arctanh(value) - half, np.arctanh(value) + half])
    return Agreement(value, float(low), float(high), n, n_groups)


def _array(ratings: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """Return ratings as numbers, else as objects."""
    try:
        return np.asarray(ratings, dtype=np.float64)
    except (TypeError, ValueError):
        return np.asarray(ratings, dtype=object)


def _codes(found: npt.NDArray[np.generic], *, is_numeric: bool) -> tuple[Codes, Values]:
    """Return ratings as positions among their sorted values, -1 for none, and points of these.

    Points are numbers scaled to 0..1, distances kept, or the positions of texts.
    """
    is_text = found.dtype == object
    if is_numeric and is_text:
        raise DataError(
            "found ratings that are no numbers",
            field="ratings",
            allowed="numbers, for distances between them",
        )
    codes, values = pd.factorize(found.ravel(), sort=True)
    points = np.asarray(range(len(values)) if is_text else values, dtype=np.float64)
    points = points - points.min(initial=np.inf)
    return codes.reshape(found.shape), points / (points.max(initial=0.0) or 1.0)
