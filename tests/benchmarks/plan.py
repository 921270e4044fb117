"""How much is measured: at full size, or small, to see that everything runs."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Plan:
    """Sizes and repeats.

    Attributes
    ----------
    sizes
        Hits of a run at which every tool is measured, the largest last; its variants are of that
        size.
    ours_only
        Hits of a run that only ragscore scores.
    slow_up_to
        Hits up to which tools run that are much slower; they run once at their largest size.
    repeats
        Runs of each tool at each size, alternating with the others.
    n_runs, n_queries, n_hits
        Of the store with many runs.
    sizing, sizing_text
        Hits of the stored runs whose bytes are counted, without texts and with.
    imports
        Fresh processes that import.
    questions
        Runs and queries of the evaluations that are asked everything.
    """

    sizes: tuple[int, ...] = (10**5, 10**6, 10**7)
    ours_only: int = 31_622_800
    slow_up_to: int = 10**6
    repeats: int = 3
    n_runs: int = 1_000
    n_queries: int = 500
    n_hits: int = 10
    sizing: int = 4 * 10**6
    sizing_text: int = 10**6
    imports: int = 7
    questions: dict[str, tuple[int, int]] = field(
        default_factory=lambda: {"small": (10, 5_000), "large": (2, 100_000)}
    )


FULL = Plan()
SMALL = Plan(
    sizes=(10**4, 10**5),
    ours_only=200_000,
    slow_up_to=10**4,
    repeats=1,
    n_runs=20,
    n_queries=50,
    sizing=10**4,
    sizing_text=10**4,
    imports=1,
    questions={"small": (2, 40)},
)
