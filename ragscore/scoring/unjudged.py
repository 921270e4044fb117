"""Hits that nobody judged: what ranking metrics could be if their labels were known.

In: results, a golden set, and how both are scored. Out: each list with its judged and unjudged
hits (`JudgedLists`); the scores that given labels would make (`scores_if`); and bounds of each
score over every labelling of the list's unjudged hits (`label_bounds`).
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ragscore.frames.codes import coded, codes_of, lookup, map_threads, pair_codes
from ragscore.frames.data import Golden, Results, categorical
from ragscore.frames.typing import Codes, Flags, Values
from ragscore.scoring.grading import decidable, grade_matches, level_rule
from ragscore.scoring.metrics import (
    WHOLE_LIST,
    Credit,
    GainFunction,
    Label,
    creditable_targets,
    in_order,
    irrelevant_targets,
    parse_label,
    place_in_group,
    stated_gains,
)
from ragscore.scoring.metrics.needs import IRRELEVANT
from ragscore.scoring.metrics.sums import from_end, sum_so_far
from ragscore.scoring.rules import Rule, apply_rule, response_of, targets_at

_ID_OF_LEVEL = {"chunk": ("chunk_id",), "doc": ("doc_id",)}
_IDS = ("chunk_id", "doc_id", "source_key")  # of a passage, where a level matches by other things


@dataclass(frozen=True)
class JudgedLists:
    """The lists of hits of some runs, with what the golden set says of each hit.

    An *item* is what one label is about: a document or chunk of one query, in whatever run. Hits of
    a list that are the same item share its label. At other levels than doc and chunk, an item is a
    passage with an id of its own.

    Attributes
    ----------
    rows
        One row per run and golden query: run_id, `query` (its number), `n_hits`.
    hit, row, rank
        Of each hit of these rows: its place in `hits`, its row, its rank. In order of row and rank.
    is_free
        Flags hits that nobody judged.
    is_first
        Flags unjudged hits that are the first of their item in their list.
    grade, gain, n_found
        Of each judged hit, as `grade_hits` gives them; 0 for the others.
    hits, code
        The results' hits, and a number for the id that makes each of them an item; -1 without one.
    golden
        With the targets of the match level.
    min_grade
        The lowest grade that is relevant.
    """

    rows: pd.DataFrame
    hit: Codes
    row: Codes
    rank: Codes
    is_free: Flags
    is_first: Flags
    grade: Codes
    gain: Codes
    n_found: Codes
    hits: pd.DataFrame
    code: Codes
    golden: Golden
    min_grade: int
    # scores of `all_labelled`, by grade and label
    labelled: dict[tuple[int, str], Values] = field(default_factory=dict)

    @cached_property
    def item(self) -> Codes:
        """The number of the item that an unjudged hit is; -1 for judged hits."""
        queries = pd.Index(self.golden.queries["query_id"])
        query, code = lookup(self.hits["query_id"], queries), self.code
        pair = np.where(code < 0, -1 - np.arange(len(code)), query + code * (len(queries) + 1))
        return np.where(self.is_free, pd.factorize(pair)[0][self.hit], -1)

    @cached_property
    def n_relevant(self) -> Values:
        """The number of relevant targets of each row's query."""
        return self.n_targets_from(self.min_grade)

    @cached_property
    def highest_grade(self) -> int:
        """The highest grade of the golden set, and at least one that is relevant."""
        return max(int(self.golden.targets["grade"].max()) if len(self.golden.targets) else 1,
                   self.min_grade, 1)  # fmt: skip

    @cached_property
    def stated(self) -> GainFunction | None:
        """Grades -> the gains that the targets state."""
        return stated_gains(self.golden.targets)

    def n_targets_from(self, grade: int) -> Values:
        """Return the number of targets of this grade or more of each row's query."""
        query, grades = self._creditable
        counts = np.bincount(query[grades >= grade], minlength=len(self.golden.queries))
        return counts.astype("float64")[self.rows["query"]]

    @cached_property
    def _creditable(self) -> tuple[Codes, Codes]:
        return creditable_targets(self.golden.targets, pd.Index(self.golden.queries["query_id"]))

    @cached_property
    def ideal(self) -> tuple[Codes, Codes, Codes]:
        """The grades of all targets that count, best first; where each query's begin, how many."""
        query, grade = self._creditable
        n = np.bincount(query, minlength=len(self.golden.queries))
        return grade[np.lexsort((-grade, query))], np.cumsum(n) - n, n

    @cached_property
    def n_irrelevant(self) -> Values:
        """The number of targets of each row's query that are judged as not relevant."""
        queries = pd.Index(self.golden.queries["query_id"])
        return irrelevant_targets(self.golden.targets, queries, self.min_grade)[self.rows["query"]]

    @cached_property
    def n_free(self) -> Values:
        """The number of items of each row that nobody judged."""
        return self.per_row(self.is_first)

    @cached_property
    def begin(self) -> Codes:
        """Where the hits of each row begin."""
        n_hits = self.rows["n_hits"].to_numpy()
        return np.cumsum(n_hits) - n_hits

    def per_row(self, flags: Flags) -> Values:
        """Count the hits of each row that have this flag."""
        return np.bincount(self.row[flags], minlength=len(self.rows)).astype("float64")

    def within(self, k: int | None) -> Flags:
        """Flag hits within a cut."""
        return np.ones(len(self.rank), dtype=bool) if k is None else self.rank <= k

    def judged_share(self, k: int | None) -> Values:
        """Return the judged share of each row's first min(k, n) hits; NaN without hits."""
        shown = self.within(k)
        with np.errstate(invalid="ignore"):
            return self.per_row(shown & ~self.is_free) / self.per_row(shown)


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
    graded, _ = grade_matches(matches, hits, selected.targets, name, min_grade)

    rows = pd.DataFrame({
        "run_id": categorical(
            np.repeat(np.arange(len(run_ids)), len(queries)), results.runs["run_id"].dtype
        ),
        "query": np.tile(np.arange(len(queries)), len(run_ids)),
    })  # fmt: skip

    def row_of(frame: pd.DataFrame) -> Codes:
        return pair_codes(frame, ("run_id", "query_id"), run_ids, queries)

    # hits of a query that the run has no response to count for nothing
    row = np.where(response_of(hits, results.responses) < 0, -1, row_of(hits))
    rank = hits["rank"].to_numpy().astype(np.int64)
    order = in_order(row, rank)
    is_free, code = np.ones(len(hits), dtype=bool), _item_codes(hits, level, rule is not None)
    is_free[matches["hit"].to_numpy()] = False
    row, is_free = row[order], is_free[order]
    n_hits = np.bincount(row, minlength=len(rows))
    # judged hits in the order of the lists
    graded_row = row_of(graded)
    graded_row = np.where(np.append(n_hits, 0)[graded_row] > 0, graded_row, -1)
    graded = graded.iloc[in_order(graded_row, graded["rank"].to_numpy())]
    grade, gain, n_found = (np.zeros(len(order), np.int64) for _ in range(3))
    for of_hits, name in ((grade, "grade"), (gain, "gain"), (n_found, "n_found")):
        of_hits[~is_free] = graded[name].to_numpy()
    is_first = is_free & _is_first(row, np.where(is_free, code[order], -1))
    return JudgedLists(
        rows.assign(n_hits=n_hits), order, row, rank[order], is_free, is_first, grade, gain,
        n_found, hits, code, selected, min_grade,
    )  # fmt: skip


def _item_codes(hits: pd.DataFrame, level: str, has_own_rule: bool) -> Codes:
    """Return a number for the id that tells hits of one query apart; -1 without an id."""
    names = _ID_OF_LEVEL.get(level, _IDS) if not has_own_rule else _IDS
    for name in names:
        if name in hits and hits[name].notna().any():
            return codes_of(coded(hits[name])).astype(np.int64)
    return np.full(len(hits), -1)


def _is_first(row: Codes, code: Codes) -> Flags:
    """Flag hits that are the first of their item in their list; without an id each is."""
    key = row * (int(code.max(initial=0)) + 1) + code
    known = np.sort(key[code >= 0])
    if np.diff(known).all():  # as a rule: sorting is faster than a hash table
        return np.ones(len(row), dtype=bool)
    return ~(pd.Series(key).duplicated().to_numpy() & (code >= 0))


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
        target that it lacks.

    Returns
    -------
    Label -> one value per case. Documents that `bpref` needs are taken as judged.
    """
    of_case, hit = _members(row, lists.begin, lists.rows["n_hits"].to_numpy())
    size = int(max(lists.item.max(initial=0), item.max(initial=0))) + 1
    is_labelled = np.isin(of_case * size + lists.item[hit], case * size + item)
    keep = np.flatnonzero(~lists.is_free[hit] | is_labelled)
    credit = _credit_if(lists, row, of_case[keep], hit[keep], case, grade)
    return {text: credit.score(parse_label(text)) for text in labels}


def all_labelled(lists: JudgedLists, labels: list[Label], grade: int) -> dict[str, Values]:
    """Return what every row would score if each unjudged hit of its list had this grade."""
    missing = [label for label in labels if (grade, label.text) not in lists.labelled]
    if missing:
        every, hit = np.arange(len(lists.rows)), np.arange(len(lists.row))
        if not grade and not any(IRRELEVANT in label.metric.needs for label in missing):
            hit = np.flatnonzero(~lists.is_free)  # hits of grade 0 add nothing
        credit = _credit_if(lists, every, lists.row[hit], hit, lists.row[lists.is_first], grade)
        values = map_threads(len(lists.row), credit.score, missing)
        lists.labelled.update(
            {(grade, label.text): value for label, value in zip(missing, values, strict=True)}
        )
    return {label.text: lists.labelled[grade, label.text] for label in labels}


def _credit_if(
    lists: JudgedLists, row: Codes, of_case: Codes, hit: Codes, case: Codes, grade: int
) -> Credit:
    """Return what metrics are computed from if hits that nobody judged have this grade.

    Parameters
    ----------
    row
        The row of each case.
    of_case, hit
        The case of each hit that is judged or labelled, in order, and its place in the lists.
    case
        The case of each item labelled, a target of its own.
    """
    is_new, is_first = lists.is_free[hit], lists.is_first[hit]
    n = len(row)
    # the targets of its query, and a new one for each item
    grades, begin, n_old = lists.ideal
    old, target = _members(lists.rows["query"].to_numpy()[row], begin, n_old)
    ideal_case, ideal_grade = old, grades[target]
    if grade:
        ideal_case = np.append(ideal_case, case)
        ideal_grade = np.append(ideal_grade, np.full(len(case), grade))

    def n_irrelevant() -> Values:
        more = np.bincount(case, minlength=n) if grade < lists.min_grade else 0
        return lists.n_irrelevant[row] + more

    of_hits = {
        "row": of_case, "rank": lists.rank[hit], "grade": np.where(is_new, grade, lists.grade[hit]),
        "gain": np.where(is_first, grade, lists.gain[hit]),
        "n_found": np.where(is_first, int(grade >= lists.min_grade), lists.n_found[hit]),
    }  # fmt: skip
    credit = Credit.of(
        of_hits, lists.rows["n_hits"].to_numpy("float64")[row], (ideal_case, ideal_grade),
        np.arange(n), n, n_irrelevant, lists.min_grade,
    )  # fmt: skip
    return replace(credit, stated=lists.stated)


def _members(group: Codes, begin: Codes, size: Codes) -> tuple[Codes, Codes]:
    """Return the members of each of these groups: which one it is of, and its position.

    A group's members lie side by side, from `begin` on.
    """
    n = size[group]
    of_group = np.repeat(np.arange(len(group)), n)
    return of_group, np.arange(len(of_group)) + np.repeat(begin[group] - (np.cumsum(n) - n), n)


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
    monotone = [label for label in labels if label.metric.monotone]
    graded = [label for label in monotone if label.metric.is_graded]
    lowest = all_labelled(lists, monotone, 0)
    # those that aren't graded tell relevant hits from others only
    highest = all_labelled(lists, [one for one in monotone if one not in graded], lists.min_grade)
    highest |= all_labelled(lists, graded, lists.highest_grade)
    shapes = {label.k: Shape(lists, label.k, extra) for label in labels}

    def bounds_of(label: Label) -> tuple[Values, Values]:
        metric, low, high = label.metric, lowest.get(label.text), highest.get(label.text)
        if metric.unjudged is not None:
            # queries without a relevant target divide by 0
            with np.errstate(invalid="ignore", divide="ignore"):
                own = metric.unjudged(shapes[label.k], label)
            low, high = (
                end if end is not None else known
                for end, known in zip(own, (low, high), strict=True)
            )
        assert low is not None and high is not None
        if metric.unjudged is None:
            low, high = np.fmin(low, high), np.fmax(low, high)
        needed = lists.n_targets_from(1) if metric.is_graded else lists.n_relevant
        return np.where(needed == 0, np.nan, low), np.where(needed == 0, np.nan, high)

    bounds = map_threads(len(lists.row), bounds_of, labels)
    return {label.text: ends for label, ends in zip(labels, bounds, strict=True)}


@dataclass(frozen=True)
class Shape:
    """What bounds at one cut are computed from: arrays over rows, hits, and free items.

    A *free* item is one that nobody judged. It is at the rank where its list has it first.
    """

    lists: JudgedLists
    cut: int | None
    outside: Values

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.lists.rows)

    @property
    def k(self) -> int:
        """The cut-off, the longest list without one."""
        return WHOLE_LIST if self.cut is None else self.cut

    @cached_property
    def free_at(self) -> Codes:
        """Where each free item within the cut is in the lists."""
        return np.flatnonzero(self.lists.is_first & (self.lists.rank <= self.k))

    @cached_property
    def free(self) -> tuple[Codes, Codes]:
        """Row and rank of each free item within the cut, in order."""
        return self.lists.row[self.free_at], self.lists.rank[self.free_at]

    @cached_property
    def free_place(self) -> Codes:
        """The place of each free item within the cut among those of its row, from 1."""
        return place_in_group(self.free[0]) + 1

    @cached_property
    def discounts(self) -> tuple[Values, Values]:
        """Sums of the discounts of free items within the cut: up to each, and from it on."""
        row, rank = self.free
        discount = 1.0 / np.log2(rank + 1.0)
        return sum_so_far(discount, row), from_end(discount, row)

    @cached_property
    def n_from(self) -> dict[int, Codes]:
        """Grade -> targets of each row's query of this grade or more."""
        grades = range(1, self.lists.highest_grade + 1)
        return {grade: self.lists.n_targets_from(grade).astype(np.int64) for grade in grades}

    @cached_property
    def ideal(self) -> Values:
        """The discounts of an ideal list's first n targets within the cut, n = 0, 1, ..."""
        most = self.n_from[1] + self.n_beyond + self.n_free
        rank = np.arange(1, int(max(most, default=0)) + 2)
        return np.append(0.0, np.cumsum(np.where(rank <= self.k, 1 / np.log2(rank + 1), 0)))

    @cached_property
    def ideal_added(self) -> dict[int, Values]:
        """Grade -> what labels of this grade up to each free item add to the ideal discounts."""
        row, _ = self.free
        return {
            grade: self.ideal[n[row] + self.free_place] - self.ideal[n][row]
            for grade, n in self.n_from.items()
        }

    @cached_property
    def n_free(self) -> Values:
        """Free items of each row within the cut."""
        return np.bincount(self.free[0], minlength=self.n).astype("float64")

    @cached_property
    def n_beyond(self) -> Values:
        """Free items of each row beyond the cut, and outside of its list."""
        return self.lists.n_free - self.n_free + self.outside

    @cached_property
    def judged(self) -> dict[str, Codes]:
        """Row, rank, grade and n_found of each judged hit within the cut, in order."""
        at = np.flatnonzero(~self.lists.is_free & (self.lists.rank <= self.k))
        names = ("row", "rank", "grade", "gain", "n_found")
        return {name: getattr(self.lists, name)[at] for name in names}

    @cached_property
    def gains(self) -> Flags:
        """Flags hits within the cut that meet a new target."""
        return (self.lists.gain >= self.lists.min_grade) & (self.lists.rank <= self.k)

    @cached_property
    def gaining(self) -> tuple[Codes, Codes, Codes]:
        """Row, rank and n_found of each hit within the cut that meets a new target."""
        lists, at = self.lists, np.flatnonzero(self.gains)
        return lists.row[at], lists.rank[at], lists.n_found[at]

    @property
    def n_met(self) -> Values:
        """Relevant targets that each row meets within the cut."""
        return self.sum(self.judged["row"], self.judged["n_found"])

    def sum(self, row: Codes, weights: npt.NDArray[Any]) -> Values:
        """Sum weights over the elements of each row."""
        return np.bincount(row, weights, self.n).astype("float64")
