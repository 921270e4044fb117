"""Whether corrected differences of two runs hold what they claim, by simulation.

`coverage` draws runs, a judge and people whose true difference is known exactly, and counts how
often the 95 % interval of `ppi_difference` holds it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from ragscore.stats import paired_interval, ppi_difference
from ragscore.stats.ppi import LEAST_LABELS

Values = npt.NDArray[np.float64]

N_QUERIES = 500
# Lowest value on a normal scale of each further point: right or not, and 0 to 5 points.
CUTS: dict[str, Values] = {
    "binary": np.array([0.0]),
    "points": np.array([-1.6, -0.9, -0.3, 0.4, 1.1]),
}
GAIN = 0.25  # by how much the candidate is better, on the normal scale
KINDNESS = (0.3, 0.5)  # how much too much the judge gives to baseline and candidate
SHARED = 0.5  # correlation of both runs' answers to a query
OF_CLUSTER = 0.5  # share of a query's variance, and of its difference's, that its cluster shares


@dataclass(frozen=True)
class Coverage:
    """Shares of intervals that hold the true difference, and mean widths.

    Corrected intervals and those of the judge alone; widths of corrected ones and of the labels'.
    """

    corrected: float
    judge: float
    width: float
    width_labels: float


def true_difference(scale: str) -> float:
    """The difference of the means that people would give all queries."""
    return float((norm.cdf(GAIN - CUTS[scale]) - norm.cdf(-CUTS[scale])).sum())


def drawn(
    rng: np.random.Generator, n: int, correlation: float, scale: str, clusters: Values | None
) -> tuple[Values, Values]:
    """Differences (candidate − baseline) of the judge's and of people's values, one per query."""

    def normal(size: tuple[int, ...]) -> Values:
        """Standard normal values per query, those of a cluster correlated."""
        own = rng.standard_normal(size)
        if clusters is None:
            return own
        of_cluster = rng.standard_normal((size[0], int(clusters.max()) + 1))[:, clusters]
        return np.sqrt(OF_CLUSTER) * of_cluster + np.sqrt(1 - OF_CLUSTER) * own

    query, answers, errors = normal((1, n)), normal((2, n)), rng.standard_normal((2, n))
    people = np.sqrt(SHARED) * query + np.sqrt(1 - SHARED) * answers
    judge = correlation * people + np.sqrt(1 - correlation**2) * errors
    people = people + np.array([[0.0], [GAIN]])
    judge = judge + np.array([[0.0], [GAIN]]) + np.array(KINDNESS)[:, None]
    of_judge, of_people = (
        np.diff((side[:, :, None] > CUTS[scale]).sum(axis=2), axis=0)[0].astype(np.float64)
        for side in (judge, people)
    )
    return of_judge, of_people


def coverage(
    n_labels: int, correlation: float, scale: str, shape: str = "whole", draws: int = 2_000,
    seed: int = 0, n_queries: int = N_QUERIES,
) -> Coverage:  # fmt: skip
    """Coverage of the corrected difference over random sets of queries and random labels.

    Parameters
    ----------
    n_labels
        Queries that people label on both sides; in a slice about so many, at least 30.
    correlation
        Of judge and people on one answer, before both are cut into points.
    scale
        "binary" or "points" (0 to 5).
    shape
        "whole"; "slice": half of twice as many queries, with the labels that fall into it;
        "clusters of 4": queries in clusters of four, single queries of which are labelled.
    """
    rng, true = np.random.default_rng(seed), true_difference(scale)
    width = float(len(CUTS[scale]))
    clusters = np.arange(n_queries) // 4 if shape == "clusters of 4" else None
    held, widths = [], []
    while len(held) < draws:
        if shape == "slice":
            is_in = rng.random(2 * n_queries) < 0.5
            is_labelled = rng.permutation(2 * n_queries) < 2 * n_labels
            labelled = is_labelled[is_in]
            if labelled.sum() < LEAST_LABELS:
                continue
        else:
            labelled = rng.permutation(n_queries) < n_labels
        judge, people = drawn(rng, len(labelled), correlation, scale, clusters)
        found = ppi_difference(
            judge, np.where(labelled, people, np.nan), width=width, groups=clusters
        )
        of_judge, of_labels = (
            np.ravel(
                paired_interval(
                    values, "bounded", bounds=(0, width),
                    groups=None if clusters is None else clusters[rows],
                )
            )
            for values, rows in ((judge, slice(None)), (people[labelled], labelled))
        )  # fmt: skip
        held.append([found.low <= true <= found.high, of_judge[0] <= true <= of_judge[1]])
        widths.append([found.high - found.low, np.ptp(of_labels)])
    return Coverage(*np.mean(held, axis=0).tolist(), *np.mean(widths, axis=0).tolist())
