"""From matches to the arrays that every ranking metric is computed from."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ragscore.frames.codes import lookup
from ragscore.frames.data import Golden
from ragscore.frames.typing import Codes, Values
from ragscore.scoring.metrics.declaration import Label
from ragscore.scoring.targets import Expected, Gain, expected_of

WHOLE_LIST = 2**31 - 1  # a k beyond all ranks


@dataclass(frozen=True)
class MatchedHits:
    """Arrays over the hits that met a target of any grade (by row, then rank), and over rows.

    A target is paid by the first hit that meets it. `grade` is the best grade a hit met; `gain` the
    best among targets that it is the first to meet; `n_found` how many relevant ones these are. So
    a document that is returned as three chunks can't push recall or nDCG over 1.
    """

    rows: Any
    golden: Golden  # with the targets of one level
    expected: Expected
    row: Codes
    rank: Codes
    grade: Codes
    gain: Codes
    n_found: Codes
    met: tuple[Codes, Codes, Codes]  # row, rank and target position where a target is first met
    k: int | None = None
    made: dict[Any, Any] = field(default_factory=dict)  # once for all cut-offs

    @property
    def n_targets(self) -> Values:
        """The number of relevant targets of each row's query."""
        return self.expected.n[self.rows.query]

    @property
    def n_judged(self) -> Values:
        """The number of targets of any grade of each row's query."""
        return self.expected.n_judged[self.rows.query]

    def up_to(self, k: int | None) -> "MatchedHits":
        """Return the same of hits up to rank k, selected once for all metrics at this k."""
        if k is not None and k not in self.made:
            at, names = np.flatnonzero(self.rank <= k), "row rank grade gain n_found".split()
            self.made[k] = replace(self, k=k, **{name: getattr(self, name)[at] for name in names})
        return self if k is None else self.made[k]

    def score(self, label: Label) -> Values:
        """Return a metric of each row; NaN where its query has no target, or nothing is known."""
        with np.errstate(invalid="ignore", divide="ignore"):
            values = label.metric.compute(self.up_to(label.k), label)
        is_unknown = self.n_judged == 0
        if self.rows.has_outcome.any():  # the rank of the first relevant hit is known, and no more
            is_known = self.rows.outcomes["passed"].notna() & (label.metric.base in ("hit", "mrr"))
            is_unknown = is_unknown | (self.rows.has_outcome & ~is_known.to_numpy())
        return np.where(is_unknown, np.nan, values)

    def total(self, weights: Any) -> Values:
        """Sum weights over the matched hits of each row."""
        return np.bincount(self.row, weights, self.rows.n).astype(np.float64, copy=False)

    def per_target(self, total: Any) -> Values:
        """Divide by the number of relevant targets; 0 where a query is judged and has none."""
        return np.where(self.n_targets > 0, total / self.n_targets, 0.0)

    @cached_property
    def first_rank(self) -> Values:
        """The rank of each row's first relevant hit; infinity where there is none."""
        relevant = np.flatnonzero(self.grade > 0)[::-1]  # the last one written is the first
        stated = self.rows.outcomes["rank_first_match"].to_numpy()
        first = np.where(stated <= (self.k or np.inf), stated, np.inf)
        first[self.row[relevant]] = self.rank[relevant]
        return first

    def group_rank(self) -> Values:
        """Return the rank at which some support group of each row is first complete."""
        if "groups" not in self.made:
            self.made["groups"] = _group_rank(self)
        return self.made["groups"]

    def ideal(self, gain: Gain, k: int) -> Values:
        """Return the ideal DCG at k of each row."""
        of, k = self.expected, min(k, int(self.expected.place.max(initial=-1)) + 1)
        if (gain, k) not in self.made:
            best = np.flatnonzero(of.place < k)
            weights = gain(of.grade[best]) / np.log2(of.place[best] + 2.0)
            self.made[gain, k] = np.bincount(of.query[best], weights, len(of.n))[self.rows.query]
        return self.made[gain, k]


def matched_hits(rows: Any, golden: Golden, hit: Codes, target: Codes) -> MatchedHits:
    """Grade matched hits: only the first hit that meets a target gains by it.

    `golden` has the targets of one level.
    """
    expected = expected_of(golden)
    row, rank = (
        one[hit].astype(np.int64) for one in (rows.row_of_hit, rows.hits["rank"].to_numpy())
    )
    number = expected.number[target]
    place = row * (int(rank.max(initial=0)) + 1) + rank
    order = np.argsort(place, kind="stable")  # as a rule they are in this order
    order = order[row[order] >= 0]
    row, rank, number, target = (one[order] for one in (row, rank, number, target))
    grade = golden.targets["grade"].to_numpy(np.int64)[target]
    width = int(expected.number.max(initial=0)) + 1
    is_first = ~pd.Index(rows.run[row] * width + number).duplicated()  # numbers are of one query
    begins = np.flatnonzero(np.diff(place[order], prepend=-1))
    graded, gain, n_found = (
        how.reduceat(values, begins) if len(begins) else np.zeros(0, np.int64)
        for how, values in (
            (np.maximum, grade), (np.maximum, np.where(is_first, grade, 0)),
            (np.add, (is_first & (grade > 0)).astype(np.int64)),
        )
    )  # fmt: skip
    return MatchedHits(
        rows, golden, expected, row[begins], rank[begins], graded, gain, n_found,
        met=(row[is_first], rank[is_first], target[is_first]),
    )  # fmt: skip


def _group_rank(hits: MatchedHits) -> Values:
    """Return the rank at which some support group of each row is first complete.

    All targets of a query without groups are one group; where the reading takes groups only, it is
    NaN.
    """
    rows, golden, expected = hits.rows, hits.golden, hits.expected
    complete, groups = np.full(rows.n, np.nan), golden.support_groups.drop_duplicates()
    is_relevant = golden.targets["grade"].to_numpy()[hits.met[2]] > 0
    row, rank, target = (one[is_relevant] for one in hits.met)
    if not rows.reading.recall_all_needs_groups:
        n_met, last = np.bincount(row, minlength=rows.n), np.full(rows.n, np.inf)
        last[row] = rank  # by row, then rank: the last one written is the last
        complete = np.where(n_met == expected.n[rows.query], last, np.inf)
    if not len(groups):
        return complete
    queries = pd.Index(golden.queries["query_id"])
    asked = pd.DataFrame({"row": np.arange(rows.n), "query": rows.query})
    members = asked.merge(groups.assign(query=lookup(groups["query_id"], queries)), on="query")
    ids = golden.targets["target_id"].take(target).to_numpy()
    met = pd.DataFrame({"row": row, "target_id": ids, "rank": rank})
    members = members.merge(met, on=["row", "target_id"], how="left").fillna({"rank": np.inf})
    ranks = members.groupby(["row", "group"])["rank"].max().groupby("row").min()
    complete[ranks.index] = ranks.to_numpy()
    return complete


def so_far(row: Codes, counts: Any) -> Codes:
    """Return the sum of counts up to each element among its equal neighbours in `row`."""
    total = np.cumsum(counts.astype(np.int64))
    begins = np.flatnonzero(np.diff(row, prepend=-1))
    return total - np.repeat((total - counts)[begins], np.diff(begins, append=len(row)))
