"""Whether intervals of agreement hold what they claim where pairs come in topics, by simulation.

`coverage` draws topics whose answers are alike in how good they are and in how hard they are to
judge, and counts how often the 95 % interval holds the agreement of all topics.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from ragscore.stats import cohen_kappa, gwet_ac1, krippendorff_alpha, weighted_kappa
from ragscore.stats.agreement import Agreement

Codes = npt.NDArray[np.int64]

TOPICS, PAIRS = 22, 40  # as in TREC's RAG track of 2025
ERRORS = (0.3, 0.8)  # of a judge, beside answers that differ with a standard deviation of 1
OF_TOPIC = 0.3  # share of the variance of how good answers are that their topic shares
HARDER = 0.4  # topics' errors differ by factors of e^±.4 (one standard deviation)
MANY = 20_000  # topics: their agreement is taken for that of all
SCALES = {"binary": np.array([0.0]), "points": np.array([-1.6, -0.9, -0.3, 0.4, 1.1])}


def _alpha(first: Codes, second: Codes, **options: object) -> Agreement:
    return krippendorff_alpha(np.column_stack([first, second]), "ordinal", **options)


# Name -> the coefficient and the scale of its points.
COEFFICIENTS: dict[str, tuple[Callable[..., Agreement], str]] = {
    "kappa": (cohen_kappa, "binary"),
    "AC1": (gwet_ac1, "binary"),
    "weighted kappa": (weighted_kappa, "points"),
    "alpha (ordinal)": (_alpha, "points"),
}


@dataclass(frozen=True)
class Coverage:
    """Shares of intervals that hold the true agreement: topics as groups, and pairs as alone."""

    clustered: float
    pairs: float


def drawn(
    rng: np.random.Generator, topics: int, pairs: int, error: float, scale: str
) -> tuple[Codes, Codes, Codes]:
    """Points by both judges, and the topic, of every answer."""
    topic = np.repeat(np.arange(topics), pairs)
    level, harder = rng.standard_normal((2, topics))[:, topic]
    own, *errors = rng.standard_normal((3, len(topic)))
    worth = np.sqrt(OF_TOPIC) * level + np.sqrt(1 - OF_TOPIC) * own
    first, second = (
        np.searchsorted(SCALES[scale], worth + error * np.exp(HARDER * harder) * one)
        for one in errors
    )
    return first, second, topic


@cache
def true_agreement(name: str, error: float) -> float:
    """The coefficient over so many topics that it hardly varies."""
    coefficient, scale = COEFFICIENTS[name]
    first, second, _ = drawn(np.random.default_rng(1), MANY, 10, error, scale)
    return coefficient(first, second).value


def coverage(
    name: str, error: float, draws: int = 1_000, seed: int = 0, topics: int = TOPICS,
    pairs: int = PAIRS,
) -> Coverage:  # fmt: skip
    """Coverage of a coefficient's intervals over random topics.

    Parameters
    ----------
    name
        A key of COEFFICIENTS.
    error
        Of either judge, see ERRORS.
    """
    rng, true = np.random.default_rng(seed), true_agreement(name, error)
    coefficient, scale = COEFFICIENTS[name]
    held = []
    for _ in range(draws):
        first, second, topic = drawn(rng, topics, pairs, error, scale)
        found = coefficient(first, second, groups=topic), coefficient(first, second)
        held.append([one.low <= true <= one.high for one in found])
    return Coverage(*np.mean(held, axis=0).tolist())
