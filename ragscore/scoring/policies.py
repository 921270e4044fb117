"""Policies: what a scoring matches by, and what it does with gaps."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ragscore.frames.data import Golden, Results
from ragscore.frames.errors import check_choice, check_known
from ragscore.frames.ranking import TIES, collapse_hits, rank_hits, ranked_again
from ragscore.scoring.targets import LEVELS


@dataclass(frozen=True)
class Policies:
    """Choices of a scoring; each is a keyword of `rs.score` and `rs.evaluate`, too.

    Attributes
    ----------
    match
        The match level. "auto": the finest at which every query with targets has some, and both
        sides can be joined; a level; "per_query": each query's finest.
    missing
        Golden queries that a run has no row for. "exclude": NaN, with a warning; "zero": they score
        0 (trec_eval's -c).
    collapse
        "doc": ranking metrics see only the first hit of each document, with ranks closed up.
    ties
        The order of a query's hits, as in `rs.match.rank_hits`; "file": as loaded.

    Raises
    ------
    DataError
        A value that the policy can't have.
    """

    ALLOWED: ClassVar = {
        "match": ("auto", *LEVELS, "per_query"), "missing": ("exclude", "zero"),
        "collapse": ("none", "doc"), "ties": tuple(TIES),
    }  # fmt: skip

    match: str = "auto"
    missing: str = "exclude"
    collapse: str = "none"
    ties: str = "file"

    def __post_init__(self) -> None:
        for name, allowed in self.ALLOWED.items():
            check_choice(getattr(self, name), allowed, name)

    @classmethod
    def of(cls, stated: Mapping[str, Any], default: Mapping[str, Any] | None = None) -> "Policies":
        """Return policies as stated; what isn't said, as a reading has it.

        Raises
        ------
        DataError
            An unknown policy, or a value that it can't have.
        """
        check_known(stated, cls.ALLOWED, "policies", "argument or policy")
        return cls(**{**(default or {}), **stated})

    def lists(self, results: Results) -> Results:
        """Return results with the lists of hits that are scored."""
        hits = results.hits if self.ties == "file" else rank_hits(results.hits, self.ties)
        hits = collapse_hits(hits) if self.collapse == "doc" else hits
        return results if hits is results.hits else ranked_again(results, hits)


def with_min_grade(golden: Golden, grade: int) -> Golden:
    """Return a golden set in which lower grades than this one are 0: judged, and not relevant.

    For nDCG by all grades, score the whole set, as trec_eval does.
    """
    grades = golden.targets["grade"]
    return replace(golden, targets=golden.targets.assign(grade=grades.where(grades >= grade, 0)))
