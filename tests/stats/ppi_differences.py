"""Whether corrected differences of two runs hold what they claim, by simulation.

`coverage` draws runs, a judge and people whose true difference is known exactly, and counts how
often the 95 % interval of `ppi_difference` holds it. `python -m stats.ppi_differences` (from
`tests/`) prints every cell.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import norm

from ragscore.stats import LEAST_LABELS, interval_of_differences, ppi_difference

Values = npt.NDArray[np.float64]

N_QUERIES = 500
LABELS = (30, 50, 100)
CORRELATIONS = (0.3, 0.6, 0.9)
SHAPES = ("whole", "slice", "clusters of 4")
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
    """What a cell of the simulation found.

    Shares of intervals that hold the true difference: corrected ones, those of the labels alone,
    those of the judge alone; mean widths of the first two; mean weight of the judge.
    """

    corrected: float
    labels: float
    judge: float
    width: float
    width_labels: float
    weight: float
    draws: int


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
    held, widths, weights = [], [], []
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
        rows = [(found.low, found.high)]
        for values, groups in ((people[labelled], labelled), (judge, np.ones(len(judge), bool))):
            low, high = interval_of_differences(
                values, "bounded", bounds=(0, width),
                groups=None if clusters is None else clusters[groups],
            )  # fmt: skip
            rows.append((low[0], high[0]))
        held.append([low <= true <= high for low, high in rows])
        widths.append([high - low for low, high in rows[:2]])
        weights.append(found.weight)
    return Coverage(
        *np.mean(held, axis=0).tolist(), *np.mean(widths, axis=0).tolist(),
        float(np.mean(weights)), len(held),
    )  # fmt: skip


def cells() -> Iterator[tuple[int, float, str, str]]:
    """Every cell: n labels, correlation, scale, shape."""
    for scale in CUTS:
        for shape in SHAPES:
            for n_labels in LABELS:
                for correlation in CORRELATIONS:
                    yield n_labels, correlation, scale, shape


def main(draws: int) -> None:
    """Print the coverage of every cell."""
    print(f"95 % intervals of differences, {N_QUERIES} queries, {draws} draws a cell")
    print(
        "scale   shape          labels  corr.  corrected  labels  judge  width  of labels  weight"
    )
    for n_labels, correlation, scale, shape in cells():
        one = coverage(n_labels, correlation, scale, shape, draws)
        print(
            f"{scale:<7} {shape:<14} {n_labels:>6} {correlation:>6} {one.corrected:>10.3f}"
            f" {one.labels:>7.3f} {one.judge:>6.3f} {one.width:>6.3f} {one.width_labels:>10.3f}"
            f" {one.weight:>7.2f}"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
