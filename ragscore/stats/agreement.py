"""Agreement of raters beyond chance: Cohen's kappa, Gwet's AC1, Krippendorff's alpha.

Each comes with an interval: a bootstrap of items or, where items come in groups (several answers to
one query, paraphrases), a jackknife of groups.

Ratings are numbers, flags or texts (texts for nominal scales only); NaN or None: not rated. Every
coefficient is 1 − observed / expected disagreement: 1 where raters always agree, 0 where they agree
as often as chance would make them, below 0 where less.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragscore.frames.errors import DataError, check_choice
from ragscore.frames.typing import Codes, Values
from ragscore.stats.bootstrap import BLOCK, check_bootstrap
from ragscore.stats.intervals import t_quantile, wilson_interval
from ragscore.stats.moments import own_groups

NO_CHANCE = 1e-12  # expected disagreement below this is rounding
SCALES = ("nominal", "ordinal", "interval")
# Counts of each kind of item in each resample (resamples × kinds) -> a coefficient per resample
Coefficient = Callable[[Values], Values]


@dataclass(frozen=True)
class Agreement:
    """A coefficient of agreement: its `value`, at most 1, and the bounds of its interval.

    `n` is the number of items that at least two raters rated, `n_groups` that of groups they come
    in; without groups every item is one.
    """

    value: float
    low: float
    high: float
    n: int
    n_groups: int


def cohen_kappa(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Return Cohen's kappa of two raters who put the same items into classes.

    Cohen 1960, doi:10.1177/001316446002000104. κ = (p_o − p_e) / (1 − p_e), p_o the share of items
    with the same class, p_e that share if both raters, each with its own shares of classes, rated
    at random. Items that either didn't rate are left out. It falls where one class is rare, however
    often raters agree: look at `gwet_ac1` beside.

    NaN where both raters put all items into one class: chance agrees always, so nothing can exceed
    it. If only one of them does, κ is 0 by its formula and has no interval.

    The interval is that of `iterations` resamples of items (percentiles); resamples in which κ is
    undefined are left out. Raters who never disagree are no certainty: the lower bound is then 1 −
    u/(1 − p_e), u = z²/(n + z²) the share of disagreements that n items leave open (Wilson).

    With `groups` (whole number of every item's group, -1: none) items of a group are no independent
    evidence. The interval is then a jackknife's: each group is left out once, the spread of the
    values gives the error, with t for G groups, on Fisher's scale artanh κ. It is NaN below two
    groups, and where κ is undefined without one of them; n above counts groups.

    Raises
    ------
    DataError
        Unequal numbers of ratings; bad `iterations`, `confidence` or `seed`.
    """
    codes, values, of = _pairs(first, second, groups, is_numeric=False)
    return _of_two(
        codes,
        len(values),
        lambda rows, cols: 1 - (rows * cols).sum(axis=1),
        (iterations, confidence, seed),
        of,
    )


def weighted_kappa(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Return Cohen's kappa with quadratic weights, for points on a scale.

    Cohen 1968, doi:10.1037/h0026256. κ_w = 1 − Σ(x_i − y_i)² / [Σ_iΣ_j(x_i − y_j)² / n]. Distances
    are those of the points, not of their places among the points that were given: a scale of 0 to 5
    of which nobody gave a 3 keeps its distances. It equals Lin's concordance correlation (1989)
    with variances over n.

    NaN, interval and errors as in `cohen_kappa`.
    """
    codes, values, of = _pairs(first, second, groups, is_numeric=True)
    points = _unit_range(values)

    def expected(rows: Values, cols: Values) -> Values:
        return rows @ points**2 - 2 * (rows @ points) * (cols @ points) + cols @ points**2

    return _of_two(codes, len(values), expected, (iterations, confidence, seed), of, points)


def gwet_ac1(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 2_000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Agreement:
    """Return Gwet's AC1 of two raters who put the same items into classes.

    Gwet 2008, doi:10.1348/000711006X126600. It holds up where one class is rare.

    (p_o − p_e) / (1 − p_e) with p_e = Σ_k π_k(1 − π_k) / (q − 1), π_k the share of class k in the
    ratings of both, q the number of classes seen, at least 2. NaN without an item; 1 where all
    items are in one class. Interval and errors as in `cohen_kappa`.
    """
    codes, values, of = _pairs(first, second, groups, is_numeric=False)

    def expected(rows: Values, cols: Values) -> Values:
        share = (rows + cols) / 2
        return 1 - (share * (1 - share)).sum(axis=1) / (max(len(values), 2) - 1)

    return _of_two(codes, len(values), expected, (iterations, confidence, seed), of)


def krippendorff_alpha(
    ratings: npt.ArrayLike, scale: str = "nominal", *, groups: npt.ArrayLike | None = None,
    iterations: int = 2_000, confidence: float = 0.95, seed: int = 0,
) -> Agreement:  # fmt: skip
    """Return Krippendorff's alpha of two or more raters; ratings may be missing.

    Krippendorff 2019, Content Analysis, 4th ed., 12.3. α = 1 − D_o/D_e: the mean squared distance
    of two ratings of one item over that of two ratings of any items. An item of m ratings counts
    with each of its pairs 1/(m − 1) times; items with fewer than two ratings are left out. The
    squared distance of two values is 0 or 1 ("nominal"), that of their numbers ("interval"), or
    that of their mean ranks among all ratings ("ordinal").

    NaN where no item has two ratings, or all ratings that count are equal. A rater who always says
    the same is one among others. Interval as in `cohen_kappa`, of resamples of whole items.

    Parameters
    ----------
    ratings
        One row per item, one column per rater; NaN or None: not rated.
    scale
        "nominal", "ordinal" or "interval".

    Raises
    ------
    DataError
        Another scale, ratings without rows and columns; bad `iterations`, `confidence` or `seed`.
    """
    check_choice(scale, SCALES, "scale")
    codes, values = _codes(ratings, is_numeric=scale != "nominal")
    if codes.ndim != 2:
        raise DataError(
            f"found {codes.ndim} dimensions",
            field="ratings",
            allowed="one row per item, one column per rater",
        )
    is_rated = (codes >= 0).sum(axis=1) > 1
    of = None if groups is None else own_groups(groups, len(codes))[is_rated]
    # The same ratings in another order count the same: rows are kinds of items.
    kinds, which = np.unique(np.sort(codes[is_rated], axis=1), axis=0, return_inverse=True)
    # how often each kind of item has each value
    counts = np.zeros((len(kinds), len(values)))
    row, _ = np.nonzero(kinds >= 0)
    np.add.at(counts, (row, kinds[kinds >= 0]), 1.0)
    return _agreement(
        _alpha(kinds, counts, _unit_range(values), scale),
        which.ravel(),
        counts,
        (iterations, confidence, seed),
        of,
    )


def rank_correlation(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    confidence: float = 0.95,
) -> Agreement:
    """Return Spearman's rank correlation, with Fisher's interval.

    Spearman 1904; the interval is that of Bonett and Wright 2000, doi:10.1007/BF02294183, with the
    standard error √((1 + ρ²/2)/(n − 3)) of artanh ρ. With groups it is the jackknife's, ranks kept,
    as in `cohen_kappa`. NaN where a side is constant; no interval at ±1, or below four units.

    Parameters
    ----------
    first, second
        Numbers without NaN.
    groups
        Whole number of every pair's group, -1: none.
    """
    from scipy.special import ndtri

    x, y = (_ranks(np.asarray(side, dtype=np.float64)) for side in (first, second))
    x, y, n = x - x.mean(), y - y.mean(), len(x)
    codes = np.arange(n) if groups is None else own_groups(groups, n)
    n_groups = len(np.unique(codes))
    products = np.column_stack([np.ones(n), x, y, x * x, y * y, x * y])
    of_groups = np.zeros((n_groups, 6))
    np.add.at(of_groups, codes, products)
    total = of_groups.sum(axis=0)
    value = float(_pearson(total[None, :])[0])
    if np.isnan(value) or abs(value) >= 1 - NO_CHANCE or n_groups < 4:
        return Agreement(value, np.nan, np.nan, n, n_groups)
    if n_groups < n:
        low, high = jackknife_interval(value, _pearson(total - of_groups), confidence)
        return Agreement(value, low, high, n, n_groups)
    half = float(ndtri((1 + confidence) / 2)) * np.sqrt((1 + value**2 / 2) / (n - 3))
    low, high = np.tanh([np.arctanh(value) - half, np.arctanh(value) + half]).tolist()
    return Agreement(value, low, high, n, n_groups)


def _ranks(numbers: Values) -> Values:
    """Return ranks from 1, equal numbers with the mean of theirs."""
    _, codes, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    ranks: Values = (np.cumsum(counts) - (counts - 1) / 2)[codes]
    return ranks


def _pearson(sums: Values) -> Values:
    """Return correlations from rows of n, Σx, Σy, Σx², Σy², Σxy; NaN where a side is constant."""
    n, x, y, xx, yy, xy = sums.T
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.sqrt((n * xx - x**2) * (n * yy - y**2))
        return np.where(spread > NO_CHANCE * n**4, (n * xy - x * y) / spread, np.nan)


def _alpha(kinds: Codes, counts: Values, points: Values, scale: str) -> Coefficient:
    """Return Krippendorff's alpha as a function of the counts of each kind of item."""
    left, right = np.triu_indices(kinds.shape[1], 1)
    # sorted, -1 first
    kind, pair = np.nonzero((kinds[:, left] >= 0) & (kinds[:, left] != kinds[:, right]))
    first, second = kinds[kind, left[pair]], kinds[kind, right[pair]]
    weight = 2 / (counts.sum(axis=1) - 1)[kind]

    def alpha(times: Values) -> Values:
        given = times @ counts
        n = given.sum(axis=1)
        if scale == "nominal":
            observed, expected = times[:, kind] @ weight, n**2 - (given**2).sum(axis=1)
        else:
            # Ordinal distances are those of mean ranks, which every resample has its own of.
            at = (
                (np.cumsum(given, axis=1) - given / 2) / n[:, None] - 0.5
                if scale == "ordinal"
                else points[None, :]
            )
            observed = (times[:, kind] * (at[:, first] - at[:, second]) ** 2) @ weight
            expected = 2 * (n * (given * at**2).sum(axis=1) - (given * at).sum(axis=1) ** 2)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(expected > NO_CHANCE * n**2, 1 - observed * (n - 1) / expected, np.nan)

    return alpha


def _of_two(
    codes: Codes,
    n_values: int,
    expected: Callable[[Values, Values], Values],
    how: tuple[int, float, int],
    groups: Codes | None,
    points: Values | None = None,
) -> Agreement:
    """Return a coefficient of two raters from the disagreement expected by chance.

    Disagreements are squared distances of `points`, or count alike without them.
    """
    kinds, which = np.unique(codes, axis=0, return_inverse=True)
    first, second = (np.eye(n_values)[kinds[:, rater]] for rater in (0, 1))
    apart = (
        (kinds[:, 0] != kinds[:, 1]).astype(np.float64)
        if points is None
        else (points[kinds[:, 0]] - points[kinds[:, 1]]) ** 2
    )

    def coefficient(drawn: Values) -> Values:
        share = drawn / drawn.sum(axis=1, keepdims=True)
        chance = expected(share @ first, share @ second)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(chance > NO_CHANCE, 1 - share @ apart / chance, np.nan)

    return _agreement(coefficient, which.ravel(), first + second, how, groups)


def _agreement(
    coefficient: Coefficient,
    which: Codes,
    counts: Values,
    how: tuple[int, float, int],
    groups: Codes | None,
) -> Agreement:
    """Return a coefficient with its interval.

    Parameters
    ----------
    which
        The kind of every item.
    counts
        How often each kind has each value.
    groups
        The group of every item, None: each stands alone.
    """
    iterations, confidence, seed = how
    check_bootstrap(iterations, confidence, seed)
    n, times = len(which), np.bincount(which, minlength=len(counts))
    n_groups = n if groups is None else len(np.unique(groups))
    value = float(coefficient(times[None, :].astype(np.float64))[0]) if n else np.nan
    if np.isnan(value):
        return Agreement(value, np.nan, np.nan, n, n_groups)
    share = times @ counts / (times @ counts).sum()
    if value >= 1 - NO_CHANCE:
        unseen = float(wilson_interval(np.zeros(1), np.array([float(n_groups)]), confidence)[1][0])
        by_chance = float(1 - (share**2).sum())  # disagreements, if ratings were drawn at random
        low = max(1 - unseen / by_chance, -1.0) if by_chance > NO_CHANCE else 1 - unseen
        return Agreement(value, low, 1.0, n, n_groups)
    if groups is None or n_groups == n:
        width = counts.shape[1]
        low, high = _percentiles(coefficient, times, width, iterations, confidence, seed)
    else:
        low, high = jackknife_interval(value, _left_out(coefficient, which, groups), confidence)
    return Agreement(value, low, high, n, n_groups)


def _left_out(coefficient: Coefficient, which: Codes, groups: Codes) -> Values:
    """Return the coefficient without each group."""
    kinds = int(which.max()) + 1
    place = np.unique(groups, return_inverse=True)[1].ravel()
    of_groups = np.zeros((int(place.max()) + 1, kinds))
    np.add.at(of_groups, (place, which), 1.0)
    if len(of_groups) < 2:
        return np.full(1, np.nan)
    total = of_groups.sum(axis=0)
    found = np.empty(len(of_groups))
    step = max(BLOCK // kinds**2, 1)
    for start in range(0, len(found), step):
        found[start : start + step] = coefficient(total - of_groups[start : start + step])
    return found


def jackknife_interval(
    value: float, left_out: Values, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of a coefficient within ±1 from its values without each group.

    Tukey 1958. se² = (G − 1)/G · Σ(v_g − v̄)²; tanh(artanh v ± t_{G−1} · se/(1 − v²)). With few
    groups it holds its level where percentiles of resampled groups are too narrow. NaN where the
    value is undefined without one of the groups, or nothing varies.
    """
    n = len(left_out)
    if n < 2 or np.isnan(left_out).any() or np.ptp(left_out) <= NO_CHANCE or abs(value) >= 1:
        return np.nan, np.nan
    error = np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    half = float(t_quantile(np.array([n - 1.0]), confidence)[0]) * error / (1 - value**2)
    centre = np.arctanh(value)
    return float(np.tanh(centre - half)), float(np.tanh(centre + half))


def _percentiles(
    coefficient: Coefficient,
    times: Codes,
    width: int,
    iterations: int,
    confidence: float,
    seed: int,
) -> tuple[float, float]:
    """Return the interval over resamples of items; NaN where all resamples are alike."""
    rng, n, found = np.random.default_rng(seed), int(times.sum()), np.empty(iterations)
    step = max(BLOCK // max(len(times), width), 1)
    for start in range(0, iterations, step):
        rows = min(step, iterations - start)
        found[start : start + rows] = coefficient(
            rng.multinomial(n, times / n, size=rows).astype(np.float64)
        )
    found = found[~np.isnan(found)]
    if not len(found) or np.ptp(found) <= NO_CHANCE:
        return np.nan, np.nan
    low, high = np.quantile(found, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def _pairs(
    first: npt.ArrayLike, second: npt.ArrayLike, groups: npt.ArrayLike | None, *, is_numeric: bool
) -> tuple[Codes, npt.NDArray[np.generic], Codes | None]:
    """Return codes of the items that both rated (a column each), their values and groups."""
    shapes = [np.shape(side) for side in (first, second)]
    if len(shapes[0]) != 1 or shapes[0] != shapes[1]:
        raise DataError(
            f"found shapes {shapes[0]} and {shapes[1]}",
            field="ratings",
            allowed="two lists with one rating per item each",
        )
    try:
        both: npt.NDArray[np.generic] = np.column_stack(
            [np.asarray(side, dtype=np.float64) for side in (first, second)]
        )
    except (TypeError, ValueError):
        both = np.column_stack([np.asarray(side, dtype=object) for side in (first, second)])
    codes, values = _codes(both, is_numeric=is_numeric)
    is_rated = (codes >= 0).all(axis=1)
    of = None if groups is None else own_groups(groups, len(codes))[is_rated]
    return codes[is_rated], values, of


def _codes(ratings: npt.ArrayLike, *, is_numeric: bool) -> tuple[Codes, npt.NDArray[np.generic]]:
    """Return ratings as positions among their sorted values, -1 for none, and these values."""
    try:
        numbers = np.asarray(ratings, dtype=np.float64)
        found, is_there = numbers, ~np.isnan(numbers)
    except (TypeError, ValueError):
        if is_numeric:
            raise DataError(
                "found ratings that are no numbers",
                field="ratings",
                allowed="numbers, for distances between them",
            ) from None
        texts = np.asarray(ratings, dtype=object)
        is_there = np.array(
            [value is not None and value == value for value in texts.ravel()], dtype=bool
        ).reshape(texts.shape)
        found = texts.astype(np.str_)
    values, place = np.unique(found[is_there], return_inverse=True)
    codes = np.full(found.shape, -1, dtype=np.int64)
    codes[is_there] = place.ravel()
    return codes, values


def _unit_range(values: npt.NDArray[np.generic]) -> Values:
    """Scale points to 0..1, distances kept; texts become their positions."""
    points = (
        np.asarray(values, dtype=np.float64)
        if values.dtype.kind == "f"
        else np.arange(len(values), dtype=np.float64)
    )
    width = np.ptp(points) if len(points) else 0.0
    return (points - points.min(initial=np.inf)) / width if width > 0 else np.zeros(len(points))
