"""The arrays that ranking metrics are computed from, shared by all of them.

Selections at a cut-off, ideal lists and first ranks are made once for all metrics that ask.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import all_differ, lookup, pair_numbers
from ragscore.frames.errors import DataError
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.metrics.declaration import Label
from ragscore.scoring.metrics.needs import TARGETS

WHOLE_LIST = 2**31 - 1  # no list is longer: ranks have 32 bits
GainFunction = Callable[[npt.NDArray[np.int64]], Values]


@dataclass
class Credit:
    """The arrays that ranking metrics are computed from.

    Arrays over graded hits (sorted by row, then rank), over creditable targets (best first within
    each query) and over rows.
    """

    row: npt.NDArray[np.int64]
    rank: npt.NDArray[np.int64]
    grade: npt.NDArray[np.int64]
    gain: npt.NDArray[np.int64]
    n_found: npt.NDArray[np.int64]
    n_rows: int
    n_hits: Values
    n_targets: Values
    ideal_query: npt.NDArray[np.int64]
    ideal_place: npt.NDArray[np.int64]
    ideal_grade: npt.NDArray[np.int64]
    row_query: npt.NDArray[np.int64]
    n_irrelevant: Callable[[], Values]  # targets of each row's query judged not to be relevant
    # the rank at which some support group of each row is complete; NaN without groups
    complete_rank: Callable[[], Values] | None = None
    listed: Callable[[], Any] | None = None  # `HitLists` of all hits
    stated: GainFunction | None = None  # gains that the targets state for their grades
    cuts: dict[int, "Credit"] = field(default_factory=dict)
    ideals: dict[tuple[GainFunction, int], Values] = field(default_factory=dict)  # of all cuts
    first: Values | None = None

    @classmethod
    def of(
        cls,
        of_hits: Mapping[str, Any],
        n_hits: Values,
        targets: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
        row_query: npt.NDArray[np.int64],
        n_queries: int,
        n_irrelevant: Callable[[], Values],
    ) -> "Credit":
        """Return it from graded hits, in order, and the query and grade of each target."""
        query, grade = targets
        best_first = np.argsort(query * (int(grade.max(initial=0)) + 1) - grade, kind="stable")
        query, grade = query[best_first], grade[best_first]
        return cls(
            **of_hits, n_rows=len(n_hits), n_hits=n_hits,
            n_targets=per_query(query, n_queries)[row_query], ideal_query=query,
            ideal_place=place_in_group(query), ideal_grade=grade, row_query=row_query,
            n_irrelevant=n_irrelevant,
        )  # fmt: skip

    def at_cutoff(self, k: int | None) -> "Credit":
        """Return the same of hits up to rank k, selected once for all metrics at this k.

        They are few, and everything else of a formula is work on them.
        """
        if k is None:
            return self
        if k not in self.cuts:
            rows = np.flatnonzero(self.rank <= k)
            names = ("row", "rank", "grade", "gain", "n_found")
            of_hits = {name: getattr(self, name)[rows] for name in names}
            self.cuts[k] = replace(self, **of_hits, cuts={}, first=None)
        return self.cuts[k]

    def score(self, label: Label) -> Values:
        """Return a metric of each row; NaN where its query has no target that counts."""
        assert label.metric.compute is not None
        with np.errstate(invalid="ignore", divide="ignore"):
            values = label.metric.compute(self.at_cutoff(label.k), label)
        if TARGETS not in label.metric.needs:
            return values
        return np.where(self.n_targets == 0, np.nan, values)

    def total(self, weights: npt.NDArray[np.generic]) -> Values:
        """Sum `weights` over the graded hits of each row."""
        return np.bincount(self.row, weights, self.n_rows).astype(np.float64, copy=False)

    def ideal(self, gain: GainFunction, k: int) -> Values:
        """Return the ideal DCG at k of each row: the k best targets of its query, best first.

        It is the same for every k from the largest number of targets on, and kept once for these.
        """
        k = min(k, int(self.ideal_place.max(initial=-1)) + 1)
        if (gain, k) not in self.ideals:
            best = np.flatnonzero(self.ideal_place < k)
            weights = gain(self.ideal_grade[best]) / np.log2(self.ideal_place[best] + 2.0)
            n_queries = int(self.row_query.max(initial=-1)) + 1
            of_query = np.bincount(self.ideal_query[best], weights, n_queries)
            self.ideals[gain, k] = np.append(of_query, 0.0)[self.row_query]
        return self.ideals[gain, k]

    def lists(self, of: str) -> Any:
        """Return the `HitLists` that formulas of lists are computed from."""
        assert self.listed is not None
        return replace(self.listed(), credit=self)

    @property
    def first_rank(self) -> Values:
        """The rank of each row's first relevant hit; infinity where there is none."""
        if self.first is None:
            # backwards: the last one written is the first one found
            relevant = np.flatnonzero(self.grade > 0)[::-1]
            self.first = np.full(self.n_rows, np.inf)
            self.first[self.row[relevant]] = self.rank[relevant]
        return self.first


def irrelevant_targets(targets: pd.DataFrame, queries: pd.Index) -> Values:
    """Count the targets of each query that were judged not to be relevant, and 0 at the end.

    Of alternatives the best grade counts.
    """
    query = lookup(targets["query_id"], queries)
    number = pair_numbers(query, targets["target_id"])
    best = np.full(int(number.max(initial=0)) + 1, -1)
    np.maximum.at(best, number, targets["grade"].to_numpy())
    query_of = np.zeros(len(best), dtype=np.int64)
    query_of[number] = query
    return per_query(query_of[best == 0], len(queries))


def stated_gains(targets: pd.DataFrame) -> GainFunction | None:
    """Return grades -> gains where targets state what their grades earn; None where none does.

    Raises
    ------
    DataError
        A grade has two gains, or only some targets have one.
    """
    if "gain" not in targets or not targets["gain"].notna().any():
        return None
    pairs = targets[["grade", "gain"]].drop_duplicates().sort_values("grade")
    if pairs["grade"].duplicated().any() or pairs["gain"].isna().any():
        twice = pairs[pairs["grade"].duplicated(keep=False) | pairs["gain"].isna()]
        raise DataError(
            f"grade {twice['grade'].iloc[0]} has the gains {twice['gain'].tolist()}",
            field="golden.targets.gain",
            allowed="one gain for each grade, or none for any",
        )
    gains = np.zeros(int(pairs["grade"].max()) + 1)
    gains[pairs["grade"]] = pairs["gain"]
    return np.maximum.accumulate(gains).__getitem__  # grades that no target has lie between


def per_query(query: npt.NDArray[np.int64], n_queries: int) -> Values:
    """Count the elements of each query, and 0 at the end for queries that are not golden."""
    return np.append(np.bincount(query, minlength=n_queries).astype("float64"), 0.0)


def creditable_targets(
    targets: pd.DataFrame, queries: pd.Index
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return query and grade of each target of grade ≥ 1; of alternatives, the best grade."""
    grade = targets["grade"].to_numpy().astype(np.int64)
    query = lookup(targets["query_id"], queries)
    is_relevant = grade > 0
    # Alternatives of one target share a number.
    number = pair_numbers(query, targets["target_id"])[is_relevant]
    query, grade = query[is_relevant], grade[is_relevant]
    if not all_differ(number):
        order = np.lexsort((-grade, number))
        best = order[np.diff(number[order], prepend=-1) != 0]
        query, grade = query[best], grade[best]
    return query, grade


def in_order(row: Codes, rank: npt.NDArray[Any]) -> Codes:
    """Return the positions of what has a row (not -1), in order of row and rank."""
    order = np.flatnonzero(row >= 0)
    step = np.diff(row[order])
    if ((step < 0) | ((step == 0) & (np.diff(rank[order]) < 0))).any():
        order = order[np.lexsort((rank[order], row[order]))]
    return order


def place_in_group(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the position of each element among its equal neighbours, from 0."""
    begins = np.flatnonzero(np.diff(codes, prepend=-1))
    return np.arange(len(codes)) - np.repeat(begins, np.diff(begins, append=len(codes)))


def so_far(row: npt.NDArray[np.int64], counts: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
    """Return the sum of counts up to each element among its equal neighbours in `row`."""
    total = np.cumsum(counts.astype(np.int64))
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    before = (total - counts.astype(np.int64))[begins]
    return total - np.repeat(before, np.diff(begins, append=len(row)))
