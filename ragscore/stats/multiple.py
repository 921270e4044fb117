"""Many tests at once: corrections of p values, all metrics or all pairs of runs, tied runs."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragscore.frames.typing import Codes, Flags, Values
from ragscore.stats.bootstrap import BLOCK
from ragscore.stats.moments import NORMAL_FROM, as_columns, group_sums
from ragscore.stats.paired import (
    EQUAL_SIZES,
    EXACT_UP_TO,
    ROUNDING,
    is_by_limit,
    sign_flip_p,
)
from ragscore.stats.power import EXACT_BELOW

ALPHA = 0.05
# Of the 5 %. So nearly nothing is taken from what decides, and a clear change elsewhere can still
# be named. Metrics that comparisons of several runs show alone have a twentieth, and so do titles
# that name slices.
PRIMARY_SHARE, OTHER_SHARE = 0.8, 0.1
LEAST_CHANGED = 6  # 0/1 values: of 5 that changed, all one way, the exact p is .0625
SLACK = 1e-9  # standardised sums that differ by less are equal


def holm(p: npt.ArrayLike) -> Values:
    """Return Holm's adjusted p values (Holm 1979), for several candidates against one baseline.

    Each is the maximum over smaller p of (m − rank + 1)·p, at most 1. The chance of any false claim
    stays below the significance level. NaN (not tested) stays NaN and isn't counted in m.
    """
    return _adjusted(
        p, lambda ordered: np.maximum.accumulate(ordered * np.arange(len(ordered), 0, -1))
    )


def benjamini_hochberg(p: npt.ArrayLike) -> Values:
    """Return Benjamini and Hochberg's q values (1995), for exploring slices.

    Each is the minimum over larger p of m·p / rank. About 5 % of the claims at q ≤ .05 are expected
    to be false. NaN (not tested) stays NaN and isn't counted in m.
    """

    def step_up(ordered: Values) -> Values:
        m = len(ordered)
        return np.minimum.accumulate((ordered * m / np.arange(1, m + 1))[::-1])[::-1]

    return _adjusted(p, step_up)


@dataclass(frozen=True)
class Together:
    """Tests of several metrics at once, one value per metric.

    Attributes
    ----------
    p
        Adjusted p: below 5 % for any of the metrics in at most 5 % of cases if none differs. NaN:
        not tested.
    level
        The level at which a metric is tested, as if it stood alone.
    """

    p: Values
    level: Values


def joint_test(
    differences: npt.ArrayLike,
    is_primary: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Together:
    """Test the paired differences of several metrics at once, primary ones first.

    Step-down max-T over sign flips (Westfall and Young 1993; Romano and Wolf 2005,
    doi:10.1198/016214504000000539). If two runs don't differ, all differences of a query could as
    well have had the other sign. The statistic of a metric is the size of the sum of differences /
    root of the sum of their squares; its p is the share of sign patterns in which any metric of its
    family reaches it. So metrics that move together cost little.

    There are two families. The primary metrics are tested at four fifths of the 5 %, all others at
    a tenth, or at both shares once every primary metric is decided. The rest is for what is shown
    beside them. False claims of any kind thus stay below 5 %. A family without the other has all
    of it.

    Parameters
    ----------
    differences
        One row per query, one column per metric; NaN where one of the runs has no value. Signs of
        differences test medians.
    is_primary
        One flag per metric.
    groups
        Whole number of every query's group, -1: none. Members of a group change sign together.

    Returns
    -------
    All sign patterns are counted where at most 16 queries (or groups) moved, else random ones;
    from 1,000 the normal limit with the same correlations. Neither the order of queries nor which
    run comes first matters.
    """
    columns = as_columns(differences)
    first = np.asarray(is_primary, dtype=bool)
    sums = group_sums(columns, groups)
    sizes = np.abs(sums)
    is_moved = sizes > ROUNDING * sizes.max(axis=0, initial=0.0)
    np.copyto(sums, 0.0, where=~is_moved)
    moved = is_moved.any(axis=1)
    is_normal, is_exact = moved.sum() >= NORMAL_FROM, moved.sum() <= EXACT_UP_TO
    if not is_normal:  # the limit needs no copy without rows of zeros
        sums = sums[moved]
    root = np.sqrt(np.einsum("ij,ij->j", sums, sums))
    root = np.where(root > 0, root, 1.0)
    if is_normal:
        found = np.abs(sums.sum(axis=0) / root)
        draws = np.abs(_normal_limit(sums.T @ sums / np.outer(root, root), iterations, seed))
    else:
        # rounded, so that the order in which a group was summed changes no draw
        units = np.round(sums / root, 12)
        found, draws = np.abs(units.sum(axis=0)), np.abs(_signed(units, iterations, seed))
    is_tested = ~np.isnan(columns).all(axis=0)
    p, level = np.full(len(first), np.nan), np.full(len(first), np.nan)
    families = [np.flatnonzero(is_tested & flags) for flags in (first, ~first)]
    shares = (PRIMARY_SHARE, OTHER_SHARE) if all(map(len, families)) else (1.0, 1.0)
    # A metric that few queries moved in is far from normal, however many moved in others: it has
    # its own exact p, corrected by Bonferroni.
    few = ~is_by_limit(sums) if is_normal else np.zeros(len(first), dtype=bool)
    own = np.zeros(len(first))
    own[few] = sign_flip_p(sums[:, few], iterations=iterations, seed=seed)
    for members, share in zip(families, shares, strict=True):
        if len(members):
            alone, _ = _step_down(found[members], [draws[:, members]], is_exact)
            alone = np.maximum(alone, np.minimum(own[members] * len(members), 1.0))
            p[members] = np.minimum(alone / share, 1.0)
            level[members] = _level_alone(draws[:, members].max(axis=1), ALPHA * share)
            if members is families[1] and len(families[0]):
                # Once every primary metric is decided, the others are tested at the level of both.
                both = np.minimum(alone / (PRIMARY_SHARE + OTHER_SHARE), 1.0)
                decided = np.maximum(both, p[families[0]].max())
                p[members] = np.minimum(p[members], decided)
    return Together(p, level)


def _signed(units: Values, iterations: int, seed: int, *, is_drawn: bool = False) -> Values:
    """Return sums under random signs: one row per sign pattern, all of them if they are few."""
    # A query and its mirror image are the same under random signs. So neither the order of
    # queries nor that of the runs matters.
    lead = np.take_along_axis(units, (units != 0).argmax(axis=1)[:, None], axis=1)
    units = units * np.where(lead < 0, -1.0, 1.0)
    units = units[np.lexsort(units.T)]
    n = len(units)
    if n <= EXACT_UP_TO and not is_drawn:  # by symmetry the first sign stays +
        bits = (np.arange(2 ** max(n - 1, 0))[:, None] >> np.arange(n)) & 1
        return np.asarray((1.0 - 2.0 * bits) @ units)
    rng, sums = np.random.default_rng(seed), np.zeros((iterations, units.shape[1]))
    # The generator draws bytes by fours: a multiple of 4 rows loses none between two blocks.
    step = max(BLOCK // iterations // 4, 1) * 4
    for start in range(0, n, step):
        part = units[start : start + step]
        drawn = rng.integers(0, 256, (len(part), -(-iterations // 8)), dtype=np.uint8)
        kept = np.unpackbits(drawn, axis=1, count=iterations).T.astype(np.float64)
        sums += 2 * (kept @ part) - part.sum(axis=0)
    return sums


def _normal_limit(covariance: Values, iterations: int, seed: int) -> Values:
    """Return draws of the normal distribution that sums under random signs come close to."""
    # Rounded, so that the order of queries changes no draw; a little is added to the diagonal,
    # because columns may be copies of each other.
    size = float(covariance.diagonal().max(initial=0.0)) or 1.0
    covariance = np.round(covariance / size, 12) + 1e-9 * np.eye(len(covariance))
    draws = np.random.default_rng(seed).standard_normal((iterations, len(covariance)))
    return np.asarray(draws @ np.linalg.cholesky(size * covariance).T)


def _step_down(found: Values, blocks: Iterable[Values], is_exact: bool) -> tuple[Values, Values]:
    """Return adjusted p, each column against the largest of those that are not ahead of it.

    And the largest of each draw. `blocks` hold the draws, some rows at a time.
    """
    order = np.argsort(found, kind="stable")
    reached, n, tops = np.zeros(len(found)), 0, [np.zeros(0)]
    for draws in blocks:
        largest = np.maximum.accumulate(draws[:, order], axis=1)
        reached += (largest >= found[order] - SLACK).sum(axis=0)
        n += len(draws)
        tops.append(largest[:, -1:].ravel())
    p = reached / n if is_exact else (1 + reached) / (1 + n)
    adjusted = np.empty(len(found))
    adjusted[order] = np.maximum.accumulate(p[::-1])[::-1]
    return adjusted, np.concatenate(tops)


def _level_alone(tops: Values, alpha: float) -> float:
    """Return the level of one test that keeps a family to alpha; `tops`: the largest of draws."""
    from scipy.special import ndtr

    if not len(tops):
        return alpha
    return float(np.clip(2 * ndtr(-np.quantile(tops, 1 - alpha)), 1e-6, alpha))


def exact_below(level: float, p: float) -> float:
    """Return `exact_below` of `mde_of_differences` for a metric tested at this level.

    `p` and `level` are those of `joint_test`; p is NaN where there was none. Where other metrics
    lower the level, the statistic must reach the largest of theirs, which few changed queries with
    a small exact p do. Else p is that of the metric's own sign flips, which for 0/1 values is
    McNemar's exact p.
    """
    if np.isnan(p):
        return EXACT_BELOW
    own = ALPHA * np.array([1.0, PRIMARY_SHARE, OTHER_SHARE])
    return np.inf if np.isclose(level, own).any() else LEAST_CHANGED


def _adjusted(p: npt.ArrayLike, step: Callable[[Values], Values]) -> Values:
    found = np.asarray(p, dtype=np.float64)
    adjusted = np.full(found.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(found))
    order = tested[np.argsort(found[tested], kind="stable")]
    # Rounding must not make it smaller than p.
    adjusted[order] = np.minimum(np.maximum(step(found[order]), found[order]), 1.0)
    return adjusted


def max_t_p(
    scores: npt.ArrayLike,
    *,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
) -> Values:
    """Return the adjusted p of every pair of runs, in one metric or in several at once.

    Step-down max-T over sign flips, as `joint_test`, of the differences of all pairs. If two runs
    don't differ, a query's difference could as well have had the other sign; all differences of a
    query change sign together. The statistic of a pair is the size of its sum of differences / root
    of the sum of their squares: its own spread counts, however much other runs vary. So the chance
    of any false claim among all pairs and metrics stays below the level.

    Parameters
    ----------
    scores
        One row per query, one column per run; of several metrics, along a third axis. A query
        without a value in every run is left out of the metric.
    groups
        Whole number of every query's group, -1: none. Members of a group change sign together.

    Returns
    -------
    Symmetric matrix, runs × runs, 1 on its diagonal, of several metrics one along a third axis; NaN
    for a metric without a query that all runs have. All sign patterns are counted where at most 16
    queries (or groups) vary, else p is (1 + number of random ones) / (iterations + 1); from 1,000
    the normal limit with the same correlations is drawn from, but for pairs of which few queries
    differ. The order of queries doesn't matter.
    """
    return pairwise_p(scores, groups=groups, iterations=iterations, seed=seed)[0]


def pairwise_p(
    scores: npt.ArrayLike,
    *,
    baseline: int | None = None,
    groups: npt.ArrayLike | None = None,
    iterations: int = 10_000,
    seed: int = 0,
    alpha: float = ALPHA,
) -> tuple[Values, float]:
    """Return what `max_t_p` does, and the level at which each test stands as if it were alone.

    With the place of a `baseline` among the runs, only its pairs are tested; all others have p = 1.
    """
    is_single = np.ndim(scores) != 3
    values = as_columns(scores)[:, :, None] if is_single else np.asarray(scores, np.float64)
    n, runs, metrics = values.shape
    complete = np.logical_not(np.asarray(np.isnan(values).any(axis=1)))  # queries × metrics
    # Differences from one run hold those of all pairs, and whole numbers stay whole.
    units = np.where(complete[:, None, :], values - values[:, :1], 0.0).reshape(n, -1)
    units = group_sums(units, groups)
    # Scaled by powers of two, which keeps whole numbers exact, and rounded: neither the order of a
    # sum nor rounding tells two differences apart.
    largest = np.abs(units).reshape(-1, runs, metrics).max(axis=(0, 1), initial=0.0)
    units = np.round(np.ldexp(units, -np.tile(np.frexp(largest)[1], runs)), 12)
    units = units[(units != 0).any(axis=1)]
    first, second = np.triu_indices(runs, 1)
    if baseline is not None:
        is_asked = (first == baseline) | (second == baseline)
        first, second = first[is_asked], second[is_asked]
    pairs = [(side[:, None] * metrics + np.arange(metrics)).ravel() for side in (first, second)]
    squares, is_few = _spread_of_pairs(units, pairs[0], pairs[1])
    known = np.flatnonzero(squares > 0)
    one, other, root = pairs[0][known], pairs[1][known], np.sqrt(squares[known])
    sums = units.sum(axis=0)
    alone = np.ones(len(squares))
    alone[known], tops = _step_down(
        np.abs(sums[one] - sums[other]) / root,
        _draws_of_pairs(units, one, other, root, is_few[known], iterations, seed),
        len(units) <= EXACT_UP_TO,
    )
    p = np.ones((runs, runs, metrics))
    p[first, second] = p[second, first] = alone.reshape(len(first), metrics)
    p = np.where(complete.any(axis=0), p, np.nan)
    return p[:, :, 0] if is_single else p, _level_alone(tops, alpha)


def _spread_of_pairs(units: Values, one: Codes, other: Codes) -> tuple[Values, Flags]:
    """Return sums of squared differences of pairs of columns, and which have no normal limit."""
    squares, fourth, moved = np.zeros((3, len(one)))
    step = max(BLOCK // max(len(one), 1), 1)
    for start in range(0, len(units), step):
        part = units[start : start + step]
        apart = part[:, one] - part[:, other]
        moved += np.count_nonzero(apart, axis=0)
        np.square(apart, out=apart)
        squares += apart.sum(axis=0)
        fourth += np.einsum("qp,qp->p", apart, apart)
    return squares, (moved < NORMAL_FROM) | (squares**2 < EQUAL_SIZES * fourth)


def _draws_of_pairs(
    units: Values, one: Codes, other: Codes, root: Values, is_few: Flags, iterations: int, seed: int
) -> Iterator[Values]:
    """Yield the statistics of all pairs under random signs, some draws at a time.

    Of many queries, pairs in which few differ are drawn apart from the normal limit of the others:
    draws that know nothing of each other have the larger maximum, if anything (Royen 2014).
    """
    if len(units) < NORMAL_FROM:
        sources = [(np.arange(len(one)), _signed(units, iterations, seed))]
    else:
        sources = [(np.flatnonzero(~is_few), _normal_limit(units.T @ units, iterations, seed))]
        if is_few.any():
            differs = np.zeros(len(units), dtype=bool)
            for a, b in zip(one[is_few], other[is_few], strict=True):
                differs |= units[:, a] != units[:, b]
            drawn = _signed(units[differs], iterations, seed + 1, is_drawn=True)
            sources.append((np.flatnonzero(is_few), drawn))
    step = max(BLOCK // max(len(one), 1), 1)
    for start in range(0, len(sources[0][1]), step):
        here = slice(start, start + step)
        found = np.empty((len(sources[0][1][here]), len(one)))
        for places, sums in sources:
            part = sums[here]
            apart = part[:, one[places]] - part[:, other[places]]
            found[:, places] = np.abs(apart) / root[places]
        yield found


def tied_sets(means: npt.ArrayLike, p: Values, alpha: float = 0.05) -> list[list[int]]:
    """Return sets of runs, such that two runs share a set if and only if they don't differ.

    Positions in `means`, the best run first, and so are the sets. A run may be in several sets; one
    that differs from all others is alone in its own. Runs without a mean are in none. No set can be
    made larger (the compact letter display of Piepho 2004, doi:10.1198/1061860043515).

    Parameters
    ----------
    means
        Mean of every run, higher is better (negate where lower is).
    p
        Adjusted p of every pair, from `max_t_p`.
    """
    found = np.asarray(means, dtype=np.float64)
    order = np.argsort(-found, kind="stable")
    order = order[~np.isnan(found[order])]
    tied = np.asarray(p)[np.ix_(order, order)] >= alpha
    # Every run has a spread of its own: of three runs the middle one may differ from both others,
    # which are tied. So a set isn't always a stretch of the ordered runs.
    is_open = tied.copy()
    sets = list[list[int]]()
    for first in range(len(order)):
        while is_open[first, first:].any():
            second = first + int(is_open[first, first:].argmax())
            members, shared = sorted({first, second}), tied[first] & tied[second]
            for place in range(len(order)):
                if shared[place] and place not in members:
                    members.append(place)
                    shared = shared & tied[place]
            sets.append(sorted(members))
            is_open[np.ix_(members, members)] = False
    return [order[members].tolist() for members in sorted(sets)]
