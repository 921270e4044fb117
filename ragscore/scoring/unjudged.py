"""Hits that nobody judged: what ranking metrics could be if their labels were known.

In: results, a golden set, and how both are scored. Out: each list with its judged and unjudged
hits (`JudgedLists`); the scores that given labels would make (`scores_if`); and bounds of each
score over every labelling of the list's unjudged hits (`label_bounds`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import codes_of, equal_pairs, lookup
from ragscore.frames.data import Golden, Results, categorical, narrowed
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.scoring.grading import decidable, grade_matches, level_rule
from ragscore.scoring.metrics import (
    GRADED,
    RANKING,
    RECALL_LEVELS,
    WHOLE_LIST,
    Label,
    creditable_targets,
    place_in_group,
    ranking_columns,
)
from ragscore.scoring.rules import Rule, apply_rule, response_of, targets_at

# Ranking metrics that a relevant label can move. Groups of supports name their targets, so that a
# new target changes no group; judged@k counts labels of any grade.
MOVABLE = tuple(name for name in RANKING if name not in ("recall_all", "judged"))
# The more is relevant, the higher they are: they don't count what a list lacks.
_MONOTONE = ("hit", "mrr", "precision", "set_precision", "rbp", "err")
_ID_OF_LEVEL = {"chunk": ("chunk_id",), "doc": ("doc_id",)}
_IDS = ("chunk_id", "doc_id", "source_key")  # of a passage, where a level matches by other things
_DCG_GAINS: dict[str, Callable[[int], float]] = {
    "ndcg": lambda grade: 2.0**grade - 1.0,
    "ndcg_linear": float,
}
_ROUNDS = 60  # of Dinkelbach's method, which needs a handful


@dataclass(frozen=True)
class JudgedLists:
    """The lists of hits of some runs, with what the golden set says of each hit.

    An *item* is what one label is about: a document or chunk of one query, in whatever run. Hits of
    a list that are the same item share its label. At other levels than doc and chunk, an item is a
    passage with an id of its own.

    Attributes
    ----------
    rows
        One row per run and golden query: run_id, query_id, `n_hits`, `query` (its number).
    hit, row, rank
        Of each hit of these rows: its place in `hits`, its row, its rank. In order of row and rank.
    item
        The number of the item that an unjudged hit is; -1 for judged hits.
    is_first
        Flags unjudged hits that are the first of their item in their list.
    graded, found
        Frames of `grade_hits`.
    hits
        The results' hits.
    golden
        With the targets of the match level.
    min_grade
        The lowest grade that is relevant.
    """

    rows: pd.DataFrame
    hit: Codes
    row: Codes
    rank: Codes
    item: Codes
    is_first: Flags
    graded: pd.DataFrame
    found: pd.DataFrame
    hits: pd.DataFrame
    golden: Golden
    min_grade: int

    @cached_property
    def n_relevant(self) -> Values:
        """The number of relevant targets of each row's query."""
        return self.n_targets_from(self.min_grade)

    @cached_property
    def highest_grade(self) -> int:
        """The highest grade of the golden set, and at least one that is relevant."""
        return max(int(self.golden.targets["grade"].max()) if len(self.golden.targets) else 1,
                   self.min_grade, 1)  # fmt: skip

    def n_targets_from(self, grade: int) -> Values:
        """Return the number of targets of this grade or more of each row's query."""
        query, grades = self._creditable
        counts = np.bincount(query[grades >= grade], minlength=len(self.golden.queries))
        return counts.astype("float64")[self.rows["query"]]

    @cached_property
    def _creditable(self) -> tuple[Codes, Codes]:
        return creditable_targets(self.golden.targets, pd.Index(self.golden.queries["query_id"]))

    @cached_property
    def graded_row(self) -> Codes:
        """The row of each graded hit, -1 for none."""
        run_ids = self.rows["run_id"].cat.categories
        run = lookup(self.graded["run_id"], run_ids)
        query = lookup(self.graded["query_id"], pd.Index(self.golden.queries["query_id"]))
        return _row_numbers(self.rows, run, query)

    def per_row(self, flags: Flags, weights: Values | None = None) -> Values:
        """Count the hits of each row that have this flag, or add up their weights."""
        held = None if weights is None else weights[flags]
        return np.bincount(self.row[flags], held, len(self.rows)).astype("float64")

    def within(self, k: int | None) -> Flags:
        """Flag hits within a cut."""
        return np.ones(len(self.rank), dtype=bool) if k is None else self.rank <= k

    def judged_share(self, k: int | None) -> Values:
        """Return the judged share of each row's first min(k, n) hits; NaN without hits."""
        shown = self.within(k)
        with np.errstate(invalid="ignore"):
            return self.per_row(shown & (self.item < 0)) / self.per_row(shown)


def judged_lists(
    results: Results,
    golden: Golden,
    level: str,
    *,
    rule: Rule | None = None,
    min_grade: int = 1,
    keep_refusals: bool = False,
) -> JudgedLists:
    """Match hits and targets, and tell judged hits from those that nobody judged.

    A hit is judged if it meets a target of the match level, grade 0 included, as for `judged@k`.

    Parameters
    ----------
    results
        With the hits in the order, and of the length, that they are scored in.
    golden
        With refusals as the profile reads them.
    """
    selected = targets_at(golden, level, keep_refusals)
    hits, run_ids = results.hits, results.runs["run_id"].cat.categories
    queries = pd.Index(golden.queries["query_id"])
    judge = rule or level_rule(level, results, golden)
    matches = decidable(apply_rule(judge, hits, selected.targets))
    name = getattr(judge, "__qualname__", "rule")
    graded, found = grade_matches(matches, hits, selected.targets, name, min_grade)

    rows = pd.DataFrame({
        "run_id": categorical(
            np.repeat(np.arange(len(run_ids)), len(queries)), results.runs["run_id"].dtype
        ),
        "query_id": np.tile(queries.to_numpy(), len(run_ids)),
        "query": np.tile(np.arange(len(queries)), len(run_ids)),
    }).astype({"query_id": "str"})  # fmt: skip
    run = codes_of(hits["run_id"]).astype(np.int64) if len(hits) else np.zeros(0, np.int64)
    query = lookup(hits["query_id"], queries)
    row = np.where(query < 0, -1, run * len(queries) + query)
    # hits of a query that the run has no response to count for nothing
    row = np.where(response_of(hits, results.responses) < 0, -1, row)
    rank = hits["rank"].to_numpy().astype(np.int64)
    order = np.lexsort((rank, row))
    order = order[row[order] >= 0]
    is_judged = np.zeros(len(hits), dtype=bool)
    is_judged[matches["hit"].to_numpy()] = True
    item = np.where(is_judged, -1, _items(hits, query, len(queries), level, rule is not None))
    row, item = row[order], item[order]
    key = pd.Series(np.where(item < 0, -1 - np.arange(len(item)), row * (len(hits) + 1) + item))
    is_first = (item >= 0) & ~key.duplicated().to_numpy()
    n_hits = np.bincount(row, minlength=len(rows))
    return JudgedLists(
        rows.assign(n_hits=n_hits), order, row, rank[order], item, is_first, graded, found, hits,
        selected, min_grade,
    )  # fmt: skip


def _items(
    hits: pd.DataFrame, query: Codes, n_queries: int, level: str, has_own_rule: bool
) -> Codes:
    """Return a number for each hit: equal for hits of one query that share a label."""
    names = _ID_OF_LEVEL.get(level, _IDS) if not has_own_rule else _IDS
    known = [name for name in names if name in hits and hits[name].notna().any()]
    alone = np.arange(len(hits))
    if not known:
        return alone
    code = pd.factorize(hits[known[0]].astype("str"))[0]
    pair = np.where(code < 0, -1 - alone, query + code * np.int64(n_queries + 1))
    return pd.factorize(pair)[0]


def _row_numbers(rows: pd.DataFrame, run: Codes, query: Codes) -> Codes:
    """Return the row of each run and query; -1 where either is unknown, or the row has no hit."""
    n_queries = int(rows["query"].max()) + 1 if len(rows) else 0
    row = np.where((run < 0) | (query < 0), -1, run * n_queries + query)
    return np.where(np.append(rows["n_hits"].to_numpy(), 0)[row] > 0, row, -1)


def scores_if(
    lists: JudgedLists, labels: list[str], row: Codes, case: Codes, item: Codes, grade: int
) -> dict[str, Values]:
    """Return what rows would score if items of theirs had a grade.

    Parameters
    ----------
    row
        The row of each case.
    case, item
        The items labelled in each case, one entry each; an item that its row doesn't hold is a
        target that it lacks. -1: no item.

    Returns
    -------
    Label -> one value per case. Documents that `bpref` needs are taken as judged.
    """
    n = len(row)
    ids = pd.Series(np.arange(n)).astype("str")
    number = pd.CategoricalDtype(pd.Index(ids))

    def cases(codes: Codes) -> pd.Series:
        return pd.Series(pd.Categorical.from_codes(codes, dtype=number)).astype("str")

    one = pd.CategoricalDtype(["run"])

    def run(size: int) -> pd.Series:
        return pd.Series(pd.Categorical.from_codes(np.zeros(size, np.int8), dtype=one))

    # what is judged already, once for each case of its row
    of_case, at = equal_pairs(row, lists.graded_row)
    judged = {
        name: lists.graded[name].to_numpy().astype(np.int64)[at]
        for name in ("rank", "grade", "gain", "n_found")
    }
    # the labelled hits: every hit of an item, of which the first one gains
    wanted, hit = equal_pairs(
        row[case] * (len(lists.hits) + 1) + item,
        np.where(lists.item < 0, -1, lists.row * (len(lists.hits) + 1) + lists.item),
    )
    is_first = lists.is_first[hit]
    new = {
        "rank": lists.rank[hit],
        "grade": np.full(len(hit), grade),
        "gain": np.where(is_first, grade, 0),
        "n_found": (is_first & (grade >= lists.min_grade)).astype(np.int64),
    }
    graded = pd.DataFrame({name: np.concatenate([judged[name], new[name]]) for name in judged})
    of_hits = np.concatenate([of_case, case[wanted]])
    graded = graded.assign(run_id=run(len(of_hits)), query_id=cases(of_hits))
    # the targets of its query, and a new one for each item
    targets = lists.golden.targets
    queries = pd.Index(lists.golden.queries["query_id"])
    of_query, target = equal_pairs(
        lists.rows["query"].to_numpy()[row], lookup(targets["query_id"], queries)
    )
    old = targets[["target_id", "grade"]].iloc[target].astype({"target_id": "str"})
    made = pd.DataFrame({
        "target_id": ("unjudged " + pd.Series(item).astype("str")).astype("str"), "grade": grade
    })  # fmt: skip
    both = pd.concat([old, made], ignore_index=True)
    both = both.assign(query_id=cases(np.concatenate([of_query, case])))
    golden = narrowed(
        lists.golden, queries=pd.DataFrame({"query_id": ids}), targets=both,
        support_groups=lists.golden.support_groups.iloc[:0],
    )  # fmt: skip
    rows = pd.DataFrame(
        {"run_id": run(n), "query_id": ids, "n_hits": lists.rows["n_hits"].to_numpy()[row]}
    )
    return ranking_columns(
        graded, lists.found.iloc[:0], golden, rows, labels, lists.min_grade, knows_irrelevant=True
    )


def all_labelled(lists: JudgedLists, labels: list[Label], grade: int) -> dict[str, Values]:
    """Return what every row would score if each unjudged hit of its list had this grade."""
    free, texts = lists.is_first, [label.text for label in labels]
    every = np.arange(len(lists.rows))
    return scores_if(lists, texts, every, lists.row[free], lists.item[free], grade)


def label_bounds(
    lists: JudgedLists, labels: list[Label], outside: Codes | None = None
) -> dict[str, tuple[Values, Values]]:
    """Return the lowest and the highest value of each row over all labels of its unjudged hits.

    Every unjudged item of the list may be irrelevant, or a target of its own of any grade up to the
    golden set's highest. Bounds are reached but for repeated documents at `rprec`, and for
    `iprec`, `11pt_avg` (each recall level is bounded by itself) and `bpref` (which also depends on
    what is judged irrelevant): there they are bounds all the same. The number of relevant targets
    grows with the labels, so labels below the cut lower recall, map and ndcg.

    Parameters
    ----------
    labels
        Of metrics that a label can move (`MOVABLE`).
    outside
        The number of items that aren't in a row's list and may be relevant, too.

    Returns
    -------
    Label -> lowest and highest values; NaN for queries without a relevant target: labels would make
    the metric apply.
    """
    extra = np.zeros(len(lists.rows)) if outside is None else outside.astype("float64")
    rising = [label for label in labels if label.name in (*_MONOTONE, "set_f1")]
    lowest, highest = {}, {}
    if rising:
        lowest = all_labelled(lists, rising, 0)
        highest = all_labelled(lists, rising, lists.highest_grade)
    bounds = {}
    for label in labels:
        if label.name in _MONOTONE:
            low, high = lowest[label.text], highest[label.text]
        else:
            # queries without a relevant target divide by 0
            with np.errstate(invalid="ignore", divide="ignore"):
                low, high = _BOUNDS[label.name](_Shape(lists, label, extra))
        if label.name == "set_f1":
            high = highest[label.text]
        needed = lists.n_targets_from(1) if label.name in GRADED else lists.n_relevant
        bounds[label.text] = (
            np.where(needed == 0, np.nan, low), np.where(needed == 0, np.nan, high)
        )  # fmt: skip
    return bounds


@dataclass(frozen=True)
class _Shape:
    """What bounds of one metric are computed from: arrays over rows, hits, and free items.

    A *free* item is one that nobody judged. It is at the rank where its list has it first.
    """

    lists: JudgedLists
    label: Label
    outside: Values

    @property
    def n(self) -> int:
        return len(self.lists.rows)

    @property
    def k(self) -> int:
        return WHOLE_LIST if self.label.k is None else self.label.k

    @cached_property
    def free(self) -> tuple[Codes, Codes]:
        """Row and rank of each free item within the cut, in order."""
        shown = self.lists.is_first & (self.lists.rank <= self.k)
        return self.lists.row[shown], self.lists.rank[shown]

    @cached_property
    def n_free(self) -> Values:
        """Free items of each row within the cut."""
        return np.bincount(self.free[0], minlength=self.n).astype("float64")

    @cached_property
    def n_beyond(self) -> Values:
        """Free items of each row beyond the cut, and outside of its list."""
        return self.lists.per_row(self.lists.is_first) - self.n_free + self.outside

    @cached_property
    def judged(self) -> dict[str, Codes]:
        """Row, rank, grade, gain and n_found of each judged hit within the cut, in order."""
        graded, row = self.lists.graded, self.lists.graded_row
        rank = graded["rank"].to_numpy().astype(np.int64)
        keep = np.flatnonzero((row >= 0) & (rank <= self.k))
        keep = keep[np.lexsort((rank[keep], row[keep]))]
        columns = {
            name: graded[name].to_numpy().astype(np.int64)[keep]
            for name in ("grade", "gain", "n_found")
        }
        return {"row": row[keep], "rank": rank[keep], **columns}

    @cached_property
    def gaining(self) -> tuple[Codes, Codes, Codes]:
        """Row, rank and n_found of each judged hit within the cut that meets a new target."""
        gains = self.judged["gain"] >= self.lists.min_grade
        return tuple(self.judged[name][gains] for name in ("row", "rank", "n_found"))  # type: ignore[return-value]

    @property
    def n_met(self) -> Values:
        """Relevant targets that each row meets within the cut."""
        return self.sum(self.judged["row"], self.judged["n_found"])

    def sum(self, row: Codes, weights: npt.NDArray[Any]) -> Values:
        return np.bincount(row, weights, self.n).astype("float64")


def _recall(shape: _Shape) -> tuple[Values, Values]:
    targets, met = shape.lists.n_relevant, shape.n_met
    return met / (targets + shape.n_beyond), (met + shape.n_free) / (targets + shape.n_free)


def _set_f1(shape: _Shape) -> tuple[Values, Values]:
    # Precision is lowest without labels, and recall if only what is outside is relevant. Both are
    # highest if all of the list is.
    judged, lists = shape.judged, shape.lists
    right = shape.sum(judged["row"], judged["grade"] >= lists.min_grade)
    precision = right / np.maximum(lists.rows["n_hits"].to_numpy(), 1)
    recall = shape.n_met / (lists.n_relevant + shape.outside)
    low = np.where(recall > 0, 2 * precision * recall / (precision + recall), 0.0)
    return low, np.ones(shape.n)


def _average_precision(shape: _Shape) -> tuple[Values, Values]:
    # Of so many labels within the cut, the first hits make most of it and the last ones least: a
    # label moved up leaves no precision lower. So only these sets are tried, by their number.
    free_row, free_rank = shape.free
    row, rank, _ = shape.gaining
    targets = shape.lists.n_relevant
    before = shape.sum(row, (place_in_group(row) + 1) / rank)
    n_above = _count_up_to(row, rank, free_row, free_rank)
    # sums of 1 / rank over gaining hits below each free item, then over free items as well
    below = _sum_after(row, rank, 1.0 / rank, free_row, free_rank)
    later = _later(free_row, 1.0 / free_rank, shape.n)
    place = place_in_group(free_row) + 1
    first = _so_far((n_above + place) / free_rank + below, free_row)
    last = _from_end((n_above + 1) / free_rank + below + later, free_row)
    n_left = shape.n_free[free_row] - place + 1  # labels from this item to the end
    high = before / targets
    np.maximum.at(high, free_row, (before[free_row] + first) / (targets[free_row] + place))
    most = targets + shape.n_beyond
    low = before / most
    np.minimum.at(low, free_row, (before[free_row] + last) / (most[free_row] + n_left))
    return low, high


def _ndcg(shape: _Shape) -> tuple[Values, Values]:
    lists, gain_of = shape.lists, _DCG_GAINS[shape.label.name]
    free_row, free_rank = shape.free
    place = place_in_group(free_row) + 1
    discount = 1.0 / np.log2(free_rank + 1.0)
    grades = range(1, lists.highest_grade + 1)
    steps = {grade: gain_of(grade) - gain_of(grade - 1) for grade in grades}
    counts = {grade: lists.n_targets_from(grade) for grade in grades}
    judged = shape.judged
    worth = np.array([gain_of(grade) for grade in range(lists.highest_grade + 1)])
    dcg = shape.sum(judged["row"], worth[judged["gain"]] / np.log2(judged["rank"] + 1.0))

    # An ideal list of n targets has the discounts of its first min(n, k) ranks. Of graded targets,
    # it is one list for each grade, of all targets of that grade or more.
    longest = int(max(counts[1] + shape.n_beyond + shape.n_free, default=0)) + 1
    each = np.where(np.arange(1, longest + 1) <= shape.k, 1 / np.log2(np.arange(2, longest + 2)), 0)
    up_to = np.concatenate([[0.0], np.cumsum(each)])

    def ideal(more: Values, rows: Codes) -> Values:
        total = np.zeros(len(rows))
        for grade in grades:
            total += steps[grade] * up_to[(counts[grade][rows] + more).astype(np.int64)]
        return total

    every = np.arange(shape.n)
    # DCG is linear in the gains of unjudged hits and the ideal DCG convex, so the least quotient
    # has each at 0 or at the highest grade; of so many within the cut, the last ones lower it most.
    worst = dcg / np.where(counts[1] > 0, ideal(shape.n_beyond, every), np.nan)
    n_left = shape.n_free[free_row] - place + 1
    gained = dcg[free_row] + worth[-1] * _from_end(discount, free_row)
    np.minimum.at(worst, free_row, gained / ideal(shape.n_beyond[free_row] + n_left, free_row))

    # The highest quotient by Dinkelbach's method (1967, doi:10.1287/mnsc.13.7.492): where the best
    # of DCG − λ · ideal DCG is 0, λ is the highest quotient. Grade by grade the best is to label
    # the first hits, as many as pay.
    start = ideal(np.zeros(shape.n), every)
    best = dcg / np.where(counts[1] > 0, start, np.nan)
    if not len(free_row):
        return worst, best
    begins = np.flatnonzero(np.diff(free_row, prepend=-1))
    owner = free_row[begins]
    summed = _so_far(discount, free_row)
    added = {
        grade: up_to[(counts[grade][free_row] + place).astype(np.int64)]
        - up_to[counts[grade].astype(np.int64)][free_row]
        for grade in grades
    }
    for _ in range(_ROUNDS):
        above, under = dcg[owner].copy(), start[owner].copy()
        for grade in grades:
            pays = summed - best[free_row] * added[grade]
            most = np.maximum.reduceat(pays, begins)
            is_most = pays == np.repeat(most, np.diff(begins, append=len(pays)))
            at = np.minimum.reduceat(np.where(is_most, np.arange(len(pays)), len(pays)), begins)
            takes = most > 0
            above[takes] += steps[grade] * summed[at[takes]]
            under[takes] += steps[grade] * added[grade][at[takes]]
        found = np.fmax(best[owner], above / under)
        is_higher = found > best[owner] + 1e-15
        best[owner] = found
        if not is_higher.any():
            break
    return worst, best


def _r_precision(shape: _Shape) -> tuple[Values, Values]:
    if shape.outside.any():
        return np.zeros(shape.n), np.ones(shape.n)
    lists, targets = shape.lists, shape.lists.n_relevant
    free_row, free_rank = shape.free
    n_free = shape.n_free.astype(np.int64)
    row = np.repeat(np.arange(shape.n), n_free + 1)
    n_labels = place_in_group(row)
    n_relevant = targets[row] + n_labels
    judged = shape.judged
    right = judged["grade"] >= lists.min_grade
    known = _count_up_to(judged["row"][right], judged["rank"][right], row, n_relevant)
    near = _count_up_to(free_row, free_rank, row, n_relevant)
    # Hits of one item share its label. Of a list with such hits, all free ones might be right.
    shown = lists.item >= 0
    all_near = _count_up_to(lists.row[shown], lists.rank[shown], row, n_relevant)
    repeats = lists.per_row(shown) > lists.per_row(lists.is_first)
    most = np.where(repeats[row] & (n_labels > 0), all_near, np.minimum(n_labels, near))
    least = np.maximum(0, n_labels - (n_free[row] - near))
    low, high = np.full(shape.n, np.inf), np.zeros(shape.n)
    np.minimum.at(low, row, (known + least) / n_relevant)
    np.maximum.at(high, row, (known + most) / n_relevant)
    return low, high


def _interpolated_precision(shape: _Shape) -> tuple[Values, Values]:
    if shape.outside.any():
        return np.zeros(shape.n), np.ones(shape.n)
    is_one = shape.label.name == "iprec"
    levels = [shape.label.parameter or 0.0] if is_one else RECALL_LEVELS
    row, rank, n_found = shape.gaining
    free_row, free_rank = shape.free
    targets = shape.lists.n_relevant
    event_row, event_rank = np.concatenate([row, free_row]), np.concatenate([rank, free_rank])
    is_free = np.concatenate([np.zeros(len(row), bool), np.ones(len(free_row), bool)])
    order = np.lexsort((event_rank, event_row))
    event_row, event_rank, is_free = event_row[order], event_rank[order], is_free[order]
    met = np.concatenate([n_found, np.ones(len(free_row), np.int64)])[order]
    n_labels = _so_far(is_free.astype("float64"), event_row)
    n_met = _so_far(met.astype("float64"), event_row)
    precision = (place_in_group(event_row) + 1) / event_rank
    known_precision, known_met = (
        (place_in_group(row) + 1) / rank,
        _so_far(n_found.astype("float64"), row),
    )
    low, high = np.zeros(shape.n), np.zeros(shape.n)
    for level in levels:
        # At a hit, labels down to it raise precision most; further ones only ask for more recall.
        needed = np.floor(level * (targets[event_row] + n_labels) + 0.9)
        top = np.zeros(shape.n)
        np.maximum.at(top, event_row, np.where(n_met >= needed, precision, 0.0))
        # Whatever is labelled, judged hits keep at least their precision, and no more is needed
        # than if all were relevant.
        needed = np.floor(level * (targets + shape.n_free) + 0.9)[row]
        bottom = np.zeros(shape.n)
        np.maximum.at(bottom, row, np.where(known_met >= needed, known_precision, 0.0))
        low, high = low + bottom / len(levels), high + top / len(levels)
    return low, high


def _binary_preference(shape: _Shape) -> tuple[Values, Values]:
    if shape.outside.any():
        return np.zeros(shape.n), np.ones(shape.n)
    lists, targets = shape.lists, shape.lists.n_relevant
    row, rank, _ = shape.gaining
    judged = shape.judged
    wrong = judged["grade"] < lists.min_grade
    shown = lists.item >= 0
    # A relevant hit loses most if every other hit before it is judged as not relevant, and the
    # fewest targets share the loss.
    before = _count_up_to(judged["row"][wrong], judged["rank"][wrong], row, rank)
    before = before + _count_up_to(lists.row[shown], lists.rank[shown], row, rank)
    n_irrelevant = _n_irrelevant(lists)
    fewest = np.maximum(np.minimum(n_irrelevant, targets), 1.0)[row]
    kept = shape.sum(row, 1.0 - np.minimum(before, fewest) / fewest)
    low = kept / (targets + shape.n_free)
    high = (shape.sum(row, np.ones(len(row))) + shape.n_free) / (targets + shape.n_free)
    return low, high


def _n_irrelevant(lists: JudgedLists) -> Values:
    """Return the number of targets of each row's query that are judged as not relevant."""
    targets = lists.golden.targets
    best = targets.groupby(["query_id", "target_id"], observed=True, sort=False)["grade"].max()
    low = best[best < lists.min_grade].reset_index()
    query = lookup(low["query_id"].astype("str"), pd.Index(lists.golden.queries["query_id"]))
    counts = np.bincount(query[query >= 0], minlength=len(lists.golden.queries))
    return counts.astype("float64")[lists.rows["query"]]


_BOUNDS: dict[str, Callable[[_Shape], tuple[Values, Values]]] = {
    "recall": _recall,
    "set_recall": _recall,
    "set_f1": _set_f1,
    "map": _average_precision,
    "ndcg": _ndcg,
    "ndcg_linear": _ndcg,
    "rprec": _r_precision,
    "iprec": _interpolated_precision,
    "11pt_avg": _interpolated_precision,
    "bpref": _binary_preference,
}


# Sums within rows. `row` ascends, and `rank` within each.


def _so_far(values: Values, row: Codes) -> Values:
    """Return the sum of values up to each element of its row.

    Rows are added up apart: a sum that runs on through all rows would depend on their order.
    """
    place = place_in_group(row)
    by_place = np.argsort(place, kind="stable")
    begins = np.searchsorted(place[by_place], np.arange(1, int(place.max(initial=-1)) + 2))
    total = values.astype("float64")
    for first, last in pairwise(begins.tolist()):
        at = by_place[first:last]
        total[at] += total[at - 1]
    return total


def _from_end(values: Values, row: Codes) -> Values:
    """Return the sum of values from each element to the end of its row."""
    return _so_far(values[::-1], row.max(initial=0) - row[::-1])[::-1]


def _later(row: Codes, values: Values, n_rows: int) -> Values:
    """Return the sum of values after each element of its row."""
    return _from_end(values, row) - values


def _count_up_to(
    row: Codes, rank: Codes, of_row: Codes, up_to: npt.NDArray[Any]
) -> npt.NDArray[np.int64]:
    """Count the elements of a row up to a rank, for each pair of row and rank."""
    depth = int(max(rank.max(initial=0), up_to.max(initial=0))) + 2
    keys = row * depth + rank
    ends = np.searchsorted(keys, of_row * depth + np.asarray(up_to).astype(np.int64), "right")
    return ends - np.searchsorted(keys, of_row * depth, "left")


def _sum_after(row: Codes, rank: Codes, values: Values, of_row: Codes, after: Codes) -> Values:
    """Add up the values of a row's elements after a rank, for each pair of row and rank."""
    to_end = np.append(_from_end(values, row), 0.0)
    depth = int(max(rank.max(initial=0), after.max(initial=0))) + 2
    keys = row * depth + rank
    begins = np.searchsorted(keys, of_row * depth + after, "right")
    ends = np.searchsorted(keys, (of_row + 1) * depth, "left")
    return np.where(begins < ends, to_end[begins], 0.0)
